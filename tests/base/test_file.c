/* Guards files as memory: mapping and copying give the same bytes, only regular files are taken, a file that shrinks is
 * an error, large blocks start on huge pages and go back to the system, and a copy leaves no page cache behind. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

enum { MIB = 1 << 20 };

static char folder[32];
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "file-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/data", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 131 + (offset >> 12) * 7 + (offset >> 20));
}

static void write_file(uint64_t size_bytes)
{
    uint8_t *bytes = malloc(size_bytes ? size_bytes : 1);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size_bytes; i++)
        bytes[i] = byte_at(i);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size_bytes, stream), size_bytes);
    assert_int_equal(fflush(stream), 0);
    assert_int_equal(fsync(fileno(stream)), 0); /* clean pages: only those can be dropped */
    assert_int_equal(fclose(stream), 0);
    free(bytes);
}

static void expect_content(const struct ork_mapping *mapping, uint64_t size_bytes)
{
    assert_int_equal(mapping->size_bytes, size_bytes);
    for (uint64_t i = 0; i < size_bytes; i++)
        if (mapping->data[i] != byte_at(i))
            fail_msg("byte %llu is wrong", (unsigned long long)i);
}

static bool is_mapped(const void *address)
{
    return msync((void *)((uintptr_t)address & ~(uintptr_t)4095), 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

struct steps {
    uint32_t count, stop_after; /* stop_after: calls until false is returned, 0 for never */
    uint64_t last_done_bytes, truncate_to_bytes;
};

static bool note_step(void *context, const ork_progress *progress)
{
    struct steps *steps = context;
    assert_true(progress->done_bytes > steps->last_done_bytes && progress->done_bytes <= progress->total_bytes);
    steps->last_done_bytes = progress->done_bytes;
    steps->count++;
    if (steps->truncate_to_bytes)
        assert_int_equal(truncate(path, (off_t)steps->truncate_to_bytes), 0);
    return steps->count != steps->stop_after;
}

static void test_map_and_copy_give_the_files_bytes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4095, 4096, 4097, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 17 * MIB + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_file(sizes[i]);
        struct ork_mapping mapping;
        ork_error error = {0};
        assert_int_equal(ork_file_map(path, &mapping, &error), ORK_OK);
        assert_false(mapping.copied);
        expect_content(&mapping, sizes[i]);
        ork_mapping_release(&mapping);
        assert_null(mapping.data);

        struct steps steps = {0};
        assert_int_equal(ork_file_copy(path, &mapping, note_step, &steps, &error), ORK_OK);
        assert_true(mapping.copied);
        assert_true(mapping.reserved_bytes >= sizes[i]);
        assert_true(steps.count >= 1 && steps.last_done_bytes == sizes[i]);
        expect_content(&mapping, sizes[i]);
        const uint8_t *data = mapping.data;
        ork_mapping_release(&mapping);
        assert_null(mapping.data);
        assert_false(is_mapped(data));
        assert_int_equal(ork_file_copy(path, &mapping, NULL, NULL, NULL), ORK_OK);
        ork_mapping_release(&mapping);
        ork_mapping_release(&mapping);
    }
}

static void test_an_empty_file_is_no_bytes(void **state)
{
    (void)state;
    write_file(0);
    struct ork_mapping mapping;
    memset(&mapping, 0xff, sizeof mapping);
    assert_int_equal(ork_file_map(path, &mapping, NULL), ORK_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.size_bytes, 0);
    ork_mapping_release(&mapping);
    memset(&mapping, 0xff, sizeof mapping);
    assert_int_equal(ork_file_copy(path, &mapping, NULL, NULL, NULL), ORK_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.size_bytes, 0);
    ork_mapping_release(&mapping);
}

/* Both ways of opening refuse with this status and a text that names the kind. */
static void expect_refusal(const char *name, ork_status status, const char *word)
{
    for (int copy = 0; copy < 2; copy++) {
        struct ork_mapping mapping;
        memset(&mapping, 0xff, sizeof mapping);
        ork_error error = {0};
        ork_status got =
            copy ? ork_file_copy(name, &mapping, NULL, NULL, &error) : ork_file_map(name, &mapping, &error);
        assert_int_equal(got, status);
        assert_int_equal(error.code, status);
        assert_string_equal(error.where, name);
        if (!strstr(error.what, word))
            fail_msg("\"%s\" does not say \"%s\"", error.what, word);
        assert_null(mapping.data);
        ork_mapping_release(&mapping);
    }
}

static void test_only_regular_files(void **state)
{
    (void)state;
    expect_refusal(folder, ORK_BAD_FILE, "a directory");
    expect_refusal("/dev/null", ORK_BAD_FILE, "a character device");
    expect_refusal(path, ORK_NOT_FOUND, "cannot open");
    write_file(1);
    char below[80];
    snprintf(below, sizeof below, "%s/below", path);
    expect_refusal(below, ORK_NOT_FOUND, "cannot open");
    unlink(path);
    assert_int_equal(symlink("data", path), 0); /* a link to itself */
    expect_refusal(path, ORK_IO, "cannot open");
}

/* Nobody writes to the FIFO: an open that waits would hang. */
static void test_a_fifo_is_refused_at_once(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(path, ORK_BAD_FILE, "a FIFO");
}

static void test_a_socket_is_refused(void **state)
{
    (void)state;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refusal(path, ORK_IO, "cannot open");
    close(fd);
}

static void test_a_link_to_a_file_is_followed(void **state)
{
    (void)state;
    write_file(5000);
    char link[80];
    snprintf(link, sizeof link, "%s-link", folder);
    char target[80];
    snprintf(target, sizeof target, "%s", path);
    assert_int_equal(symlink(target, link), 0);
    struct ork_mapping mapping;
    assert_int_equal(ork_file_map(link, &mapping, NULL), ORK_OK);
    expect_content(&mapping, 5000);
    ork_mapping_release(&mapping);
    unlink(link);
}

