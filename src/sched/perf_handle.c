/* Owns the public handle of a perf model: opening, storing, closing. Must not know figures. */
#include "base/error.h"
#include "base/file.h"
#include "sched/perf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ork_status keep(const struct ork_perf *read, ork_perf **perf, ork_error *error)
{
    *perf = malloc(sizeof **perf);
    if (!*perf)
        return ork_error_no_memory(error, "perf model", sizeof **perf);
    **perf = *read;
    return ORK_OK;
}

ork_status ork_perf_open_board(const char *path, ork_perf **perf, ork_error *error)
{
    struct ork_perf read;
    *perf = NULL;
    const ork_status status = ork_perf_from_board(path, &read, error);
    return status == ORK_OK ? keep(&read, perf, error) : status;
}

ork_status ork_perf_open_assumed(ork_perf **perf, ork_error *error)
{
    struct ork_perf_identity identity;
    struct ork_perf read;
    *perf = NULL;
    const ork_status status = ork_perf_identify("/", 0, NULL, &identity, error);
    if (status != ORK_OK)
        return status;
    ork_perf_assume(&identity, &read);
    return keep(&read, perf, error);
}

ork_status ork_perf_open_calibration(const char *path, uint32_t threads, const ork_npu *npu, ork_perf **perf,
                                     ork_error *error)
{
    struct ork_perf_identity identity;
    struct ork_mapping mapping = {0};
    struct ork_perf read;
    *perf = NULL;
    ork_status status = ork_file_map(path, &mapping, error);
    if (status != ORK_OK)
        return status;
    status = ork_perf_parse(mapping.data, mapping.size_bytes, path, &read, error);
    ork_mapping_release(&mapping);
    if (status == ORK_OK)
        status = ork_perf_identify("/", threads, npu, &identity, error);
    if (status == ORK_OK)
        status = ork_perf_check_identity(&read.identity, &identity, path, error);
    if (status != ORK_OK)
        return status;
    read.has_npu = read.has_npu && npu;
    return keep(&read, perf, error);
}

void ork_perf_close(ork_perf *perf)
{
    free(perf);
}

ork_status ork_perf_text(const ork_perf *perf, char **text, ork_error *error)
{
    return ork_perf_write(perf, text, error);
}

static ork_status write_all(int fd, const char *text, const char *path, ork_error *error)
{
    for (size_t left = strlen(text); left;) {
        const ssize_t written = write(fd, text, left);
        if (written < 0)
            return ork_error_errno(error, path, "cannot write");
        text += written;
        left -= (size_t)written;
    }
    return fsync(fd) == 0 ? ORK_OK : ork_error_errno(error, path, "cannot write");
}

ork_status ork_perf_save(const ork_perf *perf, const char *path, ork_error *error)
{
    const size_t part_bytes = strlen(path) + 16;
    char *text = NULL, *part = malloc(part_bytes);
    if (!part)
        return ork_error_no_memory(error, path, part_bytes);
    ork_status status = ork_perf_write(perf, &text, error);
    if (status != ORK_OK)
        goto out;
    snprintf(part, part_bytes, "%s.%ld", path, (long)getpid() % 1000000);
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        status = ork_error_errno(error, part, "cannot create");
        goto out;
    }
    status = write_all(fd, text, part, error);
    if (close(fd) != 0 && status == ORK_OK)
        status = ork_error_errno(error, part, "cannot write");
    if (status == ORK_OK && rename(part, path) != 0)
        status = ork_error_errno(error, path, "cannot rename");
    if (status != ORK_OK)
        unlink(part);
out:
    free(text);
    free(part);
    return status;
}
