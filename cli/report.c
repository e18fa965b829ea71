/* Owns stderr messages, exit codes by error kind, guarded standard output and the small helpers that every command
 * needs. Must not know commands or options. */
#include "report.h"
#include "progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_quiet;
static int output_errno; /* first error of standard output, 0 while all is well */

void cli_report_set_quiet(bool quiet)
{
    is_quiet = quiet;
}

bool cli_report_is_quiet(void)
{
    return is_quiet;
}

/* One line, whatever the arguments hold: a file name may carry newlines or terminal commands. */
static void print_line(const char *prefix, const char *where, const char *format, va_list arguments)
{
    char text[2048];
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = 0;
    cli_progress_clear_line();
    char line[4096];
    snprintf(line, sizeof line, "%s%s%s%s", prefix, where, *where ? ": " : "", text);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "%s\n", line);
}

void cli_say(const char *format, ...)
{
    if (is_quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    print_line("ork: ", "", format, arguments);
    va_end(arguments);
}

int cli_fail(int code, const char *where, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("ork: ", where, format, arguments);
    va_end(arguments);
    return code;
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("ork: ", command, format, arguments);
    va_end(arguments);
    fprintf(stderr, "try: ork %s%s--help\n", command, *command ? " " : "");
    return CLI_USAGE;
}

static int exit_code(ork_status status)
{
    switch (status) {
    case ORK_OK:
        return CLI_OK;
    case ORK_BAD_ARGUMENT:
        return CLI_USAGE;
    case ORK_BAD_FILE:
    case ORK_UNSUPPORTED:
    case ORK_NOT_FOUND:
        return CLI_BAD_INPUT;
    case ORK_CANCELLED:
        return CLI_INTERRUPTED;
    default:
        return CLI_FAILURE;
    }
}

int cli_report_error(const ork_error *error)
{
    const char *what = *error->what ? error->what : ork_status_name(error->code);
    if (error->offset >= 0)
        return cli_fail(exit_code(error->code), error->where, "%s (at byte %lld)", what, (long long)error->offset);
    return cli_fail(exit_code(error->code), error->where, "%s", what);
}

int cli_report_input_error(const ork_error *error)
{
    int code = cli_report_error(error);
    return error->code == ORK_IO ? CLI_BAD_INPUT : code;
}

int cli_check_input(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return cli_fail(CLI_BAD_INPUT, path, "cannot open: %s", strerror(errno));
    if (S_ISDIR(status.st_mode))
        return cli_fail(CLI_BAD_INPUT, path, "is a directory, not a file");
    if (!S_ISREG(status.st_mode))
        return cli_fail(CLI_BAD_INPUT, path, "is not a regular file");
    if (access(path, R_OK) != 0)
        return cli_fail(CLI_BAD_INPUT, path, "cannot open: %s", strerror(errno));
    return CLI_OK;
}

bool cli_output_write(const char *bytes, size_t size_bytes)
{
    if (output_errno)
        return false;
    errno = 0;
    if ((size_bytes && fwrite(bytes, 1, size_bytes, stdout) != size_bytes) || fflush(stdout) != 0)
        output_errno = errno ? errno : EIO;
    return output_errno == 0;
}

void cli_output_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    if (!output_errno && vfprintf(stdout, format, arguments) < 0)
        output_errno = errno ? errno : EIO;
    va_end(arguments);
}

void cli_output_safe(const char *text)
{
    for (const char *c = text; *c; c++) {
        bool is_control = ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f;
        if (!output_errno && putchar(is_control ? '?' : *c) == EOF)
            output_errno = errno ? errno : EIO;
    }
}

int cli_output_finish(int code)
{
    errno = 0;
    if (fflush(stdout) != 0 && !output_errno)
        output_errno = errno ? errno : EIO;
    errno = 0;
    if (fclose(stdout) != 0 && errno != EBADF && !output_errno)
        output_errno = errno ? errno : EIO;
    if (!output_errno)
        return code;
    if (output_errno != EPIPE) /* a reader that has seen enough, as `ork info ... | head` */
        cli_fail(CLI_FAILURE, "standard output", "cannot write: %s", strerror(output_errno));
    return code == CLI_OK ? CLI_FAILURE : code;
}

const char *cli_format_bytes(uint64_t size_bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (size_bytes < 1024) {
        snprintf(text, capacity, "%llu B", (unsigned long long)size_bytes);
        return text;
    }
    double value = (double)size_bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%.2f %s", value, units[unit]);
    return text;
}

const char *cli_format_count(uint64_t count, char *text, size_t capacity)
{
    double value = (double)count;
    if (value >= 1e9)
        snprintf(text, capacity, "%.2f B", value / 1e9);
    else if (value >= 1e6)
        snprintf(text, capacity, "%.2f M", value / 1e6);
    else if (value >= 1e3)
        snprintf(text, capacity, "%.2f K", value / 1e3);
    else
        snprintf(text, capacity, "%llu", (unsigned long long)count);
    return text;
}

double cli_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Edits that turn one word into the other: insert, delete, replace, swap neighbours (a swap is the commonest slip). Long
 * words count as far away. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { WORD_MAX = 48 };
    size_t n = strlen(a), m = strlen(b);
    size_t table[WORD_MAX + 1][WORD_MAX + 1];
    if (n > WORD_MAX || m > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t best = i + j; /* right for the borders, an upper bound elsewhere */
            if (i && table[i - 1][j] + 1 < best)
                best = table[i - 1][j] + 1;
            if (j && table[i][j - 1] + 1 < best)
                best = table[i][j - 1] + 1;
            if (i && j && table[i - 1][j - 1] + (a[i - 1] != b[j - 1]) < best)
                best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && table[i - 2][j - 2] + 1 < best)
                best = table[i - 2][j - 2] + 1;
            table[i][j] = best;
        }
    return table[n][m];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t limit = strlen(word) / 3 + 1, best = limit + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (distance < best && distance < strlen(names[i])) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

void *cli_allocate(size_t size_bytes)
{
    return cli_reallocate(NULL, size_bytes);
}

void *cli_reallocate(void *pointer, size_t size_bytes)
{
    void *result = realloc(pointer, size_bytes ? size_bytes : 1);
    if (!result)
        exit(cli_fail(CLI_FAILURE, "", "out of memory (%zu bytes)", size_bytes));
    return result;
}

char *cli_copy_text(const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    return memcpy(cli_allocate(size_bytes), text, size_bytes);
}

char *cli_format_text(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        length = 0;
    char *text = cli_allocate((size_t)length + 1);
    if (vsnprintf(text, (size_t)length + 1, format, again) < 0)
        text[0] = 0;
    va_end(again);
    return text;
}
