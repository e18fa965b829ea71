/* Owns `ork info`: the card of a file, for people and as JSON. */
#include "commands.h"
#include "json.h"
#include "report.h"
#include "tiers.h"

#include <stdlib.h>
#include <string.h>

/* What only an open model knows. Mapping an orkpack takes milliseconds. */
typedef struct run_check {
    bool is_checked, is_ok;
    char template_name[32]; /* "" for none */
    char reason[400];
} run_check;

static void check_run(const char *path, const ork_card_summary *summary, run_check *check)
{
    memset(check, 0, sizeof *check);
    if (summary->kind != ORK_FILE_ORKPACK || !summary->runnable)
        return;
    ork_model_params params = {.load_mode = ORK_LOAD_MAP};
    ork_model *model;
    ork_error error;
    check->is_checked = true;
    check->is_ok = ork_model_open(path, &params, &model, &error) == ORK_OK;
    if (!check->is_ok) {
        strncpy(check->reason, error.what, sizeof check->reason - 1);
        return;
    }
    const char *name = ork_chat_template_name(model);
    strncpy(check->template_name, name ? name : "", sizeof check->template_name - 1);
    ork_model_close(model);
}

static double bits_per_weight(const ork_card_summary *summary, const cli_tier_map *map)
{
    return summary->parameter_count ? 8.0 * (double)map->size_bytes / (double)summary->parameter_count : 0;
}

static void print_field(const char *label, const char *text)
{
    cli_output_format("%-14s ", label);
    cli_output_safe(text);
    cli_output_format("\n");
}

static void print_architecture(const ork_card_summary *summary)
{
    cli_output_format("%-14s ", "architecture");
    cli_output_safe(summary->architecture);
    cli_output_format(": %u layers, width %u, %u heads (%u for keys and values)", summary->layer_count,
                      summary->embedding_length, summary->head_count, summary->head_count_kv);
    if (summary->expert_count)
        cli_output_format(", %u experts, %u of them for a token", summary->expert_count, summary->expert_used_count);
    cli_output_format("%s\n", summary->runnable ? "" : "; not run by this version");
}

static void print_chat_template(const ork_card_summary *summary, const run_check *check)
{
    cli_output_format("%-14s ", "chat template");
    if (check->is_ok && *check->template_name)
        cli_output_format("%s\n", check->template_name);
    else if (*summary->chat_template)
        cli_output_format("%s(%zu bytes of Jinja)\n", check->is_ok ? "of no known family " : "",
                          strlen(summary->chat_template));
    else
        cli_output_format("none\n");
}

static void print_card(const char *path, const ork_card_summary *summary, const cli_tier_map *map,
                       const run_check *check)
{
    char text[3][32];
    print_field("file", path);
    cli_output_format("%-14s %s version %u, %s\n", "format", summary->kind == ORK_FILE_GGUF ? "GGUF" : "orkpack",
                      summary->format_version, cli_format_bytes(summary->file_size_bytes, text[0], sizeof text[0]));
    print_field("name", *summary->name ? summary->name : "-");
    if (*summary->license)
        print_field("license", summary->license);
    print_architecture(summary);
    cli_output_format("%-14s %s, %s active for a token\n", "parameters",
                      cli_format_count(summary->parameter_count, text[0], sizeof text[0]),
                      cli_format_count(summary->active_parameter_count, text[1], sizeof text[1]));
    cli_output_format("%-14s %s, %.2f bits a weight; a token reads %s\n", "weights",
                      cli_format_bytes(map->size_bytes, text[0], sizeof text[0]), bits_per_weight(summary, map),
                      cli_format_bytes(summary->bytes_per_token, text[1], sizeof text[1]));
    cli_output_format("%-14s %u tokens\n", "context", summary->context_length);
    cli_output_format("%-14s ", "tokenizer");
    cli_output_safe(*summary->tokenizer_model ? summary->tokenizer_model : "none");
    cli_output_format("%s", *summary->tokenizer_pre ? " / " : "");
    cli_output_safe(summary->tokenizer_pre);
    cli_output_format(", %u tokens\n", summary->vocabulary_size);
    print_chat_template(summary, check);
    if (check->is_checked && !check->is_ok)
        print_field("cannot run", check->reason);
}

