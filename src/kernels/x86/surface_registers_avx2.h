/* Registers of the surface kernels with AVX2: two 128-bit lanes. */
#ifndef ORK_KERNELS_X86_SURFACE_REGISTERS_AVX2_H
#define ORK_KERNELS_X86_SURFACE_REGISTERS_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/x86/surface_atoms.h"

#define LANES 2
#define EXPANDED 1

typedef __m256i wide, expanded, expanded_table;
typedef __m256 wide_float;

static inline wide load_wide(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline void store_wide(void *p, wide a)
{
    _mm256_storeu_si256(p, a);
}

static inline wide no_words(void)
{
    return _mm256_setzero_si256();
}

static inline wide repeat_word(uint32_t a)
{
    return _mm256_set1_epi32((int)a);
}

/* `count` rows of 16 bytes, the others zero. */
static inline wide load_rows(const void *p, uint32_t count)
{
    return count == 2 ? load_wide(p) : _mm256_zextsi128_si256(load_atom(p));
}

static inline wide repeat_atom(const uint32_t *p)
{
    return _mm256_broadcastsi128_si256(load_atom(p));
}

static inline wide add_words(wide a, wide b)
{
    return _mm256_add_epi32(a, b);
}

static inline wide multiply_words(wide a, wide b)
{
    return _mm256_mullo_epi32(a, b);
}

static inline wide add_product(wide sum, wide a, wide b)
{
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b));
}

static inline uint32_t sum_words(wide a)
{
    return sum_atom(_mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
}

/* checks[r] += the four words of lane r. */
static inline void add_checks(uint32_t *checks, wide a, uint32_t count)
{
    checks[0] += sum_atom(_mm256_castsi256_si128(a));
    if (count > 1)
        checks[1] += sum_atom(_mm256_extracti128_si256(a, 1));
}

static inline void transpose_square(wide *a)
{
    const wide first = _mm256_permute2x128_si256(a[0], a[1], 0x20);
    a[1] = _mm256_permute2x128_si256(a[0], a[1], 0x31);
    a[0] = first;
}

/* Eight int16 of each lane as two times four int32 of it. */
static inline void widen_halves(wide *low, wide *high, wide a)
{
    const wide sign = _mm256_srai_epi16(a, 15);
    *low = _mm256_unpacklo_epi16(a, sign);
    *high = _mm256_unpackhi_epi16(a, sign);
}

/* 64 codes as 32 bytes of nibbles. */
static inline wide pack_wide(const int8_t *codes)
{
    const wide nibble = _mm256_set1_epi8(15), weights = _mm256_set1_epi16(0x1001);
    wide a = _mm256_maddubs_epi16(_mm256_and_si256(load_wide(codes), nibble), weights);
    wide b = _mm256_maddubs_epi16(_mm256_and_si256(load_wide(codes + 32), nibble), weights);
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8);
}

/* Sixteen int8 as int32. */
static inline void widen_codes(wide *words, atom codes)
{
    words[0] = _mm256_cvtepi8_epi32(codes);
    words[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8));
}

static inline wide_float no_floats(void)
{
    return _mm256_setzero_ps();
}

static inline wide_float load_floats(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void store_floats(float *p, wide_float a)
{
    _mm256_storeu_ps(p, a);
}

static inline wide_float scale_words(wide sums, float x_scale, wide_float w_scales)
{
    return _mm256_mul_ps(_mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(x_scale), no_floats()), w_scales);
}

/* ---- nibbles to bytes ---- */

/* Either half of a byte in a byte of its own. */
static inline expanded expand(const uint8_t *p)
{
    const wide words = _mm256_cvtepu8_epi16(load_atom(p));
    return _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15));
}

static inline void store_expanded(uint8_t *p, expanded a)
{
    store_wide(p, a);
}

static inline expanded_table load_table(const int8_t *table)
{
    return _mm256_broadcastsi128_si256(load_atom(table));
}

static inline expanded look_up(expanded_table table, expanded index)
{
    return _mm256_shuffle_epi8(table, index);
}

/* Bytes mod 256. */
static inline expanded add_expanded(expanded a, expanded b)
{
    return _mm256_add_epi8(a, b);
}

/* Bits shift .. shift + bits - 1 of either half of a byte, shifted up by four. */
static inline expanded expand_upper(const uint8_t *p, uint32_t shift, uint32_t bits)
{
    const wide words = _mm256_srl_epi16(_mm256_cvtepu8_epi16(load_atom(p)), _mm_cvtsi32_si128((int)shift));
    const wide used = _mm256_and_si256(words, _mm256_set1_epi16(bits == 1 ? 0x11 : 0x33));
    return _mm256_and_si256(_mm256_or_si256(_mm256_slli_epi16(used, 4), _mm256_slli_epi16(used, 8)),
                            _mm256_set1_epi8((char)0xF0));
}

static inline expanded join_upper(expanded low, expanded upper, uint32_t bits)
{
    const wide sign = _mm256_set1_epi8((char)(8 << bits));
    return _mm256_sub_epi8(_mm256_xor_si256(_mm256_or_si256(low, upper), sign), sign);
}

#endif
