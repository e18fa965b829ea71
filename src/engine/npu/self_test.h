/* The self-test: known products on every core. Owner thread alone; nothing else may be under way. */
#ifndef ORK_ENGINE_NPU_SELF_TEST_H
#define ORK_ENGINE_NPU_SELF_TEST_H

#include "engine/npu/inner.h"

struct ork_npu_verdict {
    uint32_t right;   /* mask of the cores whose products were all right */
    uint32_t shapes;  /* shapes compared */
    uint64_t checked; /* products of a shape compared, number by number */
    char why[160];    /* of the first that was not right */
};

/* Every shape class on each core of the mask, or (brief) one small shape. Leaves jobs that do not end in npu->on_core, and
 * goes on with the next core. */
ork_status ork_npu_test_cores(ork_npu *npu, uint32_t core_mask, bool brief, struct ork_npu_verdict *verdict,
                              ork_error *error);
/* Memory of the self-tests in a domain, made with all else that the engine has there, so that a test after a fault needs
 * none: the vendor's driver lets nothing but the domain of a lost job live. */
ork_status ork_npu_test_reserve(ork_npu *npu, uint32_t domain, ork_error *error);
void ork_npu_test_release(ork_npu *npu);

#endif
