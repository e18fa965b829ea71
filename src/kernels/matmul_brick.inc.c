/* The part of a brick matmul that every instruction set shares: walking columns of bricks, activation blocks, row
 * tiles and tails, and the float half of the numerics contract. Included once by each kernel file, after it has
 * defined
 *
 *   BRICK_CHANNELS   32 or 64
 *   BRICK_BYTES      of a stored brick; 1024 where it is not defined
 *   BRICK_BIAS       what the kernel adds to weight codes to make them unsigned; sums start at -BRICK_BIAS * sum of x
 *   BRICK_ROWS       token rows of one register tile
 *   PANEL_BRICKS     bricks inflated together; PANEL_BRICK_BYTES: bytes of one inflated brick
 *   brick_codes      a type: what inflation needs besides the brick
 *   stream_bricks    int32_t acc[BRICK_CHANNELS] = start + codes of `bricks` bricks times x, in natural channel order
 *   inflate_brick    one brick into its place in the panel
 *   multiply_group   one panel_group: sums of up to BRICK_ROWS rows over some inflated bricks, in panel channel order,
 *                    through the activation blocks that these bricks reach over
 *   panel_to_natural a v16 of 16 channels from panel order to natural order
 *
 * One row streams the bricks; more rows inflate a few bricks of a column into the first cache and use them for a tile
 * of rows. Integer sums are exact, so both ways and every tile give the same bits. The includer includes panel_group.h
 * before it defines multiply_group. */
#include "kernels/isa.h"
#include "kernels/panel_group.h"
#include "kernels/vector.h"

#define TILE_ROWS 96
/* Two streams are read side by side when they lie so far apart: +7 % at one thread, +12 % at two where memory keeps up; two
 * neighbouring columns of 64 KiB are slower than one after the other (`ork bench`, LFM2-8B-A1B's shape, Zen 4). */
#define STREAM_APART_BYTES 262144u
#ifndef BRICK_BYTES
#define BRICK_BYTES 1024
#endif

struct brick_tile {
    _Alignas(64) int32_t acc[TILE_ROWS][BRICK_CHANNELS];
    _Alignas(64) float y[TILE_ROWS][BRICK_CHANNELS];
    _Alignas(64) uint8_t panel[PANEL_BRICKS * PANEL_BRICK_BYTES];
    const int8_t *x[TILE_ROWS];
    const float *x_scales[TILE_ROWS];
    const int32_t *x_sums[TILE_ROWS];
    uint32_t bricks, block_bricks; /* of a whole column; of one activation block */
};

static inline uint32_t brick_minimum(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline int32_t brick_start(int32_t sum)
{
    return -BRICK_BIAS * sum;
}

/* y = fmaf((float)acc, scale, y) for one row of a column. */
static inline void brick_add_block(float *y, const int32_t *acc, float scale)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16)
        v16_store(y + c, v16_fma(v16_from_i32(acc + c), v16_set1(scale), v16_load(y + c)));
}

/* Multiplies by the channel scales and writes the channels below the end of the call. */
static inline void brick_write_row(const struct ork_matmul_args *args, uint32_t n, uint32_t i, const float *y,
                                   const float *w_scales)
{
    float *out = args->y + i * args->y_stride + n;
    uint32_t count = brick_minimum(args->n_end - n, BRICK_CHANNELS);
    for (uint32_t c = 0; c < count; c += 16) {
        v16 result = v16_multiply(v16_load(y + c), v16_load(w_scales + c));
        if (count - c >= 16)
            v16_store(out + c, result);
        else
            v16_store_partial(out + c, result, count - c);
    }
}

/* One row with `streams` columns of bricks side by side, the first of which has channel n, `apart` channels from one to the
 * next. */
static inline __attribute__((always_inline)) void
brick_stream_columns(const struct ork_matmul_args *args, const struct brick_tile *tile, const uint8_t *column,
                     uint32_t n, uint32_t apart, const float *w_scales, const brick_codes *codes, const int streams)
{
    const uint64_t apart_bytes = (uint64_t)(apart / BRICK_CHANNELS) * tile->bricks * BRICK_BYTES;
    _Alignas(64) float y[2][BRICK_CHANNELS] = {{0}};
    _Alignas(64) int32_t acc[BRICK_CHANNELS];
    for (uint32_t t = 0, block = 0; t < tile->bricks; block++) {
        uint32_t count = brick_minimum(tile->block_bricks, tile->bricks - t);
        for (int i = 0; i < streams; i++) {
            stream_bricks(acc, column + i * apart_bytes + t * (uint64_t)BRICK_BYTES, tile->x[0] + t * 32, count,
                          brick_start(tile->x_sums[0][block]), codes);
            brick_add_block(y[i], acc, tile->x_scales[0][block]);
        }
        t += count;
    }
    for (int i = 0; i < streams; i++)
        brick_write_row(args, n + i * apart, 0, y[i], w_scales + n + i * apart);
}

