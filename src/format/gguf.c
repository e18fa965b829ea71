/* Owns the GGUF container: header, tensor descriptions, ranges of tensor data, look-up. Must not know what tensors
 * mean or how their blocks are decoded. */
#include "format/gguf_parts.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION_MIN = 2, VERSION_MAX = 3 };

/* ---- header ---- */

static ork_status check_version(struct gguf_part *part, uint32_t version, ork_error *error)
{
    /* There is no byte-order mark: a small number that was written in the other order has its low half zero. */
    if (version != 0 && (version & 0xffff) == 0)
        return ork_error_set(error, ORK_UNSUPPORTED, part->path, 4,
                             "a big-endian GGUF file (version %u); only little-endian ones are supported, "
                             "gguf-convert-endian converts it",
                             __builtin_bswap32(version));
    if (version == 1)
        return ork_error_set(error, ORK_UNSUPPORTED, part->path, 4,
                             "GGUF version 1 (32-bit counts) is not supported, only versions %d and %d", VERSION_MIN,
                             VERSION_MAX);
    if (version < VERSION_MIN || version > VERSION_MAX)
        return ork_error_set(error, version ? ORK_UNSUPPORTED : ORK_BAD_FILE, part->path, 4,
                             "unknown GGUF version %u, supported are versions %d and %d", version, VERSION_MIN,
                             VERSION_MAX);
    part->version = version;
    return ORK_OK;
}

static ork_status parse_header(struct gguf_part *part, struct ork_cursor *cursor, uint64_t *pair_count,
                               ork_error *error)
{
    uint32_t magic, version;
    uint64_t tensor_count;
    ork_status status = ork_gguf_check_magic(part->data, part->size_bytes, part->path, error);
    if (status != ORK_OK)
        return status;
    if (!ork_cursor_u32(cursor, &magic) || !ork_cursor_u32(cursor, &version))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)cursor->position,
                             "the file ends inside the GGUF version");
    status = check_version(part, version, error);
    if (status != ORK_OK)
        return status;
    if (!ork_cursor_u64(cursor, &tensor_count) || !ork_cursor_u64(cursor, pair_count))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)cursor->position,
                             "the file ends inside the GGUF header");
    /* Counts are checked against the bytes that could hold them before anything is allocated. */
    if (tensor_count > ORK_GGUF_TENSORS_MAX || tensor_count > ork_cursor_left(cursor) / GGUF_TENSOR_BYTES_MIN)
        return ork_error_set(error, ORK_BAD_FILE, part->path, 8,
                             "tensor count %llu does not fit in the %llu bytes left (limit %llu)",
                             (unsigned long long)tensor_count, (unsigned long long)ork_cursor_left(cursor),
                             (unsigned long long)ORK_GGUF_TENSORS_MAX);
    part->tensor_count = tensor_count;
    return ORK_OK;
}

/* The power of two within bounds that is nearest below or at the wrong one. */
static uint32_t nearest_alignment(uint64_t wrong)
{
    uint32_t nearest = GGUF_ALIGNMENT_MIN;
    while (nearest < GGUF_ALIGNMENT_MAX && (uint64_t)nearest * 2 <= wrong)
        nearest *= 2;
    return nearest;
}

