/* llama: pre-norm transformer, rotation of adjacent pairs (the converter permuted the rows of q and k for it).
 * SmolLM2, Llama 2 and 3, and what else carries the name. */
#include "model/arch/arch.h"

static void load(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    ork_load_check(loader, ork_load_u32(loader, "expert_count", 0) == 0, "llama with experts is not supported");
    for (uint32_t i = 0; i < hp->layers; i++) {
        ork_load_check(loader, hp->heads_kv[i] > 0, "layer %u has no key heads", i);
        ork_load_attention(loader, i, false);
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
        ork_forward_attention(f, i, false); /* x += W_o attention(rope(W_q h), rope(W_k h), W_v h), h = norm(x) */
        ork_forward_dense(f, i);            /* x += W_down (silu(W_gate h) * W_up h),               h = norm(x) */
    }
    ork_forward_logits(f); /* logits = W_output norm(x) */
    return true;
}

const struct ork_arch ork_arch_llama = {"llama", load, forward};
