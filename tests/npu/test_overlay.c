/* Guards chains beside the CPU's matmuls of one row, on the software device in virtual time: results have the bits of the
 * kernel table for the full matrices; a chain is used up to the nanosecond at which it is complete and never queued behind
 * another one at the join; late chains wait in order; chains that are hardly ever in time rest and come back; what becomes of
 * each is counted once; attaching leaves nothing behind. */
#include "overlay_rig.h"

#include "engine/npu/device/soft.h"
#include "engine/npu/timing.h"
#include "engine/npu/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ull
static const enum ork_tier tiers[] = {ORK_TIER_N8, ORK_TIER_NF4, ORK_TIER_I8, ORK_TIER_I5, ORK_TIER_I6};
#define TIERS (sizeof tiers / sizeof *tiers)

static struct ork_npu_device *device_of(const ork_npu *npu)
{
    return (struct ork_npu_device *)(uintptr_t)ork_npu_get_device(npu);
}

static struct ork_npu_soft_stats soft_stats(const ork_npu *npu)
{
    struct ork_npu_soft_stats soft;
    ork_npu_soft_get_stats(device_of(npu), &soft);
    return soft;
}

static void assert_clean(const ork_npu *npu)
{
    const struct ork_npu_soft_stats soft = soft_stats(npu);
    assert_int_equal(soft.misuses, 0);
    assert_int_equal(soft.hangs, 0);
    for (uint32_t i = 0; i < ORK_NPU_SOFT_ANOMALIES; i++)
        assert_int_equal(soft.anomalies[i], 0);
}

/* One member of n channels each; large ones in i8, which is quick to make. */
static void make_chains(struct rig_chains *chains, uint32_t count, uint32_t n, uint32_t k)
{
    const enum ork_tier tier = n * k > 100000 ? ORK_TIER_I8 : ORK_TIER_N8;
    for (uint32_t i = 0; i < count; i++)
        rig_chain(chains, k, 1, &tier, &n);
}

/* ---- bits ---- */

static void test_bits(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 1};
    struct rig_hits hits = {0};
    uint64_t random = 2;
    for (uint32_t members = 1; members <= ORK_NPU_CHAIN_MEMBERS_MAX; members++) {
        enum ork_tier mixed[ORK_NPU_CHAIN_MEMBERS_MAX];
        uint32_t n[ORK_NPU_CHAIN_MEMBERS_MAX];
        for (uint32_t i = 0; i < members; i++) {
            mixed[i] = tiers[(members + i) % TIERS];
            n[i] = 1 + rig_random(&random, 200);
        }
        rig_chain_thin(&chains, rig_chain(&chains, 1 + rig_random(&random, 400), members, mixed, n), &random);
    }
    rig_chains_time(&chains, SECOND_NS, SECOND_NS / 2);
    ork_npu *npu = rig_open_npu(NULL);
    rig_attach_chains(npu, &chains);
    for (uint32_t token = 0; token < 6; token++)
        for (uint32_t i = 0; i < chains.params.count; i++)
            rig_play(npu, &chains, i, &random, &hits);
    assert_int_equal(hits.used, 6 * chains.params.count);
    rig_check_counts(npu, &hits);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_chains_free(&chains);
}

/* Sliced inputs, more channels than a task takes, several buffers of weights. */
static void test_bits_of_large_chains(void **state)
{
    (void)state;
    static const struct {
        uint32_t k, n[2];
        enum ork_tier tiers[2];
    } shapes[] = {{8320, {64, 33}, {ORK_TIER_N8, ORK_TIER_I6}},
                  {11008, {64, 1}, {ORK_TIER_I5, ORK_TIER_N8}},
                  {96, {16416, 100}, {ORK_TIER_NF4, ORK_TIER_N8}},
                  {14336, {100, 64}, {ORK_TIER_I8, ORK_TIER_I8}}};
    struct rig_chains chains = {.model.random = 3};
    struct rig_hits hits = {0};
    uint64_t random = 4, bytes = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        rig_chain(&chains, shapes[i].k, 2, shapes[i].tiers, shapes[i].n);
    rig_chains_time(&chains, SECOND_NS, SECOND_NS / 2);
    ork_npu *npu = rig_open_npu(NULL);
    ((struct ork_npu_capabilities *)(uintptr_t)device_of(npu)->ops->capabilities(device_of(npu)))->buffer_bytes_max =
        2 << 20;
    rig_attach_chains(npu, &chains);
    const uint64_t buffers = soft_stats(npu).held_buffers;
    for (uint32_t i = 0; i < chains.params.count; i++)
        rig_play(npu, &chains, i, &random, &hits);
    assert_int_equal(hits.used, chains.params.count);
    const struct ork_npu_overlay_counts counts = rig_counts(npu);
    for (uint32_t i = 0; i < chains.params.count; i++)
        for (uint32_t m = 0; m < 2; m++)
            bytes += (uint64_t)chains.chains[i].full[m].n * chains.chains[i].full[m].k;
    assert_true(counts.bytes >= bytes && counts.bytes < bytes + bytes / 4); /* padding */
    assert_int_equal(counts.resident_bytes / 4096, (counts.bytes + 4095) / 4096);
    assert_clean(npu);
    ork_npu_overlay_detach(npu, &chains);
    assert_true(soft_stats(npu).held_buffers + 3 <= buffers); /* no two of the larger ones share one */
    ork_npu_close(npu);
    rig_chains_free(&chains);
}

