/* Matmul on i8 bricks with AVX-VNNI. Weights become unsigned by flipping their sign bit (code + 128); the sum of the
 * activations, times -128, takes the bias out again. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avxvnni.h"

#define BRICK_CHANNELS 32
#define BRICK_BIAS 128
#define BRICK_ROWS 6
#define PANEL_BRICKS 16

#include "kernels/x86/panel_bytes_avxvnni.inc.c"

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)codes;
    const __m256i sign = _mm256_set1_epi8((char)0x80);
    __m256i sums[BRICK_CHANNELS];
    for (uint32_t c = 0; c < BRICK_CHANNELS; c++)
        sums[c] = _mm256_setr_epi32(start, 0, 0, 0, 0, 0, 0, 0);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m256i input = _mm256_loadu_si256((const __m256i *)x);
        for (uint32_t c = 0; c < BRICK_CHANNELS; c++) {
            __m256i w = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(bricks + c * 32)), sign);
            sums[c] = ork_dot_avxvnni(sums[c], w, input);
            ORK_KEEP_ORDER();
        }
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8)
        _mm256_storeu_si256((__m256i *)(acc + c), ork_sum_eight_avx2(sums + c));
}

static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        const uint8_t *rows[8];
        for (uint32_t i = 0; i < 8; i++)
            rows[i] = brick + (c + i) * 32;
        inflate_eight(panel + c * 4, rows);
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

void ORK_AVXVNNI(ork_matmul_i8)(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->plain, &codes);
}
