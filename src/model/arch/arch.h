/* Architectures: one file each, which reads its tensors and runs its forward pass on the engine's op groups. An
 * architecture knows the order of operations and the shapes; it knows no files beyond tensor names, no threads, no
 * sampling. */
#ifndef ORK_MODEL_ARCH_ARCH_H
#define ORK_MODEL_ARCH_ARCH_H

#include "model/loader.h"
#include "model/state.h"

/* One call of the forward pass: `rows` tokens of one session at positions past .. past+rows-1. */
struct ork_forward {
    const struct ork_model *model;
    ork_cpu *cpu;
    struct ork_state *state;
    const ork_token *tokens; /* [rows] */
    uint32_t rows, past;
    bool keep_rows;          /* at most ORK_STATE_ROWS rows, after each of which the state shall be restorable */
    float *x;                /* [rows][embedding], the residual stream */
    float *q, *k, *v, *mixed; /* [rows][...], see state.h for the widths */
    float *cosine, *sine;    /* [rows][rope_pairs] */
    uint32_t logits_from;    /* first row that needs logits; rows: none */
    float *logits;           /* [rows - logits_from][vocabulary] */
    bool (*cancel)(void *context);
    void *cancel_context;
};

struct ork_arch {
    const char *name;
    void (*load)(struct ork_loader *loader);
    /* False when cancelled; the state is then between two positions. */
    bool (*forward)(struct ork_forward *f);
};

/* NULL when it is not supported. */
const struct ork_arch *ork_arch_find(const char *name, size_t length);
/* The architecture that general.architecture names, or a refusal that lists what is supported. */
ork_status ork_arch_read(const ork_meta *meta, const char *where, const struct ork_arch **arch, ork_error *error);

extern const struct ork_arch ork_arch_llama, ork_arch_qwen3, ork_arch_qwen3moe, ork_arch_lfm2, ork_arch_lfm2moe;

/* ---- parts that the families share; each reads and writes the residual stream f->x ---- */

/* x[row] = embedding of its token; fills the rotation angles of the rows. */
void ork_forward_embed(struct ork_forward *f);
/* x += W_o attention(W_qkv rms_norm(x)) */
void ork_forward_attention(struct ork_forward *f, uint32_t layer, bool rope_halves);
/* x += W_out (C * conv(B * X)), [B | C | X] = W_in rms_norm(x) */
void ork_forward_short_conv(struct ork_forward *f, uint32_t layer);
/* x += W_down (silu(W_gate h) * (W_up h)), h = rms_norm(x) */
void ork_forward_dense(struct ork_forward *f, uint32_t layer);
/* x += sum of the chosen experts, see ork_cpu_moe */
void ork_forward_moe(struct ork_forward *f, uint32_t layer);
/* logits = W_output rms_norm(x) for the rows that need them */
void ork_forward_logits(struct ork_forward *f);
/* Before a layer's parts: what came late for earlier layers is added to the stream. False: cancelled. */
bool ork_forward_begin_layer(struct ork_forward *f, uint32_t layer);

#endif
