/* Guards chains beside the CPU against everything that the fault script knows, alone and in storms: a result that is handed
 * out has the bits of the kernel table, whatever the device does; what came of each chain is counted; the engine recovers, or
 * is off and begins nothing; in virtual time the same seed has the same outcome. In real time begin and poll never wait.
 *
 * ORK_STORM_CHAINS: chains of all storms together, 4000 unless it is set. */
#include "overlay_rig.h"

#include "base/clock.h"
#include "engine/npu/multiply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANG_SECONDS = 500, CHAINS = 5 };

static struct rig_chains join = {.model.random = 31}, late = {.model.random = 32, .params.late = true};
static struct rig_model model = {.random = 33};

static int make_chains(void **state)
{
    (void)state;
    static const enum ork_tier tiers[2] = {ORK_TIER_N8, ORK_TIER_I8};
    static const uint32_t n[CHAINS][2] = {{64, 33}, {100, 7}, {128, 128}, {40, 200}, {96, 1}};
    static const uint32_t k[CHAINS] = {64, 200, 96, 320, 8320}; /* the last: many tasks */
    uint64_t random = 34;
    alarm(HANG_SECONDS);
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain(&join, k[i], 2, tiers, n[i]);
        rig_chain(&late, k[i], 1, &tiers[i % 2], n[i]);
        late.chains[i].due_layer = i / 2 + 1;
        if (i) {
            rig_chain_thin(&join, &join.chains[i], &random);
            rig_chain_thin(&late, &late.chains[i], &random);
        }
    }
    rig_chains_time(&join, 3000000, 250000);
    rig_chains_time(&late, 100000, 550000);
    late.params.token_ns = join.params.token_ns;
    rig_add(&model, ORK_TIER_I8, 96, 96, 1, 0);
    return 0;
}

static int free_chains(void **state)
{
    (void)state;
    rig_chains_free(&join);
    rig_chains_free(&late);
    rig_model_free(&model);
    return 0;
}

/* NULL: the script lets nothing be opened or attached, which is a clean refusal. */
static ork_npu *open_attached(const char *script, const struct rig_chains *chains, uint32_t timeout_us, bool real_time)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT,
                                   .rows_min = 1,
                                   .skip_self_test = true,
                                   .faults = script,
                                   .timeout_us = timeout_us,
                                   .real_time = real_time};
    ork_npu *npu = NULL;
    ork_error error = {0};
    if (ork_npu_open(&params, &npu, &error)) {
        assert_true(error.what[0]);
        return NULL;
    }
    if (ork_npu_overlay_attach(npu, chains, &chains->params, &error)) {
        assert_true(error.what[0]);
        assert_null(ork_npu_overlay(npu));
        ork_npu_close(npu);
        return NULL;
    }
    return npu;
}

static void play_token(ork_npu *npu, uint64_t *random, struct rig_hits *hits)
{
    for (uint32_t i = 0; i < CHAINS; i++)
        rig_play(npu, &join, i, random, hits);
}

static void mark(struct rig_hits *hits, uint64_t what)
{
    hits->pattern = (hits->pattern ^ what) * 0x100000001b3ull;
}

/* All corrections that are due. */
static void take_corrections(ork_npu *npu, const struct rig_step *steps, uint32_t layer, struct rig_hits *hits)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    struct ork_overlay_correction correction;
    while (overlay->next_correction(overlay->context, layer, &correction)) {
        uint32_t chain = 0;
        while (chain < CHAINS &&
               (!rig_step_is_corrected(&steps[chain], &late.chains[chain], &correction) ||
                memcmp(correction.own + correction.part->count - 1, steps[chain].x.f32, sizeof(float)) != 0))
            chain++;
        hits->wrong += chain == CHAINS;
        hits->used++;
        mark(hits, 10 + chain);
    }
}

/* A pass of late chains; at random it ends early. */
static void play_late_token(ork_npu *npu, uint64_t *random, struct rig_hits *hits)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    struct rig_step steps[CHAINS];
    const uint32_t end = rig_random(random, 8) ? CHAINS : rig_random(random, CHAINS);
    for (uint32_t i = 0; i < CHAINS; i++)
        rig_step(&steps[i], &late.chains[i], random);
    for (uint32_t i = 0; i < CHAINS && i < end; i++) {
        if (i % 2 == 0)
            take_corrections(npu, steps, i / 2, hits);
        const bool begun = overlay->begin(overlay->context, i, &steps[i].x);
        hits->begun += begun;
        hits->refused += !begun;
        mark(hits, begun);
        float own[256];
        for (uint32_t c = 0; c < 256; c++)
            own[c] = steps[i].x.f32[0]; /* names the step */
        if (begun)
            overlay->keep(overlay->context, i, own);
    }
    if (end < CHAINS)
        overlay->forget(overlay->context);
    take_corrections(npu, steps, UINT32_MAX, hits);
    hits->missed = hits->begun - hits->used;
    for (uint32_t i = 0; i < CHAINS; i++)
        rig_step_free(&steps[i]);
}

