/* Owns the machine around the silicon model for its tests; see silicon_bench.h. */
#include "silicon_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void bench_open(struct bench *bench, uint32_t cores, uint64_t seed)
{
    *bench = (struct bench){.seed = seed};
    bench->memory = calloc(1, BENCH_BYTES);
    assert_non_null(bench->memory);
    assert_int_equal(ork_silicon_create(cores, &bench->silicon, NULL), ORK_OK);
    assert_int_equal(ork_silicon_map(bench->silicon, 0, BENCH_IOVA, bench->memory, BENCH_BYTES, true, NULL), ORK_OK);
}

void bench_close(struct bench *bench)
{
    ork_silicon_destroy(bench->silicon);
    free(bench->memory);
}

uint64_t bench_random(struct bench *bench)
{
    uint64_t z = bench->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t bench_below(struct bench *bench, uint32_t limit)
{
    return (uint32_t)(bench_random(bench) % limit);
}

uint32_t bench_allocate(struct bench *bench, uint64_t size_bytes)
{
    const uint32_t at = bench->used;
    assert_true(size_bytes <= BENCH_BYTES - at);
    bench->used += (uint32_t)((size_bytes + 63) / 64 * 64);
    return BENCH_IOVA + at;
}

void bench_clear(struct bench *bench)
{
    bench->used = 0;
}

void *bench_host(const struct bench *bench, uint32_t iova)
{
    return bench->memory + (iova - BENCH_IOVA);
}

/* ---- programs ---- */

static void add(struct bench_program *program, uint32_t offset, uint32_t value)
{
    const uint64_t target = offset < 0x1000   ? 0x0101
                            : offset < 0x2000 ? 0x0201
                            : offset < 0x4000 ? 0x0801
                            : offset < 0x5000 ? 0x1001
                                              : 0x2001;
    program->words[program->count++] = target << 48 | (uint64_t)value << 16 | offset;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t view_width(const struct bench_task *task)
{
    return task->view == BENCH_FLAT ? task->m : task->view == BENCH_PANELS ? 8 : 1;
}

static bool by_rows_in(const struct bench_task *task)
{
    return task->view == BENCH_ROWS || task->view == BENCH_ROWS_ROWS || task->view == BENCH_PANELS;
}

static bool by_rows_out(const struct bench_task *task)
{
    return task->view == BENCH_ROWS_ROWS || task->view == BENCH_TALL_ROWS || task->view == BENCH_PANELS;
}

static void write_cna(const struct bench_task *task, struct bench_program *program)
{
    const uint32_t w = view_width(task), h = task->m / w, k = task->k, n = task->n;
    const uint32_t row_bytes = task->int4 ? k / 2 : k, atoms = row_bytes / 16;
    const uint32_t data_banks = divide_up(task->m * row_bytes, 32768);
    const bool rows = by_rows_in(task);
    add(program, 0x100c, (task->int4 ? 0x360u : 0u) | (rows ? 0x20000000u : 0u));
    add(program, 0x1010, 0x20);
    add(program, 0x1014, 9);
    add(program, 0x1020, w << 16 | h);
    add(program, 0x1024, (k - 1) << 16 | k);
    add(program, 0x1028, w);
    add(program, 0x102c, task->m);
    add(program, 0x1030, row_bytes * n);
    add(program, 0x1034, row_bytes);
    add(program, 0x1038, 0x01010000 | n);
    add(program, 0x1040, (12 - data_banks) << 4 | data_banks);
    add(program, 0x1044, w * divide_up(k, task->int4 ? 128 : 64));
    add(program, 0x104c, 0xb);
    for (uint32_t offset = 0x1050; offset <= 0x105c; offset += 4)
        add(program, offset, 0x10000);
    add(program, 0x1070, task->a);
    add(program, 0x1078, 0x000f000f);
    add(program, 0x107c, rows ? w * atoms : 4 * w);
    add(program, 0x1080, rows ? 0 : w * (h - 4) & 0x0fffffff);
    add(program, 0x1084, w << 16 | h);
    add(program, 0x1088, k);
    add(program, 0x1100, 0);
    add(program, 0x1104, 0);
    add(program, 0x1110, task->b);
    for (uint32_t offset = 0x1140; offset <= 0x117c; offset += 4)
        add(program, offset, 0);
}

void bench_write(const struct bench_task *task, struct bench_program *program)
{
    const uint32_t w = view_width(task), h = task->m / w, n = task->n;
    const uint32_t surfaces = task->int4 ? n / 8 : n / 4;
    const bool rows = by_rows_out(task);
    const uint32_t stride = rows ? 16 * w : 16 * task->m, notch = rows ? w * (surfaces - 1) : 0;
    program->count = 0;
    add(program, 0x4004, 0xe);
    write_cna(task, program);
    add(program, 0x3010, task->int4 ? 0x601 : 1);
    add(program, 0x3014, (h - 1) << 16 | (w - 1));
    add(program, 0x3018, n - 1);
    add(program, 0x301c, 0);
    add(program, 0x3030, 0);
    add(program, 0x400c, 0x1e4);
    add(program, 0x4010, task->int4 ? 0x38000006 : task->fp32 ? 0xa0000000 : 0x80000000);
    add(program, 0x4020, task->c);
    add(program, 0x4024, stride);
    add(program, 0x4030, w - 1);
    add(program, 0x4034, h - 1);
    add(program, 0x4038, notch << 16 | notch);
    add(program, 0x403c, (n - 1) << 16 | (n - 1));
    add(program, 0x4040, 0x53);
    add(program, 0x4050, task->int4 ? 0x7fe : 0x7fc);
    add(program, 0x4058, n - 1);
    add(program, 0x405c, (h - 1) << 16 | (w - 1));
    add(program, 0x4060, 0x53);
    add(program, 0x4070, 0x383);
    add(program, 0x4084, 1);
    add(program, 0x40c0, 8 * stride);
    add(program, 0x0010, 0);
    add(program, 0x0014, 0);
    program->words[program->count++] = 0x0041ull << 48;
    program->words[program->count++] = 0x0081ull << 48 | 0x0dull << 16 | 0x08;
}

static uint32_t find(const struct bench_program *program, uint32_t offset)
{
    uint32_t i = 0;
    while (i < program->count && ((program->words[i] & 0xffff) != offset || program->words[i] >> 56 == 0))
        i++;
    return i;
}

void bench_set(struct bench_program *program, uint32_t offset, uint32_t value)
{
    const uint32_t i = find(program, offset);
    if (i < program->count) {
        program->words[i] = (program->words[i] & ~0xffffffff0000ull) | (uint64_t)value << 16;
        return;
    }
    /* Before the tail. */
    uint64_t tail[4];
    program->count -= 4;
    memcpy(tail, program->words + program->count, sizeof tail);
    add(program, offset, value);
    memcpy(program->words + program->count, tail, sizeof tail);
    program->count += 4;
}

void bench_drop(struct bench_program *program, uint32_t offset)
{
    const uint32_t i = find(program, offset);
    assert_true(i < program->count);
    memmove(program->words + i, program->words + i + 1, (program->count - i - 1) * sizeof *program->words);
    program->count--;
}

uint32_t bench_get(const struct bench_program *program, uint32_t offset)
{
    const uint32_t i = find(program, offset);
    return i < program->count ? (uint32_t)(program->words[i] >> 16) : UINT32_MAX;
}

void bench_write_sum(uint32_t rows, uint32_t channels, const uint32_t addresses[3], struct bench_program *program)
{
    const uint32_t c = channels - 1;
    const uint32_t registers[][2] = {
        {0x5004, 0xe},         {0x400c, 0x1e5},
        {0x4010, 0x90000004},  {0x4020, addresses[2]},
        {0x4024, rows * 16},   {0x4030, rows - 1},
        {0x403c, c << 16 | c}, {0x4040, 0x53},
        {0x4050, 2},           {0x4058, c},
        {0x405c, rows - 1},    {0x4060, 0x53},
        {0x4070, 0x10c203c0},  {0x4078, 1},
        {0x4084, 1},           {0x40c0, rows * 16},
        {0x4034, 0},           {0x4038, 0},
        {0x500c, rows - 1},    {0x5010, 0},
        {0x5014, c},           {0x5018, addresses[0]},
        {0x5034, 0x4000000c},  {0x5038, addresses[1]},
        {0x5040, rows * 16},   {0x5044, 0x27881},
        {0x504c, 0},           {0x5068, 0x01010101},
    };
    program->count = 5;
    program->words[0] = 0x1001ull << 48 | 0xeull << 16 | 0x4004;
    program->words[1] = 0x0101ull << 48 | 0x0010;
    program->words[2] = 0x0101ull << 48 | 0x0014;
    program->words[3] = 0x0041ull << 48;
    program->words[4] = 0x0081ull << 48 | 0x18ull << 16 | 0x08;
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
        bench_set(program, registers[i][0], registers[i][1]);
}

/* Fetch length for so many words: 2 * (value + 1). */
static uint32_t amount(uint32_t count)
{
    return (count + 1) / 2 - 1;
}

void bench_link(struct bench_program *program, uint32_t next_iova, uint32_t next_count)
{
    bench_set(program, 0x0010, next_iova);
    bench_set(program, 0x0014, amount(next_count));
}

uint32_t bench_place(struct bench *bench, const struct bench_program *program)
{
    const uint32_t at = bench_allocate(bench, (program->count + 8) * sizeof *program->words);
    memset(bench_host(bench, at), 0, (program->count + 8) * sizeof *program->words);
    memcpy(bench_host(bench, at), program->words, program->count * sizeof *program->words);
    return at;
}

/* ---- operands, npu-hw.md 6 ---- */

static int32_t load(const struct bench *bench, uint32_t base, uint64_t element, bool nibble)
{
    const uint8_t *bytes = bench_host(bench, base);
    if (!nibble)
        return (int8_t)bytes[element];
    const int32_t code = element % 2 ? bytes[element / 2] >> 4 : bytes[element / 2] & 15;
    return code >= 8 ? code - 16 : code;
}

static void store(struct bench *bench, uint32_t base, uint64_t element, bool nibble, int32_t value)
{
    uint8_t *bytes = bench_host(bench, base);
    if (!nibble)
        bytes[element] = (uint8_t)value;
    else if (element % 2)
        bytes[element / 2] = (uint8_t)((bytes[element / 2] & 0x0f) | (value & 15) << 4);
    else
        bytes[element / 2] = (uint8_t)((bytes[element / 2] & 0xf0) | (value & 15));
}

static uint64_t a_element(const struct bench_task *task, uint32_t m, uint32_t k)
{
    const uint64_t lanes = task->int4 ? 32 : 16;
    if (task->view == BENCH_PANELS)
        return (uint64_t)(m / 8) * 8 * task->k + (k / lanes) * 8 * lanes + m % 8 * lanes + k % lanes;
    if (by_rows_in(task))
        return (uint64_t)m * task->k + k;
    return (k / lanes) * task->m * lanes + m * lanes + k % lanes;
}

static uint64_t b_element(const struct bench_task *task, uint32_t n, uint32_t k)
{
    const uint64_t group = task->int4 ? 64 : 32;
    return (n / group) * task->k * group + (uint64_t)(k / 32) * group * 32 + n % group * 32 + k % 32;
}

static uint64_t c_element(const struct bench_task *task, uint32_t m, uint32_t n)
{
    const uint64_t lanes = task->int4 ? 8 : 4;
    if (task->view == BENCH_PANELS)
        return (uint64_t)(m / 8) * 8 * task->n + n / lanes * 8 * lanes + m % 8 * lanes + n % lanes;
    if (by_rows_out(task))
        return (uint64_t)m * task->n + n;
    return n / lanes * task->m * lanes + m * lanes + n % lanes;
}

int32_t bench_a(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t k)
{
    return load(bench, task->a, a_element(task, m, k), task->int4);
}

int32_t bench_b(const struct bench *bench, const struct bench_task *task, uint32_t n, uint32_t k)
{
    return load(bench, task->b, b_element(task, n, k), task->int4);
}

void bench_set_a(struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t k, int32_t value)
{
    store(bench, task->a, a_element(task, m, k), task->int4, value);
}

void bench_set_b(struct bench *bench, const struct bench_task *task, uint32_t n, uint32_t k, int32_t value)
{
    store(bench, task->b, b_element(task, n, k), task->int4, value);
}

uint64_t bench_output_bytes(const struct bench_task *task)
{
    return (uint64_t)task->m * task->n * (task->int4 ? 2 : 4);
}

static void fill_random(struct bench *bench, uint32_t iova, uint64_t size_bytes)
{
    uint8_t *bytes = bench_host(bench, iova);
    for (uint64_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)(bench_random(bench) >> 24);
}

void bench_fill(struct bench *bench, struct bench_task *task)
{
    const uint64_t row_bytes = task->int4 ? task->k / 2 : task->k;
    task->a = bench_allocate(bench, task->m * row_bytes);
    task->b = bench_allocate(bench, task->n * row_bytes);
    task->c = bench_allocate(bench, bench_output_bytes(task));
    fill_random(bench, task->a, task->m * row_bytes);
    fill_random(bench, task->b, task->n * row_bytes);
    memset(bench_host(bench, task->c), BENCH_POISON, bench_output_bytes(task));
}

int32_t bench_c(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t n)
{
    const uint8_t *at = bench_host(bench, task->c);
    const uint64_t element = c_element(task, m, n);
    int16_t narrow;
    int32_t wide;
    float real;
    if (task->int4) {
        memcpy(&narrow, at + 2 * element, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at + 4 * element, sizeof wide);
    if (!task->fp32)
        return wide;
    memcpy(&real, at + 4 * element, sizeof real);
    return real > -1e9f && real < 1e9f ? (int32_t)real : INT32_MIN;
}

static int32_t of_output_type(const struct bench_task *task, int64_t sum)
{
    if (task->int4)
        sum = sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum;
    return (int32_t)sum;
}

int32_t bench_expected(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t n)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < task->k; k++)
        sum += (int64_t)bench_a(bench, task, m, k) * bench_b(bench, task, n, k);
    return of_output_type(task, sum);
}

static int64_t dot(const int8_t *a, const int8_t *b, uint32_t count)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* bench_expected of every cell, with each operand read out once. */
uint64_t bench_wrong(const struct bench *bench, const struct bench_task *task, uint32_t begin, uint32_t end,
                     uint32_t from, uint32_t to)
{
    uint64_t wrong = 0;
    int8_t *a = malloc(task->k), *b = malloc((size_t)task->n * task->k);
    assert_true(a && b);
    for (uint32_t n = 0; n < task->n; n++)
        for (uint32_t k = 0; k < task->k && begin < end; k++)
            b[(size_t)n * task->k + k] = (int8_t)bench_b(bench, task, n, k);
    for (uint32_t m = begin; m < end; m++) {
        for (uint32_t k = 0; k < task->k; k++)
            a[k] = (int8_t)bench_a(bench, task, m, k);
        for (uint32_t n = 0; n < task->n; n++)
            if (n % 64 >= from && n % 64 < to)
                wrong += bench_c(bench, task, m, n) != of_output_type(task, dot(a, b + (size_t)n * task->k, task->k));
    }
    free(a);
    free(b);
    return wrong;
}

uint64_t bench_untouched(const struct bench *bench, const struct bench_task *task, uint32_t begin, uint32_t end,
                         uint32_t from, uint32_t to)
{
    const uint32_t size = task->int4 ? 2 : 4;
    const uint8_t poison[4] = {BENCH_POISON, BENCH_POISON, BENCH_POISON, BENCH_POISON};
    uint64_t untouched = 0;
    for (uint32_t m = begin; m < end; m++)
        for (uint32_t n = 0; n < task->n; n++)
            if (n % 64 >= from && n % 64 < to)
                untouched +=
                    !memcmp((uint8_t *)bench_host(bench, task->c) + size * c_element(task, m, n), poison, size);
    return untouched;
}

/* ---- runs ---- */

struct ork_silicon_kick bench_kick(uint32_t regcmd, uint32_t count, uint32_t tasks)
{
    return (struct ork_silicon_kick){.regcmd_iova = regcmd,
                                     .amount = amount(count),
                                     .int_mask = BENCH_DONE,
                                     .int_clear = 0x1ffff,
                                     .task_number = tasks,
                                     .ping_pong = true};
}

struct ork_silicon_outcome bench_run(struct bench *bench, const struct ork_silicon_kick *kick)
{
    struct ork_silicon_outcome outcome;
    ork_silicon_run(bench->silicon, kick, &outcome);
    return outcome;
}

struct ork_silicon_outcome bench_run_one(struct bench *bench, const struct bench_program *program)
{
    const struct ork_silicon_kick kick = bench_kick(bench_place(bench, program), program->count, 1);
    return bench_run(bench, &kick);
}
