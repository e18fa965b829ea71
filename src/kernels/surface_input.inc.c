/* Rows of codes into the NPU's input order. Included by a file that has the registers of its instruction set
 * (surface_registers): squares of LANES rows x LANES atoms are read along rows and written along atoms. */

/* Atoms of 16 bytes: as they stand, or packed from 32 codes to nibbles. */
static inline void place_atom(const struct ork_surface_input *input, const int8_t *codes, uint32_t i, uint32_t a,
                              bool pack)
{
    store_atom(input->out + ((uint64_t)a * input->m + i) * 16, pack ? pack_atom(codes) : load_atom(codes));
}

static inline void place_square(const struct ork_surface_input *input, const int8_t *const *codes, uint32_t i,
                                uint32_t a, bool pack)
{
    wide square[LANES];
    for (uint32_t r = 0; r < LANES; r++)
        square[r] = pack ? pack_wide(codes[r] + a * 32) : load_wide(codes[r] + a * 16);
    transpose_square(square);
    for (uint32_t r = 0; r < LANES; r++)
        store_wide(input->out + ((uint64_t)(a + r) * input->m + i) * 16, square[r]);
}

/* Bands of four atoms, a cache line or two of each row, over all rows: as many streams are written as a band has atoms. */
static inline void place_rows(const struct ork_surface_input *input, bool pack)
{
    const uint32_t atom_codes = pack ? 32 : 16, atoms = input->k / atom_codes;
    for (uint32_t band = 0; band < atoms; band += 4) {
        const uint32_t end = band + 4 < atoms ? band + 4 : atoms;
        for (uint32_t i = 0; i < input->m; i += LANES) {
            const uint32_t count = input->m - i < LANES ? input->m - i : LANES;
            const int8_t *codes[LANES];
            for (uint32_t r = 0; r < count; r++)
                codes[r] = input->codes + (input->rows ? input->rows[i + r] : i + r) * input->stride + input->k_begin;
            if (count == LANES && end == band + 4) {
                for (uint32_t a = band; a < band + 4; a += LANES)
                    place_square(input, codes, i, a, pack);
                continue;
            }
            for (uint32_t a = band; a < end; a++)
                for (uint32_t r = 0; r < count; r++)
                    place_atom(input, codes[r] + a * atom_codes, i + r, a, pack);
        }
    }
}
