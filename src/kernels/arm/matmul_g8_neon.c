/* Matmul on g8 rows (int8 with an f16 scale per 32 inputs) with the AArch64 baseline. Sixteen groups of 32 inputs at a
 * time give the sixteen lanes of the numerics contract. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"

static inline int32x4_t group_dot(const int8_t *weights, const int8_t *x)
{
    const int32x4_t sum = ork_dot_neon(vdupq_n_s32(0), vld1q_s8(weights), vld1q_s8(x));
    return ork_dot_neon(sum, vld1q_s8(weights + 16), vld1q_s8(x + 16));
}

#include "kernels/arm/chunk_g8_neon.inc.c"
#include "kernels/matmul_g8.inc.c"

void ork_matmul_g8_neon(const struct ork_matmul_args *args)
{
    g8_matmul(args);
}
