/* The one table of commands and options. Parsing, --help, environment twins and shell completion all come from it. */
#ifndef ORK_CLI_OPTIONS_H
#define ORK_CLI_OPTIONS_H

#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLI_PACK = 1 << 0,
    CLI_INFO = 1 << 1,
    CLI_VERIFY = 1 << 2,
    CLI_RUN = 1 << 3,
    CLI_CHAT = 1 << 4,
    CLI_BENCH = 1 << 5,
    CLI_PERPLEXITY = 1 << 6,
    CLI_COMPLETION = 1 << 7,
    CLI_HELP = 1 << 8,
    CLI_VERSION = 1 << 9,
    CLI_PROBE = 1 << 10,
    CLI_DOCTOR = 1 << 11,
    CLI_NPU = 1 << 12,
    CLI_EXPLAIN = 1 << 13,
    CLI_CALIBRATE = 1 << 14,
    CLI_SIMULATE = 1 << 15
};

typedef struct cli_command {
    const char *name, *alias; /* alias may be NULL */
    uint32_t bit;
    const char *arguments; /* "IN.gguf [OUT.orkpack]" */
    const char *summary;   /* one line, no full stop */
    const char *details;   /* paragraphs for --help, may be NULL */
    size_t positional_maximum;
    int (*run)(const cli_settings *settings);
} cli_command;

typedef enum cli_kind {
    CLI_HEADING, /* no option: starts a group in --help; `help` is its title */
    CLI_SET,     /* stores `value` in an int */
    CLI_INTEGER, /* int64_t within [minimum, maximum] */
    CLI_NUMBER,  /* double within [minimum, maximum] */
    CLI_TEXT,    /* const char * */
    CLI_LIST,    /* appends to a cli_text_list */
    CLI_CHOICE,  /* stores a choice's value in an int */
    CLI_RANGES,  /* appends "1,2,4", "1-8+2", "1-8*2" to a cli_number_list; every number within [minimum, maximum] */
    CLI_IGNORED, /* known elsewhere and without meaning here: `help` says why */
    CLI_REFUSED  /* known elsewhere, would change the result, not supported: `help` says what to do */
} cli_kind;

typedef struct cli_choice {
    const char *name;
    int value;
    bool hidden;      /* accepted, not offered */
    const char *note; /* what to say when it is taken; may be NULL */
} cli_choice;

enum { CLI_NAMES_MAX = 6 };

typedef struct cli_option {
    cli_kind kind;
    uint32_t commands; /* bits of the commands that take it */
    const char *names[CLI_NAMES_MAX];
    const char *metavar; /* NULL: takes no value. CLI_IGNORED with choices: the value may be missing */
    const char *help;
    size_t field;
    int value;
    double minimum, maximum;
    const char *environment; /* "CTX_SIZE": ORK_CTX_SIZE and LLAMA_ARG_CTX_SIZE; NULL for none */
    bool environment_own;    /* only the ORK_ twin */
    const cli_choice *choices;
} cli_option;

extern const cli_command cli_commands[];
extern const size_t cli_command_count;
extern const cli_option cli_options[];
extern const size_t cli_option_count;

const cli_command *cli_command_find(const char *name);
void cli_settings_init(cli_settings *settings);
void cli_settings_free(cli_settings *settings);
/* Environment first, then argv[0..argc), which does not hold the command's name. Says what is ignored. Returns CLI_OK
 * or CLI_USAGE with the message printed. */
int cli_options_parse(const cli_command *command, int argc, char **argv, cli_settings *settings);
/* Help of one command, or of the program for NULL, on standard output. */
void cli_options_help(const cli_command *command);
/* The first sections of a manual page in man(7) form, up to the options; docs/man holds the rest. */
void cli_options_manual(const cli_command *command);
/* A bash completion script on standard output. */
void cli_options_completion_bash(void);

#endif
