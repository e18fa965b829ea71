/* Byte offsets of an orkpack, shared by reader and writer. The specification is docs/orkpack-format.md. */
#ifndef ORK_FORMAT_ORKPACK_LAYOUT_H
#define ORK_FORMAT_ORKPACK_LAYOUT_H

#include "format/orkpack.h"

#define ORKPACK_MAGIC "\x89ORK\r\n\x1a\n"
#define ORKPACK_MAGIC_BYTES 8u
/* The last bytes of another project's files with the suffix .orkpack, with the NUL. */
#define ORKPACK_FOREIGN_FOOTER "ORKPK01"

enum {
    ORKPACK_HEADER_BYTES = 4096,
    ORKPACK_CHECKSUM_OFFSET = 8,
    ORKPACK_CHECKED_FROM = 16, /* the checksum covers [this, planes_offset) */
    ORKPACK_VERSION_OFFSET = 16,
    ORKPACK_HEADER_USED_BYTES = 104,
    ORKPACK_ENTRY_BYTES = 256,
    ORKPACK_ENTRY_USED_BYTES = 216,
    ORKPACK_INDEX_ALIGNMENT = 64
};

#define ORKPACK_TENSORS_MAX (UINT64_C(1) << 20)
#define ORKPACK_FRONT_BYTES_MAX (UINT64_C(1) << 31) /* header, metadata and index together */
#define ORKPACK_ELEMENTS_MAX (UINT64_C(1) << 48)

/* The fixed part of the header after magic and checksum, in file order. */
struct orkpack_header {
    uint32_t version, header_bytes;
    uint64_t mandatory_flags, optional_flags;
    uint64_t file_size_bytes;
    uint64_t metadata_offset, metadata_size_bytes, metadata_count;
    uint64_t index_offset, index_size_bytes, tensor_count;
    uint64_t planes_offset;
};

/* Non-empty, NUL-terminated, zero behind, and without control characters, because names are printed. */
bool orkpack_name_is_valid(const char name[ORK_ORKPACK_NAME_MAX + 1]);

#endif
