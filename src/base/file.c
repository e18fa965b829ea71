/* Owns mapping and copying of files into memory, and large anonymous pages; must not know formats. */
#include "base/file.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20, COPY_STEP_BYTES = 16 << 20 };

static const char *kind_name(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "not a regular file";
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
static ork_status open_regular(const char *path, int *descriptor, uint64_t *size_bytes, ork_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ork_error_errno(error, path, "cannot open");
    struct stat info;
    ork_status status = ORK_OK;
    if (fstat(fd, &info) != 0)
        status = ork_error_errno(error, path, "cannot stat");
    else if (!S_ISREG(info.st_mode))
        status = ork_error_set(error, ORK_BAD_FILE, path, -1, "is %s, not a regular file", kind_name(info.st_mode));
    if (status != ORK_OK) {
        close(fd);
        return status;
    }
    *descriptor = fd;
    *size_bytes = (uint64_t)info.st_size;
    return ORK_OK;
}

ork_status ork_file_map(const char *path, struct ork_mapping *mapping, ork_error *error)
{
    int fd = -1;
    *mapping = (struct ork_mapping){0};
    ork_status status = open_regular(path, &fd, &mapping->size_bytes, error);
    if (status != ORK_OK)
        return status;
    if (mapping->size_bytes > SIZE_MAX) {
        status = ork_error_set(error, ORK_LIMIT, path, -1, "file too large to map");
        goto out;
    }
    if (mapping->size_bytes) {
        void *data = mmap(NULL, mapping->size_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            status = ork_error_errno(error, path, "cannot map");
            goto out;
        }
        mapping->data = data;
        mapping->reserved_bytes = mapping->size_bytes;
    }
out:
    close(fd);
    return status;
}

void *ork_pages_allocate(uint64_t size_bytes)
{
    uint64_t rounded, reserved;
    if (size_bytes == 0)
        size_bytes = 1;
    if (size_bytes < HUGE_PAGE_BYTES) {
        void *small = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return small == MAP_FAILED ? NULL : small;
    }
    if (!ork_checked_align(size_bytes, HUGE_PAGE_BYTES, &rounded) ||
        !ork_checked_add(rounded, HUGE_PAGE_BYTES, &reserved) || reserved > SIZE_MAX)
        return NULL;
    /* Reserve one huge page more and give back both ends, so that the block starts on a huge page. */
    uint8_t *start = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    uint8_t *aligned = (uint8_t *)ork_round_up((uintptr_t)start, HUGE_PAGE_BYTES);
    size_t before = (size_t)(aligned - start), after = reserved - rounded - before;
    if (before)
        munmap(start, before);
    if (after)
        munmap(aligned + rounded, after);
    /* A kernel without transparent huge pages refuses; small pages work as well. */
    (void)madvise(aligned, rounded, MADV_HUGEPAGE);
    return aligned;
}

void ork_pages_free(void *pages, uint64_t size_bytes)
{
    if (!pages)
        return;
    if (size_bytes == 0)
        size_bytes = 1;
    munmap(pages, size_bytes < HUGE_PAGE_BYTES ? size_bytes : ork_round_up(size_bytes, HUGE_PAGE_BYTES));
}

static ork_status read_all(int fd, const char *path, uint8_t *out, uint64_t size_bytes,
                           ork_progress_function progress, void *context, ork_error *error)
{
    uint64_t done = 0;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    while (done < size_bytes) {
        uint64_t step = size_bytes - done < COPY_STEP_BYTES ? size_bytes - done : COPY_STEP_BYTES;
        ssize_t got = pread(fd, out + done, step, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ork_error_errno(error, path, "cannot read");
        if (got == 0)
            return ork_error_set(error, ORK_BAD_FILE, path, (int64_t)done, "file became shorter while it was read");
        /* The copy replaces the cached pages; keeping both would need twice the memory. */
        (void)posix_fadvise(fd, (off_t)done, got, POSIX_FADV_DONTNEED);
        done += (uint64_t)got;
        struct ork_progress state = {.step = "load", .done_bytes = done, .total_bytes = size_bytes};
        if (progress && !progress(context, &state))
            return ork_error_set(error, ORK_CANCELLED, path, -1, "loading was cancelled");
    }
    return ORK_OK;
}

ork_status ork_file_copy(const char *path, struct ork_mapping *mapping, ork_progress_function progress, void *context,
                         ork_error *error)
{
    int fd = -1;
    *mapping = (struct ork_mapping){0};
    ork_status status = open_regular(path, &fd, &mapping->size_bytes, error);
    if (status != ORK_OK)
        return status;
    if (mapping->size_bytes) {
        uint8_t *pages = ork_pages_allocate(mapping->size_bytes);
        if (!pages) {
            status = ork_error_no_memory(error, path, mapping->size_bytes);
            goto out;
        }
        mapping->data = pages;
        mapping->reserved_bytes = mapping->size_bytes;
        mapping->copied = true;
        status = read_all(fd, path, pages, mapping->size_bytes, progress, context, error);
        if (status == ORK_OK && mprotect(pages, mapping->size_bytes, PROT_READ) != 0)
            status = ork_error_errno(error, path, "cannot protect");
        if (status != ORK_OK)
            ork_mapping_release(mapping);
    }
out:
    close(fd);
    return status;
}

void ork_mapping_release(struct ork_mapping *mapping)
{
    if (mapping->data && mapping->copied)
        ork_pages_free((void *)mapping->data, mapping->size_bytes);
    else if (mapping->data)
        munmap((void *)mapping->data, mapping->size_bytes);
    *mapping = (struct ork_mapping){0};
}

/* The number after `key` in a small text file, 0 if it is not there (cgroup files say "max" for none). */
static uint64_t read_number(const char *path, const char *key)
{
    char text[8192];
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t ork_memory_available_bytes(void)
{
    uint64_t available = read_number("/proc/meminfo", "MemAvailable:") * 1024;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "");
    if (limit) {
        /* Page cache counts as used but can be taken back. */
        uint64_t used = read_number("/sys/fs/cgroup/memory.current", "");
        uint64_t cache = read_number("/sys/fs/cgroup/memory.stat", "inactive_file ");
        used = used > cache ? used - cache : 0;
        uint64_t left = limit > used ? limit - used : 0;
        if (!available || left < available)
            available = left;
    }
    return available;
}
