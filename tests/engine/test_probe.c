/* Guards the probes: that their loops do the work that is counted (a read that skips bytes or a sum that is optimised away
 * would show speeds that no machine has), that reports are complete and consistent, that bad wishes are refused. */
#include "engine/cpu/probe.h"

#include "ork/ork.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static const uint32_t stream_counts[] = {1, 2, 4, 8, 16};

/* Every word of every stream once, nothing between the streams. */
static void check_read(const struct ork_probe_kernels *loops, uint32_t streams, uint32_t prefetch_bytes)
{
    enum { LINES = 5, STRIDE_BYTES = (LINES + 2) * 64, WORDS = 16 * STRIDE_BYTES / 8 };
    _Alignas(64) uint64_t words[WORDS];
    uint64_t expected = 0;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = (i * 0x9e3779b97f4a7c15u) ^ i << 7;
    for (size_t stream = 0; stream < streams; stream++)
        for (size_t i = 0; i < LINES * 64 / 8; i++)
            expected += words[stream * STRIDE_BYTES / 8 + i];
    struct ork_probe_streams all = {(const uint8_t *)words, STRIDE_BYTES, LINES * 64, streams, prefetch_bytes};
    assert_true(loops->read(&all) == expected);
}

/* Runs for each instruction set that this machine has. */
static void test_loops_do_what_is_counted(void **state)
{
    (void)state;
    struct ork_kernels kernels;
    uint32_t tested = 0;
    for (int isa = 0; isa < ORK_ISA_COUNT; isa++) {
        if (!ork_kernels_build((enum ork_isa)isa, &kernels))
            continue;
        const struct ork_probe_kernels *loops = ork_probe_kernels_find(kernels.isa);
        assert_int_equal(loops->isa, kernels.isa);
        for (size_t i = 0; i < sizeof stream_counts / sizeof *stream_counts; i++) {
            check_read(loops, stream_counts[i], 0);
            check_read(loops, stream_counts[i], 256);
        }
        for (uint64_t rounds = 0; rounds < 300; rounds += 13) {
            assert_true(loops->dot(rounds) == (uint32_t)(6 * rounds * loops->dot_products));
            assert_true(loops->multiply_add(rounds) == 0.25f * (float)(rounds * loops->multiply_adds));
        }
        tested++;
    }
    assert_true(tested >= 1);
}

static uint32_t integer_tiers(void)
{
    uint32_t count = 0;
    for (uint32_t tier = 0; tier < ORK_TIER_COUNT; tier++) {
        const struct ork_tier_info *info = ork_tier_find(tier);
        count += info && info->quantized;
    }
    return count;
}

static void check_rate(double rate)
{
    assert_true(isfinite(rate) && rate > 0);
}

static void check_tiers(const ork_probe_tier *tiers, size_t count, uint32_t rows)
{
    for (size_t i = 0; i < count; i++) {
        assert_non_null(ork_tier_find_name(tiers[i].tier));
        assert_int_equal(tiers[i].rows, rows);
        check_rate(tiers[i].rate);
        check_rate(tiers[i].fraction);
    }
}

static void check_ceiling(const ork_probe_bandwidth_report *report, const ork_probe_read *ceiling)
{
    bool found = false;
    for (size_t i = 0; i < report->read_count; i++) {
        const ork_probe_read *read = &report->reads[i];
        check_rate(read->median_gb_per_s);
        assert_true(read->best_gb_per_s >= read->median_gb_per_s);
        if (read->threads != ceiling->threads)
            continue;
        assert_true(read->median_gb_per_s <= ceiling->median_gb_per_s);
        found = found || memcmp(read, ceiling, sizeof *read) == 0;
    }
    assert_true(found);
}

static char *make_file(uint64_t size_bytes)
{
    static char path[] = "/tmp/ork-probe-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size_bytes), 0);
    close(fd);
    return path;
}

static void test_bandwidth_report(void **state)
{
    (void)state;
    static const uint32_t thread_counts[] = {1, 3};
    ork_probe_params params = {.thread_counts = thread_counts, .thread_count_count = 2, .buffer_bytes = 3 * MIB + 4096};
    ork_probe_bandwidth_report *report;
    ork_error error;
    params.repetitions = 2;
    char *path = make_file(3 * MIB + 100);
    params.file_path = path;
    ork_status status = ork_probe_bandwidth(&params, &report, &error);
    unlink(path);
    assert_int_equal(status, ORK_OK);
    assert_int_equal(report->buffer_bytes, params.buffer_bytes);
    assert_true(report->huge_page_bytes <= report->buffer_bytes);
    assert_int_equal(report->ceiling_count, 2);
    assert_true(report->read_count == 2 * 2 * 15 || report->read_count == 3 * 2 * 15); /* without huge pages, or with */
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(report->ceilings[i].threads, thread_counts[i]);
        check_ceiling(report, &report->ceilings[i]);
    }
    assert_int_equal(report->tier_count, 2 * integer_tiers());
    check_tiers(report->tiers, report->tier_count, 1);
    free(report); /* what ork_free() does */
}

