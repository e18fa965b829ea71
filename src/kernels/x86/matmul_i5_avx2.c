/* Matmul on i5 bricks with AVX2. */
#define UPPER_BITS 1
#define UPPER_RUN ork_matmul_i5_avx2

#include "kernels/x86/matmul_upper_avx2.inc.c"
