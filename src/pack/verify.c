/* Verifies an orkpack: every checksum, and what checksums cannot tell: finite scales and weights, codes in range, zero
 * padding, usable tables. Owns these rules; reading and bounds are format's. */
#include "format/orkpack.h"

#include "base/clock.h"
#include "base/error.h"
#include "quant/nested.h"
#include "quant/upper_bits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROGRESS_INTERVAL_US 250000u

struct verification {
    const ork_orkpack *pack;
    ork_verify_report *report;
    ork_progress_function progress;
    void *progress_context;
    struct ork_progress state;
    uint64_t reported_us;
    char first_non_finite[ORK_ORKPACK_NAME_MAX + 1]; /* tensor */
};

static bool report_progress(struct verification *run, bool force)
{
    uint64_t now = ork_clock_now_us();

    run->state.done_bytes = run->report->checked_bytes;
    if (run->progress == NULL || (!force && now - run->reported_us < PROGRESS_INTERVAL_US))
        return true;
    run->reported_us = now;
    return run->progress(run->progress_context, &run->state);
}

/* ---- numbers ---- */

static void count_non_finite(struct verification *run, const struct ork_matrix *matrix, size_t count)
{
    if (count == 0)
        return;
    if (run->report->non_finite_count == 0)
        snprintf(run->first_non_finite, sizeof(run->first_non_finite), "%s", matrix->name);
    run->report->non_finite_count += count;
}

/* Numbers of `size` bytes whose exponent bits, those of mask, are all set. */
static size_t find_non_finite(const uint8_t *bytes, uint64_t count, uint32_t size, uint32_t mask)
{
    size_t found = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, bytes + i * size, size);
        found += (bits & mask) == mask;
    }
    return found;
}

static ork_status refuse(const struct verification *run, const struct ork_matrix *matrix, const uint8_t *at,
                         const char *what, ork_error *error)
{
    const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_find(run->pack, matrix->name);
    const uint8_t *data = ork_orkpack_plane_data(run->pack, tensor, ORK_PLANE_DATA);
    int64_t offset = (int64_t)tensor->planes[ORK_PLANE_DATA].offset_bytes + (at - data);

    return ork_error_set(error, ORK_BAD_FILE, ork_orkpack_path(run->pack), offset, "tensor %s: %s", matrix->name, what);
}

/* ---- one expert of a tensor ---- */

static void check_float_rows(struct verification *run, const struct ork_matrix *matrix, const uint8_t *data)
{
    uint64_t count = (uint64_t)matrix->n * matrix->k;
    uint32_t size = matrix->tier == ORK_TIER_F32 ? 4 : 2;
    uint32_t mask = matrix->tier == ORK_TIER_F32 ? 0x7f800000u : matrix->tier == ORK_TIER_F16 ? 0x7c00u : 0x7f80u;

    count_non_finite(run, matrix, find_non_finite(data, count, size, mask));
}

static ork_status check_g8(struct verification *run, const struct ork_matrix *matrix, const uint8_t *data,
                           const uint8_t *scales, ork_error *error)
{
    uint64_t blocks = ((uint64_t)matrix->k + 31) / 32, row_bytes = blocks * 32;
    const uint8_t *bad = memchr(data, 0x80, matrix->n * row_bytes);

    count_non_finite(run, matrix, find_non_finite(scales, matrix->n * blocks, 2, 0x7c00u));
    if (bad != NULL)
        return refuse(run, matrix, bad, "code -128", error);
    for (uint64_t row = 0; row < matrix->n; row++)
        for (uint64_t k = matrix->k; k < row_bytes; k++)
            if (data[row * row_bytes + k] != 0)
                return refuse(run, matrix, data + row * row_bytes + k, "padding is not zero", error);
    return ORK_OK;
}

/* Code at (channel, k) of a brick tier, and where it stands. */
static int brick_code(const struct ork_matrix *matrix, const uint8_t *data, uint64_t channel, uint64_t k,
                      const uint8_t **at)
{
    uint64_t tiles = ((uint64_t)matrix->k + 31) / 32;

    if (matrix->tier == ORK_TIER_I8) {
        *at = data + (channel / 32 * tiles + k / 32) * 1024 + channel % 32 * 32 + k % 32;
        return (int8_t) * *at;
    }
    uint32_t bits = ork_upper_bits(matrix->tier);
    if (bits != 0) {
        struct ork_upper_place place = ork_upper_find(bits, tiles, channel, k);
        *at = data + place.nibble_byte;
        return ork_upper_read(bits, data, place);
    }
    *at = data + (channel / 64 * tiles + k / 32) * 1024 + channel % 64 * 16 + k % 32 / 2;
    int nibble = k % 2 == 0 ? **at & 15 : **at >> 4;
    if (matrix->tier == ORK_TIER_N8) {
        uint8_t residual = (*at)[ork_nested_residual_bytes(matrix->n, matrix->k)];
        return ork_nested_code(matrix->table, (uint32_t)nibble, k % 2 == 0 ? residual & 15 : residual >> 4);
    }
    return matrix->table != NULL ? matrix->table[nibble] : (nibble ^ 8) - 8;
}

