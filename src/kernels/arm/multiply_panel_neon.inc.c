/* The register tile of brick matmuls with more than one row, AArch64 baseline: four channels by up to BRICK_ROWS rows,
 * over a panel of [bricks][BRICK_CHANNELS][32 k] signed bytes. */
#include "kernels/panel_job.h"

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_job *job, const int rows)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 4) {
        int32x4_t sums[BRICK_ROWS][4];
        for (int i = 0; i < rows; i++)
            for (int q = 0; q < 4; q++)
                sums[i][q] = vdupq_n_s32(0);
        const int8_t *w = (const int8_t *)job->panel + c * 32;
        for (uint32_t k = 0; k < job->bricks * 32; k += 32, w += PANEL_BRICK_BYTES)
            for (int half = 0; half < 2; half++) {
                int8x16_t input[BRICK_ROWS];
                for (int i = 0; i < rows; i++)
                    input[i] = vld1q_s8(job->x[i] + k + half * 16);
                for (int q = 0; q < 4; q++) {
                    const int8x16_t weights = vld1q_s8(w + q * 32 + half * 16);
                    int16x8_t products[BRICK_ROWS];
                    for (int i = 0; i < rows; i++)
                        products[i] = ork_multiply_neon(weights, input[i]);
                    for (int i = 0; i < rows; i++)
                        sums[i][q] = ork_in_order_neon(vpadalq_s16(sums[i][q], products[i]));
                }
            }
        for (int i = 0; i < rows; i++) {
            int32_t *acc = job->acc + i * BRICK_CHANNELS + c;
            float *y = job->y + i * BRICK_CHANNELS + c;
            int32x4_t total = ork_sum_four_neon(sums[i]);
            total = vaddq_s32(total, job->begins ? vdupq_n_s32(job->starts[i]) : vld1q_s32(acc));
            if (job->ends)
                vst1q_f32(y, vfmaq_n_f32(vld1q_f32(y), vcvtq_f32_s32(total), job->scales[i]));
            else
                vst1q_s32(acc, total);
        }
    }
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