static void test_find(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 5}, other = {.model.random = 6};
    const uint32_t n[3] = {33, 64, 100};
    rig_chain(&chains, 64, 3, tiers, n);
    rig_chain(&chains, 32, 2, tiers, n + 1);
    make_chains(&other, 1, 64, 64);
    ork_npu *npu = rig_open_npu(NULL);
    assert_null(ork_npu_overlay(npu));
    rig_attach_chains(npu, &chains);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    for (uint32_t c = 0; c < 2; c++) {
        uint32_t last_end = 0;
        for (uint32_t m = 0; m < chains.chains[c].member_count; m++) {
            const struct ork_overlay_part *part = overlay->find(overlay->context, chains.chains[c].members[m]);
            assert_non_null(part);
            assert_int_equal(part->chain, c);
            assert_true(part->first >= last_end);
            last_end = part->first + part->count;
        }
    }
    assert_null(overlay->find(overlay->context, other.chains[0].members[0]));
    assert_null(overlay->find(overlay->context, &chains.chains[0].full[0]));
    ork_npu_close(npu);
    rig_chains_free(&chains);
    rig_chains_free(&other);
}

/* ---- time ---- */

/* Whether chain 0 is in time with a window, at the first token and at the third, which must agree. */
static bool is_in_time(struct rig_chains *chains, uint64_t begin_ns, uint64_t window_ns)
{
    struct rig_hits hits = {0};
    uint64_t random = 7;
    chains->chains[0].begin_ns = begin_ns;
    chains->chains[0].window_ns = window_ns;
    chains->params.token_ns = SECOND_NS;
    ork_npu *npu = rig_open_npu(NULL);
    rig_attach_chains(npu, chains);
    for (uint32_t token = 0; token < 3; token++) {
        rig_play(npu, chains, 0, &random, &hits);
        assert_int_equal(hits.used * hits.missed, 0);
    }
    rig_check_counts(npu, &hits);
    assert_int_equal(rig_counts(npu).late, hits.missed);
    ork_npu_close(npu);
    return hits.used;
}

/* The shortest window that is enough is a sharp edge, wherever the chain begins, and about what the timing model says. */
static void test_windows(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{64, 64}, {1024, 512}, {96, 8320}};
    const struct ork_npu_profile *profile = ork_npu_profile_builtin();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct rig_chains chains = {.model.random = 8};
        make_chains(&chains, 1, shapes[s][0], shapes[s][1]);
        uint64_t low = 0, high = SECOND_NS / 10;
        assert_false(is_in_time(&chains, 0, low));
        assert_true(is_in_time(&chains, 0, high));
        while (high - low > 1) {
            const uint64_t middle = low + (high - low) / 2;
            *(is_in_time(&chains, 0, middle) ? &high : &low) = middle;
        }
        assert_true(is_in_time(&chains, 123456789, high));
        assert_false(is_in_time(&chains, 123456789, low));
        const double streaming_us = (double)shapes[s][0] * shapes[s][1] / profile->core_bytes_per_s * 1e6;
        const double least_us = profile->submit_us + profile->complete_us + streaming_us;
        assert_true((double)high / 1000 > 0.95 * least_us && (double)high / 1000 < 1.3 * least_us + 100);
        rig_chains_free(&chains);
    }
}

