/* Matmul on i5 bricks with AVX-512. */
#define UPPER_BITS 1
#define UPPER_RUN ork_matmul_i5_avx512

#include "kernels/x86/matmul_upper_avx512.inc.c"
