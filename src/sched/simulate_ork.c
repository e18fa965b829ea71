/* Owns the prediction for ork itself: op groups of a shape on the performance cores, the NPU beside them. Uses the board's
 * figures of ork alone, never those of the published system. */
#include "sched/simulate.h"

#include <string.h>

#include "base/checked.h"

/* What the NPU adds to a group while decoding: int8 channels of its sensitive members. */
struct plan_entry {
    double bytes; /* 0: nothing */
    uint32_t tasks;
    bool late; /* writes the residual stream: may come layers later */
};

struct pending {
    bool used, late, lost;
    uint32_t due_layer; /* counted over the whole run */
};

struct state {
    const struct ork_simulate_job *job;
    ork_simulation *result;
    struct ork_bus bus;
    uint64_t random;
    struct plan_entry plan[ORK_SHAPE_LAYERS_MAX][ORK_SHAPE_LAST];
    struct pending pending[ORK_LANE_COUNT];
    uint64_t layers_done;
    bool overlay; /* chains are submitted */
    bool rows_on_npu;
};

static bool is_sensitive(enum ork_shape_role role)
{
    return role == ORK_SHAPE_MIXER || role == ORK_SHAPE_DENSE || role == ORK_SHAPE_SHARED;
}

static bool writes_residual(enum ork_shape_part part)
{
    return part == ORK_SHAPE_OUTPUT || part == ORK_SHAPE_DOWN;
}

static const char *part_name(enum ork_shape_part part)
{
    static const char *const names[] = {"input", "core", "output", "route", "up", "down", "head"};
    return names[part];
}

/* A lane's worth of CPU work. */
struct work {
    double bytes, seconds; /* seconds: without the bus, and without the region's start */
};

static enum ork_tier tier_read(const struct state *s, enum ork_shape_role role)
{
    const enum ork_tier tier = s->job->shape->tier[role];
    return s->job->nested_base && is_sensitive(role) ? ORK_TIER_NF4 : tier;
}

static void work_read(const struct state *s, enum ork_tier tier, double bytes, struct work *work)
{
    const struct ork_system_figures *ork = &s->job->board->ork;
    work->bytes += bytes;
    work->seconds += bytes / (ork_tier_find(tier)->bits_per_weight < 8 ? ork->bytes_per_s_4 : ork->bytes_per_s_8);
}

/* Attention, convolution or recurrence of `rows` tokens behind `context` positions. */
static void work_core(const struct state *s, uint32_t layer, double rows, double context, struct work *work)
{
    const struct ork_shape *shape = s->job->shape;
    const struct ork_system_figures *ork = &s->job->board->ork;
    double bytes = 0, macs = 0;
    if (shape->mixer[layer] == ORK_SHAPE_ATTENTION) {
        const double positions = context + (rows + 1) / 2;
        bytes = 4.0 * shape->heads_kv * shape->head_width * (context + rows);
        macs = 2.0 * shape->heads * shape->head_width * positions * rows;
    } else if (shape->mixer[layer] == ORK_SHAPE_DELTA) {
        const double cells = (double)shape->delta_value_heads * shape->delta_head_width * shape->delta_head_width;
        bytes = 2 * 4 * cells; /* read and written once a pass */
        macs = 4 * cells * rows;
    } else {
        macs = (double)shape->convolution_length * shape->width * rows;
    }
    const double stream_s = bytes / ork->bytes_per_s_8, compute_s = macs / ork->float_macs_per_s;
    work->bytes += bytes;
    work->seconds += stream_s > compute_s ? stream_s : compute_s;
}

/* One token's share of a group on the CPU. */
static struct work work_token(const struct state *s, const struct ork_shape_group *group, double context)
{
    struct work work = {0, 0};
    if (group->part == ORK_SHAPE_CORE)
        work_core(s, group->layer, 1, context, &work);
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_shape_member *member = &group->members[i];
        const enum ork_tier tier = tier_read(s, member->role);
        work_read(s, tier, (double)ork_shape_matrix_bytes(tier, member->n, member->k) * member->count, &work);
    }
    return work;
}

