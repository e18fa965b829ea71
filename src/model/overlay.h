/* A session's overlay: from a plan over op groups to chains of weights. Knows no engine's inside. */
#ifndef ORK_MODEL_OVERLAY_H
#define ORK_MODEL_OVERLAY_H

#include "model/model.h"
#include "sched/perf.h"

/* Plans by the perf model for one more row at `context` positions, gives the NPU the chains and makes `cpu` hand them their
 * inputs. user: names the session. Refuses only misuse (params); whatever else leaves the CPU alone is said in stats->why, and
 * stats->on stays false. Before the model's other weights are made known to the NPU. */
ork_status ork_model_use_overlay(const struct ork_model *model, const struct ork_perf *perf, ork_npu *npu, ork_cpu *cpu,
                                 const void *user, const ork_overlay_params *params, uint32_t context,
                                 ork_overlay_stats *stats, ork_error *error);
/* Once for a use that is on, when the CPU engine is gone. */
void ork_model_leave_overlay(ork_npu *npu, const void *user);
/* Brings the counters up to date. */
void ork_model_count_overlay(ork_npu *npu, ork_overlay_stats *stats);

#endif
