/* Matmuls on bricks of nibbles with the AArch64 baseline: byte products in 16 bits, added in pairs to 32. Included once by a kernel
 * file, with BRICK_NESTED for n8. */
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
                                                             const brick_codes *codes, const bool begins,
                                                             const bool uniform)
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
                const uint8x16_t residual = ork_residual_neon(brick + i * 16, codes);
                const int8x16_t low = ork_low_codes_neon(codes, nibbles, residual);
                const int8x16_t high = ork_high_codes_neon(codes, nibbles, residual);
                sums[i] = ork_dot_neon(ork_dot_neon(vdupq_n_s32(0), low, even), high, odd);
            }
        }
        ork_prefetch_neon(brick);
        int32x4_t total = ork_sum_four_neon(sums);
        vst1q_s32(acc + c, begins ? total : vaddq_s32(total, vld1q_s32(acc + c)));
    }
}

static inline __attribute__((always_inline)) void stream_column(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                                uint32_t count, const brick_codes *codes,
                                                                const bool uniform)
{
    stream_run(acc, bricks, x, codes, true, uniform);
    for (uint32_t t = 1; t < count; t++)
        stream_run(acc, bricks + t * (uint64_t)1024, x + t * 32, codes, false, uniform);
}

#include "kernels/arm/stream_choice.inc.c"

/* Panel: [64 channels][16 even k, 16 odd k], as in split activations. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c++) {
        const uint8x16_t nibbles = vld1q_u8(brick + c * 16);
        const uint8x16_t residual = ork_residual_neon(brick + c * 16, codes);
        vst1q_s8((int8_t *)panel + c * 32, ork_low_codes_neon(codes, nibbles, residual));
        vst1q_s8((int8_t *)panel + c * 32 + 16, ork_high_codes_neon(codes, nibbles, residual));
    }
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"
