/* Owns arenas; must not know what is kept in them. */
#include "base/arena.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 64 };

struct ork_arena_block {
    struct ork_arena_block *next;
    uint64_t used_bytes, size_bytes; /* of the whole block, header included */
};

static uint64_t header_bytes(void)
{
    return ork_round_up(sizeof(struct ork_arena_block), ALIGNMENT);
}

void *ork_arena_allocate(struct ork_arena *arena, uint64_t size_bytes)
{
    uint64_t rounded, total;
    if (!ork_checked_align(size_bytes ? size_bytes : 1, ALIGNMENT, &rounded))
        return NULL;
    struct ork_arena_block *block = arena->head;
    if (!block || rounded > block->size_bytes - block->used_bytes) {
        if (!ork_checked_add(header_bytes(), rounded, &total))
            return NULL;
        if (total < BLOCK_BYTES)
            total = BLOCK_BYTES;
        block = aligned_alloc(ALIGNMENT, total);
        if (!block)
            return NULL;
        *block = (struct ork_arena_block){arena->head, header_bytes(), total};
        arena->head = block;
        arena->total_bytes += total;
    }
    void *memory = (uint8_t *)block + block->used_bytes;
    block->used_bytes += rounded;
    memset(memory, 0, rounded);
    return memory;
}

void *ork_arena_array(struct ork_arena *arena, uint64_t count, uint64_t size_bytes)
{
    uint64_t total;
    if (!ork_checked_multiply(count, size_bytes, &total))
        return NULL;
    return ork_arena_allocate(arena, total);
}

char *ork_arena_string(struct ork_arena *arena, const char *text, size_t length)
{
    char *copy = ork_arena_allocate(arena, (uint64_t)length + 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

void ork_arena_free(struct ork_arena *arena)
{
    while (arena->head) {
        struct ork_arena_block *block = arena->head;
        arena->head = block->next;
        free(block);
    }
    arena->total_bytes = 0;
}
