/* Guards the residency of weights under load: three swap threads, an owner that acquires, releases, prefetches and pumps at
 * random, and a thread that only asks what is present. Whatever is acquired is right and stays right while it is held.
 * Then the same on a host whose memory runs out: every allocation in turn.
 *
 * ORK_RESIDENCY_STEPS: how many steps, 20000 unless set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "residency_bench.h"

enum { LAYERS = 8, PER_LAYER = 4, MATRICES = LAYERS * PER_LAYER, HELD = 12, MIB = 1 << 20 };

static struct fake_device fake;
static struct test_matrix matrices[MATRICES];
static struct ork_npu_residency *residency;

/* ---- a host that has no memory left; the linker sends the library's calls here ---- */

static uint64_t heap_calls, heap_failure;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool heap_fails(void)
{
    return heap_failure != 0 && ++heap_calls == heap_failure;
}

void *__wrap_malloc(size_t size)
{
    return heap_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return heap_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return heap_fails() ? NULL : __real_realloc(memory, size);
}

/* ---- the model ---- */

static enum ork_npu_type type_of(uint32_t matrix)
{
    return matrix % PER_LAYER == 2 ? ORK_NPU_W4A4 : ORK_NPU_W8A8;
}

static void make_matrices(void)
{
    static const enum ork_tier tiers[PER_LAYER] = {ORK_TIER_I8, ORK_TIER_NF4, ORK_TIER_I4, ORK_TIER_I6};
    for (uint32_t i = 0; i < MATRICES; i++)
        test_matrix_make(&matrices[i], tiers[i % PER_LAYER], 40 + i % 3 * 32, 64 + i % 5 * 30, i % PER_LAYER ? 6 : 1,
                         i % 7 == 0 ? 64 : 0);
}

static ork_status announce_all(ork_error *error)
{
    ork_status status = ORK_OK;
    for (uint32_t i = 0; i < MATRICES && status == ORK_OK; i++)
        status = ork_npu_residency_add(residency, &matrices[i].matrix, i / PER_LAYER, type_of(i), i == 5, error);
    return status;
}

/* ---- load ---- */

struct reader {
    pthread_t thread;
    atomic_bool stop;
    atomic_ullong present; /* units seen present */
};

static void *read_presence(void *context)
{
    struct reader *reader = context;
    for (uint32_t i = 0; !atomic_load(&reader->stop); i++) {
        const struct ork_matrix *matrix = &matrices[i % MATRICES].matrix;
        reader->present += ork_npu_residency_present(residency, matrix, i / MATRICES % matrix->experts);
        if (i % 64 == 0)
            usleep(50);
    }
    return NULL;
}

struct held {
    uint32_t matrix, expert;
    struct ork_npu_resident resident;
};

static bool is_right(const struct held *held)
{
    return test_resident_is_right(&fake, &matrices[held->matrix].matrix, held->expert, type_of(held->matrix),
                                  &held->resident);
}

static void step(struct held *held, uint32_t *count, uint32_t layer)
{
    uint32_t experts[3] = {(uint32_t)random() % 7, (uint32_t)random() % 6, (uint32_t)random() % 6};
    switch (random() % 8) {
    case 0:
        assert_int_equal(ork_npu_residency_pump(residency, NULL), ORK_OK);
        break;
    case 1:
        ork_npu_residency_prefetch(residency, (uint32_t)random() % (LAYERS + 1), random() % 4 ? experts : NULL, 3);
        break;
    case 2:
    case 3:
    case 4:
        if (*count > 0) {
            uint32_t which = (uint32_t)random() % *count;
            if (random() % 8 == 0)
                assert_true(is_right(&held[which]));
            ork_npu_residency_release(residency, &held[which].resident);
            held[which] = held[--*count];
        }
        break;
    default:
        if (*count < HELD) {
            struct held *new = &held[*count];
            new->matrix = layer *PER_LAYER + (uint32_t)random() % PER_LAYER;
            new->expert = (uint32_t)random() % matrices[new->matrix].matrix.experts;
            if (ork_npu_residency_acquire(residency, &matrices[new->matrix].matrix, new->expert, &new->resident) ==
                ORK_NPU_PRESENT)
                *count += 1;
        }
        break;
    }
}

