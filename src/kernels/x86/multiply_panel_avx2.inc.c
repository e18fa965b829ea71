/* The register tile of brick matmuls with more than one row, AVX2: weights and activations as 16-bit pairs, over a panel
 * of [16 pairs of k a brick][BRICK_CHANNELS][2] int16 in natural channel order. Sums are exact: vpmaddwd adds into 32 bits. */

static inline __attribute__((always_inline)) void multiply_rows(int32_t (*acc)[BRICK_CHANNELS], const uint8_t *panel,
                                                                const int16_t (*x)[PANEL_BRICKS * 32], const int rows,
                                                                uint32_t bricks)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        __m256i sums[BRICK_ROWS][2];
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                sums[i][h] = _mm256_load_si256((const __m256i *)(acc[i] + c + 8 * h));
        const uint8_t *w = panel + c * 4;
        for (uint32_t k = 0; k < bricks * 32; k += 2, w += BRICK_CHANNELS * 4) {
            const __m256i low = _mm256_load_si256((const __m256i *)w), high = _mm256_load_si256((const __m256i *)(w + 32));
            for (int i = 0; i < rows; i++) {
                int32_t pair;
                memcpy(&pair, x[i] + k, sizeof pair);
                const __m256i input = _mm256_set1_epi32(pair);
                sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(low, input));
                sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(high, input));
            }
        }
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                _mm256_store_si256((__m256i *)(acc[i] + c + 8 * h), sums[i][h]);
    }
}

static void multiply_panel(int32_t (*acc)[BRICK_CHANNELS], const uint8_t *panel, const int8_t *const *x, uint32_t rows,
                           uint32_t bricks)
{
    _Alignas(32) int16_t wide[BRICK_ROWS][PANEL_BRICKS * 32];
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < bricks * 32; k += 16) {
            __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(x[i] + k)));
            _mm256_store_si256((__m256i *)(wide[i] + k), words);
        }
    switch (rows) {
    case 1:
        multiply_rows(acc, panel, wide, 1, bricks);
        break;
    case 2:
        multiply_rows(acc, panel, wide, 2, bricks);
        break;
    case 3:
        multiply_rows(acc, panel, wide, 3, bricks);
        break;
    default:
        multiply_rows(acc, panel, wide, BRICK_ROWS, bricks);
        break;
    }
}
