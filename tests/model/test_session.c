/* Guards sessions: whatever the history of a session, its logits are those of a fresh session on the same tokens, bit for
 * bit; recurrent state is never cut wrongly, sessions do not mix, cancelling and limits leave them usable (bugs B32-B34). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "model/fixture.h"

enum { MODELS = 5, TOKENS_MAX = 256 };
static const char *const paths[MODELS] = {"tests/compat/tiny/lfm2moe.gguf", "tests/compat/tiny/qwen3.gguf",
                                          "tests/compat/tiny/lfm2.gguf", "tests/compat/tiny/llama.gguf",
                                          "tests/compat/tiny/qwen3moe.gguf"};
static struct fixture fixtures[MODELS];

static int open_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        fixture_open(&fixtures[i], paths[i], "i8");
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        fixture_close(&fixtures[i]);
    return 0;
}

static size_t vocabulary_of(const struct fixture *fixture)
{
    return ork_card_get_summary(ork_model_card(fixture->model))->vocabulary_size;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill_random(ork_token *tokens, size_t from, size_t to, size_t vocabulary, uint32_t *seed)
{
    for (size_t i = from; i < to; i++)
        tokens[i] = (ork_token)(next_random(seed) % vocabulary);
}

/* The session's last logits equal those of a new session given the same list. */
static void check_against_fresh(const struct fixture *fixture, ork_session *session, const ork_token *tokens,
                                size_t count)
{
    ork_error error;
    ork_session *fresh = fixture_session(fixture, 1, 64);
    fixture_check(ork_session_sync(fresh, tokens, count, count, &error), &error, "fresh sync");
    const float *have = ork_session_logits(session, count - 1), *want = ork_session_logits(fresh, count - 1);
    assert_non_null(have);
    assert_memory_equal(have, want, vocabulary_of(fixture) * sizeof *have);
    ork_session_destroy(fresh);
}

static void test_any_edit_equals_fresh(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 7;
        ork_token tokens[TOKENS_MAX];
        size_t vocabulary = vocabulary_of(&fixtures[m]), count = 40;
        ork_session *session = fixture_session(&fixtures[m], 2, 16);
        fill_random(tokens, 0, TOKENS_MAX, vocabulary, &seed);
        for (int round = 0; round < 60; round++) {
            size_t keep = next_random(&seed) % (count + 1);
            switch (next_random(&seed) % 4) {
            case 0: /* go on by one token */
                keep = count;
                count = count < TOKENS_MAX ? count + 1 : 20;
                break;
            case 1: /* cut */
                count = 1 + next_random(&seed) % count;
                keep = count;
                break;
            case 2: /* the same list again */
                keep = count;
                break;
            default: /* another end */
                count = keep + 1 + next_random(&seed) % (TOKENS_MAX - keep);
            }
            fill_random(tokens, keep < count ? keep : count, count, vocabulary, &seed);
            fixture_check(ork_session_sync(session, tokens, count, count, &error), &error, "sync");
            check_against_fresh(&fixtures[m], session, tokens, count);
        }
        ork_session_destroy(session);
    }
}

/* A chat: every turn appends. Nothing is computed twice, and the statistics say so. */
static void test_appending_computes_only_what_is_new(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 3;
        ork_token tokens[TOKENS_MAX];
        ork_session_stats stats;
        ork_session *session = fixture_session(&fixtures[m], 1, 16);
        fill_random(tokens, 0, TOKENS_MAX, vocabulary_of(&fixtures[m]), &seed);
        for (size_t count = 20; count <= 200; count += 20)
            fixture_check(ork_session_sync(session, tokens, count, count, &error), &error, "sync");
        ork_session_get_stats(session, &stats);
        assert_int_equal(stats.evaluated_tokens, 200);
        assert_int_equal(stats.reused_tokens, 20 + 40 + 60 + 80 + 100 + 120 + 140 + 160 + 180);
        ork_session_destroy(session);
    }
}

/* Rows of a batch that all have logits are those of tokens given one by one, and the timeline is cut behind each of them.
 * Of up to 32 rows nothing is computed again, whatever the model's state; of more the result is right all the same. */
