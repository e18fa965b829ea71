/* Guards the residency of weights: device memory holds exactly the codes of every tier and is synchronised before it is
 * offered; budgets, domains and mapping counts are kept; pages of the pack serve where they can; eviction follows its
 * rules; every failed allocation ends in less memory or a clear refusal; device calls come from the owner alone. */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "residency_bench.h"

enum { MIB = 1 << 20, UNIT_N = 64, UNIT_K = 1024, UNIT_BYTES = UNIT_N * UNIT_K, MATRICES_MAX = 64 };

static struct fake_device fake;
static struct test_matrix matrices[MATRICES_MAX];
static uint32_t matrix_count;
static struct ork_npu_residency *residency;

static void begin(uint32_t domains, uint64_t domain_bytes, bool imports)
{
    fake_device_make(&fake, domains, domain_bytes, imports);
    matrix_count = 0;
}

static struct ork_matrix *add_matrix(enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts, uint32_t offset)
{
    assert_true(matrix_count < MATRICES_MAX);
    test_matrix_make(&matrices[matrix_count], tier, n, k, experts, offset);
    return &matrices[matrix_count++].matrix;
}

static void create(uint64_t memory_bytes)
{
    const struct ork_npu_residency_params params = {.memory_bytes = memory_bytes};
    assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
}

static void announce(const struct ork_matrix *matrix, uint32_t layer, bool pinned)
{
    ork_error error = {0};
    assert_int_equal(ork_npu_residency_add(residency, matrix, layer, ORK_NPU_W8A8, pinned, &error), ORK_OK);
}

static void start(void)
{
    ork_error error = {0};
    ork_status status = ork_npu_residency_start(residency, true, &error);
    if (status != ORK_OK)
        print_error("%s\n", error.what);
    assert_int_equal(status, ORK_OK);
}

static void finish(void)
{
    ork_npu_residency_destroy(residency);
    assert_int_equal(fake.count, 0);
    for (uint32_t i = 0; i < matrix_count; i++)
        test_matrix_free(&matrices[i]);
    matrix_count = 0;
}

static struct ork_npu_residency_stats stats(void)
{
    struct ork_npu_residency_stats s;
    ork_npu_residency_get_stats(residency, &s);
    return s;
}

static enum ork_npu_presence acquire(const struct ork_matrix *matrix, uint32_t expert,
                                     struct ork_npu_resident *resident)
{
    return ork_npu_residency_acquire(residency, matrix, expert, resident);
}

static void pump_until(const struct ork_matrix *matrix, uint32_t expert)
{
    for (int i = 0; i < 20000 && !ork_npu_residency_present(residency, matrix, expert); i++) {
        assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
        usleep(100);
    }
    assert_true(ork_npu_residency_present(residency, matrix, expert));
}

/* Acquires what must be present and gives it back. */
static void use(const struct ork_matrix *matrix, uint32_t expert)
{
    struct ork_npu_resident resident;
    assert_int_equal(acquire(matrix, expert, &resident), ORK_NPU_PRESENT);
    ork_npu_residency_release(residency, &resident);
}

static void expect_right(const struct ork_matrix *matrix, enum ork_npu_type type)
{
    struct ork_npu_resident resident;
    for (uint32_t expert = 0; expert < matrix->experts; expert++) {
        assert_true(ork_npu_residency_present(residency, matrix, expert));
        assert_int_equal(acquire(matrix, expert, &resident), ORK_NPU_PRESENT);
        assert_true(test_resident_is_right(&fake, matrix, expert, type, &resident));
        ork_npu_residency_release(residency, &resident);
    }
}

/* ---- contents ---- */