static void test_a_file_that_shrinks_while_it_is_copied(void **state)
{
    (void)state;
    write_file(40 * MIB);
    struct steps steps = {.truncate_to_bytes = 18 * MIB};
    struct ork_mapping mapping;
    ork_error error = {0};
    assert_int_equal(ork_file_copy(path, &mapping, note_step, &steps, &error), ORK_BAD_FILE);
    assert_int_equal(error.offset, 18 * MIB);
    assert_non_null(strstr(error.what, "shorter"));
    assert_null(mapping.data);
    ork_mapping_release(&mapping);
}

static void test_a_copy_can_be_cancelled(void **state)
{
    (void)state;
    write_file(40 * MIB);
    struct steps steps = {.stop_after = 2};
    struct ork_mapping mapping;
    ork_error error = {0};
    assert_int_equal(ork_file_copy(path, &mapping, note_step, &steps, &error), ORK_CANCELLED);
    assert_int_equal(steps.count, 2);
    assert_null(mapping.data);
}

/* Pages of `path` in the page cache. */
static uint64_t cached_pages(uint64_t size_bytes)
{
    uint64_t pages = (size_bytes + 4095) / 4096, count = 0;
    unsigned char *present = calloc(pages, 1);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && present);
    void *data = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(data != MAP_FAILED);
    assert_int_equal(mincore(data, size_bytes, present), 0);
    for (uint64_t i = 0; i < pages; i++)
        count += present[i] & 1;
    munmap(data, size_bytes);
    close(fd);
    free(present);
    return count;
}

static void drop_cache(void)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void test_a_copy_drops_the_page_cache_behind_it(void **state)
{
    (void)state;
    enum { SIZE = 48 * MIB, PAGES = SIZE / 4096 };
    write_file(SIZE);
    uint64_t before = cached_pages(SIZE);
    drop_cache();
    if (before == 0 || cached_pages(SIZE) > PAGES / 10) {
        print_message("SKIPPED: this file system does not drop cached pages when asked\n");
        skip();
    }
    struct ork_mapping mapping;
    assert_int_equal(ork_file_map(path, &mapping, NULL), ORK_OK);
    expect_content(&mapping, SIZE); /* reads every page into the cache */
    ork_mapping_release(&mapping);
    assert_true(cached_pages(SIZE) > PAGES / 2);
    assert_int_equal(ork_file_copy(path, &mapping, NULL, NULL, NULL), ORK_OK);
    uint64_t after = cached_pages(SIZE);
    ork_mapping_release(&mapping);
    if (after > PAGES / 20)
        fail_msg("%llu of %d pages are still cached", (unsigned long long)after, PAGES);
}

static void test_large_blocks_start_on_huge_pages(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {2 * MIB, 2 * MIB + 1, 3 * MIB, 4 * MIB, 33 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *block = ork_pages_allocate(sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % (2 * MIB), 0);
        for (uint64_t at = 0; at < sizes[i]; at += 4096)
            assert_int_equal(block[at], 0);
        block[sizes[i] - 1] = 1;
        ork_pages_free(block, sizes[i]);
        assert_false(is_mapped(block));
        assert_false(is_mapped(block + sizes[i] - 1));
    }
}

static void test_small_blocks_take_small_pages(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4096, 4097, 2 * MIB - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *block = ork_pages_allocate(sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 4096, 0);
        block[0] = 1;
        ork_pages_free(block, sizes[i]);
        assert_false(is_mapped(block));
    }
    ork_pages_free(NULL, 4096);
}

static void test_impossible_blocks_are_refused(void **state)
{
    (void)state;
    assert_null(ork_pages_allocate(UINT64_MAX));
    assert_null(ork_pages_allocate(UINT64_MAX - 4 * MIB));
    assert_null(ork_pages_allocate(UINT64_C(1) << 62));
}

/* A copy is read-only memory: a stray write into weights must not pass. */
static void test_a_copy_is_read_only(void **state)
{
    (void)state;
    write_file(3 * MIB);
    struct ork_mapping mapping;
    assert_int_equal(ork_file_copy(path, &mapping, NULL, NULL, NULL), ORK_OK);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    /* read(2) into the block fails with EFAULT instead of a signal. */
    assert_int_equal(write(pipes[1], "x", 1), 1);
    errno = 0;
    assert_int_equal(read(pipes[0], (void *)mapping.data, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(pipes[0]);
    close(pipes[1]);
    ork_mapping_release(&mapping);
}

static void test_available_memory_is_plausible(void **state)
{
    (void)state;
    uint64_t bytes = ork_memory_available_bytes();
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(bytes > 16 * MIB);
    assert_true(bytes <= all);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_map_and_copy_give_the_files_bytes),
        WITH_FOLDER(test_an_empty_file_is_no_bytes),
        WITH_FOLDER(test_only_regular_files),
        WITH_FOLDER(test_a_fifo_is_refused_at_once),
        WITH_FOLDER(test_a_socket_is_refused),
        WITH_FOLDER(test_a_link_to_a_file_is_followed),
        WITH_FOLDER(test_a_file_that_shrinks_while_it_is_copied),
        WITH_FOLDER(test_a_copy_can_be_cancelled),
        WITH_FOLDER(test_a_copy_drops_the_page_cache_behind_it),
        WITH_FOLDER(test_a_copy_is_read_only),
        cmocka_unit_test(test_large_blocks_start_on_huge_pages),
        cmocka_unit_test(test_small_blocks_take_small_pages),
        cmocka_unit_test(test_impossible_blocks_are_refused),
        cmocka_unit_test(test_available_memory_is_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
