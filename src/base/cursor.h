/* Bounded little-endian reader over bytes, and a growing writer. Every parser reads through a cursor; there is no other
 * pointer arithmetic on file content. A failed read leaves the position where it was. */
#ifndef ORK_BASE_CURSOR_H
#define ORK_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ork_cursor {
    const uint8_t *data;
    uint64_t size_bytes;
    uint64_t position; /* <= size_bytes always */
};

static inline struct ork_cursor ork_cursor_make(const void *data, uint64_t size_bytes)
{
    return (struct ork_cursor){data, size_bytes, 0};
}

static inline uint64_t ork_cursor_left(const struct ork_cursor *cursor)
{
    return cursor->size_bytes - cursor->position;
}

/* Pointer to `size_bytes` bytes and past them, NULL if fewer are left. */
const uint8_t *ork_cursor_take(struct ork_cursor *cursor, uint64_t size_bytes);
bool ork_cursor_u8(struct ork_cursor *cursor, uint8_t *value);
bool ork_cursor_u16(struct ork_cursor *cursor, uint16_t *value);
bool ork_cursor_u32(struct ork_cursor *cursor, uint32_t *value);
bool ork_cursor_u64(struct ork_cursor *cursor, uint64_t *value);
bool ork_cursor_f32(struct ork_cursor *cursor, float *value);
bool ork_cursor_f64(struct ork_cursor *cursor, double *value);

/* A growing byte buffer; after a failed append `failed` stays set and further appends do nothing. */
struct ork_buffer {
    uint8_t *data;
    size_t size_bytes, capacity_bytes;
    bool failed;
};

void ork_buffer_append(struct ork_buffer *buffer, const void *data, size_t size_bytes);
void ork_buffer_u8(struct ork_buffer *buffer, uint8_t value);
void ork_buffer_u16(struct ork_buffer *buffer, uint16_t value);
void ork_buffer_u32(struct ork_buffer *buffer, uint32_t value);
void ork_buffer_u64(struct ork_buffer *buffer, uint64_t value);
void ork_buffer_f32(struct ork_buffer *buffer, float value);
void ork_buffer_f64(struct ork_buffer *buffer, double value);
/* Frees the storage and clears the struct. */
void ork_buffer_free(struct ork_buffer *buffer);

#endif
