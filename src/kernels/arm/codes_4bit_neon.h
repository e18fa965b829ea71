/* Nibbles of bricks (i4, nf4, n8) on AArch64: the table that turns them into codes, and the shorter ways for i4, whose
 * codes are the nibbles themselves. With BRICK_NESTED (n8) a second run of nibbles adds to each code. */
#ifndef ORK_KERNELS_ARM_CODES_4BIT_NEON_H
#define ORK_KERNELS_ARM_CODES_4BIT_NEON_H

#include <arm_neon.h>
#include <stdbool.h>

#include "quant/nested.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 0

typedef struct {
    int8x16_t table;
    bool uniform; /* i4: a code is the nibble in two's complement */
#ifdef BRICK_NESTED
    int8x16_t doubled;       /* twice the signed nibbles */
    uint64_t residual_bytes; /* from a base brick to its residual brick */
#endif
} brick_codes;

/* The nibbles of the residual that belong to 16 bytes of base nibbles. */
static inline uint8x16_t ork_residual_neon(const uint8_t *base, const brick_codes *codes)
{
#ifdef BRICK_NESTED
    return vld1q_u8(base + codes->residual_bytes);
#else
    (void)base;
    (void)codes;
    return vdupq_n_u8(0);
#endif
}

static inline int8x16_t ork_low_codes_neon(const brick_codes *codes, uint8x16_t nibbles, uint8x16_t residual)
{
    const int8x16_t base = vqtbl1q_s8(codes->table, vandq_u8(nibbles, vdupq_n_u8(15)));
#ifdef BRICK_NESTED
    return vaddq_s8(base, vqtbl1q_s8(codes->doubled, vandq_u8(residual, vdupq_n_u8(15))));
#else
    (void)residual;
    return base;
#endif
}

static inline int8x16_t ork_high_codes_neon(const brick_codes *codes, uint8x16_t nibbles, uint8x16_t residual)
{
    const int8x16_t base = vqtbl1q_s8(codes->table, vshrq_n_u8(nibbles, 4));
#ifdef BRICK_NESTED
    return vaddq_s8(base, vqtbl1q_s8(codes->doubled, vshrq_n_u8(residual, 4)));
#else
    (void)residual;
    return base;
#endif
}

#ifdef BRICK_NESTED
static inline brick_codes ork_n8_codes_neon(const struct ork_matrix *w)
{
    return (brick_codes){vld1q_s8(w->table), false, vld1q_s8(ork_nested_doubled),
                         ork_nested_residual_bytes(w->n, w->k)};
}
#else
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

#endif
