/* Probe loops with AVX-VNNI: those of AVX2, but vpdpbusd. */
#include "kernels/x86/integer_avxvnni.h"

enum { DOT_CHAINS = 12 };

static inline __m256i dot_step(__m256i sums, __m256i x, __m256i y)
{
    return ork_dot_avxvnni(sums, x, y);
}

#include "kernels/x86/probe_ymm.inc.c"

const struct ork_probe_kernels ork_probe_kernels_avxvnni = {
    .isa = ORK_ISA_AVXVNNI,
    .read = probe_read,
    .dot_name = "vpdpbusd ymm",
    .dot_products = DOT_CHAINS * 32,
    .dot = probe_dot,
    .multiply_add_name = "vfmadd231ps ymm",
    .multiply_adds = FLOAT_CHAINS * 8,
    .multiply_add = probe_multiply_add,
};
