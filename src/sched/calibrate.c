/* Owns the order of measurements and how they become a perf model's figures: memory and arithmetic by the CPU engine's
 * probes, regions and quantizing here, an NPU in calibrate_npu.c, both at once in calibrate_beside.c. Must not know files or routes. */
#include "sched/calibrate.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/cpu/probe.h"
#include "engine/npu/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 3, REGIONS = 2000, ROUNDS = 7, ROWS = 64, CHANNELS = 1024 };
#define BUFFER_BYTES ((uint64_t)512 << 20)
/* Of the peak of float multiply-adds, what f32 and 16-bit weights get: docs/dispatch.md, "Calibration". */
#define FLOAT_SHARE 0.3

static void take_tiers(struct ork_perf *perf, const ork_probe_bandwidth_report *memory,
                       const ork_probe_compute_report *compute)
{
    double float_macs_per_s = 0;
    for (size_t i = 0; i < compute->peak_count; i++)
        if (strcmp(compute->peaks[i].kernel, "float multiply-add") == 0)
            float_macs_per_s = compute->peaks[i].median_gmac_per_s * 1e9 * FLOAT_SHARE;
    const double ceiling = memory->ceilings[0].median_gb_per_s * 1e9;
    for (uint32_t i = 0; i < ORK_TIER_COUNT; i++)
        perf->tiers[i] = (struct ork_perf_tier){ceiling, float_macs_per_s};
    for (size_t i = 0; i < memory->tier_count; i++)
        perf->tiers[ork_tier_find_name(memory->tiers[i].tier)->tier].bytes_per_s = memory->tiers[i].rate * 1e9;
    for (size_t i = 0; i < compute->tier_count; i++)
        perf->tiers[ork_tier_find_name(compute->tiers[i].tier)->tier].macs_per_s = compute->tiers[i].rate * 1e9;
    perf->attention_bytes_per_s = ceiling; /* as long streams as weights */
    perf->bus_bytes_per_s = ceiling;
}

static ork_status measure_cpu(struct ork_perf *perf, const ork_calibrate_params *params, ork_error *error)
{
    ork_probe_bandwidth_report *memory = NULL;
    ork_probe_compute_report *compute = NULL;
    const ork_probe_params probe = {
        .thread_counts = &perf->identity.threads,
        .thread_count_count = 1,
        .buffer_bytes = ork_memory_available_bytes() / 2 > BUFFER_BYTES ? BUFFER_BYTES : 0,
        .repetitions = REPETITIONS,
        .cancel = params->cancel,
        .cancel_context = params->cancel_context,
    };
    ork_status status = ork_probe_bandwidth(&probe, &memory, error);
    if (status == ORK_OK)
        status = ork_probe_compute(&probe, &compute, error);
    if (status == ORK_OK)
        take_tiers(perf, memory, compute);
    free(memory);
    free(compute);
    return status;
}

static void nothing(void *context, uint32_t thread, uint32_t threads)
{
    (void)context;
    (void)thread;
    (void)threads;
}

static void run_regions(struct ork_perf *perf, struct ork_probe *probe)
{
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin_ns = ork_clock_now_ns();
        for (int i = 0; i < REGIONS; i++)
            ork_pool_run(probe->pool, perf->identity.threads, nothing, NULL);
        samples[round] = (double)(ork_clock_now_ns() - begin_ns) * 1e-9 / REGIONS;
    }
    perf->region_s = ork_probe_median(samples, ROUNDS);
}

static void quantize_rows(struct ork_perf *perf, struct ork_probe *probe, struct ork_probe_weights *weights)
{
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin_ns = ork_clock_now_ns();
        for (uint32_t row = 0; row < weights->m; row++)
            probe->kernels->vector.quantize(&weights->x, row);
        samples[round] = (double)(ork_clock_now_ns() - begin_ns) * 1e-9 / weights->m;
    }
    /* The norm of a row reads and writes what quantizing reads once more; rows are spread over the threads. */
    const double row_s = 2 * ork_probe_median(samples, ROUNDS);
    perf->region_s += row_s;
    perf->row_s = row_s / perf->identity.threads;
    perf->token_s = 2 * perf->region_s;
}

/* Seconds of a call. */
static double time_call(void (*call)(void *context), void *context)
{
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin_ns = ork_clock_now_ns();
        call(context);
        samples[round] = (double)(ork_clock_now_ns() - begin_ns + 1) * 1e-9;
    }
    return ork_probe_median(samples, ROUNDS);
}

struct surfaces {
    const struct ork_surface_kernels *kernels;
    struct ork_surface_input input;
    struct ork_surface_output output;
    const struct ork_matrix *matrix;
    uint8_t *bricks;
};

static void pack(void *context)
{
    const struct surfaces *s = context;
    s->kernels->input_i8(&s->input);
}

static void unpack(void *context)
{
    const struct surfaces *s = context;
    s->kernels->output_i32(&s->output);
}

static void inflate(void *context)
{
    const struct surfaces *s = context;
    const uint32_t k_tiles = s->matrix->k / 32;
    for (uint32_t i = 0; i < s->matrix->n / 64; i++)
        s->kernels->inflate(s->matrix->tier, s->matrix->table, s->matrix->data + (uint64_t)i * k_tiles * 1024, NULL,
                            k_tiles, s->bricks + (uint64_t)i * k_tiles * 2048);
}

