/* Matmul on nf4 bricks with AVX2: nibbles become codes by a byte shuffle of the 16-entry table. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 0
#define BRICK_ROWS 6
#define PANEL_BRICKS 4

#include "kernels/x86/panel_pairs_avx2.inc.c"

typedef struct {
    __m256i codes, magnitudes; /* the table and its absolute values, in both halves */
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). Register c
 * holds channels 2 c and 2 c + 1, four partial sums each. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *table)
{
    (void)start;
    const __m256i mask = _mm256_set1_epi8(15), codes = table->codes, magnitudes = table->magnitudes;
    __m256i sums[BRICK_CHANNELS / 2];
    for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++)
        sums[c] = _mm256_setzero_si256();
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m256i even = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
        const __m256i odd = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
        for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++) {
            __m256i nibbles = _mm256_loadu_si256((const __m256i *)(bricks + c * 32));
            __m256i low = _mm256_and_si256(nibbles, mask);
            __m256i high = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), mask);
            __m256i sum =
                ork_dot_avx2(sums[c], _mm256_shuffle_epi8(codes, low), _mm256_shuffle_epi8(magnitudes, low), even);
            sums[c] = ork_dot_avx2(sum, _mm256_shuffle_epi8(codes, high), _mm256_shuffle_epi8(magnitudes, high), odd);
            ORK_KEEP_ORDER();
        }
    }
    ork_store_sums_avx2(acc, sums, BRICK_CHANNELS / 2);
}

/* Codes of the low nibbles as 16-bit numbers. */
static inline void store_pairs(uint8_t *panel, __m256i nibbles, const brick_codes *codes)
{
    const __m256i bytes = _mm256_shuffle_epi8(codes->codes, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm256_store_si256((__m256i *)panel, _mm256_cvtepi8_epi16(low));
    _mm256_store_si256((__m256i *)(panel + 32), _mm256_cvtepi8_epi16(high));
}

/* Pairs of k follow the split activations: 8 pairs of even k, then 8 of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        __m256i words[8]; /* four k of channels c..c+7, then of c+8..c+15 */
        for (uint32_t i = 0; i < 8; i++) {
            const __m128i low = _mm_loadu_si128((const __m128i *)(brick + (c + i) * 16));
            const __m128i high = _mm_loadu_si128((const __m128i *)(brick + (c + i + 8) * 16));
            words[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        }
        ork_transpose_words_avx2(words);
        for (uint32_t p = 0; p < 8; p++) {
            uint8_t *even = panel + (p * BRICK_CHANNELS + c) * 4, *odd = even + 8 * BRICK_CHANNELS * 4;
            store_pairs(even, words[p], codes);
            store_pairs(odd, _mm256_srli_epi16(words[p], 4), codes);
        }
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

void ork_matmul_nf4_avx2(const struct ork_matmul_args *args)
{
    brick_codes table;
    table.codes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)args->w->table));
    table.magnitudes = _mm256_abs_epi8(table.codes);
    brick_matmul(args, args->x->split, &table);
}
