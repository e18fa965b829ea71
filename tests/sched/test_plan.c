/* Guards the overlay's plan: what it promises of every chain (done before its poll with the margin left, one after the other
 * on one core, no more memory and no more slowdown than allowed), what it prefers, how it answers to more room and to a
 * quicker NPU, and that an empty plan says why. Models are made up here, some of them at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/plan.h"

enum { GROUPS_MAX = 256, LAYERS = 12, SEEDS = 24 };

struct made {
    struct ork_model_shape shape;
    struct ork_group groups[GROUPS_MAX];
    struct ork_layer_cost layers[LAYERS];
};

static struct ork_perf board(void)
{
    struct ork_perf perf;
    ork_error error;
    assert_int_equal(ork_perf_from_board(NULL, &perf, &error), ORK_OK);
    return perf;
}

static struct ork_group *begin(struct made *made, enum ork_group_kind kind, uint32_t layer)
{
    struct ork_group *group = &made->groups[made->shape.group_count++];
    *group = (struct ork_group){.kind = kind, .layer = layer};
    return group;
}

static void add(struct ork_group *group, enum ork_tier tier, uint32_t n, uint32_t k, float sensitivity, bool residual)
{
    assert_true(ork_group_add(group, "member", tier, n, k, 0, 0, sensitivity, residual));
}

static void start(struct made *made)
{
    memset(made, 0, sizeof *made);
    made->shape.groups = made->groups;
    made->shape.layers = made->layers;
    made->shape.layer_count = LAYERS;
    for (int i = 0; i < LAYERS; i++)
        made->layers[i] = (struct ork_layer_cost){.kv_bytes = 2048, .kv_macs = 4096};
}

/* Each part lacks so much less than the one before it, for each channel. */
static void slope(struct ork_group_member *member, float ratio)
{
    float weight = 1, sum = 0;
    for (uint32_t part = 0; part < ORK_GROUP_PARTS; part++, weight *= ratio) {
        member->part_share[part] =
            weight * (float)(ork_group_part_channels(member, part + 1) - ork_group_part_channels(member, part));
        sum += member->part_share[part];
    }
    for (uint32_t part = 0; part < ORK_GROUP_PARTS; part++)
        member->part_share[part] /= sum;
}

/* Layers of attention and experts with a shared expert, n8 wherever that makes sense. seed 0: all layers alike and
 * unmeasured; else sizes, sensitivities and slopes at random. */
static void make(struct made *made, uint64_t seed)
{
    start(made);
    const bool random = seed != 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t draw[8];
        float sensitivity[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            draw[i] = random ? (uint32_t)(seed >> 60) : 7;
            sensitivity[i] = random ? (float)(seed >> 40 & 1023) / 256 : 0;
        }
        struct ork_group *in = begin(made, ORK_GROUP_ATTENTION_IN, layer);
        add(in, ORK_TIER_N8, 256 * (1 + draw[0]), 2048, sensitivity[0], false);
        add(in, ORK_TIER_N8, 64 * (1 + draw[1]), 2048, sensitivity[1], false);
        add(in, ORK_TIER_N8, 64 * (1 + draw[2]), 2048, sensitivity[2], false);
        add(begin(made, ORK_GROUP_ATTENTION_OUT, layer), ORK_TIER_N8, 2048, 256 * (1 + draw[3]), sensitivity[3], true);
        add(begin(made, ORK_GROUP_ROUTER, layer), ORK_TIER_F32, 128, 2048, 0, false);
        struct ork_group *up = begin(made, ORK_GROUP_EXPERT_UP, layer);
        assert_true(ork_group_add(up, "gate", ORK_TIER_NF4, 1024, 2048, 128, 8, 0, false));
        assert_true(ork_group_add(up, "up", layer % 4 ? ORK_TIER_NF4 : ORK_TIER_N8, 1024, 2048, 128, 8, 0, false));
        add(up, ORK_TIER_N8, 64 * (1 + draw[4]), 2048, sensitivity[4], false);
        struct ork_group *down = begin(made, ORK_GROUP_EXPERT_DOWN, layer);
        assert_true(ork_group_add(down, "down", ORK_TIER_NF4, 2048, 1024, 128, 8, 0, true));
        add(down, ORK_TIER_N8, 2048, 64 * (1 + draw[5]), sensitivity[5], true);
        for (struct ork_group *group = in; random && group <= down; group++)
            for (uint32_t j = 0; j < group->member_count; j++)
                slope(&group->members[j], 1 - (float)draw[(j + layer) % 8] / 64);
    }
    add(begin(made, ORK_GROUP_HEAD, LAYERS), ORK_TIER_I8, 64000, 2048, 0, false);
}

