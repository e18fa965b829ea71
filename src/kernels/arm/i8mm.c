/* The AArch64 int8 matrix multiply rows of the kernel table; the rest stays as dot product and baseline have it. */
#include "kernels/isa.h"

void ork_kernels_install_i8mm(struct ork_kernels *kernels)
{
    const enum ork_isa isa = ORK_ISA_I8MM;
    ORK_MATMUL_ROW(kernels, ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, isa, ork_matmul_i8_i8mm,
                   "matmul_i8_i8mm");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i4_i8mm,
                   "matmul_i4_i8mm");
    ORK_MATMUL_ROW(kernels, ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_nf4_i8mm,
                   "matmul_nf4_i8mm");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i5_i8mm,
                   "matmul_i5_i8mm");
    ORK_MATMUL_ROW(kernels, ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_i6_i8mm,
                   "matmul_i6_i8mm");
    ORK_MATMUL_ROW(kernels, ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, isa, ork_matmul_n8_i8mm,
                   "matmul_n8_i8mm");
    kernels->isa = isa;
}
