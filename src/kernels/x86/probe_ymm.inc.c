/* Probe loops on 256-bit registers. Included once by a kernel file that has defined
 *
 *   DOT_CHAINS   independent sums of dot products: enough to hide the latency of a step, at most 12
 *   dot_step     sums of eight dwords + the dot products of 32 unsigned with 32 signed bytes */
#define PROBE_VECTOR_BYTES 32
#include "kernels/probe_read.inc.c"

#include <immintrin.h>

enum { FLOAT_CHAINS = 12 };

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
            sums[i] = dot_step(sums[i], x, y);
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
