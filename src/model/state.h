/* The state of a timeline: KV caches and convolution states of every layer. Owns their memory and copies of them. */
#ifndef ORK_MODEL_STATE_H
#define ORK_MODEL_STATE_H

#include "model/model.h"

struct ork_layer_state {
    void *keys, *values; /* attention, f16 or f32, in the layouts of struct ork_cpu_attention */
    float *conv;         /* short convolution: [taps - 1][embedding] */
};

struct ork_state {
    const struct ork_model *model;
    uint32_t context;
    bool keys_f32, values_f32;
    struct ork_layer_state *layers;
    uint8_t *cache;            /* all keys and values */
    uint64_t cache_bytes;
    float *recurrent;          /* all convolution states, contiguous */
    uint64_t recurrent_floats; /* 0: the model has none and a prefix may simply be cut */
};

/* Bytes of keys and values for one position. */
uint64_t ork_state_bytes_per_position(const struct ork_model *model, bool keys_f32, bool values_f32);
ork_status ork_state_create(const struct ork_model *model, uint32_t context, bool keys_f32, bool values_f32,
                            struct ork_state *state, ork_error *error);
void ork_state_destroy(struct ork_state *state);
/* Copies keys and values of positions 0..count-1 between two states of the same shape. */
void ork_state_copy_cache(struct ork_state *to, const struct ork_state *from, uint32_t count);

#endif
