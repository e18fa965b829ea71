/* A small orkpack for tests of the container: a vector, a matrix with scales, a stack of experts with all three planes.
 * The bytes mean nothing; format does not look into planes. Offsets are those of docs/orkpack-format.md, written out
 * here a second time. */
#ifndef ORK_TESTS_ORKPACK_SAMPLE_H
#define ORK_TESTS_ORKPACK_SAMPLE_H

#include "format/orkpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    SAMPLE_TENSORS = 3,
    SAMPLE_HASH = 77,
    FIELD_CHECKSUM = 8,
    FIELD_VERSION = 16,
    FIELD_HEADER_BYTES = 20,
    FIELD_MANDATORY = 24,
    FIELD_OPTIONAL = 32,
    FIELD_FILE_SIZE = 40,
    FIELD_METADATA_OFFSET = 48,
    FIELD_METADATA_SIZE = 56,
    FIELD_METADATA_COUNT = 64,
    FIELD_INDEX_OFFSET = 72,
    FIELD_INDEX_SIZE = 80,
    FIELD_TENSOR_COUNT = 88,
    FIELD_PLANES = 96,
    FIELD_RESERVED = 104,
    ENTRY_BYTES = 256,
    ENTRY_TIER = 64,
    ENTRY_DIMENSION_COUNT = 76,
    ENTRY_DIMENSIONS = 80,
    ENTRY_RELATIVE_ERROR = 112,
    ENTRY_SENSITIVITY = 116,
    ENTRY_PLANES = 120, /* 3 x {offset, size, expert stride, checksum} */
    ENTRY_RESERVED = 216
};

static inline void sample_metadata(struct ork_buffer *metadata, uint64_t *count)
{
    static const char *const pairs[][2] = {{"general.architecture", "llama"}, {"ork.version", "0"}};
    for (size_t i = 0; i < 2; i++) {
        ork_buffer_u64(metadata, strlen(pairs[i][0]));
        ork_buffer_append(metadata, pairs[i][0], strlen(pairs[i][0]));
        ork_buffer_u32(metadata, ORK_META_STRING);
        ork_buffer_u64(metadata, strlen(pairs[i][1]));
        ork_buffer_append(metadata, pairs[i][1], strlen(pairs[i][1]));
    }
    *count = 2;
}

static inline void sample_tensors(struct ork_orkpack_tensor tensors[SAMPLE_TENSORS])
{
    memset(tensors, 0, SAMPLE_TENSORS * sizeof tensors[0]);
    tensors[0] = (struct ork_orkpack_tensor){
        .name = "output_norm.weight",
        .dimension_count = 1,
        .dimensions = {100, 1, 1, 1},
        .planes = {{.size_bytes = 400, .expert_stride_bytes = 4096}},
    };
    tensors[1] = (struct ork_orkpack_tensor){
        .name = "output.weight",
        .tier = 4,
        .layout = 1,
        .source_type = 8,
        .dimension_count = 2,
        .dimensions = {40, 30, 1, 1},
        .planes = {{.size_bytes = 2048, .expert_stride_bytes = 4096}, {.size_bytes = 128, .expert_stride_bytes = 128}},
    };
    tensors[2] = (struct ork_orkpack_tensor){
        .name = "blk.0.ffn_up_exps.weight",
        .tier = 6,
        .layout = 2,
        .source_type = 1,
        .dimension_count = 3,
        .dimensions = {64, 64, 3, 1},
        .sensitivity = 0.5f,
        .planes = {{.size_bytes = 8192 + 2048, .expert_stride_bytes = 4096},
                   {.size_bytes = 3 * 256, .expert_stride_bytes = 256},
                   {.size_bytes = 16}},
    };
}

static inline uint8_t sample_byte(size_t tensor, int kind, uint64_t at)
{
    return (uint8_t)(tensor * 91 + (size_t)kind * 37 + at * 7 + at / 251);
}

