/* Writes an orkpack: lays planes out, reserves the room, writes tensors in any order into PATH.partial, records them in
 * PATH.journal, and at the end writes index and header, syncs and renames. Nothing unfinished ever has the final name.
 * Owns files and checksums; knows no meaning of planes. */
#include "format/orkpack_journal.h"
#include "format/orkpack_layout.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#define READ_STEP_BYTES (1u << 20)
#define WRITE_STEP_BYTES (UINT64_C(64) << 20)

struct ork_orkpack_writer {
    char *path, *partial_path, *journal_path, *directory;
    int descriptor, journal; /* -1: not open */
    bool overwrite;
    struct orkpack_header header;
    struct ork_buffer metadata;
    struct ork_orkpack_tensor *tensors;
    bool *done;
};

/* ---- encoding of the front ---- */

static void append_padding(struct ork_buffer *buffer, uint64_t until)
{
    static const uint8_t zeros[ORKPACK_HEADER_BYTES];

    while (!buffer->failed && buffer->size_bytes < until) {
        uint64_t part = until - buffer->size_bytes;
        ork_buffer_append(buffer, zeros, part < sizeof(zeros) ? part : sizeof(zeros));
    }
}

static void append_entry(struct ork_buffer *buffer, const struct ork_orkpack_tensor *tensor)
{
    uint64_t end = buffer->size_bytes + ORKPACK_ENTRY_BYTES;

    ork_buffer_append(buffer, tensor->name, sizeof(tensor->name));
    ork_buffer_u32(buffer, tensor->tier);
    ork_buffer_u32(buffer, tensor->layout);
    ork_buffer_u32(buffer, tensor->source_type);
    ork_buffer_u32(buffer, tensor->dimension_count);
    for (int d = 0; d < 4; d++)
        ork_buffer_u64(buffer, tensor->dimensions[d]);
    ork_buffer_f32(buffer, tensor->relative_error);
    ork_buffer_f32(buffer, tensor->sensitivity);
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        ork_buffer_u64(buffer, tensor->planes[kind].offset_bytes);
        ork_buffer_u64(buffer, tensor->planes[kind].size_bytes);
        ork_buffer_u64(buffer, tensor->planes[kind].expert_stride_bytes);
        ork_buffer_u64(buffer, tensor->planes[kind].checksum);
    }
    append_padding(buffer, end);
}

/* Header, metadata and index, up to the first plane, with the checksum in place. */
static void encode_front(const struct ork_orkpack_writer *writer, struct ork_buffer *buffer)
{
    const struct orkpack_header *header = &writer->header;
    struct ork_buffer checksum = {0};

    ork_buffer_append(buffer, ORKPACK_MAGIC, ORKPACK_MAGIC_BYTES);
    ork_buffer_u64(buffer, 0);
    ork_buffer_u32(buffer, header->version);
    ork_buffer_u32(buffer, header->header_bytes);
    ork_buffer_u64(buffer, header->mandatory_flags);
    ork_buffer_u64(buffer, header->optional_flags);
    ork_buffer_u64(buffer, header->file_size_bytes);
    ork_buffer_u64(buffer, header->metadata_offset);
    ork_buffer_u64(buffer, header->metadata_size_bytes);
    ork_buffer_u64(buffer, header->metadata_count);
    ork_buffer_u64(buffer, header->index_offset);
    ork_buffer_u64(buffer, header->index_size_bytes);
    ork_buffer_u64(buffer, header->tensor_count);
    ork_buffer_u64(buffer, header->planes_offset);
    append_padding(buffer, ORKPACK_HEADER_BYTES);
    ork_buffer_append(buffer, writer->metadata.data, writer->metadata.size_bytes);
    append_padding(buffer, header->index_offset);
    for (uint64_t i = 0; i < header->tensor_count; i++)
        append_entry(buffer, &writer->tensors[i]);
    append_padding(buffer, header->planes_offset);
    if (buffer->failed)
        return;
    ork_buffer_u64(&checksum,
                   XXH3_64bits(buffer->data + ORKPACK_CHECKED_FROM, buffer->size_bytes - ORKPACK_CHECKED_FROM));
    if (checksum.failed)
        buffer->failed = true;
    else
        memcpy(buffer->data + ORKPACK_CHECKSUM_OFFSET, checksum.data, sizeof(uint64_t));
    ork_buffer_free(&checksum);
}

/* ---- plan of the file ---- */