/* ---- one fault ---- */

struct alone {
    const char *clause;
    enum { LATE, FAULTED, ANY } seen; /* what at least one chain is counted as */
    bool lasts;                       /* the engine need not be as before afterwards */
};

static const struct alone faults[] = {
    {"late:us=100", ANY, false},
    {"late:us=2000", LATE, false},
    {"late:us=20000", FAULTED, false},
    {"late:us=900000", FAULTED, false},
    {"never", FAULTED, false},
    {"stop:after=0", FAULTED, false},
    {"stop:after=1", ANY, false},
    {"constant:value=3", FAULTED, false},
    {"constant:value=0", FAULTED, false},
    {"untouched", FAULTED, false},
    {"tail:atoms=1", FAULTED, false},
    {"flip:words=1", FAULTED, false},
    {"flip:words=40", FAULTED, false},
    {"lost", FAULTED, false},
    {"early:us=30", ANY, false},
    {"early:us=100000", ANY, false},
    {"refuse", FAULTED, false},
    {"wedge", FAULTED, false},
    {"dead:core=0", FAULTED, true},
    {"memory", ANY, true},
    {"switch", ANY, true},
};

static void test_each_alone(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (uint32_t at = 0; at < CHAINS + 1; at++) {
            char script[96];
            uint64_t random = 1000 * f + at;
            struct rig_hits hits = {0};
            const bool has_keys = strchr(faults[f].clause, ':') != NULL;
            snprintf(script, sizeof script, "%s%s%s=%u", faults[f].clause, has_keys ? "," : ":",
                     strstr(faults[f].clause, "core=") ? "from" : "at", at);
            ork_npu *npu = open_attached(script, &join, 0, false);
            if (!npu) {
                assert_true(faults[f].lasts);
                continue;
            }
            for (uint32_t token = 0; token < 3; token++) {
                play_token(npu, &random, &hits);
                rig_check_counts(npu, &hits);
            }
            const struct ork_npu_overlay_counts counts = rig_counts(npu);
            if ((faults[f].seen == LATE && !counts.late) || (faults[f].seen == FAULTED && !counts.faulted))
                fail_msg("%s: %llu late, %llu faulted", script, (unsigned long long)counts.late,
                         (unsigned long long)counts.faulted);
            /* It is over, or will be when the caller's clock is where the engine's is; nothing is withheld. */
            ork_npu_settle(npu);
            assert_int_equal(rig_stats(npu).quarantined_bytes, 0);
            for (uint32_t token = 0; token < 2000 && hits.used < counts.in_time + CHAINS; token++)
                play_token(npu, &random, &hits);
            if (hits.used < counts.in_time + CHAINS)
                fail_msg("%s: not well afterwards: %s", script, rig_stats(npu).why);
            rig_check_counts(npu, &hits);
            ork_npu_close(npu);
        }
}

/* Faults without an end: the engine goes off and begins nothing, or does without the core. */
static void test_no_end(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "never:from=0",          "constant:from=3", "never:at=4;reset-fails:from=0",
        "refuse:from=2",         "flip:from=0",     "dead:core=0;dead:core=1;dead:core=2",
        "wedge:at=3;reset-fails"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        uint64_t random = i;
        struct rig_hits hits = {0};
        ork_npu *npu = open_attached(scripts[i], &join, 0, false);
        assert_non_null(npu);
        for (uint32_t token = 0; token < 3000 && !rig_stats(npu).off; token++)
            play_token(npu, &random, &hits);
        if (!rig_stats(npu).off)
            fail_msg("%s: not off", scripts[i]);
        const uint64_t begun = hits.begun, refused = hits.refused, submits = rig_stats(npu).submits;
        for (uint32_t token = 0; token < 20; token++)
            play_token(npu, &random, &hits);
        assert_int_equal(hits.begun, begun);
        assert_int_equal(hits.refused, refused + 20 * CHAINS);
        assert_int_equal(rig_stats(npu).submits, submits);
        rig_check_counts(npu, &hits);
        ork_error error = {0};
        ork_npu_overlay_detach(npu, &join);
        assert_int_equal(ork_npu_overlay_attach(npu, &join, &join.params, &error), ORK_FAILURE);
        assert_non_null(strstr(error.what, rig_stats(npu).why));
        ork_npu_close(npu);
    }
}

