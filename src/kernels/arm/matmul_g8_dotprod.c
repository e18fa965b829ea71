/* Matmul on g8 rows (int8 with an f16 scale per group of 32 inputs) with the AArch64 dot product. One or a few token
 * rows: sixteen groups at a time give the sixteen lanes of the numerics contract. More rows: 16 weight rows are
 * transposed in the first cache, so that registers hold channels and sums need no adding across. */
#define ORK_VECTOR_NEON

#include "kernels/arm/integer_neon.h"

static inline int32x4_t group_dot(const int8_t *weights, const int8_t *x)
{
    const int32x4_t sum = vdotq_s32(vdupq_n_s32(0), vld1q_s8(weights), vld1q_s8(x));
    return vdotq_s32(sum, vld1q_s8(weights + 16), vld1q_s8(x + 16));
}

#include "kernels/arm/chunk_g8_neon.inc.c"
#include "kernels/matmul_g8.inc.c"

/* ---- several token rows ---- */

#define G8_TILE_CHANNELS 16
#define G8_TILE_ROWS 32
#define G8_CHUNK 16
#define GROUP_ROWS 4      /* token rows of one register tile */
#define TILE_ROWS_LEAST 4 /* with fewer, transposing costs more than it saves */

struct g8_tile {
    _Alignas(64) float lanes[G8_TILE_ROWS][16][G8_TILE_CHANNELS];
    _Alignas(64) int8_t panel[16][8][G8_TILE_CHANNELS][4]; /* sixteen groups of eight times four inputs */
    _Alignas(64) float w_scales[16][G8_TILE_CHANNELS];
    float x_scales[G8_TILE_ROWS][16];
    const int8_t *x[G8_TILE_ROWS];
    uint64_t sources[G8_TILE_ROWS];
    const uint8_t *weights[G8_TILE_CHANNELS],
        *scales[G8_TILE_CHANNELS]; /* rows; missing channels repeat the last one */
};

/* Weights of groups first..first+count-1 into the panel, their scales beside it. */
static void g8_load_weights(struct g8_tile *tile, uint32_t first, uint32_t count)
{
    for (uint32_t c = 0; c < G8_TILE_CHANNELS; c += 4)
        for (uint32_t half = 0; half < count * 2; half++) {
            uint8x16_t w[4];
            for (uint32_t i = 0; i < 4; i++)
                w[i] = vld1q_u8(tile->weights[c + i] + first * 32 + half * 16);
            ork_transpose_neon(w);
            for (uint32_t q = 0; q < 4; q++)
                vst1q_s8(tile->panel[half / 2][half % 2 * 4 + q][c], vreinterpretq_s8_u8(w[q]));
        }
    for (uint32_t c = 0; c < G8_TILE_CHANNELS; c++) {
        float scales[16];
        const uint16_t *halves = (const uint16_t *)(const void *)(tile->scales[c] + first * 2);
        v16_store(scales, count == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, count));
        for (uint32_t j = 0; j < count; j++)
            tile->w_scales[j][c] = scales[j];
    }
}

static void g8_load_activations(struct g8_tile *tile, const struct ork_activation *x, uint32_t rows, uint32_t first,
                                uint32_t count)
{
    const uint32_t block_groups = x->block / 32;
    for (uint32_t i = 0; i < rows; i++) {
        const float *scales = x->scales + tile->sources[i] * x->blocks;
        for (uint32_t j = 0; j < count; j++)
            tile->x_scales[i][j] = scales[(first + j) / block_groups];
    }
}

/* Adds the terms of group j (group `at` of the rows) to lane j of `rows` token rows from `first_row`. */
static inline __attribute__((always_inline)) void multiply_group(struct g8_tile *tile, uint32_t first_row,
                                                                 const int rows, uint32_t j, uint32_t at)
{
/* Four inputs of all rows with sixteen channels; the lane must be a constant. */
#define STEP(lane)                                                                                                     \
    for (int q = 0; q < 4; q++) {                                                                                      \
        const int8x16_t weights = vld1q_s8(tile->panel[j][half * 4 + (lane)][q * 4]);                                  \
        for (int i = 0; i < rows; i++)                                                                                 \
            sums[i][q] = ork_in_order_neon(vdotq_laneq_s32(sums[i][q], weights, input[i], lane));                      \
    }
    int32x4_t sums[GROUP_ROWS][4];
    for (int i = 0; i < rows; i++)
        for (int q = 0; q < 4; q++)
            sums[i][q] = vdupq_n_s32(0);
    for (int half = 0; half < 2; half++) {
        int8x16_t input[GROUP_ROWS];
        for (int i = 0; i < rows; i++)
            input[i] = vld1q_s8(tile->x[first_row + i] + at * 32 + half * 16);
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
    }
    for (int i = 0; i < rows; i++) {
        const float32x4_t scale = vdupq_n_f32(tile->x_scales[first_row + i][j]);
        for (int q = 0; q < 4; q++) {
            float *lane = tile->lanes[first_row + i][j] + q * 4;
            const float32x4_t term = vmulq_f32(vcvtq_f32_s32(sums[i][q]), scale);
            vst1q_f32(lane, vfmaq_f32(vld1q_f32(lane), term, vld1q_f32(tile->w_scales[j] + q * 4)));
        }
    }
#undef STEP
}

static __attribute__((noinline)) void multiply_full_groups(struct g8_tile *tile, uint32_t row, uint32_t first,
                                                           uint32_t count)
{
    for (uint32_t j = 0; j < count; j++)
        multiply_group(tile, row, GROUP_ROWS, j, first + j);
}

static void g8_multiply(struct g8_tile *tile, uint32_t rows, uint32_t first, uint32_t count)
{
    uint32_t row = 0;
    for (; row + GROUP_ROWS <= rows; row += GROUP_ROWS)
        multiply_full_groups(tile, row, first, count);
    for (; row < rows; row++)
        for (uint32_t j = 0; j < count; j++)
            multiply_group(tile, row, 1, j, first + j);
}

static inline v16 g8_to_natural(v16 a)
{
    return a;
}

#include "kernels/matmul_g8_tiles.inc.c"

void ork_matmul_g8_dotprod(const struct ork_matmul_args *args)
{
    if (args->m < TILE_ROWS_LEAST)
        g8_matmul(args);
    else
        g8_matmul_tiles(args);
}
