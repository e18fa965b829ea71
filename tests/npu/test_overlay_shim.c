/* Guards chains beside the CPU on the two drivers' devices, played at the system-call boundary, in real time on a machine
 * that may be busy: results have the bits of the kernel table there as well; asked for at once they are right or late, never
 * wrong, also when the played hardware fails or writes after it was given up. */
#include "overlay_rig.h"
#include "shim/shim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

enum { HANG_SECONDS = 500, CHAINS = 4 };

static struct rig_chains chains = {.model.random = 51};
static struct rig_model model = {.random = 52};

static int make_chains(void **state)
{
    (void)state;
    static const enum ork_tier tiers[3] = {ORK_TIER_N8, ORK_TIER_I8, ORK_TIER_NF4};
    static const uint32_t n[CHAINS][3] = {{64, 33, 1}, {100, 7, 128}, {256, 130, 64}, {40, 200, 31}};
    static const uint32_t k[CHAINS] = {64, 200, 96, 320};
    alarm(HANG_SECONDS);
    for (uint32_t i = 0; i < CHAINS; i++)
        rig_chain(&chains, k[i], 1 + i % 3, tiers, n[i]);
    rig_add(&model, ORK_TIER_I8, 96, 96, 1, 0);
    rig_add(&model, ORK_TIER_NF4, 200, 64, 1, 1);
    return 0;
}

static int free_chains(void **state)
{
    (void)state;
    rig_chains_free(&chains);
    rig_model_free(&model);
    return 0;
}

static ork_npu *open_on(ork_npu_kind kind, const char *options, const char *faults, uint32_t timeout_us)
{
    const ork_npu_params params = {.kind = kind, .rows_min = 1, .skip_self_test = true, .timeout_us = timeout_us};
    ork_npu *npu = NULL;
    ork_error error = {0};
    assert_int_equal(ork_shim_configure(options, faults, NULL), 0);
    ork_status status = ork_npu_open(&params, &npu, &error);
    if (!status)
        status = ork_npu_attach(npu, &model, model.weights, model.count, &error);
    if (status)
        print_error("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
    rig_attach_chains(npu, &chains);
    return npu;
}

static void close_on(ork_npu *npu)
{
    ork_npu_overlay_detach(npu, &chains);
    ork_npu_close(npu);
    assert_int_equal(ork_shim_open_files(), 0);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0); /* and no buffers */
}

static void run_batch(ork_npu *npu, uint64_t *random)
{
    struct rig_group group = {0};
    struct rig_tally tally = {0};
    for (uint32_t i = 0; i < 3; i++)
        rig_task(&group, &model.matrices[i % 2], 0, 1 + rig_random(random, 20), false, random);
    rig_run(&group, ork_npu_offload(npu), &tally);
    assert_int_equal(tally.wrong, 0);
    rig_group_free(&group);
}

/* The owner is through with what was begun: a loop of it is behind us, and with the second one its chain. */
static void wait_for_chain(ork_npu *npu)
{
    ork_npu_settle(npu);
    ork_npu_settle(npu);
}

/* A CPU so slow that a chain is in time, if it comes at all. */
static void play_slowly(ork_npu *npu, uint32_t chain, uint64_t *random, struct rig_hits *hits)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    struct rig_step step;
    rig_step(&step, &chains.chains[chain], random);
    wait_for_chain(npu);
    const bool begun = overlay->begin(overlay->context, chain, &step.x);
    wait_for_chain(npu);
    const float *results = begun ? overlay->poll(overlay->context, chain) : NULL;
    hits->begun += begun;
    hits->refused += !begun;
    hits->used += results != NULL;
    hits->missed += begun && !results;
    if (results) {
        assert_true(rig_step_is_right(&step, &chains.chains[chain], overlay, results));
        overlay->done(overlay->context, chain);
    }
    rig_step_free(&step);
}

