/* Matmul on i5 bricks with the AArch64 int8 matrix multiply. */
#define UPPER_BITS 1
#define UPPER_RUN ork_matmul_i5_i8mm

#include "kernels/arm/matmul_upper_i8mm.inc.c"
