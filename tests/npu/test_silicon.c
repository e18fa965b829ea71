/* The silicon model computes what a program's registers say: results against the definition of a matmul over random
 * shapes, layouts, chains, register groups. Programs are written by the bench from the published recipe. */
#include "silicon_bench.h"

#include "engine/npu/device/silicon_internal.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A shape of at most so many multiplications whose rows are within every published envelope. */
static void random_shape(struct bench *bench, struct bench_task *task, uint64_t products_max)
{
    const uint32_t group = task->int4 ? 64 : 32;
    const uint32_t k_max = task->int4 ? 2048 : bench_below(bench, 4) ? 3072 : 10752;
    task->k = 32 * (1 + bench_below(bench, bench_below(bench, 2) ? k_max / 32 : 16));
    task->n = group * (1 + bench_below(bench, 5));
    const uint32_t bank_rows = 4 * 32768 / task->k;
    uint32_t rows = task->int4 ? 128 : task->k > 8192 ? 1 : task->k > 6144 ? 16 : task->k > 4096 ? 32 : bank_rows;
    if (task->k > 3072 && task->k < 4096)
        rows = 4;
    rows = smaller(rows, (uint32_t)(products_max / ((uint64_t)task->k * task->n)) + 1);
    task->m = 1 + bench_below(bench, smaller(rows, bench_below(bench, 3) ? rows : 6));
    if (task->view == BENCH_PANELS)
        task->m = 8 * (rows >= 16 ? 1 + task->m / 16 : 1);
    if (task->view == BENCH_PANELS && rows < 8)
        task->k = 512;
}

static void check_exact(bool int4, bool fp32, enum bench_view view, uint32_t shapes)
{
    struct bench bench;
    bench_open(&bench, 1, 1000 * view + 2 * int4 + fp32);
    for (uint32_t i = 0; i < shapes; i++) {
        struct bench_task task = {.int4 = int4, .fp32 = fp32, .view = view};
        struct bench_program program;
        bench_clear(&bench);
        random_shape(&bench, &task, fp32 ? 50000 : 400000);
        if (fp32)
            task.k = smaller(task.k, 992); /* sums that 24 bits hold */
        bench_fill(&bench, &task);
        bench_write(&task, &program);
        const struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
        if (!outcome.interrupt || (outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED))
            print_message("%u x %u x %u: %s, anomalies 0x%x\n", task.m, task.k, task.n, outcome.why, outcome.anomalies);
        assert_true(outcome.interrupt);
        assert_int_equal(outcome.task_counter, 1);
        assert_int_equal(outcome.status, i % 2 ? 0x200 : 0x100); /* groups alternate from kick to kick */
        assert_int_equal(outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED, 0);
        assert_int_equal(bench_wrong(&bench, &task, 0, task.m, 0, 64), 0);
    }
    bench_close(&bench);
}

/* Every view of the same matmul, int8 -> int32: wrong strides, signs of SURF or row orders would show. */
static void test_int8(void **state)
{
    (void)state;
    for (int view = 0; view < BENCH_VIEWS; view++)
        check_exact(false, false, (enum bench_view)view, 25);
}

static void test_int8_fp32(void **state)
{
    (void)state;
    check_exact(false, true, BENCH_FLAT, 12);
    check_exact(false, true, BENCH_ROWS_ROWS, 12);
}

static void test_int4(void **state)
{
    (void)state;
    check_exact(true, false, BENCH_FLAT, 30);
    check_exact(true, false, BENCH_TALL, 10);
    check_exact(true, false, BENCH_PANELS, 15);
}

/* One row: the surface pitch of 1 atom is SURF = -3; a SURF clamped at 0 reads elsewhere (npu-hw.md 5). */
static void test_one_row(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    bench_open(&bench, 1, 2);
    for (int int4 = 0; int4 < 2; int4++) {
        struct bench_task task = {.int4 = int4, .m = 1, .k = 2048, .n = 128};
        bench_fill(&bench, &task);
        bench_allocate(&bench, 4 * 2048); /* what a pitch of 4 atoms would read */
        bench_write(&task, &program);
        assert_int_equal(bench_get(&program, 0x1080), 0x0ffffffd);
        assert_true(bench_run_one(&bench, &program).interrupt);
        assert_int_equal(bench_wrong(&bench, &task, 0, 1, 0, 64), 0);
        bench_set(&program, 0x1080, 0);
        assert_true(bench_run_one(&bench, &program).interrupt);
        assert_true(bench_wrong(&bench, &task, 0, 1, 0, 64) > 100);
    }
    bench_close(&bench);
}

