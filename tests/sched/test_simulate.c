/* The simulator against published measurements, and what it must not do: differ between runs, accept impossible shapes and
 * boards, or let a late chain help. */
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/npu/engine.h"
#include "sched/simulate.h"

static ork_simulation *simulate(const ork_simulate_params *params)
{
    ork_simulation *simulation = NULL;
    ork_error error = {0};
    if (ork_simulate(params, &simulation, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    return simulation;
}

/* The rows that docs/simulator.md claims: every one within 10 %, and no more figures fitted than rows left over. */
static void test_published(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape, *quantity;
        double measured;
    } claimed[] = {{"lfm2.5-8b-a1b", "decode", 20.91},    {"lfm2.5-8b-a1b", "decode", 6.42},
                   {"qwen3.6-35b-a3b", "decode", 7.01},   {"qwen3.6-35b-a3b", "decode", 6.13},
                   {"qwen3.6-35b-a3b", "prefill", 22.77}, {"qwen3.6-35b-a3b", "decode", 6.14},
                   {"qwen3.6-35b-a3b", "prefill", 20.50}, {"qwen3.6-35b-a3b", "decode", 3.71}};
    ork_published_report *report;
    ork_error error;
    assert_int_equal(ork_simulate_published(NULL, &report, &error), ORK_OK);
    assert_int_equal(report->row_count, sizeof claimed / sizeof claimed[0]);
    assert_true(2 * report->fitted_count <= report->row_count);
    for (size_t c = 0; c < sizeof claimed / sizeof claimed[0]; c++) {
        const ork_published_row *row = NULL;
        for (size_t i = 0; i < report->row_count; i++)
            if (!strcmp(report->rows[i].shape, claimed[c].shape) &&
                !strcmp(report->rows[i].quantity, claimed[c].quantity) &&
                report->rows[i].measured == claimed[c].measured)
                row = &report->rows[i];
        assert_non_null(row);
        const double difference = fabs(row->simulated / row->measured - 1);
        if (!(difference <= (row->fitted[0] ? 0.01 : 0.10)))
            fail_msg("%s, %s: measured %g, simulated %g", row->name, row->quantity, row->measured, row->simulated);
    }
    free(report);
}

/* The same question, the same answer; another seed, another order of experts and delays. */
static void test_deterministic(void **unused)
{
    (void)unused;
    const ork_simulate_params params = {.shape = "qwen3.6-35b-a3b", .policy = ORK_POLICY_LATE, .seed = 7};
    ork_simulate_params other = params;
    other.seed = 8;
    ork_simulation *a = simulate(&params), *b = simulate(&params), *c = simulate(&other);
    assert_true(a->decode_tokens_per_second == b->decode_tokens_per_second);
    assert_true(a->prefill_tokens_per_second == b->prefill_tokens_per_second);
    assert_int_equal(a->overlay_in_time, b->overlay_in_time);
    assert_int_equal(a->event_count, b->event_count);
    for (size_t i = 0; i < a->event_count; i++)
        assert_true(a->events[i].end_us == b->events[i].end_us);
    assert_true(a->decode_tokens_per_second != c->decode_tokens_per_second);
    free(a);
    free(b);
    free(c);
}

static void check_accounts(const ork_simulation *s)
{
    assert_int_equal(s->overlay_submitted, s->overlay_in_time + s->overlay_late + s->overlay_lost);
    assert_int_equal(s->overlay_submitted + s->overlay_busy, s->tokens * s->overlay_planned);
    assert_true(s->overlay_hit_rate >= 0 && s->overlay_hit_rate <= 1);
    assert_true(s->overlay_coverage >= 0 && s->overlay_coverage <= 1);
}

/* Every chain ends as exactly one of in time, late or lost, or is left out; what is planned is in time; and the CPU loses no
 * more than the plan allows, whatever the model, the policy, the context and the bus. */
static void test_overlay_accounts(void **unused)
{
    (void)unused;
    static const double bus[] = {0, 0.7, 0.5}, slowdown[] = {0, 0.1, 0.005};
    for (size_t shape = 0; ork_simulate_shapes()[shape]; shape++)
        for (int policy = ORK_POLICY_OVERLAY; policy <= ORK_POLICY_LATE; policy++)
            for (uint32_t i = 0; i < 9; i++) {
                const ork_simulate_params params = {.shape = ork_simulate_shapes()[shape],
                                                    .policy = (ork_policy)policy,
                                                    .context = i % 2 ? 8192 : 0,
                                                    .seed = i,
                                                    .tokens = 16,
                                                    .bus_share = bus[i % 3],
                                                    .late_layers = 1 + i % 4,
                                                    .slowdown_max = slowdown[i / 3]};
                const double allowed = slowdown[i / 3] > 0 ? slowdown[i / 3] : ork_route_policy_default().slowdown_max;
                ork_simulation *s = simulate(&params);
                check_accounts(s);
                assert_true(s->overlay_submitted == 0 || s->overlay_hit_rate > 0.9);
                assert_true(s->decode_tokens_per_second <= s->decode_alone_tokens_per_second * (1 + 1e-9));
                assert_true(1 / s->decode_tokens_per_second <=
                            (1 + allowed) / s->decode_alone_tokens_per_second * (1 + 1e-9));
                assert_non_null(s->overlay_limit);
                free(s);
            }
}

/* The plan knows how long a submit takes and plans less; it does not know of a delay, and chains come late. */
static void test_slow_chains(void **unused)
{
    (void)unused;
    for (int policy = ORK_POLICY_OVERLAY; policy <= ORK_POLICY_LATE; policy++) {
        ork_simulate_params params = {
            .shape = "qwen3.6-35b-a3b", .policy = (ork_policy)policy, .tokens = 16, .slowdown_max = 0.02};
        double before = 2;
        uint64_t first = 0;
        for (params.submit_us = 10; params.submit_us < 50000; params.submit_us *= 2) {
            ork_simulation *s = simulate(&params);
            check_accounts(s);
            assert_true(s->overlay_coverage * s->overlay_hit_rate <= before);
            before = s->overlay_coverage * s->overlay_hit_rate;
            first = first ? first : s->overlay_in_time;
            free(s);
        }
        assert_true(first > 100);
        assert_true(before == 0); /* nothing fits */
        params.submit_us = 0;
        double rate = 2, best = 0;
        for (params.delay_us = 0; params.delay_us < 40000; params.delay_us = params.delay_us * 2 + 20) {
            ork_simulation *s = simulate(&params);
            check_accounts(s);
            assert_true(s->overlay_hit_rate <= rate);
            rate = s->overlay_hit_rate;
            best = rate > best ? rate : best;
            free(s);
        }
        assert_true(best > 0.99);
        assert_true(rate == 0);
    }
}

/* The dispatcher's plan is what runs: without jitter's luck, alone is the plan's own prediction. */
static void test_plan_is_the_dispatchers(void **unused)
{
    (void)unused;
    struct ork_shape shape;
    struct ork_model_shape model;
    struct ork_perf perf;
    struct ork_plan plan;
    ork_error error;
    assert_int_equal(ork_shape_read("qwen3.6-35b-a3b", &shape, &error), ORK_OK);
    assert_int_equal(ork_shape_model(&shape, true, &model, &error), ORK_OK);
    assert_int_equal(ork_perf_from_board(NULL, &perf, &error), ORK_OK);
    const struct ork_plan_params wanted = {
        .policy = ork_route_policy_default(), .memory_bytes = 3145728000, .poll_s = ORK_NPU_OVERLAY_CALLS_S};
    assert_int_equal(ork_plan_make(&perf, &model, &wanted, 128, &plan, &error), ORK_OK);
    ork_simulation *s =
        simulate(&(ork_simulate_params){.shape = "qwen3.6-35b-a3b", .policy = ORK_POLICY_OVERLAY, .tokens = 1});
    assert_int_equal(s->overlay_planned, plan.entry_count);
    assert_float_equal(s->overlay_coverage, (double)plan.resident_bytes / (double)plan.sensitive_bytes, 1e-12);
    assert_float_equal(1 / s->decode_alone_tokens_per_second, plan.alone_s, 1e-6 * plan.alone_s);
    assert_true(1 / s->decode_tokens_per_second <= plan.token_s * (1 + 1e-9));
    free(s);
    ork_plan_free(&plan);
    ork_model_shape_free(&model);
}

/* Less of the NPU's memory: as much or more is left to swap, and prompts are as slow or slower. */
static void test_memory(void **unused)
{
    (void)unused;
    ork_simulate_params params = {.shape = "qwen3-30b-a3b", .policy = ORK_POLICY_OVERLAY, .tokens = 1, .prompt = 512};
    uint64_t before = 0;
    double speed = INFINITY;
    for (params.npu_memory_bytes = 40ull << 30; params.npu_memory_bytes >= 1u << 20; params.npu_memory_bytes /= 4) {
        ork_simulation *s = simulate(&params);
        const double seconds = s->prompt_swap.hidden_seconds + s->prompt_swap.exposed_seconds;
        assert_true(s->prompt_swap.bytes >= before && s->prefill_tokens_per_second <= speed * (1 + 1e-9));
        assert_float_equal(seconds, (double)s->prompt_swap.bytes / 0.93e9, 1e-6);
        assert_true(s->prompt_swap.hidden_seconds <= 512 / s->prefill_tokens_per_second * (1 + 1e-9));
        assert_true(s->npu_resident_bytes <= params.npu_memory_bytes + 3145728000);
        before = s->prompt_swap.bytes;
        speed = s->prefill_tokens_per_second;
        free(s);
    }
    assert_true(before > 20e9);
    /* Of the published system: experts that are chosen and not held. */
    params = (ork_simulate_params){.shape = "qwen3.6-35b-a3b", .policy = ORK_POLICY_PARTITION, .tokens = 4};
    ork_simulation *one = simulate(&params);
    params.domains = 8;
    ork_simulation *eight = simulate(&params);
    assert_true(one->token_swap.bytes > eight->token_swap.bytes && eight->token_swap.bytes > 0);
    assert_true(one->npu_resident_bytes < eight->npu_resident_bytes);
    free(one);
    free(eight);
}

/* More context, a slower bus and a slower submit never make anything faster. */
static void test_monotone(void **unused)
{
    (void)unused;
    ork_simulate_params params = {.shape = "qwen3-30b-a3b", .policy = ORK_POLICY_OVERLAY};
    double before = INFINITY;
    for (params.context = 0; params.context <= 32768; params.context += 8192) {
        ork_simulation *s = simulate(&params);
        assert_true(s->decode_tokens_per_second < before);
        before = s->decode_tokens_per_second;
        free(s);
    }
    params.context = 0;
    before = 0;
    for (params.bus_share = 0.5; params.bus_share <= 1; params.bus_share += 0.25) {
        ork_simulation *s = simulate(&params);
        assert_true(s->decode_tokens_per_second > before * 0.99);
        before = s->decode_tokens_per_second;
        free(s);
    }
}

/* Two lanes whose rates sum to twice the limit: each gets half, until the shorter is done. */
static void test_bus(void **unused)
{
    (void)unused;
    struct ork_bus bus = {.limit = 10e9};
    ork_bus_start(&bus, ORK_LANE_CPU, "a", 0, 0, 10e9, 10e9);
    ork_bus_start(&bus, ORK_LANE_NPU, "b", 0, 0, 20e9, 10e9);
    ork_bus_wait(&bus, ORK_LANE_CPU);
    assert_true(fabs(bus.now_s - 2) < 1e-6);
    ork_bus_wait(&bus, ORK_LANE_NPU);
    assert_true(fabs(bus.now_s - 3) < 1e-6);
    /* One engine alone is not held to what is for both. */
    ork_bus_start(&bus, ORK_LANE_CPU, "c", 0, 1, 40e9, 20e9);
    ork_bus_wait(&bus, ORK_LANE_CPU);
    assert_true(fabs(bus.now_s - 6) < 1e-6);
}

static void refused(const ork_simulate_params *params, ork_status status, const char *word)
{
    ork_simulation *simulation;
    ork_error error = {0};
    assert_int_equal(ork_simulate(params, &simulation, &error), status);
    if (!strstr(error.what, word))
        fail_msg("'%s' is not in '%s'", word, error.what);
}

static void test_refusals(void **unused)
{
    (void)unused;
    refused(&(ork_simulate_params){.shape = NULL}, ORK_BAD_ARGUMENT, "shape");
    refused(&(ork_simulate_params){.shape = "nosuch"}, ORK_NOT_FOUND, "qwen3.6-35b-a3b");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .policy = (ork_policy)9}, ORK_BAD_ARGUMENT, "policy");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .context = UINT32_MAX}, ORK_LIMIT, "positions");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .prompt = UINT32_MAX}, ORK_BAD_ARGUMENT, "prompt");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .tokens = 5000}, ORK_BAD_ARGUMENT, "4096");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .submit_us = NAN}, ORK_BAD_ARGUMENT, "submit");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .bus_share = 0.01}, ORK_BAD_ARGUMENT, "bus");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .slowdown_max = 1.5}, ORK_BAD_ARGUMENT, "slowdown");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .delay_us = -1}, ORK_BAD_ARGUMENT, "delay");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .late_layers = 65}, ORK_BAD_ARGUMENT, "late");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .domains = 17}, ORK_BAD_ARGUMENT, "domains");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .policy = ORK_POLICY_LATE, .published = true},
            ORK_BAD_ARGUMENT, "overlay");
    refused(&(ork_simulate_params){.shape = "qwen3-30b-a3b", .board = "nosuch.json"}, ORK_NOT_FOUND, "");
}

