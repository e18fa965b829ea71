/* Nibbles of 4-bit bricks (i4, nf4) on AArch64: the table that turns them into codes, and the shorter ways for i4, whose
 * codes are the nibbles themselves. */
#ifndef ORK_KERNELS_ARM_CODES_4BIT_NEON_H
#define ORK_KERNELS_ARM_CODES_4BIT_NEON_H

#include <arm_neon.h>
#include <stdbool.h>

#define BRICK_CHANNELS 64
#define BRICK_BIAS 0

typedef struct {
    int8x16_t table;
    bool uniform; /* i4: a code is the nibble in two's complement */
} brick_codes;

static inline int8x16_t ork_low_codes_neon(int8x16_t table, uint8x16_t nibbles)
{
    return vqtbl1q_s8(table, vandq_u8(nibbles, vdupq_n_u8(15)));
}

static inline int8x16_t ork_high_codes_neon(int8x16_t table, uint8x16_t nibbles)
{
    return vqtbl1q_s8(table, vshrq_n_u8(nibbles, 4));
}

static inline brick_codes ork_i4_codes_neon(void)
{
    static const int8_t codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    return (brick_codes){vld1q_s8(codes), true};
}

static inline brick_codes ork_nf4_codes_neon(const int8_t *table)
{
    return (brick_codes){vld1q_s8(table), false};
}

#endif
