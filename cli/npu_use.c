/* Owns the step from the NPU options to an open device, and the words about it. Must not know commands. */
#include "npu_use.h"
#include "json.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_npu_check(const cli_settings *settings, const char *command)
{
    if (settings->npu_kind != ORK_NPU_SOFT && (settings->npu_faults || settings->npu_board || settings->npu_real_time))
        return cli_usage(command, "%s is for --npu soft",
                         settings->npu_faults  ? "--npu-faults"
                         : settings->npu_board ? "--npu-board"
                                               : "--npu-real-time");
    if (!settings->npu_kind && (settings->npu_required || settings->overlay))
        return cli_usage(command, "%s needs --npu", settings->overlay ? "--overlay" : "--npu-required");
    if (!settings->overlay && (settings->overlay_all || settings->overlay_window_us || settings->overlay_layers))
        return cli_usage(command, "--overlay-%s needs --overlay",
                         settings->overlay_all      ? "all"
                         : settings->overlay_layers ? "layers"
                                                    : "window");
    if (settings->overlay_layers && settings->overlay != ORK_OVERLAY_LATE)
        return cli_usage(command, "--overlay-layers needs --overlay late");
    if (settings->overlay && settings->nested == ORK_NESTED_FULL)
        return cli_usage(command, "--overlay adds to base planes; with --nested full there is nothing to add");
    if (!settings->npu_kind && settings->dispatch_calibration)
        return cli_usage(command, "--calibration needs --npu");
    const char *board = cli_board_path(settings->npu_board);
    return board ? cli_check_input(board) : CLI_OK;
}

/* What the user got wrong is an error even where the CPU could go on. */
static bool is_mistake(ork_status status)
{
    return status == ORK_BAD_ARGUMENT || status == ORK_BAD_FILE;
}

int cli_npu_open(const cli_settings *settings, cli_npu_use *npu)
{
    *npu = (cli_npu_use){.settings = settings};
    if (!settings->npu_kind)
        return CLI_OK;
    const ork_npu_params params = {
        .kind = (ork_npu_kind)settings->npu_kind,
        .cores = (uint32_t)settings->npu_cores,
        .rows_min = (uint32_t)settings->npu_rows,
        .memory_bytes = (uint64_t)settings->npu_memory << 20,
        .timeout_us = (uint32_t)settings->npu_timeout,
        .board = cli_board_path(settings->npu_board),
        .faults = settings->npu_faults,
        .real_time = settings->npu_real_time,
    };
    ork_error error;
    ork_status status = ork_npu_open(&params, &npu->npu, &error);
    if (status == ORK_OK)
        return CLI_OK;
    npu->npu = NULL;
    if (is_mistake(status))
        return cli_report_error(&error);
    npu->why = cli_format_text("%s%s%s", error.where, *error.where ? ": " : "",
                               *error.what ? error.what : ork_status_name(status));
    if (settings->npu_required)
        return cli_fail(CLI_DEVICE, "NPU", "%s", npu->why);
    cli_say("no NPU, the CPU computes everything: %s (ork doctor tells more)", npu->why);
    return CLI_OK;
}

void cli_npu_close(cli_npu_use *npu)
{
    if (npu->npu)
        ork_npu_close(npu->npu);
    free(npu->why);
    cli_figures_close(&npu->figures);
    memset(npu, 0, sizeof *npu);
}

int cli_npu_check_session(const cli_npu_use *npu, const ork_session *session)
{
    ork_session_stats stats;
    ork_session_get_stats(session, &stats);
    if (npu->npu && npu->settings->overlay && !stats.overlay.on) {
        if (npu->settings->npu_required)
            return cli_fail(CLI_DEVICE, "overlay", "%s", stats.overlay.why);
        cli_say("no overlay, decoding has what the CPU computes: %s", stats.overlay.why);
    }
    if (!npu->npu || stats.npu)
        return CLI_OK;
    if (npu->settings->npu_required)
        return cli_fail(CLI_DEVICE, "NPU", "%s", stats.npu_why);
    cli_say("the NPU takes no part, the CPU computes everything: %s", stats.npu_why);
    return CLI_OK;
}

