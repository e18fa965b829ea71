/* Owns the memory of KV caches and convolution states; must not know how tokens map to it. */
#include "model/state.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static uint64_t element_bytes(bool f32)
{
    return f32 ? sizeof(float) : sizeof(uint16_t);
}

uint64_t ork_state_bytes_per_position(const struct ork_model *model, bool keys_f32, bool values_f32)
{
    uint64_t heads = 0;
    for (uint32_t i = 0; i < model->hp.layers; i++)
        heads += model->hp.heads_kv[i];
    return heads * model->hp.head_size * (element_bytes(keys_f32) + element_bytes(values_f32));
}

/* Bytes of one kv head's keys, which come in whole runs of positions, or values. */
static uint64_t head_bytes(const struct ork_state *state, uint32_t positions, bool keys)
{
    uint64_t count = keys ? ork_round_up(positions, ORK_KEY_RUN) : positions;
    return count * state->model->hp.head_size * element_bytes(keys ? state->keys_f32 : state->values_f32);
}

/* Bytes of the keys (or values) of one layer. */
static uint64_t plane_bytes(const struct ork_state *state, uint32_t layer, bool keys)
{
    return ork_round_up(state->model->hp.heads_kv[layer] * head_bytes(state, state->context, keys), 64);
}

ork_status ork_state_create(const struct ork_model *model, uint32_t context, bool keys_f32, bool values_f32,
                            struct ork_state *state, ork_error *error)
{
    const struct ork_hyperparameters *hp = &model->hp;
    *state = (struct ork_state){.model = model, .context = context, .keys_f32 = keys_f32, .values_f32 = values_f32};
    uint64_t conv_floats = hp->conv_taps ? (uint64_t)(hp->conv_taps - 1) * hp->embedding : 0;
    for (uint32_t i = 0; i < hp->layers; i++) {
        state->cache_bytes += plane_bytes(state, i, true) + plane_bytes(state, i, false);
        if (!hp->heads_kv[i])
            state->recurrent_floats += conv_floats;
    }
    state->layers = calloc(hp->layers, sizeof *state->layers);
    state->cache = ork_pages_allocate(state->cache_bytes);
    state->recurrent = calloc(state->recurrent_floats + 1, sizeof *state->recurrent);
    if (!state->layers || !state->cache || !state->recurrent) {
        uint64_t bytes = state->cache_bytes + state->recurrent_floats * sizeof(float);
        ork_state_destroy(state);
        return ork_error_no_memory(error, "session state", bytes);
    }
    uint8_t *cache = state->cache;
    float *recurrent = state->recurrent;
    for (uint32_t i = 0; i < hp->layers; i++) {
        struct ork_layer_state *layer = &state->layers[i];
        if (hp->heads_kv[i]) {
            layer->keys = cache;
            layer->values = cache + plane_bytes(state, i, true);
            cache += plane_bytes(state, i, true) + plane_bytes(state, i, false);
        } else {
            layer->conv = recurrent;
            recurrent += conv_floats;
        }
    }
    return ORK_OK;
}

ork_status ork_state_keep_rows(struct ork_state *state, ork_error *error)
{
    const struct ork_hyperparameters *hp = &state->model->hp;
    uint64_t layer_floats = (uint64_t)(hp->conv_taps + ORK_STATE_ROWS) * hp->embedding, layers = 0;
    if (!state->recurrent_floats)
        return ORK_OK;
    layer_floats -= hp->embedding;
    for (uint32_t i = 0; i < hp->layers; i++)
        layers += !hp->heads_kv[i];
    state->kept_floats = layers * layer_floats;
    state->kept = malloc(state->kept_floats * sizeof *state->kept);
    if (!state->kept)
        return ork_error_no_memory(error, "states of rows", state->kept_floats * sizeof *state->kept);
    float *kept = state->kept;
    for (uint32_t i = 0; i < hp->layers; i++)
        if (!hp->heads_kv[i]) {
            state->layers[i].conv_inputs = kept;
            kept += layer_floats;
        }
    return ORK_OK;
}

bool ork_state_has_kept(const struct ork_state *state, uint32_t position)
{
    return state->kept_rows && position >= state->kept_first && position - state->kept_first <= state->kept_rows;
}

void ork_state_restore_kept(struct ork_state *state, uint32_t position)
{
    const struct ork_hyperparameters *hp = &state->model->hp;
    uint64_t e = hp->embedding;
    state->kept_rows = position - state->kept_first;
    for (uint32_t i = 0; i < hp->layers; i++)
        if (state->layers[i].conv)
            memcpy(state->layers[i].conv, state->layers[i].conv_inputs + state->kept_rows * e,
                   (hp->conv_taps - 1) * e * sizeof(float));
}

void ork_state_destroy(struct ork_state *state)
{
    free(state->kept);
    ork_pages_free(state->cache, state->cache_bytes);
    free(state->layers);
    free(state->recurrent);
    *state = (struct ork_state){0};
}

static void copy_plane(const struct ork_state *to, void *target, const struct ork_state *from, const void *source,
                       uint32_t layer, bool keys, uint32_t count)
{
    uint64_t to_head = head_bytes(to, to->context, keys), from_head = head_bytes(from, from->context, keys);
    for (uint32_t head = 0; head < to->model->hp.heads_kv[layer]; head++)
        memcpy((uint8_t *)target + head * to_head, (const uint8_t *)source + head * from_head,
               head_bytes(from, count, keys));
}

void ork_state_copy_cache(struct ork_state *to, const struct ork_state *from, uint32_t count)
{
    for (uint32_t i = 0; i < to->model->hp.layers; i++) {
        copy_plane(to, to->layers[i].keys, from, from->layers[i].keys, i, true, count);
        copy_plane(to, to->layers[i].values, from, from->layers[i].values, i, false, count);
    }
}
