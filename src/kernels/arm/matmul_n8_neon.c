/* Matmul on nested bricks (n8), base and residual together, with the AArch64 baseline. */
#define BRICK_NESTED

#include "kernels/arm/matmul_4bit_neon.inc.c"

void ork_matmul_n8_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_n8_codes_neon(args->w);
    brick_matmul(args, args->x->split, &codes);
}
