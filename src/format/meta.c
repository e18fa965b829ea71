/* Owns the metadata pair list: parsing with bounds, look-up, typed reads, re-encoding. Must not know which keys exist
 * or what they mean, nor in which container the list stands. */
#include "format/meta.h"

#include "base/checked.h"
#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Length u64, one byte of key, type u32, one byte of value. */
enum { PAIR_BYTES_MIN = 14 };

struct ork_meta {
    struct ork_arena arena;
    const char *where;
    struct ork_meta_value *values;        /* [count], file order */
    const struct ork_meta_value **sorted; /* [count], by key */
    size_t count;
};

/* Names and packed sizes in bytes; 0 where an element has no fixed size. */
static const struct {
    const char *name;
    uint32_t size_bytes;
} types[] = {
    [ORK_META_U8] = {"u8", 1},       [ORK_META_I8] = {"i8", 1},     [ORK_META_U16] = {"u16", 2},
    [ORK_META_I16] = {"i16", 2},     [ORK_META_U32] = {"u32", 4},   [ORK_META_I32] = {"i32", 4},
    [ORK_META_F32] = {"f32", 4},     [ORK_META_BOOL] = {"bool", 1}, [ORK_META_STRING] = {"string", 0},
    [ORK_META_ARRAY] = {"array", 0}, [ORK_META_U64] = {"u64", 8},   [ORK_META_I64] = {"i64", 8},
    [ORK_META_F64] = {"f64", 8},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *ork_meta_type_name(enum ork_meta_type type)
{
    return (unsigned)type < TYPE_COUNT ? types[type].name : "unknown";
}

/* ---- parsing ---- */

struct parser {
    struct ork_cursor *cursor;
    const char *where;
    const char *key; /* of the pair at hand, NULL before it is read */
    uint64_t index, count;
    ork_error *error;
};

/* Refuses the pair at hand. Keys are cut, so that the reason after them always shows. */
__attribute__((format(printf, 4, 5))) static ork_status refuse(const struct parser *parser, ork_status status,
                                                               uint64_t offset, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(reason, sizeof reason, format, arguments) < 0)
        reason[0] = 0;
    va_end(arguments);
    if (parser->key)
        return ork_error_set(parser->error, status, parser->where, (int64_t)offset, "metadata key '%.80s': %s",
                             parser->key, reason);
    return ork_error_set(parser->error, status, parser->where, (int64_t)offset, "metadata pair %llu of %llu: %s",
                         (unsigned long long)parser->index + 1, (unsigned long long)parser->count, reason);
}

static ork_status refuse_end(const struct parser *parser, const char *what)
{
    return refuse(parser, ORK_BAD_FILE, parser->cursor->position, "the file ends inside %s", what);
}

/* A string at the cursor: length u64, then its bytes. */
static ork_status parse_string(const struct parser *parser, const char *what, uint64_t limit_bytes,
                               const uint8_t **bytes, uint64_t *length)
{
    struct ork_cursor *cursor = parser->cursor;
    uint64_t start = cursor->position;
    if (!ork_cursor_u64(cursor, length))
        return refuse_end(parser, what);
    if (*length > limit_bytes)
        return refuse(parser, ORK_BAD_FILE, start, "%s of %llu bytes is longer than the limit of %llu", what,
                      (unsigned long long)*length, (unsigned long long)limit_bytes);
    *bytes = ork_cursor_take(cursor, *length);
    if (!*bytes)
        return refuse(parser, ORK_BAD_FILE, start, "%s of %llu bytes, but only %llu bytes are left", what,
                      (unsigned long long)*length, (unsigned long long)ork_cursor_left(cursor));
    return ORK_OK;
}

