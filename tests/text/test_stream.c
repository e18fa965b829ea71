/* Guards turning tokens into text piece by piece: well-formed UTF-8 only, whatever the tokens and wherever they cut a
 * sequence, equal to Python's decoding; control tokens; SPM's leading space. */
#include "text/support.h"

#include <stdlib.h>
#include <string.h>

/* Byte tokens and a few longer ones that begin, continue or end sequences. In the byte alphabet: E2 82, 82 AC, F0 9F,
 * F0 9F 98, 80 E2. */
static const char *const merges[] = {"\xc3\xa2 \xc4\xa4", "\xc4\xa4 \xc2\xac", "\xc3\xb0 \xc5\x81",
                                     "\xc3\xb0\xc5\x81 \xc4\xba", "\xc4\xa2 \xc3\xa2"};

static ork_tokenizer *make_tokenizer(void)
{
    static const char *const specials[] = {"<|im_end|>"};
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "gpt-2", merges, sizeof merges / sizeof merges[0], specials, 1);
    return test_meta_tokenizer(&meta);
}

static bool is_complete_utf8(const char *text, size_t size_bytes)
{
    json_t *string = json_stringn(text, size_bytes); /* jansson takes well-formed UTF-8 only */
    json_decref(string);
    return string != NULL;
}

static void append(struct ork_buffer *all, const char *text, size_t size_bytes)
{
    if (!is_complete_utf8(text, size_bytes))
        fail_msg("a call gave %zu bytes that are no complete UTF-8", size_bytes);
    ork_buffer_append(all, text, size_bytes);
}

/* Writes the bytes as tokens, in a random one of the possible ways, through a stream. */
static void stream_bytes(const ork_tokenizer *tokenizer, const char *bytes, size_t size_bytes, uint64_t *random,
                         struct ork_buffer *all)
{
    ork_error error = {0};
    ork_text_stream *stream;
    const char *text;
    size_t length;
    assert_int_equal(ork_tokenizer_stream_create(tokenizer, false, true, &stream, &error), ORK_OK);
    for (size_t at = 0; at < size_bytes;) {
        ork_token fitting[16];
        size_t count = 0;
        for (ork_token t = 0; (uint32_t)t < ork_tokenizer_vocabulary_size(tokenizer) && count < 16; t++) {
            const char *piece = ork_tokenizer_piece(tokenizer, t, &length);
            if (!ork_tokenizer_is_special(tokenizer, t) && length <= size_bytes - at &&
                memcmp(piece, bytes + at, length) == 0)
                fitting[count++] = t;
        }
        assert_true(count > 0);
        ork_token token = fitting[test_random(random) % count];
        ork_tokenizer_piece(tokenizer, token, &length);
        at += length;
        assert_int_equal(ork_text_stream_push(stream, token, &text, &length, &error), ORK_OK);
        append(all, text, length);
    }
    assert_int_equal(ork_text_stream_finish(stream, &text, &length, &error), ORK_OK);
    append(all, text, length);
    /* After the end nothing is left. */
    assert_int_equal(ork_text_stream_finish(stream, &text, &length, &error), ORK_OK);
    assert_int_equal(length, 0);
    ork_text_stream_destroy(stream);
}

static void test_against_python(void **state)
{
    (void)state;
    ork_tokenizer *tokenizer = make_tokenizer();
    json_t *vectors = test_json("tests/text/vectors/utf8.json"), *entry;
    uint64_t random = 3;
    size_t index;
    json_array_foreach(json_object_get(vectors, "cases"), index, entry)
    {
        size_t size_bytes, expected_bytes;
        char *bytes = test_json_bytes(entry, "", "bytes", &size_bytes);
        char *expected = test_json_bytes(entry, "text", "", &expected_bytes);
        for (int round = 0; round < 4; round++) {
            struct ork_buffer all = {0};
            stream_bytes(tokenizer, bytes, size_bytes, &random, &all);
            if (all.size_bytes != expected_bytes || (expected_bytes && memcmp(all.data, expected, expected_bytes) != 0))
                fail_msg("case %zu: '%.*s' instead of '%s'", index, (int)all.size_bytes, (const char *)all.data,
                         expected);
            ork_buffer_free(&all);
        }
        free(bytes);
        free(expected);
    }
    assert_true(index >= 300);
    json_decref(vectors);
    ork_tokenizer_destroy(tokenizer);
}