static void test_contents_of_all_tiers(void **state)
{
    static const enum ork_tier tiers[] = {ORK_TIER_I8, ORK_TIER_I4, ORK_TIER_NF4,
                                          ORK_TIER_I5, ORK_TIER_I6, ORK_TIER_N8};
    static const uint32_t shapes[][3] = {{64, 64, 1}, {1, 1, 1}, {33, 95, 3}, {100, 352, 2}, {129, 33, 1}};
    (void)state;
    begin(1, 256 * MIB, false);
    create(64 * MIB);
    for (size_t t = 0; t < sizeof tiers / sizeof tiers[0]; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            announce(add_matrix(tiers[t], shapes[s][0], shapes[s][1], shapes[s][2], 0), (uint32_t)t, false);
    const uint32_t w8a8 = matrix_count;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        assert_int_equal(ork_npu_residency_add(residency,
                                               add_matrix(ORK_TIER_I4, shapes[s][0], shapes[s][1], shapes[s][2], 0), 9,
                                               ORK_NPU_W4A4, s % 2, NULL),
                         ORK_OK);
    start();
    for (uint32_t i = 0; i < matrix_count; i++) {
        assert_true(ork_npu_residency_knows(residency, &matrices[i].matrix));
        expect_right(&matrices[i].matrix, i < w8a8 ? ORK_NPU_W8A8 : ORK_NPU_W4A4);
    }
    assert_int_equal(stats().resident_bytes, stats().announced_bytes);
    assert_true(stats().mappings <= 2 && stats().imported_bytes == 0);
    finish();
}

static void test_imports(void **state)
{
    (void)state;
    begin(2, 256 * MIB, true);
    const struct ork_matrix *plain = add_matrix(ORK_TIER_I8, 70, 100, 1, 0);
    const struct ork_matrix *moved = add_matrix(ORK_TIER_I8, 70, 100, 1, 64);   /* not on a page */
    const struct ork_matrix *stack = add_matrix(ORK_TIER_I8, 512, 4096, 40, 0); /* 2 MiB each: two mappings */
    const struct ork_matrix *nf4 = add_matrix(ORK_TIER_NF4, 70, 100, 2, 0);
    const struct ork_matrix *i4 = add_matrix(ORK_TIER_I4, 70, 100, 3, 0);
    struct ork_npu_resident resident;
    create(MIB);
    announce(plain, 0, false);
    announce(moved, 0, false);
    announce(stack, 1, true);
    announce(nf4, 2, false);
    assert_int_equal(ork_npu_residency_add(residency, i4, 2, ORK_NPU_W4A4, false, NULL), ORK_OK);
    start();
    for (uint32_t i = 0; i < matrix_count; i++)
        if (&matrices[i].matrix != stack)
            expect_right(&matrices[i].matrix, &matrices[i].matrix == i4 ? ORK_NPU_W4A4 : ORK_NPU_W8A8);
    for (uint32_t expert = 0; expert < 40; expert += 13) {
        assert_int_equal(acquire(stack, expert, &resident), ORK_NPU_PRESENT);
        assert_true(resident.buffer->host + resident.offset == stack->data + expert * stack->data_expert_stride);
        assert_true(test_resident_is_right(&fake, stack, expert, ORK_NPU_W8A8, &resident));
    }
    assert_int_equal(acquire(plain, 0, &resident), ORK_NPU_PRESENT);
    assert_true(resident.buffer->imported && resident.buffer->host == plain->data);
    assert_int_equal(acquire(moved, 0, &resident), ORK_NPU_PRESENT);
    assert_false(resident.buffer->imported);
    assert_int_equal(stats().imported_bytes, 80 * MIB + 12288 + 3 * 8192);
    assert_int_equal(stats().mappings, 2 + 1 + 1 + 1); /* stack twice, plain, i4; one chunk */
    finish();
}

/* A device that cannot import after all, or only some: chunks serve. */
static void test_imports_that_fail(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 3; at++) {
        begin(1, 64 * MIB, true);
        for (uint32_t i = 0; i < 3; i++)
            add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 2, 0);
        fake.fail_import = at;
        fake.fail_all_after = at < 3;
        create(8 * MIB);
        for (uint32_t i = 0; i < 3; i++)
            announce(&matrices[i].matrix, i, false);
        start();
        for (uint32_t i = 0; i < 3; i++)
            expect_right(&matrices[i].matrix, ORK_NPU_W8A8);
        assert_int_equal(stats().failed_allocations, at < 3 ? 4 - at : 1);
        finish();
    }
}

/* ---- what is refused ---- */

