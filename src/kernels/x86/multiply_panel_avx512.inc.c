/* The register tile of brick matmuls with more than one row, AVX-512 VNNI: BRICK_CHANNELS unsigned weights by up to
 * BRICK_ROWS rows of signed activations, over a panel of [k / 4][BRICK_CHANNELS][4] bytes. */
#define PANEL_REGISTERS (BRICK_CHANNELS / 16)

static inline __attribute__((always_inline)) void multiply_rows(int32_t (*acc)[BRICK_CHANNELS], const uint8_t *panel,
                                                                const int8_t *const *x, const int rows, uint32_t bricks)
{
    __m512i sums[BRICK_ROWS][PANEL_REGISTERS];
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < PANEL_REGISTERS; c++)
            sums[i][c] = _mm512_load_si512(acc[i] + c * 16);
    for (uint32_t k = 0; k < bricks * 32; k += 4, panel += BRICK_CHANNELS * 4) {
        __m512i w[PANEL_REGISTERS];
        for (int c = 0; c < PANEL_REGISTERS; c++)
            w[c] = _mm512_load_si512(panel + c * 64);
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, x[i] + k, sizeof four);
            const __m512i input = _mm512_set1_epi32(four);
            for (int c = 0; c < PANEL_REGISTERS; c++)
                sums[i][c] = _mm512_dpbusd_epi32(sums[i][c], w[c], input);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < PANEL_REGISTERS; c++)
            _mm512_store_si512(acc[i] + c * 16, sums[i][c]);
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
    case 4:
        multiply_rows(acc, panel, x, 4, bricks);
        break;
    case 5:
        multiply_rows(acc, panel, x, 5, bricks);
        break;
#if BRICK_ROWS == 8
    case 6:
        multiply_rows(acc, panel, x, 6, bricks);
        break;
    case 7:
        multiply_rows(acc, panel, x, 7, bricks);
        break;
#endif
    default:
        multiply_rows(acc, panel, x, BRICK_ROWS, bricks);
        break;
    }
}
