/* What silicon refuses, leaves unfinished or corrupts (npu-hw.md 1.6, 3.2, 4.5 to 4.7, 5): each case beside one that is
 * right, so that neither a model that accepts everything nor one that accepts nothing passes. */
#include "silicon_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

struct fixture {
    struct bench bench;
    struct bench_task task;
    struct bench_program program;
};

static void set_up(struct fixture *fixture, const struct bench_task *task)
{
    bench_open(&fixture->bench, 1, task->m + 100 * task->k);
    fixture->task = *task;
    bench_fill(&fixture->bench, &fixture->task);
    bench_write(&fixture->task, &fixture->program);
}

static void set_up_small(struct fixture *fixture)
{
    set_up(fixture, &(struct bench_task){.m = 6, .k = 64, .n = 64});
}

/* Runs the fixture's program on a core as after power-up. */
static struct ork_silicon_outcome fresh(struct fixture *fixture)
{
    ork_silicon_reset(fixture->bench.silicon, 1);
    return bench_run_one(&fixture->bench, &fixture->program);
}

static void assert_hangs(const struct ork_silicon_outcome *outcome, uint32_t anomaly)
{
    if (outcome->interrupt || !(outcome->anomalies & anomaly))
        print_message("anomalies 0x%x, status 0x%x: %s\n", outcome->anomalies, outcome->status, outcome->why);
    assert_false(outcome->interrupt);
    assert_true(outcome->anomalies & anomaly);
    assert_true(strlen(outcome->why) > 10);
    assert_int_equal(outcome->task_counter, 0);
}

static uint64_t wrong(const struct fixture *fixture, uint32_t begin, uint32_t end)
{
    return bench_wrong(&fixture->bench, &fixture->task, begin, end, 0, 64);
}

/* Two tasks without a link: the counter stays at 1, no interrupt; nothing runs until a reset. */
static void test_unlinked(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    const uint32_t at = bench_place(&f.bench, &f.program);
    struct ork_silicon_kick kick = bench_kick(at, f.program.count, 2);
    struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.task_counter, 1);
    assert_int_equal(outcome.anomalies, ORK_SILICON_UNLINKED);
    kick.task_number = 1;
    outcome = bench_run(&f.bench, &kick);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.task_counter, 0);
    ork_silicon_reset(f.bench.silicon, 1);
    assert_true(bench_run(&f.bench, &kick).interrupt);
    bench_close(&f.bench);
}

/* Addresses are those of the kick's domain. */
static void test_domain(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    struct ork_silicon_kick kick = bench_kick(bench_place(&f.bench, &f.program), f.program.count, 1);
    kick.domain = 1;
    struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
    ork_silicon_reset(f.bench.silicon, 1);
    assert_int_equal(ork_silicon_map(f.bench.silicon, 1, BENCH_IOVA, f.bench.memory, BENCH_BYTES, true, NULL), ORK_OK);
    assert_true(bench_run(&f.bench, &kick).interrupt);
    assert_int_equal(wrong(&f, 0, 6), 0);
    kick.domain = 16;
    outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_CONFIG);
    bench_close(&f.bench);
}

/* Each range is looked up to its last byte: of A, B, C and the program. DMA errors are bits 12 and 13 of the status. */
static void test_unmapped(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    const uint32_t end = BENCH_IOVA + BENCH_BYTES;
    const struct {
        uint32_t offset, bytes, status;
    } cases[] = {{0x1070, 6 * 64, 1 << 12}, {0x1110, 64 * 64, 1 << 12}, {0x4020, 6 * 64 * 4, 1 << 13}};
    for (int i = 0; i < 3; i++) {
        const struct bench_program right = f.program;
        memcpy(f.bench.memory + BENCH_BYTES - 8192, f.bench.memory, 8192); /* any data */
        bench_set(&f.program, cases[i].offset, end - cases[i].bytes);
        assert_true(fresh(&f).interrupt);
        bench_set(&f.program, cases[i].offset, end - cases[i].bytes + 16);
        struct ork_silicon_outcome outcome = fresh(&f);
        assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
        assert_int_equal(outcome.status, 0);
        ork_silicon_reset(f.bench.silicon, 1);
        struct ork_silicon_kick kick = bench_kick(bench_place(&f.bench, &f.program), f.program.count, 1);
        kick.int_mask = 0x1ffff;
        outcome = bench_run(&f.bench, &kick);
        assert_int_equal(outcome.status, cases[i].status);
        bench_set(&f.program, cases[i].offset, 0);
        outcome = fresh(&f);
        assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
        f.program = right;
    }
    /* The fetch: to the last word that was asked for. */
    const uint32_t at = end - f.program.count / 2 * 2 * 8;
    memcpy(bench_host(&f.bench, at), f.program.words, f.program.count / 2 * 2 * 8);
    struct ork_silicon_kick kick = bench_kick(at, f.program.count, 1);
    ork_silicon_reset(f.bench.silicon, 1);
    assert_int_equal(f.program.count % 2, 0);
    assert_true(bench_run(&f.bench, &kick).interrupt);
    kick.amount++;
    struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
    bench_close(&f.bench);
}

