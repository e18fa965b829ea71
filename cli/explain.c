/* Owns `ork explain`: which figures predictions come from, the table of routes, and its JSON. Must not know how routes are
 * chosen. */
#include "cache.h"
#include "commands.h"
#include "json.h"
#include "model.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *matrices_json(const ork_explained_group *group)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < group->member_count; i++) {
        const ork_explained_member *member = &group->members[i];
        json_t *item = json_object();
        cli_json_set_text(item, "name", member->name);
        cli_json_set_text(item, "tier", member->tier);
        cli_json_set_integer(item, "channels", member->channels);
        cli_json_set_integer(item, "inputs", member->inputs);
        cli_json_set_integer(item, "experts", member->experts);
        cli_json_set_integer(item, "experts_used", member->experts_used);
        cli_json_set_integer(item, "overlay_channels", member->overlay_channels);
        json_object_set_new(item, "npu_rows_min", member->rows_min ? json_integer(member->rows_min) : json_null());
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *overlay_json(const ork_explained_group *group)
{
    if (!group->overlay_bytes)
        return json_null();
    json_t *item = json_object();
    cli_json_set_integer(item, "bytes", group->overlay_bytes);
    cli_json_set_number(item, "begin_us", group->overlay_begin_seconds * 1e6);
    cli_json_set_number(item, "window_us", group->overlay_window_seconds * 1e6);
    cli_json_set_number(item, "slowdown_us", group->overlay_slowdown_seconds * 1e6);
    return item;
}

static json_t *plan_json(const ork_explanation *explanation)
{
    if (!explanation->overlay)
        return json_null();
    json_t *item = json_object();
    cli_json_set_integer(item, "groups", explanation->overlay_groups);
    cli_json_set_integer(item, "bytes", explanation->overlay_bytes);
    cli_json_set_integer(item, "sensitive_bytes", explanation->sensitive_bytes);
    cli_json_set_number(item, "gain", explanation->overlay_gain);
    cli_json_set_text(item, "limit", explanation->overlay_limit);
    cli_json_set_number(item, "decode_alone_tokens_per_second", explanation->decode_alone_tokens_per_second);
    return item;
}

static json_t *group_json(const ork_explained_group *group)
{
    json_t *item = json_object();
    cli_json_set_text(item, "group", group->kind);
    cli_json_set_integer(item, "layer", group->layer);
    cli_json_set_text(item, "tier", group->tiers);
    cli_json_set_integer(item, "bytes", group->bytes);
    cli_json_set_number(item, "sensitivity", group->sensitivity);
    cli_json_set_text(item, "route", group->route);
    cli_json_set_text(item, "limit", group->limit);
    cli_json_set_text(item, "why_not_npu", group->why);
    cli_json_set_number(item, "predicted_us", group->seconds * 1e6);
    cli_json_set_number(item, "cpu_us", group->cpu_seconds * 1e6);
    json_object_set_new(item, "npu_us",
                        group->npu_seconds < 0 ? json_null() : cli_json_number(group->npu_seconds * 1e6));
    json_object_set_new(item, "overlay", overlay_json(group));
    json_object_set_new(item, "npu_rows_min", group->rows_min ? json_integer(group->rows_min) : json_null());
    json_object_set_new(item, "matrices", matrices_json(group));
    return item;
}