static ork_status read_alignment(struct gguf_part *part, ork_error *error)
{
    static const char key[] = "general.alignment";
    const struct ork_meta_value *value = ork_meta_find(part->meta, key);
    part->alignment = GGUF_ALIGNMENT_DEFAULT;
    part->alignment_is_default = !value;
    if (!value)
        return ORK_OK;
    if (value->type != ORK_META_U32)
        return ork_error_set(error, ORK_BAD_FILE, part->path, value->offset,
                             "metadata key '%s' has type %s, it must be u32", key, ork_meta_type_name(value->type));
    ork_status status = ork_meta_u32(part->meta, key, true, &part->alignment, error);
    if (status != ORK_OK)
        return status;
    uint32_t alignment = part->alignment;
    if (alignment < GGUF_ALIGNMENT_MIN || alignment > GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return ork_error_set(error, ORK_BAD_FILE, part->path, value->offset,
                             "bad alignment %u in '%s': it must be a power of two from %u to %u, nearest: %u",
                             alignment, key, GGUF_ALIGNMENT_MIN, GGUF_ALIGNMENT_MAX, nearest_alignment(alignment));
    return ORK_OK;
}

/* ---- tensor descriptions ---- */

static ork_status parse_name(struct ork_gguf *gguf, const struct gguf_part *part, struct ork_cursor *cursor,
                             size_t index, const char **name, ork_error *error)
{
    uint64_t length, start = cursor->position;
    const uint8_t *bytes = NULL;
    if (ork_cursor_u64(cursor, &length)) {
        if (length == 0)
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "tensor %zu of %zu has an empty name",
                                 index + 1, part->tensor_count);
        if (length > GGUF_NAME_BYTES_MAX)
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                                 "name of tensor %zu of %zu has %llu bytes, the limit is %u", index + 1,
                                 part->tensor_count, (unsigned long long)length, GGUF_NAME_BYTES_MAX);
        bytes = ork_cursor_take(cursor, length);
    }
    if (!bytes)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                             "the file ends inside the name of tensor %zu of %zu", index + 1, part->tensor_count);
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] < 0x20 || bytes[i] > 0x7e)
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)(start + 8 + i),
                                 "byte 0x%02x in the name of tensor %zu of %zu is not printable ASCII", bytes[i],
                                 index + 1, part->tensor_count);
    *name = ork_arena_string(&gguf->arena, (const char *)bytes, length);
    return *name ? ORK_OK : ork_error_no_memory(error, part->path, length + 1);
}

/* Reads n_dims and the dimensions; *elements is their product, at least 1 and at most INT64_MAX. */
static ork_status parse_shape(const struct gguf_part *part, struct ork_cursor *cursor, struct ork_gguf_tensor *tensor,
                              uint64_t *elements, ork_error *error)
{
    uint64_t start = cursor->position;
    if (!ork_cursor_u32(cursor, &tensor->dimension_count))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "the file ends inside tensor '%s'",
                             tensor->name);
    if (tensor->dimension_count > GGUF_DIMENSIONS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                             "tensor '%s' has %u dimensions, the limit is %u", tensor->name, tensor->dimension_count,
                             GGUF_DIMENSIONS_MAX);
    *elements = 1;
    for (uint32_t i = 0; i < GGUF_DIMENSIONS_MAX; i++)
        tensor->dimensions[i] = 1;
    for (uint32_t i = 0; i < tensor->dimension_count; i++) {
        uint64_t *dimension = &tensor->dimensions[i];
        start = cursor->position;
        if (!ork_cursor_u64(cursor, dimension))
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "the file ends inside tensor '%s'",
                                 tensor->name);
        if (*dimension == 0 || *dimension > INT64_MAX)
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "tensor '%s': bad dimension %u: %lld",
                                 tensor->name, i, (long long)*dimension);
        if (!ork_checked_multiply(*elements, *dimension, elements) || *elements > INT64_MAX)
            return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                                 "tensor '%s': the product of its dimensions is too large (dimension %u is %llu)",
                                 tensor->name, i, (unsigned long long)*dimension);
    }
    return ORK_OK;
}

/* Type id, block size and byte size of a tensor with `elements` elements. */
static ork_status parse_type(const struct gguf_part *part, struct ork_cursor *cursor, struct ork_gguf_tensor *tensor,
                             uint64_t elements, ork_error *error)
{
    uint64_t start = cursor->position;
    if (!ork_cursor_u32(cursor, &tensor->type))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "the file ends inside tensor '%s'",
                             tensor->name);
    const struct ork_ggml_type_info *type = ork_ggml_type_find(tensor->type);
    if (!type)
        return ork_gguf_refuse_type(tensor->type, tensor->name, part->path, start, error);
    if (tensor->dimensions[0] % type->block_length != 0)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                             "tensor '%s': dimension 0 is %llu, no multiple of the %u elements of a %s block",
                             tensor->name, (unsigned long long)tensor->dimensions[0], type->block_length, type->name);
    if (!ork_checked_multiply(elements / type->block_length, type->block_bytes, &tensor->size_bytes) ||
        tensor->size_bytes > INT64_MAX)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                             "tensor '%s': the size of %llu %s elements is too large", tensor->name,
                             (unsigned long long)elements, type->name);
    return ORK_OK;
}

