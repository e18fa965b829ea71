/* Guards the search for special tokens against the rule as it is written down (models.md 5.2): all tokens, longest first,
 * each splitting what is left of the text; that plain text never becomes a control token; and that the search stays fast
 * with many tokens, long texts and runs that match everywhere. */
#include "text/support.h"

#include "text/special.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ENTRIES_MAX = 16, TEXT_MAX = 48, ENTRY_MAX = 6 };

/* ---- against the rule ---- */

struct rule_entry {
    char text[ENTRY_MAX + 1];
    bool control;
};

static int by_length(const void *a, const void *b)
{
    const struct rule_entry *x = a, *y = b;
    return (strlen(x->text) < strlen(y->text)) - (strlen(x->text) > strlen(y->text));
}

/* owner[i]: the entry (in sorted order) that took byte i, -1: none; starts[i]: a match begins here. */
static void apply_rule(const struct rule_entry *entries, size_t count, const char *text, const bool *plain, bool parse,
                       int owner[TEXT_MAX], bool starts[TEXT_MAX])
{
    size_t length = strlen(text);
    for (size_t i = 0; i < TEXT_MAX; i++) {
        owner[i] = -1;
        starts[i] = false;
    }
    for (size_t e = 0; e < count; e++) {
        size_t size = strlen(entries[e].text);
        for (size_t i = 0; i + size <= length; i++) {
            bool here = memcmp(text + i, entries[e].text, size) == 0 && !(entries[e].control && !parse);
            for (size_t k = 0; here && k < size; k++)
                here = owner[i + k] == -1 && !(entries[e].control && plain[i + k]);
            for (size_t k = 0; here && k < size; k++)
                owner[i + k] = (int)e;
            starts[i] |= here;
        }
    }
}

/* Entries of different lengths only: among equal ones the rule leaves the order open. */
static size_t make_entries(uint64_t *random, struct rule_entry *entries)
{
    size_t count = 0;
    for (size_t length = 1; length <= ENTRY_MAX; length++) {
        if (test_random(random) % 3 == 0)
            continue;
        struct rule_entry *entry = &entries[count++];
        for (size_t i = 0; i < length; i++)
            entry->text[i] = (char)('a' + test_random(random) % 2);
        entry->text[length] = 0;
        entry->control = test_random(random) % 2;
    }
    qsort(entries, count, sizeof *entries, by_length);
    return count;
}

static void load_set(struct ork_vocabulary *vocabulary, struct ork_special_set *set, const struct rule_entry *entries,
                     size_t count)
{
    struct test_meta meta = {0};
    const char *texts[ENTRIES_MAX + 1];
    ork_error error = {0};
    for (size_t i = 0; i < count; i++)
        texts[i] = entries[i].text;
    texts[count] = "filler";
    test_meta_strings(&meta, "tokenizer.ggml.tokens", texts, count + 1);
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, count + 1);
    for (size_t i = 0; i <= count; i++)
        ork_buffer_u32(&meta.bytes, i == count ? 1 : entries[i].control ? 3 : 4);
    *vocabulary = (struct ork_vocabulary){0};
    *set = (struct ork_special_set){0};
    assert_int_equal(ork_vocabulary_load(vocabulary, ORK_TOKENIZER_BPE, false, test_meta_finish(&meta), &error),
                     ORK_OK);
    assert_int_equal(ork_special_set_load(set, vocabulary, &error), ORK_OK);
    test_meta_free(&meta);
}

static void test_against_rule(void **state)
{
    (void)state;
    uint64_t random = 7;
    unsigned match_total = 0;
    for (int round = 0; round < 4000; round++) {
        struct rule_entry entries[ENTRIES_MAX];
        struct ork_vocabulary vocabulary;
        struct ork_special_set set;
        size_t count = make_entries(&random, entries);
        load_set(&vocabulary, &set, entries, count);
        char text[TEXT_MAX];
        bool plain[TEXT_MAX] = {0}, starts[TEXT_MAX], parse = test_random(&random) % 4;
        size_t length = test_random(&random) % (TEXT_MAX - 1), span_count = 0;
        struct ork_text_span spans[TEXT_MAX];
        for (size_t i = 0; i < length; i++) {
            text[i] = (char)('a' + (test_random(&random) % 16 ? test_random(&random) % 2 : 2));
            bool changes = span_count == 0 || test_random(&random) % 5 == 0;
            if (changes)
                spans[span_count++] = (struct ork_text_span){0, test_random(&random) % 2};
            spans[span_count - 1].size_bytes++;
            plain[i] = spans[span_count - 1].plain;
        }
        text[length] = 0;
        int owner[TEXT_MAX];
        apply_rule(entries, count, text, plain, parse, owner, starts);
        struct ork_special_matches matches;
        ork_error error = {0};
        assert_int_equal(ork_special_partition(&set, text, spans, span_count, parse, &matches, &error), ORK_OK);
        size_t at = 0;
        for (size_t i = 0; i < length; i++) {
            if (!starts[i])
                continue;
            if (at == matches.count || matches.matches[at].begin != i || matches.matches[at].token != owner[i])
                fail_msg("round %d, text '%s': no match of '%s' at %zu", round, text, entries[owner[i]].text, i);
            at++;
        }
        assert_int_equal(at, matches.count);
        match_total += matches.count;
        ork_special_matches_free(&matches);
        ork_vocabulary_free(&vocabulary);
    }
    assert_true(match_total > 10000);
}

