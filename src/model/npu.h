/* Which of a model's weights an NPU may take, and from how many rows on. Knows no engine's inside. */
#ifndef ORK_MODEL_NPU_H
#define ORK_MODEL_NPU_H

#include "model/model.h"
#include "sched/perf.h"

/* Makes the model's matrices known to the NPU, for one more session; `cpu` then hands it matmuls of as many rows as the perf
 * model says. Refuses only misuse: the NPU serves another model. Fills the stats' npu...: whatever else keeps the NPU from
 * taking part is said in npu_why, and npu stays false. */
ork_status ork_model_use_npu(const struct ork_model *model, ork_npu *npu, ork_cpu *cpu, const struct ork_perf *perf,
                             ork_session_stats *stats, ork_error *error);
/* Once for each use that attached, when the CPU engine is gone. */
void ork_model_leave_npu(const struct ork_model *model, ork_npu *npu);

#endif
