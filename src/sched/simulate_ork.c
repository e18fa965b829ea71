/* Owns the prediction for ork itself: the dispatcher's routes and plan on a virtual clock, with chains that take longer than
 * planned or never start. Must not know formulas of times, which are the perf model's, nor the published system. */
#include "sched/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/npu/engine.h"
#include "engine/npu/tuning.h"

/* Late chains that may wait for the core, the running one included. */
enum { SLOTS = ORK_NPU_OVERLAY_SLOTS };

struct chain {
    const struct ork_plan_entry *entry;
    bool done, lost, dropped; /* dropped: keeps the core, and nobody will look */
    double jitter_s;
    uint32_t due_layer;
};

/* A group in a batch of a prompt. */
struct batch {
    bool plain_resident; /* matrices that all rows read stand in the NPU's memory */
    double resident;     /* the part of its experts that does */
    bool on_npu, on_cpu;
    struct ork_perf_time npu, npu_experts; /* what is routed there with all its experts, and those alone */
    struct ork_perf_time cpu, cpu_experts; /* the rest, and what absent experts are computed in */
    double absent_bytes;                   /* int8 */
};

struct state {
    const struct ork_simulate_job *job;
    const struct ork_model_shape *shape;
    ork_simulation *result;
    struct ork_bus bus;
    uint64_t random;
    struct ork_plan plan;
    bool base;    /* the CPU reads base planes while decoding */
    bool late;    /* results may come some layers later */
    bool overlay; /* chains are submitted */
    /* In the order of their submits; the oldest that is not over has the core. */
    struct chain chains[SLOTS];
    size_t chain_count;
    bool on_npu;           /* prompts use the NPU */
    struct batch *batches; /* [group_count] */
    uint32_t batch_rows;   /* that they are predicted for */
    double absent_bytes;   /* int8, that the prompt's batches would have taken to the NPU */
};

/* ---- the CPU ---- */

static void cpu_run(struct state *s, const char *what, uint32_t layer, const struct ork_perf_time *time)
{
    const double stream_s = time->transfer_s + time->compute_s;
    const bool draws = stream_s > 0 && time->bytes > 0;
    ork_bus_start(&s->bus, ORK_LANE_CPU, what, layer, time->fixed_s + (draws ? 0 : stream_s), draws ? time->bytes : 0,
                  draws ? time->bytes / stream_s : 0);
}

static void cpu_rest(struct state *s)
{
    const struct ork_perf_time time = {.fixed_s = ork_perf_predict_rest(&s->job->perf, s->shape)};
    cpu_run(s, "embedding", 0, &time);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
}

/* Attention, convolution or recurrence stand behind a layer's first group. */
static bool has_core(const struct state *s, size_t i)
{
    const struct ork_group *groups = s->shape->groups;
    return groups[i].layer < s->shape->layer_count && (!i || groups[i - 1].layer != groups[i].layer);
}

static void cpu_core(struct state *s, uint32_t layer, uint32_t rows, uint32_t context)
{
    const struct ork_perf_time time = ork_perf_predict_core(&s->job->perf, &s->shape->layers[layer], rows, context);
    cpu_run(s, "core", layer, &time);
    ork_bus_wait(&s->bus, ORK_LANE_CPU);
}

/* ---- chains, one after the other on the first core ---- */

static void chain_start(struct state *s)
{
    const struct chain *chain = NULL;
    for (size_t i = 0; i < s->chain_count && !chain; i++)
        chain = s->chains[i].done ? NULL : &s->chains[i];
    if (!chain)
        return;
    const struct ork_group *group = &s->shape->groups[chain->entry->group];
    const struct ork_group own = ork_plan_chain(group, chain->entry);
    const struct ork_perf_time time = ork_perf_predict_chain(&s->job->perf, &own, (1u << own.member_count) - 1);
    const char *what = ork_group_kind_name(group->kind);
    if (chain->lost)
        ork_bus_start(&s->bus, ORK_LANE_NPU, "lost", group->layer, s->job->perf.npu.reset_us * 1e-6, 0, 0);
    else
        ork_bus_start(&s->bus, ORK_LANE_NPU, what, group->layer, time.fixed_s + time.transfer_s + chain->jitter_s,
                      time.bytes, time.bytes / time.compute_s);
}

