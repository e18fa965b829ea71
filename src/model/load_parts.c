/* Owns the hyperparameters and tensor groups that several architectures share; names and meanings: facts on GGUF 3.0. */
#include "model/loader.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 1 << 20, HEADS_MAX = 4096, HEAD_SIZE_MAX = 4096 };

static void load_rope_scaling(struct ork_loader *loader)
{
    char key[128];
    const char *type = "none";
    uint64_t length = strlen(type);
    if (loader->status != ORK_OK)
        return;
    snprintf(key, sizeof key, "%s.rope.scaling.type", loader->architecture);
    loader->status = ork_meta_string(loader->meta, key, false, &type, &length, loader->error);
    bool linear = length == 6 && memcmp(type, "linear", 6) == 0, none = length == 4 && memcmp(type, "none", 4) == 0;
    if (loader->status == ORK_OK && !linear && !none)
        loader->status =
            ork_error_set(loader->error, ORK_UNSUPPORTED, key, -1,
                          "RoPE scaling '%.*s' is not supported; none and linear are", (int)(length & 63), type);
    float factor = linear ? ork_load_f32(loader, "rope.scaling.factor", 1.0f) : 1.0f;
    ork_load_check(loader, factor > 0.0f, "rope.scaling.factor must be positive");
    loader->model->hp.rope_scale = 1.0f / factor;
}

void ork_load_common(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    hp->layers = ork_load_required_u32(loader, "block_count");
    ork_load_check(loader, hp->layers >= 1 && hp->layers <= ORK_MODEL_LAYERS_MAX, "block_count %u is not in 1..%u",
                   hp->layers, ORK_MODEL_LAYERS_MAX);
    hp->embedding = ork_load_required_u32(loader, "embedding_length");
    ork_load_check(loader, hp->embedding >= 1 && hp->embedding <= WIDTH_MAX, "embedding_length %u is not in 1..%u",
                   hp->embedding, WIDTH_MAX);
    hp->context = ork_load_required_u32(loader, "context_length");
    ork_load_check(loader, hp->context >= 1 && hp->context <= INT32_MAX, "context_length %u is not in 1..2^31-1",
                   hp->context);
    hp->heads = ork_load_required_u32(loader, "attention.head_count");
    ork_load_check(loader, hp->heads >= 1 && hp->heads <= HEADS_MAX, "head_count %u is not in 1..%u", hp->heads,
                   HEADS_MAX);
    hp->eps = ork_load_required_f32(loader, "attention.layer_norm_rms_epsilon");
    ork_load_check(loader, hp->eps >= 0.0f && hp->eps < 1.0f, "layer_norm_rms_epsilon is not in [0, 1)");
    if (loader->status != ORK_OK)
        return;
    hp->head_size = ork_load_u32(loader, "attention.key_length", hp->embedding / hp->heads);
    uint32_t value_size = ork_load_u32(loader, "attention.value_length", hp->head_size);
    ork_load_check(loader, hp->head_size >= 1 && hp->head_size <= HEAD_SIZE_MAX && value_size == hp->head_size,
                   "key_length %u and value_length %u must be equal and in 1..%u", hp->head_size, value_size,
                   HEAD_SIZE_MAX);
    ork_load_u32_layers(loader, "attention.head_count_kv", false, hp->heads, hp->heads_kv);
    ork_load_u32_layers(loader, "feed_forward_length", false, 0, hp->hidden);
    for (uint32_t i = 0; i < hp->layers; i++) {
        ork_load_check(loader,
                       hp->heads_kv[i] == 0 || (hp->heads_kv[i] <= hp->heads && hp->heads % hp->heads_kv[i] == 0),
                       "layer %u: %u query heads do not divide into %u key heads", i, hp->heads, hp->heads_kv[i]);
        ork_load_check(loader, hp->hidden[i] <= WIDTH_MAX, "layer %u: feed_forward_length %u is above %u", i,
                       hp->hidden[i], WIDTH_MAX);
    }
    uint32_t rotated = ork_load_u32(loader, "rope.dimension_count", hp->head_size);
    ork_load_check(loader, rotated % 2 == 0 && rotated <= hp->head_size,
                   "rope.dimension_count %u is odd or above the head size %u", rotated, hp->head_size);
    hp->rope_pairs = rotated / 2;
    hp->rope_base = ork_load_f32(loader, "rope.freq_base", 10000.0f);
    ork_load_check(loader, hp->rope_base > 0.0f && hp->rope_base < 1e30f, "rope.freq_base must be positive");
    load_rope_scaling(loader);
    /* 1/sqrt by the correctly rounded operations, not by libm. */
    float scale = 1.0f / __builtin_sqrtf((float)hp->head_size);
    hp->attention_scale = ork_load_f32(loader, "attention.scale", scale);
}

