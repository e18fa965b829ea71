/* Registers of the surface kernels with AVX-512: four 128-bit lanes. */
#ifndef ORK_KERNELS_X86_SURFACE_REGISTERS_AVX512_H
#define ORK_KERNELS_X86_SURFACE_REGISTERS_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/x86/surface_atoms.h"

#define LANES 4
#define EXPANDED 2

typedef __m512i wide, expanded, expanded_table;
typedef __m512 wide_float;

static inline wide load_wide(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline void store_wide(void *p, wide a)
{
    _mm512_storeu_si512(p, a);
}

static inline wide no_words(void)
{
    return _mm512_setzero_si512();
}

static inline wide repeat_word(uint32_t a)
{
    return _mm512_set1_epi32((int)a);
}

/* `count` rows of 16 bytes, the others zero. */
static inline wide load_rows(const void *p, uint32_t count)
{
    return count == 4 ? load_wide(p) : _mm512_maskz_loadu_epi64((__mmask8)((1u << 2 * count) - 1), p);
}

static inline wide repeat_atom(const uint32_t *p)
{
    return _mm512_broadcast_i32x4(load_atom(p));
}

static inline wide add_words(wide a, wide b)
{
    return _mm512_add_epi32(a, b);
}

static inline wide multiply_words(wide a, wide b)
{
    return _mm512_mullo_epi32(a, b);
}

static inline wide add_product(wide sum, wide a, wide b)
{
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b));
}

/* Mod 2^32; _mm512_reduce_add_epi32 adds signed numbers, whose overflow is not defined. */
static inline uint32_t sum_words(wide a)
{
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(sum);
}

/* checks[r] += the four words of lane r. */
static inline void add_checks(uint32_t *checks, wide a, uint32_t count)
{
    const __mmask8 used = (__mmask8)((1u << count) - 1);
    a = _mm512_add_epi32(a, _mm512_shuffle_epi32(a, _MM_PERM_BADC));
    a = _mm512_add_epi32(a, _mm512_shuffle_epi32(a, _MM_PERM_CDAB));
    const atom sums = _mm512_castsi512_si128(
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), a));
    _mm_mask_storeu_epi32(checks, used, _mm_add_epi32(_mm_maskz_loadu_epi32(used, checks), sums));
}

static inline void transpose_square(wide *a)
{
    const wide low01 = _mm512_shuffle_i32x4(a[0], a[1], 0x44), high01 = _mm512_shuffle_i32x4(a[0], a[1], 0xEE);
    const wide low23 = _mm512_shuffle_i32x4(a[2], a[3], 0x44), high23 = _mm512_shuffle_i32x4(a[2], a[3], 0xEE);
    a[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    a[1] = _mm512_shuffle_i32x4(low01, low23, 0xDD);
    a[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    a[3] = _mm512_shuffle_i32x4(high01, high23, 0xDD);
}

/* Eight int16 of each lane as two times four int32 of it. */
static inline void widen_halves(wide *low, wide *high, wide a)
{
    const wide sign = _mm512_srai_epi16(a, 15);
    *low = _mm512_unpacklo_epi16(a, sign);
    *high = _mm512_unpackhi_epi16(a, sign);
}

/* 128 codes as 64 bytes of nibbles. */
static inline wide pack_wide(const int8_t *codes)
{
    const wide nibble = _mm512_set1_epi8(15), weights = _mm512_set1_epi16(0x1001);
    wide a = _mm512_maddubs_epi16(_mm512_and_si512(load_wide(codes), nibble), weights);
    wide b = _mm512_maddubs_epi16(_mm512_and_si512(load_wide(codes + 64), nibble), weights);
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packus_epi16(a, b));
}

/* Sixteen int8 as int32. */
static inline void widen_codes(wide *words, atom codes)
{
    words[0] = _mm512_cvtepi8_epi32(codes);
}

static inline wide_float no_floats(void)
{
    return _mm512_setzero_ps();
}

static inline wide_float load_floats(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void store_floats(float *p, wide_float a)
{
    _mm512_storeu_ps(p, a);
}

static inline wide_float scale_words(wide sums, float x_scale, wide_float w_scales)
{
    return _mm512_mul_ps(_mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(x_scale), no_floats()), w_scales);
}

/* ---- nibbles to bytes ---- */

/* Either half of a byte in a byte of its own. */
static inline expanded expand(const uint8_t *p)
{
    const wide words = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_ternarylogic_epi32(words, _mm512_slli_epi16(words, 4), _mm512_set1_epi8(15), 0xA8); /* (a | b) & c */
}

static inline void store_expanded(uint8_t *p, expanded a)
{
    store_wide(p, a);
}

static inline expanded_table load_table(const int8_t *table)
{
    return _mm512_broadcast_i32x4(load_atom(table));
}

static inline expanded look_up(expanded_table table, expanded index)
{
    return _mm512_shuffle_epi8(table, index);
}

/* Bytes mod 256. */
static inline expanded add_expanded(expanded a, expanded b)
{
    return _mm512_add_epi8(a, b);
}

/* Bits shift .. shift + bits - 1 of either half of a byte, shifted up by four. */
static inline expanded expand_upper(const uint8_t *p, uint32_t shift, uint32_t bits)
{
    const wide words =
        _mm512_srl_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p)), _mm_cvtsi32_si128((int)shift));
    const wide used = _mm512_and_si512(words, _mm512_set1_epi16(bits == 1 ? 0x11 : 0x33));
    return _mm512_ternarylogic_epi32(_mm512_slli_epi16(used, 4), _mm512_slli_epi16(used, 8),
                                     _mm512_set1_epi8((char)0xF0), 0xA8);
}

static inline expanded join_upper(expanded low, expanded upper, uint32_t bits)
{
    const wide sign = _mm512_set1_epi8((char)(8 << bits));
    return _mm512_sub_epi8(_mm512_ternarylogic_epi32(low, upper, sign, 0x56), sign); /* (a | b) ^ c */
}

#endif
