/* Matmuls on 4-bit bricks (i4, nf4) with the AArch64 baseline: byte products in 16 bits, added in pairs to 32. */
#define ORK_VECTOR_NEON

#include "kernels/arm/codes_4bit_neon.h"
#include "kernels/arm/integer_neon.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 4
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* acc[64] = (begins ? 0 : acc) + one brick times x. Four products of an i4 code, at most 8 * 127 each, fit 16 bits. */
static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *brick, const int8_t *x,
                                                             int8x16_t table, const bool begins, const bool uniform)
{
    const int8x16_t even = vld1q_s8(x), odd = vld1q_s8(x + 16);
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4, brick += 64) {
        int32x4_t sums[4];
        for (int i = 0; i < 4; i++) {
            const uint8x16_t nibbles = vld1q_u8(brick + i * 16);
            if (uniform) {
                const int8x16_t low = vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(nibbles, 4)), 4);
                const int8x16_t high = vshrq_n_s8(vreinterpretq_s8_u8(nibbles), 4);
                sums[i] = vpaddlq_s16(ork_multiply_add_neon(ork_multiply_neon(low, even), high, odd));
            } else {
                const int8x16_t low = ork_low_codes_neon(table, nibbles), high = ork_high_codes_neon(table, nibbles);
                sums[i] = ork_dot_neon(ork_dot_neon(vdupq_n_s32(0), low, even), high, odd);
            }
        }
        ork_prefetch_neon(brick);
        int32x4_t total = ork_sum_four_neon(sums);
        vst1q_s32(acc + c, begins ? total : vaddq_s32(total, vld1q_s32(acc + c)));
    }
}

static __attribute__((noinline)) void stream_i4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count)
{
    const int8x16_t unused = vdupq_n_s8(0);
    stream_run(acc, bricks, x, unused, true, true);
    for (uint32_t t = 1; t < count; t++)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, unused, false, true);
}

static __attribute__((noinline)) void stream_nf4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count,
                                                 int8x16_t table)
{
    stream_run(acc, bricks, x, table, true, false);
    for (uint32_t t = 1; t < count; t++)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, table, false, false);
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

/* Panel: [64 channels][16 even k, 16 odd k], as in split activations. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    const int8x16_t table = codes->table;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c++) {
        const uint8x16_t nibbles = vld1q_u8(brick + c * 16);
        vst1q_s8((int8_t *)panel + c * 32, ork_low_codes_neon(table, nibbles));
        vst1q_s8((int8_t *)panel + c * 32 + 16, ork_high_codes_neon(table, nibbles));
    }
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i4_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_i4_codes_neon();
    brick_matmul(args, args->x->split, &codes);
}

void ork_matmul_nf4_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_nf4_codes_neon(args->w->table);
    brick_matmul(args, args->x->split, &codes);
}
