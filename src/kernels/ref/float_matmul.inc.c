/* Matmuls on plain rows of f32, f16 and bf16 weights with float activations, written once over v16 and compiled once
 * per instruction set (see vector_ops.inc.c). A tile of TILE_CHANNELS weight rows by TILE_ROWS token rows is kept in
 * registers; each of its dots has the lanes and the tree of the numerics contract, whatever the tile.
 *
 * The includer defines FLOAT_TILE_CHANNELS and FLOAT_TILE_ROWS so that their product of v16 fits its registers. */
#include "kernels/kernels.h"
#include "kernels/vector.h"

struct ORK_KERNEL(float_tile) {
    const uint8_t *w;  /* first channel */
    uint64_t w_stride; /* bytes */
    const float *x[FLOAT_TILE_ROWS];
    uint32_t k;
};

/* Dots of `channels` weight rows with `rows` token rows into out[row][channel]. Always inlined with constant counts. */
#define FLOAT_TILE(name, type, load, load_partial)                                                                     \
    V16_INLINE void ORK_KERNEL(name)(const struct ORK_KERNEL(float_tile) * t, const uint32_t channels,                 \
                                     const uint32_t rows, float out[FLOAT_TILE_ROWS][FLOAT_TILE_CHANNELS])             \
    {                                                                                                                  \
        v16 lanes[FLOAT_TILE_ROWS][FLOAT_TILE_CHANNELS];                                                               \
        for (uint32_t i = 0; i < rows; i++)                                                                            \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                lanes[i][c] = v16_zero();                                                                              \
        uint32_t k = 0;                                                                                                \
        for (; k + 16 <= t->k; k += 16) {                                                                              \
            v16 w[FLOAT_TILE_CHANNELS];                                                                                \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                w[c] = load((const type *)(const void *)(t->w + c * t->w_stride) + k);                                 \
            for (uint32_t i = 0; i < rows; i++) {                                                                      \
                v16 x = v16_load(t->x[i] + k);                                                                         \
                for (uint32_t c = 0; c < channels; c++)                                                                \
                    lanes[i][c] = v16_fma(w[c], x, lanes[i][c]);                                                       \
            }                                                                                                          \
        }                                                                                                              \
        if (k < t->k)                                                                                                  \
            for (uint32_t i = 0; i < rows; i++) {                                                                      \
                v16 x = v16_load_partial(t->x[i] + k, t->k - k);                                                       \
                for (uint32_t c = 0; c < channels; c++) {                                                              \
                    const type *w = (const type *)(const void *)(t->w + c * t->w_stride) + k;                          \
                    lanes[i][c] = v16_fma(load_partial(w, t->k - k), x, lanes[i][c]);                                  \
                }                                                                                                      \
            }                                                                                                          \
        for (uint32_t i = 0; i < rows; i++)                                                                            \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[i][c] = v16_sum(lanes[i][c]);                                                                      \
    }

/* A single token row takes one weight row after the other, which makes one long stream. */
#define FLOAT_MATMUL(name, tile, type)                                                                                 \
    static void ORK_KERNEL(name)(const struct ork_matmul_args *args)                                                   \
    {                                                                                                                  \
        const struct ork_matrix *w = args->w;                                                                          \
        const uint8_t *base = w->data + args->expert * w->data_expert_stride;                                          \
        struct ORK_KERNEL(float_tile) t = {.w_stride = (uint64_t)w->k * sizeof(type), .k = w->k};                      \
        const uint32_t step = args->m == 1 ? 1 : FLOAT_TILE_CHANNELS;                                                  \
        for (uint32_t n = args->n_begin; n < args->n_end; n += step) {                                                 \
            uint32_t channels = args->n_end - n < step ? args->n_end - n : step;                                       \
            t.w = base + n * t.w_stride;                                                                               \
            for (uint32_t row = 0; row < args->m; row += FLOAT_TILE_ROWS) {                                            \
                uint32_t rows = args->m - row < FLOAT_TILE_ROWS ? args->m - row : FLOAT_TILE_ROWS;                     \
                for (uint32_t i = 0; i < rows; i++) {                                                                  \
                    uint32_t source = args->x_rows ? args->x_rows[row + i] : row + i;                                  \
                    t.x[i] = args->x->f32 + source * args->x->f32_stride;                                              \
                }                                                                                                      \
                float out[FLOAT_TILE_ROWS][FLOAT_TILE_CHANNELS];                                                       \
                if (channels == FLOAT_TILE_CHANNELS && rows == FLOAT_TILE_ROWS)                                        \
                    tile(&t, FLOAT_TILE_CHANNELS, FLOAT_TILE_ROWS, out);                                               \
                else if (channels == 1 && rows == 1)                                                                   \
                    tile(&t, 1, 1, out);                                                                               \
                else                                                                                                   \
                    tile(&t, channels, rows, out);                                                                     \
                for (uint32_t i = 0; i < rows; i++)                                                                    \
                    memcpy(args->y + (row + i) * args->y_stride + n, out[i], channels * sizeof(float));                \
            }                                                                                                          \
        }                                                                                                              \
    }

FLOAT_TILE(tile_f32, float, v16_load, v16_load_partial)
FLOAT_TILE(tile_f16, uint16_t, v16_load_f16, v16_load_f16_partial)
FLOAT_TILE(tile_bf16, uint16_t, v16_load_bf16, v16_load_bf16_partial)
FLOAT_MATMUL(matmul_f32, ORK_KERNEL(tile_f32), float)
FLOAT_MATMUL(matmul_f16, ORK_KERNEL(tile_f16), uint16_t)
FLOAT_MATMUL(matmul_bf16, ORK_KERNEL(tile_bf16), uint16_t)

#undef FLOAT_TILE
#undef FLOAT_MATMUL