static struct ork_plan_params params(uint32_t late)
{
    return (struct ork_plan_params){
        .policy = ork_route_policy_default(), .late_layers = late, .memory_bytes = 3u << 30, .poll_s = 2e-6};
}

static struct ork_plan plan(const struct ork_perf *perf, const struct made *made, const struct ork_plan_params *given)
{
    struct ork_plan result;
    ork_error error;
    assert_int_equal(ork_plan_make(perf, &made->shape, given, 100, &result, &error), ORK_OK);
    return result;
}

/* What is promised of every plan but those with `all`. */
static void check(const struct ork_perf *perf, const struct made *made, const struct ork_plan_params *given,
                  const struct ork_plan *p)
{
    uint64_t bytes = 0;
    double slowdown_s = 0, free_s = 0, token_s = ork_perf_predict_rest(perf, &made->shape);
    for (size_t i = 0; i < made->shape.group_count; i++)
        token_s += ork_perf_predict_cpu(perf, &made->groups[i], 1, true).seconds;
    for (int i = 0; i < LAYERS; i++)
        token_s += ork_perf_predict_core(perf, &made->layers[i], 1, 100).seconds;
    assert_float_equal(p->alone_s, token_s, 1e-9);
    for (size_t i = 0; i < p->entry_count; i++) {
        const struct ork_plan_entry *entry = &p->entries[i];
        const struct ork_group *group = &made->groups[entry->group];
        assert_true(entry->members != 0 && entry->members < 1u << group->member_count);
        assert_true(!i || entry->group > entry[-1].group);
        const struct ork_group chain = ork_plan_chain(group, entry);
        uint64_t own = 0;
        for (uint32_t j = 0, listed = 0; j < group->member_count; j++) {
            const struct ork_group_member *member = &group->members[j];
            assert_int_equal(entry->members >> j & 1, entry->parts[j] > 0);
            if (!entry->parts[j])
                continue;
            assert_true(member->tier == ORK_TIER_N8 && member->experts == 1);
            assert_true(member->residual || !given->late_layers);
            assert_true(entry->parts[j] <= ORK_GROUP_PARTS);
            own += ork_group_part_bytes(member, entry->parts[j]);
            assert_int_equal(chain.members[listed].n, ork_group_part_channels(member, entry->parts[j]));
            assert_int_equal(chain.members[listed++].k, member->k);
        }
        assert_int_equal(entry->bytes, own);
        assert_true(entry->chain_s <= entry->window_s * (1 - given->policy.margin));
        /* One core: a chain takes at least its own time after the one before. */
        const double alone_s = ork_perf_predict_chain(perf, &chain, (1u << chain.member_count) - 1).seconds;
        const double begin_s = entry->begin_s > free_s ? entry->begin_s : free_s;
        assert_true(entry->begin_s + entry->chain_s >= begin_s + alone_s - 1e-12);
        free_s = entry->begin_s + entry->chain_s;
        assert_true(free_s <= p->token_s);
        assert_true(entry->slowdown_s >= given->poll_s && entry->slowdown_s >= perf->chain_cpu_s);
        bytes += entry->bytes;
        slowdown_s += entry->slowdown_s;
    }
    assert_int_equal(p->resident_bytes, bytes);
    assert_true(bytes <= given->memory_bytes && bytes <= p->sensitive_bytes);
    assert_true(p->gain_share >= 0 && p->gain_share <= 1 && (p->gain_share > 0) == (bytes > 0));
    assert_float_equal(p->token_s, p->alone_s + slowdown_s, 1e-12);
    assert_true(slowdown_s <= given->policy.slowdown_max * p->alone_s + 1e-12);
}

