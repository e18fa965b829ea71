/* Matmuls on bricks of nibbles with the AArch64 dot product. Included once by a kernel
 * file, with BRICK_NESTED for n8. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_4bit_dotprod.inc.c"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 4
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* Groups of 4 k follow the split activations: four groups of even k, then four of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4) {
        uint8x16_t nibbles[4], residual[4];
        for (uint32_t i = 0; i < 4; i++) {
            nibbles[i] = vld1q_u8(brick + (c + i) * 16);
            residual[i] = ork_residual_neon(brick + (c + i) * 16, codes);
        }
        ork_transpose_neon(nibbles);
        ork_transpose_neon(residual);
        for (uint32_t q = 0; q < 4; q++) {
            vst1q_s8((int8_t *)panel + (q * BRICK_CHANNELS + c) * 4,
                     ork_low_codes_neon(codes, nibbles[q], residual[q]));
            vst1q_s8((int8_t *)panel + ((q + 4) * BRICK_CHANNELS + c) * 4,
                     ork_high_codes_neon(codes, nibbles[q], residual[q]));
        }
    }
}

#include "kernels/arm/multiply_panel_dotprod.inc.c"
#include "kernels/matmul_brick.inc.c"
