/* Monotonic time. */
#ifndef ORK_BASE_CLOCK_H
#define ORK_BASE_CLOCK_H

#include <stdint.h>

uint64_t ork_clock_now_us(void);

#endif
