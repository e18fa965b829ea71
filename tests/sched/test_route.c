/* Guards routing: it is a pure function, more rows never go back from the NPU, a slower engine never gains work, what is off,
 * busy, absent or in a wrong tier stays on the CPU, and the groups of the two target models go where the RK3588's figures
 * send them. The formulas are compared with sums worked out here by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sched/route.h"

static struct ork_perf board(void)
{
    struct ork_perf perf;
    ork_error error;
    assert_int_equal(ork_perf_from_board(NULL, &perf, &error), ORK_OK);
    return perf;
}

static struct ork_group group(enum ork_group_kind kind, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts,
                              uint32_t used, int copies)
{
    struct ork_group result = {.kind = kind};
    for (int i = 0; i < copies; i++)
        assert_true(ork_group_add(&result, "member", tier, n, k, experts, used, 0, false));
    return result;
}

static struct ork_route_query query(uint32_t rows)
{
    return (struct ork_route_query){.rows = rows,
                                    .resident = true,
                                    .nested_base = true,
                                    .engine = ORK_ROUTE_ENGINE_IS_FREE,
                                    .policy = ork_route_policy_default()};
}

/* Groups of LFM2.5-8B-A1B and Qwen3.6-35B-A3B, in their tiers, and one in n8. */
enum { GROUPS = 9 };
static void target_groups(struct ork_group *groups)
{
    groups[0] = group(ORK_GROUP_CONVOLUTION_IN, ORK_TIER_I8, 6144, 2048, 0, 0, 1);
    groups[1] = group(ORK_GROUP_DENSE_UP, ORK_TIER_I8, 7168, 2048, 0, 0, 2);
    groups[2] = group(ORK_GROUP_DENSE_DOWN, ORK_TIER_I8, 2048, 7168, 0, 0, 1);
    groups[3] = group(ORK_GROUP_EXPERT_UP, ORK_TIER_NF4, 1792, 2048, 32, 4, 2);
    groups[4] = group(ORK_GROUP_EXPERT_DOWN, ORK_TIER_NF4, 2048, 1792, 32, 4, 1);
    groups[5] = group(ORK_GROUP_ROUTER, ORK_TIER_F32, 256, 2048, 0, 0, 1);
    groups[6] = group(ORK_GROUP_EXPERT_UP, ORK_TIER_NF4, 512, 2048, 256, 8, 2);
    groups[7] = group(ORK_GROUP_DELTA_IN, ORK_TIER_I8, 4096, 2048, 0, 0, 3);
    groups[8] = group(ORK_GROUP_DELTA_IN, ORK_TIER_N8, 4096, 2048, 0, 0, 3);
}

static void test_formulas(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    const struct ork_group one = group(ORK_GROUP_DENSE_DOWN, ORK_TIER_I8, 2048, 2048, 0, 0, 1);
    const double bytes = 2048.0 * 2048 + 2048 * 4, macs = 2048.0 * 2048;
    assert_float_equal(ork_group_bytes(&one, 1, false), bytes, 0);
    assert_float_equal(ork_perf_predict_cpu(&perf, &one, 1, false).seconds,
                       perf.region_s + bytes / perf.tiers[ORK_TIER_I8].bytes_per_s, 1e-12);
    assert_float_equal(ork_perf_predict_cpu(&perf, &one, 512, false).seconds,
                       perf.region_s + 511 * perf.row_s + 512 * macs / perf.tiers[ORK_TIER_I8].macs_per_s, 1e-9);
    /* A chain of one row: fixed cost, one task, bytes of weights, inputs and results at a core's rate. */
    const struct ork_npu_profile *npu = &perf.npu;
    const double chain =
        (npu->submit_us + npu->complete_us + npu->host_call_us + npu->host_core_us + npu->task_us) * 1e-6 +
        (macs + 2048 + 2048 * 4) / npu->core_bytes_per_s + 2048 / perf.pack_bytes_per_s +
        2048 * 4 / perf.unpack_bytes_per_s;
    assert_float_equal(ork_perf_predict_chain(&perf, &one, 1).seconds, chain, 1e-9);
    /* Distinct experts: all of one token's, all experts in the end, and 2 rows of 1 of 2 experts: 1.5. */
    assert_float_equal(ork_group_distinct(32, 4, 1), 4, 0);
    assert_float_equal(ork_group_distinct(2, 1, 2), 1.5, 1e-12);
    assert_float_equal(ork_group_distinct(32, 4, 4096), 32, 1e-9);
    assert_float_equal(ork_group_distinct(8, 8, 3), 8, 0);
}

