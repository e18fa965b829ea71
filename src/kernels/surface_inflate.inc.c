/* Bricks of 4 to 6 bits, and pairs of them, into int8 bricks. Included by a file that has the registers of its instruction set
 * (surface_registers): expand(p) are the 32 * EXPANDED nibbles of 16 * EXPANDED bytes, in order, a byte each. */
#include "quant/nested.h"
#include "quant/upper_bits.h"

static inline uint8_t *inflated(uint8_t *out, uint32_t k_tiles, uint32_t tile, uint32_t channel)
{
    return out + ((uint64_t)(channel / 32) * k_tiles + tile) * 1024 + channel % 32 * 32;
}

static inline void inflate_4bit(const int8_t *table, const uint8_t *bricks, uint32_t k_tiles, uint8_t *out)
{
    const expanded_table codes = load_table(table);
    for (uint32_t tile = 0; tile < k_tiles; tile++)
        for (uint32_t channel = 0; channel < 64; channel += EXPANDED, bricks += 16 * EXPANDED)
            store_expanded(inflated(out, k_tiles, tile, channel), look_up(codes, expand(bricks)));
}

static inline void inflate_nested(const int8_t *table, const uint8_t *bricks, const uint8_t *residual, uint32_t k_tiles,
                                  uint8_t *out)
{
    const expanded_table codes = load_table(table), doubled = load_table(ork_nested_doubled);
    for (uint32_t tile = 0; tile < k_tiles; tile++)
        for (uint32_t channel = 0; channel < 64; channel += EXPANDED) {
            store_expanded(inflated(out, k_tiles, tile, channel),
                           add_expanded(look_up(codes, expand(bricks)), look_up(doubled, expand(residual))));
            bricks += 16 * EXPANDED;
            residual += 16 * EXPANDED;
        }
}

/* The upper bits of a line, for EXPANDED channels from `channel` of its part on, are those of the same bytes in every run. */
static inline void inflate_upper(uint32_t bits, const uint8_t *bricks, uint32_t k_tiles, uint8_t *out)
{
    const uint32_t part_channels = 16 / bits;
    for (uint32_t tile = 0; tile < k_tiles; tile++)
        for (uint32_t part = 0; part < 64; part += part_channels) {
            const uint8_t *line = bricks, *nibbles = bricks + ORK_UPPER_LINE_BYTES;
            for (uint32_t channel = 0; channel < part_channels; channel += EXPANDED)
                store_expanded(inflated(out, k_tiles, tile, part + channel),
                               join_upper(expand(nibbles + channel * 16),
                                          expand_upper(line + channel % 4 * 16, channel / 4 * bits, bits), bits));
            bricks = nibbles + part_channels * 16;
        }
}

static inline void inflate(enum ork_tier tier, const int8_t *table, const uint8_t *bricks, const uint8_t *residual,
                           uint32_t k_tiles, uint8_t *out)
{
    static const int8_t i4_codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    if (tier == ORK_TIER_I5)
        inflate_upper(1, bricks, k_tiles, out);
    else if (tier == ORK_TIER_I6)
        inflate_upper(2, bricks, k_tiles, out);
    else if (tier == ORK_TIER_N8)
        inflate_nested(table, bricks, residual, k_tiles, out);
    else
        inflate_4bit(tier == ORK_TIER_NF4 ? table : i4_codes, bricks, k_tiles, out);
}
