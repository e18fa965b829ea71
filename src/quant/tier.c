/* Describes the tiers: names, layouts, plane sizes. Owns the size formulas that encoder, reader and kernels share; knows
 * no arithmetic on weights. */
#include "quant/tier.h"

#include "base/checked.h"

#include <string.h>

#define BRICK_K 32u
#define NF4_TABLE_BYTES 16u

static const struct ork_tier_info tiers[] = {
    {ORK_TIER_F32, "f32", ORK_LAYOUT_ROWS, 1, false, 32.0, 0},
    {ORK_TIER_F16, "f16", ORK_LAYOUT_ROWS, 1, false, 16.0, 0},
    {ORK_TIER_BF16, "bf16", ORK_LAYOUT_ROWS, 1, false, 16.0, 0},
    {ORK_TIER_G8, "g8", ORK_LAYOUT_ROWS, 1, true, 8.0, 0},
    {ORK_TIER_I8, "i8", ORK_LAYOUT_BRICK32, 32, true, 8.0, 1024},
    {ORK_TIER_I4, "i4", ORK_LAYOUT_BRICK64, 64, true, 4.0, 1024},
    {ORK_TIER_NF4, "nf4", ORK_LAYOUT_BRICK64, 64, true, 4.0, 1024},
    {ORK_TIER_I5, "i5", ORK_LAYOUT_BRICK64_5, 64, true, 5.0, 1280},
    {ORK_TIER_I6, "i6", ORK_LAYOUT_BRICK64_6, 64, true, 6.0, 1536},
    {ORK_TIER_N8, "n8", ORK_LAYOUT_BRICK64_PAIR, 64, true, 8.0, 1024},
};

const struct ork_tier_info *ork_tier_find(uint32_t tier)
{
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++)
        if ((uint32_t)tiers[i].tier == tier)
            return &tiers[i];
    return NULL;
}

const struct ork_tier_info *ork_tier_find_name(const char *name)
{
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++)
        if (strcmp(tiers[i].name, name) == 0)
            return &tiers[i];
    return NULL;
}

/* Rows of `row_bytes` bytes each. */
static bool row_sizes(uint64_t n, uint64_t k, uint64_t element_bytes, struct ork_tier_sizes *sizes)
{
    uint64_t row_bytes;
    return ork_checked_multiply(k, element_bytes, &row_bytes) && ork_checked_multiply(n, row_bytes, &sizes->data_bytes);
}

static bool g8_sizes(uint64_t n, uint64_t k, struct ork_tier_sizes *sizes)
{
    uint64_t k_padded;
    return ork_checked_align(k, BRICK_K, &k_padded) && ork_checked_multiply(n, k_padded, &sizes->data_bytes) &&
           ork_checked_multiply(n, k_padded / BRICK_K * sizeof(uint16_t), &sizes->scale_bytes);
}

static bool brick_sizes(enum ork_tier tier, uint64_t n, uint64_t k, struct ork_tier_sizes *sizes)
{
    const struct ork_tier_info *info = ork_tier_find(tier);
    uint64_t channels = info->brick_channels, k_padded, n_padded, bricks;
    return ork_checked_align(k, BRICK_K, &k_padded) && ork_checked_align(n, channels, &n_padded) &&
           ork_checked_multiply(n_padded / channels, k_padded / BRICK_K, &bricks) &&
           ork_checked_multiply(bricks, info->brick_bytes, &sizes->data_bytes) &&
           ork_checked_multiply(n_padded, sizeof(float), &sizes->scale_bytes);
}

/* Two runs of bricks, the second on a page of its own. */
static bool nested_sizes(uint64_t n, uint64_t k, struct ork_tier_sizes *sizes)
{
    uint64_t second;
    sizes->table_bytes = NF4_TABLE_BYTES;
    return brick_sizes(ORK_TIER_N8, n, k, sizes) &&
           ork_checked_align(sizes->data_bytes, ORK_ORKPACK_ALIGNMENT, &second) &&
           ork_checked_add(second, sizes->data_bytes, &sizes->data_bytes);
}

bool ork_tier_sizes(enum ork_tier tier, uint64_t n, uint64_t k, struct ork_tier_sizes *sizes)
{
    *sizes = (struct ork_tier_sizes){0};
    switch (tier) {
    case ORK_TIER_F32:
        return row_sizes(n, k, sizeof(float), sizes);
    case ORK_TIER_F16:
    case ORK_TIER_BF16:
        return row_sizes(n, k, sizeof(uint16_t), sizes);
    case ORK_TIER_G8:
        return g8_sizes(n, k, sizes);
    case ORK_TIER_NF4:
        sizes->table_bytes = NF4_TABLE_BYTES;
        return brick_sizes(tier, n, k, sizes);
    case ORK_TIER_N8:
        return nested_sizes(n, k, sizes);
    case ORK_TIER_I8:
    case ORK_TIER_I4:
    case ORK_TIER_I5:
    case ORK_TIER_I6:
        return brick_sizes(tier, n, k, sizes);
    default:
        return false;
    }
}

bool ork_tier_plan_planes(struct ork_orkpack_tensor *tensor)
{
    const struct ork_tier_info *info = ork_tier_find(tensor->tier);
    struct ork_orkpack_plane *planes = tensor->planes;
    struct ork_tier_sizes sizes;
    uint64_t experts, stride, before;

    memset(planes, 0, sizeof(tensor->planes));
    if (info == NULL || tensor->dimensions[0] == 0 || tensor->dimensions[1] == 0 || tensor->dimensions[2] == 0 ||
        tensor->dimensions[3] != 1)
        return false;
    experts = tensor->dimensions[2];
    tensor->layout = info->layout;
    if (!ork_tier_sizes(info->tier, tensor->dimensions[1], tensor->dimensions[0], &sizes) ||
        !ork_checked_align(sizes.data_bytes, ORK_ORKPACK_ALIGNMENT, &stride) ||
        !ork_checked_multiply(stride, experts - 1, &before) ||
        !ork_checked_add(before, sizes.data_bytes, &planes[ORK_PLANE_DATA].size_bytes) ||
        !ork_checked_multiply(sizes.scale_bytes, experts, &planes[ORK_PLANE_SCALES].size_bytes))
        return false;
    planes[ORK_PLANE_DATA].expert_stride_bytes = stride;
    planes[ORK_PLANE_SCALES].expert_stride_bytes = sizes.scale_bytes;
    planes[ORK_PLANE_TABLE].size_bytes = sizes.table_bytes;
    return true;
}
