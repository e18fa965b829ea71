/* Reads an orkpack: header, metadata, tensor index, planes. Owns bounds, checksums and refusals; knows tiers and layouts
 * only as numbers. Everything that comes from the file is read through a bounded cursor and checked here once, so that
 * plane pointers handed out later always lie inside the file. */
#include "format/orkpack_layout.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct ork_orkpack {
    char *path;
    struct ork_mapping mapping; /* empty for parsed memory */
    struct ork_cursor file;
    ork_load_mode load_mode;
    struct orkpack_header header;
    ork_meta *meta;
    struct ork_orkpack_tensor *tensors; /* [tensor_count], file order */
    const struct ork_orkpack_tensor **by_name;
};

/* One plane's range, for the overlap check. */
struct plane_range {
    uint64_t begin, end; /* end rounded up to the alignment */
    const char *name;
};

static const char *const plane_names[ORK_PLANE_COUNT] = {"data", "scale", "table"};

bool ork_orkpack_recognise(const void *data, uint64_t size_bytes, bool *foreign)
{
    const uint8_t *bytes = data;
    uint64_t footer = sizeof(ORKPACK_FOREIGN_FOOTER);

    if (foreign != NULL)
        *foreign = size_bytes >= footer && memcmp(bytes + size_bytes - footer, ORKPACK_FOREIGN_FOOTER, footer) == 0;
    return size_bytes >= ORKPACK_MAGIC_BYTES && memcmp(bytes, ORKPACK_MAGIC, ORKPACK_MAGIC_BYTES) == 0;
}

static bool all_zero(const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* ---- header ---- */

static ork_status check_magic(const ork_orkpack *pack, ork_error *error)
{
    bool foreign = false;

    if (ork_orkpack_recognise(pack->file.data, pack->file.size_bytes, &foreign))
        return ORK_OK;
    if (foreign)
        return ork_error_set(error, ORK_UNSUPPORTED, pack->path, (int64_t)(pack->file.size_bytes - 8),
                             "this is an .orkpack of another project (footer ORKPK01), not of ork; pack the GGUF again "
                             "with ork pack");
    if (pack->file.size_bytes >= 4 && memcmp(pack->file.data, "GGUF", 4) == 0)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, 0, "this is a GGUF, not an orkpack; pack it first");
    return ork_error_set(error, ORK_BAD_FILE, pack->path, 0, "not an orkpack (no magic at the start)");
}

static bool read_header_fields(struct ork_cursor *cursor, struct orkpack_header *header)
{
    return ork_cursor_u32(cursor, &header->version) && ork_cursor_u32(cursor, &header->header_bytes) &&
           ork_cursor_u64(cursor, &header->mandatory_flags) && ork_cursor_u64(cursor, &header->optional_flags) &&
           ork_cursor_u64(cursor, &header->file_size_bytes) && ork_cursor_u64(cursor, &header->metadata_offset) &&
           ork_cursor_u64(cursor, &header->metadata_size_bytes) && ork_cursor_u64(cursor, &header->metadata_count) &&
           ork_cursor_u64(cursor, &header->index_offset) && ork_cursor_u64(cursor, &header->index_size_bytes) &&
           ork_cursor_u64(cursor, &header->tensor_count) && ork_cursor_u64(cursor, &header->planes_offset);
}

