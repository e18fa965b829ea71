/* Matmuls on bricks of nibbles with AVX-VNNI: nibbles become unsigned codes (code + 128) by a byte shuffle of the 16-entry
 * table; the sum of the activations, times -128, takes the bias out again. Included once by a kernel file; with
 * BRICK_NESTED (n8) a second run of nibbles adds to each code. */
#define ORK_VECTOR_AVX2

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avxvnni.h"

#define BRICK_CHANNELS 64
#define BRICK_BIAS 128
#define BRICK_ROWS 6
#define PANEL_BRICKS 8

#include "kernels/x86/panel_bytes_avxvnni.inc.c"

typedef struct {
    __m256i table; /* 16 biased codes in both halves */
#ifdef BRICK_NESTED
    __m256i doubled;         /* twice the signed nibbles */
    uint64_t residual_bytes; /* from a base brick to its residual brick */
#endif
} brick_codes;

#include "kernels/x86/nested_avx2.inc.c"

static inline v16 panel_to_natural(v16 a)
{
    return (v16){_mm256_permutevar8x32_ps(a.low, ork_natural_order_avx2()),
                 _mm256_permutevar8x32_ps(a.high, ork_natural_order_avx2())};
}

/* Codes of low and high nibbles. */
static inline void look_up(__m256i *low, __m256i *high, __m256i nibbles, __m256i residual, const brick_codes *codes)
{
    const __m256i mask = _mm256_set1_epi8(15);
    *low = _mm256_shuffle_epi8(codes->table, _mm256_and_si256(nibbles, mask));
    *high = _mm256_shuffle_epi8(codes->table, _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), mask));
#ifdef BRICK_NESTED
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(residual, 4), mask);
    *low = _mm256_add_epi8(*low, _mm256_shuffle_epi8(codes->doubled, _mm256_and_si256(residual, mask)));
    *high = _mm256_add_epi8(*high, _mm256_shuffle_epi8(codes->doubled, odd));
#else
    (void)residual;
#endif
}

/* The bricks are read in order, the sums of all channels stay in the first cache (see matmul_i8_avx2.c). Register c
 * holds channels 2 c and 2 c + 1, four partial sums each. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    const brick_codes constants = *codes;
    __m256i sums[BRICK_CHANNELS / 2];
    for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++)
        sums[c] = _mm256_setr_epi32(start, 0, 0, 0, start, 0, 0, 0);
    for (uint32_t t = 0; t < count; t++, bricks += 1024, x += 32) {
        const __m256i even = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)x));
        const __m256i odd = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(x + 16)));
        for (uint32_t c = 0; c < BRICK_CHANNELS / 2; c++) {
            __m256i low, high;
            look_up(&low, &high, _mm256_loadu_si256((const __m256i *)(bricks + c * 32)),
                    residual_of(bricks + c * 32, &constants), &constants);
            sums[c] = ork_dot_avxvnni(ork_dot_avxvnni(sums[c], low, even), high, odd);
            ORK_KEEP_ORDER();
        }
    }
    ork_store_sums_avx2(acc, sums, BRICK_CHANNELS / 2);
}

/* Groups of four k follow the split activations: the first four are even k. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    for (uint32_t c = 0; c < BRICK_CHANNELS; c += 8) {
        __m256i in[4], more[4], out[4], residual[4];
        for (uint32_t i = 0; i < 4; i++) {
            in[i] = _mm256_loadu_si256((const __m256i *)(brick + c * 16 + i * 32));
            more[i] = residual_of(brick + c * 16 + i * 32, codes);
        }
        ork_transpose_lanes_avx2(out, in);
        ork_transpose_lanes_avx2(residual, more);
        for (uint32_t q = 0; q < 4; q++) {
            __m256i low, high;
            look_up(&low, &high, out[q], residual[q], codes);
            _mm256_store_si256((__m256i *)(panel + (q * BRICK_CHANNELS + c) * 4), low);
            _mm256_store_si256((__m256i *)(panel + ((q + 4) * BRICK_CHANNELS + c) * 4), high);
        }
    }
}

#include "kernels/x86/multiply_panel_avx2.inc.c"
#include "kernels/matmul_brick.inc.c"

static inline __m256i twice(const int8_t *codes)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)codes));
}

static inline __m256i biased_codes(const int8_t *codes)
{
    return _mm256_xor_si256(twice(codes), _mm256_set1_epi8((char)0x80));
}
