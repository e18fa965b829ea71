/* Sixteen groups of one g8 row with one row of activations, AArch64. Included after group_dot, which gives four dwords
 * whose sum is the dot of one group. */
#include "kernels/isa.h"
#include "kernels/vector.h"

/* lanes + terms of `groups` <= 16 groups. */
static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const int8_t *x, v16 x_scales,
                                                           const uint8_t *weights, const uint8_t *scales,
                                                           const uint32_t groups)
{
    v16 terms;
    for (uint32_t q = 0; q < 4; q++) {
        int32x4_t sums[4];
        for (uint32_t i = 0; i < 4; i++)
            sums[i] = q * 4 + i < groups ? group_dot((const int8_t *)weights + (q * 4 + i) * 32, x + (q * 4 + i) * 32)
                                         : vdupq_n_s32(0);
        ork_prefetch_neon(weights + q * 128);
        ork_prefetch_neon(weights + q * 128 + 64);
        terms.q[q] = vcvtq_f32_s32(ork_sum_four_neon(sums));
    }
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    v16 w_scales = groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups);
    return v16_fma(v16_multiply(terms, x_scales), w_scales, lanes);
}