/* Fills the header, and the plane offsets of placed (a copy of tensors, or NULL). */
static bool lay_out(uint64_t metadata_bytes, uint64_t metadata_count, const struct ork_orkpack_tensor *tensors,
                    uint64_t tensor_count, struct orkpack_header *header, struct ork_orkpack_tensor *placed)
{
    uint64_t end;

    *header = (struct orkpack_header){
        .version = ORK_ORKPACK_VERSION,
        .header_bytes = ORKPACK_HEADER_BYTES,
        .metadata_offset = ORKPACK_HEADER_BYTES,
        .metadata_size_bytes = metadata_bytes,
        .metadata_count = metadata_count,
        .tensor_count = tensor_count,
        .index_size_bytes = tensor_count * ORKPACK_ENTRY_BYTES,
    };
    if (tensor_count > ORKPACK_TENSORS_MAX || metadata_bytes > ORKPACK_FRONT_BYTES_MAX / 2)
        return false;
    header->index_offset = ork_round_up(ORKPACK_HEADER_BYTES + metadata_bytes, ORKPACK_INDEX_ALIGNMENT);
    header->planes_offset = ork_round_up(header->index_offset + header->index_size_bytes, ORK_ORKPACK_ALIGNMENT);
    end = header->planes_offset;
    for (uint64_t i = 0; i < tensor_count; i++)
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
            uint64_t size = tensors[i].planes[kind].size_bytes;
            if (placed != NULL) {
                placed[i].planes[kind].checksum = 0;
                placed[i].planes[kind].offset_bytes = size == 0 ? 0 : end;
            }
            if (!ork_checked_add(end, size, &end) || !ork_checked_align(end, ORK_ORKPACK_ALIGNMENT, &end) ||
                end > INT64_MAX)
                return false;
        }
    header->file_size_bytes = end;
    return header->planes_offset <= ORKPACK_FRONT_BYTES_MAX;
}

uint64_t ork_orkpack_planned_size_bytes(const struct ork_buffer *metadata, const struct ork_orkpack_tensor *tensors,
                                        size_t tensor_count)
{
    struct orkpack_header header;
    return lay_out(metadata->size_bytes, 0, tensors, tensor_count, &header, NULL) ? header.file_size_bytes : 0;
}

static char *path_with_suffix(const char *path, const char *suffix)
{
    char *result = NULL;
    return asprintf(&result, "%s%s", path, suffix) < 0 ? NULL : result;
}

static char *directory_of(const char *path)
{
    char *copy = strdup(path), *result = copy == NULL ? NULL : strdup(dirname(copy));
    free(copy);
    return result;
}

/* The output's directory must be there, the output itself not (or a file that may be replaced). */
static ork_status check_output(const struct ork_orkpack_writer *writer, ork_error *error)
{
    struct stat info;

    if (writer->path[0] == 0 || writer->path[strlen(writer->path) - 1] == '/')
        return ork_error_set(error, ORK_BAD_ARGUMENT, writer->path, -1, "the output needs a file name");
    if (stat(writer->directory, &info) != 0)
        return ork_error_errno(error, writer->directory, "cannot use the output's directory");
    if (!S_ISDIR(info.st_mode))
        return ork_error_set(error, ORK_NOT_FOUND, writer->directory, -1, "the output's directory is not a directory");
    if (lstat(writer->path, &info) != 0)
        return errno == ENOENT ? ORK_OK : ork_error_errno(error, writer->path, "cannot look at the output");
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return ork_error_set(error, ORK_BAD_ARGUMENT, writer->path, -1, "the output exists and is not a regular file");
    if (!writer->overwrite)
        return ork_error_set(error, ORK_EXISTS, writer->path, -1, "the output exists already");
    return ORK_OK;
}

