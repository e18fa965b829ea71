/* Owns the routing decision and its crossovers. Must not know devices, weights or time. */
#include "sched/route.h"

#include <math.h>

enum { EVERY_ROW = 64, STEPS_AN_OCTAVE = 16 };

const char *ork_route_name(enum ork_route route)
{
    static const char *const names[] = {"cpu", "npu", "cpu+overlay"};
    return names[route];
}

const char *ork_route_limit_name(enum ork_route_limit limit)
{
    static const char *const names[ORK_ROUTE_LIMIT_COUNT] = {
        [ORK_ROUTE_BANDWIDTH] = "bandwidth",
        [ORK_ROUTE_COMPUTE] = "compute",
        [ORK_ROUTE_FIXED_COST] = "fixed cost",
        [ORK_ROUTE_WINDOW] = "window",
        [ORK_ROUTE_BUS] = "bus",
        [ORK_ROUTE_NOT_RESIDENT] = "not resident",
        [ORK_ROUTE_TIER] = "tier",
        [ORK_ROUTE_NOT_SENSITIVE] = "not sensitive",
        [ORK_ROUTE_ROWS] = "rows",
        [ORK_ROUTE_ENGINE_OFF] = "engine off",
        [ORK_ROUTE_ENGINE_BUSY] = "engine busy",
    };
    return names[limit];
}

struct ork_route_policy ork_route_policy_default(void)
{
    return (struct ork_route_policy){.sensitivity_min = 0, .margin = 0.15, .slowdown_max = 0.02, .rows_most = 4096};
}

static enum ork_route_limit limit_of(const struct ork_perf_time *time)
{
    static const enum ork_route_limit limits[] = {[ORK_PERF_BANDWIDTH] = ORK_ROUTE_BANDWIDTH,
                                                  [ORK_PERF_COMPUTE] = ORK_ROUTE_COMPUTE,
                                                  [ORK_PERF_FIXED] = ORK_ROUTE_FIXED_COST};
    return limits[time->bound];
}

static bool npu_wins(const struct ork_perf *perf, const struct ork_group *group, uint32_t rows)
{
    return ork_perf_predict_npu(perf, group, rows).seconds < ork_perf_predict_cpu(perf, group, rows, false).seconds;
}

static bool npu_can(const struct ork_group *group)
{
    bool can = group->member_count > 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        can = can && ork_perf_npu_can(&group->members[i]);
    return can;
}

uint32_t ork_route_rows_min(const struct ork_perf *perf, const struct ork_group *group, uint32_t most)
{
    uint32_t rows_min = UINT32_MAX;
    if (!perf->has_npu || !npu_can(group))
        return UINT32_MAX;
    for (uint32_t rows = 2, step = 1; rows <= most; rows += step) {
        if (!npu_wins(perf, group, rows))
            rows_min = UINT32_MAX;
        else if (rows_min == UINT32_MAX)
            rows_min = rows;
        if (rows >= EVERY_ROW && (rows & (rows - 1)) == 0)
            step = rows / STEPS_AN_OCTAVE;
    }
    return rows_min;
}

uint32_t ork_route_matrix_rows_min(const struct ork_perf *perf, enum ork_tier tier, uint32_t n, uint32_t k,
                                   uint32_t most)
{
    struct ork_group group = {.kind = ORK_GROUP_HEAD};
    if (!ork_group_add(&group, "matrix", tier, n, k, 0, 0, 0, false))
        return UINT32_MAX;
    return ork_route_rows_min(perf, &group, most);
}

/* ---- one row ---- */

static bool is_sensitive(const struct ork_group_member *member, const struct ork_route_query *query)
{
    /* Where the CPU reads all of a member, an int8 result on the NPU adds nothing. */
    return query->nested_base && member->tier == ORK_TIER_N8 && ork_perf_npu_can(member) &&
           (!(member->sensitivity > 0) || member->sensitivity >= query->policy.sensitivity_min);
}

/* CPU seconds that the chain's stream costs: what it draws over its time, at shared instead of own rates. */
static double slowdown(const struct ork_perf *perf, const struct ork_perf_time *cpu, const struct ork_perf_time *chain)
{
    const double stream_s = chain->compute_s;
    if (!(stream_s > 0) || !(cpu->transfer_s > 0))
        return 0;
    const double cpu_rate = cpu->bytes / cpu->transfer_s;
    const struct ork_perf_rates rates = ork_perf_share(perf, cpu_rate, chain->bytes / stream_s);
    const double both_s = stream_s < cpu->transfer_s ? stream_s : cpu->transfer_s;
    return both_s * (cpu_rate / rates.cpu_bytes_per_s - 1);
}

