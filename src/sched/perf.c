/* Owns the formulas of the perf model. Must not know files, routes or a clock. */
#include "sched/perf.h"

#include "base/checked.h"
#include "engine/cpu/tuning.h"
#include "engine/npu/limits.h"
#include "engine/npu/tiling.h"

#include <math.h>

static void set_bound(struct ork_perf_time *time)
{
    const double fixed = time->fixed_s, transfer = time->transfer_s, compute = time->compute_s;
    time->seconds = fixed + transfer + compute;
    time->bound = fixed >= transfer && fixed >= compute ? ORK_PERF_FIXED
                  : transfer >= compute                 ? ORK_PERF_BANDWIDTH
                                                        : ORK_PERF_COMPUTE;
}

struct ork_perf_time ork_perf_predict_cpu(const struct ork_perf *perf, const struct ork_group *group, uint32_t rows,
                                          bool base)
{
    struct ork_perf_time time = {.fixed_s = perf->region_s + (rows - 1) * perf->row_s};
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        const bool half = base && member->tier == ORK_TIER_N8;
        const struct ork_perf_tier *tier = &perf->tiers[half ? ORK_TIER_NF4 : member->tier];
        const double bytes = ork_group_distinct(member->experts, member->experts_used, rows) *
                             (double)(half ? member->base_bytes : member->bytes);
        const double macs = (double)rows * member->experts_used * (double)member->n * member->k;
        const double stream_s = bytes / tier->bytes_per_s, compute_s = rows > 1 ? macs / tier->macs_per_s : 0;
        time.bytes += bytes;
        if (stream_s >= compute_s)
            time.transfer_s += stream_s;
        else
            time.compute_s += compute_s;
    }
    set_bound(&time);
    return time;
}

struct ork_perf_time ork_perf_predict_core(const struct ork_perf *perf, const struct ork_layer_cost *layer,
                                           uint32_t rows, uint32_t context)
{
    const struct ork_perf_tier *floats = &perf->tiers[ORK_TIER_F32];
    /* A row attends to the context, the rows before it and itself. A tile of rows shares what it reads of those. */
    const double positions = context + (rows + 1) / 2.0, tiles = ceil((double)rows / ORK_CPU_ATTEND_TILE);
    const double kv_bytes = positions * tiles * (double)layer->kv_bytes;
    const double kv_s = kv_bytes / perf->attention_bytes_per_s,
                 kv_macs_s = positions * rows * (double)layer->kv_macs / floats->macs_per_s;
    const double state_bytes = 2.0 * (double)layer->state_bytes, state_s = state_bytes / floats->bytes_per_s,
                 state_macs_s = rows * (double)layer->state_macs / floats->macs_per_s;
    struct ork_perf_time time = {.bytes = kv_bytes + state_bytes};
    *(kv_s >= kv_macs_s ? &time.transfer_s : &time.compute_s) += kv_s >= kv_macs_s ? kv_s : kv_macs_s;
    *(state_s >= state_macs_s ? &time.transfer_s : &time.compute_s) += state_s >= state_macs_s ? state_s : state_macs_s;
    set_bound(&time);
    return time;
}

double ork_perf_predict_rest(const struct ork_perf *perf, const struct ork_model_shape *shape)
{
    return perf->token_s +
           (double)(shape->embedding_bytes + shape->vector_bytes) / perf->tiers[ORK_TIER_F32].bytes_per_s;
}

bool ork_perf_npu_can(const struct ork_group_member *member)
{
    return ork_tier_find(member->tier)->brick_bytes && member->k <= ork_npu_k_total_max(ORK_NPU_W8A8);
}

/* ---- the NPU's jobs: the cuts of engine/npu/tiling.h, counted instead of listed ---- */

static void add_tasks(struct ork_npu_work *work, double count, uint32_t m, uint32_t n, uint32_t k)
{
    struct ork_npu_work one = {0};
    if (!m || !n || !k || count <= 0)
        return;
    ork_npu_work_add(&one, &(struct ork_npu_shape){.type = ORK_NPU_W8A8, .m = m, .k = k, .n = n});
    work->tasks += (uint64_t)(count * (double)one.tasks + 0.5);
    work->cycles[ORK_NPU_W8A8] += (uint64_t)(count * (double)one.cycles[ORK_NPU_W8A8]);
    work->weight_bytes += (uint64_t)(count * (double)one.weight_bytes);
    work->feature_bytes += (uint64_t)(count * (double)one.feature_bytes);
    work->output_bytes += (uint64_t)(count * (double)one.output_bytes);
}

