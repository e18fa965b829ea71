/* Integer parts that the AVX-512 kernels share: horizontal sums and the transposition of channels. */
#ifndef ORK_KERNELS_X86_INTEGER_AVX512_H
#define ORK_KERNELS_X86_INTEGER_AVX512_H

#include <immintrin.h>

#include "kernels/compiler.h"

/* Lane j of the result is the sums of the four dwords of lane j of a, b, c, d. */
static inline __m512i ork_sum_lanes_avx512(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Sixteen items held as 0, 2, 4, 6, 1, 3, 5, 7 and the same from 8: the permutation into natural order. */
static inline __m512i ork_natural_order_avx512(void)
{
    return _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
}

/* Register i of eight holds items 2 i and 2 i + 1 as eight partial sums each; the result is items 0..15 in order. */
static inline __m512i ork_sum_halves_avx512(const __m512i *a)
{
    /* Lanes 0 and 1 of low are halves of items 0, 2, 4, 6, lanes 2 and 3 of items 1, 3, 5, 7; high the same from 8. */
    __m512i low = ork_sum_lanes_avx512(a[0], a[1], a[2], a[3]);
    __m512i high = ork_sum_lanes_avx512(a[4], a[5], a[6], a[7]);
    __m512i sum = _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD));
    return _mm512_permutexvar_epi32(ork_natural_order_avx512(), sum);
}

/* Transposes 4x4 dwords in each 128-bit lane: lane l of out[q] is dword q of lane l of in[0..3]. */
static inline void ork_transpose_lanes_avx512(__m512i *out, const __m512i *in)
{
    __m512i ab_low = _mm512_unpacklo_epi32(in[0], in[1]), ab_high = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i cd_low = _mm512_unpacklo_epi32(in[2], in[3]), cd_high = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/* in[i]: 32 bytes of channel 2 i, then of channel 2 i + 1. out[q]: bytes 4 q .. 4 q + 3 of sixteen channels, in the
 * order 0, 2, 4, 6, 1, 3, 5, 7 and the same from 8; ork_natural_order_avx512 turns results back. */
static inline void ork_transpose_channels_avx512(__m512i *out, const __m512i *in)
{
    __m512i low[4], high[4];
    ork_transpose_lanes_avx512(low, in);
    ork_transpose_lanes_avx512(high, in + 4);
    for (int q = 0; q < 4; q++) {
        out[q] = _mm512_shuffle_i32x4(low[q], high[q], 0x88);
        out[q + 4] = _mm512_shuffle_i32x4(low[q], high[q], 0xDD);
    }
}

#endif
