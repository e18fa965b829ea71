/* A binary heap of 64-bit keys, smallest first; the keys carry what they stand for in their low bits. The caller owns
 * the storage. */
#ifndef ORK_TEXT_HEAP_H
#define ORK_TEXT_HEAP_H

#include <stddef.h>
#include <stdint.h>

static inline void ork_heap_sink(uint64_t *keys, size_t count, size_t index)
{
    uint64_t key = keys[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= count)
            break;
        if (child + 1 < count && keys[child + 1] < keys[child])
            child++;
        if (key <= keys[child])
            break;
        keys[index] = keys[child];
        index = child;
    }
    keys[index] = key;
}

/* Makes a heap of `count` keys in any order. O(count). */
static inline void ork_heap_build(uint64_t *keys, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        ork_heap_sink(keys, count, i - 1);
}

/* Needs storage for *count + 1 keys. */
static inline void ork_heap_push(uint64_t *keys, size_t *count, uint64_t key)
{
    size_t index = (*count)++;
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (keys[parent] <= key)
            break;
        keys[index] = keys[parent];
        index = parent;
    }
    keys[index] = key;
}

/* *count > 0. */
static inline uint64_t ork_heap_pop(uint64_t *keys, size_t *count)
{
    uint64_t top = keys[0];
    keys[0] = keys[--*count];
    ork_heap_sink(keys, *count, 0);
    return top;
}

#endif