/* Writes to memory that the NPU may only read stop the task and change nothing. */
static void test_read_only(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    uint8_t page[8192];
    memset(page, 1, sizeof page);
    assert_int_equal(ork_silicon_map(f.bench.silicon, 0, 0x1000, page, sizeof page, false, NULL), ORK_OK);
    bench_set(&f.program, 0x4020, 0x1000);
    struct ork_silicon_outcome outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_READ_ONLY);
    for (size_t i = 0; i < sizeof page; i++)
        assert_int_equal(page[i], 1);
    bench_write(&f.task, &f.program);
    bench_set(&f.program, 0x1110, 0x1000);
    assert_true(fresh(&f).interrupt);
    bench_close(&f.bench);
}

static void test_mapping_errors(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    uint8_t page[4096];
    ork_error error;
    struct ork_silicon *silicon = f.bench.silicon;
    assert_int_equal(ork_silicon_map(silicon, 0, BENCH_IOVA, page, 4096, true, &error), ORK_EXISTS);
    assert_int_equal(ork_silicon_map(silicon, 0, BENCH_IOVA - 4095, page, 4096, true, &error), ORK_EXISTS);
    assert_int_equal(ork_silicon_map(silicon, 0, BENCH_IOVA + BENCH_BYTES - 1, page, 4096, true, &error), ORK_EXISTS);
    assert_int_equal(ork_silicon_map(silicon, 0, BENCH_IOVA - 4096, page, 4096, true, &error), ORK_OK);
    assert_int_equal(ork_silicon_map(silicon, 0, 0xfffff000, page, 4097, true, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_silicon_map(silicon, 0, 0xfffff000, page, 4096, true, &error), ORK_OK);
    assert_int_equal(ork_silicon_map(silicon, 0, 0, page, 0, true, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_silicon_map(silicon, 0, 0, page, UINT64_MAX, true, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_silicon_map(silicon, 16, 0, page, 4096, true, &error), ORK_BAD_ARGUMENT);
    ork_silicon_unmap(silicon, 16, 0);
    ork_silicon_unmap(silicon, 0, 1); /* nothing there */
    ork_silicon_unmap(silicon, 0, BENCH_IOVA);
    assert_int_equal(ork_silicon_map(silicon, 0, BENCH_IOVA, f.bench.memory, 8192, true, &error), ORK_OK);
    struct ork_silicon *none;
    assert_int_equal(ork_silicon_create(4, &none, &error), ORK_BAD_ARGUMENT);
    assert_null(none);
    bench_close(&f.bench);
}

/* npu-hw.md 4.3, 5: SIZE_E 3 with a group stride of four surfaces writes half the kernels of every group. */
static void test_half_kernels(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &(struct bench_task){.int4 = true, .m = 4, .k = 64, .n = 192});
    bench_set(&f.program, 0x4050, 0x36e);
    bench_set(&f.program, 0x40c0, 4 * 16 * 4);
    struct ork_silicon_outcome outcome = fresh(&f);
    assert_true(outcome.interrupt);
    assert_int_equal(outcome.anomalies, ORK_SILICON_STRIDES);
    int16_t written[3 * 4][4][8]; /* four surfaces a group, one behind the other */
    memcpy(written, bench_host(&f.bench, f.task.c), sizeof written);
    for (uint32_t n = 0; n < 192; n++)
        for (uint32_t m = 0; m < 4 && n % 64 < 32; m++)
            assert_int_equal(written[n / 64 * 4 + n % 64 / 8][m][n % 8], bench_expected(&f.bench, &f.task, m, n));
    const uint8_t *rest = (uint8_t *)bench_host(&f.bench, f.task.c) + sizeof written;
    for (size_t i = 0; i < sizeof written; i++)
        assert_int_equal(rest[i], BENCH_POISON);
    /* With the right group stride the written half is where it belongs. */
    memset(bench_host(&f.bench, f.task.c), BENCH_POISON, bench_output_bytes(&f.task));
    bench_set(&f.program, 0x40c0, 8 * 16 * 4);
    outcome = fresh(&f);
    assert_int_equal(outcome.anomalies, ORK_SILICON_STRIDES);
    assert_int_equal(bench_wrong(&f.bench, &f.task, 0, 4, 0, 32), 0);
    assert_int_equal(bench_untouched(&f.bench, &f.task, 0, 4, 32, 64), 4 * 96);
    bench_close(&f.bench);
}

static void test_other_strides(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &(struct bench_task){.view = BENCH_ROWS_ROWS, .m = 4, .k = 64, .n = 64});
    assert_int_equal(fresh(&f).anomalies, 0);
    bench_set(&f.program, 0x4038, 31 << 16 | 15); /* a row stride of its own */
    assert_int_equal(fresh(&f).anomalies, ORK_SILICON_STRIDES);
    bench_set(&f.program, 0x4038, 14 << 16 | 14); /* rows that overlap */
    assert_int_equal(fresh(&f).anomalies, ORK_SILICON_STRIDES);
    bench_set(&f.program, 0x4038, 31 << 16 | 31); /* rows further apart are only that */
    bench_allocate(&f.bench, 4096);
    assert_int_equal(fresh(&f).anomalies, 0);
    bench_write(&f.task, &f.program);
    bench_set(&f.program, 0x4050, 0x7dc); /* sizes that differ */
    assert_int_equal(fresh(&f).anomalies, ORK_SILICON_STRIDES);
    bench_close(&f.bench);
    /* C by rows is for results of four bytes (4.2). */
    set_up(&f, &(struct bench_task){.int4 = true, .view = BENCH_TALL_ROWS, .m = 4, .k = 64, .n = 64});
    assert_int_equal(fresh(&f).anomalies, ORK_SILICON_STRIDES);
    bench_close(&f.bench);
}

/* No interrupt for bits that nobody waits for; what nobody saw or cleared is seen by the next kick. */
static void test_int_mask(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    struct ork_silicon_kick kick = bench_kick(bench_place(&f.bench, &f.program), f.program.count, 1);
    kick.int_mask = 0xc00; /* PPU */
    struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.status, 0);
    assert_int_equal(outcome.task_counter, 1);
    assert_int_equal(wrong(&f, 0, 6), 0);
    kick.int_mask = BENCH_DONE;
    kick.int_clear = 0;
    assert_int_equal(bench_run(&f.bench, &kick).status, 0x300);
    kick.int_mask = 0xc00;
    assert_false(bench_run(&f.bench, &kick).interrupt);
    kick.int_mask = BENCH_DONE;
    kick.int_clear = 0x1ffff;
    assert_int_equal(bench_run(&f.bench, &kick).status, 0x200);
    kick.int_mask = 0x3; /* an earlier block */
    assert_int_equal(bench_run(&f.bench, &kick).status, 0x1);
    bench_close(&f.bench);
}