static void run_slowly(ork_npu *npu, uint32_t tokens, uint64_t *random)
{
    struct rig_hits hits = {0};
    for (uint32_t i = 0; i < tokens * CHAINS; i++) {
        play_slowly(npu, i % CHAINS, random, &hits);
        if (i % 5 == 4)
            run_batch(npu, random);
    }
    assert_int_equal(hits.used, tokens * CHAINS);
}

/* Asked for after a random time; what is dropped may still be written while batches and other chains are computed. */
static uint64_t run_hastily(ork_npu *npu, uint32_t tokens, uint64_t *random)
{
    struct rig_hits hits = {0};
    for (uint32_t token = 0; token < tokens; token++)
        for (uint32_t chain = 0; chain < CHAINS; chain++) {
            rig_play(npu, &chains, chain, random, &hits);
            if (rig_random(random, 3) == 0)
                usleep(rig_random(random, 300));
            if (rig_random(random, 8) == 0)
                run_batch(npu, random);
            if (rig_random(random, 4) == 0)
                wait_for_chain(npu);
        }
    const struct ork_npu_overlay_counts counts = rig_counts(npu);
    assert_int_equal(hits.wrong, 0);
    assert_int_equal(counts.pending, 0);
    assert_int_equal(hits.begun + hits.refused, tokens * CHAINS);
    return hits.begun;
}

static void run_healthy(ork_npu_kind kind, const char *options)
{
    uint64_t random = 53;
    ork_npu *npu = open_on(kind, options, NULL, 5000000);
    run_slowly(npu, 4, &random);
    assert_int_equal(rig_counts(npu).in_time, 4 * CHAINS);
    assert_true(run_hastily(npu, 40, &random) > 0);
    run_slowly(npu, 2, &random);
    assert_int_equal(rig_counts(npu).faulted, 0);
    assert_int_equal(rig_stats(npu).quarantined_bytes, 0);
    close_on(npu);
}

static void run_faults(ork_npu_kind kind, const char *options, const char *faults)
{
    uint64_t random = 54;
    ork_npu *npu = open_on(kind, options, faults, 30000);
    (void)run_hastily(npu, 25, &random);
    const ork_npu_stats stats = rig_stats(npu);
    if (!(stats.late + stats.never_started + stats.stopped + stats.failed_checks))
        fail_msg("%s: no fault was seen", faults);
    wait_for_chain(npu);
    assert_true(rig_stats(npu).off || !rig_stats(npu).quarantined_bytes);
    close_on(npu);
}

static const char *const scripts[] = {"seed=1;late:p=0.1,us=60000", "seed=2;flip:p=0.1,words=1;never:p=0.03",
                                      "seed=3;untouched:p=0.1;constant:p=0.05,value=0"};

static void test_rknpu(void **state)
{
    (void)state;
    rig_leave_out_watching();
    run_healthy(ORK_NPU_RKNPU, "rknpu");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        run_faults(ORK_NPU_RKNPU, "rknpu,reset_ms=1", scripts[i]);
}

static void test_rocket(void **state)
{
    (void)state;
    run_healthy(ORK_NPU_ROCKET, "rocket,watchdog_ms=60000");
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        run_faults(ORK_NPU_ROCKET, "rocket,watchdog_ms=100", scripts[i]);
}

/* A core that dies under whichever queue's job it gets: the engine goes off, and nothing is begun any more. */
static void test_a_core_dies(void **state)
{
    (void)state;
    uint64_t random = 55;
    struct rig_hits hits = {0};
    ork_npu *npu = open_on(ORK_NPU_ROCKET, "rocket,watchdog_ms=50", "dead:core=0,from=6", 20000);
    for (uint32_t token = 0; token < 20; token++)
        play_slowly(npu, token % CHAINS, &random, &hits);
    assert_true(rig_stats(npu).off);
    assert_true(hits.used > 0 && hits.missed > 0 && hits.refused > 0);
    rig_check_counts(npu, &hits);
    run_batch(npu, &random);
    close_on(npu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rknpu),
        cmocka_unit_test(test_rocket),
        cmocka_unit_test(test_a_core_dies),
    };
    return cmocka_run_group_tests(tests, make_chains, free_chains);
}
