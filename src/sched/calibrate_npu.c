/* Owns the measurement of an NPU through its handle. Must not know devices: jobs are matmuls on weights that are attached for
 * it, times are those that the engine counts between submit and completion. */
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/npu/engine.h"
#include "sched/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 3, ROUNDS = 5, ROWS_MOST = 256, SIDE_MOST = 2048 };
struct job {
    uint32_t m, n, k;
};
/* Short: nearly all fixed cost. Few rows on many weights: streams. Many rows: arithmetic. */
static const struct job jobs[JOBS] = {{32, 64, 64}, {32, SIDE_MOST, SIDE_MOST}, {ROWS_MOST, SIDE_MOST, SIDE_MOST}};

static ork_status time_job(ork_npu *npu, const struct ork_matrix *matrix, const struct ork_activation *x, float *y,
                           uint32_t m, double *seconds, ork_error *error)
{
    const struct ork_offload *offload = ork_npu_offload(npu);
    ork_npu_stats before, after;
    *seconds = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct ork_offload_task task = {.w = matrix, .x = x, .m = m, .y = y, .y_stride = matrix->n};
        if (!offload->wants(offload->context, matrix, m))
            return ork_error_set(error, ORK_FAILURE, "npu", -1, "the NPU does not take %u rows", m);
        ork_npu_get_stats(npu, &before);
        offload->begin(offload->context, &task, 1);
        offload->finish(offload->context);
        ork_npu_get_stats(npu, &after);
        if (!task.done)
            return ork_error_set(error, ORK_FAILURE, "npu", -1, "the NPU did not finish a matmul of %u x %u x %u", m,
                                 matrix->n, matrix->k);
        const double busy_s = (double)(after.busy_us - before.busy_us) * 1e-6;
        if (busy_s < *seconds)
            *seconds = busy_s;
    }
    return ORK_OK;
}

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* Predicted seconds of the device alone, as ork_perf_predict_npu has them. */
static double device_s(const struct ork_perf *perf, const struct job *job)
{
    struct ork_group group = {0};
    if (!ork_group_add(&group, "job", ORK_TIER_I8, job->n, job->k, 0, 0, 0, false))
        return 0;
    const struct ork_perf_time time = ork_perf_predict_npu(perf, &group, job->m);
    return time.compute_s + time.fixed_s - (perf->npu.host_call_us + perf->npu.host_core_us * perf->npu.cores) * 1e-6;
}

/* Job by job: the fixed cost from the short one, then streams, then arithmetic, each with what is known by then. */
static void fit(struct ork_perf *perf, const double *seconds)
{
    struct ork_npu_profile *npu = &perf->npu;
    const double fixed_us = npu->submit_us + npu->complete_us;
    const double short_us = (seconds[0] - device_s(perf, &jobs[0])) * 1e6 + fixed_us;
    const double part = clamp(short_us / fixed_us, 0.02, 1000);
    npu->submit_us *= part;
    npu->complete_us *= part;
    const double fixed_s = fixed_us * part * 1e-6;
    const double streams = (device_s(perf, &jobs[1]) - fixed_s) / clamp(seconds[1] - fixed_s, 1e-6, 1e9);
    npu->core_bytes_per_s *= clamp(streams, 0.05, 20);
    npu->core_bytes_per_s_i4 *= clamp(streams, 0.05, 20);
    npu->shared_bytes_per_s *= clamp(streams, 0.05, 20);
    const double dots = (device_s(perf, &jobs[2]) - fixed_s) / clamp(seconds[2] - fixed_s, 1e-6, 1e9);
    for (int type = 0; type < ORK_NPU_TYPE_COUNT; type++)
        npu->efficiency[type] = clamp(npu->efficiency[type] * dots, 0.01, 1);
}

static void make_matrices(struct ork_matrix *matrices, struct ork_npu_weight *weights, const uint8_t *data,
                          const uint8_t *scales)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        matrices[i] = (struct ork_matrix){
            .tier = ORK_TIER_I8,
            .layout = ORK_LAYOUT_BRICK32,
            .n = jobs[i].n,
            .k = jobs[i].k,
            .experts = 1,
            .data = data,
            .data_expert_stride = (uint64_t)jobs[i].n * jobs[i].k,
            .scales = scales,
            .scale_expert_stride = jobs[i].n * 4ull,
            .name = "calibration",
        };
        weights[i] = (struct ork_npu_weight){.matrix = &matrices[i], .pinned = true};
    }
}

ork_status ork_calibrate_npu(ork_npu *npu, struct ork_perf *perf, ork_error *error)
{
    const struct ork_npu_profile *builtin = ork_npu_profile_builtin();
    const uint64_t data_bytes = (uint64_t)SIDE_MOST * SIDE_MOST, y_bytes = (uint64_t)ROWS_MOST * SIDE_MOST * 4;
    const uint64_t x_bytes = (uint64_t)ROWS_MOST * SIDE_MOST;
    const uint64_t size_bytes = data_bytes + y_bytes + 2 * x_bytes + SIDE_MOST * 4 + ROWS_MOST * 8;
    struct ork_matrix matrices[JOBS];
    struct ork_npu_weight weights[JOBS];
    double seconds[JOBS];
    ork_npu_info info;
    uint8_t *memory = builtin ? ork_pages_allocate(size_bytes) : NULL;
    if (!memory)
        return ork_error_no_memory(error, "calibration", size_bytes);
    uint8_t *y = memory + data_bytes, *codes = y + y_bytes, *scales = codes + 2 * x_bytes,
            *x_scales = scales + SIDE_MOST * 4;
    for (uint64_t i = 0; i < data_bytes; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 24);
    memset(codes, 1, 2 * x_bytes);
    make_matrices(matrices, weights, memory, scales);
    ork_npu_get_info(npu, &info);
    perf->npu = *builtin;
    perf->npu.cores = info.cores;
    perf->npu.clock_hz = info.clock_hz ? (double)info.clock_hz : builtin->clock_hz;
    perf->npu.host_call_us = perf->npu.host_core_us =
        0; /* of published library calls; ork's are in the other figures */
    snprintf(perf->npu.name, sizeof perf->npu.name, "%s", info.soc);
    ork_status status = ork_npu_attach(npu, memory, weights, JOBS, error);
    const bool attached = status == ORK_OK;
    for (int i = 0; status == ORK_OK && i < JOBS; i++) {
        const struct ork_activation x = {
            .rows = jobs[i].m,
            .k = jobs[i].k,
            .k_padded = jobs[i].k,
            .block = jobs[i].k,
            .blocks = 1,
            .plain = (int8_t *)codes,
            .split = (int8_t *)codes + x_bytes,
            .scales = (float *)(void *)x_scales,
            .sums = (int32_t *)(void *)(x_scales + ROWS_MOST * 4),
        };
        perf->has_npu = true;
        status = time_job(npu, &matrices[i], &x, (float *)(void *)y, jobs[i].m, &seconds[i], error);
    }
    if (status == ORK_OK) {
        fit(perf, seconds);
        if (perf->npu.shared_bytes_per_s > perf->bus_bytes_per_s)
            perf->bus_bytes_per_s = perf->npu.shared_bytes_per_s;
    }
    if (attached)
        ork_npu_detach(npu, memory);
    ork_pages_free(memory, size_bytes);
    return status;
}