static void chain_remove(struct state *s, size_t i)
{
    s->chain_count--;
    memmove(&s->chains[i], &s->chains[i + 1], (s->chain_count - i) * sizeof *s->chains);
}

static void chain_idle(void *context, int lane)
{
    struct state *s = context;
    if (lane != ORK_LANE_NPU || !s->overlay)
        return;
    for (size_t i = 0; i < s->chain_count; i++)
        if (!s->chains[i].done) {
            s->chains[i].done = true;
            if (s->chains[i].dropped)
                chain_remove(s, i);
            break;
        }
    chain_start(s);
}

/* Never waits: a chain at the join finds the core idle, a late one a slot, or it is left out. */
static void overlay_submit(struct state *s, const struct ork_plan_entry *entry)
{
    const struct ork_system_figures *figures = &s->job->board->ork;
    if (s->chain_count == SLOTS || (!s->late && s->bus.lanes[ORK_LANE_NPU].live)) {
        s->result->overlay_busy++;
        return;
    }
    s->result->overlay_submitted++;
    const double jitter_s = s->job->delay_s + figures->submit_jitter_us * 1e-6 * ork_simulate_chance(&s->random);
    s->chains[s->chain_count++] =
        (struct chain){.entry = entry,
                       .jitter_s = jitter_s,
                       .lost = ork_simulate_chance(&s->random) < figures->lost_chance,
                       .due_layer = s->shape->groups[entry->group].layer + s->job->late_layers};
    if (!s->bus.lanes[ORK_LANE_NPU].live)
        chain_start(s);
}

/* One look at every chain that is due. What is not there is dropped, and keeps its slot and the core until it is over. */
static void overlay_poll(struct state *s, uint32_t layer, bool last)
{
    for (size_t i = 0; i < s->chain_count;) {
        struct chain *chain = &s->chains[i];
        if (chain->dropped || !(last || chain->due_layer <= layer)) {
            i++;
            continue;
        }
        if (chain->lost)
            s->result->overlay_lost++;
        else if (chain->done)
            s->result->overlay_in_time++;
        else
            s->result->overlay_late++;
        chain->dropped = true;
        if (chain->done)
            chain_remove(s, i);
        else
            i++;
        /* The CPU looks, and adds the result; a chain that ends meanwhile changes the list behind the next look. */
        ork_bus_pass(&s->bus, ORK_NPU_OVERLAY_CALLS_S);
        i = 0;
    }
}

/* ---- decoding ---- */

static void token(struct state *s, uint32_t context)
{
    const struct ork_group *groups = s->shape->groups;
    size_t next = 0; /* entry of the plan */
    cpu_rest(s);
    for (size_t i = 0; i < s->shape->group_count; i++) {
        const struct ork_group *group = &groups[i];
        const bool head = group->kind == ORK_GROUP_HEAD;
        if (s->overlay && s->late && (head || !i || groups[i - 1].layer != group->layer))
            overlay_poll(s, group->layer, head);
        const bool planned = next < s->plan.entry_count && s->plan.entries[next].group == i;
        if (planned && s->overlay)
            overlay_submit(s, &s->plan.entries[next]);
        next += planned;
        const struct ork_perf_time time = ork_perf_predict_cpu(&s->job->perf, group, 1, s->base);
        cpu_run(s, ork_group_kind_name(group->kind), group->layer, &time);
        ork_bus_wait(&s->bus, ORK_LANE_CPU);
        if (planned && s->overlay && !s->late)
            overlay_poll(s, group->layer, true);
        if (has_core(s, i))
            cpu_core(s, group->layer, 1, context);
    }
    if (s->overlay)
        overlay_poll(s, 0, true); /* a model without a head */
}

