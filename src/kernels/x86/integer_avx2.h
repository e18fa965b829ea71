/* Integer parts that the kernels on 256-bit registers share: the exact byte dot, horizontal sums, transpositions. */
#ifndef ORK_KERNELS_X86_INTEGER_AVX2_H
#define ORK_KERNELS_X86_INTEGER_AVX2_H

#include <immintrin.h>

#include "kernels/compiler.h"

/* acc + eight dword sums of weights times activations, where magnitudes are |weights| as unsigned bytes (at most 128)
 * and activations are in -127..127. The sign of the weight goes over to the activation, so that pairs sum to at most 2
 * * 128 * 127 = 32512: vpmaddubsw does not saturate. */
static inline __m256i ork_dot_avx2(__m256i acc, __m256i weights, __m256i magnitudes, __m256i activations)
{
    __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(activations, weights));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Dword i of the result is the sum of the eight dwords of a[i]. */
static inline __m256i ork_sum_eight_avx2(const __m256i *a)
{
    __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(a[0], a[1]), _mm256_hadd_epi32(a[2], a[3]));
    __m256i high = _mm256_hadd_epi32(_mm256_hadd_epi32(a[4], a[5]), _mm256_hadd_epi32(a[6], a[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Transposes 8 by 8 dwords in place. */
static inline void ork_transpose_avx2(__m256i *a)
{
    __m256i b[8], c[8];
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        c[4 * i] = _mm256_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
        c[4 * i + 1] = _mm256_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
        c[4 * i + 2] = _mm256_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
        c[4 * i + 3] = _mm256_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_permute2x128_si256(c[i], c[i + 4], 0x20);
        a[i + 4] = _mm256_permute2x128_si256(c[i], c[i + 4], 0x31);
    }
}

/* Transposes 8 by 8 words in each 128-bit lane, in place. */
static inline void ork_transpose_words_avx2(__m256i *a)
{
    __m256i b[8], c[8];
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            c[i + 2 * half] = _mm256_unpacklo_epi32(b[i + half], b[i + 2 + half]);
            c[i + 2 * half + 1] = _mm256_unpackhi_epi32(b[i + half], b[i + 2 + half]);
        }
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi64(c[i], c[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi64(c[i], c[i + 4]);
    }
}

/* Transposes 4 by 4 dwords in each 128-bit lane: lane l of out[q] is dword q of lane l of in[0..3]. When in[i] holds
 * channels 2 i and 2 i + 1, out[q] has eight channels in the order 0, 2, 4, 6, 1, 3, 5, 7. */
static inline void ork_transpose_lanes_avx2(__m256i *out, const __m256i *in)
{
    __m256i ab_low = _mm256_unpacklo_epi32(in[0], in[1]), ab_high = _mm256_unpackhi_epi32(in[0], in[1]);
    __m256i cd_low = _mm256_unpacklo_epi32(in[2], in[3]), cd_high = _mm256_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

/* The permutation of 0, 2, 4, 6, 1, 3, 5, 7 into natural order. */
static inline __m256i ork_natural_order_avx2(void)
{
    return _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
}

/* Register c holds channels 2 c and 2 c + 1, four partial sums each: acc[0..2 * registers - 1] in order. */
static inline void ork_store_sums_avx2(int32_t *acc, const __m256i *sums, uint32_t registers)
{
    for (uint32_t c = 0; c < registers; c += 4) {
        const __m256i *s = sums + c;
        __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
        _mm256_storeu_si256((__m256i *)(acc + 2 * c), _mm256_permutevar8x32_epi32(sum, ork_natural_order_avx2()));
    }
}

#endif
