/* Owns the step from a model's layers to op groups. Must not know architectures beyond struct ork_layer. */
#include "model/groups.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_GROUPS = 5, LAYER_MATRICES = 10 };

/* A matrix of a group: its tensor in the pack has bytes of its own, such as tables and padding between experts. */
struct listed {
    const char *name;
    uint64_t bytes; /* that one token reads, counted in a group */
};

struct builder {
    const struct ork_model *model;
    struct ork_model_shape *shape;
    struct listed *listed;
    size_t listed_count;
    bool fits;
};

static struct ork_group *begin(struct builder *b, enum ork_group_kind kind, uint32_t layer)
{
    struct ork_group *group = &b->shape->groups[b->shape->group_count++];
    *group = (struct ork_group){.kind = kind, .layer = layer};
    return group;
}

const struct ork_matrix *ork_model_group_matrix(const struct ork_model *model, const struct ork_group *group,
                                                uint32_t member)
{
    const struct ork_layer *layer = group->layer < model->hp.layers ? &model->layers[group->layer] : NULL;
    const struct ork_matrix *members[3] = {0};
    if (!layer && group->kind != ORK_GROUP_HEAD)
        return NULL;
    switch (group->kind) {
    case ORK_GROUP_ATTENTION_IN:
        members[0] = &layer->q;
        members[1] = &layer->k;
        members[2] = &layer->v;
        break;
    case ORK_GROUP_ATTENTION_OUT:
        members[0] = &layer->attention_output;
        break;
    case ORK_GROUP_CONVOLUTION_IN:
        members[0] = &layer->conv_input;
        break;
    case ORK_GROUP_CONVOLUTION_OUT:
        members[0] = &layer->conv_output;
        break;
    case ORK_GROUP_ROUTER:
        members[0] = &layer->router;
        break;
    case ORK_GROUP_DENSE_UP:
    case ORK_GROUP_EXPERT_UP:
        members[0] = &layer->gate;
        members[1] = &layer->up;
        break;
    case ORK_GROUP_DENSE_DOWN:
    case ORK_GROUP_EXPERT_DOWN:
        members[0] = &layer->down;
        break;
    case ORK_GROUP_HEAD:
        members[0] = &model->output;
        break;
    case ORK_GROUP_DELTA_IN:
    case ORK_GROUP_DELTA_OUT:
    case ORK_GROUP_KIND_COUNT:
        break;
    }
    return member < 3 ? members[member] : NULL;
}

/* The next member of a group. */
static void add(struct builder *b, struct ork_group *group, const char *name, bool residual)
{
    const struct ork_matrix *matrix = ork_model_group_matrix(b->model, group, group->member_count);
    const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_find(b->model->pack, matrix->name);
    const bool stack = matrix->experts > 1;
    /* Of a nested tensor the matrix may be the base alone. */
    const enum ork_tier tier = tensor && tensor->tier == ORK_TIER_N8 ? ORK_TIER_N8 : matrix->tier;
    b->fits = b->fits && ork_group_add(group, name, tier, matrix->n, matrix->k, stack ? matrix->experts : 0,
                                       b->model->hp.experts_used, tensor ? tensor->sensitivity : 0, residual);
    if (!b->fits)
        return;
    const struct ork_group_member *member = &group->members[group->member_count - 1];
    b->listed[b->listed_count++] = (struct listed){matrix->name, member->bytes * member->experts_used};
}

static void add_mixer(struct builder *b, const struct ork_layer *layer, uint32_t i)
{
    if (layer->q.data) {
        struct ork_group *in = begin(b, ORK_GROUP_ATTENTION_IN, i);
        add(b, in, "q", false);
        add(b, in, "k", false);
        add(b, in, "v", false);
        add(b, begin(b, ORK_GROUP_ATTENTION_OUT, i), "output", true);
    } else {
        add(b, begin(b, ORK_GROUP_CONVOLUTION_IN, i), "input", false);
        add(b, begin(b, ORK_GROUP_CONVOLUTION_OUT, i), "output", true);
    }
}

