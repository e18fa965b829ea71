/* The published envelopes as a table, and the rules that follow from them. Owns every limit of a task; knows no registers.
 *
 * Sources, by the tags of the table: HAP happyme531/rknpu2_matmul_open, ORK oRKLLM/ork-driver (both on RK3588 boards with
 * the vendor's driver, bit-exact); npu-hw.md 4 and ork-driver.md 4.2. */
#include "engine/npu/limits.h"

#include "base/checked.h"
#include "base/error.h"

enum {
    K_STEP = 32,
    K_MAX_I8 = 10752, /* single pass: HAP and ORK agree */
    K_MAX_I4 = 2048,  /* HAP */
    N_MAX_I4 = 4096,  /* HAP */
    ROWS_MAX_I8 = 512 /* the most rows of a task that anyone has published at any k */
};

/* One range of k. Rows are limited by `rows` and by what fits `banks` of features. */
struct envelope {
    enum ork_npu_type type;
    enum ork_npu_surface input;
    uint32_t k_first, k_last, rows, banks;
    uint32_t rows_unit;  /* features get the banks of so many rows, rounded up: 1, or ORK's schedule of 64 */
    uint32_t grains_max; /* 0: HAP's rule */
};

/* The first that fits counts. */
static const struct envelope envelopes[] = {
    /* HAP keeps native features within 4 banks. Between 3072 and 4096 its programs time out with more than 4 rows. */
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 32, 3072, ROWS_MAX_I8, 4, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 3104, 4064, 4, 4, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 4096, 4096, ROWS_MAX_I8, 4, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 4128, 6144, 32, 4, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 6176, 8192, 16, 4, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_NATIVE, 8224, K_MAX_I8, 1, 4, 1, 0},
    /* HAP: 8 banks up to 4096 (ORK the same at 2048 and 4096, more below), 32 and 16 rows above. In HAP's bad band ORK's
     * programs run: 64 rows at 3584 with the bank schedule of 64 rows, elsewhere fewer than 16 rows (its older rule, rows
     * below the power of two in 65536 / k). */
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 32, 3072, ROWS_MAX_I8, 8, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 3584, 3584, 64, 8, 64, 16},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 3104, 4064, 15, 8, 1, 16},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 4096, 4096, ROWS_MAX_I8, 8, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 4128, 6144, 32, 8, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 6176, 8192, 16, 8, 1, 0},
    {ORK_NPU_W8A8, ORK_NPU_ROWS, 8224, K_MAX_I8, 1, 8, 1, 0},
    /* HAP. Its panels of 8 rows are not used; nobody has published plain rows of int4. */
    {ORK_NPU_W4A4, ORK_NPU_NATIVE, 32, K_MAX_I4, 128, 4, 1, 0},
};
enum { ENVELOPE_COUNT = sizeof envelopes / sizeof *envelopes };

static const struct envelope *find_envelope(enum ork_npu_type type, enum ork_npu_surface input, uint32_t k)
{
    for (size_t i = 0; i < ENVELOPE_COUNT; i++) {
        const struct envelope *one = &envelopes[i];
        if (one->type == type && one->input == input && k >= one->k_first && k <= one->k_last)
            return k % K_STEP == 0 ? one : NULL;
    }
    return NULL;
}

static uint64_t feature_bytes(enum ork_npu_type type, uint64_t m, uint64_t k)
{
    return type == ORK_NPU_W4A4 ? m * k / 2 : m * k;
}

uint32_t ork_npu_rows_max(enum ork_npu_type type, enum ork_npu_surface input, uint32_t k)
{
    const struct envelope *envelope = find_envelope(type, input, k);
    if (!envelope)
        return 0;
    uint64_t rows = (uint64_t)envelope->banks * ORK_NPU_BANK_BYTES / feature_bytes(type, 1, k);
    return rows < envelope->rows ? (uint32_t)rows : envelope->rows;
}

enum ork_npu_surface ork_npu_best_input(enum ork_npu_type type, uint32_t k, uint32_t m)
{
    uint32_t native = ork_npu_rows_max(type, ORK_NPU_NATIVE, k);
    return native >= m || native >= ork_npu_rows_max(type, ORK_NPU_ROWS, k) ? ORK_NPU_NATIVE : ORK_NPU_ROWS;
}

