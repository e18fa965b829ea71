/* Guards the arithmetic of every architecture: the float tiers must follow llama.cpp's logits on tiny random models
 * (tests/compat/golden/tiny-*.json, made by the peer in float with a float cache), and choose the same greedy tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/fixture.h"

/* Two float engines agree to about 1e-4 (tests/compat/README.md); f16 weights add their rounding. */
static const struct {
    const char *tier;
    double logit_tolerance, gap_tolerance;
} tiers[] = {{"f32", 4e-4, 1e-3}, {"f16", 5e-2, 1e-1}};

static json_t *load_golden(const char *name)
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/compat/golden/tiny-%s.json", ORK_SOURCE_DIR, name);
    json_t *golden = json_load_file(path, 0, &error);
    if (!golden)
        fail_msg("%s: %s", path, error.text);
    return golden;
}

static size_t copy_tokens(const json_t *array, ork_token *out)
{
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++)
        out[i] = (ork_token)json_integer_value(json_array_get(array, i));
    return count;
}

static void compare_logits(ork_session *session, const json_t *golden, size_t vocabulary, double tolerance)
{
    const json_t *positions = json_object_get(golden, "positions"), *logits = json_object_get(golden, "logits");
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(positions); i++) {
        size_t position = (size_t)json_integer_value(json_array_get(positions, i));
        const float *have = ork_session_logits(session, position);
        const json_t *want = json_array_get(logits, i);
        assert_non_null(have);
        assert_int_equal(json_array_size(want), vocabulary);
        for (size_t v = 0; v < vocabulary; v++) {
            double difference = fabs((double)have[v] - json_number_value(json_array_get(want, v)));
            if (!(difference <= worst))
                worst = difference;
        }
    }
    if (!(worst <= tolerance))
        fail_msg("logits differ by %g, allowed %g", worst, tolerance);
}

/* Continues greedily along the golden tokens; a different choice is right only where the peer's own gap is within the
 * tolerance. */
static void compare_greedy(ork_session *session, const json_t *golden, ork_token *tokens, size_t count,
                           size_t vocabulary, double tolerance)
{
    ork_error error;
    const json_t *greedy = json_object_get(golden, "greedy"), *gaps = json_object_get(golden, "gaps");
    for (size_t step = 0; step < json_array_size(greedy); step++) {
        const float *logits = ork_session_logits(session, count - 1);
        size_t best = 0;
        for (size_t v = 1; v < vocabulary; v++)
            if (logits[v] > logits[best])
                best = v;
        ork_token want = (ork_token)json_integer_value(json_array_get(greedy, step));
        double gap = json_number_value(json_array_get(gaps, step));
        if ((ork_token)best != want && gap > tolerance)
            fail_msg("step %zu: token %zu instead of %d, although the peer's gap is %g", step, best, want, gap);
        tokens[count++] = want;
        fixture_check(ork_session_sync(session, tokens, count, count, &error), &error, "sync");
    }
}

static void check_model(const char *name)
{
    ork_error error;
    char path[256];
    ork_token tokens[256];
    json_t *golden = load_golden(name);
    snprintf(path, sizeof path, "tests/compat/tiny/%s.gguf", name);
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        struct fixture fixture;
        fixture_open(&fixture, path, tiers[i].tier);
        size_t vocabulary = ork_card_get_summary(ork_model_card(fixture.model))->vocabulary_size;
        ork_session *session = fixture_session(&fixture, 2, 16);
        size_t count = copy_tokens(json_object_get(golden, "ids"), tokens);
        fixture_check(ork_session_sync(session, tokens, count, 0, &error), &error, "sync");
        compare_logits(session, golden, vocabulary, tiers[i].logit_tolerance);
        compare_greedy(session, golden, tokens, count, vocabulary, tiers[i].gap_tolerance);
        ork_session_destroy(session);
        fixture_close(&fixture);
    }
    json_decref(golden);
}

static void test_llama(void **state)
{
    (void)state;
    check_model("llama");
}

static void test_llama_with_rope_factors(void **state)
{
    (void)state;
    check_model("llama3");
}

static void test_qwen3(void **state)
{
    (void)state;
    check_model("qwen3");
}

static void test_qwen3moe(void **state)
{
    (void)state;
    check_model("qwen3moe");
}

static void test_lfm2(void **state)
{
    (void)state;
    check_model("lfm2");
}

static void test_lfm2moe(void **state)
{
    (void)state;
    check_model("lfm2moe");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),    cmocka_unit_test(test_llama_with_rope_factors), cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_qwen3moe), cmocka_unit_test(test_lfm2),                    cmocka_unit_test(test_lfm2moe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