/* ---- speed ---- */

/* 5000 reserved tokens and runs of 1 to 31 newlines, as Gemma has them, over 1 MB of text of several kinds. */
static void test_many_tokens(void **state)
{
    (void)state;
    enum { RESERVED = 5000, RUNS = 31, BYTES = 1000000 };
    struct test_meta meta = {0};
    test_meta_array(&meta, "tokenizer.ggml.tokens", ORK_META_STRING, RESERVED + RUNS);
    for (int i = 0; i < RESERVED + RUNS; i++) {
        char text[64];
        int length = i < RESERVED ? snprintf(text, sizeof text, "<|reserved_%d|>", i) : i - RESERVED + 1;
        if (i >= RESERVED)
            memset(text, '\n', sizeof text);
        ork_buffer_u64(&meta.bytes, (uint64_t)length);
        ork_buffer_append(&meta.bytes, text, (size_t)length);
    }
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, RESERVED + RUNS);
    for (int i = 0; i < RESERVED + RUNS; i++)
        ork_buffer_u32(&meta.bytes, i < RESERVED ? 3 : 4);
    struct ork_vocabulary vocabulary = {0};
    struct ork_special_set set = {0};
    ork_error error = {0};
    assert_int_equal(ork_vocabulary_load(&vocabulary, ORK_TOKENIZER_BPE, false, test_meta_finish(&meta), &error),
                     ORK_OK);
    assert_int_equal(ork_special_set_load(&set, &vocabulary, &error), ORK_OK);
    test_meta_free(&meta);
    static const struct {
        const char *unit;
        size_t matches;
    } kinds[] = {
        {"\n",
         BYTES / RUNS + 1}, /* 1 MB of newlines: the longest run again and again, and a shorter one for the rest */
        {"<|reserved_", 0},
        {"<|reserved_4999|>", BYTES / 17},
        {"some ordinary words ", 0},
    };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t unit_bytes = strlen(kinds[k].unit);
        for (size_t i = 0; i < BYTES; i++)
            text[i] = kinds[k].unit[i % unit_bytes];
        struct ork_text_span span = {BYTES, false};
        struct ork_special_matches matches;
        clock_t start = clock(); /* processor time: other work on the machine does not count */
        assert_int_equal(ork_special_partition(&set, text, &span, 1, true, &matches, &error), ORK_OK);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        print_message("  %-20.12s %zu matches, %.1f ms\n", k ? kinds[k].unit : "newlines", matches.count,
                      seconds * 1000);
        assert_int_equal(matches.count, kinds[k].matches);
        assert_true(seconds < 10); /* 0.2 s without sanitizers */
        ork_special_matches_free(&matches);
    }
    free(text);
    ork_vocabulary_free(&vocabulary);
}

/* ---- inside a tokenizer ---- */

static void expect_tokens(const ork_tokenizer *tokenizer, const struct ork_text_span *spans, size_t span_count,
                          const char *text, unsigned flags, const char *const *pieces, size_t piece_count)
{
    ork_error error = {0};
    struct ork_token_list list = {0};
    assert_int_equal(ork_tokenizer_encode_spans(tokenizer, text, spans, span_count, flags, &list, &error), ORK_OK);
    bool equal = list.count == piece_count;
    for (size_t i = 0; equal && i < list.count; i++)
        equal = list.tokens[i] == ork_tokenizer_find(tokenizer, pieces[i], strlen(pieces[i]));
    if (!equal) {
        print_error("'%s' became", text);
        for (size_t i = 0; i < list.count; i++) {
            size_t size_bytes;
            const char *piece = ork_tokenizer_piece(tokenizer, list.tokens[i], &size_bytes);
            print_error(" [%.*s]", (int)size_bytes, piece);
        }
        fail_msg("other tokens");
    }
    ork_token_list_free(&list);
}

