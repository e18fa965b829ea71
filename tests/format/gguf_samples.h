/* Valid files that several tests start from, made with the builder. */
#ifndef ORK_TESTS_GGUF_SAMPLES_H
#define ORK_TESTS_GGUF_SAMPLES_H

#include "format/gguf_builder.h"

#include <limits.h>

/* One pair of every type and arrays of every element type; extreme values. */
static inline void gguf_sample_pairs(struct gguf_builder *b)
{
    static const char *const words[] = {"", "two", "\xc4\xa0three"};
    static const uint32_t numbers[] = {0, 7, UINT32_MAX};
    static const int32_t signed_numbers[] = {INT32_MIN, -1, INT32_MAX};
    static const float reals[] = {-0.0f, 1.5f, 0x1p-140f};
    gguf_builder_string(b, "general.architecture", "sample");
    gguf_builder_u8(b, "sample.u8", 200);
    gguf_builder_i8(b, "sample.i8", -100);
    gguf_builder_u16(b, "sample.u16", 60000);
    gguf_builder_i16(b, "sample.i16", -30000);
    gguf_builder_u32(b, "sample.u32", UINT32_MAX);
    gguf_builder_i32(b, "sample.i32", INT32_MIN);
    gguf_builder_u64(b, "sample.u64", UINT64_MAX);
    gguf_builder_i64(b, "sample.i64", INT64_MIN);
    gguf_builder_f32(b, "sample.f32", 0.1f);
    gguf_builder_f64(b, "sample.f64", 0.1);
    gguf_builder_bool(b, "sample.true", true);
    gguf_builder_bool(b, "sample.false", false);
    gguf_builder_string(b, "sample.empty_string", "");
    gguf_builder_strings(b, "sample.strings", words, 3);
    gguf_builder_u32_array(b, "sample.u32_array", numbers, 3);
    gguf_builder_i32_array(b, "sample.i32_array", signed_numbers, 3);
    gguf_builder_f32_array(b, "sample.f32_array", reals, 3);
    gguf_builder_array(b, "sample.empty_array", ORK_META_U32, 0);
    static const struct {
        const char *key;
        uint32_t type, size_bytes;
    } arrays[] = {{"sample.u8_array", ORK_META_U8, 1},     {"sample.i8_array", ORK_META_I8, 1},
                  {"sample.u16_array", ORK_META_U16, 2},   {"sample.i16_array", ORK_META_I16, 2},
                  {"sample.bool_array", ORK_META_BOOL, 1}, {"sample.u64_array", ORK_META_U64, 8},
                  {"sample.i64_array", ORK_META_I64, 8},   {"sample.f64_array", ORK_META_F64, 8}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        gguf_builder_array(b, arrays[i].key, arrays[i].type, 2);
        for (uint32_t j = 0; j < 2 * arrays[i].size_bytes; j++)
            ork_buffer_u8(&b->pairs, (uint8_t)(1 + j));
    }
}

/* Tensors of 0 to 4 dimensions, byte j of tensor i being 16 i + j. */
static inline void gguf_sample_tensors(struct gguf_builder *b)
{
    static const struct {
        const char *name;
        uint32_t type, dimension_count;
        uint64_t dimensions[4];
        uint32_t size_bytes;
    } tensors[] = {{"scalar", ORK_GGML_F32, 0, {0}, 4},
                   {"vector", ORK_GGML_F16, 1, {5}, 10},
                   {"blocks", ORK_GGML_Q4_0, 2, {64, 2}, 72},
                   {"experts", ORK_GGML_Q8_0, 3, {32, 2, 2}, 136},
                   {"deep", ORK_GGML_I8, 4, {2, 3, 1, 2}, 12}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        uint8_t bytes[256];
        for (uint32_t j = 0; j < tensors[i].size_bytes; j++)
            bytes[j] = (uint8_t)(16 * i + j);
        gguf_builder_tensor(b, tensors[i].name, tensors[i].type, tensors[i].dimension_count, tensors[i].dimensions,
                            bytes, tensors[i].size_bytes);
    }
}

/* The whole of both as a file. */
static inline struct ork_buffer gguf_sample_file(uint32_t version)
{
    struct gguf_builder b;
    gguf_builder_init(&b);
    b.version = version;
    gguf_sample_pairs(&b);
    gguf_sample_tensors(&b);
    struct ork_buffer file = gguf_builder_finish(&b);
    gguf_builder_free(&b);
    return file;
}

#endif
