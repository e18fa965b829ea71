/* Owns the measurement of both engines at once: what a chain of one row on one core takes by itself, what CPU and NPU get
 * while both stream as with an overlay, and the figures that follow. Must not know devices. */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/cpu/probe.h"
#include "engine/npu/engine.h"
#include "sched/calibrate.h"

#include <stdlib.h>
#include <string.h>

/* Chains are many enough that none is read from a cache again (64 MiB); the first one is nearly all fixed cost. Windows of
 * both and of the CPU alone take turns: 0.8 s in all. */
enum { LONG_CHAINS = 16, CHAINS = LONG_CHAINS + 1, SHORT_N = 64, SHORT_K = 64, LONG_N = 2048, LONG_K = 2048 };
enum { SHORT_ROUNDS = 64, LONG_ROUNDS = 4, WINDOWS = 9, CHANNELS = 1792 };
#define WINDOW_S 0.04
/* What a chain costs the CPU of a whole token, assumed: begins and taking results over are 3.4 us of it, but tokens of
 * LFM2-350M's shape with 31 chains take 350 to 600 us longer than without. */
#define CHAIN_CPU_S 15e-6
#define CPU_BUFFER_BYTES ((uint64_t)256 << 20)
#define CHAIN_MOST_NS UINT64_C(60000000000)

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- figures, pure ---- */

static struct ork_group chain_group(uint32_t n, uint32_t k)
{
    struct ork_group group = {0};
    (void)ork_group_add(&group, "chain", ORK_TIER_I8, n, k, 0, 0, 0, false);
    return group;
}

void ork_calibrate_fit_chain(struct ork_perf *perf, double short_s, double long_s)
{
    const struct ork_group small = chain_group(SHORT_N, SHORT_K), large = chain_group(LONG_N, LONG_K);
    perf->chain_bytes_per_s = perf->npu.core_bytes_per_s;
    /* Each depends a little on the other: the short chain has a stream, too. */
    for (int i = 0; i < 3; i++) {
        perf->chain_fixed_s = 1;
        const double rest_s = ork_perf_predict_chain(perf, &small, 1).seconds - 1;
        perf->chain_fixed_s = clamp(short_s - rest_s, 1e-7, 1);
        const struct ork_perf_time time = ork_perf_predict_chain(perf, &large, 1);
        const double stream_s = long_s - (time.seconds - time.compute_s);
        perf->chain_bytes_per_s =
            clamp(perf->chain_bytes_per_s * time.compute_s / clamp(stream_s, 1e-7, 1e3), 1e6, 1e13);
    }
}

static double bus_of(double part, double both, double assumed)
{
    return part < 1 ? part * both : both > assumed ? both : assumed;
}

void ork_calibrate_fit_buses(struct ork_perf *perf, const struct ork_calibrate_beside *m)
{
    const double streaming = clamp(m->npu_streaming, 0.01, 1);
    const double lost = 1 - m->cpu_beside_bytes_per_s / m->cpu_alone_bytes_per_s;
    const double cpu_part = clamp(1 - lost / streaming, 0.05, 1),
                 npu_part = clamp(m->npu_beside_bytes_per_s / m->npu_alone_bytes_per_s, 1e-6, 1);
    const double both = m->cpu_alone_bytes_per_s + m->npu_alone_bytes_per_s, assumed = perf->bus_bytes_per_s;
    perf->bus_bytes_per_s = clamp(bus_of(cpu_part, both, assumed), 1e6, 1e14);
    perf->chain_bus_bytes_per_s = clamp(bus_of(npu_part, both, assumed), 1e6, 1e14);
}

/* ---- chains ---- */

