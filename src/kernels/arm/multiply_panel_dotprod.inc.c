/* The register tile of brick matmuls with more than one row, AArch64 dot product: sixteen channels by up to BRICK_ROWS
 * rows, over a panel of [k / 4][BRICK_CHANNELS][4] signed bytes in natural channel order. */
#include "kernels/panel_job.h"

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_job *job, const int rows)
{
/* Four k of all rows against sixteen channels; the lane must be a constant. */
#define STEP(lane)                                                                                                     \
    for (int q = 0; q < 4; q++) {                                                                                      \
        const int8x16_t weights = vld1q_s8((const int8_t *)(w + (lane)*BRICK_CHANNELS * 4 + q * 16));                  \
        for (int i = 0; i < rows; i++)                                                                                 \
            sums[i][q] = ork_in_order_neon(vdotq_laneq_s32(sums[i][q], weights, input[i], lane));                      \
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        int32x4_t sums[BRICK_ROWS][4];
        for (int i = 0; i < rows; i++)
            for (int q = 0; q < 4; q++)
                sums[i][q] =
                    job->begins ? vdupq_n_s32(job->starts[i]) : vld1q_s32(job->acc + i * BRICK_CHANNELS + c + 4 * q);
        const uint8_t *w = job->panel + c * 4;
        for (uint32_t k = 0; k < job->bricks * 32; k += 16, w += BRICK_CHANNELS * 16) {
            int8x16_t input[BRICK_ROWS];
            for (int i = 0; i < rows; i++)
                input[i] = vld1q_s8(job->x[i] + k);
            STEP(0)
            STEP(1)
            STEP(2)
            STEP(3)
        }
        for (int i = 0; i < rows; i++) {
            float *y = job->y + i * BRICK_CHANNELS + c;
            v16 block;
            for (int q = 0; q < 4; q++)
                block.q[q] = vcvtq_f32_s32(sums[i][q]);
            if (job->ends)
                v16_store(y, v16_fma(block, v16_set1(job->scales[i]), v16_load(y)));
            else
                for (int q = 0; q < 4; q++)
                    vst1q_s32(job->acc + i * BRICK_CHANNELS + c + 4 * q, sums[i][q]);
        }
    }
#undef STEP
}

static __attribute__((noinline)) void multiply_full_tile(const struct panel_job *job)
{
    multiply_rows(job, BRICK_ROWS);
}

static void multiply_panel(const struct panel_job *job)
{
    switch (job->rows) {
    case 1:
        multiply_rows(job, 1);
        break;
    case 2:
        multiply_rows(job, 2);
        break;
    case 3:
        multiply_rows(job, 3);
        break;
    default:
        multiply_full_tile(job);
        break;
    }
}
