/* Matmul on i8 bricks with the AArch64 baseline: byte products in 16 bits, added in pairs to 32. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 0
#define BRICK_ROWS 4
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

static __attribute__((noinline)) void stream_i8(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4)
        vst1q_s32(acc + c, vdupq_n_s32(0));
    for (uint32_t t = 0; t < count; t++, x += 32) {
        const int8x16_t low = vld1q_s8(x), high = vld1q_s8(x + 16);
        for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4, bricks += 128) {
            int32x4_t sums[4];
            for (int i = 0; i < 4; i++) {
                const int8_t *w = (const int8_t *)bricks + i * 32;
                sums[i] = ork_dot_neon(ork_dot_neon(vdupq_n_s32(0), vld1q_s8(w), low), vld1q_s8(w + 16), high);
            }
            ork_prefetch_neon(bricks);
            ork_prefetch_neon(bricks + 64);
            vst1q_s32(acc + c, vaddq_s32(ork_sum_four_neon(sums), vld1q_s32(acc + c)));
        }
    }
}

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start; /* BRICK_BIAS is 0 */
    (void)codes;
    stream_i8(acc, bricks, x, count);
}

/* The panel has the order of the brick: [32 channels][32 k]. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    memcpy(panel, brick, 1024);
}

#include "kernels/arm/multiply_panel_neon.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->plain, &codes);
}
