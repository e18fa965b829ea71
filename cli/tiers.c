/* Owns grouping of a card's tensors. Must not print. */
#include "tiers.h"
#include "report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "blk.12.attn_q.weight" -> "blk.*.attn_q.weight"; the first run of digits between dots. */
static char *generalize(const char *name)
{
    char *copy = cli_copy_text(name);
    char *dot = strchr(copy, '.');
    while (dot && !isdigit((unsigned char)dot[1]))
        dot = strchr(dot + 1, '.');
    if (!dot)
        return copy;
    char *end = dot + 1;
    while (isdigit((unsigned char)*end))
        end++;
    if (*end != '.')
        return copy;
    dot[1] = '*';
    memmove(dot + 2, end, strlen(end) + 1);
    return copy;
}

static void add_to_tier(cli_tier_map *map, const ork_tensor_info *info)
{
    size_t i = 0;
    while (i < map->tier_count && strcmp(map->tiers[i].type, info->type) != 0)
        i++;
    if (i == map->tier_count) {
        map->tiers = cli_reallocate(map->tiers, ++map->tier_count * sizeof *map->tiers);
        map->tiers[i] = (cli_tier){.type = info->type};
    }
    map->tiers[i].tensor_count++;
    map->tiers[i].size_bytes += info->size_bytes;
}

static void add_to_group(cli_tier_map *map, const ork_tensor_info *info)
{
    char *name = generalize(info->name);
    size_t i = 0;
    while (i < map->group_count &&
           (strcmp(map->groups[i].type, info->type) != 0 || strcmp(map->groups[i].name, name) != 0))
        i++;
    if (i == map->group_count) {
        map->groups = cli_reallocate(map->groups, ++map->group_count * sizeof *map->groups);
        map->groups[i] = (cli_tensor_group){.name = name,
                                            .type = info->type,
                                            .source_type = info->source_type,
                                            .dimension_count = info->dimension_count};
        memcpy(map->groups[i].dimensions, info->dimensions, sizeof info->dimensions);
    } else {
        free(name);
    }
    cli_tensor_group *group = &map->groups[i];
    group->tensor_count++;
    group->size_bytes += info->size_bytes;
    group->has_various_shapes |= memcmp(group->dimensions, info->dimensions, sizeof info->dimensions) != 0;
    group->has_various_sources |= strcmp(group->source_type, info->source_type) != 0;
    if (info->relative_error < 0)
        group->error_sum = -1;
    else if (group->error_sum >= 0)
        group->error_sum += info->relative_error;
}

static int compare_tiers(const void *a, const void *b)
{
    const cli_tier *x = a, *y = b;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? 1 : -1;
    return strcmp(x->type, y->type);
}

int cli_tier_map_create(const ork_card *card, cli_tier_map *map)
{
    memset(map, 0, sizeof *map);
    size_t count = ork_card_get_summary(card)->tensor_count;
    for (size_t i = 0; i < count; i++) {
        ork_tensor_info info;
        if (ork_card_get_tensor(card, i, &info) != ORK_OK) {
            cli_tier_map_free(map);
            return cli_fail(CLI_FAILURE, "", "tensor %zu of the card cannot be read", i);
        }
        add_to_tier(map, &info);
        add_to_group(map, &info);
        map->size_bytes += info.size_bytes;
    }
    if (map->tier_count)
        qsort(map->tiers, map->tier_count, sizeof *map->tiers, compare_tiers);
    return CLI_OK;
}

void cli_tier_map_free(cli_tier_map *map)
{
    for (size_t i = 0; i < map->group_count; i++)
        free(map->groups[i].name);
    free(map->groups);
    free(map->tiers);
    memset(map, 0, sizeof *map);
}

char *cli_tier_map_plan(const cli_tier_map *map)
{
    char *plan = cli_copy_text("");
    for (size_t i = 0; i < map->tier_count; i++) {
        double share = map->size_bytes ? 100.0 * (double)map->tiers[i].size_bytes / (double)map->size_bytes : 0;
        char *longer = cli_format_text("%s%s%s %.1f%%", plan, i ? ", " : "", map->tiers[i].type, share);
        free(plan);
        plan = longer;
    }
    return plan;
}

const char *cli_format_shape(const uint64_t *dimensions, uint32_t count, char *text, size_t capacity)
{
    text[0] = 0;
    for (uint32_t i = 0; i < count && i < 4; i++) {
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%llu", i ? " x " : "", (unsigned long long)dimensions[i]);
    }
    return text;
}
