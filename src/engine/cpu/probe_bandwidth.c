/* Owns the measurement of memory: which ways of reading are compared, the ceiling that comes of them, and each tier's
 * kernels against it. Must not know how buffers and weights are made. */
#include "engine/cpu/probe.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define BUFFER_DEFAULT_BYTES (UINT64_C(1) << 30)

/* Time that repetitions may take when their number was left open. */
enum { READS_US = 16 * 1000 * 1000, QUICK_READS_US = 1300 * 1000, TIERS_US = 16 * 1000 * 1000 };
/* Channels of a matrix: an expert of LFM2-8B-A1B; a few where the buffer is small. */
enum { CHANNELS = 1792, CHANNELS_FEW = 256, MATRICES_FEW = 8 };

static const uint32_t stream_counts[] = {1, 2, 4, 8, 16}, prefetches[] = {0, 1024, 4096};
enum { STREAM_COUNTS = 5, QUICK_STREAM_COUNTS = 4, PREFETCHES = 3, BUFFERS_MAX = 3 };

struct bandwidth {
    struct ork_probe probe;
    const ork_probe_params *params;
    uint64_t buffer_bytes;
    struct ork_probe_buffer buffer;
    struct ork_probe_pattern patterns[ORK_PROBE_THREAD_COUNTS_MAX * STREAM_COUNTS * PREFETCHES];
    uint32_t pattern_count;
    ork_probe_bandwidth_report *report;
    ork_probe_read *reads, *ceilings; /* inside the report */
    ork_probe_tier *tiers;
};

static ork_status choose_buffer_bytes(struct bandwidth *b, ork_error *error)
{
    uint64_t least = b->probe.threads_most * MIB, available = ork_memory_available_bytes();
    b->buffer_bytes = b->params->buffer_bytes;
    if (!b->buffer_bytes) {
        b->buffer_bytes = BUFFER_DEFAULT_BYTES;
        if (available && b->buffer_bytes > available / 2)
            b->buffer_bytes = available / 2;
        if (b->buffer_bytes < least)
            return ork_error_no_memory(error, "buffer to read", least);
    }
    if (b->buffer_bytes < least)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "size", -1, "%.1f MiB for %u threads, at least 1 MiB each is needed",
                             (double)b->buffer_bytes / MIB, b->probe.threads_most);
    if (available && b->buffer_bytes > available - available / 16)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "size", -1, "%.0f MiB asked for, %.0f MiB of memory are available",
                             (double)b->buffer_bytes / MIB, (double)available / MIB);
    return ORK_OK;
}

static void list_patterns(struct bandwidth *b)
{
    uint32_t stream_count = b->params->quick ? QUICK_STREAM_COUNTS : STREAM_COUNTS;
    uint32_t prefetch_count = b->params->quick ? 1 : PREFETCHES;
    for (uint32_t i = 0; i < b->probe.thread_count_count; i++)
        for (uint32_t j = 0; j < stream_count; j++)
            for (uint32_t l = 0; l < prefetch_count; l++)
                b->patterns[b->pattern_count++] =
                    (struct ork_probe_pattern){b->probe.thread_counts[i], stream_counts[j], prefetches[l]};
}

/* One block of memory for the report and its lists. */
static ork_status make_report(struct bandwidth *b, ork_error *error)
{
    size_t reads = (size_t)BUFFERS_MAX * b->pattern_count, ceilings = b->probe.thread_count_count;
    size_t tiers = (size_t)b->probe.tier_count * b->probe.thread_count_count;
    size_t size_bytes =
        sizeof *b->report + (reads + ceilings) * sizeof(ork_probe_read) + tiers * sizeof(ork_probe_tier);
    b->report = calloc(1, size_bytes);
    if (!b->report)
        return ork_error_no_memory(error, "probe", size_bytes);
    b->reads = (ork_probe_read *)(b->report + 1);
    b->ceilings = b->reads + reads;
    b->tiers = (ork_probe_tier *)(b->ceilings + ceilings);
    *b->report = (ork_probe_bandwidth_report){
        .buffer_bytes = b->buffer_bytes,
        .kernels = ork_isa_name(b->probe.kernels->isa),
        .reads = b->reads,
        .ceilings = b->ceilings,
        .tiers = b->tiers,
    };
    return ORK_OK;
}

