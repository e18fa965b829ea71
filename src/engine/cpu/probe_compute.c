/* Owns the measurement of arithmetic: peaks of the instructions that kernels are made of, and each tier's matmul of many
 * rows against them. Must not know instructions. */
#include "engine/cpu/probe.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <stdlib.h>

enum { TIERS_US = 16 * 1000 * 1000, SAMPLE_US = 10 * 1000, ROWS = 64, PEAKS = 2, TRIAL_ROUNDS = 1000 };
/* Weights of 1024 channels have 1 to 2 MiB: in the second cache or the third. More threads get more channels. */
enum { CHANNELS = 1024, CHANNELS_PER_THREAD = 256 };

struct compute {
    struct ork_probe probe;
    ork_probe_compute_report *report;
    ork_probe_peak *peaks;
    ork_probe_tier *tiers;
};

enum peak_kind { PEAK_DOT, PEAK_FLOAT };

struct peak_region {
    const struct ork_probe_kernels *loops;
    enum peak_kind kind;
    uint64_t rounds;
    uint32_t dots[ORK_POOL_THREADS_MAX];
    float sums[ORK_POOL_THREADS_MAX];
};

static void peak_region(void *context, uint32_t thread, uint32_t threads)
{
    struct peak_region *r = context;
    (void)threads;
    if (r->kind == PEAK_DOT)
        r->dots[thread] = r->loops->dot(r->rounds);
    else
        r->sums[thread] = r->loops->multiply_add(r->rounds);
}

/* Rounds that take about SAMPLE_US on one thread. */
static uint64_t choose_rounds(struct ork_probe *probe, enum peak_kind kind)
{
    struct peak_region region = {.loops = probe->loops, .kind = kind, .rounds = TRIAL_ROUNDS};
    double seconds = 0;
    while ((seconds = ork_probe_time(probe, 1, peak_region, &region)) < SAMPLE_US * 1e-7)
        region.rounds *= 4;
    return (uint64_t)((double)region.rounds * SAMPLE_US * 1e-6 / seconds) + 1;
}

/* 10^9 multiply-adds a second of all threads. */
static double peak_once(struct ork_probe *probe, enum peak_kind kind, uint64_t rounds, uint32_t threads)
{
    struct peak_region region = {.loops = probe->loops, .kind = kind, .rounds = rounds};
    uint32_t products = kind == PEAK_DOT ? probe->loops->dot_products : probe->loops->multiply_adds;
    double seconds = ork_probe_time(probe, threads, peak_region, &region);
    return (double)rounds * products * threads / seconds * 1e-9;
}

static void report_peak(struct compute *c, enum peak_kind kind, uint32_t threads, double *samples)
{
    const struct ork_probe_kernels *loops = c->probe.loops;
    double median = ork_probe_median(samples, c->probe.repetitions);
    c->peaks[c->report->peak_count++] = (ork_probe_peak){
        .kernel = kind == PEAK_DOT ? "int8 dot" : "float multiply-add",
        .instruction = kind == PEAK_DOT ? loops->dot_name : loops->multiply_add_name,
        .threads = threads,
        .best_gmac_per_s = samples[c->probe.repetitions - 1],
        .median_gmac_per_s = median,
    };
}

/* All peaks in turns. */
static ork_status measure_peaks(struct compute *c, uint64_t dot_rounds, ork_error *error)
{
    struct ork_probe *probe = &c->probe;
    const uint64_t rounds[PEAKS] = {[PEAK_DOT] = dot_rounds, [PEAK_FLOAT] = choose_rounds(probe, PEAK_FLOAT)};
    const uint32_t count = PEAKS * probe->thread_count_count;
    ork_status status = ork_probe_reserve_samples(probe, (size_t)count * probe->repetitions, error);
    for (uint32_t done = 0; status == ORK_OK && done < probe->repetitions; done++)
        for (uint32_t i = 0; status == ORK_OK && i < count; i++) {
            enum peak_kind kind = i % PEAKS ? PEAK_FLOAT : PEAK_DOT;
            probe->samples[(size_t)i * probe->repetitions + done] =
                peak_once(probe, kind, rounds[kind], probe->thread_counts[i / PEAKS]);
            status = ork_probe_poll(probe, error);
        }
    for (uint32_t i = 0; status == ORK_OK && i < count; i++)
        report_peak(c, i % PEAKS ? PEAK_FLOAT : PEAK_DOT, probe->thread_counts[i / PEAKS],
                    probe->samples + (size_t)i * probe->repetitions);
    return status;
}

