/* Guards the writer's promise: nothing unfinished has the final name, nothing there is lost, and a run that was broken
 * off anywhere is continued to the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const size_t in_order[SAMPLE_TENSORS] = {0, 1, 2};

struct place {
    char directory[64], path[96], partial[112], journal[112];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/ork-test-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->path, sizeof place->path, "%s/model.orkpack", place->directory);
    snprintf(place->partial, sizeof place->partial, "%s.partial", place->path);
    snprintf(place->journal, sizeof place->journal, "%s.journal", place->path);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    unlink(place->partial);
    unlink(place->journal);
    assert_int_equal(rmdir(place->directory), 0);
    free(place);
    return 0;
}

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void expect_sample(const struct place *place)
{
    size_t size, found_size;
    uint8_t *bytes = sample_bytes(&size), *found = sample_read_file(place->path, &found_size);
    assert_non_null(found);
    assert_int_equal(found_size, size);
    assert_memory_equal(found, bytes, size);
    assert_false(is_there(place->partial));
    assert_false(is_there(place->journal));
    free(bytes);
    free(found);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void expect_text(const char *path, const char *text)
{
    size_t size;
    uint8_t *bytes = sample_read_file(path, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void expect_create(const char *path, bool overwrite, ork_status status, const char *part)
{
    ork_orkpack_writer *writer = (ork_orkpack_writer *)1;
    ork_error error = {0};
    size_t resumed;
    assert_int_equal(sample_create(path, overwrite, SAMPLE_HASH, &writer, &resumed, &error), status);
    assert_null(writer);
    if (strstr(error.what, part) == NULL && strstr(error.where, part) == NULL)
        fail_msg("\"%s: %s\" does not say \"%s\"", error.where, error.what, part);
}

/* Finishes a run that is open, from where it stands. */
static void finish_run(const struct place *place, uint64_t hash, size_t expected_resumed)
{
    ork_orkpack_writer *writer;
    ork_error error = {0};
    size_t resumed;
    uint64_t size;
    assert_int_equal(sample_create(place->path, false, hash, &writer, &resumed, &error), ORK_OK);
    assert_int_equal(resumed, expected_resumed);
    for (size_t i = 0; i < SAMPLE_TENSORS; i++)
        if (!ork_orkpack_writer_is_done(writer, i))
            assert_int_equal(sample_put(writer, i, &error), ORK_OK);
        else
            assert_true(ork_orkpack_writer_relative_error(writer, i) == 0.25f * (float)i);
    assert_int_equal(ork_orkpack_writer_finish(writer, &size, &error), ORK_OK);
    expect_sample(place);
}

/* Starts a run, writes the first `count` tensors and breaks off as after a cancel. */
static void break_off(const struct place *place, uint64_t hash, size_t count)
{
    ork_orkpack_writer *writer;
    ork_error error = {0};
    size_t resumed;
    assert_int_equal(sample_create(place->path, false, hash, &writer, &resumed, &error), ORK_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sample_put(writer, i, &error), ORK_OK);
    ork_orkpack_writer_abandon(writer, true);
    assert_false(is_there(place->path));
    assert_true(is_there(place->partial));
    assert_true(is_there(place->journal));
}

static void test_an_existing_output_is_kept(void **state)
{
    const struct place *place = *state;
    ork_error error;
    write_text(place->path, "precious");
    expect_create(place->path, false, ORK_EXISTS, "exists already");
    expect_text(place->path, "precious");
    assert_false(is_there(place->partial));
    assert_false(is_there(place->journal));
    assert_int_equal(sample_write(place->path, true, in_order, &error), ORK_OK);
    expect_sample(place);
}

/* The output comes into being while the pack is written. */
static void test_a_late_output_is_kept(void **state)
{
    const struct place *place = *state;
    ork_orkpack_writer *writer;
    ork_error error;
    size_t resumed;
    assert_int_equal(sample_create(place->path, false, SAMPLE_HASH, &writer, &resumed, &error), ORK_OK);
    for (size_t i = 0; i < SAMPLE_TENSORS; i++)
        assert_int_equal(sample_put(writer, i, &error), ORK_OK);
    write_text(place->path, "precious");
    assert_int_equal(ork_orkpack_writer_finish(writer, NULL, &error), ORK_EXISTS);
    expect_text(place->path, "precious");
}

static void test_a_dangling_link_is_an_output(void **state)
{
    const struct place *place = *state;
    assert_int_equal(symlink("/nonexistent/elsewhere", place->path), 0);
    expect_create(place->path, false, ORK_EXISTS, "exists already");
}

