/* Owns parsing of arguments and environment by the option table. Must not know what an option means. */
#include "options.h"
#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parsing one command's arguments. `notes` are said only when everything is right. */
typedef struct options_parser {
    const cli_command *command;
    cli_settings *settings;
    char *notes[64];
    size_t note_count;
} options_parser;

const cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (strcmp(cli_commands[i].name, name) == 0 || (cli_commands[i].alias && !strcmp(cli_commands[i].alias, name)))
            return &cli_commands[i];
    return NULL;
}

static void add_note(options_parser *parser, char *note)
{
    if (parser->note_count < sizeof parser->notes / sizeof *parser->notes)
        parser->notes[parser->note_count++] = note;
    else
        free(note);
}

static void *field_of(const options_parser *parser, const cli_option *option)
{
    return (char *)parser->settings + option->field;
}

/* The option of this command with this spelling; long options may be written with underscores. */
static const cli_option *find_option(const cli_command *command, const char *spelling)
{
    char name[64];
    size_t length = strlen(spelling);
    if (length >= sizeof name)
        return NULL;
    memcpy(name, spelling, length + 1);
    if (name[0] == '-' && name[1] == '-')
        for (char *c = name + 2; *c; c++)
            if (*c == '_')
                *c = '-';
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (option->kind == CLI_HEADING || !(option->commands & command->bit))
            continue;
        for (size_t j = 0; j < CLI_NAMES_MAX && option->names[j]; j++)
            if (strcmp(option->names[j], name) == 0)
                return option;
    }
    return NULL;
}

static int unknown_option(const options_parser *parser, const char *spelling)
{
    const char **names = cli_allocate(cli_option_count * CLI_NAMES_MAX * sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_options[i].kind < CLI_IGNORED && (cli_options[i].commands & parser->command->bit))
            for (size_t j = 0; j < CLI_NAMES_MAX && cli_options[i].names[j]; j++)
                names[count++] = cli_options[i].names[j];
    const char *nearest = cli_nearest(spelling, names, count);
    int code = nearest ? cli_usage(parser->command->name, "unknown option '%s', did you mean '%s'?", spelling, nearest)
                       : cli_usage(parser->command->name, "unknown option '%s'", spelling);
    free(names);
    return code;
}

static int parse_integer(const options_parser *parser, const cli_option *option, const char *source, const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || isspace((unsigned char)*value))
        return cli_usage(parser->command->name, "%s: '%s' is not a whole number", source, value);
    if (errno || (double)number < option->minimum || (double)number > option->maximum)
        return cli_usage(parser->command->name, "%s: %s is not within %.0f to %.0f", source, value, option->minimum,
                         option->maximum);
    *(int64_t *)field_of(parser, option) = number;
    return CLI_OK;
}

static int parse_number(const options_parser *parser, const cli_option *option, const char *source, const char *value)
{
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    if (end == value || *end || isspace((unsigned char)*value))
        return cli_usage(parser->command->name, "%s: '%s' is not a number", source, value);
    if (!(number >= option->minimum && number <= option->maximum))
        return cli_usage(parser->command->name, "%s: %s is not within %g to %g", source, value, option->minimum,
                         option->maximum);
    *(double *)field_of(parser, option) = number;
    return CLI_OK;
}

