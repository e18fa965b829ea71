/* Matmul on nested bricks (n8), base and residual together, with AVX2. */
#define BRICK_NESTED

#include "kernels/x86/matmul_table_avx2.inc.c"
#include "quant/nested.h"

void ork_matmul_n8_avx2(const struct ork_matmul_args *args)
{
    const brick_codes codes = {.table = twice(args->w->table),
                               .doubled = twice(ork_nested_doubled),
                               .residual_bytes = ork_nested_residual_bytes(args->w->n, args->w->k)};
    brick_matmul(args, args->x->split, &codes);
}