static void run_load(bool imports, uint64_t memory_bytes, uint32_t steps)
{
    const struct ork_npu_residency_params params = {
        .memory_bytes = memory_bytes, .chunk_bytes = 64 << 10, .swap_threads = 3};
    struct held held[HELD];
    struct reader reader = {0};
    struct ork_npu_residency_stats stats;
    uint32_t count = 0;
    fake_device_make(&fake, 2, 2 * MIB, imports);
    assert_int_equal(ork_npu_residency_create(&fake.device, &params, &residency, NULL), ORK_OK);
    assert_int_equal(announce_all(NULL), ORK_OK);
    assert_int_equal(ork_npu_residency_start(residency, false, NULL), ORK_OK);
    assert_int_equal(pthread_create(&reader.thread, NULL, read_presence, &reader), 0);
    /* On a busy machine the swap threads may not have run by then: it goes on until they have. */
    bool has_run = false; /* looked at from `steps` on */
    for (uint32_t i = 0; i < steps || (!has_run && i < 1000 * steps); i++) {
        step(held, &count, i / 32 % LAYERS);
        if (i % 256 == 0)
            usleep(200); /* lets the swap threads in where all share one core */
        if (i >= steps && i % 256 == 0) {
            ork_npu_residency_get_stats(residency, &stats);
            has_run = stats.hits > steps / 50 && stats.evictions > 0 && atomic_load(&reader.present) > 0;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        assert_true(is_right(&held[i]));
    atomic_store(&reader.stop, true);
    pthread_join(reader.thread, NULL);
    ork_npu_residency_get_stats(residency, &stats);
    assert_true(stats.hits > steps / 50 && stats.misses > 0 && stats.swaps_in > 0 && reader.present > 0);
    assert_true(stats.evictions > 0);
    assert_true(fake.chunk_bytes <= memory_bytes);
    ork_npu_residency_destroy(residency); /* with swaps under way */
    assert_int_equal(fake.count, 0);
}

static void test_load(void **state)
{
    (void)state;
    const char *text = getenv("ORK_RESIDENCY_STEPS");
    const uint32_t steps = text ? (uint32_t)strtoul(text, NULL, 10) : 20000;
    run_load(false, 640 << 10, steps);
    run_load(true, 256 << 10, steps / 4);
    run_load(false, 160 << 10, steps / 4);
}

/* ---- memory of the host ---- */

static void test_heap_runs_out(void **state)
{
    (void)state;
    uint64_t at = 1;
    for (bool failed = true; failed; at++) {
        const struct ork_npu_residency_params params = {.memory_bytes = MIB};
        ork_error error = {0};
        fake_device_make(&fake, 1, 8 * MIB, false);
        residency = NULL;
        heap_calls = 0;
        heap_failure = at;
        ork_status status = ork_npu_residency_create(&fake.device, &params, &residency, &error);
        if (status == ORK_OK)
            status = announce_all(&error);
        if (status == ORK_OK)
            status = ork_npu_residency_start(residency, true, &error);
        failed = heap_calls >= heap_failure;
        heap_failure = 0;
        assert_true(status == ORK_OK || (status == ORK_NO_MEMORY && error.what[0] && failed));
        assert_true(status != ORK_OK || ork_npu_residency_present(residency, &matrices[5].matrix, 0));
        ork_npu_residency_destroy(residency);
        assert_int_equal(fake.count, 0);
        assert_true(at < 200);
    }
    assert_true(at > 8);
}

static int setup(void **state)
{
    (void)state;
    make_matrices();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MATRICES; i++)
        test_matrix_free(&matrices[i]);
    return 0;
}

int main(void)
{
    srandom(20261130);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_load), cmocka_unit_test(test_heap_runs_out)};
    return cmocka_run_group_tests_name("residency stress", tests, setup, teardown);
}
