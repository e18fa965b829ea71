/* Owns the step from a model's layers to the list of weights that an NPU may take. Must not know shapes or architectures
 * beyond struct ork_layer. */
#include "model/npu.h"

#include "base/error.h"
#include "engine/npu/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYER_MATRICES = 9 };

/* Matrices in bricks; others, and those that a layer does not have, stay on the CPU. */
static size_t add_weight(struct ork_npu_weight *weights, size_t count, const struct ork_matrix *matrix, uint32_t layer)
{
    const struct ork_tier_info *tier = matrix->data ? ork_tier_find(matrix->tier) : NULL;
    if (!tier || !tier->brick_bytes)
        return count;
    weights[count] = (struct ork_npu_weight){.matrix = matrix, .layer = layer};
    return count + 1;
}

/* All matmul weights in the order in which a pass needs them; the output head is a layer of its own. */
static size_t list_weights(const struct ork_model *model, struct ork_npu_weight *weights)
{
    size_t count = 0;
    for (uint32_t i = 0; i < model->hp.layers; i++) {
        const struct ork_layer *layer = &model->layers[i];
        const struct ork_matrix *const matrices[LAYER_MATRICES] = {
            &layer->q,    &layer->k,  &layer->v,   &layer->attention_output, &layer->conv_input, &layer->conv_output,
            &layer->gate, &layer->up, &layer->down};
        for (int j = 0; j < LAYER_MATRICES; j++)
            count = add_weight(weights, count, matrices[j], i);
    }
    return add_weight(weights, count, &model->output, model->hp.layers);
}

ork_status ork_model_use_npu(const struct ork_model *model, ork_npu *npu, ork_cpu *cpu, bool *attached, char *why,
                             size_t capacity, ork_error *error)
{
    ork_error local, *told = error ? error : &local;
    struct ork_npu_weight *weights = calloc(model->hp.layers * (size_t)LAYER_MATRICES + 1, sizeof *weights);
    if (!weights)
        return ork_error_no_memory(error, "NPU weights", model->hp.layers * LAYER_MATRICES * sizeof *weights);
    size_t count = list_weights(model, weights);
    ork_status status = ork_npu_attach(npu, model, weights, count, told);
    free(weights);
    *attached = status == ORK_OK;
    if (*attached)
        ork_cpu_set_offload(cpu, ork_npu_offload(npu));
    else
        snprintf(why, capacity, "%s", told->what);
    return status == ORK_LIMIT ? status : ORK_OK;
}

void ork_model_leave_npu(const struct ork_model *model, ork_npu *npu)
{
    ork_npu_detach(npu, model);
}
