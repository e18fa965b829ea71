/* Matmul on i8 bricks with the AArch64 int8 matrix multiply for several rows; one row streams the bricks with the dot
 * product. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_i8_dotprod.inc.c"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 8
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* Two channels side by side, eight k at a time. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 2)
        for (uint32_t half = 0; half < 2; half++) {
            const uint64x2_t first = vreinterpretq_u64_u8(vld1q_u8(brick + c * 32 + half * 16));
            const uint64x2_t second = vreinterpretq_u64_u8(vld1q_u8(brick + c * 32 + 32 + half * 16));
            uint8_t *out = panel + (half * 2 * BRICK_CHANNELS + c) * 8;
            vst1q_u8(out, vreinterpretq_u8_u64(vzip1q_u64(first, second)));
            vst1q_u8(out + BRICK_CHANNELS * 8, vreinterpretq_u8_u64(vzip2q_u64(first, second)));
        }
}

#include "kernels/arm/multiply_panel_i8mm.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_i8mm(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->plain, &codes);
}