static void test_published_crossover(void **state)
{
    (void)state;
    /* ork-driver: below about 32 rows the CPU is quicker on matmuls of a 9B model; 3584 x 18944, three cores. */
    const struct ork_perf perf = board();
    const uint32_t rows = ork_route_matrix_rows_min(&perf, ORK_TIER_I8, 4096, 4096, 4096);
    assert_in_range(rows, 2, 64);
    assert_int_equal(ork_route_matrix_rows_min(&perf, ORK_TIER_F32, 4096, 4096, 4096), UINT32_MAX);
}

static void test_monotone(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct ork_group groups[GROUPS];
    target_groups(groups);
    for (int i = 0; i < GROUPS; i++) {
        bool taken = false;
        for (uint32_t rows = 2; rows <= 1024; rows += rows < 80 ? 1 : 37) {
            const struct ork_route_query q = query(rows);
            const struct ork_route_choice choice = ork_route_choose(&perf, &groups[i], &q);
            const struct ork_route_choice again = ork_route_choose(&perf, &groups[i], &q);
            assert_memory_equal(&choice.route, &again.route, sizeof choice.route);
            assert_true(choice.seconds == again.seconds && choice.rows_min == again.rows_min);
            assert_false(taken && choice.route != ORK_ROUTE_NPU);
            taken = choice.route == ORK_ROUTE_NPU;
            if (taken)
                assert_true(choice.npu.seconds <= choice.cpu.seconds * 1.001);
        }
    }
}

/* Each figure of the NPU made worse moves every crossover up or leaves it; of the CPU, down. */
static void test_slower_engines(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct ork_group groups[GROUPS];
    target_groups(groups);
    for (int i = 0; i < GROUPS; i++) {
        const uint32_t rows = ork_route_rows_min(&perf, &groups[i], 2048);
        struct ork_perf worse[6] = {perf, perf, perf, perf, perf, perf};
        worse[0].npu.submit_us *= 5;
        worse[1].npu.efficiency[ORK_NPU_W8A8] /= 3;
        worse[2].npu.shared_bytes_per_s /= 4;
        worse[3].npu.task_us *= 4;
        worse[4].unpack_bytes_per_s /= 3;
        worse[5].pack_bytes_per_s /= 5;
        for (int j = 0; j < 6; j++)
            assert_true(ork_route_rows_min(&worse[j], &groups[i], 2048) >= rows);
        struct ork_perf slow = perf;
        for (int tier = 0; tier < ORK_TIER_COUNT; tier++) {
            slow.tiers[tier].macs_per_s /= 2;
            slow.tiers[tier].bytes_per_s /= 2;
        }
        assert_true(ork_route_rows_min(&slow, &groups[i], 2048) <= rows);
    }
}