const char *cli_npu_name(const cli_npu_use *npu)
{
    static const char *const names[] = {
        [ORK_NPU_SOFT] = "soft", [ORK_NPU_RKNPU] = "rknpu", [ORK_NPU_ROCKET] = "rocket", [ORK_NPU_AUTO] = "auto"};
    if (!npu->settings || !npu->settings->npu_kind)
        return "off";
    if (!npu->npu)
        return names[npu->settings->npu_kind];
    ork_npu_info info;
    ork_npu_get_info(npu->npu, &info);
    return info.driver;
}

double cli_npu_share(const ork_session *session)
{
    ork_session_stats stats;
    ork_session_get_stats(session, &stats);
    return stats.batch_multiply_adds ? (double)stats.npu_multiply_adds / (double)stats.batch_multiply_adds : 0;
}

/* The counters of what went wrong, by their names in the reports. */
typedef struct trouble {
    const char *key, *words;
    uint64_t count;
} trouble;
enum { TROUBLES = 10 };

static void list_troubles(const ork_npu_stats *stats, trouble troubles[static TROUBLES])
{
    const trouble list[TROUBLES] = {
        {"declined", "declined", stats->declined},
        {"redone", "computed again by the CPU", stats->redone},
        {"late", "late", stats->late},
        {"never_started", "never started", stats->never_started},
        {"stopped", "stopped half way", stats->stopped},
        {"failed_checks", "wrong results", stats->failed_checks},
        {"refused_submits", "refused submits", stats->refused_submits},
        {"resets", "resets", stats->resets},
        {"failed_resets", "failed resets", stats->failed_resets},
        {"quarantined_bytes", "bytes in quarantine", stats->quarantined_bytes},
    };
    memcpy(troubles, list, sizeof list);
}

cli_npu_troubles cli_npu_get_troubles(const cli_npu_use *npu)
{
    ork_npu_stats stats = {0};
    if (npu->npu)
        ork_npu_get_stats(npu->npu, &stats);
    return (cli_npu_troubles){
        .declined = stats.declined,
        .redone = stats.redone,
        .faults = stats.late + stats.never_started + stats.stopped + stats.failed_checks + stats.refused_submits,
        .off = stats.off,
    };
}

double cli_overlay_hit_rate(const ork_overlay_stats *overlay)
{
    return overlay->submitted ? (double)overlay->in_time / (double)overlay->submitted : 0;
}

static void say_overlay(const ork_overlay_stats *overlay)
{
    char text[3][32];
    if (!overlay->on)
        return;
    cli_say(
        "overlay: %u chains a token, %s of %s sensitive weights; %llu planned, %llu submitted, %llu in time (%.1f %%), "
        "%llu late, %llu faulted, %llu found the NPU busy, %llu rested; %s of int8 weights used",
        overlay->chains, cli_format_bytes(overlay->resident_bytes, text[0], sizeof text[0]),
        cli_format_bytes(overlay->sensitive_bytes, text[1], sizeof text[1]), (unsigned long long)overlay->planned,
        (unsigned long long)overlay->submitted, (unsigned long long)overlay->in_time,
        100 * cli_overlay_hit_rate(overlay), (unsigned long long)overlay->late, (unsigned long long)overlay->faulted,
        (unsigned long long)overlay->busy, (unsigned long long)overlay->rested,
        cli_format_bytes(overlay->bytes, text[2], sizeof text[2]));
}

