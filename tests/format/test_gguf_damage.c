/* Guards against damage in general: a valid file cut at every length, and its header changed at every byte, gives an
 * error or a reader that stays within the bytes, never a crash. Meant to run under ASan and UBSan as well. */
#include "format/gguf_exercise.h"
#include "format/gguf_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const uint64_t interesting[] = {0,
                                       1,
                                       2,
                                       8,
                                       9,
                                       31,
                                       32,
                                       INT32_MAX,
                                       UINT64_C(1) << 31,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       UINT64_C(1) << 61,
                                       (UINT64_C(1) << 62) + 1,
                                       INT64_MAX,
                                       UINT64_C(1) << 63,
                                       UINT64_MAX - 31,
                                       UINT64_MAX};

/* Parses an exact copy, so that one byte read too far is seen; uses all of it when it is accepted. */
static bool try_parse(const uint8_t *data, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    memcpy(copy, data, size_bytes);
    ork_status status = ork_gguf_parse(copy, size_bytes, "memory", &gguf, &error);
    if (status == ORK_OK) {
        gguf_exercise(gguf);
    } else {
        assert_null(gguf);
        assert_int_equal(error.code, status);
        assert_true(status == ORK_BAD_FILE || status == ORK_UNSUPPORTED);
        assert_true(error.what[0] != 0 && error.offset >= -1 && error.offset <= (int64_t)size_bytes);
    }
    ork_gguf_close(gguf);
    free(copy);
    return status == ORK_OK;
}

static void test_every_length(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct ork_buffer file = gguf_sample_file(version);
        for (size_t size_bytes = 0; size_bytes < file.size_bytes; size_bytes++)
            assert_false(try_parse(file.data, size_bytes));
        assert_true(try_parse(file.data, file.size_bytes));
        ork_buffer_free(&file);
    }
}

static void test_every_byte(void **state)
{
    (void)state;
    static const uint8_t masks[] = {0x01, 0x02, 0x10, 0x20, 0x80, 0xff};
    struct ork_buffer file = gguf_sample_file(3);
    size_t accepted = 0;
    for (size_t i = 0; i < file.size_bytes; i++) {
        uint8_t byte = file.data[i];
        for (size_t j = 0; j < sizeof masks; j++) {
            file.data[i] = byte ^ masks[j];
            accepted += try_parse(file.data, file.size_bytes);
        }
        file.data[i] = byte;
    }
    /* Values, names and data may change; the structure may not. */
    assert_true(accepted > 0 && accepted < file.size_bytes * sizeof masks);
    ork_buffer_free(&file);
}

/* Lengths, counts, types, dimensions, offsets: each place in the header with each number that is likely to wrap. */
static void test_every_number(void **state)
{
    (void)state;
    struct ork_buffer file = gguf_sample_file(3);
    for (size_t i = 4; i + 8 <= file.size_bytes; i++) {
        uint8_t saved[8];
        memcpy(saved, file.data + i, 8);
        for (size_t j = 0; j < sizeof interesting / sizeof interesting[0]; j++) {
            struct ork_buffer number = {0};
            ork_buffer_u64(&number, interesting[j]);
            for (size_t width = 4; width <= 8; width += 4) {
                memcpy(file.data + i, number.data, width);
                try_parse(file.data, file.size_bytes);
                memcpy(file.data + i, saved, 8);
            }
            ork_buffer_free(&number);
        }
    }
    ork_buffer_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
