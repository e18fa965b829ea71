/* Owns the choice of an overlay's chains. Must not know devices, weights or a clock: times are predictions. */
#include "sched/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A group on the CPU, and the chain that is planned beside it. Times count from the token's start, without slowdowns. */
struct slot {
    struct ork_perf_time cpu;    /* the group alone */
    struct ork_perf_time core;   /* of the layer, behind its first group */
    struct ork_perf_time beside; /* what the CPU streams from the submit to the poll */
    double begin_s, poll_s;
    size_t poll_group; /* late: polled when the CPU begins that group; group_count: at the token's end */
    uint8_t parts[ORK_GROUP_MEMBERS_MAX];  /* of each member that are taken, the first ones */
    uint8_t limits[ORK_GROUP_MEMBERS_MAX]; /* enum ork_route_limit: why the part behind them was not */
    uint64_t bytes;
    struct ork_route_chain chain;
};

/* A part of a member. */
struct candidate {
    uint32_t group, member, part;
    uint64_t bytes;
    double gain, worth;
};

/* Sensitive int8 bytes of a group by what kept them out. */
struct left_out {
    uint64_t bytes[ORK_ROUTE_LIMIT_COUNT];
};

struct planner {
    const struct ork_perf *perf;
    const struct ork_model_shape *shape;
    const struct ork_plan_params *params;
    struct slot *slots;           /* [group_count] */
    struct candidate *candidates; /* [candidate_count], best first */
    size_t candidate_count;
    struct left_out *left_out; /* [group_count] */
    uint64_t resident_bytes;
    double alone_s, slowdown_s;
    double gain, gain_all; /* of what was taken, of all that is sensitive */
};

