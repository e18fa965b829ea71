/* Matmul on bricks with upper bits with the AArch64 baseline: byte products in 16 bits, added in pairs to 32. Included once
 * by a kernel file that has defined UPPER_BITS (1 or 2) and UPPER_RUN, the name of the kernel. */
#define ORK_VECTOR_NEON

#include "kernels/arm/codes_upper_neon.h"
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

/* acc[64] = (begins ? start : acc) + one brick times x. Four products of at most 63 * 127 fit 16 bits. */
static inline __attribute__((always_inline)) void stream_run(int32_t *acc, const uint8_t *brick, const int8_t *x,
                                                             int32_t start, const bool begins)
{
    const int8x16_t even = vld1q_s8(x), odd = vld1q_s8(x + 16);
    for (uint32_t part = 0; part < BRICK_CHANNELS; part += 4 * PART_RUNS) {
        uint8x16_t upper[4];
        load_upper(upper, brick);
        brick += 64;
        for (uint32_t c = part; c < part + 4 * PART_RUNS; c += 4, brick += 64) {
            int32x4_t sums[4];
            for (int i = 0; i < 4; i++) {
                int8x16_t low, high;
                expand_channel(&low, &high, &upper[i], brick + i * 16);
                int16x8_t products = vmull_s8(vget_low_s8(low), vget_low_s8(even));
                products = ork_multiply_add_neon(vmlal_high_s8(products, low, even), high, odd);
                sums[i] = vpaddlq_s16(products);
            }
            ork_prefetch_neon(brick);
            vst1q_s32(acc + c, vaddq_s32(ork_sum_four_neon(sums), begins ? vdupq_n_s32(start) : vld1q_s32(acc + c)));
        }
    }
}

static __attribute__((noinline)) void stream_column(int32_t *acc, const uint8_t *bricks, const int8_t *x,
                                                    uint32_t count, int32_t start)
{
    stream_run(acc, bricks, x, start, true);
    for (uint32_t t = 1; t < count; t++)
        stream_run(acc, bricks + t * (uint64_t)BRICK_BYTES, x + t * 32, 0, false);
}

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)codes;
    stream_column(acc, bricks, x, count, start);
}

/* Panel: [64 channels][16 even k, 16 odd k], as in split activations. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t part = 0; part < BRICK_CHANNELS; part += 4 * PART_RUNS) {
        uint8x16_t upper[4];
        load_upper(upper, brick);
        brick += 64;
        for (uint32_t c = part; c < part + 4 * PART_RUNS; c++, brick += 16) {
            int8x16_t low, high;
            expand_channel(&low, &high, &upper[c % 4], brick);
            vst1q_s8((int8_t *)panel + c * 32, low);
            vst1q_s8((int8_t *)panel + c * 32 + 16, high);
        }
    }
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
