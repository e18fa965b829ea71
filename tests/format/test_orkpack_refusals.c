/* Guards what the orkpack reader refuses: files of other kinds, every truncation, every changed byte of the front, and,
 * behind a checksum made right again, every field that could lead outside the file or into another plane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"

#include <math.h>
#include <sys/stat.h>

enum { INDEX = 4096 + 128, PLANES = 8192 };

/* Parses and expects a refusal whose message has `part`. */
static void expect_refusal(const uint8_t *bytes, size_t size, ork_status status, const char *part)
{
    ork_orkpack *pack = (ork_orkpack *)1;
    ork_error error = {0};
    ork_status found = ork_orkpack_parse(bytes, size, "hostile", &pack, &error);
    if (found != status || strstr(error.what, part) == NULL)
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", found, error.what, status, part);
    assert_null(pack);
    assert_string_equal(error.where, "hostile");
    assert_int_equal(error.code, status);
}

static void test_other_files(void **state)
{
    (void)state;
    static const uint8_t foreign[] = "some blobs and then the footer ORKPK01";
    bool is_foreign;
    uint8_t zeros[5000] = {0};
    expect_refusal(NULL, 0, ORK_BAD_FILE, "not an orkpack");
    expect_refusal((const uint8_t *)"abc", 3, ORK_BAD_FILE, "not an orkpack");
    expect_refusal((const uint8_t *)"GGUF\3\0\0\0", 8, ORK_BAD_FILE, "GGUF");
    expect_refusal(zeros, sizeof zeros, ORK_BAD_FILE, "not an orkpack");
    /* The other project's footer has its NUL behind it. */
    expect_refusal(foreign, sizeof foreign, ORK_UNSUPPORTED, "another project");
    expect_refusal(foreign, sizeof foreign - 1, ORK_BAD_FILE, "not an orkpack");
    assert_false(ork_orkpack_recognise(foreign, sizeof foreign, &is_foreign));
    assert_true(is_foreign);
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    assert_true(ork_orkpack_recognise(bytes, size, &is_foreign));
    assert_false(is_foreign);
    assert_true(ork_orkpack_recognise(bytes, size, NULL));
    assert_false(ork_orkpack_recognise(bytes, 7, NULL));
    free(bytes);
}

static void test_paths_that_are_no_files(void **state)
{
    (void)state;
    ork_orkpack *pack;
    ork_error error = {0};
    assert_int_equal(ork_orkpack_open("/nonexistent/x.orkpack", ORK_LOAD_MAP, NULL, NULL, &pack, &error),
                     ORK_NOT_FOUND);
    assert_int_equal(ork_orkpack_open("/tmp", ORK_LOAD_AUTO, NULL, NULL, &pack, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "directory"));
    assert_int_equal(ork_orkpack_open("/dev/null", ORK_LOAD_COPY, NULL, NULL, &pack, &error), ORK_BAD_FILE);
    char directory[] = "/tmp/ork-test-XXXXXX", fifo[64];
    assert_non_null(mkdtemp(directory));
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(ork_orkpack_open(fifo, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "FIFO"));
    unlink(fifo);
    rmdir(directory);
}

/* A copy of exactly the bytes given, so that ASan sees any step beyond. */
static void test_every_truncation(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    for (size_t length = 0; length < size; length += length < PLANES + 64 ? 1 : 61) {
        uint8_t *part = malloc(length + (length == 0));
        ork_orkpack *pack;
        ork_error error = {0};
        assert_non_null(part);
        memcpy(part, bytes, length);
        assert_int_equal(ork_orkpack_parse(part, length, "cut", &pack, &error), ORK_BAD_FILE);
        assert_null(pack);
        assert_true(error.what[0] != 0);
        free(part);
    }
    free(bytes);
}

static void test_every_changed_byte_of_the_front(void **state)
{
    (void)state;
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    for (size_t at = 0; at < PLANES; at++)
        for (size_t i = 0; i < sizeof changes; i++) {
            ork_orkpack *pack;
            ork_error error = {0};
            bytes[at] ^= changes[i];
            ork_status status = ork_orkpack_parse(bytes, size, "changed", &pack, &error);
            assert_true(status == ORK_BAD_FILE || (status == ORK_UNSUPPORTED && at < FIELD_MANDATORY));
            assert_null(pack);
            bytes[at] ^= changes[i];
        }
    free(bytes);
}

/* Behind a right checksum any byte may say anything: the reader must come to an end without harm, and what it accepts
 * must stay inside the file. */
