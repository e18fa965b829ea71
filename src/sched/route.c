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
        [ORK_ROUTE_NO_RESIDUAL] = "no residual",
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
    return (struct ork_route_policy){.sensitivity_min = 0, .margin = 0.15, .slowdown_max = 0.01, .rows_most = 4096};
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

uint32_t ork_route_matrix_rows_min(const struct ork_perf *perf, enum ork_tier tier, uint32_t n, uint32_t k,
                                   uint32_t most)
{
    struct ork_group group = {.kind = ORK_GROUP_HEAD};
    uint32_t rows_min = UINT32_MAX;
    if (!perf->has_npu || !ork_group_add(&group, "matrix", tier, n, k, 0, 0, 0, false) || !npu_can(&group))
        return UINT32_MAX;
    for (uint32_t rows = 2, step = 1; rows <= most; rows += step) {
        if (!npu_wins(perf, &group, rows))
            rows_min = UINT32_MAX;
        else if (rows_min == UINT32_MAX)
            rows_min = rows;
        if (rows >= EVERY_ROW && (rows & (rows - 1)) == 0)
            step = rows / STEPS_AN_OCTAVE;
    }
    return rows_min;
}

uint32_t ork_route_member_rows_min(const struct ork_perf *perf, const struct ork_group_member *member, uint32_t most)
{
    const uint32_t matrix_rows = ork_route_matrix_rows_min(perf, member->tier, member->n, member->k, most);
    if (matrix_rows == UINT32_MAX)
        return UINT32_MAX;
    /* Rows of a chosen expert grow with those of the pass. */
    uint32_t least = matrix_rows, end = most + 1;
    while (least < end) {
        const uint32_t rows = least + (end - least) / 2;
        const double chosen = ork_group_distinct(member->experts, member->experts_used, rows);
        if ((double)rows * member->experts_used >= matrix_rows * chosen)
            end = rows;
        else
            least = rows + 1;
    }
    return least <= most ? least : UINT32_MAX;
}

uint32_t ork_route_rows_min(const struct ork_perf *perf, const struct ork_group *group, uint32_t most)
{
    uint32_t rows_min = group->member_count ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const uint32_t own = ork_route_member_rows_min(perf, &group->members[i], most);
        rows_min = own > rows_min ? own : rows_min;
    }
    return rows_min;
}

/* ---- one row ---- */

bool ork_route_is_sensitive(const struct ork_group_member *member, const struct ork_route_policy *policy)
{
    return member->tier == ORK_TIER_N8 &&
           (!(member->sensitivity > 0) || member->sensitivity >= policy->sensitivity_min);
}

struct ork_route_chain ork_route_beside(const struct ork_perf *perf, const struct ork_group *group, uint32_t members,
                                        const struct ork_perf_time *cpu)
{
    struct ork_route_chain chain = {.time = ork_perf_predict_chain(perf, group, members)};
    const double stream_s = chain.time.compute_s;
    if (isinf(chain.time.seconds) || !(stream_s > 0) || !(cpu->transfer_s > 0))
        return chain;
    const double cpu_rate = cpu->bytes / cpu->transfer_s, own_rate = chain.time.bytes / stream_s;
    const struct ork_perf_rates rates = ork_perf_share(perf, cpu_rate, own_rate);
    chain.time.seconds += stream_s * (own_rate / rates.npu_bytes_per_s - 1);
    /* The CPU loses time while the chain draws what it would draw alone, or until the CPU is done. */
    const double drawn_s = stream_s * (rates.cpu_part / rates.npu_part);
    const double both_s = drawn_s < cpu->transfer_s ? drawn_s : cpu->transfer_s;
    chain.slowdown_s = both_s * (cpu_rate / rates.cpu_bytes_per_s - 1);
    return chain;
}

/* Sets chain and why, and where the planned chain may run, the route. */
static void choose_overlay(const struct ork_perf *perf, const struct ork_group *group,
                           const struct ork_route_query *query, enum ork_route_limit state,
                           struct ork_route_choice *choice)
{
    uint32_t sensitive = 0;
    for (uint32_t i = 0; query->nested_base && i < group->member_count; i++)
        if (ork_route_is_sensitive(&group->members[i], &query->policy) && ork_perf_npu_can(&group->members[i]))
            sensitive |= 1u << i;
    choice->why = ORK_ROUTE_NOT_SENSITIVE;
    if (!sensitive)
        return;
    const struct ork_group *planned = query->overlay_chain;
    const struct ork_route_chain chain =
        planned ? ork_route_beside(perf, planned, (1u << planned->member_count) - 1, &choice->cpu)
                : ork_route_beside(perf, group, sensitive, &choice->cpu);
    choice->chain = chain.time;
    choice->why = planned ? state : query->overlay_limit;
    if (planned && state == ORK_ROUTE_LIMIT_COUNT) {
        choice->route = ORK_ROUTE_OVERLAY;
        choice->slowdown_s = chain.slowdown_s;
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
        choose_overlay(perf, group, query, state, &choice);
    }
    const struct ork_perf_time *taken = choice.route == ORK_ROUTE_NPU ? &choice.npu : &choice.cpu;
    choice.limit = limit_of(taken);
    choice.seconds = taken->seconds + choice.slowdown_s;
    if (choice.route != ORK_ROUTE_CPU)
        choice.why = choice.limit;
    return choice;
}