/* Seconds a token. */
static double decode(struct state *s, bool overlay)
{
    const struct ork_simulate_job *job = s->job;
    struct ork_simulate_record *record = s->bus.record;
    const double begin_s = s->bus.now_s;
    s->overlay = overlay;
    for (uint32_t i = 0; i < job->tokens; i++) {
        record->on = overlay == s->on_npu && i + 1 == job->tokens;
        token(s, job->context + job->prompt + i);
    }
    record->on = false;
    return (s->bus.now_s - begin_s) / job->tokens;
}

/* ---- the prompt ---- */

static struct ork_group subset(const struct ork_group *group, uint32_t members)
{
    struct ork_group result = {.kind = group->kind, .layer = group->layer};
    for (uint32_t i = 0; i < group->member_count; i++)
        if (members & (1u << i))
            result.members[result.member_count++] = group->members[i];
    return result;
}

/* int8 bytes of the members that `rows` rows read. */
static double int8_bytes(const struct ork_group *group, uint32_t members, uint32_t rows)
{
    double bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        if (members & (1u << i))
            bytes +=
                ork_group_distinct(member->experts, member->experts_used, rows) * (double)ork_group_brick_bytes(member);
    }
    return bytes;
}

static uint32_t stacks_of(const struct ork_group *group)
{
    uint32_t members = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        members |= group->members[i].experts > 1 ? 1u << i : 0;
    return members;
}

/* Logits are wanted of the last row alone. */
static uint32_t rows_of(const struct ork_group *group, uint32_t rows)
{
    return group->kind == ORK_GROUP_HEAD ? 1 : rows;
}

/* Members that a pass of so many rows takes to the NPU: each has a route of its own, as sessions hand them over. */
static uint32_t routed(const struct state *s, const struct ork_group *group, uint32_t rows)
{
    const struct ork_route_query query = {.rows = rows_of(group, rows),
                                          .resident = true,
                                          .engine = s->on_npu ? ORK_ROUTE_ENGINE_IS_FREE : ORK_ROUTE_ENGINE_IS_OFF,
                                          .policy = s->job->policy};
    uint32_t members = 0;
    for (uint32_t i = 0; s->on_npu && i < group->member_count; i++) {
        const struct ork_group one = subset(group, 1u << i);
        if (ork_route_choose(&s->job->perf, &one, &query).route == ORK_ROUTE_NPU)
            members |= 1u << i;
    }
    return members;
}

/* What stands in the NPU's memory, as the engine fills it: matrices that all rows read, then experts, a layer after the
 * other, as far as memory goes. */
static void fill_memory(struct state *s, uint32_t rows)
{
    double left = (double)s->job->npu_memory_bytes, used = 0;
    for (int stacks = 0; stacks < 2; stacks++)
        for (size_t i = 0; i < s->shape->group_count; i++) {
            const struct ork_group *group = &s->shape->groups[i];
            const uint32_t of_kind = stacks ? stacks_of(group) : ~stacks_of(group),
                           members = routed(s, group, rows) & of_kind;
            const double bytes = int8_bytes(group, members, UINT32_MAX), taken = bytes < left ? bytes : left;
            if (!members)
                continue;
            if (stacks)
                s->batches[i].resident = taken / bytes; /* experts one by one */
            else
                s->batches[i].plain_resident = taken == bytes;
            if (stacks || taken == bytes) {
                used += taken;
                left -= taken;
            }
        }
    s->result->npu_resident_bytes = (uint64_t)used;
}

