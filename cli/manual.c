/* Owns the part of a manual page that the option table knows: names, synopsis, options. Must not know prose. */
#include "options.h"
#include "ork/ork.h"
#include "report.h"

#include <ctype.h>
#include <string.h>

/* Text for man(7): a hyphen that is typed is \-, and a backslash is \e. */
static void print_roff(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '-')
            cli_output_format("\\-");
        else if (*c == '\\')
            cli_output_format("\\e");
        else if (*c == '\'' && c == text)
            cli_output_format("\\(aq");
        else
            cli_output_format("%c", *c);
    }
}

static void print_option(const cli_option *option)
{
    cli_output_format(".TP\n");
    for (size_t i = 0; i < CLI_NAMES_MAX && option->names[i]; i++) {
        cli_output_format("%s\\fB", i ? ", " : "");
        print_roff(option->names[i]);
        cli_output_format("\\fR");
    }
    if (option->metavar) {
        cli_output_format(" \\fI");
        print_roff(option->metavar);
        cli_output_format("\\fR");
    }
    cli_output_format("\n");
    print_roff(option->help);
    cli_output_format(".\n");
    if (option->environment && option->environment_own)
        cli_output_format("Environment: \\fBORK_%s\\fR.\n", option->environment);
    else if (option->environment)
        cli_output_format("Environment: \\fBORK_%s\\fR, \\fBLLAMA_ARG_%s\\fR.\n", option->environment,
                          option->environment);
}

static void print_ignored(const cli_command *command)
{
    bool is_first = true;
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (option->kind != CLI_IGNORED || !(option->commands & command->bit))
            continue;
        if (is_first)
            cli_output_format(
                ".SH OPTIONS WITHOUT EFFECT\n"
                "These options of llama.cpp are accepted, and standard error says that they are ignored.\n");
        is_first = false;
        cli_output_format(".TP\n");
        for (size_t j = 0; j < CLI_NAMES_MAX && option->names[j]; j++) {
            cli_output_format("%s\\fB", j ? ", " : "");
            print_roff(option->names[j]);
            cli_output_format("\\fR");
        }
        cli_output_format("\n");
        print_roff(option->help);
        cli_output_format(".\n");
    }
}

static void print_upper(const char *text)
{
    for (; *text; text++)
        cli_output_format("%c", toupper((unsigned char)*text));
}

static void print_command(const cli_command *command)
{
    cli_output_format(".TH ORK\\-");
    print_upper(command->name);
    cli_output_format(" 1 \"\" \"ork %s\" \"User Commands\"\n.SH NAME\nork\\-%s \\- ", ork_version(), command->name);
    print_roff(command->summary);
    cli_output_format("\n.SH SYNOPSIS\n.B ork %s\n[\\fIoptions\\fR]%s", command->name, *command->arguments ? " " : "");
    print_roff(command->arguments);
    cli_output_format("\n.SH DESCRIPTION\n");
    if (command->details) {
        print_roff(command->details);
    } else {
        cli_output_format("%c", toupper((unsigned char)command->summary[0]));
        print_roff(command->summary + 1);
        cli_output_format(".");
    }
    cli_output_format("\n.SH OPTIONS\n");
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (!(option->commands & command->bit) || option->kind >= CLI_IGNORED)
            continue;
        if (option->kind == CLI_HEADING)
            cli_output_format(".SS %s\n", option->help);
        else
            print_option(option);
    }
    print_ignored(command);
}

static void print_program(void)
{
    cli_output_format(".TH ORK 1 \"\" \"ork %s\" \"User Commands\"\n.SH NAME\n"
                      "ork \\- run sparse mixture\\-of\\-experts language models\n"
                      ".SH SYNOPSIS\n.B ork\n\\fIcommand\\fR [\\fIoptions\\fR] ...\n.SH COMMANDS\n",
                      ork_version());
    for (size_t i = 0; i < cli_command_count; i++) {
        cli_output_format(".TP\n.B %s\n", cli_commands[i].name);
        print_roff(cli_commands[i].summary);
        cli_output_format(".\n");
        if (cli_commands[i].alias)
            cli_output_format("Also called \\fB%s\\fR.\n", cli_commands[i].alias);
    }
}

void cli_options_manual(const cli_command *command)
{
    if (command)
        print_command(command);
    else
        print_program();
}
