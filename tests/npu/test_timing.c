/* Guards the timing model: published measurements that are claimed to be reproduced must stay within 20 %, rows that are
 * not claimed must still miss (else the reason beside them is stale), the fit must have fewer figures than rows, work is
 * counted as the formulas say, and bad board files are refused with the key named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "published.h"

static void test_published(void **state)
{
    (void)state;
    const struct ork_npu_profile *profile = ork_npu_profile_builtin();
    assert_non_null(profile);
    unsigned fitted = 0, claimed = 0, wrong = 0;
    for (unsigned i = 0; i < published_row_count; i++) {
        const struct published_row *row = &published_rows[i];
        const double error = published_model(profile, row) / row->value - 1;
        const bool within = error <= PUBLISHED_TOLERANCE && error >= -PUBLISHED_TOLERANCE;
        fitted += row->use == PUBLISHED_FIT;
        claimed += !row->reason;
        if (within != !row->reason) {
            print_error("row %u \"%s\" (%s): %+.1f %%, %s\n", i, row->what, row->source, error * 100,
                        row->reason ? row->reason : "claimed");
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(fitted >= 4 * 6); /* six figures are fitted: tools/fit_npu_timing.py */
    assert_true(claimed * 5 >= published_row_count * 4);
}

static struct ork_npu_work work_of(enum ork_npu_type type, uint32_t m, uint32_t k, uint32_t n)
{
    struct ork_npu_work work = {0};
    const struct ork_npu_shape shape = {.type = type, .m = m, .k = k, .n = n};
    ork_npu_work_add(&work, &shape);
    return work;
}

static void test_work(void **state)
{
    (void)state;
    struct ork_npu_work work = work_of(ORK_NPU_W8A8, 100, 64, 96);
    assert_int_equal(work.cycles[ORK_NPU_W8A8], 100 * 3 * 2);
    assert_int_equal(work.cycles[ORK_NPU_W4A4], 0);
    assert_int_equal(work.weight_bytes, 64 * 96);
    assert_int_equal(work.weight_bytes_i4, 0);
    assert_int_equal(work.feature_bytes, 100 * 64);
    assert_int_equal(work.output_bytes, 100 * 96 * 4);
    assert_int_equal(work.tasks, 1);
    work = work_of(ORK_NPU_W4A4, 1, 96, 128);
    assert_int_equal(work.cycles[ORK_NPU_W4A4], 8 * 2 * 3); /* the load of a block takes 8 cycles */
    assert_int_equal(work.weight_bytes, 96 * 64);
    assert_int_equal(work.weight_bytes_i4, 96 * 64);
    assert_int_equal(work.output_bytes, 256);
    const struct ork_npu_shape more = {.type = ORK_NPU_W8A8, .m = 8, .k = 32, .n = 32};
    ork_npu_work_add(&work, &more);
    assert_int_equal(work.tasks, 2);
    assert_int_equal(work.weight_bytes, 96 * 64 + 1024);
    assert_int_equal(work.weight_bytes_i4, 96 * 64);
}

static void test_job(void **state)
{
    (void)state;
    struct ork_npu_profile profile = *ork_npu_profile_builtin();
    struct ork_npu_work work = work_of(ORK_NPU_W8A8, 1, 4096, 4096);
    const double alone = ork_npu_timing_job(&profile, &work, 1), together = ork_npu_timing_job(&profile, &work, 3);
    assert_true(ork_npu_timing_job(&profile, &work, 0) == alone);
    assert_true(together > alone * 1.1); /* three cores share the bus */
    assert_true(together < alone * 3);
    /* Computing dominates with many rows, and then the clock counts. */
    work = work_of(ORK_NPU_W8A8, 2000, 4096, 4096);
    const double slow = ork_npu_timing_job(&profile, &work, 1);
    profile.clock_hz *= 2;
    profile.core_bytes_per_s *= 2;
    profile.task_us /= 2;
    assert_true(ork_npu_timing_job(&profile, &work, 1) < slow * 0.51);
    struct ork_npu_profile wide = *ork_npu_profile_builtin();
    wide.macs_per_cycle[ORK_NPU_W8A8] *= 2;
    assert_true(ork_npu_timing_job(&wide, &work, 1) < slow);
    const struct ork_npu_work none = {0};
    assert_true(ork_npu_timing_job(&profile, &none, 1) == 0);
}

static char *board_text(size_t *size)
{
    FILE *file = fopen(ORK_SOURCE_DIR "/boards/rk3588.json", "rb");
    assert_non_null(file);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    *size = fread(text, 1, 65535, file);
    fclose(file);
    return text;
}

static void test_builtin_is_the_file(void **state)
{
    (void)state;
    struct ork_npu_profile profile;
    ork_error error;
    assert_int_equal(ork_npu_profile_read(ORK_SOURCE_DIR "/boards/rk3588.json", &profile, &error), ORK_OK);
    assert_memory_equal(&profile, ork_npu_profile_builtin(), sizeof profile);
    assert_string_equal(profile.name, "rk3588");
    assert_int_equal(profile.cores, 3);
}

