/* Owns the report of routes: every op group of a model through the dispatcher, and the sums. Must not know formulas. */
#include "base/error.h"
#include "engine/npu/device/device.h"
#include "engine/npu/engine.h"
#include "engine/npu/tuning.h"
#include "model/channels.h"
#include "model/groups.h"
#include "sched/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 1 << 20, PREFILL_ROWS = 512 };

static void name_tiers(const struct ork_group *group, char *text, size_t capacity)
{
    uint32_t seen = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const uint32_t tier = group->members[i].tier;
        const size_t length = strlen(text);
        if (!(seen & (1u << tier)))
            snprintf(text + length, capacity - length, "%s%s", length ? "+" : "", ork_tier_find(tier)->name);
        seen |= 1u << tier;
    }
}

static double sensitivity(const struct ork_group *group)
{
    double most = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        if ((double)group->members[i].sensitivity > most)
            most = (double)group->members[i].sensitivity;
    return most;
}

static void explain_members(const struct ork_perf *perf, const struct ork_group *group, ork_explained_group *result)
{
    _Static_assert(ORK_EXPLAINED_MEMBERS_MAX == ORK_GROUP_MEMBERS_MAX, "members of a group");
    const uint32_t most = ork_route_policy_default().rows_most;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        const uint32_t rows = ork_route_matrix_rows_min(perf, member->tier, member->n, member->k, most);
        const uint32_t token_rows = ork_route_member_rows_min(perf, member, most);
        ork_explained_member *explained = &result->members[i];
        *explained = (ork_explained_member){.tier = ork_tier_find(member->tier)->name,
                                            .channels = member->n,
                                            .inputs = member->k,
                                            .experts = member->experts,
                                            .experts_used = member->experts_used,
                                            .rows_min = rows == UINT32_MAX ? 0 : rows};
        memcpy(explained->name, member->name, sizeof explained->name);
        first = token_rows < first ? token_rows : first;
    }
    result->member_count = group->member_count;
    result->rows_first = first == UINT32_MAX ? 0 : first;
}

static ork_explained_group explain_group(const struct ork_group *group, const struct ork_route_choice *choice,
                                         uint32_t rows, bool base)
{
    const double npu_s = rows > 1 ? choice->npu.seconds : choice->chain.seconds;
    ork_explained_group result = {
        .kind = ork_group_kind_name(group->kind),
        .layer = group->layer,
        .bytes = ork_group_token_bytes(group, base),
        .sensitivity = sensitivity(group),
        .route = ork_route_name(choice->route),
        .limit = ork_route_limit_name(choice->limit),
        .why = choice->route == ORK_ROUTE_CPU ? ork_route_limit_name(choice->why) : "",
        .seconds = choice->seconds,
        .cpu_seconds = choice->cpu.seconds,
        .npu_seconds = isinf(npu_s) ? -1 : npu_s,
        .rows_min = choice->rows_min == UINT32_MAX ? 0 : choice->rows_min,
    };
    name_tiers(group, result.tiers, sizeof result.tiers);
    return result;
}

struct pass {
    double seconds, macs, npu_macs;
};

/* What the plan says of a group instead of the group alone: its chain waits for others, and is polled when it says. */
static void explain_entry(const struct ork_plan_entry *entry, const struct ork_group *group,
                          ork_explained_group *result)
{
    result->seconds = result->cpu_seconds + entry->slowdown_s;
    result->npu_seconds = entry->chain_s;
    result->overlay_bytes = entry->bytes;
    result->overlay_begin_seconds = entry->begin_s;
    result->overlay_window_seconds = entry->window_s;
    result->overlay_slowdown_seconds = entry->slowdown_s;
    for (uint32_t i = 0; i < group->member_count; i++)
        if (entry->parts[i])
            result->members[i].overlay_channels = ork_group_part_channels(&group->members[i], entry->parts[i]);
}

/* One pass of `rows` rows at the end of `context` positions; groups (may be NULL) receives its routes. base: the CPU reads base
 * planes alone. plan: of the overlay, NULL without one. */
static struct pass predict_pass(const struct ork_perf *perf, const struct ork_model_shape *shape, uint32_t rows,
                                uint32_t context, bool base, const struct ork_plan *plan, ork_explained_group *groups)
{
    const struct ork_route_query query = {
        .rows = rows,
        .resident = true,
        .nested_base = base,
        .engine = perf->has_npu ? ORK_ROUTE_ENGINE_IS_FREE : ORK_ROUTE_ENGINE_IS_OFF,
        .policy = ork_route_policy_default(),
    };
    struct pass pass = {.seconds = ork_perf_predict_rest(perf, shape)};
    if (rows > 1)
        plan = NULL;
    for (size_t i = 0, entry = 0; i < shape->group_count; i++) {
        const struct ork_group *group = &shape->groups[i];
        /* Logits are wanted of the last row alone. */
        struct ork_route_query own = query;
        own.rows = group->kind == ORK_GROUP_HEAD ? 1 : rows;
        const bool planned = plan && entry < plan->entry_count && plan->entries[entry].group == i;
        const struct ork_group chain = planned ? ork_plan_chain(group, &plan->entries[entry]) : (struct ork_group){0};
        own.overlay_chain = planned ? &chain : NULL;
        own.overlay_limit = plan ? plan->limits[i] : ORK_ROUTE_NOT_SENSITIVE;
        const struct ork_route_choice choice = ork_route_choose(perf, group, &own);
        const double macs = ork_group_macs(group, own.rows);
        if (groups) {
            groups[i] = explain_group(group, &choice, own.rows, query.nested_base);
            explain_members(perf, group, &groups[i]);
            if (planned)
                explain_entry(&plan->entries[entry], group, &groups[i]);
        }
        entry += planned;
        pass.seconds += choice.seconds;
        pass.macs += macs;
        pass.npu_macs += choice.route == ORK_ROUTE_NPU ? macs : 0;
    }
    for (uint32_t i = 0; i < shape->layer_count; i++)
        pass.seconds += ork_perf_predict_core(perf, &shape->layers[i], rows, context).seconds;
    if (plan)
        pass.seconds = plan->token_s;
    return pass;
}