static void test_alignment(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    const uint16_t registers[] = {0x1070, 0x1110, 0x4020, 0x4024};
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
        bench_set(&f.program, registers[i], bench_get(&f.program, registers[i]) + 8);
        const struct ork_silicon_outcome outcome = fresh(&f);
        assert_hangs(&outcome, ORK_SILICON_ALIGNMENT);
        bench_write(&f.task, &f.program);
    }
    ork_silicon_reset(f.bench.silicon, 1);
    const uint32_t at = bench_place(&f.bench, &f.program);
    struct ork_silicon_kick kick = bench_kick(at + 8, f.program.count, 1);
    struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_ALIGNMENT);
    ork_silicon_reset(f.bench.silicon, 1);
    bench_link(&f.program, at + 8, f.program.count);
    kick = bench_kick(bench_place(&f.bench, &f.program), f.program.count, 2);
    outcome = bench_run(&f.bench, &kick);
    assert_int_equal(outcome.task_counter, 1);
    assert_int_equal(outcome.anomalies, ORK_SILICON_ALIGNMENT);
    bench_close(&f.bench);
}

/* The DMA base moves every address of a job. */
static void test_dma_base(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    f.task.a -= 0x10000000;
    f.task.b -= 0x10000000;
    f.task.c -= 0x10000000;
    bench_write(&f.task, &f.program);
    const uint32_t second = bench_place(&f.bench, &f.program);
    bench_link(&f.program, second - 0x10000000, f.program.count);
    struct ork_silicon_kick kick = bench_kick(bench_place(&f.bench, &f.program) - 0x10000000, f.program.count, 2);
    kick.dma_base = 0x10000000;
    assert_int_equal(bench_run(&f.bench, &kick).task_counter, 2);
    f.task.a += 0x10000000;
    f.task.b += 0x10000000;
    f.task.c += 0x10000000;
    assert_int_equal(wrong(&f, 0, 6), 0);
    kick.dma_base = 0xf0000000;
    const struct ork_silicon_outcome outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
    bench_close(&f.bench);
}

