/* Which of a model's weights an NPU may take. Knows no engine's inside. */
#ifndef ORK_MODEL_NPU_H
#define ORK_MODEL_NPU_H

#include "model/model.h"

/* Makes the model's matrices known to the NPU, for one more session; `cpu` then hands it matmuls of several rows. Refuses
 * only misuse: the NPU serves another model. Whatever else keeps it from taking part is said in why[capacity], and *attached
 * stays false. */
ork_status ork_model_use_npu(const struct ork_model *model, ork_npu *npu, ork_cpu *cpu, bool *attached, char *why,
                             size_t capacity, ork_error *error);
/* Once for each use that attached, when the CPU engine is gone. */
void ork_model_leave_npu(const struct ork_model *model, ork_npu *npu);

#endif
