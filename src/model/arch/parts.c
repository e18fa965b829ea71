/* Owns the layer parts that the families share, as calls of the engine's op groups; must not know which family calls. */
#include "model/arch/arch.h"

#include "base/error.h"
#include "base/mathematics.h"

#include <string.h>

static const struct ork_arch *const architectures[] = {&ork_arch_llama, &ork_arch_qwen3, &ork_arch_qwen3moe,
                                                       &ork_arch_lfm2, &ork_arch_lfm2moe};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

const struct ork_arch *ork_arch_find(const char *name, size_t length)
{
    for (size_t i = 0; i < ARCHITECTURES; i++)
        if (strlen(architectures[i]->name) == length && memcmp(architectures[i]->name, name, length) == 0)
            return architectures[i];
    return NULL;
}

ork_status ork_arch_read(const ork_meta *meta, const char *where, const struct ork_arch **arch, ork_error *error)
{
    const char *name = NULL;
    uint64_t length = 0;
    char list[128] = "";
    ork_status status = ork_meta_string(meta, "general.architecture", true, &name, &length, error);
    if (status != ORK_OK)
        return status;
    *arch = ork_arch_find(name, length);
    if (*arch)
        return ORK_OK;
    for (size_t i = 0; i < ARCHITECTURES; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, architectures[i]->name, sizeof list - strlen(list) - 1);
    }
    return ork_error_set(error, ORK_UNSUPPORTED, where, -1, "architecture \"%.*s\" is not supported; there are %s",
                         (int)(length < 64 ? length : 64), name, list);
}

bool ork_forward_begin_layer(struct ork_forward *f, uint32_t layer)
{
    ork_cpu_begin_layer(f->cpu, layer, f->x, f->rows);
    if (!f->cancel || !f->cancel(f->cancel_context))
        return true;
    ork_cpu_break_pass(f->cpu);
    return false;
}

/* angle(position, i) = position * scale * base^(-i / pairs) / factor_i, in double. */
static void fill_angles(struct ork_forward *f)
{
    const struct ork_hyperparameters *hp = &f->model->hp;
    double log_base = ork_math_log((double)hp->rope_base);
    for (uint32_t i = 0; i < hp->rope_pairs; i++) {
        double frequency = ork_math_exp(-log_base * (double)i / (double)hp->rope_pairs) * (double)hp->rope_scale;
        if (f->model->rope_factors)
            frequency /= (double)f->model->rope_factors[i];
        for (uint32_t row = 0; row < f->rows; row++) {
            double sine, cosine;
            ork_math_sincos((double)(f->past + row) * frequency, &sine, &cosine);
            f->sine[(uint64_t)row * hp->rope_pairs + i] = (float)sine;
            f->cosine[(uint64_t)row * hp->rope_pairs + i] = (float)cosine;
        }
    }
}

void ork_forward_embed(struct ork_forward *f)
{
    fill_angles(f);
    ork_cpu_embed(f->cpu, &f->model->embedding, f->tokens, f->rows, f->x, f->model->hp.embedding);
}

void ork_forward_attention(struct ork_forward *f, uint32_t i, bool rope_halves)
{
    const struct ork_hyperparameters *hp = &f->model->hp;
    const struct ork_layer *layer = &f->model->layers[i];
    const struct ork_layer_state *state = &f->state->layers[i];
    uint64_t e = hp->embedding, q = layer->q.n, kv = layer->k.n;

    const struct ork_cpu_output projections[] = {{.w = &layer->q, .y = f->q, .y_stride = q, .bias = layer->q_bias},
                                                 {.w = &layer->k, .y = f->k, .y_stride = kv, .bias = layer->k_bias},
                                                 {.w = &layer->v, .y = f->v, .y_stride = kv, .bias = layer->v_bias}};
    ork_cpu_project(f->cpu, f->x, e, f->rows, layer->attention_norm, hp->eps, projections, 3);

    const struct ork_cpu_attention attention = {.q = f->q,
                                                .k = f->k,
                                                .v = f->v,
                                                .q_stride = q,
                                                .kv_stride = kv,
                                                .y = f->mixed,
                                                .y_stride = q,
                                                .q_norm = layer->q_norm,
                                                .k_norm = layer->k_norm,
                                                .eps = hp->eps,
                                                .cosine = f->cosine,
                                                .sine = f->sine,
                                                .pairs = hp->rope_pairs,
                                                .rope_halves = rope_halves,
                                                .heads = hp->heads,
                                                .heads_kv = hp->heads_kv[i],
                                                .head_size = hp->head_size,
                                                .scale = hp->attention_scale,
                                                .keys = state->keys,
                                                .values = state->values,
                                                .keys_f32 = f->state->keys_f32,
                                                .values_f32 = f->state->values_f32,
                                                .context = f->state->context,
                                                .past = f->past};
    ork_cpu_attend(f->cpu, &attention, f->rows);

    const struct ork_cpu_output output = {
        .w = &layer->attention_output, .y = f->x, .y_stride = e, .bias = layer->output_bias, .add = true};
    ork_cpu_project(f->cpu, f->mixed, q, f->rows, NULL, 0.0f, &output, 1);
}