static void test_announcements_that_are_refused(void **state)
{
    (void)state;
    ork_error error = {0};
    struct ork_npu_resident resident;
    begin(1, 64 * MIB, false);
    const struct ork_matrix *i8 = add_matrix(ORK_TIER_I8, 32, 32, 1, 0), *other = add_matrix(ORK_TIER_I8, 32, 32, 1, 0);
    struct ork_matrix rows = *other, empty = *other, huge = *other;
    rows.tier = ORK_TIER_G8;
    empty.n = 0;
    huge.n = huge.k = 0x7FFFFFE0;
    huge.experts = UINT32_MAX;
    create(MIB);
    assert_int_equal(acquire(i8, 0, &resident), ORK_NPU_ABSENT);
    assert_false(ork_npu_residency_present(residency, i8, 0));
    announce(i8, 5, false);
    assert_int_equal(ork_npu_residency_add(residency, i8, 5, ORK_NPU_W8A8, false, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_npu_residency_add(residency, other, 4, ORK_NPU_W8A8, false, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_npu_residency_add(residency, other, 5, ORK_NPU_W4A4, false, &error), ORK_UNSUPPORTED);
    assert_int_equal(ork_npu_residency_add(residency, &rows, 5, ORK_NPU_W8A8, false, &error), ORK_UNSUPPORTED);
    assert_int_equal(ork_npu_residency_add(residency, &empty, 5, ORK_NPU_W8A8, false, &error), ORK_UNSUPPORTED);
    assert_int_equal(ork_npu_residency_add(residency, &huge, 5, ORK_NPU_W8A8, false, &error), ORK_UNSUPPORTED);
    start();
    assert_int_equal(ork_npu_residency_add(residency, other, 6, ORK_NPU_W8A8, false, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_npu_residency_start(residency, true, &error), ORK_BAD_ARGUMENT);
    assert_false(ork_npu_residency_knows(residency, other));
    assert_int_equal(acquire(other, 0, &resident), ORK_NPU_ABSENT);
    assert_int_equal(acquire(i8, 1, &resident), ORK_NPU_ABSENT);
    assert_false(ork_npu_residency_present(residency, i8, 1));
    ork_npu_residency_prefetch(residency, 77, NULL, 0);
    use(i8, 0);
    finish();
}

static void test_pinned_weights_must_fit(void **state)
{
    (void)state;
    ork_error error = {0};
    begin(1, 64 * MIB, false);
    for (uint32_t i = 0; i < 5; i++)
        add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0);
    for (uint32_t pinned = 3; pinned <= 4; pinned++) {
        create(3 * UNIT_BYTES);
        for (uint32_t i = 0; i < 5; i++)
            announce(&matrices[i].matrix, i, i >= 5 - pinned);
        assert_int_equal(ork_npu_residency_start(residency, true, &error), pinned == 3 ? ORK_OK : ORK_NO_MEMORY);
        if (pinned == 3) {
            struct ork_npu_resident resident;
            for (uint32_t i = 0; i < 100; i++) {
                assert_int_equal(acquire(&matrices[i % 2].matrix, 0, &resident), ORK_NPU_ABSENT);
                ork_npu_residency_prefetch(residency, 0, NULL, 0);
                assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
            }
            assert_false(ork_npu_residency_knows(residency, &matrices[0].matrix));
            for (uint32_t i = 2; i < 5; i++)
                expect_right(&matrices[i].matrix, ORK_NPU_W8A8);
        } else {
            assert_non_null(strstr(error.what, "must stay"));
        }
        ork_npu_residency_destroy(residency);
        assert_int_equal(fake.count, 0);
    }
    create(4096);
    announce(&matrices[0].matrix, 0, false);
    assert_int_equal(ork_npu_residency_start(residency, true, &error), ORK_NO_MEMORY);
    finish();
}

/* ---- order of eviction ---- */

static void make_layers(uint32_t layers, uint32_t experts, uint64_t slots)
{
    begin(1, 256 * MIB, false);
    create(slots * UNIT_BYTES);
    for (uint32_t i = 0; i < layers; i++)
        announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, experts, 0), i, false);
    start();
}

