/* A small GGUF writer for tests: any key/value pair, tensors, split parts, and malformed variants of all of them. It
 * shares no code with the reader except the growing buffer of base.
 *
 *   struct gguf_builder b;
 *   gguf_builder_init(&b);                                  version 3, alignment 32
 *   gguf_builder_string(&b, "general.architecture", "llama");
 *   gguf_builder_u32(&b, "llama.block_count", 1);
 *   gguf_builder_tensor(&b, "output_norm.weight", ORK_GGML_F32, 1, (uint64_t[]){64}, values, sizeof values);
 *   struct ork_buffer file = gguf_builder_finish(&b);       or gguf_builder_write(&b, path)
 *   gguf_builder_free(&b);
 *   ork_buffer_free(&file);
 *
 * Nothing is checked: whatever is asked for is written. Without memory the process aborts. */
#ifndef ORK_TESTS_GGUF_BUILDER_H
#define ORK_TESTS_GGUF_BUILDER_H

#include "base/cursor.h"
#include "format/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_builder {
    const char *magic; /* 4 bytes */
    uint32_t version;
    uint32_t alignment;        /* used for offsets; gguf_builder_alignment() also writes the key */
    struct ork_buffer pairs;   /* encoded metadata; append to it for malformed pairs and count them in pair_count */
    struct ork_buffer tensors; /* encoded tensor descriptions, likewise with tensor_count */
    struct ork_buffer data;    /* the data section */
    uint64_t pair_count, tensor_count;
    size_t last_pair, last_tensor; /* where the last pair and description start in pairs and tensors */
};

enum { GGUF_BUILDER_HEADER_BYTES = 24 };

static inline void gguf_builder_init(struct gguf_builder *b)
{
    *b = (struct gguf_builder){.magic = "GGUF", .version = 3, .alignment = 32};
}

static inline void gguf_builder_free(struct gguf_builder *b)
{
    ork_buffer_free(&b->pairs);
    ork_buffer_free(&b->tensors);
    ork_buffer_free(&b->data);
}

/* ---- pairs ---- */

static inline void gguf_builder_raw_string(struct ork_buffer *out, const char *text, uint64_t length)
{
    ork_buffer_u64(out, length);
    ork_buffer_append(out, text, length);
}

/* Starts a pair: key of any bytes, and its type; the caller appends the value to b->pairs. */
static inline void gguf_builder_raw_pair(struct gguf_builder *b, const char *key, uint64_t length, uint32_t type)
{
    b->last_pair = b->pairs.size_bytes;
    gguf_builder_raw_string(&b->pairs, key, length);
    ork_buffer_u32(&b->pairs, type);
    b->pair_count++;
}

static inline void gguf_builder_pair(struct gguf_builder *b, const char *key, uint32_t type)
{
    gguf_builder_raw_pair(b, key, strlen(key), type);
}

static inline void gguf_builder_u8(struct gguf_builder *b, const char *key, uint8_t value)
{
    gguf_builder_pair(b, key, ORK_META_U8);
    ork_buffer_u8(&b->pairs, value);
}

static inline void gguf_builder_i8(struct gguf_builder *b, const char *key, int8_t value)
{
    gguf_builder_pair(b, key, ORK_META_I8);
    ork_buffer_u8(&b->pairs, (uint8_t)value);
}

static inline void gguf_builder_u16(struct gguf_builder *b, const char *key, uint16_t value)
{
    gguf_builder_pair(b, key, ORK_META_U16);
    ork_buffer_u16(&b->pairs, value);
}

static inline void gguf_builder_i16(struct gguf_builder *b, const char *key, int16_t value)
{
    gguf_builder_pair(b, key, ORK_META_I16);
    ork_buffer_u16(&b->pairs, (uint16_t)value);
}

static inline void gguf_builder_u32(struct gguf_builder *b, const char *key, uint32_t value)
{
    gguf_builder_pair(b, key, ORK_META_U32);
    ork_buffer_u32(&b->pairs, value);
}

