/* The register tile of brick matmuls with more than one row, AVX2: weights and activations as 16-bit pairs, over a
 * panel of [16 pairs of k a brick][BRICK_CHANNELS][2] int16 in natural channel order. Sums are exact: vpmaddwd adds
 * into 32 bits. */
#include "kernels/panel_job.h"

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_job *job,
                                                                const int16_t (*x)[PANEL_BRICKS * 32], const int rows)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        __m256i sums[BRICK_ROWS][2];
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++) {
                const int32_t *acc = job->acc + i * BRICK_CHANNELS + c + 8 * h;
                sums[i][h] = job->begins ? _mm256_set1_epi32(job->starts[i]) : _mm256_load_si256((const __m256i *)acc);
            }
        const uint8_t *w = job->panel + c * 4;
        for (uint32_t k = 0; k < job->bricks * 32; k += 2, w += BRICK_CHANNELS * 4) {
            const __m256i low = _mm256_load_si256((const __m256i *)w),
                          high = _mm256_load_si256((const __m256i *)(w + 32));
            for (int i = 0; i < rows; i++) {
                int32_t pair;
                memcpy(&pair, x[i] + k, sizeof pair);
                const __m256i input = _mm256_set1_epi32(pair);
                sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(low, input));
                sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(high, input));
            }
        }
        for (int i = 0; i < rows; i++) {
            int32_t *acc = job->acc + i * BRICK_CHANNELS + c;
            float *y = job->y + i * BRICK_CHANNELS + c;
            const v16 block = {_mm256_cvtepi32_ps(sums[i][0]), _mm256_cvtepi32_ps(sums[i][1])};
            if (job->ends) {
                v16_store(y, v16_fma(block, v16_set1(job->scales[i]), v16_load(y)));
            } else {
                _mm256_store_si256((__m256i *)acc, sums[i][0]);
                _mm256_store_si256((__m256i *)(acc + 8), sums[i][1]);
            }
        }
    }
}

static void multiply_panel(const struct panel_job *job)
{
    _Alignas(32) int16_t wide[BRICK_ROWS][PANEL_BRICKS * 32];
    for (uint32_t i = 0; i < job->rows; i++)
        for (uint32_t k = 0; k < job->bricks * 32; k += 16) {
            __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(job->x[i] + k)));
            _mm256_store_si256((__m256i *)(wide[i] + k), words);
        }
    switch (job->rows) {
    case 1:
        multiply_rows(job, wide, 1);
        break;
    case 2:
        multiply_rows(job, wide, 2);
        break;
    case 3:
        multiply_rows(job, wide, 3);
        break;
    default:
        multiply_rows(job, wide, BRICK_ROWS);
        break;
    }
}