/* A chain shares the bus as well: its stream at the rate that it keeps. */
static struct ork_perf_time shared_chain(const struct ork_perf *perf, const struct ork_group *group, uint32_t members,
                                         const struct ork_perf_time *cpu)
{
    struct ork_perf_time chain = ork_perf_predict_chain(perf, group, members);
    if (!(chain.compute_s > 0) || isinf(chain.seconds) || !(cpu->transfer_s > 0))
        return chain;
    const double own = chain.bytes / chain.compute_s;
    const double kept = ork_perf_share(perf, cpu->bytes / cpu->transfer_s, own).npu_bytes_per_s;
    chain.seconds += chain.compute_s * (own / kept - 1);
    return chain;
}

static double worth(const struct ork_perf *perf, const struct ork_group *group, uint32_t i)
{
    const float sensitivity = group->members[i].sensitivity;
    return (sensitivity > 0 ? (double)sensitivity : 1.0) / ork_perf_predict_chain(perf, group, 1u << i).seconds;
}

/* Takes members in the order of their worth as long as the chain fits. Sets why when none does. */
static void choose_overlay(const struct ork_perf *perf, const struct ork_group *group,
                           const struct ork_route_query *query, struct ork_route_choice *choice)
{
    const double window_s = choice->cpu.seconds * (1 - query->policy.margin);
    uint32_t left = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        if (is_sensitive(&group->members[i], query))
            left |= 1u << i;
    choice->why = left ? ORK_ROUTE_WINDOW : ORK_ROUTE_NOT_SENSITIVE;
    while (left) {
        uint32_t best = 0;
        double most = -1;
        for (uint32_t i = 0; i < group->member_count; i++)
            if ((left & (1u << i)) && worth(perf, group, i) > most) {
                most = worth(perf, group, i);
                best = i;
            }
        left &= ~(1u << best);
        const uint32_t members = choice->overlay_members | 1u << best;
        const struct ork_perf_time chain = shared_chain(perf, group, members, &choice->cpu);
        const double slowdown_s = slowdown(perf, &choice->cpu, &chain);
        const bool slows = slowdown_s > query->policy.slowdown_max * choice->cpu.seconds;
        if (chain.seconds <= window_s && !slows) {
            choice->overlay_members = members;
            choice->chain = chain;
            choice->slowdown_s = slowdown_s;
        } else if (!choice->overlay_members) {
            choice->chain = chain; /* shown: what did not fit */
            choice->why = chain.seconds <= window_s ? ORK_ROUTE_BUS : choice->why;
        }
    }
}

/* What keeps an engine out whatever the times are; ORK_ROUTE_LIMIT_COUNT: nothing. */
static enum ork_route_limit state_limit(const struct ork_perf *perf, const struct ork_route_query *query)
{
    if (!perf->has_npu || query->engine == ORK_ROUTE_ENGINE_IS_OFF)
        return ORK_ROUTE_ENGINE_OFF;
    if (query->engine == ORK_ROUTE_ENGINE_IS_BUSY)
        return ORK_ROUTE_ENGINE_BUSY;
    return query->resident ? ORK_ROUTE_LIMIT_COUNT : ORK_ROUTE_NOT_RESIDENT;
}

struct ork_route_choice ork_route_choose(const struct ork_perf *perf, const struct ork_group *group,
                                         const struct ork_route_query *query)
{
    const bool can = npu_can(group);
    const struct ork_perf_time never = {.seconds = INFINITY, .fixed_s = INFINITY, .bound = ORK_PERF_FIXED};
    struct ork_route_choice choice = {
        .route = ORK_ROUTE_CPU,
        .cpu = ork_perf_predict_cpu(perf, group, query->rows, query->nested_base),
        .npu = can ? ork_perf_predict_npu(perf, group, query->rows) : never,
        .chain = never,
        .rows_min = ork_route_rows_min(perf, group, query->policy.rows_most),
    };
    const enum ork_route_limit state = state_limit(perf, query);
    if (query->rows > 1) {
        if (!can)
            choice.why = ORK_ROUTE_TIER;
        else if (state == ORK_ROUTE_ENGINE_OFF)
            choice.why = state;
        else if (query->rows < choice.rows_min)
            choice.why = choice.rows_min == UINT32_MAX ? limit_of(&choice.npu) : ORK_ROUTE_ROWS;
        else if (state != ORK_ROUTE_LIMIT_COUNT)
            choice.why = state;
        else
            choice.route = ORK_ROUTE_NPU;
    } else if (state == ORK_ROUTE_ENGINE_OFF) {
        choice.why = state;
    } else {
        choose_overlay(perf, group, query, &choice);
        if (choice.overlay_members && state != ORK_ROUTE_LIMIT_COUNT) {
            choice.overlay_members = 0;
            choice.slowdown_s = 0;
            choice.why = state;
        }
        if (choice.overlay_members)
            choice.route = ORK_ROUTE_OVERLAY;
    }
    const struct ork_perf_time *taken = choice.route == ORK_ROUTE_NPU ? &choice.npu : &choice.cpu;
    choice.limit = limit_of(taken);
    choice.seconds = taken->seconds + choice.slowdown_s;
    if (choice.route != ORK_ROUTE_CPU)
        choice.why = choice.limit;
    return choice;
}
