/* Guards time and memory on texts that have crashed or stopped other engines (B15, B21): one word, one run of spaces or
 * one character a megabyte long, without recursion and without skipping a byte; and that limits of the regex engine are
 * errors or lead to the interpreter, never to a missed match. */
#include "text/support.h"

#include "text/encoders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { TEXT_BYTES = ORK_SLOW_BUILD ? 250000 : 1000000, SECONDS_MAX = 30, RESIDENT_KIB_MAX = 600 * 1024 };

static const char *const merges[] = {
    "a a",
    "aa aa",
    "aaaa aaaa",
    "aaaaaaaa aaaaaaaa",
    "A A",
    "a b",
    "\xc4\xa0 \xc4\xa0",
    "\xc4\xa0\xc4\xa0 \xc4\xa0\xc4\xa0",
    "\xc4\x8a \xc4\x8a",
    "- -",
};

/* Repeats `unit` up to TEXT_BYTES, in whole units, between `before` and `after`. */
static char *make_text(const char *before, const char *unit, const char *after, size_t *size_bytes)
{
    size_t unit_bytes = strlen(unit), count = TEXT_BYTES / unit_bytes;
    char *text = malloc(TEXT_BYTES + 64);
    assert_non_null(text);
    char *out = stpcpy(text, before);
    for (size_t i = 0; i < count; i++, out += unit_bytes)
        memcpy(out, unit, unit_bytes);
    out = stpcpy(out, after);
    *size_bytes = (size_t)(out - text);
    return text;
}

static void check_text(const ork_tokenizer *tokenizer, const char *name, const char *text, size_t size_bytes)
{
    ork_error error = {0};
    struct ork_token_list list = {0};
    clock_t start = clock();
    if (ork_tokenizer_encode(tokenizer, text, size_bytes, 0, &list, &error) != ORK_OK)
        fail_msg("%s: %s", name, error.what);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > SECONDS_MAX)
        fail_msg("%s took %.1f s", name, seconds);
    size_t back_bytes;
    char *back;
    assert_int_equal(ork_tokenizer_detokenize(tokenizer, list.tokens, list.count, false, &back, &back_bytes, &error),
                     ORK_OK);
    assert_int_equal(back_bytes, size_bytes);
    assert_memory_equal(back, text, size_bytes);
    free(back);
    ork_token_list_free(&list);
}

static const struct {
    const char *name, *before, *unit, *after;
} kinds[] = {
    {"letters", "", "a", ""},
    {"capital letters", "", "A", ""},
    {"capital letters, one small", "", "A", "a"},
    {"alternating case", "", "aA", ""},
    {"spaces", "", " ", ""},
    {"spaces and a word", "", " ", "a"},
    {"newline, spaces, a word", "\n", " ", "a"},
    {"newlines", "", "\n", ""},
    {"newlines and a word", "", "\n", "a"},
    {"spaces and newlines", "", " \n", "a"},
    {"line ends of Windows", "", "\r\n", ""},
    {"digits", "", "7", ""},
    {"punctuation", "", "-", ""},
    {"slashes", "", "/", "\n"},
    {"apostrophes", "", "'", "s"},
    {"contractions", "", "'s", ""},
    {"emoji", "", "\xf0\x9f\x98\x80", ""},
    {"one Chinese character", "", "\xe4\xb8\xad", ""},
    {"combining marks", "e", "\xcc\x81", ""},
    {"private use", "", "\xee\x80\x80", ""},
    {"words", "", "ab aab ", ""},
};

static void test_long_words(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "gpt-2",  "llama-bpe", "qwen2",
                                        "qwen35",  "smollm", "gpt-4o",    "tekken"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        /* Merging is the same for all; for the later ones the expressions alone are looked at. */
        struct test_meta meta = {0};
        test_meta_small_bpe(&meta, names[n], merges, n < 3 ? sizeof merges / sizeof merges[0] : 0, NULL, 0);
        ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
        clock_t start = clock();
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            size_t size_bytes;
            char *text = make_text(kinds[k].before, kinds[k].unit, kinds[k].after, &size_bytes);
            check_text(tokenizer, kinds[k].name, text, size_bytes);
            free(text);
        }
        print_message("  %-9s %zu texts in %.2f s\n", names[n], sizeof kinds / sizeof kinds[0],
                      (double)(clock() - start) / CLOCKS_PER_SEC);
        ork_tokenizer_destroy(tokenizer);
    }
}

