/* Matmuls on 4-bit bricks (i4, nf4) with the AArch64 int8 matrix multiply. */
#include "kernels/arm/matmul_4bit_i8mm.inc.c"

void ork_matmul_i4_i8mm(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_i4_codes_neon();
    brick_matmul(args, args->x->split, &codes);
}

void ork_matmul_nf4_i8mm(const struct ork_matmul_args *args)
{
    const brick_codes codes = ork_nf4_codes_neon(args->w->table);
    brick_matmul(args, args->x->split, &codes);
}
