/* Cutting a matmul into tasks. Owns the choice of cuts and the offsets; the limits stand in limits.c. */
#include "engine/npu/tiling.h"

#include "base/checked.h"
#include "base/error.h"

#include <assert.h>
#include <stdlib.h>

enum {
    K_TILE = 32,
    BRICK_BYTES = 1024, /* of a group and 32 inputs: 32 x 32 int8, 64 x 32 int4 */
    ALIGNMENT = 64,
    /* Slices of a matmul that must be cut by k anyway are no longer than this: up to here tasks take many rows, above begins
     * the range in which programs are known to hang (limits.c). */
    SLICE_MAX_I8 = 3072
};

/* How often each dimension is cut; parts are as even as possible. */
struct cuts {
    uint32_t k_units, k_parts; /* units of 32 inputs */
    uint32_t row_parts;
    uint32_t groups, group, groups_per_task; /* channels: the most groups of one task */
    enum ork_npu_surface input;
};

/* First unit of part i of `parts` of `units`. */
static uint32_t part_begin(uint32_t units, uint32_t parts, uint32_t i)
{
    return (uint32_t)((uint64_t)units * i / parts);
}

static ork_status check_wishes(const struct ork_npu_tiling *tiling, ork_error *error)
{
    if ((unsigned)tiling->type >= ORK_NPU_TYPE_COUNT)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "unknown type %d of a matmul", (int)tiling->type);
    if (tiling->m == 0 || tiling->k == 0 || tiling->n == 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a matmul of %u x %u x %u is empty", tiling->m,
                             tiling->k, tiling->n);
    if (tiling->cores == 0 || tiling->cores > ORK_NPU_CORES_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%u cores are not within 1..%u", tiling->cores,
                             ORK_NPU_CORES_MAX);
    if (tiling->type == ORK_NPU_W4A4 && ork_npu_k_max(tiling->type, tiling->a_max, tiling->w_max) == 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "magnitudes %u and %u are not within 1..8",
                             tiling->a_max, tiling->w_max);
    uint32_t group = ork_npu_group(tiling->type);
    if (tiling->channels_cap % group)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "channels_cap %u is no multiple of %u",
                             tiling->channels_cap, group);
    if (tiling->k > ork_npu_k_total_max(tiling->type))
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u inputs: sums are exact up to %u", tiling->k,
                             ork_npu_k_total_max(tiling->type));
    if (tiling->n > UINT32_MAX - group)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u channels are too many", tiling->n);
    if ((unsigned)tiling->output > ORK_NPU_ROWS || (unsigned)tiling->input > ORK_NPU_ROWS)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "unknown surface");
    if (tiling->output == ORK_NPU_ROWS &&
        (tiling->type != ORK_NPU_W8A8 || (tiling->force_input && tiling->input != ORK_NPU_ROWS)))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "results by rows need W8A8 with inputs by rows");
    return ORK_OK;
}

static enum ork_npu_surface choose_input(const struct ork_npu_tiling *tiling, uint32_t k)
{
    if (tiling->force_input)
        return tiling->input;
    return tiling->output == ORK_NPU_ROWS ? ORK_NPU_ROWS : ork_npu_best_input(tiling->type, k, tiling->m);
}

/* The least rows that all slices allow: slices differ by one unit, and limits are not monotone in k. */
static uint32_t rows_of(const struct ork_npu_tiling *tiling, const struct cuts *cuts)
{
    uint32_t shorter = cuts->k_units / cuts->k_parts * K_TILE;
    uint32_t rows = ork_npu_rows_max(tiling->type, cuts->input, shorter);
    if (cuts->k_units % cuts->k_parts) {
        uint32_t other = ork_npu_rows_max(tiling->type, cuts->input, shorter + K_TILE);
        rows = other < rows ? other : rows;
    }
    return rows;
}