/* All patterns on the present buffer, in turns, so that what happens to the machine meanwhile happens to all. */
static ork_status measure_reads(struct bandwidth *b, uint64_t time_us, ork_error *error)
{
    struct ork_probe *probe = &b->probe;
    uint64_t deadline_us = ork_clock_now_us() + time_us;
    uint32_t done = 0;
    ork_status status = ork_probe_reserve_samples(probe, (size_t)b->pattern_count * probe->repetitions, error);
    for (; status == ORK_OK && ork_probe_goes_on(probe, done, deadline_us); done++)
        for (uint32_t i = 0; status == ORK_OK && i < b->pattern_count; i++) {
            probe->samples[(size_t)i * probe->repetitions + done] = ork_probe_read_once(probe, &b->buffer, b->patterns[i]);
            status = ork_probe_poll(probe, error);
        }
    for (uint32_t i = 0; status == ORK_OK && i < b->pattern_count; i++) {
        double *samples = probe->samples + (size_t)i * probe->repetitions;
        double median = ork_probe_median(samples, done);
        b->reads[b->report->read_count++] = (ork_probe_read){
            .threads = b->patterns[i].threads,
            .streams = b->patterns[i].streams,
            .pages = b->buffer.pages,
            .prefetch_bytes = b->patterns[i].prefetch_bytes,
            .best_gb_per_s = samples[done - 1],
            .median_gb_per_s = median,
        };
    }
    return status;
}

static uint32_t buffer_count(const struct bandwidth *b)
{
    return 1 + !b->params->quick + (b->params->file_path != NULL);
}

static uint64_t reads_time_us(const struct bandwidth *b)
{
    return (uint64_t)(b->params->quick ? QUICK_READS_US : READS_US) / buffer_count(b);
}

static ork_status measure_file(struct bandwidth *b, ork_error *error)
{
    ork_status status = ork_probe_buffer_map(b->params->file_path, b->buffer_bytes, &b->buffer, error);
    if (status != ORK_OK)
        return status;
    if (b->buffer.size_bytes < b->probe.threads_most * MIB) {
        status = ork_error_set(error, ORK_BAD_ARGUMENT, b->params->file_path, -1,
                               "is too small to be measured with %u threads, 1 MiB each is needed", b->probe.threads_most);
    } else {
        struct ork_probe_pattern warm = {b->probe.threads_most, 1, 0};
        (void)ork_probe_read_once(&b->probe, &b->buffer, warm);
        status = measure_reads(b, reads_time_us(b), error);
    }
    ork_probe_buffer_free(&b->buffer);
    return status;
}

static ork_status measure_small_pages(struct bandwidth *b, ork_error *error)
{
    ork_status status = ork_probe_buffer_allocate(&b->probe, b->buffer_bytes, false, &b->buffer, error);
    if (status == ORK_OK)
        status = measure_reads(b, reads_time_us(b), error);
    ork_probe_buffer_free(&b->buffer);
    return status;
}

/* The buffer stays, for the tiers. Where the system gave small pages all the same, their figures are there already. */
static ork_status measure_huge_pages(struct bandwidth *b, ork_error *error)
{
    ork_status status = ork_probe_buffer_allocate(&b->probe, b->buffer_bytes, true, &b->buffer, error);
    if (status != ORK_OK)
        return status;
    b->report->huge_page_bytes = ork_probe_huge_page_bytes(&b->buffer);
    bool has_come = b->report->huge_page_bytes >= b->buffer.size_bytes / 2;
    if (!has_come)
        b->buffer.pages = "4k";
    return has_come || b->params->quick ? measure_reads(b, reads_time_us(b), error) : ORK_OK;
}

/* The read with the best median of so many threads; pages: NULL for any. */
static const ork_probe_read *best_read(const struct bandwidth *b, uint32_t threads, const char *pages)
{
    const ork_probe_read *best = NULL;
    for (size_t i = 0; i < b->report->read_count; i++) {
        const ork_probe_read *read = &b->reads[i];
        if (read->threads == threads && (!pages || strcmp(read->pages, pages) == 0) &&
            (!best || read->median_gb_per_s > best->median_gb_per_s))
            best = read;
    }
    return best;
}

