/* The progress line on stderr: redrawn on a terminal, one line every 10 % elsewhere. */
#ifndef ORK_CLI_PROGRESS_H
#define ORK_CLI_PROGRESS_H

#include "ork/ork.h"

typedef struct cli_progress {
    const char *verb; /* "packing", "loading", "checking" */
    bool started;
    double begin_seconds;
    double start_seconds;     /* clock at the first report */
    uint64_t start_bytes;     /* done at the first report: what was there before is not our speed */
    unsigned printed_percent; /* last line printed where stderr is no terminal */
} cli_progress;

void cli_progress_begin(cli_progress *progress, const char *verb);
/* An ork_progress_function whose context is a cli_progress; says stop after an interrupt. */
bool cli_progress_report(void *context, const ork_progress *state);
void cli_progress_end(cli_progress *progress);
/* Removes a drawn line before something else is printed. */
void cli_progress_clear_line(void);
/* "1:02:03", "4:05" */
const char *cli_format_duration(double seconds, char *text, size_t capacity);

#endif