static json_t *overlay_json(const cli_settings *settings, const ork_overlay_stats *overlay)
{
    static const char *const modes[] = {
        [ORK_OVERLAY_OFF] = "off", [ORK_OVERLAY_JOIN] = "on", [ORK_OVERLAY_LATE] = "late"};
    json_t *object = json_object();
    cli_json_set_text(object, "mode", modes[settings->overlay]);
    cli_json_set_boolean(object, "on", overlay->on);
    cli_json_set_text(object, "why", overlay->why);
    cli_json_set_integer(object, "chains", overlay->chains);
    cli_json_set_integer(object, "resident_bytes", overlay->resident_bytes);
    cli_json_set_integer(object, "sensitive_bytes", overlay->sensitive_bytes);
    cli_json_set_integer(object, "planned", overlay->planned);
    cli_json_set_integer(object, "submitted", overlay->submitted);
    cli_json_set_integer(object, "busy", overlay->busy);
    cli_json_set_integer(object, "rested", overlay->rested);
    cli_json_set_integer(object, "in_time", overlay->in_time);
    cli_json_set_integer(object, "late", overlay->late);
    cli_json_set_integer(object, "faulted", overlay->faulted);
    cli_json_set_integer(object, "bytes", overlay->bytes);
    cli_json_set_number(object, "hit_rate", cli_overlay_hit_rate(overlay));
    return object;
}

/* Who decides what the NPU is given. */
static const char *routed_by(const cli_npu_use *npu)
{
    return npu->settings->npu_rows ? "--npu-rows" : npu->figures.name;
}

static void say_routes(const cli_npu_use *npu, const ork_session *session)
{
    ork_session_stats stats;
    char rows[48] = "";
    ork_session_get_stats(session, &stats);
    if (!stats.npu) {
        cli_say("NPU takes no matrices, %u stay on the CPU: by %s: %s", stats.npu_matrices_left, routed_by(npu),
                stats.npu_why);
        return;
    }
    if (stats.npu_rows_least != stats.npu_rows_most)
        snprintf(rows, sizeof rows, "%u to %u", stats.npu_rows_least, stats.npu_rows_most);
    else
        snprintf(rows, sizeof rows, "%u", stats.npu_rows_least);
    cli_say("NPU takes %u matrices from %s rows on, %u stay on the CPU: by %s", stats.npu_matrices, rows,
            stats.npu_matrices_left, routed_by(npu));
}

void cli_npu_say(const cli_npu_use *npu, const ork_session *session)
{
    ork_npu_stats stats;
    ork_session_stats session_stats;
    trouble troubles[TROUBLES];
    char text[3][32], less[512] = "";
    if (!npu->npu)
        return;
    ork_npu_get_stats(npu->npu, &stats);
    say_routes(npu, session);
    cli_say("NPU %s: %.1f %% of the multiply-adds on weights in passes of several rows; %llu matmuls in %llu submits, "
            "%.1f ms busy; cores %u; programs built %llu, used again %llu",
            cli_npu_name(npu), 100 * cli_npu_share(session), (unsigned long long)stats.matmuls,
            (unsigned long long)stats.submits, (double)stats.busy_us / 1e3, stats.cores_in_use,
            (unsigned long long)stats.programs_built, (unsigned long long)stats.programs_reused);
    cli_say("NPU weights: %s in its memory, %s imported; %llu mappings, %llu swapped in, %llu evicted, %s computed",
            cli_format_bytes(stats.resident_bytes, text[0], sizeof text[0]),
            cli_format_bytes(stats.imported_bytes, text[1], sizeof text[1]), (unsigned long long)stats.mappings,
            (unsigned long long)stats.swaps_in, (unsigned long long)stats.evictions,
            cli_format_count(stats.multiply_adds, text[2], sizeof text[2]));
    list_troubles(&stats, troubles);
    for (int i = 0; i < TROUBLES; i++)
        if (troubles[i].count) {
            size_t used = strlen(less);
            snprintf(less + used, sizeof less - used, "%s%s %llu", used ? ", " : "", troubles[i].words,
                     (unsigned long long)troubles[i].count);
        }
    if (*less)
        cli_say("NPU did less than asked: %s", less);
    ork_session_get_stats(session, &session_stats);
    say_overlay(&session_stats.overlay);
}

