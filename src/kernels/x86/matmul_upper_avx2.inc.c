/* Matmul on bricks with upper bits (i5, i6; places in quant/upper_bits.h) on 256-bit registers. Included once by a kernel
 * file that has defined UPPER_BITS (1 or 2) and UPPER_RUN, the name of the kernel, and, to use vpdpbusd, has included
 * integer_avxvnni.h.
 *
 * Codes become unsigned (code + BRICK_BIAS) by turning the sign around in the upper bits, so that vpmaddubsw and vpdpbusd
 * take them as they are; the sum of the activations, times -BRICK_BIAS, takes the bias out again. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx2.h"

#define BRICK_CHANNELS 64
#define BRICK_BYTES (1024 + 256 * UPPER_BITS)
#define BRICK_BIAS (8 << UPPER_BITS)
#define BRICK_ROWS 6
#define PANEL_BRICKS 8
#define PART_CHANNELS (16 / UPPER_BITS) /* served by one line of upper bits */
#define PART_BYTES (64 + 16 * PART_CHANNELS)
#define UPPER_USED (UPPER_BITS == 1 ? 0x10 : 0x30) /* of a code, where they belong */
#define UPPER_SIGN (UPPER_BITS == 1 ? 0xFF : 0xAA)

#ifdef ORK_AVXVNNI
#include "kernels/x86/panel_bytes_avxvnni.inc.c"
#else
#define PANEL_WORD_GROUPS (4 / UPPER_BITS) /* words of at most 8 * 31 * 127 = 31496 or 4 * 63 * 127 = 32004 */
#include "kernels/x86/panel_words_avx2.inc.c"
#endif

typedef struct {
    int unused;
} brick_codes;

static inline v16 panel_to_natural(v16 a)
{
    return (v16){_mm256_permutevar8x32_ps(a.low, ork_natural_order_avx2()),
                 _mm256_permutevar8x32_ps(a.high, ork_natural_order_avx2())};
}

/* Nibbles in the low halves of bytes with their upper bits, which stand in bits 4 and up among others. */
static inline __m256i join(__m256i nibbles, __m256i upper)
{
    return _mm256_or_si256(_mm256_and_si256(nibbles, _mm256_set1_epi8(15)),
                           _mm256_and_si256(upper, _mm256_set1_epi8(UPPER_USED)));
}

/* sums + codes times activations; with vpmaddubsw four products stay within 4 * 63 * 127 = 32004. */
static inline __m256i add_products(__m256i sums, __m256i low, __m256i high, __m256i even, __m256i odd)
{
#ifdef ORK_AVXVNNI
    return ork_dot_avxvnni(ork_dot_avxvnni(sums, low, even), high, odd);
#else
    __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low, even), _mm256_maddubs_epi16(high, odd));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

/* Codes of the even and the odd k of 32 bytes of nibbles; *upper goes on to the next ones. */
static inline void expand_run(__m256i *even, __m256i *odd, __m256i *upper, const uint8_t *run)
{
    const __m256i nibbles = _mm256_loadu_si256((const __m256i *)run);
    *even = join(nibbles, _mm256_slli_epi16(*upper, 4));
    *odd = join(_mm256_srli_epi16(nibbles, 4), *upper);
    *upper = _mm256_srli_epi16(*upper, UPPER_BITS);
}

/* The halves of a line of upper bits with the sign turned around; each serves every other 32 bytes of nibbles. */
static inline void load_upper(__m256i *upper, const uint8_t *line)
{
    const __m256i sign = _mm256_set1_epi8((char)UPPER_SIGN);
    upper[0] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)line), sign);
    upper[1] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(line + 32)), sign);
}

/* One part, read in order. */
static inline void stream_part(__m256i *sums, const uint8_t *part, __m256i even, __m256i odd)
{
    __m256i upper[2];
    load_upper(upper, part);
    part += 64;
    for (int i = 0; i < PART_CHANNELS / 2; i++, part += 32) {
        __m256i low, high;
        expand_run(&low, &high, &upper[i % 2], part);
        sums[i] = add_products(sums[i], low, high, even, odd);
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
    ork_store_sums_avx2(acc, sums, BRICK_CHANNELS / 2);
}

/* Groups of four k follow the split activations: the first four are even k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    (void)codes;
    __m256i upper[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        __m256i even[4], odd[4], out[4];
        if (c % PART_CHANNELS == 0) {
            load_upper(upper, brick);
            brick += 64;
        }
        for (uint32_t i = 0; i < 4; i++, brick += 32)
            expand_run(&even[i], &odd[i], &upper[i % 2], brick);
        ork_transpose_lanes_avx2(out, even);
        for (uint32_t q = 0; q < 4; q++)
            _mm256_store_si256((__m256i *)(panel + (q * BRICK_CHANNELS + c) * 4), out[q]);
        ork_transpose_lanes_avx2(out, odd);
        for (uint32_t q = 0; q < 4; q++)
            _mm256_store_si256((__m256i *)(panel + ((q + 4) * BRICK_CHANNELS + c) * 4), out[q]);
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {0};
    brick_matmul(args, args->x->split, &codes);
}