static void add_feed_forward(struct builder *b, const struct ork_layer *layer, uint32_t i)
{
    if (layer->is_moe)
        add(b, begin(b, ORK_GROUP_ROUTER, i), "router", false);
    struct ork_group *up = begin(b, layer->is_moe ? ORK_GROUP_EXPERT_UP : ORK_GROUP_DENSE_UP, i);
    add(b, up, "gate", false);
    add(b, up, "up", false);
    add(b, begin(b, layer->is_moe ? ORK_GROUP_EXPERT_DOWN : ORK_GROUP_DENSE_DOWN, i), "down", true);
}

static uint64_t listed_bytes(const struct builder *b, const char *name)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < b->listed_count; i++)
        if (strcmp(b->listed[i].name, name) == 0)
            bytes += b->listed[i].bytes;
    return bytes;
}

/* Everything of the pack that a token reads and no group has, as ork_card counts it. */
static void add_rest(struct builder *b)
{
    const struct ork_model *model = b->model;
    const bool tied = !ork_orkpack_tensor_find(model->pack, "output.weight");
    for (size_t i = 0; i < ork_orkpack_tensor_count(model->pack); i++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(model->pack, i);
        if (!ork_tensor_is_in_main_pass(tensor->name, model->hp.layers))
            continue;
        uint64_t bytes = 0;
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
            bytes += tensor->planes[kind].size_bytes;
        if (strstr(tensor->name, "_exps.") && model->hp.experts > model->hp.experts_used)
            bytes = bytes / model->hp.experts * model->hp.experts_used +
                    bytes % model->hp.experts * model->hp.experts_used / model->hp.experts;
        if (!tied && strcmp(tensor->name, "token_embd.weight") == 0) {
            b->shape->embedding_bytes += ork_divide_up(bytes, tensor->dimensions[1]);
            continue;
        }
        const uint64_t counted = listed_bytes(b, tensor->name);
        b->shape->vector_bytes += bytes > counted ? bytes - counted : 0;
    }
}

ork_status ork_model_get_shape(const struct ork_model *model, struct ork_model_shape *shape, ork_error *error)
{
    const struct ork_hyperparameters *hp = &model->hp;
    const size_t groups = (size_t)hp->layers * LAYER_GROUPS + 1, matrices = (size_t)hp->layers * LAYER_MATRICES + 1;
    *shape = (struct ork_model_shape){.width = hp->embedding, .vocabulary = hp->vocabulary, .layer_count = hp->layers};
    snprintf(shape->name, sizeof shape->name, "%.63s", ork_card_get_summary(model->card)->name);
    struct builder b = {.model = model, .shape = shape, .fits = true};
    shape->groups = calloc(groups, sizeof *shape->groups);
    shape->layers = calloc(hp->layers, sizeof *shape->layers);
    b.listed = calloc(matrices, sizeof *b.listed);
    ork_status status = ORK_OK;
    if (!shape->groups || !shape->layers || !b.listed) {
        status = ork_error_no_memory(error, "op groups", groups * sizeof *shape->groups);
        goto out;
    }
    for (uint32_t i = 0; i < hp->layers; i++) {
        add_mixer(&b, &model->layers[i], i);
        add_feed_forward(&b, &model->layers[i], i);
        struct ork_layer_cost *cost = &shape->layers[i];
        if (hp->heads_kv[i])
            *cost = (struct ork_layer_cost){.kv_bytes = 2ull * hp->heads_kv[i] * hp->head_size * 2,
                                            .kv_macs = 2ull * hp->heads * hp->head_size};
        else
            *cost =
                (struct ork_layer_cost){.state_bytes = (uint64_t)(hp->conv_taps - 1) * hp->embedding * sizeof(float),
                                        .state_macs = (uint64_t)hp->conv_taps * hp->embedding};
    }
    add(&b, begin(&b, ORK_GROUP_HEAD, hp->layers), "head", false);
    if (!b.fits)
        status = ork_error_set(error, ORK_LIMIT, ork_orkpack_path(model->pack), -1, "a matrix is too large");
    else
        add_rest(&b);
out:
    free(b.listed);
    if (status != ORK_OK)
        ork_model_shape_free(shape);
    return status;
}
