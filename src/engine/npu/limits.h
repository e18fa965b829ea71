/* What the hardware computes rightly: limits of one task, each with its source. Owns the published envelopes as data; a
 * number that could be tuned stands here and nowhere else. */
#ifndef ORK_ENGINE_NPU_LIMITS_H
#define ORK_ENGINE_NPU_LIMITS_H

#include "engine/npu/program.h"

/* Largest m of a task with this k and these surfaces; 0 when k is not possible at all. */
uint32_t ork_npu_rows_max(enum ork_npu_type type, enum ork_npu_surface input, uint32_t k);
/* The input surface with which tasks of this k take the most rows. */
enum ork_npu_surface ork_npu_best_input(enum ork_npu_type type, uint32_t k, uint32_t m);
/* Largest k of a task: exact sums, features and one kernel in the CBUF. W4A4: |a| <= a_max, |w| <= w_max (7 or 8) keep
 * the int16 sum from saturating. */
uint32_t ork_npu_k_max(enum ork_npu_type type, uint32_t a_max, uint32_t w_max);
#define ORK_NPU_N_MAX 8192u          /* of a task: 13-bit DPU fields, npu-hw.md 4.7 */
#define ORK_NPU_TASKS_PER_KICK 4095u /* 12-bit task counter, npu-hw.md 1.5 */
/* Channels of a kernel group: n is a multiple of it. */
uint32_t ork_npu_group(enum ork_npu_type type);
/* Refuses a shape that leaves the envelope and says which limit. */
ork_status ork_npu_shape_check(const struct ork_npu_shape *shape, ork_error *error);

#endif