void ork_load_expert_keys(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    hp->experts = ork_load_required_u32(loader, "expert_count");
    hp->experts_used = ork_load_required_u32(loader, "expert_used_count");
    hp->expert_hidden = ork_load_required_u32(loader, "expert_feed_forward_length");
    hp->expert_scale = ork_load_f32(loader, "expert_weights_scale", 1.0f);
    if (hp->expert_scale == 0.0f) /* written by some converters for "none" */
        hp->expert_scale = 1.0f;
    ork_load_check(loader, hp->experts >= 1 && hp->experts <= ORK_CPU_EXPERTS_MAX, "expert_count %u is not in 1..%u",
                   hp->experts, ORK_CPU_EXPERTS_MAX);
    ork_load_check(loader, hp->experts_used >= 1 && hp->experts_used <= hp->experts,
                   "expert_used_count %u is not in 1..%u", hp->experts_used, hp->experts);
    ork_load_check(loader, hp->expert_hidden >= 1 && hp->expert_hidden <= WIDTH_MAX,
                   "expert_feed_forward_length %u is not in 1..%u", hp->expert_hidden, WIDTH_MAX);
}

void ork_load_ends(struct ork_loader *loader, const char *output_norm_name)
{
    struct ork_model *model = loader->model;
    const struct ork_hyperparameters *hp = &model->hp;
    model->embedding = ork_load_matrix(loader, hp->vocabulary, hp->embedding, "token_embd.weight");
    model->output = ork_load_has(loader, "output.weight")
                        ? ork_load_matrix(loader, hp->vocabulary, hp->embedding, "output.weight")
                        : model->embedding;
    model->output_norm = ork_load_floats(loader, 1, hp->embedding, "%s", output_norm_name);
    model->rope_factors = ork_load_optional_vector(loader, hp->rope_pairs, "rope_freqs.weight");
    for (uint32_t i = 0; model->rope_factors && i < hp->rope_pairs; i++)
        ork_load_check(loader, model->rope_factors[i] > 0.0f, "rope_freqs.weight holds a factor that is not positive");
}

void ork_load_attention(struct ork_loader *loader, uint32_t i, bool head_norms)
{
    const struct ork_hyperparameters *hp = &loader->model->hp;
    struct ork_layer *layer = &loader->model->layers[i];
    uint32_t e = hp->embedding, q = hp->heads * hp->head_size, kv = hp->heads_kv[i] * hp->head_size;
    layer->attention_norm = ork_load_floats(loader, 1, e, "blk.%u.attn_norm.weight", i);
    layer->q = ork_load_matrix(loader, q, e, "blk.%u.attn_q.weight", i);
    layer->k = ork_load_matrix(loader, kv, e, "blk.%u.attn_k.weight", i);
    layer->v = ork_load_matrix(loader, kv, e, "blk.%u.attn_v.weight", i);
    layer->attention_output = ork_load_matrix(loader, e, q, "blk.%u.attn_output.weight", i);
    layer->q_bias = ork_load_optional_vector(loader, q, "blk.%u.attn_q.bias", i);
    layer->k_bias = ork_load_optional_vector(loader, kv, "blk.%u.attn_k.bias", i);
    layer->v_bias = ork_load_optional_vector(loader, kv, "blk.%u.attn_v.bias", i);
    layer->output_bias = ork_load_optional_vector(loader, e, "blk.%u.attn_output.bias", i);
    if (head_norms) {
        layer->q_norm = ork_load_floats(loader, 1, hp->head_size, "blk.%u.attn_q_norm.weight", i);
        layer->k_norm = ork_load_floats(loader, 1, hp->head_size, "blk.%u.attn_k_norm.weight", i);
    }
}

