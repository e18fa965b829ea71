/* Owns formatting of errors and the nearest-name search; must not know who calls. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_text(char *out, size_t capacity, const char *text)
{
    size_t n = strlen(text);
    if (n >= capacity)
        n = capacity - 1;
    memcpy(out, text, n);
    out[n] = 0;
    /* One line, whatever a hostile name holds. */
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

ork_status ork_error_set(ork_error *error, ork_status code, const char *where, int64_t offset, const char *format, ...)
{
    if (!error)
        return code;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = 0;
    va_end(arguments);
    error->code = code;
    error->offset = offset;
    copy_text(error->what, sizeof error->what, text);
    copy_text(error->where, sizeof error->where, where ? where : "");
    return code;
}

ork_status ork_error_errno(ork_error *error, const char *where, const char *what)
{
    int number = errno;
    ork_status code = number == ENOENT || number == ENOTDIR ? ORK_NOT_FOUND
                      : number == ENOMEM                    ? ORK_NO_MEMORY
                      : number == EEXIST                    ? ORK_EXISTS
                                                            : ORK_IO;
    char reason[128];
    return ork_error_set(error, code, where, -1, "%s: %s", what, strerror_r(number, reason, sizeof reason));
}

ork_status ork_error_no_memory(ork_error *error, const char *where, uint64_t size_bytes)
{
    return ork_error_set(error, ORK_NO_MEMORY, where, -1, "out of memory (%llu bytes)", (unsigned long long)size_bytes);
}

const char *ork_status_name(ork_status status)
{
    switch (status) {
    case ORK_OK:
        return "ok";
    case ORK_FAILURE:
        return "failure";
    case ORK_BAD_ARGUMENT:
        return "bad argument";
    case ORK_BAD_FILE:
        return "bad file";
    case ORK_UNSUPPORTED:
        return "unsupported";
    case ORK_NOT_FOUND:
        return "not found";
    case ORK_EXISTS:
        return "exists";
    case ORK_IO:
        return "input/output error";
    case ORK_NO_MEMORY:
        return "out of memory";
    case ORK_CANCELLED:
        return "cancelled";
    case ORK_LIMIT:
        return "limit reached";
    }
    return "unknown status";
}

/* Levenshtein distance with one row; words longer than the row are never near. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

const char *ork_nearest_name(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        /* A prefix is what somebody meant who typed too little. */
        if (*word && strncmp(word, names[i], strlen(word)) == 0 && distance > 1)
            distance = 1;
        if (distance < best_distance) {
            best_distance = distance;
            best = names[i];
        }
    }
    size_t length = strlen(word);
    return best_distance <= 1 + length / 3 ? best : NULL;
}
