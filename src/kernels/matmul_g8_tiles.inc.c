/* Walking the channels and rows of a g8 matmul with several token rows in tiles: some weight rows are transposed in the
 * first cache, so that registers hold channels. Shared by instruction sets; included once by a kernel file that has
 * defined
 *
 *   G8_TILE_CHANNELS      weight rows of a tile, a multiple of 16
 *   G8_TILE_ROWS          token rows of a tile
 *   G8_CHUNK              groups of 32 inputs that are transposed together: 8 or 16
 *   struct g8_tile        with at least: float lanes[G8_TILE_ROWS][16][G8_TILE_CHANNELS], 64-byte aligned, the lanes of the
 *                         numerics contract; x and sources, the codes and numbers of the token rows; weights and scales,
 *                         the rows of the matrix
 *   g8_load_weights       groups first..first+count-1 of the tile's weight rows
 *   g8_load_activations   the same groups of the first `rows` token rows
 *   g8_multiply           adds the terms of these groups to lanes (first + j) % 16
 *   g8_to_natural         a v16 of 16 channels from the tile's order to natural order */

/* The lane tree of all channels at once, then the results that belong to the call. */
static void g8_write_row(const struct ork_matmul_args *args, float (*lanes)[G8_TILE_CHANNELS], uint32_t n, uint32_t i)
{
    float *out = args->y + i * args->y_stride + n;
    for (uint32_t c = 0; c < G8_TILE_CHANNELS && n + c < args->n_end; c += 16) {
        v16 sums[16];
        for (uint32_t j = 0; j < 16; j++)
            sums[j] = v16_load(lanes[j] + c);
        for (uint32_t width = 8; width > 0; width /= 2)
            for (uint32_t j = 0; j < width; j++)
                sums[j] = v16_add(sums[j], sums[j + width]);
        const v16 result = g8_to_natural(sums[0]);
        const uint32_t left = args->n_end - n - c;
        if (left >= 16)
            v16_store(out + c, result);
        else
            v16_store_partial(out + c, result, left);
    }
}

/* One tile: the weight rows from channel n on, the token rows from `row` on. */
static void g8_multiply_tile(const struct ork_matmul_args *args, struct g8_tile *tile, uint32_t n, uint32_t row,
                             uint32_t rows)
{
    const uint32_t groups = args->x->k_padded / 32;
    memset(tile->lanes, 0, rows * sizeof tile->lanes[0]);
    for (uint32_t first = 0; first < groups; first += G8_CHUNK) {
        const uint32_t count = groups - first < G8_CHUNK ? groups - first : G8_CHUNK;
        g8_load_weights(tile, first, count);
        g8_load_activations(tile, args->x, rows, first, count);
        g8_multiply(tile, rows, first, count);
    }
    for (uint32_t i = 0; i < rows; i++) {
        /* The groups that are missing from the last sixteen add zeros, which turn -0 into 0. */
        for (uint32_t j = groups % 16; j > 0 && j < 16; j++)
            for (uint32_t c = 0; c < G8_TILE_CHANNELS; c += 16)
                v16_store(tile->lanes[i][j] + c, v16_add(v16_load(tile->lanes[i][j] + c), v16_zero()));
        g8_write_row(args, tile->lanes[i], n, row + i);
    }
}

static void g8_matmul_tiles(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const struct ork_activation *x = args->x;
    const uint32_t groups = x->k_padded / 32;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    struct g8_tile tile;
    for (uint32_t row = 0; row < args->m; row += G8_TILE_ROWS) {
        const uint32_t rows = args->m - row < G8_TILE_ROWS ? args->m - row : G8_TILE_ROWS;
        for (uint32_t i = 0; i < rows; i++) {
            tile.sources[i] = args->x_rows ? args->x_rows[row + i] : row + i;
            tile.x[i] = x->plain + tile.sources[i] * x->k_padded;
        }
        for (uint32_t n = args->n_begin; n < args->n_end; n += G8_TILE_CHANNELS) {
            for (uint32_t c = 0; c < G8_TILE_CHANNELS; c++) {
                uint64_t channel = n + c < args->n_end ? n + c : args->n_end - 1;
                tile.weights[c] = data + channel * x->k_padded;
                tile.scales[c] = scales + channel * groups * 2;
            }
            g8_multiply_tile(args, &tile, n, row, rows);
        }
    }
}
