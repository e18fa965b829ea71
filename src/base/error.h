/* Filling an ork_error. Owns the one way in which the library says what went wrong; knows no formats. */
#ifndef ORK_BASE_ERROR_H
#define ORK_BASE_ERROR_H

#include "ork/ork.h"

/* Fills *error (may be NULL) and returns code, so that `return ork_error_set(...)` is the usual form.
 * where: path, tensor or key, NULL for none. offset: byte offset, -1 for none. The message carries no newline. */
ork_status ork_error_set(ork_error *error, ork_status code, const char *where, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* As ork_error_set with errno's text appended: "cannot open: No such file or directory". The status is chosen by errno
 * (ENOENT: not found, ENOMEM: no memory, EEXIST: exists, else I/O). */
ork_status ork_error_errno(ork_error *error, const char *where, const char *what);
/* The usual out-of-memory error; size_bytes is what was asked for. */
ork_status ork_error_no_memory(ork_error *error, const char *where, uint64_t size_bytes);

/* Nearest of `count` names to `word` by edit distance, NULL if none is near; for "did you mean". */
const char *ork_nearest_name(const char *word, const char *const *names, size_t count);

#endif