/* Begins a chain with a random input; whether it was begun. */
static bool begin(ork_npu *npu, const struct rig_chains *chains, uint32_t chain, struct rig_step *step,
                  uint64_t *random)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    rig_step(step, &chains->chains[chain], random);
    return overlay->begin(overlay->context, chain, &step->x);
}

static void test_busy_at_the_join_is_not_begun(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 9};
    struct rig_hits hits = {0};
    struct rig_step step;
    uint64_t random = 10;
    make_chains(&chains, 4, 512, 512); /* some 80 us */
    const uint64_t begins[4] = {0, 30000, 5000000, 5000001};
    for (uint32_t i = 0; i < 4; i++)
        chains.chains[i].begin_ns = begins[i];
    chains.chains[0].window_ns = chains.chains[1].window_ns = 20000;
    chains.chains[2].window_ns = chains.chains[3].window_ns = 2000000;
    chains.params.token_ns = 10000000;
    ork_npu *npu = rig_open_npu(NULL);
    rig_attach_chains(npu, &chains);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    for (uint64_t token = 1; token <= 5; token++) {
        rig_play(npu, &chains, 0, &random, &hits); /* late: the device is at it until 80 us */
        assert_int_equal(hits.missed, token);
        rig_play(npu, &chains, 1, &random, &hits);
        rig_play(npu, &chains, 2, &random, &hits);
        rig_play(npu, &chains, 3, &random, &hits); /* one nanosecond behind the second */
        assert_int_equal(hits.refused, 2 * token);
        assert_int_equal(hits.used, token);
        rig_check_counts(npu, &hits);
    }
    /* One that was not asked for yet takes the place. */
    assert_true(begin(npu, &chains, 0, &step, &random));
    struct rig_step other;
    assert_false(begin(npu, &chains, 2, &other, &random));
    assert_null(overlay->poll(overlay->context, 0));
    rig_step_free(&step);
    rig_step_free(&other);
    /* So does one whose results are being read. */
    assert_true(begin(npu, &chains, 2, &step, &random));
    const float *results = overlay->poll(overlay->context, 2);
    assert_non_null(results);
    assert_false(begin(npu, &chains, 0, &other, &random));
    assert_true(rig_step_is_right(&step, &chains.chains[2], overlay, results));
    overlay->done(overlay->context, 2);
    assert_int_equal(rig_counts(npu).busy, 12);
    rig_step_free(&step);
    rig_step_free(&other);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_chains_free(&chains);
}

/* ---- late ---- */

enum { LATE_CHAINS = 20, LATE_N = 96 };

static void fill_own(float *own, uint32_t chain)
{
    for (uint32_t i = 0; i < LATE_N; i++)
        own[i] = (float)(chain * 1000 + i);
}

/* Looks at all corrections due at a layer; returns a mask of the chains. They come in the order of their begins. */
static uint32_t take_corrections(ork_npu *npu, const struct rig_chains *chains, const struct rig_step *steps,
                                 uint32_t layer, const bool *kept)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    struct ork_overlay_correction correction;
    uint32_t mask = 0, next = 0;
    while (overlay->next_correction(overlay->context, layer, &correction)) {
        uint32_t chain = next;
        while (chain < chains->params.count && memcmp(correction.result, steps[chain].right, LATE_N * sizeof(float)))
            chain++;
        assert_true(chain < chains->params.count); /* right, and none before one that was begun before it */
        next = chain + 1;
        mask |= 1u << chain;
        if (!kept[chain]) {
            assert_int_equal(correction.part->count, 0);
            continue;
        }
        float own[LATE_N];
        fill_own(own, chain);
        assert_int_equal(correction.part->count, LATE_N);
        assert_memory_equal(correction.own, own, sizeof own);
    }
    return mask;
}

