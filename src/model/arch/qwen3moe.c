/* qwen3moe: attention as in qwen3; every layer is a mixture of experts with a softmax router, whose weights are
 * renormalised over the chosen experts. No shared expert, no selection bias. */
#include "model/arch/arch.h"

static void load(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    ork_load_expert_keys(loader);
    for (uint32_t i = 0; i < hp->layers; i++) {
        ork_load_check(loader, hp->heads_kv[i] > 0, "layer %u has no key heads", i);
        ork_load_attention(loader, i, true);
        ork_load_moe(loader, i, false);
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
        ork_forward_moe(f, i);             /* x += sum over top-k experts of p_e / sum(p) * expert_e(h), p = softmax */
    }
    ork_forward_logits(f); /* logits = W_output norm(x) */
    return true;
}

const struct ork_arch ork_arch_qwen3moe = {"qwen3moe", load, forward};