static void print_json(const ork_explanation *explanation)
{
    json_t *object = json_object(), *groups = json_array();
    for (size_t i = 0; i < explanation->group_count; i++)
        json_array_append_new(groups, group_json(&explanation->groups[i]));
    cli_json_set_text(object, "figures", explanation->source);
    cli_json_set_text(object, "machine", explanation->name);
    cli_json_set_integer(object, "rows", explanation->rows);
    json_object_set_new(object, "groups", groups);
    cli_json_set_integer(object, "group_bytes", explanation->group_bytes);
    cli_json_set_integer(object, "embedding_bytes", explanation->embedding_bytes);
    cli_json_set_integer(object, "vector_bytes", explanation->vector_bytes);
    cli_json_set_integer(object, "bytes_per_token",
                         explanation->group_bytes + explanation->embedding_bytes + explanation->vector_bytes);
    cli_json_set_integer(object, "kv_bytes_per_position", explanation->kv_bytes_per_position);
    cli_json_set_integer(object, "state_bytes", explanation->state_bytes);
    cli_json_set_number(object, "predicted_us", explanation->seconds * 1e6);
    cli_json_set_number(object, "npu_share", explanation->npu_share);
    cli_json_set_integer(object, "context", explanation->context);
    cli_json_set_integer(object, "prefill_rows", explanation->prefill_rows);
    cli_json_set_number(object, "prefill_tokens_per_second", explanation->prefill_tokens_per_second);
    cli_json_set_number(object, "decode_tokens_per_second", explanation->decode_tokens_per_second);
    json_object_set_new(object, "overlay", plan_json(explanation));
    cli_json_print(object);
}

/* Groups of different layers that are alike in all that the table shows. */
static bool is_alike(const ork_explained_group *a, const ork_explained_group *b)
{
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->tiers, b->tiers) == 0 && a->bytes == b->bytes &&
           a->sensitivity == b->sensitivity && a->route == b->route && a->limit == b->limit && a->why == b->why &&
           a->rows_min == b->rows_min && a->rows_first == b->rows_first && a->overlay_bytes == b->overlay_bytes;
}

static void print_line(const ork_explained_group *group, size_t count)
{
    char bytes[32], npu[24] = "-", rows[24] = "-";
    if (group->npu_seconds >= 0)
        snprintf(npu, sizeof npu, "%.0f", group->npu_seconds * 1e6);
    if (group->rows_min && group->rows_min != group->rows_first)
        snprintf(rows, sizeof rows, "%u-%u", group->rows_first, group->rows_min);
    else if (group->rows_min)
        snprintf(rows, sizeof rows, "%u", group->rows_min);
    else if (group->rows_first)
        snprintf(rows, sizeof rows, "%u-never", group->rows_first);
    cli_output_format("%-15s %4zu  %-8s %10s  %5.2f  %-11s %9.0f %9s %8s  %-10s %s\n", group->kind, count, group->tiers,
                      cli_format_bytes(group->bytes, bytes, sizeof bytes), group->sensitivity, group->route,
                      group->cpu_seconds * 1e6, npu, rows, group->limit, group->why);
}

static void print_plan(const ork_explanation *explanation)
{
    char text[2][32];
    cli_output_format("overlay: ");
    if (!explanation->sensitive_bytes) {
        cli_output_format("none, no matrix is n8 (ork pack --tier REGEX=n8)\n");
        return;
    }
    cli_output_format("%zu groups with a chain, %s of %s sensitive bytes (%.1f %%) with %.1f %% of what they lack",
                      explanation->overlay_groups,
                      cli_format_bytes(explanation->overlay_bytes, text[0], sizeof text[0]),
                      cli_format_bytes(explanation->sensitive_bytes, text[1], sizeof text[1]),
                      100.0 * (double)explanation->overlay_bytes / (double)explanation->sensitive_bytes,
                      100.0 * explanation->overlay_gain);
    if (explanation->overlay_bytes < explanation->sensitive_bytes)
        cli_output_format("; most of the rest is left out for: %s", explanation->overlay_limit);
    cli_output_format("\ndecode without chains: %.1f tokens/s\n", explanation->decode_alone_tokens_per_second);
}

