/* Owns `ork npu`: what an NPU says of itself, its self-test, and register programs as text. Must not know drivers or
 * registers. */
#include "commands.h"
#include "json.h"
#include "report.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdio.h>
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

struct self_test {
    bool done;
    uint32_t shapes;
    uint64_t checked;
};

static void print_info_json(const ork_npu_info *info, const char *version, const struct self_test *test)
{
    json_t *object = json_object();
    cli_json_set_text(object, "driver", info->driver);
    cli_json_set_text(object, "version", version);
    cli_json_set_text(object, "soc", info->soc);
    cli_json_set_text(object, "node", info->node);
    cli_json_set_integer(object, "cores", info->cores);
    cli_json_set_integer(object, "domains", info->domains);
    cli_json_set_integer(object, "domain_bytes", info->domain_bytes);
    cli_json_set_integer(object, "clock_hz", info->clock_hz);
    if (test->done) {
        json_t *item = json_object();
        cli_json_set_integer(item, "shapes", test->shapes);
        cli_json_set_integer(item, "checked", test->checked);
        json_object_set_new(object, "self_test", item);
    }
    cli_json_print(object);
}

static void print_info(const ork_npu_info *info, const char *version, const struct self_test *test)
{
    char bytes[32];
    cli_output_format("driver   %s %s\nsoc      ", info->driver, version);
    cli_output_safe(info->soc);
    cli_output_format("\nnode     ");
    cli_output_safe(*info->node ? info->node : "none");
    cli_output_format("\ncores    %u\nmemory   %u domain%s of %s\n", info->cores, info->domains,
                      info->domains == 1 ? "" : "s", cli_format_bytes(info->domain_bytes, bytes, sizeof bytes));
    if (info->clock_hz)
        cli_output_format("clock    %.0f MHz\n", (double)info->clock_hz / 1e6);
    else
        cli_output_format("clock    unknown\n");
    if (test->done)
        cli_output_format("passed   %" PRIu64 " products of %u shapes are exact\n", test->checked, test->shapes);
}

/* The device's fault, unless it was the user's or a file's. */
static int report_device_error(const ork_error *error)
{
    int code = cli_report_error(error);
    return error->code == ORK_BAD_ARGUMENT || error->code == ORK_BAD_FILE ? code : CLI_DEVICE;
}

static int show_device(const cli_settings *settings)
{
    struct self_test test = {.done = settings->npu_self_test};
    ork_npu_params params = {
        .kind = (ork_npu_kind)settings->npu_device,
        .skip_self_test = true,
        .board = settings->npu_board,
        .faults = settings->npu_faults,
    };
    ork_npu *npu;
    ork_error error;
    if (params.kind != ORK_NPU_SOFT && (params.board || params.faults))
        return cli_usage("npu", "%s is for --device soft", params.board ? "--board" : "--faults");
    int code = params.board ? cli_check_input(params.board) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (ork_npu_open(&params, &npu, &error) != ORK_OK)
        return report_device_error(&error);
    if (test.done && ork_npu_self_test(npu, &test.shapes, &test.checked, &error) != ORK_OK) {
        code = report_device_error(&error);
    } else {
        ork_npu_info info;
        char version[32];
        ork_npu_get_info(npu, &info);
        snprintf(version, sizeof version, "%u.%u.%u", info.driver_version / 10000, info.driver_version / 100 % 100,
                 info.driver_version % 100);
        if (settings->json)
            print_info_json(&info, version, &test);
        else
            print_info(&info, version, &test);
    }
    ork_npu_close(npu);
    return code;
}

int cli_npu(const cli_settings *settings)
{
    const char *subject = settings->positional_count ? settings->positional[0] : "";
    bool has_shape = settings->npu_rows || settings->npu_inputs || settings->npu_channels;
    if (!*subject && has_shape)
        return cli_usage("npu", "a shape is for dump");
    if (!settings->positional_count)
        return show_device(settings);
    if (strcmp(subject, "dump") != 0)
        return cli_usage("npu", "'%s' is not dump", subject);
    if (settings->npu_self_test || settings->npu_board || settings->npu_faults)
        return cli_usage("npu", "dump uses no device");
    if (settings->positional_count == 1)
        return dump_shape(settings);
    if (has_shape)
        return cli_usage("npu", "dump: a file, or a shape, not both");
    return dump_file(settings, settings->positional[1]);
}
