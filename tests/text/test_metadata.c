/* Guards reading a tokenizer from metadata that is wrong, odd or hostile (models.md 1.4, 5.1): a clear refusal or a stated
 * meaning, never a crash; end tokens and defaults (5.6); and that a large vocabulary loads fast. */
#include "text/support.h"

#include "text/vocabulary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const two_merges[] = {"a b", "ab c"};

static void put_small(struct test_meta *meta, const char *pre)
{
    test_meta_small_bpe(meta, pre, two_merges, 2, NULL, 0);
}

/* ---- refusals ---- */

static void test_names(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.model");
    test_meta_string(&meta, "tokenizer.ggml.model", "bert");
    test_meta_refused(&meta, ORK_UNSUPPORTED, "'bert' is not supported (known: gpt2, llama)");
    test_meta_u32(&meta, "tokenizer.ggml.model", 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.model");
    /* B17: an unknown pre-tokenizer is refused with what may have been meant. */
    put_small(&meta, "qwen3");
    test_meta_refused(&meta, ORK_UNSUPPORTED, "'qwen3' is not known (nearest known: 'qwen");
    put_small(&meta, "llama-bpe2");
    test_meta_refused(&meta, ORK_UNSUPPORTED, "nearest known: 'llama-bpe'");
    put_small(&meta, "a name that is like nothing at all and far too long to be shown as a whole in one line of text");
    test_meta_refused(&meta, ORK_UNSUPPORTED, "is not known");
}

static void test_guess(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    put_small(&meta, NULL);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    assert_non_null(strstr(ork_tokenizer_warning(tokenizer), "no pre-tokenizer"));
    ork_tokenizer_destroy(tokenizer);
    put_small(&meta, "gpt-2");
    tokenizer = test_meta_tokenizer(&meta);
    assert_null(ork_tokenizer_warning(tokenizer));
    ork_tokenizer_destroy(tokenizer);
}

/* The head of a file with these tokens. */
static void put_tokens(struct test_meta *meta, const char *model, const char *const *tokens, size_t count)
{
    test_meta_string(meta, "tokenizer.ggml.model", model);
    test_meta_string(meta, "tokenizer.ggml.pre", "gpt-2");
    test_meta_strings(meta, "tokenizer.ggml.tokens", tokens, count);
}

static void put_merges(struct test_meta *meta, const char *const *merges, size_t count)
{
    test_meta_strings(meta, "tokenizer.ggml.merges", merges, count);
}

static void test_tokens(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "gpt2");
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.tokens");
    test_meta_string(&meta, "tokenizer.ggml.model", "gpt2");
    test_meta_array(&meta, "tokenizer.ggml.tokens", ORK_META_U32, 1);
    ork_buffer_u32(&meta.bytes, 7);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.tokens");
    put_tokens(&meta, "gpt2", NULL, 0);
    test_meta_refused(&meta, ORK_BAD_FILE, "0 tokens");
    put_tokens(&meta, "gpt2", (const char *const[]){"a", "b", "c", "b"}, 4);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokens 1 and 3 have the same text 'b'");
    put_tokens(&meta, "gpt2", (const char *const[]){"a"}, 1);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.merges");
    put_tokens(&meta, "gpt2", (const char *const[]){"a"}, 1);
    test_meta_string(&meta, "tokenizer.ggml.merges", "a a");
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.merges");
}

static void put_types(struct test_meta *meta, enum ork_meta_type type, const uint32_t *values, size_t count)
{
    test_meta_array(meta, "tokenizer.ggml.token_type", type, count);
    for (size_t i = 0; i < count; i++)
        if (type == ORK_META_U8)
            ork_buffer_u8(&meta->bytes, (uint8_t)values[i]);
        else
            ork_buffer_u32(&meta->bytes, values[i]);
}

