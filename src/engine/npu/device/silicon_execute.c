/* Executing a decoded matmul: features gathered through the address model, weights as a linear stream, results written
 * through the output model. Owns bus traffic and the faults that show in memory; arithmetic is in silicon_math.c.
 *
 * Addresses are npu-hw.md 5. Where one mapping holds a whole surface it is walked by pointers, else atom by atom. */
#include "engine/npu/device/silicon_internal.h"

#include "base/checked.h"

#include <inttypes.h>
#include <string.h>

/* ---- features ---- */

/* Atoms from A to the first surface of pixel (w, h). */
static int64_t pixel_atoms(const struct silicon_task *task, uint32_t h, uint32_t w)
{
    if (task->group_line_off)
        return h * task->line_stride + w;
    return (h / 4) * task->line_stride + (int64_t)(h % 4) * task->width + w;
}

static int64_t surface_atoms(const struct silicon_task *task)
{
    return (task->group_line_off ? 1 : 4) * (int64_t)task->width + task->surf_stride;
}

/* Host memory of the whole feature surface, or NULL. */
static const uint8_t *whole_features(const struct silicon_run *run, const struct silicon_task *task)
{
    const int64_t surfaces = (task->k / task->lane_channels - 1) * surface_atoms(task);
    int64_t last = pixel_atoms(task, task->height - 1, task->width - 1);
    const uint32_t before = task->height / 4 * 4; /* the last whole group of four lines may reach further */
    if (before > 0 && pixel_atoms(task, before - 1, task->width - 1) > last)
        last = pixel_atoms(task, before - 1, task->width - 1);
    const int64_t low = surfaces < 0 ? surfaces : 0, high = last + 1 + (surfaces > 0 ? surfaces : 0);
    const int64_t begin = (int64_t)task->a + SILICON_ATOM * low;
    if (begin < 0)
        return NULL;
    const uint8_t *host =
        silicon_translate(run->domain, (uint64_t)begin, (uint64_t)(SILICON_ATOM * (high - low)), false, NULL);
    return host ? host - SILICON_ATOM * low : NULL;
}

static bool gather_row(struct silicon_run *run, const struct silicon_task *task, const uint8_t *whole, uint32_t row,
                       int8_t *out)
{
    const int64_t pixel = pixel_atoms(task, row / task->width, row % task->width), pitch = surface_atoms(task);
    for (uint32_t s = 0; s < task->k / task->lane_channels; s++) {
        const int64_t offset = SILICON_ATOM * (pixel + s * pitch);
        const uint8_t *host = whole ? whole + offset : NULL;
        if (!host && (int64_t)task->a + offset >= 0)
            host = silicon_translate(run->domain, task->a + (uint64_t)offset, SILICON_ATOM, false, NULL);
        if (!host) {
            run->raw |= SILICON_DMA_READ_ERROR;
            return silicon_stop(run, ORK_SILICON_UNMAPPED, "features at 0x%" PRIx64 " are not mapped",
                                task->a + (uint64_t)offset);
        }
        if (task->int4)
            silicon_math_unpack(host, SILICON_ATOM, out + s * task->lane_channels);
        else
            memcpy(out + s * task->lane_channels, host, SILICON_ATOM);
    }
    return true;
}

/* Rows that come out right, and zeros up to a multiple of four. */
static bool gather(struct silicon_run *run, const struct silicon_task *task)
{
    struct silicon_core *core = run->core;
    const uint8_t *whole = whole_features(run, task);
    for (uint32_t row = 0; row < task->rows_right; row++) {
        int8_t *out = core->rows + (size_t)row * task->k;
        if (!gather_row(run, task, whole, row, out))
            return false;
        core->row_sums[row] = silicon_math_row_sum(out, task->k);
    }
    const uint32_t end = (uint32_t)ork_round_up(task->rows_right, 4), pad = end - task->rows_right;
    memset(core->rows + (size_t)task->rows_right * task->k, 0, (size_t)pad * task->k);
    memset(core->row_sums + task->rows_right, 0, pad * sizeof *core->row_sums);
    return true;
}

/* ---- weights ---- */

