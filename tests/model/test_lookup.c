/* Guards drafts: they are found where a plain search finds them, a session with drafts has the logits of one without at
 * every token, bit for bit, so that greedy and sampled text stay the same; wrong drafts cost no text and little time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "model/fixture.h"
#include "model/lookup_index.h"
#include "model/tuning.h"

enum { MODELS = 7, CONTEXT = 256 }; /* the context of fixture_session */
static const char *const paths[MODELS] = {"tests/compat/tiny/lfm2moe.gguf", "tests/compat/tiny/lfm2.gguf",
                                          "tests/compat/tiny/llama.gguf",   "tests/compat/tiny/llama3.gguf",
                                          "tests/compat/tiny/qwen3.gguf",   "tests/compat/tiny/qwen3moe.gguf",
                                          "models/demo-lfm2moe.gguf"};
static struct fixture fixtures[MODELS];

static int open_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        fixture_open(&fixtures[i], paths[i], i + 1 < MODELS ? "i8" : NULL);
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        fixture_close(&fixtures[i]);
    return 0;
}

/* The low bits of such a generator repeat themselves soon, and a lookup finds that. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static ork_lookup *create_lookup(const ork_model *model, ork_lookup_params params)
{
    ork_error error;
    ork_lookup *lookup;
    fixture_check(ork_lookup_create(model, &params, &lookup, &error), &error, "lookup");
    return lookup;
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* The definition: of the longest run from `to` down to `from` that stood before, the latest place. */
static struct ork_lookup_place find_plainly(const ork_token *tokens, size_t count, size_t from, size_t to)
{
    for (size_t size = to; size >= from; size--)
        for (size_t at = count - 1; count && at >= size && at > 0; at--)
            if (memcmp(tokens + at - size, tokens + count - size, size * sizeof *tokens) == 0) {
                size_t matched = size;
                while (matched < ORK_LOOKUP_SEEN && matched < at &&
                       tokens[at - 1 - matched] == tokens[count - 1 - matched])
                    matched++;
                return (struct ork_lookup_place){(uint32_t)at, (uint32_t)matched};
            }
    return (struct ork_lookup_place){0};
}

static void test_places_are_those_of_a_plain_search(void **state)
{
    (void)state;
    enum { TOKENS = 3000 };
    static const uint32_t ranges[][2] = {{1, 1}, {1, 4}, {2, 6}, {3, 3}, {16, 16}, {1, 16}};
    ork_token tokens[TOKENS];
    ork_error error;
    size_t found = 0;
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        uint32_t seed = 5;
        struct ork_lookup_index index;
        ork_lookup_index_create(&index, ranges[r][0], ranges[r][1]);
        for (uint32_t alphabet = 1; alphabet <= 64; alphabet *= 4) {
            ork_lookup_index_clear(&index);
            assert_int_equal(ork_lookup_index_find(&index).matched, 0);
            size_t count = alphabet == 4 ? TOKENS : 300; /* the long one lets the tables grow */
            for (size_t i = 0; i < count; i++) {
                tokens[i] = (ork_token)(next_random(&seed) % alphabet);
                fixture_check(ork_lookup_index_add(&index, tokens[i], &error), &error, "add");
                if (i > 400 && i % 16)
                    continue;
                struct ork_lookup_place have = ork_lookup_index_find(&index),
                                        want = find_plainly(tokens, i + 1, ranges[r][0], ranges[r][1]);
                assert_int_equal(have.at, want.at);
                assert_int_equal(have.matched, want.matched);
                found += want.matched > 0;
            }
        }
        assert_true(ork_lookup_index_bytes(&index) < 16u * TOKENS * sizeof(ork_token) * 5);
        ork_lookup_index_destroy(&index);
    }
    assert_true(found > 1000);
}

/* ---- drafts ----------------------------------------------------------------------------------------------------- */

