/* lfm2moe (LFM2-8B-A1B, LFM2.5-8B-A1B): token mixing as in lfm2; after the first dense layers every feed-forward layer is a
 * mixture of experts with a sigmoid router. A bias per expert takes part in the choice, never in the weights. */
#include "model/arch/arch.h"

enum { GATING_SIGMOID = 2 };

static void load(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    hp->conv_taps = ork_load_required_u32(loader, "shortconv.l_cache");
    ork_load_check(loader, hp->conv_taps >= 2 && hp->conv_taps <= ORK_CPU_CONV_TAPS_MAX,
                   "shortconv.l_cache %u is not in 2..%u", hp->conv_taps, ORK_CPU_CONV_TAPS_MAX);
    ork_load_expert_keys(loader);
    hp->dense_layers = ork_load_u32(loader, "leading_dense_block_count", 0);
    ork_load_check(loader, hp->dense_layers <= hp->layers, "leading_dense_block_count %u is above block_count %u",
                   hp->dense_layers, hp->layers);
    uint32_t gating = ork_load_required_u32(loader, "expert_gating_func");
    ork_load_check(loader, gating == GATING_SIGMOID, "expert_gating_func %u is not sigmoid (2)", gating);
    hp->expert_sigmoid = true;
    for (uint32_t i = 0; i < hp->layers; i++) {
        if (hp->heads_kv[i] == 0)
            ork_load_short_conv(loader, i);
        else
            ork_load_attention(loader, i, true);
        if (i < hp->dense_layers)
            ork_load_dense(loader, i);
        else
            ork_load_moe(loader, i, true);
    }
    ork_load_ends(loader, "token_embd_norm.weight");
}

static bool forward(struct ork_forward *f)
{
    ork_forward_embed(f); /* x[t] = embedding of token t; no norm and no scaling here */
    for (uint32_t i = 0; i < f->model->hp.layers; i++) {
        if (!ork_forward_begin_layer(f, i))
            return false;
        if (f->model->hp.heads_kv[i] == 0)
            ork_forward_short_conv(f, i); /* x += W_out (C * conv(B * X)), [B | C | X] = W_in norm(x) */
        else
            ork_forward_attention(f, i, true); /* x += W_o attention(rope(norm(W_q h)), rope(norm(W_k h)), W_v h) */
        if (i < f->model->hp.dense_layers)
            ork_forward_dense(f, i); /* x += W_down (silu(W_gate h) * W_up h) */
        else
            ork_forward_moe(f, i); /* x += sum of p_e / sum(p) * expert_e(h) over the top-k of p + bias, p = sigmoid */
    }
    ork_forward_logits(f); /* logits = W_output norm(x) */
    return true;
}

const struct ork_arch ork_arch_lfm2moe = {"lfm2moe", load, forward};