static void test_every_changed_byte_behind_a_right_checksum(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    uint64_t checksum = sample_get_u64(bytes, FIELD_CHECKSUM);
    for (size_t at = FIELD_VERSION; at < PLANES; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t before = bytes[at];
            ork_orkpack *pack;
            ork_error error = {0};
            bytes[at] = values[i];
            if (sample_repair_checksum(bytes, size) &&
                ork_orkpack_parse(bytes, size, "changed", &pack, &error) == ORK_OK) {
                for (size_t t = 0; t < ork_orkpack_tensor_count(pack); t++)
                    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
                        ork_orkpack_verify_plane(pack, ork_orkpack_tensor_at(pack, t), (enum ork_plane_kind)kind,
                                                 &error);
                ork_orkpack_close(pack);
            }
            bytes[at] = before;
            sample_set_u64(bytes, FIELD_CHECKSUM, checksum);
        }
    free(bytes);
}

/* One changed field, the checksum repaired, and the refusal that belongs to it. width 0: one byte. */
struct lie {
    size_t at;
    int width;
    uint64_t value;
    ork_status status;
    const char *message;
};

static void check_lies(const struct lie *lies, size_t count)
{
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    for (size_t i = 0; i < count; i++) {
        uint8_t *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        if (lies[i].width == 8)
            sample_set_u64(copy, lies[i].at, lies[i].value);
        else if (lies[i].width == 4)
            sample_set_u32(copy, lies[i].at, (uint32_t)lies[i].value);
        else
            copy[lies[i].at] = (uint8_t)lies[i].value;
        sample_repair_checksum(copy, size);
        expect_refusal(copy, size, lies[i].status, lies[i].message);
        free(copy);
    }
    free(bytes);
}

static void test_lies_in_the_header(void **state)
{
    (void)state;
    static const struct lie lies[] = {
        {FIELD_VERSION, 4, 2, ORK_UNSUPPORTED, "version 2"},
        {FIELD_VERSION, 4, 0, ORK_UNSUPPORTED, "version 0"},
        {FIELD_HEADER_BYTES, 4, 8192, ORK_BAD_FILE, "do not follow"},
        {FIELD_MANDATORY, 8, 1, ORK_UNSUPPORTED, "mandatory flags 1"},
        {FIELD_MANDATORY, 8, UINT64_C(1) << 63, ORK_UNSUPPORTED, "mandatory flags 8000000000000000"},
        {FIELD_FILE_SIZE, 8, 40959, ORK_BAD_FILE, "should have 40959 bytes and has 40960"},
        {FIELD_METADATA_OFFSET, 8, 4095, ORK_BAD_FILE, "do not follow"},
        {FIELD_METADATA_SIZE, 8, 76, ORK_BAD_FILE, ""},
        {FIELD_METADATA_SIZE, 8, 78, ORK_BAD_FILE, "left over"},
        {FIELD_METADATA_SIZE, 8, UINT64_MAX, ORK_BAD_FILE, "do not follow"},
        {FIELD_METADATA_SIZE, 8, UINT64_MAX - 4096, ORK_BAD_FILE, "do not follow"},
        {FIELD_METADATA_COUNT, 8, 1, ORK_BAD_FILE, "left over"},
        {FIELD_METADATA_COUNT, 8, 3, ORK_BAD_FILE, ""},
        {FIELD_METADATA_COUNT, 8, UINT64_C(1) << 60, ORK_BAD_FILE, "metadata pair"},
        {FIELD_INDEX_OFFSET, 8, INDEX + 64, ORK_BAD_FILE, "do not follow"},
        {FIELD_INDEX_SIZE, 8, 512, ORK_BAD_FILE, "do not follow"},
        {FIELD_TENSOR_COUNT, 8, 4, ORK_BAD_FILE, "do not follow"},
        {FIELD_TENSOR_COUNT, 8, UINT64_C(1) << 56, ORK_BAD_FILE, "limit"},
        {FIELD_PLANES, 8, 4096, ORK_BAD_FILE, "do not follow"},
        {FIELD_PLANES, 8, UINT64_C(1) << 40, ORK_BAD_FILE, "limit"},
        {FIELD_RESERVED, 0, 1, ORK_BAD_FILE, "reserved header bytes"},
        {4095, 0, 1, ORK_BAD_FILE, "reserved header bytes"},
        {4096 + 77, 0, 1, ORK_BAD_FILE, "padding after the metadata"},
        {PLANES - 1, 0, 1, ORK_BAD_FILE, "padding after the index"},
    };
    check_lies(lies, sizeof lies / sizeof lies[0]);
}

