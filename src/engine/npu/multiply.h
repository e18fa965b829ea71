/* Matmuls on weights in device memory. Owner thread alone. */
#ifndef ORK_ENGINE_NPU_MULTIPLY_H
#define ORK_ENGINE_NPU_MULTIPLY_H

#include "engine/npu/inner.h"

/* Distributes the usable cores over lanes; after every change of them. */
void ork_npu_lanes_set(ork_npu *npu);
/* Computes the products of a run, as far as they come out right. Afterwards nothing of it runs, but for what
 * npu->on_core names. */
void ork_npu_run_products(ork_npu *npu, struct ork_npu_run *run);
/* Whether output tasks of a core's job have been written: how many of them. */
uint32_t ork_npu_count_written(ork_npu *npu, const struct ork_npu_set *set, uint32_t plan_core);
/* The job of a core is certainly over. */
void ork_npu_core_clear(ork_npu *npu, uint32_t core);
/* Mask of cores whose jobs may still run. */
uint32_t ork_npu_cores_busy(const ork_npu *npu);
/* Check weights of the first count channels; NULL: out of memory. */
const uint32_t *ork_npu_check_weights(ork_npu *npu, uint32_t count);

static inline void ork_npu_count(atomic_ullong *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

#endif
