/* Matmul on i5 bricks with the AArch64 baseline. */
#define UPPER_BITS 1
#define UPPER_RUN ork_matmul_i5_neon

#include "kernels/arm/matmul_upper_neon.inc.c"
