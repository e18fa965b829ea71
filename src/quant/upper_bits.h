/* Where codes of more than four and fewer than eight bits stand: bricks of i5 and i6. Owns these addresses; knows no ISA.
 *
 * A brick of 64 channels x 32 k is a run of parts, each of 16 / bits channels, where bits is 1 for i5 and 2 for i6. A
 * part is a line of 64 bytes with the upper bits of its codes, then 16 bytes of nibbles a channel with the lowest four,
 * as in i4. Byte j of the line belongs to byte j of each of the 1 or 2 or 4 runs of 64 bytes that follow: in its low half
 * the bits of their low nibbles (even k), in its high half those of their high nibbles, ascending with the run. So one
 * mask (0x11 or 0x33) leaves the bits of one run where a shift by four puts either half over its nibble. */
#ifndef ORK_QUANT_UPPER_BITS_H
#define ORK_QUANT_UPPER_BITS_H

#include "quant/tier.h"

#define ORK_UPPER_LINE_BYTES 64u

/* Bits of a code beyond the nibble: 1 for i5, 2 for i6, otherwise 0. */
static inline uint32_t ork_upper_bits(enum ork_tier tier)
{
    return tier == ORK_TIER_I5 ? 1 : tier == ORK_TIER_I6 ? 2 : 0;
}

/* Bytes of the data plane of one expert, and where in them the bits begin. */
struct ork_upper_place {
    uint64_t nibble_byte, upper_byte;
    uint32_t nibble_shift, upper_shift;
};

/* tiles: ceil(k of the matrix / 32). */
static inline struct ork_upper_place ork_upper_find(uint32_t bits, uint64_t tiles, uint64_t channel, uint64_t k)
{
    uint64_t part_channels = 16 / bits, part_bytes = ORK_UPPER_LINE_BYTES + part_channels * 16;
    uint64_t brick = channel / 64 * tiles + k / 32, within = channel % part_channels;
    uint64_t part = brick * (64 / part_channels) * part_bytes + channel % 64 / part_channels * part_bytes;

    return (struct ork_upper_place){
        .nibble_byte = part + ORK_UPPER_LINE_BYTES + within * 16 + k % 32 / 2,
        .upper_byte = part + within % 4 * 16 + k % 32 / 2,
        .nibble_shift = (uint32_t)(k % 2 * 4),
        .upper_shift = (uint32_t)(within / 4 * bits + k % 2 * 4),
    };
}

/* The place of k + i, where `first` is that of k, both in one brick and k even. */
static inline struct ork_upper_place ork_upper_step(struct ork_upper_place first, uint32_t i)
{
    first.nibble_byte += i / 2;
    first.upper_byte += i / 2;
    first.nibble_shift += i % 2 * 4;
    first.upper_shift += i % 2 * 4;
    return first;
}

/* The code at a place: two's complement of 4 + bits bits. */
static inline int32_t ork_upper_read(uint32_t bits, const uint8_t *data, struct ork_upper_place place)
{
    int32_t low = data[place.nibble_byte] >> place.nibble_shift & 15;
    int32_t high = data[place.upper_byte] >> place.upper_shift & ((1 << bits) - 1);
    int32_t sign = 8 << bits;

    return ((low | high << 4) ^ sign) - sign;
}

/* Puts a code into bytes that are 0 there. */
static inline void ork_upper_write(uint8_t *data, struct ork_upper_place place, uint32_t bits, int32_t code)
{
    uint32_t high = (uint32_t)code >> 4 & ((1u << bits) - 1);

    data[place.nibble_byte] |= (uint8_t)(((uint32_t)code & 15) << place.nibble_shift);
    data[place.upper_byte] |= (uint8_t)(high << place.upper_shift);
}

#endif
