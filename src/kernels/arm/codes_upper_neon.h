/* Codes of bricks with upper bits (i5, i6; places in quant/upper_bits.h) on AArch64. Included after UPPER_BITS, 1 or 2,
 * is defined.
 *
 * Codes become unsigned (code + BRICK_BIAS) by turning the sign around in the upper bits; one insertion by shift then
 * joins a nibble with its upper bits, either half of the byte with its own: no table, no masks of nibbles. The sum of
 * the activations, times -BRICK_BIAS, takes the bias out again. */
#ifndef ORK_KERNELS_ARM_CODES_UPPER_NEON_H
#define ORK_KERNELS_ARM_CODES_UPPER_NEON_H

#include <arm_neon.h>

#define BRICK_CHANNELS 64
#define BRICK_BYTES (1024 + 256 * UPPER_BITS)
#define BRICK_BIAS (8 << UPPER_BITS)
#define PART_RUNS (4 / UPPER_BITS) /* runs of 64 bytes of nibbles, 4 channels each, that a line of upper bits serves */
#define PART_BYTES (64 + 64 * PART_RUNS)

typedef struct {
    int unused;
} brick_codes;

/* The line of a part, for channels 0 to 3 of each run. */
static inline void load_upper(uint8x16_t upper[4], const uint8_t *part)
{
    for (int i = 0; i < 4; i++)
        upper[i] = veorq_u8(vld1q_u8(part + i * 16), vdupq_n_u8(UPPER_BITS == 1 ? 0xFF : 0xAA));
}

/* Codes of the even and the odd k of one channel, at most 63; *upper goes on to the next run. */
static inline void expand_channel(int8x16_t *even, int8x16_t *odd, uint8x16_t *upper, const uint8_t *bytes)
{
    const uint8x16_t nibbles = vld1q_u8(bytes);
    const uint8x16_t bits = vandq_u8(*upper, vdupq_n_u8(UPPER_BITS == 1 ? 0x11 : 0x33));
    *even = vreinterpretq_s8_u8(vsliq_n_u8(nibbles, bits, 4));
    *odd = vreinterpretq_s8_u8(vsriq_n_u8(bits, nibbles, 4));
    *upper = vshrq_n_u8(*upper, UPPER_BITS);
}

#endif
