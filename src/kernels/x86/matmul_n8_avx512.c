/* Matmul on nested bricks (n8), base and residual together, with AVX-512. */
#define BRICK_NESTED

#include "kernels/x86/matmul_4bit_avx512.inc.c"
#include "quant/nested.h"

void ork_matmul_n8_avx512(const struct ork_matmul_args *args)
{
    const brick_codes codes = {.table = biased_codes(args->w->table),
                               .doubled = four_times(ork_nested_doubled),
                               .residual_bytes = ork_nested_residual_bytes(args->w->n, args->w->k)};
    brick_matmul(args, args->x->split, &codes);
}
