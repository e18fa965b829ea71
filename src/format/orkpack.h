/* orkpack container: reader and writer. Owns bytes, bounds, checksums, the journal; knows no arithmetic and no meaning
 * of tiers beyond their number. The specification is docs/orkpack-format.md. */
#ifndef ORK_FORMAT_ORKPACK_H
#define ORK_FORMAT_ORKPACK_H

#include "base/file.h"
#include "format/meta.h"

#define ORK_ORKPACK_VERSION 1u
#define ORK_ORKPACK_ALIGNMENT 4096u
#define ORK_ORKPACK_NAME_MAX 63u

enum ork_plane_kind {
    ORK_PLANE_DATA = 0,   /* bricks or rows */
    ORK_PLANE_SCALES = 1, /* f32, or f16 for g8 */
    ORK_PLANE_TABLE = 2,  /* int8 code tables */
    ORK_PLANE_COUNT = 3
};

struct ork_orkpack_plane {
    uint64_t offset_bytes; /* in the file, multiple of ORK_ORKPACK_ALIGNMENT; 0 and size 0 when the tier has no such plane */
    uint64_t size_bytes;
    uint64_t expert_stride_bytes; /* distance between experts (between dimension-2 slices); 0: shared by all experts */
    uint64_t checksum;            /* XXH3-64 of size_bytes bytes */
};

struct ork_orkpack_tensor {
    char name[ORK_ORKPACK_NAME_MAX + 1];
    uint32_t tier;   /* enum ork_tier */
    uint32_t layout; /* enum ork_layout */
    uint32_t source_type; /* ggml type id */
    uint32_t dimension_count;
    uint64_t dimensions[4]; /* ne0 first: inputs k, channels n, experts */
    float relative_error;   /* RMS of stored minus source over RMS of source; negative: unknown */
    float sensitivity;      /* for the dispatcher; 0: not measured */
    struct ork_orkpack_plane planes[ORK_PLANE_COUNT];
};

/* ---- reading ---- */

typedef struct ork_orkpack ork_orkpack;

/* Opens and checks header, metadata and index (their checksums, all ranges, no overlaps); planes are not read unless
 * load_mode is ORK_LOAD_COPY. */
ork_status ork_orkpack_open(const char *path, ork_load_mode load_mode, ork_progress_function progress, void *context,
                            ork_orkpack **pack, ork_error *error);
/* As open, on bytes in memory that outlive the result. For tests and fuzzing. */
ork_status ork_orkpack_parse(const void *data, uint64_t size_bytes, const char *where, ork_orkpack **pack,
                             ork_error *error);
void ork_orkpack_close(ork_orkpack *pack);
/* True when the first bytes are an orkpack's. Another project's files of the same suffix are told apart:
 * *foreign (may be NULL) is set when the file ends in that project's footer. */
bool ork_orkpack_recognise(const void *data, uint64_t size_bytes, bool *foreign);
const char *ork_orkpack_path(const ork_orkpack *pack);
uint64_t ork_orkpack_file_size_bytes(const ork_orkpack *pack);
ork_load_mode ork_orkpack_load_mode(const ork_orkpack *pack);
const ork_meta *ork_orkpack_meta(const ork_orkpack *pack);
size_t ork_orkpack_tensor_count(const ork_orkpack *pack);
const struct ork_orkpack_tensor *ork_orkpack_tensor_at(const ork_orkpack *pack, size_t index);
const struct ork_orkpack_tensor *ork_orkpack_tensor_find(const ork_orkpack *pack, const char *name);
/* Bytes of a plane, NULL when the tensor has none. */
const uint8_t *ork_orkpack_plane_data(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                      enum ork_plane_kind kind);
/* Recomputes one plane's checksum. */
ork_status ork_orkpack_verify_plane(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                    enum ork_plane_kind kind, ork_error *error);

/* ---- writing ---- */

typedef struct ork_orkpack_writer ork_orkpack_writer;

/* File size of a pack with this content; 0 when it would be larger than the format allows. */
uint64_t ork_orkpack_planned_size_bytes(const struct ork_buffer *metadata, const struct ork_orkpack_tensor *tensors,
                                        size_t tensor_count);

/* Starts `path`.partial with its journal. tensors: names, tiers, layouts, dimensions and plane sizes filled in by the
 * plan; the writer lays the planes out (sets offsets) and copies the array. plan_hash names source and plan: when a
 * journal with the same hash exists, its finished tensors are kept (*resumed_count). Refuses an existing `path` unless
 * overwrite, a missing directory, a file system without room. */
ork_status ork_orkpack_writer_create(const char *path, bool overwrite, const struct ork_buffer *metadata,
                                     uint64_t metadata_count, const struct ork_orkpack_tensor *tensors,
                                     size_t tensor_count, uint64_t plan_hash, ork_orkpack_writer **writer,
                                     size_t *resumed_count, ork_error *error);
bool ork_orkpack_writer_is_done(const ork_orkpack_writer *writer, size_t index);
/* What put, or the journal, said of a finished tensor. */
float ork_orkpack_writer_relative_error(const ork_orkpack_writer *writer, size_t index);
/* Writes all planes of tensor `index` (planes[kind] has the size of the plan, NULL where the size is 0), records
 * checksums and the error figure, appends to the journal. Any order, one thread. */
ork_status ork_orkpack_writer_put(ork_orkpack_writer *writer, size_t index, const uint8_t *const planes[ORK_PLANE_COUNT],
                                  float relative_error, ork_error *error);
/* Index, header, fsync, rename, fsync of the directory; removes the journal. The writer is freed in every case. */
ork_status ork_orkpack_writer_finish(ork_orkpack_writer *writer, uint64_t *file_size_bytes, ork_error *error);
/* Frees the writer. The partial file and journal stay for resuming when keep, else they are removed. */
void ork_orkpack_writer_abandon(ork_orkpack_writer *writer, bool keep);

#endif
