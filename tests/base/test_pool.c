/* Guards the thread pool: every thread once, regions and barriers in order, more threads than cores, sleeping workers,
 * and no data race (the same program runs under ThreadSanitizer). */
#include "base/pool.h"

#include "base/clock.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__aarch64__)
enum { REGIONS = 300 }; /* instrumented or emulated: about 50 times slower */
#else
enum { REGIONS = 3000 };
#endif

static const uint32_t spins_us[] = {0, 20, UINT32_MAX};

static ork_pool *make_pool(uint32_t threads, uint32_t spin_us)
{
    ork_pool *pool = NULL;
    ork_error error = {0};
    if (ork_pool_create(threads, spin_us, &pool, &error) != ORK_OK)
        fail_msg("no pool of %u threads: %s", threads, error.what);
    return pool;
}

/* Cells are plain integers: the pool alone has to order the accesses. */
struct census {
    uint32_t visits[ORK_POOL_THREADS_MAX];
    uint32_t threads_seen[ORK_POOL_THREADS_MAX];
};

static void count_visit(void *context, uint32_t thread, uint32_t threads)
{
    struct census *census = context;
    census->visits[thread]++;
    census->threads_seen[thread] = threads;
}

static void expect_census(const struct census *census, uint32_t threads, uint32_t visits)
{
    for (uint32_t i = 0; i < ORK_POOL_THREADS_MAX; i++) {
        assert_int_equal(census->visits[i], i < threads ? visits : 0);
        assert_int_equal(census->threads_seen[i], i < threads ? threads : 0);
    }
}

static void test_every_thread_is_called_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 9; threads++)
        for (size_t s = 0; s < sizeof spins_us / sizeof *spins_us; s++) {
            ork_pool *pool = make_pool(threads, spins_us[s]);
            assert_int_equal(ork_pool_threads(pool), threads);
            struct census census = {0};
            for (uint32_t i = 0; i < 50; i++)
                ork_pool_run(pool, threads, count_visit, &census);
            expect_census(&census, threads, 50);
            ork_pool_destroy(pool);
        }
}

static void test_a_region_may_use_fewer_threads(void **state)
{
    (void)state;
    ork_pool *pool = make_pool(5, 50);
    for (uint32_t threads = 1; threads <= 5; threads++) {
        struct census census = {0};
        for (uint32_t i = 0; i < 20; i++)
            ork_pool_run(pool, threads, count_visit, &census);
        expect_census(&census, threads, 20);
    }
    struct census census = {0};
    ork_pool_run(pool, 1000, count_visit, &census);
    expect_census(&census, 5, 1);
    struct census alone = {0};
    ork_pool_run(pool, 0, count_visit, &alone);
    expect_census(&alone, 1, 1);
    ork_pool_destroy(pool);
}

struct sum {
    uint64_t parts[ORK_POOL_THREADS_MAX];
    uint32_t round;
};

static void add_round(void *context, uint32_t thread, uint32_t threads)
{
    struct sum *sum = context;
    uint32_t begin, end;
    ork_split_range(1000, thread, threads, &begin, &end);
    for (uint32_t i = begin; i < end; i++)
        sum->parts[thread] += i + sum->round;
}

/* The caller writes `round` between regions and reads the parts after each: a wake-up that is lost hangs here, one that
 * comes too early computes a wrong sum. */
static void test_many_regions_in_a_row(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof spins_us / sizeof *spins_us; s++)
        for (uint32_t threads = 2; threads <= 3; threads++) {
            ork_pool *pool = make_pool(threads, spins_us[s]);
            struct sum sum = {0};
            uint64_t expected = 0;
            for (uint32_t round = 0; round < REGIONS; round++) {
                sum.round = round;
                ork_pool_run(pool, threads, add_round, &sum);
                expected += 999u * 1000u / 2 + 1000u * (uint64_t)round;
                uint64_t total = 0;
                for (uint32_t i = 0; i < threads; i++)
                    total += sum.parts[i];
                assert_true(total == expected);
            }
            ork_pool_destroy(pool);
        }
}

/* Pauses around the length of the spin, so that workers are met while they fall asleep. */
static void test_regions_meet_workers_falling_asleep(void **state)
{
    (void)state;
    ork_pool *pool = make_pool(3, 30);
    struct census census = {0};
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t end_us = ork_clock_now_us() + i % 80;
        while (ork_clock_now_us() < end_us)
            ;
        if (i % 50 == 0)
            usleep(2000);
        ork_pool_run(pool, 3, count_visit, &census);
    }
    expect_census(&census, 3, 400);
    ork_pool_destroy(pool);
}

struct slow {
    uint32_t slow_thread;
    atomic_uint done;
};

static void one_is_slow(void *context, uint32_t thread, uint32_t threads)
{
    (void)threads;
    struct slow *slow = context;
    if (thread == slow->slow_thread)
        usleep(3000);
    atomic_fetch_add(&slow->done, 1);
}