static ork_status parse_tensor(struct ork_gguf *gguf, const struct gguf_part *part, struct ork_cursor *cursor,
                               size_t index, ork_error *error)
{
    struct ork_gguf_tensor *tensor = &part->tensors[index];
    uint64_t elements = 1;
    tensor->part = (uint32_t)(part - gguf->parts);
    ork_status status = parse_name(gguf, part, cursor, index, &tensor->name, error);
    if (status == ORK_OK)
        status = parse_shape(part, cursor, tensor, &elements, error);
    if (status == ORK_OK)
        status = parse_type(part, cursor, tensor, elements, error);
    if (status != ORK_OK)
        return status;
    uint64_t start = cursor->position;
    if (!ork_cursor_u64(cursor, &tensor->offset_bytes))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start, "the file ends inside tensor '%s'",
                             tensor->name);
    if (tensor->offset_bytes % part->alignment != 0)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)start,
                             "tensor '%s': offset %llu is no multiple of the alignment %u", tensor->name,
                             (unsigned long long)tensor->offset_bytes, part->alignment);
    return ORK_OK;
}

/* ---- tensor data ---- */

static int compare_offsets(const void *a, const void *b)
{
    const struct ork_gguf_tensor *x = *(const struct ork_gguf_tensor *const *)a;
    const struct ork_gguf_tensor *y = *(const struct ork_gguf_tensor *const *)b;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

static ork_status check_overlaps(const struct gguf_part *part, ork_error *error)
{
    size_t count = part->tensor_count;
    if (count < 2)
        return ORK_OK;
    const struct ork_gguf_tensor **order = malloc(count * sizeof *order);
    if (!order)
        return ork_error_no_memory(error, part->path, count * sizeof *order);
    ork_status status = ORK_OK;
    for (size_t i = 0; i < count; i++)
        order[i] = &part->tensors[i];
    qsort(order, count, sizeof *order, compare_offsets);
    for (size_t i = 1; i < count && status == ORK_OK; i++) {
        const struct ork_gguf_tensor *before = order[i - 1], *after = order[i];
        if (after->offset_bytes < before->offset_bytes + before->size_bytes)
            status = ork_error_set(
                error, ORK_BAD_FILE, part->path, (int64_t)after->offset_bytes,
                "tensors '%s' and '%s' overlap: the first ends at byte %llu, the second starts at %llu", before->name,
                after->name, (unsigned long long)(before->offset_bytes + before->size_bytes),
                (unsigned long long)after->offset_bytes);
    }
    free(order);
    return status;
}

/* Turns offsets from the data section into offsets in the file and refuses what does not lie in it. The padding behind
 * the last tensor may be missing: writers leave it out. */
static ork_status place_tensors(struct gguf_part *part, ork_error *error)
{
    if (!ork_checked_align(part->header_end, part->alignment, &part->data_start))
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)part->header_end, "no room for tensor data");
    for (size_t i = 0; i < part->tensor_count; i++) {
        struct ork_gguf_tensor *tensor = &part->tensors[i];
        uint64_t begin, end;
        if (!ork_checked_add(part->data_start, tensor->offset_bytes, &begin) ||
            !ork_checked_add(begin, tensor->size_bytes, &end))
            return ork_error_set(error, ORK_BAD_FILE, part->path, -1,
                                 "tensor '%s': offset %llu and size %llu are too large", tensor->name,
                                 (unsigned long long)tensor->offset_bytes, (unsigned long long)tensor->size_bytes);
        if (end > part->size_bytes)
            return ork_error_set(
                error, ORK_BAD_FILE, part->path, (int64_t)(begin < part->size_bytes ? begin : part->size_bytes),
                "tensor '%s' needs bytes %llu to %llu, but the file ends at %llu: cut off, or a "
                "download not finished",
                tensor->name, (unsigned long long)begin, (unsigned long long)end, (unsigned long long)part->size_bytes);
        tensor->data = part->data + begin;
        tensor->offset_bytes = begin;
    }
    return check_overlaps(part, error);
}