static ork_status check_bricks(struct verification *run, const struct ork_matrix *matrix, const uint8_t *data,
                               const uint8_t *scales, ork_error *error)
{
    uint64_t channels = ork_tier_find(matrix->tier)->brick_channels;
    uint64_t n_padded = (matrix->n + channels - 1) / channels * channels;
    uint64_t k_padded = ((uint64_t)matrix->k + 31) / 32 * 32;
    const uint8_t *at;

    count_non_finite(run, matrix, find_non_finite(scales, n_padded, 4, 0x7f800000u));
    for (uint64_t channel = matrix->n; channel < n_padded; channel++) {
        uint32_t bits;
        memcpy(&bits, scales + channel * 4, sizeof(bits));
        if (bits != 0)
            return refuse(run, matrix, data, "scale of a padding channel is not 0", error);
    }
    if (matrix->tier == ORK_TIER_I8 && (at = memchr(data, 0x80, n_padded * k_padded)) != NULL)
        return refuse(run, matrix, at, "code -128", error);
    for (uint64_t channel = 0; channel < n_padded; channel++)
        for (uint64_t k = matrix->k; k < k_padded; k++)
            if (brick_code(matrix, data, channel, k, &at) != 0)
                return refuse(run, matrix, at, "padding does not mean 0", error);
    return ORK_OK;
}

static ork_status check_table(const struct verification *run, const struct ork_matrix *matrix, ork_error *error)
{
    for (int i = 1; matrix->table != NULL && i < 16; i++)
        if (matrix->table[i] <= matrix->table[i - 1])
            return refuse(run, matrix, matrix->data, "the code table does not ascend", error);
    return ORK_OK;
}

static ork_status check_tensor(struct verification *run, const struct ork_orkpack_tensor *tensor, ork_error *error)
{
    struct ork_matrix matrix;
    ork_status status = ork_matrix_from_pack(run->pack, tensor, &matrix, error);

    if (status == ORK_OK)
        status = check_table(run, &matrix, error);
    for (uint64_t expert = 0; status == ORK_OK && expert < matrix.experts; expert++) {
        const uint8_t *data = matrix.data + expert * matrix.data_expert_stride;
        const uint8_t *scales = matrix.scales == NULL ? NULL : matrix.scales + expert * matrix.scale_expert_stride;

        if (matrix.tier == ORK_TIER_G8)
            status = check_g8(run, &matrix, data, scales, error);
        else if (matrix.layout == ORK_LAYOUT_ROWS)
            check_float_rows(run, &matrix, data);
        else
            status = check_bricks(run, &matrix, data, scales, error);
    }
    return status;
}

/* ---- the file ---- */

static ork_status check_planes(struct verification *run, const struct ork_orkpack_tensor *tensor, ork_error *error)
{
    ork_status status;

    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        if (tensor->planes[kind].size_bytes == 0)
            continue;
        if ((status = ork_orkpack_verify_plane(run->pack, tensor, (enum ork_plane_kind)kind, error)) != ORK_OK)
            return status;
        run->report->plane_count++;
        run->report->checked_bytes += tensor->planes[kind].size_bytes;
        if (!report_progress(run, false))
            return ork_error_set(error, ORK_CANCELLED, ork_orkpack_path(run->pack), -1, "verifying was stopped");
    }
    return ORK_OK;
}

ork_status ork_verify_file(const char *orkpack_path, ork_progress_function progress, void *progress_context,
                           ork_verify_report *report, ork_error *error)
{
    ork_verify_report local_report;
    struct verification run = {.progress = progress, .progress_context = progress_context};
    ork_orkpack *pack = NULL;
    ork_status status;

    run.report = report != NULL ? report : &local_report;
    *run.report = (ork_verify_report){0};
    if ((status = ork_orkpack_open(orkpack_path, ORK_LOAD_MAP, NULL, NULL, &pack, error)) != ORK_OK)
        return status;
    run.pack = pack;
    run.state.total_bytes = ork_orkpack_file_size_bytes(pack);
    run.state.total_tensors = ork_orkpack_tensor_count(pack);
    for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, i);
        run.state.step = tensor->name;
        if ((status = check_planes(&run, tensor, error)) != ORK_OK ||
            (status = check_tensor(&run, tensor, error)) != ORK_OK)
            goto out;
        run.state.done_tensors++;
    }
    if (!report_progress(&run, true))
        status = ork_error_set(error, ORK_CANCELLED, orkpack_path, -1, "verifying was stopped");
    else if (run.report->non_finite_count != 0)
        status = ork_error_set(error, ORK_BAD_FILE, orkpack_path, -1,
                               "%zu scales or weights are NaN or infinite, the first in tensor %s",
                               run.report->non_finite_count, run.first_non_finite);
out:
    ork_orkpack_close(pack);
    return status;
}
