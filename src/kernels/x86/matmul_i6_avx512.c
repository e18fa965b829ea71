/* Matmul on i6 bricks with AVX-512. */
#define UPPER_BITS 2
#define UPPER_RUN ork_matmul_i6_avx512

#include "kernels/x86/matmul_upper_avx512.inc.c"
