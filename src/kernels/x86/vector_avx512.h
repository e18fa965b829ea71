/* v16 as one zmm register. See kernels/vector.h. */
#ifndef ORK_KERNELS_X86_VECTOR_AVX512_H
#define ORK_KERNELS_X86_VECTOR_AVX512_H

#include <immintrin.h>

typedef __m512 v16;

V16_INLINE v16 v16_set1(float a)
{
    return _mm512_set1_ps(a);
}

V16_INLINE v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

V16_INLINE void v16_store(float *p, v16 a)
{
    _mm512_storeu_ps(p, a);
}

#define V16_HAS_PARTIAL
V16_INLINE v16 v16_load_partial(const float *p, uint32_t count)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1u), p);
}

V16_INLINE void v16_store_partial(float *p, v16 a, uint32_t count)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1u), a);
}

/* Lane i of *even and *odd: p[2 i] and p[2 i + 1]. */
V16_INLINE void v16_load_pairs(v16 *even, v16 *odd, const float *p)
{
    const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 low = _mm512_loadu_ps(p), high = _mm512_loadu_ps(p + 16);
    *even = _mm512_permutex2var_ps(low, index, high);
    *odd = _mm512_permutex2var_ps(low, _mm512_add_epi32(index, _mm512_set1_epi32(1)), high);
}

V16_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    const __m512i index = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, index, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(index, _mm512_set1_epi32(8)), odd));
}

V16_INLINE v16 v16_add(v16 a, v16 b)
{
    return _mm512_add_ps(a, b);
}

V16_INLINE v16 v16_subtract(v16 a, v16 b)
{
    return _mm512_sub_ps(a, b);
}

V16_INLINE v16 v16_multiply(v16 a, v16 b)
{
    return _mm512_mul_ps(a, b);
}

V16_INLINE v16 v16_divide(v16 a, v16 b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once. */
V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b, so that a NaN in a is dropped and one in b is kept. */
V16_INLINE v16 v16_max(v16 a, v16 b)
{
    return _mm512_max_ps(a, b);
}

/* a < b ? a : b */
V16_INLINE v16 v16_min(v16 a, v16 b)
{
    return _mm512_min_ps(a, b);
}

V16_INLINE v16 v16_absolute(v16 a)
{
    return _mm512_abs_ps(a);
}

V16_INLINE v16 v16_from_i32(const int32_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}

V16_INLINE v16 v16_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

V16_INLINE void v16_store_f16(uint16_t *p, v16 a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

V16_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Sixteen int32 lanes. */
typedef __m512i v16i;

V16_INLINE v16i v16i_zero(void)
{
    return _mm512_setzero_si512();
}

V16_INLINE v16i v16i_add(v16i a, v16i b)
{
    return _mm512_add_epi32(a, b);
}

V16_INLINE int32_t v16i_sum(v16i a)
{
    return _mm512_reduce_add_epi32(a);
}

/* Nearest even; NaN gives 0. Lanes must lie within int32 or be NaN. */
V16_INLINE v16i v16_round(v16 a)
{
    return _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}

/* 32 lanes of a and b, each in -128..127, as bytes in order, or the 16 of even place and then the 16 of odd place. */
V16_INLINE void v16i_store_bytes(int8_t *p, v16i a, v16i b)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128((__m128i *)(p + 16), _mm512_cvtepi32_epi8(b));
}

V16_INLINE void v16i_store_bytes_split(int8_t *p, v16i a, v16i b)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_permutex2var_epi32(a, even, b)));
    _mm_storeu_si128((__m128i *)(p + 16), _mm512_cvtepi32_epi8(_mm512_permutex2var_epi32(a, odd, b)));
}

/* a * 2^n for n in -252..254, given as n + V16_ROUND_MAGIC, in two steps so that the result may be subnormal. */
V16_INLINE v16 v16_scale_by_power(v16 a, v16 shifted)
{
    /* One instruction that rounds once, as the two steps of other instruction sets do. */
    return _mm512_scalef_ps(a, _mm512_sub_ps(shifted, _mm512_set1_ps(0x1.8p23f)));
}

/* The lane tree of the numerics contract. */
V16_INLINE float v16_sum(v16 a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

V16_INLINE float v16_maximum(v16 a)
{
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* Eight double lanes: acc[i % 8] += (double)x[i]^2 for the 16 lanes in order; for sums of squares. */
typedef __m512d v8d;

V16_INLINE v8d v8d_zero(void)
{
    return _mm512_setzero_pd();
}

V16_INLINE v8d v8d_add_squares(v8d acc, v16 x)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    return _mm512_fmadd_pd(high, high, _mm512_fmadd_pd(low, low, acc)); /* squares of floats are exact in double */
}

V16_INLINE double v8d_sum(v8d a)
{
    __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#endif
