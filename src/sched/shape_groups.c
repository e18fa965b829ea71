/* Owns the step from a shape to op groups: which matrices a layer of a kind has. Must not know files or speeds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "sched/shape.h"

enum { LAYER_GROUPS = 6 };

struct builder {
    const struct ork_shape *shape;
    struct ork_model_shape *model;
    bool nested, fits;
};

static struct ork_group *begin(struct builder *b, enum ork_group_kind kind, uint32_t layer)
{
    struct ork_group *group = &b->model->groups[b->model->group_count++];
    *group = (struct ork_group){.kind = kind, .layer = layer};
    return group;
}

static void add(struct builder *b, struct ork_group *group, const char *name, enum ork_shape_role role, uint32_t n,
                uint32_t k, bool residual)
{
    const bool stack = role == ORK_SHAPE_EXPERT;
    const bool sensitive = role == ORK_SHAPE_MIXER || role == ORK_SHAPE_DENSE || role == ORK_SHAPE_SHARED;
    enum ork_tier tier = b->shape->tier[role];
    if (b->nested && sensitive && tier == ORK_TIER_I8)
        tier = ORK_TIER_N8;
    b->fits = b->fits && ork_group_add(group, name, tier, n, k, stack ? b->shape->experts : 0, b->shape->experts_used,
                                       0, residual);
}

static void add_attention(struct builder *b, uint32_t layer)
{
    const struct ork_shape *shape = b->shape;
    const uint32_t query = shape->heads * shape->head_width, kv = shape->heads_kv * shape->head_width;
    struct ork_group *in = begin(b, ORK_GROUP_ATTENTION_IN, layer);
    add(b, in, "q", ORK_SHAPE_MIXER, query * (shape->gated ? 2 : 1), shape->width, false);
    add(b, in, "k", ORK_SHAPE_MIXER, kv, shape->width, false);
    add(b, in, "v", ORK_SHAPE_MIXER, kv, shape->width, false);
    add(b, begin(b, ORK_GROUP_ATTENTION_OUT, layer), "output", ORK_SHAPE_MIXER, shape->width, query, true);
    b->model->layers[layer] =
        (struct ork_layer_cost){.kv_bytes = 2ull * 2 * kv, .kv_macs = 2ull * query}; /* f16; products with k and v */
}

static void add_convolution(struct builder *b, uint32_t layer)
{
    const struct ork_shape *shape = b->shape;
    const uint64_t width = shape->width, length = shape->convolution_length;
    add(b, begin(b, ORK_GROUP_CONVOLUTION_IN, layer), "input", ORK_SHAPE_MIXER, 3 * shape->width, shape->width, false);
    add(b, begin(b, ORK_GROUP_CONVOLUTION_OUT, layer), "output", ORK_SHAPE_MIXER, shape->width, shape->width, true);
    b->model->layers[layer] =
        (struct ork_layer_cost){.state_bytes = 4 * (length - 1) * width, .state_macs = length * width};
    b->model->vector_bytes += 4 * length * width;
}

/* Decays and strengths are floats, so a group of their own: the NPU may take the others. */
static void add_delta(struct builder *b, uint32_t layer)
{
    const struct ork_shape *shape = b->shape;
    const uint32_t key = shape->delta_key_heads * shape->delta_head_width,
                   value = shape->delta_value_heads * shape->delta_head_width;
    struct ork_group *in = begin(b, ORK_GROUP_DELTA_IN, layer);
    add(b, in, "qkv", ORK_SHAPE_MIXER, 2 * key + value, shape->width, false);
    add(b, in, "gate", ORK_SHAPE_MIXER, value, shape->width, false);
    add(b, begin(b, ORK_GROUP_DELTA_IN, layer), "decay", ORK_SHAPE_ROUTER, 2 * shape->delta_value_heads, shape->width,
        false);
    add(b, begin(b, ORK_GROUP_DELTA_OUT, layer), "output", ORK_SHAPE_MIXER, shape->width, value, true);
    const uint64_t cells = (uint64_t)value * shape->delta_head_width, channels = 2ull * key + value;
    b->model->layers[layer] = (struct ork_layer_cost){.state_bytes = 4 * (cells + (shape->delta_length - 1) * channels),
                                                      .state_macs = 4 * cells};
    b->model->vector_bytes += 4 * shape->delta_length * channels;
}

static void add_feed_forward(struct builder *b, uint32_t layer)
{
    const struct ork_shape *shape = b->shape;
    const uint32_t width = shape->width, expert = shape->expert_width, shared = shape->shared_width;
    const bool dense = layer < shape->dense_layers;
    if (!dense)
        add(b, begin(b, ORK_GROUP_ROUTER, layer), "router", ORK_SHAPE_ROUTER, shape->experts, width, false);
    struct ork_group *up = begin(b, dense ? ORK_GROUP_DENSE_UP : ORK_GROUP_EXPERT_UP, layer);
    const enum ork_shape_role role = dense ? ORK_SHAPE_DENSE : ORK_SHAPE_EXPERT;
    const uint32_t inner = dense ? shape->dense_width : expert;
    add(b, up, "gate", role, inner, width, false);
    add(b, up, "up", role, inner, width, false);
    struct ork_group *down = begin(b, dense ? ORK_GROUP_DENSE_DOWN : ORK_GROUP_EXPERT_DOWN, layer);
    add(b, down, "down", role, width, inner, true);
    if (dense || !shared)
        return;
    add(b, up, "shared gate", ORK_SHAPE_SHARED, shared, width, false);
    add(b, up, "shared up", ORK_SHAPE_SHARED, shared, width, false);
    add(b, down, "shared down", ORK_SHAPE_SHARED, width, shared, true);
}

ork_status ork_shape_model(const struct ork_shape *shape, bool nested, struct ork_model_shape *model, ork_error *error)
{
    const size_t groups = (size_t)shape->layers * LAYER_GROUPS + 1;
    *model =
        (struct ork_model_shape){.width = shape->width, .vocabulary = shape->vocabulary, .layer_count = shape->layers};
    snprintf(model->name, sizeof model->name, "%s", shape->name);
    model->groups = calloc(groups, sizeof *model->groups);
    model->layers = calloc(shape->layers, sizeof *model->layers);
    if (!model->groups || !model->layers) {
        ork_model_shape_free(model);
        return ork_error_no_memory(error, shape->name, groups * sizeof *model->groups);
    }
    struct builder b = {.shape = shape, .model = model, .nested = nested, .fits = true};
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        if (shape->mixer[layer] == ORK_SHAPE_ATTENTION)
            add_attention(&b, layer);
        else if (shape->mixer[layer] == ORK_SHAPE_CONVOLUTION)
            add_convolution(&b, layer);
        else
            add_delta(&b, layer);
        add_feed_forward(&b, layer);
        model->vector_bytes += 2ull * 4 * shape->width; /* norms */
    }
    struct ork_group *head = begin(&b, ORK_GROUP_HEAD, shape->layers);
    add(&b, head, "head", ORK_SHAPE_HEAD, shape->vocabulary, shape->width, false);
    model->vector_bytes += 4ull * shape->width;
    model->embedding_bytes = b.fits ? head->members[0].bytes / shape->vocabulary : 0;
    if (b.fits)
        return ORK_OK;
    ork_model_shape_free(model);
    return ork_error_set(error, ORK_LIMIT, shape->name, -1, "a matrix is too large");
}