/* int16 results are clamped at both ends, and that is said. */
static void test_saturation(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    struct bench_task task = {.int4 = true, .m = 3, .k = 704, .n = 64};
    bench_open(&bench, 1, 3);
    bench_fill(&bench, &task);
    for (uint32_t k = 0; k < task.k; k++) {
        for (uint32_t m = 0; m < task.m; m++)
            bench_set_a(&bench, &task, m, k, m == 2 ? 1 : -8);
        for (uint32_t n = 0; n < task.n; n++)
            bench_set_b(&bench, &task, n, k, n % 2 ? -8 : 7);
    }
    bench_write(&task, &program);
    struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
    assert_true(outcome.interrupt);
    assert_true(outcome.anomalies & ORK_SILICON_SATURATED);
    assert_int_equal(bench_c(&bench, &task, 0, 0), -32768);
    assert_int_equal(bench_c(&bench, &task, 1, 1), 32767);
    assert_int_equal(bench_c(&bench, &task, 2, 0), 704 * 7);
    assert_int_equal(bench_wrong(&bench, &task, 0, task.m, 0, 64), 0);
    /* 64 * 480 still fits. */
    bench_clear(&bench);
    task.k = 480;
    bench_fill(&bench, &task);
    memset(bench_host(&bench, task.a), 0x88, 3 * 240);
    memset(bench_host(&bench, task.b), 0x88, 64 * 240);
    bench_write(&task, &program);
    outcome = bench_run_one(&bench, &program);
    assert_int_equal(outcome.anomalies, 0);
    assert_int_equal(bench_c(&bench, &task, 2, 63), 30720);
    bench_close(&bench);
}

/* Nibbles swapped in both operands give the same sums, swapped in one of them others: npu-hw.md 6. */
static void test_nibble_order(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    struct bench_task task = {.int4 = true, .m = 5, .k = 96, .n = 128};
    bench_open(&bench, 1, 4);
    bench_fill(&bench, &task);
    bench_write(&task, &program);
    assert_true(bench_run_one(&bench, &program).interrupt);
    int16_t before[5 * 128];
    memcpy(before, bench_host(&bench, task.c), sizeof before);
    const uint32_t operands[2] = {task.a, task.b}, sizes[2] = {5 * 48, 128 * 48};
    for (int side = 0; side < 2; side++) {
        uint8_t *bytes = bench_host(&bench, operands[side]);
        for (uint32_t i = 0; i < sizes[side]; i++)
            bytes[i] = (uint8_t)(bytes[i] << 4 | bytes[i] >> 4);
        assert_true(bench_run_one(&bench, &program).interrupt);
        assert_int_equal(memcmp(before, bench_host(&bench, task.c), sizeof before) == 0, side == 1);
    }
    bench_close(&bench);
}

/* int4 kernels lie in groups of 64, not of 32; only from K = 64 on do the orders differ (npu-hw.md 6). */
static void test_int4_group(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    bench_open(&bench, 1, 5);
    for (uint32_t k = 32; k <= 64; k += 32) {
        struct bench_task task = {.int4 = true, .m = 2, .k = k, .n = 64};
        bench_fill(&bench, &task);
        uint8_t *bricks = bench_host(&bench, task.b), original[64 * 32], regrouped[64 * 32];
        memcpy(original, bricks, 64 * k / 2);
        /* [n / 32][k / 32][32][16 bytes] */
        for (uint32_t n = 0; n < 64; n++)
            for (uint32_t tile = 0; tile < k / 32; tile++)
                memcpy(regrouped + ((n / 32 * (k / 32) + tile) * 32 + n % 32) * 16, bricks + (tile * 64 + n) * 16, 16);
        bench_write(&task, &program);
        memcpy(bricks, regrouped, 64 * k / 2);
        assert_true(bench_run_one(&bench, &program).interrupt);
        memcpy(bricks, original, 64 * k / 2);
        const uint64_t wrong = bench_wrong(&bench, &task, 0, 2, 0, 64);
        assert_true(k == 32 ? wrong == 0 : wrong > 50);
    }
    bench_close(&bench);
}