/* Rows from `right` on are garbage, those before are right. */
static void assert_tail_garbage(struct fixture *f, uint32_t anomaly, uint32_t right)
{
    const struct ork_silicon_outcome outcome = fresh(f);
    assert_true(outcome.interrupt);
    assert_int_equal(outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED, anomaly);
    assert_int_equal(wrong(f, 0, right), 0);
    assert_true(wrong(f, right, f->task.m) > (f->task.m - right) * f->task.n * 9 / 10);
    assert_int_equal(bench_untouched(&f->bench, &f->task, 0, f->task.m, 0, 64), 0);
}

static void test_banks(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &(struct bench_task){.view = BENCH_ROWS, .m = 40, .k = 1024, .n = 32});
    assert_int_equal(bench_get(&f.program, 0x1040), 0xa2);
    assert_int_equal(fresh(&f).anomalies, 0);
    bench_set(&f.program, 0x1040, 0xb1);
    assert_tail_garbage(&f, ORK_SILICON_BANKS, 32);
    bench_set(&f.program, 0x1040, 0x02); /* no bank for a kernel */
    assert_tail_garbage(&f, ORK_SILICON_BANKS, 0);
    bench_set(&f.program, 0x1040, 0xb2); /* thirteen banks */
    struct ork_silicon_outcome outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_CONFIG);
    bench_set(&f.program, 0x1040, 0xb0);
    outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_CONFIG);
    bench_write(&f.task, &f.program);
    bench_set(&f.program, 0x1044, 12); /* entries of 64 bytes: 16 hold a line */
    assert_true(fresh(&f).anomalies & ORK_SILICON_BANKS);
    bench_set(&f.program, 0x1044, 32); /* 40 lines of 2 KiB do not fit 64 KiB */
    assert_tail_garbage(&f, ORK_SILICON_BANKS, 32);
    bench_close(&f.bench);
}

