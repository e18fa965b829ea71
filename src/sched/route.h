/* Routing: which engine computes an op group. Owns the decision, a pure function of the perf model; knows no devices, no
 * weights and no time. */
#ifndef ORK_SCHED_ROUTE_H
#define ORK_SCHED_ROUTE_H

#include "sched/perf.h"

enum ork_route {
    ORK_ROUTE_CPU = 0,
    ORK_ROUTE_NPU = 1,
    ORK_ROUTE_OVERLAY = 2 /* CPU complete, and an NPU chain beside it */
};
const char *ork_route_name(enum ork_route route); /* "cpu", "npu", "cpu+overlay" */

/* What a decision hangs on: for the route taken the largest part of its time, else what kept the NPU out. */
enum ork_route_limit {
    ORK_ROUTE_BANDWIDTH = 0,
    ORK_ROUTE_COMPUTE,
    ORK_ROUTE_FIXED_COST, /* regions; submits and tasks cost more than they save */
    ORK_ROUTE_WINDOW,     /* no chain fits the CPU's time */
    ORK_ROUTE_BUS,        /* chains would slow the CPU by more than slowdown_max */
    ORK_ROUTE_NOT_RESIDENT,
    ORK_ROUTE_NO_RESIDUAL,   /* late: the result is no part of the residual stream */
    ORK_ROUTE_TIER,          /* the NPU cannot multiply these weights */
    ORK_ROUTE_NOT_SENSITIVE, /* one row: the CPU has all the quality there is */
    ORK_ROUTE_ROWS,          /* too few */
    ORK_ROUTE_ENGINE_OFF,
    ORK_ROUTE_ENGINE_BUSY,
    ORK_ROUTE_LIMIT_COUNT
};
const char *ork_route_limit_name(enum ork_route_limit limit); /* "not resident" */

enum ork_route_engine { ORK_ROUTE_ENGINE_IS_OFF = 0, ORK_ROUTE_ENGINE_IS_BUSY, ORK_ROUTE_ENGINE_IS_FREE };

struct ork_route_policy {
    float sensitivity_min; /* n8 members of less are not overlaid; unmeasured ones (0) are */
    double margin;         /* part of the window that a chain must leave */
    double slowdown_max;   /* of the CPU's time of a token, by all chains that share its bus */
    uint32_t rows_most;    /* crossovers are looked for up to so many rows */
};
struct ork_route_policy ork_route_policy_default(void);

struct ork_route_query {
    uint32_t rows;    /* token rows, >= 1 */
    bool resident;    /* the group's NPU weights */
    bool nested_base; /* the CPU reads n8 members' base planes */
    enum ork_route_engine engine;
    const struct ork_group *overlay_chain; /* rows == 1: what the plan has of the group in a chain (sched/plan.h), or NULL */
    enum ork_route_limit overlay_limit; /* rows == 1: what left the others out of the plan */
    struct ork_route_policy policy;
};

struct ork_route_choice {
    enum ork_route route;
    enum ork_route_limit limit; /* largest part of the route's predicted time */
    enum ork_route_limit why;   /* why not the NPU; the limit again where it takes part */
    struct ork_perf_time cpu;   /* the CPU alone */
    struct ork_perf_time npu;   /* infinite seconds where it cannot */
    struct ork_perf_time chain; /* of the overlay, or of all sensitive members; infinite seconds where there is none */
    double slowdown_s;          /* of the CPU, by the chain */
    uint32_t rows_min;          /* ork_route_rows_min */
    double seconds;             /* predicted, of the route */
};

/* Pure: the same arguments give the same choice, on every machine.
 * rows > 1: the NPU iff rows >= rows_min (all members), it is free, its weights are resident and of tiers that it can multiply; so more
 * rows never go back to the CPU. rows == 1: the CPU, beside it the planned chain iff the NPU is free and its weights are
 * resident. */
struct ork_route_choice ork_route_choose(const struct ork_perf *perf, const struct ork_group *group,
                                         const struct ork_route_query *query);

/* Whether an int8 result on the NPU adds anything while the CPU reads base planes: n8, and sensitive enough. */
bool ork_route_is_sensitive(const struct ork_group_member *member, const struct ork_route_policy *policy);
/* A chain of one row beside work of the CPU: its time at the rates that are left while both stream, and what that costs
 * the CPU. cpu: bytes and transfer_s alone count, of all the work that the chain may run beside. */
struct ork_route_chain {
    struct ork_perf_time time;
    double slowdown_s; /* of the CPU */
};
struct ork_route_chain ork_route_beside(const struct ork_perf *perf, const struct ork_group *group, uint32_t members,
                                        const struct ork_perf_time *cpu);

/* The least number of rows from which the NPU is predicted to win on one matrix (an expert counts as one) for good: with it
 * and with all more up to most (each up to 64, then steps of a sixteenth). UINT32_MAX: never, or there is no NPU. What
 * sessions go by: a matmul is handed over alone, whatever else the group has. */
uint32_t ork_route_matrix_rows_min(const struct ork_perf *perf, enum ork_tier tier, uint32_t n, uint32_t k,
                                   uint32_t most);
/* The same in token rows, for a member: of a stack of experts, those that give every chosen expert as many on average. */
uint32_t ork_route_member_rows_min(const struct ork_perf *perf, const struct ork_group_member *member, uint32_t most);
/* Token rows from which all members of the group go to the NPU. */
uint32_t ork_route_rows_min(const struct ork_perf *perf, const struct ork_group *group, uint32_t most);

#endif