/* Peak, matmul, peak, matmul, ..., peak. */
static ork_status measure_tier(struct compute *c, const struct ork_probe_weights *weights, uint64_t rounds,
                               uint32_t threads, uint64_t time_us, ork_error *error)
{
    struct ork_probe *probe = &c->probe;
    uint64_t deadline_us = ork_clock_now_us() + time_us;
    double *rates = probe->samples, *fractions = probe->samples + probe->repetitions;
    double products = (double)weights->m * weights->matrices->n * ORK_PROBE_K;
    double trial_us = ork_probe_multiply(probe, weights, threads, 1) * 1e6;
    uint32_t turns = trial_us < SAMPLE_US ? (uint32_t)(SAMPLE_US / trial_us) + 1 : 1, done = 0;
    ork_status status = ORK_OK;
    double before = peak_once(probe, PEAK_DOT, rounds, threads);
    for (; status == ORK_OK && ork_probe_goes_on(probe, done, deadline_us); done++) {
        rates[done] = products * turns / ork_probe_multiply(probe, weights, threads, turns) * 1e-9;
        double after = peak_once(probe, PEAK_DOT, rounds, threads);
        fractions[done] = rates[done] / ((before + after) / 2);
        before = after;
        status = ork_probe_poll(probe, error);
    }
    if (status == ORK_OK)
        c->tiers[c->report->tier_count++] = ork_probe_tier_of(weights, threads, rates, fractions, done);
    return status;
}

static ork_status measure_tiers(struct compute *c, uint64_t rounds, ork_error *error)
{
    struct ork_probe *probe = &c->probe;
    uint32_t wanted = probe->threads_most * CHANNELS_PER_THREAD, n = wanted > CHANNELS ? wanted : CHANNELS;
    ork_status status = ork_probe_reserve_samples(probe, 2 * (size_t)probe->repetitions, error);
    for (uint32_t i = 0; status == ORK_OK && i < probe->tier_count; i++) {
        uint64_t size_bytes = ork_probe_matrix_bytes(probe->tiers[i], n);
        uint8_t *buffer = ork_pages_allocate(size_bytes);
        struct ork_probe_weights weights = {0};
        status = buffer ? ork_probe_weights_make(probe, probe->tiers[i], n, ROWS, 1, buffer, size_bytes, &weights, error)
                        : ork_error_no_memory(error, "weights to measure with", size_bytes);
        for (uint32_t j = 0; status == ORK_OK && j < probe->thread_count_count; j++)
            status = measure_tier(c, &weights, rounds, probe->thread_counts[j],
                                  TIERS_US / (probe->tier_count * probe->thread_count_count), error);
        ork_probe_weights_free(&weights);
        ork_pages_free(buffer, size_bytes);
    }
    return status;
}

/* One block of memory for the report and its lists. */
static ork_status make_report(struct compute *c, ork_error *error)
{
    size_t peaks = (size_t)PEAKS * c->probe.thread_count_count;
    size_t tiers = (size_t)c->probe.tier_count * c->probe.thread_count_count;
    size_t size_bytes = sizeof *c->report + peaks * sizeof(ork_probe_peak) + tiers * sizeof(ork_probe_tier);
    c->report = calloc(1, size_bytes);
    if (!c->report)
        return ork_error_no_memory(error, "probe", size_bytes);
    c->peaks = (ork_probe_peak *)(c->report + 1);
    c->tiers = (ork_probe_tier *)(c->peaks + peaks);
    c->report->kernels = ork_isa_name(c->probe.kernels->isa);
    c->report->peaks = c->peaks;
    c->report->tiers = c->tiers;
    return ORK_OK;
}

ork_status ork_probe_compute(const ork_probe_params *params, ork_probe_compute_report **report, ork_error *error)
{
    *report = NULL;
    struct compute c = {0};
    ork_status status = ork_probe_begin(&c.probe, params, error);
    if (status == ORK_OK)
        status = make_report(&c, error);
    if (status != ORK_OK)
        goto out;
    uint64_t rounds = choose_rounds(&c.probe, PEAK_DOT);
    status = measure_peaks(&c, rounds, error);
    if (status == ORK_OK && !(params && params->quick))
        status = measure_tiers(&c, rounds, error);
    if (status == ORK_OK) {
        *report = c.report;
        c.report = NULL;
    }
out:
    ork_probe_end(&c.probe);
    free(c.report);
    return status;
}