static void test_links_in_place_of_the_partial_are_not_followed(void **state)
{
    const struct place *place = *state;
    char victim[128];
    snprintf(victim, sizeof victim, "%s/victim", place->directory);
    write_text(victim, "precious");
    assert_int_equal(symlink(victim, place->partial), 0);
    expect_create(place->path, false, ORK_IO, "cannot write");
    expect_text(victim, "precious");
    assert_int_equal(unlink(place->partial), 0);
    assert_int_equal(symlink(victim, place->journal), 0);
    expect_create(place->path, false, ORK_IO, "journal");
    expect_text(victim, "precious");
    assert_int_equal(unlink(victim), 0);
}

static void test_outputs_that_cannot_be(void **state)
{
    const struct place *place = *state;
    char path[160];
    expect_create("/nonexistent/directory/x.orkpack", false, ORK_NOT_FOUND, "/nonexistent/directory");
    expect_create("", false, ORK_BAD_ARGUMENT, "file name");
    expect_create(place->directory, false, ORK_BAD_ARGUMENT, "not a regular file");
    expect_create(place->directory, true, ORK_BAD_ARGUMENT, "not a regular file");
    snprintf(path, sizeof path, "%s/", place->directory);
    expect_create(path, false, ORK_BAD_ARGUMENT, "file name");
    expect_create("/dev/null", true, ORK_BAD_ARGUMENT, "not a regular file");
    write_text(place->path, "a file");
    snprintf(path, sizeof path, "%s/x.orkpack", place->path);
    expect_create(path, false, ORK_NOT_FOUND, "directory");
    /* sysfs takes no files, not even from root */
    if (is_there("/sys"))
        expect_create("/sys/x.orkpack", false, ORK_IO, "cannot write");
}

static void test_a_missing_tensor_is_no_pack(void **state)
{
    const struct place *place = *state;
    ork_orkpack_writer *writer;
    ork_error error;
    size_t resumed;
    assert_int_equal(sample_create(place->path, false, SAMPLE_HASH, &writer, &resumed, &error), ORK_OK);
    assert_int_equal(sample_put(writer, 0, &error), ORK_OK);
    assert_int_equal(ork_orkpack_writer_finish(writer, NULL, &error), ORK_FAILURE);
    assert_string_equal(error.where, "output.weight");
    assert_false(is_there(place->path));
}

static void test_abandon_without_keeping_leaves_nothing(void **state)
{
    const struct place *place = *state;
    ork_orkpack_writer *writer;
    ork_error error;
    size_t resumed;
    assert_int_equal(sample_create(place->path, false, SAMPLE_HASH, &writer, &resumed, &error), ORK_OK);
    assert_int_equal(sample_put(writer, 0, &error), ORK_OK);
    ork_orkpack_writer_abandon(writer, false);
    assert_false(is_there(place->path));
    assert_false(is_there(place->partial));
    assert_false(is_there(place->journal));
}

static void test_a_broken_run_continues_to_the_same_bytes(void **state)
{
    const struct place *place = *state;
    for (size_t count = 0; count <= SAMPLE_TENSORS; count++) {
        break_off(place, SAMPLE_HASH, count);
        finish_run(place, SAMPLE_HASH, count);
        assert_int_equal(unlink(place->path), 0);
    }
}

static void test_another_plan_starts_afresh(void **state)
{
    const struct place *place = *state;
    break_off(place, SAMPLE_HASH, 2);
    finish_run(place, SAMPLE_HASH + 1, 0);
}

/* Records are believed only if the bytes are there: after a power cut the journal may be ahead of the data. */
static void test_damaged_data_is_written_again(void **state)
{
    const struct place *place = *state;
    break_off(place, SAMPLE_HASH, SAMPLE_TENSORS);
    int file = open(place->partial, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, "damage", 6, 12288 + 100), 6); /* in the data of tensor 1 */
    close(file);
    finish_run(place, SAMPLE_HASH, SAMPLE_TENSORS - 1);
}

static void test_a_shortened_partial_is_written_again(void **state)
{
    const struct place *place = *state;
    break_off(place, SAMPLE_HASH, SAMPLE_TENSORS);
    assert_int_equal(truncate(place->partial, 20480), 0); /* tensor 2 is gone */
    finish_run(place, SAMPLE_HASH, SAMPLE_TENSORS - 1);
}