/* llama.cpp once read u8 arrays as i32: four times as far as they go. */
static void test_types(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c"};
    struct test_meta meta = {0};
    put_tokens(&meta, "gpt2", tokens, 3);
    put_types(&meta, ORK_META_U8, (const uint32_t[]){1, 1, 1}, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.token_type");
    put_tokens(&meta, "gpt2", tokens, 3);
    put_types(&meta, ORK_META_I32, (const uint32_t[]){1, 1}, 2);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.token_type");
    put_tokens(&meta, "gpt2", tokens, 3);
    put_types(&meta, ORK_META_I32, (const uint32_t[]){1, 7, 1}, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "token 1 has an unknown type");
    put_tokens(&meta, "gpt2", tokens, 3);
    put_types(&meta, ORK_META_I32, (const uint32_t[]){1, 1, (uint32_t)-1}, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "token 2 has an unknown type");
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    put_tokens(&meta, "gpt2", (const char *const[]){"a", long_text}, 2);
    put_types(&meta, ORK_META_I32, (const uint32_t[]){1, 3}, 2);
    test_meta_refused(&meta, ORK_UNSUPPORTED, "special token 1 has 1999 bytes");
}

static void put_scores(struct test_meta *meta, enum ork_meta_type type, const float *values, size_t count)
{
    test_meta_array(meta, "tokenizer.ggml.scores", type, count);
    for (size_t i = 0; i < count; i++)
        if (type == ORK_META_U8)
            ork_buffer_u8(&meta->bytes, (uint8_t)values[i]);
        else
            ork_buffer_f32(&meta->bytes, values[i]);
}

static void test_scores(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c"};
    struct test_meta meta = {0};
    put_tokens(&meta, "llama", tokens, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.scores");
    put_tokens(&meta, "llama", tokens, 3);
    put_scores(&meta, ORK_META_U8, (const float[]){1, 2, 3}, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.scores");
    put_tokens(&meta, "llama", tokens, 3);
    put_scores(&meta, ORK_META_F32, (const float[]){1, 2, 3, 4}, 4);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.scores");
    put_tokens(&meta, "llama", tokens, 3);
    put_scores(&meta, ORK_META_F32, (const float[]){1, NAN, 3}, 3);
    test_meta_refused(&meta, ORK_BAD_FILE, "the score of token 1");
}

static void test_other_keys(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    put_small(&meta, "gpt-2");
    test_meta_string(&meta, "tokenizer.ggml.bos_token_id", "1");
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.bos_token_id");
    put_small(&meta, "gpt-2");
    test_meta_u32(&meta, "tokenizer.ggml.add_bos_token", 1);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.ggml.add_bos_token");
    put_small(&meta, "gpt-2");
    test_meta_bool(&meta, "tokenizer.chat_template", true);
    test_meta_refused(&meta, ORK_BAD_FILE, "tokenizer.chat_template");
    put_small(&meta, "gpt-2");
    test_meta_u32(&meta, "tokenizer.ggml.pre_", 1); /* another key, and only looks like one of ours */
    ork_tokenizer_destroy(test_meta_tokenizer(&meta));
}

/* ---- stated meanings ---- */

static void expect_encoding(const ork_tokenizer *tokenizer, const char *text, unsigned flags, const ork_token *tokens,
                            size_t count, uint64_t dropped_bytes)
{
    ork_error error = {0};
    struct ork_token_list list = {0};
    assert_int_equal(ork_tokenizer_encode(tokenizer, text, strlen(text), flags, &list, &error), ORK_OK);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list.tokens[i], tokens[i]);
    assert_int_equal(list.dropped_bytes, dropped_bytes);
    ork_token_list_free(&list);
}
#define TOKENS(...) (const ork_token[]){__VA_ARGS__}, sizeof((const ork_token[]){__VA_ARGS__}) / sizeof(ork_token)

/* Merges without a space, with too many, empty, of unknown parts or results are left out; the first of two equal pairs
 * counts; bytes without a token are left out and counted. */
static void test_merges(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c", "ab", "bc", "abc"};
    static const char *const merges[] = {"",     " ",    "  ",  "a",   "ab",  "a b c", "x y", "a c",
                                         "c ab", " a b", "b c", "a b", "b c", "ab c",  "a bc"};
    struct test_meta meta = {0};
    put_tokens(&meta, "gpt2", tokens, 6);
    put_merges(&meta, merges, sizeof merges / sizeof merges[0]);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    expect_encoding(tokenizer, "abc", 0, TOKENS(5), 0); /* b c first, then a bc */
    expect_encoding(tokenizer, "acb", 0, TOKENS(0, 2, 1), 0);
    expect_encoding(tokenizer, "axyb", 0, TOKENS(0, 1), 2);
    expect_encoding(tokenizer, "\xff", 0, NULL, 0, 3); /* U+FFFD, of which there are no bytes */
    ork_tokenizer_destroy(tokenizer);
}

/* SPM: a character without a token is its bytes, and without those the unknown token. */
static void test_bytes_of_spm(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "a", "<0xC3>", "<0xA9>", "\n"};
    struct test_meta meta = {0};
    put_tokens(&meta, "llama", tokens, 5);
    put_scores(&meta, ORK_META_F32, (const float[]){0, 0, 0, 0, 0}, 5);
    put_types(&meta, ORK_META_I32, (const uint32_t[]){2, 1, 6, 6, 1}, 5);
    test_meta_bool(&meta, "tokenizer.ggml.add_space_prefix", false);
    test_meta_bool(&meta, "tokenizer.ggml.add_bos_token", false);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    expect_encoding(tokenizer, "a\xc3\xa9\n", 0, TOKENS(1, 2, 3, 4), 0);
    expect_encoding(tokenizer, "a\xc3\xa8", 0, TOKENS(1, 0), 2);
    expect_encoding(tokenizer, "<unk>", 0, TOKENS(0, 0, 0, 0, 0),
                    5); /* written out: not the token, and no such letters */
    ork_tokenizer_destroy(tokenizer);
}

/* Equal scores go from left to right, and the two zeros are equal. */
static void test_order_of_spm(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c", "ab", "bc", "cb"};
    struct test_meta meta = {0};
    put_tokens(&meta, "llama", tokens, 6);
    put_scores(&meta, ORK_META_F32, (const float[]){0, 0, 0, -0.0f, 0.0f, 1e-45f}, 6);
    test_meta_bool(&meta, "tokenizer.ggml.add_space_prefix", false);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    expect_encoding(tokenizer, "abc", 0, TOKENS(3, 2), 0);
    expect_encoding(tokenizer, "bcb", 0, TOKENS(1, 5), 0); /* the smallest score above zero is above it */
    ork_tokenizer_destroy(tokenizer);
}

/* Empty texts get a name (models.md 5.1). */
static void test_empty_tokens(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "", "b", ""};
    struct test_meta meta = {0};
    put_tokens(&meta, "gpt2", tokens, 4);
    put_merges(&meta, NULL, 0);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    assert_int_equal(ork_tokenizer_find(tokenizer, "[EMPTY_1]", 9), 1);
    assert_int_equal(ork_tokenizer_find(tokenizer, "[EMPTY_3]", 9), 3);
    assert_int_equal(ork_tokenizer_find(tokenizer, "", 0), -1);
    ork_tokenizer_destroy(tokenizer);
}