/* Opens the partial file for this process alone; *fresh is set when it was not there before. */
static ork_status open_partial(struct ork_orkpack_writer *writer, bool *fresh, ork_error *error)
{
    struct stat opened, named;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

    *fresh = false;
    writer->descriptor = open(writer->partial_path, flags);
    if (writer->descriptor < 0 && errno == ENOENT) {
        writer->descriptor = open(writer->partial_path, flags | O_CREAT, 0666);
        *fresh = true;
    }
    if (writer->descriptor < 0)
        return ork_error_errno(error, writer->partial_path, "cannot write");
    if (flock(writer->descriptor, LOCK_EX | LOCK_NB) != 0)
        return ork_error_set(error, ORK_EXISTS, writer->partial_path, -1, "another run is writing this output now");
    /* The other run may have finished and renamed the file between open and lock. */
    if (fstat(writer->descriptor, &opened) != 0 || !S_ISREG(opened.st_mode) ||
        stat(writer->partial_path, &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)
        return ork_error_set(error, ORK_EXISTS, writer->partial_path, -1, "another run was writing this output");
    return ORK_OK;
}

/* Takes the disk space now, so that a full disk is found before the work. */
static ork_status reserve(const struct ork_orkpack_writer *writer, ork_error *error)
{
    uint64_t size = writer->header.file_size_bytes, room;
    struct statvfs system;

    if (ftruncate(writer->descriptor, (off_t)size) != 0)
        return ork_error_errno(error, writer->partial_path, "cannot set the size");
    if (fallocate(writer->descriptor, 0, 0, (off_t)size) == 0)
        return ORK_OK;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        return ork_error_set(error, ORK_IO, writer->partial_path, -1, "no room for %llu bytes: %s",
                             (unsigned long long)size, errno == EFBIG ? "file size limit" : "disk full");
    if (fstatvfs(writer->descriptor, &system) != 0)
        return ORK_OK; /* a file system that can neither reserve nor tell: writes will show */
    room = (uint64_t)system.f_bavail * system.f_frsize;
    if (room < size)
        return ork_error_set(error, ORK_IO, writer->partial_path, -1, "no room for %llu bytes: %llu are free",
                             (unsigned long long)size, (unsigned long long)room);
    return ORK_OK;
}

/* ---- resuming ---- */

static bool plane_has_checksum(const struct ork_orkpack_writer *writer, const struct ork_orkpack_plane *plane,
                               uint64_t checksum, uint8_t *scratch)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t done = 0;
    bool equal = false;

    if (state == NULL || XXH3_64bits_reset(state) != XXH_OK)
        goto out;
    while (done < plane->size_bytes) {
        uint64_t left = plane->size_bytes - done;
        ssize_t got = pread(writer->descriptor, scratch, left < READ_STEP_BYTES ? left : READ_STEP_BYTES,
                            (off_t)(plane->offset_bytes + done));
        if (got <= 0 || XXH3_64bits_update(state, scratch, (size_t)got) != XXH_OK)
            goto out;
        done += (uint64_t)got;
    }
    equal = XXH3_64bits_digest(state) == checksum;
out:
    XXH3_freeState(state);
    return equal;
}

/* Believes a record only if the bytes are really there. */
static bool replay_record(struct ork_orkpack_writer *writer, const struct orkpack_journal_record *record,
                          uint8_t *scratch)
{
    struct ork_orkpack_tensor *tensor;

    if (record->index >= writer->header.tensor_count || writer->done[record->index])
        return false;
    tensor = &writer->tensors[record->index];
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        if (tensor->planes[kind].size_bytes != 0 &&
            !plane_has_checksum(writer, &tensor->planes[kind], record->checksums[kind], scratch))
            return false;
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        tensor->planes[kind].checksum = record->checksums[kind];
    tensor->relative_error = record->relative_error;
    writer->done[record->index] = true;
    return true;
}

/* Continues an earlier run of the same identity, or empties both files. */
static ork_status resume_or_start(struct ork_orkpack_writer *writer, const struct orkpack_journal_identity *identity,
                                  bool fresh, size_t *resumed_count, ork_error *error)
{
    uint64_t offset;
    struct orkpack_journal_record record;
    uint8_t *scratch;

    *resumed_count = 0;
    if (fresh || !orkpack_journal_matches(writer->journal, identity, &offset)) {
        if (ftruncate(writer->descriptor, 0) != 0)
            return ork_error_errno(error, writer->partial_path, "cannot empty");
        return orkpack_journal_start(writer->journal, writer->journal_path, identity, error);
    }
    scratch = malloc(READ_STEP_BYTES);
    if (scratch == NULL)
        return ork_error_no_memory(error, writer->partial_path, READ_STEP_BYTES);
    if (lseek(writer->journal, (off_t)offset, SEEK_SET) < 0) {
        free(scratch);
        return ork_error_errno(error, writer->journal_path, "cannot seek");
    }
    while (orkpack_journal_next(writer->journal, &offset, &record))
        *resumed_count += replay_record(writer, &record, scratch);
    free(scratch);
    return ORK_OK;
}

