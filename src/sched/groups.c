/* Owns sizes and sums of op groups. Must not know speeds or files. */
#include "sched/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

const char *ork_group_kind_name(enum ork_group_kind kind)
{
    static const char *const names[ORK_GROUP_KIND_COUNT] = {
        [ORK_GROUP_ATTENTION_IN] = "attention in",
        [ORK_GROUP_ATTENTION_OUT] = "attention out",
        [ORK_GROUP_CONVOLUTION_IN] = "convolution in",
        [ORK_GROUP_CONVOLUTION_OUT] = "convolution out",
        [ORK_GROUP_DELTA_IN] = "delta in",
        [ORK_GROUP_DELTA_OUT] = "delta out",
        [ORK_GROUP_DENSE_UP] = "dense up",
        [ORK_GROUP_DENSE_DOWN] = "dense down",
        [ORK_GROUP_ROUTER] = "router",
        [ORK_GROUP_EXPERT_UP] = "experts up",
        [ORK_GROUP_EXPERT_DOWN] = "experts down",
        [ORK_GROUP_HEAD] = "head",
    };
    return names[kind];
}

void ork_model_shape_free(struct ork_model_shape *shape)
{
    free(shape->groups);
    free(shape->layers);
    shape->groups = NULL;
    shape->layers = NULL;
    shape->group_count = 0;
}

bool ork_group_add(struct ork_group *group, const char *name, enum ork_tier tier, uint32_t n, uint32_t k,
                   uint32_t experts, uint32_t experts_used, float sensitivity, bool residual)
{
    struct ork_tier_sizes sizes, base;
    if (group->member_count == ORK_GROUP_MEMBERS_MAX || !ork_tier_sizes(tier, n, k, &sizes) ||
        !ork_tier_sizes(tier == ORK_TIER_N8 ? ORK_TIER_NF4 : tier, n, k, &base))
        return false;
    struct ork_group_member *member = &group->members[group->member_count++];
    *member = (struct ork_group_member){
        .n = n,
        .k = k,
        .experts = experts ? experts : 1,
        .experts_used = experts ? experts_used : 1,
        .tier = tier,
        .bytes = sizes.data_bytes + sizes.scale_bytes,
        .base_bytes = base.data_bytes + base.scale_bytes,
        .sensitivity = sensitivity,
        .residual = residual,
    };
    strncpy(member->name, name, sizeof member->name - 1);
    for (uint32_t part = 0; part < ORK_GROUP_PARTS; part++)
        member->part_share[part] =
            (float)(ork_group_part_channels(member, part + 1) - ork_group_part_channels(member, part)) / (float)n;
    return true;
}

double ork_group_distinct(uint32_t experts, uint32_t used, double rows)
{
    if (used >= experts)
        return experts;
    if (rows <= 1)
        return used * rows;
    /* 1 - (1 - u/e)^rows by squaring: rows are whole numbers in practice, and no library's pow decides a route. */
    const double miss = 1.0 - (double)used / experts;
    double power = 1, factor = miss;
    for (uint64_t n = (uint64_t)rows; n; n >>= 1, factor *= factor)
        if (n & 1)
            power *= factor;
    return experts * (1.0 - power);
}

double ork_group_bytes(const struct ork_group *group, double rows, bool base)
{
    double bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct ork_group_member *member = &group->members[i];
        bytes += ork_group_distinct(member->experts, member->experts_used, rows) *
                 (double)(base ? member->base_bytes : member->bytes);
    }
    return bytes;
}

double ork_group_macs(const struct ork_group *group, double rows)
{
    double macs = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        macs += rows * group->members[i].experts_used * (double)group->members[i].n * group->members[i].k;
    return macs;
}

uint64_t ork_group_token_bytes(const struct ork_group *group, bool base)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < group->member_count; i++)
        bytes += group->members[i].experts_used * (base ? group->members[i].base_bytes : group->members[i].bytes);
    return bytes;
}

uint64_t ork_model_shape_token_bytes(const struct ork_model_shape *shape, bool base)
{
    uint64_t bytes = shape->embedding_bytes + shape->vector_bytes;
    for (size_t i = 0; i < shape->group_count; i++)
        bytes += ork_group_token_bytes(&shape->groups[i], base);
    return bytes;
}

uint64_t ork_model_shape_weight_bytes(const struct ork_model_shape *shape)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < shape->group_count; i++)
        for (uint32_t j = 0; j < shape->groups[i].member_count; j++)
            bytes += shape->groups[i].members[j].experts * shape->groups[i].members[j].bytes;
    return bytes;
}

uint64_t ork_model_shape_kv_bytes(const struct ork_model_shape *shape)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->layer_count; i++)
        bytes += shape->layers[i].kv_bytes;
    return bytes;
}

uint64_t ork_model_shape_state_bytes(const struct ork_model_shape *shape)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->layer_count; i++)
        bytes += shape->layers[i].state_bytes;
    return bytes;
}

uint64_t ork_group_brick_bytes(const struct ork_group_member *member)
{
    const struct ork_tier_info *tier = ork_tier_find(member->tier);
    struct ork_tier_sizes sizes = {0, 0, 0};
    uint64_t n = member->n;
    if (tier && tier->brick_bytes)
        n = ork_round_up(n, tier->brick_channels);
    return ork_tier_sizes(ORK_TIER_I8, n, member->k, &sizes) ? sizes.data_bytes : UINT64_MAX;
}

uint32_t ork_group_part_channels(const struct ork_group_member *member, uint32_t parts)
{
    const uint64_t channels = ork_round_up(ork_divide_up((uint64_t)member->n * parts, ORK_GROUP_PARTS), 32);
    return channels < member->n ? (uint32_t)channels : member->n;
}

uint64_t ork_group_part_bytes(const struct ork_group_member *member, uint32_t parts)
{
    return ork_round_up(ork_group_part_channels(member, parts), 32) * ork_round_up(member->k, 32);
}
