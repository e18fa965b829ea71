/* Loops that show what a machine can do at most, with nothing around them: plain reads of memory, and the instructions
 * that matmuls are made of. One set an instruction set. Knows no clock, no threads, no matrices. */
#ifndef ORK_KERNELS_PROBE_H
#define ORK_KERNELS_PROBE_H

#include "kernels/kernels.h"

/* `streams` streams of stream_bytes each (a multiple of 64), the first at `begin` (64-byte aligned), each stride_bytes
 * behind the one before (a multiple of 64). */
struct ork_probe_streams {
    const uint8_t *begin;
    uint64_t stride_bytes, stream_bytes;
    uint32_t streams;        /* 1, 2, 4, 8 or 16 */
    uint32_t prefetch_bytes; /* how far ahead of each line another is prefetched into the first cache; 0: none */
};

struct ork_probe_kernels {
    enum ork_isa isa;
    /* Reads all streams, one 64-byte line of each in turn. The result depends on every byte. */
    uint64_t (*read)(const struct ork_probe_streams *streams);
    /* Products 3 * 2 of int8 by the instruction that matmuls use, added into independent int32 sums in registers. Returns
     * their total modulo 2^32. */
    const char *dot_name; /* "vpdpbusd zmm" */
    uint32_t dot_products; /* multiply-adds a round */
    uint32_t (*dot)(uint64_t rounds);
    /* The same with float products 0.5 * 0.5. */
    const char *multiply_add_name; /* "vfmadd231ps zmm" */
    uint32_t multiply_adds;        /* a round */
    float (*multiply_add)(uint64_t rounds);
};

/* For the best instruction set of a table (struct ork_kernels.isa), which the caller knows that the machine runs. */
const struct ork_probe_kernels *ork_probe_kernels_find(enum ork_isa isa);

extern const struct ork_probe_kernels ork_probe_kernels_scalar;
#if defined(__x86_64__)
extern const struct ork_probe_kernels ork_probe_kernels_avx2;
extern const struct ork_probe_kernels ork_probe_kernels_avxvnni;
extern const struct ork_probe_kernels ork_probe_kernels_avx512;
#elif defined(__aarch64__)
extern const struct ork_probe_kernels ork_probe_kernels_neon;
extern const struct ork_probe_kernels ork_probe_kernels_dotprod;
extern const struct ork_probe_kernels ork_probe_kernels_i8mm;
#endif

#endif