void ork_forward_short_conv(struct ork_forward *f, uint32_t i)
{
    const struct ork_hyperparameters *hp = &f->model->hp;
    const struct ork_layer *layer = &f->model->layers[i];
    uint64_t e = hp->embedding;

    const struct ork_cpu_output input = {.w = &layer->conv_input, .y = f->q, .y_stride = 3 * e}; /* [rows][B | C | X] */
    ork_cpu_project(f->cpu, f->x, e, f->rows, layer->attention_norm, hp->eps, &input, 1);

    const struct ork_cpu_short_conv conv = {.bcx = f->q,
                                            .bcx_stride = 3 * e,
                                            .w = layer->conv,
                                            .n = hp->embedding,
                                            .taps = hp->conv_taps,
                                            .state = f->state->layers[i].conv,
                                            .inputs = f->keep_rows ? f->state->layers[i].conv_inputs : NULL,
                                            .y = f->mixed,
                                            .y_stride = e};
    ork_cpu_convolve(f->cpu, &conv, f->rows);

    const struct ork_cpu_output output = {.w = &layer->conv_output, .y = f->x, .y_stride = e, .add = true};
    ork_cpu_project(f->cpu, f->mixed, e, f->rows, NULL, 0.0f, &output, 1);
}

void ork_forward_dense(struct ork_forward *f, uint32_t i)
{
    const struct ork_layer *layer = &f->model->layers[i];
    const struct ork_cpu_swiglu swiglu = {
        .norm = layer->ffn_norm, .eps = f->model->hp.eps, .gate = &layer->gate, .up = &layer->up, .down = &layer->down};
    ork_cpu_swiglu(f->cpu, &swiglu, f->x, f->model->hp.embedding, f->rows);
}

void ork_forward_moe(struct ork_forward *f, uint32_t i)
{
    const struct ork_hyperparameters *hp = &f->model->hp;
    const struct ork_layer *layer = &f->model->layers[i];
    const struct ork_cpu_moe moe = {.norm = layer->ffn_norm,
                                    .eps = hp->eps,
                                    .router = &layer->router,
                                    .router_bias = layer->router_bias,
                                    .sigmoid = hp->expert_sigmoid,
                                    .normalise = true,
                                    .scale = hp->expert_scale,
                                    .used = hp->experts_used,
                                    .gate = &layer->gate,
                                    .up = &layer->up,
                                    .down = &layer->down};
    ork_cpu_moe(f->cpu, &moe, f->x, hp->embedding, f->rows);
}

void ork_forward_logits(struct ork_forward *f)
{
    const struct ork_hyperparameters *hp = &f->model->hp;
    ork_cpu_begin_layer(f->cpu, hp->layers, f->x, f->rows);
    if (f->logits_from >= f->rows)
        return;
    const struct ork_cpu_output output = {.w = &f->model->output, .y = f->logits, .y_stride = hp->vocabulary};
    ork_cpu_project(f->cpu, f->x + (uint64_t)f->logits_from * hp->embedding, hp->embedding, f->rows - f->logits_from,
                    f->model->output_norm, hp->eps, &output, 1);
}
