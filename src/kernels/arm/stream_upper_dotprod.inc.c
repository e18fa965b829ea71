/* One row times a column of bricks with upper bits, AArch64 dot product. As with 4-bit bricks, sums of four channels over
 * one or two bricks stay in registers and meet the column's sums in memory once. The loops stand in a function of their
 * own, where bench/mca.sh finds them. */
#include <stdbool.h>

#include "kernels/arm/codes_upper_neon.h"
#include "kernels/arm/integer_neon.h"

/* One part of `together` bricks: acc[4 channels a run] = (begins ? start : acc) + codes times x. */
static inline __attribute__((always_inline)) void stream_part(int32_t *acc, const uint8_t *part, const int8x16_t *even,
                                                              const int8x16_t *odd, int32_t start, const int together,
                                                              const bool begins)
{
    uint8x16_t upper[2][4];
    for (int t = 0; t < together; t++)
        load_upper(upper[t], part + t * BRICK_BYTES);
    part += 64;
    for (int run = 0; run < PART_RUNS; run++, acc += 4, part += 64) {
        int32x4_t sums[4];
        for (int i = 0; i < 4; i++) {
            sums[i] = vdupq_n_s32(0);
            for (int t = 0; t < together; t++) {
                int8x16_t low, high;
                expand_channel(&low, &high, &upper[t][i], part + t * BRICK_BYTES + i * 16);
                sums[i] = vdotq_s32(vdotq_s32(sums[i], low, even[t]), high, odd[t]);
            }
        }
        for (int t = 0; t < together; t++)
            ork_prefetch_neon(part + t * BRICK_BYTES);
        vst1q_s32(acc, vaddq_s32(ork_sum_four_neon(sums), begins ? vdupq_n_s32(start) : vld1q_s32(acc)));
    }
}

static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                             int32_t start, const int together, const bool begins)
{
    int8x16_t even[2], odd[2];
    for (int t = 0; t < together; t++) {
        even[t] = vld1q_s8(x + t * 32);
        odd[t] = vld1q_s8(x + t * 32 + 16);
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4 * PART_RUNS, bricks += PART_BYTES)
        stream_part(acc + c, bricks, even, odd, start, together, begins);
}

static __attribute__((noinline)) void stream_column(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                    uint32_t count, int32_t start)
{
    uint32_t t = 2;
    if (count == 1) {
        stream_run(acc, bricks, x, start, 1, true);
        return;
    }
    stream_run(acc, bricks, x, start, 2, true);
    for (; t + 2 <= count; t += 2)
        stream_run(acc, bricks + t * (uint64_t)BRICK_BYTES, x + t * 32, 0, 2, false);
    if (t < count)
        stream_run(acc, bricks + t * (uint64_t)BRICK_BYTES, x + t * 32, 0, 1, false);
}

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)codes;
    stream_column(acc, bricks, x, count, start);
}