static inline ork_status sample_put(ork_orkpack_writer *writer, size_t index, ork_error *error)
{
    struct ork_orkpack_tensor tensors[SAMPLE_TENSORS];
    uint8_t *planes[ORK_PLANE_COUNT] = {0};
    sample_tensors(tensors);
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        uint64_t size = tensors[index].planes[kind].size_bytes;
        planes[kind] = size ? malloc(size) : NULL;
        for (uint64_t at = 0; at < size; at++)
            planes[kind][at] = sample_byte(index, kind, at);
    }
    ork_status status =
        ork_orkpack_writer_put(writer, index, (const uint8_t *const *)planes, 0.25f * (float)index, error);
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        free(planes[kind]);
    return status;
}

static inline ork_status sample_create(const char *path, bool overwrite, uint64_t hash, ork_orkpack_writer **writer,
                                       size_t *resumed, ork_error *error)
{
    struct ork_orkpack_tensor tensors[SAMPLE_TENSORS];
    struct ork_buffer metadata = {0};
    uint64_t count;
    sample_tensors(tensors);
    sample_metadata(&metadata, &count);
    ork_status status = ork_orkpack_writer_create(path, overwrite, &metadata, count, tensors, SAMPLE_TENSORS, hash,
                                                  writer, resumed, error);
    ork_buffer_free(&metadata);
    return status;
}

/* Writes the whole sample, tensors in the order given. */
static inline ork_status sample_write(const char *path, bool overwrite, const size_t order[SAMPLE_TENSORS],
                                      ork_error *error)
{
    ork_orkpack_writer *writer;
    size_t resumed;
    uint64_t size;
    ork_status status = sample_create(path, overwrite, SAMPLE_HASH, &writer, &resumed, error);
    for (size_t i = 0; i < SAMPLE_TENSORS && status == ORK_OK; i++)
        if ((status = sample_put(writer, order[i], error)) != ORK_OK)
            ork_orkpack_writer_abandon(writer, false);
    return status == ORK_OK ? ork_orkpack_writer_finish(writer, &size, error) : status;
}

static inline uint8_t *sample_read_file(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size_bytes + 1);
    if (bytes == NULL || fread(bytes, 1, *size_bytes, file) != *size_bytes)
        abort();
    fclose(file);
    return bytes;
}

/* The sample's bytes, freed by the caller. */
static inline uint8_t *sample_bytes(size_t *size_bytes)
{
    static const size_t order[SAMPLE_TENSORS] = {0, 1, 2};
    char directory[] = "/tmp/ork-sample-XXXXXX", path[64];
    ork_error error;
    if (mkdtemp(directory) == NULL)
        abort();
    snprintf(path, sizeof path, "%s/s.orkpack", directory);
    if (sample_write(path, false, order, &error) != ORK_OK)
        abort();
    uint8_t *bytes = sample_read_file(path, size_bytes);
    if (unlink(path) != 0 || rmdir(directory) != 0 || bytes == NULL)
        abort();
    return bytes;
}

static inline uint64_t sample_get_u64(const uint8_t *bytes, size_t at)
{
    uint64_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

static inline void sample_set_u64(uint8_t *bytes, size_t at, uint64_t value)
{
    memcpy(bytes + at, &value, sizeof value);
}

static inline void sample_set_u32(uint8_t *bytes, size_t at, uint32_t value)
{
    memcpy(bytes + at, &value, sizeof value);
}

/* Makes the header's checksum right again, so that what stands behind it is reached; false when planes_offset is no
 * place in the file. */
static inline bool sample_repair_checksum(uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes < FIELD_RESERVED)
        return false;
    uint64_t planes = sample_get_u64(bytes, FIELD_PLANES);
    if (planes > size_bytes || planes < FIELD_VERSION)
        return false;
    sample_set_u64(bytes, FIELD_CHECKSUM, XXH3_64bits(bytes + FIELD_VERSION, planes - FIELD_VERSION));
    return true;
}

#endif
