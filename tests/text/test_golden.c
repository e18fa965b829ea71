/* Guards token ids, end tokens and texts against llama.cpp's on the real vocabularies in the cache: tests/compat/golden.
 * Skips loudly with 77 where no vocabulary is there (tools/fetch_models.py gets them). */
#include "text/support.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *nasty;

/* Texts for which byte-level BPE differs from llama.cpp on purpose; each must really differ, or the test fails. llama.cpp
 * decodes overlong forms (C0 AF as a slash) and surrogates; here their bytes are bad ones and become U+FFFD each. */
static const char *const bpe_differences[] = {"overlong slash", "surrogate halves"};

static bool may_differ(const char *vocabulary, const char *text)
{
    for (size_t i = 0; i < sizeof bpe_differences / sizeof bpe_differences[0]; i++)
        if (!strstr(vocabulary, "spm") && strcmp(bpe_differences[i], text) == 0)
            return true;
    return false;
}

static const json_t *find_text(const char *name)
{
    size_t index;
    json_t *entry;
    json_array_foreach(nasty, index, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
            return entry;
    }
    fail_msg("nasty.json has no text '%s'", name);
    return NULL;
}

static void encode(const ork_tokenizer *tokenizer, const char *text, size_t size_bytes, unsigned flags,
                   struct ork_token_list *list)
{
    ork_error error = {0};
    if (ork_tokenizer_encode(tokenizer, text, size_bytes, flags, list, &error) != ORK_OK)
        fail_msg("%s", error.what);
}

/* The raw pieces of the tokens, one after the other, against what llama.cpp's pieces give. */
static bool pieces_equal(const ork_tokenizer *tokenizer, const struct ork_token_list *list, const json_t *golden,
                         const char *text, size_t text_bytes)
{
    size_t expected_bytes = text_bytes;
    char *expected = json_object_get(golden, "back") ? test_json_bytes(golden, "", "back", &expected_bytes) : NULL;
    struct ork_buffer found = {0};
    for (size_t i = 0; i < list->count; i++) {
        size_t piece_bytes;
        const char *piece = ork_tokenizer_piece(tokenizer, list->tokens[i], &piece_bytes);
        assert_non_null(piece);
        ork_buffer_append(&found, piece, piece_bytes);
    }
    bool equal = found.size_bytes == expected_bytes &&
                 (expected_bytes == 0 || memcmp(found.data, expected ? expected : text, expected_bytes) == 0);
    free(expected);
    ork_buffer_free(&found);
    return equal;
}

static unsigned check_case(const ork_tokenizer *tokenizer, const char *vocabulary, const json_t *golden)
{
    unsigned failures = 0;
    const char *name = json_string_value(json_object_get(golden, "name"));
    size_t size_bytes;
    char *text = test_json_bytes(find_text(name), "text", "base64", &size_bytes);
    const json_t *plain = json_object_get(golden, "plain"), *parsed = json_object_get(golden, "parsed");
    struct ork_token_list list = {0};
    encode(tokenizer, text, size_bytes, 0, &list);
    if (may_differ(vocabulary, name)) {
        bool equal = list.count == json_array_size(plain);
        for (size_t i = 0; equal && i < list.count; i++)
            equal = list.tokens[i] == json_integer_value(json_array_get(plain, i));
        if (equal) {
            print_error("%s: '%s' no longer differs from llama.cpp; take it off the list\n", vocabulary, name);
            failures++;
        }
    } else {
        failures += !test_tokens_equal(&list, plain, name);
        if (!pieces_equal(tokenizer, &list, golden, text, size_bytes)) {
            print_error("%s: '%s': the pieces give another text\n", vocabulary, name);
            failures++;
        }
        list.count = 0;
        encode(tokenizer, text, size_bytes, ORK_TOKENIZE_PARSE_SPECIAL, &list);
        failures += !test_tokens_equal(&list, parsed ? parsed : plain, name);
    }
    ork_token_list_free(&list);
    free(text);
    return failures;
}