/* Where each core has a domain of its own, no other can read the chains' weights when theirs was given up: the engine goes
 * on, and begins no chains. The software device is made to look so for it. */
static void test_the_core_of_the_domain_is_given_up(void **state)
{
    (void)state;
    uint64_t random = 21;
    struct rig_hits hits = {0};
    ork_npu *npu = rig_open_npu(NULL);
    ((struct ork_npu_capabilities *)(uintptr_t)npu->capabilities)->core_per_domain = true;
    ork_npu_lanes_set(npu);
    rig_attach_chains(npu, &join);
    play_token(npu, &random, &hits);
    assert_int_equal(hits.used, CHAINS);
    npu->on_core[0].usable = false; /* as the owner does it, which has nothing to do */
    ork_npu_lanes_set(npu);
    play_token(npu, &random, &hits);
    play_token(npu, &random, &hits);
    assert_int_equal(hits.used, CHAINS);
    assert_int_equal(hits.missed, 1); /* which found out */
    assert_int_equal(hits.refused, 2 * CHAINS - 1);
    assert_int_equal(rig_counts(npu).faulted, 1);
    assert_false(rig_stats(npu).off);
    rig_check_counts(npu, &hits);
    ork_npu_overlay_detach(npu, &join); /* another core's domain is as good */
    rig_attach_chains(npu, &join);
    hits = (struct rig_hits){0};
    play_token(npu, &random, &hits);
    assert_int_equal(hits.used, CHAINS);
    ork_npu_close(npu);
}

/* ---- storms ---- */

static void write_storm(char *text, size_t size, uint64_t seed)
{
    static const char *const clauses[] = {
        "late:us=30000", "late:us=3000", "never",       "stop:after=0", "constant:value=9", "untouched",
        "tail:atoms=2",  "flip:words=2", "lost",        "early:us=40",  "refuse",           "wedge",
        "reset-fails",   "late:us=100",  "late:us=150", "stop:after=1", "stop:after=1",
    };
    uint64_t random = seed;
    int used = snprintf(text, size, "seed=%llu", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        const double p = strncmp(clauses[i], "reset", 5) == 0 ? 0.25 : 0.001 * (1 << rig_random(&random, 6));
        if (rig_random(&random, 2))
            used += snprintf(text + used, size - (size_t)used, ";%s%sp=%g", clauses[i],
                             strchr(clauses[i], ':') ? "," : ":", p);
    }
}

/* What one storm did, all that may depend on nothing but its seed. */
struct outcome {
    struct rig_hits hits;
    struct ork_npu_overlay_counts counts;
    struct rig_tally tally;
    uint64_t submits, resets, faults, off;
};

static void run_storm(uint64_t seed, bool is_late, struct outcome *outcome)
{
    char script[1024];
    uint64_t random = seed;
    *outcome = (struct outcome){0};
    write_storm(script, sizeof script, seed);
    ork_npu *npu = open_attached(script, is_late ? &late : &join, 0, false);
    if (!npu)
        return;
    ork_error error;
    const bool batches = seed % 3 == 0 && !ork_npu_attach(npu, &model, model.weights, model.count, &error);
    for (uint32_t token = 0; token < 60 && !rig_stats(npu).off; token++) {
        if (is_late)
            play_late_token(npu, &random, &outcome->hits);
        else
            play_token(npu, &random, &outcome->hits);
        rig_check_counts(npu, &outcome->hits);
        if (batches && token % 7 == 6) {
            struct rig_group group = {0};
            rig_task(&group, &model.matrices[0], 0, 9, false, &random);
            rig_run(&group, ork_npu_offload(npu), &outcome->tally);
            rig_group_free(&group);
        }
    }
    ork_npu_settle(npu);
    const ork_npu_stats stats = rig_stats(npu);
    assert_int_equal(outcome->tally.wrong, 0);
    assert_int_equal(stats.quarantined_bytes, 0);
    outcome->counts = rig_counts(npu);
    outcome->submits = stats.submits;
    outcome->resets = stats.resets + stats.failed_resets;
    outcome->faults = stats.late + stats.never_started + stats.stopped + stats.failed_checks + stats.refused_submits;
    outcome->off = stats.off;
    ork_npu_close(npu);
}

