/* Guards the NPU engine against everything that the fault script knows: each fault alone at every early position, and
 * storms of random mixtures. Whatever happens, a result that is said to be done has the bits of the kernel table, the CPU
 * computes the rest, the counters tell what happened, and nothing hangs.
 *
 * ORK_STORM_SUBMITS: jobs of all storms together, 10000 unless it is set. */
#include "engine_rig.h"

#include "engine/npu/device/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANG_SECONDS = 500, MATRICES = 7 };

static struct rig_model model = {.random = 77};

static int make_model(void **state)
{
    (void)state;
    static const enum ork_tier tiers[MATRICES] = {ORK_TIER_I8, ORK_TIER_NF4, ORK_TIER_I4, ORK_TIER_I6,
                                                  ORK_TIER_I8, ORK_TIER_I5,  ORK_TIER_I8};
    alarm(HANG_SECONDS);
    for (uint32_t i = 0; i < MATRICES; i++)
        rig_add(&model, tiers[i], 64 + 96 * (i % 3), i < 6 ? 64 + 32 * i : 8320, 1 + i % 2,
                i / 2); /* the last: many tasks */
    return 0;
}

static int free_model(void **state)
{
    (void)state;
    rig_model_free(&model);
    return 0;
}

/* NULL: the script lets nothing be attached or opened, which is a clean refusal. */
static ork_npu *open_attached(const char *script)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .rows_min = 1, .skip_self_test = true, .faults = script};
    ork_npu *npu = NULL;
    ork_error error = {0};
    if (ork_npu_open(&params, &npu, &error)) {
        assert_true(error.what[0]);
        return NULL;
    }
    if (ork_npu_attach(npu, &model, model.weights, model.count, &error)) {
        assert_true(error.what[0]);
        ork_npu_close(npu);
        return NULL;
    }
    return npu;
}

/* rig_run compares every result, whoever computed it. */
static void run_group(ork_npu *npu, uint32_t tasks, uint64_t *random, struct rig_tally *tally)
{
    struct rig_group group = {0};
    for (uint32_t i = 0; i < tasks; i++) {
        const struct ork_matrix *w = &model.matrices[rig_random(random, MATRICES)];
        rig_task(&group, w, rig_random(random, w->experts), 1 + rig_random(random, 20), rig_random(random, 2), random);
    }
    rig_run(&group, ork_npu_offload(npu), tally);
    rig_group_free(&group);
}

static void check_counters(const ork_npu *npu, const struct rig_tally *tally)
{
    ork_npu_stats stats = rig_stats(npu);
    assert_int_equal(tally->wrong, 0);
    assert_int_equal(stats.matmuls, tally->done);
    assert_int_equal(stats.matmuls + stats.redone + stats.declined, tally->offered);
    assert_true(stats.off == (stats.why[0] != 0));
}

/* ---- one fault ---- */

static uint64_t seen_late(const ork_npu_stats *s)
{
    return s->late;
}
static uint64_t seen_never(const ork_npu_stats *s)
{
    return s->never_started;
}
static uint64_t seen_lost(const ork_npu_stats *s)
{
    return s->late + s->never_started;
}
static uint64_t seen_stopped(const ork_npu_stats *s)
{
    return s->stopped + s->never_started;
}
static uint64_t seen_check(const ork_npu_stats *s)
{
    return s->failed_checks;
}
static uint64_t seen_refusal(const ork_npu_stats *s)
{
    return s->refused_submits;
}
static uint64_t seen_core(const ork_npu_stats *s)
{
    return s->cores_in_use < 3;
}
static uint64_t seen_reset(const ork_npu_stats *s)
{
    return s->resets;
}

struct alone {
    const char *clause;
    uint64_t (*seen)(const ork_npu_stats *stats); /* NULL: may leave no trace */
    bool lasts;                                   /* the engine need not be as before afterwards */
};

static const struct alone faults[] = {
    {"late:us=20000", seen_late, false},
    {"late:us=900000", seen_never, false},
    {"never", seen_never, false},
    {"stop:after=0", seen_stopped, false},
    {"stop:after=1", NULL, false},
    {"constant:value=3", seen_check, false},
    {"constant:value=0", seen_check, false},
    {"untouched", seen_check, false},
    {"tail:atoms=1", seen_check, false},
    {"flip:words=1", seen_check, false},
    {"flip:words=40", seen_check, false},
    {"lost", seen_lost, false},
    {"early:us=30", NULL, false},
    {"early:us=100000", NULL, false},
    {"refuse", seen_refusal, false},
    {"wedge", seen_reset, false},
    {"dead:core=1", seen_core, true},
    {"memory", NULL, true},
    {"switch", NULL, true},
};

