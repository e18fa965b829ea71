/* Matmul on i6 bricks with AVX2. */
#define UPPER_BITS 2
#define UPPER_RUN ork_matmul_i6_avx2

#include "kernels/x86/matmul_upper_avx2.inc.c"
