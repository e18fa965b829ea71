/* Walking the channels, rows and groups of a g8 matmul, shared by instruction sets. A group is 32 inputs; sixteen
 * groups at a time give the sixteen lanes of the numerics contract. Included once by a kernel file that has defined
 *
 *   add_chunk   v16 lanes + terms of `groups` <= 16 groups; inlined with the constant 16
 *
 * Weight rows are read one after the other, as one long stream; several token rows share a run of weight rows that
 * stays in the second cache. */
#include "kernels/isa.h"
#include "kernels/vector.h"

#define G8_RUN_BYTES 131072u
#define G8_GROUPS_MAX (ORK_MATMUL_K_MAX / 32)

/* One scale for each group of an activation row, and zeros up to a multiple of sixteen groups. */
static inline void g8_expand_scales(float *expanded, const struct ork_activation *x, uint64_t row)
{
    const float *scales = x->scales + row * x->blocks;
    const uint32_t groups = x->k_padded / 32, block_groups = x->block / 32;
    uint32_t j = 0;
    for (uint32_t block = 0; block < x->blocks; block++)
        for (uint32_t i = 0; i < block_groups && j < groups; i++)
            expanded[j++] = scales[block];
    while (j % 16 != 0)
        expanded[j++] = 0.0f;
}

/* One weight row with one activation row. */
static inline float g8_dot(const uint8_t *weights, const uint8_t *scales, const int8_t *x, const float *x_scales,
                           uint32_t groups)
{
    v16 lanes = v16_zero();
    uint32_t first = 0;
    for (; first + 16 <= groups; first += 16)
        lanes =
            add_chunk(lanes, x + first * 32, v16_load(x_scales + first), weights + first * 32, scales + first * 2, 16);
    if (first < groups)
        lanes = add_chunk(lanes, x + first * 32, v16_load(x_scales + first), weights + first * 32, scales + first * 2,
                          groups - first);
    return v16_sum(lanes);
}

static void g8_matmul(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const struct ork_activation *x = args->x;
    const uint32_t groups = x->k_padded / 32;
    const uint64_t row_bytes = x->k_padded;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    const uint32_t run = row_bytes >= G8_RUN_BYTES ? 1 : (uint32_t)(G8_RUN_BYTES / row_bytes);
    float x_scales[G8_GROUPS_MAX];
    for (uint32_t begin = args->n_begin; begin < args->n_end;) {
        uint32_t end = args->m > 1 && args->n_end - begin > run ? begin + run : args->n_end;
        for (uint32_t i = 0; i < args->m; i++) {
            uint64_t source = args->x_rows ? args->x_rows[i] : i;
            g8_expand_scales(x_scales, x, source);
            /* One row alone reads the halves of the run side by side: memory gives two streams more than one. */
            uint32_t half = args->m == 1 ? (end - begin) / 2 : 0;
            for (uint32_t n = begin; n < end; n++) {
                uint32_t channel = n - begin < 2 * half ? begin + (n - begin) / 2 + ((n - begin) % 2 ? half : 0) : n;
                args->y[i * args->y_stride + channel] =
                    g8_dot(data + channel * row_bytes, scales + channel * (uint64_t)groups * 2,
                           x->plain + source * row_bytes, x_scales, groups);
            }
        }
        begin = end;
    }
}