static void test_few_rows_are_cut_anywhere(void **state)
{
    (void)state;
    enum { BEFORE = 41, ROWS_MAX = 33 };
    static const size_t batches[] = {2, 3, 7, 16, 32, ROWS_MAX};
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 13;
        ork_token tokens[TOKENS_MAX], edited[TOKENS_MAX];
        ork_session_stats before, after;
        size_t vocabulary = vocabulary_of(&fixtures[m]), bytes = vocabulary * sizeof(float);
        float *one_by_one = malloc(ROWS_MAX * bytes);
        ork_session *session = fixture_session(&fixtures[m], 2, 64), *other = fixture_session(&fixtures[m], 1, 64);
        fill_random(tokens, 0, TOKENS_MAX, vocabulary, &seed);
        for (size_t row = 0; row < ROWS_MAX; row++) {
            fixture_check(ork_session_sync(other, tokens, BEFORE + row + 1, BEFORE + row, &error), &error,
                          "one by one");
            memcpy(one_by_one + row * vocabulary, ork_session_logits(other, BEFORE + row), bytes);
        }
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (size_t keep = 0; keep < batches[b]; keep++) {
                size_t end = BEFORE + keep;
                ork_session_clear(session);
                fixture_check(ork_session_sync(session, tokens, BEFORE, BEFORE, &error), &error, "before");
                fixture_check(ork_session_sync(session, tokens, BEFORE + batches[b], BEFORE, &error), &error, "batch");
                for (size_t row = 0; row < batches[b]; row++)
                    assert_memory_equal(ork_session_logits(session, BEFORE + row), one_by_one + row * vocabulary,
                                        bytes);
                memcpy(edited, tokens, sizeof edited);
                for (size_t cut = end; cut >= BEFORE && cut + 2 > end; cut--) { /* and once more, one token deeper */
                    edited[cut] = (ork_token)((size_t)(edited[cut] + 1) % vocabulary);
                    ork_session_get_stats(session, &before);
                    fixture_check(ork_session_sync(session, edited, cut + 1, cut, &error), &error, "cut");
                    ork_session_get_stats(session, &after);
                    if (batches[b] < ROWS_MAX)
                        assert_int_equal(after.evaluated_tokens - before.evaluated_tokens, 1);
                    check_against_fresh(&fixtures[m], session, edited, cut + 1);
                }
            }
        free(one_by_one);
        ork_session_destroy(session);
        ork_session_destroy(other);
    }
}

/* The limit of the rows above is counted in the memory that a session says it has. */
static void test_state_memory_is_bounded(void **state)
{
    (void)state;
    ork_session_stats stats;
    for (int m = 0; m < MODELS; m++) {
        ork_session *session = fixture_session(&fixtures[m], 1, 64);
        ork_session_get_stats(session, &stats);
        bool has_state = strstr(paths[m], "lfm2");
        assert_int_equal(stats.state_bytes > 0, has_state);
        /* at most four layers, 64 wide, 3 taps: 9 states and the inputs of 34 rows */
        assert_true(stats.state_bytes <= 4 * 64 * sizeof(float) * (9 * 2 + 34));
        ork_session_destroy(session);
    }
}

static void test_interleaved_sessions_do_not_mix(void **state)
{
    (void)state;
    enum { SESSIONS = 4 };
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 99;
        ork_token tokens[SESSIONS][TOKENS_MAX];
        size_t counts[SESSIONS] = {0};
        ork_session *sessions[SESSIONS];
        for (int s = 0; s < SESSIONS; s++) {
            sessions[s] = fixture_session(&fixtures[m], 1, 8);
            fill_random(tokens[s], 0, TOKENS_MAX, vocabulary_of(&fixtures[m]), &seed);
        }
        for (int step = 0; step < 80; step++) {
            int s = (int)(next_random(&seed) % SESSIONS);
            counts[s] += 1 + next_random(&seed) % 3;
            fixture_check(ork_session_sync(sessions[s], tokens[s], counts[s], counts[s], &error), &error, "sync");
        }
        for (int s = 0; s < SESSIONS; s++) {
            if (counts[s])
                check_against_fresh(&fixtures[m], sessions[s], tokens[s], counts[s]);
            ork_session_destroy(sessions[s]);
        }
    }
}

static void test_snapshot_returns_to_its_position(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 5;
        ork_token tokens[TOKENS_MAX];
        ork_snapshot *snapshot;
        ork_session_stats before, after;
        size_t vocabulary = vocabulary_of(&fixtures[m]);
        ork_session *session = fixture_session(&fixtures[m], 1, 16), *other = fixture_session(&fixtures[m], 1, 16);
        fill_random(tokens, 0, TOKENS_MAX, vocabulary, &seed);
        fixture_check(ork_session_sync(session, tokens, 53, 53, &error), &error, "sync");
        fixture_check(ork_session_snapshot(session, &snapshot, &error), &error, "snapshot");
        fixture_check(ork_session_sync(session, tokens, 120, 120, &error), &error, "sync");
        fill_random(tokens, 53, 90, vocabulary, &seed);
        ork_session *targets[] = {session, other};
        for (int i = 0; i < 2; i++) {
            fixture_check(ork_session_restore(targets[i], snapshot, &error), &error, "restore");
            ork_session_get_stats(targets[i], &before);
            fixture_check(ork_session_sync(targets[i], tokens, 90, 90, &error), &error, "sync");
            ork_session_get_stats(targets[i], &after);
            assert_int_equal(after.evaluated_tokens - before.evaluated_tokens, 90 - 53);
            check_against_fresh(&fixtures[m], targets[i], tokens, 90);
        }
        ork_snapshot_destroy(snapshot);
        ork_session_destroy(session);
        ork_session_destroy(other);
    }
}

