/* Integer parts that the AArch64 kernels share: horizontal sums and a 4 by 4 transposition. */
#ifndef ORK_KERNELS_ARM_INTEGER_NEON_H
#define ORK_KERNELS_ARM_INTEGER_NEON_H

#include <arm_neon.h>

#include "kernels/compiler.h"

/* Dword i of the result is the sum of the four dwords of a[i]. */
static inline int32x4_t ork_sum_four_neon(const int32x4_t *a)
{
    return vpaddq_s32(vpaddq_s32(a[0], a[1]), vpaddq_s32(a[2], a[3]));
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
