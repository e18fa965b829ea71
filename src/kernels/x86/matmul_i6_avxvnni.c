/* Matmul on i6 bricks with AVX-VNNI. */
#include "kernels/x86/integer_avxvnni.h"

#define UPPER_BITS 2
#define UPPER_RUN ORK_AVXVNNI(ork_matmul_i6)

#include "kernels/x86/matmul_upper_avx2.inc.c"
