/* The journal of an unfinished pack. Every record carries its own checksum, so that a record cut off by a crash ends
 * the list. Owns the journal's bytes; planes are checked by the writer. */
#include "format/orkpack_journal.h"

#include "base/cursor.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define JOURNAL_MAGIC "ORKJRN1\n"

enum { MAGIC_BYTES = 8, IDENTITY_BYTES = 40, RECORD_BYTES = 48 };

ork_status orkpack_journal_open(const char *path, int *descriptor, ork_error *error)
{
    *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    return *descriptor < 0 ? ork_error_errno(error, path, "cannot open the journal") : ORK_OK;
}

static void encode_identity(const struct orkpack_journal_identity *identity, struct ork_buffer *buffer)
{
    ork_buffer_append(buffer, JOURNAL_MAGIC, MAGIC_BYTES);
    ork_buffer_u64(buffer, identity->plan_hash);
    ork_buffer_u64(buffer, identity->layout_hash);
    ork_buffer_u64(buffer, identity->file_size_bytes);
    if (!buffer->failed)
        ork_buffer_u64(buffer, XXH3_64bits(buffer->data, buffer->size_bytes));
}

bool orkpack_journal_matches(int descriptor, const struct orkpack_journal_identity *identity, uint64_t *offset)
{
    struct ork_buffer wanted = {0};
    uint8_t stored[IDENTITY_BYTES];
    bool matches;

    encode_identity(identity, &wanted);
    matches = !wanted.failed && pread(descriptor, stored, sizeof(stored), 0) == (ssize_t)sizeof(stored) &&
              memcmp(stored, wanted.data, sizeof(stored)) == 0;
    ork_buffer_free(&wanted);
    *offset = IDENTITY_BYTES;
    return matches;
}

static ork_status append_bytes(int descriptor, const char *path, struct ork_buffer *buffer, ork_error *error)
{
    ork_status status = ORK_OK;
    ssize_t written;

    if (buffer->failed) {
        status = ork_error_no_memory(error, path, RECORD_BYTES);
    } else {
        do
            written = write(descriptor, buffer->data, buffer->size_bytes);
        while (written < 0 && errno == EINTR);
        if (written < 0)
            status = ork_error_errno(error, path, "cannot write the journal");
        else if ((size_t)written != buffer->size_bytes)
            status = ork_error_set(error, ORK_IO, path, -1, "cannot write the journal: disk full");
    }
    ork_buffer_free(buffer);
    return status;
}

ork_status orkpack_journal_start(int descriptor, const char *path, const struct orkpack_journal_identity *identity,
                                 ork_error *error)
{
    struct ork_buffer buffer = {0};

    if (ftruncate(descriptor, 0) != 0 || lseek(descriptor, 0, SEEK_SET) < 0)
        return ork_error_errno(error, path, "cannot empty the journal");
    encode_identity(identity, &buffer);
    return append_bytes(descriptor, path, &buffer, error);
}

bool orkpack_journal_next(int descriptor, uint64_t *offset, struct orkpack_journal_record *record)
{
    uint8_t bytes[RECORD_BYTES];
    struct ork_cursor cursor = ork_cursor_make(bytes, sizeof(bytes));
    uint32_t reserved;
    uint64_t checksum;

    if (pread(descriptor, bytes, sizeof(bytes), (off_t)*offset) != (ssize_t)sizeof(bytes) ||
        !ork_cursor_u64(&cursor, &record->index) || !ork_cursor_f32(&cursor, &record->relative_error) ||
        !ork_cursor_u32(&cursor, &reserved))
        return false;
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        if (!ork_cursor_u64(&cursor, &record->checksums[kind]))
            return false;
    if (!ork_cursor_u64(&cursor, &checksum) || checksum != XXH3_64bits(bytes, RECORD_BYTES - sizeof(checksum)))
        return false;
    *offset += RECORD_BYTES;
    /* New records go behind the last good one. */
    return lseek(descriptor, (off_t)*offset, SEEK_SET) >= 0;
}

ork_status orkpack_journal_append(int descriptor, const char *path, const struct orkpack_journal_record *record,
                                  ork_error *error)
{
    struct ork_buffer buffer = {0};

    ork_buffer_u64(&buffer, record->index);
    ork_buffer_f32(&buffer, record->relative_error);
    ork_buffer_u32(&buffer, 0);
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        ork_buffer_u64(&buffer, record->checksums[kind]);
    if (!buffer.failed)
        ork_buffer_u64(&buffer, XXH3_64bits(buffer.data, buffer.size_bytes));
    return append_bytes(descriptor, path, &buffer, error);
}
