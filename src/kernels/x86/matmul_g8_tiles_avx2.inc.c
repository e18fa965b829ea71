/* Matmul on g8 rows with several token rows on 256-bit registers: 16 weight rows are transposed in the first cache, so
 * that registers hold channels and sums need no turning. Included once by a kernel file that has defined
 *
 *   BRICK_CHANNELS   16, and BRICK_ROWS, for the panel_*.inc.c that it has included: a "brick" is a group of 32 inputs
 *   g8_starts        what the sums of up to eight groups begin with, from their activations: takes out a bias of the
 *                    weights */
#define G8_TILE_CHANNELS BRICK_CHANNELS
#define G8_TILE_ROWS 66 /* lanes and inputs of so many rows stay in the second cache */
#define G8_CHUNK 8      /* groups at a time: panel, lanes and inputs of six rows take half of a first cache of 32 KiB */

struct g8_tile {
    _Alignas(64) float lanes[G8_TILE_ROWS][16][BRICK_CHANNELS];
    _Alignas(64) uint8_t panel[G8_CHUNK][PANEL_BRICK_BYTES];
    _Alignas(64) float w_scales[G8_CHUNK][BRICK_CHANNELS];
#ifdef PANEL_WIDENS
    _Alignas(64) int16_t wide[G8_TILE_ROWS][G8_CHUNK * 32];
#endif
    _Alignas(64) int32_t starts[G8_TILE_ROWS][G8_CHUNK];
    float x_scales[G8_TILE_ROWS][G8_CHUNK];
    const int8_t *x[G8_TILE_ROWS];
    const panel_input *input[G8_TILE_ROWS]; /* from the first group in the panel */
    uint64_t sources[G8_TILE_ROWS];
    const uint8_t *weights[BRICK_CHANNELS], *scales[BRICK_CHANNELS]; /* rows; missing channels repeat the last one */
};

/* Weights and scales of groups first..first+count-1. */
static void g8_load_weights(struct g8_tile *tile, uint32_t first, uint32_t count)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        const uint8_t *rows[8];
        __m256i scales[8];
        for (uint32_t i = 0; i < 8; i++) {
            const uint16_t *halves = (const uint16_t *)(const void *)(tile->scales[c + i] + first * 2);
            uint16_t some[G8_CHUNK] = {0};
            if (count < G8_CHUNK)
                halves = memcpy(some, halves, count * sizeof *some);
            scales[i] = _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves)));
        }
        ork_transpose_avx2(scales);
        for (uint32_t j = 0; j < G8_CHUNK; j++)
            _mm256_store_ps(tile->w_scales[j] + c, _mm256_castsi256_ps(scales[j]));
        for (uint32_t j = 0; j < count; j++) {
            for (uint32_t i = 0; i < 8; i++)
                rows[i] = tile->weights[c + i] + (first + j) * 32;
            inflate_eight(tile->panel[j] + c * 4, rows);
        }
    }
}

/* Scales and starting sums of the activations of groups first..first+count-1. */
static void g8_load_activations(struct g8_tile *tile, const struct ork_activation *x, uint32_t rows, uint32_t first,
                                uint32_t count)
{
    const uint32_t block_groups = x->block / 32;
    uint32_t blocks[G8_CHUNK];
    for (uint32_t j = 0; j < G8_CHUNK; j++)
        blocks[j] = j < count ? (first + j) / block_groups : 0;
    for (uint32_t i = 0; i < rows; i++) {
        const float *scales = x->scales + tile->sources[i] * x->blocks;
        const int8_t *codes = tile->x[i] + first * 32;
        for (uint32_t j = 0; j < G8_CHUNK; j++)
            tile->x_scales[i][j] = scales[blocks[j]];
        g8_starts(tile->starts[i], codes, count);
#ifdef PANEL_WIDENS
        for (uint32_t k = 0; k < count * 32; k += 16) {
            __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(codes + k)));
            _mm256_store_si256((__m256i *)(tile->wide[i] + k), words);
        }
        tile->input[i] = tile->wide[i];
#else
        tile->input[i] = codes;
#endif
    }
}

/* Adds the terms of all groups in the panel to the lanes from `lane` on of `rows` token rows from `row`. */
static inline __attribute__((always_inline)) void g8_multiply_rows(struct g8_tile *tile, uint32_t row, uint32_t lane,
                                                                   uint32_t count, const int rows)
{
    for (uint32_t j = 0; j < count; j++) {
        __m256i sums[BRICK_ROWS][2];
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            sums[i][0] = sums[i][1] = _mm256_set1_epi32(tile->starts[row + i][j]);
        add_bricks(sums, tile->panel[j], tile->input + row, j * 32, j * 32 + 32, rows);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            float *sum = tile->lanes[row + i][lane + j];
            const v16 block = {_mm256_cvtepi32_ps(sums[i][0]), _mm256_cvtepi32_ps(sums[i][1])};
            const v16 term = v16_multiply(block, v16_set1(tile->x_scales[row + i][j]));
            v16_store(sum, v16_fma(term, v16_load(tile->w_scales[j]), v16_load(sum)));
        }
    }
}

static __attribute__((noinline)) void g8_multiply(struct g8_tile *tile, uint32_t rows, uint32_t first, uint32_t count)
{
    const uint32_t lane = first % 16;
    for (uint32_t row = 0; row < rows; row += BRICK_ROWS)
        switch (rows - row) {
        case 1:
            g8_multiply_rows(tile, row, lane, count, 1);
            break;
        case 2:
            g8_multiply_rows(tile, row, lane, count, 2);
            break;
        case 3:
            g8_multiply_rows(tile, row, lane, count, 3);
            break;
        case 4:
            g8_multiply_rows(tile, row, lane, count, 4);
            break;
        case 5:
            g8_multiply_rows(tile, row, lane, count, 5);
            break;
        default:
            g8_multiply_rows(tile, row, lane, count, BRICK_ROWS);
            break;
        }
}

static inline v16 g8_to_natural(v16 a)
{
    return a;
}

#include "kernels/matmul_g8_tiles.inc.c"
