/* Matmul on i6 bricks with the AArch64 baseline. */
#define UPPER_BITS 2
#define UPPER_RUN ork_matmul_i6_neon

#include "kernels/arm/matmul_upper_neon.inc.c"
