/* Guards splitting and encoding against Hugging Face tokenizers and SentencePiece on tiny vocabularies: vectors/, written
 * by make_vectors.py. Needs no model. */
#include "text/support.h"

#include "text/pretokenize.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *texts; /* cases of vectors/texts.json */

static char *get_text(size_t index, size_t *size_bytes)
{
    const json_t *entry = json_array_get(texts, index);
    assert_non_null(entry);
    return test_json_bytes(entry, "text", "", size_bytes);
}

static const char *text_name(size_t index)
{
    return json_string_value(json_object_get(json_array_get(texts, index), "name"));
}

/* ---- words ---- */

static unsigned check_words(const struct ork_splitter *splitter, struct ork_split_scratch *scratch, size_t index,
                            const json_t *sizes)
{
    ork_error error = {0};
    size_t size_bytes;
    char *text = get_text(index, &size_bytes);
    if (ork_splitter_split(splitter, text, (uint32_t)size_bytes, scratch, &error) != ORK_OK)
        fail_msg("%s", error.what);
    bool equal = scratch->count == json_array_size(sizes);
    uint32_t begin = 0;
    for (size_t i = 0; equal && i < scratch->count; i++) {
        equal = scratch->ends[i] - begin == json_integer_value(json_array_get(sizes, i));
        begin = scratch->ends[i];
    }
    equal = equal && begin == size_bytes;
    if (!equal) {
        char *expected = json_dumps(sizes, JSON_COMPACT);
        print_error("'%s': sizes should be %s, found", text_name(index), expected);
        for (size_t i = 0; i < scratch->count; i++)
            print_error(" %u", scratch->ends[i] - (i ? scratch->ends[i - 1] : 0));
        print_error("\n");
        free(expected);
    }
    free(text);
    return !equal;
}

static void test_words(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "gpt-2",  "smollm", "llama-bpe",
                                        "qwen2",   "qwen35", "gpt-4o", "tekken"};
    unsigned failures = 0;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[256];
        snprintf(path, sizeof path, "tests/text/vectors/split-%s.json", names[n]);
        json_t *vectors = test_json(path), *sizes;
        const struct ork_pretokenizer *pre = ork_pretokenizer_find(names[n], strlen(names[n]));
        struct ork_splitter *splitter;
        struct ork_split_scratch scratch = {0};
        ork_error error = {0};
        assert_non_null(pre);
        assert_int_equal(ork_splitter_create(pre->patterns, &splitter, &error), ORK_OK);
        size_t index;
        unsigned before = failures;
        json_array_foreach(json_object_get(vectors, "cases"), index, sizes)
        {
            failures += check_words(splitter, &scratch, index, sizes);
        }
        print_message("%s: %zu texts, %u failures\n", names[n], index, failures - before);
        assert_int_equal(index, json_array_size(texts));
        assert_int_equal(scratch.interpreted_count, 0);
        ork_split_scratch_free(&scratch);
        ork_splitter_destroy(splitter);
        json_decref(vectors);
    }
    assert_int_equal(failures, 0);
}

/* ---- tokens ---- */

static void put_strings(struct test_meta *meta, const char *key, const json_t *list)
{
    size_t count = json_array_size(list);
    const char **strings = malloc((count + 1) * sizeof *strings);
    assert_non_null(strings);
    for (size_t i = 0; i < count; i++)
        strings[i] = json_string_value(json_array_get(list, i));
    test_meta_strings(meta, key, strings, count);
    free(strings);
}

static size_t marks_to_spaces(char *text, size_t size_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        bool mark = i + 3 <= size_bytes && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        text[used++] = mark ? ' ' : text[i];
        i += mark ? 2 : 0;
    }
    return used;
}

static unsigned check_tokens(const ork_tokenizer *tokenizer, const json_t *golden, bool spm)
{
    ork_error error = {0};
    size_t size_bytes, index = (size_t)json_integer_value(json_object_get(golden, "text"));
    char *text = get_text(index, &size_bytes), *back;
    struct ork_token_list list = {0};
    if (ork_tokenizer_encode(tokenizer, text, size_bytes, 0, &list, &error) != ORK_OK)
        fail_msg("%s", error.what);
    bool equal = test_tokens_equal(&list, json_object_get(golden, "ids"), text_name(index));
    assert_int_equal(list.dropped_bytes, 0);
    /* All these texts are UTF-8, and both vocabularies have all bytes: they come back as they were. Only SPM cannot tell
     * a space from the mark that stands for it. */
    size_t back_bytes;
    if (spm)
        size_bytes = marks_to_spaces(text, size_bytes);
    assert_int_equal(ork_tokenizer_detokenize(tokenizer, list.tokens, list.count, false, &back, &back_bytes, &error),
                     ORK_OK);
    assert_int_equal(back_bytes, size_bytes);
    assert_memory_equal(back, text, size_bytes);
    free(back); /* as ork_free() does, which is in another room */
    ork_token_list_free(&list);
    free(text);
    return !equal;
}

