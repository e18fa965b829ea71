/* Owns the choice between calibration, board and guesses. Must not know what the figures are used for. */
#include "figures.h"
#include "cache.h"
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char builtin_board[] = "rk3588";

const char *cli_board_path(const char *given)
{
    return given && strcmp(given, builtin_board) != 0 ? given : NULL;
}

/* Of several that a benchmark goes through, the first. */
static uint32_t threads_of(const cli_settings *settings)
{
    if (settings->bench_threads.count)
        return (uint32_t)settings->bench_threads.items[0];
    return settings->threads > 0 ? (uint32_t)settings->threads : 0;
}

static int open_given(const cli_settings *settings, const ork_npu *npu, cli_figures *figures)
{
    const char *path = settings->dispatch_calibration;
    ork_error error;
    const int code = cli_check_input(path);
    if (code != CLI_OK)
        return code;
    if (ork_perf_open_calibration(path, threads_of(settings), npu, &figures->perf, &error) != ORK_OK)
        return cli_report_input_error(&error);
    figures->name = cli_format_text("calibration %s", path);
    return CLI_OK;
}

static int open_board(const char *given, cli_figures *figures)
{
    const char *path = cli_board_path(given);
    ork_error error;
    const int code = path ? cli_check_input(path) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (ork_perf_open_board(path, &figures->perf, &error) != ORK_OK)
        return cli_report_input_error(&error);
    figures->name = cli_format_text("board %s", path ? path : builtin_board);
    return CLI_OK;
}

/* False: there is none, or it does not count, which is said. */
static bool open_stored(const cli_settings *settings, const ork_npu *npu, cli_figures *figures)
{
    ork_error error;
    char *path = cli_cache_path("/calibration.json");
    bool opened = false;
    if (path && access(path, F_OK) != 0) {
        if (errno != ENOENT)
            cli_say("%s: cannot open: %s; it is passed over", path, strerror(errno));
    } else if (path) {
        opened = ork_perf_open_calibration(path, threads_of(settings), npu, &figures->perf, &error) == ORK_OK;
        if (!opened)
            cli_say("%s%s%s; it is passed over", error.where, *error.where ? ": " : "",
                    *error.what ? error.what : ork_status_name(error.code));
    }
    if (opened)
        figures->name = cli_format_text("calibration %s", path);
    free(path);
    return opened;
}

int cli_figures_open(const cli_settings *settings, const ork_npu *npu, cli_figures *figures)
{
    ork_error error;
    *figures = (cli_figures){0};
    if (settings->dispatch_calibration)
        return open_given(settings, npu, figures);
    if (settings->npu_board)
        return open_board(settings->npu_board, figures);
    if (open_stored(settings, npu, figures))
        return CLI_OK;
    if (npu)
        return open_board(NULL, figures);
    cli_say("predicting by guesses, without an NPU; ork calibrate measures this machine, --npu-board names another");
    if (ork_perf_open_assumed(&figures->perf, &error) != ORK_OK)
        return cli_report_error(&error);
    figures->name = cli_copy_text("guesses");
    return CLI_OK;
}

void cli_figures_close(cli_figures *figures)
{
    ork_perf_close(figures->perf);
    free(figures->name);
    *figures = (cli_figures){0};
}