/* All begin at once and wait for each other. Those with a window for as many as came before them are in time. */
static void test_late_chains_queue(void **state)
{
    (void)state;
    for (uint32_t keeping = 0; keeping < 2; keeping++) {
        struct rig_chains chains = {.model.random = 11, .params.late = true};
        struct rig_step steps[LATE_CHAINS];
        bool kept[LATE_CHAINS];
        float own[LATE_N];
        uint64_t random = 12;
        uint32_t begun = 0, due = 0;
        make_chains(&chains, LATE_CHAINS, LATE_N, 512);
        for (uint32_t i = 0; i < LATE_CHAINS; i++) {
            /* Each takes more than 40 us and less than 100. */
            chains.chains[i].window_ns = (i % 5 == 4 ? 40000ull : 100000ull) * (i + 1);
            chains.chains[i].due_layer = i % 2 ? 3 : 1;
        }
        chains.params.token_ns = SECOND_NS;
        ork_npu *npu = rig_open_npu(NULL);
        rig_attach_chains(npu, &chains);
        const struct ork_overlay *overlay = ork_npu_overlay(npu);
        assert_true(overlay->late);
        for (uint32_t i = 0; i < LATE_CHAINS; i++) {
            const bool taken = begin(npu, &chains, i, &steps[i], &random);
            assert_int_equal(taken, i < ORK_NPU_OVERLAY_SLOTS); /* more than slots: busy */
            kept[i] = keeping || i % 2;
            fill_own(own, i);
            if (taken && kept[i])
                overlay->keep(overlay->context, i, own);
            begun += taken;
        }
        struct ork_npu_overlay_counts counts = rig_counts(npu);
        assert_int_equal(counts.submitted, begun);
        assert_int_equal(counts.pending, begun);
        assert_int_equal(take_corrections(npu, &chains, steps, 0, kept), 0);
        for (uint32_t i = 0; i < begun; i += 2)
            due |= i % 5 == 4 ? 0 : 1u << i;
        assert_int_equal(take_corrections(npu, &chains, steps, 2, kept), due);
        assert_int_equal(rig_counts(npu).pending, begun / 2);
        assert_int_equal(take_corrections(npu, &chains, steps, 2, kept), 0);
        due = 0;
        for (uint32_t i = 1; i < begun; i += 2)
            due |= i % 5 == 4 ? 0 : 1u << i;
        assert_int_equal(take_corrections(npu, &chains, steps, 3, kept), due);
        counts = rig_counts(npu);
        assert_int_equal(counts.pending, 0);
        assert_int_equal(counts.late, 3);
        assert_int_equal(counts.in_time, begun - 3);
        for (uint32_t i = 0; i < LATE_CHAINS; i++)
            rig_step_free(&steps[i]);
        assert_clean(npu);
        ork_npu_close(npu);
        rig_chains_free(&chains);
    }
}

/* A pass ends early, at any state of its chains: they count as late, their slots come back, and nothing of them is seen. */
static void test_forget(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 13, .params.late = true};
    static const bool kept[LATE_CHAINS] = {0};
    struct rig_step steps[LATE_CHAINS];
    uint64_t random = 14;
    make_chains(&chains, 6, LATE_N, 512);
    rig_chains_time(&chains, 1000, SECOND_NS / 2);
    chains.params.token_ns = SECOND_NS;
    ork_npu *npu = rig_open_npu(NULL);
    rig_attach_chains(npu, &chains);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    for (uint32_t round = 0; round < 30; round++) {
        struct ork_overlay_correction correction;
        for (uint32_t i = 0; i < 6; i++)
            assert_true(begin(npu, &chains, i, &steps[i], &random));
        if (round % 3) /* one is being looked at */
            assert_true(overlay->next_correction(overlay->context, UINT32_MAX, &correction));
        overlay->forget(overlay->context);
        assert_int_equal(take_corrections(npu, &chains, steps, UINT32_MAX, kept), 0);
        assert_int_equal(rig_counts(npu).pending, 0);
        for (uint32_t i = 0; i < 6; i++)
            rig_step_free(&steps[i]);
    }
    overlay->forget(overlay->context);
    assert_int_equal(rig_counts(npu).in_time, 20);
    assert_int_equal(rig_counts(npu).late, 160);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_chains_free(&chains);
}

/* ---- rests ---- */

enum { REST_VISITS = 3000 };

struct rests {
    uint32_t gaps[REST_VISITS], tries; /* begins that were passed over before each try */
    uint32_t last_gap;                 /* behind the last try */
    struct ork_npu_overlay_counts counts;
};

