/* Matmul on g8 rows (int8 with an f16 scale per 32 inputs) with the AArch64 dot product. Sixteen groups of 32 inputs at
 * a time give the sixteen lanes of the numerics contract. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

/* lanes + terms of `groups` <= 16 groups. */
static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const int8_t *x, v16 x_scales,
                                                           const uint8_t *weights, const uint8_t *scales,
                                                           const uint32_t groups)
{
    int32x4_t sums[16];
    for (uint32_t j = 0; j < 16; j++) {
        sums[j] = vdupq_n_s32(0);
        if (j < groups) {
            const int8_t *w = (const int8_t *)weights + j * 32, *input = x + j * 32;
            sums[j] = vdotq_s32(sums[j], vld1q_s8(w), vld1q_s8(input));
            sums[j] = vdotq_s32(sums[j], vld1q_s8(w + 16), vld1q_s8(input + 16));
        }
    }
    v16 terms;
    for (int q = 0; q < 4; q++)
        terms.q[q] = vcvtq_f32_s32(ork_sum_four_neon(sums + 4 * q));
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    v16 w_scales = groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups);
    return v16_fma(v16_multiply(terms, x_scales), w_scales, lanes);
}

#include "kernels/matmul_g8.inc.c"

void ork_matmul_g8_neon(const struct ork_matmul_args *args)
{
    g8_matmul(args);
}
