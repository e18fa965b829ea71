/* Atoms of the NPU's surfaces, 16 bytes, in the registers that every AVX machine has. */
#ifndef ORK_KERNELS_X86_SURFACE_ATOMS_H
#define ORK_KERNELS_X86_SURFACE_ATOMS_H

#include <immintrin.h>
#include <stdint.h>

typedef __m128i atom;

static inline atom load_atom(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline void store_atom(void *p, atom a)
{
    _mm_storeu_si128(p, a);
}

/* 32 codes as 16 bytes of nibbles, even k low. */
static inline atom pack_atom(const int8_t *codes)
{
    const atom nibble = _mm_set1_epi8(15), weights = _mm_set1_epi16(0x1001);
    const atom a = _mm_maddubs_epi16(_mm_and_si128(load_atom(codes), nibble), weights);
    const atom b = _mm_maddubs_epi16(_mm_and_si128(load_atom(codes + 16), nibble), weights);
    return _mm_packus_epi16(a, b);
}

/* 32 nibbles in two's complement as bytes. */
static inline void expand_nibbles(atom *first, atom *second, atom bytes)
{
    const atom nibble = _mm_set1_epi8(15), sign = _mm_set1_epi8(8);
    const atom low = _mm_and_si128(bytes, nibble), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    *first = _mm_sub_epi8(_mm_xor_si128(_mm_unpacklo_epi8(low, high), sign), sign);
    *second = _mm_sub_epi8(_mm_xor_si128(_mm_unpackhi_epi8(low, high), sign), sign);
}

static inline uint32_t sum_atom(atom a)
{
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xB1)));
}

#endif
