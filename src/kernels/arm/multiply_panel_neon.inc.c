/* The register tile of brick matmuls with more than one row, AArch64 dot product: sixteen channels by up to BRICK_ROWS
 * rows, over a panel of [k / 4][BRICK_CHANNELS][4] signed bytes in natural channel order. */

static inline __attribute__((always_inline)) void multiply_rows(int32_t (*acc)[BRICK_CHANNELS], const uint8_t *panel,
                                                                const int8_t *const *x, const int rows, uint32_t bricks)
{
/* Four k of all rows against sixteen channels; the lane must be a constant. */
#define STEP(lane)                                                                                                     \
    for (int q = 0; q < 4; q++) {                                                                                      \
        const int8x16_t weights = vld1q_s8((const int8_t *)(w + (lane) * BRICK_CHANNELS * 4 + q * 16));                \
        for (int i = 0; i < rows; i++)                                                                                 \
            sums[i][q] = vdotq_laneq_s32(sums[i][q], weights, input[i], lane);                                         \
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        int32x4_t sums[BRICK_ROWS][4];
        for (int i = 0; i < rows; i++)
            for (int q = 0; q < 4; q++)
                sums[i][q] = vld1q_s32(acc[i] + c + 4 * q);
        const uint8_t *w = panel + c * 4;
        for (uint32_t k = 0; k < bricks * 32; k += 16, w += BRICK_CHANNELS * 16) {
            int8x16_t input[BRICK_ROWS];
            for (int i = 0; i < rows; i++)
                input[i] = vld1q_s8(x[i] + k);
            STEP(0)
            STEP(1)
            STEP(2)
            STEP(3)
        }
        for (int i = 0; i < rows; i++)
            for (int q = 0; q < 4; q++)
                vst1q_s32(acc[i] + c + 4 * q, sums[i][q]);
    }
#undef STEP
}

static void multiply_panel(int32_t (*acc)[BRICK_CHANNELS], const uint8_t *panel, const int8_t *const *x, uint32_t rows,
                           uint32_t bricks)
{
    switch (rows) {
    case 1:
        multiply_rows(acc, panel, x, 1, bricks);
        break;
    case 2:
        multiply_rows(acc, panel, x, 2, bricks);
        break;
    case 3:
        multiply_rows(acc, panel, x, 3, bricks);
        break;
    default:
        multiply_rows(acc, panel, x, BRICK_ROWS, bricks);
        break;
    }
}