static ork_status params_check(const struct ork_model_shape *shape, const struct ork_plan_params *params,
                               ork_error *error)
{
    const struct ork_route_policy *policy = &params->policy;
    if (!(policy->margin >= 0 && policy->margin < 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a margin of %g of a window, must be 0 to below 1",
                             policy->margin);
    if (!(policy->slowdown_max >= 0 && policy->slowdown_max <= 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a slowdown of at most %g, must be 0 to 1",
                             policy->slowdown_max);
    if (!(policy->sensitivity_min >= 0 && isfinite(policy->sensitivity_min)))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a sensitivity of at least %g, must be 0 or more",
                             (double)policy->sensitivity_min);
    if (params->late_layers > ORK_PLAN_LATE_LAYERS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "%u layers late, at most %d", params->late_layers,
                             ORK_PLAN_LATE_LAYERS_MAX);
    if (!(params->poll_s >= 0 && params->poll_s <= 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a poll of %g s, must be 0 to 1", params->poll_s);
    if (!shape->group_count || !shape->layer_count)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a model without op groups");
    for (size_t i = 0; i < shape->group_count; i++) {
        const struct ork_group *group = &shape->groups[i];
        if (group->member_count > ORK_GROUP_MEMBERS_MAX || group->layer > shape->layer_count ||
            (i && group->layer < group[-1].layer))
            return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "op group %zu of %zu is malformed", i,
                                 shape->group_count);
    }
    return ORK_OK;
}

/* ---- the CPU's token ---- */

/* Where the CPU is when. Attention, convolution or recurrence of a layer stand behind its first group; embedding and norms
 * are counted before the first layer, so windows are rather too short than too long. */
static void lay_out_cpu(struct planner *p, uint32_t context)
{
    const struct ork_model_shape *shape = p->shape;
    double now_s = ork_perf_predict_rest(p->perf, shape);
    for (size_t i = 0; i < shape->group_count; i++) {
        struct slot *slot = &p->slots[i];
        const uint32_t layer = shape->groups[i].layer;
        slot->cpu = ork_perf_predict_cpu(p->perf, &shape->groups[i], 1, true);
        if (layer < shape->layer_count && (!i || shape->groups[i - 1].layer != layer))
            slot->core = ork_perf_predict_core(p->perf, &shape->layers[layer], 1, context);
        slot->begin_s = now_s;
        now_s += slot->cpu.seconds + slot->core.seconds;
    }
    p->alone_s = now_s;
}

/* Adds the time in which `part` draws bytes, at the highest rate of all that was added: what a chain costs rises faster than
 * the CPU's rate, so a mean would promise too much. */
static void add_stream(struct ork_perf_time *sum, const struct ork_perf_time *part)
{
    const double drawn_s = part->transfer_s + part->compute_s;
    const double rate = sum->transfer_s > 0 ? sum->bytes / sum->transfer_s : 0,
                 own = drawn_s > 0 ? part->bytes / drawn_s : 0;
    sum->transfer_s += drawn_s;
    sum->bytes = (own > rate ? own : rate) * sum->transfer_s;
}

static void lay_out_polls(struct planner *p)
{
    const struct ork_group *groups = p->shape->groups;
    const size_t count = p->shape->group_count;
    const uint32_t late = p->params->late_layers;
    for (size_t i = 0, poll = 0; i < count; i++) {
        struct slot *slot = &p->slots[i];
        slot->poll_s = slot->begin_s + slot->cpu.seconds;
        slot->poll_group = i + 1;
        add_stream(&slot->beside, &slot->cpu);
        if (!late)
            continue;
        while (poll <= i ||
               (poll < count && groups[poll].kind != ORK_GROUP_HEAD && groups[poll].layer < groups[i].layer + late))
            poll++;
        slot->poll_group = poll;
        slot->poll_s = poll < count ? p->slots[poll].begin_s : p->alone_s;
        for (size_t j = i; j < poll; j++) {
            if (j > i)
                add_stream(&slot->beside, &p->slots[j].cpu);
            add_stream(&slot->beside, &p->slots[j].core);
        }
    }
}

/* ---- candidates ---- */

/* What keeps a sensitive member out whatever the times are; ORK_ROUTE_LIMIT_COUNT: nothing. */
static enum ork_route_limit member_limit(const struct planner *p, const struct ork_group_member *member)
{
    if (!p->perf->has_npu)
        return ORK_ROUTE_ENGINE_OFF;
    if (!ork_perf_npu_can(member))
        return ORK_ROUTE_TIER;
    if (p->params->late_layers && !member->residual)
        return ORK_ROUTE_NO_RESIDUAL;
    return member->experts > 1 ? ORK_ROUTE_NOT_RESIDENT : ORK_ROUTE_LIMIT_COUNT;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->member != y->member)
        return x->member < y->member ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

/* The parts of a member. Later ones are worth no more than earlier ones, which rounding must not hide: a chain has the first
 * parts alone. */
static void list_parts(struct planner *p, uint32_t index, uint32_t member_index, double gain)
{
    const struct ork_group *group = &p->shape->groups[index];
    const struct ork_group_member *member = &group->members[member_index];
    const double seconds = ork_perf_predict_chain(p->perf, group, 1u << member_index).seconds;
    double least = INFINITY;
    for (uint32_t part = 0; part < ORK_GROUP_PARTS; part++) {
        const uint64_t bytes = ork_group_part_bytes(member, part + 1) - ork_group_part_bytes(member, part);
        const uint32_t channels = ork_group_part_channels(member, part + 1) - ork_group_part_channels(member, part);
        const double even = (double)channels / member->n;
        const double own = gain * (p->params->late_layers ? even : (double)member->part_share[part]);
        const double worth = channels ? own / (seconds * even) : least;
        least = worth < least ? worth : least;
        p->candidates[p->candidate_count++] = (struct candidate){
            .group = index, .member = member_index, .part = part, .bytes = bytes, .gain = own, .worth = least};
    }
}

static uint64_t list_candidates(struct planner *p)
{
    uint64_t sensitive_bytes = 0;
    for (size_t i = 0; i < p->shape->group_count; i++) {
        const struct ork_group *group = &p->shape->groups[i];
        for (uint32_t j = 0; j < group->member_count; j++) {
            const struct ork_group_member *member = &group->members[j];
            if (!ork_route_is_sensitive(member, &p->params->policy))
                continue;
            const uint64_t bytes = ork_group_part_bytes(member, ORK_GROUP_PARTS);
            const enum ork_route_limit limit = member_limit(p, member);
            const double gain = member->sensitivity > 0 ? (double)member->sensitivity : (double)bytes;
            sensitive_bytes += bytes * member->experts_used;
            p->gain_all += gain * member->experts_used;
            if (limit != ORK_ROUTE_LIMIT_COUNT) {
                p->left_out[i].bytes[limit] += bytes * member->experts_used;
                continue;
            }
            list_parts(p, (uint32_t)i, j, gain);
        }
    }
    qsort(p->candidates, p->candidate_count, sizeof *p->candidates, compare_candidates);
    return sensitive_bytes;
}

/* ---- choice ---- */

/* Whether every chain is done in time, run in their order on one core. */
static bool in_time(const struct planner *p)
{
    double free_s = 0; /* the core, from then on */
    for (size_t i = 0; i < p->shape->group_count; i++) {
        const struct slot *slot = &p->slots[i];
        if (!slot->bytes)
            continue;
        const double start_s = slot->begin_s > free_s ? slot->begin_s : free_s;
        free_s = start_s + slot->chain.time.seconds;
        if (free_s - slot->begin_s > (slot->poll_s - slot->begin_s) * (1 - p->params->policy.margin))
            return false;
    }
    return true;
}

/* Copies of members with fewer channels. */
static struct ork_group cut(const struct ork_group *group, const uint8_t *parts)
{
    struct ork_group result = {.kind = group->kind, .layer = group->layer};
    for (uint32_t i = 0; i < group->member_count; i++)
        if (parts[i]) {
            struct ork_group_member *member = &result.members[result.member_count++];
            *member = group->members[i];
            member->n = ork_group_part_channels(member, parts[i]);
        }
    return result;
}

static struct slot with_part(const struct planner *p, const struct candidate *candidate)
{
    struct slot slot = p->slots[candidate->group];
    slot.parts[candidate->member]++;
    slot.bytes += candidate->bytes;
    const struct ork_group chain = cut(&p->shape->groups[candidate->group], slot.parts);
    slot.chain = ork_route_beside(p->perf, &chain, (1u << chain.member_count) - 1, &slot.beside);
    slot.chain.slowdown_s += p->perf->chain_cpu_s > p->params->poll_s ? p->perf->chain_cpu_s : p->params->poll_s;
    return slot;
}

/* What forbids a candidate that its group's slot already has; ORK_ROUTE_LIMIT_COUNT: nothing. */
static enum ork_route_limit forbidden(const struct planner *p, const struct candidate *candidate, double slowdown_s)
{
    if (candidate->bytes > p->params->memory_bytes - p->resident_bytes)
        return ORK_ROUTE_NOT_RESIDENT;
    if (!p->params->all && !in_time(p))
        return ORK_ROUTE_WINDOW;
    if (!p->params->all && slowdown_s > p->params->policy.slowdown_max * p->alone_s)
        return ORK_ROUTE_BUS;
    return ORK_ROUTE_LIMIT_COUNT;
}

/* Takes the candidate, or returns what forbids it. Its member is closed then: what comes behind lacks less. */
static enum ork_route_limit try(struct planner *p, const struct candidate *candidate)
{
    struct slot *slot = &p->slots[candidate->group];
    const struct slot before = *slot;
    if (slot->parts[candidate->member] != candidate->part)
        return slot->limits[candidate->member];
    *slot = with_part(p, candidate);
    const double slowdown_s = p->slowdown_s + slot->chain.slowdown_s - before.chain.slowdown_s;
    const enum ork_route_limit limit = forbidden(p, candidate, slowdown_s);
    if (limit != ORK_ROUTE_LIMIT_COUNT) {
        *slot = before;
        slot->limits[candidate->member] = (uint8_t)limit;
        return limit;
    }
    p->slowdown_s = slowdown_s;
    p->resident_bytes += candidate->bytes;
    p->gain += candidate->gain;
    return limit;
}

/* ---- result ---- */

static enum ork_route_limit largest(const uint64_t *bytes)
{
    enum ork_route_limit limit = ORK_ROUTE_NOT_SENSITIVE;
    uint64_t most = 0;
    for (int i = 0; i < ORK_ROUTE_LIMIT_COUNT; i++)
        if (bytes[i] > most) {
            most = bytes[i];
            limit = (enum ork_route_limit)i;
        }
    return limit;
}

static void fill_limits(const struct planner *p, struct ork_plan *plan)
{
    uint64_t total[ORK_ROUTE_LIMIT_COUNT] = {0};
    for (size_t i = 0; i < plan->group_count; i++) {
        plan->limits[i] = largest(p->left_out[i].bytes);
        for (int j = 0; j < ORK_ROUTE_LIMIT_COUNT; j++)
            total[j] += p->left_out[i].bytes[j];
    }
    plan->limit = largest(total);
}

/* Where the CPU and the core are when, slowdowns included. */
static void fill_entries(const struct planner *p, struct ork_plan *plan)
{
    const size_t count = plan->group_count;
    double delay_s = 0, free_s = 0;
    for (size_t i = 0; i < count; i++) {
        const struct slot *slot = &p->slots[i];
        if (!slot->bytes)
            continue;
        struct ork_plan_entry *entry = &plan->entries[plan->entry_count++];
        *entry = (struct ork_plan_entry){.group = (uint32_t)i,
                                         .bytes = slot->bytes,
                                         .begin_s = slot->begin_s + delay_s,
                                         .slowdown_s = slot->chain.slowdown_s};
        memcpy(entry->parts, slot->parts, sizeof entry->parts);
        for (uint32_t j = 0; j < ORK_GROUP_MEMBERS_MAX; j++)
            entry->members |= (uint32_t)(slot->parts[j] > 0) << j;
        const double start_s = entry->begin_s > free_s ? entry->begin_s : free_s;
        free_s = start_s + slot->chain.time.seconds;
        entry->chain_s = free_s - entry->begin_s;
        delay_s += entry->slowdown_s;
        double within_s = 0; /* slowdowns from the submit to the poll */
        for (size_t j = i; j < slot->poll_group; j++)
            within_s += p->slots[j].bytes ? p->slots[j].chain.slowdown_s : 0;
        entry->window_s = slot->poll_s - slot->begin_s + within_s;
    }
    plan->alone_s = p->alone_s;
    plan->token_s = p->alone_s + delay_s;
    plan->resident_bytes = p->resident_bytes;
    plan->gain_share = p->gain_all > 0 ? fmin(p->gain / p->gain_all, 1) : 0;
}

ork_status ork_plan_make(const struct ork_perf *perf, const struct ork_model_shape *shape,
                         const struct ork_plan_params *params, uint32_t context, struct ork_plan *plan,
                         ork_error *error)
{
    memset(plan, 0, sizeof *plan);
    ork_status status = params_check(shape, params, error);
    if (status != ORK_OK)
        return status;
    const size_t count = shape->group_count;
    struct planner p = {.perf = perf, .shape = shape, .params = params};
    p.slots = calloc(count, sizeof *p.slots);
    p.candidates = calloc(count * ORK_GROUP_MEMBERS_MAX * ORK_GROUP_PARTS, sizeof *p.candidates);
    p.left_out = calloc(count, sizeof *p.left_out);
    *plan = (struct ork_plan){.group_count = count,
                              .entries = calloc(count, sizeof *plan->entries),
                              .limits = calloc(count, sizeof *plan->limits)};
    if (!p.slots || !p.candidates || !p.left_out || !plan->entries || !plan->limits) {
        status = ork_error_no_memory(error, "overlay", count * sizeof *p.candidates);
        goto out;
    }
    lay_out_cpu(&p, context);
    lay_out_polls(&p);
    plan->sensitive_bytes = list_candidates(&p);
    for (size_t i = 0; i < p.candidate_count; i++) {
        const struct candidate *candidate = &p.candidates[i];
        const enum ork_route_limit limit = try(&p, candidate);
        if (limit != ORK_ROUTE_LIMIT_COUNT)
            p.left_out[candidate->group].bytes[limit] += candidate->bytes;
    }
    fill_entries(&p, plan);
    fill_limits(&p, plan);
out:
    free(p.slots);
    free(p.candidates);
    free(p.left_out);
    if (status != ORK_OK)
        ork_plan_free(plan);
    return status;
}

struct ork_group ork_plan_chain(const struct ork_group *group, const struct ork_plan_entry *entry)
{
    return cut(group, entry->parts);
}

void ork_plan_free(struct ork_plan *plan)
{
    free(plan->entries);
    free(plan->limits);
    *plan = (struct ork_plan){0};
}
