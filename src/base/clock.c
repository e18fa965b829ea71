/* Owns the monotonic clock and virtual clocks. */
#include "base/clock.h"

#include <time.h>

uint64_t ork_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ork_clock_now_us(void)
{
    return ork_clock_now_ns() / 1000u;
}

static uint64_t monotonic_now(const struct ork_clock *clock)
{
    (void)clock;
    return ork_clock_now_ns();
}

static void monotonic_sleep(const struct ork_clock *clock, uint64_t time_ns)
{
    (void)clock;
    const struct timespec until = {.tv_sec = (time_t)(time_ns / 1000000000u), .tv_nsec = (long)(time_ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

const struct ork_clock *ork_clock_monotonic(void)
{
    static const struct ork_clock monotonic = {monotonic_now, monotonic_sleep};
    return &monotonic;
}

static uint64_t virtual_now(const struct ork_clock *clock)
{
    return atomic_load(&((const struct ork_virtual_clock *)clock)->now_ns);
}

static void virtual_sleep(const struct ork_clock *clock, uint64_t time_ns)
{
    /* The clock is handed around as const because its readers must not set it; sleeping is how time passes. */
    ork_virtual_clock_advance((struct ork_virtual_clock *)(uintptr_t)clock, time_ns);
}

void ork_virtual_clock_init(struct ork_virtual_clock *clock, uint64_t now_ns)
{
    clock->clock = (struct ork_clock){virtual_now, virtual_sleep};
    atomic_init(&clock->now_ns, now_ns);
}

void ork_virtual_clock_advance(struct ork_virtual_clock *clock, uint64_t time_ns)
{
    unsigned long long seen = atomic_load(&clock->now_ns);
    while (seen < time_ns && !atomic_compare_exchange_weak(&clock->now_ns, &seen, time_ns))
        continue;
}