static void test_every_truncation_and_change_of_the_journal(void **state)
{
    const struct place *place = *state;
    enum { IDENTITY = 40, RECORD = 48 };
    size_t size;
    for (size_t at = 0; at < IDENTITY + 2 * RECORD; at += 3)
        for (int change = 0; change < 2; change++) {
            break_off(place, SAMPLE_HASH, 2);
            uint8_t *journal = sample_read_file(place->journal, &size);
            assert_int_equal(size, IDENTITY + 2 * RECORD);
            int file = open(place->journal, O_RDWR);
            uint8_t changed = (uint8_t)(journal[at] ^ 0x40);
            if (change)
                assert_int_equal(pwrite(file, &changed, 1, (off_t)at), 1);
            else
                assert_int_equal(ftruncate(file, (off_t)at), 0);
            close(file);
            free(journal);
            finish_run(place, SAMPLE_HASH, at < IDENTITY ? 0 : (at - IDENTITY) / RECORD);
            assert_int_equal(unlink(place->path), 0);
        }
}

static void test_a_journal_without_its_partial(void **state)
{
    const struct place *place = *state;
    break_off(place, SAMPLE_HASH, 2);
    assert_int_equal(unlink(place->partial), 0);
    finish_run(place, SAMPLE_HASH, 0);
    assert_int_equal(unlink(place->path), 0);
    break_off(place, SAMPLE_HASH, 2);
    assert_int_equal(unlink(place->journal), 0);
    finish_run(place, SAMPLE_HASH, 0);
}

static void test_two_runs_at_once(void **state)
{
    const struct place *place = *state;
    ork_orkpack_writer *writer;
    ork_error error = {0};
    size_t resumed;
    assert_int_equal(sample_create(place->path, false, SAMPLE_HASH, &writer, &resumed, &error), ORK_OK);
    assert_int_equal(sample_put(writer, 0, &error), ORK_OK);
    expect_create(place->path, false, ORK_EXISTS, "another run");
    for (size_t i = 1; i < SAMPLE_TENSORS; i++)
        assert_int_equal(sample_put(writer, i, &error), ORK_OK);
    assert_int_equal(ork_orkpack_writer_finish(writer, NULL, &error), ORK_OK);
    expect_sample(place);
}

static void test_killed_after_each_tensor(void **state)
{
    const struct place *place = *state;
    for (size_t count = 0; count <= SAMPLE_TENSORS; count++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            ork_orkpack_writer *writer;
            ork_error error;
            size_t resumed;
            if (sample_create(place->path, false, SAMPLE_HASH, &writer, &resumed, &error) != ORK_OK)
                _exit(1);
            for (size_t i = 0; i < count; i++)
                if (sample_put(writer, i, &error) != ORK_OK)
                    _exit(1);
            kill(getpid(), SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_false(is_there(place->path));
        finish_run(place, SAMPLE_HASH, count);
        assert_int_equal(unlink(place->path), 0);
    }
}

/* A file size limit stands for a disk that is full: 1 means the child saw the error it should. */
static int write_under_limit(const struct place *place, rlim_t limit)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ork_error error = {0};
        const struct rlimit rlimit = {limit, limit};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &rlimit) != 0)
            _exit(2);
        ork_status status = sample_write(place->path, false, in_order, &error);
        _exit(status == ORK_IO && strstr(error.what, "size") != NULL ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_no_room_for_the_file(void **state)
{
    const struct place *place = *state;
    static const rlim_t limits[] = {0, 100, 4096, 20000, 40959};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i] >= 100) /* below, the journal itself does not fit and is what the error names */
            assert_int_equal(write_under_limit(place, limits[i]), 1);
        else
            assert_int_not_equal(write_under_limit(place, limits[i]), 2);
        assert_false(is_there(place->path));
        assert_false(is_there(place->partial));
        assert_false(is_there(place->journal));
    }
    assert_int_equal(write_under_limit(place, 40960), 0);
    expect_sample(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_existing_output_is_kept, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_late_output_is_kept, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_dangling_link_is_an_output, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_links_in_place_of_the_partial_are_not_followed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_outputs_that_cannot_be, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_missing_tensor_is_no_pack, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_abandon_without_keeping_leaves_nothing, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_broken_run_continues_to_the_same_bytes, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_another_plan_starts_afresh, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_damaged_data_is_written_again, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_shortened_partial_is_written_again, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_every_truncation_and_change_of_the_journal, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_journal_without_its_partial, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_two_runs_at_once, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_killed_after_each_tensor, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_no_room_for_the_file, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