/* SPM merges over the whole text, so every text is one word. */
static void test_long_words_spm(void **state)
{
    (void)state;
    static const char *const words[] = {"a",
                                        "aa",
                                        "aaaa",
                                        "aaaaaaaa",
                                        "\xe2\x96\x81",
                                        "\xe2\x96\x81\xe2\x96\x81",
                                        "ab",
                                        "\xe2\x96\x81"
                                        "ab",
                                        "\xe4\xb8\xad\xe4\xb8\xad",
                                        "\n\n"};
    enum { WORDS = sizeof words / sizeof words[0], SIZE = 256 + WORDS };
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "llama");
    test_meta_array(&meta, "tokenizer.ggml.tokens", ORK_META_STRING, SIZE);
    for (int i = 0; i < SIZE; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i & 0xff);
        const char *text = i < 256 ? name : words[i - 256];
        ork_buffer_u64(&meta.bytes, strlen(text));
        ork_buffer_append(&meta.bytes, text, strlen(text));
    }
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, SIZE);
    for (int i = 0; i < SIZE; i++)
        ork_buffer_u32(&meta.bytes, i < 256 ? 6 : 1);
    test_meta_array(&meta, "tokenizer.ggml.scores", ORK_META_F32, SIZE);
    for (int i = 0; i < SIZE; i++)
        ork_buffer_f32(&meta.bytes, (float)-i);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t size_bytes;
        char *text = make_text(kinds[k].before, kinds[k].unit, kinds[k].after, &size_bytes);
        check_text(tokenizer, kinds[k].name, text, size_bytes);
        free(text);
    }
    ork_tokenizer_destroy(tokenizer);
}

/* The process so far, all the megabytes above included. */
static void test_memory(void **state)
{
    (void)state;
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    print_message("  at most %ld MiB resident\n", usage.ru_maxrss / 1024);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("  not judged under a sanitizer\n");
#else
    assert_true(usage.ru_maxrss < RESIDENT_KIB_MAX);
#endif
}

/* ---- limits of the regex engine ---- */

static ork_status split(const char *pattern, const char *text, size_t size_bytes, struct ork_split_scratch *scratch,
                        ork_error *error)
{
    const char *const patterns[] = {pattern, NULL};
    struct ork_splitter *splitter;
    assert_int_equal(ork_splitter_create(patterns, &splitter, error), ORK_OK);
    ork_status status = ork_splitter_split(splitter, text, (uint32_t)size_bytes, scratch, error);
    ork_splitter_destroy(splitter);
    return status;
}

/* A group that backtracks fills the stack of compiled code; the interpreter must finish the match. */
static void test_stack_of_compiled_code(void **state)
{
    (void)state;
    size_t size_bytes;
    char *text = make_text("", "ab", "", &size_bytes);
    struct ork_split_scratch scratch = {0};
    ork_error error = {0};
    assert_int_equal(split("(?:a|b)+", text, size_bytes, &scratch, &error), ORK_OK);
    assert_int_equal(scratch.count, 1);
    assert_int_equal(scratch.ends[0], size_bytes);
    print_message("  %llu matches were interpreted\n", (unsigned long long)scratch.interpreted_count);
    ork_split_scratch_free(&scratch);
    free(text);
}

/* Exponential backtracking ends in an error that says so. */
static void test_match_limit(void **state)
{
    (void)state;
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    struct ork_split_scratch scratch = {0};
    ork_error error = {0};
    assert_int_equal(split("(?:a+)+\\d", text, sizeof text - 1, &scratch, &error), ORK_LIMIT);
    assert_non_null(strstr(error.what, "limit"));
    ork_split_scratch_free(&scratch);
}

static void test_too_long(void **state)
{
    (void)state;
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "gpt-2", merges, 1, NULL, 0);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    struct ork_token_list list = {0};
    ork_error error = {0};
    /* Only the sizes are looked at. */
    assert_int_equal(ork_tokenizer_encode(tokenizer, "", (size_t)ORK_TEXT_BYTES_MAX + 1, 0, &list, &error), ORK_LIMIT);
    assert_int_equal(ork_tokenizer_encode(tokenizer, "", SIZE_MAX, 0, &list, &error), ORK_LIMIT);
    const struct ork_text_span spans[] = {{SIZE_MAX, false}, {SIZE_MAX, true}, {3, true}};
    assert_int_equal(ork_tokenizer_encode_spans(tokenizer, "", spans, 3, 0, &list, &error), ORK_LIMIT);
    assert_int_equal(list.count, 0);
    ork_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_words),  cmocka_unit_test(test_long_words_spm),
        cmocka_unit_test(test_memory),      cmocka_unit_test(test_stack_of_compiled_code),
        cmocka_unit_test(test_match_limit), cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