/* A model that is too large keeps what it has; each pass finds the same part. */
static void test_passes_do_not_turn_memory_over(void **state)
{
    (void)state;
    struct ork_npu_resident resident;
    make_layers(6, 1, 4);
    for (uint32_t pass = 0; pass < 10; pass++)
        for (uint32_t i = 0; i < 6; i++) {
            enum ork_npu_presence presence = acquire(&matrices[i].matrix, 0, &resident);
            assert_int_equal(presence, i < 4 ? ORK_NPU_PRESENT : ORK_NPU_ABSENT);
            if (i < 4)
                ork_npu_residency_release(residency, &resident);
            assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
        }
    assert_int_equal(stats().evictions, 0);
    assert_int_equal(stats().hits, 40);
    assert_int_equal(stats().misses, 20);
    assert_int_equal(stats().refused, 20);
    finish();
}

/* What was not used for two passes makes room at once, and who insists gets the one that was released first. */
static void test_least_recently_released(void **state)
{
    (void)state;
    struct ork_npu_resident resident;
    make_layers(6, 1, 3);
    for (uint32_t pass = 0; pass < 4; pass++) {
        use(&matrices[0].matrix, 0);
        use(&matrices[2].matrix, 0);
    }
    assert_int_equal(acquire(&matrices[3].matrix, 0, &resident), ORK_NPU_COMING);
    assert_int_equal(acquire(&matrices[3].matrix, 0, &resident), ORK_NPU_COMING); /* queued once */
    assert_false(ork_npu_residency_present(residency, &matrices[1].matrix, 0));
    pump_until(&matrices[3].matrix, 0);
    expect_right(&matrices[3].matrix, ORK_NPU_W8A8);
    assert_int_equal(stats().evictions, 1);

    use(&matrices[0].matrix, 0);
    use(&matrices[2].matrix, 0);
    for (uint32_t i = 1; i < ORK_NPU_PATIENCE; i++)
        assert_int_equal(acquire(&matrices[4].matrix, 0, &resident), ORK_NPU_ABSENT);
    assert_int_equal(acquire(&matrices[4].matrix, 0, &resident), ORK_NPU_COMING);
    assert_false(ork_npu_residency_present(residency, &matrices[3].matrix, 0)); /* released before 0 and 2 */
    pump_until(&matrices[4].matrix, 0);
    expect_right(&matrices[4].matrix, ORK_NPU_W8A8);
    expect_right(&matrices[0].matrix, ORK_NPU_W8A8);
    expect_right(&matrices[2].matrix, ORK_NPU_W8A8);
    finish();
}

/* Slots in use are never taken; whoever waits for one gets it when it is released. */
static void test_slots_in_use(void **state)
{
    (void)state;
    struct ork_npu_resident held[2], twice, other;
    make_layers(4, 1, 2);
    assert_int_equal(acquire(&matrices[0].matrix, 0, &held[0]), ORK_NPU_PRESENT);
    assert_int_equal(acquire(&matrices[1].matrix, 0, &held[1]), ORK_NPU_PRESENT);
    assert_int_equal(acquire(&matrices[1].matrix, 0, &twice), ORK_NPU_PRESENT);
    ork_npu_residency_prefetch(residency, 3, NULL, 0);
    ork_npu_residency_release(residency, &twice);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(acquire(&matrices[3].matrix, 0, &other), ORK_NPU_COMING);
        assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
        if (i % 4 == 0)
            ork_npu_residency_prefetch(residency, 3, NULL, 0);
    }
    assert_true(test_resident_is_right(&fake, &matrices[0].matrix, 0, ORK_NPU_W8A8, &held[0]));
    assert_true(test_resident_is_right(&fake, &matrices[1].matrix, 0, ORK_NPU_W8A8, &held[1]));
    ork_npu_residency_release(residency, &held[0]);
    pump_until(&matrices[3].matrix, 0);
    expect_right(&matrices[3].matrix, ORK_NPU_W8A8);
    assert_false(ork_npu_residency_present(residency, &matrices[0].matrix, 0));
    assert_true(test_resident_is_right(&fake, &matrices[1].matrix, 0, ORK_NPU_W8A8, &held[1]));
    ork_npu_residency_release(residency, &held[1]);
    finish();
}

