/* Matmul on g8 rows (int8 with an f16 scale per 32 inputs) with AVX-512 VNNI. Sixteen groups of 32 inputs at a time give
 * one register of sixteen sums, the lanes of the numerics contract. Weights become unsigned by flipping their sign bit;
 * -128 times the activations, computed once for several channels, is what the sums start from. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/reduce_avx512.h"

#define CHANNELS 4

typedef struct {
    __m512i x[8], start[8]; /* activations of sixteen groups, two a register, and what their sums start from */
} g8_chunk;

/* Dwords of the register that holds groups 2 q and 2 q + 1, when `groups` are there. */
static inline __mmask16 pair_mask(uint32_t groups, uint32_t q)
{
    return groups >= 2 * q + 2 ? 0xFFFF : groups == 2 * q + 1 ? 0x00FF : 0;
}

static inline void load_chunk(g8_chunk *chunk, const int8_t *x, uint32_t groups)
{
    const __m512i bias = _mm512_set1_epi8((char)0x80), zero = _mm512_setzero_si512();
    for (uint32_t q = 0; q < 8; q++) {
        chunk->x[q] = _mm512_maskz_loadu_epi32(pair_mask(groups, q), x + q * 64);
        chunk->start[q] = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, bias, chunk->x[q]));
    }
}

static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const g8_chunk *chunk, v16 x_scales,
                                                           const uint8_t *weights, const uint8_t *scales,
                                                           const uint32_t groups)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i sums[8];
    for (uint32_t q = 0; q < 8; q++) {
        __m512i w = groups == 16 ? _mm512_loadu_si512(weights + q * 64)
                                 : _mm512_maskz_loadu_epi32(pair_mask(groups, q), weights + q * 64);
        sums[q] = _mm512_dpbusd_epi32(chunk->start[q], _mm512_xor_si512(w, sign), chunk->x[q]);
    }
    v16 terms = v16_multiply(_mm512_cvtepi32_ps(ork_sum_halves_avx512(sums)), x_scales);
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    return v16_fma(terms, groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups), lanes);
}

#include "kernels/matmul_g8.inc.c"

void ork_matmul_g8_avx512(const struct ork_matmul_args *args)
{
    g8_matmul(args);
}