json_t *cli_npu_json(const cli_npu_use *npu, const ork_session *session)
{
    ork_session_stats session_stats;
    ork_npu_stats stats = {0};
    ork_npu_info info = {0};
    trouble troubles[TROUBLES];
    if (!npu->settings || !npu->settings->npu_kind)
        return json_null();
    ork_session_get_stats(session, &session_stats);
    if (npu->npu) {
        ork_npu_get_stats(npu->npu, &stats);
        ork_npu_get_info(npu->npu, &info);
    }
    json_t *object = json_object();
    cli_json_set_text(object, "name", cli_npu_name(npu));
    cli_json_set_text(object, "soc", info.soc);
    cli_json_set_text(object, "node", info.node);
    cli_json_set_boolean(object, "used", session_stats.npu);
    cli_json_set_boolean(object, "off", stats.off);
    cli_json_set_text(object, "why", npu->why ? npu->why : stats.off ? stats.why : session_stats.npu_why);
    cli_json_set_text(object, "routed_by", npu->npu ? routed_by(npu) : "");
    cli_json_set_integer(object, "matrices", session_stats.npu_matrices);
    cli_json_set_integer(object, "matrices_left", session_stats.npu_matrices_left);
    cli_json_set_integer(object, "rows_least", session_stats.npu_rows_least);
    cli_json_set_integer(object, "rows_most", session_stats.npu_rows_most);
    cli_json_set_number(object, "share", cli_npu_share(session));
    cli_json_set_integer(object, "session_multiply_adds", session_stats.npu_multiply_adds);
    cli_json_set_integer(object, "session_batch_multiply_adds", session_stats.batch_multiply_adds);
    cli_json_set_integer(object, "cores", stats.cores_in_use);
    cli_json_set_integer(object, "matmuls", stats.matmuls);
    cli_json_set_integer(object, "submits", stats.submits);
    cli_json_set_integer(object, "tasks", stats.tasks);
    cli_json_set_integer(object, "multiply_adds", stats.multiply_adds);
    cli_json_set_integer(object, "busy_us", stats.busy_us);
    list_troubles(&stats, troubles);
    for (int i = 0; i < TROUBLES; i++)
        cli_json_set_integer(object, troubles[i].key, troubles[i].count);
    cli_json_set_integer(object, "programs_built", stats.programs_built);
    cli_json_set_integer(object, "programs_reused", stats.programs_reused);
    cli_json_set_integer(object, "resident_bytes", stats.resident_bytes);
    cli_json_set_integer(object, "imported_bytes", stats.imported_bytes);
    cli_json_set_integer(object, "mappings", stats.mappings);
    cli_json_set_integer(object, "swaps_in", stats.swaps_in);
    cli_json_set_integer(object, "evictions", stats.evictions);
    cli_json_set_integer(object, "domain_switches", stats.domain_switches);
    json_object_set_new(object, "overlay", overlay_json(npu->settings, &session_stats.overlay));
    return object;
}

int cli_npu_end(const cli_npu_use *npu, const ork_session *session, int code)
{
    ork_npu_stats stats;
    ork_session_stats session_stats;
    if (!npu->npu || !session)
        return code;
    ork_npu_get_stats(npu->npu, &stats);
    ork_session_get_stats(session, &session_stats);
    bool is_required = npu->settings->npu_required && code == CLI_OK;
    if (stats.off && is_required)
        return cli_fail(CLI_DEVICE, "NPU", "switched itself off: %s", stats.why);
    if (stats.off)
        cli_say("the NPU switched itself off, the CPU computed the rest: %s", stats.why);
    else if (session_stats.batch_multiply_adds && !session_stats.npu_multiply_adds && is_required)
        return cli_fail(CLI_DEVICE, "NPU", "computed nothing of this");
    return code;
}
