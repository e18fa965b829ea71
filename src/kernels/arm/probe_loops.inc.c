/* Probe loops of the Arm instruction sets: included where PROBE_DOT(sum, x, y) adds PROBE_DOT_PRODUCTS products of int8
 * vectors into four int32. */
#define PROBE_VECTOR_BYTES 16
#include "kernels/probe_read.inc.c"

#include <arm_neon.h>

enum { CHAINS = 12 };

/* As ORK_KEEP_IN_REGISTER, for Arm's registers. */
#define KEEP(vector) __asm__("" : "+w"(vector))

static uint32_t probe_dot(uint64_t rounds)
{
    int32x4_t sums[CHAINS];
    int8x16_t x = vdupq_n_s8(3);
    const int8x16_t y = vdupq_n_s8(2);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = vdupq_n_s32(0);
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            KEEP(x);
            sums[i] = PROBE_DOT(sums[i], x, y);
            KEEP(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++)
        sums[0] = vaddq_s32(sums[0], sums[i]);
    return (uint32_t)vaddvq_s32(sums[0]);
}

static float probe_multiply_add(uint64_t rounds)
{
    float32x4_t sums[CHAINS];
    const float32x4_t x = vdupq_n_f32(0.5f);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = vdupq_n_f32(0);
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = vfmaq_f32(sums[i], x, x);
            KEEP(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++)
        sums[0] = vaddq_f32(sums[0], sums[i]);
    return vaddvq_f32(sums[0]);
}

#define PROBE_KERNELS(row_isa, row_dot_name)                                                                           \
    {                                                                                                                  \
        .isa = (row_isa), .read = probe_read, .dot_name = (row_dot_name), .dot_products = CHAINS * PROBE_DOT_PRODUCTS, \
        .dot = probe_dot, .multiply_add_name = "fmla 4s", .multiply_adds = CHAINS * 4,                                 \
        .multiply_add = probe_multiply_add,                                                                            \
    }
