/* Panels of 16-bit pairs, [16 pairs of k a brick][BRICK_CHANNELS][2] in natural channel order, and what a register tile
 * does with them: for weights that use a whole byte, where products of bytes would not fit 16 bits. Sums are exact:
 * vpmaddwd adds into 32 bits. Included once by a kernel file, after BRICK_CHANNELS and BRICK_ROWS. */
#define PANEL_BRICK_BYTES (BRICK_CHANNELS * 64)
#define PANEL_WIDENS /* activations are read as int16_t */

typedef int16_t panel_input;

/* Codes of eight channels, 32 bytes each at rows[i], into their place in the panel of a brick. */
static inline void inflate_eight(uint8_t *panel, const uint8_t *const *rows)
{
    __m256i pairs[8];
    for (uint32_t i = 0; i < 8; i++)
        pairs[i] = _mm256_loadu_si256((const __m256i *)rows[i]);
    ork_transpose_words_avx2(pairs);
    for (uint32_t p = 0; p < 8; p++) {
        const __m128i low = _mm256_castsi256_si128(pairs[p]), high = _mm256_extracti128_si256(pairs[p], 1);
        _mm256_store_si256((__m256i *)(panel + p * BRICK_CHANNELS * 4), _mm256_cvtepi8_epi16(low));
        _mm256_store_si256((__m256i *)(panel + (p + 8) * BRICK_CHANNELS * 4), _mm256_cvtepi8_epi16(high));
    }
}

/* sums + 16 channels of the panel, from w on, times rows of activations k..k_end-1. Twelve sums, two weights, an input
 * and a product are all sixteen registers. */
static inline __attribute__((always_inline)) void add_bricks(__m256i (*sums)[2], const uint8_t *w,
                                                             const panel_input *const *x, uint32_t k, uint32_t k_end,
                                                             const int rows)
{
    for (; k < k_end; k += 2, w += BRICK_CHANNELS * 4) {
        __m256i low = _mm256_load_si256((const __m256i *)w), high = _mm256_load_si256((const __m256i *)(w + 32));
        ORK_KEEP_IN_REGISTER(low);
        ORK_KEEP_IN_REGISTER(high);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, x[i] + k, sizeof pair);
            const __m256i input = _mm256_set1_epi32(pair);
            sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(low, input));
            sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(high, input));
            ORK_KEEP_IN_REGISTER(sums[i][0]);
            ORK_KEEP_IN_REGISTER(sums[i][1]);
        }
    }
}
