/* The scalar rows of the kernel table: float kernels compiled over v16 in plain C, and the reference integer
 * matmuls. */
#define ORK_KERNEL(name) name##_scalar
#define FLOAT_TILE_CHANNELS 4
#define FLOAT_TILE_ROWS 1

#include "kernels/isa.h"
#include "kernels/ref/float_matmul.inc.c"
#include "kernels/ref/vector_ops.inc.c"

void ork_kernels_install_scalar(struct ork_kernels *kernels)
{
    const enum ork_isa isa = ORK_ISA_SCALAR;
    const enum ork_layout rows = ORK_LAYOUT_ROWS;
    ORK_MATMUL_ROW(kernels, ORK_TIER_F32, rows, ORK_ACTIVATION_F32, isa, matmul_f32_scalar, "matmul_f32_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_F16, rows, ORK_ACTIVATION_F32, isa, matmul_f16_scalar, "matmul_f16_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_BF16, rows, ORK_ACTIVATION_F32, isa, matmul_bf16_scalar, "matmul_bf16_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_G8, rows, ORK_ACTIVATION_I8, isa, ork_matmul_g8_scalar, "matmul_g8_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, isa, ork_matmul_i8_scalar,
                   "matmul_i8_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i4_scalar,
                   "matmul_i4_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_nf4_scalar,
                   "matmul_nf4_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i5_scalar,
                   "matmul_i5_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i6_scalar,
                   "matmul_i6_scalar");
    ORK_MATMUL_ROW(kernels, ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_n8_scalar,
                   "matmul_n8_scalar");
    kernels->vector = (struct ork_vector_kernels)ORK_VECTOR_TABLE(isa, "scalar");
    kernels->surface = (struct ork_surface_kernels)ORK_SURFACE_TABLE(scalar);
    kernels->isa = isa;
}