/* One chain is visited once a token, by the script in time or late; what is told beforehand is what happens. */
static struct rests play_rests(const char *script, bool late, bool rests, uint32_t visits)
{
    struct rig_chains chains = {.model.random = 30, .params = {.late = late, .rests = rests}};
    struct rests played = {.tries = 0};
    uint64_t random = 31;
    make_chains(&chains, 1, 64, 64);
    rig_chains_time(&chains, 10000000, 1000000);
    chains.params.token_ns = 10000000;
    ork_npu *npu = rig_open_npu(script);
    rig_attach_chains(npu, &chains);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    for (uint32_t i = 0; i < visits; i++) {
        struct rig_step step;
        struct ork_overlay_correction correction;
        rig_step(&step, &chains.chains[0], &random);
        const bool is_free = overlay->is_free(overlay->context, 0);
        const bool begun = overlay->begin(overlay->context, 0, is_free ? &step.x : NULL);
        assert_true(is_free || !begun);
        if (!begun) {
            played.last_gap++;
        } else {
            played.gaps[played.tries++] = played.last_gap;
            played.last_gap = 0;
            if (late)
                while (overlay->next_correction(overlay->context, 0, &correction))
                    assert_memory_equal(correction.result, step.right, 64 * sizeof(float));
            else if (overlay->poll(overlay->context, 0))
                overlay->done(overlay->context, 0);
        }
        rig_step_free(&step);
    }
    played.counts = rig_counts(npu);
    assert_int_equal(played.counts.planned, visits);
    assert_int_equal(played.counts.submitted, played.tries);
    assert_int_equal(played.counts.pending, 0);
    ork_npu_close(npu);
    rig_chains_free(&chains);
    return played;
}

/* A chain that is never in time is tried some times, then ever more rarely up to a bound; when the device is quick again,
 * the next try brings it back for good. Without rests each begin is a try. */
static void test_late_chains_rest_and_come_back(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        const struct rests never = play_rests("late:from=0,us=5000", late, true, REST_VISITS);
        uint32_t first = 0;
        while (first < never.tries && !never.gaps[first])
            first++;
        assert_true(first >= 8 && first < 16);
        assert_int_equal(never.gaps[first], ORK_NPU_OVERLAY_REST_FIRST);
        for (uint32_t i = first + 1; i < never.tries; i++)
            assert_int_equal(never.gaps[i], never.gaps[i - 1] < ORK_NPU_OVERLAY_REST_MOST ? 2 * never.gaps[i - 1]
                                                                                          : ORK_NPU_OVERLAY_REST_MOST);
        assert_int_equal(never.gaps[never.tries - 1], ORK_NPU_OVERLAY_REST_MOST);
        assert_int_equal(never.counts.late, never.tries);
        assert_int_equal(never.counts.rested, REST_VISITS - never.tries);

        char script[64]; /* the third rest is the last */
        snprintf(script, sizeof script, "late:from=%u,us=0;late:from=0,us=5000", first + 2);
        const struct rests back = play_rests(script, late, true, REST_VISITS);
        for (uint32_t i = 0; i < back.tries; i++)
            assert_int_equal(back.gaps[i], i < first + 3 ? never.gaps[i] : 0);
        assert_int_equal(back.counts.late, first + 2);
        assert_int_equal(back.counts.in_time, back.tries - first - 2);
        assert_int_equal(back.counts.rested, 7 * ORK_NPU_OVERLAY_REST_FIRST);
        assert_int_equal(back.last_gap, 0);

        const struct rests off = play_rests("late:from=0,us=5000", late, false, 100);
        assert_int_equal(off.tries, 100);
    }
}

/* Wrong results are misses like late ones. The jobs in between are the recovery's tests, which come out right. */
static void test_faulted_chains_rest(void **state)
{
    (void)state;
    const struct rests played = play_rests("flip:every=2", false, true, 200);
    assert_int_equal(played.counts.faulted, played.tries);
    assert_true(played.tries < 20);
    assert_int_equal(played.counts.busy, 0);
    assert_int_equal(played.counts.rested, 200 - played.tries);
}

/* By chance: chains in time more often than not are hardly ever passed over, chains hardly ever in time are hardly ever
 * begun; and the same seed has the same history. */
static void test_rests_by_chance(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        uint32_t least, most; /* tries of 3000 */
    } cases[] = {{"seed=1;late:p=0.3,us=5000", 2970, REST_VISITS},
                 {"seed=2;late:p=0.5,us=5000", 2400, REST_VISITS},
                 {"seed=3;late:p=0.85,us=5000", 12, 240},
                 {"seed=4;late:p=0.95,us=5000", 12, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rests one = play_rests(cases[i].script, i % 2, true, REST_VISITS),
                           two = play_rests(cases[i].script, i % 2, true, REST_VISITS);
        if (one.tries < cases[i].least || one.tries > cases[i].most)
            fail_msg("%s: %u tries of %u", cases[i].script, one.tries, REST_VISITS);
        assert_memory_equal(&one, &two, sizeof one);
    }
}

