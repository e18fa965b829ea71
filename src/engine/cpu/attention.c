/* Owns causal attention over the KV cache: head norms and rotation, filling the cache, the split of work into tiles of
 * queries and parts of the positions. What a tile computes is the kernels' (kernels.h, numerics contract). */
#include "engine/cpu/engine.h"
#include "engine/cpu/tuning.h"

#include <string.h>

struct attend_region {
    ork_cpu *cpu;
    const struct ork_cpu_attention *layer;
    uint32_t rows;
};

/* A thread's own memory. */
static float *scratch_of(const ork_cpu *cpu, uint32_t thread)
{
    return cpu->attend_scratch + thread * ork_cpu_attend_scratch(&cpu->limits);
}

/* Element offset of a kv head in a cache. Keys come in whole runs. */
static uint64_t keys_at(const struct ork_cpu_attention *l, uint32_t head_kv)
{
    uint64_t context = ((uint64_t)l->context + ORK_KEY_RUN - 1) / ORK_KEY_RUN * ORK_KEY_RUN;
    return head_kv * context * l->head_size;
}

static uint64_t values_at(const struct ork_cpu_attention *l, uint32_t head_kv)
{
    return (uint64_t)head_kv * l->context * l->head_size;
}

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

static void store_key(const struct attend_region *r, uint32_t head_kv, uint32_t position, const float *key,
                      uint32_t thread)
{
    const struct ork_cpu_attention *l = r->layer;
    uint64_t at =
        keys_at(l, head_kv) + (uint64_t)(position / ORK_KEY_RUN) * ORK_KEY_RUN * l->head_size + position % ORK_KEY_RUN;
    if (l->keys_f32) {
        float *keys = (float *)l->keys + at;
        for (uint32_t i = 0; i < l->head_size; i++)
            keys[(uint64_t)i * ORK_KEY_RUN] = key[i];
        return;
    }
    uint16_t *keys = (uint16_t *)l->keys + at, *halves = (uint16_t *)(void *)scratch_of(r->cpu, thread);
    r->cpu->kernels->vector.f32_to_f16(halves, key, l->head_size);
    for (uint32_t i = 0; i < l->head_size; i++)
        keys[(uint64_t)i * ORK_KEY_RUN] = halves[i];
}

static void store_value(const struct attend_region *r, uint32_t head_kv, uint32_t position, const float *value)
{
    const struct ork_cpu_attention *l = r->layer;
    uint64_t at = values_at(l, head_kv) + (uint64_t)position * l->head_size;
    if (l->values_f32)
        memcpy((float *)l->values + at, value, l->head_size * sizeof *value);
    else
        r->cpu->kernels->vector.f32_to_f16((uint16_t *)l->values + at, value, l->head_size);
}

/* One head of one row: a query head, or behind those a kv head. */
static void prepare_head(const struct attend_region *r, uint32_t row, uint32_t head, uint32_t thread)
{
    const struct ork_cpu_attention *l = r->layer;
    if (head < l->heads) {
        normalise_and_rotate(r, row, l->q + row * l->q_stride + (uint64_t)head * l->head_size, l->q_norm);
        return;
    }
    uint32_t head_kv = head - l->heads;
    uint64_t at = row * l->kv_stride + (uint64_t)head_kv * l->head_size;
    normalise_and_rotate(r, row, l->k + at, l->k_norm);
    store_key(r, head_kv, l->past + row, l->k + at, thread);
    store_value(r, head_kv, l->past + row, l->v + at);
}

/* Positions of a part, for a query that sees so many: at most ORK_CPU_ATTEND_PARTS parts. */
static uint64_t part_length(uint32_t visible)
{
    uint64_t length = ORK_CPU_ATTEND_PART;
    while (visible > length * ORK_CPU_ATTEND_PARTS)
        length *= 2;
    return length;
}

/* Pairs (row, query head of the kv head), numbered row by row, from `pair` on: as many as have parts of one length. */
static void fill_tile(const struct attend_region *r, uint32_t head_kv, uint32_t pair, uint32_t end,
                      struct ork_attend *tile)
{
    const struct ork_cpu_attention *l = r->layer;
    uint32_t heads = l->heads / l->heads_kv;
    uint64_t length = part_length(l->past + pair / heads + 1);
    uint64_t key = keys_at(l, head_kv), value = values_at(l, head_kv);
    tile->head_size = l->head_size;
    tile->scale = l->scale;
    tile->keys =
        l->keys_f32 ? (const void *)((const float *)l->keys + key) : (const void *)((const uint16_t *)l->keys + key);
    tile->values = l->values_f32 ? (const void *)((const float *)l->values + value)
                                 : (const void *)((const uint16_t *)l->values + value);
    tile->keys_f32 = l->keys_f32;
    tile->values_f32 = l->values_f32;
    tile->rows = 0;
    for (; pair < end && part_length(l->past + pair / heads + 1) == length; pair++) {
        uint32_t row = pair / heads, head = head_kv * heads + pair % heads;
        tile->q[tile->rows] = l->q + row * l->q_stride + (uint64_t)head * l->head_size;
        tile->visible[tile->rows++] = l->past + row + 1;
    }
}

static float *result_of(const struct ork_cpu_attention *l, uint32_t head_kv, uint32_t pair)
{
    uint32_t heads = l->heads / l->heads_kv, head = head_kv * heads + pair % heads;
    return l->y + pair / heads * l->y_stride + (uint64_t)head * l->head_size;
}