static void test_each_alone(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (uint32_t at = 0; at < 6; at++) {
            char script[96];
            uint64_t random = 1000 * f + at;
            struct rig_tally tally = {0};
            bool has_keys = strchr(faults[f].clause, ':') != NULL, is_core = strstr(faults[f].clause, "core=") != NULL;
            snprintf(script, sizeof script, "%s%s%s=%u", faults[f].clause, has_keys ? "," : ":",
                     is_core ? "from" : "at", at);
            ork_npu *npu = open_attached(script);
            if (!npu) {
                assert_true(faults[f].lasts);
                continue;
            }
            for (uint32_t i = 0; i < 6; i++) {
                run_group(npu, 3, &random, &tally);
                ork_npu_settle(npu);
                check_counters(npu, &tally);
            }
            ork_npu_stats stats = rig_stats(npu);
            if (faults[f].seen && !faults[f].seen(&stats))
                fail_msg("%s: no counter tells of it", script);
            /* It is over: the NPU works again. */
            uint64_t before = tally.done;
            run_group(npu, 3, &random, &tally);
            if (!faults[f].lasts && tally.done != before + 3)
                fail_msg("%s: not well afterwards: %s", script, stats.why);
            assert_int_equal(rig_stats(npu).quarantined_bytes, 0);
            ork_npu_close(npu);
        }
}

/* What never heals ends with the engine off, and the reason. */
static void test_no_end(void **state)
{
    (void)state;
    static const char *const scripts[] = {"dead:from=0",     "never:from=5",
                                          "constant:from=3", "never:from=2;reset-fails:from=0",
                                          "wedge:from=4",    "refuse:from=1"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        uint64_t random = i;
        struct rig_tally tally = {0};
        ork_npu *npu = open_attached(scripts[i]);
        assert_non_null(npu);
        for (uint32_t round = 0; round < 100 && !rig_stats(npu).off; round++) {
            run_group(npu, 2, &random, &tally);
            ork_npu_settle(npu);
        }
        check_counters(npu, &tally);
        ork_npu_stats stats = rig_stats(npu);
        if (!stats.off)
            fail_msg("%s: still on", scripts[i]);
        uint64_t submits = stats.submits;
        run_group(npu, 4, &random, &tally); /* all by the CPU now */
        assert_int_equal(rig_stats(npu).submits, submits);
        ork_npu_close(npu);
    }
}

/* ---- storms ---- */

static void write_storm(char *text, size_t size, uint64_t seed, uint64_t *random)
{
    static const char *const clauses[] = {
        "late:us=30000", "late:us=3000", "never",       "stop:after=0", "constant:value=9", "untouched",
        "tail:atoms=2",  "flip:words=2", "lost",        "early:us=40",  "refuse",           "wedge",
        "switch",        "reset-fails",  "late:us=100", "stop:after=1", "stop:after=1",
    };
    int used = snprintf(text, size, "seed=%llu", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof clauses / sizeof *clauses; i++) {
        /* From one in 2000 to one in 40; a reset fails one time in four at most. */
        double p =
            strncmp(clauses[i], "reset", 5) == 0 ? 0.25 * rig_random(random, 2) : 0.0005 * (1 << rig_random(random, 6));
        bool has_keys = strchr(clauses[i], ':') != NULL;
        if (p > 0.0 && rig_random(random, 2))
            used += snprintf(text + used, size - (size_t)used, ";%s%sp=%g", clauses[i], has_keys ? "," : ":", p);
    }
}

static void test_storms(void **state)
{
    (void)state;
    const char *given = getenv("ORK_STORM_SUBMITS");
    uint64_t wanted = given ? strtoull(given, NULL, 10) : 10000, submits = 0, random = 4711, storms = 0, off = 0;
    struct rig_tally all = {0};
    ork_npu_stats sum = {0};
    while (submits < wanted) {
        char script[1024];
        struct rig_tally tally = {0};
        write_storm(script, sizeof script, storms++, &random);
        ork_npu *npu = open_attached(script);
        if (!npu)
            continue;
        for (uint32_t i = 0; i < 60 && !rig_stats(npu).off; i++) {
            run_group(npu, 1 + rig_random(&random, 5), &random, &tally);
            if (rig_random(&random, 4)) /* else the next group meets an engine that is still recovering */
                ork_npu_settle(npu);
        }
        ork_npu_settle(npu);
        check_counters(npu, &tally);
        ork_npu_stats stats = rig_stats(npu);
        ork_npu_close(npu);
        submits += stats.submits;
        off += stats.off;
        all.offered += tally.offered;
        all.done += tally.done;
        sum.late += stats.late;
        sum.never_started += stats.never_started;
        sum.stopped += stats.stopped;
        sum.failed_checks += stats.failed_checks;
        sum.refused_submits += stats.refused_submits;
        sum.resets += stats.resets;
        sum.failed_resets += stats.failed_resets;
    }
    print_message(
        "%llu storms, %llu submits: %llu of %llu matmuls on the NPU; late %llu, never started %llu, stopped %llu, "
        "failed checks %llu, refused %llu, resets %llu and %llu failed, switched off %llu times\n",
        (unsigned long long)storms, (unsigned long long)submits, (unsigned long long)all.done,
        (unsigned long long)all.offered, (unsigned long long)sum.late, (unsigned long long)sum.never_started,
        (unsigned long long)sum.stopped, (unsigned long long)sum.failed_checks, (unsigned long long)sum.refused_submits,
        (unsigned long long)sum.resets, (unsigned long long)sum.failed_resets, (unsigned long long)off);
    assert_true(all.done > all.offered / 4); /* it was the NPU that was tested */
    assert_true(wanted < 5000 ||
                (sum.late && sum.never_started && sum.failed_checks && sum.refused_submits && sum.resets));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_alone),
        cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_storms),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