/* ---- with batches ---- */

/* Batches between tokens, longer than a token: the next token begins when the caller has them, and its chains find the
 * device free. */
static void test_batches_between_tokens(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct rig_chains chains = {.model.random = 15, .params.late = late};
        struct rig_model model = {.random = 16};
        struct rig_hits hits = {0};
        struct rig_tally tally = {0};
        uint64_t random = 17;
        ork_error error;
        rig_add(&model, ORK_TIER_I8, 64, 64, 1, 0);
        make_chains(&chains, 3, 512, 512);
        rig_chains_time(&chains, 400000, 350000);
        const ork_npu_params params = {.kind = ORK_NPU_SOFT, .rows_min = 2, .skip_self_test = true};
        ork_npu *npu;
        assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
        rig_attach_chains(npu, &chains);
        assert_int_equal(ork_npu_attach(npu, &model, model.weights, 1, &error), ORK_OK);
        const struct ork_overlay *overlay = ork_npu_overlay(npu);
        const struct ork_clock *clock = device_of(npu)->ops->clock(device_of(npu));
        for (uint32_t token = 0; token < 8; token++) {
            const uint64_t before = clock->now_ns(clock);
            if (token % 2) {
                struct rig_group group = {0};
                for (uint32_t i = 0; i < 30; i++)
                    rig_task(&group, &model.matrices[0], 0, 2, false, &random);
                rig_run(&group, ork_npu_offload(npu), &tally);
                rig_group_free(&group);
                assert_true(clock->now_ns(clock) > before + chains.params.token_ns);
            }
            for (uint32_t i = 0; i < 3; i++) {
                struct rig_step step;
                struct ork_overlay_correction correction;
                if (!late) {
                    rig_play(npu, &chains, i, &random, &hits);
                    continue;
                }
                assert_true(begin(npu, &chains, i, &step, &random));
                assert_true(overlay->next_correction(overlay->context, 0, &correction));
                assert_memory_equal(correction.result, step.right, 512 * sizeof(float));
                assert_false(overlay->next_correction(overlay->context, 0, &correction));
                rig_step_free(&step);
            }
        }
        assert_int_equal(tally.done, tally.offered);
        assert_int_equal(rig_counts(npu).in_time, 24);
        assert_int_equal(rig_counts(npu).busy, 0);
        assert_clean(npu);
        ork_npu_close(npu);
        rig_chains_free(&chains);
        rig_model_free(&model);
    }
}

/* ---- coming and going ---- */

static void test_one_user_at_a_time(void **state)
{
    (void)state;
    struct rig_chains first = {.model.random = 18}, second = {.model.random = 19};
    struct rig_hits hits = {0};
    uint64_t random = 20;
    ork_error error;
    make_chains(&first, 2, 100, 100);
    make_chains(&second, 1, 64, 256);
    rig_chains_time(&first, SECOND_NS, SECOND_NS / 2);
    rig_chains_time(&second, SECOND_NS, SECOND_NS / 2);
    ork_npu *npu = rig_open_npu(NULL);
    const uint64_t held_at_first = soft_stats(npu).held_bytes;
    uint64_t held = 0;
    for (uint32_t round = 0; round < 20; round++) {
        const struct rig_chains *mine = round % 2 ? &second : &first, *others = round % 2 ? &first : &second;
        rig_attach_chains(npu, mine);
        assert_int_equal(ork_npu_overlay_attach(npu, others, &others->params, &error), ORK_LIMIT);
        assert_int_equal(ork_npu_overlay_attach(npu, mine, &mine->params, &error), ORK_LIMIT);
        assert_non_null(strstr(error.what, "another session"));
        ork_npu_overlay_detach(npu, others); /* has none */
        hits = (struct rig_hits){0};
        rig_play(npu, mine, 0, &random, &hits);
        assert_int_equal(hits.used, 1);
        rig_check_counts(npu, &hits);
        ork_npu_overlay_detach(npu, mine);
        assert_null(ork_npu_overlay(npu));
        assert_int_equal(rig_counts(npu).planned, 0);
        if (round == 1)
            held = soft_stats(npu).held_bytes;
        else if (round > 1)
            assert_int_equal(soft_stats(npu).held_bytes, held);
    }
    assert_true(held > held_at_first);        /* surfaces and programs stay for the next one */
    rig_attach_chains(npu, &first);           /* goes with the handle */
    rig_play(npu, &first, 0, &random, &hits); /* and after a chain whose slot is open */
    struct rig_step step;
    assert_true(begin(npu, &first, 1, &step, &random));
    rig_step_free(&step);
    assert_clean(npu);
    ork_npu_overlay_detach(npu, &first);
    ork_npu_close(npu);
    rig_chains_free(&first);
    rig_chains_free(&second);
}