static ork_status parse_key(struct parser *parser, struct ork_arena *arena, struct ork_meta_value *value)
{
    const uint8_t *bytes;
    uint64_t length, start = parser->cursor->position;
    ork_status status = parse_string(parser, "key", ORK_META_KEY_BYTES_MAX, &bytes, &length);
    if (status != ORK_OK)
        return status;
    if (length == 0)
        return refuse(parser, ORK_BAD_FILE, start, "the key is empty");
    /* The GGUF specification asks for ASCII; it also keeps NUL and control bytes out of look-ups and messages. */
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] < 0x20 || bytes[i] > 0x7e)
            return refuse(parser, ORK_BAD_FILE, start + 8 + i, "byte 0x%02x in the key is not printable ASCII",
                          bytes[i]);
    value->key = ork_arena_string(arena, (const char *)bytes, length);
    if (!value->key)
        return ork_error_no_memory(parser->error, parser->where, length + 1);
    parser->key = value->key;
    return ORK_OK;
}

/* Strings of an array, each with its length in front; only their bounds are looked at. */
static ork_status parse_string_array(const struct parser *parser, uint64_t count)
{
    struct ork_cursor *cursor = parser->cursor;
    if (count > ork_cursor_left(cursor) / 8)
        return refuse(parser, ORK_BAD_FILE, cursor->position, "array of %llu strings cannot fit in the %llu bytes left",
                      (unsigned long long)count, (unsigned long long)ork_cursor_left(cursor));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length, start = cursor->position;
        if (!ork_cursor_u64(cursor, &length) || length > ORK_META_STRING_BYTES_MAX || !ork_cursor_take(cursor, length))
            return refuse(parser, ORK_BAD_FILE, start, "string %llu of %llu goes beyond the end of the file",
                          (unsigned long long)i, (unsigned long long)count);
    }
    return ORK_OK;
}

static ork_status parse_array(const struct parser *parser, struct ork_meta_value *value)
{
    struct ork_cursor *cursor = parser->cursor;
    uint64_t start = cursor->position, size_bytes;
    uint32_t element;
    if (!ork_cursor_u32(cursor, &element) || !ork_cursor_u64(cursor, &value->count))
        return refuse_end(parser, "an array header");
    if (element == ORK_META_ARRAY)
        return refuse(parser, ORK_UNSUPPORTED, start, "arrays of arrays are not supported");
    if (element >= TYPE_COUNT)
        return refuse(parser, ORK_BAD_FILE, start, "unknown array element type %u (known: 0 to %d)", element,
                      TYPE_COUNT - 1);
    if (value->count > ORK_META_ARRAY_COUNT_MAX)
        return refuse(parser, ORK_BAD_FILE, start + 4, "array of %llu elements is longer than the limit of %llu",
                      (unsigned long long)value->count, (unsigned long long)ORK_META_ARRAY_COUNT_MAX);
    value->element_type = (enum ork_meta_type)element;
    value->offset = (int64_t)cursor->position;
    uint64_t data_start = cursor->position;
    value->data = cursor->data + data_start;
    if (element == ORK_META_STRING) {
        ork_status status = parse_string_array(parser, value->count);
        value->size_bytes = cursor->position - data_start;
        return status;
    }
    /* One check for all elements: at most 2^30 times 8 bytes, so the product cannot wrap. */
    size_bytes = value->count * types[element].size_bytes;
    if (!ork_cursor_take(cursor, size_bytes))
        return refuse(parser, ORK_BAD_FILE, start + 4, "array of %llu %s values cannot fit in the %llu bytes left",
                      (unsigned long long)value->count, types[element].name,
                      (unsigned long long)ork_cursor_left(cursor));
    value->size_bytes = size_bytes;
    return ORK_OK;
}

static ork_status parse_value(const struct parser *parser, struct ork_meta_value *value)
{
    struct ork_cursor *cursor = parser->cursor;
    uint64_t start = cursor->position;
    uint32_t type;
    if (!ork_cursor_u32(cursor, &type))
        return refuse_end(parser, "the value type");
    if (type >= TYPE_COUNT)
        return refuse(parser, ORK_BAD_FILE, start, "unknown value type %u (known: 0 to %d)", type, TYPE_COUNT - 1);
    value->type = value->element_type = (enum ork_meta_type)type;
    value->count = 1;
    if (type == ORK_META_ARRAY)
        return parse_array(parser, value);
    if (type == ORK_META_STRING) {
        ork_status status = parse_string(parser, "string", ORK_META_STRING_BYTES_MAX, &value->data, &value->size_bytes);
        value->offset = (int64_t)(cursor->position - (status == ORK_OK ? value->size_bytes : 0));
        return status;
    }
    value->offset = (int64_t)cursor->position;
    value->size_bytes = types[type].size_bytes;
    value->data = ork_cursor_take(cursor, value->size_bytes);
    return value->data ? ORK_OK : refuse_end(parser, "the value");
}

