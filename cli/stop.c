/* Owns the hold-back rule of stop strings. Must not know tokens or models. */
#include "stop.h"

#include <string.h>

size_t cli_stop_scan(const char *bytes, size_t size_bytes, const char *const *stops, size_t stop_count, bool *found)
{
    *found = false;
    for (size_t end = 1; end <= size_bytes; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < stop_count; i++) {
            size_t length = strlen(stops[i]);
            if (length > longest && length <= end && memcmp(bytes + end - length, stops[i], length) == 0)
                longest = length;
        }
        if (longest) {
            *found = true;
            return end - longest;
        }
    }
    size_t held = 0;
    for (size_t i = 0; i < stop_count; i++) {
        size_t length = strlen(stops[i]);
        for (size_t tail = length ? length - 1 : 0; tail > held; tail--)
            if (tail <= size_bytes && memcmp(bytes + size_bytes - tail, stops[i], tail) == 0)
                held = tail;
    }
    return size_bytes - held;
}