/* Ranges of the three front parts: header, metadata, index, in this order, inside the file. */
static ork_status check_front(const ork_orkpack *pack, ork_error *error)
{
    const struct orkpack_header *header = &pack->header;
    uint64_t metadata_end, index_begin, index_end, index_bytes, planes;

    if (header->planes_offset > ORKPACK_FRONT_BYTES_MAX)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, 96, "planes start at %llu, beyond the limit of %llu",
                             (unsigned long long)header->planes_offset, (unsigned long long)ORKPACK_FRONT_BYTES_MAX);
    if (header->tensor_count > ORKPACK_TENSORS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, 88, "%llu tensors are more than the limit of %llu",
                             (unsigned long long)header->tensor_count, (unsigned long long)ORKPACK_TENSORS_MAX);
    if (header->header_bytes != ORKPACK_HEADER_BYTES || header->metadata_offset != ORKPACK_HEADER_BYTES ||
        !ork_checked_add(header->metadata_offset, header->metadata_size_bytes, &metadata_end) ||
        !ork_checked_align(metadata_end, ORKPACK_INDEX_ALIGNMENT, &index_begin) ||
        header->index_offset != index_begin ||
        !ork_checked_multiply(header->tensor_count, ORKPACK_ENTRY_BYTES, &index_bytes) ||
        header->index_size_bytes != index_bytes || !ork_checked_add(index_begin, index_bytes, &index_end) ||
        !ork_checked_align(index_end, ORK_ORKPACK_ALIGNMENT, &planes) || header->planes_offset != planes)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, 20,
                             "offsets of metadata, index and planes do not follow one another");
    return ORK_OK;
}

static ork_status check_checksum(const ork_orkpack *pack, uint64_t stored, ork_error *error)
{
    const struct orkpack_header *header = &pack->header;
    uint64_t computed =
        XXH3_64bits(pack->file.data + ORKPACK_CHECKED_FROM, header->planes_offset - ORKPACK_CHECKED_FROM);

    if (computed != stored)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, ORKPACK_CHECKSUM_OFFSET,
                             "checksum of header, metadata and index is %016llx, the file says %016llx",
                             (unsigned long long)computed, (unsigned long long)stored);
    return ORK_OK;
}

static ork_status read_header(ork_orkpack *pack, ork_error *error)
{
    struct ork_cursor cursor = pack->file;
    struct orkpack_header *header = &pack->header;
    uint64_t stored = 0;
    ork_status status = check_magic(pack, error);

    if (status != ORK_OK)
        return status;
    if (pack->file.size_bytes < ORKPACK_HEADER_BYTES)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)pack->file.size_bytes,
                             "truncated: the header has %d bytes, the file %llu", ORKPACK_HEADER_BYTES,
                             (unsigned long long)pack->file.size_bytes);
    cursor.position = ORKPACK_CHECKSUM_OFFSET;
    if (!ork_cursor_u64(&cursor, &stored) || !read_header_fields(&cursor, header))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)cursor.position, "truncated header");
    if (header->version != ORK_ORKPACK_VERSION)
        return ork_error_set(error, ORK_UNSUPPORTED, pack->path, ORKPACK_VERSION_OFFSET,
                             "orkpack version %u; this build reads version %u", header->version, ORK_ORKPACK_VERSION);
    if ((status = check_front(pack, error)) != ORK_OK)
        return status;
    if (header->planes_offset > pack->file.size_bytes)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)pack->file.size_bytes,
                             "truncated: planes start at %llu, the file has %llu bytes",
                             (unsigned long long)header->planes_offset, (unsigned long long)pack->file.size_bytes);
    if ((status = check_checksum(pack, stored, error)) != ORK_OK)
        return status;
    if (header->mandatory_flags != 0)
        return ork_error_set(error, ORK_UNSUPPORTED, pack->path, 24,
                             "the file needs features that this version does not have (mandatory flags %llx)",
                             (unsigned long long)header->mandatory_flags);
    if (!all_zero(pack->file.data + ORKPACK_HEADER_USED_BYTES, ORKPACK_HEADER_BYTES - ORKPACK_HEADER_USED_BYTES))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, ORKPACK_HEADER_USED_BYTES,
                             "reserved header bytes are not zero");
    if (header->file_size_bytes != pack->file.size_bytes)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)pack->file.size_bytes,
                             "the file should have %llu bytes and has %llu",
                             (unsigned long long)header->file_size_bytes, (unsigned long long)pack->file.size_bytes);
    return ORK_OK;
}

