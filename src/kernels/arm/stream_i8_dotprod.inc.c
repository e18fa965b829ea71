/* One row times a column of i8 bricks, AArch64 dot product; built as stream_4bit_dotprod.inc.c is. */
#include <stdbool.h>

#include "kernels/arm/integer_neon.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 0

typedef struct {
    int unused;
} brick_codes;

/* acc[32] = (begins ? 0 : acc) + `together` bricks times x. */
static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                             const int together, const bool begins)
{
    int8x16_t low[2], high[2];
    for (int t = 0; t < together; t++) {
        low[t] = vld1q_s8(x + t * 32);
        high[t] = vld1q_s8(x + t * 32 + 16);
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4, bricks += 128) {
        int32x4_t sums[4];
        for (int i = 0; i < 4; i++) {
            sums[i] = vdupq_n_s32(0);
            for (int t = 0; t < together; t++) {
                const int8_t *w = (const int8_t *)bricks + t * 1024 + i * 32;
                sums[i] = vdotq_s32(vdotq_s32(sums[i], vld1q_s8(w), low[t]), vld1q_s8(w + 16), high[t]);
            }
        }
        for (int t = 0; t < together; t++) {
            ork_prefetch_neon(bricks + t * 1024);
            ork_prefetch_neon(bricks + t * 1024 + 64);
        }
        int32x4_t total = ork_sum_four_neon(sums);
        vst1q_s32(acc + c, begins ? total : vaddq_s32(total, vld1q_s32(acc + c)));
    }
}

static __attribute__((noinline)) void stream_i8(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count)
{
    uint32_t t = 2;
    if (count == 1) {
        stream_run(acc, bricks, x, 1, true);
        return;
    }
    stream_run(acc, bricks, x, 2, true);
    for (; t + 2 <= count; t += 2)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, 2, false);
    if (t < count)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, 1, false);
}

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start; /* BRICK_BIAS is 0 */
    (void)codes;
    stream_i8(acc, bricks, x, count);
}
