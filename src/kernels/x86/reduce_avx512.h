/* Horizontal sums of int32 partial sums, AVX-512, and help for keeping partial sums in registers. */
#ifndef ORK_KERNELS_X86_REDUCE_AVX512_H
#define ORK_KERNELS_X86_REDUCE_AVX512_H

#include <immintrin.h>

/* Says that a sum is used here: GCC 12 otherwise keeps two copies of an array of sums and moves between them through
 * memory in every turn of the loop. */
#define ORK_KEEP_IN_REGISTER(sum) __asm__("" : "+v"(sum))

/* Lane j of the result is the sums of the four dwords of lane j of a, b, c, d. */
static inline __m512i ork_sum_lanes_avx512(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Register i of eight holds items 2 i and 2 i + 1 as eight partial sums each; the result is items 0..15 in order. */
static inline __m512i ork_sum_halves_avx512(const __m512i *a)
{
    /* Lanes 0 and 1 of low are halves of items 0, 2, 4, 6, lanes 2 and 3 of items 1, 3, 5, 7; high the same from 8. */
    __m512i low = ork_sum_lanes_avx512(a[0], a[1], a[2], a[3]);
    __m512i high = ork_sum_lanes_avx512(a[4], a[5], a[6], a[7]);
    __m512i sum = _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD));
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), sum);
}

#endif
