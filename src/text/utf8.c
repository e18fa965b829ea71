/* Owns the shape of UTF-8 sequences; must not know what the text is for. */
#include "text/utf8.h"

/* Bounds of the second byte by the first (Unicode 3.9, table 3-7); false where no sequence starts so. */
static bool second_bounds(uint8_t first, size_t *length, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (first >= 0xc2 && first <= 0xdf) {
        *length = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        *length = 3;
        if (first == 0xe0)
            *low = 0xa0; /* no overlong forms */
        if (first == 0xed)
            *high = 0x9f; /* no surrogates */
    } else if (first >= 0xf0 && first <= 0xf4) {
        *length = 4;
        if (first == 0xf0)
            *low = 0x90;
        if (first == 0xf4)
            *high = 0x8f; /* nothing above U+10FFFF */
    } else {
        return false;
    }
    return true;
}

enum ork_utf8_state ork_utf8_next(const uint8_t *bytes, size_t left, size_t *size_bytes)
{
    *size_bytes = 1;
    if (bytes[0] < 0x80)
        return ORK_UTF8_VALID;
    size_t length;
    uint8_t low, high;
    if (!second_bounds(bytes[0], &length, &low, &high))
        return ORK_UTF8_BAD;
    for (size_t i = 1; i < length; i++) {
        *size_bytes = i;
        if (i == left)
            return ORK_UTF8_CUT;
        if (bytes[i] < low || bytes[i] > high)
            return ORK_UTF8_BAD;
        low = 0x80;
        high = 0xbf;
    }
    *size_bytes = length;
    return ORK_UTF8_VALID;
}

uint32_t ork_utf8_decode(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes == 1)
        return bytes[0];
    uint32_t code_point = bytes[0] & (0x7fu >> size_bytes);
    for (size_t i = 1; i < size_bytes; i++)
        code_point = code_point << 6 | (bytes[i] & 0x3f);
    return code_point;
}

size_t ork_utf8_valid_prefix(const uint8_t *bytes, size_t size_bytes)
{
    size_t position = 0, length;
    while (position < size_bytes && ork_utf8_next(bytes + position, size_bytes - position, &length) == ORK_UTF8_VALID)
        position += length;
    return position;
}

size_t ork_utf8_promised_length(uint8_t first)
{
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool ork_utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