/* Any bytes may stand in a token's text. */
static void test_odd_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size_bytes;
    } tokens[] = {{"a\0b", 3}, {"\xff\xfe", 2}, {"\xe2\x96", 2}, {"\xc4\xa0", 2}, {"\n", 1}};
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "gpt2");
    test_meta_array(&meta, "tokenizer.ggml.tokens", ORK_META_STRING, 5);
    for (size_t i = 0; i < 5; i++) {
        ork_buffer_u64(&meta.bytes, tokens[i].size_bytes);
        ork_buffer_append(&meta.bytes, tokens[i].text, tokens[i].size_bytes);
    }
    put_merges(&meta, NULL, 0);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    for (ork_token i = 0; i < 5; i++) {
        size_t size_bytes;
        const char *piece = ork_tokenizer_piece(tokenizer, i, &size_bytes);
        assert_int_equal(ork_tokenizer_find(tokenizer, tokens[i].text, tokens[i].size_bytes), i);
        if (i == 3) { /* the only one in the byte alphabet */
            assert_int_equal(size_bytes, 1);
            assert_int_equal(piece[0], ' ');
        } else {
            assert_int_equal(size_bytes, tokens[i].size_bytes);
            assert_memory_equal(piece, tokens[i].text, size_bytes);
        }
    }
    size_t size_bytes;
    assert_null(ork_tokenizer_piece(tokenizer, -1, &size_bytes));
    assert_null(ork_tokenizer_piece(tokenizer, 5, &size_bytes));
    assert_false(ork_tokenizer_is_end(tokenizer, -1));
    assert_false(ork_tokenizer_is_end(tokenizer, INT32_MAX));
    assert_false(ork_tokenizer_is_special(tokenizer, INT32_MIN));
    ork_tokenizer_destroy(tokenizer);
}