static void print_table(const ork_explanation *explanation)
{
    char text[4][32];
    const ork_explained_group *groups = explanation->groups;
    cli_output_format("figures: %s (", explanation->source);
    cli_output_safe(explanation->name);
    cli_output_format("); pass of %u %s; times of one group in us\n\n", explanation->rows,
                      explanation->rows == 1 ? "row" : "rows");
    cli_output_format("%-15s %4s  %-8s %10s  %5s  %-11s %9s %9s %8s  %-10s %s\n", "group", "of", "tier", "bytes",
                      "sens.", "route", "cpu", "npu", "npu from", "limit", "no npu for");
    for (size_t i = 0; i < explanation->group_count; i++) {
        size_t before = 0, count = 0;
        for (size_t j = 0; j < explanation->group_count; j++)
            if (is_alike(&groups[j], &groups[i])) {
                before += j < i;
                count++;
            }
        if (!before)
            print_line(&groups[i], count);
    }
    cli_output_format(
        "\na token reads %s: %s in groups, %s of the embedding, %s of vectors and padding\n",
        cli_format_bytes(explanation->group_bytes + explanation->embedding_bytes + explanation->vector_bytes, text[0],
                         sizeof text[0]),
        cli_format_bytes(explanation->group_bytes, text[1], sizeof text[1]),
        cli_format_bytes(explanation->embedding_bytes, text[2], sizeof text[2]),
        cli_format_bytes(explanation->vector_bytes, text[3], sizeof text[3]));
    cli_output_format("the pass takes %.2f ms, %.0f %% of its multiply-adds on the NPU\n", explanation->seconds * 1e3,
                      explanation->npu_share * 100);
    cli_output_format("predicted: prefill %.1f tokens/s (%u rows), decode %.1f tokens/s (behind %u positions)\n",
                      explanation->prefill_tokens_per_second, explanation->prefill_rows,
                      explanation->decode_tokens_per_second, explanation->context);
    if (explanation->overlay)
        print_plan(explanation);
}

int cli_explain(const cli_settings *settings)
{
    const char *path;
    cli_model model = {0};
    ork_explanation *explanation = NULL;
    ork_error error;
    int code = cli_model_path(settings, "explain", &path);
    if (code == CLI_OK && settings->npu_board && settings->npu_kind && settings->npu_kind != ORK_NPU_SOFT)
        code = cli_usage("explain", "--npu-board is a machine of its own, or the one that --npu soft plays");
    if (code == CLI_OK && settings->npu_board && settings->dispatch_calibration && !settings->npu_kind)
        code = cli_usage("explain", "--npu-board and --calibration are two machines");
    if (code == CLI_OK && settings->npu_real_time && settings->npu_kind != ORK_NPU_SOFT)
        code = cli_usage("explain", "--npu-real-time is for --npu soft");
    if (code == CLI_OK && settings->overlay_layers && settings->overlay != ORK_OVERLAY_LATE)
        code = cli_usage("explain", "--overlay-layers needs --overlay late");
    if (code != CLI_OK)
        return code;
    cli_settings mapped = *settings;
    mapped.load_mode = ORK_LOAD_MAP;
    mapped.overlay = ORK_OVERLAY_OFF; /* explained, not used */
    mapped.overlay_layers = 0;
    code = cli_model_open(&mapped, path, &model);
    if (code != CLI_OK)
        return code;
    if (!model.npu.figures.perf)
        code = cli_figures_open(settings, NULL, &model.npu.figures);
    const ork_explain_params params = {
        .rows = (uint32_t)settings->dispatch_rows,
        .context = settings->context > 0 ? (uint32_t)settings->context : 0,
        .overlay = settings->overlay != ORK_OVERLAY_OFF,
        .late_layers = settings->overlay != ORK_OVERLAY_LATE ? 0
                       : settings->overlay_layers > 0        ? (uint32_t)settings->overlay_layers
                                                             : ORK_OVERLAY_LATE_LAYERS,
    };
    if (code == CLI_OK && ork_explain(model.model, model.npu.figures.perf, &params, &explanation, &error) != ORK_OK)
        code = cli_report_error(&error);
    if (code == CLI_OK && settings->json)
        print_json(explanation);
    else if (code == CLI_OK)
        print_table(explanation);
    ork_free(explanation);
    cli_model_close(&model);
    return code;
}
