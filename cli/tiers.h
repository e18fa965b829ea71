/* The tensors of a card in groups: per tier, and per name with the layer number taken out. */
#ifndef ORK_CLI_TIERS_H
#define ORK_CLI_TIERS_H

#include "ork/ork.h"

typedef struct cli_tier {
    const char *type; /* "nf4"; lives as long as the card */
    size_t tensor_count;
    uint64_t size_bytes;
} cli_tier;

typedef struct cli_tensor_group {
    char *name; /* "blk.*.ffn_up_exps.weight" */
    const char *type, *source_type;
    size_t tensor_count;
    uint64_t size_bytes;
    uint32_t dimension_count;
    uint64_t dimensions[4];
    bool has_various_shapes, has_various_sources;
    double error_sum; /* of relative errors; -1: unknown for some */
} cli_tensor_group;

typedef struct cli_tier_map {
    cli_tier *tiers; /* largest first */
    size_t tier_count;
    cli_tensor_group *groups; /* in file order of their first tensor */
    size_t group_count;
    uint64_t size_bytes; /* of all tensors */
} cli_tier_map;

/* Exit code, message printed. */
int cli_tier_map_create(const ork_card *card, cli_tier_map *map);
void cli_tier_map_free(cli_tier_map *map);
/* "nf4 71.2%, i8 25.0%, f32 3.8%" by bytes, freed by the caller. */
char *cli_tier_map_plan(const cli_tier_map *map);
/* "2048 x 1792 x 32"; returns `text`. */
const char *cli_format_shape(const uint64_t *dimensions, uint32_t count, char *text, size_t capacity);

#endif