/* The published row envelopes: the last row inside, and the first outside. */
static void test_rows(void **state)
{
    (void)state;
    const struct {
        struct bench_task task;
        uint32_t right; /* rows that come out right; task.m has at least as many */
    } cases[] = {
        {{.view = BENCH_ROWS_ROWS, .m = 128, .k = 2048, .n = 32}, 128}, /* 4.7 */
        {{.view = BENCH_ROWS_ROWS, .m = 129, .k = 2048, .n = 32}, 128},
        {{.view = BENCH_ROWS, .m = 65, .k = 4096, .n = 32}, 64},
        {{.view = BENCH_FLAT, .m = 64, .k = 2048, .n = 32}, 64}, /* 4.5: four banks */
        {{.view = BENCH_FLAT, .m = 66, .k = 2048, .n = 32}, 64},
        {{.view = BENCH_TALL, .m = 33, .k = 6144, .n = 32}, 32},
        {{.view = BENCH_ROWS, .m = 17, .k = 8192, .n = 32}, 16},
        {{.view = BENCH_ROWS, .m = 2, .k = 8224, .n = 32}, 1},
        {{.view = BENCH_FLAT, .m = 1, .k = 10752, .n = 32}, 1},
        {{.view = BENCH_FLAT, .m = 4, .k = 3840, .n = 32}, 4},
        {{.view = BENCH_ROWS, .m = 65, .k = 3584, .n = 32}, 64}, /* ork-driver.md 4.2 */
        {{.view = BENCH_ROWS, .m = 18, .k = 3840, .n = 32}, 17},
        {{.int4 = true, .m = 128, .k = 64, .n = 64}, 128}, /* 4.3 */
        {{.int4 = true, .m = 131, .k = 64, .n = 64}, 128},
        {{.int4 = true, .view = BENCH_PANELS, .m = 520, .k = 64, .n = 64}, 512},
        {{.int4 = true, .m = 3, .k = 2080, .n = 64}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        set_up(&f, &cases[i].task);
        if (cases[i].right == cases[i].task.m) {
            assert_int_equal(fresh(&f).anomalies & ~(uint32_t)ORK_SILICON_SATURATED, 0);
            assert_int_equal(wrong(&f, 0, f.task.m), 0);
        } else
            assert_tail_garbage(&f, ORK_SILICON_ROWS, cases[i].right);
        bench_close(&f.bench);
    }
    const struct bench_task hanging[] = {{.view = BENCH_FLAT, .m = 5, .k = 3840, .n = 32},
                                         {.view = BENCH_TALL, .m = 5, .k = 3104, .n = 32},
                                         {.view = BENCH_FLAT, .m = 1, .k = 10784, .n = 32},
                                         {.int4 = true, .m = 1, .k = 10784, .n = 64}};
    for (size_t i = 0; i < sizeof hanging / sizeof *hanging; i++) {
        struct fixture f;
        set_up(&f, &hanging[i]);
        const struct ork_silicon_outcome outcome = fresh(&f);
        assert_hangs(&outcome, ORK_SILICON_ROWS);
        bench_close(&f.bench);
    }
    struct fixture f;
    set_up(&f, &(struct bench_task){.view = BENCH_ROWS, .m = 8, .k = 3840, .n = 32});
    bench_set(&f.program, 0x1010, 16 << 4); /* ORK's grains */
    assert_int_equal(fresh(&f).anomalies, 0);
    bench_set(&f.program, 0x1010, 17 << 4);
    const struct ork_silicon_outcome outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_ROWS);
    bench_close(&f.bench);
}

/* One register changed, and the task never completes. */
static const struct {
    uint16_t offset;
    uint32_t value;
} unknown_values[] = {
    {0x100c, 0x360},      /* int4 here, int8 in the other blocks */
    {0x100c, 0x060},      /* int4 in, int8 processed: mixed precisions do not exist */
    {0x100c, 0x120},      /* fp16 */
    {0x3010, 0x601},      /* */
    {0x3010, 0x003},      /* depthwise */
    {0x4010, 0x20000000}, /* int8 -> int16 */
    {0x4010, 0x00000000}, /* int8 -> int8 is not modelled */
    {0x4010, 0x98000006}, /* int4 -> int32 */
    {0x104c, 0},
    {0x1050, 0},
    {0x4084, 0},
    {0x4084, 0x10001},
    {0x4088, 1},
    {0x4080, 1},
    {0x301c, 1},
    {0x4040, 0},
    {0x4060, 0},
    {0x4070, 0},
    {0x400c, 0x1e5},
    {0x400c, 0x1e0},
    {0x1014, 0x12},
    {0x1068, 0x11},
    {0x1100, 7},
    {0x1140, 1},
    {0x1040, 0x10b1},
    {0x1020, 7 << 16 | 1},
    {0x1024, 63 << 16 | 96},
    {0x1024, 31 << 16 | 64},
    {0x1028, 5},
    {0x102c, 7},
    {0x1030, 64 * 65},
    {0x1034, 32},
    {0x1038, 0x01010040 + 32},
    {0x1038, 0x02010040},
    {0x1084, 6 << 16 | 2},
    {0x1088, 32},
    {0x3014, 6},
    {0x3018, 31},
    {0x4030, 6},
    {0x4034, 1},
    {0x403c, 31 << 16 | 63},
    {0x4058, 31},
    {0x405c, 6},
    {0x4004, 0x6 | 0x20},
    {0x4050, 0x7fd},
};

