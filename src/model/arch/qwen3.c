/* qwen3: pre-norm transformer; every head of q and k is RMS-normalised before its rotation, pairs are the halves of a
 * head, and heads * head_size need not equal the embedding length. */
#include "model/arch/arch.h"

static void load(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    for (uint32_t i = 0; i < hp->layers; i++) {
        ork_load_check(loader, hp->heads_kv[i] > 0, "layer %u has no key heads", i);
        ork_load_attention(loader, i, true);
        ork_load_dense(loader, i);
    }
    ork_load_ends(loader, "output_norm.weight");
}

static bool forward(struct ork_forward *f)
{
    ork_forward_embed(f); /* x[t] = embedding of token t */
    for (uint32_t i = 0; i < f->model->hp.layers; i++) {
        if (!ork_forward_begin_layer(f, i))
            return false;
        ork_forward_attention(f, i, true); /* x += W_o attention(rope(norm(W_q h)), rope(norm(W_k h)), W_v h) */
        ork_forward_dense(f, i);           /* x += W_down (silu(W_gate h) * W_up h) */
    }
    ork_forward_logits(f); /* logits = W_output norm(x) */
    return true;
}

const struct ork_arch ork_arch_qwen3 = {"qwen3", load, forward};