/* Results end up modulo 2^32 only beyond what is published to be exact; the longest exact sums are exact. */
static void test_extremes(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    struct bench_task task = {.m = 1, .k = 10752, .n = 32};
    bench_open(&bench, 1, 6);
    bench_fill(&bench, &task);
    memset(bench_host(&bench, task.a), 0x80, 10752);
    memset(bench_host(&bench, task.b), 0x80, 10752 * 32);
    bench_write(&task, &program);
    assert_true(bench_run_one(&bench, &program).interrupt);
    assert_int_equal(bench_c(&bench, &task, 0, 31), 10752 * 16384);
    bench_close(&bench);
}

#define CHAIN 7

/* Tasks of different types, views and sizes, linked: each must be computed from its own registers. */
static void test_chain(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_task tasks[CHAIN] = {
        {.m = 5, .k = 64, .n = 96},
        {.int4 = true, .m = 9, .k = 96, .n = 64},
        {.view = BENCH_ROWS_ROWS, .m = 33, .k = 128, .n = 32},
        {.m = 1, .k = 1024, .n = 64},
        {.int4 = true, .view = BENCH_PANELS, .m = 16, .k = 64, .n = 128},
        {.view = BENCH_ROWS, .m = 2, .k = 32, .n = 160},
        {.view = BENCH_TALL, .m = 70, .k = 32, .n = 32},
    };
    uint32_t next = 0;
    uint32_t next_count = 0;
    bench_open(&bench, 1, 7);
    for (int i = CHAIN - 1; i >= 0; i--) {
        struct bench_program program;
        bench_fill(&bench, &tasks[i]);
        bench_write(&tasks[i], &program);
        if (next)
            bench_link(&program, next, next_count);
        next_count = program.count;
        next = bench_place(&bench, &program);
    }
    const struct ork_silicon_kick kick = bench_kick(next, next_count, CHAIN);
    const struct ork_silicon_outcome outcome = bench_run(&bench, &kick);
    assert_true(outcome.interrupt);
    assert_int_equal(outcome.anomalies, 0);
    assert_int_equal(outcome.task_counter, CHAIN);
    assert_int_equal(outcome.status, 0x100); /* the seventh task's group */
    assert_int_equal(outcome.work.tasks, CHAIN);
    for (int i = 0; i < CHAIN; i++)
        assert_int_equal(bench_wrong(&bench, &tasks[i], 0, tasks[i].m, 0, 64), 0);
    /* Fewer tasks than links: TASK_NUMBER is what stops it. */
    memset(bench_host(&bench, tasks[2].c), BENCH_POISON, bench_output_bytes(&tasks[2]));
    const struct ork_silicon_kick two = bench_kick(next, next_count, 2);
    assert_int_equal(bench_run(&bench, &two).task_counter, 2);
    assert_int_equal(bench_untouched(&bench, &tasks[2], 0, 33, 0, 64), 33 * 32);
    bench_close(&bench);
}

