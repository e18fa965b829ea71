/* Owns the order of a matrix's channels by what they lack. Must not know plans, engines, or why a chain is short. */
#include "model/channels.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "model/groups.h"

struct channel {
    float scale; /* its size */
    uint32_t index;
};

static int compare(const void *a, const void *b)
{
    const struct channel *x = a, *y = b;
    if (x->scale != y->scale)
        return x->scale > y->scale ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

ork_status ork_channels_rank(const struct ork_matrix *matrix, uint32_t *order, ork_error *error)
{
    const float *scales = (const float *)(const void *)matrix->scales;
    struct channel *channels = malloc(matrix->n * sizeof *channels);
    if (!channels)
        return ork_error_no_memory(error, matrix->name, matrix->n * sizeof *channels);
    for (uint32_t i = 0; i < matrix->n; i++)
        channels[i] = (struct channel){fabsf(scales[i]), i};
    qsort(channels, matrix->n, sizeof *channels, compare);
    for (uint32_t i = 0; i < matrix->n; i++)
        order[i] = channels[i].index;
    free(channels);
    return ORK_OK;
}

static ork_status fill_member(const struct ork_matrix *matrix, struct ork_group_member *member, ork_error *error)
{
    const float *scales = (const float *)(const void *)matrix->scales;
    uint32_t *order = malloc(matrix->n * sizeof *order);
    if (!order)
        return ork_error_no_memory(error, matrix->name, matrix->n * sizeof *order);
    ork_status status = ork_channels_rank(matrix, order, error);
    double sums[ORK_GROUP_PARTS], all = 0;
    for (uint32_t part = 0, i = 0; part < ORK_GROUP_PARTS && !status; part++) {
        sums[part] = 0;
        for (const uint32_t end = ork_group_part_channels(member, part + 1); i < end; i++)
            sums[part] += (double)scales[order[i]] * (double)scales[order[i]];
        all += sums[part];
    }
    /* A matrix of zeros lacks nothing; its parts stay even. */
    for (uint32_t part = 0; part < ORK_GROUP_PARTS && !status && all > 0; part++)
        member->part_share[part] = (float)(sums[part] / all);
    free(order);
    return status;
}

ork_status ork_channels_fill_shares(const struct ork_model *model, struct ork_model_shape *shape, ork_error *error)
{
    for (size_t i = 0; i < shape->group_count; i++) {
        struct ork_group *group = &shape->groups[i];
        for (uint32_t j = 0; j < group->member_count; j++) {
            struct ork_group_member *member = &group->members[j];
            if (member->tier != ORK_TIER_N8 || member->experts > 1)
                continue;
            const ork_status status = fill_member(ork_model_group_matrix(model, group, j), member, error);
            if (status)
                return status;
        }
    }
    return ORK_OK;
}
