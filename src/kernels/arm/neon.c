/* The AArch64 baseline rows of the kernel table. */
#define ORK_VECTOR_NEON
#define ORK_KERNEL(name) name##_neon
#define FLOAT_TILE_CHANNELS 2
#define FLOAT_TILE_ROWS 2

#include "kernels/isa.h"
#include "kernels/ref/float_matmul.inc.c"
#include "kernels/ref/vector_ops.inc.c"

void ork_kernels_install_neon(struct ork_kernels *kernels)
{
    const enum ork_isa isa = ORK_ISA_NEON;
    const enum ork_layout rows = ORK_LAYOUT_ROWS;
    ORK_MATMUL_ROW(kernels, ORK_TIER_F32, rows, ORK_ACTIVATION_F32, isa, matmul_f32_neon, "matmul_f32_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_F16, rows, ORK_ACTIVATION_F32, isa, matmul_f16_neon, "matmul_f16_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_BF16, rows, ORK_ACTIVATION_F32, isa, matmul_bf16_neon, "matmul_bf16_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_G8, rows, ORK_ACTIVATION_I8, isa, ork_matmul_g8_neon, "matmul_g8_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, isa, ork_matmul_i8_neon,
                   "matmul_i8_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i4_neon,
                   "matmul_i4_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_nf4_neon,
                   "matmul_nf4_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i5_neon,
                   "matmul_i5_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i6_neon,
                   "matmul_i6_neon");
    ORK_MATMUL_ROW(kernels, ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_n8_neon,
                   "matmul_n8_neon");
    kernels->vector = (struct ork_vector_kernels)ORK_VECTOR_TABLE(isa, "neon");
    kernels->surface = (struct ork_surface_kernels)ORK_SURFACE_TABLE(neon);
    kernels->isa = isa;
}
