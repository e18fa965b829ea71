/* Matmul on i5 bricks with the AArch64 dot product. */
#define UPPER_BITS 1
#define UPPER_RUN ork_matmul_i5_dotprod

#include "kernels/arm/matmul_upper_dotprod.inc.c"
