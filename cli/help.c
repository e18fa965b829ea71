/* Owns what the option table looks like to a reader: --help, the command list, manual pages, shell
 * completion. */
#include "commands.h"
#include "options.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 34, HELP_WIDTH = 100 };

/* Writes words from `column` on, wrapped, ending the line. */
static void print_wrapped(const char *text, int column)
{
    int at = column;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (at + length > HELP_WIDTH && at > HELP_COLUMN) {
            cli_output_format("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        cli_output_format("%.*s", length, text);
        at += length;
        text += length;
        while (*text == ' ')
            text++;
        if (*text) {
            cli_output_format(" ");
            at++;
        }
    }
    cli_output_format("\n");
}

static void print_option(const cli_option *option)
{
    char left[160] = "  ";
    for (size_t i = 0; i < CLI_NAMES_MAX && option->names[i]; i++) {
        size_t used = strlen(left);
        snprintf(left + used, sizeof left - used, "%s%s", i ? ", " : "", option->names[i]);
    }
    if (option->metavar) {
        size_t used = strlen(left);
        snprintf(left + used, sizeof left - used, " %s", option->metavar);
    }
    cli_output_format("%s", left);
    int length = (int)strlen(left);
    if (length > HELP_COLUMN - 2) {
        cli_output_format("\n");
        length = 0;
    }
    cli_output_format("%*s", HELP_COLUMN - length, "");
    char text[512];
    snprintf(text, sizeof text, "%s", option->help);
    if (option->environment) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, option->environment_own ? " [ORK_%s]" : " [ORK_%s, LLAMA_ARG_%s]",
                 option->environment, option->environment);
    }
    print_wrapped(text, HELP_COLUMN);
}

static void print_ignored(const cli_command *command)
{
    char text[2048] = "";
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_options[i].kind == CLI_IGNORED && (cli_options[i].commands & command->bit))
            for (size_t j = 0; j < CLI_NAMES_MAX && cli_options[i].names[j]; j++) {
                size_t used = strlen(text);
                snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", cli_options[i].names[j]);
            }
    if (!*text)
        return;
    cli_output_format("\nllama.cpp options that are accepted and have no effect here:\n%*s", HELP_COLUMN, "");
    print_wrapped(text, HELP_COLUMN);
}

static void print_command(const cli_command *command)
{
    cli_output_format("usage: ork %s [options] %s\n\n%c%s.\n", command->name, command->arguments,
                      command->summary[0] - 'a' + 'A', command->summary + 1);
    if (command->details)
        cli_output_format("\n%s\n", command->details);
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (!(option->commands & command->bit))
            continue;
        if (option->kind == CLI_HEADING)
            cli_output_format("\n%s:\n", option->help);
        else if (option->kind < CLI_IGNORED)
            print_option(option);
    }
    print_ignored(command);
}

static void print_program(void)
{
    cli_output_format(
        "usage: ork COMMAND [options] ...\n\n"
        "Runs sparse mixture-of-experts language models. A GGUF is packed once, then run.\n\ncommands:\n");
    for (size_t i = 0; i < cli_command_count; i++)
        cli_output_format("  %-12s %s\n", cli_commands[i].name, cli_commands[i].summary);
    cli_output_format("\n"
                      "  ork pack model.gguf\n"
                      "  ork run model.orkpack -p \"Why is the sky blue?\"\n\n"
                      "ork COMMAND --help shows the options of a command. Options beat environment variables.\n\n"
                      "Environment: ORK_CACHE_DIR (packs of GGUF files; default $XDG_CACHE_HOME/ork or ~/.cache/ork),\n"
                      "ORK_CPU_MASK (scalar, avx2, avxvnni, avx512, neon, dotprod or i8mm: caps the instruction set), NO_COLOR,\n"
                      "and the twins that the help of a command shows in brackets.\n\n"
                      "Exit codes: 0 done, 1 failure, 2 wrong usage, 3 bad input file, 4 device failure,\n"
                      "130 interrupted.\n");
}

void cli_options_help(const cli_command *command)
{
    if (command)
        print_command(command);
    else
        print_program();
}