static struct ork_model_shape shape_model(const char *name, bool as_f16)
{
    struct ork_shape shape;
    struct ork_model_shape model;
    ork_error error;
    assert_int_equal(ork_shape_read(name, &shape, &error), ORK_OK);
    for (int role = 0; as_f16 && role < ORK_SHAPE_ROLE_COUNT; role++)
        shape.tier[role] = ORK_TIER_F16;
    assert_int_equal(ork_shape_model(&shape, false, &model, &error), ORK_OK);
    return model;
}

/* Sizes that somebody else counted (models.md 4): weights by the table's parameters, keys and values, states. */
static void test_shapes(void **unused)
{
    (void)unused;
    struct ork_model_shape model = shape_model("qwen3.6-35b-a3b", true);
    assert_int_equal(ork_model_shape_kv_bytes(&model), 20 << 10);
    assert_int_equal(ork_model_shape_state_bytes(&model), (60u << 20) + 30 * 96 * 1024);
    const double weights = (double)ork_model_shape_weight_bytes(&model) / 2;
    assert_true(fabs(weights - (34.6606e9 - 508.6e6)) < 0.01e9); /* without the embedding */
    ork_model_shape_free(&model);
    model = shape_model("qwen3-30b-a3b", true);
    assert_int_equal(ork_model_shape_kv_bytes(&model), 96 << 10);
    assert_true(fabs((double)ork_model_shape_weight_bytes(&model) / 2 - (30.5321e9 - 311.2e6)) < 0.01e9);
    ork_model_shape_free(&model);
    model = shape_model("lfm2.5-8b-a1b", false);
    assert_int_equal(ork_model_shape_kv_bytes(&model), 12 << 10);
    ork_model_shape_free(&model);
}

