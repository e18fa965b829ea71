/* Matmul on i5 bricks with AVX-VNNI. */
#include "kernels/x86/integer_avxvnni.h"

#define UPPER_BITS 1
#define UPPER_RUN ORK_AVXVNNI(ork_matmul_i5)

#include "kernels/x86/matmul_upper_avx2.inc.c"