static void test_config(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    assert_int_equal(fresh(&f).anomalies, 0);
    for (size_t i = 0; i < sizeof unknown_values / sizeof *unknown_values; i++) {
        bench_set(&f.program, unknown_values[i].offset, unknown_values[i].value);
        if (unknown_values[i].offset == 0x4004) { /* only when the groups stand apart */
            bench_write(&f.task, &f.program);
            assert_true(fresh(&f).interrupt);
            bench_set(&f.program, unknown_values[i].offset, unknown_values[i].value);
            const struct ork_silicon_outcome outcome = bench_run_one(&f.bench, &f.program);
            assert_hangs(&outcome, ORK_SILICON_CONFIG);
        } else {
            const struct ork_silicon_outcome outcome = fresh(&f);
            if (!(outcome.anomalies & ORK_SILICON_CONFIG))
                print_message("register 0x%x\n", unknown_values[i].offset);
            assert_hangs(&outcome, ORK_SILICON_CONFIG);
        }
        bench_write(&f.task, &f.program);
    }
    assert_true(fresh(&f).interrupt);
    bench_close(&f.bench);
}

static void set_enable(struct bench_program *program, uint32_t mask)
{
    program->words[program->count - 1] = 0x0081ull << 48 | (uint64_t)mask << 16 | 0x08;
}

/* Enable masks, the RDMA, and how a program ends. */
static void test_enable(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    const uint32_t others[] = {0, 0x1, 0xc, 0x1d, 0x60, 0x7f};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set_enable(&f.program, others[i]);
        const struct ork_silicon_outcome outcome = fresh(&f);
        assert_hangs(&outcome, ORK_SILICON_CONFIG);
    }
    set_enable(&f.program, 0x1d); /* an RDMA that is told to fetch nothing */
    bench_set(&f.program, 0x5004, 0xe);
    bench_set(&f.program, 0x5044, 0x10);
    bench_set(&f.program, 0x5034, 1);
    assert_true(fresh(&f).interrupt);
    assert_int_equal(wrong(&f, 0, 6), 0);
    bench_write(&f.task, &f.program);
    struct ork_silicon_kick kick = bench_kick(bench_place(&f.bench, &f.program), f.program.count, 1);
    const uint32_t amount = kick.amount;
    const uint32_t amounts[] = {amount - 1, 0, 0xffff};
    struct ork_silicon_outcome outcome;
    for (int i = 0; i < 3; i++) {
        ork_silicon_reset(f.bench.silicon, 1);
        kick.amount = amounts[i];
        outcome = bench_run(&f.bench, &kick);
        assert_hangs(&outcome, ORK_SILICON_CONFIG);
    }
    kick.amount = amount + 4; /* over-fetch is harmless */
    ork_silicon_reset(f.bench.silicon, 1);
    assert_true(bench_run(&f.bench, &kick).interrupt);
    kick.task_number = 0;
    outcome = bench_run(&f.bench, &kick);
    assert_hangs(&outcome, ORK_SILICON_CONFIG);
    f.program.words[f.program.count - 2] = 0; /* the 0x0041 word */
    outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_CONFIG);
    bench_close(&f.bench);
}

/* The over-fetch of 3.2: what stands behind the word that enables does nothing. */
static void test_over_fetch(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    const uint32_t count = f.program.count;
    f.program.words[f.program.count++] = 0x1001ull << 48 | 0x4020; /* C = 0 in the next group */
    f.program.words[f.program.count++] = 0x0101ull << 48 | 0x10ull << 16 | 0x0010;
    f.program.words[f.program.count++] = 0x0041ull << 48;
    f.program.words[f.program.count++] = 0x0081ull << 48 | 0x60ull << 16 | 0x08;
    struct ork_silicon_outcome outcome = fresh(&f);
    assert_true(outcome.interrupt);
    assert_int_equal(wrong(&f, 0, 6), 0);
    f.program.count = count;
    bench_drop(&f.program, 0x4020);
    outcome = bench_run_one(&f.bench, &f.program); /* C of this group was never written: 0 */
    assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
    bench_close(&f.bench);
}

