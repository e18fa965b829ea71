/* One row times a column of 4-bit bricks, AArch64 dot product. Sums of four channels over one or two bricks stay in
 * registers, are added across, and meet the column's sums in memory once, so that vector units, the narrowest part of
 * these cores, do little besides decoding and multiplying. The loops stand in functions of their own, where
 * bench/mca.sh finds them. */
#include "kernels/arm/codes_4bit_neon.h"
#include "kernels/arm/integer_neon.h"

/* acc[64] = (begins ? 0 : acc) + `together` bricks times x. A uniform code takes one operation where a table takes
 * two: it stays in the upper half of its byte, and sums are sixteen times as large, at most 16 * 8 * 127 * k as those of
 * i8 bricks. */
static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                             int8x16_t table, const int together, const bool begins,
                                                             const bool uniform)
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
                int8x16_t low =
                    uniform ? vreinterpretq_s8_u8(vshlq_n_u8(nibbles, 4)) : ork_low_codes_neon(table, nibbles);
                int8x16_t high =
                    uniform ? vreinterpretq_s8_u8(vandq_u8(nibbles, upper)) : ork_high_codes_neon(table, nibbles);
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

static inline __attribute__((always_inline)) void stream_column(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                                uint32_t count, int8x16_t table, const bool uniform)
{
    uint32_t t = 2;
    if (count == 1) {
        stream_run(acc, bricks, x, table, 1, true, uniform);
        return;
    }
    stream_run(acc, bricks, x, table, 2, true, uniform);
    for (; t + 2 <= count; t += 2)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, table, 2, false, uniform);
    if (t < count)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, table, 1, false, uniform);
}

static __attribute__((noinline)) void stream_i4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count)
{
    stream_column(acc, bricks, x, count, vdupq_n_s8(0), true);
}

static __attribute__((noinline)) void stream_nf4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count,
                                                 int8x16_t table)
{
    stream_column(acc, bricks, x, count, table, false);
}

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start; /* BRICK_BIAS is 0 */
    if (codes->uniform)
        stream_i4(acc, bricks, x, count);
    else
        stream_nf4(acc, bricks, x, count, codes->table);
}
