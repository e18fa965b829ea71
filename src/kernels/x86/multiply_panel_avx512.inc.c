/* The register tile of brick matmuls with more than one row, AVX-512 VNNI: BRICK_CHANNELS unsigned weights by up to
 * BRICK_ROWS rows of signed activations, over a panel of [k / 4][BRICK_CHANNELS][4] bytes. */
#include "kernels/panel_group.h"

#define PANEL_REGISTERS (BRICK_CHANNELS / 16)

/* What the accumulators of one activation block begin with: the bias of the unsigned weights, or what an earlier run of
 * bricks left. */
#define START_SUMS(i, c)                                                                                               \
    (begins ? _mm512_set1_epi32(-BRICK_BIAS * group->sums[i][block])                                                   \
            : _mm512_load_si512(group->acc + (i)*BRICK_CHANNELS + (c)*16))

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_group *group, const int rows)
{
    const uint8_t *panel = group->panel;
    const int8_t *x[BRICK_ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        x[i] = group->x[i];
    uint32_t t = group->begin, block = t / group->block_bricks, block_begin = block * group->block_bricks;
    for (; t < group->end; block++) {
        uint32_t block_end = block_begin + group->block_bricks;
        block_end = block_end < group->column_bricks ? block_end : group->column_bricks;
        const uint32_t stop = block_end < group->end ? block_end : group->end;
        const bool begins = t == block_begin, ends = stop == block_end;
        __m512i sums[BRICK_ROWS][PANEL_REGISTERS];
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int c = 0; c < PANEL_REGISTERS; c++)
                sums[i][c] = START_SUMS(i, c);
        for (uint64_t k = t * 32ull, k_end = stop * 32ull; k < k_end; k += 4, panel += BRICK_CHANNELS * 4) {
            __m512i w[PANEL_REGISTERS];
#pragma GCC unroll 8
            for (int c = 0; c < PANEL_REGISTERS; c++) {
                w[c] = _mm512_load_si512(panel + c * 64);
                ORK_KEEP_IN_REGISTER(w[c]);
            }
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                int32_t four;
                memcpy(&four, x[i] + k, sizeof four);
                const __m512i input = _mm512_set1_epi32(four);
#pragma GCC unroll 8
                for (int c = 0; c < PANEL_REGISTERS; c++) {
                    sums[i][c] = _mm512_dpbusd_epi32(sums[i][c], w[c], input);
                    ORK_KEEP_IN_REGISTER(sums[i][c]);
                }
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int c = 0; c < PANEL_REGISTERS; c++) {
                float *y = group->y + i * BRICK_CHANNELS + c * 16;
                if (ends)
                    v16_store(y,
                              v16_fma(_mm512_cvtepi32_ps(sums[i][c]), v16_set1(group->scales[i][block]), v16_load(y)));
                else
                    _mm512_store_si512(group->acc + i * BRICK_CHANNELS + c * 16, sums[i][c]);
            }
        t = block_begin = stop;
    }
}

/* Not inlined: what its surroundings keep in registers would be spilled within the innermost loop. */
static __attribute__((noinline)) void multiply_group(const struct panel_group *group)
{
    switch (group->rows) {
#define ROWS_CASE(rows)                                                                                                \
    case rows:                                                                                                         \
        multiply_rows(group, rows);                                                                                    \
        break
        ROWS_CASE(1);
        ROWS_CASE(2);
        ROWS_CASE(3);
        ROWS_CASE(4);
#if BRICK_ROWS == 8
        ROWS_CASE(5);
        ROWS_CASE(6);
        ROWS_CASE(7);
#endif
#undef ROWS_CASE
    default:
        multiply_rows(group, BRICK_ROWS);
        break;
    }
}