/* A prefetch does not push out what it or the present pass brought for the same layer. */
static void test_prefetch_within_one_layer(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {9, 4, 99, 5, 6};
    make_layers(2, 10, 4); /* experts 0 to 3 of layer 0 */
    ork_npu_residency_prefetch(residency, 0, NULL, 0);
    assert_int_equal(stats().refused, 6);
    assert_int_equal(stats().evictions, 0);
    for (uint32_t pass = 0; pass < 3; pass++) {
        use(&matrices[0].matrix, 1); /* again: a new round */
        use(&matrices[0].matrix, 2);
    }
    ork_npu_residency_prefetch(residency, 0, wanted, 5); /* two may go: 0 and 3, for the first two */
    pump_until(&matrices[0].matrix, 9);
    pump_until(&matrices[0].matrix, 4);
    assert_int_equal(stats().evictions, 2);
    for (uint32_t expert = 0; expert < 10; expert++)
        assert_int_equal(ork_npu_residency_present(residency, &matrices[0].matrix, expert),
                         expert == 1 || expert == 2 || expert == 4 || expert == 9);
    for (int i = 0; i < 3; i++) { /* 5 and 6 waited for the slots of 4 and 9, and are refused them */
        usleep(100);
        assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
    }
    assert_int_equal(stats().evictions, 2);
    finish();
}

/* Layers that are asked for ahead stream through a memory of three of them. */
static void test_prefetched_layers_stream(void **state)
{
    (void)state;
    make_layers(10, 1, 3);
    for (uint32_t i = 0; i < 50; i++) {
        pump_until(&matrices[i % 10].matrix, 0);
        ork_npu_residency_prefetch(residency, (i + 1) % 10, NULL, 0);
        expect_right(&matrices[i % 10].matrix, ORK_NPU_W8A8);
    }
    assert_int_equal(stats().misses, 0);
    assert_int_equal(stats().refused, 0);
    assert_true(stats().swaps_in >= 45);
    finish();
}

/* ---- budgets and domains ---- */

static void test_random_budgets(void **state)
{
    (void)state;
    static const enum ork_tier tiers[] = {ORK_TIER_I8, ORK_TIER_I4, ORK_TIER_NF4,
                                          ORK_TIER_I5, ORK_TIER_I6, ORK_TIER_N8};
    for (uint32_t run = 0; run < 30; run++) {
        const uint32_t domains = 1 + (uint32_t)random() % 4;
        const uint64_t budget = 4096 * (16 + (uint64_t)random() % 2000);
        begin(domains, (1 + (uint64_t)random() % 3) * MIB, random() % 2);
        if (random() % 3 == 0)
            fake.capabilities.buffers_max = 4 + (uint32_t)random() % 20;
        if (random() % 3 == 0)
            fake.capabilities.buffer_bytes_max = 256 << 10;
        fake.capabilities.core_per_domain = random() % 4 == 0;
        const struct ork_npu_residency_params params = {
            .memory_bytes = budget,
            .chunk_bytes = random() % 2 ? 128 << 10 : 0,
            .swap_threads = (uint32_t)random() % 3,
            .reserve_bytes = random() % 2 ? MIB / 2 : 0,
        };
        assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
        for (uint32_t i = 0; i < 24; i++)
            announce(add_matrix(tiers[random() % 6], 1 + (uint32_t)random() % 256, 1 + (uint32_t)random() % 512,
                                random() % 2 ? 1 : 5, 0),
                     i / 3, false);
        ork_status status = ork_npu_residency_start(residency, true, NULL);
        assert_true(status == ORK_OK || status == ORK_NO_MEMORY);
        assert_true(fake.chunk_bytes <= budget && fake.chunk_bytes == stats().chunk_bytes);
        assert_true(stats().resident_bytes <= fake.chunk_bytes);
        for (uint32_t d = 0; d < domains; d++)
            assert_true(fake.domain_bytes[d] + params.reserve_bytes <= fake.capabilities.domain_bytes);
        for (uint32_t i = 0; i < matrix_count && status == ORK_OK; i++)
            for (uint32_t e = 0; e < matrices[i].matrix.experts; e++)
                if (ork_npu_residency_present(residency, &matrices[i].matrix, e)) {
                    struct ork_npu_resident resident;
                    assert_int_equal(acquire(&matrices[i].matrix, e, &resident), ORK_NPU_PRESENT);
                    assert_true(test_resident_is_right(&fake, &matrices[i].matrix, e, ORK_NPU_W8A8, &resident));
                }
        finish();
    }
}

