/* Matmul on i6 bricks with the AArch64 dot product. */
#define UPPER_BITS 2
#define UPPER_RUN ork_matmul_i6_dotprod

#include "kernels/arm/matmul_upper_dotprod.inc.c"