static ork_status read_metadata(ork_orkpack *pack, ork_error *error)
{
    const struct orkpack_header *header = &pack->header;
    uint64_t end = header->metadata_offset + header->metadata_size_bytes;
    struct ork_cursor cursor = {pack->file.data, end, header->metadata_offset};
    ork_status status = ork_meta_parse(&cursor, header->metadata_count, pack->path, &pack->meta, error);

    if (status != ORK_OK)
        return status;
    if (cursor.position != end)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)cursor.position,
                             "%llu bytes are left over after the last metadata pair",
                             (unsigned long long)(end - cursor.position));
    if (!all_zero(pack->file.data + end, header->index_offset - end))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)end, "padding after the metadata is not zero");
    return ORK_OK;
}

/* ---- index ---- */

bool orkpack_name_is_valid(const char name[ORK_ORKPACK_NAME_MAX + 1])
{
    size_t length = strnlen(name, ORK_ORKPACK_NAME_MAX + 1);

    if (length == 0 || length > ORK_ORKPACK_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return all_zero((const uint8_t *)name + length, ORK_ORKPACK_NAME_MAX + 1 - length);
}

static bool read_entry_fields(struct ork_cursor *cursor, struct ork_orkpack_tensor *tensor)
{
    const uint8_t *name = ork_cursor_take(cursor, sizeof(tensor->name));

    if (name == NULL)
        return false;
    memcpy(tensor->name, name, sizeof(tensor->name));
    if (!ork_cursor_u32(cursor, &tensor->tier) || !ork_cursor_u32(cursor, &tensor->layout) ||
        !ork_cursor_u32(cursor, &tensor->source_type) || !ork_cursor_u32(cursor, &tensor->dimension_count))
        return false;
    for (int d = 0; d < 4; d++)
        if (!ork_cursor_u64(cursor, &tensor->dimensions[d]))
            return false;
    if (!ork_cursor_f32(cursor, &tensor->relative_error) || !ork_cursor_f32(cursor, &tensor->sensitivity))
        return false;
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        struct ork_orkpack_plane *plane = &tensor->planes[kind];
        if (!ork_cursor_u64(cursor, &plane->offset_bytes) || !ork_cursor_u64(cursor, &plane->size_bytes) ||
            !ork_cursor_u64(cursor, &plane->expert_stride_bytes) || !ork_cursor_u64(cursor, &plane->checksum))
            return false;
    }
    return true;
}

static ork_status check_dimensions(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor, int64_t offset,
                                   ork_error *error)
{
    uint64_t elements = 1;

    if (tensor->dimension_count < 1 || tensor->dimension_count > 4)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, offset + 76, "tensor %s has %u dimensions", tensor->name,
                             tensor->dimension_count);
    for (uint32_t d = 0; d < 4; d++) {
        uint64_t size = tensor->dimensions[d];
        if (size == 0 || (d >= tensor->dimension_count && size != 1) ||
            !ork_checked_multiply(elements, size, &elements) || elements > ORKPACK_ELEMENTS_MAX)
            return ork_error_set(error, ORK_BAD_FILE, pack->path, offset + 80 + 8 * (int64_t)d,
                                 "tensor %s: dimension %u of %llu is out of range", tensor->name, d,
                                 (unsigned long long)size);
    }
    return ORK_OK;
}

