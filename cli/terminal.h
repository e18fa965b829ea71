/* The terminal and the signals: what is a terminal, how wide it is, colour, interrupts, lines typed by a person.
 * Knows no models. */
#ifndef ORK_CLI_TERMINAL_H
#define ORK_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Opens /dev/null on closed standard descriptors (so that no other file can take their numbers; writing to a closed
 * standard output still fails), ignores SIGPIPE, and catches SIGINT and SIGTERM. */
void cli_terminal_setup(void);
bool cli_terminal_is_input(void);    /* stdin is a terminal */
bool cli_terminal_is_output(void);   /* stdout is a terminal */
bool cli_terminal_is_errors(void);   /* stderr is a terminal */
unsigned cli_terminal_columns(void); /* of stderr; 80 when unknown */
/* stderr is a terminal that may be coloured: NO_COLOR is not set and TERM is not "dumb". */
bool cli_terminal_has_color(void);

/* True after SIGINT or SIGTERM until cleared. The third SIGINT in a row ends the program at once. */
bool cli_interrupted(void);
void cli_interrupt_clear(void);
/* As cli_interrupted(), in the shape of ork_session_params.cancel. */
bool cli_interrupt_poll(void *context);
/* 130 for SIGINT, 143 for SIGTERM. */
int cli_interrupt_exit_code(void);

typedef enum cli_line_result { CLI_LINE, CLI_LINE_END, CLI_LINE_INTERRUPTED, CLI_LINE_ERROR } cli_line_result;
/* Reads a line from standard input without its newline into *line (freed by the caller, NUL-terminated). CLI_LINE_END
 * is the end of input with nothing before it. Lines longer than 4 MiB are an error. */
cli_line_result cli_read_line(char **line, size_t *size_bytes);
/* Reads a whole file ("-": standard input) of at most limit_bytes; exit code, message printed. */
int cli_read_file(const char *path, size_t limit_bytes, char **text, size_t *size_bytes);

#endif
