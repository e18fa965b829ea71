/* Guards that a pack broken off anywhere, by a callback or by SIGKILL, is continued to the bytes of an unbroken run, and
 * that nothing is continued that belongs to another source or plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"
#include "pack/source.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static int make_place(void **state)
{
    struct source_place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    source_open_place(place);
    source_write(place);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct source_place *place = *state;
    assert_true(source_close_place(place));
    free(place);
    return 0;
}

/* Progress comes a few times a second at most; waiting in it makes every step of a small pack show. */
struct stopper {
    size_t after_tensors; /* stop, or kill the process, when so many are done */
    bool kill;
    size_t calls;
    uint64_t last_bytes;
};

static bool stop_after(void *context, const ork_progress *progress)
{
    struct stopper *stopper = context;
    const struct timespec wait = {.tv_nsec = 260000000};
    stopper->calls++;
    if (progress->step == NULL || progress->done_bytes < stopper->last_bytes ||
        progress->done_bytes > progress->total_bytes || progress->done_tensors > progress->total_tensors)
        abort();
    stopper->last_bytes = progress->done_bytes;
    if (progress->done_tensors >= stopper->after_tensors) {
        if (stopper->kill)
            kill(getpid(), SIGKILL);
        return false;
    }
    nanosleep(&wait, NULL);
    return true;
}

static void expect_unbroken(const struct source_place *place, const uint8_t *bytes, size_t size)
{
    size_t found_size;
    uint8_t *found = sample_read_file(place->pack, &found_size);
    assert_non_null(found);
    assert_int_equal(found_size, size);
    assert_memory_equal(found, bytes, size);
    assert_false(source_is_there(place->partial));
    assert_false(source_is_there(place->journal));
    free(found);
}

static uint8_t *unbroken(const struct source_place *place, const ork_pack_params *params, size_t *size)
{
    ork_error error;
    assert_int_equal(ork_pack_file(place->gguf, place->pack, params, NULL, &error), ORK_OK);
    uint8_t *bytes = sample_read_file(place->pack, size);
    assert_non_null(bytes);
    assert_int_equal(unlink(place->pack), 0);
    return bytes;
}

/* Runs until so many tensors are done; true when the run was stopped and not finished. */
static void break_off(const struct source_place *place, const ork_pack_params *given, size_t tensors, bool killed)
{
    struct stopper stopper = {.after_tensors = tensors, .kill = killed};
    ork_pack_params params = *given;
    ork_error error = {0};
    params.progress = stop_after;
    params.progress_context = &stopper;
    if (killed) {
        pid_t child = fork();
        int status;
        assert_true(child >= 0);
        if (child == 0) {
            ork_pack_file(place->gguf, place->pack, &params, NULL, &error);
            _exit(1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    } else {
        assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, NULL, &error), ORK_CANCELLED);
        assert_true(stopper.calls > 0);
    }
    assert_false(source_is_there(place->pack));
    assert_true(source_is_there(place->partial));
    assert_true(source_is_there(place->journal));
}

static void check_continues(const struct source_place *place, bool killed)
{
    static const size_t stops[] = {0, 1, 5, SOURCE_TENSORS - SOURCE_SKIPPED};
    const ork_pack_params params = {.threads = 2};
    size_t size;
    uint8_t *bytes = unbroken(place, &params, &size);
    for (size_t i = 0; i < (killed ? 3 : 4); i++) {
        ork_pack_report report;
        ork_error error;
        break_off(place, &params, stops[i], killed);
        assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, &report, &error), ORK_OK);
        assert_int_equal(report.resumed_tensor_count, stops[i]);
        expect_unbroken(place, bytes, size);
        assert_int_equal(unlink(place->pack), 0);
    }
    free(bytes);
}

static void test_a_stopped_pack_continues(void **state)
{
    check_continues(*state, false);
}

static void test_a_killed_pack_continues(void **state)
{
    check_continues(*state, true);
}

/* The report of a continued run is that of the whole pack. */
static void test_the_report_counts_resumed_tensors(void **state)
{
    const struct source_place *place = *state;
    const ork_pack_params params = {.default_tier = "i4", .threads = 1};
    ork_pack_report whole, continued;
    ork_error error;
    assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, &whole, &error), ORK_OK);
    assert_int_equal(unlink(place->pack), 0);
    break_off(place, &params, 4, false);
    assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, &continued, &error), ORK_OK);
    assert_true(continued.mean_relative_error == whole.mean_relative_error);
    assert_true(continued.bits_per_weight == whole.bits_per_weight);
    assert_int_equal(continued.pack_bytes, whole.pack_bytes);
    assert_int_equal(continued.tensor_count, whole.tensor_count);
}

static void expect_fresh_start(const struct source_place *place, const ork_pack_params *params)
{
    ork_pack_report report;
    ork_error error;
    assert_int_equal(ork_pack_file(place->gguf, place->pack, params, &report, &error), ORK_OK);
    assert_int_equal(report.resumed_tensor_count, 0);
    assert_int_equal(unlink(place->pack), 0);
}

static void test_another_plan_or_source_is_not_continued(void **state)
{
    const struct source_place *place = *state;
    static const char *const rules[] = {"attn_q=f16"};
    const ork_pack_params params = {.threads = 1};
    size_t size = 0;
    break_off(place, &params, 1, false);
    expect_fresh_start(place, &(ork_pack_params){.default_tier = "nf4", .threads = 1});
    break_off(place, &params, 1, false);
    expect_fresh_start(place, &(ork_pack_params){.tier_rules = rules, .tier_rule_count = 1, .threads = 1});
    break_off(place, &params, 1, false);
    uint8_t *source = sample_read_file(place->gguf, &size);
    source[size - 1] ^= 1; /* the same names, sizes and places */
    assert_true(gguf_builder_write_bytes(place->gguf, source, size));
    expect_fresh_start(place, &params);
    free(source);
    /* The number of threads is no part of the plan. */
    break_off(place, &params, 1, false);
    ork_pack_report report;
    ork_error error;
    assert_int_equal(ork_pack_file(place->gguf, place->pack, &(ork_pack_params){.threads = 3}, &report, &error),
                     ORK_OK);
    assert_int_equal(report.resumed_tensor_count, 1);
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    const struct source_place *place = *state;
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {100000, 100000};
        ork_error error = {0};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(2);
        ork_status found = ork_pack_file(place->gguf, place->pack, &(ork_pack_params){.threads = 1}, NULL, &error);
        _exit(found == ORK_IO && error.what[0] != 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(source_is_there(place->pack));
    assert_false(source_is_there(place->partial));
    assert_false(source_is_there(place->journal));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_stopped_pack_continues, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_killed_pack_continues, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_the_report_counts_resumed_tensors, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_another_plan_or_source_is_not_continued, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_nothing, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
