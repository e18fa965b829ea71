/* The figures that routes and predictions come from: which of calibration, board and guesses count. One rule for what
 * sessions do and what `ork explain` says of them. */
#ifndef ORK_CLI_FIGURES_H
#define ORK_CLI_FIGURES_H

#include "ork/ork.h"
#include "settings.h"

typedef struct cli_figures {
    ork_perf *perf;
    char *name; /* "calibration PATH", "board rk3588", "guesses" */
} cli_figures;

/* --calibration, else --npu-board, else the calibration in the cache folder if it counts on this machine and with this NPU,
 * else with an NPU (which may be NULL) the built-in board's figures, else guesses without an NPU. A given file that does not
 * count is refused with the reason; the cache's is passed over with a warning that says it. Exit code. */
int cli_figures_open(const cli_settings *settings, const ork_npu *npu, cli_figures *figures);
void cli_figures_close(cli_figures *figures);

/* The path of a board file as the library wants it: NULL for none and for the name of the built-in board. */
const char *cli_board_path(const char *given);

#endif