/* A register that a program leaves out has the value of two tasks ago. */
static void test_groups(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program program;
    struct bench_task task = {.m = 4, .k = 64, .n = 32};
    uint32_t outputs[4];
    bench_open(&bench, 1, 8);
    bench_fill(&bench, &task);
    for (int i = 0; i < 4; i++) {
        task.c = outputs[i] = bench_allocate(&bench, bench_output_bytes(&task));
        bench_write(&task, &program);
        if (i >= 2) {
            bench_drop(&program, 0x4020);
            memset(bench_host(&bench, outputs[i]), BENCH_POISON, bench_output_bytes(&task));
            memset(bench_host(&bench, outputs[i - 2]), BENCH_POISON, bench_output_bytes(&task));
        }
        const struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
        assert_true(outcome.interrupt);
        assert_int_equal(outcome.anomalies, i >= 2 ? ORK_SILICON_INCOMPLETE : 0);
        task.c = outputs[i >= 2 ? i - 2 : i];
        assert_int_equal(bench_wrong(&bench, &task, 0, 4, 0, 64), 0);
        task.c = outputs[i];
        assert_int_equal(bench_untouched(&bench, &task, 0, 4, 0, 64), i >= 2 ? 4 * 32 : 0);
    }
    /* After a reset nothing is left, and the first group is first again. */
    ork_silicon_reset(bench.silicon, 1);
    bench_write(&task, &program);
    assert_int_equal(bench_run_one(&bench, &program).status, 0x100);
    ork_silicon_reset(bench.silicon, 1);
    bench_drop(&program, 0x1014);
    struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.anomalies, ORK_SILICON_INCOMPLETE | ORK_SILICON_CONFIG);
    bench_close(&bench);
}

/* Each register of the recipe counts as needed. */
static void test_each_register(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program whole, program;
    struct bench_task task = {.m = 4, .k = 64, .n = 32};
    bench_open(&bench, 1, 9);
    bench_fill(&bench, &task);
    bench_write(&task, &whole);
    assert_int_equal(bench_run_one(&bench, &whole).anomalies, 0);
    assert_int_equal(bench_run_one(&bench, &whole).anomalies, 0); /* now both groups hold it */
    for (uint32_t i = 0; i + 4 < whole.count; i++) {
        program = whole;
        bench_drop(&program, whole.words[i] & 0xffff);
        const struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
        if (outcome.anomalies != ORK_SILICON_INCOMPLETE)
            print_message("register 0x%x\n", (unsigned)(whole.words[i] & 0xffff));
        assert_int_equal(outcome.anomalies, ORK_SILICON_INCOMPLETE);
        assert_true(outcome.interrupt);
        bench.used -= 64; /* programs are all that is allocated here */
    }
    bench_close(&bench);
}

/* Surfaces that several mappings share are read and written across their borders. */
static void test_split_mappings(void **state)
{
    (void)state;
    for (int int4 = 0; int4 < 2; int4++) {
        struct bench bench;
        struct bench_program program;
        struct bench_task task = {.int4 = int4, .m = 24, .k = 512, .n = 256};
        bench_open(&bench, 1, 10);
        ork_silicon_unmap(bench.silicon, 0, BENCH_IOVA);
        for (uint32_t at = 0; at < 1u << 20; at += 4096)
            assert_int_equal(ork_silicon_map(bench.silicon, 0, BENCH_IOVA + at, bench.memory + at, 4096, true, NULL),
                             ORK_OK);
        bench_fill(&bench, &task);
        bench_write(&task, &program);
        bench.used = (bench.used + 4095) / 4096 * 4096 - 512; /* the program crosses a border as well */
        const struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
        assert_true(outcome.interrupt);
        assert_int_equal(outcome.anomalies, 0);
        assert_int_equal(bench_wrong(&bench, &task, 0, task.m, 0, 64), 0);
        bench_close(&bench);
    }
}

