/* Owns how groups of one row take part in an overlay: handing over a group's input, replacing results that came in time, late
 * corrections. Must not know what the results mean, nor which engine they come from. */
#include "engine/cpu/engine.h"

void ork_cpu_set_overlay(ork_cpu *cpu, const struct ork_overlay *overlay)
{
    cpu->overlay = overlay;
}

struct ork_cpu_chain ork_cpu_chain_find(const ork_cpu *cpu, const struct ork_matrix *w, uint32_t rows)
{
    struct ork_cpu_chain chain = {0};
    if (cpu->overlay && rows == 1)
        chain.part = cpu->overlay->find(cpu->overlay->context, w);
    chain.replaces = chain.part && !cpu->overlay->late;
    return chain;
}

void ork_cpu_chain_begin(ork_cpu *cpu, struct ork_cpu_chain *chain, const struct ork_activation *x)
{
    if (!chain->part)
        return;
    if (!cpu->overlay->is_free(cpu->overlay->context, chain->part->chain)) {
        x = NULL;
    } else if (x->block != x->k_padded) {
        /* The CPU's codes have a scale for each block, a chain's one for the row. */
        struct ork_activation *whole = &cpu->whole;
        whole->rows = 1;
        whole->k = x->k;
        whole->k_padded = x->k_padded;
        whole->f32 = x->f32;
        whole->f32_stride = x->f32_stride;
        ork_cpu_use_whole_rows(whole);
        cpu->kernels->vector.quantize(whole, 0);
        x = whole;
    }
    chain->begun = cpu->overlay->begin(cpu->overlay->context, chain->part->chain, x);
}

const float *ork_cpu_chain_poll(const ork_cpu *cpu, const struct ork_cpu_chain *chain)
{
    return chain->begun && chain->replaces ? cpu->overlay->poll(cpu->overlay->context, chain->part->chain) : NULL;
}

void ork_cpu_chain_done(const ork_cpu *cpu, const struct ork_cpu_chain *chain)
{
    cpu->overlay->done(cpu->overlay->context, chain->part->chain);
}

void ork_cpu_chain_replace(const ork_cpu *cpu, const struct ork_cpu_chain *chain, const float *results,
                           const struct ork_matrix *w, const float *bias, float *y)
{
    const struct ork_overlay_part *part = results ? cpu->overlay->find(cpu->overlay->context, w) : NULL;
    if (!part || part->chain != chain->part->chain)
        return;
    results += part->first;
    for (uint32_t i = 0; i < part->count; i++)
        y[part->channels[i]] = bias ? results[i] + bias[part->channels[i]] : results[i];
}

void ork_cpu_chain_keep(const ork_cpu *cpu, const struct ork_cpu_chain *chain, const struct ork_matrix *w,
                        const float *own)
{
    if (chain->begun && !chain->replaces && cpu->overlay->find(cpu->overlay->context, w) == chain->part)
        cpu->overlay->keep(cpu->overlay->context, chain->part->chain, own);
}

void ork_cpu_begin_layer(ork_cpu *cpu, uint32_t layer, float *x, uint32_t rows)
{
    struct ork_overlay_correction correction;
    if (!cpu->overlay || !cpu->overlay->late || rows != 1)
        return;
    while (cpu->overlay->next_correction(cpu->overlay->context, layer, &correction))
        for (uint32_t i = 0; i < correction.part->count; i++)
            x[correction.part->channels[i]] += correction.result[i] - correction.own[i];
}

void ork_cpu_break_pass(ork_cpu *cpu)
{
    if (cpu->overlay)
        cpu->overlay->forget(cpu->overlay->context);
}