/* One edit of a good file each; the message names what is wrong. */
static void test_bad_shapes(void **unused)
{
    (void)unused;
    static const char good[] =
        "{\"format\": \"ork-shape\", \"version\": 1, \"name\": \"x\", \"source\": \"y\", \"layers\": 2, \"width\": 64,"
        " \"vocabulary\": 64, \"context_max\": 64, \"attention\": {\"layers\": [0, 1], \"heads\": 2, \"heads_kv\": 1,"
        " \"head_width\": 32, \"gated\": false}, \"dense\": {\"layers\": 2, \"width\": 64}, \"tiers\": {\"mixer\": "
        "\"i8\","
        " \"dense\": \"i8\", \"experts\": \"nf4\", \"shared\": \"i8\", \"head\": \"i8\"},"
        " \"gguf_bits\": {\"layers\": 5, \"head\": 6}}";
    static const char *const edits[][3] = {
        {"ork-shape", "ork-board", "format"},
        {"\"version\": 1", "\"version\": 2", "version"},
        {"\"layers\": 2, \"width\": 64,", "\"layers\": 0, \"width\": 64,", "layers"},
        {"\"width\": 64,", "\"width\": 1e9,", "width"},
        {"\"heads\": 2", "\"heads\": -2", "attention.heads"},
        {"\"heads_kv\": 1", "\"heads_kv\": 3", "heads_kv"},
        {"[0, 1]", "[0, 9]", "attention.layers"},
        {"[0, 1]", "[0]", "attention.layers"},
        {"\"mixer\": \"i8\"", "\"mixer\": \"q9\"", "tiers.mixer"},
        {"\"source\"", "\"sauce\"", "source"},
        {"\"layers\": 5", "\"layers\": 99", "gguf_bits"},
        {"\"gated\": false", "\"gated\": 3", "gated"},
        {"\"vocabulary\": 64,", "", "vocabulary"},
        {"{\"layers\": 2, \"width\": 64}", "{\"layers\": 1, \"width\": 64}", "dense.layers"},
        {"\"tiers\"", "\"teirs\"", "teirs"},
        {"\"format\"", "format", "line"},
    };
    struct ork_shape shape;
    ork_error error;
    assert_int_equal(ork_shape_parse(good, sizeof good - 1, "good", &shape, &error), ORK_OK);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char text[2048];
        const char *at = strstr(good, edits[i][0]);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, edits[i][1], at + strlen(edits[i][0]));
        memset(&error, 0, sizeof error);
        assert_true(ork_shape_parse(text, strlen(text), "bad", &shape, &error) != ORK_OK);
        if (!strstr(error.what, edits[i][2]))
            fail_msg("'%s' is not in '%s'", edits[i][2], error.what);
    }
    for (size_t cut = 0; cut < sizeof good - 1; cut++) /* every truncation is an error and nothing else */
        assert_true(ork_shape_parse(good, cut, "cut", &shape, &error) != ORK_OK);
}

