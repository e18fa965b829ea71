/* Matmuls on 4-bit bricks (i4, nf4) with the AArch64 dot product: nibbles become codes by a lookup in the 16-entry
 * table. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 0
#define BRICK_ROWS 4
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

typedef int8x16_t brick_codes; /* the table */

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The bricks are read in order; the sums of all channels stay in the first cache. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start;
    const uint8x16_t mask = vdupq_n_u8(15);
    const int8x16_t table = *codes;
    int32x4_t sums[BRICK_CHANNELS];
    for (uint32_t c = 0; c < BRICK_CHANNELS; c++)
        sums[c] = vdupq_n_s32(0);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const int8x16_t even = vld1q_s8(x), odd = vld1q_s8(x + 16);
        for (uint32_t c = 0; c < BRICK_CHANNELS; c++) {
            const uint8x16_t nibbles = vld1q_u8(bricks + c * 16);
            int32x4_t sum = vdotq_s32(sums[c], vqtbl1q_s8(table, vandq_u8(nibbles, mask)), even);
            sums[c] = vdotq_s32(sum, vqtbl1q_s8(table, vshrq_n_u8(nibbles, 4)), odd);
            ORK_KEEP_ORDER();
        }
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4)
        vst1q_s32(acc + c, ork_sum_four_neon(sums + c));
}

/* Groups of 4 k follow the split activations: four groups of even k, then four of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    const uint8x16_t mask = vdupq_n_u8(15);
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4) {
        uint8x16_t nibbles[4];
        for (uint32_t i = 0; i < 4; i++)
            nibbles[i] = vld1q_u8(brick + (c + i) * 16);
        ork_transpose_neon(nibbles);
        for (uint32_t q = 0; q < 4; q++) {
            int8x16_t even = vqtbl1q_s8(*codes, vandq_u8(nibbles[q], mask));
            int8x16_t odd = vqtbl1q_s8(*codes, vshrq_n_u8(nibbles[q], 4));
            vst1q_s8((int8_t *)panel + (q * BRICK_CHANNELS + c) * 4, even);
            vst1q_s8((int8_t *)panel + ((q + 4) * BRICK_CHANNELS + c) * 4, odd);
        }
    }
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i4_neon(const struct ork_matmul_args *args)
{
    static const int8_t codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    const brick_codes table = vld1q_s8(codes);
    brick_matmul(args, args->x->split, &table);
}

void ork_matmul_nf4_neon(const struct ork_matmul_args *args)
{
    const brick_codes table = vld1q_s8(args->w->table);
    brick_matmul(args, args->x->split, &table);
}