static void test_draft_is_what_followed(void **state)
{
    (void)state;
    static const ork_token tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4}, period[] = {7, 8, 9, 7, 8, 9, 7};
    static const ork_token wanted[] = {5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9}, turns[] = {8, 9, 7, 8, 9, 7, 8, 9};
    ork_error error;
    ork_token draft[ORK_LOOKUP_DRAFT_MAX];
    size_t count;
    ork_lookup *lookup = create_lookup(NULL, (ork_lookup_params){.always = true});
    fixture_check(ork_lookup_draft(lookup, tokens, 12, 13, draft, &count, &error), &error, "draft");
    assert_int_equal(count, 13);
    assert_memory_equal(draft, wanted, sizeof wanted);
    for (size_t room = 0; room <= 40; room++) {
        fixture_check(ork_lookup_draft(lookup, tokens, 12, room, draft, &count, &error), &error, "draft");
        assert_int_equal(count, room < ORK_LOOKUP_DRAFT ? room : ORK_LOOKUP_DRAFT);
    }
    fixture_check(ork_lookup_draft(lookup, tokens, 9, 13, draft, &count, &error), &error, "nothing repeats");
    assert_int_equal(count, 0);
    fixture_check(ork_lookup_draft(lookup, period, 7, 8, draft, &count, &error), &error, "period");
    assert_int_equal(count, 8);
    assert_memory_equal(draft, turns, sizeof turns);
    assert_int_equal(ork_lookup_draft(lookup, tokens, 0, 8, draft, &count, &error), ORK_BAD_ARGUMENT);
    ork_lookup_destroy(lookup);
    ork_lookup_params params = {.draft_max = ORK_LOOKUP_DRAFT_MAX + 1};
    assert_int_equal(ork_lookup_create(NULL, &params, &lookup, &error), ORK_BAD_ARGUMENT);
    assert_null(lookup);
    params = (ork_lookup_params){.match_min = ORK_LOOKUP_MATCH_MAX + 1};
    assert_int_equal(ork_lookup_create(NULL, &params, &lookup, &error), ORK_BAD_ARGUMENT);
    ork_lookup_destroy(NULL);
}

/* Plays the decoding of a given text; returns passes, and drafted tokens in *drafted. */
static size_t play(const ork_token *text, size_t prompt, size_t count, size_t *drafted)
{
    ork_error error;
    ork_token draft[ORK_LOOKUP_DRAFT_MAX];
    ork_lookup *lookup = create_lookup(NULL, (ork_lookup_params){0});
    size_t passes = 0;
    *drafted = 0;
    for (size_t at = prompt; at < count; passes++) {
        size_t size, right = 0;
        fixture_check(ork_lookup_draft(lookup, text, at, count - at - 1, draft, &size, &error), &error, "draft");
        while (right < size && draft[right] == text[at + right])
            right++;
        *drafted += size;
        at += 1 + right;
    }
    ork_lookup_destroy(lookup);
    return passes;
}

/* The length of drafts follows from what came of guesses: text without repetitions gets hardly any, copies long ones. */
static void test_drafts_are_made_where_they_pay(void **state)
{
    (void)state;
    enum { TOKENS = 4000, PROMPT = 200 };
    ork_token text[TOKENS];
    uint32_t seed = 3;
    size_t drafted, passes;
    for (uint32_t alphabet = 8; alphabet <= 512; alphabet *= 4) { /* pairs come again, what follows is chance */
        for (size_t i = 0; i < TOKENS; i++)
            text[i] = (ork_token)(next_random(&seed) % alphabet);
        passes = play(text, PROMPT, TOKENS, &drafted);
        assert_true(passes <= TOKENS - PROMPT);
        assert_in_range(drafted, 0, TOKENS / 100);
    }
    for (size_t i = PROMPT; i < TOKENS; i++) /* the prompt again and again */
        text[i] = text[i - PROMPT];
    passes = play(text, PROMPT, TOKENS, &drafted);
    assert_in_range(passes, (TOKENS - PROMPT) / (ORK_LOOKUP_DRAFT + 1), TOKENS / 12);
    for (size_t i = PROMPT; i < TOKENS; i++) /* copies with an error in one token of twelve */
        text[i] = next_random(&seed) % 12 ? text[i - PROMPT] : (ork_token)(next_random(&seed) % 512);
    passes = play(text, PROMPT, TOKENS, &drafted);
    assert_in_range(passes, TOKENS / 12, TOKENS / 2);
    assert_true(drafted < TOKENS * 2);
}