static void test_promises(void **state)
{
    (void)state;
    struct made made;
    size_t planned = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t late = 0; late <= 3; late++)
            for (int bus = 0; bus < 3; bus++) {
                struct ork_perf perf = board();
                struct ork_plan_params given = params(late);
                perf.bus_bytes_per_s = bus == 0 ? 1e12 : bus == 1 ? 28.5e9 : 23e9;
                perf.chain_cpu_s = seed % 2 ? 1.5e-5 : 0;
                given.policy.margin = 0.1 * (double)(seed % 5);
                given.policy.slowdown_max = seed % 3 ? 0.02 : 0.2;
                given.memory_bytes = (seed % 4 ? 1024u : 4u) << 20;
                make(&made, seed);
                struct ork_plan p = plan(&perf, &made, &given), again = plan(&perf, &made, &given);
                check(&perf, &made, &given, &p);
                assert_int_equal(p.entry_count, again.entry_count);
                if (p.entry_count)
                    assert_memory_equal(p.entries, again.entries, p.entry_count * sizeof *p.entries);
                assert_memory_equal(p.limits, again.limits, p.group_count * sizeof *p.limits);
                planned += p.entry_count;
                ork_plan_free(&p);
                ork_plan_free(&again);
            }
    assert_true(planned > 1000); /* the checks had something to check */
}

/* Two equal members in a window, or in memory, that has room for one and a half: all of the more sensitive one, whichever
 * comes first, and what is left for the other. */
static void test_worth(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    perf.bus_bytes_per_s = 1e12;
    for (int first = 0; first < 2; first++)
        for (int shared_group = 0; shared_group < 2; shared_group++) {
            struct made made;
            start(&made);
            for (uint32_t i = 0; i < 2; i++) {
                struct ork_group *group =
                    i && shared_group ? &made.groups[made.shape.group_count - 1] : begin(&made, ORK_GROUP_EXPERT_UP, i);
                add(group, ORK_TIER_N8, 1024, 2048, (int)i == first ? 2 : 1, false);
                if (!i || !shared_group)
                    assert_true(ork_group_add(group, "up", ORK_TIER_NF4, 1280, 2048, 128, 8, 0, false));
            }
            /* 2 MiB each: a chain takes 350 us, both in one 540. A group takes the CPU 520 or 560, of which 0.8 count. */
            struct ork_plan_params given = params(0);
            given.policy.margin = 0.2;
            given.memory_bytes = shared_group ? 1u << 30 : 3u << 20;
            struct ork_plan p = plan(&perf, &made, &given);
            assert_int_equal(p.entry_count, shared_group ? 1 : 2);
            const uint8_t *parts = p.entries[0].parts;
            const uint32_t more = shared_group ? parts[first ? 2 : 0] : p.entries[first].parts[0],
                           less = shared_group ? parts[first ? 0 : 2] : p.entries[!first].parts[0];
            assert_int_equal(more, ORK_GROUP_PARTS);
            assert_true(shared_group ? less > 0 && less < ORK_GROUP_PARTS : less == ORK_GROUP_PARTS / 2);
            assert_int_equal(p.limit, shared_group ? ORK_ROUTE_WINDOW : ORK_ROUTE_NOT_RESIDENT);
            assert_float_equal(p.gain_share, (2 + (double)less / ORK_GROUP_PARTS) / 3, 1e-6);
            ork_plan_free(&p);
        }
}

/* Channels that lack more come first, whosever they are: with memory for one of two equal matrices, half of each, and more
 * than half of what they lack. Where the two are even, one of them is as good. */
