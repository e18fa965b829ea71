/* Matmuls on 4-bit bricks (i4, nf4) with AVX-512. */
#include "kernels/x86/matmul_4bit_avx512.inc.c"

void ork_matmul_i4_avx512(const struct ork_matmul_args *args)
{
    static const int8_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    const brick_codes codes = {biased_codes(numbers)};
    brick_matmul(args, args->x->split, &codes);
}

void ork_matmul_nf4_avx512(const struct ork_matmul_args *args)
{
    const brick_codes codes = {biased_codes(args->w->table)};
    brick_matmul(args, args->x->split, &codes);
}
