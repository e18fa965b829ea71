/* Matmul on bricks with upper bits (i5, i6; places in quant/upper_bits.h) with AVX2. Included once by a kernel file that
 * has defined UPPER_BITS (1 or 2) and UPPER_RUN, the name of the kernel.
 *
 * Codes become unsigned (code + BRICK_BIAS) by turning the sign around in the upper bits, so that vpmaddubsw takes them
 * as they are; the sum of the activations, times -BRICK_BIAS, takes the bias out again. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

#define BRICK_CHANNELS 64
#define BRICK_BYTES (1024 + 256 * UPPER_BITS)
#define BRICK_BIAS (8 << UPPER_BITS)
#define BRICK_ROWS 4
#define PANEL_BRICKS 4
#define PANEL_BRICK_BYTES 4096
#define PART_CHANNELS (16 / UPPER_BITS) /* served by one line of upper bits */
#define PART_BYTES (64 + 16 * PART_CHANNELS)
#define UPPER_USED (UPPER_BITS == 1 ? 0x10 : 0x30) /* of a code, where they belong */
#define UPPER_SIGN (UPPER_BITS == 1 ? 0xFF : 0xAA)

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return a;
}

/* Nibbles in the low halves of bytes with their upper bits, which stand in bits 4 and up among others. */
static inline __m256i join(__m256i nibbles, __m256i upper)
{
    return _mm256_or_si256(_mm256_and_si256(nibbles, _mm256_set1_epi8(15)),
                           _mm256_and_si256(upper, _mm256_set1_epi8(UPPER_USED)));
}

/* sums + codes times activations, both unsigned codes at most 63: four products stay within 4 * 63 * 127 = 32004. */
static inline __m256i add_products(__m256i sums, __m256i low, __m256i high, __m256i even, __m256i odd)
{
    __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low, even), _mm256_maddubs_epi16(high, odd));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* One part, read in order: each half of a line of upper bits serves every other pair of channels. */
static inline void stream_part(__m256i *sums, const uint8_t *part, __m256i even, __m256i odd)
{
    const __m256i sign = _mm256_set1_epi8((char)UPPER_SIGN);
    __m256i upper[2] = {_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)part), sign),
                        _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(part + 32)), sign)};
    part += 64;
    for (int i = 0; i < PART_CHANNELS / 2; i++, part += 32) {
        __m256i nibbles = _mm256_loadu_si256((const __m256i *)part), *bits = &upper[i % 2];
        __m256i low = join(nibbles, _mm256_slli_epi16(*bits, 4));
        __m256i high = join(_mm256_srli_epi16(nibbles, 4), *bits);
        sums[i] = add_products(sums[i], low, high, even, odd);
        *bits = _mm256_srli_epi16(*bits, UPPER_BITS);
        ORK_KEEP_ORDER();
    }
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). Register c
 * holds channels 2 c and 2 c + 1, four partial sums each. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)codes;
    __m256i sums[BRICK_CHANNELS / 2];
    for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++)
        sums[c] = _mm256_setr_epi32(start, 0, 0, 0, start, 0, 0, 0);
    for (uint32_t t = 0; t < count; t++, x += 32) {
        const __m256i even = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
        const __m256i odd = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
        for (uint32_t c = 0; c < BRICK_CHANNELS; c += PART_CHANNELS, bricks += PART_BYTES)
            stream_part(sums + c / 2, bricks, even, odd);
    }
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        const __m256i *s = sums + c / 2;
        /* Low half: channels c, c + 2, c + 4, c + 6; high half: the odd ones. */
        __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
        sum = _mm256_permutevar8x32_epi32(sum, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(acc + c), sum);
    }
}

/* Even and odd codes of one channel, 16 each, as 16-bit numbers. */
static inline void expand_channel(__m256i *even, __m256i *odd, const uint8_t *brick, uint32_t channel)
{
    const uint8_t *part = brick + channel / PART_CHANNELS * PART_BYTES;
    const uint32_t within = channel % PART_CHANNELS;
    const __m128i shift = _mm_cvtsi32_si128((int)(within / 4 * UPPER_BITS));
    const __m128i line = _mm_loadu_si128((const __m128i *)(part + within % 4 * 16));
    const __m128i upper = _mm_srl_epi16(_mm_xor_si128(line, _mm_set1_epi8((char)UPPER_SIGN)), shift);
    const __m128i nibbles = _mm_loadu_si128((const __m128i *)(part + 64 + within * 16));
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(nibbles, 4), nibbles);
    const __m256i codes = join(both, _mm256_set_m128i(upper, _mm_slli_epi16(upper, 4)));
    *even = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(codes));
    *odd = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(codes, 1));
}

/* Pairs of k follow the split activations: 8 pairs of even k, then 8 of odd k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        __m256i even[8], odd[8];
        for (uint32_t i = 0; i < 8; i++)
            expand_channel(&even[i], &odd[i], brick, c + i);
        ork_transpose_avx2(even);
        ork_transpose_avx2(odd);
        for (uint32_t p = 0; p < 8; p++) {
            _mm256_store_si256((__m256i *)(panel + (p * BRICK_CHANNELS + c) * 4), even[p]);
            _mm256_store_si256((__m256i *)(panel + ((p + 8) * BRICK_CHANNELS + c) * 4), odd[p]);
        }
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