/* ---- generation ------------------------------------------------------------------------------------------------- */

struct way {
    ork_lookup_params lookup;
    ork_sampler_params sampler;
};

static ork_sampler *create_sampler(const struct fixture *fixture, const ork_sampler_params *params)
{
    ork_error error;
    ork_sampler *sampler;
    uint32_t vocabulary = ork_card_get_summary(ork_model_card(fixture->model))->vocabulary_size;
    fixture_check(ork_sampler_create(params, vocabulary, &sampler, &error), &error, "sampler");
    return sampler;
}

/* Generates to the end of the context in both ways, in step: logits and tokens must be equal. Returns how many drafted
 * tokens were right. */
static uint64_t compare_generation(const struct fixture *fixture, const struct way *way)
{
    ork_error error;
    size_t vocabulary = ork_card_get_summary(ork_model_card(fixture->model))->vocabulary_size, count = 12, steps = 0;
    ork_token tokens[CONTEXT], token, plain_token;
    ork_session *session = fixture_session(fixture, 2, 64), *plain = fixture_session(fixture, 1, 64);
    ork_sampler *sampler = create_sampler(fixture, &way->sampler),
                *plain_sampler = create_sampler(fixture, &way->sampler);
    ork_lookup *lookup = create_lookup(fixture->model, way->lookup);
    ork_lookup_stats stats;
    uint32_t seed = (uint32_t)way->sampler.seed + 1;
    for (size_t i = 0; i < count; i++)
        tokens[i] = (ork_token)(next_random(&seed) % vocabulary);
    fixture_check(ork_session_sync(session, tokens, count, count - 1, &error), &error, "prompt");
    fixture_check(ork_session_sync(plain, tokens, count, count - 1, &error), &error, "prompt");
    for (;; steps++) {
        const float *have = ork_session_logits(session, count - 1), *want = ork_session_logits(plain, count - 1);
        assert_non_null(have);
        assert_memory_equal(have, want, vocabulary * sizeof *have);
        fixture_check(ork_sampler_sample(sampler, have, tokens, count, &token, &error), &error, "sample");
        fixture_check(ork_sampler_sample(plain_sampler, want, tokens, count, &plain_token, &error), &error, "sample");
        assert_int_equal(token, plain_token);
        if (count == CONTEXT)
            break;
        tokens[count++] = token;
        fixture_check(ork_lookup_sync(lookup, session, tokens, count, SIZE_MAX, &error), &error, "sync with a draft");
        fixture_check(ork_session_sync(plain, tokens, count, count - 1, &error), &error, "sync");
    }
    ork_lookup_get_stats(lookup, &stats);
    assert_int_equal(stats.passes + stats.accepted, steps);
    assert_true(stats.drafts <= stats.passes && stats.accepted <= stats.drafted);
    assert_true(stats.drafted <= stats.drafts * (way->lookup.draft_max ? way->lookup.draft_max : ORK_LOOKUP_DRAFT));
    ork_lookup_destroy(lookup);
    ork_sampler_destroy(sampler);
    ork_sampler_destroy(plain_sampler);
    ork_session_destroy(session);
    ork_session_destroy(plain);
    return stats.accepted;
}

static void test_text_is_the_same_with_drafts(void **state)
{
    (void)state;
    const ork_sampler_params off = {.top_p = 1, .repeat_last_n = 64, .repeat_penalty = 1, .seed = 1};
    struct way ways[] = {{{0}, off},
                         {{.always = true, .match_min = 1}, off},
                         {{.always = true, .draft_max = 1}, off},
                         {{.always = true, .draft_max = 31}, off},
                         {{.always = true, .match_min = 1}, off},
                         {{.always = true, .match_min = 1}, off},
                         {{.match_min = 1}, off},
                         {{.draft_max = 4}, off}};
    ways[3].sampler.repeat_penalty = 1.1f;
    ways[4].sampler.temperature = 0.1f;
    ways[5].sampler.temperature = 0.8f;
    ways[5].sampler.top_k = 40;
    ways[5].sampler.min_p = 0.05f;
    ways[6].sampler.temperature = 1.3f;
    ways[6].sampler.top_p = 0.9f;
    ways[6].sampler.repeat_last_n = -1;
    ways[6].sampler.frequency_penalty = 0.2f;
    ways[7].sampler.temperature = 0.3f;
    ways[7].sampler.presence_penalty = 0.5f;
    for (int m = 0; m < MODELS; m++) {
        uint64_t accepted = 0;
        /* The last model is two hundred times as large as the others. */
        const size_t step = ORK_SLOW_BUILD && m + 1 == MODELS ? 4 : 1;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w += step)
            for (uint64_t seed = 1; seed <= (ORK_SLOW_BUILD ? 1 : 2); seed++) {
                ways[w].sampler.seed = seed;
                accepted += compare_generation(&fixtures[m], &ways[w]);
            }
        assert_true(accepted > (ORK_SLOW_BUILD ? 10 : 20));
    }
}

