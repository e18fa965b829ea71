/* Checked arithmetic on sizes. All sizes that come from a file go through here. */
#ifndef ORK_BASE_CHECKED_H
#define ORK_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Each returns false, leaving *result unspecified, when the true result does not fit. */
static inline bool ork_checked_add(uint64_t a, uint64_t b, uint64_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

static inline bool ork_checked_multiply(uint64_t a, uint64_t b, uint64_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

/* Rounds up to a multiple of alignment (a power of two). */
static inline bool ork_checked_align(uint64_t value, uint64_t alignment, uint64_t *result)
{
    uint64_t sum;
    if (__builtin_add_overflow(value, alignment - 1, &sum))
        return false;
    *result = sum & ~(alignment - 1);
    return true;
}

/* For values that are known to be small. */
static inline uint64_t ork_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline uint64_t ork_divide_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

#endif