/* Lines in groups of four (npu-hw.md 5): with LINE other than 4 W the groups stand apart or on each other, and the range
 * that is looked up is what is read. */
static void test_line_groups(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, &(struct bench_task){.view = BENCH_TALL, .m = 10, .k = 32, .n = 32});
    uint8_t rows[2][10][16];
    memcpy(rows, bench_host(&f.bench, f.task.a), sizeof rows);
    const uint32_t spread = bench_allocate(&f.bench, 4096);
    uint8_t *to = bench_host(&f.bench, spread);
    for (uint32_t surface = 0; surface < 2; surface++)
        for (uint32_t h = 0; h < 10; h++)
            memcpy(to + 16 * (h / 4 * 7 + h % 4 + surface * 40), rows[surface][h], 16);
    bench_set(&f.program, 0x1070, spread);
    bench_set(&f.program, 0x107c, 7);
    bench_set(&f.program, 0x1080, 36);
    assert_true(fresh(&f).interrupt);
    assert_int_equal(wrong(&f, 0, 10), 0);
    /* All groups at the same place: five lines read four, and one surface more. */
    f.task.m = 5;
    bench_write(&f.task, &f.program);
    bench_set(&f.program, 0x107c, 0);
    bench_set(&f.program, 0x1080, 0x0ffffffd);
    bench_set(&f.program, 0x1070, BENCH_IOVA + BENCH_BYTES - 5 * 16);
    assert_true(fresh(&f).interrupt);
    bench_set(&f.program, 0x1070, BENCH_IOVA + BENCH_BYTES - 4 * 16);
    const struct ork_silicon_outcome outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_UNMAPPED);
    bench_close(&f.bench);
}

/* A later word for the same register wins; a word to another block's target writes nothing. */
static void test_words(void **state)
{
    (void)state;
    struct fixture f;
    set_up_small(&f);
    struct bench_program twice = f.program;
    bench_set(&twice, 0x4020, 0xdead0000);
    memmove(twice.words + 2, twice.words + 1, (twice.count - 1) * sizeof *twice.words);
    twice.words[1] = 0x1001ull << 48 | 0xdead0000ull << 16 | 0x4020;
    twice.count++;
    for (uint32_t i = 2; i < twice.count; i++)
        if ((twice.words[i] & 0xffff) == 0x4020)
            twice.words[i] = 0x1001ull << 48 | (uint64_t)f.task.c << 16 | 0x4020;
    f.program = twice;
    assert_true(fresh(&f).interrupt);
    assert_int_equal(wrong(&f, 0, 6), 0);
    bench_write(&f.task, &f.program);
    for (uint32_t i = 0; i < f.program.count; i++)
        if ((f.program.words[i] & 0xffff) == 0x4030)
            f.program.words[i] = (f.program.words[i] & ~(0xffffull << 48)) | 0x0201ull << 48;
    const struct ork_silicon_outcome outcome = fresh(&f);
    assert_hangs(&outcome, ORK_SILICON_INCOMPLETE);
    bench_close(&f.bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unlinked),       cmocka_unit_test(test_domain),
        cmocka_unit_test(test_unmapped),       cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_mapping_errors), cmocka_unit_test(test_half_kernels),
        cmocka_unit_test(test_other_strides),  cmocka_unit_test(test_int_mask),
        cmocka_unit_test(test_alignment),      cmocka_unit_test(test_dma_base),
        cmocka_unit_test(test_banks),          cmocka_unit_test(test_rows),
        cmocka_unit_test(test_config),         cmocka_unit_test(test_enable),
        cmocka_unit_test(test_words),          cmocka_unit_test(test_over_fetch),
        cmocka_unit_test(test_line_groups),
    };
    return cmocka_run_group_tests_name("silicon_limits", tests, NULL, NULL);
}
