/* Matmul on i4 bricks with AVX2. Flipping the sign bit of each nibble makes an unsigned code (code + 8) that vpmaddubsw
 * takes as it is; the sum of the activations, times -8, takes the bias out again. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 8
#define BRICK_ROWS 6
#define PANEL_BRICKS 8
#define PANEL_WORD_GROUPS 8 /* words of at most 16 * 15 * 127 = 30480 */

#include "kernels/x86/panel_words_avx2.inc.c"

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return (v16){_mm256_permutevar8x32_ps(a.low, ork_natural_order_avx2()),
                 _mm256_permutevar8x32_ps(a.high, ork_natural_order_avx2())};
}

/* Codes in low and high nibbles. */
static inline void split_nibbles(__m256i *low, __m256i *high, __m256i nibbles)
{
    const __m256i mask = _mm256_set1_epi8(15);
    nibbles = _mm256_xor_si256(nibbles, _mm256_set1_epi8((char)0x88));
    *low = _mm256_and_si256(nibbles, mask);
    *high = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), mask);
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). Register c
 * holds channels 2 c and 2 c + 1, four partial sums each. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)codes;
    __m256i sums[BRICK_CHANNELS / 2];
    for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++)
        sums[c] = _mm256_setr_epi32(start, 0, 0, 0, start, 0, 0, 0);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m256i even = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
        const __m256i odd = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
        for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++) {
            __m256i low, high;
            split_nibbles(&low, &high, _mm256_loadu_si256((const __m256i *)(bricks + c * 32)));
            __m256i words = _mm256_add_epi16(_mm256_maddubs_epi16(low, even), _mm256_maddubs_epi16(high, odd));
            sums[c] = _mm256_add_epi32(sums[c], _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
            ORK_KEEP_ORDER();
        }
    }
    ork_store_sums_avx2(acc, sums, BRICK_CHANNELS / 2);
}

/* Groups of four k follow the split activations: the first four are even k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        __m256i in[4], out[4];
        for (uint32_t i = 0; i < 4; i++)
            in[i] = _mm256_loadu_si256((const __m256i *)(brick + c * 16 + i * 32));
        ork_transpose_lanes_avx2(out, in);
        for (uint32_t q = 0; q < 4; q++) {
            __m256i low, high;
            split_nibbles(&low, &high, out[q]);
            _mm256_store_si256((__m256i *)(panel + (q * BRICK_CHANNELS + c) * 4), low);
            _mm256_store_si256((__m256i *)(panel + ((q + 4) * BRICK_CHANNELS + c) * 4), high);
        }
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_i4_avx2(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
