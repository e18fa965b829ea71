/* One row times a column of bricks of nibbles, AArch64 dot product. Sums of four channels over one or two bricks stay in
 * registers, are added across, and meet the column's sums in memory once, so that vector units, the narrowest part of
 * these cores, do little besides decoding and multiplying. The loops stand in functions of their own, where
 * bench/mca.sh finds them. */
#include "kernels/arm/codes_4bit_neon.h"
#include "kernels/arm/integer_neon.h"

/* acc[64] = (begins ? 0 : acc) + `together` bricks times x. A uniform code takes one operation where a table takes
 * two: it stays in the upper half of its byte, and sums are sixteen times as large, at most 16 * 8 * 127 * k as those of
 * i8 bricks. */
static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                             const brick_codes *codes, const int together,
                                                             const bool begins, const bool uniform)
{
    const uint8x16_t upper = vdupq_n_u8(0xF0);
    int8x16_t even[2], odd[2];
    for (int t = 0; t < together; t++) {
        even[t] = vld1q_s8(x + t * 32);
        odd[t] = vld1q_s8(x + t * 32 + 16);
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4, bricks += 64) {
        int32x4_t sums[4];
        for (int i = 0; i < 4; i++) {
            sums[i] = vdupq_n_s32(0);
            for (int t = 0; t < together; t++) {
                const uint8x16_t nibbles = vld1q_u8(bricks + t * 1024 + i * 16);
                int8x16_t low, high;
                if (uniform) {
                    low = vreinterpretq_s8_u8(vshlq_n_u8(nibbles, 4));
                    high = vreinterpretq_s8_u8(vandq_u8(nibbles, upper));
                } else {
                    const uint8x16_t residual = ork_residual_neon(bricks + t * 1024 + i * 16, codes);
                    low = ork_low_codes_neon(codes, nibbles, residual);
                    high = ork_high_codes_neon(codes, nibbles, residual);
                }
                sums[i] = vdotq_s32(vdotq_s32(sums[i], low, even[t]), high, odd[t]);
            }
        }
        for (int t = 0; t < together; t++)
            ork_prefetch_neon(bricks + t * 1024);
        int32x4_t total = ork_sum_four_neon(sums);
        if (uniform)
            total = vshrq_n_s32(total, 4);
        vst1q_s32(acc + c, begins ? total : vaddq_s32(total, vld1q_s32(acc + c)));
    }
}

/* Bricks whose sums stay in registers together. Two tables and two planes leave room for one. */
#ifdef BRICK_NESTED
#define BRICKS_TOGETHER 1u
#else
#define BRICKS_TOGETHER 2u
#endif

static inline __attribute__((always_inline)) void stream_column(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                                uint32_t count, const brick_codes *codes,
                                                                const bool uniform)
{
    uint32_t t = BRICKS_TOGETHER;
    if (count < BRICKS_TOGETHER) {
        stream_run(acc, bricks, x, codes, 1, true, uniform);
        return;
    }
    stream_run(acc, bricks, x, codes, BRICKS_TOGETHER, true, uniform);
    for (; t + BRICKS_TOGETHER <= count; t += BRICKS_TOGETHER)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, codes, BRICKS_TOGETHER, false, uniform);
    if (t < count)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, codes, 1, false, uniform);
}

#include "kernels/arm/stream_choice.inc.c"
