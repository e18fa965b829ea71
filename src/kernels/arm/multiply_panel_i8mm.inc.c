/* The register tile of brick matmuls with more than one row, AArch64 int8 matrix multiply: eight channels by up to eight
 * rows, over a panel of [k / 8][BRICK_CHANNELS][8] signed bytes in natural channel order. An instruction takes eight
 * inputs of two rows and of two channels to their four sums. */
#include "kernels/arm/tile_blocks_neon.h"

#define ROW_PAIRS (BRICK_ROWS / 2)
#define PANEL_EIGHTS (PANEL_BRICKS * 4)

/* The activations of the run as [k / 8][row pairs][2][8]; a missing last row repeats the one before it. */
static void pack_rows(int8_t (*packed)[ROW_PAIRS][16], const struct panel_group *group)
{
    const uint64_t first = group->begin * 32ull, inputs = (group->end - group->begin) * 32ull;
    for (uint32_t pair = 0; pair < (group->rows + 1) / 2; pair++) {
        const int8_t *even = group->x[2 * pair] + first;
        const int8_t *odd = 2 * pair + 1 < group->rows ? group->x[2 * pair + 1] + first : even;
        for (uint64_t k = 0; k < inputs; k += 16) {
            const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(even + k)), b = vreinterpretq_s64_s8(vld1q_s8(odd + k));
            vst1q_s8(packed[k / 8][pair], vreinterpretq_s8_s64(vzip1q_s64(a, b)));
            vst1q_s8(packed[k / 8 + 1][pair], vreinterpretq_s8_s64(vzip2q_s64(a, b)));
        }
    }
}

/* Two rows by two channels and the same of the next channels are four channels of each row. */
static inline __attribute__((always_inline)) void finish_pair(const struct tile_end *end, const struct tile_block *b,
                                                              int pair, uint32_t c, int32x4_t left, int32x4_t right,
                                                              const int rows, const bool whole)
{
    const int64x2_t low = vreinterpretq_s64_s32(left), high = vreinterpretq_s64_s32(right);
    tile_finish(end, b, 2 * pair, c, vreinterpretq_s32_s64(vzip1q_s64(low, high)), whole);
    if (2 * pair + 1 < rows)
        tile_finish(end, b, 2 * pair + 1, c, vreinterpretq_s32_s64(vzip2q_s64(low, high)), whole);
}

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_group *group, const int rows)
{
    const int pairs = (rows + 1) / 2;
    int8_t packed[PANEL_EIGHTS][ROW_PAIRS][16];
    pack_rows(packed, group);
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        const int8_t *w = (const int8_t *)group->panel + c * 8;
        const int8_t *x = packed[0][0];
        for (struct tile_block b = tile_block_first(group); b.t < group->end; tile_block_next(group, &b)) {
            const struct tile_end end = tile_end_of(group, &b, rows);
            int32x4_t sums[ROW_PAIRS][4];
            for (int p = 0; p < pairs; p++)
                for (int q = 0; q < 4; q++)
                    sums[p][q] = end.base;
            for (uint32_t k = b.t * 4; k < b.stop * 4; k++, w += BRICK_CHANNELS * 8, x += ROW_PAIRS * 16) {
                int8x16_t input[ROW_PAIRS];
                for (int p = 0; p < pairs; p++)
                    input[p] = vld1q_s8(x + p * 16);
                for (int q = 0; q < 4; q++) {
                    const int8x16_t weights = vld1q_s8(w + q * 16);
                    for (int p = 0; p < pairs; p++)
                        sums[p][q] = ork_in_order_neon(vmmlaq_s32(sums[p][q], input[p], weights));
                }
            }
            if (end.is_short)
                for (int p = 0; p < pairs; p++)
                    for (int q = 0; q < 4; q += 2)
                        finish_pair(&end, &b, p, c + 2 * q, sums[p][q], sums[p][q + 1], rows, true);
            else
                for (int p = 0; p < pairs; p++)
                    for (int q = 0; q < 4; q += 2)
                        finish_pair(&end, &b, p, c + 2 * q, sums[p][q], sums[p][q + 1], rows, false);
        }
    }
}

static __attribute__((noinline)) void multiply_full_tile(const struct panel_group *group)
{
    multiply_rows(group, BRICK_ROWS);
}

static void multiply_group(const struct panel_group *group)
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
        ROWS_CASE(5);
        ROWS_CASE(6);
        ROWS_CASE(7);
#undef ROWS_CASE
    default:
        multiply_full_tile(group);
        break;
    }
}
