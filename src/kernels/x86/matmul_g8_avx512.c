/* Matmul on g8 rows (int8 with an f16 scale per group of 32 inputs) with AVX-512 VNNI. One or a few token rows:
 * sixteen groups at a time give one register of sums, the lanes of the numerics contract. More rows: 32 weight rows
 * are transposed in the first cache, so that registers hold channels and sums need no turning. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx512.h"

/* Dwords of the register that holds groups 2 q and 2 q + 1, when `groups` are there. */
static inline __mmask16 pair_mask(uint32_t groups, uint32_t q)
{
    return groups >= 2 * q + 2 ? 0xFFFF : groups == 2 * q + 1 ? 0x00FF : 0;
}

/* lanes + terms of `groups` <= 16 groups. The sign of a weight goes over to its activation, which leaves unsigned
 * weights of at most 128. */
static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const int8_t *x, v16 x_scales,
                                                           const uint8_t *weights, const uint8_t *scales,
                                                           const uint32_t groups)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i sums[8];
    for (uint32_t q = 0; q < 8; q++) {
        __mmask16 mask = groups == 16 ? 0xFFFF : pair_mask(groups, q);
        __m512i w = _mm512_maskz_loadu_epi32(mask, weights + q * 64),
                input = _mm512_maskz_loadu_epi32(mask, x + q * 64);
        input = _mm512_mask_sub_epi8(input, _mm512_movepi8_mask(w), zero, input);
        sums[q] = _mm512_dpbusd_epi32(zero, _mm512_abs_epi8(w), input);
    }
    v16 terms = v16_multiply(_mm512_cvtepi32_ps(ork_sum_halves_avx512(sums)), x_scales);
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    return v16_fma(terms, groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups), lanes);
}

#include "kernels/matmul_g8.inc.c"

/* ---- several token rows ---- */

#define G8_TILE_CHANNELS 32
#define G8_TILE_ROWS 32
#define G8_CHUNK 16
#define GROUP_ROWS 4      /* token rows of one register tile */
#define TILE_ROWS_LEAST 4 /* with fewer, transposing costs more than it saves */

struct g8_tile {
    _Alignas(64) float lanes[G8_TILE_ROWS][16][G8_TILE_CHANNELS];
    _Alignas(64) uint8_t panel[16][8][G8_TILE_CHANNELS][4]; /* sixteen groups of eight times four inputs, codes + 128 */
    _Alignas(64) float w_scales[16][G8_TILE_CHANNELS];
    _Alignas(64) int32_t starts[G8_TILE_ROWS][16]; /* -128 times the sum of a group's activations */
    float x_scales[G8_TILE_ROWS][16];
    const int8_t *x[G8_TILE_ROWS];
    uint64_t sources[G8_TILE_ROWS];
    const uint8_t *weights[G8_TILE_CHANNELS],
        *scales[G8_TILE_CHANNELS]; /* rows; missing channels repeat the last one */
};

/* Weights of groups first..first+count-1 into the panel, in the order of ork_transpose_channels_avx512. */
static void g8_load_weights(struct g8_tile *tile, uint32_t first, uint32_t count)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    float scales[G8_TILE_CHANNELS][16];
    for (uint32_t j = 0; j < count; j++)
        for (uint32_t half = 0; half < 2; half++) {
            __m512i w[8], groups[8];
            for (uint32_t i = 0; i < 8; i++) {
                const uint8_t *even = tile->weights[half * 16 + 2 * i] + (first + j) * 32;
                const uint8_t *odd = tile->weights[half * 16 + 2 * i + 1] + (first + j) * 32;
                __m512i pair = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)even));
                pair = _mm512_inserti64x4(pair, _mm256_loadu_si256((const __m256i *)odd), 1);
                w[i] = _mm512_xor_si512(pair, sign);
            }
            ork_transpose_channels_avx512(groups, w);
            for (uint32_t q = 0; q < 8; q++)
                _mm512_store_si512(tile->panel[j][q][half * 16], groups[q]);
        }
    for (uint32_t c = 0; c < G8_TILE_CHANNELS; c++) {
        const uint16_t *halves = (const uint16_t *)(const void *)(tile->scales[c] + first * 2);
        v16_store(scales[c], count == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, count));
    }
    for (uint32_t j = 0; j < 16; j++)
        for (uint32_t half = 0; half < G8_TILE_CHANNELS; half += 16) {
            float column[16];
            for (uint32_t c = 0; c < 16; c++)
                column[c] = scales[half + c][j];
            const __m512i panel_order = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
            v16_store(tile->w_scales[j] + half, _mm512_permutexvar_ps(panel_order, v16_load(column)));
        }
}