static ork_status check_plane(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor, int kind,
                              int64_t offset, ork_error *error)
{
    const struct ork_orkpack_plane *plane = &tensor->planes[kind];
    uint64_t end, last_expert;

    if (plane->size_bytes == 0) {
        if (kind == ORK_PLANE_DATA || plane->offset_bytes != 0 || plane->expert_stride_bytes != 0 ||
            plane->checksum != 0)
            return ork_error_set(error, ORK_BAD_FILE, pack->path, offset, "tensor %s: empty %s plane", tensor->name,
                                 plane_names[kind]);
        return ORK_OK;
    }
    if (plane->offset_bytes % ORK_ORKPACK_ALIGNMENT != 0 || plane->offset_bytes < pack->header.planes_offset ||
        !ork_checked_add(plane->offset_bytes, plane->size_bytes, &end) || end > pack->file.size_bytes)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, offset,
                             "tensor %s: %s plane at %llu with %llu bytes is unaligned or outside the file",
                             tensor->name, plane_names[kind], (unsigned long long)plane->offset_bytes,
                             (unsigned long long)plane->size_bytes);
    if (!ork_checked_multiply(plane->expert_stride_bytes, tensor->dimensions[2] - 1, &last_expert) ||
        last_expert >= plane->size_bytes)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, offset + 16,
                             "tensor %s: expert stride %llu leads outside the %s plane", tensor->name,
                             (unsigned long long)plane->expert_stride_bytes, plane_names[kind]);
    return ORK_OK;
}

static ork_status read_entry(ork_orkpack *pack, uint64_t index, ork_error *error)
{
    struct ork_orkpack_tensor *tensor = &pack->tensors[index];
    uint64_t offset = pack->header.index_offset + index * ORKPACK_ENTRY_BYTES;
    struct ork_cursor cursor = {pack->file.data, offset + ORKPACK_ENTRY_BYTES, offset};
    ork_status status;

    if (!read_entry_fields(&cursor, tensor))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)offset, "truncated index");
    if (!orkpack_name_is_valid(tensor->name))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)offset,
                             "name of tensor %llu is empty, unterminated or holds control characters",
                             (unsigned long long)index);
    if (!all_zero(pack->file.data + cursor.position, ORKPACK_ENTRY_BYTES - ORKPACK_ENTRY_USED_BYTES))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)cursor.position,
                             "tensor %s: reserved index bytes are not zero", tensor->name);
    if (!isfinite(tensor->relative_error) || !isfinite(tensor->sensitivity))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)offset + 112,
                             "tensor %s: error or sensitivity is not finite", tensor->name);
    if ((status = check_dimensions(pack, tensor, (int64_t)offset, error)) != ORK_OK)
        return status;
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        if ((status = check_plane(pack, tensor, kind, (int64_t)offset + 120 + 32 * kind, error)) != ORK_OK)
            return status;
    return ORK_OK;
}

static int compare_names(const void *a, const void *b)
{
    const struct ork_orkpack_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct plane_range *left = a, *right = b;
    return (left->begin > right->begin) - (left->begin < right->begin);
}

static ork_status check_names(const ork_orkpack *pack, ork_error *error)
{
    uint64_t count = pack->header.tensor_count;

    for (uint64_t i = 0; i < count; i++)
        pack->by_name[i] = &pack->tensors[i];
    qsort(pack->by_name, count, sizeof(pack->by_name[0]), compare_names);
    for (uint64_t i = 1; i < count; i++)
        if (strcmp(pack->by_name[i - 1]->name, pack->by_name[i]->name) == 0)
            return ork_error_set(error, ORK_BAD_FILE, pack->path,
                                 (int64_t)(pack->header.index_offset +
                                           (uint64_t)(pack->by_name[i] - pack->tensors) * ORKPACK_ENTRY_BYTES),
                                 "two tensors are named %s", pack->by_name[i]->name);
    return ORK_OK;
}

