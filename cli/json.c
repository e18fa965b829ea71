/* Owns the step from C values to valid JSON. Must not know what they mean. */
#include "json.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at `bytes`, 0 when there is none (stray, cut, overlong, surrogate, too large). */
static size_t sequence_length(const unsigned char *bytes, size_t left)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (bytes[0] < 0x80)
        return 1;
    size_t length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || length > left)
        return 0;
    uint32_t code = bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    bool is_valid = code >= smallest[length] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return is_valid ? length : 0;
}

json_t *cli_json_bytes(const char *bytes, size_t size_bytes)
{
    json_t *value = json_stringn(bytes, size_bytes);
    if (value)
        return value;
    char *repaired = cli_allocate(size_bytes * 3 + 1);
    size_t used = 0;
    for (size_t i = 0; i < size_bytes;) {
        size_t length = sequence_length((const unsigned char *)bytes + i, size_bytes - i);
        memcpy(repaired + used, length ? bytes + i : "\xef\xbf\xbd", length ? length : 3);
        used += length ? length : 3;
        i += length ? length : 1;
    }
    value = json_stringn(repaired, used);
    free(repaired);
    return value;
}

void cli_json_set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text ? cli_json_bytes(text, strlen(text)) : json_null());
}

void cli_json_set_integer(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number));
}

json_t *cli_json_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

void cli_json_set_number(json_t *object, const char *key, double number)
{
    json_object_set_new(object, key, cli_json_number(number));
}

void cli_json_set_boolean(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

void cli_json_print(json_t *object)
{
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (!text)
        exit(cli_fail(CLI_FAILURE, "", "out of memory"));
    cli_output_write(text, strlen(text));
    cli_output_write("\n", 1);
    free(text);
}