static void append_number(cli_number_list *list, int64_t number)
{
    list->items = cli_reallocate(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = number;
}

/* first[-last[(+|*)step]], as llama-bench reads it. Returns the end of the range or NULL. */
static const char *parse_range(const char *text, const cli_option *option, cli_number_list *list)
{
    enum { LIST_MAX = 4096 };
    char *end;
    if (!isdigit((unsigned char)*text))
        return NULL;
    errno = 0;
    long long first = strtoll(text, &end, 10), last = first, step = 1;
    char operation = '+';
    if (*end == '-' && isdigit((unsigned char)end[1])) {
        last = strtoll(end + 1, &end, 10);
        if ((*end == '+' || *end == '*') && isdigit((unsigned char)end[1])) {
            operation = *end;
            step = strtoll(end + 1, &end, 10);
        }
    }
    bool grows = operation == '+' ? step >= 1 : step >= 2 && (first >= 1 || first == last);
    if (errno || last < first || !grows || (double)first < option->minimum || (double)last > option->maximum)
        return NULL;
    for (long long number = first; number <= last; number = operation == '+' ? number + step : number * step) {
        if (list->count >= LIST_MAX)
            return NULL;
        append_number(list, number);
        if (first == last)
            break;
    }
    return end;
}

static int parse_ranges(const options_parser *parser, const cli_option *option, const char *source, const char *value)
{
    for (const char *text = value;;) {
        text = parse_range(text, option, field_of(parser, option));
        if (!text || (*text && *text != ','))
            return cli_usage(parser->command->name,
                             "%s: '%s' is not a list like 1,2,4 or a range like 1-8, 1-8+2, 1-8*2 within %.0f to %.0f",
                             source, value, option->minimum, option->maximum);
        if (!*text)
            return CLI_OK;
        text++;
    }
}

static int parse_choice(options_parser *parser, const cli_option *option, const char *source, const char *value)
{
    char offered[256] = "";
    for (const cli_choice *choice = option->choices; choice->name; choice++) {
        if (strcasecmp(choice->name, value) == 0) {
            *(int *)field_of(parser, option) = choice->value;
            if (choice->note)
                add_note(parser, cli_format_text("%s %s: %s", source, value, choice->note));
            return CLI_OK;
        }
        size_t used = strlen(offered);
        if (!choice->hidden)
            snprintf(offered + used, sizeof offered - used, "%s%s", used ? ", " : "", choice->name);
    }
    return cli_usage(parser->command->name, "%s: '%s' is not one of %s", source, value, offered);
}

/* source: what the user wrote, for messages. */
static int apply(options_parser *parser, const cli_option *option, const char *source, const char *value)
{
    switch (option->kind) {
    case CLI_SET:
        *(int *)field_of(parser, option) = option->value;
        return CLI_OK;
    case CLI_INTEGER:
        return parse_integer(parser, option, source, value);
    case CLI_NUMBER:
        return parse_number(parser, option, source, value);
    case CLI_TEXT:
        *(const char **)field_of(parser, option) = value;
        return CLI_OK;
    case CLI_LIST: {
        cli_text_list *list = field_of(parser, option);
        list->items = cli_reallocate(list->items, (list->count + 1) * sizeof *list->items);
        list->items[list->count++] = value;
        return CLI_OK;
    }
    case CLI_CHOICE:
        return parse_choice(parser, option, source, value);
    case CLI_RANGES:
        return parse_ranges(parser, option, source, value);
    case CLI_IGNORED:
        add_note(parser,
                 cli_format_text("%s%s%s is ignored: %s", source, value ? " " : "", value ? value : "", option->help));
        return CLI_OK;
    case CLI_REFUSED:
        return cli_usage(parser->command->name, "%s is not supported: %s", source, option->help);
    case CLI_HEADING:
        break;
    }
    return CLI_OK;
}

static bool is_among(const char *value, const cli_choice *choices)
{
    for (; value && choices->name; choices++)
        if (strcasecmp(choices->name, value) == 0)
            return true;
    return false;
}

/* A flag in the environment: true/1/on/enabled/yes set it, the opposites and nothing leave it alone. */
static int apply_environment_flag(options_parser *parser, const cli_option *option, const char *name, const char *value)
{
    static const char *const yes[] = {"1", "true", "on", "enabled", "yes"};
    static const char *const no[] = {"", "0", "false", "off", "disabled", "no"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(value, yes[i]) == 0)
            return apply(parser, option, name, NULL);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (strcasecmp(value, no[i]) == 0)
            return CLI_OK;
    return cli_usage(parser->command->name, "%s: '%s' is neither on nor off", name, value);
}

static int apply_environment(options_parser *parser)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (!option->environment || !(option->commands & parser->command->bit))
            continue;
        char own[64], peer[64];
        snprintf(own, sizeof own, "ORK_%s", option->environment);
        snprintf(peer, sizeof peer, "LLAMA_ARG_%s", option->environment);
        const char *name = own, *value = getenv(own);
        if (!value && !option->environment_own)
            value = getenv(name = peer);
        if (!value || (!*value && option->kind != CLI_SET))
            continue;
        int code = option->kind == CLI_SET ? apply_environment_flag(parser, option, name, value)
                                           : apply(parser, option, name, value);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* A list given on the command line replaces one from the environment. */
static void forget_environment_list(const options_parser *parser, const cli_option *option, bool *given)
{
    size_t index = (size_t)(option - cli_options);
    if (given[index])
        return;
    given[index] = true;
    if (option->kind == CLI_LIST)
        ((cli_text_list *)field_of(parser, option))->count = 0;
}

/* One argument that begins with '-'; *index is that of its last part afterwards. */
static int parse_option(options_parser *parser, int argc, char **argv, int *index, bool *given)
{
    char *argument = argv[*index];
    const cli_option *option = find_option(parser->command, argument);
    char *attached = NULL, spelling[64];
    snprintf(spelling, sizeof spelling, "%s", argument);
    char *equals = strchr(argument, '=');
    if (!option && equals && (size_t)(equals - argument) < sizeof spelling) {
        spelling[equals - argument] = 0; /* --name=value */
        attached = equals + 1;
        option = find_option(parser->command, spelling);
    } else if (!option && argument[1] != '-' && (isdigit((unsigned char)argument[2]) || argument[2] == '-')) {
        spelling[2] = 0; /* -t4 */
        attached = argument + 2;
        option = find_option(parser->command, spelling);
    }
    if (!option)
        return unknown_option(parser, argument);
    if (attached && !option->metavar)
        return cli_usage(parser->command->name, "%s takes no value", spelling);
    const char *value = attached;
    const char *next = *index + 1 < argc ? argv[*index + 1] : NULL;
    if (option->metavar && !attached) {
        bool may_be_missing = (option->kind == CLI_IGNORED && option->choices) || option->kind == CLI_REFUSED;
        if (!next && !may_be_missing)
            return cli_usage(parser->command->name, "%s needs a value: %s", argument, option->metavar);
        if (option->kind != CLI_REFUSED && (!may_be_missing || is_among(next, option->choices))) {
            value = next;
            ++*index;
        }
    }
    forget_environment_list(parser, option, given);
    return apply(parser, option, spelling, value);
}

static int parse_arguments(options_parser *parser, int argc, char **argv, bool *given)
{
    cli_settings *settings = parser->settings;
    bool options_ended = false;
    for (int i = 0; i < argc; i++) {
        char *argument = argv[i];
        if (!options_ended && strcmp(argument, "--") == 0) {
            options_ended = true;
        } else if (!options_ended && argument[0] == '-' && argument[1]) {
            int code = parse_option(parser, argc, argv, &i, given);
            if (code != CLI_OK)
                return code;
        } else {
            if (settings->positional_count >= parser->command->positional_maximum)
                return cli_usage(parser->command->name, "unexpected argument '%s'", argument);
            settings->positional[settings->positional_count++] = argument;
        }
        if (settings->help)
            return CLI_OK;
    }
    return CLI_OK;
}

int cli_options_parse(const cli_command *command, int argc, char **argv, cli_settings *settings)
{
    options_parser parser = {.command = command, .settings = settings};
    bool *given = cli_allocate(cli_option_count);
    memset(given, 0, cli_option_count);
    int code = apply_environment(&parser);
    if (code == CLI_OK)
        code = parse_arguments(&parser, argc, argv, given);
    free(given);
    cli_report_set_quiet(settings->quiet);
    for (size_t i = 0; i < parser.note_count; i++) {
        if (code == CLI_OK && !settings->help)
            cli_say("%s", parser.notes[i]);
        free(parser.notes[i]);
    }
    return code;
}

void cli_settings_free(cli_settings *settings)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        void *field = (char *)settings + cli_options[i].field;
        if (cli_options[i].kind == CLI_LIST) {
            free(((cli_text_list *)field)->items);
            ((cli_text_list *)field)->items = NULL; /* two rows may share a field */
        } else if (cli_options[i].kind == CLI_RANGES) {
            free(((cli_number_list *)field)->items);
            ((cli_number_list *)field)->items = NULL;
        }
    }
}
