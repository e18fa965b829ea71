/* Matmul on i8 bricks with the AArch64 dot product. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 0
#define BRICK_ROWS 4
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The bricks are read in order; the sums of all channels stay in the first cache. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start;
    (void)codes;
    int32x4_t sums[BRICK_CHANNELS];
    for (uint32_t c = 0; c < BRICK_CHANNELS; c++)
        sums[c] = vdupq_n_s32(0);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const int8x16_t low = vld1q_s8(x), high = vld1q_s8(x + 16);
        for (uint32_t c = 0; c < BRICK_CHANNELS; c++) {
            const int8_t *w = (const int8_t *)bricks + c * 32;
            sums[c] = vdotq_s32(vdotq_s32(sums[c], vld1q_s8(w), low), vld1q_s8(w + 16), high);
            ORK_KEEP_ORDER();
        }
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4)
        vst1q_s32(acc + c, ork_sum_four_neon(sums + c));
}

static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4)
        for (uint32_t half = 0; half < 2; half++) {
            uint8x16_t w[4];
            for (uint32_t i = 0; i < 4; i++)
                w[i] = vld1q_u8(brick + (c + i) * 32 + half * 16);
            ork_transpose_neon(w);
            for (uint32_t q = 0; q < 4; q++)
                vst1q_u8(panel + ((half * 4 + q) * BRICK_CHANNELS + c) * 4, w[q]);
        }
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->plain, &codes);
}
