/* Owns causal attention over the KV cache: head norms and rotation, filling the cache, scores, weighted sum. */
#include "engine/cpu/engine.h"

#include <string.h>

struct attend_region {
    ork_cpu *cpu;
    const struct ork_cpu_attention *layer;
    uint32_t rows;
};

static void normalise_and_rotate(const struct attend_region *r, uint32_t row, float *head, const float *norm)
{
    const struct ork_cpu_attention *l = r->layer;
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    if (norm)
        vector->rms_norm(head, head, norm, l->head_size, l->eps);
    if (!l->pairs)
        return;
    const float *cosine = l->cosine + (uint64_t)row * l->pairs, *sine = l->sine + (uint64_t)row * l->pairs;
    if (l->rope_halves)
        vector->rope_halves(head, cosine, sine, l->pairs);
    else
        vector->rope_adjacent(head, cosine, sine, l->pairs);
}

/* Element offset of a position in a cache plane. */
static uint64_t cache_at(const struct ork_cpu_attention *l, uint32_t head, uint32_t position)
{
    return ((uint64_t)head * l->context + position) * l->head_size;
}

static void store(const struct attend_region *r, void *cache, bool f32, uint64_t at, const float *head)
{
    if (f32)
        memcpy((float *)cache + at, head, r->layer->head_size * sizeof *head);
    else
        r->cpu->kernels->vector.f32_to_f16((uint16_t *)cache + at, head, r->layer->head_size);
}

static void prepare_row(const struct attend_region *r, uint32_t row)
{
    const struct ork_cpu_attention *l = r->layer;
    for (uint32_t h = 0; h < l->heads; h++)
        normalise_and_rotate(r, row, l->q + row * l->q_stride + (uint64_t)h * l->head_size, l->q_norm);
    for (uint32_t h = 0; h < l->heads_kv; h++) {
        float *k = l->k + row * l->kv_stride + (uint64_t)h * l->head_size;
        const float *v = l->v + row * l->kv_stride + (uint64_t)h * l->head_size;
        normalise_and_rotate(r, row, k, l->k_norm);
        store(r, l->keys, l->keys_f32, cache_at(l, h, l->past + row), k);
        store(r, l->values, l->values_f32, cache_at(l, h, l->past + row), v);
    }
}

static void attend_head(const struct attend_region *r, uint32_t row, uint32_t head, uint32_t thread)
{
    const struct ork_cpu_attention *l = r->layer;
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    uint32_t visible = l->past + row + 1, head_kv = head / (l->heads / l->heads_kv), size = l->head_size;
    float *scores = r->cpu->scores + (uint64_t)thread * r->cpu->limits.context;
    const float *q = l->q + row * l->q_stride + (uint64_t)head * size;
    float *y = l->y + row * l->y_stride + (uint64_t)head * size;
    uint64_t at = cache_at(l, head_kv, 0);
    if (l->keys_f32)
        vector->scores_f32(scores, q, (const float *)l->keys + at, size, visible, size);
    else
        vector->scores_f16(scores, q, (const uint16_t *)l->keys + at, size, visible, size);
    vector->softmax(scores, visible, l->scale);
    if (l->values_f32)
        vector->weighted_sum_f32(y, scores, (const float *)l->values + at, size, visible, size);
    else
        vector->weighted_sum_f16(y, scores, (const uint16_t *)l->values + at, size, visible, size);
}

static void attend_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct attend_region *r = context;
    uint32_t begin, end, heads = r->layer->heads;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        prepare_row(r, row);
    ork_pool_barrier(r->cpu->pool);
    /* All rows of one head together: its keys and values stay in the core's cache. */
    struct ork_cpu_share share = ork_cpu_share_make(r->cpu, 0, heads * r->rows, r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end))
        for (uint32_t i = begin; i < end; i++)
            attend_head(r, i % r->rows, i / r->rows, thread);
}

void ork_cpu_attend(ork_cpu *cpu, const struct ork_cpu_attention *layer, uint32_t rows)
{
    struct attend_region region = {cpu, layer, rows};
    ork_cpu_run(cpu, rows, attend_region, &region);
}
