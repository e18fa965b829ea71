/* Guards the engine on the two drivers' devices, played at the system-call boundary: results have the bits of the kernel
 * table where a driver cannot say what is done and where every core has memory of its own, and faults of the played
 * hardware end with the CPU's result. Real time passes here, on a machine that may be busy: only what does not depend on
 * it is asserted. */
#include "engine_rig.h"
#include "shim/shim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

enum { HANG_SECONDS = 500, MATRICES = 6 };

static struct rig_model model = {.random = 99};

static int make_model(void **state)
{
    (void)state;
    static const enum ork_tier tiers[MATRICES] = {ORK_TIER_I8, ORK_TIER_NF4, ORK_TIER_I4,
                                                  ORK_TIER_I6, ORK_TIER_I8,  ORK_TIER_I5};
    alarm(HANG_SECONDS);
    for (uint32_t i = 0; i < MATRICES; i++)
        rig_add(&model, tiers[i], 96 + 64 * (i % 3), 64 + 32 * i, 1 + i % 2, i / 2);
    return 0;
}

static int free_model(void **state)
{
    (void)state;
    rig_model_free(&model);
    return 0;
}

static ork_npu *open_on(ork_npu_kind kind, const char *options, const char *faults, uint32_t timeout_us, bool self_test)
{
    const ork_npu_params params = {.kind = kind, .rows_min = 1, .skip_self_test = !self_test, .timeout_us = timeout_us};
    ork_npu *npu = NULL;
    ork_error error = {0};
    assert_int_equal(ork_shim_configure(options, faults, NULL), 0);
    ork_status status = ork_npu_open(&params, &npu, &error);
    if (!status)
        status = ork_npu_attach(npu, &model, model.weights, model.count, &error);
    if (status)
        print_error("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
    return npu;
}

static void close_on(ork_npu *npu)
{
    ork_npu_close(npu);
    assert_int_equal(ork_shim_open_files(), 0);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0); /* and no buffers */
}

static void run_groups(ork_npu *npu, uint32_t groups, struct rig_tally *tally)
{
    uint64_t random = 5;
    for (uint32_t g = 0; g < groups; g++) {
        struct rig_group group = {0};
        for (uint32_t i = 0; i < 5; i++) {
            const struct ork_matrix *w = &model.matrices[rig_random(&random, MATRICES)];
            rig_task(&group, w, rig_random(&random, w->experts), 1 + rig_random(&random, 40), rig_random(&random, 2),
                     &random);
        }
        rig_run(&group, ork_npu_offload(npu), tally);
        rig_group_free(&group);
        ork_npu_settle(npu);
    }
}

static void check_counters(const ork_npu *npu, const struct rig_tally *tally)
{
    ork_npu_stats stats = rig_stats(npu);
    assert_int_equal(tally->wrong, 0);
    assert_int_equal(stats.matmuls, tally->done);
    assert_int_equal(stats.matmuls + stats.redone + stats.declined, tally->offered);
    assert_int_equal(stats.quarantined_bytes, 0);
}

static void run_healthy(ork_npu_kind kind, const char *options)
{
    struct rig_tally tally = {0};
    ork_npu *npu = open_on(kind, options, NULL, 5000000, true);
    uint64_t before = rig_stats(npu).submits;
    run_groups(npu, 12, &tally);
    assert_int_equal(tally.done, tally.offered);
    assert_true(rig_stats(npu).submits > before);
    check_counters(npu, &tally);
    ork_npu_detach(npu, &model);
    close_on(npu);
}

static void test_rknpu(void **state)
{
    (void)state;
    rig_leave_out_watching();
    run_healthy(ORK_NPU_RKNPU, "rknpu");
}

static void test_rocket(void **state)
{
    (void)state;
    run_healthy(ORK_NPU_ROCKET, "rocket,watchdog_ms=60000");
}

/* Whichever is there. */
static void test_auto(void **state)
{
    (void)state;
    ork_npu_info info;
    ork_npu *npu = open_on(ORK_NPU_AUTO, "rocket,watchdog_ms=60000", NULL, 5000000, false);
    ork_npu_get_info(npu, &info);
    assert_string_equal(info.driver, "rocket");
    close_on(npu);
    npu = open_on(ORK_NPU_AUTO, "rknpu", NULL, 5000000, false);
    ork_npu_get_info(npu, &info);
    assert_string_equal(info.driver, "rknpu");
    close_on(npu);
}

static void run_fault(ork_npu_kind kind, const char *options, const char *fault)
{
    struct rig_tally tally = {0};
    char script[80];
    snprintf(script, sizeof script, "%s", fault);
    ork_npu *npu = open_on(kind, options, script, 200000, false);
    run_groups(npu, 6, &tally);
    check_counters(npu, &tally);
    ork_npu_stats stats = rig_stats(npu);
    if (!tally.done || !stats.redone)
        fail_msg("%s with %s: %llu done, %llu redone: %s", options, fault, (unsigned long long)tally.done,
                 (unsigned long long)stats.redone, stats.why);
    close_on(npu);
}

static void test_rknpu_faults(void **state)
{
    (void)state;
    rig_leave_out_watching();
    static const char *const faults[] = {"untouched:at=4", "flip:at=7,words=1", "tail:at=5,atoms=1", "never:at=6"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        run_fault(ORK_NPU_RKNPU, "rknpu,reset_ms=1", faults[i]);
}

static void test_rocket_faults(void **state)
{
    (void)state;
    static const char *const faults[] = {"untouched:at=4", "flip:at=7,words=1", "constant:at=5,value=1", "never:at=6"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        run_fault(ORK_NPU_ROCKET, "rocket,watchdog_ms=500", faults[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rknpu),        cmocka_unit_test(test_rocket),        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_rknpu_faults), cmocka_unit_test(test_rocket_faults),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
