/* Owns the formulas of how long the NPU takes. Knows no files (board.c), no devices and no clock. */
#include "engine/npu/timing.h"

#include "base/checked.h"

/* npu-hw.md 8.1: one block of 32 inputs by G channels (32 of int8, 64 of int4) takes a cycle a row, and is 1024 bytes of
 * weights, which come from the CBUF at 128 a cycle. */
#define BLOCK_INPUTS 32u
#define BLOCK_CYCLES_MIN 8u

static uint32_t block_channels(int type)
{
    return type == ORK_NPU_W4A4 ? 64 : 32;
}

void ork_npu_work_add(struct ork_npu_work *work, const struct ork_npu_shape *shape)
{
    const bool int4 = shape->type == ORK_NPU_W4A4;
    const uint64_t m = shape->m, k = ork_round_up(shape->k, BLOCK_INPUTS), n = shape->n;
    const uint64_t blocks = ork_divide_up(n, block_channels(shape->type)) * (k / BLOCK_INPUTS);
    work->tasks++;
    work->cycles[shape->type] += blocks * (m > BLOCK_CYCLES_MIN ? m : BLOCK_CYCLES_MIN);
    work->weight_bytes += int4 ? n * k / 2 : n * k;
    work->weight_bytes_i4 += int4 ? n * k / 2 : 0;
    work->feature_bytes += int4 ? m * k / 2 : m * k;
    work->output_bytes += m * n * (int4 ? 2 : 4);
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

double ork_npu_timing_job(const struct ork_npu_profile *profile, const struct ork_npu_work *work, uint32_t active)
{
    double compute_s = 0;
    for (int type = 0; type < ORK_NPU_TYPE_COUNT; type++) {
        /* Cycles are counted for an array that finishes a row of a block in each; others take longer or shorter. */
        const double rows_per_cycle = profile->macs_per_cycle[type] / (block_channels(type) * BLOCK_INPUTS);
        compute_s += (double)work->cycles[type] / (profile->clock_hz * profile->efficiency[type] * rows_per_cycle);
    }
    const double share = profile->shared_bytes_per_s / (active > 1 ? active : 1);
    const uint64_t bytes = work->weight_bytes - work->weight_bytes_i4 + work->feature_bytes + work->output_bytes;
    const double stream_s = (double)bytes / smaller(profile->core_bytes_per_s, share) +
                            (double)work->weight_bytes_i4 / smaller(profile->core_bytes_per_s_i4, share);
    return profile->task_us * 1e-6 * (double)work->tasks + (compute_s > stream_s ? compute_s : stream_s);
}
