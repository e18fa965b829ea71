/* Owns `ork npu`: register programs as text. Must not know what stands in a register. */
#include "commands.h"
#include "json.h"
#include "report.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM_FILE_MAX = 1 << 20 };

/* One string a line. */
static void print_json(const char *text)
{
    json_t *object = json_object(), *lines = json_array();
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t length = end ? (size_t)(end - text) : strlen(text);
        json_array_append_new(lines, cli_json_bytes(text, length));
        text += length + (end != NULL);
    }
    json_object_set_new(object, "program", lines);
    cli_json_print(object);
}

static int print_program(const cli_settings *settings, char *text)
{
    if (settings->json)
        print_json(text);
    else
        cli_output_write(text, strlen(text));
    ork_free(text);
    return CLI_OK;
}

static int dump_file(const cli_settings *settings, const char *path)
{
    char *words, *text;
    size_t size_bytes;
    ork_error error;
    int code = cli_read_file(path, PROGRAM_FILE_MAX, &words, &size_bytes);
    if (code != CLI_OK)
        return code;
    ork_status status = ork_npu_disassemble(words, size_bytes, &text, &error);
    free(words);
    if (status != ORK_OK)
        return cli_fail(CLI_BAD_INPUT, path, "%s", error.what);
    return print_program(settings, text);
}

static int dump_shape(const cli_settings *settings)
{
    char *text;
    ork_error error;
    if (!settings->npu_rows || !settings->npu_inputs || !settings->npu_channels)
        return cli_usage("npu", "dump: a file, or all of --rows, --inputs and --channels?");
    if (ork_npu_describe_program((uint32_t)settings->npu_bits, (uint32_t)settings->npu_rows,
                                 (uint32_t)settings->npu_inputs, (uint32_t)settings->npu_channels, &text,
                                 &error) != ORK_OK)
        return cli_usage("npu", "dump: %s", error.what);
    return print_program(settings, text);
}

int cli_npu(const cli_settings *settings)
{
    const char *subject = settings->positional_count ? settings->positional[0] : "";
    bool has_shape = settings->npu_rows || settings->npu_inputs || settings->npu_channels;
    if (strcmp(subject, "dump") != 0)
        return *subject ? cli_usage("npu", "'%s' is not dump", subject) : cli_usage("npu", "dump?");
    if (settings->positional_count == 1)
        return dump_shape(settings);
    if (has_shape)
        return cli_usage("npu", "dump: a file, or a shape, not both");
    return dump_file(settings, settings->positional[1]);
}