static ork_status check_overlaps(const ork_orkpack *pack, ork_error *error)
{
    uint64_t count = 0;
    struct plane_range *ranges = calloc(pack->header.tensor_count * ORK_PLANE_COUNT + 1, sizeof(*ranges));
    ork_status status = ORK_OK;

    if (ranges == NULL)
        return ork_error_no_memory(error, pack->path, pack->header.tensor_count * ORK_PLANE_COUNT * sizeof(*ranges));
    for (uint64_t i = 0; i < pack->header.tensor_count; i++)
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
            const struct ork_orkpack_plane *plane = &pack->tensors[i].planes[kind];
            if (plane->size_bytes != 0)
                ranges[count++] = (struct plane_range){
                    plane->offset_bytes,
                    plane->offset_bytes + ork_round_up(plane->size_bytes, ORK_ORKPACK_ALIGNMENT),
                    pack->tensors[i].name,
                };
        }
    qsort(ranges, count, sizeof(*ranges), compare_ranges);
    for (uint64_t i = 1; i < count && status == ORK_OK; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            status = ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)ranges[i].begin,
                                   "planes of %s and %s overlap", ranges[i - 1].name, ranges[i].name);
    free(ranges);
    return status;
}

static ork_status read_index(ork_orkpack *pack, ork_error *error)
{
    uint64_t count = pack->header.tensor_count;
    uint64_t end = pack->header.index_offset + pack->header.index_size_bytes;
    ork_status status;

    pack->tensors = calloc(count + 1, sizeof(*pack->tensors));
    pack->by_name = calloc(count + 1, sizeof(*pack->by_name));
    if (pack->tensors == NULL || pack->by_name == NULL)
        return ork_error_no_memory(error, pack->path, count * sizeof(*pack->tensors));
    for (uint64_t i = 0; i < count; i++)
        if ((status = read_entry(pack, i, error)) != ORK_OK)
            return status;
    if (!all_zero(pack->file.data + end, pack->header.planes_offset - end))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)end, "padding after the index is not zero");
    if ((status = check_names(pack, error)) != ORK_OK)
        return status;
    return check_overlaps(pack, error);
}

/* ---- opening ---- */

/* Replaces what the pack knows of its bytes and reads the front again. */
static ork_status read_front(ork_orkpack *pack, const void *data, uint64_t size_bytes, ork_error *error)
{
    ork_status status;

    ork_meta_free(pack->meta);
    free(pack->tensors);
    free(pack->by_name);
    pack->meta = NULL;
    pack->tensors = NULL;
    pack->by_name = NULL;
    pack->file = ork_cursor_make(data, size_bytes);
    if ((status = read_header(pack, error)) != ORK_OK || (status = read_metadata(pack, error)) != ORK_OK)
        return status;
    return read_index(pack, error);
}

static ork_status create(const char *path, ork_orkpack **pack, ork_error *error)
{
    *pack = calloc(1, sizeof(**pack));
    if (*pack != NULL)
        (*pack)->path = strdup(path);
    if (*pack == NULL || (*pack)->path == NULL) {
        ork_orkpack_close(*pack);
        *pack = NULL;
        return ork_error_no_memory(error, path, sizeof(**pack));
    }
    return ORK_OK;
}

/* The rule of ORK_LOAD_AUTO: copy when the file and a quarter more (KV cache, scratch) fit in available memory. */
static ork_load_mode choose_load_mode(uint64_t size_bytes)
{
    uint64_t available = ork_memory_available_bytes();
    return size_bytes <= available && size_bytes / 4 <= available - size_bytes ? ORK_LOAD_COPY : ORK_LOAD_MAP;
}

ork_status ork_orkpack_open(const char *path, ork_load_mode load_mode, ork_progress_function progress, void *context,
                            ork_orkpack **out, ork_error *error)
{
    ork_orkpack *pack;
    ork_status status = create(path, &pack, error);

    *out = NULL;
    if (status != ORK_OK)
        return status;
    if ((status = ork_file_map(path, &pack->mapping, error)) != ORK_OK)
        goto out;
    /* A file that is no pack is refused before gigabytes of it are copied. */
    if ((status = read_front(pack, pack->mapping.data, pack->mapping.size_bytes, error)) != ORK_OK)
        goto out;
    pack->load_mode = load_mode == ORK_LOAD_AUTO ? choose_load_mode(pack->mapping.size_bytes) : load_mode;
    if (pack->load_mode == ORK_LOAD_COPY) {
        ork_mapping_release(&pack->mapping);
        if ((status = ork_file_copy(path, &pack->mapping, progress, context, error)) != ORK_OK)
            goto out;
        status = read_front(pack, pack->mapping.data, pack->mapping.size_bytes, error);
    }
out:
    if (status == ORK_OK)
        *out = pack;
    else
        ork_orkpack_close(pack);
    return status;
}

