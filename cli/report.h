/* What the command line says and how it ends: exit codes, error lines on stderr, and standard output that notices when
 * nobody takes it any more. Knows no command. */
#ifndef ORK_CLI_REPORT_H
#define ORK_CLI_REPORT_H

#include "ork/ork.h"

enum {
    CLI_OK = 0,
    CLI_FAILURE = 1,
    CLI_USAGE = 2,
    CLI_BAD_INPUT = 3, /* an input file that is missing, unreadable, wrong or damaged */
    CLI_DEVICE = 4,
    CLI_INTERRUPTED = 130
};

/* Quiet leaves only errors. */
void cli_report_set_quiet(bool quiet);
bool cli_report_is_quiet(void);
/* "ork: <text>" on stderr unless quiet. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ork: <where>: <text>" on stderr; returns `code`, so that `return cli_fail(...)` is the usual form. where may be "". */
int cli_fail(int code, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for usage errors of a command ("" for none): adds a line "try: ork <command> --help"; returns CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a library error as one line and returns the exit code of its kind. */
int cli_report_error(const ork_error *error);
/* As cli_report_error() for an error met while an input file was opened: what the system refused is bad input too. */
int cli_report_input_error(const ork_error *error);
/* Says why `path` cannot be an input file and returns CLI_BAD_INPUT, or returns CLI_OK. Opens nothing, so a FIFO does
 * not block. */
int cli_check_input(const char *path);

/* Bytes to standard output at once; false when it was refused (closed, full disk, broken pipe), now or before. */
bool cli_output_write(const char *bytes, size_t size_bytes);
/* Formatted text to standard output, flushed by cli_output_finish() at the latest. */
void cli_output_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Text of unknown origin: control characters except newline and tab become '?'. */
void cli_output_safe(const char *text);
/* Flushes and closes standard output; returns `code`, or CLI_FAILURE when output was lost, with a message unless its
 * reader went away. */
int cli_output_finish(int code);

/* "1.50 GiB"; returns `text`. */
const char *cli_format_bytes(uint64_t size_bytes, char *text, size_t capacity);
/* "1.34 B", "135 M"; returns `text`. */
const char *cli_format_count(uint64_t count, char *text, size_t capacity);
/* Seconds of the monotonic clock. */
double cli_clock(void);

/* Nearest of the `count` names to `word` by edit distance, NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

/* malloc and friends that end the program with a message (exit code 1) when memory is refused. */
void *cli_allocate(size_t size_bytes);
void *cli_reallocate(void *pointer, size_t size_bytes);
char *cli_copy_text(const char *text);
char *cli_format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
