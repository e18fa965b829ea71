/* What the hardware computes rightly: limits of one task, each with its source. Owns the published envelopes as data; a
 * number that could be tuned stands here and nowhere else. What nobody has published as working is not in an envelope. */
#ifndef ORK_ENGINE_NPU_LIMITS_H
#define ORK_ENGINE_NPU_LIMITS_H

#include "engine/npu/program.h"

/* Largest m of a task with this k and these surfaces; 0 when k is not possible at all (or no multiple of 32). */
uint32_t ork_npu_rows_max(enum ork_npu_type type, enum ork_npu_surface input, uint32_t k);
/* The input surface with which tasks of this k take m rows, or else the most rows; the native one when both do. */
enum ork_npu_surface ork_npu_best_input(enum ork_npu_type type, uint32_t k, uint32_t m);
/* Largest k of a task, a multiple of 32: exact sums, features and one kernel in the CBUF. W4A4: |a| <= a_max, |w| <= w_max
 * (7 or 8) keep the int16 sum from saturating; 0 when none is safe. Not every k below is possible with every m. */
uint32_t ork_npu_k_max(enum ork_npu_type type, uint32_t a_max, uint32_t w_max);
/* Largest sum over k that is still exact in int32, over all slices (npu-hw.md 7.1): inputs of a whole matmul. */
uint32_t ork_npu_k_total_max(enum ork_npu_type type);
#define ORK_NPU_N_MAX 8192u          /* of a task: 13-bit DPU fields, npu-hw.md 4.7 */
#define ORK_NPU_TASKS_PER_KICK 4095u /* 12-bit task counter, npu-hw.md 1.5 */
/* Largest n of a task: ORK_NPU_N_MAX, for W4A4 what is published as working. */
uint32_t ork_npu_n_max(enum ork_npu_type type);
/* Channels of a kernel group: n is a multiple of it. */
uint32_t ork_npu_group(enum ork_npu_type type);
/* Refuses a shape that leaves the envelope and says which limit. */
ork_status ork_npu_shape_check(const struct ork_npu_shape *shape, ork_error *error);

/* How a task shares the CBUF's banks of 32 KiB between features and weights, and how many lines of features are buffered
 * before it starts (npu-hw.md 4.5, 4.6). */
#define ORK_NPU_BANKS 12u
#define ORK_NPU_BANK_BYTES 32768u
struct ork_npu_schedule {
    uint32_t data_banks, weight_banks, grains;
};
/* Of a shape that ork_npu_shape_check takes. */
struct ork_npu_schedule ork_npu_schedule_of(const struct ork_npu_shape *shape);

#endif