static void expect_refusal(ork_npu *npu, const struct ork_npu_overlay_params *params, ork_status status,
                           const char *what)
{
    ork_error error = {0};
    const uint64_t held = soft_stats(npu).held_bytes;
    assert_int_equal(ork_npu_overlay_attach(npu, npu, params, &error), status);
    if (!strstr(error.what, what))
        fail_msg("\"%s\" is not in \"%s\"", what, error.what);
    assert_null(ork_npu_overlay(npu));
    assert_int_equal(soft_stats(npu).held_bytes, held);
}

static void test_bad_chains_are_refused(void **state)
{
    (void)state;
    struct rig_chains good = {.model.random = 21};
    const uint32_t n[2] = {64, 96};
    const enum ork_tier rows = ORK_TIER_G8, four = ORK_TIER_I4;
    rig_chain(&good, 64, 2, tiers, n);
    const struct ork_matrix *of_rows = rig_add(&good.model, rows, 64, 64, 1, 0);
    const struct ork_matrix *of_four = rig_add(&good.model, four, 64, 64, 1, 0);
    const struct ork_matrix *stack = rig_add(&good.model, ORK_TIER_I8, 64, 64, 2, 0);
    const struct ork_matrix *longer = rig_add(&good.model, ORK_TIER_I8, 64, 96, 1, 0);
    ork_npu *npu = rig_open_npu(NULL);
    const struct ork_npu_chain chain = good.chains[0];
    struct ork_npu_chain bad[2] = {chain, chain};
    struct ork_npu_overlay_params params = {.chains = bad, .count = 0};
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "no chains");
    params.count = 1;
    bad[0].member_count = 0;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "0 members");
    bad[0].member_count = ORK_NPU_CHAIN_MEMBERS_MAX + 1;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "9 members");
    bad[0] = chain;
    params.late = true;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "2 members");
    params.late = false;
    const struct ork_matrix *const others[] = {of_rows, of_four, stack, longer};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bad[0] = chain;
        bad[0].full[1] = *others[i];
        bad[0].members[1] = others[i];
        expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "not a matrix for a chain");
    }
    bad[0] = chain; /* another shape than the CPU's */
    bad[0].full[1].n = 64;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "not a matrix for a chain");
    static const uint32_t none[1] = {0}, twice[2] = {5, 5}, falling[2] = {6, 5}, outside[2] = {0, 96};
    const struct {
        const uint32_t *list;
        uint32_t count;
    } lists[] = {{none, 0}, {twice, 2}, {falling, 2}, {outside, 2}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        bad[0] = chain;
        bad[0].channels[1] = lists[i].list;
        bad[0].channel_counts[1] = lists[i].count;
        expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "other channels");
    }
    bad[0] = chain; /* the CPU would not know which of them to begin */
    params.count = 2;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "more than once");
    bad[0].members[1] = bad[0].members[0];
    bad[0].full[1] = bad[0].full[0];
    params.count = 1;
    expect_refusal(npu, &params, ORK_BAD_ARGUMENT, "more than once");
    bad[0] = chain;
    assert_int_equal(ork_npu_overlay_attach(npu, npu, &params, NULL), ORK_OK);
    ork_npu_close(npu);
    rig_chains_free(&good);
}

