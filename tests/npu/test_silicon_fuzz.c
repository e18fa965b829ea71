/* Hostile programs: random words, and right programs with changed words, over small mappings with odd borders. Whatever
 * they hold, a kick comes back, counts no more tasks than it has, and touches nothing outside the mappings (the sanitizer
 * builds see reads; a canary sees writes everywhere). ORK_FUZZ_ROUNDS sets how many. */
#include "silicon_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define REGIONS 3
#define CANARY 64

/* Mappings of exactly so many bytes, each its own allocation. */
struct region {
    uint32_t iova, size_bytes;
    bool writable;
    uint8_t *host;
};

static struct region regions[REGIONS] = {
    {.iova = 0, .size_bytes = 20000, .writable = true},
    {.iova = 20000 / 16 * 16 + 16, .size_bytes = 8192, .writable = false},
    {.iova = 0xfffff000, .size_bytes = 4096, .writable = true},
};

static uint64_t rounds(uint64_t otherwise)
{
    const char *text = getenv("ORK_FUZZ_ROUNDS");
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void open_regions(struct bench *bench)
{
    bench_open(bench, 1, 1);
    for (int i = 0; i < REGIONS; i++) {
        regions[i].host = malloc(regions[i].size_bytes + CANARY);
        assert_non_null(regions[i].host);
        memset(regions[i].host, 0x5c, regions[i].size_bytes + CANARY);
        assert_int_equal(ork_silicon_map(bench->silicon, 1, regions[i].iova, regions[i].host, regions[i].size_bytes,
                                         regions[i].writable, NULL),
                         ORK_OK);
    }
}

static void close_regions(struct bench *bench)
{
    for (int i = 0; i < REGIONS; i++) {
        for (uint32_t j = 0; j < CANARY; j++)
            assert_int_equal(regions[i].host[regions[i].size_bytes + j], 0x5c);
        free(regions[i].host);
    }
    bench_close(bench);
}

static uint32_t any_address(struct bench *bench)
{
    const struct region *region = &regions[bench_below(bench, 4) % REGIONS];    /* the largest more often */
    const uint32_t span = region->size_bytes / (bench_below(bench, 4) ? 4 : 1); /* mostly far from its end */
    return (region->iova + (region->size_bytes - span) / 2 + bench_below(bench, span)) &
           (bench_below(bench, 8) ? ~15u : ~0u);
}

/* A value that a check may have forgotten. */
static uint32_t any_value(struct bench *bench, uint32_t before)
{
    switch (bench_below(bench, 8)) {
    case 0:
        return (uint32_t)bench_random(bench);
    case 1:
        return before ^ 1u << bench_below(bench, 32);
    case 2:
        return before + 1;
    case 3:
        return before - 1;
    case 4:
        return 0;
    case 5:
        return 2 * before;
    case 6:
        return ~0u >> bench_below(bench, 32);
    default:
        return any_address(bench);
    }
}

static const struct ork_npu_fault *any_fault(struct bench *bench, struct ork_npu_fault *fault)
{
    *fault = (struct ork_npu_fault){.kind = (enum ork_npu_fault_kind)bench_below(bench, ORK_FAULT_KINDS),
                                    .after = bench_below(bench, 4),
                                    .value = bench_random(bench),
                                    .atoms = bench_below(bench, 9),
                                    .words = bench_below(bench, 9),
                                    .random = bench_random(bench)};
    return bench_below(bench, 4) ? NULL : fault;
}

/* Runs what stands at an address of domain 1; true when something completed. */
static bool kick_any(struct bench *bench, uint32_t at, uint32_t count)
{
    struct ork_npu_fault fault;
    struct ork_silicon_kick kick = bench_kick(at, count, 1 + bench_below(bench, 4));
    kick.domain = 1;
    kick.int_mask = bench_below(bench, 4) ? 0x300 : 0x1ffff;
    kick.fault = any_fault(bench, &fault);
    if (bench_below(bench, 20) == 0)
        kick.dma_base = (uint32_t)bench_random(bench);
    if (bench_below(bench, 20) == 0)
        kick.amount = (uint32_t)bench_random(bench) & 0x1ffff;
    const struct ork_silicon_outcome outcome = bench_run(bench, &kick);
    assert_true(outcome.task_counter <= kick.task_number);
    assert_int_equal(outcome.interrupt, outcome.status != 0);
    assert_int_equal(outcome.status & ~kick.int_mask, 0);
    assert_non_null(memchr(outcome.why, 0, sizeof outcome.why));
    if (bench_below(bench, 8))
        ork_silicon_reset(bench->silicon, 1);
    return outcome.task_counter > 0;
}

static void test_random_words(void **state)
{
    (void)state;
    struct bench bench;
    open_regions(&bench);
    for (uint64_t round = 0; round < rounds(5000); round++) {
        uint32_t *words = (uint32_t *)(void *)regions[0].host;
        for (int i = 0; i < 300; i++)
            words[i] = (uint32_t)bench_random(&bench);
        kick_any(&bench, 0, 100 + bench_below(&bench, 50));
    }
    close_regions(&bench);
}

static void write_some(struct bench *bench, struct bench_program *program)
{
    struct bench_task task = {.int4 = bench_below(bench, 2),
                              .view = (enum bench_view)bench_below(bench, BENCH_VIEWS),
                              .k = 32 * (1 + bench_below(bench, 3)),
                              .n = 64 * (1 + bench_below(bench, 2)),
                              .a = any_address(bench),
                              .b = any_address(bench),
                              .c = any_address(bench)};
    task.m = task.view == BENCH_PANELS ? 8 : 1 + bench_below(bench, 9);
    bench_write(&task, program);
    if (bench_below(bench, 8) == 0)
        bench_write_sum(1 + bench_below(bench, 20), 4 * (1 + bench_below(bench, 16)),
                        (const uint32_t[3]){task.a, task.b, task.c}, program);
    for (uint32_t changes = bench_below(bench, 4); changes > 0; changes--) {
        uint64_t *word = &program->words[bench_below(bench, program->count)];
        const uint32_t value = any_value(bench, (uint32_t)(*word >> 16));
        if (bench_below(bench, 8) == 0)
            *word ^= 1ull << bench_below(bench, 64);
        else
            *word = (*word & ~0xffffffff0000ull) | (uint64_t)value << 16;
    }
}

static void test_changed_programs(void **state)
{
    (void)state;
    struct bench bench;
    uint64_t completed = 0;
    const uint64_t count = rounds(20000);
    open_regions(&bench);
    for (uint64_t round = 0; round < count; round++) {
        struct bench_program program;
        const uint32_t at = bench_below(&bench, 2) ? 0 : 2048;
        write_some(&bench, &program);
        if (bench_below(&bench, 2)) /* to itself, to the other, to anywhere */
            bench_link(&program, bench_below(&bench, 4) ? 2048 - at : any_address(&bench), program.count);
        if (at + program.count * 8 <= regions[0].size_bytes)
            memcpy(regions[0].host + at, program.words, program.count * 8);
        completed += kick_any(&bench, at, program.count);
    }
    print_message("%llu of %llu kicks completed a task\n", (unsigned long long)completed, (unsigned long long)count);
    assert_true(completed > count / 20); /* else nothing was tested */
    close_regions(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_words),
        cmocka_unit_test(test_changed_programs),
    };
    return cmocka_run_group_tests_name("silicon_fuzz", tests, NULL, NULL);
}
