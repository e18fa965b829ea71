/* Matmul on bricks with upper bits with the AArch64 int8 matrix multiply for several rows; one row streams the bricks with
 * the dot product. Included once by a kernel file that has defined UPPER_BITS (1 or 2) and UPPER_RUN, the name of the
 * kernel. */
#define ORK_VECTOR_NEON

#include "kernels/arm/stream_upper_dotprod.inc.c"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_ROWS 8
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* 8 k of two channels each, first and second half of 16, to their places in the panel. */
static inline void store_pair(uint8_t *panel, int8x16_t first, int8x16_t second)
{
    const int64x2_t a = vreinterpretq_s64_s8(first), b = vreinterpretq_s64_s8(second);
    vst1q_s64((int64_t *)(void *)panel, vzip1q_s64(a, b));
    vst1q_s64((int64_t *)(void *)(panel + BRICK_CHANNELS * 8), vzip2q_s64(a, b));
}

/* Groups of 8 k follow the split activations: two groups of even k, then two of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t part = 0; part < BRICK_CHANNELS; part += 4 * PART_RUNS) {
        uint8x16_t upper[4];
        load_upper(upper, brick);
        brick += 64;
        for (uint32_t c = part; c < part + 4 * PART_RUNS; c += 4)
            for (uint32_t i = 0; i < 4; i += 2, brick += 32) {
                int8x16_t even[2], odd[2];
                expand_channel(&even[0], &odd[0], &upper[i], brick);
                expand_channel(&even[1], &odd[1], &upper[i + 1], brick + 16);
                store_pair(panel + (c + i) * 8, even[0], even[1]);
                store_pair(panel + (2 * BRICK_CHANNELS + c + i) * 8, odd[0], odd[1]);
            }
    }
}

#include "kernels/arm/multiply_panel_i8mm.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
