/* UTF-8 as the text room needs it: where sequences end and which are well formed. Knows no tokens. */
#ifndef ORK_TEXT_UTF8_H
#define ORK_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, what stands for bytes that are no UTF-8. */
#define ORK_UTF8_REPLACEMENT "\xef\xbf\xbd"
enum { ORK_UTF8_REPLACEMENT_BYTES = 3 };

enum ork_utf8_state {
    ORK_UTF8_VALID, /* a well-formed sequence */
    ORK_UTF8_BAD,   /* bytes that no continuation could make well formed */
    ORK_UTF8_CUT    /* the beginning of a sequence, and no more bytes */
};

/* Looks at bytes[0..left), left > 0. *size_bytes: of the sequence; of the maximal ill-formed part (Unicode 3.9, D93b);
 * or all that is left of a cut one. */
enum ork_utf8_state ork_utf8_next(const uint8_t *bytes, size_t left, size_t *size_bytes);
/* The code point of a well-formed sequence of size_bytes bytes. */
uint32_t ork_utf8_decode(const uint8_t *bytes, size_t size_bytes);
/* Bytes before the first that is not well formed; size_bytes when all are. */
size_t ork_utf8_valid_prefix(const uint8_t *bytes, size_t size_bytes);
/* Length that the first byte promises, whatever follows; 1 for a continuation byte. */
size_t ork_utf8_promised_length(uint8_t first);
/* What Python's str.strip() removes: Unicode white space and U+001C..U+001F. */
bool ork_utf8_is_space(uint32_t code_point);

#endif