static ork_status check(const ork_explain_params *params, ork_error *error)
{
    if (params->rows > ROWS_MOST || params->prefill_rows > ROWS_MOST)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "rows", -1, "%u rows, at most %d are possible",
                             params->rows > params->prefill_rows ? params->rows : params->prefill_rows, ROWS_MOST);
    return ORK_OK;
}

static void explain_plan(const struct ork_plan *plan, ork_explanation *result)
{
    result->overlay = true;
    result->overlay_groups = plan->entry_count;
    result->overlay_bytes = plan->resident_bytes;
    result->sensitive_bytes = plan->sensitive_bytes;
    result->overlay_gain = plan->gain_share;
    result->overlay_limit = ork_route_limit_name(plan->limit);
    result->decode_alone_tokens_per_second = 1 / plan->alone_s;
}

ork_status ork_explain(const ork_model *model, const ork_perf *perf, const ork_explain_params *given,
                       ork_explanation **explanation, ork_error *error)
{
    static const char *const sources[] = {
        [ORK_PERF_ASSUMED] = "assumed", [ORK_PERF_BOARD] = "board", [ORK_PERF_CALIBRATED] = "calibration"};
    const ork_explain_params params = given ? *given : (ork_explain_params){0};
    const struct ork_plan_params wanted = {.policy = ork_route_policy_default(),
                                           .late_layers = params.late_layers,
                                           .memory_bytes = ORK_NPU_DOMAIN_BYTES - ORK_NPU_RESERVE_BYTES,
                                           .poll_s = ORK_NPU_OVERLAY_CALLS_S};
    struct ork_model_shape shape;
    struct ork_plan plan = {0};
    *explanation = NULL;
    ork_status status = check(&params, error);
    if (status == ORK_OK)
        status = ork_model_get_shape(model, &shape, error);
    if (status != ORK_OK)
        return status;
    ork_explanation *result = NULL;
    const bool overlay = params.overlay || params.late_layers;
    if (overlay)
        status = ork_channels_fill_shares(model, &shape, error);
    if (overlay && status == ORK_OK)
        status = ork_plan_make(perf, &shape, &wanted, params.context, &plan, error);
    if (status != ORK_OK)
        goto out;
    result = calloc(1, sizeof *result + shape.group_count * sizeof(ork_explained_group));
    if (!result) {
        status = ork_error_no_memory(error, "explanation", shape.group_count * sizeof(ork_explained_group));
        goto out;
    }
    ork_explained_group *groups = (ork_explained_group *)(void *)(result + 1);
    *result = (ork_explanation){
        .source = sources[perf->source],
        .rows = params.rows ? params.rows : 1,
        .prefill_rows = params.prefill_rows ? params.prefill_rows : PREFILL_ROWS,
        .context = params.context,
        .group_count = shape.group_count,
        .groups = groups,
        .embedding_bytes = shape.embedding_bytes,
        .vector_bytes = shape.vector_bytes,
    };
    snprintf(result->name, sizeof result->name, "%s", perf->name);
    const bool base = model->base_alone || (overlay && result->rows == 1);
    for (size_t i = 0; i < shape.group_count; i++)
        result->group_bytes += ork_group_token_bytes(&shape.groups[i], base);
    for (uint32_t i = 0; i < shape.layer_count; i++) {
        result->kv_bytes_per_position += shape.layers[i].kv_bytes;
        result->state_bytes += shape.layers[i].state_bytes;
    }
    if (overlay)
        explain_plan(&plan, result);
    const struct ork_plan *planned = overlay ? &plan : NULL;
    const struct pass pass = predict_pass(perf, &shape, result->rows, params.context, base, planned, groups);
    const struct pass decode =
        predict_pass(perf, &shape, 1, params.context, model->base_alone || overlay, planned, NULL);
    const struct pass prefill = predict_pass(perf, &shape, result->prefill_rows, 0, model->base_alone, NULL, NULL);
    result->seconds = pass.seconds;
    result->npu_share = pass.macs > 0 ? pass.npu_macs / pass.macs : 0;
    result->decode_tokens_per_second = 1 / decode.seconds;
    result->prefill_tokens_per_second = result->prefill_rows / prefill.seconds;
    *explanation = result;
out:
    ork_plan_free(&plan);
    ork_model_shape_free(&shape);
    return status;
}
