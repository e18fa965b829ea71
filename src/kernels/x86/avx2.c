/* The AVX2 rows of the kernel table. */
#define ORK_VECTOR_AVX2
#define ORK_KERNEL(name) name##_avx2
#define FLOAT_TILE_CHANNELS 2
#define FLOAT_TILE_ROWS 2

#include "kernels/isa.h"
#include "kernels/ref/float_matmul.inc.c"
#include "kernels/ref/vector_ops.inc.c"

void ork_kernels_install_avx2(struct ork_kernels *kernels)
{
    const enum ork_isa isa = ORK_ISA_AVX2;
    const enum ork_layout rows = ORK_LAYOUT_ROWS;
    ORK_MATMUL_ROW(kernels, ORK_TIER_F32, rows, ORK_ACTIVATION_F32, isa, matmul_f32_avx2, "matmul_f32_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_F16, rows, ORK_ACTIVATION_F32, isa, matmul_f16_avx2, "matmul_f16_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_BF16, rows, ORK_ACTIVATION_F32, isa, matmul_bf16_avx2, "matmul_bf16_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_G8, rows, ORK_ACTIVATION_I8, isa, ork_matmul_g8_avx2, "matmul_g8_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, isa, ork_matmul_i8_avx2,
                   "matmul_i8_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i4_avx2,
                   "matmul_i4_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_nf4_avx2,
                   "matmul_nf4_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i5_avx2,
                   "matmul_i5_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i6_avx2,
                   "matmul_i6_avx2");
    ORK_MATMUL_ROW(kernels, ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_n8_avx2,
                   "matmul_n8_avx2");
    kernels->vector = (struct ork_vector_kernels)ORK_VECTOR_TABLE(isa, "avx2");
    kernels->surface = (struct ork_surface_kernels)ORK_SURFACE_TABLE(avx2);
    kernels->isa = isa;
}