/* B18: words after a special token; a control token only where it is wanted; boundaries of spans do not split words. */
static void test_in_tokenizer(void **state)
{
    (void)state;
    static const char *const merges[] = {"a b", "\xc4\xa0 ab"}, *const specials[] = {"<|im_start|>", "<|im_end|>"};
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "gpt-2", merges, 2, specials, 2);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    const char *const space = "\xc4\xa0";
#define EXPECT(flags, text, ...)                                                                                       \
    expect_tokens(tokenizer, &(struct ork_text_span){strlen(text), false}, 1, text, flags,                             \
                  (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
    EXPECT(ORK_TOKENIZE_PARSE_SPECIAL, "<|im_start|> ab", "<|im_start|>",
           "\xc4\xa0"
           "ab");
    EXPECT(ORK_TOKENIZE_PARSE_SPECIAL, "<|im_start|>ab", "<|im_start|>", "ab");
    EXPECT(ORK_TOKENIZE_PARSE_SPECIAL, "ab<|im_end|> ", "ab", "<|im_end|>", space);
    EXPECT(0, "<|im_end|>", "<", "|", "i", "m", "_", "e", "n", "d", "|", ">");
#undef EXPECT
    /* "a" from the template and "b" from the user are one word; a control token across the seam is none. */
    const struct ork_text_span two[] = {{1, false}, {1, true}}, seam[] = {{3, false}, {7, true}};
    expect_tokens(tokenizer, two, 2, "ab", ORK_TOKENIZE_PARSE_SPECIAL, (const char *const[]){"ab"}, 1);
    expect_tokens(tokenizer, seam, 2, "<|im_end|>", ORK_TOKENIZE_PARSE_SPECIAL,
                  (const char *const[]){"<", "|", "i", "m", "_", "e", "n", "d", "|", ">"}, 10);
    ork_tokenizer_destroy(tokenizer);
}

/* A hostile or careless file may have merges that lead to a control token; user text must not follow them. */
static void test_merges_to_control(void **state)
{
    (void)state;
    static const char *const merges[] = {"x y"}, *const specials[] = {"xyz"}, *const extra[] = {"x y", "xy z"};
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "gpt-2", merges, 1, specials, 1);
    /* The list written by the helper holds "x y" only; put both into a file of the same vocabulary. */
    meta.bytes.size_bytes -= 8 + 3; /* the one string */
    meta.bytes.size_bytes -= 8;     /* its count */
    ork_buffer_u64(&meta.bytes, 2);
    for (int i = 0; i < 2; i++) {
        ork_buffer_u64(&meta.bytes, strlen(extra[i]));
        ork_buffer_append(&meta.bytes, extra[i], strlen(extra[i]));
    }
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    expect_tokens(tokenizer, &(struct ork_text_span){3, false}, 1, "xyz", 0, (const char *const[]){"xy", "z"}, 2);
    expect_tokens(tokenizer, &(struct ork_text_span){3, false}, 1, "xyz", ORK_TOKENIZE_PARSE_SPECIAL,
                  (const char *const[]){"xyz"}, 1);
    ork_tokenizer_destroy(tokenizer);
}

/* Neither may a whole word be looked up as one (ignore_merges), nor SPM merge "<s" and ">" into BOS. */
static void test_words_that_are_control(void **state)
{
    (void)state;
    static const char *const merges[] = {"x y"}, *const specials[] = {"xyz"};
    struct test_meta meta = {0};
    test_meta_small_bpe(&meta, "llama-bpe", merges, 1, specials, 1);
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    expect_tokens(tokenizer, &(struct ork_text_span){3, false}, 1, "xyz", 0, (const char *const[]){"xy", "z"}, 2);
    ork_tokenizer_destroy(tokenizer);
    static const char *const tokens[] = {"<unk>", "<s>", "<", "s", ">", "<s"};
    test_meta_string(&meta, "tokenizer.ggml.model", "llama");
    test_meta_bool(&meta, "tokenizer.ggml.add_space_prefix", false);
    test_meta_strings(&meta, "tokenizer.ggml.tokens", tokens, 6);
    test_meta_array(&meta, "tokenizer.ggml.scores", ORK_META_F32, 6);
    for (int i = 0; i < 6; i++)
        ork_buffer_f32(&meta.bytes, 0);
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, 6);
    for (int i = 0; i < 6; i++)
        ork_buffer_u32(&meta.bytes, i == 0 ? 2 : i == 1 ? 3 : 1);
    tokenizer = test_meta_tokenizer(&meta);
    expect_tokens(tokenizer, &(struct ork_text_span){3, false}, 1, "<s>", 0, (const char *const[]){"<s", ">"}, 2);
    expect_tokens(tokenizer, &(struct ork_text_span){3, false}, 1, "<s>", ORK_TOKENIZE_PARSE_SPECIAL,
                  (const char *const[]){"<s>"}, 1);
    ork_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_rule),           cmocka_unit_test(test_many_tokens),
        cmocka_unit_test(test_in_tokenizer),           cmocka_unit_test(test_merges_to_control),
        cmocka_unit_test(test_words_that_are_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
