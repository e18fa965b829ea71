/* Panels of unsigned bytes, [8 groups of 4 k a brick][BRICK_CHANNELS][4], and what a register tile does with them when
 * vpdpbusd is there. Included once by a kernel file, after BRICK_CHANNELS and BRICK_ROWS. */
#define PANEL_BRICK_BYTES (BRICK_CHANNELS * 32)

typedef int8_t panel_input;

/* Codes of eight channels, 32 bytes each at rows[i], into their place in the panel of a brick, with a bias of 128. The
 * first half of channel i lies beside that of channel i + 4, so that channels come out in natural order. */
static inline void inflate_eight(uint8_t *panel, const uint8_t *const *rows)
{
    const __m256i sign = _mm256_set1_epi8((char)0x80);
    for (uint32_t half = 0; half < 2; half++) {
        __m256i in[4], out[4];
        for (uint32_t i = 0; i < 4; i++) {
            __m256i pair = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[i] + half * 16)));
            pair = _mm256_inserti128_si256(pair, _mm_loadu_si128((const __m128i *)(rows[i + 4] + half * 16)), 1);
            in[i] = _mm256_xor_si256(pair, sign);
        }
        ork_transpose_lanes_avx2(out, in);
        for (uint32_t q = 0; q < 4; q++)
            _mm256_store_si256((__m256i *)(panel + (half * 4 + q) * BRICK_CHANNELS * 4), out[q]);
    }
}

/* sums + 16 channels of the panel, from w on, times rows of activations k..k_end-1. Twelve sums, two weights and an
 * input are fifteen of sixteen registers. */
static inline __attribute__((always_inline)) void add_bricks(__m256i (*sums)[2], const uint8_t *w,
                                                             const panel_input *const *x, uint32_t k, uint32_t k_end,
                                                             const int rows)
{
    for (; k < k_end; k += 4, w += BRICK_CHANNELS * 4) {
        __m256i low = _mm256_load_si256((const __m256i *)w), high = _mm256_load_si256((const __m256i *)(w + 32));
        ORK_KEEP_IN_REGISTER(low);
        ORK_KEEP_IN_REGISTER(high);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, x[i] + k, sizeof four);
            const __m256i input = _mm256_set1_epi32(four);
            sums[i][0] = ork_dot_avxvnni(sums[i][0], low, input);
            sums[i][1] = ork_dot_avxvnni(sums[i][1], high, input);
            ORK_KEEP_IN_REGISTER(sums[i][0]);
            ORK_KEEP_IN_REGISTER(sums[i][1]);
        }
    }
}
