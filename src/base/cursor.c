/* Owns bounded reading and growing writing of little-endian bytes; must not know any format. */
#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

/* Integers are assembled from bytes, so the reader is right on either endianness. */

const uint8_t *ork_cursor_take(struct ork_cursor *cursor, uint64_t size_bytes)
{
    if (size_bytes > ork_cursor_left(cursor))
        return NULL;
    const uint8_t *bytes = cursor->data + cursor->position;
    cursor->position += size_bytes;
    return bytes;
}

bool ork_cursor_u8(struct ork_cursor *cursor, uint8_t *value)
{
    const uint8_t *p = ork_cursor_take(cursor, 1);
    if (!p)
        return false;
    *value = *p;
    return true;
}

bool ork_cursor_u16(struct ork_cursor *cursor, uint16_t *value)
{
    const uint8_t *p = ork_cursor_take(cursor, 2);
    if (!p)
        return false;
    *value = (uint16_t)(p[0] | p[1] << 8);
    return true;
}

bool ork_cursor_u32(struct ork_cursor *cursor, uint32_t *value)
{
    const uint8_t *p = ork_cursor_take(cursor, 4);
    if (!p)
        return false;
    *value = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return true;
}

bool ork_cursor_u64(struct ork_cursor *cursor, uint64_t *value)
{
    if (ork_cursor_left(cursor) < 8)
        return false;
    uint32_t low = 0, high = 0;
    ork_cursor_u32(cursor, &low);
    ork_cursor_u32(cursor, &high);
    *value = (uint64_t)high << 32 | low;
    return true;
}

bool ork_cursor_f32(struct ork_cursor *cursor, float *value)
{
    uint32_t bits;
    if (!ork_cursor_u32(cursor, &bits))
        return false;
    memcpy(value, &bits, sizeof *value);
    return true;
}

bool ork_cursor_f64(struct ork_cursor *cursor, double *value)
{
    uint64_t bits;
    if (!ork_cursor_u64(cursor, &bits))
        return false;
    memcpy(value, &bits, sizeof *value);
    return true;
}

void ork_buffer_append(struct ork_buffer *buffer, const void *data, size_t size_bytes)
{
    if (buffer->failed || size_bytes == 0)
        return;
    if (size_bytes > buffer->capacity_bytes - buffer->size_bytes) {
        size_t needed, capacity = buffer->capacity_bytes ? buffer->capacity_bytes : 256;
        if (__builtin_add_overflow(buffer->size_bytes, size_bytes, &needed) || needed > SIZE_MAX / 2) {
            buffer->failed = true;
            return;
        }
        while (capacity < needed)
            capacity *= 2;
        uint8_t *grown = realloc(buffer->data, capacity);
        if (!grown) {
            buffer->failed = true;
            return;
        }
        buffer->data = grown;
        buffer->capacity_bytes = capacity;
    }
    memcpy(buffer->data + buffer->size_bytes, data, size_bytes);
    buffer->size_bytes += size_bytes;
}

void ork_buffer_u8(struct ork_buffer *buffer, uint8_t value)
{
    ork_buffer_append(buffer, &value, 1);
}

void ork_buffer_u16(struct ork_buffer *buffer, uint16_t value)
{
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    ork_buffer_append(buffer, bytes, sizeof bytes);
}

void ork_buffer_u32(struct ork_buffer *buffer, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    ork_buffer_append(buffer, bytes, sizeof bytes);
}

void ork_buffer_u64(struct ork_buffer *buffer, uint64_t value)
{
    ork_buffer_u32(buffer, (uint32_t)value);
    ork_buffer_u32(buffer, (uint32_t)(value >> 32));
}

void ork_buffer_f32(struct ork_buffer *buffer, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    ork_buffer_u32(buffer, bits);
}

void ork_buffer_f64(struct ork_buffer *buffer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    ork_buffer_u64(buffer, bits);
}

void ork_buffer_free(struct ork_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct ork_buffer){0};
}
