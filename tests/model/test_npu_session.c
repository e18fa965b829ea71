/* Guards sessions with an NPU, on the software device: the logits are those of the CPU alone with whole rows, bit for bit,
 * with and without faults; sessions share it, also at once; another model is refused, and an NPU that cannot serve leaves
 * the work to the CPU and says why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/fixture.h"

enum { ROWS = 70, MODELS = 7 };
static const struct {
    const char *path, *tier;
} models[MODELS] = {
    {"tests/compat/tiny/lfm2moe.gguf", "i8"}, {"tests/compat/tiny/qwen3moe.gguf", "nf4"},
    {"tests/compat/tiny/lfm2.gguf", "i4"},    {"tests/compat/tiny/llama.gguf", "nf4"},
    {"tests/compat/tiny/lfm2moe.gguf", "n8"}, {"tests/compat/tiny/llama3.gguf", "i5"},
    {"tests/compat/tiny/qwen3.gguf", "i6"},
};

static ork_npu *open_npu(const char *faults, uint64_t memory_bytes)
{
    ork_error error;
    ork_npu *npu;
    const ork_npu_params params = {
        .kind = ORK_NPU_SOFT, .rows_min = 2, .faults = faults, .memory_bytes = memory_bytes, .skip_self_test = faults};
    fixture_check(ork_npu_open(&params, &npu, &error), &error, "NPU");
    return npu;
}

static ork_session *create_session(const ork_model *model, ork_npu *npu)
{
    ork_error error;
    ork_session *session;
    const ork_session_params params = {
        .context_length = 128, .threads = 2, .activation_block = UINT32_MAX, .spin_us = 20, .npu = npu};
    fixture_check(ork_session_create(model, &params, &session, &error), &error, "session");
    return session;
}

static size_t vocabulary_of(const ork_model *model)
{
    return ork_card_get_summary(ork_model_card(model))->vocabulary_size;
}

/* Logits of all positions of a fixed token list; freed by the caller. */
static float *evaluate(ork_session *session, size_t vocabulary)
{
    ork_error error;
    ork_token tokens[ROWS];
    uint32_t seed = 3;
    for (int i = 0; i < ROWS; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (ork_token)((seed >> 8) % vocabulary);
    }
    fixture_check(ork_session_sync(session, tokens, ROWS, 0, &error), &error, "sync");
    float *logits = malloc(ROWS * vocabulary * sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(logits + i * vocabulary, ork_session_logits(session, i), vocabulary * sizeof *logits);
    return logits;
}

static float *evaluate_on_cpu(const ork_model *model)
{
    ork_session *session = create_session(model, NULL);
    float *logits = evaluate(session, vocabulary_of(model));
    ork_session_destroy(session);
    return logits;
}

/* Evaluates with the NPU and compares; the session's stats are left. */
static void check_session(const ork_model *model, ork_npu *npu, const float *want, ork_session_stats *stats)
{
    size_t vocabulary = vocabulary_of(model);
    ork_session *session = create_session(model, npu);
    float *logits = evaluate(session, vocabulary);
    assert_memory_equal(logits, want, ROWS * vocabulary * sizeof *want);
    ork_session_get_stats(session, stats);
    assert_true(stats->npu_multiply_adds <= stats->batch_multiply_adds);
    free(logits);
    ork_session_destroy(session);
}

static void test_logits_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        struct fixture fixture;
        ork_session_stats stats;
        fixture_open(&fixture, models[m].path, models[m].tier);
        float *want = evaluate_on_cpu(fixture.model);
        ork_npu *npu = open_npu(NULL, 0);
        for (int round = 0; round < 2; round++) { /* attached anew */
            check_session(fixture.model, npu, want, &stats);
            assert_true(stats.npu && !*stats.npu_why);
            assert_true(stats.npu_multiply_adds > stats.batch_multiply_adds / 2);
        }
        ork_npu_close(npu);
        free(want);
        fixture_close(&fixture);
    }
}

static void test_faults_change_nothing(void **state)
{
    (void)state;
    static const char *const faults[] = {"seed=5;flip:p=0.1;late:p=0.05;never:p=0.02;stop:p=0.05",
                                         "dead:core=1;untouched:p=0.05", "never:from=0", "refuse:from=40;reset-fails",
                                         "constant:every=3;tail:every=5;early:every=7;lost:every=11"};
    struct fixture fixture;
    fixture_open(&fixture, models[0].path, models[0].tier);
    float *want = evaluate_on_cpu(fixture.model);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ork_npu *npu = open_npu(faults[i], 0);
        ork_session_stats stats;
        ork_npu_stats work;
        check_session(fixture.model, npu, want, &stats);
        ork_npu_get_stats(npu, &work);
        assert_true(work.redone > 0);
        assert_true(stats.npu_multiply_adds < stats.batch_multiply_adds);
        ork_npu_close(npu);
    }
    free(want);
    fixture_close(&fixture);
}

