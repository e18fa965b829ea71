/* Shared by the tests of the text room: metadata from memory or from a GGUF's head, JSON vectors, digests. */
#ifndef ORK_TESTS_TEXT_SUPPORT_H
#define ORK_TESTS_TEXT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/tokenizer.h"

enum { TEST_SKIPPED = 77 };

/* ---- metadata made in memory ---- */

struct test_meta {
    struct ork_buffer bytes;
    uint64_t count;
    ork_meta *meta; /* set by test_meta_finish */
};
void test_meta_string(struct test_meta *meta, const char *key, const char *value);
void test_meta_bytes(struct test_meta *meta, const char *key, const void *value, size_t size_bytes);
void test_meta_u32(struct test_meta *meta, const char *key, uint32_t value);
void test_meta_bool(struct test_meta *meta, const char *key, bool value);
/* The head of an array; its elements are appended to bytes by the caller. */
void test_meta_array(struct test_meta *meta, const char *key, enum ork_meta_type type, uint64_t count);
void test_meta_strings(struct test_meta *meta, const char *key, const char *const *values, size_t count);
const ork_meta *test_meta_finish(struct test_meta *meta);
void test_meta_free(struct test_meta *meta);
/* Parses and makes a tokenizer, failing the test when it is refused. Frees *meta. */
ork_tokenizer *test_meta_tokenizer(struct test_meta *meta);
/* As above, expecting a refusal with this status and a message or place that holds `word`. */
void test_meta_refused(struct test_meta *meta, ork_status status, const char *word);

/* A byte-level vocabulary: 256 bytes, then the texts of `merges` ("a b" gives "ab"), then `specials` (control). Ids: the
 * byte of alphabet order is not the byte's value; use ork_tokenizer_find. */
void test_meta_small_bpe(struct test_meta *meta, const char *pre, const char *const *merges, size_t merge_count,
                         const char *const *specials, size_t special_count);

/* ---- files ---- */

/* The whole file, NUL-terminated; NULL when it is not there. */
char *test_read_file(const char *path, size_t *size_bytes);
/* Where fetch_models.py puts models, with `name` appended. */
void test_model_path(char *path, size_t capacity, const char *name);
/* A tokenizer from the metadata of a GGUF file; NULL when the file is not there. Fails the test on a bad file. */
ork_tokenizer *test_gguf_tokenizer(const char *path);
/* A JSON file of the source tree; fails the test when it is missing or broken. */
json_t *test_json(const char *relative_path);

/* ---- values ---- */

/* "text", or "base64", of an entry; *bytes is malloc'ed and NUL-terminated. */
char *test_json_bytes(const json_t *entry, const char *text_key, const char *base64_key, size_t *size_bytes);
/* Whether the list equals a JSON array of integers; prints both when it does not. */
bool test_tokens_equal(const struct ork_token_list *list, const json_t *expected, const char *name);
/* Hexadecimal SHA-256. */
void test_sha256(const void *data, size_t size_bytes, char out[65]);
/* A small generator, the same on every machine. */
uint64_t test_random(uint64_t *state);

#endif
