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

static inline float row_scale(const struct ork_surface_output *o, uint32_t i)
{
    return o->y ? o->x_scales[o->rows ? o->rows[i] : i] : 0.0f;
}

/* What of 32 sums of row i from channel j on is wanted; a register holds ROW_CHANNELS of them. */
static inline void write_some(const struct ork_surface_output *o, uint32_t i, uint32_t j, const wide *sums)
{
    const uint32_t used = j >= o->n_used ? 0 : o->n_used - j < BLOCK_CHANNELS ? o->n_used - j : BLOCK_CHANNELS;
    int32_t whole[BLOCK_CHANNELS];
    float scaled[BLOCK_CHANNELS];
    if (o->y) {
        for (uint32_t c = 0; c < BLOCK_CHANNELS; c += ROW_CHANNELS)
            store_floats(scaled + c,
                         scale_words(sums[c / ROW_CHANNELS], row_scale(o, i), load_floats(o->w_scales + j + c)));
        memcpy(o->y + i * o->y_stride + j, scaled, used * sizeof *scaled);
    }
    if (o->sums) {
        for (uint32_t c = 0; c < BLOCK_CHANNELS; c += ROW_CHANNELS)
            store_wide(whole + c, sums[c / ROW_CHANNELS]);
        memcpy(o->sums + i * o->sums_stride + j, whole, used * sizeof *whole);
    }
}

/* The band of 32 channels from j on, all rows. whole: all of it is wanted in y, and nothing in sums. */
static inline void output_band(const struct ork_surface_output *o, uint32_t j, bool halves, bool whole)
{
    wide weights[BLOCK_ATOMS];
    wide_float w_scales[BLOCK_ATOMS / LANES];
    for (uint32_t a = 0; a < BLOCK_ATOMS; a++)
        weights[a] = repeat_atom(o->weights + j + a * 4);
    for (uint32_t c = 0; c < BLOCK_ATOMS / LANES && whole; c++)
        w_scales[c] = load_floats(o->w_scales + j + c * ROW_CHANNELS);
    for (uint32_t i = 0; i < o->m; i += LANES) {
        const uint32_t count = o->m - i < LANES ? o->m - i : LANES;
        wide atoms[BLOCK_ATOMS];
        sum_blocks(atoms, o, i, j, count, halves);
        wide check = multiply_words(atoms[0], weights[0]);
#pragma GCC unroll 8
        for (uint32_t a = 1; a < BLOCK_ATOMS; a++)
            check = add_words(check, multiply_words(atoms[a], weights[a]));
        add_checks(o->checks + i, check, count);
#pragma GCC unroll 8
        for (uint32_t a = 0; a < BLOCK_ATOMS; a += LANES)
            transpose_square(atoms + a);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < LANES && r < count; r++) {
            wide sums[BLOCK_ATOMS / LANES];
#pragma GCC unroll 8
            for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                sums[c] = atoms[c * LANES + r];
            if (!whole) {
                write_some(o, i + r, j, sums);
                continue;
            }
            const float x_scale = row_scale(o, i + r);
            float *y = o->y + (i + r) * o->y_stride + j;
#pragma GCC unroll 8
            for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                store_floats(y + c * ROW_CHANNELS, scale_words(sums[c], x_scale, w_scales[c]));
        }
    }
}

static inline bool is_whole(const struct ork_surface_output *o, uint32_t j)
{
    return o->y && !o->sums && j + BLOCK_CHANNELS <= o->n_used;
}

static inline void output_native(const struct ork_surface_output *o, bool halves)
{
    for (uint32_t j = 0; j < o->n; j += BLOCK_CHANNELS) {
        if (is_whole(o, j))
            output_band(o, j, halves, true);
        else
            output_band(o, j, halves, false);
    }
}

static inline void output_rows(const struct ork_surface_output *o)
{
    for (uint32_t i = 0; i < o->m; i++) {
        const float x_scale = row_scale(o, i);
        wide check = no_words();
        for (uint32_t j = 0; j < o->n; j += BLOCK_CHANNELS) {
            const uint64_t first = (uint64_t)i * o->n + j;
            wide sums[BLOCK_ATOMS / LANES];
#pragma GCC unroll 8
            for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                sums[c] = load_wide((const int32_t *)o->parts[0] + first + c * ROW_CHANNELS);
            for (uint32_t part = 1; part < o->part_count; part++)
#pragma GCC unroll 8
                for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                    sums[c] = add_words(sums[c], load_wide((const int32_t *)o->parts[part] + first + c * ROW_CHANNELS));
#pragma GCC unroll 8
            for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                check = add_product(check, sums[c], load_wide(o->weights + j + c * ROW_CHANNELS));
            if (!is_whole(o, j)) {
                write_some(o, i, j, sums);
                continue;
            }
#pragma GCC unroll 8
            for (uint32_t c = 0; c < BLOCK_ATOMS / LANES; c++)
                store_floats(o->y + i * o->y_stride + j + c * ROW_CHANNELS,
                             scale_words(sums[c], x_scale, load_floats(o->w_scales + j + c * ROW_CHANNELS)));
        }
        o->checks[i] += sum_words(check);
    }
}
