/* Owns the naive forms of the op groups; must not use the engine. */
#include "engine/naive.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float random_float(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f;
}

void fill_random(float *values, uint64_t count, uint32_t *seed)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = random_float(seed);
}

void matrix_create(struct matrix *matrix, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts, uint32_t *seed)
{
    struct ork_tier_sizes sizes;
    if (!ork_tier_sizes(tier, n, k, &sizes))
        abort();
    uint64_t stride = ork_round_up(sizes.data_bytes, 64), rows = (uint64_t)experts * n;
    float *source = malloc(rows * k * sizeof *source);
    matrix->values = malloc(rows * k * sizeof *matrix->values);
    matrix->data = aligned_alloc(64, stride * experts);
    matrix->scales = aligned_alloc(64, ork_round_up(sizes.scale_bytes * experts + 1, 64));
    if (!source || !matrix->values || !matrix->data || !matrix->scales)
        abort();
    fill_random(source, rows * k, seed);
    matrix->stored = (struct ork_matrix){.tier = tier,
                                         .layout = ork_tier_find(tier)->layout,
                                         .n = n,
                                         .k = k,
                                         .experts = experts,
                                         .data = matrix->data,
                                         .data_expert_stride = stride,
                                         .scales = sizes.scale_bytes ? matrix->scales : NULL,
                                         .scale_expert_stride = sizes.scale_bytes,
                                         .table = sizes.table_bytes ? ork_nf4_table : NULL,
                                         .name = "test"};
    for (uint32_t e = 0; e < experts; e++) {
        ork_tier_encode(tier, source + (uint64_t)e * n * k, n, k, NULL, ork_nf4_table,
                        (uint8_t *)matrix->data + e * stride, (uint8_t *)matrix->scales + e * sizes.scale_bytes, NULL,
                        NULL);
        for (uint32_t channel = 0; channel < n; channel++)
            ork_matrix_decode_row(&matrix->stored, e, channel, matrix->values + ((uint64_t)e * n + channel) * k);
    }
    free(source);
}

void matrix_destroy(struct matrix *matrix)
{
    free(matrix->values);
    free(matrix->data);
    free(matrix->scales);
}

void naive_norm(double *y, const float *x, const float *norm, uint32_t n, double eps)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + eps) * norm[i];
}

void naive_multiply(double *y, const struct matrix *w, uint32_t expert, const double *h)
{
    uint32_t n = w->stored.n, k = w->stored.k;
    const float *values = w->values + (uint64_t)expert * n * k;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = 0.0;
        for (uint32_t j = 0; j < k; j++)
            y[i] += (double)values[(uint64_t)i * k + j] * h[j];
    }
}

double naive_silu(double x)
{
    return x / (1.0 + exp(-x));
}

void naive_feed_forward(double *y, const struct matrix *gate, const struct matrix *up, const struct matrix *down,
                        uint32_t expert, const double *h, double weight)
{
    uint32_t f = gate->stored.n, n = down->stored.n;
    double *g = malloc(f * sizeof *g), *u = malloc(f * sizeof *u), *d = malloc(n * sizeof *d);
    if (!g || !u || !d)
        abort();
    naive_multiply(g, gate, expert, h);
    naive_multiply(u, up, expert, h);
    for (uint32_t i = 0; i < f; i++)
        g[i] = naive_silu(g[i]) * u[i];
    naive_multiply(d, down, expert, g);
    for (uint32_t i = 0; i < n; i++)
        y[i] += weight * d[i];
    free(g);
    free(u);
    free(d);
}
