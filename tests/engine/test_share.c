/* Guards how work is dealt out: every unit exactly once, whatever the number of threads, of units and of rows, with
 * threads that come late or not at all in time, over many phases, and across the point where tags begin anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/engine.h"

enum { UNITS_MAX = 5000, PHASES = 3 };

struct dealing {
    ork_cpu *cpu;
    uint32_t units, rows;
    uint32_t late; /* a thread that sleeps before its first unit, or none */
    atomic_uint taken[PHASES][UNITS_MAX];
    atomic_uint by_late;
};

static void deal(void *context, uint32_t thread, uint32_t threads)
{
    struct dealing *d = context;
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        uint32_t begin, end;
        struct ork_cpu_share share = ork_cpu_share_make(d->cpu, phase, d->units, d->rows, threads);
        if (thread == d->late)
            nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
        while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
            assert_true(begin < end && end <= d->units);
            for (uint32_t i = begin; i < end; i++)
                atomic_fetch_add(&d->taken[phase][i], 1);
            if (thread == d->late)
                atomic_fetch_add(&d->by_late, end - begin);
        }
        ork_pool_barrier(d->cpu->pool);
    }
}

static ork_cpu *create_engine(uint32_t threads)
{
    ork_error error;
    ork_cpu *cpu;
    struct ork_cpu_config config = {.threads = threads, .spin_us = 20, .limits = {.rows = 2, .input_k = 32, .output_n = 32}};
    if (ork_cpu_create(&config, &cpu, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    ork_pool_set_yielding(cpu->pool, false);
    return cpu;
}

static void deal_once(struct dealing *d)
{
    for (uint32_t phase = 0; phase < PHASES; phase++)
        for (uint32_t i = 0; i < UNITS_MAX; i++)
            atomic_store(&d->taken[phase][i], 0);
    ork_cpu_run(d->cpu, d->rows, deal, d);
    for (uint32_t phase = 0; phase < PHASES; phase++)
        for (uint32_t i = 0; i < UNITS_MAX; i++)
            assert_int_equal(atomic_load(&d->taken[phase][i]), i < d->units);
}

static void test_every_unit_once(void **state)
{
    (void)state;
    static const uint32_t units[] = {0, 1, 2, 7, 16, 33, 1000, UNITS_MAX};
    static struct dealing d;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        d.cpu = create_engine(threads);
        d.late = UINT32_MAX;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            for (d.rows = 1; d.rows <= 2; d.rows++)
                for (int round = 0; round < 20; round++) {
                    d.units = units[i];
                    deal_once(&d);
                }
        ork_cpu_destroy(d.cpu);
    }
}

/* Who comes late finds its run done by the others: a core that was taken away costs no more than the unit in hand. */
static void test_a_late_thread_does_not_hold_up_the_rest(void **state)
{
    (void)state;
    static struct dealing d;
    d.cpu = create_engine(2);
    d.units = 1000;
    for (d.rows = 1; d.rows <= 2; d.rows++)
        for (d.late = 0; d.late < 2; d.late++) {
            atomic_store(&d.by_late, 0);
            deal_once(&d);
            /* The other thread may itself lose its core for the 20 ms, but not in all phases. */
            assert_true(atomic_load(&d.by_late) < PHASES * d.units / 2);
        }
    ork_cpu_destroy(d.cpu);
}

/* Tags have 24 bits. What was written down under a tag 2^24 phases ago, for a thread that was not used since, must not
 * count as this phase's. */
static void test_tags_begin_anew(void **state)
{
    (void)state;
    static struct dealing d;
    d.cpu = create_engine(3);
    d.late = UINT32_MAX;
    d.units = 100;
    d.rows = 1;
    for (int turn = 0; turn < 2; turn++) {
        d.cpu->region_tag = (1u << 24) - 6 * ORK_CPU_PHASES;
        for (int region = 0; region < 12; region++)
            deal_once(&d);
        assert_true(d.cpu->region_tag < 100);
    }
    ork_cpu_destroy(d.cpu);
}

/* More units than a place has bits for: runs are counted in multiples. */
static void test_very_many_units(void **state)
{
    (void)state;
    static const uint32_t units[] = {(1u << 20) - 1, 1u << 20, (1u << 20) + 1, 12345678, UINT32_MAX};
    ork_cpu *cpu = create_engine(1);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        cpu->region_tag += ORK_CPU_PHASES;
        struct ork_cpu_share share = ork_cpu_share_make(cpu, 0, units[i], 1, 1);
        uint32_t begin, end, next = 0;
        while (ork_cpu_share_next(&share, 0, 1, &begin, &end)) {
            assert_int_equal(begin, next);
            assert_true(end > begin);
            next = end;
        }
        assert_int_equal(next, units[i]);
    }
    ork_cpu_destroy(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_unit_once),
        cmocka_unit_test(test_a_late_thread_does_not_hold_up_the_rest),
        cmocka_unit_test(test_tags_begin_anew),
        cmocka_unit_test(test_very_many_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