/* Scales and starting sums of the activations of groups first..first+count-1. */
static void g8_load_activations(struct g8_tile *tile, const struct ork_activation *x, uint32_t rows, uint32_t first,
                                uint32_t count)
{
    const __m512i bias = _mm512_set1_epi8((char)0x80), zero = _mm512_setzero_si512();
    const uint32_t block_groups = x->block / 32;
    for (uint32_t i = 0; i < rows; i++) {
        const float *scales = x->scales + tile->sources[i] * x->blocks;
        for (uint32_t j = 0; j < 16; j++)
            tile->x_scales[i][j] = j < count ? scales[(first + j) / block_groups] : 0.0f;
        __m512i sums[8];
        for (uint32_t q = 0; q < 8; q++) {
            __m512i codes = _mm512_maskz_loadu_epi32(pair_mask(count, q), tile->x[i] + first * 32 + q * 64);
            sums[q] = _mm512_dpbusd_epi32(zero, bias, codes);
        }
        _mm512_store_si512(tile->starts[i], _mm512_sub_epi32(zero, ork_sum_halves_avx512(sums)));
    }
}

/* Adds the terms of group j (group `at` of the rows) to lane j of `rows` token rows from `first_row`. */
static inline __attribute__((always_inline)) void multiply_group(struct g8_tile *tile, uint32_t first_row,
                                                                 const int rows, uint32_t j, uint32_t at)
{
    __m512i sums[GROUP_ROWS][2];
    for (int i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm512_set1_epi32(tile->starts[first_row + i][j]);
    for (uint32_t q = 0; q < 8; q++) {
        const __m512i low = _mm512_load_si512(tile->panel[j][q]), high = _mm512_load_si512(tile->panel[j][q][16]);
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, tile->x[first_row + i] + at * 32 + q * 4, sizeof four);
            const __m512i input = _mm512_set1_epi32(four);
            sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], low, input);
            sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], high, input);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int half = 0; half < 2; half++) {
            float *lane = tile->lanes[first_row + i][j] + half * 16;
            v16 term = v16_multiply(_mm512_cvtepi32_ps(sums[i][half]), v16_set1(tile->x_scales[first_row + i][j]));
            v16_store(lane, v16_fma(term, v16_load(tile->w_scales[j] + half * 16), v16_load(lane)));
        }
}

static void g8_multiply(struct g8_tile *tile, uint32_t rows, uint32_t first, uint32_t count)
{
    for (uint32_t row = 0; row < rows; row += GROUP_ROWS) {
        for (uint32_t j = 0; j < count; j++)
            switch (rows - row) {
            case 1:
                multiply_group(tile, row, 1, j, first + j);
                break;
            case 2:
                multiply_group(tile, row, 2, j, first + j);
                break;
            case 3:
                multiply_group(tile, row, 3, j, first + j);
                break;
            default:
                multiply_group(tile, row, GROUP_ROWS, j, first + j);
                break;
            }
    }
}

static inline v16 g8_to_natural(v16 a)
{
    return _mm512_permutexvar_ps(ork_natural_order_avx512(), a);
}

#include "kernels/matmul_g8_tiles.inc.c"

void ork_matmul_g8_avx512(const struct ork_matmul_args *args)
{
    if (args->m < TILE_ROWS_LEAST)
        g8_matmul(args);
    else
        g8_matmul_tiles(args);
}