static void cpu_start(struct state *s, const struct ork_shape_group *group, const struct work *work)
{
    const double wait_s = s->job->board->ork.region_us * 1e-6;
    const bool draws = work->bytes > 0 && work->seconds > 0;
    ork_bus_start(&s->bus, ORK_LANE_CPU, part_name(group->part), group->layer, wait_s + (draws ? 0 : work->seconds),
                  draws ? work->bytes : 0, draws ? work->bytes / work->seconds : 0);
}

static double chain_fixed_s(const struct state *s, uint32_t tasks)
{
    const struct ork_npu_profile *npu = &s->job->board->npu;
    return (s->job->submit_us + npu->complete_us + npu->task_us * tasks) * 1e-6;
}

/* Fills a window with channels of the group's sensitive members, narrowest first, 64 channels at a time. own_s: the group's
 * own CPU time, of which a chain may cost a part, however long it has. */
static struct plan_entry plan_window(const struct state *s, const struct ork_shape_group *group, double window_s,
                                     double own_s, double cpu_rate, double budget)
{
    const struct ork_simulate_board *board = s->job->board;
    struct plan_entry entry = {0, 0, false};
    const double own = board->npu.core_bytes_per_s, total = own + cpu_rate;
    const double rate = total > s->bus.limit ? own * s->bus.limit / total : own;
    /* What the CPU loses of each second that both draw, and how long that may be. */
    const double loss = total > s->bus.limit ? 1 - s->bus.limit / total : 0;
    const double allowed_s = board->ork.slowdown_max * own_s - board->ork.poll_us * 1e-6;
    const double most = loss > 0 ? allowed_s / loss * rate : allowed_s > 0 ? budget : 0;
    budget = most < budget ? most : budget;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_shape_member *member = &group->members[i];
        const double unit = 64.0 * member->k;
        double room =
            window_s * board->ork.margin - board->ork.submit_jitter_us * 1e-6 - chain_fixed_s(s, entry.tasks + 1);
        room = room * rate - entry.bytes;
        room = room < budget - entry.bytes ? room : budget - entry.bytes;
        if (!is_sensitive(member->role) || room < unit)
            continue;
        const double all = (double)member->n * member->k, some = (double)(uint64_t)(room / unit) * unit;
        entry.bytes += some < all ? some : all;
        entry.tasks++;
    }
    return entry;
}

/* What is overlaid is decided once, at load. */
static void plan_make(struct state *s, bool late)
{
    const struct ork_shape *shape = s->job->shape;
    double budget = s->job->board->ork.domain_bytes, sensitive = 0;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        struct ork_shape_group group;
        double layer_s = 0;
        for (int part = 0; part < ORK_SHAPE_LAST; part++) {
            ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
            layer_s += work_token(s, &group, s->job->context).seconds + s->job->board->ork.region_us * 1e-6;
        }
        for (int part = 0; part < ORK_SHAPE_LAST; part++) {
            ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
            for (uint32_t i = 0; i < group.member_count; i++)
                if (is_sensitive(group.members[i].role))
                    sensitive += (double)group.members[i].n * group.members[i].k;
            const struct work work = work_token(s, &group, s->job->context);
            const bool residual = late && writes_residual(group.part);
            /* A late chain has a layer's time: in the long run a core gets no more than one such chain a layer. */
            const double own_s = work.seconds + s->job->board->ork.region_us * 1e-6;
            struct plan_entry entry =
                plan_window(s, &group, residual ? layer_s : own_s, own_s, work.bytes / work.seconds, budget);
            entry.late = residual;
            budget -= entry.bytes;
            s->plan[layer][part] = entry;
            s->result->overlay_planned += entry.bytes > 0;
            s->result->npu_resident_bytes += (uint64_t)entry.bytes;
        }
    }
    s->result->overlay_coverage = sensitive > 0 ? (double)s->result->npu_resident_bytes / sensitive : 0;
}

