/* Results out of the NPU's output orders. Included by a file that has the registers of its instruction set
 * (surface_registers). A register holds four channels of LANES rows, as they lie in memory; checks are summed so, and
 * transposition gives LANES rows of 4 * LANES channels. */

enum { BLOCK_CHANNELS = 32, BLOCK_ATOMS = 8, ROW_CHANNELS = 4 * LANES };

/* One part's numbers of `count` rows from i on and the 32 channels from j on. */
static inline void load_block(wide *atoms, const struct ork_surface_output *o, uint32_t part, uint32_t i, uint32_t j,
                              uint32_t count, bool halves)
{
    const uint64_t step = (uint64_t)o->m * 16; /* from one atom's rows to the next one's */
    const char *first = (const char *)o->parts[part] + j / (halves ? 8 : 4) * step + (uint64_t)i * 16;
    if (halves) {
#pragma GCC unroll 4
        for (uint32_t a = 0; a < BLOCK_ATOMS / 2; a++)
            widen_halves(&atoms[2 * a], &atoms[2 * a + 1], load_rows(first + a * step, count));
    } else {
#pragma GCC unroll 8
        for (uint32_t a = 0; a < BLOCK_ATOMS; a++)
            atoms[a] = load_rows(first + a * step, count);
    }
}

static inline void sum_blocks(wide *atoms, const struct ork_surface_output *o, uint32_t i, uint32_t j, uint32_t count,
                              bool halves)
{
    load_block(atoms, o, 0, i, j, count, halves);
    for (uint32_t part = 1; part < o->part_count; part++) {
        wide more[BLOCK_ATOMS];
        load_block(more, o, part, i, j, count, halves);
#pragma GCC unroll 8
        for (uint32_t a = 0; a < BLOCK_ATOMS; a++)
            atoms[a] = add_words(atoms[a], more[a]);
    }
}

/* ROW_CHANNELS sums of row i from channel j on; `used` of them are wanted. */
static inline void write_row(const struct ork_surface_output *o, uint32_t i, uint32_t j, wide sums, float x_scale,
                             wide_float w_scales, uint32_t used)
{
    int32_t whole[ROW_CHANNELS];
    float scaled[ROW_CHANNELS];
    if (used == 0)
        return;
    if (o->y && used == ROW_CHANNELS) {
        store_floats(o->y + i * o->y_stride + j, scale_words(sums, x_scale, w_scales));
    } else if (o->y) {
        store_floats(scaled, scale_words(sums, x_scale, w_scales));
        memcpy(o->y + i * o->y_stride + j, scaled, used * sizeof *scaled);
    }
    if (o->sums) {
        store_wide(whole, sums);
        memcpy(o->sums + i * o->sums_stride + j, whole, used * sizeof *whole);
    }
}

static inline uint32_t used_channels(const struct ork_surface_output *o, uint32_t j)
{
    return j >= o->n_used ? 0 : o->n_used - j < ROW_CHANNELS ? o->n_used - j : ROW_CHANNELS;
}

static inline float row_scale(const struct ork_surface_output *o, uint32_t i)
{
    return o->y ? o->x_scales[o->rows ? o->rows[i] : i] : 0.0f;
}

/* Bands of 32 channels over all rows. */
static inline void output_native(const struct ork_surface_output *o, bool halves)
{
    for (uint32_t j = 0; j < o->n; j += BLOCK_CHANNELS) {
        wide weights[BLOCK_ATOMS];
        for (uint32_t a = 0; a < BLOCK_ATOMS; a++)
            weights[a] = repeat_atom(o->weights + j + a * 4);
        for (uint32_t i = 0; i < o->m; i += LANES) {
            const uint32_t count = o->m - i < LANES ? o->m - i : LANES;
            wide atoms[BLOCK_ATOMS];
            sum_blocks(atoms, o, i, j, count, halves);
            wide check = multiply_words(atoms[0], weights[0]);
#pragma GCC unroll 8
            for (uint32_t a = 1; a < BLOCK_ATOMS; a++)
                check = add_words(check, multiply_words(atoms[a], weights[a]));
            add_checks(o->checks + i, check, count);
            if (!o->y && !o->sums)
                continue;
#pragma GCC unroll 8
            for (uint32_t a = 0; a < BLOCK_ATOMS; a += LANES) {
                const uint32_t used = used_channels(o, j + a * 4);
                const wide_float w_scales = o->y ? load_floats(o->w_scales + j + a * 4) : no_floats();
                transpose_square(atoms + a);
                for (uint32_t r = 0; r < count; r++)
                    write_row(o, i + r, j + a * 4, atoms[a + r], row_scale(o, i + r), w_scales, used);
            }
        }
    }
}

static inline void output_rows(const struct ork_surface_output *o)
{
    for (uint32_t i = 0; i < o->m; i++) {
        const float x_scale = row_scale(o, i);
        const uint64_t first = (uint64_t)i * o->n;
        wide check = no_words();
        for (uint32_t j = 0; j < o->n; j += ROW_CHANNELS) {
            wide sums = load_wide((const int32_t *)o->parts[0] + first + j);
            for (uint32_t part = 1; part < o->part_count; part++)
                sums = add_words(sums, load_wide((const int32_t *)o->parts[part] + first + j));
            check = add_words(check, multiply_words(sums, load_wide(o->weights + j)));
            write_row(o, i, j, sums, x_scale, o->y ? load_floats(o->w_scales + j) : no_floats(), used_channels(o, j));
        }
        o->checks[i] += sum_words(check);
    }
}
