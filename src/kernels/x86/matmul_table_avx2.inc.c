/* Matmuls on bricks of nibbles that index a table with AVX2: nibbles become codes by a byte shuffle of the 16 entries.
 * Included once by a kernel file; with BRICK_NESTED (n8) a second run of nibbles adds to each code. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 0
#define BRICK_ROWS 6
#define PANEL_BRICKS 4

#include "kernels/x86/panel_pairs_avx2.inc.c"

typedef struct {
    __m256i table, magnitudes; /* 16 codes and their absolute values, in both halves */
#ifdef BRICK_NESTED
    __m256i doubled;         /* twice the signed nibbles */
    uint64_t residual_bytes; /* from a base brick to its residual brick */
#endif
} brick_codes;

#include "kernels/x86/nested_avx2.inc.c"

/* Codes of 32 nibbles, each alone in its byte, and their absolute values; residual: likewise. */
static inline __m256i look_up(__m256i *magnitudes, __m256i nibbles, __m256i residual, const brick_codes *codes)
{
    const __m256i base = _mm256_shuffle_epi8(codes->table, nibbles);
#ifdef BRICK_NESTED
    const __m256i sum = _mm256_add_epi8(base, _mm256_shuffle_epi8(codes->doubled, residual));
    *magnitudes = _mm256_abs_epi8(sum);
    return sum;
#else
    (void)residual;
    *magnitudes = _mm256_shuffle_epi8(codes->magnitudes, nibbles);
    return base;
#endif
}

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). Register c
 * holds channels 2 c and 2 c + 1, four partial sums each. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start;
    const __m256i mask = _mm256_set1_epi8(15);
    const brick_codes constants = *codes;
    __m256i sums[BRICK_CHANNELS / 2];
    for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++)
        sums[c] = _mm256_setzero_si256();
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m256i even = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
        const __m256i odd = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
        for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++) {
            __m256i nibbles = _mm256_loadu_si256((const __m256i *)(bricks + c * 32));
            __m256i residual = residual_of(bricks + c * 32, &constants), magnitudes, numbers;
            numbers =
                look_up(&magnitudes, _mm256_and_si256(nibbles, mask), _mm256_and_si256(residual, mask), &constants);
            sums[c] = ork_dot_avx2(sums[c], numbers, magnitudes, even);
            numbers = look_up(&magnitudes, _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), mask),
                              _mm256_and_si256(_mm256_srli_epi16(residual, 4), mask), &constants);
            sums[c] = ork_dot_avx2(sums[c], numbers, magnitudes, odd);
            ORK_KEEP_ORDER();
        }
    }
    ork_store_sums_avx2(acc, sums, BRICK_CHANNELS / 2);
}

/* Codes of the low nibbles as 16-bit numbers. */
static inline void store_pairs(uint8_t *panel, __m256i nibbles, __m256i residual, const brick_codes *codes)
{
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i unused;
    const __m256i bytes = look_up(&unused, _mm256_and_si256(nibbles, mask), _mm256_and_si256(residual, mask), codes);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm256_store_si256((__m256i *)panel, _mm256_cvtepi8_epi16(low));
    _mm256_store_si256((__m256i *)(panel + 32), _mm256_cvtepi8_epi16(high));
}

/* words[p]: nibbles of four k of channels 0..7, then of 8..15, of 16 channels of a brick. */
static inline void gather_words(__m256i *words, const uint8_t *channels)
{
    for (uint32_t i = 0; i < 8; i++) {
        const __m128i low = _mm_loadu_si128((const __m128i *)(channels + i * 16));
        const __m128i high = _mm_loadu_si128((const __m128i *)(channels + (i + 8) * 16));
        words[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    ork_transpose_words_avx2(words);
}

/* Pairs of k follow the split activations: 8 pairs of even k, then 8 of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 16) {
        __m256i words[8], residual[8] = {_mm256_setzero_si256()};
        gather_words(words, brick + c * 16);
#ifdef BRICK_NESTED
        gather_words(residual, brick + c * 16 + codes->residual_bytes);
#endif
        for (uint32_t p = 0; p < 8; p++) {
            uint8_t *even = panel + (p * BRICK_CHANNELS + c) * 4, *odd = even + 8 * BRICK_CHANNELS * 4;
            store_pairs(even, words[p], residual[p], codes);
            store_pairs(odd, _mm256_srli_epi16(words[p], 4), _mm256_srli_epi16(residual[p], 4), codes);
        }
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

static inline __m256i twice(const int8_t *codes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)codes));
}
