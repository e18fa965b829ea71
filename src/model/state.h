/* The state of a timeline: KV caches and convolution states of every layer. Owns their memory and copies of them. */
#ifndef ORK_MODEL_STATE_H
#define ORK_MODEL_STATE_H

#include "model/model.h"
#include "model/tuning.h"

struct ork_layer_state {
    void *keys, *values; /* attention, f16 or f32, in the layouts of struct ork_cpu_attention */
    float *conv;         /* short convolution: [taps - 1][embedding] */
    float *conv_inputs;  /* [taps - 1 + ORK_STATE_ROWS][embedding]: what it saw before and in the batch of kept rows */
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
    float *kept;               /* all conv_inputs; NULL: no rows are kept */
    uint64_t kept_floats;
    uint32_t kept_first, kept_rows; /* the state after kept_first .. kept_first + kept_rows tokens is there; 0 rows: none */
};

/* Bytes of keys and values for one position. */
uint64_t ork_state_bytes_per_position(const struct ork_model *model, bool keys_f32, bool values_f32);
ork_status ork_state_create(const struct ork_model *model, uint32_t context, bool keys_f32, bool values_f32,
                            struct ork_state *state, ork_error *error);
void ork_state_destroy(struct ork_state *state);
/* Makes room for the inputs of ORK_STATE_ROWS rows, where the model has recurrent state. */
ork_status ork_state_keep_rows(struct ork_state *state, ork_error *error);
bool ork_state_has_kept(const struct ork_state *state, uint32_t position);
/* Recurrent state after `position` tokens, which must be kept; what was kept beyond is forgotten. */
void ork_state_restore_kept(struct ork_state *state, uint32_t position);
/* Copies keys and values of positions 0..count-1 between two states of the same shape. */
void ork_state_copy_cache(struct ork_state *to, const struct ork_state *from, uint32_t count);

#endif
