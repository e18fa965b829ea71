/* GGUF reader: versions 2 and 3, split files. Owns the container's bytes and bounds; knows block sizes of tensor types
 * but not their arithmetic. Layout and limits: facts on GGUF 1.1 to 1.4, from the GGUF specification in ggml. */
#ifndef ORK_FORMAT_GGUF_H
#define ORK_FORMAT_GGUF_H

#include "format/meta.h"

/* Bounds on what a file may ask for. */
#define ORK_GGUF_TENSORS_MAX (UINT64_C(1) << 20)
#define ORK_GGUF_PARTS_MAX 1024u

/* Type ids as in the file. */
enum ork_ggml_type {
    ORK_GGML_F32 = 0,
    ORK_GGML_F16 = 1,
    ORK_GGML_Q4_0 = 2,
    ORK_GGML_Q4_1 = 3,
    ORK_GGML_Q5_0 = 6,
    ORK_GGML_Q5_1 = 7,
    ORK_GGML_Q8_0 = 8,
    ORK_GGML_Q2_K = 10,
    ORK_GGML_Q3_K = 11,
    ORK_GGML_Q4_K = 12,
    ORK_GGML_Q5_K = 13,
    ORK_GGML_Q6_K = 14,
    ORK_GGML_I8 = 24,
    ORK_GGML_I16 = 25,
    ORK_GGML_I32 = 26,
    ORK_GGML_I64 = 27,
    ORK_GGML_F64 = 28,
    ORK_GGML_BF16 = 30
};

struct ork_ggml_type_info {
    uint32_t id;
    const char *name;      /* "Q4_K" */
    uint32_t block_length; /* elements */
    uint32_t block_bytes;
};
/* Every type that may stand in a file (also those that ork does not decode, so that sizes are checked and the refusal
 * can name the type); NULL for removed, internal and unknown ids. */
const struct ork_ggml_type_info *ork_ggml_type_find(uint32_t id);

struct ork_gguf_tensor {
    const char *name; /* NUL-terminated, < 64 bytes */
    uint32_t type;
    uint32_t dimension_count;
    uint64_t dimensions[4]; /* missing ones are 1 */
    uint64_t size_bytes;    /* >= 1 */
    const uint8_t *data;    /* [size_bytes] in the mapping; in a file aligned to at least 8 bytes, in memory to none */
    uint32_t part;          /* from 0 */
    uint64_t offset_bytes;  /* of data, from the start of its part's file */
};

typedef struct ork_gguf ork_gguf;

/* Opens the file, and the other parts of a split one (the path must name part 1; otherwise the error names it). All
 * ranges are checked against the file sizes; tensor data is mapped and not read. Malformed content is ORK_BAD_FILE;
 * other versions, byte order, removed and unknown tensor types are ORK_UNSUPPORTED; a missing file is ORK_NOT_FOUND.
 * The result is immutable: any number of threads may read it. */
ork_status ork_gguf_open(const char *path, ork_gguf **gguf, ork_error *error);
/* Parses one complete, unsplit file held in memory; the bytes must outlive the result. For tests and fuzzing. */
ork_status ork_gguf_parse(const void *data, uint64_t size_bytes, const char *where, ork_gguf **gguf, ork_error *error);
void ork_gguf_close(ork_gguf *gguf);
uint32_t ork_gguf_version(const ork_gguf *gguf);
uint64_t ork_gguf_file_size_bytes(const ork_gguf *gguf); /* all parts */
const char *ork_gguf_path(const ork_gguf *gguf);
const ork_meta *ork_gguf_meta(const ork_gguf *gguf); /* of the first part, its split.* keys included */
size_t ork_gguf_tensor_count(const ork_gguf *gguf);
const struct ork_gguf_tensor *ork_gguf_tensor_at(const ork_gguf *gguf, size_t index);
/* NULL when absent. O(log n). */
const struct ork_gguf_tensor *ork_gguf_tensor_find(const ork_gguf *gguf, const char *name);

#endif