static void test_storms(void **state)
{
    (void)state;
    const char *given = getenv("ORK_STORM_CHAINS");
    const uint64_t wanted = given ? strtoull(given, NULL, 10) : 4000;
    struct outcome sum = {0};
    uint64_t seed = 0;
    for (; sum.counts.planned < wanted; seed++) {
        struct outcome once, again;
        run_storm(seed, seed % 2, &once);
        run_storm(seed, seed % 2, &again);
        if (memcmp(&once, &again, sizeof once) != 0)
            fail_msg("seed %llu: two outcomes: %llu and %llu used, %llu and %llu busy, %llu and %llu submits",
                     (unsigned long long)seed, (unsigned long long)once.hits.used, (unsigned long long)again.hits.used,
                     (unsigned long long)once.counts.busy, (unsigned long long)again.counts.busy,
                     (unsigned long long)once.submits, (unsigned long long)again.submits);
        sum.counts.planned += once.counts.planned;
        sum.counts.busy += once.counts.busy;
        sum.counts.in_time += once.counts.in_time;
        sum.counts.late += once.counts.late;
        sum.counts.faulted += once.counts.faulted;
        sum.resets += once.resets;
        sum.faults += once.faults;
        sum.off += once.off;
    }
    print_message(
        "%llu storms twice, %llu chains: %llu in time, %llu late, %llu faulted, %llu found it busy; %llu faults, "
        "%llu resets, switched off %llu times\n",
        (unsigned long long)seed, (unsigned long long)sum.counts.planned, (unsigned long long)sum.counts.in_time,
        (unsigned long long)sum.counts.late, (unsigned long long)sum.counts.faulted,
        (unsigned long long)sum.counts.busy, (unsigned long long)sum.faults, (unsigned long long)sum.resets,
        (unsigned long long)sum.off);
    assert_true(sum.counts.in_time > sum.counts.planned / 4);
    assert_true(wanted < 4000 ||
                (sum.counts.late && sum.counts.faulted && sum.counts.busy && sum.faults && sum.resets));
}

/* ---- real time ---- */

/* A device that never answers, with a deadline that is far away: the caller has its answer, and goes on, long before the
 * engine knows that anything is wrong. When the engine has recovered the slot is there again. */
static void test_no_answer_is_not_waited_for(void **state)
{
    (void)state;
    enum { DEADLINE_US = 400000 };
    struct rig_hits hits = {0};
    struct rig_step step;
    uint64_t random = 41;
    ork_npu *npu = open_attached("never:at=0", &join, DEADLINE_US, true);
    assert_non_null(npu);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    rig_step(&step, &join.chains[0], &random);
    assert_true(overlay->begin(overlay->context, 0, &step.x));
    while (!rig_stats(npu).submits)
        usleep(100);
    const uint64_t submitted_us = ork_clock_now_us();
    assert_null(overlay->poll(overlay->context, 0));
    rig_step_free(&step);
    for (uint32_t token = 0; token < 10; token++)
        play_token(npu, &random, &hits);
    /* All of it was over before the job's deadline was. */
    const ork_npu_stats stats = rig_stats(npu);
    if (ork_clock_now_us() < submitted_us + DEADLINE_US) /* else this machine stood still for a second */
        assert_int_equal(stats.late + stats.never_started + stats.failed_checks, 0);
    assert_int_equal(hits.begun, 0);
    assert_int_equal(hits.refused, 10 * CHAINS);
    hits.begun = hits.missed = 1;
    rig_check_counts(npu, &hits);
    assert_int_equal(rig_counts(npu).late, 1);
    ork_npu_settle(npu);
    assert_int_equal(rig_stats(npu).never_started, 1);
    assert_int_equal(rig_stats(npu).quarantined_bytes, 0);
    hits = (struct rig_hits){0};
    play_token(npu, &random, &hits);
    assert_true(hits.begun > 0);
    assert_int_equal(hits.wrong, 0);
    ork_npu_close(npu);
}

