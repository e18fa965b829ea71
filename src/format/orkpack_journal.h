/* The journal beside a pack that is being written: which tensors are finished. Owns its bytes; knows nothing of planes. */
#ifndef ORK_FORMAT_ORKPACK_JOURNAL_H
#define ORK_FORMAT_ORKPACK_JOURNAL_H

#include "format/orkpack.h"

/* What one run is: runs of the same identity may continue one another. */
struct orkpack_journal_identity {
    uint64_t plan_hash;   /* source and plan, from the caller */
    uint64_t layout_hash; /* metadata and index before any checksum is known */
    uint64_t file_size_bytes;
};

struct orkpack_journal_record {
    uint64_t index; /* of the tensor */
    float relative_error;
    uint64_t checksums[ORK_PLANE_COUNT];
};

/* Opens or creates the journal without waiting or following links. */
ork_status orkpack_journal_open(const char *path, int *descriptor, ork_error *error);
/* True when the journal starts with this identity; *offset is then the place of the first record. */
bool orkpack_journal_matches(int descriptor, const struct orkpack_journal_identity *identity, uint64_t *offset);
/* Empties the journal and writes the identity. */
ork_status orkpack_journal_start(int descriptor, const char *path, const struct orkpack_journal_identity *identity,
                                 ork_error *error);
/* Reads the record at *offset and moves past it; false at the end or at the first damaged record. */
bool orkpack_journal_next(int descriptor, uint64_t *offset, struct orkpack_journal_record *record);
ork_status orkpack_journal_append(int descriptor, const char *path, const struct orkpack_journal_record *record,
                                  ork_error *error);

#endif
