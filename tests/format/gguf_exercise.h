/* Uses everything that a parsed GGUF offers, so that a reader that accepted bad bytes is caught by the sanitizers or by
 * a contradiction here. Aborts on a contradiction (it runs inside of fuzzers as well as tests). */
#ifndef ORK_TESTS_GGUF_EXERCISE_H
#define ORK_TESTS_GGUF_EXERCISE_H

#include "format/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GGUF_REQUIRE(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Keeps reads of file bytes from being optimised away. */
static volatile uint64_t gguf_exercise_sum;

static inline void gguf_exercise_bytes(const uint8_t *bytes, uint64_t size_bytes)
{
    if (size_bytes) {
        gguf_exercise_sum += bytes[0];
        gguf_exercise_sum += bytes[size_bytes - 1];
    }
}

static inline void gguf_exercise_value(const ork_meta *meta, const struct ork_meta_value *value)
{
    uint32_t number = 0, few[3];
    float real = 0;
    bool flag = false;
    const char *text = NULL;
    uint64_t length = 0, position = 0, strings = 0;
    const struct ork_meta_value *array = NULL;
    ork_error error = {0};
    GGUF_REQUIRE(ork_meta_find(meta, value->key) == value);
    gguf_exercise_bytes(value->data, value->size_bytes);
    ork_meta_u32(meta, value->key, true, &number, &error);
    ork_meta_f32(meta, value->key, true, &real, &error);
    ork_meta_bool(meta, value->key, true, &flag, &error);
    ork_meta_u32_array(meta, value->key, true, few, 3, &error);
    ork_meta_array(meta, value->key, true, ORK_META_F32, 0, &array, &error);
    if (ork_meta_string(meta, value->key, true, &text, &length, &error) == ORK_OK)
        gguf_exercise_bytes((const uint8_t *)text, length);
    while (ork_meta_next_string(value, &position, &text, &length)) {
        gguf_exercise_bytes((const uint8_t *)text, length);
        strings++;
    }
    bool is_string_array = value->type == ORK_META_ARRAY && value->element_type == ORK_META_STRING;
    GGUF_REQUIRE(strings == (is_string_array ? value->count : 0));
}

/* Encoding again and parsing that must give the same pairs. */
static inline void gguf_exercise_rewrite(const ork_meta *meta)
{
    struct ork_buffer out = {0};
    uint64_t count = 0;
    ork_meta *again = NULL;
    ork_error error = {0};
    ork_meta_write(meta, NULL, &out, &count);
    GGUF_REQUIRE(!out.failed && count == ork_meta_count(meta));
    struct ork_cursor cursor = ork_cursor_make(out.data, out.size_bytes);
    GGUF_REQUIRE(ork_meta_parse(&cursor, count, "again", &again, &error) == ORK_OK);
    GGUF_REQUIRE(ork_cursor_left(&cursor) == 0);
    for (size_t i = 0; i < count; i++) {
        const struct ork_meta_value *a = ork_meta_at(meta, i), *b = ork_meta_at(again, i);
        GGUF_REQUIRE(strcmp(a->key, b->key) == 0 && a->type == b->type && a->element_type == b->element_type);
        GGUF_REQUIRE(a->count == b->count && a->size_bytes == b->size_bytes);
        GGUF_REQUIRE(a->size_bytes == 0 || memcmp(a->data, b->data, a->size_bytes) == 0);
    }
    ork_meta_free(again);
    ork_buffer_free(&out);
}

static inline void gguf_exercise(const ork_gguf *gguf)
{
    const ork_meta *meta = ork_gguf_meta(gguf);
    GGUF_REQUIRE(ork_gguf_version(gguf) == 2 || ork_gguf_version(gguf) == 3);
    for (size_t i = 0; i < ork_meta_count(meta); i++)
        gguf_exercise_value(meta, ork_meta_at(meta, i));
    GGUF_REQUIRE(ork_meta_at(meta, ork_meta_count(meta)) == NULL);
    gguf_exercise_rewrite(meta);
    for (size_t i = 0; i < ork_gguf_tensor_count(gguf); i++) {
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_at(gguf, i);
        GGUF_REQUIRE(ork_gguf_tensor_find(gguf, tensor->name) == tensor);
        GGUF_REQUIRE(tensor->size_bytes > 0 && strlen(tensor->name) < 64 && ork_ggml_type_find(tensor->type));
        GGUF_REQUIRE(tensor->offset_bytes + tensor->size_bytes <= ork_gguf_file_size_bytes(gguf));
        gguf_exercise_bytes(tensor->data, tensor->size_bytes);
    }
    GGUF_REQUIRE(ork_gguf_tensor_at(gguf, ork_gguf_tensor_count(gguf)) == NULL);
    GGUF_REQUIRE(ork_gguf_tensor_find(gguf, "no such tensor") == NULL);
}

#endif
