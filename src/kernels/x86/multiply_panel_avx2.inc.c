/* The register tile of brick matmuls with more than one row on 256-bit registers: 16 channels by up to BRICK_ROWS rows.
 * Owns the walk over activation blocks; the products are those of a panel_*.inc.c, which the kernel file has included
 * before. */
#include "kernels/panel_group.h"

/* x: activations from the group's beginning. */
static inline __attribute__((always_inline)) void multiply_rows(const struct panel_group *group,
                                                                const panel_input *const *x, const int rows)
{
    const uint32_t first_block = group->begin / group->block_bricks;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        uint32_t t = group->begin, block = first_block, block_begin = block * group->block_bricks;
        for (; t < group->end; block++) {
            uint32_t block_end = block_begin + group->block_bricks;
            block_end = block_end < group->column_bricks ? block_end : group->column_bricks;
            const uint32_t stop = block_end < group->end ? block_end : group->end, from = t - group->begin;
            const bool begins = t == block_begin, ends = stop == block_end;
            __m256i sums[BRICK_ROWS][2];
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++)
                for (int h = 0; h < 2; h++) {
                    const int32_t *acc = group->acc + i * BRICK_CHANNELS + c + 8 * h;
                    sums[i][h] = begins ? _mm256_set1_epi32(-BRICK_BIAS * group->sums[i][block])
                                        : _mm256_load_si256((const __m256i *)acc);
                }
            add_bricks(sums, group->panel + from * PANEL_BRICK_BYTES + c * 4, x, from * 32, (stop - group->begin) * 32,
                       rows);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                int32_t *acc = group->acc + i * BRICK_CHANNELS + c;
                float *y = group->y + i * BRICK_CHANNELS + c;
                const v16 terms = {_mm256_cvtepi32_ps(sums[i][0]), _mm256_cvtepi32_ps(sums[i][1])};
                if (ends) {
                    v16_store(y, v16_fma(terms, v16_set1(group->scales[i][block]), v16_load(y)));
                } else {
                    _mm256_store_si256((__m256i *)acc, sums[i][0]);
                    _mm256_store_si256((__m256i *)(acc + 8), sums[i][1]);
                }
            }
            t = block_begin = stop;
        }
    }
}

/* Not inlined: what its surroundings keep in registers would be spilled within the innermost loop. */
static __attribute__((noinline)) void multiply_group(const struct panel_group *group)
{
    const panel_input *x[BRICK_ROWS];
#ifdef PANEL_WIDENS
    _Alignas(32) int16_t wide[BRICK_ROWS][PANEL_BRICKS * 32];
    for (uint32_t i = 0; i < group->rows; i++) {
        const int8_t *codes = group->x[i] + group->begin * 32ull;
        for (uint32_t k = 0; k < (group->end - group->begin) * 32; k += 16) {
            __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(codes + k)));
            _mm256_store_si256((__m256i *)(wide[i] + k), words);
        }
        x[i] = wide[i];
    }
#else
    for (uint32_t i = 0; i < group->rows; i++)
        x[i] = group->x[i] + group->begin * 32ull;
#endif
    switch (group->rows) {
#define ROWS_CASE(rows)                                                                                                \
    case rows:                                                                                                         \
        multiply_rows(group, x, rows);                                                                                 \
        break
        ROWS_CASE(1);
        ROWS_CASE(2);
        ROWS_CASE(3);
#if BRICK_ROWS == 6
        ROWS_CASE(4);
        ROWS_CASE(5);
#endif
#undef ROWS_CASE
    default:
        multiply_rows(group, x, BRICK_ROWS);
        break;
    }
}
