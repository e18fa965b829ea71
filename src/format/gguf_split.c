/* Owns split GGUF models: names of the parts and the split.* keys that bind them. Must not know the layout inside of
 * a part. Parts are complete GGUF files named <prefix>-00001-of-00003.gguf, counted from 1 in names, from 0 in keys. */
#include "format/gguf_parts.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

enum {
    SUFFIX_BYTES = 20,     /* "-00001-of-00003.gguf" */
    SUFFIX_BYTES_MAX = 40, /* with any two numbers and the NUL */
};

/* Five decimal digits. */
static bool parse_digits(const char *text, uint32_t *number)
{
    *number = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

/* Length of the prefix when `path` is named as part `number` (from 1) of `count`; 0 when it is not. */
static size_t prefix_length(const char *path, uint32_t number, uint32_t count)
{
    size_t length = strlen(path);
    uint32_t named_number, named_count;
    if (length <= SUFFIX_BYTES)
        return 0;
    const char *suffix = path + length - SUFFIX_BYTES;
    if (suffix[0] != '-' || memcmp(suffix + 6, "-of-", 4) != 0 || strcmp(suffix + 15, ".gguf") != 0)
        return 0;
    if (!parse_digits(suffix + 1, &named_number) || !parse_digits(suffix + 10, &named_count))
        return 0;
    return named_number == number && named_count == count ? length - SUFFIX_BYTES : 0;
}

/* Path of part `number` (from 1) in the arena, NULL without memory. */
static char *part_path(struct ork_gguf *gguf, const char *path, size_t prefix, uint32_t number, uint32_t count)
{
    char *result = ork_arena_allocate(&gguf->arena, prefix + SUFFIX_BYTES_MAX);
    if (!result)
        return NULL;
    memcpy(result, path, prefix);
    snprintf(result + prefix, SUFFIX_BYTES_MAX, "-%05u-of-%05u.gguf", number, count);
    return result;
}

/* Of a part that is not the first: says which one it is and which one to open. */
static ork_status refuse_later_part(const struct gguf_part *part, uint32_t index, uint32_t count, ork_error *error)
{
    size_t prefix = prefix_length(part->path, index + 1, count);
    if (prefix == 0)
        return ork_error_set(error, ORK_BAD_FILE, part->path, -1,
                             "this is part %u of %u of a split model; open its first part", index + 1, count);
    const char *name = memrchr(part->path, '/', prefix);
    name = name ? name + 1 : part->path;
    return ork_error_set(error, ORK_BAD_FILE, part->path, -1,
                         "this is part %u of %u of a split model; open '%.*s-00001-of-%05u.gguf'", index + 1, count,
                         (int)(part->path + prefix - name), name, count);
}

ork_status ork_gguf_split_count(const struct ork_gguf *gguf, uint32_t *count, ork_error *error)
{
    const struct gguf_part *first = &gguf->parts[0];
    uint32_t number = 0;
    *count = 1;
    ork_status status = ork_meta_u32(first->meta, "split.count", false, count, error);
    if (status != ORK_OK)
        return status;
    if (*count <= 1) {
        *count = 1;
        return ORK_OK;
    }
    if (*count > ORK_GGUF_PARTS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, first->path, ork_meta_find(first->meta, "split.count")->offset,
                             "'split.count' is %u, the limit is %u", *count, ORK_GGUF_PARTS_MAX);
    status = ork_meta_u32(first->meta, "split.no", true, &number, error);
    if (status == ORK_OK && number >= *count)
        status = ork_error_set(error, ORK_BAD_FILE, first->path, ork_meta_find(first->meta, "split.no")->offset,
                               "'split.no' is %u, but 'split.count' is %u", number, *count);
    if (status == ORK_OK && number != 0)
        status = refuse_later_part(first, number, *count, error);
    return status;
}

/* The keys and the alignment of a later part must fit the first. */
static ork_status check_later_part(const struct ork_gguf *gguf, uint32_t index, ork_error *error)
{
    const struct gguf_part *first = &gguf->parts[0], *part = &gguf->parts[index];
    uint32_t number = 0, count = gguf->part_count;
    ork_status status = ork_meta_u32(part->meta, "split.no", true, &number, error);
    if (status == ORK_OK)
        status = ork_meta_u32(part->meta, "split.count", false, &count, error);
    if (status != ORK_OK)
        return status;
    if (number != index || count != gguf->part_count)
        return ork_error_set(error, ORK_BAD_FILE, part->path, ork_meta_find(part->meta, "split.no")->offset,
                             "this should be part %u of %u, but by its keys it is part %u of %u", index + 1,
                             gguf->part_count, number + 1, count);
    /* llama.cpp reads such a part with the default alignment, gguf-py writes it with the first part's. A guess could
     * silently shift all of its weights. */
    uint64_t other_start;
    if (part->tensor_count && part->alignment_is_default && !first->alignment_is_default &&
        ork_checked_align(part->header_end, first->alignment, &other_start) && other_start != part->data_start)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)part->header_end,
                             "ambiguous start of tensor data: part 1 has 'general.alignment' %u, this part has none",
                             first->alignment);
    return ORK_OK;
}

/* Total of tensors over all parts against the first part's key. */
static ork_status check_tensor_total(const struct ork_gguf *gguf, ork_error *error)
{
    const struct gguf_part *first = &gguf->parts[0];
    static const char key[] = "split.tensors.count";
    uint32_t wanted = 0;
    uint64_t total = 0;
    ork_status status = ork_meta_u32(first->meta, key, true, &wanted, error);
    if (status != ORK_OK)
        return status;
    for (uint32_t i = 0; i < gguf->part_count; i++)
        total += gguf->parts[i].tensor_count;
    if (total != wanted)
        return ork_error_set(error, ORK_BAD_FILE, first->path, ork_meta_find(first->meta, key)->offset,
                             "'%s' is %u, but the %u parts hold %llu tensors", key, wanted, gguf->part_count,
                             (unsigned long long)total);
    if (total > ORK_GGUF_TENSORS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, first->path, -1, "%llu tensors are more than the limit of %llu",
                             (unsigned long long)total, (unsigned long long)ORK_GGUF_TENSORS_MAX);
    return ORK_OK;
}

ork_status ork_gguf_open_split(struct ork_gguf *gguf, uint32_t count, ork_error *error)
{
    const char *path = gguf->parts[0].path;
    size_t prefix = prefix_length(path, 1, count);
    if (prefix == 0)
        return ork_error_set(
            error, ORK_BAD_FILE, path, -1,
            "this is part 1 of %u of a split model, but its name does not end in '-00001-of-%05u.gguf'", count, count);
    struct gguf_part *parts = ork_arena_array(&gguf->arena, count, sizeof parts[0]);
    if (!parts)
        return ork_error_no_memory(error, path, count * sizeof parts[0]);
    parts[0] = gguf->parts[0];
    gguf->parts = parts;
    gguf->part_count = count;
    for (uint32_t i = 1; i < count; i++) {
        ork_error inner = {0};
        char *later = part_path(gguf, path, prefix, i + 1, count);
        if (!later)
            return ork_error_no_memory(error, path, prefix + SUFFIX_BYTES_MAX);
        ork_status status = ork_gguf_open_part(gguf, i, later, &inner);
        if (status == ORK_OK)
            status = check_later_part(gguf, i, &inner);
        if (status != ORK_OK)
            return ork_error_set(error, status, inner.where, inner.offset, "part %u of %u: %s", i + 1, count,
                                 inner.what);
    }
    return check_tensor_total(gguf, error);
}
