/* v16 as two ymm registers, lanes 0..7 and 8..15. See kernels/vector.h; the operations are described in
 * vector_avx512.h. */
#ifndef ORK_KERNELS_X86_VECTOR_AVX2_H
#define ORK_KERNELS_X86_VECTOR_AVX2_H

#include <immintrin.h>

typedef struct {
    __m256 low, high;
} v16;

V16_INLINE v16 v16_set1(float a)
{
    __m256 v = _mm256_set1_ps(a);
    return (v16){v, v};
}

V16_INLINE v16 v16_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

V16_INLINE void v16_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.low);
    _mm256_storeu_ps(p + 8, a.high);
}

V16_INLINE void v16_pairs_avx2(__m256 *even, __m256 *odd, const float *p)
{
    /* Within 128-bit lanes: p0 p2 p8 p10 | p4 p6 p12 p14, then 64-bit halves in order. */
    __m256 low = _mm256_loadu_ps(p), high = _mm256_loadu_ps(p + 8);
    __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88)),
            o = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xDD));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xD8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xD8));
}

V16_INLINE void v16_load_pairs(v16 *even, v16 *odd, const float *p)
{
    v16_pairs_avx2(&even->low, &odd->low, p);
    v16_pairs_avx2(&even->high, &odd->high, p + 16);
}

V16_INLINE void v16_store_half_pairs_avx2(float *p, __m256 even, __m256 odd)
{
    __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

V16_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    v16_store_half_pairs_avx2(p, even.low, odd.low);
    v16_store_half_pairs_avx2(p + 16, even.high, odd.high);
}

V16_INLINE v16 v16_add(v16 a, v16 b)
{
    return (v16){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

V16_INLINE v16 v16_subtract(v16 a, v16 b)
{
    return (v16){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

V16_INLINE v16 v16_multiply(v16 a, v16 b)
{
    return (v16){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

V16_INLINE v16 v16_divide(v16 a, v16 b)
{
    return (v16){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return (v16){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

V16_INLINE v16 v16_max(v16 a, v16 b)
{
    return (v16){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

V16_INLINE v16 v16_min(v16 a, v16 b)
{
    return (v16){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

V16_INLINE v16 v16_absolute(v16 a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

V16_INLINE v16 v16_from_i32(const int32_t *p)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p)),
                 _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(p + 8)))};
}

V16_INLINE v16 v16_load_f16(const uint16_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

V16_INLINE void v16_store_f16(uint16_t *p, v16 a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT));
}

V16_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}

typedef struct {
    __m256i low, high;
} v16i;

V16_INLINE v16i v16i_zero(void)
{
    return (v16i){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

V16_INLINE v16i v16i_add(v16i a, v16i b)
{
    return (v16i){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

V16_INLINE int32_t v16i_sum(v16i a)
{
    __m256i b = _mm256_add_epi32(a.low, a.high);
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xB1)));
}

V16_INLINE v16i v16_round(v16 a)
{
    __m256 low = _mm256_and_ps(a.low, _mm256_cmp_ps(a.low, a.low, _CMP_ORD_Q));
    __m256 high = _mm256_and_ps(a.high, _mm256_cmp_ps(a.high, a.high, _CMP_ORD_Q));
    return (v16i){_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high)};
}

/* Packing works within 128-bit lanes and leaves groups of four bytes: a0 a2 b0 b2 | a1 a3 b1 b3. */
V16_INLINE __m256i v16i_bytes_avx2(v16i a, v16i b)
{
    __m256i words_a = _mm256_packs_epi32(a.low, a.high), words_b = _mm256_packs_epi32(b.low, b.high);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words_a, words_b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

V16_INLINE void v16i_store_bytes(int8_t *p, v16i a, v16i b)
{
    _mm256_storeu_si256((__m256i *)p, v16i_bytes_avx2(a, b));
}

V16_INLINE void v16i_store_bytes_split(int8_t *p, v16i a, v16i b)
{
    const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, /* both lanes alike */
                                           0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m256i halves = _mm256_shuffle_epi8(v16i_bytes_avx2(a, b), order);
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(halves, 0xD8));
}

V16_INLINE __m256 v16_scale_half_avx2(__m256 a, __m256 shifted)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B400000));
    __m256i half = _mm256_srai_epi32(n, 1), rest = _mm256_sub_epi32(n, half);
    a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

V16_INLINE v16 v16_scale_by_power(v16 a, v16 shifted)
{
    return (v16){v16_scale_half_avx2(a.low, shifted.low), v16_scale_half_avx2(a.high, shifted.high)};
}

V16_INLINE float v16_sum(v16 a)
{
    __m256 b = _mm256_add_ps(a.low, a.high);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

V16_INLINE float v16_maximum(v16 a)
{
    __m256 b = _mm256_max_ps(a.low, a.high);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

typedef struct {
    __m256d low, high;
} v8d;

V16_INLINE v8d v8d_zero(void)
{
    return (v8d){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

V16_INLINE __m256d v8d_square_avx2(__m256d acc, __m128 x)
{
    __m256d wide = _mm256_cvtps_pd(x);
    return _mm256_fmadd_pd(wide, wide, acc);
}

V16_INLINE v8d v8d_add_squares(v8d acc, v16 x)
{
    acc.low = v8d_square_avx2(acc.low, _mm256_castps256_ps128(x.low));
    acc.high = v8d_square_avx2(acc.high, _mm256_extractf128_ps(x.low, 1));
    acc.low = v8d_square_avx2(acc.low, _mm256_castps256_ps128(x.high));
    acc.high = v8d_square_avx2(acc.high, _mm256_extractf128_ps(x.high, 1));
    return acc;
}

V16_INLINE double v8d_sum(v8d a)
{
    __m256d b = _mm256_add_pd(a.low, a.high);
    __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#endif
