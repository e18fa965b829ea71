/* Owns weights and activations for measuring matmul kernels: random, of any tier with integer activations, in the shape
 * of experts. Must not know what the times are compared with. */
#include "engine/cpu/probe.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/cpu/tuning.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_CHANNELS 256u /* encoded once and repeated: planes of every tier are whole channel blocks one after another */
#define PLANE_ALIGNMENT 64u

static void fill_random(float *values, size_t count)
{
    uint64_t state = 0x6f726b2070726f62u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[i] = (float)((int64_t)(state >> 40) - (1 << 23)) * 0x1p-23f;
    }
}

static struct ork_tier_sizes plane_sizes(enum ork_tier tier, uint32_t n)
{
    struct ork_tier_sizes sizes;
    (void)ork_tier_sizes(tier, n, ORK_PROBE_K, &sizes); /* far from overflow */
    return sizes;
}

uint64_t ork_probe_matrix_bytes(enum ork_tier tier, uint32_t n)
{
    struct ork_tier_sizes sizes = plane_sizes(tier, n);
    return ork_round_up(sizes.data_bytes, PLANE_ALIGNMENT) + ork_round_up(sizes.scale_bytes, PLANE_ALIGNMENT);
}

/* Lays the matrices out in the buffer, all with the content of the encoded block. */
static void lay_out(struct ork_probe_weights *weights, enum ork_tier tier, uint32_t n, const uint8_t *data,
                    const uint8_t *scales, uint8_t *buffer)
{
    struct ork_tier_sizes block = plane_sizes(tier, BLOCK_CHANNELS), whole = plane_sizes(tier, n);
    for (uint32_t i = 0; i < weights->count; i++) {
        uint8_t *at = buffer + i * ork_probe_matrix_bytes(tier, n);
        uint8_t *scales_at = at + ork_round_up(whole.data_bytes, PLANE_ALIGNMENT);
        for (uint32_t j = 0; j < n / BLOCK_CHANNELS; j++) {
            memcpy(at + j * block.data_bytes, data, block.data_bytes);
            memcpy(scales_at + j * block.scale_bytes, scales, block.scale_bytes);
        }
        weights->matrices[i] = (struct ork_matrix){
            .tier = tier,
            .layout = ork_tier_find(tier)->layout,
            .n = n,
            .k = ORK_PROBE_K,
            .experts = 1,
            .data = at,
            .data_expert_stride = whole.data_bytes,
            .scales = scales_at,
            .scale_expert_stride = whole.scale_bytes,
            .table = whole.table_bytes ? ork_nf4_table : NULL,
            .name = "probe",
        };
        weights->bytes += whole.data_bytes + whole.scale_bytes;
    }
}

static ork_status make_matrices(struct ork_probe_weights *weights, enum ork_tier tier, uint32_t n, uint8_t *buffer,
                                ork_error *error)
{
    struct ork_tier_sizes block = plane_sizes(tier, BLOCK_CHANNELS);
    size_t count = (size_t)BLOCK_CHANNELS * ORK_PROBE_K;
    float *rows = malloc(count * sizeof *rows);
    uint8_t *data = malloc(block.data_bytes), *scales = malloc(block.scale_bytes);
    weights->matrices = calloc(weights->count, sizeof *weights->matrices);
    ork_status status = ORK_OK;
    if (!rows || !data || !scales || !weights->matrices) {
        status = ork_error_no_memory(error, "weights to measure with", count * sizeof *rows);
        goto out;
    }
    fill_random(rows, count);
    ork_tier_encode(tier, rows, BLOCK_CHANNELS, ORK_PROBE_K, NULL, ork_nf4_table, data, scales, NULL, NULL);
    lay_out(weights, tier, n, data, scales, buffer);
out:
    free(scales);
    free(data);
    free(rows);
    return status;
}