/* Ids that end a generation, and what is put around a text. */
static unsigned check_special(const ork_tokenizer *tokenizer, const json_t *golden)
{
    unsigned failures = 0;
    const json_t *end = json_object_get(golden, "end");
    size_t found = 0, wanted = json_array_size(end);
    for (ork_token t = 0; (uint32_t)t < ork_tokenizer_vocabulary_size(tokenizer); t++)
        found += ork_tokenizer_is_end(tokenizer, t);
    for (size_t i = 0; i < wanted; i++)
        if (!ork_tokenizer_is_end(tokenizer, (ork_token)json_integer_value(json_array_get(end, i)))) {
            print_error("token %d should end a generation\n", (int)json_integer_value(json_array_get(end, i)));
            failures++;
        }
    if (found != wanted) {
        print_error("%zu tokens end a generation, %zu should\n", found, wanted);
        failures++;
    }
    failures += ork_tokenizer_bos(tokenizer) != json_integer_value(json_object_get(golden, "bos"));
    failures += ork_tokenizer_eos(tokenizer) != json_integer_value(json_object_get(golden, "eos"));
    failures += ork_tokenizer_vocabulary_size(tokenizer) != json_integer_value(json_object_get(golden, "size"));
    struct ork_token_list list = {0};
    encode(tokenizer, "", 0, ORK_TOKENIZE_SPECIAL, &list);
    json_t *around = json_copy(json_object_get(golden, "before"));
    json_array_extend(around, json_object_get(golden, "after"));
    failures += !test_tokens_equal(&list, around, "around an empty text");
    json_decref(around);
    ork_token_list_free(&list);
    return failures;
}

/* Whole files of text, found in the shared data beside the checkout or in the models folder. */
static unsigned check_text(const ork_tokenizer *tokenizer, const json_t *golden)
{
    const char *name = json_string_value(json_object_get(golden, "file"));
    const char *data = getenv("ORK_TEST_DATA");
    char path[3][1024], digest[65];
    snprintf(path[0], sizeof path[0], "%s/%s", data ? data : ORK_SOURCE_DIR "/../shared/data", name);
    snprintf(path[1], sizeof path[1], "%s/models/%s", ORK_SOURCE_DIR, name);
    test_model_path(path[2], sizeof path[2], name);
    size_t size_bytes;
    char *text = NULL;
    for (int i = 0; i < 3 && !text; i++)
        text = test_read_file(path[i], &size_bytes);
    if (!text) {
        print_message("  %s is not there: left out\n", name);
        return 0;
    }
    test_sha256(text, size_bytes, digest);
    if (strcmp(digest, json_string_value(json_object_get(golden, "sha256"))) != 0) {
        print_message("  %s is another version: left out\n", name);
        free(text);
        return 0;
    }
    struct ork_token_list list = {0};
    encode(tokenizer, text, size_bytes, 0, &list);
    test_sha256(list.tokens, list.count * sizeof *list.tokens, digest);
    bool equal = strcmp(digest, json_string_value(json_object_get(golden, "ids_sha256"))) == 0;
    print_message("  %s: %zu tokens %s\n", name, list.count, equal ? "equal" : "DIFFER");
    ork_token_list_free(&list);
    free(text);
    return !equal;
}