struct beside {
    ork_npu *npu;
    const struct ork_overlay *overlay;
    struct ork_perf *perf;
    struct ork_probe probe;
    struct ork_probe_weights weights; /* the CPU's */
    uint32_t next_matrix;
    struct ork_activation x; /* of a long chain, and of the short one */
    uint32_t chain;          /* under way; CHAINS: none */
    uint64_t begun_ns;
    uint32_t next_chain;
    float results[LONG_N];
    double overhead_s; /* of a long chain's time, what is no stream */
};

static ork_status begin(struct beside *b, uint32_t chain, ork_error *error)
{
    b->begun_ns = ork_clock_now_ns();
    if (!b->overlay->begin(b->overlay->context, chain, &b->x))
        return ork_error_set(error, ORK_FAILURE, "npu", -1, "the NPU did not take a chain");
    b->chain = chain;
    return ORK_OK;
}

/* 0 seconds: it is still under way. */
static ork_status look(struct beside *b, double *seconds, ork_error *error)
{
    const uint64_t completed_ns = ork_npu_overlay_completed_ns(b->npu, b->chain);
    *seconds = 0;
    if (!completed_ns && ork_clock_now_ns() - b->begun_ns < CHAIN_MOST_NS)
        return ORK_OK;
    const float *results = b->overlay->poll(b->overlay->context, b->chain);
    if (!results)
        return ork_error_set(error, ORK_FAILURE, "npu", -1, "the NPU did not finish a chain");
    memcpy(b->results, results, (b->chain ? LONG_N : SHORT_N) * sizeof *results);
    b->overlay->done(b->overlay->context, b->chain);
    b->chain = CHAINS;
    *seconds = completed_ns > b->begun_ns ? (double)(completed_ns - b->begun_ns) * 1e-9 : 1e-9;
    return ORK_OK;
}

static ork_status wait(struct beside *b, double *seconds, ork_error *error)
{
    ork_status status = ORK_OK;
    *seconds = 0;
    while (status == ORK_OK && b->chain != CHAINS && *seconds <= 0)
        status = look(b, seconds, error);
    return status;
}

static ork_status time_chains(struct beside *b, ork_error *error)
{
    double short_s[SHORT_ROUNDS], long_s[LONG_ROUNDS * LONG_CHAINS];
    ork_status status = ORK_OK;
    for (uint32_t i = 0; i < SHORT_ROUNDS && status == ORK_OK; i++) {
        status = begin(b, 0, error);
        if (status == ORK_OK)
            status = wait(b, &short_s[i], error);
    }
    for (uint32_t i = 0; i < LONG_ROUNDS * LONG_CHAINS && status == ORK_OK; i++) {
        status = begin(b, 1 + i % LONG_CHAINS, error);
        if (status == ORK_OK)
            status = wait(b, &long_s[i], error);
    }
    if (status != ORK_OK)
        return status;
    ork_calibrate_fit_chain(b->perf, ork_probe_median(short_s, SHORT_ROUNDS),
                            ork_probe_median(long_s, LONG_ROUNDS * LONG_CHAINS));
    const struct ork_group large = chain_group(LONG_N, LONG_K);
    const struct ork_perf_time time = ork_perf_predict_chain(b->perf, &large, 1);
    b->overhead_s = time.seconds - time.compute_s;
    return ORK_OK;
}

/* ---- both at once ---- */

/* What the NPU did in a window. */
struct streamed {
    uint32_t chains;       /* complete in it, or the one that was begun */
    double seconds;        /* of their time, as far as it is stream */
    double within_s, part; /* of that, in the window; of the window */
};

static double stream_of(const struct beside *b, double seconds)
{
    return clamp(seconds - b->overhead_s, seconds * 0.01, seconds);
}

static ork_status turn_of_chains(struct beside *b, struct streamed *streamed, ork_error *error)
{
    double seconds = 0;
    ork_status status = b->chain == CHAINS ? ORK_OK : look(b, &seconds, error);
    if (seconds > 0) {
        streamed->chains++;
        streamed->seconds += stream_of(b, seconds);
        streamed->within_s += stream_of(b, seconds);
    }
    if (status == ORK_OK && b->chain == CHAINS)
        status = begin(b, 1 + b->next_chain++ % LONG_CHAINS, error);
    return status;
}

