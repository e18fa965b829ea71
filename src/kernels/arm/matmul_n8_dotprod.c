/* Matmul on nested bricks (n8), base and residual together, with the AArch64 dot product. */
#define BRICK_NESTED

#include "kernels/arm/matmul_4bit_dotprod.inc.c"

void ork_matmul_n8_dotprod(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_n8_codes_neon(args->w);
    brick_matmul(args, args->x->split, &codes);
}
