/* The register tile of brick matmuls with more than one row, AArch64 baseline: four channels by up to BRICK_ROWS rows,
 * over a panel of [bricks][BRICK_CHANNELS][32 k] signed bytes. */
#include "kernels/arm/tile_blocks_neon.h"

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_group *group, const int rows)
{
    const int8_t *x[BRICK_ROWS];
    for (int i = 0; i < rows; i++)
        x[i] = group->x[i];
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4) {
        const int8_t *w = (const int8_t *)group->panel + c * 32;
        for (struct tile_block b = tile_block_first(group); b.t < group->end; tile_block_next(group, &b)) {
            const struct tile_end end = tile_end_of(group, &b, rows);
            int32x4_t sums[BRICK_ROWS][4];
            for (int i = 0; i < rows; i++)
                for (int q = 0; q < 4; q++)
                    sums[i][q] = vdupq_n_s32(0);
            for (uint64_t k = b.t * 32ull; k < b.stop * 32ull; k += 32, w += PANEL_BRICK_BYTES)
                for (int half = 0; half < 2; half++) {
                    int8x16_t input[BRICK_ROWS];
                    for (int i = 0; i < rows; i++)
                        input[i] = vld1q_s8(x[i] + k + half * 16);
                    for (int q = 0; q < 4; q++) {
                        const int8x16_t weights = vld1q_s8(w + q * 32 + half * 16);
                        int16x8_t products[BRICK_ROWS];
                        for (int i = 0; i < rows; i++)
                            products[i] = ork_multiply_neon(weights, input[i]);
                        for (int i = 0; i < rows; i++)
                            sums[i][q] = ork_in_order_neon(vpadalq_s16(sums[i][q], products[i]));
                    }
                }
            for (int i = 0; i < rows; i++)
                tile_finish(&end, &b, i, c, ork_sum_four_neon(sums[i]), false);
        }
    }
}

#include "kernels/arm/multiply_group_neon.inc.c"
