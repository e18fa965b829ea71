/* Owns the one redrawn line of stderr. Must not know what is in progress. */
#include "progress.h"
#include "report.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

static bool is_line_drawn;

void cli_progress_clear_line(void)
{
    if (!is_line_drawn)
        return;
    is_line_drawn = false;
    fputs("\r\033[K", stderr);
}

const char *cli_format_duration(double seconds, char *text, size_t capacity)
{
    unsigned long total = seconds > 0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;
    if (total >= 3600)
        snprintf(text, capacity, "%lu:%02lu:%02lu", total / 3600, total / 60 % 60, total % 60);
    else
        snprintf(text, capacity, "%lu:%02lu", total / 60, total % 60);
    return text;
}

void cli_progress_begin(cli_progress *progress, const char *verb)
{
    memset(progress, 0, sizeof *progress);
    progress->verb = verb;
    progress->begin_seconds = cli_clock();
}

/* "62.1 MB/s, 0:42 left", empty while nothing can be said. */
static void format_speed(const cli_progress *progress, const ork_progress *state, char *text, size_t capacity)
{
    double elapsed = cli_clock() - progress->start_seconds;
    double done = state->done_bytes > progress->start_bytes ? (double)(state->done_bytes - progress->start_bytes) : 0;
    text[0] = 0;
    if (elapsed < 0.05 || done <= 0)
        return;
    char left[32];
    double rate = done / elapsed;
    double rest = state->total_bytes > state->done_bytes ? (double)(state->total_bytes - state->done_bytes) : 0;
    snprintf(text, capacity, ", %.1f MB/s, %s left", rate / 1e6, cli_format_duration(rest / rate, left, sizeof left));
}

static void draw_line(const cli_progress *progress, const ork_progress *state, unsigned percent, const char *speed)
{
    enum { BAR = 20 };
    char bar[BAR + 1], line[512];
    for (unsigned i = 0; i < BAR; i++)
        bar[i] = i * 100 < percent * BAR ? '#' : '.';
    bar[BAR] = 0;
    int length = snprintf(line, sizeof line, "%s [%s] %3u %%%s  %s", progress->verb, bar, percent, speed,
                          state->step ? state->step : "");
    if (length < 0)
        return;
    unsigned columns = cli_terminal_columns();
    if (columns > sizeof line)
        columns = sizeof line;
    line[columns - 1] = 0; /* a full last column would wrap */
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "\r%s\033[K", line);
    is_line_drawn = true;
}

bool cli_progress_report(void *context, const ork_progress *state)
{
    cli_progress *progress = context;
    if (!progress->started) {
        progress->started = true;
        progress->start_seconds = cli_clock();
        progress->start_bytes = state->done_bytes;
    }
    unsigned percent = 100;
    if (state->total_bytes && state->done_bytes < state->total_bytes)
        percent = (unsigned)(100.0 * (double)state->done_bytes / (double)state->total_bytes);
    double shown_after = cli_terminal_is_errors() ? 0.2 : 1; /* what is done at once needs no line */
    if (!cli_report_is_quiet() && cli_clock() - progress->begin_seconds >= shown_after) {
        char speed[96];
        format_speed(progress, state, speed, sizeof speed);
        if (cli_terminal_is_errors()) {
            draw_line(progress, state, percent, speed);
        } else if (percent >= progress->printed_percent + 10) {
            progress->printed_percent = percent / 10 * 10;
            fprintf(stderr, "ork: %s %u %%%s\n", progress->verb, percent, speed);
        }
    }
    return !cli_interrupted();
}

void cli_progress_end(cli_progress *progress)
{
    (void)progress;
    cli_progress_clear_line();
}