int cli_help(const cli_settings *settings)
{
    const cli_command *command = settings->positional_count ? cli_command_find(settings->positional[0]) : NULL;
    if (settings->positional_count && !command)
        return cli_usage("", "unknown command '%s'", settings->positional[0]);
    if (settings->manual)
        cli_options_manual(command);
    else
        cli_options_help(command);
    return CLI_OK;
}

int cli_version(const cli_settings *settings)
{
    cli_output_format("ork %s\n", ork_version());
    if (settings->verbose) {
        const char *kernels;
        ork_error error;
        if (ork_kernels_name(&kernels, &error) != ORK_OK)
            return cli_report_error(&error);
        cli_output_format("kernels %s, %u threads by default\n", kernels, ork_default_threads());
    }
    return CLI_OK;
}

static bool names_a_file(const cli_option *option)
{
    return option->metavar && strcmp(option->metavar, "FILE") == 0;
}

/* Words that may follow an option, for the completion script. */
static void print_completion_values(const cli_command *command)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        bool is_tier = option->metavar && strcmp(option->metavar, "TIER") == 0;
        if (option->kind >= CLI_IGNORED || !option->metavar || !(option->commands & command->bit))
            continue;
        cli_output_format("        ");
        for (size_t j = 0; j < CLI_NAMES_MAX && option->names[j]; j++)
            cli_output_format("%s%s:%s", j ? "|" : "", command->name, option->names[j]);
        if (names_a_file(option)) {
            cli_output_format(") compopt -o default; COMPREPLY=(); return ;;\n");
            continue;
        }
        cli_output_format(") words='");
        if (option->choices)
            for (const cli_choice *choice = option->choices; choice->name; choice++)
                cli_output_format(choice->hidden ? "" : "%s ", choice->name);
        if (is_tier) {
            cli_output_format("auto ");
            for (const char *const *tier = ork_tier_names(); *tier; tier++)
                cli_output_format("%s ", *tier);
        }
        cli_output_format("' ;;\n");
    }
}

static void print_completion_options(const cli_command *command)
{
    cli_output_format("        %s) words='", command->name);
    for (size_t i = 0; i < cli_option_count; i++)
        if (cli_options[i].kind < CLI_IGNORED && (cli_options[i].commands & command->bit))
            for (size_t j = 0; j < CLI_NAMES_MAX && cli_options[i].names[j]; j++)
                cli_output_format("%s ", cli_options[i].names[j]);
    cli_output_format("' ;;\n");
}

void cli_options_completion_bash(void)
{
    cli_output_format("# bash completion for ork, printed by: ork completion bash\n"
                      "_ork() {\n"
                      "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                      "    local command=\"${COMP_WORDS[1]}\" words=''\n"
                      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                      "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < cli_command_count; i++)
        cli_output_format("%s ", cli_commands[i].name);
    cli_output_format("--help --version' -- \"$current\"))\n        return\n    fi\n    case \"$command\" in\n");
    for (size_t i = 0; i < cli_command_count; i++)
        if (cli_commands[i].alias)
            cli_output_format("        %s) command=%s ;;\n", cli_commands[i].alias, cli_commands[i].name);
    cli_output_format("    esac\n    case \"$command:$previous\" in\n");
    for (size_t i = 0; i < cli_command_count; i++)
        print_completion_values(&cli_commands[i]);
    cli_output_format("        *) case \"$current\" in\n"
                      "        -*) case \"$command\" in\n");
    for (size_t i = 0; i < cli_command_count; i++)
        print_completion_options(&cli_commands[i]);
    cli_output_format("        esac ;;\n"
                      "        *) case \"$command\" in\n"
                      "        help) words='");
    for (size_t i = 0; i < cli_command_count; i++)
        cli_output_format("%s ", cli_commands[i].name);
    cli_output_format("' ;;\n"
                      "        completion) words='bash' ;;\n"
                      "        probe) words='bandwidth compute' ;;\n"
                      "        *) compopt -o default; COMPREPLY=(); return ;;\n"
                      "        esac ;;\n"
                      "        esac ;;\n"
                      "    esac\n"
                      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                      "}\n"
                      "complete -F _ork ork\n");
}

int cli_completion(const cli_settings *settings)
{
    if (settings->positional_count && strcmp(settings->positional[0], "bash") != 0)
        return cli_usage("completion", "'%s': only bash is there", settings->positional[0]);
    cli_options_completion_bash();
    return CLI_OK;
}