/* Pairs [begin, end) of a kv head over all that they see. */
static void attend_pairs(const struct attend_region *r, uint32_t head_kv, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    uint32_t size = r->layer->head_size, state = ORK_ATTEND_STATE(size);
    struct ork_attend tile = {.scratch = scratch_of(r->cpu, thread)};
    float *total = tile.scratch + ORK_ATTEND_SCRATCH(size), *part = total + ORK_CPU_ATTEND_TILE * state;
    for (uint32_t pair = begin; pair < end; pair += tile.rows) {
        fill_tile(r, head_kv, pair, end, &tile);
        uint32_t visible = tile.visible[tile.rows - 1], length = (uint32_t)part_length(visible);
        vector->attend(&tile, 0, visible < length ? visible : length, total);
        for (uint32_t from = length; from < visible; from += length) {
            vector->attend(&tile, from, visible - from < length ? visible : from + length, part);
            for (uint32_t i = 0; i < tile.rows; i++)
                if (tile.visible[i] > from)
                    vector->attend_merge(total + i * state, part + i * state, size);
        }
        for (uint32_t i = 0; i < tile.rows; i++)
            vector->attend_finish(result_of(r->layer, head_kv, pair + i), total + i * state, size);
    }
}

/* Several rows: tiles of pairs, those of one kv head together so that its keys and values stay in the core's cache, and
 * the longest first so that the threads end together. */
static void attend_rows(const struct attend_region *r, uint32_t thread, uint32_t threads)
{
    const struct ork_cpu_attention *l = r->layer;
    uint32_t pairs = r->rows * (l->heads / l->heads_kv), begin, end;
    uint32_t tiles = (pairs + ORK_CPU_ATTEND_TILE - 1) / ORK_CPU_ATTEND_TILE;
    struct ork_cpu_share share = ork_cpu_share_make(r->cpu, 0, l->heads_kv * tiles, r->rows, threads);
    share.piece_most = 1;
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        uint32_t first = (tiles - 1 - begin % tiles) * ORK_CPU_ATTEND_TILE;
        uint32_t last = pairs - first < ORK_CPU_ATTEND_TILE ? pairs : first + ORK_CPU_ATTEND_TILE;
        attend_pairs(r, begin / tiles, first, last, thread);
    }
}

/* One row: every kv head's parts are units of their own, so that few heads keep many threads busy. */
static void attend_row(const struct attend_region *r, uint32_t thread, uint32_t threads)
{
    const struct ork_cpu_attention *l = r->layer;
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    uint32_t heads = l->heads / l->heads_kv, size = l->head_size, state = ORK_ATTEND_STATE(size), begin, end;
    uint32_t visible = l->past + 1, length = (uint32_t)part_length(visible), parts = (visible - 1) / length + 1;
    uint32_t tiles = (heads + ORK_CPU_ATTEND_TILE - 1) / ORK_CPU_ATTEND_TILE;
    struct ork_attend tile = {.scratch = scratch_of(r->cpu, thread)};
    ork_split_range(l->heads_kv * tiles * parts, thread, threads, &begin, &end);
    for (uint32_t unit = begin; unit < end; unit++) {
        uint32_t part = unit % parts, first = unit / parts % tiles * ORK_CPU_ATTEND_TILE,
                 head_kv = unit / parts / tiles;
        uint32_t from = part * length, left = heads - first;
        float *states = r->cpu->attend_parts + ((uint64_t)part * l->heads + head_kv * heads + first) * state;
        fill_tile(r, head_kv, first, left < ORK_CPU_ATTEND_TILE ? heads : first + ORK_CPU_ATTEND_TILE, &tile);
        vector->attend(&tile, from, visible - from < length ? visible : from + length, states);
        for (uint32_t i = 0; parts == 1 && i < tile.rows; i++)
            vector->attend_finish(result_of(l, head_kv, first + i), states + i * state, size);
    }
    if (parts == 1)
        return;
    ork_pool_barrier(r->cpu->pool);
    ork_split_range(l->heads, thread, threads, &begin, &end);
    for (uint32_t head = begin; head < end; head++) {
        float *total = r->cpu->attend_parts + (uint64_t)head * state;
        for (uint32_t part = 1; part < parts; part++)
            vector->attend_merge(total, total + (uint64_t)part * l->heads * state, size);
        vector->attend_finish(l->y + (uint64_t)head * size, total, size);
    }
}

static void attend_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct attend_region *r = context;
    uint32_t begin, end, heads = r->layer->heads + r->layer->heads_kv;
    ork_split_range(r->rows * heads, thread, threads, &begin, &end);
    for (uint32_t i = begin; i < end; i++)
        prepare_head(r, i / heads, i % heads, thread);
    ork_pool_barrier(r->cpu->pool);
    if (r->rows == 1)
        attend_row(r, thread, threads);
    else
        attend_rows(r, thread, threads);
}

void ork_cpu_attend(ork_cpu *cpu, const struct ork_cpu_attention *layer, uint32_t rows)
{
    struct attend_region region = {cpu, layer, rows};
    ork_cpu_run(cpu, rows, attend_region, &region);
}

uint64_t ork_cpu_attend_scratch(const struct ork_cpu_limits *limits)
{
    uint64_t size = limits->head_size;
    return (ORK_ATTEND_SCRATCH(size) + 2 * ORK_CPU_ATTEND_TILE * ORK_ATTEND_STATE(size) + 15) / 16 * 16;
}

uint64_t ork_cpu_attend_parts(const struct ork_cpu_limits *limits)
{
    return (uint64_t)ORK_CPU_ATTEND_PARTS * limits->heads * ORK_ATTEND_STATE((uint64_t)limits->head_size);
}