static void test_parts(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    perf.bus_bytes_per_s = 1e12;
    for (int even = 0; even < 2; even++) {
        struct made made;
        start(&made);
        for (uint32_t i = 0; i < 2; i++) {
            struct ork_group *group = begin(&made, ORK_GROUP_EXPERT_UP, i);
            add(group, ORK_TIER_N8, 1024, 2048, 0, false);
            slope(&group->members[0], even ? 1 : 0.9f);
            assert_true(ork_group_add(group, "up", ORK_TIER_NF4, 1280, 2048, 128, 8, 0, false));
        }
        struct ork_plan_params given = params(0);
        given.memory_bytes = 2u << 20;
        struct ork_plan p = plan(&perf, &made, &given);
        assert_int_equal(p.resident_bytes, 2u << 20);
        assert_int_equal(p.entry_count, even ? 1 : 2);
        assert_int_equal(p.entries[0].parts[0], even ? ORK_GROUP_PARTS : ORK_GROUP_PARTS / 2);
        if (even)
            assert_float_equal(p.gain_share, 0.5, 1e-6);
        else
            assert_float_equal(p.gain_share, (1 - pow(0.9, 8)) / (1 - pow(0.9, 16)), 1e-5);
        ork_plan_free(&p);
    }
}

/* Every width: parts are falling channels in multiples of 32, all of them together the matrix. */
static void test_part_sizes(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 2100; n++) {
        struct ork_group group = {.kind = ORK_GROUP_HEAD};
        assert_true(ork_group_add(&group, "member", ORK_TIER_N8, n, 100, 0, 0, 0, false));
        const struct ork_group_member *member = &group.members[0];
        double shares = 0;
        assert_int_equal(ork_group_part_channels(member, 0), 0);
        for (uint32_t parts = 1; parts <= ORK_GROUP_PARTS; parts++) {
            const uint32_t channels = ork_group_part_channels(member, parts);
            assert_true(channels >= (n * parts + ORK_GROUP_PARTS - 1) / ORK_GROUP_PARTS);
            assert_true(channels == n ||
                        (channels < n && channels % 32 == 0 && channels < n * parts / ORK_GROUP_PARTS + 33));
            assert_int_equal(ork_group_part_bytes(member, parts), (uint64_t)(channels + 31) / 32 * 32 * 128);
            shares += (double)member->part_share[parts - 1];
        }
        assert_int_equal(ork_group_part_channels(member, ORK_GROUP_PARTS), n);
        assert_float_equal(shares, 1, 1e-6);
    }
}

static uint64_t largest_member(const struct made *made)
{
    uint64_t most = 0;
    for (size_t i = 0; i < made->shape.group_count; i++)
        for (uint32_t j = 0; j < made->groups[i].member_count; j++) {
            const struct ork_group_member *member = &made->groups[i].members[j];
            const uint64_t bytes = (uint64_t)member->n * member->k;
            most = member->tier == ORK_TIER_N8 && member->experts == 1 && bytes > most ? bytes : most;
        }
    return most;
}

/* More memory never means fewer bytes: where the first member is taken that did not fit before, more than all of the
 * smaller memory is in use. */
static void test_memory(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct made made;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t late = 0; late <= 2; late += 2) {
            struct ork_plan_params given = params(late);
            uint64_t before = 0;
            given.policy.slowdown_max = 0.2;
            make(&made, seed);
            for (given.memory_bytes = 0; given.memory_bytes < 100u << 20; given.memory_bytes += 700 << 10) {
                struct ork_plan p = plan(&perf, &made, &given);
                assert_true(p.resident_bytes >= before);
                before = p.resident_bytes;
                ork_plan_free(&p);
            }
            assert_true(before > 0);
        }
}

