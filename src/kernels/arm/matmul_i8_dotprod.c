/* Matmul on i8 bricks with the AArch64 dot product. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_i8_dotprod.inc.c"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 4
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

static inline v16 panel_to_natural(v16 a)
{
    return a;
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

#include "kernels/arm/multiply_panel_dotprod.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_dotprod(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->plain, &codes);
}
