/* Matmul on nf4 bricks with AVX2. */
#include "kernels/x86/matmul_table_avx2.inc.c"

void ork_matmul_nf4_avx2(const struct ork_matmul_args *args)
{
    const brick_codes codes = {.table = twice(args->w->table), .magnitudes = _mm256_abs_epi8(twice(args->w->table))};
    brick_matmul(args, args->x->split, &codes);
}
