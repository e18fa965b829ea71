/* Inside of the GGUF reader, shared by its files alone: a part is one file (or block of memory) with a header, metadata
 * and tensor data of its own; an unsplit model has one. */
#ifndef ORK_FORMAT_GGUF_PARTS_H
#define ORK_FORMAT_GGUF_PARTS_H

#include "base/error.h"
#include "base/file.h"
#include "format/gguf.h"

/* Shortest tensor description: name length u64, one byte of name, no dimensions (u32), type u32, offset u64. */
#define GGUF_TENSOR_BYTES_MIN 25u
#define GGUF_NAME_BYTES_MAX 63u
#define GGUF_DIMENSIONS_MAX 4u
#define GGUF_ALIGNMENT_DEFAULT 32u
#define GGUF_ALIGNMENT_MIN 8u
#define GGUF_ALIGNMENT_MAX (UINT32_C(1) << 21)

struct gguf_part {
    const char *path;
    struct ork_mapping mapping; /* empty when the bytes belong to the caller */
    const uint8_t *data;
    uint64_t size_bytes;
    uint32_t version;
    uint32_t alignment;
    bool alignment_is_default; /* no general.alignment in this part */
    uint64_t header_end;       /* first byte behind the tensor descriptions */
    uint64_t data_start;       /* header_end aligned: tensor offsets count from here */
    ork_meta *meta;
    struct ork_gguf_tensor *tensors; /* [tensor_count] in the arena */
    size_t tensor_count;
};

struct ork_gguf {
    struct ork_arena arena;
    struct gguf_part *parts; /* [part_count] in the arena */
    uint32_t part_count;
    struct ork_gguf_tensor *tensors;       /* of all parts, in file order */
    const struct ork_gguf_tensor **sorted; /* by name */
    size_t tensor_count;
};

/* Parses parts[index], whose path, data and size_bytes are set. */
ork_status ork_gguf_parse_part(struct ork_gguf *gguf, uint32_t index, ork_error *error);
/* Maps and parses the file `path` as parts[index]. */
ork_status ork_gguf_open_part(struct ork_gguf *gguf, uint32_t index, const char *path, ork_error *error);
/* *count: parts of the model whose first part is parsed, 1 when it is not split. Refuses a later part, naming the
 * first. */
ork_status ork_gguf_split_count(const struct ork_gguf *gguf, uint32_t *count, ork_error *error);
/* Opens parts 2 to `count` beside the first and checks that they belong together. */
ork_status ork_gguf_open_split(struct ork_gguf *gguf, uint32_t count, ork_error *error);
/* ORK_OK when the first four bytes are GGUF's magic; else says what the file looks like instead. */
ork_status ork_gguf_check_magic(const void *data, uint64_t size_bytes, const char *path, ork_error *error);
/* The error for a type id that ork_ggml_type_find() does not know; offset is that of the id. */
ork_status ork_gguf_refuse_type(uint32_t id, const char *tensor, const char *path, uint64_t offset, ork_error *error);

#endif
