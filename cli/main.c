/* Owns the way from argv to a command and from its result to the exit code. Must not know what commands do. */
#include "options.h"
#include "report.h"
#include "terminal.h"

#include <string.h>
#include <sys/stat.h>

static int unknown_command(const char *word)
{
    const char *names[32];
    size_t count = 0;
    for (size_t i = 0; i < cli_command_count && count < 31; i++)
        names[count++] = cli_commands[i].name;
    const char *nearest = cli_nearest(word, names, count);
    struct stat status;
    if (!nearest && stat(word, &status) == 0 && S_ISREG(status.st_mode))
        return cli_usage("", "'%s' is a file, not a command; to generate text from it: ork run %s", word, word);
    if (*word == '-')
        return cli_usage("", "a command comes first, for example: ork run %s ...", word);
    return nearest ? cli_usage("", "unknown command '%s', did you mean '%s'?", word, nearest)
                   : cli_usage("", "unknown command '%s'", word);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return cli_usage("", "no command");
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0)
        word = "version";
    else if (strcmp(word, "--completion-bash") == 0)
        word = "completion";
    const cli_command *command = cli_command_find(word);
    if (!command)
        return unknown_command(word);
    cli_settings settings;
    cli_settings_init(&settings);
    int code = cli_options_parse(command, argc - 2, argv + 2, &settings);
    if (code == CLI_OK && settings.help)
        cli_options_help(command);
    else if (code == CLI_OK)
        code = command->run(&settings);
    cli_settings_free(&settings);
    return code;
}

int main(int argc, char **argv)
{
    cli_terminal_setup();
    return cli_output_finish(dispatch(argc, argv));
}