static uint32_t domain_of(const struct ork_matrix *matrix, uint32_t expert)
{
    struct ork_npu_resident resident;
    assert_int_equal(acquire(matrix, expert, &resident), ORK_NPU_PRESENT);
    return resident.buffer->domain;
}

static void test_layers_share_out_domains(void **state)
{
    (void)state;
    begin(4, 10 * UNIT_BYTES + MIB, false); /* with the reserve: ten units */
    const struct ork_npu_residency_params params = {.memory_bytes = 64 * MIB, .reserve_bytes = MIB};
    assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
    for (uint32_t layer = 0; layer < 9; layer++) {
        announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), layer, false);
        announce(add_matrix(ORK_TIER_NF4, UNIT_N, UNIT_K, 1, 0), layer, layer == 8);
    }
    start(); /* 18 units: two domains would do, with nothing to spare; three are taken */
    uint32_t layers[4] = {0}, last = 0;
    for (uint32_t layer = 0; layer < 9; layer++) {
        uint32_t domain = domain_of(&matrices[2 * layer].matrix, 0);
        assert_int_equal(domain_of(&matrices[2 * layer + 1].matrix, 0), domain);
        assert_true(domain >= last);
        layers[last = domain]++;
    }
    assert_int_equal(stats().resident_bytes, stats().announced_bytes);
    assert_true(stats().domains == 2 || stats().domains == 3);
    for (uint32_t d = 0; d < stats().domains; d++)
        assert_true(layers[d] >= 3 && layers[d] <= 5);
    finish();
}

/* A small budget stands in one domain, whatever is announced; slots there serve all layers. */
static void test_small_budget_takes_one_domain(void **state)
{
    (void)state;
    begin(4, 20 * UNIT_BYTES, false);
    create(6 * UNIT_BYTES);
    for (uint32_t layer = 0; layer < 30; layer++)
        announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), layer, false);
    start();
    assert_int_equal(stats().domains, 1);
    assert_int_equal(stats().chunk_bytes, 6 * UNIT_BYTES);
    for (uint32_t layer = 0; layer < 30; layer++)
        assert_true(ork_npu_residency_knows(residency, &matrices[layer].matrix));
    ork_npu_residency_prefetch(residency, 29, NULL, 0);
    finish();
}

/* One layer that is larger than a domain goes on in the next. */
static void test_layer_larger_than_a_domain(void **state)
{
    (void)state;
    begin(2, 8 * UNIT_BYTES, false);
    create(64 * MIB);
    announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 12, 0), 0, false);
    start();
    expect_right(&matrices[0].matrix, ORK_NPU_W8A8);
    assert_int_equal(stats().domains, 2);
    finish();
}

static void test_domains_that_belong_to_cores(void **state)
{
    (void)state;
    begin(3, 64 * MIB, false);
    fake.capabilities.core_per_domain = true;
    create(64 * MIB);
    for (uint32_t i = 0; i < 9; i++)
        announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), 0, false);
    start();
    uint32_t count[3] = {0};
    for (uint32_t i = 0; i < 9; i++)
        count[domain_of(&matrices[i].matrix, 0)]++;
    assert_true(count[0] == 3 && count[1] == 3 && count[2] == 3);
    finish();
}

/* ---- failures ---- */

/* Every allocation of the device in turn, alone and with all that follow. */
static void test_allocations_that_fail(void **state)
{
    (void)state;
    uint64_t refused = 0, less = 0;
    for (uint64_t at = 1; at <= 12; at++)
        for (int all = 0; all < 2; all++) {
            begin(2, 256 * MIB, false);
            fake.fail_allocation = at;
            fake.fail_all_after = all;
            const struct ork_npu_residency_params params = {.memory_bytes = 64 * MIB, .chunk_bytes = 4 * UNIT_BYTES};
            assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
            for (uint32_t i = 0; i < 32; i++)
                announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), i, i % 16 == 15);
            ork_error error = {0};
            ork_status status = ork_npu_residency_start(residency, true, &error);
            assert_true(status == ORK_OK || status == ORK_NO_MEMORY);
            assert_true(status == ORK_OK || error.what[0]);
            assert_true(at > 8 || stats().failed_allocations > 0);
            refused += status != ORK_OK;
            for (uint32_t i = 0; i < 32 && status == ORK_OK; i++)
                if (ork_npu_residency_present(residency, &matrices[i].matrix, 0))
                    expect_right(&matrices[i].matrix, ORK_NPU_W8A8);
                else
                    less++;
            finish();
        }
    assert_true(refused > 0 && less > 0);
}

