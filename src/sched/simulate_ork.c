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
    bool on_npu; /* prompts use the NPU */
    /* [group_count] each: the route of a batch of chosen_rows rows, and the part of a group that stands in the NPU's memory. */
    struct ork_route_choice *choices;
    double *resident;
    uint32_t chosen_rows;
    double absent_bytes; /* int8, that the prompt's batches would have taken to the NPU */
};

/* ---- the CPU ---- */

static void cpu_run(struct state *s, const char *what, uint32_t layer, const struct ork_perf_time *time, double part)
{
    const double stream_s = (time->transfer_s + time->compute_s) * part, bytes = time->bytes * part;
    const bool draws = stream_s > 0 && bytes > 0;
    ork_bus_start(&s->bus, ORK_LANE_CPU, what, layer, time->fixed_s + (draws ? 0 : stream_s), draws ? bytes : 0,
                  draws ? bytes / stream_s : 0);
}

static void cpu_rest(struct state *s)
{
    const struct ork_perf_time time = {.fixed_s = ork_perf_predict_rest(&s->job->perf, s->shape)};
    cpu_run(s, "embedding", 0, &time, 1);
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
    cpu_run(s, "core", layer, &time, 1);
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
    const struct ork_perf_time time = ork_perf_predict_chain(&s->job->perf, group, chain->entry->members);
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
        cpu_run(s, ork_group_kind_name(group->kind), group->layer, &time, 1);
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

/* int8 bytes of a group's matrices that `rows` rows read. */
static double int8_bytes(const struct ork_group *group, uint32_t rows)
{
    double bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        bytes +=
            ork_group_distinct(member->experts, member->experts_used, rows) * (double)ork_group_brick_bytes(member);
    }
    return bytes;
}

static bool is_stack(const struct ork_group *group)
{
    return group->member_count && group->members[0].experts > 1;
}

/* Logits are wanted of the last row alone. */
static uint32_t rows_of(const struct ork_group *group, uint32_t rows)
{
    return group->kind == ORK_GROUP_HEAD ? 1 : rows;
}

static void choose(struct state *s, uint32_t rows)
{
    struct ork_route_query query = {.resident = true,
                                    .engine = s->on_npu ? ORK_ROUTE_ENGINE_IS_FREE : ORK_ROUTE_ENGINE_IS_OFF,
                                    .policy = s->job->policy};
    if (rows == s->chosen_rows)
        return;
    for (size_t i = 0; i < s->shape->group_count; i++) {
        query.rows = rows_of(&s->shape->groups[i], rows);
        s->choices[i] = ork_route_choose(&s->job->perf, &s->shape->groups[i], &query);
    }
    s->chosen_rows = rows;
}

/* What stands in the NPU's memory, as the engine fills it: matrices that all rows read, then experts, a layer after the
 * other, as far as memory goes. */
static void fill_memory(struct state *s, uint32_t rows)
{
    double left = (double)s->job->npu_memory_bytes, used = 0;
    choose(s, rows);
    for (int stacks = 0; stacks < 2; stacks++)
        for (size_t i = 0; i < s->shape->group_count; i++) {
            const struct ork_group *group = &s->shape->groups[i];
            if (is_stack(group) != (stacks == 1) || s->choices[i].route != ORK_ROUTE_NPU)
                continue;
            const double bytes = int8_bytes(group, UINT32_MAX), taken = bytes < left ? bytes : left;
            s->resident[i] = stacks ? taken / bytes : taken < bytes ? 0 : 1; /* experts one by one */
            used += bytes * s->resident[i];
            left -= bytes * s->resident[i];
        }
    s->result->npu_resident_bytes = (uint64_t)used;
}

/* Both engines at once where the NPU has a part of the group, joined. */
static void batch_group(struct state *s, size_t i)
{
    const struct ork_group *group = &s->shape->groups[i];
    const struct ork_route_choice *choice = &s->choices[i];
    const char *what = ork_group_kind_name(group->kind);
    const double part = choice->route == ORK_ROUTE_NPU ? s->resident[i] : 0;
    const int cores = (int)s->job->perf.npu.cores;
    if (choice->route == ORK_ROUTE_NPU)
        s->absent_bytes += int8_bytes(group, rows_of(group, s->chosen_rows)) * (1 - part);
    for (int core = 0; part > 0 && core < cores; core++)
        ork_bus_start(&s->bus, ORK_LANE_NPU + core, what, group->layer,
                      choice->npu.fixed_s + choice->npu.transfer_s * part, choice->npu.bytes * part / cores,
                      choice->npu.bytes / cores / choice->npu.compute_s);
    if (part < 1)
        cpu_run(s, what, group->layer, &choice->cpu, 1 - part);
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
        choose(s, rows);
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
    s->choices = calloc(count, sizeof *s->choices);
    s->resident = calloc(count, sizeof *s->resident);
    if (!s->choices || !s->resident) {
        status = ork_error_no_memory(error, "simulation", count * sizeof *s->choices);
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
    free(s->choices);
    free(s->resident);
    free(s);
    return status;
}