static void test_cancelled_session_recovers(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++)
        for (int after = 0; after < 7; after++) { /* four batches of at least two layers poll eight times */
            ork_error error;
            uint32_t seed = 11;
            int left = 1 << 30;
            ork_token tokens[TOKENS_MAX];
            ork_session *session;
            ork_session_params params = {.context_length = TOKENS_MAX,
                                         .threads = 1,
                                         .batch_rows = 16,
                                         .kv_type_key = ORK_KV_F32,
                                         .kv_type_value = ORK_KV_F32,
                                         .spin_us = UINT32_MAX,
                                         .cancel = fixture_cancel_after,
                                         .cancel_context = &left};
            fixture_check(ork_session_create(fixtures[m].model, &params, &session, &error), &error, "session");
            fill_random(tokens, 0, TOKENS_MAX, vocabulary_of(&fixtures[m]), &seed);
            fixture_check(ork_session_sync(session, tokens, 30, 30, &error), &error, "sync");
            left = after;
            assert_int_equal(ork_session_sync(session, tokens, 90, 90, &error), ORK_CANCELLED);
            assert_null(ork_session_logits(session, 89));
            left = 1 << 30;
            fixture_check(ork_session_sync(session, tokens, 90, 90, &error), &error, "sync");
            check_against_fresh(&fixtures[m], session, tokens, 90);
            ork_session_destroy(session);
        }
}

static void test_bounds_are_errors(void **state)
{
    (void)state;
    ork_error error;
    ork_session *session = fixture_session(&fixtures[0], 1, 16);
    size_t vocabulary = vocabulary_of(&fixtures[0]);
    ork_token tokens[TOKENS_MAX + 1] = {0};
    assert_int_equal(ork_session_sync(session, tokens, 0, 0, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_session_sync(session, tokens, TOKENS_MAX + 1, 0, &error), ORK_LIMIT);
    tokens[3] = (ork_token)vocabulary;
    assert_int_equal(ork_session_sync(session, tokens, 10, 0, &error), ORK_BAD_ARGUMENT);
    tokens[3] = -1;
    assert_int_equal(ork_session_sync(session, tokens, 10, 0, &error), ORK_BAD_ARGUMENT);
    tokens[3] = 0;
    assert_null(ork_session_logits(session, 0));
    fixture_check(ork_session_sync(session, tokens, TOKENS_MAX, 250, &error), &error, "a full context");
    assert_null(ork_session_logits(session, 249));
    assert_non_null(ork_session_logits(session, 250));
    assert_non_null(ork_session_logits(session, TOKENS_MAX - 1));
    assert_null(ork_session_logits(session, TOKENS_MAX));
    ork_session_destroy(session);

    ork_session_params params = {.context_length = 256, .threads = 100000};
    assert_int_equal(ork_session_create(fixtures[0].model, &params, &session, &error), ORK_BAD_ARGUMENT);
    params = (ork_session_params){.context_length = 256, .activation_block = 33};
    assert_int_equal(ork_session_create(fixtures[0].model, &params, &session, &error), ORK_BAD_ARGUMENT);
    params = (ork_session_params){.context_length = 256, .batch_rows = 1u << 30};
    assert_int_equal(ork_session_create(fixtures[0].model, &params, &session, &error), ORK_BAD_ARGUMENT);
    params = (ork_session_params){.context_length = UINT32_MAX};
    assert_int_not_equal(ork_session_create(fixtures[0].model, &params, &session, &error), ORK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_edit_equals_fresh),
        cmocka_unit_test(test_appending_computes_only_what_is_new),
        cmocka_unit_test(test_few_rows_are_cut_anywhere),
        cmocka_unit_test(test_state_memory_is_bounded),
        cmocka_unit_test(test_interleaved_sessions_do_not_mix),
        cmocka_unit_test(test_snapshot_returns_to_its_position),
        cmocka_unit_test(test_cancelled_session_recovers),
        cmocka_unit_test(test_bounds_are_errors),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