static void print_group(const cli_tensor_group *group, int width)
{
    char shape[96], size[32];
    cli_output_format("    ");
    cli_output_safe(group->name);
    int length = (int)strlen(group->name);
    cli_output_format("%*s x%-4zu %-24s %12s", width > length ? width - length : 0, "", group->tensor_count,
                      group->has_various_shapes
                          ? "various shapes"
                          : cli_format_shape(group->dimensions, group->dimension_count, shape, sizeof shape),
                      cli_format_bytes(group->size_bytes, size, sizeof size));
    if (strcmp(group->source_type, group->type) != 0)
        cli_output_format("  from %-5s", group->has_various_sources ? "mixed" : group->source_type);
    if (group->error_sum > 0)
        cli_output_format("  error %.4f", group->error_sum / (double)group->tensor_count);
    cli_output_format("\n");
}

static void print_tier_map(const cli_tier_map *map)
{
    int width = 0;
    for (size_t i = 0; i < map->group_count; i++)
        if ((int)strlen(map->groups[i].name) > width)
            width = (int)strlen(map->groups[i].name);
    if (width > 48)
        width = 48;
    for (size_t i = 0; i < map->tier_count; i++) {
        const cli_tier *tier = &map->tiers[i];
        char size[32];
        double share = map->size_bytes ? 100.0 * (double)tier->size_bytes / (double)map->size_bytes : 0;
        cli_output_format("\n%-6s %zu tensors, %s, %.1f %%\n", tier->type, tier->tensor_count,
                          cli_format_bytes(tier->size_bytes, size, sizeof size), share);
        for (size_t j = 0; j < map->group_count; j++)
            if (strcmp(map->groups[j].type, tier->type) == 0)
                print_group(&map->groups[j], width);
    }
}

static void print_tensors(const ork_card *card)
{
    size_t count = ork_card_get_summary(card)->tensor_count;
    cli_output_format("\n%12s %12s  %-6s %-6s %9s  %-24s %s\n", "offset", "bytes", "type", "from", "error", "shape",
                      "name");
    for (size_t i = 0; i < count; i++) {
        ork_tensor_info info;
        char shape[96];
        if (ork_card_get_tensor(card, i, &info) != ORK_OK)
            continue;
        cli_output_format("%12llu %12llu  %-6s %-6s ", (unsigned long long)info.offset_bytes,
                          (unsigned long long)info.size_bytes, info.type, info.source_type);
        if (info.relative_error < 0)
            cli_output_format("%9s", "-");
        else
            cli_output_format("%9.5f", info.relative_error);
        cli_output_format("  %-24s ", cli_format_shape(info.dimensions, info.dimension_count, shape, sizeof shape));
        cli_output_safe(info.name);
        cli_output_format("\n");
    }
}

static json_t *shape_json(const uint64_t *dimensions, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count && i < 4; i++)
        json_array_append_new(array, json_integer((json_int_t)dimensions[i]));
    return array;
}

static json_t *tier_map_json(const cli_tier_map *map)
{
    json_t *array = json_array();
    for (size_t i = 0; i < map->tier_count; i++) {
        json_t *tier = json_object(), *groups = json_array();
        cli_json_set_text(tier, "tier", map->tiers[i].type);
        cli_json_set_integer(tier, "tensors", map->tiers[i].tensor_count);
        cli_json_set_integer(tier, "size_bytes", map->tiers[i].size_bytes);
        for (size_t j = 0; j < map->group_count; j++) {
            const cli_tensor_group *group = &map->groups[j];
            if (strcmp(group->type, map->tiers[i].type) != 0)
                continue;
            json_t *item = json_object();
            cli_json_set_text(item, "name", group->name);
            cli_json_set_integer(item, "tensors", group->tensor_count);
            cli_json_set_integer(item, "size_bytes", group->size_bytes);
            json_array_append_new(groups, item);
        }
        json_object_set_new(tier, "groups", groups);
        json_array_append_new(array, tier);
    }
    return array;
}

