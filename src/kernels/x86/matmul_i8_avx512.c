/* Matmul on i8 bricks with AVX-512 VNNI. Weights become unsigned by flipping their sign bit (code + 128); the sum of the
 * activations, times -128, takes the bias out again. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/reduce_avx512.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 128
#define BRICK_ROWS 8
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

typedef struct {
    __m512i sign; /* 0x80 in every byte */
} brick_codes;

/* 16 registers of 2 channels by 8 partial sums. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    __m512i sums[16];
    for (int i = 0; i < 16; i++)
        sums[i] = _mm512_maskz_set1_epi32(0x0101, start);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m512i input = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)x));
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m512i w = _mm512_xor_si512(_mm512_loadu_si512(bricks + i * 64), codes->sign);
            sums[i] = _mm512_dpbusd_epi32(sums[i], w, input);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
    _mm512_storeu_si512(acc, ork_sum_halves_avx512(sums));
    _mm512_storeu_si512(acc + 16, ork_sum_halves_avx512(sums + 8));
}

/* Panels hold 16 channels as 0, 2, 4, 6, 1, 3, 5, 7 and the same from 8. */
static inline v16 panel_to_natural(v16 a)
{
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), a);
}

/* Transposes 4x4 dwords in each 128-bit lane: lane l of out[q] is dword q of lane l of in[0..3]. */
static inline void transpose_lanes(__m512i *out, const __m512i *in)
{
    __m512i ab_low = _mm512_unpacklo_epi32(in[0], in[1]), ab_high = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i cd_low = _mm512_unpacklo_epi32(in[2], in[3]), cd_high = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/* Panel: [8 groups of 4 k][32 channels][4 k]. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (int half = 0; half < 2; half++) {
        __m512i w[8], low[4], high[4];
        for (int i = 0; i < 8; i++)
            w[i] = _mm512_xor_si512(_mm512_loadu_si512(brick + half * 512 + i * 64), codes->sign);
        transpose_lanes(low, w);
        transpose_lanes(high, w + 4);
        for (int q = 0; q < 4; q++) {
            _mm512_store_si512(panel + q * 128 + half * 64, _mm512_shuffle_i32x4(low[q], high[q], 0x88));
            _mm512_store_si512(panel + (q + 4) * 128 + half * 64, _mm512_shuffle_i32x4(low[q], high[q], 0xDD));
        }
    }
}

#include "kernels/x86/multiply_panel_avx512.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_avx512(const struct ork_matmul_args *args)
{
    const brick_codes codes = {_mm512_set1_epi8((char)0x80)};
    brick_matmul(args, args->x->plain, &codes);
}
