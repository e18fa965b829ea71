/* Time: the monotonic clock, and clocks that are passed in, so that the same code runs on a board and in virtual time. */
#ifndef ORK_BASE_CLOCK_H
#define ORK_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

uint64_t ork_clock_now_us(void);
uint64_t ork_clock_now_ns(void);

/* A clock that deadlines are measured on. */
struct ork_clock {
    uint64_t (*now_ns)(const struct ork_clock *clock);
    /* Returns when now_ns is at least time_ns, or a little earlier (a signal). */
    void (*sleep_until)(const struct ork_clock *clock, uint64_t time_ns);
};

/* CLOCK_MONOTONIC. */
const struct ork_clock *ork_clock_monotonic(void);

/* Time that passes only when somebody sleeps or advances it; any thread may. */
struct ork_virtual_clock {
    struct ork_clock clock;
    atomic_ullong now_ns;
};
void ork_virtual_clock_init(struct ork_virtual_clock *clock, uint64_t now_ns);
/* Moves the time forward to time_ns; never back. */
void ork_virtual_clock_advance(struct ork_virtual_clock *clock, uint64_t time_ns);

#endif
