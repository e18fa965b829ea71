/* Guards typed reads of metadata (defaults, types, ranges, arrays) and its re-encoding. */
#include "format/gguf_samples.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* The builder's pairs parsed; the bytes stay with the builder. */
static ork_meta *parse(const struct gguf_builder *b)
{
    ork_meta *meta = NULL;
    ork_error error = {0};
    struct ork_cursor cursor = ork_cursor_make(b->pairs.data, b->pairs.size_bytes);
    if (ork_meta_parse(&cursor, b->pair_count, "a.gguf", &meta, &error) != ORK_OK)
        fail_msg("%s", error.what);
    assert_int_equal(ork_cursor_left(&cursor), 0);
    return meta;
}

static void assert_error(const ork_error *error, const char *words, const ork_meta *meta, const char *key)
{
    if (!strstr(error->what, words) || (key && !strstr(error->what, key)))
        fail_msg("wanted '%s' about '%s', got '%s'", words, key ? key : "no key", error->what);
    assert_int_equal(error->code, ORK_BAD_FILE);
    assert_string_equal(error->where, "a.gguf");
    const struct ork_meta_value *value = key ? ork_meta_find(meta, key) : NULL;
    assert_int_equal(error->offset, value ? value->offset : -1);
}

static void test_integers_convert(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_u8(&b, "u8", 200);
    gguf_builder_i8(&b, "i8", 100);
    gguf_builder_u16(&b, "u16", 60000);
    gguf_builder_i16(&b, "i16", 30000);
    gguf_builder_u32(&b, "u32", UINT32_MAX);
    gguf_builder_i32(&b, "i32", INT32_MAX);
    gguf_builder_u64(&b, "u64", UINT32_MAX);
    gguf_builder_i64(&b, "i64", UINT32_MAX);
    gguf_builder_i64(&b, "zero", 0);
    ork_meta *meta = parse(&b);
    static const struct {
        const char *key;
        uint32_t value;
    } cases[] = {{"u8", 200},        {"i8", 100},         {"u16", 60000},      {"i16", 30000}, {"u32", UINT32_MAX},
                 {"i32", INT32_MAX}, {"u64", UINT32_MAX}, {"i64", UINT32_MAX}, {"zero", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t value = 77;
        assert_int_equal(ork_meta_u32(meta, cases[i].key, true, &value, NULL), ORK_OK);
        assert_int_equal(value, cases[i].value);
    }
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

static void test_integers_out_of_range(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_i8(&b, "i8", -1);
    gguf_builder_i16(&b, "i16", INT16_MIN);
    gguf_builder_i32(&b, "i32", INT32_MIN);
    gguf_builder_i64(&b, "i64", INT64_MIN);
    gguf_builder_u64(&b, "u64", UINT64_C(1) << 32);
    gguf_builder_u64(&b, "largest", UINT64_MAX);
    ork_meta *meta = parse(&b);
    static const char *const cases[][2] = {{"i8", "-1 is outside the range 0 to 4294967295"},
                                           {"i16", "-32768 is outside"},
                                           {"i32", "-2147483648 is outside"},
                                           {"i64", "-9223372036854775808 is outside"},
                                           {"u64", "4294967296 is outside"},
                                           {"largest", "18446744073709551615 is outside"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t value = 77;
        ork_error error = {0};
        assert_int_equal(ork_meta_u32(meta, cases[i][0], false, &value, &error), ORK_BAD_FILE);
        assert_error(&error, cases[i][1], meta, cases[i][0]);
        assert_int_equal(value, 77);
    }
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

/* Absent: the default stays; required: an error with the nearest key. */
static void test_absent_keys(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_u32(&b, "llama.block_count", 1);
    ork_meta *meta = parse(&b);
    uint32_t number = 7, numbers[2] = {7, 8};
    float real = 7;
    bool flag = true;
    const char *text = "default";
    uint64_t length = 7;
    const struct ork_meta_value *array = (const struct ork_meta_value *)&b;
    ork_error error = {0};
    assert_int_equal(ork_meta_u32(meta, "x", false, &number, &error), ORK_OK);
    assert_int_equal(ork_meta_f32(meta, "x", false, &real, &error), ORK_OK);
    assert_int_equal(ork_meta_bool(meta, "x", false, &flag, &error), ORK_OK);
    assert_int_equal(ork_meta_string(meta, "x", false, &text, &length, &error), ORK_OK);
    assert_int_equal(ork_meta_u32_array(meta, "x", false, numbers, 2, &error), ORK_OK);
    assert_int_equal(ork_meta_array(meta, "x", false, ORK_META_F32, 0, &array, &error), ORK_OK);
    assert_true(number == 7 && real == 7 && flag && length == 7 && numbers[1] == 8);
    assert_string_equal(text, "default");
    assert_ptr_equal(array, &b);
    assert_int_equal(error.code, ORK_OK);
    assert_int_equal(ork_meta_u32(meta, "x", true, &number, &error), ORK_BAD_FILE);
    assert_error(&error, "metadata key 'x' is missing", meta, NULL);
    assert_null(strstr(error.what, "nearest"));
    assert_int_equal(ork_meta_u32(meta, "llama.block_cuont", true, &number, &error), ORK_BAD_FILE);
    assert_error(&error, "metadata key 'llama.block_cuont' is missing (nearest key there: 'llama.block_count')", meta,
                 NULL);
    assert_int_equal(ork_meta_f32(meta, "x", true, &real, &error), ORK_BAD_FILE);
    assert_int_equal(ork_meta_bool(meta, "x", true, &flag, &error), ORK_BAD_FILE);
    assert_int_equal(ork_meta_string(meta, "x", true, &text, &length, &error), ORK_BAD_FILE);
    assert_int_equal(ork_meta_u32_array(meta, "x", true, numbers, 2, &error), ORK_BAD_FILE);
    assert_int_equal(ork_meta_array(meta, "x", true, ORK_META_F32, 0, &array, NULL), ORK_BAD_FILE);
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

/* Every reader against every type: only the right ones are taken, the others named. */
static void test_wrong_types(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_sample_pairs(&b);
    ork_meta *meta = parse(&b);
    for (size_t i = 0; i < ork_meta_count(meta); i++) {
        const struct ork_meta_value *value = ork_meta_at(meta, i);
        bool array = value->type == ORK_META_ARRAY;
        bool integer = value->element_type <= ORK_META_I32 || value->element_type == ORK_META_U64 ||
                       value->element_type == ORK_META_I64;
        uint32_t number;
        float real;
        bool flag;
        const char *text;
        uint64_t length;
        ork_error error = {0};
        ork_status status = ork_meta_u32(meta, value->key, true, &number, &error);
        if (array || !integer) {
            assert_int_equal(status, ORK_BAD_FILE);
            assert_error(&error, array ? "has type array of " : "has type ", meta, value->key);
            assert_non_null(strstr(error.what, ork_meta_type_name(value->element_type)));
        }
        status = ork_meta_f32(meta, value->key, true, &real, &error);
        assert_int_equal(status, value->type == ORK_META_F32 || value->type == ORK_META_F64 ? ORK_OK : ORK_BAD_FILE);
        status = ork_meta_bool(meta, value->key, true, &flag, &error);
        assert_int_equal(status, value->type == ORK_META_BOOL ? ORK_OK : ORK_BAD_FILE);
        status = ork_meta_string(meta, value->key, true, &text, &length, &error);
        assert_int_equal(status, value->type == ORK_META_STRING ? ORK_OK : ORK_BAD_FILE);
        for (int type = ORK_META_U8; type <= ORK_META_F64; type++) {
            const struct ork_meta_value *found = NULL;
            status = ork_meta_array(meta, value->key, true, (enum ork_meta_type)type, 0, &found, &error);
            assert_int_equal(status, array && (int)value->element_type == type ? ORK_OK : ORK_BAD_FILE);
            assert_ptr_equal(found, status == ORK_OK ? value : NULL);
        }
    }
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

static void test_floats(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_f32(&b, "f32", -0x1p-149f);
    gguf_builder_f64(&b, "f64", 0.1);
    gguf_builder_f64(&b, "largest", (double)FLT_MAX);
    gguf_builder_f64(&b, "tiny", 1e-300);
    gguf_builder_f64(&b, "huge", 1e39);
    gguf_builder_f32(&b, "nan", NAN);
    gguf_builder_f32(&b, "inf", INFINITY);
    gguf_builder_f64(&b, "-inf", -(double)INFINITY);
    ork_meta *meta = parse(&b);
    float value = 0;
    assert_int_equal(ork_meta_f32(meta, "f32", true, &value, NULL), ORK_OK);
    assert_true(value == -0x1p-149f);
    assert_int_equal(ork_meta_f32(meta, "f64", true, &value, NULL), ORK_OK);
    assert_true(value == 0.1f);
    assert_int_equal(ork_meta_f32(meta, "largest", true, &value, NULL), ORK_OK);
    assert_true(value == FLT_MAX);
    assert_int_equal(ork_meta_f32(meta, "tiny", true, &value, NULL), ORK_OK);
    assert_true(value == 0);
    static const char *const bad[] = {"huge", "nan", "inf", "-inf"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ork_error error = {0};
        assert_int_equal(ork_meta_f32(meta, bad[i], true, &value, &error), ORK_BAD_FILE);
        assert_error(&error, "is not a finite 32-bit float", meta, bad[i]);
    }
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

/* Any byte but zero is true. */
static void test_bools(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    static const char *const keys[] = {"0", "1", "2", "255"};
    static const uint8_t bytes[] = {0, 1, 2, 255};
    for (int i = 0; i < 4; i++) {
        gguf_builder_pair(&b, keys[i], ORK_META_BOOL);
        ork_buffer_u8(&b.pairs, bytes[i]);
    }
    ork_meta *meta = parse(&b);
    for (int i = 0; i < 4; i++) {
        bool value = i == 0;
        assert_int_equal(ork_meta_bool(meta, keys[i], true, &value, NULL), ORK_OK);
        assert_int_equal(value, i != 0);
    }
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

static void test_integer_arrays(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_i32_array(&b, "array", (int32_t[]){3, 0, 5}, 3);
    gguf_builder_u16(&b, "scalar", 9);
    gguf_builder_i32_array(&b, "negative", (int32_t[]){1, 2, -3}, 3);
    gguf_builder_f32_array(&b, "floats", (float[]){1, 2, 3}, 3);
    ork_meta *meta = parse(&b);
    uint32_t values[4] = {0};
    ork_error error = {0};
    assert_int_equal(ork_meta_u32_array(meta, "array", true, values, 3, &error), ORK_OK);
    assert_true(values[0] == 3 && values[1] == 0 && values[2] == 5 && values[3] == 0);
    assert_int_equal(ork_meta_u32_array(meta, "scalar", true, values, 4, &error), ORK_OK);
    assert_true(values[0] == 9 && values[1] == 9 && values[2] == 9 && values[3] == 9);
    assert_int_equal(ork_meta_u32_array(meta, "array", true, values, 4, &error), ORK_BAD_FILE);
    assert_error(&error, "has 3 elements, it must have 4", meta, "array");
    assert_int_equal(ork_meta_u32_array(meta, "array", true, values, 2, &error), ORK_BAD_FILE);
    assert_int_equal(ork_meta_u32_array(meta, "floats", true, values, 3, &error), ORK_BAD_FILE);
    assert_error(&error, "has type array of f32, it must be an integer", meta, "floats");
    assert_int_equal(ork_meta_u32_array(meta, "negative", true, values, 3, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "-3 is outside the range"));
    /* The offset is that of the element. */
    assert_int_equal(error.offset, ork_meta_find(meta, "negative")->offset + 8);
    const struct ork_meta_value *array = NULL;
    assert_int_equal(ork_meta_array(meta, "array", true, ORK_META_I32, 4, &array, &error), ORK_BAD_FILE);
    assert_error(&error, "has 3 elements, it must have 4", meta, "array");
    assert_null(array);
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

static void test_strings_with_any_bytes(void **state)
{
    (void)state;
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_pair(&b, "raw", ORK_META_STRING);
    gguf_builder_raw_string(&b.pairs, "a\0\xff\n", 4);
    gguf_builder_array(&b, "list", ORK_META_STRING, 3);
    gguf_builder_raw_string(&b.pairs, "", 0);
    gguf_builder_raw_string(&b.pairs, "\0", 1);
    gguf_builder_raw_string(&b.pairs, "xyz", 3);
    ork_meta *meta = parse(&b);
    const char *text;
    uint64_t length, position = 0;
    assert_int_equal(ork_meta_string(meta, "raw", true, &text, &length, NULL), ORK_OK);
    assert_int_equal(length, 4);
    assert_memory_equal(text, "a\0\xff\n", 4);
    const struct ork_meta_value *list = ork_meta_find(meta, "list");
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(ork_meta_next_string(list, &position, &text, &length));
        assert_int_equal(length, i == 2 ? 3 : i);
    }
    assert_memory_equal(text, "xyz", 3);
    assert_false(ork_meta_next_string(list, &position, &text, &length));
    position = UINT64_MAX;
    assert_false(ork_meta_next_string(list, &position, &text, &length));
    position = 0;
    assert_false(ork_meta_next_string(ork_meta_find(meta, "raw"), &position, &text, &length));
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

static void test_look_up_finds_every_key(void **state)
{
    (void)state;
    struct gguf_builder b;
    char key[32];
    gguf_builder_init(&b);
    for (uint32_t i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "k%u", i * 7919 % 500);
        gguf_builder_u32(&b, key, i * 7919 % 500);
    }
    ork_meta *meta = parse(&b);
    assert_int_equal(ork_meta_count(meta), 500);
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t value = UINT32_MAX;
        snprintf(key, sizeof key, "k%u", i);
        assert_int_equal(ork_meta_u32(meta, key, true, &value, NULL), ORK_OK);
        assert_int_equal(value, i);
    }
    assert_null(ork_meta_find(meta, "k"));
    assert_null(ork_meta_find(meta, ""));
    assert_null(ork_meta_find(meta, "k500"));
    assert_null(ork_meta_find(meta, "z"));
    ork_meta_free(meta);
    gguf_builder_free(&b);
}

/* What is written is what was read, byte for byte, but for dropped keys. */
static void test_rewrite(void **state)
{
    (void)state;
    struct gguf_builder b, kept;
    gguf_builder_init(&b);
    gguf_builder_init(&kept);
    gguf_builder_split(&b, 0, 1, 0);
    gguf_sample_pairs(&b);
    gguf_sample_pairs(&kept);
    gguf_builder_u32(&b, "general.alignment", 32);
    gguf_builder_u32(&b, "split", 1);
    gguf_builder_u32(&kept, "split", 1);
    ork_meta *meta = parse(&b);
    struct ork_buffer all = {0}, some = {0};
    uint64_t count = 0;
    ork_meta_write(meta, NULL, &all, &count);
    assert_int_equal(count, b.pair_count);
    assert_int_equal(all.size_bytes, b.pairs.size_bytes);
    assert_memory_equal(all.data, b.pairs.data, all.size_bytes);
    static const char *const dropped[] = {"split.", "general.alignment", NULL};
    ork_meta_write(meta, dropped, &some, &count);
    assert_int_equal(count, kept.pair_count);
    assert_int_equal(some.size_bytes, kept.pairs.size_bytes);
    assert_memory_equal(some.data, kept.pairs.data, some.size_bytes);
    ork_buffer_free(&all);
    ork_buffer_free(&some);
    ork_meta_free(meta);
    gguf_builder_free(&b);
    gguf_builder_free(&kept);
}

static void test_type_names(void **state)
{
    (void)state;
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    for (int i = 0; i < 13; i++)
        assert_string_equal(ork_meta_type_name((enum ork_meta_type)i), names[i]);
    assert_string_equal(ork_meta_type_name((enum ork_meta_type)13), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_convert),
        cmocka_unit_test(test_integers_out_of_range),
        cmocka_unit_test(test_absent_keys),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_bools),
        cmocka_unit_test(test_integer_arrays),
        cmocka_unit_test(test_strings_with_any_bytes),
        cmocka_unit_test(test_look_up_finds_every_key),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_type_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
