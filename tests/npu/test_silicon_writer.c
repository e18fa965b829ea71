/* The program writer against two things that it does not know: the silicon model, and programs written by the bench from
 * the published recipe. A bit that either of them misread shows here. */
#include "silicon_bench.h"

#include "engine/npu/limits.h"
#include "engine/npu/program.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static enum ork_npu_surface input_of(enum bench_view view)
{
    return view == BENCH_FLAT ? ORK_NPU_NATIVE : ORK_NPU_ROWS;
}

static bool random_task(struct bench *bench, struct bench_task *task, struct ork_npu_shape *shape)
{
    static const enum bench_view views[] = {BENCH_FLAT, BENCH_ROWS, BENCH_ROWS_ROWS};
    *task = (struct bench_task){.int4 = bench_below(bench, 3) == 0};
    task->view = task->int4 ? BENCH_FLAT : views[bench_below(bench, 3)];
    *shape = (struct ork_npu_shape){.type = task->int4 ? ORK_NPU_W4A4 : ORK_NPU_W8A8,
                                    .input = input_of(task->view),
                                    .output = task->view == BENCH_ROWS_ROWS ? ORK_NPU_ROWS : ORK_NPU_NATIVE};
    task->k = 32 * (1 + bench_below(bench, bench_below(bench, 4) ? 128 : 336));
    task->n = 64 * (1 + bench_below(bench, bench_below(bench, 4) ? 4 : 64));
    const uint32_t rows = ork_npu_rows_max(shape->type, shape->input, task->k);
    if (rows == 0)
        return false;
    task->m = bench_below(bench, 4) ? 1 + bench_below(bench, rows) : rows;
    while (task->m > 1 && (uint64_t)task->m * task->k * task->n > 700000) {
        if (task->n > 64)
            task->n -= 64;
        else
            task->m = task->m / 2;
    }
    shape->m = task->m;
    shape->k = task->k;
    shape->n = task->n;
    return true;
}

/* Registers of the recipe have the recipe's values; banks, entries and grains are free within bounds that the model
 * checks. */
static void compare_registers(const struct bench_task *task, const uint64_t *words, uint32_t count)
{
    struct bench_program recipe, written = {.count = count};
    bench_write(task, &recipe);
    memcpy(written.words, words, count * sizeof *words);
    for (uint32_t i = 0; i + 4 < recipe.count; i++) {
        const uint32_t offset = recipe.words[i] & 0xffff;
        const uint32_t free_bits = offset == 0x4050 ? 2 : 0; /* OD_BYPASS: both are in use */
        if (offset == 0x1010 || offset == 0x1040 || offset == 0x1044 || (offset == 0x3010 && !task->int4))
            continue;
        const uint32_t expected = bench_get(&recipe, offset) & ~free_bits,
                       found = bench_get(&written, offset) & ~free_bits;
        if (expected != found)
            print_message("register 0x%x, view %d, %u x %u x %u\n", offset, task->view, task->m, task->k, task->n);
        assert_int_equal(found, expected);
    }
}

static void test_writer(void **state)
{
    (void)state;
    struct bench bench;
    uint32_t shapes = 0;
    bench_open(&bench, 1, 11);
    while (shapes < 120) {
        struct bench_task task;
        struct ork_npu_shape shape;
        struct bench_program program = {0};
        ork_error error = {0};
        if (!random_task(&bench, &task, &shape))
            continue;
        shapes++;
        bench_clear(&bench);
        bench_fill(&bench, &task);
        const struct ork_npu_addresses addresses = {.a = task.a, .b = task.b, .c = task.c};
        assert_int_equal(ork_npu_program_write(&shape, &addresses, program.words, &error), ORK_OK);
        program.count = ork_npu_program_words(shape.type);
        compare_registers(&task, program.words, program.count);
        const struct ork_silicon_outcome outcome = bench_run_one(&bench, &program);
        if (!outcome.interrupt || (outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED))
            print_message("view %d, %u x %u x %u: 0x%x %s\n", task.view, task.m, task.k, task.n, outcome.anomalies,
                          outcome.why);
        assert_true(outcome.interrupt);
        assert_int_equal(outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED, 0);
        assert_int_equal(bench_wrong(&bench, &task, 0, task.m, 0, 64), 0);
    }
    bench_close(&bench);
}

/* The writer's own links. */
static void test_writer_chain(void **state)
{
    (void)state;
    struct bench bench;
    struct bench_task tasks[5];
    struct ork_npu_shape shapes[5];
    bench_open(&bench, 1, 12);
    for (int i = 0; i < 5; i++) {
        while (!random_task(&bench, &tasks[i], &shapes[i]))
            ;
        bench_fill(&bench, &tasks[i]);
    }
    const uint32_t slot_bytes = ORK_NPU_PROGRAM_SLOT_WORDS * 8;
    const uint32_t slots = bench_allocate(&bench, 5 * slot_bytes + ORK_NPU_PROGRAM_SLACK_WORDS * 8);
    for (uint32_t i = 0; i < 5; i++) {
        const struct ork_npu_addresses addresses = {.a = tasks[i].a, .b = tasks[i].b, .c = tasks[i].c};
        uint64_t *words = bench_host(&bench, slots + i * slot_bytes);
        assert_int_equal(ork_npu_program_write(&shapes[i], &addresses, words, NULL), ORK_OK);
        ork_npu_program_set_next(shapes[i].type, i == 4, i == 4 ? 0 : slots + (i + 1) * slot_bytes,
                                 shapes[i == 4 ? 4 : i + 1].type, words);
    }
    const struct ork_silicon_kick kick = bench_kick(slots, ork_npu_program_words(shapes[0].type), 5);
    const struct ork_silicon_outcome outcome = bench_run(&bench, &kick);
    assert_true(outcome.interrupt);
    assert_int_equal(outcome.task_counter, 5);
    assert_int_equal(outcome.anomalies & ~(uint32_t)ORK_SILICON_SATURATED, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(bench_wrong(&bench, &tasks[i], 0, tasks[i].m, 0, 64), 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_writer_chain),
    };
    return cmocka_run_group_tests_name("silicon_writer", tests, NULL, NULL);
}
