/* The AArch64 dot-product rows of the kernel table; float kernels and vector functions stay those of the baseline. */
#include "kernels/isa.h"

void ork_kernels_install_dotprod(struct ork_kernels *kernels)
{
    const enum ork_isa isa = ORK_ISA_DOTPROD;
    ORK_MATMUL_ROW(kernels, ORK_TIER_G8, ORK_LAYOUT_ROWS, ORK_ACTIVATION_I8, isa, ork_matmul_g8_dotprod,
                   "matmul_g8_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, isa, ork_matmul_i8_dotprod,
                   "matmul_i8_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i4_dotprod,
                   "matmul_i4_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_nf4_dotprod,
                   "matmul_nf4_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i5_dotprod,
                   "matmul_i5_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i6_dotprod,
                   "matmul_i6_dotprod");
    ORK_MATMUL_ROW(kernels, ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_n8_dotprod,
                   "matmul_n8_dotprod");
    kernels->isa = isa;
}