/* The machine's instructions against plain C, extreme codes included. */
static void test_math(void **state)
{
    (void)state;
    enum { ROWS = 8, TILES = 40, CHANNELS = 64 };
    static int8_t rows[ROWS * TILES * 32], bricks[TILES * CHANNELS * 32];
    static int32_t row_sums[ROWS], sums[2][ROWS * CHANNELS];
    struct bench bench = {.seed = 12};
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof rows; i++)
            rows[i] = round ? (int8_t)bench_random(&bench) : INT8_MIN;
        for (size_t i = 0; i < sizeof bricks; i++)
            bricks[i] = round > 1 ? (int8_t)bench_random(&bench) : round ? INT8_MAX : INT8_MIN;
        const uint32_t channels = round % 2 ? 64 : 32, tiles = 1 + bench_below(&bench, TILES);
        for (uint32_t i = 0; i < ROWS; i++)
            row_sums[i] = silicon_math_row_sum(rows + i * tiles * 32, tiles * 32);
        silicon_math_dots(rows, row_sums, ROWS, bricks, tiles, channels, sums[0]);
        silicon_math_dots_plain(rows, ROWS, bricks, tiles, channels, sums[1]);
        assert_memory_equal(sums[0], sums[1], ROWS * channels * sizeof **sums);
        silicon_math_dots(rows, row_sums, 1, bricks, tiles, channels, sums[0]);
        assert_memory_equal(sums[0], sums[1], channels * sizeof **sums);
    }
    int8_t codes[512];
    uint8_t packed[256];
    for (int i = 0; i < 256; i++)
        packed[i] = (uint8_t)i;
    silicon_math_unpack(packed, 256, codes);
    for (int i = 0; i < 512; i++) {
        const int nibble = i % 2 ? i / 2 >> 4 : i / 2 & 15;
        assert_int_equal(codes[i], nibble > 7 ? nibble - 16 : nibble);
    }
}

/* Two k slices of a matmul and their sum, one chain: the sum of the slices is the product. */
static void test_sum(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_program programs[3];
    struct bench_task whole = {.m = 20, .k = 256, .n = 64}, slices[2];
    bench_open(&bench, 1, 13);
    bench_fill(&bench, &whole);
    for (uint32_t i = 0; i < 2; i++) {
        slices[i] = (struct bench_task){.m = 20, .k = 128, .n = 64};
        bench_fill(&bench, &slices[i]);
        for (uint32_t k = 0; k < 128; k++) {
            for (uint32_t m = 0; m < 20; m++)
                bench_set_a(&bench, &slices[i], m, k, bench_a(&bench, &whole, m, 128 * i + k));
            for (uint32_t n = 0; n < 64; n++)
                bench_set_b(&bench, &slices[i], n, k, bench_b(&bench, &whole, n, 128 * i + k));
        }
        bench_write(&slices[i], &programs[i]);
    }
    bench_write_sum(20, 64, (const uint32_t[3]){slices[0].c, slices[1].c, whole.c}, &programs[2]);
    uint32_t next = bench_place(&bench, &programs[2]);
    for (int i = 1; i >= 0; i--) {
        bench_link(&programs[i], next, programs[i + 1].count);
        next = bench_place(&bench, &programs[i]);
    }
    const struct ork_silicon_kick kick = bench_kick(next, programs[0].count, 3);
    struct ork_silicon_outcome outcome = bench_run(&bench, &kick);
    if (!outcome.interrupt)
        print_message("%s\n", outcome.why);
    assert_true(outcome.interrupt);
    assert_int_equal(outcome.anomalies, 0);
    assert_int_equal(outcome.task_counter, 3);
    assert_int_equal(bench_wrong(&bench, &whole, 0, 20, 0, 64), 0);
    whole.fp32 = true;
    bench_set(&programs[2], 0x4010, 0xb0000004);
    assert_true(bench_run_one(&bench, &programs[2]).interrupt);
    assert_int_equal(bench_wrong(&bench, &whole, 0, 20, 0, 64), 0);
    bench_set(&programs[2], 0x5038, 0x1000);
    outcome = bench_run_one(&bench, &programs[2]);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.anomalies, ORK_SILICON_UNMAPPED);
    ork_silicon_reset(bench.silicon, 1);
    bench_set(&programs[2], 0x5044, 0);
    outcome = bench_run_one(&bench, &programs[2]);
    assert_false(outcome.interrupt);
    assert_int_equal(outcome.anomalies, ORK_SILICON_CONFIG);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_math),          cmocka_unit_test(test_sum),
        cmocka_unit_test(test_int8),          cmocka_unit_test(test_int8_fp32),
        cmocka_unit_test(test_int4),          cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_saturation),    cmocka_unit_test(test_nibble_order),
        cmocka_unit_test(test_int4_group),    cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_chain),         cmocka_unit_test(test_groups),
        cmocka_unit_test(test_each_register), cmocka_unit_test(test_split_mappings),
    };
    return cmocka_run_group_tests_name("silicon", tests, NULL, NULL);
}