static void test_decisions(void **state)
{
    (void)state;
    const struct ork_perf perf = board();
    struct ork_group groups[GROUPS];
    target_groups(groups);
    static const struct {
        int group;
        uint32_t rows;
        enum ork_route route;
        enum ork_route_limit why; /* ORK_ROUTE_LIMIT_COUNT: not looked at */
    } rows[] = {
        {0, 1, ORK_ROUTE_CPU, ORK_ROUTE_NOT_SENSITIVE}, {0, 2, ORK_ROUTE_CPU, ORK_ROUTE_ROWS},
        {0, 512, ORK_ROUTE_NPU, ORK_ROUTE_LIMIT_COUNT}, {1, 512, ORK_ROUTE_NPU, ORK_ROUTE_LIMIT_COUNT},
        {2, 2, ORK_ROUTE_CPU, ORK_ROUTE_ROWS},          {3, 4, ORK_ROUTE_CPU, ORK_ROUTE_ROWS},
        {3, 512, ORK_ROUTE_NPU, ORK_ROUTE_LIMIT_COUNT}, {5, 512, ORK_ROUTE_CPU, ORK_ROUTE_TIER},
        {6, 16, ORK_ROUTE_CPU, ORK_ROUTE_ROWS},         {7, 512, ORK_ROUTE_NPU, ORK_ROUTE_LIMIT_COUNT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ork_route_query q = query(rows[i].rows);
        const struct ork_route_choice choice = ork_route_choose(&perf, &groups[rows[i].group], &q);
        if (choice.route != rows[i].route)
            fail_msg("group %d, %u rows: %s (npu from %u)", rows[i].group, rows[i].rows, ork_route_name(choice.route),
                     choice.rows_min);
        if (rows[i].why != ORK_ROUTE_LIMIT_COUNT)
            assert_string_equal(ork_route_limit_name(choice.why), ork_route_limit_name(rows[i].why));
        if (choice.route != ORK_ROUTE_NPU)
            continue;
        q.engine = ORK_ROUTE_ENGINE_IS_OFF;
        assert_int_equal(ork_route_choose(&perf, &groups[rows[i].group], &q).why, ORK_ROUTE_ENGINE_OFF);
        assert_int_equal(ork_route_choose(&perf, &groups[rows[i].group], &q).route, ORK_ROUTE_CPU);
        q.engine = ORK_ROUTE_ENGINE_IS_BUSY;
        assert_int_equal(ork_route_choose(&perf, &groups[rows[i].group], &q).why, ORK_ROUTE_ENGINE_BUSY);
        q.engine = ORK_ROUTE_ENGINE_IS_FREE;
        q.resident = false;
        assert_int_equal(ork_route_choose(&perf, &groups[rows[i].group], &q).why, ORK_ROUTE_NOT_RESIDENT);
    }
}

/* One row: what is planned is taken while the NPU is free and holds it; else the CPU, with the reason. */
static void test_overlay(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    perf.bus_bytes_per_s = 1e12;
    /* Experts' groups of 8, a shared expert in n8. */
    struct ork_group shared = group(ORK_GROUP_EXPERT_UP, ORK_TIER_NF4, 2048, 2048, 256, 8, 2);
    assert_true(ork_group_add(&shared, "shared", ORK_TIER_N8, 512, 2048, 0, 0, 0, false));
    struct ork_route_query q = query(1);
    q.overlay_limit = ORK_ROUTE_WINDOW;
    struct ork_route_choice choice = ork_route_choose(&perf, &shared, &q);
    assert_int_equal(choice.route, ORK_ROUTE_CPU);
    assert_int_equal(choice.why, ORK_ROUTE_WINDOW);
    assert_true(choice.chain.seconds == ork_perf_predict_chain(&perf, &shared, 4).seconds);
    const struct ork_group chain = {.kind = shared.kind, .member_count = 1, .members = {shared.members[2]}};
    q.overlay_chain = &chain;
    choice = ork_route_choose(&perf, &shared, &q);
    assert_int_equal(choice.route, ORK_ROUTE_OVERLAY);
    assert_true(choice.chain.seconds == ork_perf_predict_chain(&perf, &chain, 1).seconds);
    assert_float_equal(choice.slowdown_s, 0, 0);
    assert_true(choice.seconds == choice.cpu.seconds);
    const struct ork_route_query good = q;
    q.engine = ORK_ROUTE_ENGINE_IS_BUSY;
    assert_int_equal(ork_route_choose(&perf, &shared, &q).why, ORK_ROUTE_ENGINE_BUSY);
    assert_int_equal(ork_route_choose(&perf, &shared, &q).route, ORK_ROUTE_CPU);
    q = good;
    q.resident = false;
    assert_int_equal(ork_route_choose(&perf, &shared, &q).why, ORK_ROUTE_NOT_RESIDENT);
    /* Of less sensitivity than wished; read in full by the CPU. */
    q = good;
    shared.members[2].sensitivity = 0.5f;
    q.policy.sensitivity_min = 1;
    assert_int_equal(ork_route_choose(&perf, &shared, &q).why, ORK_ROUTE_NOT_SENSITIVE);
    q = good;
    q.nested_base = false;
    assert_int_equal(ork_route_choose(&perf, &shared, &q).why, ORK_ROUTE_NOT_SENSITIVE);
    /* A bus that both fill: the same chain takes longer and slows the CPU. 1 MiB at 11e9 bytes a second draws for 95 us
     * alone; beside 22.7e9 of the CPU on a bus of 23e9 both take 1.465 times as long. */
    perf.bus_bytes_per_s = 23e9;
    const struct ork_route_choice slowed = ork_route_choose(&perf, &shared, &good);
    const double stream_s = (512.0 * 2048 + 2048 + 512 * 4) / 11e9, factor = (22.7 + 11) / 23;
    assert_int_equal(slowed.route, ORK_ROUTE_OVERLAY);
    assert_float_equal(slowed.slowdown_s, stream_s * (factor - 1), 0.01 * stream_s);
    assert_float_equal(slowed.chain.seconds - choice.chain.seconds, stream_s * (factor - 1), 0.01 * stream_s);
    assert_true(slowed.seconds == slowed.cpu.seconds + slowed.slowdown_s);
}

static void test_without_npu(void **state)
{
    (void)state;
    struct ork_perf perf;
    const struct ork_perf_identity identity = {.threads = 4};
    struct ork_group groups[GROUPS];
    target_groups(groups);
    ork_perf_assume(&identity, &perf);
    for (int i = 0; i < GROUPS; i++)
        for (uint32_t rows = 1; rows <= 1024; rows *= 4) {
            const struct ork_route_query q = query(rows);
            const struct ork_route_choice choice = ork_route_choose(&perf, &groups[i], &q);
            assert_int_equal(choice.route, ORK_ROUTE_CPU);
            assert_true(choice.seconds > 0 && isfinite(choice.seconds) && choice.rows_min == UINT32_MAX);
        }
}

static void test_share(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    perf.bus_bytes_per_s = 30e9;
    struct ork_perf_rates rates = ork_perf_share(&perf, 20e9, 10e9);
    assert_true(rates.cpu_bytes_per_s == 20e9 && rates.npu_bytes_per_s == 10e9);
    rates = ork_perf_share(&perf, 30e9, 30e9);
    assert_float_equal(rates.cpu_bytes_per_s, 15e9, 1);
    assert_float_equal(rates.cpu_bytes_per_s + rates.npu_bytes_per_s, 30e9, 1);
    perf.chain_bus_bytes_per_s = 15e9;
    rates = ork_perf_share(&perf, 30e9, 30e9);
    assert_float_equal(rates.cpu_bytes_per_s, 15e9, 1);
    assert_float_equal(rates.npu_bytes_per_s, 7.5e9, 1);
}

/* Where the NPU loses more than the CPU, its chain takes longer, and for so long the CPU loses its own, lesser part. */
static void test_uneven_shares(void **state)
{
    (void)state;
    struct ork_perf perf = board();
    const struct ork_group one = group(ORK_GROUP_HEAD, ORK_TIER_N8, 1024, 1024, 1, 1, 1);
    const struct ork_perf_time cpu = {.bytes = 20e9, .transfer_s = 1}, alone = ork_perf_predict_chain(&perf, &one, 1);
    const double both = 20e9 + alone.bytes / alone.compute_s;
    perf.bus_bytes_per_s = 0.9 * both;
    const struct ork_route_chain even = ork_route_beside(&perf, &one, 1, &cpu);
    assert_float_equal(even.time.seconds, alone.seconds + alone.compute_s * (1 / 0.9 - 1), 1e-9);
    assert_float_equal(even.slowdown_s, alone.compute_s / 0.9 * 0.1, 1e-9);
    perf.chain_bus_bytes_per_s = 0.6 * both;
    const struct ork_route_chain uneven = ork_route_beside(&perf, &one, 1, &cpu);
    assert_float_equal(uneven.time.seconds, alone.seconds + alone.compute_s * (1 / 0.6 - 1), 1e-9);
    assert_float_equal(uneven.slowdown_s, alone.compute_s / 0.6 * 0.1, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),      cmocka_unit_test(test_published_crossover),
        cmocka_unit_test(test_monotone),      cmocka_unit_test(test_slower_engines),
        cmocka_unit_test(test_decisions),     cmocka_unit_test(test_overlay),
        cmocka_unit_test(test_without_npu),   cmocka_unit_test(test_share),
        cmocka_unit_test(test_uneven_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
