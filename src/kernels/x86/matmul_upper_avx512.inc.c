/* Matmul on bricks with upper bits (i5, i6; places in quant/upper_bits.h) with AVX-512 VNNI. Included once by a kernel
 * file that has defined UPPER_BITS (1 or 2) and UPPER_RUN, the name of the kernel.
 *
 * Codes become unsigned (code + BRICK_BIAS) by turning the sign around in the upper bits; they are put over their
 * nibbles by a bitwise choice, which costs the ports less than a byte permutation of a 32 or 64-entry table: nothing is
 * looked up. The sum of the activations, times -BRICK_BIAS, takes the bias out again. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/integer_avx512.h"

#define BRICK_CHANNELS 64
#define BRICK_BYTES (1024 + 256 * UPPER_BITS)
#define BRICK_BIAS (8 << UPPER_BITS)
#define BRICK_ROWS 5
#define PANEL_BRICKS 8
#define PANEL_BRICK_BYTES 2048
#define PART_RUNS (4 / UPPER_BITS) /* runs of 64 bytes of nibbles, 4 channels each, that a line of upper bits serves */

typedef struct {
    __m512i nibble, used, sign; /* 0x0F; the upper bits of one run; the sign among them, for both halves of a byte */
} brick_codes;

/* Position 4 j + i holds channel 4 i + j, in panels and in the lane sums; the exchange is its own inverse. */
static inline __m512i exchange_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

static inline v16 panel_to_natural(v16 a)
{
    return _mm512_permutexvar_ps(exchange_order(), a);
}

/* Codes of the even and the odd k of one run; *upper goes on to the next run. */
static inline void expand_run(__m512i *even, __m512i *odd, __m512i *upper, const uint8_t *run, const brick_codes *codes)
{
    const __m512i nibbles = _mm512_loadu_si512(run);
    const __m512i bits = _mm512_ternarylogic_epi32(*upper, codes->used, codes->sign, 0x6A); /* (a & b) ^ c */
    /* a ? b : c, bit by bit */
    *even = _mm512_ternarylogic_epi32(codes->nibble, nibbles, _mm512_slli_epi16(bits, 4), 0xCA);
    *odd = _mm512_ternarylogic_epi32(codes->nibble, _mm512_srli_epi16(nibbles, 4), bits, 0xCA);
    *upper = _mm512_srli_epi16(*upper, UPPER_BITS);
}

/* 16 registers of 4 channels by 4 partial sums. */
static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    const brick_codes constants = *codes;
    __m512i sums[16];
    for (int i = 0; i < 16; i++)
        sums[i] = _mm512_maskz_set1_epi32(0x1111, start);
    for (uint32_t t = 0; t < count; t++, x += 32) {
        const __m512i even = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)x));
        const __m512i odd = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(x + 16)));
        __m512i upper = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++, bricks += 64) {
            __m512i low, high;
            if (i % PART_RUNS == 0) {
                upper = _mm512_loadu_si512(bricks);
                bricks += 64;
            }
            expand_run(&low, &high, &upper, bricks, &constants);
            sums[i] = _mm512_dpbusd_epi32(sums[i], low, even);
            sums[i] = _mm512_dpbusd_epi32(sums[i], high, odd);
            ORK_KEEP_IN_REGISTER(sums[i]);
        }
    }
    for (int i = 0; i < 4; i++) {
        __m512i sum = ork_sum_lanes_avx512(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
        _mm512_storeu_si512(acc + i * 16, _mm512_permutexvar_epi32(exchange_order(), sum));
    }
}

/* Panel: [8 groups of 4 k][64 channels][4 k]; the first four groups are the even k, as in split activations. */
static inline void inflate_brick(uint8_t *panel, const uint8_t *brick, const brick_codes *codes)
{
    __m512i upper = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++) {
        __m512i even[4], odd[4], columns[4];
        for (int j = 0; j < 4; j++, brick += 64) {
            if (j % PART_RUNS == 0) {
                upper = _mm512_loadu_si512(brick);
                brick += 64;
            }
            expand_run(&even[j], &odd[j], &upper, brick, codes);
        }
        ork_transpose_lanes_avx512(columns, even);
        for (int q = 0; q < 4; q++)
            _mm512_store_si512(panel + q * 256 + i * 64, columns[q]);
        ork_transpose_lanes_avx512(columns, odd);
        for (int q = 0; q < 4; q++)
            _mm512_store_si512(panel + (q + 4) * 256 + i * 64, columns[q]);
    }
}

#include "kernels/x86/multiply_panel_avx512.inc.c"
#include "kernels/matmul_brick.inc.c"

void UPPER_RUN(const struct ork_matmul_args *args)
{
    const brick_codes codes = {
        .nibble = _mm512_set1_epi8(15),
        .used = _mm512_set1_epi8(UPPER_BITS == 1 ? 0x11 : 0x33),
        .sign = _mm512_set1_epi8(UPPER_BITS == 1 ? 0x11 : 0x22),
    };
    brick_matmul(args, args->x->split, &codes);
}