/* What the host does for an NPU, by one thread each: the owner's. Weights are swapped in by the little cores, or by one
 * thread where all cores are alike. */
static ork_status measure_surfaces(struct ork_perf *perf, struct ork_probe *probe, struct ork_probe_weights *weights,
                                   ork_error *error)
{
    const uint64_t c_bytes = (uint64_t)ROWS * CHANNELS * 4, b_bytes = (uint64_t)CHANNELS * ORK_PROBE_K;
    const uint64_t size_bytes = 2 * c_bytes + b_bytes + ROWS * ORK_PROBE_K + 3 * CHANNELS * 4;
    uint8_t *memory = ork_pages_allocate(size_bytes);
    if (!memory)
        return ork_error_no_memory(error, "calibration", size_bytes);
    uint8_t *a = memory + c_bytes, *y = a + ROWS * ORK_PROBE_K, *bricks = y + c_bytes, *small = bricks + b_bytes;
    const void *parts[] = {memory};
    ork_surface_weights(0, CHANNELS, (uint32_t *)(void *)small);
    struct surfaces s = {
        .kernels = &probe->kernels->surface,
        .input = {.codes = weights->x.plain, .stride = ORK_PROBE_K, .m = ROWS, .k = ORK_PROBE_K, .out = a},
        .output = {.parts = parts,
                   .part_count = 1,
                   .m = ROWS,
                   .n = CHANNELS,
                   .n_used = CHANNELS,
                   .x_scales = weights->x.scales,
                   .w_scales = (const float *)(const void *)(small + CHANNELS * 4),
                   .y = (float *)(void *)y,
                   .y_stride = CHANNELS,
                   .weights = (const uint32_t *)(const void *)small,
                   .checks = (uint32_t *)(void *)(small + 2 * CHANNELS * 4)},
        .matrix = weights->matrices,
        .bricks = bricks,
    };
    uint32_t little[ORK_POOL_THREADS_MAX];
    const uint32_t swappers = ork_topology_little_cores("/sys", little, ORK_POOL_THREADS_MAX);
    perf->pack_bytes_per_s = ROWS * ORK_PROBE_K / time_call(pack, &s);
    perf->unpack_bytes_per_s = (double)c_bytes / time_call(unpack, &s);
    perf->swap_bytes_per_s = (double)b_bytes / time_call(inflate, &s) * (swappers ? swappers : 1);
    ork_pages_free(memory, size_bytes);
    return ORK_OK;
}

static ork_status measure_host(struct ork_perf *perf, const ork_calibrate_params *params, ork_error *error)
{
    const ork_probe_params wishes = {
        .thread_counts = &perf->identity.threads,
        .thread_count_count = 1,
        .cancel = params->cancel,
        .cancel_context = params->cancel_context,
    };
    struct ork_probe probe;
    struct ork_probe_weights weights = {0};
    const uint64_t size_bytes = ork_probe_matrix_bytes(ORK_TIER_NF4, CHANNELS);
    uint8_t *buffer = NULL;
    ork_status status = ork_probe_begin(&probe, &wishes, error);
    if (status == ORK_OK) {
        buffer = ork_pages_allocate(size_bytes);
        status = buffer ? ork_probe_weights_make(&probe, ORK_TIER_NF4, CHANNELS, ROWS, 1, buffer, size_bytes, &weights,
                                                 error)
                        : ork_error_no_memory(error, "calibration", size_bytes);
    }
    if (status == ORK_OK) {
        run_regions(perf, &probe);
        quantize_rows(perf, &probe, &weights);
        status = measure_surfaces(perf, &probe, &weights, error);
    }
    ork_probe_weights_free(&weights);
    ork_pages_free(buffer, size_bytes);
    ork_probe_end(&probe);
    return status;
}

ork_status ork_calibrate(const ork_calibrate_params *given, ork_perf **out, ork_error *error)
{
    const ork_calibrate_params params = given ? *given : (ork_calibrate_params){0};
    *out = NULL;
    if (params.threads > ORK_POOL_THREADS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "threads", -1, "%u threads asked for, 1 to %u are possible",
                             params.threads, ORK_POOL_THREADS_MAX);
    struct ork_perf *perf = calloc(1, sizeof *perf);
    if (!perf)
        return ork_error_no_memory(error, "perf model", sizeof *perf);
    perf->source = ORK_PERF_CALIBRATED;
    snprintf(perf->name, sizeof perf->name, "this machine");
    ork_status status = ork_perf_identify("/", params.threads, params.npu, &perf->identity, error);
    if (status == ORK_OK)
        status = measure_cpu(perf, &params, error);
    if (status == ORK_OK)
        status = measure_host(perf, &params, error);
    if (status == ORK_OK && params.npu)
        status = ork_calibrate_npu(params.npu, perf, error);
    if (status == ORK_OK && params.npu && !ork_npu_is_virtual(params.npu))
        status = ork_calibrate_both(&params, perf, error);
    if (status == ORK_OK)
        *out = perf;
    else
        free(perf);
    return status;
}