static inline void gguf_builder_i32(struct gguf_builder *b, const char *key, int32_t value)
{
    gguf_builder_pair(b, key, ORK_META_I32);
    ork_buffer_u32(&b->pairs, (uint32_t)value);
}

static inline void gguf_builder_u64(struct gguf_builder *b, const char *key, uint64_t value)
{
    gguf_builder_pair(b, key, ORK_META_U64);
    ork_buffer_u64(&b->pairs, value);
}

static inline void gguf_builder_i64(struct gguf_builder *b, const char *key, int64_t value)
{
    gguf_builder_pair(b, key, ORK_META_I64);
    ork_buffer_u64(&b->pairs, (uint64_t)value);
}

static inline void gguf_builder_f32(struct gguf_builder *b, const char *key, float value)
{
    gguf_builder_pair(b, key, ORK_META_F32);
    ork_buffer_f32(&b->pairs, value);
}

static inline void gguf_builder_f64(struct gguf_builder *b, const char *key, double value)
{
    gguf_builder_pair(b, key, ORK_META_F64);
    ork_buffer_f64(&b->pairs, value);
}

static inline void gguf_builder_bool(struct gguf_builder *b, const char *key, bool value)
{
    gguf_builder_pair(b, key, ORK_META_BOOL);
    ork_buffer_u8(&b->pairs, value);
}

static inline void gguf_builder_string(struct gguf_builder *b, const char *key, const char *value)
{
    gguf_builder_pair(b, key, ORK_META_STRING);
    gguf_builder_raw_string(&b->pairs, value, strlen(value));
}

/* Starts an array; the caller appends `count` elements to b->pairs. */
static inline void gguf_builder_array(struct gguf_builder *b, const char *key, uint32_t element_type, uint64_t count)
{
    gguf_builder_pair(b, key, ORK_META_ARRAY);
    ork_buffer_u32(&b->pairs, element_type);
    ork_buffer_u64(&b->pairs, count);
}

static inline void gguf_builder_u32_array(struct gguf_builder *b, const char *key, const uint32_t *values,
                                          uint64_t count)
{
    gguf_builder_array(b, key, ORK_META_U32, count);
    for (uint64_t i = 0; i < count; i++)
        ork_buffer_u32(&b->pairs, values[i]);
}

static inline void gguf_builder_i32_array(struct gguf_builder *b, const char *key, const int32_t *values,
                                          uint64_t count)
{
    gguf_builder_array(b, key, ORK_META_I32, count);
    for (uint64_t i = 0; i < count; i++)
        ork_buffer_u32(&b->pairs, (uint32_t)values[i]);
}

static inline void gguf_builder_f32_array(struct gguf_builder *b, const char *key, const float *values, uint64_t count)
{
    gguf_builder_array(b, key, ORK_META_F32, count);
    for (uint64_t i = 0; i < count; i++)
        ork_buffer_f32(&b->pairs, values[i]);
}

static inline void gguf_builder_strings(struct gguf_builder *b, const char *key, const char *const *values,
                                        uint64_t count)
{
    gguf_builder_array(b, key, ORK_META_STRING, count);
    for (uint64_t i = 0; i < count; i++)
        gguf_builder_raw_string(&b->pairs, values[i], strlen(values[i]));
}

/* Sets the alignment and writes its key; call before the first tensor. */
static inline void gguf_builder_alignment(struct gguf_builder *b, uint32_t alignment)
{
    b->alignment = alignment;
    gguf_builder_u32(b, "general.alignment", alignment);
}

/* The keys that make this file part `number` (from 0) of `count`. */
static inline void gguf_builder_split(struct gguf_builder *b, uint16_t number, uint16_t count, int32_t tensor_total)
{
    gguf_builder_u16(b, "split.no", number);
    gguf_builder_u16(b, "split.count", count);
    gguf_builder_i32(b, "split.tensors.count", tensor_total);
}

/* ---- tensors ---- */

