/* Probe loops with the int8 matrix instructions: 2 x 8 by 8 x 2, 32 products each. */
#define PROBE_DOT_PRODUCTS 32
#define PROBE_DOT(sum, x, y) vmmlaq_s32((sum), (x), (y))
#include "kernels/arm/probe_loops.inc.c"

const struct ork_probe_kernels ork_probe_kernels_i8mm = PROBE_KERNELS(ORK_ISA_I8MM, "smmla");