/* Times of a batch of `rows` rows, for each group. */
static void predict(struct state *s, uint32_t rows)
{
    if (rows == s->batch_rows)
        return;
    for (size_t i = 0; i < s->shape->group_count; i++) {
        const struct ork_group *group = &s->shape->groups[i];
        struct batch *batch = &s->batches[i];
        const uint32_t own_rows = rows_of(group, rows), members = routed(s, group, rows), stacks = stacks_of(group);
        const uint32_t plain = batch->plain_resident ? members & ~stacks : 0, experts = members & stacks;
        const struct ork_group npu = subset(group, plain | experts), npu_experts = subset(group, experts),
                               cpu = subset(group, ~(plain | experts));
        batch->npu = npu.member_count ? ork_perf_predict_npu(&s->job->perf, &npu, own_rows) : (struct ork_perf_time){0};
        batch->npu_experts =
            experts ? ork_perf_predict_npu(&s->job->perf, &npu_experts, own_rows) : (struct ork_perf_time){0};
        batch->cpu = ork_perf_predict_cpu(&s->job->perf, &cpu, own_rows, s->job->model->base_alone);
        batch->cpu_experts = ork_perf_predict_cpu(&s->job->perf, &npu_experts, own_rows, s->job->model->base_alone);
        batch->on_npu = npu.member_count > 0;
        batch->on_cpu = cpu.member_count > 0;
        batch->absent_bytes = int8_bytes(group, experts, own_rows) * (1 - batch->resident) +
                              (batch->plain_resident ? 0 : int8_bytes(group, members & ~stacks, own_rows));
    }
    s->batch_rows = rows;
}

/* a + part * b, but the fixed cost is that of a. */
static struct ork_perf_time sum(const struct ork_perf_time *a, const struct ork_perf_time *b, double part)
{
    return (struct ork_perf_time){.fixed_s = a->fixed_s,
                                  .transfer_s = a->transfer_s + part * b->transfer_s,
                                  .compute_s = a->compute_s + part * b->compute_s,
                                  .bytes = a->bytes + part * b->bytes};
}

/* Both engines at once, joined: the CPU has what is not routed to the NPU, and experts that are absent. */
static void batch_group(struct state *s, size_t i)
{
    const struct ork_group *group = &s->shape->groups[i];
    const struct batch *batch = &s->batches[i];
    const char *what = ork_group_kind_name(group->kind);
    const int cores = (int)s->job->perf.npu.cores;
    const double absent = 1 - batch->resident;
    const struct ork_perf_time npu = sum(&batch->npu, &batch->npu_experts, -absent),
                               cpu = sum(&batch->cpu, &batch->cpu_experts, absent);
    s->absent_bytes += batch->absent_bytes;
    for (int core = 0; batch->on_npu && npu.bytes >= 1 && core < cores; core++)
        ork_bus_start(&s->bus, ORK_LANE_NPU + core, what, group->layer, npu.fixed_s + npu.transfer_s, npu.bytes / cores,
                      npu.bytes / cores / npu.compute_s);
    if (batch->on_cpu || cpu.bytes >= 1)
        cpu_run(s, what, group->layer, &cpu);
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        ork_bus_wait(&s->bus, lane);
}

/* Seconds of the whole prompt. */
static double prefill(struct state *s)
{
    const struct ork_simulate_job *job = s->job;
    const struct ork_group *groups = s->shape->groups;
    const double begin_s = s->bus.now_s;
    for (uint32_t done = 0; done < job->prompt; done += ORK_SIMULATE_BATCH) {
        const uint32_t left = job->prompt - done, rows = left < ORK_SIMULATE_BATCH ? left : ORK_SIMULATE_BATCH;
        predict(s, rows);
        cpu_rest(s);
        for (size_t i = 0; i < s->shape->group_count; i++) {
            if (groups[i].kind == ORK_GROUP_HEAD && left > rows)
                continue;
            batch_group(s, i);
            if (has_core(s, i))
                cpu_core(s, groups[i].layer, rows, job->context + done);
        }
    }
    return s->bus.now_s - begin_s;
}

/* ---- results ---- */

static void plan_results(const struct state *s)
{
    ork_simulation *result = s->result;
    const struct ork_plan *plan = &s->plan;
    result->overlay_planned = plan->entry_count;
    result->overlay_limit = ork_route_limit_name(plan->limit);
    result->overlay_coverage = plan->sensitive_bytes ? (double)plan->resident_bytes / (double)plan->sensitive_bytes : 0;
}