static inline void gguf_builder_pad(struct ork_buffer *out, uint64_t alignment)
{
    while (alignment && out->size_bytes % alignment)
        ork_buffer_u8(out, 0);
}

/* A description exactly as given; no data. */
static inline void gguf_builder_raw_tensor(struct gguf_builder *b, const char *name, uint64_t name_length,
                                           uint32_t type, uint32_t dimension_count, const uint64_t *dimensions,
                                           uint64_t offset_bytes)
{
    b->last_tensor = b->tensors.size_bytes;
    gguf_builder_raw_string(&b->tensors, name, name_length);
    ork_buffer_u32(&b->tensors, dimension_count);
    for (uint32_t i = 0; i < dimension_count; i++)
        ork_buffer_u64(&b->tensors, dimensions[i]);
    ork_buffer_u32(&b->tensors, type);
    ork_buffer_u64(&b->tensors, offset_bytes);
    b->tensor_count++;
}

/* Dimensions are ne0 (contiguous) first. data NULL: zeros. The data section is padded in front, never behind, so that
 * the last tensor ends the file. Returns the tensor's offset in the data section. */
static inline uint64_t gguf_builder_tensor(struct gguf_builder *b, const char *name, uint32_t type,
                                           uint32_t dimension_count, const uint64_t *dimensions, const void *data,
                                           size_t size_bytes)
{
    gguf_builder_pad(&b->data, b->alignment);
    uint64_t offset_bytes = b->data.size_bytes;
    gguf_builder_raw_tensor(b, name, strlen(name), type, dimension_count, dimensions, offset_bytes);
    if (data) {
        ork_buffer_append(&b->data, data, size_bytes);
    } else {
        for (size_t i = 0; i < size_bytes; i++)
            ork_buffer_u8(&b->data, 0);
    }
    return offset_bytes;
}

/* ---- the file ---- */

/* Offsets in the finished file of the last pair and the last tensor description. */
static inline size_t gguf_builder_last_pair_offset(const struct gguf_builder *b)
{
    return GGUF_BUILDER_HEADER_BYTES + b->last_pair;
}

static inline size_t gguf_builder_last_tensor_offset(const struct gguf_builder *b)
{
    return GGUF_BUILDER_HEADER_BYTES + b->pairs.size_bytes + b->last_tensor;
}

/* The complete file; the builder can go on being filled. Free with ork_buffer_free(). */
static inline struct ork_buffer gguf_builder_finish(const struct gguf_builder *b)
{
    struct ork_buffer file = {0};
    ork_buffer_append(&file, b->magic, 4);
    ork_buffer_u32(&file, b->version);
    ork_buffer_u64(&file, b->tensor_count);
    ork_buffer_u64(&file, b->pair_count);
    ork_buffer_append(&file, b->pairs.data, b->pairs.size_bytes);
    ork_buffer_append(&file, b->tensors.data, b->tensors.size_bytes);
    if (b->tensor_count)
        gguf_builder_pad(&file, b->alignment);
    ork_buffer_append(&file, b->data.data, b->data.size_bytes);
    if (file.failed || b->pairs.failed || b->tensors.failed || b->data.failed)
        abort();
    return file;
}

static inline bool gguf_builder_write_bytes(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool written = size_bytes == 0 || fwrite(data, 1, size_bytes, file) == size_bytes;
    return fclose(file) == 0 && written;
}

/* False when the file cannot be written. */
static inline bool gguf_builder_write(const struct gguf_builder *b, const char *path)
{
    struct ork_buffer file = gguf_builder_finish(b);
    bool written = gguf_builder_write_bytes(path, file.data, file.size_bytes);
    ork_buffer_free(&file);
    return written;
}

/* Path of part `number` (from 0) of `count` into path[capacity]. */
static inline void gguf_builder_split_path(char *path, size_t capacity, const char *prefix, unsigned number,
                                           unsigned count)
{
    snprintf(path, capacity, "%s-%05u-of-%05u.gguf", prefix, number + 1, count);
}

#endif