static void choose_k(const struct ork_npu_tiling *tiling, struct cuts *cuts)
{
    uint32_t k = cuts->k_units * K_TILE, most = ork_npu_k_max(tiling->type, tiling->a_max, tiling->w_max);
    cuts->k_parts = 1;
    cuts->input = choose_input(tiling, k);
    if (k <= most && (tiling->m == 1 || ork_npu_rows_max(tiling->type, cuts->input, k) > 1))
        return;
    if (tiling->type == ORK_NPU_W8A8 && tiling->m > 1)
        most = SLICE_MAX_I8;
    cuts->k_parts = (uint32_t)ork_divide_up(cuts->k_units, most / K_TILE);
    cuts->input = choose_input(tiling, (uint32_t)ork_divide_up(cuts->k_units, cuts->k_parts) * K_TILE);
}

static ork_status choose_cuts(const struct ork_npu_tiling *tiling, struct cuts *cuts, ork_error *error)
{
    cuts->k_units = (uint32_t)ork_divide_up(tiling->k, K_TILE);
    cuts->group = ork_npu_group(tiling->type);
    cuts->groups = (uint32_t)ork_divide_up(tiling->n, cuts->group);
    choose_k(tiling, cuts);
    uint32_t rows = rows_of(tiling, cuts), channels = ork_npu_n_max(tiling->type);
    if (rows == 0)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u inputs: no task with this input surface", tiling->k);
    if (tiling->rows_cap && tiling->rows_cap < rows)
        rows = tiling->rows_cap;
    if (tiling->channels_cap && tiling->channels_cap < channels)
        channels = tiling->channels_cap;
    cuts->row_parts = (uint32_t)ork_divide_up(tiling->m, rows);
    cuts->groups_per_task = cuts->k_parts > 1 ? 1 : channels / cuts->group;
    return ORK_OK;
}

static uint64_t align(uint64_t offset)
{
    return ork_round_up(offset, ALIGNMENT);
}

static uint64_t input_bytes(const struct ork_npu_shape *shape)
{
    uint64_t codes = (uint64_t)shape->m * shape->k;
    return shape->type == ORK_NPU_W4A4 ? codes / 2 : codes;
}

static uint64_t output_bytes(const struct ork_npu_shape *shape)
{
    return (uint64_t)shape->m * shape->n * (shape->type == ORK_NPU_W4A4 ? 2 : 4);
}

/* Surfaces of A stand one behind the other, by rows, then inputs; each is used by all channels. offsets: [row_parts *
 * k_parts]; returns the end. */
static uint64_t place_inputs(const struct ork_npu_tiling *tiling, const struct cuts *cuts, uint64_t *offsets)
{
    uint64_t end = 0;
    for (uint32_t r = 0; r < cuts->row_parts; r++)
        for (uint32_t s = 0; s < cuts->k_parts; s++) {
            struct ork_npu_shape shape = {.type = tiling->type};
            shape.m = part_begin(tiling->m, cuts->row_parts, r + 1) - part_begin(tiling->m, cuts->row_parts, r);
            shape.k = (part_begin(cuts->k_units, cuts->k_parts, s + 1) - part_begin(cuts->k_units, cuts->k_parts, s)) *
                      K_TILE;
            offsets[(uint64_t)r * cuts->k_parts + s] = end;
            end = align(end + input_bytes(&shape));
        }
    return end;
}

/* All tiles of the channels of `groups` groups from `first` on. */
static void add_tiles(const struct ork_npu_tiling *tiling, const struct cuts *cuts, const uint64_t *a_offsets,
                      uint32_t first, uint32_t groups, struct ork_npu_plan *plan)
{
    for (uint32_t r = 0; r < cuts->row_parts; r++)
        for (uint32_t s = 0; s < cuts->k_parts; s++) {
            uint32_t row = part_begin(tiling->m, cuts->row_parts, r),
                     unit = part_begin(cuts->k_units, cuts->k_parts, s);
            struct ork_npu_tile *tile = &plan->tiles[plan->tile_count++];
            *tile = (struct ork_npu_tile){
                .shape = {.type = tiling->type,
                          .input = cuts->input,
                          .output = tiling->output,
                          .m = part_begin(tiling->m, cuts->row_parts, r + 1) - row,
                          .k = (part_begin(cuts->k_units, cuts->k_parts, s + 1) - unit) * K_TILE,
                          .n = groups * cuts->group},
                .m_begin = row,
                .k_begin = unit * K_TILE,
                .n_begin = first * cuts->group,
                .a_offset = a_offsets[(uint64_t)r * cuts->k_parts + s],
                .b_offset = ((uint64_t)first * cuts->k_units + unit) * BRICK_BYTES,
                .c_offset = plan->c_bytes,
            };
            plan->c_bytes = align(plan->c_bytes + output_bytes(&tile->shape));
        }
}

