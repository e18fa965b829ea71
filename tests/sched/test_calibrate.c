/* Guards what a calibration makes of its measurements of chains and of both engines at once: figures by which the perf model
 * predicts again what was measured, whatever was measured within the bounds of the file that they go into. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/calibrate.h"

static struct ork_perf board(void)
{
    struct ork_perf perf;
    ork_error error;
    assert_int_equal(ork_perf_from_board(NULL, &perf, &error), ORK_OK);
    strcpy(perf.name, "this machine");
    return perf;
}

static double chain_s(const struct ork_perf *perf, uint32_t side)
{
    struct ork_group group = {0};
    assert_true(ork_group_add(&group, "chain", ORK_TIER_I8, side, side, 0, 0, 0, false));
    return ork_perf_predict_chain(perf, &group, 1).seconds;
}

static bool is_near(double a, double b, double part)
{
    return fabs(a - b) <= part * fabs(b);
}

/* The figures come back from what they predict, and with them the times, of other shapes too. */
static void test_chain_figures(void **state)
{
    (void)state;
    static const double fixed_s[] = {3e-6, 2.7e-5, 1e-4, 2e-3}, rates[] = {1e8, 2e9, 1.1e10, 2.4e10, 7e10};
    for (size_t i = 0; i < sizeof fixed_s / sizeof *fixed_s; i++)
        for (size_t j = 0; j < sizeof rates / sizeof *rates; j++) {
            struct ork_perf truth = board(), fit = board();
            truth.chain_fixed_s = fixed_s[i];
            truth.chain_bytes_per_s = rates[j];
            ork_calibrate_fit_chain(&fit, chain_s(&truth, 64), chain_s(&truth, 2048));
            if (!is_near(fit.chain_fixed_s, fixed_s[i], 0.01) || !is_near(fit.chain_bytes_per_s, rates[j], 0.01))
                fail_msg("%g s and %g B/s are fitted by %g and %g", fixed_s[i], rates[j], fit.chain_fixed_s,
                         fit.chain_bytes_per_s);
            for (uint32_t side = 64; side <= 8192; side *= 2)
                assert_true(is_near(chain_s(&fit, side), chain_s(&truth, side), 0.01));
        }
}

/* A board's chains are not measured: all stays as the profile says, and the first task counts. */
static void test_without_measurement(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct ork_perf same = perf;
    assert_true(perf.chain_fixed_s == 0 && perf.chain_bytes_per_s == 0);
    const struct ork_npu_profile *npu = &perf.npu;
    same.chain_fixed_s =
        (npu->submit_us + npu->complete_us + npu->host_call_us + npu->host_core_us + npu->task_us) * 1e-6;
    same.chain_bytes_per_s = npu->core_bytes_per_s;
    for (uint32_t side = 64; side <= 8192; side *= 2)
        assert_true(is_near(chain_s(&same, side), chain_s(&perf, side), 1e-9));
}

/* Whatever a disturbed machine gives is a file that can be read again. */
static void test_impossible_times(void **state)
{
    (void)state;
    static const double times[] = {0, 1e-9, 3e-5, 1e-3, 70};
    for (size_t i = 0; i < 25; i++) {
        struct ork_perf perf = board(), read;
        perf.identity = (struct ork_perf_identity){.ork_version = "0.1.0", .cpu = "a", .kernels = "neon", .threads = 1};
        ork_error error = {0};
        char *text = NULL;
        ork_calibrate_fit_chain(&perf, times[i % 5], times[i / 5]);
        assert_int_equal(ork_perf_write(&perf, &text, &error), ORK_OK);
        if (ork_perf_parse(text, strlen(text), "a file", &read, &error) != ORK_OK)
            fail_msg("%g and %g s: %s", times[i % 5], times[i / 5], error.what);
        assert_true(isfinite(chain_s(&read, 2048)));
        free(text);
    }
}

static struct ork_perf fit_buses(double assumed, const struct ork_calibrate_beside *measured)
{
    struct ork_perf perf = board();
    perf.bus_bytes_per_s = assumed;
    ork_calibrate_fit_buses(&perf, measured);
    return perf;
}

/* Rates as ork_perf_share has them give its buses again, however much of the time both streamed and whoever lost more. Where
 * nothing was lost nothing is promised to be. */
static void test_buses(void **state)
{
    (void)state;
    const double cpu = 12e9, npu = 14e9;
    for (int streaming = 1; streaming <= 10; streaming++)
        for (double bus = 2e9; bus < 40e9; bus += 3e9)
            for (double chain_bus = 1e9; chain_bus < 40e9; chain_bus += 4e9) {
                struct ork_perf perf = board();
                perf.bus_bytes_per_s = bus;
                perf.chain_bus_bytes_per_s = chain_bus;
                const struct ork_perf_rates rates = ork_perf_share(&perf, cpu, npu);
                const double part = streaming / 10.0;
                const struct ork_calibrate_beside measured = {
                    .cpu_alone_bytes_per_s = cpu,
                    .cpu_beside_bytes_per_s = part * rates.cpu_bytes_per_s + (1 - part) * cpu,
                    .npu_alone_bytes_per_s = npu,
                    .npu_beside_bytes_per_s = rates.npu_bytes_per_s,
                    .npu_streaming = part,
                };
                const struct ork_perf fit = fit_buses(20e9, &measured), open = fit_buses(50e9, &measured);
                const struct ork_perf_rates again = ork_perf_share(&fit, cpu, npu);
                assert_true(is_near(again.cpu_part, rates.cpu_part, 1e-6) || rates.cpu_part < 0.05);
                assert_true(is_near(again.npu_part, rates.npu_part, 1e-6));
                assert_true(again.cpu_part >= 0.0499);
                assert_true(bus >= cpu + npu || open.bus_bytes_per_s < cpu + npu);
                assert_true(bus < cpu + npu + 1e9 || open.bus_bytes_per_s == 50e9);
            }
}

/* What cannot be stays within the bounds of a file, and a stream that could not be told from the fixed cost is no bus. */
static void test_impossible_rates(void **state)
{
    (void)state;
    static const struct ork_calibrate_beside odd[] = {{10e9, 30e9, 10e9, 20e9, 1}, {10e9, 1e9, 10e9, 8e9, 0.1},
                                                      {10e9, 9e9, 10e9, 8e9, 0},   {10e9, 0, 10e9, 0, 1},
                                                      {10e9, 8e9, 1e13, 5e9, 1},   {1e6, 1e6, 1e6, 1e3, 0.5}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const struct ork_perf perf = fit_buses(20e9, &odd[i]);
        assert_true(perf.bus_bytes_per_s >= 1e6 && perf.bus_bytes_per_s <= 1e14);
        assert_true(perf.chain_bus_bytes_per_s >= 1e6 && perf.chain_bus_bytes_per_s <= 1e14);
        assert_true(odd[i].npu_alone_bytes_per_s < 1e13 || perf.chain_bus_bytes_per_s < 10e9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_figures),    cmocka_unit_test(test_without_measurement),
        cmocka_unit_test(test_impossible_times), cmocka_unit_test(test_buses),
        cmocka_unit_test(test_impossible_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
