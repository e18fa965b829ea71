/* Probe loops with AVX-512 VNNI. */
#define PROBE_VECTOR_BYTES 64
#include "kernels/probe_read.inc.c"

#include <immintrin.h>

enum { CHAINS = 12 };

static uint32_t probe_dot(uint64_t rounds)
{
    __m512i sums[CHAINS];
    const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(2);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm512_setzero_si512();
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_dpbusd_epi32(sums[i], x, y);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++)
        sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    uint32_t lanes[16], total = 0;
    _mm512_storeu_si512(lanes, sums[0]);
    for (int i = 0; i < 16; i++)
        total += lanes[i];
    return total;
}

static float probe_multiply_add(uint64_t rounds)
{
    __m512 sums[CHAINS];
    const __m512 x = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm512_setzero_ps();
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_fmadd_ps(x, x, sums[i]);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++)
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_reduce_add_ps(sums[0]);
}

const struct ork_probe_kernels ork_probe_kernels_avx512 = {
    .isa = ORK_ISA_AVX512,
    .read = probe_read,
    .dot_name = "vpdpbusd zmm",
    .dot_products = CHAINS * 64,
    .dot = probe_dot,
    .multiply_add_name = "vfmadd231ps zmm",
    .multiply_adds = CHAINS * 16,
    .multiply_add = probe_multiply_add,
};
