/* Arena: many small allocations with one life time, freed together. Not thread-safe. */
#ifndef ORK_BASE_ARENA_H
#define ORK_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct ork_arena_block;
struct ork_arena {
    struct ork_arena_block *head;
    uint64_t total_bytes;
};

/* Zeroed memory aligned to 64 bytes, or NULL. A zeroed struct ork_arena is an empty arena. */
void *ork_arena_allocate(struct ork_arena *arena, uint64_t size_bytes);
/* count * size with an overflow check. */
void *ork_arena_array(struct ork_arena *arena, uint64_t count, uint64_t size_bytes);
/* NUL-terminated copy of `length` bytes. */
char *ork_arena_string(struct ork_arena *arena, const char *text, size_t length);
void ork_arena_free(struct ork_arena *arena);

#endif