/* Never waits: without a free core the chain is left out. Returns its lane, or 0. */
static int overlay_submit(struct state *s, const struct ork_shape_group *group)
{
    const struct plan_entry *entry = &s->plan[group->layer][group->part];
    const struct ork_simulate_board *board = s->job->board;
    if (!s->overlay || group->part >= ORK_SHAPE_LAST || entry->bytes <= 0)
        return 0;
    int lane = ORK_LANE_NPU;
    while (lane < ORK_LANE_NPU + (int)board->npu.cores && (s->bus.lanes[lane].live || s->pending[lane].used))
        lane++;
    if (lane == ORK_LANE_NPU + (int)board->npu.cores) {
        s->result->overlay_busy++;
        return 0;
    }
    const double jitter_s = board->ork.submit_jitter_us * 1e-6 * ork_simulate_chance(&s->random);
    const bool lost = ork_simulate_chance(&s->random) < board->ork.lost_chance;
    s->result->overlay_submitted++;
    s->pending[lane] = (struct pending){true, entry->late, lost, (uint32_t)s->layers_done + s->job->late_layers};
    if (lost)
        ork_bus_start(&s->bus, lane, "lost", group->layer, board->npu.reset_us * 1e-6, 0, 0);
    else
        ork_bus_start(&s->bus, lane, part_name(group->part), group->layer, chain_fixed_s(s, entry->tasks) + jitter_s,
                      entry->bytes, board->npu.core_bytes_per_s);
    return lane;
}

/* One look at a chain. A dropped one keeps its core until it is over. */
static void overlay_poll(struct state *s, int lane, bool last)
{
    struct pending *pending = &s->pending[lane];
    if (!lane || !pending->used || (s->bus.lanes[lane].live && !last && !pending->lost))
        return;
    if (pending->lost)
        s->result->overlay_lost++;
    else if (s->bus.lanes[lane].live)
        s->result->overlay_late++;
    else
        s->result->overlay_in_time++;
    pending->used = false;
    ork_bus_pass(&s->bus, s->job->board->ork.poll_us * 1e-6);
}

static void token(struct state *s, double context)
{
    const struct ork_shape *shape = s->job->shape;
    struct ork_shape_group group;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        for (int part = 0; part < ORK_SHAPE_LAST; part++) {
            ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
            if (!group.member_count && part != ORK_SHAPE_CORE)
                continue;
            const int lane = overlay_submit(s, &group);
            const struct work work = work_token(s, &group, context);
            cpu_start(s, &group, &work);
            ork_bus_wait(&s->bus, ORK_LANE_CPU);
            if (lane && !s->pending[lane].late)
                overlay_poll(s, lane, true);
        }
        s->layers_done++;
        for (int lane = ORK_LANE_NPU; lane < ORK_LANE_COUNT; lane++)
            if (s->pending[lane].used)
                overlay_poll(s, lane, s->layers_done >= s->pending[lane].due_layer);
    }
    ork_shape_group(shape, shape->layers, ORK_SHAPE_LAST, &group);
    const struct work work = work_token(s, &group, context);
    cpu_start(s, &group, &work);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
}

/* Seconds a token. */
static double decode(struct state *s, bool overlay)
{
    const struct ork_simulate_job *job = s->job;
    struct ork_simulate_record *record = s->bus.record;
    const double begin_s = s->bus.now_s;
    s->overlay = overlay;
    for (uint32_t i = 0; i < job->tokens; i++) {
        if (record)
            record->on = overlay == s->rows_on_npu && i + 1 == job->tokens;
        token(s, (double)job->context + job->prompt + i);
    }
    if (record)
        record->on = false;
    for (int lane = ORK_LANE_NPU; lane < ORK_LANE_COUNT; lane++)
        overlay_poll(s, lane, true);
    return (s->bus.now_s - begin_s) / job->tokens;
}

