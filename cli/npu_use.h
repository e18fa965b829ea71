/* The NPU of a model's sessions, as --npu and its companions ask for it: opening, what is said of it, what it did. */
#ifndef ORK_CLI_NPU_USE_H
#define ORK_CLI_NPU_USE_H

#include "figures.h"
#include "ork/ork.h"
#include "settings.h"

#include <jansson.h>

typedef struct cli_npu {
    const cli_settings *settings;
    ork_npu *npu;        /* NULL: none was asked for, or it could not be opened */
    char *why;           /* why it could not be opened, or NULL */
    cli_figures figures; /* what it is to take; empty without an NPU, unless a command opens them */
} cli_npu_use;

/* Usage errors of the options among each other. */
int cli_npu_check(const cli_settings *settings, const char *command);
/* Opens the NPU that the settings ask for. When it is not to be had, says why and lets the CPU do everything, or fails
 * with CLI_DEVICE where it is required. A wrong fault script or board file always fails. */
int cli_npu_open(const cli_settings *settings, cli_npu_use *npu);
void cli_npu_close(cli_npu_use *npu);
/* Checks that a new session can use the NPU; says so if not, or fails where it is required. */
int cli_npu_check_session(const cli_npu_use *npu, const ork_session *session);

/* "soft", "rknpu", ... or "off". */
const char *cli_npu_name(const cli_npu_use *npu);
/* Share of the multiply-adds on weights, of passes of several rows, whose results came from the NPU: 0 to 1. */
double cli_npu_share(const ork_session *session);
/* Chains in time, of those that were submitted. */
double cli_overlay_hit_rate(const ork_overlay_stats *overlay);
typedef struct cli_npu_troubles {
    uint64_t declined, redone, faults; /* since it was opened; faults: of all kinds */
    bool off;
} cli_npu_troubles;
cli_npu_troubles cli_npu_get_troubles(const cli_npu_use *npu);
/* What it did, and where it did less than asked, on stderr; nothing when no NPU was asked for. */
void cli_npu_say(const cli_npu_use *npu, const ork_session *session);
/* Everything that the NPU counts; null when no NPU was asked for. */
json_t *cli_npu_json(const cli_npu_use *npu, const ork_session *session);
/* The exit code of a command that ends with `code`: CLI_DEVICE instead of CLI_OK where the NPU is required and has
 * switched itself off or computed nothing of what it could have. Says that it is off in any case. */
int cli_npu_end(const cli_npu_use *npu, const ork_session *session, int code);

#endif
