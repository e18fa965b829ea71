/* Plain reads of memory, shared by the instruction sets: included where PROBE_VECTOR_BYTES is the width of a register.
 * Owns the order of reading. */
#include "kernels/compiler.h"
#include "kernels/probe.h"

typedef uint64_t probe_vector __attribute__((vector_size(PROBE_VECTOR_BYTES), aligned(PROBE_VECTOR_BYTES), may_alias));

enum { PROBE_LINE_BYTES = 64, PROBE_LINE_VECTORS = PROBE_LINE_BYTES / PROBE_VECTOR_BYTES, PROBE_SUMS = 4 };

/* One line of each stream in turn. count and prefetches are constants where this is inlined. */
static inline __attribute__((always_inline)) uint64_t read_lines(const struct ork_probe_streams *streams, uint32_t count,
                                                                 bool prefetches)
{
    const uint64_t stride = streams->stride_bytes, ahead = streams->prefetch_bytes;
    const uint8_t *line = streams->begin, *end = line + streams->stream_bytes;
    probe_vector sums[PROBE_SUMS] = {{0}};
    for (; line < end; line += PROBE_LINE_BYTES) {
#pragma GCC unroll 16
        for (uint32_t stream = 0; stream < count; stream++) {
            const probe_vector *vectors = (const probe_vector *)(line + stream * stride);
            if (prefetches)
                __builtin_prefetch((const uint8_t *)vectors + ahead, 0, 3);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < PROBE_LINE_VECTORS; i++)
                sums[(stream * PROBE_LINE_VECTORS + i) % PROBE_SUMS] += vectors[i];
        }
        ORK_KEEP_ORDER();
    }
    const probe_vector all = sums[0] + sums[1] + sums[2] + sums[3];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sizeof all / sizeof sum; i++)
        sum += all[i];
    return sum;
}

static uint64_t probe_read(const struct ork_probe_streams *streams)
{
    const bool prefetches = streams->prefetch_bytes > 0;
    switch (streams->streams) {
    case 2:
        return prefetches ? read_lines(streams, 2, true) : read_lines(streams, 2, false);
    case 4:
        return prefetches ? read_lines(streams, 4, true) : read_lines(streams, 4, false);
    case 8:
        return prefetches ? read_lines(streams, 8, true) : read_lines(streams, 8, false);
    case 16:
        return prefetches ? read_lines(streams, 16, true) : read_lines(streams, 16, false);
    default:
        return prefetches ? read_lines(streams, 1, true) : read_lines(streams, 1, false);
    }
}
