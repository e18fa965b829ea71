/* Matmuls on bricks of nibbles with AVX-512 VNNI and VBMI. A nibble becomes an unsigned code (code + 128) by one byte
 * permutation of a 64-entry table that holds the 16 codes four times, so that the upper bits of the index need no masking;
 * the sum of the activations, times -128, takes the bias out again. Included once by a kernel file; with BRICK_NESTED
 * (n8) a second run of nibbles adds to each code. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx512.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 128
#define BRICK_ROWS 5
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

typedef struct {
    __m512i table; /* 16 biased codes, four times */
#ifdef BRICK_NESTED
    __m512i doubled;         /* twice the signed nibbles */
    uint64_t residual_bytes; /* from a base brick to its residual brick */
#endif
} brick_codes;

/* The nibbles of the residual that belong to 64 bytes of base nibbles. */
static inline __m512i residual_of(const uint8_t *base, const brick_codes *codes)
{
#ifdef BRICK_NESTED
    return _mm512_loadu_si512(base + codes->residual_bytes);
#else
    (void)base;
    (void)codes;
    return _mm512_setzero_si512();
#endif
}

/* Codes of the low nibbles. */
static inline __m512i look_up(__m512i nibbles, __m512i residual, const brick_codes *codes)
{
    const __m512i base = _mm512_permutexvar_epi8(nibbles, codes->table);
#ifdef BRICK_NESTED
    return _mm512_add_epi8(base, _mm512_permutexvar_epi8(residual, codes->doubled));
#else
    (void)residual;
    return base;
#endif
}

/* Position 4 j + i holds channel 4 i + j, in panels and in the lane sums; the exchange is its own inverse. */
static inline __m512i exchange_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

static inline v16 panel_to_natural(v16 a)
{
    return _mm512_permutexvar_ps(exchange_order(), a);
}

/* 16 registers of 4 channels by 4 partial sums. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    const brick_codes constants = *codes;
    __m512i sums[16];
    for (int i = 0; i < 16; i++)
        sums[i] = _mm512_maskz_set1_epi32(0x1111, start);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m512i even = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)x));
        const __m512i odd = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(x + 16)));
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m512i nibbles = _mm512_loadu_si512(bricks + i * 64), residual = residual_of(bricks + i * 64, &constants);
            sums[i] = _mm512_dpbusd_epi32(sums[i], look_up(nibbles, residual, &constants), even);
            nibbles = _mm512_srli_epi16(nibbles, 4);
            residual = _mm512_srli_epi16(residual, 4);
            sums[i] = _mm512_dpbusd_epi32(sums[i], look_up(nibbles, residual, &constants), odd);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
    for (int i = 0; i < 4; i++) {
        __m512i sum = ork_sum_lanes_avx512(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
        _mm512_storeu_si512(acc + i * 16, _mm512_permutexvar_epi32(exchange_order(), sum));
    }
}

/* Panel: [8 groups of 4 k][64 channels][4 k]; the first four groups are the even k, as in split activations. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    const brick_codes constants = *codes;
    for (int i = 0; i < 4; i++) {
        __m512i rows[4], more[4], nibbles[4], residual[4];
        for (int j = 0; j < 4; j++) {
            rows[j] = _mm512_loadu_si512(brick + i * 256 + j * 64);
            more[j] = residual_of(brick + i * 256 + j * 64, &constants);
        }
        ork_transpose_lanes_avx512(nibbles, rows);
        ork_transpose_lanes_avx512(residual, more);
        for (int q = 0; q < 4; q++) {
            __m512i odd = _mm512_srli_epi16(nibbles[q], 4), odd_residual = _mm512_srli_epi16(residual[q], 4);
            _mm512_store_si512(panel + q * 256 + i * 64, look_up(nibbles[q], residual[q], &constants));
            _mm512_store_si512(panel + (q + 4) * 256 + i * 64, look_up(odd, odd_residual, &constants));
        }
    }
}

#include "kernels/x86/multiply_panel_avx512.inc.c"
#include "kernels/matmul_brick.inc.c"

static inline __m512i four_times(const int8_t *codes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)codes));
}

static inline __m512i biased_codes(const int8_t *codes)
{
    return _mm512_xor_si512(four_times(codes), _mm512_set1_epi8((char)0x80));
}
