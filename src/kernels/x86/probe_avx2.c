/* Probe loops with AVX2. */
#include <immintrin.h>

enum { DOT_CHAINS = 8 };

static inline __m256i dot_step(__m256i sums, __m256i x, __m256i y)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), _mm256_set1_epi16(1)));
}

#include "kernels/x86/probe_ymm.inc.c"

const struct ork_probe_kernels ork_probe_kernels_avx2 = {
    .isa = ORK_ISA_AVX2,
    .read = probe_read,
    .dot_name = "vpmaddubsw, vpmaddwd, vpaddd ymm",
    .dot_products = DOT_CHAINS * 32,
    .dot = probe_dot,
    .multiply_add_name = "vfmadd231ps ymm",
    .multiply_adds = FLOAT_CHAINS * 8,
    .multiply_add = probe_multiply_add,
};
