/* Owns the monotonic clock. */
#include "base/clock.h"

#include <time.h>

uint64_t ork_clock_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}
