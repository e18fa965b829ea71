/* Owns `ork verify`. */
#include "commands.h"
#include "json.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

int cli_verify(const cli_settings *settings)
{
    if (settings->positional_count == 0)
        return cli_usage("verify", "no file given");
    const char *path = settings->positional[0];
    ork_card *card;
    ork_error error;
    int code = cli_check_input(path);
    if (code != CLI_OK)
        return code;
    if (ork_card_open(path, &card, &error) != ORK_OK)
        return cli_report_input_error(&error);
    ork_file_kind kind = ork_card_get_summary(card)->kind;
    ork_card_close(card);
    if (kind == ORK_FILE_GGUF)
        return cli_fail(CLI_BAD_INPUT, path,
                        "is a GGUF, which has no checksums; ork pack --dry-run checks what it can");

    cli_progress progress;
    ork_verify_report report;
    double start = cli_clock();
    cli_progress_begin(&progress, "checking");
    ork_status status = ork_verify_file(path, cli_progress_report, &progress, &report, &error);
    cli_progress_end(&progress);
    if (status == ORK_CANCELLED)
        return cli_interrupt_exit_code();
    if (status != ORK_OK)
        return cli_report_input_error(&error);
    if (settings->json) {
        json_t *object = json_object();
        cli_json_set_text(object, "file", path);
        cli_json_set_boolean(object, "ok", report.non_finite_count == 0);
        cli_json_set_integer(object, "planes", report.plane_count);
        cli_json_set_integer(object, "checked_bytes", report.checked_bytes);
        cli_json_set_integer(object, "non_finite", report.non_finite_count);
        cli_json_set_number(object, "seconds", cli_clock() - start);
        cli_json_print(object);
    }
    if (report.non_finite_count)
        return cli_fail(CLI_BAD_INPUT, path, "holds %zu scales or weights that are not finite",
                        report.non_finite_count);
    char size[32];
    if (!settings->json && !settings->quiet)
        cli_output_format("ok: %zu planes, %s, every checksum, range and scale is right (%.1f s)\n", report.plane_count,
                          cli_format_bytes(report.checked_bytes, size, sizeof size), cli_clock() - start);
    return CLI_OK;
}