/* Less memory than the budget says: smaller chunks, then what fits. */
static void test_less_memory_than_promised(void **state)
{
    (void)state;
    begin(1, 1024 * MIB, false);
    fake.bytes_max = 20 * MIB;
    create(256 * MIB);
    for (uint32_t i = 0; i < 60; i++)
        announce(add_matrix(ORK_TIER_I8, 512, 1024, 1, 0), i, i == 50);
    start();
    uint32_t present = 0;
    for (uint32_t i = 0; i < 60; i++)
        present += ork_npu_residency_present(residency, &matrices[i].matrix, 0);
    assert_in_range(present, 32, 40); /* of 40 that would fit */
    assert_true(ork_npu_residency_present(residency, &matrices[50].matrix, 0));
    assert_true(stats().failed_allocations > 0);
    finish();
}

static void test_syncs_that_fail(void **state)
{
    (void)state;
    struct ork_npu_resident resident;
    for (int imports = 0; imports < 2; imports++) {
        begin(1, 64 * MIB, imports);
        fake.fail_sync = 2;
        create(8 * MIB);
        for (uint32_t i = 0; i < 3; i++)
            announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), i, false);
        assert_int_equal(ork_npu_residency_start(residency, true, NULL), ORK_IO);
        pump_until(&matrices[2].matrix, 0);
        assert_int_equal(acquire(&matrices[1].matrix, 0, &resident), ORK_NPU_COMING);
        pump_until(&matrices[1].matrix, 0);
        for (uint32_t i = 0; i < 3; i++)
            expect_right(&matrices[i].matrix, ORK_NPU_W8A8);
        finish();
    }
}

/* ---- threads ---- */

/* Swap threads block every signal that can be blocked, and starting them changes neither the caller's signals nor its
 * cores. */
static void test_threads_keep_to_themselves(void **state)
{
    (void)state;
    cpu_set_t before, after;
    char path[300], line[256];
    uint32_t blocked = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    begin(1, 64 * MIB, false);
    const struct ork_npu_residency_params params = {.memory_bytes = 8 * MIB, .swap_threads = 3};
    assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
    announce(add_matrix(ORK_TIER_I8, UNIT_N, UNIT_K, 1, 0), 0, false);
    start();
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            blocked += strncmp(line, "SigBlk:\tfffffff", 15) == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    assert_true(blocked >= 3);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    finish();
}

int main(void)
{
    srandom(20261130);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents_of_all_tiers),
        cmocka_unit_test(test_imports),
        cmocka_unit_test(test_imports_that_fail),
        cmocka_unit_test(test_announcements_that_are_refused),
        cmocka_unit_test(test_pinned_weights_must_fit),
        cmocka_unit_test(test_passes_do_not_turn_memory_over),
        cmocka_unit_test(test_least_recently_released),
        cmocka_unit_test(test_slots_in_use),
        cmocka_unit_test(test_prefetch_within_one_layer),
        cmocka_unit_test(test_prefetched_layers_stream),
        cmocka_unit_test(test_random_budgets),
        cmocka_unit_test(test_layers_share_out_domains),
        cmocka_unit_test(test_small_budget_takes_one_domain),
        cmocka_unit_test(test_layer_larger_than_a_domain),
        cmocka_unit_test(test_domains_that_belong_to_cores),
        cmocka_unit_test(test_allocations_that_fail),
        cmocka_unit_test(test_less_memory_than_promised),
        cmocka_unit_test(test_syncs_that_fail),
        cmocka_unit_test(test_threads_keep_to_themselves),
    };
    return cmocka_run_group_tests_name("residency", tests, NULL, NULL);
}
