/* Integer parts that the AArch64 kernels share: byte dots of the baseline, horizontal sums, a 4 by 4 transposition, and
 * how far ahead weights are asked for. */
#ifndef ORK_KERNELS_ARM_INTEGER_NEON_H
#define ORK_KERNELS_ARM_INTEGER_NEON_H

#include <arm_neon.h>

#include "kernels/compiler.h"

/* How far ahead of its reads a kernel asks for weights, in bytes; 0 for not at all. Two bricks take a Cortex-A76 about
 * 400 cycles, the time of a read from memory. Weights of neighbouring calls follow each other, so little of it is
 * wasted. */
#ifndef ORK_NEON_PREFETCH_BYTES
#define ORK_NEON_PREFETCH_BYTES 2048
#endif

/* Asks for one line of weights, which are read once. Never faults, even beyond the end of a plane. */
static inline void ork_prefetch_neon(const uint8_t *weights)
{
    if (ORK_NEON_PREFETCH_BYTES > 0)
        __builtin_prefetch(weights + ORK_NEON_PREFETCH_BYTES, 0, 0);
}

/* The same vector, said to be used here, in the order of these uses: GCC 12 otherwise mixes so many loads and products
 * that it runs out of registers, or moves sums about. */
static inline int32x4_t ork_in_order_neon(int32x4_t sum)
{
    __asm__ volatile("" : "+w"(sum));
    return sum;
}

/* Dword i of the result is the sum of the four dwords of a[i]. */
static inline int32x4_t ork_sum_four_neon(const int32x4_t *a)
{
    return vpaddq_s32(vpaddq_s32(a[0], a[1]), vpaddq_s32(a[2], a[3]));
}

/* a times b, byte by byte, added in pairs (i, i + 8). Two products of at most 128 * 127 fit 16 bits. */
static inline int16x8_t ork_multiply_neon(int8x16_t a, int8x16_t b)
{
    return vmlal_high_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), a, b);
}

/* products + the same. */
static inline int16x8_t ork_multiply_add_neon(int16x8_t products, int8x16_t a, int8x16_t b)
{
    return vmlal_high_s8(vmlal_s8(products, vget_low_s8(a), vget_low_s8(b)), a, b);
}

/* sum + weights times activations without the dot product instruction. */
static inline int32x4_t ork_dot_neon(int32x4_t sum, int8x16_t weights, int8x16_t activations)
{
    return vpadalq_s16(sum, ork_multiply_neon(weights, activations));
}

/* Transposes 4 by 4 dwords in place. */
static inline void ork_transpose_neon(uint8x16_t *a)
{
    uint32x4_t b[4], w[4];
    for (int i = 0; i < 4; i++)
        w[i] = vreinterpretq_u32_u8(a[i]);
    for (int i = 0; i < 2; i++) {
        b[2 * i] = vtrn1q_u32(w[2 * i], w[2 * i + 1]);
        b[2 * i + 1] = vtrn2q_u32(w[2 * i], w[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        uint64x2_t low = vreinterpretq_u64_u32(b[i]), high = vreinterpretq_u64_u32(b[i + 2]);
        a[i] = vreinterpretq_u8_u64(vtrn1q_u64(low, high));
        a[i + 2] = vreinterpretq_u8_u64(vtrn2q_u64(low, high));
    }
}

#endif