/* ---- special ids ---- */

static void test_defaults(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    put_small(&meta, "llama-bpe"); /* would add a BOS, had it one: token 11 is an ordinary one here */
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    assert_int_equal(ork_tokenizer_bos(tokenizer), -1);
    assert_int_equal(ork_tokenizer_eos(tokenizer), -1);
    assert_false(ork_tokenizer_adds_bos(tokenizer));
    expect_encoding(tokenizer, "", ORK_TOKENIZE_SPECIAL, NULL, 0, 0);
    ork_tokenizer_destroy(tokenizer);
    static const char *const specials[] = {"<s>", "</s>"};
    test_meta_small_bpe(&meta, "llama-bpe", two_merges, 2, specials, 2);
    test_meta_u32(&meta, "tokenizer.ggml.bos_token_id", 258);
    test_meta_u32(&meta, "tokenizer.ggml.eos_token_id", 259);
    test_meta_bool(&meta, "tokenizer.ggml.add_eos_token", true);
    tokenizer = test_meta_tokenizer(&meta);
    assert_true(ork_tokenizer_adds_bos(tokenizer));
    expect_encoding(tokenizer, "", ORK_TOKENIZE_SPECIAL, TOKENS(258, 259), 0);
    expect_encoding(tokenizer, "ab", ORK_TOKENIZE_SPECIAL, TOKENS(258, 256, 259), 0);
    ork_tokenizer_destroy(tokenizer);
    test_meta_small_bpe(&meta, "llama-bpe", two_merges, 2, specials, 2);
    test_meta_u32(&meta, "tokenizer.ggml.bos_token_id", 258);
    test_meta_bool(&meta, "tokenizer.ggml.add_bos_token", false); /* the file wins */
    tokenizer = test_meta_tokenizer(&meta);
    assert_false(ork_tokenizer_adds_bos(tokenizer));
    ork_tokenizer_destroy(tokenizer);
    put_small(&meta, "gpt-2");
    test_meta_u32(&meta, "tokenizer.ggml.bos_token_id", 258); /* one more than there are */
    test_meta_u32(&meta, "tokenizer.ggml.eos_token_id", UINT32_MAX);
    test_meta_bool(&meta, "tokenizer.ggml.add_bos_token", true);
    tokenizer = test_meta_tokenizer(&meta);
    assert_int_equal(ork_tokenizer_bos(tokenizer), -1);
    assert_int_equal(ork_tokenizer_eos(tokenizer), -1);
    assert_false(ork_tokenizer_adds_bos(tokenizer));
    ork_tokenizer_destroy(tokenizer);
}