/* Channel parts of core c of the plan: its groups over as few tasks as possible. */
static uint32_t channel_parts(const struct cuts *cuts, uint32_t groups)
{
    return (uint32_t)ork_divide_up(groups, cuts->groups_per_task);
}

static ork_status count_tiles(const struct cuts *cuts, struct ork_npu_plan *plan, uint32_t *count, ork_error *error)
{
    uint64_t parts = 0, total;
    for (uint32_t c = 0; c < plan->cores; c++)
        parts += channel_parts(cuts,
                               part_begin(cuts->groups, plan->cores, c + 1) - part_begin(cuts->groups, plan->cores, c));
    if (!ork_checked_multiply(parts, cuts->row_parts, &total) || !ork_checked_multiply(total, cuts->k_parts, &total) ||
        total > ORK_NPU_TILES_MAX)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "a matmul of %u x %u x %u is more than %u tasks", plan->m,
                             plan->k, plan->n, ORK_NPU_TILES_MAX);
    *count = (uint32_t)total;
    return ORK_OK;
}

ork_status ork_npu_plan_make(const struct ork_npu_tiling *tiling, struct ork_npu_plan *plan, ork_error *error)
{
    struct cuts cuts = {0};
    uint64_t *a_offsets = NULL;
    uint32_t count = 0;
    *plan = (struct ork_npu_plan){0};
    ork_status status = check_wishes(tiling, error);
    if (status == ORK_OK)
        status = choose_cuts(tiling, &cuts, error);
    if (status != ORK_OK)
        return status;
    plan->type = tiling->type;
    plan->m = tiling->m;
    plan->k = cuts.k_units * K_TILE;
    plan->n = cuts.groups * cuts.group;
    plan->cores = tiling->cores < cuts.groups ? tiling->cores : cuts.groups;
    plan->slices = cuts.k_parts;
    status = count_tiles(&cuts, plan, &count, error);
    if (status != ORK_OK)
        goto out;
    /* Every size is at most 2^20 tiles of at most 8192 x 512 results and 10752 inputs, and B is 2^27 x 2^21 bricks at
     * most: far below 2^64. */
    plan->b_bytes = (uint64_t)cuts.groups * cuts.k_units * BRICK_BYTES;
    uint64_t a_count = (uint64_t)cuts.row_parts * cuts.k_parts;
    plan->tiles = calloc(count, sizeof *plan->tiles);
    a_offsets = malloc(a_count * sizeof *a_offsets);
    if (!plan->tiles || !a_offsets) {
        status = ork_error_no_memory(error, "tasks of a matmul", count * sizeof *plan->tiles);
        goto out;
    }
    plan->a_bytes = place_inputs(tiling, &cuts, a_offsets);
    for (uint32_t c = 0; c < plan->cores; c++) {
        uint32_t begin = part_begin(cuts.groups, plan->cores, c);
        uint32_t groups = part_begin(cuts.groups, plan->cores, c + 1) - begin, parts = channel_parts(&cuts, groups);
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t first = part_begin(groups, parts, p);
            add_tiles(tiling, &cuts, a_offsets, begin + first, part_begin(groups, parts, p + 1) - first, plan);
        }
        plan->core_begin[c + 1] = plan->tile_count;
    }
    for (uint32_t c = plan->cores; c < ORK_NPU_CORES_MAX; c++)
        plan->core_begin[c + 1] = plan->tile_count;
    assert(plan->tile_count == count);
out:
    free(a_offsets);
    if (status != ORK_OK)
        ork_npu_plan_free(plan);
    return status;
}

void ork_npu_plan_free(struct ork_npu_plan *plan)
{
    free(plan->tiles);
    *plan = (struct ork_npu_plan){0};
}