/* Ceiling, tier, ceiling, tier, ..., ceiling. */
static ork_status measure_tier(struct bandwidth *b, const struct ork_probe_weights *weights, uint32_t threads,
                               uint64_t time_us, ork_error *error)
{
    struct ork_probe *probe = &b->probe;
    const ork_probe_read *ceiling = best_read(b, threads, b->buffer.pages);
    const struct ork_probe_pattern pattern = {threads, ceiling->streams, ceiling->prefetch_bytes};
    uint64_t deadline_us = ork_clock_now_us() + time_us;
    uint32_t done = 0;
    double *rates = probe->samples, *fractions = probe->samples + probe->repetitions;
    ork_status status = ORK_OK;
    (void)ork_probe_multiply(probe, weights, threads, 1);
    double before = ork_probe_read_once(probe, &b->buffer, pattern);
    for (; status == ORK_OK && ork_probe_goes_on(probe, done, deadline_us); done++) {
        rates[done] = (double)weights->bytes / ork_probe_multiply(probe, weights, threads, 1) * 1e-9;
        double after = ork_probe_read_once(probe, &b->buffer, pattern);
        fractions[done] = rates[done] / ((before + after) / 2);
        before = after;
        status = ork_probe_poll(probe, error);
    }
    if (status == ORK_OK)
        b->tiers[b->report->tier_count++] = ork_probe_tier_of(weights, threads, rates, fractions, done);
    return status;
}

static ork_status measure_tiers(struct bandwidth *b, ork_error *error)
{
    struct ork_probe *probe = &b->probe;
    ork_status status = ork_probe_reserve_samples(probe, 2 * (size_t)probe->repetitions, error);
    for (uint32_t i = 0; status == ORK_OK && i < probe->tier_count; i++) {
        enum ork_tier tier = probe->tiers[i];
        struct ork_probe_weights weights;
        bool is_small = b->buffer.size_bytes / MATRICES_FEW < ork_probe_matrix_bytes(tier, CHANNELS);
        status = ork_probe_weights_make(probe, tier, is_small ? CHANNELS_FEW : CHANNELS, 1, UINT32_MAX, b->buffer.data,
                                        b->buffer.size_bytes, &weights, error);
        if (status != ORK_OK)
            break;
        for (uint32_t j = 0; status == ORK_OK && j < probe->thread_count_count; j++)
            status = measure_tier(b, &weights, probe->thread_counts[j],
                                  TIERS_US / (probe->tier_count * probe->thread_count_count), error);
        ork_probe_weights_free(&weights);
    }
    return status;
}

ork_status ork_probe_bandwidth(const ork_probe_params *params, ork_probe_bandwidth_report **report, ork_error *error)
{
    static const ork_probe_params defaults;
    *report = NULL;
    struct bandwidth *b = calloc(1, sizeof *b);
    if (!b)
        return ork_error_no_memory(error, "probe", sizeof *b);
    b->params = params ? params : &defaults;
    ork_status status = ork_probe_begin(&b->probe, params, error);
    if (status == ORK_OK)
        status = choose_buffer_bytes(b, error);
    if (status != ORK_OK)
        goto out;
    list_patterns(b);
    status = make_report(b, error);
    if (status == ORK_OK && b->params->file_path)
        status = measure_file(b, error);
    if (status == ORK_OK && !b->params->quick)
        status = measure_small_pages(b, error);
    if (status == ORK_OK)
        status = measure_huge_pages(b, error);
    for (uint32_t i = 0; status == ORK_OK && i < b->probe.thread_count_count; i++)
        b->ceilings[b->report->ceiling_count++] = *best_read(b, b->probe.thread_counts[i], NULL);
    if (status == ORK_OK && !b->params->quick)
        status = measure_tiers(b, error);
    if (status == ORK_OK) {
        *report = b->report;
        b->report = NULL;
    }
out:
    ork_probe_buffer_free(&b->buffer);
    ork_probe_end(&b->probe);
    free(b->report);
    free(b);
    return status;
}
