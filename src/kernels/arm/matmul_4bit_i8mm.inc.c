/* Matmuls on bricks of nibbles with the AArch64 int8 matrix multiply for several rows; one row streams the bricks
 * with the dot product. Included once by a kernel
 * file, with BRICK_NESTED for n8. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_4bit_dotprod.inc.c"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 8
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The nibbles of two channels as two groups: the lower eight bytes of both, then the upper ones. */
static inline void pair_channels(uint8x16_t *groups, uint8x16_t first, uint8x16_t second)
{
    const uint64x2_t a = vreinterpretq_u64_u8(first), b = vreinterpretq_u64_u8(second);
    groups[0] = vreinterpretq_u8_u64(vzip1q_u64(a, b));
    groups[1] = vreinterpretq_u8_u64(vzip2q_u64(a, b));
}

/* Groups of 8 k follow the split activations: two groups of even k, then two of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 2, brick += 32) {
        uint8x16_t nibbles[2], residual[2];
        pair_channels(nibbles, vld1q_u8(brick), vld1q_u8(brick + 16));
        pair_channels(residual, ork_residual_neon(brick, codes), ork_residual_neon(brick + 16, codes));
        for (uint32_t q = 0; q < 2; q++) {
            vst1q_s8((int8_t *)panel + (q * BRICK_CHANNELS + c) * 8,
                     ork_low_codes_neon(codes, nibbles[q], residual[q]));
            vst1q_s8((int8_t *)panel + ((q + 2) * BRICK_CHANNELS + c) * 8,
                     ork_high_codes_neon(codes, nibbles[q], residual[q]));
        }
    }
}

#include "kernels/arm/multiply_panel_i8mm.inc.c"
#include "kernels/matmul_brick.inc.c"