/* The file has the taps of a channel side by side; the engine wants the channels of a tap so. */
static const float *load_taps(struct ork_loader *loader, uint32_t n, uint32_t taps, uint32_t i)
{
    const float *rows = ork_load_floats(loader, n, taps, "blk.%u.shortconv.conv.weight", i);
    if (!rows)
        return NULL;
    float *columns = ork_arena_array(&loader->model->arena, (uint64_t)n * taps, sizeof *columns);
    if (!columns) {
        loader->status = ork_error_no_memory(loader->error, "convolution", (uint64_t)n * taps * sizeof *columns);
        return NULL;
    }
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t tap = 0; tap < taps; tap++)
            columns[(uint64_t)tap * n + c] = rows[(uint64_t)c * taps + tap];
    return columns;
}

void ork_load_short_conv(struct ork_loader *loader, uint32_t i)
{
    const struct ork_hyperparameters *hp = &loader->model->hp;
    struct ork_layer *layer = &loader->model->layers[i];
    uint32_t e = hp->embedding;
    layer->attention_norm = ork_load_floats(loader, 1, e, "blk.%u.attn_norm.weight", i);
    layer->conv_input = ork_load_matrix(loader, 3 * e, e, "blk.%u.shortconv.in_proj.weight", i);
    layer->conv = load_taps(loader, e, hp->conv_taps, i);
    layer->conv_output = ork_load_matrix(loader, e, e, "blk.%u.shortconv.out_proj.weight", i);
}

void ork_load_dense(struct ork_loader *loader, uint32_t i)
{
    const struct ork_hyperparameters *hp = &loader->model->hp;
    struct ork_layer *layer = &loader->model->layers[i];
    uint32_t e = hp->embedding, f = hp->hidden[i];
    ork_load_check(loader, f >= 1, "layer %u is dense, but feed_forward_length is missing or 0", i);
    layer->ffn_norm = ork_load_floats(loader, 1, e, "blk.%u.ffn_norm.weight", i);
    layer->gate = ork_load_matrix(loader, f, e, "blk.%u.ffn_gate.weight", i);
    layer->up = ork_load_matrix(loader, f, e, "blk.%u.ffn_up.weight", i);
    layer->down = ork_load_matrix(loader, e, f, "blk.%u.ffn_down.weight", i);
}

void ork_load_moe(struct ork_loader *loader, uint32_t i, bool selection_bias)
{
    const struct ork_hyperparameters *hp = &loader->model->hp;
    struct ork_layer *layer = &loader->model->layers[i];
    uint32_t e = hp->embedding, f = hp->expert_hidden, experts = hp->experts;
    layer->is_moe = true;
    layer->ffn_norm = ork_load_floats(loader, 1, e, "blk.%u.ffn_norm.weight", i);
    layer->router = ork_load_matrix(loader, experts, e, "blk.%u.ffn_gate_inp.weight", i);
    if (selection_bias)
        layer->router_bias = ork_load_floats(loader, 1, experts, "blk.%u.exp_probs_b.bias", i);
    layer->gate = ork_load_experts(loader, f, e, experts, "blk.%u.ffn_gate_exps.weight", i);
    layer->up = ork_load_experts(loader, f, e, experts, "blk.%u.ffn_up_exps.weight", i);
    layer->down = ork_load_experts(loader, e, f, experts, "blk.%u.ffn_down_exps.weight", i);
}
