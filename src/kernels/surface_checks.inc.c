/* Sums of codes times words, mod 2^32. Included by a file that has the registers of its instruction set
 * (surface_registers). */

enum { SIXTEEN = 4 / LANES }; /* registers for sixteen words */

static inline void row_checks(const int8_t *codes, uint64_t stride, const uint32_t *rows, uint32_t m,
                              const uint32_t *key, uint32_t k, uint32_t *checks)
{
    for (uint32_t i = 0; i < m; i++) {
        const int8_t *row = codes + (rows ? rows[i] : i) * stride;
        wide sums[SIXTEEN], words[SIXTEEN];
        for (uint32_t s = 0; s < SIXTEEN; s++)
            sums[s] = no_words();
        for (uint32_t j = 0; j < k; j += 16) {
            widen_codes(words, load_atom(row + j));
#pragma GCC unroll 4
            for (uint32_t s = 0; s < SIXTEEN; s++)
                sums[s] = add_product(sums[s], words[s], load_wide(key + j + s * 4 * LANES));
        }
        for (uint32_t s = 1; s < SIXTEEN; s++)
            sums[0] = add_words(sums[0], sums[s]);
        checks[i] += sum_words(sums[0]);
    }
}

/* Bricks of `channels` x 32 codes, bytes or nibbles. */
static inline void add_keys(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key,
                            uint32_t channels, bool nibbles)
{
    for (uint32_t tile = 0; tile < k_tiles; tile++, bricks += 1024, key += 32) {
        wide sums[2 * SIXTEEN], words[2 * SIXTEEN];
        for (uint32_t s = 0; s < 2 * SIXTEEN; s++)
            sums[s] = load_wide(key + s * 4 * LANES);
        for (uint32_t channel = 0; channel < channels; channel++) {
            const wide weight = repeat_word(weights[channel]);
            atom first, second;
            if (nibbles) {
                expand_nibbles(&first, &second, load_atom(bricks + channel * 16));
            } else {
                first = load_atom(bricks + channel * 32);
                second = load_atom(bricks + channel * 32 + 16);
            }
            widen_codes(words, first);
            widen_codes(words + SIXTEEN, second);
#pragma GCC unroll 8
            for (uint32_t s = 0; s < 2 * SIXTEEN; s++)
                sums[s] = add_product(sums[s], words[s], weight);
        }
        for (uint32_t s = 0; s < 2 * SIXTEEN; s++)
            store_wide(key + s * 4 * LANES, sums[s]);
    }
}
