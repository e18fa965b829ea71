/* Owns the formulas of how long the NPU takes. Knows no files (board.c), no devices and no clock. */
#include "engine/npu/timing.h"

#include "base/checked.h"

/* npu-hw.md 8.1: one block of 32 inputs by G channels (32 of int8, 64 of int4) takes a cycle a row, and is 1024 bytes of
 * weights, which come from the CBUF at 128 a cycle. */
#define BLOCK_CYCLES_MIN 8u

void ork_npu_work_add(struct ork_npu_work *work, const struct ork_npu_shape *shape)
{
    const bool int4 = shape->type == ORK_NPU_W4A4;
    const uint64_t m = shape->m, k = ork_round_up(shape->k, 32), n = shape->n;
    const uint64_t blocks = ork_divide_up(n, int4 ? 64 : 32) * (k / 32);
    work->tasks++;
    work->cycles[shape->type] += blocks * (m > BLOCK_CYCLES_MIN ? m : BLOCK_CYCLES_MIN);
    work->weight_bytes += int4 ? n * k / 2 : n * k;
    work->feature_bytes += int4 ? m * k / 2 : m * k;
    work->output_bytes += m * n * (int4 ? 2 : 4);
}

double ork_npu_timing_job(const struct ork_npu_profile *profile, const struct ork_npu_work *work, uint32_t active)
{
    double compute_s = 0;
    for (int type = 0; type < ORK_NPU_TYPE_COUNT; type++)
        compute_s += (double)work->cycles[type] / (profile->clock_hz * profile->efficiency[type]);
    const double share = profile->shared_bytes_per_s / (active > 1 ? active : 1);
    const double bus = profile->core_bytes_per_s < share ? profile->core_bytes_per_s : share;
    const double bytes = (double)(work->weight_bytes + work->feature_bytes + work->output_bytes);
    const double stream_s = bytes / bus;
    return profile->task_us * 1e-6 * (double)work->tasks + (compute_s > stream_s ? compute_s : stream_s);
}
