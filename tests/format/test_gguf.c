/* Guards reading of valid GGUF files: versions 2 and 3, values and tensors of every kind, files that the Python package
 * wrote, and the time to load a large vocabulary (B07). */
#include "format/gguf_exercise.h"
#include "format/gguf_samples.h"

#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const char samples[] = ORK_SOURCE_DIR "/tests/format/samples/";

static ork_gguf *parse(const struct ork_buffer *file)
{
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    if (ork_gguf_parse(file->data, file->size_bytes, "memory", &gguf, &error) != ORK_OK)
        fail_msg("refused: %s (offset %lld)", error.what, (long long)error.offset);
    return gguf;
}

static uint32_t u32_of(const ork_gguf *gguf, const char *key)
{
    uint32_t value = 0;
    ork_error error = {0};
    if (ork_meta_u32(ork_gguf_meta(gguf), key, true, &value, &error) != ORK_OK)
        fail_msg("%s: %s", key, error.what);
    return value;
}

static void test_versions_have_one_layout(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct ork_buffer file = gguf_sample_file(version);
        ork_gguf *gguf = parse(&file);
        assert_int_equal(ork_gguf_version(gguf), version);
        assert_int_equal(ork_gguf_file_size_bytes(gguf), file.size_bytes);
        assert_string_equal(ork_gguf_path(gguf), "memory");
        assert_int_equal(ork_meta_count(ork_gguf_meta(gguf)), 27);
        gguf_exercise(gguf);
        ork_gguf_close(gguf);
        ork_buffer_free(&file);
    }
}

static void test_tensors_are_views(void **state)
{
    (void)state;
    struct ork_buffer file = gguf_sample_file(3);
    ork_gguf *gguf = parse(&file);
    static const char *const names[] = {"scalar", "vector", "blocks", "experts", "deep"};
    static const uint64_t sizes[] = {4, 10, 72, 136, 12};
    static const uint64_t dimensions[][4] = {{1, 1, 1, 1}, {5, 1, 1, 1}, {64, 2, 1, 1}, {32, 2, 2, 1}, {2, 3, 1, 2}};
    assert_int_equal(ork_gguf_tensor_count(gguf), 5);
    for (uint32_t i = 0; i < 5; i++) {
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_at(gguf, i);
        assert_string_equal(tensor->name, names[i]);
        assert_ptr_equal(ork_gguf_tensor_find(gguf, names[i]), tensor);
        assert_int_equal(tensor->dimension_count, i);
        assert_memory_equal(tensor->dimensions, dimensions[i], sizeof dimensions[i]);
        assert_int_equal(tensor->size_bytes, sizes[i]);
        assert_int_equal(tensor->part, 0);
        assert_ptr_equal(tensor->data, file.data + tensor->offset_bytes);
        assert_int_equal(tensor->offset_bytes % 32, 0);
        for (uint64_t j = 0; j < sizes[i]; j++)
            assert_int_equal(tensor->data[j], (uint8_t)(16 * i + j));
    }
    ork_gguf_close(gguf);
    ork_buffer_free(&file);
}