/* A joined matmul of many rows on all cores, with the host's share as the published library has it. */
static double npu_matmul_s(const struct ork_npu_profile *npu, uint32_t m, uint32_t k, uint32_t n)
{
    const uint32_t cores = npu->cores, share = (uint32_t)ork_round_up(ork_divide_up(n, cores), 32);
    const enum ork_npu_surface input = ork_npu_best_input(ORK_NPU_W8A8, k, m);
    const uint32_t rows = ork_npu_rows_max(ORK_NPU_W8A8, input, k);
    struct ork_npu_work work;
    memset(&work, 0, sizeof work);
    if (!rows)
        return 1e9; /* not possible in one pass: the CPU's */
    for (uint32_t i = 0; i < m; i += rows)
        for (uint32_t j = 0; j < share; j += ORK_NPU_N_MAX) {
            const struct ork_npu_shape shape = {ORK_NPU_W8A8,
                                                input,
                                                ORK_NPU_NATIVE,
                                                m - i < rows ? m - i : rows,
                                                k,
                                                share - j < ORK_NPU_N_MAX ? share - j : ORK_NPU_N_MAX};
            ork_npu_work_add(&work, &shape);
        }
    return ork_npu_timing_job(npu, &work, cores) + (npu->submit_us + npu->complete_us + npu->host_call_us) * 1e-6 +
           cores * npu->host_core_us * 1e-6 + 4.0 * m * n / (npu->host_surface_bytes_per_s * cores) +
           (double)m * k / npu->host_bytes_per_s;
}

/* Rows of the batch through one member on the CPU. */
static void work_rows(const struct state *s, const struct ork_shape_member *member, uint32_t rows,
                      const uint32_t *rows_of, uint32_t active, struct work *work)
{
    const struct ork_system_figures *ork = &s->job->board->ork;
    const enum ork_tier tier = s->job->shape->tier[member->role];
    double padded = rows;
    if (member->role == ORK_SHAPE_EXPERT) {
        padded = 0;
        for (uint32_t i = 0; i < s->job->shape->experts; i++)
            padded += (double)ork_round_up(rows_of[i], 4); /* register tiles of 4 rows */
    }
    const double matrices = member->role == ORK_SHAPE_EXPERT ? active : 1;
    struct work read = {0, 0};
    work_read(s, tier, (double)ork_shape_matrix_bytes(tier, member->n, member->k) * matrices, &read);
    const double compute_s = padded * member->n * member->k / ork->macs_per_s;
    work->bytes += read.bytes;
    work->seconds += read.seconds > compute_s ? read.seconds : compute_s;
}

static void batch_group(struct state *s, const struct ork_shape_group *group, uint32_t rows, double context)
{
    const struct ork_simulate_job *job = s->job;
    struct work work = {0, 0};
    double npu_s = 0, npu_bytes = 0;
    uint32_t rows_of[1024], active = 0;
    memset(rows_of, 0, sizeof rows_of);
    if (group->part == ORK_SHAPE_CORE)
        work_core(s, group->layer, rows, context, &work);
    if (group->part == ORK_SHAPE_UP || group->part == ORK_SHAPE_DOWN)
        active = ork_simulate_choose(&s->random, job->shape->experts, job->shape->experts_used, rows, rows_of);
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_shape_member *member = &group->members[i];
        struct work own = {0, 0};
        work_rows(s, member, rows, rows_of, active, &own);
        const bool offered = s->rows_on_npu && is_sensitive(member->role) && rows >= job->board->ork.npu_rows_min;
        const double on_npu_s = offered ? npu_matmul_s(&job->board->npu, rows, member->k, member->n) : 0;
        if (offered && on_npu_s < own.seconds) {
            npu_s += on_npu_s;
            npu_bytes += (double)member->k * member->n + (double)rows * (member->k + 4.0 * member->n);
        } else {
            work.bytes += own.bytes;
            work.seconds += own.seconds;
        }
    }
    if (npu_s > 0)
        ork_bus_start(&s->bus, ORK_LANE_NPU, part_name(group->part), group->layer, 0, npu_bytes, npu_bytes / npu_s);
    cpu_start(s, group, &work);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    ork_bus_wait(&s->bus, ORK_LANE_NPU);
}

