/* Probe loops with the dot product instructions. */
#define PROBE_DOT_PRODUCTS 16
#define PROBE_DOT(sum, x, y) vdotq_s32((sum), (x), (y))
#include "kernels/arm/probe_loops.inc.c"

const struct ork_probe_kernels ork_probe_kernels_dotprod = PROBE_KERNELS(ORK_ISA_DOTPROD, "sdot");
