/* Walking the channels, rows and groups of a g8 matmul, shared by instruction sets. Included once by a kernel file that
 * has defined CHANNELS (weight rows that share the work on the activations) and
 *
 *   g8_chunk    a type: what the kernel keeps of sixteen groups of 32 activations
 *   load_chunk  fills it from `groups` <= 16 groups
 *   add_chunk   v16 lanes + terms of `groups` groups; inlined with the constant 16
 */

/* Scales of the activations for groups first..first+groups-1, zero beyond. */
static inline v16 g8_activation_scales(const struct ork_activation *x, uint64_t row, uint32_t first, uint32_t groups)
{
    const float *scales = x->scales + row * x->blocks;
    const uint32_t block_groups = x->block / 32;
    float lanes[16] = {0};
    for (uint32_t j = 0; j < groups; j++)
        lanes[j] = scales[(first + j) / block_groups];
    return v16_load(lanes);
}

/* `channels` weight rows with one activation row. */
static void g8_dots(float *y, const uint8_t *weights, const uint8_t *scales, uint32_t channels,
                    const struct ork_activation *x, uint64_t row)
{
    const uint32_t groups = x->k_padded / 32;
    const int8_t *input = x->plain + row * x->k_padded;
    v16 lanes[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++)
        lanes[c] = v16_zero();
    for (uint32_t first = 0; first < groups; first += 16) {
        uint32_t count = groups - first < 16 ? groups - first : 16;
        const v16 x_scales = g8_activation_scales(x, row, first, count);
        g8_chunk chunk;
        load_chunk(&chunk, input + first * 32, count);
        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t *w = weights + (c * (uint64_t)groups + first) * 32;
            const uint8_t *s = scales + (c * (uint64_t)groups + first) * 2;
            if (count == 16)
                lanes[c] = add_chunk(lanes[c], &chunk, x_scales, w, s, 16);
            else
                lanes[c] = add_chunk(lanes[c], &chunk, x_scales, w, s, count);
        }
    }
    for (uint32_t c = 0; c < channels; c++)
        y[c] = v16_sum(lanes[c]);
}

static void g8_matmul(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const uint64_t padded = args->x->k_padded;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    for (uint32_t n = args->n_begin; n < args->n_end; n += CHANNELS) {
        uint32_t channels = args->n_end - n < CHANNELS ? args->n_end - n : CHANNELS;
        for (uint32_t i = 0; i < args->m; i++) {
            float y[CHANNELS];
            g8_dots(y, data + n * padded, scales + n * (padded / 32) * 2, channels, args->x,
                    args->x_rows ? args->x_rows[i] : i);
            memcpy(args->y + i * args->y_stride + n, y, channels * sizeof(float));
        }
    }
}