struct visitor {
    const ork_model *model;
    ork_npu *npu;
    const float *want;
    bool same;
};

static void *visit(void *context)
{
    struct visitor *visitor = context;
    size_t vocabulary = vocabulary_of(visitor->model);
    visitor->same = true;
    for (int i = 0; i < 3; i++) {
        ork_session *session = create_session(visitor->model, visitor->npu);
        float *logits = evaluate(session, vocabulary);
        visitor->same &= memcmp(logits, visitor->want, ROWS * vocabulary * sizeof *logits) == 0;
        free(logits);
        ork_session_destroy(session);
    }
    return NULL;
}

static void test_sessions_share_it_at_once(void **state)
{
    (void)state;
    enum { VISITORS = 3 };
    struct fixture fixture;
    struct visitor visitors[VISITORS];
    pthread_t threads[VISITORS];
    fixture_open(&fixture, models[0].path, models[0].tier);
    float *want = evaluate_on_cpu(fixture.model);
    ork_npu *npu = open_npu(NULL, 0);
    ork_session *guard = create_session(fixture.model, npu); /* the weights stay attached */
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = (struct visitor){fixture.model, npu, want, false};
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < VISITORS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(visitors[i].same);
    }
    ork_session_destroy(guard);
    ork_npu_stats work;
    ork_npu_get_stats(npu, &work);
    assert_true(work.matmuls > 0);
    ork_npu_close(npu);
    free(want);
    fixture_close(&fixture);
}

static void test_another_model_is_refused_and_the_order_of_closing_is_free(void **state)
{
    (void)state;
    struct fixture first, second;
    ork_error error;
    ork_session *session;
    fixture_open(&first, models[0].path, models[0].tier);
    fixture_open(&second, models[2].path, models[2].tier);
    ork_npu *npu = open_npu(NULL, 0);
    ork_session *owner = create_session(first.model, npu);
    const ork_session_params params = {.context_length = 64, .spin_us = UINT32_MAX, .npu = npu};
    assert_int_equal(ork_session_create(second.model, &params, &session, &error), ORK_LIMIT);
    assert_null(session);
    assert_non_null(strstr(error.what, "another model"));
    ork_session_destroy(owner);
    fixture_close(&first); /* the model goes before the NPU */
    fixture_check(ork_session_create(second.model, &params, &session, &error), &error, "session");
    ork_session_destroy(session);
    ork_npu_close(npu);
    fixture_close(&second);
}

static void test_a_model_without_bricks_runs_on_the_cpu(void **state)
{
    (void)state;
    struct fixture fixture;
    ork_session_stats stats;
    fixture_open(&fixture, models[2].path, "f32");
    float *want = evaluate_on_cpu(fixture.model);
    ork_npu *npu = open_npu(NULL, 0);
    check_session(fixture.model, npu, want, &stats);
    assert_false(stats.npu);
    assert_true(*stats.npu_why);
    assert_int_equal(stats.npu_multiply_adds, 0);
    ork_npu_close(npu);
    free(want);
    fixture_close(&fixture);
}

/* With one row the NPU is not even asked. */
static void test_decoding_never_asks_the_npu(void **state)
{
    (void)state;
    struct fixture fixture;
    ork_error error;
    ork_session_stats stats;
    ork_npu_stats before, after;
    fixture_open(&fixture, models[0].path, models[0].tier);
    ork_npu *npu = open_npu(NULL, 0);
    ork_session *session = create_session(fixture.model, npu);
    const ork_token tokens[] = {1, 2, 3, 4};
    ork_npu_get_stats(npu, &before);
    for (size_t count = 1; count <= 4; count++)
        fixture_check(ork_session_sync(session, tokens, count, count - 1, &error), &error, "sync");
    ork_npu_get_stats(npu, &after);
    ork_session_get_stats(session, &stats);
    assert_int_equal(stats.batch_multiply_adds, 0);
    assert_int_equal(after.submits, before.submits);
    assert_int_equal(after.declined, before.declined);
    ork_session_destroy(session);
    ork_npu_close(npu);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_are_those_of_the_cpu),
        cmocka_unit_test(test_faults_change_nothing),
        cmocka_unit_test(test_sessions_share_it_at_once),
        cmocka_unit_test(test_another_model_is_refused_and_the_order_of_closing_is_free),
        cmocka_unit_test(test_a_model_without_bricks_runs_on_the_cpu),
        cmocka_unit_test(test_decoding_never_asks_the_npu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