static json_t *tensors_json(const ork_card *card)
{
    json_t *array = json_array();
    size_t count = ork_card_get_summary(card)->tensor_count;
    for (size_t i = 0; i < count; i++) {
        ork_tensor_info info;
        if (ork_card_get_tensor(card, i, &info) != ORK_OK)
            continue;
        json_t *item = json_object();
        cli_json_set_text(item, "name", info.name);
        cli_json_set_text(item, "type", info.type);
        cli_json_set_text(item, "source_type", info.source_type);
        json_object_set_new(item, "shape", shape_json(info.dimensions, info.dimension_count));
        cli_json_set_integer(item, "size_bytes", info.size_bytes);
        cli_json_set_integer(item, "offset_bytes", info.offset_bytes);
        json_object_set_new(item, "relative_error",
                            info.relative_error < 0 ? json_null() : cli_json_number(info.relative_error));
        json_array_append_new(array, item);
    }
    return array;
}

static json_t *card_json(const char *path, const ork_card_summary *summary, const cli_tier_map *map,
                         const run_check *check)
{
    json_t *object = json_object();
    cli_json_set_text(object, "file", path);
    cli_json_set_text(object, "kind", summary->kind == ORK_FILE_GGUF ? "gguf" : "orkpack");
    cli_json_set_integer(object, "format_version", summary->format_version);
    cli_json_set_integer(object, "file_size_bytes", summary->file_size_bytes);
    cli_json_set_text(object, "name", summary->name);
    cli_json_set_text(object, "license", summary->license);
    cli_json_set_text(object, "architecture", summary->architecture);
    cli_json_set_boolean(object, "runnable", summary->runnable && (!check->is_checked || check->is_ok));
    cli_json_set_integer(object, "parameters", summary->parameter_count);
    cli_json_set_integer(object, "active_parameters", summary->active_parameter_count);
    cli_json_set_integer(object, "weight_bytes", map->size_bytes);
    cli_json_set_number(object, "bits_per_weight", bits_per_weight(summary, map));
    cli_json_set_integer(object, "bytes_per_token", summary->bytes_per_token);
    cli_json_set_integer(object, "layers", summary->layer_count);
    cli_json_set_integer(object, "embedding_length", summary->embedding_length);
    cli_json_set_integer(object, "heads", summary->head_count);
    cli_json_set_integer(object, "heads_kv", summary->head_count_kv);
    cli_json_set_integer(object, "experts", summary->expert_count);
    cli_json_set_integer(object, "experts_used", summary->expert_used_count);
    cli_json_set_integer(object, "context_length", summary->context_length);
    cli_json_set_integer(object, "vocabulary_size", summary->vocabulary_size);
    cli_json_set_text(object, "tokenizer_model", summary->tokenizer_model);
    cli_json_set_text(object, "tokenizer_pre", summary->tokenizer_pre);
    cli_json_set_text(object, "chat_template_family",
                      check->is_ok && *check->template_name ? check->template_name : NULL);
    cli_json_set_text(object, "chat_template", summary->chat_template);
    json_object_set_new(object, "tiers", tier_map_json(map));
    return object;
}

int cli_info(const cli_settings *settings)
{
    if (settings->positional_count == 0)
        return cli_usage("info", "no file given");
    const char *path = settings->positional[0];
    ork_card *card;
    ork_error error;
    cli_tier_map map;
    run_check check;
    int code = cli_check_input(path);
    if (code != CLI_OK)
        return code;
    if (ork_card_open(path, &card, &error) != ORK_OK)
        return cli_report_input_error(&error);
    const ork_card_summary *summary = ork_card_get_summary(card);
    code = cli_tier_map_create(card, &map);
    if (code == CLI_OK) {
        check_run(path, summary, &check);
        if (settings->json) {
            json_t *object = card_json(path, summary, &map, &check);
            if (settings->tensors)
                json_object_set_new(object, "tensors", tensors_json(card));
            cli_json_print(object);
        } else {
            print_card(path, summary, &map, &check);
            if (settings->tensors)
                print_tensors(card);
            else
                print_tier_map(&map);
        }
        cli_tier_map_free(&map);
    }
    ork_card_close(card);
    return code;
}
