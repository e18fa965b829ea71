/* The register tile of brick matmuls with more than one row, AVX-512 VNNI: BRICK_CHANNELS unsigned weights by up to
 * BRICK_ROWS rows of signed activations, over a panel of [k / 4][BRICK_CHANNELS][4] bytes. */
#include "kernels/panel_job.h"

#define PANEL_REGISTERS (BRICK_CHANNELS / 16)

static inline __attribute__((always_inline)) void multiply_rows(const struct panel_job *job, const int rows)
{
    __m512i sums[BRICK_ROWS][PANEL_REGISTERS];
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < PANEL_REGISTERS; c++)
            sums[i][c] = job->begins ? _mm512_set1_epi32(job->starts[i])
                                     : _mm512_load_si512(job->acc + i * BRICK_CHANNELS + c * 16);
    const uint8_t *panel = job->panel;
    const int8_t *x[BRICK_ROWS];
    for (int i = 0; i < rows; i++)
        x[i] = job->x[i];
    for (uint64_t k = 0; k < job->bricks * 32; k += 4, panel += BRICK_CHANNELS * 4) {
        __m512i w[PANEL_REGISTERS];
        for (int c = 0; c < PANEL_REGISTERS; c++) {
            w[c] = _mm512_load_si512(panel + c * 64);
            ORK_KEEP_IN_REGISTER(w[c]);
        }
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, x[i] + k, sizeof four);
            const __m512i input = _mm512_set1_epi32(four);
            for (int c = 0; c < PANEL_REGISTERS; c++)
                sums[i][c] = _mm512_dpbusd_epi32(sums[i][c], w[c], input);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < PANEL_REGISTERS; c++) {
            float *y = job->y + i * BRICK_CHANNELS + c * 16;
            if (job->ends)
                v16_store(y, v16_fma(_mm512_cvtepi32_ps(sums[i][c]), v16_set1(job->scales[i]), v16_load(y)));
            else
                _mm512_store_si512(job->acc + i * BRICK_CHANNELS + c * 16, sums[i][c]);
        }
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
    case 4:
        multiply_rows(job, 4);
        break;
#if BRICK_ROWS == 8
    case 5:
        multiply_rows(job, 5);
        break;
    case 6:
        multiply_rows(job, 6);
        break;
    case 7:
        multiply_rows(job, 7);
        break;
#endif
    default:
        multiply_rows(job, BRICK_ROWS);
        break;
    }
}