/* Every figure of ork's and of the published system, impossible or missing, is refused by its name. */
static void test_bad_boards(void **unused)
{
    (void)unused;
    static char good[1 << 16], text[1 << 16];
    FILE *file = fopen(ORK_SOURCE_DIR "/boards/rk3588.json", "re");
    assert_non_null(file);
    const size_t size = fread(good, 1, sizeof good - 1, file);
    fclose(file);
    good[size] = 0;
    size_t figures = 0;
    const char *at = strstr(good, "\"published_system\"");
    assert_non_null(at);
    for (; (at = strstr(at, "{\"value\": ")); at++) {
        const char *key = at - 3, *number = at + strlen("{\"value\": "), *end = number + strcspn(number, ",");
        while (key[-1] != '"')
            key--;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(at - 3 - key), key);
        for (int kind = 0; kind < 3; kind++) { /* far too large, no number, renamed */
            if (kind < 2)
                snprintf(text, sizeof text, "%.*s%s%s", (int)(number - good), good, kind ? "\"9\"" : "1e300", end);
            else
                snprintf(text, sizeof text, "%.*sx%s", (int)(key - good), good, key);
            FILE *bad = fopen("test_simulate_board.json", "we");
            assert_non_null(bad);
            assert_true(fputs(text, bad) >= 0 && fclose(bad) == 0);
            struct ork_simulate_board board;
            ork_error error = {0};
            assert_int_equal(ork_simulate_board_read("test_simulate_board.json", &board, &error), ORK_BAD_FILE);
            if (!strstr(error.what, name))
                fail_msg("%s, kind %d: '%s'", name, kind, error.what);
            struct ork_perf perf;
            assert_int_equal(ork_perf_from_board("test_simulate_board.json", &perf, &error), ORK_BAD_FILE);
        }
        figures++;
    }
    remove("test_simulate_board.json");
    assert_in_range(figures, 28, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_overlay_accounts),
        cmocka_unit_test(test_slow_chains),
        cmocka_unit_test(test_plan_is_the_dispatchers),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_bus),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bad_shapes),
        cmocka_unit_test(test_bad_boards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