/* Seconds of the whole prompt. */
static double prefill(struct state *s)
{
    const struct ork_simulate_job *job = s->job;
    const double begin_s = s->bus.now_s;
    struct ork_shape_group group;
    for (uint32_t done = 0; done < job->prompt; done += ORK_SIMULATE_BATCH) {
        const uint32_t left = job->prompt - done, rows = left < ORK_SIMULATE_BATCH ? left : ORK_SIMULATE_BATCH;
        for (uint32_t layer = 0; layer < job->shape->layers; layer++)
            for (int part = 0; part < ORK_SHAPE_LAST; part++) {
                ork_shape_group(job->shape, layer, (enum ork_shape_part)part, &group);
                if (group.member_count || part == ORK_SHAPE_CORE)
                    batch_group(s, &group, rows, (double)job->context + done);
            }
    }
    ork_shape_group(job->shape, job->shape->layers, ORK_SHAPE_LAST, &group);
    const struct work work = work_token(s, &group, 0); /* only the last token needs logits */
    cpu_start(s, &group, &work);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
    return s->bus.now_s - begin_s;
}

/* Bytes of all matrices that prompts take to the NPU. */
static double rows_resident(const struct ork_shape *shape)
{
    double total = 0;
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        for (int part = 0; part < ORK_SHAPE_LAST; part++) {
            struct ork_shape_group group;
            ork_shape_group(shape, layer, (enum ork_shape_part)part, &group);
            for (uint32_t i = 0; i < group.member_count; i++)
                if (is_sensitive(group.members[i].role))
                    total += (double)group.members[i].n * group.members[i].k;
        }
    return total;
}

static void results_fill(struct state *s, double prefill_s, double decode_s, double alone_s)
{
    const struct ork_simulate_job *job = s->job;
    ork_simulation *result = s->result;
    result->prefill_tokens_per_second = job->prompt / prefill_s;
    result->decode_tokens_per_second = 1 / decode_s;
    result->decode_alone_tokens_per_second = 1 / alone_s;
    const uint64_t polled = result->overlay_in_time + result->overlay_late + result->overlay_lost;
    result->overlay_hit_rate = polled ? (double)result->overlay_in_time / (double)polled : 0;
    if (s->rows_on_npu) {
        /* The prompt's set holds the overlay's: the same int8 bytes. */
        result->npu_resident_bytes = (uint64_t)rows_resident(job->shape);
        result->npu_domains = (uint32_t)(rows_resident(job->shape) / job->board->ork.domain_bytes) + 1;
    }
}

void ork_simulate_ork(const struct ork_simulate_job *job, ork_policy policy, ork_simulation *result,
                      struct ork_simulate_record *record)
{
    struct state s;
    memset(&s, 0, sizeof s);
    s.job = job;
    s.result = result;
    s.random = job->seed;
    s.bus.limit = job->board->ork.bus_bytes_per_s * job->bus_share;
    s.bus.record = record;
    s.rows_on_npu = policy != ORK_POLICY_CPU;
    if (s.rows_on_npu)
        plan_make(&s, policy == ORK_POLICY_LATE);
    const double prefill_s = prefill(&s);
    const double alone_s = decode(&s, false);
    /* Chances and busy times of the decode phase proper start here. */
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        s.bus.lanes[lane].busy_s = 0;
    const double begin_s = s.bus.now_s, decode_s = s.rows_on_npu ? decode(&s, true) : alone_s;
    for (int lane = 0; lane < ORK_LANE_COUNT && s.bus.now_s > begin_s; lane++)
        result->busy_share[lane] = s.bus.lanes[lane].busy_s / (s.bus.now_s - begin_s);
    if (!s.rows_on_npu)
        result->busy_share[0] = 1;
    results_fill(&s, prefill_s, decode_s, alone_s);
}