/* A larger margin never lets more in. Where the slowdown limits, what is taken first may leave a gap of one member. */
static void test_margin(void **state)
{
    (void)state;
    struct made made;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int limited = 0; limited < 2; limited++) {
            struct ork_perf perf = board();
            struct ork_plan_params given = params(0);
            uint64_t before = UINT64_MAX;
            make(&made, seed);
            given.policy.slowdown_max = limited ? 0.02 : 1;
            for (int percent = 0; percent < 100; percent += 5) {
                given.policy.margin = percent / 100.0;
                struct ork_plan p = plan(&perf, &made, &given);
                assert_true(before == UINT64_MAX || p.resident_bytes <= before + (limited ? largest_member(&made) : 0));
                before = p.resident_bytes;
                ork_plan_free(&p);
            }
            assert_int_equal(before, 0); /* nothing fits a twentieth of a window */
        }
}

/* Each figure of the NPU made better: as many bytes or more. A quicker stream takes more of the bus while it lasts, so it
 * is looked at where the bus is not what limits. */
static void test_quicker_npu(void **state)
{
    (void)state;
    struct made made;
    uint64_t gained = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t late = 0; late <= 2; late += 2) {
            struct ork_perf perf = board();
            struct ork_plan_params given = params(late);
            make(&made, seed);
            given.policy.slowdown_max = 1;
            perf.bus_bytes_per_s = 1e12;
            struct ork_plan p = plan(&perf, &made, &given);
            struct ork_perf better[5] = {perf, perf, perf, perf, perf};
            better[0].npu.submit_us /= 2;
            better[1].npu.task_us /= 3;
            better[2].npu.host_call_us /= 4;
            better[3].npu.core_bytes_per_s *= 2;
            better[4].unpack_bytes_per_s *= 3;
            for (int i = 0; i < 5; i++) {
                struct ork_plan more = plan(&better[i], &made, &given);
                assert_true(more.resident_bytes >= p.resident_bytes);
                gained += more.resident_bytes - p.resident_bytes;
                ork_plan_free(&more);
            }
            ork_plan_free(&p);
        }
    assert_true(gained > 0);
}

/* All: everything sensitive that is no stack of experts, in memory's bounds, and chains queue up on the core. */
static void test_all(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct made made;
    make(&made, 0);
    for (uint32_t late = 0; late <= 1; late++) {
        struct ork_plan_params given = params(late);
        given.all = true;
        uint64_t bytes = 0, stacks = 0;
        for (size_t i = 0; i < made.shape.group_count; i++)
            for (uint32_t j = 0; j < made.groups[i].member_count; j++) {
                const struct ork_group_member *member = &made.groups[i].members[j];
                if (member->tier != ORK_TIER_N8)
                    continue;
                stacks += member->experts > 1 ? (uint64_t)member->n * member->k * member->experts_used : 0;
                bytes += member->experts == 1 && (!late || member->residual) ? (uint64_t)member->n * member->k : 0;
            }
        struct ork_plan p = plan(&perf, &made, &given);
        assert_int_equal(p.resident_bytes, bytes);
        assert_int_equal(p.limit, late ? ORK_ROUTE_NO_RESIDUAL : ORK_ROUTE_NOT_RESIDENT);
        assert_true(late || p.sensitive_bytes == bytes + stacks);
        double waited_s = 0, free_s = 0;
        for (size_t i = 0; i < p.entry_count; i++) {
            const struct ork_plan_entry *entry = &p.entries[i];
            waited_s += free_s > entry->begin_s ? free_s - entry->begin_s : 0;
            free_s = entry->begin_s + entry->chain_s;
        }
        assert_true(late || waited_s > 0);
        ork_plan_free(&p);
        given.memory_bytes = 16u << 20;
        p = plan(&perf, &made, &given);
        assert_true(p.resident_bytes <= 16u << 20 && p.resident_bytes > 12u << 20);
        ork_plan_free(&p);
    }
}

