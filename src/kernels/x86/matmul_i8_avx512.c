/* Matmul on i8 bricks with AVX-512 VNNI. Weights become unsigned by flipping their sign bit (code + 128); the sum of
 * the activations, times -128, takes the bias out again. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx512.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 128
#define BRICK_ROWS 8
#define PANEL_BRICKS 16
#define PANEL_BRICK_BYTES 1024

/* How far ahead a single row's weights are asked for, into the second cache. This kernel reads faster than memory gives,
 * and then the first cache's misses get in the way of the hardware's own reading ahead: 97 to 99 % of plain reads with
 * this, 91 % without; other distances and hints are worse, and the 4-bit kernels need none (checkkernels --bench,
 * Zen 4). */
#define PREFETCH_BYTES 1024

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
            _mm_prefetch((const char *)bricks + PREFETCH_BYTES + i * 64, _MM_HINT_T1);
            __m512i w = _mm512_xor_si512(_mm512_loadu_si512(bricks + i * 64), codes->sign);
            sums[i] = _mm512_dpbusd_epi32(sums[i], w, input);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
    _mm512_storeu_si512(acc, ork_sum_halves_avx512(sums));
    _mm512_storeu_si512(acc + 16, ork_sum_halves_avx512(sums + 8));
}

static inline v16 panel_to_natural(v16 a)
{
    return _mm512_permutexvar_ps(ork_natural_order_avx512(), a);
}

/* Panel: [8 groups of 4 k][32 channels][4 k]. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (int half = 0; half < 2; half++) {
        __m512i w[8], groups[8];
        for (int i = 0; i < 8; i++)
            w[i] = _mm512_xor_si512(_mm512_loadu_si512(brick + half * 512 + i * 64), codes->sign);
        ork_transpose_channels_avx512(groups, w);
        for (int q = 0; q < 8; q++)
            _mm512_store_si512(panel + q * 128 + half * 64, groups[q]);
    }
}

#include "kernels/x86/multiply_panel_avx512.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i8_avx512(const struct ork_matmul_args *args)
{
    const brick_codes codes = {_mm512_set1_epi8((char)0x80)};
    brick_matmul(args, args->x->plain, &codes);
}