static void test_lies_in_the_index(void **state)
{
    (void)state;
    enum { FIRST = INDEX, SECOND = INDEX + ENTRY_BYTES, THIRD = INDEX + 2 * ENTRY_BYTES };
    enum { OFFSET = ENTRY_PLANES, SIZE = ENTRY_PLANES + 8, STRIDE = ENTRY_PLANES + 16, SCALES = 32, TABLE = 64 };
    static const struct lie lies[] = {
        {FIRST, 0, 0, ORK_BAD_FILE, "name of tensor 0"},
        {FIRST, 0, 0x1b, ORK_BAD_FILE, "name of tensor 0"},
        {SECOND + 63, 0, 'x', ORK_BAD_FILE, "name of tensor 1"},
        {SECOND + 40, 0, 'x', ORK_BAD_FILE, "name of tensor 1"},
        {FIRST + ENTRY_DIMENSION_COUNT, 4, 0, ORK_BAD_FILE, "0 dimensions"},
        {FIRST + ENTRY_DIMENSION_COUNT, 4, 5, ORK_BAD_FILE, "5 dimensions"},
        {FIRST + ENTRY_DIMENSION_COUNT, 4, UINT32_MAX, ORK_BAD_FILE, "dimensions"},
        {FIRST + ENTRY_DIMENSIONS, 8, 0, ORK_BAD_FILE, "dimension 0 of 0"},
        {FIRST + ENTRY_DIMENSIONS, 8, UINT64_MAX, ORK_BAD_FILE, "out of range"},
        {FIRST + ENTRY_DIMENSIONS + 8, 8, 2, ORK_BAD_FILE, "dimension 1 of 2"},
        {SECOND + ENTRY_DIMENSIONS + 8, 8, UINT64_C(1) << 60, ORK_BAD_FILE, "out of range"},
        {FIRST + ENTRY_RELATIVE_ERROR, 4, 0x7fc00000, ORK_BAD_FILE, "not finite"},
        {FIRST + ENTRY_SENSITIVITY, 4, 0x7f800000, ORK_BAD_FILE, "not finite"},
        {FIRST + OFFSET, 8, 8191, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + OFFSET, 8, 4096, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + OFFSET, 8, 0, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + OFFSET, 8, 40960, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + OFFSET, 8, UINT64_MAX - 4095, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + OFFSET, 8, 12288, ORK_BAD_FILE, "overlap"},
        {FIRST + SIZE, 8, 4097, ORK_BAD_FILE, "overlap"},
        {FIRST + SIZE, 8, UINT64_MAX, ORK_BAD_FILE, "unaligned or outside"},
        {FIRST + SIZE, 8, 0, ORK_BAD_FILE, "empty data plane"},
        {SECOND + TABLE + SIZE, 8, 16, ORK_BAD_FILE, "table plane"},
        {SECOND + TABLE + OFFSET, 8, 4096, ORK_BAD_FILE, "empty table plane"},
        {THIRD + SIZE, 8, 8192, ORK_BAD_FILE, "leads outside the data plane"},
        {THIRD + STRIDE, 8, 8192, ORK_BAD_FILE, "leads outside the data plane"},
        {THIRD + STRIDE, 8, UINT64_C(1) << 63, ORK_BAD_FILE, "leads outside the data plane"},
        {THIRD + SCALES + STRIDE, 8, 1000, ORK_BAD_FILE, "leads outside the scale plane"},
        {THIRD + ENTRY_DIMENSIONS + 16, 8, 1000, ORK_BAD_FILE, "leads outside the data plane"},
        {THIRD + ENTRY_RESERVED, 0, 1, ORK_BAD_FILE, "reserved index bytes"},
        {THIRD + 255, 0, 1, ORK_BAD_FILE, "reserved index bytes"},
    };
    check_lies(lies, sizeof lies / sizeof lies[0]);
}

static void test_two_tensors_of_one_name(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    memcpy(bytes + INDEX + 2 * ENTRY_BYTES, bytes + INDEX, 64);
    sample_repair_checksum(bytes, size);
    expect_refusal(bytes, size, ORK_BAD_FILE, "two tensors are named output_norm.weight");
    free(bytes);
}

/* A later version may add features that old readers can do without. */
static void test_optional_flags_are_no_matter(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    ork_orkpack *pack;
    ork_error error;
    sample_set_u64(bytes, FIELD_OPTIONAL, UINT64_MAX);
    sample_repair_checksum(bytes, size);
    assert_int_equal(ork_orkpack_parse(bytes, size, "later", &pack, &error), ORK_OK);
    ork_orkpack_close(pack);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_paths_that_are_no_files),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_changed_byte_of_the_front),
        cmocka_unit_test(test_every_changed_byte_behind_a_right_checksum),
        cmocka_unit_test(test_lies_in_the_header),
        cmocka_unit_test(test_lies_in_the_index),
        cmocka_unit_test(test_two_tensors_of_one_name),
        cmocka_unit_test(test_optional_flags_are_no_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