/* One kernel group as int8 bricks, [k / 32][group][32]; NULL: not mapped. */
static const int8_t *fetch_group(struct silicon_run *run, const struct silicon_task *task, uint32_t group)
{
    const uint64_t size_bytes = (uint64_t)task->group * task->row_bytes, address = task->b + group * size_bytes;
    const uint8_t *host = silicon_translate(run->domain, address, size_bytes, false, NULL);
    if (host && !task->int4)
        return (const int8_t *)host;
    for (uint64_t at = 0; at < size_bytes; at += SILICON_ATOM) {
        const uint8_t *atom =
            host ? host + at : silicon_translate(run->domain, address + at, SILICON_ATOM, false, NULL);
        if (!atom) {
            run->raw |= SILICON_DMA_READ_ERROR;
            silicon_stop(run, ORK_SILICON_UNMAPPED, "weights at 0x%" PRIx64 " are not mapped", address + at);
            return NULL;
        }
        if (task->int4)
            silicon_math_unpack(atom, SILICON_ATOM, run->core->bricks + 2 * at);
        else
            memcpy(run->core->bricks + at, atom, SILICON_ATOM);
    }
    return run->core->bricks;
}

/* ---- results ---- */

/* Where results go: the whole surface's memory where one mapping holds it. */
struct output {
    uint8_t *whole;
    uint32_t rows_written; /* of each surface, with fault TAIL */
    bool constant;
    uint8_t value[SILICON_ATOM];
};

static uint64_t output_offset(const struct silicon_task *task, uint32_t group, uint32_t atom, uint32_t row)
{
    return group * task->surface_add + atom * task->surface_stride +
           SILICON_ATOM * (row / task->width * task->line_atoms + row % task->width);
}

static struct output output_open(const struct silicon_run *run, const struct silicon_task *task)
{
    const struct ork_npu_fault *fault = run->kick->fault;
    struct output output = {.rows_written = task->lines_written * task->width};
    const uint64_t last = output_offset(task, task->n / task->group - 1, task->group_atoms - 1, task->rows - 1);
    output.whole = silicon_translate(run->domain, task->c, last + SILICON_ATOM, true, NULL);
    if (fault && fault->kind == ORK_FAULT_UNTOUCHED)
        output.rows_written = 0;
    if (fault && fault->kind == ORK_FAULT_TAIL) {
        const uint64_t tail = fault->atoms < task->rows ? fault->atoms : task->rows;
        const uint32_t kept = task->rows - (uint32_t)tail;
        output.rows_written = kept < output.rows_written ? kept : output.rows_written;
    }
    if (fault && fault->kind == ORK_FAULT_CONSTANT) {
        const uint32_t value = (uint32_t)fault->value;
        output.constant = true;
        for (uint32_t i = 0; i < SILICON_ATOM; i += sizeof value)
            memcpy(output.value + i, &value, sizeof value);
    }
    return output;
}

/* Host memory of one atom of the output; NULL: cannot be written. */
static uint8_t *output_atom(struct silicon_run *run, const struct silicon_task *task, const struct output *output,
                            uint32_t group, uint32_t atom, uint32_t row)
{
    const uint64_t offset = output_offset(task, group, atom, row);
    if (output->whole)
        return output->whole + offset;
    bool read_only = false;
    uint8_t *host = silicon_translate(run->domain, task->c + offset, SILICON_ATOM, true, &read_only);
    if (!host) {
        run->raw |= SILICON_DMA_WRITE_ERROR;
        silicon_stop(run, read_only ? ORK_SILICON_READ_ONLY : ORK_SILICON_UNMAPPED, "output at 0x%" PRIx64 " is %s",
                     task->c + offset, read_only ? "read-only" : "not mapped");
    }
    return host;
}

/* Converts the sums of one atom: four of 32 bits or eight of 16. */
static void convert_atom(struct silicon_run *run, const struct silicon_task *task, const int32_t *sums, uint8_t *out)
{
    if (task->int4) {
        int16_t values[8];
        bool clamped = false;
        for (int i = 0; i < 8; i++) {
            const int32_t value = sums[i] < INT16_MIN ? INT16_MIN : sums[i] > INT16_MAX ? INT16_MAX : sums[i];
            clamped |= value != sums[i];
            values[i] = (int16_t)value;
        }
        if (clamped)
            run->outcome->anomalies |= ORK_SILICON_SATURATED;
        memcpy(out, values, sizeof values);
    } else if (task->fp32) {
        float values[4];
        for (int i = 0; i < 4; i++)
            values[i] = (float)sums[i];
        memcpy(out, values, sizeof values);
    } else
        memcpy(out, sums, SILICON_ATOM);
}