/* An emoji comes out with its last byte, not before. */
static void test_held_back(void **state)
{
    (void)state;
    ork_tokenizer *tokenizer = make_tokenizer();
    ork_text_stream *stream;
    ork_error error = {0};
    const char *text;
    size_t length;
    assert_int_equal(ork_tokenizer_stream_create(tokenizer, true, false, &stream, &error), ORK_OK);
    static const char *const alphabet[] = {"\xc3\xb0", "\xc5\x81", "\xc4\xba", "\xc4\xa2"}; /* F0 9F 98 80 */
    for (int i = 0; i < 4; i++) {
        ork_token token = ork_tokenizer_find(tokenizer, alphabet[i], 2);
        assert_int_equal(ork_text_stream_push(stream, token, &text, &length, &error), ORK_OK);
        assert_int_equal(length, i == 3 ? 4 : 0);
    }
    assert_memory_equal(text, "\xf0\x9f\x98\x80", 4);
    /* A control token breaks a sequence that is not complete, and is text because it was asked for. */
    assert_int_equal(
        ork_text_stream_push(stream, ork_tokenizer_find(tokenizer, alphabet[0], 2), &text, &length, &error), ORK_OK);
    assert_int_equal(length, 0);
    assert_int_equal(
        ork_text_stream_push(stream, ork_tokenizer_find(tokenizer, "<|im_end|>", 10), &text, &length, &error), ORK_OK);
    assert_int_equal(length, 13);
    assert_memory_equal(text, "\xef\xbf\xbd<|im_end|>", 13);
    assert_int_equal(ork_text_stream_push(stream, 262, &text, &length, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_text_stream_push(stream, -1, &text, &length, &error), ORK_BAD_ARGUMENT);
    ork_text_stream_destroy(stream);
    ork_text_stream_destroy(NULL);
    ork_tokenizer_destroy(tokenizer);
}

static void expect_text(const ork_tokenizer *tokenizer, const ork_token *tokens, size_t count, bool special,
                        const char *expected)
{
    char *text;
    size_t size_bytes;
    ork_error error = {0};
    assert_int_equal(ork_tokenizer_detokenize(tokenizer, tokens, count, special, &text, &size_bytes, &error), ORK_OK);
    assert_string_equal(text, expected);
    assert_int_equal(size_bytes, strlen(expected));
    free(text);
}

/* Every type of token, and the space that SPM puts before a text. */
static void test_spm(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "<s>",    "\xe2\x96\x81hi", "\xe2\x96\x81",
                                         "you",   "<0xC3>", "<0xA9>",         "\xe2\x96\x81\xe2\x96\x81user",
                                         "unused"};
    static const uint32_t types[] = {2, 3, 1, 1, 1, 6, 6, 4, 5};
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "llama");
    test_meta_strings(&meta, "tokenizer.ggml.tokens", tokens, 9);
    test_meta_array(&meta, "tokenizer.ggml.scores", ORK_META_F32, 9);
    for (int i = 0; i < 9; i++)
        ork_buffer_f32(&meta.bytes, 0);
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, 9);
    for (int i = 0; i < 9; i++)
        ork_buffer_u32(&meta.bytes, types[i]);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
#define EXPECT(special, expected, ...)                                                                                 \
    expect_text(tokenizer, (const ork_token[]){__VA_ARGS__},                                                           \
                sizeof((const ork_token[]){__VA_ARGS__}) / sizeof(ork_token), special, expected)
    EXPECT(false, "hi", 2);
    EXPECT(false, "hi hi", 2, 2);
    EXPECT(false, "hi", 1, 2); /* what a user wrote, without the space that encoding added */
    EXPECT(true, "<s> hi", 1, 2);
    EXPECT(false, "", 3);
    EXPECT(false, " you", 3, 3, 4);
    EXPECT(false, "you", 4);
    EXPECT(false, "you\xc3\xa9", 4, 5, 6);
    EXPECT(false, "\xef\xbf\xbd", 5);
    EXPECT(false, "\xe2\x96\x81\xe2\x96\x81user", 7); /* user-defined tokens are text as they stand */
    EXPECT(false, "", 0, 1, 8);
    EXPECT(true, "<unk><s>", 0, 1, 8);
#undef EXPECT
    /* A continuation keeps its first space. */
    ork_text_stream *stream;
    ork_error error = {0};
    const char *text;
    size_t length;
    assert_int_equal(ork_tokenizer_stream_create(tokenizer, false, false, &stream, &error), ORK_OK);
    assert_int_equal(ork_text_stream_push(stream, 2, &text, &length, &error), ORK_OK);
    assert_int_equal(length, 3);
    assert_memory_equal(text, " hi", 3);
    ork_text_stream_destroy(stream);
    expect_text(tokenizer, NULL, 0, false, "");
    ork_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_python), cmocka_unit_test(test_held_back),
                                       cmocka_unit_test(test_spm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