/* The end tokens of gpt-oss, Qwen and others, found by their texts. */
static void test_end_tokens(void **state)
{
    (void)state;
    static const char *const specials[] = {"<|endoftext|>", "<|im_end|>",     "<|fim_pad|>", "<|repo_name|>",
                                           "<|file_sep|>",  "<|fim_prefix|>", "<|end|>",     "<|call|>"};
    static const bool ends[] = {true, true, true, true, true, false, true, true};
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "qwen2", two_merges, 2, specials, 8);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    for (int i = 0; i < 8; i++)
        assert_int_equal(ork_tokenizer_is_end(tokenizer, 258 + i), ends[i]);
    assert_int_equal(ork_tokenizer_eot(tokenizer), 259);
    ork_tokenizer_destroy(tokenizer);
    /* With <|return|> and <|call|>, <|end|> ends a message only. */
    static const char *const harmony[] = {"<|end|>", "<|return|>", "<|call|>"};
    test_meta_small_bpe(&meta, "gpt-4o", two_merges, 2, harmony, 3);
    tokenizer = test_meta_tokenizer(&meta);
    assert_false(ork_tokenizer_is_end(tokenizer, 258));
    assert_true(ork_tokenizer_is_end(tokenizer, 259));
    assert_true(ork_tokenizer_is_end(tokenizer, 260));
    ork_tokenizer_destroy(tokenizer);
}

/* ---- speed ---- */

/* 150000 tokens that are all made by merges, as in Qwen's vocabulary. */
static void test_loading_time(void **state)
{
    (void)state;
    enum { LETTERS = 26, COUNT = 150000 };
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "gpt2");
    test_meta_string(&meta, "tokenizer.ggml.pre", "qwen2");
    char(*texts)[8] = malloc(sizeof *texts * COUNT);
    struct ork_buffer merges = {0};
    assert_non_null(texts);
    for (int i = 0; i < COUNT; i++) {
        int parent = i / LETTERS - 1; /* every text is another one and a letter */
        snprintf(texts[i], sizeof texts[i], "%.6s%c", parent < 0 ? "" : texts[parent], 'a' + i % LETTERS);
        if (parent < 0)
            continue;
        char merge[16];
        int length = snprintf(merge, sizeof merge, "%s %c", texts[parent], 'a' + i % LETTERS);
        ork_buffer_u64(&merges, (uint64_t)length);
        ork_buffer_append(&merges, merge, (size_t)length);
    }
    test_meta_array(&meta, "tokenizer.ggml.tokens", ORK_META_STRING, COUNT);
    for (int i = 0; i < COUNT; i++) {
        ork_buffer_u64(&meta.bytes, strlen(texts[i]));
        ork_buffer_append(&meta.bytes, texts[i], strlen(texts[i]));
    }
    test_meta_array(&meta, "tokenizer.ggml.merges", ORK_META_STRING, COUNT - LETTERS);
    ork_buffer_append(&meta.bytes, merges.data, merges.size_bytes);
    ork_buffer_free(&merges);
    free(texts);
    const ork_meta *parsed = test_meta_finish(&meta);
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        ork_tokenizer *tokenizer;
        ork_error error = {0};
        clock_t start = clock();
        assert_int_equal(ork_tokenizer_create(parsed, &tokenizer, &error), ORK_OK);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        best = seconds < best ? seconds : best;
        ork_tokenizer_destroy(tokenizer);
    }
    test_meta_free(&meta);
    print_message("  150000 tokens in %.1f ms\n", best * 1000);
    assert_true(best < 2); /* far above, for sanitizers and emulation */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_guess),        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_types),        cmocka_unit_test(test_scores),       cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_merges),       cmocka_unit_test(test_bytes_of_spm), cmocka_unit_test(test_order_of_spm),
        cmocka_unit_test(test_empty_tokens), cmocka_unit_test(test_odd_texts),    cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_end_tokens),   cmocka_unit_test(test_loading_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
