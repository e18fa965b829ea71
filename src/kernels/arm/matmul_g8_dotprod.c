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

#define TILE_CHANNELS 16
#define TILE_ROWS 32
#define GROUP_ROWS 4      /* token rows of one register tile */
#define TILE_ROWS_LEAST 4 /* with fewer, transposing costs more than it saves */

struct g8_tile {
    _Alignas(64) float lanes[TILE_ROWS][16][TILE_CHANNELS];
    _Alignas(64) int8_t panel[16][8][TILE_CHANNELS][4]; /* sixteen groups of eight times four inputs */
    _Alignas(64) float w_scales[16][TILE_CHANNELS];
    float x_scales[TILE_ROWS][16];
    const int8_t *x[TILE_ROWS];
    uint64_t sources[TILE_ROWS];
    const uint8_t *weights[TILE_CHANNELS], *scales[TILE_CHANNELS]; /* rows; missing channels repeat the last one */
};

/* Weights of groups first..first+count-1 into the panel, their scales beside it. */
static void load_weights(struct g8_tile *tile, uint32_t first, uint32_t count)
{
    for (uint32_t c = 0; c < TILE_CHANNELS; c += 4)
        for (uint32_t half = 0; half < count * 2; half++) {
            uint8x16_t w[4];
            for (uint32_t i = 0; i < 4; i++)
                w[i] = vld1q_u8(tile->weights[c + i] + first * 32 + half * 16);
            ork_transpose_neon(w);
            for (uint32_t q = 0; q < 4; q++)
                vst1q_s8(tile->panel[half / 2][half % 2 * 4 + q][c], vreinterpretq_s8_u8(w[q]));
        }
    for (uint32_t c = 0; c < TILE_CHANNELS; c++) {
        float scales[16];
        const uint16_t *halves = (const uint16_t *)(const void *)(tile->scales[c] + first * 2);
        v16_store(scales, count == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, count));
        for (uint32_t j = 0; j < count; j++)
            tile->w_scales[j][c] = scales[j];
    }
}

static void load_x_scales(struct g8_tile *tile, const struct ork_activation *x, uint32_t rows, uint32_t first,
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

static void multiply_chunk(struct g8_tile *tile, uint32_t rows, uint32_t first, uint32_t count)
{
    uint32_t row = 0;
    for (; row + GROUP_ROWS <= rows; row += GROUP_ROWS)
        multiply_full_groups(tile, row, first, count);
    for (; row < rows; row++)
        for (uint32_t j = 0; j < count; j++)
            multiply_group(tile, row, 1, j, first + j);
    /* The groups that are missing from the last sixteen add zeros, which turn -0 into 0. */
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = count; j < 16; j++)
            v16_store(tile->lanes[i][j], v16_add(v16_load(tile->lanes[i][j]), v16_zero()));
}

/* The lane tree of all channels at once, then out. */
static void write_row(const struct ork_matmul_args *args, float (*lanes)[TILE_CHANNELS], uint32_t n, uint32_t i)
{
    float *out = args->y + i * args->y_stride + n;
    for (uint32_t width = 8; width > 0; width /= 2)
        for (uint32_t j = 0; j < width; j++)
            v16_store(lanes[j], v16_add(v16_load(lanes[j]), v16_load(lanes[j + width])));
    const uint32_t left = args->n_end - n;
    if (left >= TILE_CHANNELS)
        v16_store(out, v16_load(lanes[0]));
    else
        v16_store_partial(out, v16_load(lanes[0]), left);
}

static void g8_matmul_tiles(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const struct ork_activation *x = args->x;
    const uint32_t groups = x->k_padded / 32;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    struct g8_tile tile;
    for (uint32_t row = 0; row < args->m; row += TILE_ROWS) {
        const uint32_t rows = args->m - row < TILE_ROWS ? args->m - row : TILE_ROWS;
        for (uint32_t i = 0; i < rows; i++) {
            tile.sources[i] = args->x_rows ? args->x_rows[row + i] : row + i;
            tile.x[i] = x->plain + tile.sources[i] * x->k_padded;
        }
        for (uint32_t n = args->n_begin; n < args->n_end; n += TILE_CHANNELS) {
            for (uint32_t c = 0; c < TILE_CHANNELS; c++) {
                uint64_t channel = n + c < args->n_end ? n + c : args->n_end - 1;
                tile.weights[c] = data + channel * x->k_padded;
                tile.scales[c] = scales + channel * groups * 2;
            }
            memset(tile.lanes, 0, rows * sizeof tile.lanes[0]);
            for (uint32_t first = 0; first < groups; first += 16) {
                uint32_t count = groups - first < 16 ? groups - first : 16;
                load_weights(&tile, first, count);
                load_x_scales(&tile, x, rows, first, count);
                multiply_chunk(&tile, rows, first, count);
            }
            for (uint32_t i = 0; i < rows; i++)
                write_row(args, tile.lanes[i], n, row + i);
        }
    }
}

void ork_matmul_g8_dotprod(const struct ork_matmul_args *args)
{
    if (args->m < TILE_ROWS_LEAST)
        g8_matmul(args);
    else
        g8_matmul_tiles(args);
}