/* The chain that is under way when the CPU is done. */
static ork_status end_of_chains(struct beside *b, struct streamed *streamed, double window_s, ork_error *error)
{
    double seconds;
    if (b->chain != CHAINS)
        streamed->within_s += stream_of(b, (double)(ork_clock_now_ns() - b->begun_ns) * 1e-9);
    streamed->part = streamed->within_s / window_s;
    const ork_status status = wait(b, &seconds, error);
    if (status == ORK_OK && !streamed->chains) {
        streamed->chains = 1;
        streamed->seconds = stream_of(b, seconds);
    }
    return status;
}

/* The CPU multiplies matrix after matrix, each a region of one row; with `streamed` chains run beside it, and what they cost
 * the caller is part of the time. */
static ork_status run_window(struct beside *b, struct streamed *streamed, double *bytes_per_s, ork_error *error)
{
    double seconds = 0, bytes = 0;
    ork_status status = ork_probe_poll(&b->probe, error);
    const uint64_t begun_ns = ork_clock_now_ns();
    while (status == ORK_OK && seconds < WINDOW_S) {
        if (streamed)
            status = turn_of_chains(b, streamed, error);
        struct ork_probe_weights one = b->weights;
        one.matrices += b->next_matrix++ % b->weights.count;
        one.count = 1;
        if (status == ORK_OK)
            (void)ork_probe_multiply(&b->probe, &one, b->probe.threads_most, 1);
        bytes += (double)b->weights.bytes / b->weights.count;
        seconds = (double)(ork_clock_now_ns() - begun_ns) * 1e-9;
    }
    if (status == ORK_OK && streamed)
        status = end_of_chains(b, streamed, seconds, error);
    *bytes_per_s = bytes / seconds;
    return status;
}

static ork_status run_windows(struct beside *b, ork_error *error)
{
    double alone[WINDOWS], beside[WINDOWS], npu[WINDOWS], streaming[WINDOWS];
    ork_status status = run_window(b, NULL, &alone[0], error); /* warm */
    for (uint32_t i = 0; i < WINDOWS && status == ORK_OK; i++) {
        struct streamed streamed = {0};
        status = run_window(b, NULL, &alone[i], error);
        if (status == ORK_OK)
            status = run_window(b, &streamed, &beside[i], error);
        if (status != ORK_OK)
            return status;
        npu[i] = streamed.chains * (double)LONG_N * LONG_K / streamed.seconds;
        streaming[i] = streamed.part;
        beside[i] /= alone[i];
    }
    if (status != ORK_OK)
        return status;
    struct ork_calibrate_beside measured = {
        .cpu_alone_bytes_per_s = ork_probe_median(alone, WINDOWS),
        .npu_alone_bytes_per_s = b->perf->chain_bytes_per_s,
        .npu_beside_bytes_per_s = ork_probe_median(npu, WINDOWS),
        .npu_streaming = ork_probe_median(streaming, WINDOWS),
    };
    measured.cpu_beside_bytes_per_s = measured.cpu_alone_bytes_per_s * ork_probe_median(beside, WINDOWS);
    ork_calibrate_fit_buses(b->perf, &measured);
    b->perf->chain_cpu_s = CHAIN_CPU_S;
    return ORK_OK;
}

/* ---- memory ---- */

