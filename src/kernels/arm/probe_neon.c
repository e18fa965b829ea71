/* Probe loops with NEON alone: widening products, added in pairs. */
#define PROBE_DOT_PRODUCTS 16
#define PROBE_DOT(sum, x, y)                                                                                           \
    vpadalq_s16(vpadalq_s16((sum), vmull_s8(vget_low_s8(x), vget_low_s8(y))), vmull_high_s8((x), (y)))
#include "kernels/arm/probe_loops.inc.c"

const struct ork_probe_kernels ork_probe_kernels_neon = PROBE_KERNELS(ORK_ISA_NEON, "smull, sadalp");
