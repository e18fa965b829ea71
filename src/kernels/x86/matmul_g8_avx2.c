/* Matmul on g8 rows (int8 with an f16 scale per 32 inputs) with AVX2. One or a few token rows: sixteen groups of 32 inputs
 * at a time give the sixteen lanes of the numerics contract. More rows: matmul_g8_tiles_avx2.inc.c. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

/* lanes + terms of `groups` <= 16 groups. */
static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const int8_t *x, v16 x_scales,
                                                           const uint8_t *weights, const uint8_t *scales,
                                                           const uint32_t groups)
{
    __m256i sums[16];
    for (uint32_t j = 0; j < 16; j++) {
        sums[j] = _mm256_setzero_si256();
        if (j < groups) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(weights + j * 32));
            __m256i input = _mm256_loadu_si256((const __m256i *)(x + j * 32));
            sums[j] = ork_dot_avx2(sums[j], w, _mm256_abs_epi8(w), input);
        }
    }
    v16 terms = {_mm256_cvtepi32_ps(ork_sum_eight_avx2(sums)), _mm256_cvtepi32_ps(ork_sum_eight_avx2(sums + 8))};
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    v16 w_scales = groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups);
    return v16_fma(v16_multiply(terms, x_scales), w_scales, lanes);
}

#include "kernels/matmul_g8.inc.c"

/* ---- several token rows ---- */

#define BRICK_CHANNELS 16
#define BRICK_ROWS 6
#define TILE_ROWS_LEAST 4 /* with fewer, transposing costs more than it saves */

#include "kernels/x86/panel_pairs_avx2.inc.c"

/* The panel's weights have no bias. */
static inline void g8_starts(int32_t *starts, const int8_t *codes, uint32_t count)
{
    (void)codes;
    memset(starts, 0, count * sizeof *starts);
}

#include "kernels/x86/matmul_g8_tiles_avx2.inc.c"

void ork_matmul_g8_avx2(const struct ork_matmul_args *args)
{
    if (args->m < TILE_ROWS_LEAST)
        g8_matmul(args);
    else
        g8_matmul_tiles(args);
}