/* The caller waits (asleep, its spin being shorter) for a worker, and workers wait for the caller. */
static void test_the_region_ends_with_its_slowest_thread(void **state)
{
    (void)state;
    ork_pool *pool = make_pool(4, 10);
    for (uint32_t round = 0; round < 40; round++) {
        struct slow slow = {.slow_thread = round % 4};
        ork_pool_run(pool, 4, one_is_slow, &slow);
        assert_int_equal(atomic_load(&slow.done), 4);
    }
    ork_pool_destroy(pool);
}

enum { PHASES = 40 };

struct relay {
    ork_pool *pool;
    uint32_t cells[2][ORK_POOL_THREADS_MAX];
    uint32_t wrong[ORK_POOL_THREADS_MAX];
};

/* In each phase every thread writes its cell and then reads everybody's. Two rows alternate, so that one barrier a
 * phase is enough; a thread that got through a barrier early reads an old cell. */
static void relay_phases(void *context, uint32_t thread, uint32_t threads)
{
    struct relay *relay = context;
    for (uint32_t phase = 1; phase <= PHASES; phase++) {
        relay->cells[phase % 2][thread] = phase * 1000 + thread;
        ork_pool_barrier(relay->pool);
        for (uint32_t i = 0; i < threads; i++)
            relay->wrong[thread] += relay->cells[phase % 2][i] != phase * 1000 + i;
    }
}

static void test_barriers_keep_phases_apart(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 7; threads++)
        for (size_t s = 0; s < sizeof spins_us / sizeof *spins_us; s++) {
            struct relay relay = {.pool = make_pool(threads, spins_us[s])};
            for (uint32_t round = 0; round < 3; round++)
                ork_pool_run(relay.pool, threads, relay_phases, &relay);
            for (uint32_t i = 0; i < threads; i++)
                assert_int_equal(relay.wrong[i], 0);
            ork_pool_destroy(relay.pool);
        }
}

/* A counter that only the function between the phases writes, without a lock: everybody sees it step once a barrier. */
struct between {
    ork_pool *pool;
    uint32_t steps;
    atomic_uint wrong;
};

static void step(void *context)
{
    struct between *between = context;
    between->steps++;
}

static void meet_and_step(void *context, uint32_t thread, uint32_t threads)
{
    struct between *between = context;
    (void)thread, (void)threads;
    for (uint32_t phase = 1; phase <= 20; phase++) {
        ork_pool_barrier_then(between->pool, step, between);
        if (between->steps != phase)
            atomic_fetch_add(&between->wrong, 1);
        ork_pool_barrier(between->pool);
    }
}

static void test_the_last_one_at_a_barrier_calls(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++)
        for (size_t s = 0; s < sizeof spins_us / sizeof *spins_us; s++) {
            struct between between = {.pool = make_pool(threads, spins_us[s])};
            for (uint32_t region = 0; region < REGIONS / 100; region++) {
                between.steps = 0;
                ork_pool_run(between.pool, threads, meet_and_step, &between);
                assert_int_equal(between.steps, 20);
            }
            assert_int_equal(atomic_load(&between.wrong), 0);
            ork_pool_destroy(between.pool);
        }
}

static void test_barriers_in_a_part_of_the_pool(void **state)
{
    (void)state;
    struct relay relay = {.pool = make_pool(5, 20)};
    for (uint32_t threads = 1; threads <= 5; threads++) {
        ork_pool_run(relay.pool, threads, relay_phases, &relay);
        for (uint32_t i = 0; i < threads; i++)
            assert_int_equal(relay.wrong[i], 0);
    }
    ork_pool_destroy(relay.pool);
}

static void test_many_more_threads_than_cores(void **state)
{
    (void)state;
    uint32_t threads = 33;
    struct relay relay = {.pool = make_pool(threads, 20)};
    struct census census = {0};
    for (uint32_t i = 0; i < 20; i++)
        ork_pool_run(relay.pool, threads, count_visit, &census);
    expect_census(&census, threads, 20);
    ork_pool_run(relay.pool, threads, relay_phases, &relay);
    for (uint32_t i = 0; i < threads; i++)
        assert_int_equal(relay.wrong[i], 0);
    ork_pool_destroy(relay.pool);
}

static void test_pools_come_and_go(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        ork_pool *pool = make_pool(1 + i % 6, i % 2 ? 0 : 100);
        if (i % 3 == 0)
            usleep(500);
        ork_pool_destroy(pool);
    }
    ork_pool_destroy(NULL);
}

static void test_two_pools_do_not_know_of_each_other(void **state)
{
    (void)state;
    ork_pool *first = make_pool(3, 20), *second = make_pool(2, 20);
    struct census a = {0}, b = {0};
    for (uint32_t i = 0; i < 100; i++) {
        ork_pool_run(first, 3, count_visit, &a);
        ork_pool_run(second, 2, count_visit, &b);
    }
    expect_census(&a, 3, 100);
    expect_census(&b, 2, 100);
    ork_pool_destroy(first);
    ork_pool_destroy(second);
}

