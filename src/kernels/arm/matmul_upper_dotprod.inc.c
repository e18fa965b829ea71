/* Matmul on bricks with upper bits with the AArch64 dot product. Included once by a kernel file that has defined UPPER_BITS
 * (1 or 2) and UPPER_RUN, the name of the kernel. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_upper_dotprod.inc.c"
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
    (void)codes;
    for (uint32_t part = 0; part < BRICK_CHANNELS; part += 4 * PART_RUNS) {
        uint8x16_t upper[4];
        load_upper(upper, brick);
        brick += 64;
        for (uint32_t c = part; c < part + 4 * PART_RUNS; c += 4, brick += 64) {
            uint8x16_t even[4], odd[4];
            for (uint32_t i = 0; i < 4; i++) {
                int8x16_t low, high;
                expand_channel(&low, &high, &upper[i], brick + i * 16);
                even[i] = vreinterpretq_u8_s8(low);
                odd[i] = vreinterpretq_u8_s8(high);
            }
            ork_transpose_neon(even);
            ork_transpose_neon(odd);
            for (uint32_t q = 0; q < 4; q++) {
                vst1q_u8(panel + (q * BRICK_CHANNELS + c) * 4, even[q]);
                vst1q_u8(panel + ((q + 4) * BRICK_CHANNELS + c) * 4, odd[q]);
            }
        }
    }
}

#include "kernels/arm/multiply_panel_dotprod.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