/* The board file with the first `find` replaced. */
static void refuse(const char *find, const char *replace, ork_status code, const char *named)
{
    size_t size;
    char *text = board_text(&size);
    char *at = strstr(text, find);
    assert_non_null(at);
    char *changed = calloc(1, size + strlen(replace) + 1);
    assert_non_null(changed);
    memcpy(changed, text, (size_t)(at - text));
    strcat(strcat(changed, replace), at + strlen(find));
    struct ork_npu_profile profile;
    memset(&profile, 0x5a, sizeof profile);
    const struct ork_npu_profile before = profile;
    ork_error error = {0};
    assert_int_equal(ork_npu_profile_parse(changed, strlen(changed), "a board", &profile, &error), code);
    assert_memory_equal(&profile, &before, sizeof profile);
    if (!strstr(error.what, named))
        fail_msg("\"%s\" does not name \"%s\"", error.what, named);
    assert_string_equal(error.where, "a board");
    free(changed);
    free(text);
}

static void test_bad_files(void **state)
{
    (void)state;
    refuse("ork-board", "other", ORK_BAD_FILE, "format");
    refuse("\"version\": 1", "\"version\": 2", ORK_UNSUPPORTED, "version 2");
    refuse("\"version\": 1", "\"version\": \"1\"", ORK_BAD_FILE, "version");
    refuse("\"name\": \"rk3588\"", "\"name\": \"\"", ORK_BAD_FILE, "name");
    refuse("\"name\": \"rk3588\"", "\"name\": \"0123456789012345678901234567890123456789\"", ORK_BAD_FILE, "name");
    refuse("\"npu\"", "\"gpu\"", ORK_BAD_FILE, "npu");
    refuse("\"cpu\"", "\"gpu\"", ORK_BAD_FILE, "cpu");
    refuse("\"task_us\"", "\"tusk_us\"", ORK_BAD_FILE, "npu.task_us");
    refuse("\"task_us\"", "\"tusk_us\": {\"value\": 1, \"source\": \"x\"}, \"task_us\"", ORK_BAD_FILE, "npu.tusk_us");
    refuse("\"cores\": {\"value\": 3", "\"cores\": {\"value\": 4", ORK_BAD_FILE, "1 to 3");
    refuse("\"cores\": {\"value\": 3", "\"cores\": {\"value\": 2.5", ORK_BAD_FILE, "npu.cores");
    refuse("\"cores\": {\"value\": 3", "\"cores\": {\"value\": \"3\"", ORK_BAD_FILE, "npu.cores");
    refuse("\"cores\": {\"value\": 3", "\"cores\": {\"count\": 3", ORK_BAD_FILE, "npu.cores");
    refuse("\"value\": 18,", "\"value\": -18,", ORK_BAD_FILE, "npu.task_us");
    refuse("\"value\": 18,", "\"value\": 1e308,", ORK_BAD_FILE, "npu.task_us");
    refuse("\"value\": 18, \"source\"", "\"value\": 18, \"sauce\"", ORK_BAD_FILE, "npu.task_us");
    refuse("[1024, 2048]", "[1024]", ORK_BAD_FILE, "npu.macs_per_cycle");
    refuse("[1024, 2048]", "[1024, 2048, 1]", ORK_BAD_FILE, "npu.macs_per_cycle");
    refuse("[1024, 2048]", "1024", ORK_BAD_FILE, "npu.macs_per_cycle");
    refuse("[0.93, 0.93]", "[0.93, 1.5]", ORK_BAD_FILE, "npu.efficiency");
    refuse("[22.7e9, 24.4e9]", "[24.4e9, 22.7e9]", ORK_BAD_FILE, "cpu.bytes_per_s");
    refuse("{", "[", ORK_BAD_FILE, "line 2");
    refuse("\"version\": 1,", "\"version\": 1, \"version\": 1,", ORK_BAD_FILE, "line");
}

static void test_cut_files(void **state)
{
    (void)state;
    size_t size;
    char *text = board_text(&size);
    struct ork_npu_profile profile;
    ork_error error;
    for (size_t length = 0; length + 3 < size; length += 7) {
        char *copy = malloc(length + 1); /* its own block, so that a read past the end is seen */
        assert_non_null(copy);
        memcpy(copy, text, length);
        assert_int_equal(ork_npu_profile_parse(copy, length, "cut", &profile, &error), ORK_BAD_FILE);
        free(copy);
    }
    char *large = calloc(1, 70000);
    assert_non_null(large);
    memset(large, ' ', 70000);
    memcpy(large, text, size);
    assert_int_equal(ork_npu_profile_parse(large, 70000, "large", &profile, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "70000"));
    assert_int_equal(ork_npu_profile_parse(large, 65536, "large", &profile, &error), ORK_OK);
    /* As deep as fits: refused without running out of stack. */
    memset(large, '[', 65536);
    assert_int_equal(ork_npu_profile_parse(large, 65536, "deep", &profile, &error), ORK_BAD_FILE);
    free(large);
    free(text);
    assert_int_equal(ork_npu_profile_read(ORK_SOURCE_DIR "/boards", &profile, &error), ORK_BAD_FILE);
    assert_int_equal(ork_npu_profile_read(ORK_SOURCE_DIR "/boards/none.json", &profile, &error), ORK_NOT_FOUND);
    assert_int_equal(ork_npu_profile_read("/dev/null", &profile, &error), ORK_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_work),
        cmocka_unit_test(test_job),       cmocka_unit_test(test_builtin_is_the_file),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_cut_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
