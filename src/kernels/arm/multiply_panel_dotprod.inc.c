/* The register tile of brick matmuls with more than one row, AArch64 dot product: sixteen channels by up to BRICK_ROWS
 * rows, over a panel of [k / 4][BRICK_CHANNELS][4] signed bytes in natural channel order. */
#include "kernels/arm/tile_blocks_neon.h"

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_group *group, const int rows)
{
/* Four k of all rows against sixteen channels; the lane must be a constant. */
#define STEP(lane)                                                                                                     \
    for (int q = 0; q < 4; q++) {                                                                                      \
        const int8x16_t weights = vld1q_s8((const int8_t *)(w + (lane)*BRICK_CHANNELS * 4 + q * 16));                  \
        for (int i = 0; i < rows; i++)                                                                                 \
            sums[i][q] = ork_in_order_neon(vdotq_laneq_s32(sums[i][q], weights, input[i], lane));                      \
    }
    const int8_t *x[BRICK_ROWS];
    for (int i = 0; i < rows; i++)
        x[i] = group->x[i];
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        const uint8_t *w = group->panel + c * 4;
        for (struct tile_block b = tile_block_first(group); b.t < group->end; tile_block_next(group, &b)) {
            const struct tile_end end = tile_end_of(group, &b, rows);
            int32x4_t sums[BRICK_ROWS][4];
            for (int i = 0; i < rows; i++)
                for (int q = 0; q < 4; q++)
                    sums[i][q] = end.base;
            for (uint64_t k = b.t * 32ull; k < b.stop * 32ull; k += 16, w += BRICK_CHANNELS * 16) {
                int8x16_t input[BRICK_ROWS];
                for (int i = 0; i < rows; i++)
                    input[i] = vld1q_s8(x[i] + k);
                STEP(0)
                STEP(1)
                STEP(2)
                STEP(3)
            }
            if (end.is_short)
                for (int i = 0; i < rows; i++)
                    for (int q = 0; q < 4; q++)
                        tile_finish(&end, &b, i, c + 4 * q, sums[i][q], true);
            else
                for (int i = 0; i < rows; i++)
                    for (int q = 0; q < 4; q++)
                        tile_finish(&end, &b, i, c + 4 * q, sums[i][q], false);
        }
    }
#undef STEP
}

#include "kernels/arm/multiply_group_neon.inc.c"
