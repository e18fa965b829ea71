/* Probe loops with AVX-VNNI: those of AVX2, but vpdpbusd. */
#define PROBE_VECTOR_BYTES 32
#include "kernels/probe_read.inc.c"
#include "kernels/x86/integer_avxvnni.h"

enum { DOT_CHAINS = 12, FLOAT_CHAINS = 12 };

static inline uint32_t sum_lanes(__m256i sums)
{
    uint32_t lanes[8], total = 0;
    _mm256_storeu_si256((__m256i *)lanes, sums);
    for (int i = 0; i < 8; i++)
        total += lanes[i];
    return total;
}

/* The products of each chain are made anew, or the compiler would make them once for all. */
static uint32_t probe_dot(uint64_t rounds)
{
    __m256i sums[DOT_CHAINS], x = _mm256_set1_epi8(3);
    const __m256i y = _mm256_set1_epi8(2);
#pragma GCC unroll 12
    for (int i = 0; i < DOT_CHAINS; i++)
        sums[i] = _mm256_setzero_si256();
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < DOT_CHAINS; i++) {
            ORK_KEEP_IN_REGISTER(x);
            sums[i] = ork_dot_avxvnni(sums[i], x, y);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < DOT_CHAINS; i++)
        sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    return sum_lanes(sums[0]);
}

static float probe_multiply_add(uint64_t rounds)
{
    __m256 sums[FLOAT_CHAINS];
    const __m256 x = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
    for (int i = 0; i < FLOAT_CHAINS; i++)
        sums[i] = _mm256_setzero_ps();
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < FLOAT_CHAINS; i++) {
            sums[i] = _mm256_fmadd_ps(x, x, sums[i]);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < FLOAT_CHAINS; i++)
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    float lanes[8], total = 0;
    _mm256_storeu_ps(lanes, sums[0]);
    for (int i = 0; i < 8; i++)
        total += lanes[i];
    return total;
}

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