/* One row with all columns of the call: the halves of a long run side by side, for memory gives two streams more than
 * one. */
static void brick_stream(const struct ork_matmul_args *args, const struct brick_tile *tile, const uint8_t *data,
                         const float *w_scales, const brick_codes *codes)
{
    const uint64_t column_bytes = tile->bricks * (uint64_t)BRICK_BYTES;
    const uint32_t columns = (args->n_end - args->n_begin + BRICK_CHANNELS - 1) / BRICK_CHANNELS;
    const uint32_t half = columns / 2 * column_bytes >= STREAM_APART_BYTES ? columns / 2 : 0;
    uint32_t n = args->n_begin;
    const uint8_t *column = data + n / BRICK_CHANNELS * column_bytes;
    for (uint32_t c = 0; c < half; c++, n += BRICK_CHANNELS, column += column_bytes)
        brick_stream_columns(args, tile, column, n, half * BRICK_CHANNELS, w_scales, codes, 2);
    n += half * BRICK_CHANNELS;
    column += half * column_bytes;
    for (uint32_t c = 2 * half; c < columns; c++, n += BRICK_CHANNELS, column += column_bytes)
        brick_stream_columns(args, tile, column, n, 0, w_scales, codes, 1);
}

/* Rows first..first+rows-1 of the tile with the inflated bricks begin..end-1. */
static void brick_multiply_group(struct brick_tile *tile, uint32_t first, uint32_t rows, uint32_t begin, uint32_t end)
{
    const struct panel_group group = {.panel = tile->panel,
                                      .rows = rows,
                                      .begin = begin,
                                      .end = end,
                                      .block_bricks = tile->block_bricks,
                                      .column_bricks = tile->bricks,
                                      .acc = tile->acc[first],
                                      .y = tile->y[first],
                                      .x = tile->x + first,
                                      .sums = tile->x_sums + first,
                                      .scales = tile->x_scales + first};
    multiply_group(&group);
}

/* One column of bricks, `rows` rows of the tile, of which the first is row `i` of the call. */
static void brick_multiply_column(const struct ork_matmul_args *args, struct brick_tile *tile, const uint8_t *column,
                                  uint32_t n, uint32_t i, uint32_t rows, const float *w_scales,
                                  const brick_codes *codes)
{
    memset(tile->y, 0, rows * sizeof tile->y[0]);
    for (uint32_t begin = 0; begin < tile->bricks; begin += PANEL_BRICKS) {
        uint32_t end = brick_minimum(begin + PANEL_BRICKS, tile->bricks);
        for (uint32_t t = begin; t < end; t++)
            inflate_brick(tile->panel + (t - begin) * PANEL_BRICK_BYTES, column + t * (uint64_t)BRICK_BYTES, codes);
        /* The next bricks come from memory while these are multiplied; past a column's end they are the next column's. */
        for (uint32_t offset = 0; offset < PANEL_BRICKS * BRICK_BYTES; offset += 64)
            __builtin_prefetch(column + end * (uint64_t)BRICK_BYTES + offset, 0, 2);
        for (uint32_t first = 0; first < rows; first += BRICK_ROWS)
            brick_multiply_group(tile, first, brick_minimum(rows - first, BRICK_ROWS), begin, end);
    }
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16)
            v16_store(tile->y[row] + c, panel_to_natural(v16_load(tile->y[row] + c)));
        brick_write_row(args, n, i + row, tile->y[row], w_scales);
    }
}

/* activation: the plain or split codes of args->x, whichever the bricks want. */
static void brick_matmul(const struct ork_matmul_args *args, const int8_t *activation, const brick_codes *codes)
{
    const struct ork_matrix *w = args->w;
    const struct ork_activation *x = args->x;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const float *scales = (const float *)(const void *)(w->scales + args->expert * w->scale_expert_stride);
    struct brick_tile tile;
    tile.bricks = x->k_padded / 32;
    tile.block_bricks = x->block / 32;
    for (uint32_t i = 0; i < args->m; i += TILE_ROWS) {
        uint32_t rows = brick_minimum(args->m - i, TILE_ROWS);
        for (uint32_t r = 0; r < rows; r++) {
            uint64_t source = args->x_rows ? args->x_rows[i + r] : i + r;
            tile.x[r] = activation + source * x->k_padded;
            tile.x_scales[r] = x->scales + source * x->blocks;
            tile.x_sums[r] = x->sums + source * x->blocks;
        }
        if (args->m == 1) {
            brick_stream(args, &tile, data, scales, codes);
            return;
        }
        for (uint32_t n = args->n_begin; n < args->n_end; n += BRICK_CHANNELS) {
            const uint8_t *column = data + (uint64_t)(n / BRICK_CHANNELS) * tile.bricks * BRICK_BYTES;
            brick_multiply_column(args, &tile, column, n, i, rows, scales + n, codes);
        }
    }
}
