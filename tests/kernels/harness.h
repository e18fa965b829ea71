/* Shared parts of the kernel harness: random numbers that are the same on every machine, buffers between guard pages, a
 * count of checks, and a checksum of outputs. Knows no kernel. */
#ifndef ORK_TESTS_KERNELS_HARNESS_H
#define ORK_TESTS_KERNELS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/kernels.h"

/* ---- the run ---- */

struct harness {
    bool quick, verbose;
    struct ork_kernels tables[ORK_ISA_COUNT]; /* those that this machine can run; tables[0] is the scalar one */
    const char *names[ORK_ISA_COUNT]; /* of the tables */
    uint32_t table_count;
    uint64_t checksums[ORK_ISA_COUNT]; /* FNV-1a over every compared output, one a table */
    uint64_t passed, failed;
    uint64_t seed;
};

/* Counts one check and, when it failed, says what it was (the first 40 times). */
void harness_check(struct harness *h, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
void harness_hash(struct harness *h, uint32_t table, const void *data, size_t size_bytes);
/* Sets the text that is printed when a kernel crashes from here on. */
void harness_now(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs function(context); false when it ended in SIGSEGV, SIGBUS, SIGILL or SIGFPE. */
bool harness_survives(void (*function)(void *context), void *context);

/* ---- random numbers ---- */

uint64_t random_u64(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);
/* Uniform in -1..1, exact in float. */
float random_unit(uint64_t *state);
/* Sum of four uniforms: roughly normal, deviation about 1. */
float random_normal(uint64_t *state);

/* What vectors of floats are made of. */
enum float_style {
    FLOATS_NORMAL,
    FLOATS_SMALL,   /* 1e-3 */
    FLOATS_SMALLER, /* 1e-4 */
    FLOATS_LARGE,   /* 1e4 */
    FLOATS_ZERO,
    FLOATS_SUBNORMAL,
    FLOATS_TINY,   /* 1e-30 */
    FLOATS_HUGE,   /* 1e30 */
    FLOATS_SPREAD, /* magnitudes from 2^-30 to 2^30 mixed, with zeros of both signs */
    FLOATS_FINITE_COUNT,
    FLOATS_NOT_FINITE = FLOATS_FINITE_COUNT /* NaN and infinities among normal numbers */
};
void random_floats(uint64_t *state, enum float_style style, float *out, size_t count);

/* ---- buffers that end exactly at a page without access, and begin soon after one ---- */

struct guarded {
    void *data;
    size_t size_bytes;
    void *mapping;
    size_t mapping_bytes;
};
/* size_bytes may be 0. Exits on lack of memory. The first access beyond either page boundary crashes. */
struct guarded guarded_allocate(size_t size_bytes);
/* The same size, but the data begins exactly after a guard page instead; for reads before the start. */
struct guarded guarded_allocate_front(size_t size_bytes);
void guarded_free(struct guarded *buffer);

/* ---- the parts of the harness ---- */

void check_matmuls(struct harness *h);
void check_vectors(struct harness *h);
void check_surfaces(struct harness *h);
void check_accuracy(struct harness *h);
void check_mask(struct harness *h);
int bench_kernels(struct harness *h, const char *filter);

#endif
