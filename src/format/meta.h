/* Metadata: the key/value list of a GGUF file (version 3 encoding), which an orkpack carries over unchanged. Owns
 * parsing, look-up and typed reads; values are views into the file's bytes. */
#ifndef ORK_FORMAT_META_H
#define ORK_FORMAT_META_H

#include "base/arena.h"
#include "base/cursor.h"
#include "ork/ork.h"

/* Bounds on what a file may ask for; the longest real lists are far below them. */
#define ORK_META_PAIRS_MAX (UINT64_C(1) << 16)
#define ORK_META_KEY_BYTES_MAX 65535u
#define ORK_META_STRING_BYTES_MAX (UINT64_C(1) << 30)
#define ORK_META_ARRAY_COUNT_MAX (UINT64_C(1) << 30)

/* The numbers are those in the file. */
enum ork_meta_type {
    ORK_META_U8 = 0,
    ORK_META_I8 = 1,
    ORK_META_U16 = 2,
    ORK_META_I16 = 3,
    ORK_META_U32 = 4,
    ORK_META_I32 = 5,
    ORK_META_F32 = 6,
    ORK_META_BOOL = 7,
    ORK_META_STRING = 8,
    ORK_META_ARRAY = 9,
    ORK_META_U64 = 10,
    ORK_META_I64 = 11,
    ORK_META_F64 = 12
};

struct ork_meta_value {
    const char *key; /* NUL-terminated copy */
    enum ork_meta_type type;
    enum ork_meta_type element_type; /* of an array; equals type otherwise */
    uint64_t count;                  /* elements of an array, 1 otherwise */
    const uint8_t *data;             /* scalars and arrays: packed elements; string: its bytes, without the length */
    uint64_t size_bytes;             /* of data */
    int64_t offset;                  /* of data, in the bytes that the parsing cursor was made from */
};

typedef struct ork_meta ork_meta;

/* Parses `count` pairs at the cursor. The bytes must outlive the meta; where (a path) is copied. Refuses a count that
 * the bytes left cannot hold, keys that are empty, duplicate, too long or not printable ASCII, nested arrays
 * (ORK_UNSUPPORTED; all else ORK_BAD_FILE), unknown types, lengths beyond the bytes left or the bounds above. Time is
 * O(bytes), and O(n log n) in the number of pairs. */
ork_status ork_meta_parse(struct ork_cursor *cursor, uint64_t count, const char *where, ork_meta **meta,
                          ork_error *error);
void ork_meta_free(ork_meta *meta);
size_t ork_meta_count(const ork_meta *meta);
const struct ork_meta_value *ork_meta_at(const ork_meta *meta, size_t index);
/* NULL when absent. O(log n). */
const struct ork_meta_value *ork_meta_find(const ork_meta *meta, const char *key);

/* "u8", "string", ...; "unknown" for a number that is no type. */
const char *ork_meta_type_name(enum ork_meta_type type);

/* Typed reads. `key` is the complete key, compared byte for byte: the caller puts the architecture's name in front
 * ("lfm2.block_count"). When the key is absent *value stays as it is (the default) and ORK_OK is returned, unless
 * `required`. A value of another type, or out of the range of the target, is ORK_BAD_FILE naming the key and offset;
 * so is a required key that is absent (with the nearest key that is there). Integers of every width convert to one
 * another; f64 converts to f32; numbers that are not finite are refused; bool is only bool (any non-zero byte is
 * true). */
ork_status ork_meta_u32(const ork_meta *meta, const char *key, bool required, uint32_t *value, ork_error *error);
ork_status ork_meta_f32(const ork_meta *meta, const char *key, bool required, float *value, ork_error *error);
ork_status ork_meta_bool(const ork_meta *meta, const char *key, bool required, bool *value, ork_error *error);
/* A view, not NUL-terminated. */
ork_status ork_meta_string(const ork_meta *meta, const char *key, bool required, const char **text, uint64_t *length,
                           ork_error *error);
/* A scalar fills all `count` elements; an array must have exactly `count`. */
ork_status ork_meta_u32_array(const ork_meta *meta, const char *key, bool required, uint32_t *values, uint32_t count,
                              ork_error *error);
/* The array itself, when its elements have exactly element_type and there are exactly `count` of them (0: any number):
 * for packed tables such as scores, whose element type must be checked before their bytes are read. *array stays as it
 * is when the key is absent. */
ork_status ork_meta_array(const ork_meta *meta, const char *key, bool required, enum ork_meta_type element_type,
                          uint64_t count, const struct ork_meta_value **array, ork_error *error);
/* Strings of an array value in order; false at its end. Start with position 0. */
bool ork_meta_next_string(const struct ork_meta_value *array, uint64_t *position, const char **text, uint64_t *length);
/* Appends the pair list in file order and the same encoding, without keys that start with one of the NULL-terminated
 * prefixes (NULL: none dropped). *written_count is what the header of the new file must say. Memory: out->failed. */
void ork_meta_write(const ork_meta *meta, const char *const *dropped_prefixes, struct ork_buffer *out,
                    uint64_t *written_count);

#endif
