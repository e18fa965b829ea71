/* Panels of unsigned bytes, [8 groups of 4 k a brick][BRICK_CHANNELS][4], and what a register tile does with them when
 * codes are so small that 16 bits hold the sum of several pairs of products. Included once by a kernel file that has
 * defined
 *
 *   PANEL_WORD_GROUPS   groups of 4 k whose products, two to a 16-bit word, cannot overflow it: 2, 4 or 8
 *
 * after BRICK_CHANNELS and BRICK_ROWS. vpmaddubsw multiplies twice as many codes as vpmaddwd, and one vpmaddwd takes
 * the words of several of them into 32 bits. */
#define PANEL_BRICK_BYTES (BRICK_CHANNELS * 32)

typedef int8_t panel_input;

/* sums + 16 channels of the panel, from w on, times rows of activations k..k_end-1. The words are in registers, twelve
 * with six rows; the sums, which are wanted less often, in the first cache. */
static inline __attribute__((always_inline)) void add_bricks(__m256i (*sums)[2], const uint8_t *w,
                                                             const panel_input *const *x, uint32_t k, uint32_t k_end,
                                                             const int rows)
{
    while (k < k_end) {
        __m256i words[BRICK_ROWS][2];
#pragma GCC unroll 8
        for (uint32_t g = 0; g < PANEL_WORD_GROUPS; g++, k += 4, w += BRICK_CHANNELS * 4) {
            __m256i low = _mm256_load_si256((const __m256i *)w), high = _mm256_load_si256((const __m256i *)(w + 32));
            ORK_KEEP_IN_REGISTER(low);
            ORK_KEEP_IN_REGISTER(high);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                int32_t four;
                memcpy(&four, x[i] + k, sizeof four);
                const __m256i input = _mm256_set1_epi32(four);
                const __m256i first = _mm256_maddubs_epi16(low, input), second = _mm256_maddubs_epi16(high, input);
                words[i][0] = g == 0 ? first : _mm256_add_epi16(words[i][0], first);
                words[i][1] = g == 0 ? second : _mm256_add_epi16(words[i][1], second);
                ORK_KEEP_IN_REGISTER(words[i][0]);
                ORK_KEEP_IN_REGISTER(words[i][1]);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                sums[i][h] = _mm256_add_epi32(sums[i][h], _mm256_madd_epi16(words[i][h], _mm256_set1_epi16(1)));
    }
}
