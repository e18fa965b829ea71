/* The AVX-VNNI rows of the kernel table: the matmuls with integer activations; all else stays as AVX2 left it. */
#include "kernels/isa.h"
#include "kernels/x86/integer_avxvnni.h"

#define ROW(tier, layout, activation, name)                                                                            \
    ORK_MATMUL_ROW(kernels, tier, layout, activation, ORK_ISA_AVXVNNI, ORK_AVXVNNI(ork_##name), ORK_AVXVNNI_TEXT(#name))

void ORK_AVXVNNI(ork_kernels_install)(struct ork_kernels *kernels)
{
    ROW(ORK_TIER_G8, ORK_LAYOUT_ROWS, ORK_ACTIVATION_I8, matmul_g8);
    ROW(ORK_TIER_I8, ORK_LAYOUT_BRICK32, ORK_ACTIVATION_I8, matmul_i8);
    ROW(ORK_TIER_I4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, matmul_i4);
    ROW(ORK_TIER_NF4, ORK_LAYOUT_BRICK64, ORK_ACTIVATION_I8_SPLIT, matmul_nf4);
    ROW(ORK_TIER_I5, ORK_LAYOUT_BRICK64_5, ORK_ACTIVATION_I8_SPLIT, matmul_i5);
    ROW(ORK_TIER_I6, ORK_LAYOUT_BRICK64_6, ORK_ACTIVATION_I8_SPLIT, matmul_i6);
    ROW(ORK_TIER_N8, ORK_LAYOUT_BRICK64_PAIR, ORK_ACTIVATION_I8_SPLIT, matmul_n8);
    kernels->isa = ORK_ISA_AVXVNNI;
}