ork_status ork_gguf_parse_part(struct ork_gguf *gguf, uint32_t index, ork_error *error)
{
    struct gguf_part *part = &gguf->parts[index];
    struct ork_cursor cursor = ork_cursor_make(part->data, part->size_bytes);
    uint64_t pair_count;
    ork_status status = parse_header(part, &cursor, &pair_count, error);
    if (status == ORK_OK)
        status = ork_meta_parse(&cursor, pair_count, part->path, &part->meta, error);
    if (status == ORK_OK)
        status = read_alignment(part, error);
    if (status != ORK_OK)
        return status;
    if (part->tensor_count > ork_cursor_left(&cursor) / GGUF_TENSOR_BYTES_MIN)
        return ork_error_set(error, ORK_BAD_FILE, part->path, (int64_t)cursor.position,
                             "tensor count %zu does not fit in the %llu bytes left", part->tensor_count,
                             (unsigned long long)ork_cursor_left(&cursor));
    part->tensors = ork_arena_array(&gguf->arena, part->tensor_count, sizeof part->tensors[0]);
    if (!part->tensors)
        return ork_error_no_memory(error, part->path, part->tensor_count * sizeof part->tensors[0]);
    for (size_t i = 0; i < part->tensor_count; i++) {
        status = parse_tensor(gguf, part, &cursor, i, error);
        if (status != ORK_OK)
            return status;
    }
    part->header_end = cursor.position;
    return place_tensors(part, error);
}

/* ---- the whole model ---- */