ork_status ork_orkpack_parse(const void *data, uint64_t size_bytes, const char *where, ork_orkpack **out,
                             ork_error *error)
{
    ork_orkpack *pack;
    ork_status status = create(where == NULL ? "" : where, &pack, error);

    *out = NULL;
    if (status != ORK_OK)
        return status;
    pack->load_mode = ORK_LOAD_MAP;
    status = read_front(pack, data, size_bytes, error);
    if (status == ORK_OK)
        *out = pack;
    else
        ork_orkpack_close(pack);
    return status;
}

void ork_orkpack_close(ork_orkpack *pack)
{
    if (pack == NULL)
        return;
    ork_meta_free(pack->meta);
    free(pack->tensors);
    free(pack->by_name);
    ork_mapping_release(&pack->mapping);
    free(pack->path);
    free(pack);
}

/* ---- looking ---- */

const char *ork_orkpack_path(const ork_orkpack *pack)
{
    return pack->path;
}

uint64_t ork_orkpack_file_size_bytes(const ork_orkpack *pack)
{
    return pack->file.size_bytes;
}

ork_load_mode ork_orkpack_load_mode(const ork_orkpack *pack)
{
    return pack->load_mode;
}

const ork_meta *ork_orkpack_meta(const ork_orkpack *pack)
{
    return pack->meta;
}

size_t ork_orkpack_tensor_count(const ork_orkpack *pack)
{
    return (size_t)pack->header.tensor_count;
}

const struct ork_orkpack_tensor *ork_orkpack_tensor_at(const ork_orkpack *pack, size_t index)
{
    return index < pack->header.tensor_count ? &pack->tensors[index] : NULL;
}

const struct ork_orkpack_tensor *ork_orkpack_tensor_find(const ork_orkpack *pack, const char *name)
{
    size_t begin = 0, end = (size_t)pack->header.tensor_count;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        int order = strcmp(name, pack->by_name[middle]->name);
        if (order == 0)
            return pack->by_name[middle];
        if (order < 0)
            end = middle;
        else
            begin = middle + 1;
    }
    return NULL;
}

const uint8_t *ork_orkpack_plane_data(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                      enum ork_plane_kind kind)
{
    const struct ork_orkpack_plane *plane = &tensor->planes[kind];
    return plane->size_bytes == 0 ? NULL : pack->file.data + plane->offset_bytes;
}

ork_status ork_orkpack_verify_plane(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                    enum ork_plane_kind kind, ork_error *error)
{
    const struct ork_orkpack_plane *plane = &tensor->planes[kind];
    const uint8_t *data = ork_orkpack_plane_data(pack, tensor, kind);
    uint64_t computed, end, padded_end;

    if (data == NULL)
        return ORK_OK;
    computed = XXH3_64bits(data, plane->size_bytes);
    if (computed != plane->checksum)
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)plane->offset_bytes,
                             "%s plane of %s: checksum is %016llx, the index says %016llx", plane_names[kind],
                             tensor->name, (unsigned long long)computed, (unsigned long long)plane->checksum);
    end = plane->offset_bytes + plane->size_bytes;
    padded_end = ork_round_up(end, ORK_ORKPACK_ALIGNMENT);
    if (padded_end > pack->file.size_bytes)
        padded_end = pack->file.size_bytes;
    if (!all_zero(pack->file.data + end, padded_end - end))
        return ork_error_set(error, ORK_BAD_FILE, pack->path, (int64_t)end,
                             "padding after the %s plane of %s is not zero", plane_names[kind], tensor->name);
    return ORK_OK;
}
