/* Matmuls on 4-bit bricks (i4, nf4) with the AArch64 int8 matrix multiply for several rows; one row streams the bricks
 * with the dot product. */
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

/* Groups of 8 k follow the split activations: two groups of even k, then two of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    const int8x16_t table = codes->table;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 2) {
        const uint64x2_t first = vreinterpretq_u64_u8(vld1q_u8(brick + c * 16));
        const uint64x2_t second = vreinterpretq_u64_u8(vld1q_u8(brick + c * 16 + 16));
        const uint8x16_t nibbles[2] = {vreinterpretq_u8_u64(vzip1q_u64(first, second)),
                                       vreinterpretq_u8_u64(vzip2q_u64(first, second))};
        for (uint32_t q = 0; q < 2; q++) {
            vst1q_s8((int8_t *)panel + (q * BRICK_CHANNELS + c) * 8, ork_low_codes_neon(table, nibbles[q]));
            vst1q_s8((int8_t *)panel + ((q + 2) * BRICK_CHANNELS + c) * 8, ork_high_codes_neon(table, nibbles[q]));
        }
    }
}

#include "kernels/arm/multiply_panel_i8mm.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i4_i8mm(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_i4_codes_neon();
    brick_matmul(args, args->x->split, &codes);
}

void ork_matmul_nf4_i8mm(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_nf4_codes_neon(args->w->table);
    brick_matmul(args, args->x->split, &codes);
}