/* Hash of everything that is known before the first tensor is written. */
static bool hash_layout(const struct ork_orkpack_writer *writer, uint64_t *hash)
{
    struct ork_buffer front = {0};
    bool complete;

    encode_front(writer, &front);
    complete = !front.failed;
    *hash = complete ? XXH3_64bits(front.data, front.size_bytes) : 0;
    ork_buffer_free(&front);
    return complete;
}

/* ---- the writer ---- */

static void free_writer(struct ork_orkpack_writer *writer)
{
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    if (writer->journal >= 0)
        close(writer->journal);
    ork_buffer_free(&writer->metadata);
    free(writer->tensors);
    free(writer->done);
    free(writer->path);
    free(writer->partial_path);
    free(writer->journal_path);
    free(writer->directory);
    free(writer);
}

static struct ork_orkpack_writer *allocate_writer(const char *path, const struct ork_buffer *metadata,
                                                  const struct ork_orkpack_tensor *tensors, size_t tensor_count)
{
    struct ork_orkpack_writer *writer = calloc(1, sizeof(*writer));

    if (writer == NULL)
        return NULL;
    writer->descriptor = writer->journal = -1;
    writer->path = strdup(path);
    writer->partial_path = path_with_suffix(path, ".partial");
    writer->journal_path = path_with_suffix(path, ".journal");
    writer->directory = directory_of(path);
    writer->tensors = calloc(tensor_count + 1, sizeof(*tensors));
    writer->done = calloc(tensor_count + 1, sizeof(bool));
    ork_buffer_append(&writer->metadata, metadata->data, metadata->size_bytes);
    if (writer->path == NULL || writer->partial_path == NULL || writer->journal_path == NULL ||
        writer->directory == NULL || writer->tensors == NULL || writer->done == NULL || writer->metadata.failed) {
        free_writer(writer);
        return NULL;
    }
    if (tensor_count != 0)
        memcpy(writer->tensors, tensors, tensor_count * sizeof(*tensors));
    return writer;
}

ork_status ork_orkpack_writer_create(const char *path, bool overwrite, const struct ork_buffer *metadata,
                                     uint64_t metadata_count, const struct ork_orkpack_tensor *tensors,
                                     size_t tensor_count, uint64_t plan_hash, ork_orkpack_writer **out,
                                     size_t *resumed_count, ork_error *error)
{
    struct orkpack_journal_identity identity = {.plan_hash = plan_hash};
    struct ork_orkpack_writer *writer = allocate_writer(path, metadata, tensors, tensor_count);
    bool fresh = false, owned = false;
    ork_status status;

    *out = NULL;
    *resumed_count = 0;
    if (writer == NULL)
        return ork_error_no_memory(error, path, tensor_count * sizeof(*tensors));
    writer->overwrite = overwrite;
    if ((status = check_output(writer, error)) != ORK_OK)
        goto out;
    if (!lay_out(metadata->size_bytes, metadata_count, tensors, tensor_count, &writer->header, writer->tensors)) {
        status = ork_error_set(error, ORK_LIMIT, path, -1, "the pack would be larger than the format allows");
        goto out;
    }
    for (size_t i = 0; i < tensor_count; i++)
        if (!orkpack_name_is_valid(tensors[i].name)) {
            status = ork_error_set(error, ORK_BAD_ARGUMENT, path, -1,
                                   "name of tensor %zu is empty or holds control "
                                   "characters",
                                   i);
            goto out;
        }
    if (!hash_layout(writer, &identity.layout_hash)) {
        status = ork_error_no_memory(error, path, writer->header.planes_offset);
        goto out;
    }
    identity.file_size_bytes = writer->header.file_size_bytes;
    if ((status = open_partial(writer, &fresh, error)) != ORK_OK)
        goto out;
    owned = true;
    if ((status = orkpack_journal_open(writer->journal_path, &writer->journal, error)) != ORK_OK ||
        (status = resume_or_start(writer, &identity, fresh, resumed_count, error)) != ORK_OK)
        goto out;
    status = reserve(writer, error);
out:
    if (status == ORK_OK)
        *out = writer;
    else
        ork_orkpack_writer_abandon(writer, !owned || *resumed_count != 0);
    return status;
}

bool ork_orkpack_writer_is_done(const ork_orkpack_writer *writer, size_t index)
{
    return writer->done[index];
}

float ork_orkpack_writer_relative_error(const ork_orkpack_writer *writer, size_t index)
{
    return writer->tensors[index].relative_error;
}