/* m rows of activations with the engine's own block length, quantized as the table does it. */
static ork_status make_activations(struct ork_probe *probe, struct ork_probe_weights *weights, uint32_t m, uint32_t n,
                                   ork_error *error)
{
    struct ork_activation *x = &weights->x;
    uint32_t blocks = ORK_PROBE_K / ORK_CPU_ACTIVATION_BLOCK;
    size_t inputs = (size_t)m * ORK_PROBE_K, scales = (size_t)m * blocks;
    size_t size_bytes = inputs * (sizeof(float) + 2) + scales * (sizeof(float) + sizeof(int32_t)) +
                        (size_t)m * n * sizeof(float);
    uint8_t *memory = aligned_alloc(PLANE_ALIGNMENT, ork_round_up(size_bytes, PLANE_ALIGNMENT));
    if (!memory)
        return ork_error_no_memory(error, "activations to measure with", size_bytes);
    weights->activation_memory = memory;
    float *rows = (float *)memory;
    int8_t *codes = (int8_t *)(rows + inputs);
    fill_random(rows, inputs);
    *x = (struct ork_activation){
        .rows = m,
        .k = ORK_PROBE_K,
        .k_padded = ORK_PROBE_K,
        .block = ORK_CPU_ACTIVATION_BLOCK,
        .blocks = blocks,
        .f32 = rows,
        .f32_stride = ORK_PROBE_K,
        .plain = codes,
        .split = codes + inputs,
        .scales = (float *)(codes + 2 * inputs),
        .sums = (int32_t *)((float *)(codes + 2 * inputs) + scales),
    };
    weights->m = m;
    weights->y = (float *)(x->sums + scales);
    for (uint32_t row = 0; row < m; row++)
        probe->kernels->vector.quantize(x, row);
    return ORK_OK;
}

ork_status ork_probe_weights_make(struct ork_probe *probe, enum ork_tier tier, uint32_t n, uint32_t m, uint32_t most,
                                  uint8_t *buffer, uint64_t buffer_bytes, struct ork_probe_weights *weights,
                                  ork_error *error)
{
    uint64_t fitting = buffer_bytes / ork_probe_matrix_bytes(tier, n);
    *weights = (struct ork_probe_weights){.count = (uint32_t)(fitting < most ? fitting : most)};
    ork_status status = make_matrices(weights, tier, n, buffer, error);
    if (status == ORK_OK)
        status = make_activations(probe, weights, m, n, error);
    if (status != ORK_OK)
        ork_probe_weights_free(weights);
    return status;
}

void ork_probe_weights_free(struct ork_probe_weights *weights)
{
    free(weights->activation_memory);
    free(weights->matrices);
    *weights = (struct ork_probe_weights){0};
}

struct multiply_region {
    const struct ork_probe *probe;
    const struct ork_probe_weights *weights;
    uint32_t turns;
};

/* Whole bricks are dealt out, one run a thread, as the engine does while decoding. */
static void multiply_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct multiply_region *r = context;
    const struct ork_probe_weights *weights = r->weights;
    const struct ork_matrix *first = weights->matrices;
    uint32_t channels = ork_tier_find(first->tier)->brick_channels, unit = channels > 16 ? channels : 16, begin, end;
    ork_split_range(first->n / unit, thread, threads, &begin, &end);
    if (begin == end)
        return;
    for (uint32_t turn = 0; turn < r->turns; turn++)
        for (uint32_t i = 0; i < weights->count; i++) {
            struct ork_matmul_args args = {
                .w = &weights->matrices[i],
                .x = &weights->x,
                .m = weights->m,
                .n_begin = begin * unit,
                .n_end = end * unit,
                .y = weights->y,
                .y_stride = first->n,
            };
            r->probe->kernels->matmul[first->tier].run(&args);
        }
}

double ork_probe_multiply(struct ork_probe *probe, const struct ork_probe_weights *weights, uint32_t threads,
                          uint32_t turns)
{
    struct multiply_region region = {probe, weights, turns};
    return ork_probe_time(probe, threads, multiply_region, &region);
}

ork_probe_tier ork_probe_tier_of(const struct ork_probe_weights *weights, uint32_t threads, double *rates,
                                 double *fractions, size_t count)
{
    return (ork_probe_tier){
        .tier = ork_tier_find(weights->matrices->tier)->name,
        .threads = threads,
        .rows = weights->m,
        .rate = ork_probe_median(rates, count),
        .fraction = ork_probe_median(fractions, count),
    };
}
