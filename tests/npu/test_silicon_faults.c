/* Faults of the script that the silicon model applies itself, and cores at work beside each other. */
#include "silicon_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define TASKS 3

struct chain {
    struct bench_task tasks[TASKS];
    struct ork_silicon_kick kick;
};

static void make_chain(struct bench *bench, struct chain *chain)
{
    const struct bench_task tasks[TASKS] = {{.m = 10, .k = 64, .n = 64},
                                            {.int4 = true, .m = 10, .k = 64, .n = 128},
                                            {.view = BENCH_ROWS_ROWS, .m = 10, .k = 96, .n = 32}};
    uint32_t next = 0, next_count = 0;
    for (int i = TASKS - 1; i >= 0; i--) {
        struct bench_program program;
        chain->tasks[i] = tasks[i];
        bench_fill(bench, &chain->tasks[i]);
        bench_write(&chain->tasks[i], &program);
        if (next)
            bench_link(&program, next, next_count);
        next_count = program.count;
        next = bench_place(bench, &program);
    }
    chain->kick = bench_kick(next, next_count, TASKS);
}

static uint64_t chain_wrong(const struct bench *bench, const struct chain *chain, int from, int to)
{
    uint64_t wrong = 0;
    for (int i = from; i < to; i++)
        wrong += bench_wrong(bench, &chain->tasks[i], 0, chain->tasks[i].m, 0, 64);
    return wrong;
}

static uint64_t chain_untouched(const struct bench *bench, const struct chain *chain, uint32_t begin, uint32_t end)
{
    uint64_t untouched = 0;
    for (int i = 0; i < TASKS; i++)
        untouched += bench_untouched(bench, &chain->tasks[i], begin, end, 0, 64);
    return untouched;
}

static void poison(struct bench *bench, const struct chain *chain)
{
    for (int i = 0; i < TASKS; i++)
        memset(bench_host(bench, chain->tasks[i].c), BENCH_POISON, bench_output_bytes(&chain->tasks[i]));
}

#define CELLS_A_ROW (64 + 128 + 32)

/* NEVER and STOP: no interrupt, the counter says how far it came; cured by a reset. */
static void test_not_completed(void **state)
{
    (void)state;
    struct bench bench;
    struct chain chain;
    bench_open(&bench, 2, 1);
    make_chain(&bench, &chain);
    for (uint32_t after = 0; after < TASKS; after++) {
        const struct ork_npu_fault fault = {.kind = after ? ORK_FAULT_STOP : ORK_FAULT_NEVER, .after = after};
        struct ork_silicon_kick kick = chain.kick;
        poison(&bench, &chain);
        kick.fault = &fault;
        struct ork_silicon_outcome outcome = bench_run(&bench, &kick);
        assert_false(outcome.interrupt);
        assert_int_equal(outcome.task_counter, after);
        assert_int_equal(chain_wrong(&bench, &chain, 0, (int)after), 0);
        for (uint32_t i = after; i < TASKS; i++)
            assert_int_equal(bench_untouched(&bench, &chain.tasks[i], 0, 10, 0, 64), 10 * chain.tasks[i].n);
        assert_false(bench_run(&bench, &chain.kick).interrupt);
        kick = chain.kick;
        kick.core = 1; /* the other core does not mind */
        assert_true(bench_run(&bench, &kick).interrupt);
        ork_silicon_reset(bench.silicon, 2);
        assert_false(bench_run(&bench, &chain.kick).interrupt); /* a reset of the other does not help */
        ork_silicon_reset(bench.silicon, 1);
        outcome = bench_run(&bench, &chain.kick);
        assert_true(outcome.interrupt);
        assert_int_equal(outcome.task_counter, TASKS);
        assert_int_equal(chain_wrong(&bench, &chain, 0, TASKS), 0);
        ork_silicon_reset(bench.silicon, 1);
    }
    /* Beyond the last task nothing stops. */
    const struct ork_npu_fault fault = {.kind = ORK_FAULT_STOP, .after = TASKS};
    chain.kick.fault = &fault;
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    bench_close(&bench);
}