/* By key; equal keys in file order. */
static int compare_values(const void *a, const void *b)
{
    const struct ork_meta_value *x = *(const struct ork_meta_value *const *)a;
    const struct ork_meta_value *y = *(const struct ork_meta_value *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static ork_status sort_keys(struct ork_meta *meta, ork_error *error)
{
    for (size_t i = 0; i < meta->count; i++)
        meta->sorted[i] = &meta->values[i];
    if (meta->count)
        qsort(meta->sorted, meta->count, sizeof meta->sorted[0], compare_values);
    for (size_t i = 1; i < meta->count; i++) {
        const struct ork_meta_value *first = meta->sorted[i - 1], *second = meta->sorted[i];
        if (strcmp(first->key, second->key) == 0)
            return ork_error_set(error, ORK_BAD_FILE, meta->where, second->offset,
                                 "metadata key '%.80s' stands twice: values at byte %lld and byte %lld", first->key,
                                 (long long)first->offset, (long long)second->offset);
    }
    return ORK_OK;
}

ork_status ork_meta_parse(struct ork_cursor *cursor, uint64_t count, const char *where, ork_meta **out,
                          ork_error *error)
{
    *out = NULL;
    uint64_t left = ork_cursor_left(cursor);
    if (count > ORK_META_PAIRS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, where, (int64_t)cursor->position,
                             "metadata pair count %llu is more than the limit of %llu", (unsigned long long)count,
                             (unsigned long long)ORK_META_PAIRS_MAX);
    if (count > left / PAIR_BYTES_MIN)
        return ork_error_set(error, ORK_BAD_FILE, where, (int64_t)cursor->position,
                             "metadata pair count %llu does not fit in the %llu bytes left", (unsigned long long)count,
                             (unsigned long long)left);
    struct ork_meta *meta = calloc(1, sizeof *meta);
    if (!meta)
        return ork_error_no_memory(error, where, sizeof *meta);
    ork_status status = ORK_OK;
    meta->count = count;
    meta->where = ork_arena_string(&meta->arena, where ? where : "", where ? strlen(where) : 0);
    meta->values = ork_arena_array(&meta->arena, count, sizeof meta->values[0]);
    meta->sorted = ork_arena_array(&meta->arena, count, sizeof meta->sorted[0]);
    if (!meta->where || !meta->values || !meta->sorted) {
        status = ork_error_no_memory(error, where, count * sizeof meta->values[0]);
        goto out;
    }
    struct parser parser = {.cursor = cursor, .where = where, .count = count, .error = error};
    for (uint64_t i = 0; i < count && status == ORK_OK; i++) {
        parser.index = i;
        parser.key = NULL;
        status = parse_key(&parser, &meta->arena, &meta->values[i]);
        if (status == ORK_OK)
            status = parse_value(&parser, &meta->values[i]);
    }
    if (status == ORK_OK)
        status = sort_keys(meta, error);
out:
    if (status == ORK_OK)
        *out = meta;
    else
        ork_meta_free(meta);
    return status;
}

void ork_meta_free(ork_meta *meta)
{
    if (!meta)
        return;
    ork_arena_free(&meta->arena);
    free(meta);
}

/* ---- look-up ---- */

size_t ork_meta_count(const ork_meta *meta)
{
    return meta->count;
}

const struct ork_meta_value *ork_meta_at(const ork_meta *meta, size_t index)
{
    return index < meta->count ? &meta->values[index] : NULL;
}

const struct ork_meta_value *ork_meta_find(const ork_meta *meta, const char *key)
{
    size_t low = 0, high = meta->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, meta->sorted[middle]->key);
        if (order == 0)
            return meta->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- typed reads ---- */

static ork_status refuse_missing(const ork_meta *meta, const char *key, ork_error *error)
{
    /* The search costs a product of lengths; more keys than this come from no real file. */
    enum { SEARCHED = 1024 };
    const char *names[SEARCHED];
    size_t count = meta->count < SEARCHED ? meta->count : SEARCHED;
    for (size_t i = 0; i < count; i++)
        names[i] = meta->values[i].key;
    const char *near = ork_nearest_name(key, names, count);
    return ork_error_set(error, ORK_BAD_FILE, meta->where, -1, "metadata key '%.80s' is missing%s%.80s%s", key,
                         near ? " (nearest key there: '" : "", near ? near : "", near ? "')" : "");
}

/* What stands where another type was wanted: "string", "array of f32". */
static ork_status refuse_type(const ork_meta *meta, const struct ork_meta_value *value, const char *wanted,
                              ork_error *error)
{
    bool array = value->type == ORK_META_ARRAY;
    return ork_error_set(error, ORK_BAD_FILE, meta->where, value->offset,
                         "metadata key '%.80s' has type %s%s, it must be %s", value->key, array ? "array of " : "",
                         ork_meta_type_name(value->element_type), wanted);
}

/* *value is NULL when the key is absent and not required. */
static ork_status look_up(const ork_meta *meta, const char *key, bool required, const struct ork_meta_value **value,
                          ork_error *error)
{
    *value = ork_meta_find(meta, key);
    return *value || !required ? ORK_OK : refuse_missing(meta, key, error);
}

/* The integer at the cursor as sign and magnitude; false when `type` is not an integer type. */
static bool read_integer(struct ork_cursor *cursor, enum ork_meta_type type, bool *negative, uint64_t *magnitude)
{
    uint32_t size_bytes = types[type].size_bytes;
    bool is_signed = type == ORK_META_I8 || type == ORK_META_I16 || type == ORK_META_I32 || type == ORK_META_I64;
    if (!is_signed && type != ORK_META_U8 && type != ORK_META_U16 && type != ORK_META_U32 && type != ORK_META_U64)
        return false;
    const uint8_t *bytes = ork_cursor_take(cursor, size_bytes);
    if (!bytes)
        return false;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < size_bytes; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    *negative = is_signed && bits >> (8 * size_bytes - 1);
    if (*negative && size_bytes < 8)
        bits |= UINT64_MAX << (8 * size_bytes);
    *magnitude = *negative ? 0 - bits : bits;
    return true;
}

static ork_status read_u32(const ork_meta *meta, const struct ork_meta_value *value, struct ork_cursor *cursor,
                           uint32_t *out, ork_error *error)
{
    bool negative;
    uint64_t magnitude;
    int64_t offset = value->offset + (int64_t)cursor->position;
    if (!read_integer(cursor, value->element_type, &negative, &magnitude))
        return refuse_type(meta, value, "an integer", error);
    if ((negative && magnitude) || magnitude > UINT32_MAX)
        return ork_error_set(error, ORK_BAD_FILE, meta->where, offset,
                             "metadata key '%.80s': %s%llu is outside the range 0 to %u", value->key,
                             negative ? "-" : "", (unsigned long long)magnitude, UINT32_MAX);
    *out = (uint32_t)magnitude;
    return ORK_OK;
}

ork_status ork_meta_u32(const ork_meta *meta, const char *key, bool required, uint32_t *value, ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    if (found->type == ORK_META_ARRAY)
        return refuse_type(meta, found, "one integer", error);
    struct ork_cursor cursor = ork_cursor_make(found->data, found->size_bytes);
    return read_u32(meta, found, &cursor, value, error);
}

ork_status ork_meta_f32(const ork_meta *meta, const char *key, bool required, float *value, ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    struct ork_cursor cursor = ork_cursor_make(found->data, found->size_bytes);
    double wide = 0;
    float narrow = 0;
    if (found->type == ORK_META_F32 && ork_cursor_f32(&cursor, &narrow))
        wide = (double)narrow;
    else if (found->type != ORK_META_F64 || !ork_cursor_f64(&cursor, &wide))
        return refuse_type(meta, found, "f32 or f64", error);
    /* Compared before it is converted: a double beyond float's range has no defined conversion. */
    if (!isfinite(wide) || fabs(wide) > (double)__FLT_MAX__)
        return ork_error_set(error, ORK_BAD_FILE, meta->where, found->offset,
                             "metadata key '%.80s': %g is not a finite 32-bit float", found->key, wide);
    *value = (float)wide;
    return ORK_OK;
}

ork_status ork_meta_bool(const ork_meta *meta, const char *key, bool required, bool *value, ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    if (found->type != ORK_META_BOOL)
        return refuse_type(meta, found, "bool", error);
    *value = found->data[0] != 0;
    return ORK_OK;
}

ork_status ork_meta_string(const ork_meta *meta, const char *key, bool required, const char **text, uint64_t *length,
                           ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    if (found->type != ORK_META_STRING)
        return refuse_type(meta, found, "string", error);
    *text = (const char *)found->data;
    *length = found->size_bytes;
    return ORK_OK;
}

static ork_status refuse_count(const ork_meta *meta, const struct ork_meta_value *value, uint64_t wanted,
                               ork_error *error)
{
    return ork_error_set(error, ORK_BAD_FILE, meta->where, value->offset,
                         "metadata key '%.80s' has %llu elements, it must have %llu", value->key,
                         (unsigned long long)value->count, (unsigned long long)wanted);
}

ork_status ork_meta_u32_array(const ork_meta *meta, const char *key, bool required, uint32_t *values, uint32_t count,
                              ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    bool array = found->type == ORK_META_ARRAY;
    if (array && found->count != count)
        return refuse_count(meta, found, count, error);
    struct ork_cursor cursor = ork_cursor_make(found->data, found->size_bytes);
    for (uint32_t i = 0; i < count && status == ORK_OK; i++) {
        if (!array)
            cursor.position = 0;
        status = read_u32(meta, found, &cursor, &values[i], error);
    }
    return status;
}

ork_status ork_meta_array(const ork_meta *meta, const char *key, bool required, enum ork_meta_type element_type,
                          uint64_t count, const struct ork_meta_value **array, ork_error *error)
{
    const struct ork_meta_value *found;
    ork_status status = look_up(meta, key, required, &found, error);
    if (status != ORK_OK || !found)
        return status;
    if (found->type != ORK_META_ARRAY || found->element_type != element_type) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "array of %s", ork_meta_type_name(element_type));
        return refuse_type(meta, found, wanted, error);
    }
    if (count && found->count != count)
        return refuse_count(meta, found, count, error);
    *array = found;
    return ORK_OK;
}

