/* Chains beside the CPU's own matmuls of one row: what the owner thread does with them. */
#ifndef ORK_ENGINE_NPU_OVERLAY_H
#define ORK_ENGINE_NPU_OVERLAY_H

#include "engine/npu/inner.h"

/* Computes the oldest chain that was begun; whether there was one. Owner thread alone. */
bool ork_npu_overlay_serve(ork_npu *npu);
/* Chains and their memory, whoever has them. Owner thread alone, or when it is gone. */
void ork_npu_overlay_drop(ork_npu *npu);
/* Device memory that chains hold. Owner thread alone. */
uint64_t ork_npu_overlay_bytes(const ork_npu *npu);
/* Where time is virtual: a caller waits for a batch until now. Owner thread alone. */
void ork_npu_overlay_note_wait(ork_npu *npu);

#endif