uint32_t ork_npu_k_max(enum ork_npu_type type, uint32_t a_max, uint32_t w_max)
{
    if (type == ORK_NPU_W8A8)
        return K_MAX_I8;
    if (a_max < 1 || a_max > 8 || w_max < 1 || w_max > 8)
        return 0;
    uint32_t safe = INT16_MAX / (a_max * w_max) / K_STEP * K_STEP;
    return safe < K_MAX_I4 ? safe : K_MAX_I4;
}

uint32_t ork_npu_k_total_max(enum ork_npu_type type)
{
    uint32_t largest = type == ORK_NPU_W8A8 ? 128 * 128 : 8 * 8;
    return INT32_MAX / largest / K_STEP * K_STEP;
}

uint32_t ork_npu_n_max(enum ork_npu_type type)
{
    return type == ORK_NPU_W8A8 ? ORK_NPU_N_MAX : N_MAX_I4;
}

uint32_t ork_npu_group(enum ork_npu_type type)
{
    return type == ORK_NPU_W8A8 ? 32 : 64;
}

ork_status ork_npu_shape_check(const struct ork_npu_shape *shape, ork_error *error)
{
    static const char *const names[] = {"W8A8", "W4A4"};
    static const char *const surfaces[] = {"native", "row"};
    if ((unsigned)shape->type >= ORK_NPU_TYPE_COUNT || (unsigned)shape->input > ORK_NPU_ROWS ||
        (unsigned)shape->output > ORK_NPU_ROWS)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "unknown type or surface of a task");
    const char *name = names[shape->type];
    uint32_t group = ork_npu_group(shape->type), n_max = ork_npu_n_max(shape->type);
    if (shape->m == 0 || shape->k == 0 || shape->n == 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a task of %u x %u x %u is empty", shape->m, shape->k,
                             shape->n);
    if (shape->k % K_STEP)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%u inputs are no multiple of %d", shape->k, K_STEP);
    if (shape->n % group)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%u channels are no multiple of %s's %u", shape->n,
                             name, group);
    if (shape->n > n_max)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u channels: a %s task has at most %u", shape->n, name,
                             n_max);
    if (shape->output == ORK_NPU_ROWS && (shape->type != ORK_NPU_W8A8 || shape->input != ORK_NPU_ROWS))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "results by rows need W8A8 with inputs by rows");
    uint32_t rows = ork_npu_rows_max(shape->type, shape->input, shape->k);
    if (rows == 0)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u inputs: no %s task with a %s input surface", shape->k,
                             name, surfaces[shape->input]);
    if (shape->m > rows)
        return ork_error_set(error, ORK_LIMIT, NULL, -1,
                             "%u rows: a %s task of %u inputs has at most %u with a %s surface", shape->m, name,
                             shape->k, rows, surfaces[shape->input]);
    return ORK_OK;
}

/* HAP: rows up to about two banks, an even number. ORK: rows up to the power of two in 65536 / k. One line with native
 * surfaces: 2. */
static uint32_t grains_of(const struct ork_npu_shape *shape, const struct envelope *envelope)
{
    if (shape->input == ORK_NPU_NATIVE || shape->m == 1)
        return 2;
    uint32_t lines = envelope->grains_max;
    if (!lines)
        lines = (uint32_t)ork_round_up(ork_divide_up(2 * ORK_NPU_BANK_BYTES, shape->k) + 1, 2);
    return shape->m + 1 < lines ? shape->m + 1 : lines;
}

struct ork_npu_schedule ork_npu_schedule_of(const struct ork_npu_shape *shape)
{
    const struct envelope *envelope = find_envelope(shape->type, shape->input, shape->k);
    uint64_t rows = shape->m == 1 ? 1 : ork_round_up(shape->m, envelope->rows_unit);
    uint32_t data = (uint32_t)ork_divide_up(feature_bytes(shape->type, rows, shape->k), ORK_NPU_BANK_BYTES);
    return (struct ork_npu_schedule){data, ORK_NPU_BANKS - data, grains_of(shape, envelope)};
}
