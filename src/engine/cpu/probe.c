/* Owns what the probes have in common: the wishes of the caller, threads, time, and the order statistics of samples. Must
 * not know what is measured. */
#include "engine/cpu/probe.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static ork_status choose_threads(struct ork_probe *probe, const ork_probe_params *params, ork_error *error)
{
    uint32_t most = ork_topology_threads();
    if (params->thread_counts) {
        if (!params->thread_count_count || params->thread_count_count > ORK_PROBE_THREAD_COUNTS_MAX)
            return ork_error_set(error, ORK_BAD_ARGUMENT, "threads", -1, "%zu thread counts asked for, 1 to %d are possible",
                                 params->thread_count_count, ORK_PROBE_THREAD_COUNTS_MAX);
        for (size_t i = 0; i < params->thread_count_count; i++) {
            uint32_t threads = params->thread_counts[i];
            if (threads < 1 || threads > ORK_POOL_THREADS_MAX)
                return ork_error_set(error, ORK_BAD_ARGUMENT, "threads", -1, "%u threads asked for, 1 to %u are possible",
                                     threads, ORK_POOL_THREADS_MAX);
            probe->thread_counts[probe->thread_count_count++] = threads;
        }
    } else {
        for (uint32_t threads = 1; threads < most; threads *= 2)
            probe->thread_counts[probe->thread_count_count++] = threads;
        probe->thread_counts[probe->thread_count_count++] = most;
    }
    for (uint32_t i = 0; i < probe->thread_count_count; i++)
        if (probe->thread_counts[i] > probe->threads_most)
            probe->threads_most = probe->thread_counts[i];
    return ORK_OK;
}

static ork_status add_tier(struct ork_probe *probe, const char *name, ork_error *error)
{
    const struct ork_tier_info *info = ork_tier_find_name(name);
    if (!info)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "tier", -1, "there is no tier '%.64s'", name);
    if (!info->quantized)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "tier", -1, "%s has no integer kernels to measure", info->name);
    for (uint32_t i = 0; i < probe->tier_count; i++)
        if (probe->tiers[i] == info->tier)
            return ORK_OK;
    probe->tiers[probe->tier_count++] = info->tier;
    return ORK_OK;
}

static ork_status choose_tiers(struct ork_probe *probe, const ork_probe_params *params, ork_error *error)
{
    for (size_t i = 0; i < params->tier_count; i++) {
        ork_status status = add_tier(probe, params->tiers[i], error);
        if (status != ORK_OK)
            return status;
    }
    for (uint32_t tier = 0; tier < ORK_TIER_COUNT && !params->tier_count; tier++) {
        const struct ork_tier_info *info = ork_tier_find(tier);
        if (info && info->quantized && probe->kernels->matmul[tier].run)
            probe->tiers[probe->tier_count++] = info->tier;
    }
    return ORK_OK;
}

ork_status ork_probe_begin(struct ork_probe *probe, const ork_probe_params *params, ork_error *error)
{
    static const ork_probe_params defaults;
    memset(probe, 0, sizeof *probe);
    if (!params)
        params = &defaults;
    if (params->repetitions > ORK_PROBE_REPETITIONS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "repetitions", -1, "%u repetitions asked for, 1 to %d are possible",
                             params->repetitions, ORK_PROBE_REPETITIONS_MAX);
    probe->repetitions_given = params->repetitions > 0;
    probe->repetitions = params->repetitions ? params->repetitions : ORK_PROBE_REPETITIONS;
    probe->cancel = params->cancel;
    probe->cancel_context = params->cancel_context;
    ork_status status = ork_kernels_get(&probe->kernels, error);
    if (status == ORK_OK)
        status = choose_threads(probe, params, error);
    if (status == ORK_OK)
        status = choose_tiers(probe, params, error);
    if (status != ORK_OK)
        return status;
    probe->loops = ork_probe_kernels_find(probe->kernels->isa);
    return ork_pool_create(probe->threads_most, UINT32_MAX, &probe->pool, error);
}

ork_status ork_probe_reserve_samples(struct ork_probe *probe, size_t count, ork_error *error)
{
    free(probe->samples);
    probe->samples = calloc(count, sizeof *probe->samples);
    return probe->samples ? ORK_OK : ork_error_no_memory(error, "probe", count * sizeof *probe->samples);
}

void ork_probe_end(struct ork_probe *probe)
{
    ork_pool_destroy(probe->pool);
    free(probe->samples);
    memset(probe, 0, sizeof *probe);
}

ork_status ork_probe_poll(const struct ork_probe *probe, ork_error *error)
{
    if (probe->cancel && probe->cancel(probe->cancel_context))
        return ork_error_set(error, ORK_CANCELLED, "probe", -1, "the measurement was cancelled");
    return ORK_OK;
}

bool ork_probe_goes_on(const struct ork_probe *probe, uint32_t done, uint64_t deadline_us)
{
    return done < probe->repetitions && (!done || probe->repetitions_given || ork_clock_now_us() < deadline_us);
}

double ork_probe_time(struct ork_probe *probe, uint32_t threads, ork_pool_function function, void *context)
{
    uint64_t begin_us = ork_clock_now_us();
    ork_pool_run(probe->pool, threads, function, context);
    uint64_t end_us = ork_clock_now_us();
    return (double)(end_us > begin_us ? end_us - begin_us : 1) * 1e-6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ork_probe_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
}