static enum ork_route_limit empty_limit(const struct ork_perf *perf, const struct made *made,
                                        const struct ork_plan_params *given)
{
    struct ork_plan p = plan(perf, made, given);
    const enum ork_route_limit limit = p.limit;
    assert_int_equal(p.entry_count, 0);
    assert_int_equal(p.resident_bytes, 0);
    assert_true(p.token_s == p.alone_s);
    ork_plan_free(&p);
    return limit;
}

static void test_empty(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    struct made made;
    make(&made, 0);
    struct ork_plan_params given = params(0);
    given.memory_bytes = 1000;
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_NOT_RESIDENT);
    given = params(2);
    given.policy.slowdown_max = 0;
    for (size_t i = 0; i < made.shape.group_count; i++)
        for (uint32_t j = 0; j < made.groups[i].member_count; j++) {
            made.groups[i].members[j].residual = true;
            if (made.groups[i].members[j].experts > 1) /* those are left out for what they are */
                made.groups[i].members[j].tier = ORK_TIER_NF4;
        }
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_BUS);
    given = params(0);
    perf.npu.submit_us = 20000;
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_WINDOW);
    perf.has_npu = false;
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_ENGINE_OFF);
    perf = board();
    given.policy.sensitivity_min = 3;
    for (size_t i = 0; i < made.shape.group_count; i++)
        for (uint32_t j = 0; j < made.groups[i].member_count; j++)
            made.groups[i].members[j].sensitivity = 2;
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_NOT_SENSITIVE);
    for (size_t i = 0; i < made.shape.group_count; i++)
        for (uint32_t j = 0; j < made.groups[i].member_count; j++)
            made.groups[i].members[j].residual = false;
    given = params(1);
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_NO_RESIDUAL);
    make(&made, 0);
    for (size_t i = 0; i < made.shape.group_count; i++)
        for (uint32_t j = 0; j < made.groups[i].member_count; j++)
            made.groups[i].members[j].k = 1 << 20;
    given = params(0);
    assert_int_equal(empty_limit(&perf, &made, &given), ORK_ROUTE_TIER);
}

static void refused(const struct made *made, const struct ork_plan_params *given, const char *what)
{
    const struct ork_perf perf = board();
    struct ork_plan result;
    ork_error error;
    assert_int_equal(ork_plan_make(&perf, &made->shape, given, 0, &result, &error), ORK_BAD_ARGUMENT);
    if (!strstr(error.what, what))
        fail_msg("'%s' is not in '%s'", what, error.what);
    assert_null(result.entries);
}

static void test_refusals(void **state)
{
    (void)state;
    struct made made;
    make(&made, 0);
    static const double margins[] = {-0.1, 1, 2, NAN, INFINITY}, slowdowns[] = {-1, 1.5, NAN, INFINITY};
    struct ork_plan_params given;
    for (size_t i = 0; i < sizeof margins / sizeof *margins; i++) {
        given = params(0);
        given.policy.margin = margins[i];
        refused(&made, &given, "margin");
    }
    for (size_t i = 0; i < sizeof slowdowns / sizeof *slowdowns; i++) {
        given = params(0);
        given.policy.slowdown_max = slowdowns[i];
        refused(&made, &given, "slowdown");
    }
    given = params(ORK_PLAN_LATE_LAYERS_MAX + 1);
    refused(&made, &given, "layers late");
    given = params(0);
    given.policy.sensitivity_min = -1;
    refused(&made, &given, "sensitivity");
    given = params(0);
    given.poll_s = NAN;
    refused(&made, &given, "poll");
    given = params(0);
    made.groups[3].layer = LAYERS + 1;
    refused(&made, &given, "malformed");
    make(&made, 0);
    made.groups[9].member_count = ORK_GROUP_MEMBERS_MAX + 1;
    refused(&made, &given, "malformed");
    made.shape.group_count = 0;
    refused(&made, &given, "without op groups");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),    cmocka_unit_test(test_worth),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_part_sizes), cmocka_unit_test(test_margin),
        cmocka_unit_test(test_quicker_npu), cmocka_unit_test(test_all),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