/* The same of late chains: all slots are lent out and dropped, and come back. */
static void test_no_answer_to_late_chains(void **state)
{
    (void)state;
    struct rig_hits hits = {0};
    uint64_t random = 42;
    ork_npu *npu = open_attached("never:at=0", &late, 400000, true);
    assert_non_null(npu);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    struct rig_step steps[1];
    rig_step(steps, &late.chains[0], &random);
    assert_true(overlay->begin(overlay->context, 0, &steps->x));
    while (!rig_stats(npu).submits)
        usleep(100);
    overlay->forget(overlay->context);
    rig_step_free(steps);
    hits.begun = 1;
    for (uint32_t token = 0; token < 10; token++)
        play_late_token(npu, &random, &hits);
    assert_int_equal(hits.used, 0);
    assert_true(hits.refused > 0);
    rig_check_counts(npu, &hits);
    ork_npu_settle(npu);
    hits = (struct rig_hits){0};
    uint64_t used = 0;
    for (uint32_t token = 0; token < 1000 && used < CHAINS; token++) {
        rig_step(steps, &late.chains[0], &random);
        if (overlay->begin(overlay->context, 0, &steps->x)) {
            struct ork_overlay_correction correction;
            ork_npu_settle(npu); /* a slow CPU */
            while (overlay->next_correction(overlay->context, UINT32_MAX, &correction)) {
                assert_memory_equal(correction.result, steps->right, late.chains[0].full[0].n * sizeof(float));
                used++;
            }
        }
        rig_step_free(steps);
    }
    assert_int_equal(used, CHAINS);
    ork_npu_close(npu);
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What begin and poll cost the caller, whatever the device does meanwhile; the bound is generous, for the machine may be
 * busy and sanitizers may watch. Results are read whenever there are any. */
static void test_cost_of_asking(void **state)
{
    (void)state;
    static const char *const scripts[] = {NULL, "late:p=0.5,us=3000", "flip:p=0.1;never:p=0.1"};
    /* Each job that never ends costs its deadline. */
    enum { ASKS = 400, MEDIAN_MOST_NS = 1000000, DEADLINE_US = 20000 };
    size_t count = sizeof scripts / sizeof *scripts;
#ifdef __SANITIZE_THREAD__
    /* A recovery tests one core while a job that was given up may still write from another, into the same surface: the
     * check is what tells. Where threads play the cores, that is a data race to the sanitizer, as it is by design. */
    print_message("LEFT OUT: faults in real time, under the thread sanitizer\n");
    count = 1;
#endif
    for (size_t s = 0; s < count; s++) {
        static uint64_t times[ASKS];
        uint64_t random = 43, used = 0, taken = 0;
        struct rig_step step;
        ork_npu *npu = open_attached(scripts[s], &join, DEADLINE_US, true);
        assert_non_null(npu);
        const struct ork_overlay *overlay = ork_npu_overlay(npu);
        rig_step(&step, &join.chains[2], &random);
        for (uint32_t i = 0; i < ASKS; i++) {
            if (i % 8)
                ork_npu_settle(npu); /* else it may be at the chain before, or recovering */
            const uint64_t before = ork_clock_now_ns();
            const bool begun = overlay->begin(overlay->context, 2, &step.x);
            times[i] = ork_clock_now_ns() - before;
            if (i % 2)
                usleep(1000); /* what the CPU computes meanwhile */
            const uint64_t between = ork_clock_now_ns();
            const float *results = begun ? overlay->poll(overlay->context, 2) : NULL;
            times[i] += ork_clock_now_ns() - between;
            if (results) {
                assert_true(rig_step_is_right(&step, &join.chains[2], overlay, results));
                overlay->done(overlay->context, 2);
                used++;
            }
            taken += begun;
        }
        qsort(times, ASKS, sizeof *times, compare_times);
        print_message("%s: begin and poll: median %llu ns, most %llu ns; %llu of %u used\n",
                      scripts[s] ? scripts[s] : "well", (unsigned long long)times[ASKS / 2],
                      (unsigned long long)times[ASKS - 1], (unsigned long long)used, (unsigned)ASKS);
        assert_true(times[ASKS / 2] < MEDIAN_MOST_NS);
        rig_counts(npu);
        rig_step_free(&step);
        ork_npu_close(npu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_alone),
        cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_the_core_of_the_domain_is_given_up),
        cmocka_unit_test(test_storms),
        cmocka_unit_test(test_no_answer_is_not_waited_for),
        cmocka_unit_test(test_no_answer_to_late_chains),
        cmocka_unit_test(test_cost_of_asking),
    };
    return cmocka_run_group_tests(tests, make_chains, free_chains);
}
