/* Matmul on i6 bricks with the AArch64 int8 matrix multiply. */
#define UPPER_BITS 2
#define UPPER_RUN ork_matmul_i6_i8mm

#include "kernels/arm/matmul_upper_i8mm.inc.c"