/* `count` matmuls of m x k times n x k on one core, n already this core's part. Returns slices of k: int32 results a row. */
static uint32_t add_matmul(struct ork_npu_work *work, double count, uint32_t m, uint32_t n, uint32_t k)
{
    /* tiling.h: k is cut above one task's largest, and where a task would take one of several rows; slices of 3072. */
    const uint32_t k_padded = (uint32_t)ork_round_up(k, 32);
    const bool cut = k_padded > ork_npu_k_max(ORK_NPU_W8A8, 0, 0) || (m > 1 && k_padded > 8192);
    const uint32_t slices = cut ? (uint32_t)ork_divide_up(k_padded, 3072) : 1;
    const uint32_t inputs = cut ? (uint32_t)ork_round_up(ork_divide_up(k_padded, slices), 32) : k_padded;
    const uint32_t group = ork_npu_group(ORK_NPU_W8A8);
    const uint32_t width = cut ? group : ork_npu_n_max(ORK_NPU_W8A8);
    uint32_t tall = ork_npu_rows_max(ORK_NPU_W8A8, ork_npu_best_input(ORK_NPU_W8A8, inputs, m), inputs);
    tall = tall ? tall : 1;
    const uint32_t wide = n / width, tiles = m / tall;
    count *= slices;
    add_tasks(work, count * wide * tiles, tall, width, inputs);
    add_tasks(work, count * wide, m % tall, width, inputs);
    add_tasks(work, count * tiles, tall, (uint32_t)ork_round_up(n % width, group), inputs);
    add_tasks(work, count, m % tall, (uint32_t)ork_round_up(n % width, group), inputs);
    return slices;
}

static struct ork_perf_time never(void)
{
    return (struct ork_perf_time){.seconds = INFINITY, .fixed_s = INFINITY, .bound = ORK_PERF_FIXED};
}

static double submit_s(const struct ork_perf *perf, uint32_t cores)
{
    const struct ork_npu_profile *npu = &perf->npu;
    return (npu->submit_us + npu->complete_us + npu->host_call_us + npu->host_core_us * cores) * 1e-6;
}

struct ork_perf_time ork_perf_predict_npu(const struct ork_perf *perf, const struct ork_group *group, uint32_t rows)
{
    if (!perf->has_npu)
        return never();
    const struct ork_npu_profile *npu = &perf->npu;
    const uint32_t cores = npu->cores, unit = ork_npu_group(ORK_NPU_W8A8);
    struct ork_npu_work work = {0};
    struct ork_perf_time time = {.fixed_s = submit_s(perf, cores)};
    double packed_bytes = 0, unpacked_bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        if (!ork_perf_npu_can(member))
            return never();
        const double matrices = ork_group_distinct(member->experts, member->experts_used, rows);
        const double all_rows = (double)rows * member->experts_used;
        const uint32_t each = (uint32_t)ceil(all_rows / matrices); /* rows of one matrix */
        const uint32_t part = (uint32_t)ork_round_up(ork_divide_up(member->n, cores), unit);
        const uint32_t slices = add_matmul(&work, matrices, each, part, member->k);
        time.bytes += matrices * (double)member->n * member->k;
        packed_bytes += all_rows * member->k; /* inputs are gathered for each matrix */
        unpacked_bytes += all_rows * member->n * 4.0 * slices;
    }
    const double job_s = ork_npu_timing_job(npu, &work, cores), task_s = npu->task_us * 1e-6 * (double)work.tasks;
    time.fixed_s += task_s;
    time.compute_s = job_s - task_s;
    time.transfer_s = packed_bytes / perf->pack_bytes_per_s + unpacked_bytes / perf->unpack_bytes_per_s;
    set_bound(&time);
    return time;
}

struct ork_perf_time ork_perf_predict_chain(const struct ork_perf *perf, const struct ork_group *group,
                                            uint32_t members)
{
    if (!perf->has_npu || !members)
        return never();
    struct ork_npu_work work = {0};
    struct ork_npu_profile npu = perf->npu;
    struct ork_perf_time time = {.fixed_s = perf->chain_fixed_s > 0 ? perf->chain_fixed_s : submit_s(perf, 1)};
    if (perf->chain_bytes_per_s > 0) {
        npu.core_bytes_per_s = perf->chain_bytes_per_s;
        npu.shared_bytes_per_s =
            npu.shared_bytes_per_s > npu.core_bytes_per_s ? npu.shared_bytes_per_s : npu.core_bytes_per_s;
    }
    double host_bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        if (!(members & (1u << i)))
            continue;
        if (!ork_perf_npu_can(member))
            return never();
        const double count = member->experts_used;
        const uint32_t n = (uint32_t)ork_round_up(member->n, ork_npu_group(ORK_NPU_W8A8));
        const uint32_t slices = add_matmul(&work, count, 1, n, member->k);
        time.bytes += count * (double)member->n * member->k;
        time.transfer_s += count * (member->k / perf->pack_bytes_per_s);
        host_bytes += count * member->n * 4.0 * slices;
    }
    const double job_s = ork_npu_timing_job(&npu, &work, 1), task_s = npu.task_us * 1e-6 * (double)work.tasks;
    time.fixed_s += perf->chain_fixed_s > 0 ? task_s - npu.task_us * 1e-6 : task_s;
    time.compute_s = job_s - task_s;
    time.transfer_s += host_bytes / perf->unpack_bytes_per_s;
    set_bound(&time);
    return time;
}

struct ork_perf_rates ork_perf_share(const struct ork_perf *perf, double cpu_bytes_per_s, double npu_bytes_per_s)
{
    const double both = cpu_bytes_per_s + npu_bytes_per_s,
                 chain_bus = perf->chain_bus_bytes_per_s > 0 ? perf->chain_bus_bytes_per_s : perf->bus_bytes_per_s;
    const double cpu_part = both > perf->bus_bytes_per_s ? perf->bus_bytes_per_s / both : 1,
                 npu_part = both > chain_bus ? chain_bus / both : 1;
    return (struct ork_perf_rates){cpu_bytes_per_s * cpu_part, npu_bytes_per_s * npu_part, cpu_part, npu_part};
}
