/* Owns `ork pack`. */
#include "commands.h"
#include "json.h"
#include "model.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"
#include "tiers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "dir/model-00001-of-00003.gguf" -> "dir/model.orkpack" */
static char *default_output(const char *input)
{
    const char *slash = strrchr(input, '/');
    size_t stem = slash ? (size_t)(slash - input) + 1 : 0, length = strlen(input);
    if (length > stem + 5 && strcmp(input + length - 5, ".gguf") == 0)
        length -= 5;
    unsigned part, parts;
    int used = 0;
    if (length > stem + 15 && sscanf(input + length - 15, "-%5u-of-%5u%n", &part, &parts, &used) == 2 && used == 15)
        length -= 15;
    return cli_format_text("%.*s.orkpack", (int)length, input);
}

/* Says what is wrong with the place of the output before any work is done. */
static int check_output(const cli_settings *settings, const char *output)
{
    struct stat status;
    if (stat(output, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return cli_fail(CLI_FAILURE, output, "is a directory");
        if (!S_ISREG(status.st_mode))
            return cli_fail(CLI_FAILURE, output, "exists and is not a regular file");
        if (!settings->force && !settings->dry_run)
            return cli_fail(CLI_FAILURE, output, "exists; --force replaces it");
    }
    char *folder = cli_copy_text(output), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    const char *name = slash ? folder : ".";
    int code = CLI_OK;
    if (stat(name, &status) != 0)
        code = cli_fail(CLI_FAILURE, name, "no place for the output: %s", strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        code = cli_fail(CLI_FAILURE, name, "no place for the output: is not a directory");
    free(folder);
    return code;
}

/* One line a tensor, in the manner of llama-quantize. */
static void print_tensor(void *context, size_t index, size_t count, const ork_tensor_info *tensor,
                         uint64_t source_bytes)
{
    char shape[96], size[2][32], wrong[48] = "";
    (void)context;
    if (tensor->relative_error > 0)
        snprintf(wrong, sizeof wrong, ", error %.4f", tensor->relative_error);
    fprintf(stderr, "[%4zu/%4zu] %-36s - [%s] type = %s, packed as %s .. size = %s -> %s%s\n", index + 1, count,
            tensor->name, cli_format_shape(tensor->dimensions, tensor->dimension_count, shape, sizeof shape),
            tensor->source_type, tensor->type, cli_format_bytes(source_bytes, size[0], sizeof size[0]),
            cli_format_bytes(tensor->size_bytes, size[1], sizeof size[1]), wrong);
}

/* The same from the finished pack, which knows the errors. */
static int print_packed(const char *input, const char *output)
{
    ork_card *source = NULL, *pack = NULL;
    ork_error error;
    if (ork_card_open(input, &source, &error) != ORK_OK || ork_card_open(output, &pack, &error) != ORK_OK) {
        if (source)
            ork_card_close(source);
        return cli_report_error(&error);
    }
    size_t count = ork_card_get_summary(pack)->tensor_count;
    size_t source_count = ork_card_get_summary(source)->tensor_count;
    for (size_t i = 0; i < count; i++) {
        ork_tensor_info to, from;
        uint64_t source_bytes = 0;
        if (ork_card_get_tensor(pack, i, &to) != ORK_OK)
            continue;
        for (size_t j = 0; !source_bytes && j < source_count; j++)
            if (ork_card_get_tensor(source, j, &from) == ORK_OK && strcmp(from.name, to.name) == 0)
                source_bytes = from.size_bytes;
        print_tensor(NULL, i, count, &to, source_bytes);
    }
    ork_card_close(source);
    ork_card_close(pack);
    return CLI_OK;
}

static void print_report_json(const cli_settings *settings, const char *input, const char *output,
                              const ork_pack_report *report)
{
    json_t *object = json_object();
    cli_json_set_text(object, "input", input);
    cli_json_set_text(object, "output", output);
    cli_json_set_boolean(object, "dry_run", settings->dry_run);
    cli_json_set_integer(object, "tensors", report->tensor_count);
    cli_json_set_integer(object, "resumed_tensors", report->resumed_tensor_count);
    cli_json_set_integer(object, "skipped_tensors", report->skipped_tensor_count);
    cli_json_set_integer(object, "unmatched_rules", report->unmatched_rule_count);
    cli_json_set_integer(object, "neutral_importances", report->neutral_importance_count);
    cli_json_set_integer(object, "source_bytes", report->source_bytes);
    cli_json_set_integer(object, "pack_bytes", report->pack_bytes);
    cli_json_set_number(object, "bits_per_weight", report->bits_per_weight);
    cli_json_set_number(object, "mean_relative_error", report->mean_relative_error);
    cli_json_set_number(object, "seconds", report->seconds);
    cli_json_print(object);
}

static void say_report(const cli_settings *settings, const char *output, const ork_pack_report *report)
{
    char size[2][32];
    if (report->unmatched_rule_count)
        cli_say("%zu of the --tier rules matched no tensor", report->unmatched_rule_count);
    if (report->skipped_tensor_count)
        cli_say("%zu tensors are not part of the architecture and were left out", report->skipped_tensor_count);
    if (report->neutral_importance_count)
        cli_say("the importance matrix says nothing of %zu matrices", report->neutral_importance_count);
    if (report->resumed_tensor_count)
        cli_say("%zu tensors were taken from an interrupted run", report->resumed_tensor_count);
    cli_format_bytes(report->source_bytes, size[0], sizeof size[0]);
    cli_format_bytes(report->pack_bytes, size[1], sizeof size[1]);
    if (settings->dry_run)
        cli_say("%s would hold %zu tensors, %s (from %s), %.2f bits a weight; nothing was written", output,
                report->tensor_count, size[1], size[0], report->bits_per_weight);
    else
        cli_say("%s holds %zu tensors, %s (from %s), %.2f bits a weight, relative error %.4f, in %.1f s", output,
                report->tensor_count, size[1], size[0], report->bits_per_weight, report->mean_relative_error,
                report->seconds);
}

static int pack_to(const cli_settings *settings, const char *input, const char *output)
{
    cli_progress progress;
    cli_progress_begin(&progress, settings->dry_run ? "planning" : "packing");
    ork_pack_params params = {
        .default_tier = settings->default_tier,
        .tier_rules = settings->tiers.items,
        .tier_rule_count = settings->tiers.count,
        .imatrix_path = settings->imatrix,
        .overwrite = settings->force,
        .dry_run = settings->dry_run,
        .threads = settings->threads > 0 ? (uint32_t)settings->threads : 0,
        .progress = cli_progress_report,
        .progress_context = &progress,
        .planned = settings->verbose && settings->dry_run ? print_tensor : NULL,
    };
    ork_pack_report report;
    ork_error error;
    ork_status status = ork_pack_file(input, output, &params, &report, &error);
    cli_progress_end(&progress);
    if (status == ORK_CANCELLED) {
        cli_say("interrupted; what is packed is kept: the same command goes on, the output is not there yet");
        return cli_interrupt_exit_code();
    }
    if (status != ORK_OK) {
        int code = cli_report_error(&error);
        bool is_output = strncmp(error.where, output, strlen(output)) == 0;
        return is_output && code == CLI_BAD_INPUT ? CLI_FAILURE : code; /* its folder went away, or takes no files */
    }
    if (settings->verbose && !settings->dry_run) {
        int code = print_packed(input, output);
        if (code != CLI_OK)
            return code;
    }
    say_report(settings, output, &report);
    if (settings->json)
        print_report_json(settings, input, output, &report);
    return CLI_OK;
}

int cli_pack(const cli_settings *settings)
{
    if (settings->positional_count == 0)
        return cli_usage("pack", "no input given");
    const char *input = settings->positional[0];
    int code = cli_check_input(input);
    if (code == CLI_OK && settings->imatrix)
        code = cli_check_input(settings->imatrix);
    if (code != CLI_OK)
        return code;
    char *output = settings->positional_count > 1 ? cli_copy_text(settings->positional[1]) : default_output(input);
    code = check_output(settings, output);
    if (code == CLI_OK)
        code = cli_affinity_apply(settings, "pack");
    if (code == CLI_OK)
        code = pack_to(settings, input, output);
    free(output);
    return code;
}