/* Sums of rows [row_begin, row_begin + count) and one kernel group: [count][group]. */
static bool write_block(struct silicon_run *run, const struct silicon_task *task, const struct output *output,
                        uint32_t group, uint32_t row_begin, uint32_t count, const int32_t *sums)
{
    const uint32_t atom_channels = task->int4 ? 8 : 4;
    if (row_begin >= output->rows_written)
        return true;
    if (count > output->rows_written - row_begin)
        count = output->rows_written - row_begin;
    for (uint32_t atom = 0; atom < task->group_atoms; atom++)
        for (uint32_t i = 0; i < count; i++) {
            uint8_t *host = output_atom(run, task, output, group, atom, row_begin + i);
            if (!host)
                return false;
            if (output->constant)
                memcpy(host, output->value, SILICON_ATOM);
            else
                convert_atom(run, task, sums + i * task->group + atom * atom_channels, host);
        }
    return true;
}

/* What stands in rows that did not come out right: the same for the same task, like nothing that was asked for. */
static void garbage(const struct silicon_task *task, uint32_t group, uint32_t row, int32_t *sums)
{
    for (uint32_t i = 0; i < task->group; i++) {
        const uint32_t mixed = ((row + 1) * 0x9e3779b1u ^ (group * task->group + i + 1) * 0x85ebca77u) * 0xc2b2ae3du;
        sums[i] = (int32_t)(mixed >> 8);
    }
}

static bool compute_group(struct silicon_run *run, const struct silicon_task *task, const struct output *output,
                          uint32_t group)
{
    int32_t sums[SILICON_ROWS_PER_STEP * SILICON_GROUP_MAX] __attribute__((aligned(64)));
    const int8_t *bricks = fetch_group(run, task, group);
    if (!bricks)
        return false;
    for (uint32_t row = 0; row < task->rows; row += SILICON_ROWS_PER_STEP) {
        const uint32_t left = task->rows - row, count = left < SILICON_ROWS_PER_STEP ? left : SILICON_ROWS_PER_STEP;
        uint32_t right = task->rows_right > row ? task->rows_right - row : 0;
        right = right < count ? right : count;
        if (right)
            silicon_math_dots(run->core->rows + (size_t)row * task->k, run->core->row_sums + row,
                              right == 1 ? 1 : (uint32_t)ork_round_up(right, 4), bricks, task->k / 32, task->group,
                              sums);
        for (uint32_t i = right; i < count; i++)
            garbage(task, group, row + i, sums + i * task->group);
        if (!write_block(run, task, output, group, row, count, sums))
            return false;
    }
    return true;
}

/* ---- faults ---- */

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Turns bits in so many different 32-bit words of the output of one task of the kick, which the fault's random number
 * chooses. */
static bool flip_words(struct silicon_run *run, const struct silicon_task *task, const struct output *output,
                       uint32_t task_index)
{
    const struct ork_npu_fault *fault = run->kick->fault;
    uint64_t state = fault->random;
    if (mix(&state) % run->kick->task_number != task_index)
        return true;
    const uint32_t surfaces = task->n / task->group * task->group_atoms;
    const uint64_t total = 4ull * surfaces * task->rows, count = fault->words < total ? fault->words : total;
    const uint64_t start = mix(&state) % total;
    uint64_t step = 1 + mix(&state) % total; /* that reaches every word */
    while (greatest_divisor(step, total) != 1)
        step++;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t word = (start + i * step) % total;
        const uint32_t row = (uint32_t)(word / 4 % task->rows), surface = (uint32_t)(word / 4 / task->rows);
        uint8_t *host = output_atom(run, task, output, surface / task->group_atoms, surface % task->group_atoms, row);
        if (!host)
            return false;
        uint32_t value;
        memcpy(&value, host + word % 4 * 4, sizeof value);
        value ^= (uint32_t)mix(&state) | 1u;
        memcpy(host + word % 4 * 4, &value, sizeof value);
    }
    return true;
}

bool silicon_task_execute(struct silicon_run *run, const struct silicon_task *task, uint32_t task_index)
{
    const struct ork_npu_fault *fault = run->kick->fault;
    if (!gather(run, task))
        return false;
    const struct output output = output_open(run, task);
    for (uint32_t group = 0; group < task->n / task->group; group++)
        if (!compute_group(run, task, &output, group))
            return false;
    return !fault || fault->kind != ORK_FAULT_FLIP || flip_words(run, task, &output, task_index);
}