/* Returns false when the vocabulary is not in the cache. */
static bool check_vocabulary(const char *golden_path, unsigned *failures)
{
    json_error_t json_error;
    json_t *golden = json_load_file(golden_path, 0, &json_error);
    assert_non_null(golden);
    const char *vocabulary = json_string_value(json_object_get(golden, "vocabulary"));
    char path[1024];
    test_model_path(path, sizeof path, vocabulary);
    ork_tokenizer *tokenizer = test_gguf_tokenizer(path);
    if (!tokenizer) {
        snprintf(path, sizeof path, "%s/models/%s", ORK_SOURCE_DIR, vocabulary);
        tokenizer = test_gguf_tokenizer(path);
    }
    if (!tokenizer) {
        print_message("LEFT OUT: %s is not in the cache; run tools/fetch_models.py\n", vocabulary);
        json_decref(golden);
        return false;
    }
    unsigned before = *failures;
    *failures += check_special(tokenizer, golden);
    size_t index;
    json_t *entry;
    json_array_foreach(json_object_get(golden, "cases"), index, entry)
    {
        *failures += check_case(tokenizer, vocabulary, entry);
    }
    print_message("%s: %zu texts, %u failures\n", vocabulary, index, *failures - before);
    json_array_foreach(json_object_get(golden, "texts"), index, entry)
    {
        *failures += check_text(tokenizer, entry);
    }
    ork_tokenizer_destroy(tokenizer);
    json_decref(golden);
    return true;
}

static unsigned checked_count;

/* llama.cpp's own vectors (models.md 5.8): texts in .inp, divided by a line, and ids in .out, one text a line. */
static unsigned check_published(const ork_tokenizer *tokenizer, char *texts, char *ids)
{
    static const char divider[] = "\n__ggml_vocab_test__\n";
    unsigned count = 0;
    for (char *text = texts; text; count++) {
        char *end = strstr(text, divider), *line_end = strchr(ids, '\n'), *id = ids;
        if (!end) /* what follows the last divider is no text */
            break;
        assert_non_null(line_end);
        *line_end = 0;
        struct ork_token_list list = {0};
        encode(tokenizer, text, (size_t)(end - text), 0, &list);
        for (size_t i = 0; i < list.count; i++)
            if (strtol(id, &id, 10) != list.tokens[i])
                fail_msg("published text %u, token %zu: %d, expected ids are '%s'", count, i, list.tokens[i], ids);
        if (*id)
            fail_msg("published text %u: ids are missing: '%s'", count, id);
        ork_token_list_free(&list);
        ids = line_end + 1;
        text = end + strlen(divider);
    }
    return count;
}

static void test_published_vectors(void **state)
{
    (void)state;
    char pattern[1024];
    glob_t found;
    test_model_path(pattern, sizeof pattern, "ggml-vocab-*.gguf");
    if (glob(pattern, 0, NULL, &found) != 0) {
        print_message("LEFT OUT: no published vocabulary is in the cache; run tools/fetch_models.py\n");
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char path[1100];
        size_t size_bytes;
        snprintf(path, sizeof path, "%s.inp", found.gl_pathv[i]);
        char *texts = test_read_file(path, &size_bytes);
        snprintf(path, sizeof path, "%s.out", found.gl_pathv[i]);
        char *ids = test_read_file(path, &size_bytes);
        if (texts && ids) {
            ork_tokenizer *tokenizer = test_gguf_tokenizer(found.gl_pathv[i]);
            unsigned count = check_published(tokenizer, texts, ids);
            print_message("%s: %u texts\n", strrchr(found.gl_pathv[i], '/') + 1, count);
            assert_true(count >= 40);
            ork_tokenizer_destroy(tokenizer);
            checked_count++;
        }
        free(texts);
        free(ids);
    }
    globfree(&found);
}

static void test_all_vocabularies(void **state)
{
    (void)state;
    nasty = test_json("tests/compat/nasty.json");
    glob_t found;
    assert_int_equal(glob(ORK_SOURCE_DIR "/tests/compat/golden/tokens-*.json", 0, NULL, &found), 0);
    unsigned failures = 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        checked_count += check_vocabulary(found.gl_pathv[i], &failures);
    globfree(&found);
    json_decref(nasty);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_vocabularies),
                                       cmocka_unit_test(test_published_vectors)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed || checked_count)
        return failed;
    fprintf(stderr, "SKIPPED: no real vocabulary is in the cache, nothing was compared with llama.cpp\n");
    return TEST_SKIPPED;
}