bool ork_meta_next_string(const struct ork_meta_value *array, uint64_t *position, const char **text, uint64_t *length)
{
    if (array->type != ORK_META_ARRAY || array->element_type != ORK_META_STRING || *position > array->size_bytes)
        return false;
    struct ork_cursor cursor = ork_cursor_make(array->data, array->size_bytes);
    cursor.position = *position;
    if (!ork_cursor_u64(&cursor, length))
        return false;
    const uint8_t *bytes = ork_cursor_take(&cursor, *length);
    if (!bytes)
        return false;
    *text = (const char *)bytes;
    *position = cursor.position;
    return true;
}

/* ---- re-encoding ---- */

static bool is_dropped(const char *key, const char *const *prefixes)
{
    for (; prefixes && *prefixes; prefixes++)
        if (strncmp(key, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

void ork_meta_write(const ork_meta *meta, const char *const *dropped_prefixes, struct ork_buffer *out,
                    uint64_t *written_count)
{
    *written_count = 0;
    for (size_t i = 0; i < meta->count; i++) {
        const struct ork_meta_value *value = &meta->values[i];
        if (is_dropped(value->key, dropped_prefixes))
            continue;
        ork_buffer_u64(out, strlen(value->key));
        ork_buffer_append(out, value->key, strlen(value->key));
        ork_buffer_u32(out, value->type);
        if (value->type == ORK_META_ARRAY) {
            ork_buffer_u32(out, value->element_type);
            ork_buffer_u64(out, value->count);
        } else if (value->type == ORK_META_STRING) {
            ork_buffer_u64(out, value->size_bytes);
        }
        ork_buffer_append(out, value->data, value->size_bytes);
        ++*written_count;
    }
}
