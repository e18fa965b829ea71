/* Guards the clocks: virtual time moves only when told, never back, also when threads race; the monotonic clock sleeps. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void test_virtual(void **state)
{
    (void)state;
    struct ork_virtual_clock clock;
    ork_virtual_clock_init(&clock, 1000);
    assert_int_equal(clock.clock.now_ns(&clock.clock), 1000);
    assert_int_equal(clock.clock.now_ns(&clock.clock), 1000);
    clock.clock.sleep_until(&clock.clock, 5000);
    assert_int_equal(clock.clock.now_ns(&clock.clock), 5000);
    clock.clock.sleep_until(&clock.clock, 4000); /* past: no time passes */
    assert_int_equal(clock.clock.now_ns(&clock.clock), 5000);
    ork_virtual_clock_advance(&clock, 4999);
    assert_int_equal(clock.clock.now_ns(&clock.clock), 5000);
    ork_virtual_clock_advance(&clock, UINT64_MAX);
    assert_true(clock.clock.now_ns(&clock.clock) == UINT64_MAX);
}

enum { THREADS = 4, STEPS = 2000 };

struct racer {
    struct ork_virtual_clock *clock;
    uint64_t offset;
    int backwards;
};

static void *race(void *argument)
{
    struct racer *racer = argument;
    const struct ork_clock *clock = &racer->clock->clock;
    uint64_t seen = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        clock->sleep_until(clock, step * THREADS + racer->offset);
        const uint64_t now = clock->now_ns(clock);
        racer->backwards += now < seen || now < step * THREADS + racer->offset;
        seen = now;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct ork_virtual_clock clock;
    ork_virtual_clock_init(&clock, 0);
    struct racer racers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){&clock, (uint64_t)i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(racers[i].backwards, 0);
    }
    assert_int_equal(clock.clock.now_ns(&clock.clock), STEPS * THREADS + THREADS - 1);
}

static void test_monotonic(void **state)
{
    (void)state;
    const struct ork_clock *clock = ork_clock_monotonic();
    const uint64_t before = clock->now_ns(clock);
    clock->sleep_until(clock, before + 2000000);
    assert_true(clock->now_ns(clock) >= before + 1000000); /* a signal may wake it earlier, not this much */
    clock->sleep_until(clock, before);
    const uint64_t ns = ork_clock_now_ns(), us = ork_clock_now_us();
    assert_true(us >= ns / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_virtual), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_monotonic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