/* CONSTANT, UNTOUCHED and TAIL say that they are done. */
static void test_silent(void **state)
{
    (void)state;
    struct bench bench;
    struct chain chain;
    bench_open(&bench, 1, 2);
    make_chain(&bench, &chain);
    struct ork_npu_fault fault = {.kind = ORK_FAULT_CONSTANT, .value = 0x12345678};
    chain.kick.fault = &fault;
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    for (int i = 0; i < TASKS; i++) {
        const uint32_t *words = bench_host(&bench, chain.tasks[i].c);
        for (uint64_t j = 0; j < bench_output_bytes(&chain.tasks[i]) / 4; j++)
            assert_int_equal(words[j], 0x12345678);
    }
    poison(&bench, &chain);
    fault.kind = ORK_FAULT_UNTOUCHED;
    assert_int_equal(bench_run(&bench, &chain.kick).task_counter, TASKS);
    assert_int_equal(chain_untouched(&bench, &chain, 0, 10), 10 * CELLS_A_ROW);
    fault = (struct ork_npu_fault){.kind = ORK_FAULT_TAIL, .atoms = 3};
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    assert_int_equal(chain_untouched(&bench, &chain, 0, 7), 0);
    assert_int_equal(chain_untouched(&bench, &chain, 7, 10), 3 * CELLS_A_ROW);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(bench_wrong(&bench, &chain.tasks[i], 0, 7, 0, 64), 0);
    poison(&bench, &chain);
    fault.atoms = UINT64_MAX;
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    assert_int_equal(chain_untouched(&bench, &chain, 0, 10), 10 * CELLS_A_ROW);
    /* A fault of the device, not of silicon. */
    fault.kind = ORK_FAULT_LATE;
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    assert_int_equal(chain_wrong(&bench, &chain, 0, TASKS), 0);
    bench_close(&bench);
}

/* 32-bit words of all outputs that differ from a right run. */
static uint64_t differing_words(const struct bench *bench, const struct chain *chain, const uint8_t *right)
{
    uint64_t differing = 0, at = 0;
    for (int i = 0; i < TASKS; i++) {
        const uint64_t size_bytes = bench_output_bytes(&chain->tasks[i]);
        const uint8_t *now = bench_host(bench, chain->tasks[i].c);
        for (uint64_t j = 0; j < size_bytes; j += 4)
            differing += memcmp(now + j, right + at + j, 4) != 0;
        at += size_bytes;
    }
    return differing;
}

/* FLIP: exactly so many words are wrong, the same for the same random number. */
static void test_flip(void **state)
{
    (void)state;
    static uint8_t right[32768], first[32768];
    struct bench bench;
    struct chain chain;
    bench_open(&bench, 1, 3);
    make_chain(&bench, &chain);
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    uint64_t at = 0;
    for (int i = 0; i < TASKS; i++) {
        memcpy(right + at, bench_host(&bench, chain.tasks[i].c), bench_output_bytes(&chain.tasks[i]));
        at += bench_output_bytes(&chain.tasks[i]);
    }
    uint32_t tasks_struck = 0;
    for (uint64_t words = 1; words < 40; words++) {
        const struct ork_npu_fault fault = {.kind = ORK_FAULT_FLIP, .words = words, .random = 77 * words};
        chain.kick.fault = &fault;
        assert_true(bench_run(&bench, &chain.kick).interrupt);
        assert_int_equal(differing_words(&bench, &chain, right), words);
        for (int i = 0; i < TASKS; i++)
            tasks_struck |= bench_wrong(&bench, &chain.tasks[i], 0, 10, 0, 64) ? 1u << i : 0;
        memcpy(first, bench.memory, sizeof first);
        assert_true(bench_run(&bench, &chain.kick).interrupt);
        assert_memory_equal(first, bench.memory, sizeof first);
    }
    assert_int_equal(tasks_struck, 7);
    const struct ork_npu_fault all = {.kind = ORK_FAULT_FLIP, .words = UINT64_MAX, .random = 5};
    chain.kick.fault = &all;
    assert_true(bench_run(&bench, &chain.kick).interrupt);
    const uint64_t differing = differing_words(&bench, &chain, right);
    assert_true(differing == 10 * 64 || differing == 10 * 32); /* of one task */
    bench_close(&bench);
}

struct worker {
    struct bench *bench;
    struct chain chain;
    uint32_t completed;
};

#define KICKS 60

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < KICKS; i++)
        worker->completed += bench_run(worker->bench, &worker->chain.kick).interrupt;
    return NULL;
}

/* Three cores, and a thread that maps and unmaps beside them, in all domains. */
static void test_cores(void **state)
{
    (void)state;
    static uint8_t page[4096];
    struct bench bench;
    struct worker workers[3];
    pthread_t threads[3];
    bench_open(&bench, 3, 4);
    for (uint32_t i = 0; i < 3; i++) {
        workers[i] = (struct worker){.bench = &bench};
        make_chain(&bench, &workers[i].chain);
        workers[i].chain.kick.core = i;
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (uint32_t i = 0; i < 400; i++) {
        const uint32_t iova = i % 2 ? 0x10000 : 0x80000000;
        assert_int_equal(ork_silicon_map(bench.silicon, i % 16, iova, page, sizeof page, true, NULL), ORK_OK);
        ork_silicon_unmap(bench.silicon, i % 16, iova);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].completed, KICKS);
        assert_int_equal(chain_wrong(&bench, &workers[i].chain, 0, TASKS), 0);
    }
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_completed),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_flip),
        cmocka_unit_test(test_cores),
    };
    return cmocka_run_group_tests_name("silicon_faults", tests, NULL, NULL);
}
