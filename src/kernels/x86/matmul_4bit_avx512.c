/* Matmuls on 4-bit bricks (i4, nf4) with AVX-512 VNNI and VBMI. A nibble becomes an unsigned code (code + 128) by one
 * byte permutation of a 64-entry table that holds the 16 codes four times, so that the upper bits of the index need no
 * masking; the sum of the activations, times -128, takes the bias out again. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx512.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 128
#define BRICK_ROWS 5
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048

typedef __m512i brick_codes; /* 16 biased codes, four times */

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
    const __m512i table = *codes;
    __m512i sums[16];
    for (int i = 0; i < 16; i++)
        sums[i] = _mm512_maskz_set1_epi32(0x1111, start);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m512i even = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)x));
        const __m512i odd = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(x + 16)));
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m512i nibbles = _mm512_loadu_si512(bricks + i * 64);
            sums[i] = _mm512_dpbusd_epi32(sums[i], _mm512_permutexvar_epi8(nibbles, table), even);
            nibbles = _mm512_srli_epi16(nibbles, 4);
            sums[i] = _mm512_dpbusd_epi32(sums[i], _mm512_permutexvar_epi8(nibbles, table), odd);
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
    const __m512i table = *codes;
    for (int i = 0; i < 4; i++) {
        __m512i rows[4], nibbles[4];
        for (int j = 0; j < 4; j++)
            rows[j] = _mm512_loadu_si512(brick + i * 256 + j * 64);
        ork_transpose_lanes_avx512(nibbles, rows);
        for (int q = 0; q < 4; q++) {
            __m512i odd = _mm512_srli_epi16(nibbles[q], 4);
            _mm512_store_si512(panel + q * 256 + i * 64, _mm512_permutexvar_epi8(nibbles[q], table));
            _mm512_store_si512(panel + (q + 4) * 256 + i * 64, _mm512_permutexvar_epi8(odd, table));
        }
    }
}

#include "kernels/x86/multiply_panel_avx512.inc.c"
#include "kernels/matmul_brick.inc.c"

static void matmul_codes(const struct ork_matmul_args *args, const int8_t *codes)
{
    const __m128i biased = _mm_xor_si128(_mm_loadu_si128((const __m128i *)codes), _mm_set1_epi8((char)0x80));
    const brick_codes table = _mm512_broadcast_i32x4(biased);
    brick_matmul(args, args->x->split, &table);
}

void ork_matmul_i4_avx512(const struct ork_matmul_args *args)
{
    static const int8_t codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    matmul_codes(args, codes);
}

void ork_matmul_nf4_avx512(const struct ork_matmul_args *args)
{
    matmul_codes(args, args->w->table);
}