static void test_thread_counts_are_bounded(void **state)
{
    (void)state;
    ork_pool *pool = NULL;
    ork_error error = {0};
    assert_int_equal(ork_pool_create(ORK_POOL_THREADS_MAX + 1, 0, &pool, &error), ORK_BAD_ARGUMENT);
    assert_null(pool);
    assert_non_null(strstr(error.what, "257"));
    assert_non_null(strstr(error.what, "256"));
    assert_int_equal(ork_pool_create(UINT32_MAX, 0, &pool, NULL), ORK_BAD_ARGUMENT);
    pool = make_pool(0, UINT32_MAX);
    assert_int_equal(ork_pool_threads(pool), ork_topology_threads());
    ork_pool_destroy(pool);
}

/* The caller's affinity belongs to the caller. */
static void test_the_callers_affinity_is_left_alone(void **state)
{
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    ork_pool *pool = make_pool(3, 0);
    struct census census = {0};
    ork_pool_run(pool, 3, count_visit, &census);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    ork_pool_destroy(pool);
}

static void note_affinity(void *context, uint32_t thread, uint32_t threads)
{
    (void)threads;
    cpu_set_t *sets = context;
    sched_getaffinity(0, sizeof *sets, &sets[thread]);
}

/* A mask set by taskset or a cgroup holds for the workers too. */
static void test_workers_stay_inside_the_callers_mask(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(ork_topology_threads(), 1);
    ork_pool *pool = make_pool(3, 0);
    cpu_set_t sets[3];
    ork_pool_run(pool, 3, note_affinity, sets);
    for (int i = 0; i < 3; i++)
        assert_true(CPU_EQUAL(&sets[i], &one));
    ork_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_ranges_are_split_evenly(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 7, 64, 1000, UINT32_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint32_t parts = 1; parts <= 17; parts++) {
            uint32_t next = 0, least = UINT32_MAX, most = 0;
            for (uint32_t part = 0; part < parts; part++) {
                uint32_t begin, end;
                ork_split_range(counts[c], part, parts, &begin, &end);
                assert_int_equal(begin, next);
                assert_true(end >= begin);
                next = end;
                least = end - begin < least ? end - begin : least;
                most = end - begin > most ? end - begin : most;
            }
            assert_int_equal(next, counts[c]);
            assert_true(most - least <= 1);
        }
}

/* A worker that keeps being late, as one that has lost its core to another program. */
struct late {
    ork_pool *pool;
    uint32_t threads;
    useconds_t delay_us;
};

static void be_late(void *context, uint32_t thread, uint32_t threads)
{
    struct late *late = context;
    if (thread == 0)
        late->threads = threads;
    else
        usleep(late->delay_us);
    ork_pool_barrier(late->pool);
}

/* Only where it is allowed, only after several late regions, counted, and not for ever. */
static void test_a_caller_that_waits_goes_on_alone(void **state)
{
    (void)state;
    if (ork_topology_threads() < 2) {
        print_message("SKIPPED: needs two cores\n");
        skip();
    }
    for (int allowed = 0; allowed < 2; allowed++) {
        struct late late = {.pool = make_pool(2, 20), .delay_us = 5000};
        ork_pool_set_yielding(late.pool, allowed);
        uint32_t alone = 0;
        ork_pool_run(late.pool, 2, be_late, &late);
        assert_int_equal(late.threads, 2);
        for (int i = 0; i < 12; i++) {
            ork_pool_run(late.pool, 2, be_late, &late);
            alone += late.threads == 1;
        }
        assert_int_equal(ork_pool_yielded_regions(late.pool), alone);
        assert_true(allowed ? alone > 0 : alone == 0);
        uint64_t end_us = ork_clock_now_us() + 60 * 1000 * 1000;
        do {
            usleep(10000);
            ork_pool_run(late.pool, 2, be_late, &late);
        } while (late.threads == 1 && ork_clock_now_us() < end_us);
        assert_int_equal(late.threads, 2);
        ork_pool_destroy(late.pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_thread_is_called_once),
        cmocka_unit_test(test_a_region_may_use_fewer_threads),
        cmocka_unit_test(test_many_regions_in_a_row),
        cmocka_unit_test(test_regions_meet_workers_falling_asleep),
        cmocka_unit_test(test_the_region_ends_with_its_slowest_thread),
        cmocka_unit_test(test_barriers_keep_phases_apart),
        cmocka_unit_test(test_the_last_one_at_a_barrier_calls),
        cmocka_unit_test(test_barriers_in_a_part_of_the_pool),
        cmocka_unit_test(test_many_more_threads_than_cores),
        cmocka_unit_test(test_pools_come_and_go),
        cmocka_unit_test(test_two_pools_do_not_know_of_each_other),
        cmocka_unit_test(test_thread_counts_are_bounded),
        cmocka_unit_test(test_the_callers_affinity_is_left_alone),
        cmocka_unit_test(test_workers_stay_inside_the_callers_mask),
        cmocka_unit_test(test_a_caller_that_waits_goes_on_alone),
        cmocka_unit_test(test_ranges_are_split_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