/* Drafts of the caller's own: right ones, then wrong ones. The session's rows are those of single tokens, and what was
 * right is never computed again. */
static void test_given_drafts(void **state)
{
    (void)state;
    enum { PROMPT = 20, STEPS = 120 };
    for (int m = 0; m < MODELS; m++) {
        ork_error error;
        uint32_t seed = 17;
        ork_token text[PROMPT + STEPS], list[PROMPT + STEPS + 32];
        ork_session_stats stats;
        size_t vocabulary = ork_card_get_summary(ork_model_card(fixtures[m].model))->vocabulary_size, computed = PROMPT;
        float *logits = malloc(STEPS * vocabulary * sizeof *logits);
        ork_session *plain = fixture_session(&fixtures[m], 1, 64), *session = fixture_session(&fixtures[m], 2, 64);
        for (size_t i = 0; i < PROMPT + STEPS; i++)
            text[i] = (ork_token)(next_random(&seed) % vocabulary);
        fixture_check(ork_session_sync(plain, text, PROMPT, PROMPT, &error), &error, "prompt");
        fixture_check(ork_session_sync(session, text, PROMPT, PROMPT, &error), &error, "prompt");
        for (size_t i = 0; i < STEPS; i++) {
            fixture_check(ork_session_sync(plain, text, PROMPT + i + 1, PROMPT + i, &error), &error, "one by one");
            memcpy(logits + i * vocabulary, ork_session_logits(plain, PROMPT + i), vocabulary * sizeof *logits);
        }
        for (size_t at = PROMPT; at < PROMPT + STEPS;) { /* text[at] is sure, behind it a draft */
            size_t left = PROMPT + STEPS - at - 1, right = next_random(&seed) % 16, wrong = next_random(&seed) % 16;
            right = right < left ? right : left;
            memcpy(list, text, (at + 1 + right) * sizeof *list);
            for (size_t i = 0; i < wrong; i++) {
                size_t place = at + 1 + right + i;
                ork_token avoided = place < PROMPT + STEPS ? text[place] : 0;
                list[place] = (ork_token)(((size_t)avoided + 1 + next_random(&seed) % (vocabulary - 1)) % vocabulary);
            }
            fixture_check(ork_session_sync(session, list, at + 1 + right + wrong, at, &error), &error, "draft");
            for (size_t i = 0; i <= right; i++)
                assert_memory_equal(ork_session_logits(session, at + i), logits + (at - PROMPT + i) * vocabulary,
                                    vocabulary * sizeof *logits);
            computed += 1 + right + wrong;
            at += 1 + right;
        }
        ork_session_get_stats(session, &stats);
        assert_int_equal(stats.evaluated_tokens, computed);
        free(logits);
        ork_session_destroy(plain);
        ork_session_destroy(session);
    }
}

/* ---- bounds and histories ------------------------------------------------------------------------------------------ */

/* The caller's list changes under the lookup, the session is used beside it, passes are cancelled, batches are small: the
 * logits are those of a session without a history. */