static void test_a_bound_on_memory(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 22};
    ork_npu *npu;
    ork_error error;
    make_chains(&chains, 3, 128, 128);
    for (uint64_t room = 3 * 128 * 128 - 1; room <= 3 * 128 * 128; room++) {
        const ork_npu_params params = {.kind = ORK_NPU_SOFT, .skip_self_test = true, .memory_bytes = room};
        assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
        assert_int_equal(ork_npu_overlay_room(npu), room);
        if (room == 3 * 128 * 128)
            rig_attach_chains(npu, &chains);
        else
            expect_refusal(npu, &chains.params, ORK_NO_MEMORY, "there is room for 49151");
        ork_npu_close(npu);
    }
    rig_chains_free(&chains);
}

/* Each allocation of an attach fails once: it is refused, and the next one finds everything as it was. */
static void test_failing_memory(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 23};
    struct rig_hits hits = {0};
    uint64_t random = 24, held[2] = {0};
    uint32_t refused = 0, from_limit = 0;
    make_chains(&chains, 3, 300, 200);
    rig_chains_time(&chains, SECOND_NS, SECOND_NS / 2);
    for (uint32_t at = 0; at < 12; at++) {
        char script[40];
        ork_error error = {0};
        snprintf(script, sizeof script, "memory:at=%u", at);
        ork_npu *npu = rig_open_npu(script);
        if (ork_npu_overlay_attach(npu, &chains, &chains.params, &error)) {
            refused++;
            assert_int_equal(error.code, ORK_NO_MEMORY);
            assert_null(ork_npu_overlay(npu));
            rig_attach_chains(npu, &chains);
        }
        for (uint32_t i = 0; i < 3; i++)
            rig_play(npu, &chains, i, &random, &hits);
        ork_npu_settle(npu);
        const struct ork_npu_soft_stats soft = soft_stats(npu);
        ork_npu_overlay_detach(npu, &chains);
        held[0] = soft_stats(npu).held_bytes;
        assert_true(!held[1] || held[0] == held[1] || hits.missed); /* surfaces and programs, always the same */
        held[1] = held[0];
        assert_int_equal(soft.misuses, 0);
        ork_npu_close(npu);
    }
    assert_true(refused >= 3 && refused < 12);
    assert_int_equal(hits.wrong, 0);
    for (uint32_t limit = 0; limit < 12; limit++) {
        char script[40];
        ork_error error = {0};
        snprintf(script, sizeof script, "descriptors:limit=%u", limit);
        ork_npu *npu = rig_open_npu(script);
        if (ork_npu_overlay_attach(npu, &chains, &chains.params, &error)) {
            from_limit++;
            assert_int_equal(error.code, ORK_LIMIT);
            assert_true(soft_stats(npu).held_buffers <= limit);
            assert_null(ork_npu_overlay(npu));
        }
        ork_npu_close(npu);
    }
    assert_true(from_limit >= 3 && from_limit < 12);
    rig_chains_free(&chains);
}

/* What the chains take of a bound is missing to the model's weights. */
static void test_weights_beside_chains(void **state)
{
    (void)state;
    struct rig_chains chains = {.model.random = 25};
    struct rig_model model = {.random = 26};
    ork_npu *npu;
    ork_error error;
    make_chains(&chains, 4, 256, 256);
    for (uint32_t i = 0; i < 8; i++)
        rig_add(&model, ORK_TIER_NF4, 256, 256, 1, i);
    const ork_npu_params params = {
        .kind = ORK_NPU_SOFT, .rows_min = 2, .skip_self_test = true, .memory_bytes = 8 * 256 * 256};
    assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
    rig_attach_chains(npu, &chains);
    assert_int_equal(ork_npu_attach(npu, &model, model.weights, model.count, &error), ORK_OK);
    assert_true(rig_stats(npu).resident_bytes + rig_counts(npu).resident_bytes <= params.memory_bytes);
    assert_true(rig_stats(npu).resident_bytes >= 3 * 256 * 256);
    ork_npu_close(npu);
    rig_chains_free(&chains);
    rig_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_bits_of_large_chains),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_busy_at_the_join_is_not_begun),
        cmocka_unit_test(test_late_chains_queue),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_late_chains_rest_and_come_back),
        cmocka_unit_test(test_faulted_chains_rest),
        cmocka_unit_test(test_rests_by_chance),
        cmocka_unit_test(test_batches_between_tokens),
        cmocka_unit_test(test_one_user_at_a_time),
        cmocka_unit_test(test_bad_chains_are_refused),
        cmocka_unit_test(test_a_bound_on_memory),
        cmocka_unit_test(test_failing_memory),
        cmocka_unit_test(test_weights_beside_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
