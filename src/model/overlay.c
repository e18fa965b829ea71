/* Owns the step from a plan over a model's op groups to chains of its matrices. Must not know formulas, devices, or
 * architectures beyond struct ork_layer. */
#include "model/overlay.h"

#include "base/error.h"
#include "engine/npu/engine.h"
#include "model/channels.h"
#include "model/groups.h"
#include "sched/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW_US_MAX = 1000000 };

static ork_status check(const ork_overlay_params *params, ork_error *error)
{
    if (params->mode != ORK_OVERLAY_JOIN && params->mode != ORK_OVERLAY_LATE)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "unknown mode %d", (int)params->mode);
    if (params->late_layers > ORK_PLAN_LATE_LAYERS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "%u layers later, at most %d", params->late_layers,
                             ORK_PLAN_LATE_LAYERS_MAX);
    if (params->window_us > WINDOW_US_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a window of %u us, at most %d", params->window_us,
                             WINDOW_US_MAX);
    return ORK_OK;
}

static uint64_t to_ns(double seconds)
{
    return seconds > 0 ? (uint64_t)llround(seconds * 1e9) : 0;
}

static int compare_indices(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* channels[n] with room for all: the first parts' channels, ascending. */
static ork_status choose_channels(const struct ork_matrix *matrix, uint32_t count, uint32_t *channels, ork_error *error)
{
    const ork_status status = ork_channels_rank(matrix, channels, error);
    if (!status)
        qsort(channels, count, sizeof *channels, compare_indices);
    return status;
}

/* A chain's lists of channels are the caller's to free, also after an error. */
static ork_status make_chain(const struct ork_model *model, const struct ork_group *group,
                             const struct ork_plan_entry *entry, struct ork_npu_chain *chain, uint32_t **lists,
                             ork_error *error)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        if (!(entry->members >> i & 1))
            continue;
        const struct ork_matrix *matrix = ork_model_group_matrix(model, group, i);
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_find(model->pack, matrix->name);
        const uint32_t m = chain->member_count++, count = ork_group_part_channels(&group->members[i], entry->parts[i]);
        ork_status status = ork_matrix_from_pack(model->pack, tensor, &chain->full[m], error);
        if (status)
            return status;
        chain->members[m] = matrix;
        if (count == matrix->n)
            continue;
        lists[m] = malloc(matrix->n * sizeof *lists[m]);
        if (!lists[m])
            return ork_error_no_memory(error, "overlay", matrix->n * sizeof *lists[m]);
        chain->channels[m] = lists[m];
        chain->channel_counts[m] = count;
        status = choose_channels(matrix, count, lists[m], error);
        if (status)
            return status;
    }
    return ORK_OK;
}

/* With a window of its own, each chain finds the NPU done with the one before. */
static void set_times(const ork_overlay_params *params, const struct ork_plan_entry *entry, uint32_t index,
                      struct ork_npu_chain *chain)
{
    chain->begin_ns = params->window_us ? index * 2000ull * params->window_us : to_ns(entry->begin_s);
    chain->window_ns = params->window_us ? 1000ull * params->window_us : to_ns(entry->window_s);
}

static ork_status attach_plan(const struct ork_model *model, const struct ork_model_shape *shape,
                              const struct ork_plan *plan, const ork_overlay_params *params, uint32_t late_layers,
                              ork_npu *npu, const void *user, ork_error *error)
{
    const size_t members = plan->entry_count * ORK_NPU_CHAIN_MEMBERS_MAX;
    struct ork_npu_chain *chains = calloc(plan->entry_count, sizeof *chains);
    uint32_t **lists = calloc(members, sizeof *lists);
    ork_status status = ORK_OK;
    if (!chains || !lists) {
        status = ork_error_no_memory(error, "overlay", plan->entry_count * sizeof *chains);
        goto out;
    }
    for (uint32_t i = 0; i < plan->entry_count && !status; i++) {
        const struct ork_plan_entry *entry = &plan->entries[i];
        const struct ork_group *group = &shape->groups[entry->group];
        chains[i].due_layer = group->layer + late_layers;
        if (chains[i].due_layer > model->hp.layers)
            chains[i].due_layer = model->hp.layers;
        set_times(params, entry, i, &chains[i]);
        status = make_chain(model, group, entry, &chains[i], &lists[i * ORK_NPU_CHAIN_MEMBERS_MAX], error);
    }
    const struct ork_npu_overlay_params given = {
        .chains = chains,
        .count = (uint32_t)plan->entry_count,
        .late = params->mode == ORK_OVERLAY_LATE,
        .rests = !params->all && !params->window_us,
        .token_ns = params->window_us ? plan->entry_count * 2000ull * params->window_us : to_ns(plan->token_s),
    };
    if (!status)
        status = ork_npu_overlay_attach(npu, user, &given, error);
out:
    for (size_t i = 0; lists && i < members; i++)
        free(lists[i]);
    free(lists);
    free(chains);
    return status;
}