static void test_any_history(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++)
        for (uint32_t batch = 1; batch <= 64; batch *= 4) {
            ork_error error;
            uint32_t seed = 23 + batch;
            int left = 1 << 30;
            ork_token tokens[CONTEXT];
            size_t vocabulary = ork_card_get_summary(ork_model_card(fixtures[m].model))->vocabulary_size, count = 30;
            ork_session_params params = {.context_length = CONTEXT,
                                         .threads = 1,
                                         .batch_rows = batch,
                                         .kv_type_key = ORK_KV_F32,
                                         .kv_type_value = ORK_KV_F32,
                                         .spin_us = UINT32_MAX,
                                         .cancel = fixture_cancel_after,
                                         .cancel_context = &left};
            ork_session *session;
            fixture_check(ork_session_create(fixtures[m].model, &params, &session, &error), &error, "session");
            ork_session *fresh = fixture_session(&fixtures[m], 1, 64);
            ork_lookup *lookup = create_lookup(fixtures[m].model, (ork_lookup_params){.always = true, .match_min = 1});
            for (size_t i = 0; i < CONTEXT; i++)
                tokens[i] = (ork_token)(next_random(&seed) % 6);
            for (int round = 0; round < 40; round++) {
                uint32_t what = next_random(&seed) % 8;
                if (what == 0) { /* another end */
                    count = 1 + next_random(&seed) % count;
                    tokens[count - 1] = (ork_token)(next_random(&seed) % 6);
                } else if (what == 1 && count < CONTEXT) {
                    fixture_check(ork_session_sync(session, tokens, count + 1, count, &error), &error, "beside it");
                } else if (what == 2) {
                    left = (int)(next_random(&seed) % 3);
                } else if (what > 3) {
                    count = count < CONTEXT ? count + 1 : 20;
                }
                ork_status status = ork_lookup_sync(lookup, session, tokens, count, next_random(&seed) % 20, &error);
                left = 1 << 30;
                if (status == ORK_CANCELLED)
                    status = ork_lookup_sync(lookup, session, tokens, count, 20, &error);
                fixture_check(status, &error, "sync with a draft");
                ork_session_clear(fresh);
                fixture_check(ork_session_sync(fresh, tokens, count, count - 1, &error), &error, "fresh");
                assert_non_null(ork_session_logits(session, count - 1));
                assert_memory_equal(ork_session_logits(session, count - 1), ork_session_logits(fresh, count - 1),
                                    vocabulary * sizeof(float));
            }
            ork_lookup_destroy(lookup);
            ork_session_destroy(session);
            ork_session_destroy(fresh);
        }
}

static void test_bounds_are_errors(void **state)
{
    (void)state;
    ork_error error;
    ork_token tokens[CONTEXT + 1] = {0};
    ork_lookup_stats stats;
    ork_session *session = fixture_session(&fixtures[0], 1, 64);
    ork_lookup *lookup = create_lookup(fixtures[0].model, (ork_lookup_params){.always = true});
    assert_int_equal(ork_lookup_sync(lookup, session, tokens, 0, 4, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_lookup_sync(lookup, session, tokens, CONTEXT + 1, 4, &error), ORK_LIMIT);
    tokens[5] = -1;
    assert_int_equal(ork_lookup_sync(lookup, session, tokens, 9, 4, &error), ORK_BAD_ARGUMENT);
    tokens[5] = 0;
    fixture_check(ork_lookup_sync(lookup, session, tokens, CONTEXT - 2, 9, &error), &error, "room for two");
    ork_lookup_get_stats(lookup, &stats);
    assert_int_equal(stats.drafted, 2);
    fixture_check(ork_lookup_sync(lookup, session, tokens, CONTEXT - 2, 9, &error), &error, "the same list again");
    fixture_check(ork_lookup_sync(lookup, session, tokens, CONTEXT, 9, &error), &error, "both at once");
    ork_lookup_get_stats(lookup, &stats);
    assert_int_equal(stats.passes, 1);
    assert_int_equal(stats.accepted, 1);
    assert_true(stats.memory_bytes > 0);
    ork_lookup_destroy(lookup);
    ork_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_those_of_a_plain_search),
        cmocka_unit_test(test_draft_is_what_followed),
        cmocka_unit_test(test_drafts_are_made_where_they_pay),
        cmocka_unit_test(test_text_is_the_same_with_drafts),
        cmocka_unit_test(test_given_drafts),
        cmocka_unit_test(test_any_history),
        cmocka_unit_test(test_bounds_are_errors),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