static ork_tokenizer *bpe_tokenizer(const json_t *vectors, const char *pre)
{
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "gpt2");
    test_meta_string(&meta, "tokenizer.ggml.pre", pre);
    put_strings(&meta, "tokenizer.ggml.tokens", json_object_get(vectors, "tokens"));
    put_strings(&meta, "tokenizer.ggml.merges", json_object_get(vectors, "merges"));
    return test_meta_tokenizer(&meta);
}

static void test_bpe(void **state)
{
    (void)state;
    json_t *vectors = test_json("tests/text/vectors/bpe.json"), *golden;
    unsigned failures = 0;
    size_t index = 0, count = json_array_size(json_object_get(vectors, "cases"));
    const char *pre = "";
    ork_tokenizer *tokenizer = NULL;
    json_array_foreach(json_object_get(vectors, "cases"), index, golden)
    {
        const char *name = json_string_value(json_object_get(golden, "pre"));
        if (strcmp(name, pre) != 0) {
            pre = name;
            ork_tokenizer_destroy(tokenizer);
            tokenizer = bpe_tokenizer(vectors, pre);
        }
        failures += check_tokens(tokenizer, golden, false);
    }
    print_message("%zu cases\n", count);
    assert_true(count > 600);
    assert_int_equal(failures, 0);
    ork_tokenizer_destroy(tokenizer);
    json_decref(vectors);
}

static void test_spm(void **state)
{
    (void)state;
    json_t *vectors = test_json("tests/text/vectors/spm.json"), *golden;
    const json_t *scores = json_object_get(vectors, "scores"), *types = json_object_get(vectors, "types");
    size_t size = json_array_size(scores), index;
    unsigned failures = 0;
    struct test_meta meta = {0};
    test_meta_string(&meta, "tokenizer.ggml.model", "llama");
    put_strings(&meta, "tokenizer.ggml.tokens", json_object_get(vectors, "tokens"));
    test_meta_array(&meta, "tokenizer.ggml.scores", ORK_META_F32, size);
    for (size_t i = 0; i < size; i++)
        ork_buffer_f32(&meta.bytes, (float)json_number_value(json_array_get(scores, i)));
    test_meta_array(&meta, "tokenizer.ggml.token_type", ORK_META_I32, size);
    for (size_t i = 0; i < size; i++)
        ork_buffer_u32(&meta.bytes, (uint32_t)json_integer_value(json_array_get(types, i)));
    ork_tokenizer *tokenizer = test_meta_tokenizer(&meta);
    json_array_foreach(json_object_get(vectors, "cases"), index, golden)
    {
        failures += check_tokens(tokenizer, golden, true);
    }
    print_message("%zu cases\n", index);
    assert_true(index > 300);
    assert_int_equal(failures, 0);
    ork_tokenizer_destroy(tokenizer);
    json_decref(vectors);
}

/* One tokenizer, several threads: the same tokens. Says more under ThreadSanitizer. */
static void *encode_all(void *context)
{
    const ork_tokenizer *tokenizer = context;
    uint64_t *digest = calloc(1, sizeof *digest);
    for (size_t i = 0; digest && i < json_array_size(texts); i++) {
        const json_t *text = json_object_get(json_array_get(texts, i), "text");
        struct ork_token_list list = {0};
        if (ork_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), 0, &list, NULL) !=
            ORK_OK)
            *digest = UINT64_MAX;
        for (size_t k = 0; k < list.count; k++)
            *digest = *digest * 31 + (uint64_t)list.tokens[k];
        ork_token_list_free(&list);
    }
    return digest;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    json_t *vectors = test_json("tests/text/vectors/bpe.json");
    ork_tokenizer *tokenizer = bpe_tokenizer(vectors, "llama-bpe");
    pthread_t threads[THREADS];
    uint64_t *expected = encode_all(tokenizer);
    assert_non_null(expected);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_all, tokenizer), 0);
    for (int i = 0; i < THREADS; i++) {
        void *found;
        assert_int_equal(pthread_join(threads[i], &found), 0);
        assert_non_null(found);
        assert_int_equal(*(uint64_t *)found, *expected);
        free(found);
    }
    free(expected);
    ork_tokenizer_destroy(tokenizer);
    json_decref(vectors);
}

static int load(void **state)
{
    (void)state;
    json_t *file = test_json("tests/text/vectors/texts.json");
    texts = json_incref(json_object_get(file, "cases"));
    json_decref(file);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    json_decref(texts);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_bpe),
                                       cmocka_unit_test(test_spm), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, load, unload);
}
