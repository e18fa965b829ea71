/* The register tile of brick matmuls with more than one row, AArch64 int8 matrix multiply: eight channels by up to eight
 * rows, over a panel of [k / 8][BRICK_CHANNELS][8] signed bytes in natural channel order. An instruction takes eight
 * inputs of two rows and of two channels to their four sums. */
#include "kernels/panel_job.h"

#define ROW_PAIRS (BRICK_ROWS / 2)
#define PANEL_EIGHTS (PANEL_BRICKS * 4)

/* The activations of the job as [k / 8][row pairs][2][8]; a missing last row repeats the one before it. */
static void pack_rows(int8_t (*packed)[ROW_PAIRS][16], const struct panel_job *job)
{
    for (uint32_t pair = 0; pair < (job->rows + 1) / 2; pair++) {
        const int8_t *even = job->x[2 * pair], *odd = 2 * pair + 1 < job->rows ? job->x[2 * pair + 1] : even;
        for (uint32_t k = 0; k < job->bricks * 32; k += 16) {
            const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(even + k)), b = vreinterpretq_s64_s8(vld1q_s8(odd + k));
            vst1q_s8(packed[k / 8][pair], vreinterpretq_s8_s64(vzip1q_s64(a, b)));
            vst1q_s8(packed[k / 8 + 1][pair], vreinterpretq_s8_s64(vzip2q_s64(a, b)));
        }
    }
}

/* Sums of 2 rows by 2 channels and the same of the next channels, to four channels of each row; its own inverse. */
static inline void exchange_sums(int32x4_t *a, int32x4_t *b)
{
    const int64x2_t low = vreinterpretq_s64_s32(*a), high = vreinterpretq_s64_s32(*b);
    *a = vreinterpretq_s32_s64(vzip1q_s64(low, high));
    *b = vreinterpretq_s32_s64(vzip2q_s64(low, high));
}

static inline __attribute__((always_inline)) void load_sums(int32x4_t sums[ROW_PAIRS][4], const struct panel_job *job,
                                                            uint32_t c, const int pairs)
{
    for (int p = 0; p < pairs; p++) {
        const uint32_t rows[2] = {2 * p, 2 * p + 1 < (int)job->rows ? 2 * p + 1 : 2 * p};
        for (int half = 0; half < 2; half++) {
            for (int r = 0; r < 2; r++)
                sums[p][2 * half + r] = job->begins ? vdupq_n_s32(job->starts[rows[r]])
                                                    : vld1q_s32(job->acc + rows[r] * BRICK_CHANNELS + c + 4 * half);
            exchange_sums(&sums[p][2 * half], &sums[p][2 * half + 1]);
        }
    }
}

static inline __attribute__((always_inline)) void finish_sums(int32x4_t sums[ROW_PAIRS][4], const struct panel_job *job,
                                                              uint32_t c, const int pairs)
{
    for (int p = 0; p < pairs; p++)
        for (int half = 0; half < 2; half++) {
            exchange_sums(&sums[p][2 * half], &sums[p][2 * half + 1]);
            for (int r = 0; r < 2 && 2 * p + r < (int)job->rows; r++) {
                const uint32_t at = (2 * p + r) * BRICK_CHANNELS + c + 4 * half;
                const int32x4_t sum = sums[p][2 * half + r];
                if (job->ends)
                    vst1q_f32(job->y + at,
                              vfmaq_n_f32(vld1q_f32(job->y + at), vcvtq_f32_s32(sum), job->scales[2 * p + r]));
                else
                    vst1q_s32(job->acc + at, sum);
            }
        }
}

static inline __attribute__((always_inline)) void multiply_pairs(const struct panel_job *job, const int pairs)
{
    int8_t packed[PANEL_EIGHTS][ROW_PAIRS][16];
    pack_rows(packed, job);
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        int32x4_t sums[ROW_PAIRS][4];
        load_sums(sums, job, c, pairs);
        const int8_t *w = (const int8_t *)job->panel + c * 8;
        for (uint32_t k = 0; k < job->bricks * 4; k++, w += BRICK_CHANNELS * 8) {
            int8x16_t input[ROW_PAIRS];
            for (int p = 0; p < pairs; p++)
                input[p] = vld1q_s8(packed[k][p]);
            for (int q = 0; q < 4; q++) {
                const int8x16_t weights = vld1q_s8(w + q * 16);
                for (int p = 0; p < pairs; p++)
                    sums[p][q] = vmmlaq_s32(sums[p][q], input[p], weights);
            }
        }
        finish_sums(sums, job, c, pairs);
    }
}

static __attribute__((noinline)) void multiply_full_tile(const struct panel_job *job)
{
    multiply_pairs(job, ROW_PAIRS);
}

static void multiply_panel(const struct panel_job *job)
{
    switch ((job->rows + 1) / 2) {
    case 1:
        multiply_pairs(job, 1);
        break;
    case 2:
        multiply_pairs(job, 2);
        break;
    case 3:
        multiply_pairs(job, 3);
        break;
    default:
        multiply_full_tile(job);
        break;
    }
}