static void test_quick_bandwidth_is_ceilings_alone(void **state)
{
    (void)state;
    static const uint32_t thread_counts[] = {2};
    ork_probe_params params = {.thread_counts = thread_counts, .thread_count_count = 1, .buffer_bytes = 2 * MIB, .quick = true};
    ork_probe_bandwidth_report *report;
    ork_error error;
    assert_int_equal(ork_probe_bandwidth(&params, &report, &error), ORK_OK);
    assert_int_equal(report->read_count, 4);
    assert_int_equal(report->ceiling_count, 1);
    check_ceiling(report, report->ceilings);
    assert_int_equal(report->tier_count, 0);
    free(report); /* what ork_free() does */
}

static void test_compute_report(void **state)
{
    (void)state;
    static const uint32_t thread_counts[] = {1, 2};
    static const char *const tiers[] = {"nf4", "i8", "nf4"};
    ork_probe_params params = {.thread_counts = thread_counts, .thread_count_count = 2, .repetitions = 1};
    ork_probe_compute_report *report;
    ork_error error;
    params.tiers = tiers;
    params.tier_count = 3;
    assert_int_equal(ork_probe_compute(&params, &report, &error), ORK_OK);
    assert_int_equal(report->peak_count, 4);
    for (size_t i = 0; i < report->peak_count; i++) {
        check_rate(report->peaks[i].median_gmac_per_s);
        assert_int_equal(report->peaks[i].threads, thread_counts[i / 2]);
    }
    assert_int_equal(report->tier_count, 4); /* a tier named twice is measured once */
    check_tiers(report->tiers, report->tier_count, 64);
    free(report); /* what ork_free() does */
}

static void refuse(const ork_probe_params *params, ork_status status, const char *word)
{
    ork_probe_bandwidth_report *report = (void *)1;
    ork_error error;
    assert_int_equal(ork_probe_bandwidth(params, &report, &error), status);
    assert_null(report);
    if (!strstr(error.what, word) && !strstr(error.where, word))
        fail_msg("'%s' says nothing of '%s'", error.what, word);
}

static bool stop(void *context)
{
    int *calls = context;
    return ++*calls > 3;
}

static void test_bad_wishes(void **state)
{
    (void)state;
    static const uint32_t none[] = {0}, many[] = {257}, one[] = {1}, two[] = {2};
    static const char *const unknown[] = {"i9"}, *const floats[] = {"f32"};
    int calls = 0;
    refuse(&(ork_probe_params){.thread_counts = none, .thread_count_count = 1}, ORK_BAD_ARGUMENT, "0 threads");
    refuse(&(ork_probe_params){.thread_counts = many, .thread_count_count = 1}, ORK_BAD_ARGUMENT, "257 threads");
    refuse(&(ork_probe_params){.thread_counts = one, .thread_count_count = 0}, ORK_BAD_ARGUMENT, "thread counts");
    refuse(&(ork_probe_params){.thread_counts = one, .thread_count_count = 33}, ORK_BAD_ARGUMENT, "thread counts");
    refuse(&(ork_probe_params){.thread_counts = two, .thread_count_count = 1, .buffer_bytes = MIB}, ORK_BAD_ARGUMENT, "1 MiB each");
    refuse(&(ork_probe_params){.buffer_bytes = UINT64_MAX}, ORK_BAD_ARGUMENT, "available");
    refuse(&(ork_probe_params){.repetitions = 1001}, ORK_BAD_ARGUMENT, "1001");
    refuse(&(ork_probe_params){.tiers = unknown, .tier_count = 1}, ORK_BAD_ARGUMENT, "i9");
    refuse(&(ork_probe_params){.tiers = floats, .tier_count = 1}, ORK_BAD_ARGUMENT, "f32");
    refuse(&(ork_probe_params){.file_path = "/no/such/pack"}, ORK_NOT_FOUND, "/no/such/pack");
    refuse(&(ork_probe_params){.thread_counts = one, .thread_count_count = 1, .buffer_bytes = MIB, .cancel = stop,
                               .cancel_context = &calls},
           ORK_CANCELLED, "cancelled");
    char *path = make_file(MIB - 1);
    refuse(&(ork_probe_params){.thread_counts = one, .thread_count_count = 1, .file_path = path}, ORK_BAD_ARGUMENT, "too small");
    assert_int_equal(truncate(path, 0), 0);
    refuse(&(ork_probe_params){.thread_counts = one, .thread_count_count = 1, .file_path = path}, ORK_BAD_ARGUMENT, "too small");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops_do_what_is_counted),
        cmocka_unit_test(test_bandwidth_report),
        cmocka_unit_test(test_quick_bandwidth_is_ceilings_alone),
        cmocka_unit_test(test_compute_report),
        cmocka_unit_test(test_bad_wishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
