/* The overlay's plan: which channels of which members get an int8 chain on the NPU beside the CPU while one token is decoded.
 * Owns that decision, a pure function of the perf model and the groups; knows no devices, no weights and no clock.
 *
 * Chains run one after the other, in the order of a pass, on one core of one domain. Stacks of experts are never planned:
 * which experts a token reads is known when their window has begun, and keeping all of them resident takes the domain. */
#ifndef ORK_SCHED_PLAN_H
#define ORK_SCHED_PLAN_H

#include "sched/route.h"

enum { ORK_PLAN_LATE_LAYERS_MAX = 64 };

struct ork_plan_params {
    struct ork_route_policy policy;
    uint32_t
        late_layers; /* 0: polled at the group's join. Else only members that write the residual stream, polled when
                              the CPU begins that many layers later, or the head, if sooner */
    bool all;        /* every sensitive member that the NPU can take, whole, whether its chain fits or not; for measurements */
    uint64_t memory_bytes; /* of the one domain that the chains live in, at most */
    double poll_s;         /* that a look at a chain and taking its result in cost the CPU; part of the slowdown */
};

struct ork_plan_entry {
    uint32_t group;    /* index into shape->groups */
    uint32_t members;  /* bits of members of it of which there are channels */
    uint8_t parts[ORK_GROUP_MEMBERS_MAX]; /* how many of the first parts of each, ORK_GROUP_PARTS: the whole member */
    uint64_t bytes;    /* int8 bricks that must be resident */
    double begin_s;    /* CPU's time from the token's start to the submit, predicted, slowdowns included */
    double window_s;   /* from the submit to the poll */
    double chain_s;    /* from the submit to a host that knows, at shared rates, waiting for earlier chains included */
    double slowdown_s; /* of the CPU */
};

struct ork_plan {
    size_t entry_count;
    struct ork_plan_entry *entries; /* in the order of a pass */
    size_t group_count;
    enum ork_route_limit
        *limits;              /* of each group, what kept most of its sensitive bytes out; ORK_ROUTE_NOT_SENSITIVE: none
                                     are left out */
    double alone_s;           /* CPU's predicted time of a token, base planes alone, without chains */
    double token_s;           /* with all slowdowns */
    uint64_t resident_bytes;  /* sum of entries' bytes */
    uint64_t sensitive_bytes; /* int8 bytes of all sensitive members that a token reads */
    double gain_share; /* of what these lack, by sensitivities and shares of parts, that the chains have; 0 to 1 */
    enum ork_route_limit limit; /* what kept most of the rest out, as above */
};

/* Parts of members are tried in the order of their worth: the member's sensitivity times the part's share of it, for each
 * second of a chain of the member's own; late all parts of a member have the same share, for there channels that lack more
 * were not worth more (docs/quality.md). Unmeasured members count as sensitive as they are large. A part is taken if then
 * every chain is done before its poll with the policy's margin left, all slowdowns together stay below slowdown_max of
 * alone_s, and all bricks fit memory_bytes; else it is left out with the rest of its member, and the next is tried. A plan
 * without entries is ORK_OK with its limit. Refuses impossible parameters. */
ork_status ork_plan_make(const struct ork_perf *perf, const struct ork_model_shape *shape,
                         const struct ork_plan_params *params, uint32_t context, struct ork_plan *plan,
                         ork_error *error);
/* What a group's entry puts into its chain: a group of the members that are in it, each with the channels that it has. */
struct ork_group ork_plan_chain(const struct ork_group *group, const struct ork_plan_entry *entry);
void ork_plan_free(struct ork_plan *plan); /* the arrays; plan itself is the caller's */

#endif