static ork_status write_at(const struct ork_orkpack_writer *writer, const uint8_t *data, uint64_t size_bytes,
                           uint64_t offset, ork_error *error)
{
    while (size_bytes > 0) {
        ssize_t written = pwrite(writer->descriptor, data,
                                 size_bytes < WRITE_STEP_BYTES ? size_bytes : WRITE_STEP_BYTES, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
            return ork_error_set(error, ORK_IO, writer->partial_path, (int64_t)offset, "cannot write: disk full");
        if (written < 0)
            return ork_error_errno(error, writer->partial_path, "cannot write");
        /* Starts writing back now, so that the final fsync has little left to wait for. */
        (void)sync_file_range(writer->descriptor, (off_t)offset, written, SYNC_FILE_RANGE_WRITE);
        data += written;
        offset += (uint64_t)written;
        size_bytes -= (uint64_t)written;
    }
    return ORK_OK;
}

ork_status ork_orkpack_writer_put(ork_orkpack_writer *writer, size_t index,
                                  const uint8_t *const planes[ORK_PLANE_COUNT], float relative_error, ork_error *error)
{
    struct ork_orkpack_tensor *tensor = &writer->tensors[index];
    struct orkpack_journal_record record = {.index = index, .relative_error = relative_error};
    ork_status status;

    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        struct ork_orkpack_plane *plane = &tensor->planes[kind];
        if (plane->size_bytes == 0)
            continue;
        status = write_at(writer, planes[kind], plane->size_bytes, plane->offset_bytes, error);
        if (status != ORK_OK)
            return status;
        record.checksums[kind] = plane->checksum = XXH3_64bits(planes[kind], plane->size_bytes);
    }
    tensor->relative_error = relative_error;
    if ((status = orkpack_journal_append(writer->journal, writer->journal_path, &record, error)) != ORK_OK)
        return status;
    writer->done[index] = true;
    return ORK_OK;
}

/* Gives the finished file its name, without replacing anything unless asked to. */
static ork_status publish(const struct ork_orkpack_writer *writer, ork_error *error)
{
    int directory;

    if (!writer->overwrite) {
        if (renameat2(AT_FDCWD, writer->partial_path, AT_FDCWD, writer->path, RENAME_NOREPLACE) == 0)
            goto renamed;
        if (errno == EEXIST)
            return ork_error_set(error, ORK_EXISTS, writer->path, -1, "the output came into being during the pack");
        if (errno != EINVAL && errno != ENOSYS)
            return ork_error_errno(error, writer->path, "cannot rename");
        if (access(writer->path, F_OK) == 0)
            return ork_error_set(error, ORK_EXISTS, writer->path, -1, "the output came into being during the pack");
    }
    if (rename(writer->partial_path, writer->path) != 0)
        return ork_error_errno(error, writer->path, "cannot rename");
renamed:
    directory = open(writer->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)fsync(directory); /* some file systems cannot; the file itself is safe */
        close(directory);
    }
    return ORK_OK;
}

ork_status ork_orkpack_writer_finish(ork_orkpack_writer *writer, uint64_t *file_size_bytes, ork_error *error)
{
    struct ork_buffer front = {0};
    ork_status status = ORK_OK;

    for (uint64_t i = 0; i < writer->header.tensor_count; i++)
        if (!writer->done[i]) {
            status = ork_error_set(error, ORK_FAILURE, writer->tensors[i].name, -1, "the tensor was never written");
            goto out;
        }
    encode_front(writer, &front);
    if (front.failed) {
        status = ork_error_no_memory(error, writer->path, writer->header.planes_offset);
        goto out;
    }
    if ((status = write_at(writer, front.data, front.size_bytes, 0, error)) != ORK_OK)
        goto out;
    if (fsync(writer->descriptor) != 0) {
        status = ork_error_errno(error, writer->partial_path, "cannot sync");
        goto out;
    }
    if ((status = publish(writer, error)) != ORK_OK)
        goto out;
    (void)unlink(writer->journal_path);
    if (file_size_bytes != NULL)
        *file_size_bytes = writer->header.file_size_bytes;
out:
    ork_buffer_free(&front);
    free_writer(writer);
    return status;
}

void ork_orkpack_writer_abandon(ork_orkpack_writer *writer, bool keep)
{
    if (writer == NULL)
        return;
    if (!keep) {
        (void)unlink(writer->partial_path);
        (void)unlink(writer->journal_path);
    }
    free_writer(writer);
}
