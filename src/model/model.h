/* Inside of the room model: what a loaded model and its layers are. Owns no arithmetic.
 *
 * A model is immutable once opened. Matrices and vectors are views into the pack, or, where a tensor was packed in
 * another tier than the reader needs, decoded copies in the model's arena. */
#ifndef ORK_MODEL_MODEL_H
#define ORK_MODEL_MODEL_H

#include "base/arena.h"
#include "engine/cpu/cpu.h"
#include "format/orkpack.h"
#include "text/tokenizer.h"

#define ORK_MODEL_LAYERS_MAX 512u /* as in llama.cpp */

struct ork_arch;

/* Hyperparameters common to the architectures; see facts on GGUF, section 3. */
struct ork_hyperparameters {
    uint32_t layers, embedding, context, vocabulary;
    uint32_t heads;
    uint32_t heads_kv[ORK_MODEL_LAYERS_MAX]; /* 0: the layer is a short convolution */
    uint32_t hidden[ORK_MODEL_LAYERS_MAX];   /* dense feed-forward width */
    uint32_t head_size;
    float eps;
    float rope_base, rope_scale;  /* angle = position * rope_scale * base^(-2i/n) / factor_i */
    uint32_t rope_pairs;
    float attention_scale;
    uint32_t conv_taps;
    uint32_t experts, experts_used, expert_hidden, dense_layers; /* the first dense_layers have no experts */
    bool expert_sigmoid;
    float expert_scale;
};

struct ork_layer {
    const float *attention_norm; /* [embedding], before attention or convolution */
    struct ork_matrix q, k, v, attention_output;
    const float *q_bias, *k_bias, *v_bias, *output_bias; /* NULL: none */
    const float *q_norm, *k_norm;                        /* [head_size] or NULL */
    struct ork_matrix conv_input;                        /* 3*embedding x embedding */
    const float *conv;                                   /* [taps][embedding] */
    struct ork_matrix conv_output;
    const float *ffn_norm;                               /* [embedding] */
    struct ork_matrix gate, up, down;                    /* dense layer, or stacks of experts */
    struct ork_matrix router;
    const float *router_bias;
    bool is_moe;
};

struct ork_model {
    ork_orkpack *pack;
    ork_card *card;
    ork_tokenizer *tokenizer;
    struct ork_arena arena;
    const struct ork_arch *arch;
    struct ork_hyperparameters hp;
    struct ork_layer *layers;
    struct ork_matrix embedding, output; /* vocabulary x embedding; output is the embedding when tied */
    const float *output_norm;
    const float *rope_factors; /* [rope_pairs] or NULL */
    const char *warnings[4];   /* for the user, see ork_model_warning */
    size_t warning_count;
    bool base_alone; /* of n8 tensors the matrices are their bases */
};

#endif
