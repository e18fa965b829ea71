/* Matmuls on 4-bit bricks (i4, nf4) with the AArch64 baseline. */
#include "kernels/arm/matmul_4bit_neon.inc.c"

void ork_matmul_i4_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_i4_codes_neon();
    brick_matmul(args, args->x->split, &codes);
}

void ork_matmul_nf4_neon(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_nf4_codes_neon(args->w->table);
    brick_matmul(args, args->x->split, &codes);
}