static ork_status attach(struct beside *b, const uint8_t *data, const uint8_t *scales, ork_error *error)
{
    struct ork_matrix matrices[CHAINS];
    struct ork_npu_chain *chains = calloc(CHAINS, sizeof *chains);
    if (!chains)
        return ork_error_no_memory(error, "calibration", CHAINS * sizeof *chains);
    for (uint32_t i = 0; i < CHAINS; i++) {
        const uint32_t n = i ? LONG_N : SHORT_N, k = i ? LONG_K : SHORT_K;
        matrices[i] = (struct ork_matrix){.tier = ORK_TIER_I8,
                                          .layout = ORK_LAYOUT_BRICK32,
                                          .n = n,
                                          .k = k,
                                          .experts = 1,
                                          .data = data,
                                          .data_expert_stride = (uint64_t)n * k,
                                          .scales = scales,
                                          .scale_expert_stride = n * 4ull,
                                          .name = "calibration"};
        chains[i].members[0] = &matrices[i];
        chains[i].full[0] = matrices[i];
        chains[i].member_count = 1;
    }
    const struct ork_npu_overlay_params params = {.chains = chains, .count = CHAINS};
    const ork_status status = ork_npu_overlay_attach(b->npu, b, &params, error);
    b->overlay = status == ORK_OK ? ork_npu_overlay(b->npu) : NULL;
    free(chains);
    return status;
}

static ork_status make_weights(struct beside *b, const struct ork_calibrate_params *params,
                               struct ork_probe_buffer *buffer, ork_error *error)
{
    const ork_probe_params wishes = {
        .thread_counts = &b->perf->identity.threads,
        .thread_count_count = 1,
        .cancel = params->cancel,
        .cancel_context = params->cancel_context,
    };
    const uint64_t available = ork_memory_available_bytes(), least = ork_probe_matrix_bytes(ORK_TIER_NF4, CHANNELS),
                   most = available && available / 4 < CPU_BUFFER_BYTES ? available / 4 : CPU_BUFFER_BYTES;
    ork_status status = ork_probe_begin(&b->probe, &wishes, error);
    if (status == ORK_OK)
        status = ork_probe_buffer_allocate(&b->probe, most > least ? most : least, true, buffer, error);
    if (status == ORK_OK)
        status = ork_probe_weights_make(&b->probe, ORK_TIER_NF4, CHANNELS, 1, UINT32_MAX, buffer->data,
                                        buffer->size_bytes, &b->weights, error);
    return status;
}

ork_status ork_calibrate_both(const struct ork_calibrate_params *params, struct ork_perf *perf, ork_error *error)
{
    const uint64_t data_bytes = (uint64_t)LONG_N * LONG_K, size_bytes = data_bytes + LONG_N * 4 + 2 * LONG_K + 64;
    struct beside b = {.npu = params->npu, .perf = perf, .chain = CHAINS};
    struct ork_probe_buffer buffer = {0};
    uint8_t *memory = ork_pages_allocate(size_bytes);
    if (!memory)
        return ork_error_no_memory(error, "calibration", size_bytes);
    uint8_t *scales = memory + data_bytes, *codes = scales + LONG_N * 4, *x_scale = codes + 2 * LONG_K;
    for (uint64_t i = 0; i < data_bytes; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 24);
    memset(codes, 1, 2 * LONG_K);
    b.x = (struct ork_activation){.rows = 1,
                                  .k = LONG_K,
                                  .k_padded = LONG_K,
                                  .block = LONG_K,
                                  .blocks = 1,
                                  .plain = (int8_t *)codes,
                                  .split = (int8_t *)codes + LONG_K,
                                  .scales = (float *)(void *)x_scale,
                                  .sums = (int32_t *)(void *)(x_scale + 4)};
    ork_status status = make_weights(&b, params, &buffer, error);
    if (status == ORK_OK)
        status = attach(&b, memory, scales, error);
    if (status == ORK_OK)
        status = time_chains(&b, error);
    if (status == ORK_OK)
        status = run_windows(&b, error);
    if (b.overlay)
        ork_npu_overlay_detach(params->npu, &b);
    ork_probe_weights_free(&b.weights);
    ork_probe_buffer_free(&buffer);
    ork_probe_end(&b.probe);
    ork_pages_free(memory, size_bytes);
    return status;
}
