/* Owns the step from a model's layers to the list of weights that an NPU may take, and what became of the list. Must not
 * know shapes or architectures beyond struct ork_layer, nor how a number of rows is found. */
#include "model/npu.h"

#include "base/error.h"
#include "engine/npu/engine.h"
#include "sched/route.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYER_MATRICES = 9 };

struct list {
    const struct ork_perf *perf;
    struct ork_npu_weight *weights;
    size_t count;
};

/* The layers of a model repeat few shapes, and a crossover is looked for in more than a hundred steps. */
static uint32_t rows_min_of(const struct list *list, const struct ork_matrix *matrix)
{
    for (size_t i = list->count; i-- > 0;) {
        const struct ork_matrix *other = list->weights[i].matrix;
        if (other->tier == matrix->tier && other->n == matrix->n && other->k == matrix->k)
            return list->weights[i].rows_min;
    }
    return ork_route_matrix_rows_min(list->perf, matrix->tier, matrix->n, matrix->k,
                                     ork_route_policy_default().rows_most);
}

/* Matrices in bricks; others, and those that a layer does not have, stay on the CPU. */
static void add_weight(struct list *list, const struct ork_matrix *matrix, uint32_t layer)
{
    const struct ork_tier_info *tier = matrix->data ? ork_tier_find(matrix->tier) : NULL;
    if (!tier || !tier->brick_bytes)
        return;
    const uint32_t rows_min = rows_min_of(list, matrix);
    list->weights[list->count++] = (struct ork_npu_weight){.matrix = matrix, .layer = layer, .rows_min = rows_min};
}

/* All matmul weights in the order in which a pass needs them; the output head is a layer of its own. */
static void list_weights(const struct ork_model *model, struct list *list)
{
    for (uint32_t i = 0; i < model->hp.layers; i++) {
        const struct ork_layer *layer = &model->layers[i];
        const struct ork_matrix *const matrices[LAYER_MATRICES] = {
            &layer->q,    &layer->k,  &layer->v,   &layer->attention_output, &layer->conv_input, &layer->conv_output,
            &layer->gate, &layer->up, &layer->down};
        for (int j = 0; j < LAYER_MATRICES; j++)
            add_weight(list, matrices[j], i);
    }
    add_weight(list, &model->output, model->hp.layers);
}

static void count_weights(const struct list *list, const ork_npu *npu, ork_session_stats *stats)
{
    for (size_t i = 0; i < list->count; i++) {
        const uint32_t rows = stats->npu ? ork_npu_rows_min(npu, list->weights[i].matrix) : UINT32_MAX;
        if (rows == UINT32_MAX) {
            stats->npu_matrices_left++;
            continue;
        }
        stats->npu_rows_least = !stats->npu_matrices || rows < stats->npu_rows_least ? rows : stats->npu_rows_least;
        stats->npu_rows_most = rows > stats->npu_rows_most ? rows : stats->npu_rows_most;
        stats->npu_matrices++;
    }
}

ork_status ork_model_use_npu(const struct ork_model *model, ork_npu *npu, ork_cpu *cpu, const struct ork_perf *perf,
                             ork_session_stats *stats, ork_error *error)
{
    ork_error local, *told = error ? error : &local;
    struct list list = {.perf = perf,
                        .weights = calloc(model->hp.layers * (size_t)LAYER_MATRICES + 1, sizeof *list.weights)};
    if (!list.weights)
        return ork_error_no_memory(error, "NPU weights", model->hp.layers * LAYER_MATRICES * sizeof *list.weights);
    list_weights(model, &list);
    ork_status status = ork_npu_attach(npu, model, list.weights, list.count, told);
    stats->npu = status == ORK_OK;
    count_weights(&list, npu, stats);
    free(list.weights);
    if (stats->npu)
        ork_cpu_set_offload(cpu, ork_npu_offload(npu));
    else
        snprintf(stats->npu_why, sizeof stats->npu_why, "%.255s", told->what);
    return status == ORK_LIMIT ? status : ORK_OK;
}

void ork_model_leave_npu(const struct ork_model *model, ork_npu *npu)
{
    ork_npu_detach(npu, model);
}
