/* Owns the buffers that a probe reads, on pages of one kind or the other, and one pass over them. Must not know which
 * patterns are compared.
 *
 * Streams that move in step at a distance of a large power of two want different rows of the same memory bank all the
 * time: on an EPYC, four streams 256 MiB apart read a third of what they read 4 KiB nearer to each other. The distances
 * here are odd multiples of a page, and some lines more, so that streams do not meet in one set of the first cache. */
#include "engine/cpu/probe.h"

#include "base/error.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u
#define SKEW_BYTES 320u /* five lines */

/* The largest distance of that kind in `room_bytes`, at least 2 pages and a half. */
static uint64_t odd_distance(uint64_t room_bytes)
{
    return room_bytes / (2 * PAGE_BYTES) * (2 * PAGE_BYTES) - PAGE_BYTES + SKEW_BYTES;
}

struct fill_region {
    uint8_t *data;
    uint64_t size_bytes;
};

/* Pages that were never written are all one zero page. */
static void fill_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct fill_region *r = context;
    uint64_t begin = r->size_bytes / threads * thread;
    uint64_t end = thread + 1 == threads ? r->size_bytes : r->size_bytes / threads * (thread + 1);
    memset(r->data + begin, 1, end - begin);
}

ork_status ork_probe_buffer_allocate(struct ork_probe *probe, uint64_t size_bytes, bool huge,
                                     struct ork_probe_buffer *buffer, ork_error *error)
{
    *buffer = (struct ork_probe_buffer){.size_bytes = size_bytes, .pages = huge ? "huge" : "4k"};
    buffer->data = ork_pages_allocate(size_bytes);
    if (!buffer->data)
        return ork_error_no_memory(error, "buffer to read", size_bytes);
    buffer->reserved_bytes = size_bytes;
    if (!huge)
        (void)madvise(buffer->data, size_bytes, MADV_NOHUGEPAGE); /* refused where there are none anyway */
    struct fill_region fill = {buffer->data, size_bytes};
    ork_pool_run(probe->pool, probe->threads_most, fill_region, &fill);
    return ORK_OK;
}

ork_status ork_probe_buffer_map(const char *path, uint64_t size_bytes, struct ork_probe_buffer *buffer,
                                ork_error *error)
{
    struct ork_mapping mapping;
    *buffer = (struct ork_probe_buffer){.pages = "file", .is_file = true};
    ork_status status = ork_file_map(path, &mapping, error);
    if (status != ORK_OK)
        return status;
    buffer->data = (uint8_t *)mapping.data; /* read only */
    buffer->reserved_bytes = mapping.reserved_bytes;
    buffer->size_bytes = mapping.size_bytes < size_bytes ? mapping.size_bytes : size_bytes;
    return ORK_OK;
}

void ork_probe_buffer_free(struct ork_probe_buffer *buffer)
{
    if (buffer->is_file) {
        struct ork_mapping mapping = {.data = buffer->data, .reserved_bytes = buffer->reserved_bytes};
        mapping.size_bytes = buffer->reserved_bytes;
        ork_mapping_release(&mapping);
    } else {
        ork_pages_free(buffer->data, buffer->reserved_bytes);
    }
    *buffer = (struct ork_probe_buffer){0};
}

uint64_t ork_probe_huge_page_bytes(const struct ork_probe_buffer *buffer)
{
    char line[512];
    uint64_t begin = 0, end = 0, kilobytes = 0, found = 0;
    const uint64_t first = (uintptr_t)buffer->data, last = first + buffer->size_bytes;
    FILE *stream = fopen("/proc/self/smaps", "re");
    while (stream && fgets(line, sizeof line, stream)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
            continue;
        if (begin < last && end > first && sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1)
            found += kilobytes * 1024;
    }
    if (stream)
        fclose(stream);
    return found < buffer->size_bytes ? found : buffer->size_bytes;
}

struct read_region {
    const struct ork_probe *probe;
    const struct ork_probe_buffer *buffer;
    struct ork_probe_pattern pattern;
    uint64_t thread_bytes, stream_bytes;
    uint64_t sums[ORK_POOL_THREADS_MAX];
};

static void read_region(void *context, uint32_t thread, uint32_t threads)
{
    struct read_region *r = context;
    (void)threads;
    struct ork_probe_streams streams = {
        .begin = r->buffer->data + thread * r->thread_bytes,
        .stride_bytes = r->stream_bytes,
        .stream_bytes = r->stream_bytes,
        .streams = r->pattern.streams,
        .prefetch_bytes = r->pattern.prefetch_bytes,
    };
    r->sums[thread] = r->probe->loops->read(&streams);
}

double ork_probe_read_once(struct ork_probe *probe, const struct ork_probe_buffer *buffer,
                           struct ork_probe_pattern pattern)
{
    struct read_region region = {.probe = probe, .buffer = buffer, .pattern = pattern};
    region.thread_bytes = odd_distance(buffer->size_bytes / pattern.threads);
    region.stream_bytes = odd_distance(region.thread_bytes / pattern.streams);
    double seconds = ork_probe_time(probe, pattern.threads, read_region, &region);
    return (double)region.stream_bytes * pattern.streams * pattern.threads / seconds * 1e-9;
}