/* By name; equal names in file order. */
static int compare_names(const void *a, const void *b)
{
    const struct ork_gguf_tensor *x = *(const struct ork_gguf_tensor *const *)a;
    const struct ork_gguf_tensor *y = *(const struct ork_gguf_tensor *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

/* Joins the parts' tensors into one list and sorts an index by name; refuses names that stand twice. */
static ork_status index_tensors(struct ork_gguf *gguf, ork_error *error)
{
    const char *path = gguf->parts[0].path;
    size_t count = 0;
    for (uint32_t i = 0; i < gguf->part_count; i++)
        count += gguf->parts[i].tensor_count;
    gguf->tensors = ork_arena_array(&gguf->arena, count, sizeof gguf->tensors[0]);
    gguf->sorted = ork_arena_array(&gguf->arena, count, sizeof gguf->sorted[0]);
    if (!gguf->tensors || !gguf->sorted)
        return ork_error_no_memory(error, path, count * sizeof gguf->tensors[0]);
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        const struct gguf_part *part = &gguf->parts[i];
        if (part->tensor_count)
            memcpy(gguf->tensors + gguf->tensor_count, part->tensors, part->tensor_count * sizeof part->tensors[0]);
        gguf->tensor_count += part->tensor_count;
    }
    for (size_t i = 0; i < count; i++)
        gguf->sorted[i] = &gguf->tensors[i];
    if (count)
        qsort(gguf->sorted, count, sizeof gguf->sorted[0], compare_names);
    for (size_t i = 1; i < count; i++) {
        const struct ork_gguf_tensor *first = gguf->sorted[i - 1], *second = gguf->sorted[i];
        if (strcmp(first->name, second->name) == 0)
            return ork_error_set(error, ORK_BAD_FILE, gguf->parts[second->part].path, (int64_t)second->offset_bytes,
                                 "tensor '%s' stands twice: data at byte %llu of part %u and at byte %llu of part %u",
                                 first->name, (unsigned long long)first->offset_bytes, first->part + 1,
                                 (unsigned long long)second->offset_bytes, second->part + 1);
    }
    return ORK_OK;
}

/* A model with room for its first part; a split one gets more later. */
static ork_status create(const char *where, struct ork_gguf **gguf, ork_error *error)
{
    *gguf = calloc(1, sizeof **gguf);
    if (!*gguf)
        return ork_error_no_memory(error, where, sizeof **gguf);
    (*gguf)->parts = ork_arena_array(&(*gguf)->arena, 1, sizeof(struct gguf_part));
    if (!(*gguf)->parts) {
        ork_gguf_close(*gguf);
        *gguf = NULL;
        return ork_error_no_memory(error, where, sizeof(struct gguf_part));
    }
    (*gguf)->part_count = 1;
    return ORK_OK;
}

ork_status ork_gguf_open_part(struct ork_gguf *gguf, uint32_t index, const char *path, ork_error *error)
{
    struct gguf_part *part = &gguf->parts[index];
    part->path = ork_arena_string(&gguf->arena, path, strlen(path));
    if (!part->path)
        return ork_error_no_memory(error, path, strlen(path) + 1);
    ork_status status = ork_file_map(path, &part->mapping, error);
    if (status != ORK_OK)
        return status;
    part->data = part->mapping.data;
    part->size_bytes = part->mapping.size_bytes;
    return ork_gguf_parse_part(gguf, index, error);
}

ork_status ork_gguf_open(const char *path, ork_gguf **out, ork_error *error)
{
    struct ork_gguf *gguf;
    uint32_t count = 1;
    *out = NULL;
    ork_status status = create(path, &gguf, error);
    if (status != ORK_OK)
        return status;
    status = ork_gguf_open_part(gguf, 0, path, error);
    if (status == ORK_OK)
        status = ork_gguf_split_count(gguf, &count, error);
    if (status == ORK_OK && count > 1)
        status = ork_gguf_open_split(gguf, count, error);
    if (status == ORK_OK)
        status = index_tensors(gguf, error);
    if (status == ORK_OK)
        *out = gguf;
    else
        ork_gguf_close(gguf);
    return status;
}

ork_status ork_gguf_parse(const void *data, uint64_t size_bytes, const char *where, ork_gguf **out, ork_error *error)
{
    struct ork_gguf *gguf;
    uint32_t count = 1;
    *out = NULL;
    ork_status status = create(where, &gguf, error);
    if (status != ORK_OK)
        return status;
    struct gguf_part *part = &gguf->parts[0];
    part->path = ork_arena_string(&gguf->arena, where ? where : "", where ? strlen(where) : 0);
    part->data = data;
    part->size_bytes = size_bytes;
    status = part->path ? ork_gguf_parse_part(gguf, 0, error) : ork_error_no_memory(error, where, 1);
    if (status == ORK_OK)
        status = ork_gguf_split_count(gguf, &count, error);
    if (status == ORK_OK && count > 1)
        status = ork_error_set(error, ORK_UNSUPPORTED, where, -1,
                               "part 1 of %u of a split model; split models can only be opened by path", count);
    if (status == ORK_OK)
        status = index_tensors(gguf, error);
    if (status == ORK_OK)
        *out = gguf;
    else
        ork_gguf_close(gguf);
    return status;
}

void ork_gguf_close(ork_gguf *gguf)
{
    if (!gguf)
        return;
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        ork_meta_free(gguf->parts[i].meta);
        ork_mapping_release(&gguf->parts[i].mapping);
    }
    ork_arena_free(&gguf->arena);
    free(gguf);
}

uint32_t ork_gguf_version(const ork_gguf *gguf)
{
    return gguf->parts[0].version;
}

uint64_t ork_gguf_file_size_bytes(const ork_gguf *gguf)
{
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < gguf->part_count; i++)
        size_bytes += gguf->parts[i].size_bytes;
    return size_bytes;
}

const char *ork_gguf_path(const ork_gguf *gguf)
{
    return gguf->parts[0].path;
}

const ork_meta *ork_gguf_meta(const ork_gguf *gguf)
{
    return gguf->parts[0].meta;
}

size_t ork_gguf_tensor_count(const ork_gguf *gguf)
{
    return gguf->tensor_count;
}

const struct ork_gguf_tensor *ork_gguf_tensor_at(const ork_gguf *gguf, size_t index)
{
    return index < gguf->tensor_count ? &gguf->tensors[index] : NULL;
}

const struct ork_gguf_tensor *ork_gguf_tensor_find(const ork_gguf *gguf, const char *name)
{
    size_t low = 0, high = gguf->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, gguf->sorted[middle]->name);
        if (order == 0)
            return gguf->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