static void results_fill(const struct state *s, double prefill_s, double decode_s, double alone_s)
{
    const struct ork_simulate_job *job = s->job;
    ork_simulation *result = s->result;
    result->prefill_tokens_per_second = job->prompt / prefill_s;
    result->decode_tokens_per_second = 1 / decode_s;
    result->decode_alone_tokens_per_second = 1 / alone_s;
    const uint64_t polled = result->overlay_in_time + result->overlay_late + result->overlay_lost;
    result->overlay_hit_rate = polled ? (double)result->overlay_in_time / (double)polled : 0;
    if (!s->on_npu)
        return;
    result->npu_resident_bytes += s->plan.resident_bytes; /* chains have memory of their own */
    result->npu_domains = (uint32_t)ceil((double)result->npu_resident_bytes / job->board->ork.domain_bytes);
    result->npu_fill_seconds = (double)result->npu_resident_bytes / job->perf.swap_bytes_per_s;
    ork_simulate_swap(job, s->absent_bytes, prefill_s, &result->prompt_swap);
}

void ork_simulate_swap(const struct ork_simulate_job *job, double bytes, double phase_s, ork_simulation_swap *swap)
{
    const double seconds = bytes / job->perf.swap_bytes_per_s;
    *swap = (ork_simulation_swap){.bytes = (uint64_t)bytes,
                                  .hidden_seconds = seconds < phase_s ? seconds : phase_s,
                                  .exposed_seconds = seconds < phase_s ? 0 : seconds - phase_s};
}

ork_status ork_simulate_ork(const struct ork_simulate_job *job, ork_policy policy, ork_simulation *result,
                            struct ork_simulate_record *record, ork_error *error)
{
    const size_t count = job->model->shape->group_count;
    ork_status status = ORK_OK;
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return ork_error_no_memory(error, "simulation", sizeof *s);
    s->batches = calloc(count, sizeof *s->batches);
    if (!s->batches) {
        status = ork_error_no_memory(error, "simulation", count * sizeof *s->batches);
        goto out;
    }
    s->job = job;
    s->shape = job->model->shape;
    s->result = result;
    s->random = job->seed;
    s->bus.limit = job->perf.bus_bytes_per_s;
    s->bus.record = record;
    s->bus.idle = chain_idle;
    s->bus.context = s;
    s->on_npu = policy != ORK_POLICY_CPU;
    s->base = s->on_npu || job->model->base_alone;
    s->late = policy == ORK_POLICY_LATE;
    if (s->on_npu) {
        const struct ork_plan_params params = {.policy = job->policy,
                                               .late_layers = s->late ? job->late_layers : 0,
                                               .memory_bytes = (uint64_t)job->board->ork.domain_bytes,
                                               .poll_s = ORK_NPU_OVERLAY_CALLS_S};
        status = ork_plan_make(&job->perf, s->shape, &params, job->context + job->prompt, &s->plan, error);
        if (status != ORK_OK)
            goto out;
        plan_results(s);
        fill_memory(s, job->prompt < ORK_SIMULATE_BATCH ? job->prompt : ORK_SIMULATE_BATCH);
    }
    const double prefill_s = prefill(s), alone_s = decode(s, false);
    /* Chances and busy times of the decode phase proper start here. */
    for (int lane = 0; lane < ORK_LANE_COUNT; lane++)
        s->bus.lanes[lane].busy_s = 0;
    const double begin_s = s->bus.now_s, decode_s = s->on_npu ? decode(s, true) : alone_s;
    for (int lane = 0; lane < ORK_LANE_COUNT && s->bus.now_s > begin_s; lane++)
        result->busy_share[lane] = s->bus.lanes[lane].busy_s / (s->bus.now_s - begin_s);
    if (!s->on_npu)
        result->busy_share[0] = 1;
    results_fill(s, prefill_s, decode_s, alone_s);
out:
    ork_plan_free(&s->plan);
    free(s->batches);
    free(s);
    return status;
}