/* Every id of the facts' table has the size that ggml gives it; removed, internal and unknown ids have none. */
static void test_type_table(void **state)
{
    (void)state;
    static const uint32_t wanted[][3] = {
        {0, 1, 4},     {1, 1, 2},      {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},
        {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {16, 256, 66},  {17, 256, 74},
        {18, 256, 98}, {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},  {23, 256, 136}, {24, 1, 1},
        {25, 1, 2},    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},     {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
        {35, 256, 66}, {39, 32, 17},   {40, 64, 36},   {41, 128, 18},  {42, 64, 18}};
    uint32_t found = 0;
    for (uint32_t id = 0; id < 300; id++)
        found += ork_ggml_type_find(id) != NULL;
    assert_int_equal(found, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct ork_ggml_type_info *info = ork_ggml_type_find(wanted[i][0]);
        assert_non_null(info);
        assert_int_equal(info->block_length, wanted[i][1]);
        assert_int_equal(info->block_bytes, wanted[i][2]);
    }
    assert_string_equal(ork_ggml_type_find(ORK_GGML_Q4_K)->name, "Q4_K");
    assert_null(ork_ggml_type_find(UINT32_MAX));
}

/* A file of metadata only ends behind its last pair, without padding; one without anything is its header. */
static void test_files_without_tensors(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    for (int pairs = 0; pairs < 2; pairs++) {
        if (pairs)
            gguf_builder_string(&b, "general.architecture", "llama");
        struct ork_buffer file = gguf_builder_finish(&b);
        ork_gguf *gguf = parse(&file);
        assert_int_equal(ork_gguf_tensor_count(gguf), 0);
        assert_null(ork_gguf_tensor_at(gguf, 0));
        assert_null(ork_gguf_tensor_find(gguf, "x"));
        gguf_exercise(gguf);
        ork_gguf_close(gguf);
        ork_buffer_free(&file);
    }
    gguf_builder_free(&b);
}

/* Gaps, another order than the descriptions', and padding behind the last tensor are harmless. */
static void test_gaps_order_and_padding(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    uint64_t dimension = 4;
    gguf_builder_raw_tensor(&b, "late", 4, ORK_GGML_F32, 1, &dimension, 128);
    gguf_builder_raw_tensor(&b, "early", 5, ORK_GGML_F32, 1, &dimension, 32);
    for (int i = 0; i < 128 + 16 + 16; i++)
        ork_buffer_u8(&b.data, (uint8_t)i);
    struct ork_buffer file = gguf_builder_finish(&b);
    ork_gguf *gguf = parse(&file);
    assert_int_equal(ork_gguf_tensor_find(gguf, "late")->data[0], 128);
    assert_int_equal(ork_gguf_tensor_find(gguf, "early")->data[0], 32);
    ork_gguf_close(gguf);
    ork_buffer_free(&file);
    gguf_builder_free(&b);
}

static void test_alignments(void **state)
{
    (void)state;
    for (uint32_t alignment = 8; alignment <= 4096; alignment *= 2) {
        struct gguf_builder b;
        gguf_builder_init(&b);
        gguf_builder_alignment(&b, alignment);
        gguf_sample_tensors(&b);
        struct ork_buffer file = gguf_builder_finish(&b);
        ork_gguf *gguf = parse(&file);
        for (size_t i = 0; i < 5; i++) {
            const struct ork_gguf_tensor *tensor = ork_gguf_tensor_at(gguf, i);
            assert_int_equal(tensor->offset_bytes % alignment, 0);
            assert_int_equal(tensor->data[0], 16 * i);
        }
        ork_gguf_close(gguf);
        ork_buffer_free(&file);
        gguf_builder_free(&b);
    }
}

/* The longest allowed key and tensor name. */
static void test_longest_names(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    char *key = malloc(65536);
    memset(key, 'k', 65535);
    key[65535] = 0;
    gguf_builder_u32(&b, key, 5);
    char name[64];
    memset(name, 'n', 63);
    name[63] = 0;
    gguf_builder_tensor(&b, name, ORK_GGML_I8, 1, (uint64_t[]){1}, NULL, 1);
    struct ork_buffer file = gguf_builder_finish(&b);
    ork_gguf *gguf = parse(&file);
    assert_int_equal(u32_of(gguf, key), 5);
    assert_non_null(ork_gguf_tensor_find(gguf, name));
    ork_gguf_close(gguf);
    ork_buffer_free(&file);
    gguf_builder_free(&b);
    free(key);
}

/* Content at an odd address: nothing may be read by a wide pointer (UBSan watches). */
static void test_unaligned_memory(void **state)
{
    (void)state;
    struct ork_buffer file = gguf_sample_file(3);
    uint8_t *shifted = malloc(file.size_bytes + 1);
    memcpy(shifted + 1, file.data, file.size_bytes);
    ork_gguf *gguf = NULL;
    assert_int_equal(ork_gguf_parse(shifted + 1, file.size_bytes, "shifted", &gguf, NULL), ORK_OK);
    gguf_exercise(gguf);
    ork_gguf_close(gguf);
    free(shifted);
    ork_buffer_free(&file);
}

/* ---- files of the Python package ---- */

static ork_gguf *open_sample(const char *name)
{
    char path[1024];
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    snprintf(path, sizeof path, "%s%s", samples, name);
    if (ork_gguf_open(path, &gguf, &error) != ORK_OK)
        fail_msg("%s: %s (offset %lld)", path, error.what, (long long)error.offset);
    return gguf;
}

static void assert_sample_metadata(const ork_gguf *gguf)
{
    const ork_meta *meta = ork_gguf_meta(gguf);
    const char *text;
    uint64_t length, position = 0;
    float real = 0;
    bool flag = false;
    const struct ork_meta_value *array;
    assert_int_equal(ork_meta_string(meta, "general.architecture", true, &text, &length, NULL), ORK_OK);
    assert_int_equal(length, 6);
    assert_memory_equal(text, "sample", 6);
    assert_int_equal(u32_of(gguf, "sample.u8"), 255);
    assert_int_equal(u32_of(gguf, "sample.u16"), 65535);
    assert_int_equal(u32_of(gguf, "sample.u32"), UINT32_MAX);
    assert_int_equal(ork_meta_find(meta, "sample.i8")->data[0], 0x80);
    assert_int_equal(ork_meta_find(meta, "sample.u64")->size_bytes, 8);
    assert_int_equal(ork_meta_find(meta, "sample.i64")->data[7], 0x80);
    assert_int_equal(ork_meta_f32(meta, "sample.f32", true, &real, NULL), ORK_OK);
    assert_true(real == 1.5f);
    assert_int_equal(ork_meta_f32(meta, "sample.f64", true, &real, NULL), ORK_OK);
    assert_true(real == 0.1f);
    assert_int_equal(ork_meta_bool(meta, "sample.bool", true, &flag, NULL), ORK_OK);
    assert_true(flag);
    assert_int_equal(ork_meta_string(meta, "sample.string", true, &text, &length, NULL), ORK_OK);
    assert_int_equal(length, strlen("Gr\xc3\xbc\xc3\x9f"
                                    "e, \xe4\xb8\x96\xe7\x95\x8c"));
    assert_memory_equal(text,
                        "Gr\xc3\xbc\xc3\x9f"
                        "e, \xe4\xb8\x96\xe7\x95\x8c",
                        length);
    assert_int_equal(ork_meta_array(meta, "sample.integers", true, ORK_META_I32, 3, &array, NULL), ORK_OK);
    assert_int_equal(array->data[4], 0xfe);
    static const char *const strings[] = {"a", "bc",
                                          ("d\xc3\xa9"
                                           "f")};
    assert_int_equal(ork_meta_array(meta, "sample.strings", true, ORK_META_STRING, 3, &array, NULL), ORK_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(ork_meta_next_string(array, &position, &text, &length));
        assert_int_equal(length, strlen(strings[i]));
        assert_memory_equal(text, strings[i], length);
    }
    assert_false(ork_meta_next_string(array, &position, &text, &length));
    assert_int_equal(ork_meta_array(meta, "tokenizer.ggml.scores", true, ORK_META_F32, 3, &array, NULL), ORK_OK);
    assert_int_equal(ork_meta_array(meta, "tokenizer.ggml.token_type", true, ORK_META_I32, 3, &array, NULL), ORK_OK);
}

static void assert_tensor(const ork_gguf *gguf, const char *name, uint32_t type, const uint64_t dimensions[4],
                          uint64_t size_bytes)
{
    const struct ork_gguf_tensor *tensor = ork_gguf_tensor_find(gguf, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->type, type);
    assert_memory_equal(tensor->dimensions, dimensions, 4 * sizeof dimensions[0]);
    assert_int_equal(tensor->size_bytes, size_bytes);
}

static void test_python_file(void **state)
{
    (void)state;
    ork_gguf *gguf = open_sample("python.gguf");
    assert_int_equal(ork_gguf_version(gguf), 3);
    assert_sample_metadata(gguf);
    assert_int_equal(u32_of(gguf, "general.alignment"), 64);
    assert_int_equal(ork_gguf_tensor_count(gguf), 6);
    assert_tensor(gguf, "f32", ORK_GGML_F32, (uint64_t[]){4, 3, 1, 1}, 48);
    assert_tensor(gguf, "f16", ORK_GGML_F16, (uint64_t[]){5, 1, 1, 1}, 10);
    assert_tensor(gguf, "i32", ORK_GGML_I32, (uint64_t[]){6, 1, 1, 1}, 24);
    assert_tensor(gguf, "q4_0", ORK_GGML_Q4_0, (uint64_t[]){64, 3, 1, 1}, 108);
    assert_tensor(gguf, "q6_k", ORK_GGML_Q6_K, (uint64_t[]){256, 2, 1, 1}, 420);
    assert_tensor(gguf, "mxfp4", 39, (uint64_t[]){32, 2, 2, 1}, 68);
    const uint8_t *f32 = ork_gguf_tensor_find(gguf, "f32")->data;
    for (int i = 0; i < 12; i++) {
        float value;
        memcpy(&value, f32 + 4 * i, sizeof value);
        assert_true(value == (float)i);
    }
    static const char *const raw[] = {"q4_0", "q6_k", "mxfp4"};
    for (int i = 0; i < 3; i++) {
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_find(gguf, raw[i]);
        for (uint64_t j = 0; j < tensor->size_bytes; j++)
            assert_int_equal(tensor->data[j], (uint8_t)(7 * j + 1 + (uint64_t)i));
    }
    gguf_exercise(gguf);
    ork_gguf_close(gguf);
}

static void test_python_split(void **state)
{
    (void)state;
    ork_gguf *gguf = open_sample("python-split-00001-of-00003.gguf");
    assert_sample_metadata(gguf);
    assert_int_equal(ork_gguf_tensor_count(gguf), 5);
    for (uint32_t i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%u.weight", i);
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_find(gguf, name);
        assert_non_null(tensor);
        assert_int_equal(tensor->part, i / 2);
        for (int j = 0; j < 8; j++) {
            float value;
            memcpy(&value, tensor->data + 4 * j, sizeof value);
            assert_true(value == (float)(i + (uint32_t)j));
        }
    }
    gguf_exercise(gguf);
    ork_gguf_close(gguf);
}

static void test_python_big_endian_is_named(void **state)
{
    (void)state;
    char path[1024];
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    snprintf(path, sizeof path, "%spython-big-endian.gguf", samples);
    assert_int_equal(ork_gguf_open(path, &gguf, &error), ORK_UNSUPPORTED);
    assert_null(gguf);
    assert_non_null(strstr(error.what, "big-endian"));
    assert_string_equal(error.where, path);
    assert_int_equal(error.offset, 4);
}

/* ---- time ---- */

/* B07: a check for every byte or a linear search for every name once made loading crawl. Real work here is about 2 ms;
 * the bound on the processor's time leaves room for sanitizers and an emulator and still catches a quadratic step
 * (minutes). */
static void assert_quick(const struct ork_buffer *file, const char *what)
{
    const clock_t start = clock();
    ork_gguf *gguf = parse(file);
    const double took_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("%s: %.6f s\n", what, took_s);
    assert_true(took_s < 20);
    ork_gguf_close(gguf);
}

static void test_b07_large_vocabulary_loads_quickly(void **state)
{
    (void)state;
    enum { TOKENS = 250000 };
    struct gguf_builder b;
    char text[32];
    gguf_builder_init(&b);
    gguf_builder_array(&b, "tokenizer.ggml.tokens", ORK_META_STRING, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        gguf_builder_raw_string(&b.pairs, text, (uint64_t)snprintf(text, sizeof text, "token%d", i));
    gguf_builder_array(&b, "tokenizer.ggml.merges", ORK_META_STRING, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        gguf_builder_raw_string(&b.pairs, text, (uint64_t)snprintf(text, sizeof text, "to ken%d", i));
    gguf_builder_array(&b, "tokenizer.ggml.scores", ORK_META_F32, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        ork_buffer_f32(&b.pairs, (float)-i);
    struct ork_buffer file = gguf_builder_finish(&b);
    assert_quick(&file, "vocabulary of 250000 tokens and merges");
    ork_buffer_free(&file);
    gguf_builder_free(&b);
}

static void test_b07_many_names_load_quickly(void **state)
{
    (void)state;
    enum { PAIRS = 60000, TENSORS = 100000 };
    struct gguf_builder b;
    char text[64];
    uint64_t dimension = 1;
    gguf_builder_init(&b);
    b.alignment = 8;
    gguf_builder_u32(&b, "general.alignment", 8);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(text, sizeof text, "a.long.common.prefix.of.keys.%d", PAIRS - i);
        gguf_builder_bool(&b, text, true);
    }
    for (int i = 0; i < TENSORS; i++) {
        int length = snprintf(text, sizeof text, "a.long.common.prefix.of.names.%d", TENSORS - i);
        gguf_builder_raw_tensor(&b, text, (uint64_t)length, ORK_GGML_F32, 1, &dimension,
                                8 * (uint64_t)(TENSORS - 1 - i));
    }
    for (int i = 0; i < TENSORS; i++)
        ork_buffer_u64(&b.data, 0);
    struct ork_buffer file = gguf_builder_finish(&b);
    assert_quick(&file, "60000 pairs and 100000 tensors");
    ork_buffer_free(&file);
    gguf_builder_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_have_one_layout),
        cmocka_unit_test(test_tensors_are_views),
        cmocka_unit_test(test_type_table),
        cmocka_unit_test(test_files_without_tensors),
        cmocka_unit_test(test_gaps_order_and_padding),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_longest_names),
        cmocka_unit_test(test_unaligned_memory),
        cmocka_unit_test(test_python_file),
        cmocka_unit_test(test_python_split),
        cmocka_unit_test(test_python_big_endian_is_named),
        cmocka_unit_test(test_b07_large_vocabulary_loads_quickly),
        cmocka_unit_test(test_b07_many_names_load_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