static ork_status plan_and_attach(const struct ork_model *model, const struct ork_perf *perf, ork_npu *npu,
                                  const void *user, const ork_overlay_params *params, uint32_t context,
                                  ork_overlay_stats *stats, ork_error *error)
{
    struct ork_model_shape shape;
    struct ork_plan plan = {0};
    const uint32_t late_layers = params->late_layers ? params->late_layers : ORK_OVERLAY_LATE_LAYERS;
    const struct ork_plan_params wished = {
        .policy = ork_route_policy_default(),
        .late_layers = params->mode == ORK_OVERLAY_LATE ? late_layers : 0,
        .all = params->all,
        .memory_bytes = ork_npu_overlay_room(npu),
        .poll_s = ORK_NPU_OVERLAY_CALLS_S,
    };
    ork_status status = ork_model_get_shape(model, &shape, error);
    if (status)
        return status;
    status = ork_channels_fill_shares(model, &shape, error);
    if (!status)
        status = ork_plan_make(perf, &shape, &wished, context, &plan, error);
    if (status)
        goto out;
    stats->sensitive_bytes = plan.sensitive_bytes;
    if (!plan.sensitive_bytes)
        status =
            ork_error_set(error, ORK_UNSUPPORTED, "overlay", -1,
                          "the pack has no matrices in tier n8 (other than experts) to which anything could be added");
    else if (!plan.entry_count)
        status = ork_error_set(error, ORK_UNSUPPORTED, "overlay", -1,
                               "no chain fits beside the CPU's work: %s (ork explain --overlay tells more)",
                               ork_route_limit_name(plan.limit));
    else
        status = attach_plan(model, &shape, &plan, params, late_layers, npu, user, error);
    if (!status) {
        stats->chains = (uint32_t)plan.entry_count;
        stats->resident_bytes = plan.resident_bytes;
    }
out:
    ork_plan_free(&plan);
    ork_model_shape_free(&shape);
    return status;
}

ork_status ork_model_use_overlay(const struct ork_model *model, const struct ork_perf *perf, ork_npu *npu, ork_cpu *cpu,
                                 const void *user, const ork_overlay_params *params, uint32_t context,
                                 ork_overlay_stats *stats, ork_error *error)
{
    ork_error local, *told = error ? error : &local;
    ork_status status = check(params, told);
    if (status)
        return status;
    if (!npu)
        status = ork_error_set(told, ORK_UNSUPPORTED, "overlay", -1, "there is no NPU");
    else if (!model->base_alone)
        status = ork_error_set(told, ORK_UNSUPPORTED, "overlay", -1,
                               "the CPU reads both planes of matrices in n8, and nothing can be added to that");
    else
        status = plan_and_attach(model, perf, npu, user, params, context, stats, told);
    stats->on = status == ORK_OK;
    if (stats->on)
        ork_cpu_set_overlay(cpu, ork_npu_overlay(npu));
    else
        snprintf(stats->why, sizeof stats->why, "%.255s", told->what);
    return ORK_OK;
}

void ork_model_leave_overlay(ork_npu *npu, const void *user)
{
    ork_npu_overlay_detach(npu, user);
}

void ork_model_count_overlay(ork_npu *npu, ork_overlay_stats *stats)
{
    struct ork_npu_overlay_counts counts;
    if (!stats->on)
        return;
    ork_npu_overlay_get_counts(npu, &counts);
    stats->planned = counts.planned;
    stats->submitted = counts.submitted;
    stats->busy = counts.busy;
    stats->rested = counts.rested;
    stats->in_time = counts.in_time;
    stats->late = counts.late;
    stats->faulted = counts.faulted;
    stats->bytes = counts.bytes;
}
