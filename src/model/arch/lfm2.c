/* lfm2 (LFM2 and LFM2.5, dense): most layers mix tokens by a gated short convolution, some by attention with head norms.
 * A layer is a convolution where head_count_kv is 0. The final norm is named token_embd_norm. */
#include "model/arch/arch.h"

static void load(struct ork_loader *loader)
{
    struct ork_hyperparameters *hp = &loader->model->hp;
    hp->conv_taps = ork_load_required_u32(loader, "shortconv.l_cache");
    ork_load_check(loader, hp->conv_taps >= 2 && hp->conv_taps <= ORK_CPU_CONV_TAPS_MAX,
                   "shortconv.l_cache %u is not in 2..%u", hp->conv_taps, ORK_CPU_CONV_TAPS_MAX);
    for (uint32_t i = 0; i < hp->layers; i++) {
        if (hp->heads_kv[i] == 0)
            ork_load_short_conv(loader, i);
        else
            ork_load_attention(loader, i, true);
        ork_load_dense(loader, i);
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
        ork_forward_dense(f, i); /* x += W_down (silu(W_gate h) * W_up h) */
    }
    ork_forward_logits(f); /* logits = W_output norm(x) */
    return true;
}

const struct ork_arch ork_arch_lfm2 = {"lfm2", load, forward};
