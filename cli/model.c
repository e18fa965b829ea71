/* Owns opening: which file, which pack, which CPUs, which session. Must not know what is done with them. */
#include "model.h"
#include "cache.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_model_path(const cli_settings *settings, const char *command, const char **path)
{
    /* A model from the environment gives way to an argument. */
    if (settings->positional_count && settings->models.count && getenv("ORK_MODEL") != settings->models.items[0] &&
        getenv("LLAMA_ARG_MODEL") != settings->models.items[0])
        return cli_usage(command, "two models: '%s' and '%s'", settings->models.items[0], settings->positional[0]);
    if (settings->positional_count)
        *path = settings->positional[0];
    else if (settings->models.count)
        *path = settings->models.items[settings->models.count - 1];
    else
        return cli_usage(command, "no model given");
    return CLI_OK;
}

int cli_model_open(const cli_settings *settings, const char *path, cli_model *model)
{
    memset(model, 0, sizeof *model);
    model->given = path;
    int code = cli_check_input(path);
    if (code != CLI_OK)
        return code;
    ork_card *card;
    ork_error error;
    if (ork_card_open(path, &card, &error) != ORK_OK)
        return cli_report_input_error(&error);
    ork_file_kind kind = ork_card_get_summary(card)->kind;
    ork_card_close(card);
    if (kind == ORK_FILE_GGUF) {
        code = cli_cache_get(settings, path, &model->path);
        if (code != CLI_OK)
            return code;
    } else {
        if (settings->default_tier || settings->tiers.count || settings->imatrix)
            cli_say("%s: is packed already, --default-tier, --tier and --imatrix have no effect", path);
        model->path = cli_copy_text(path);
    }
    code = cli_npu_open(settings, &model->npu);
    if (code == CLI_OK && model->npu.npu)
        code = cli_figures_open(settings, model->npu.npu, &model->npu.figures);
    if (code != CLI_OK) {
        cli_model_close(model);
        return code;
    }
    cli_progress progress;
    cli_progress_begin(&progress, "loading");
    ork_model_params params = {
        .load_mode = (ork_load_mode)settings->load_mode,
        .nested = settings->overlay || settings->nested == ORK_NESTED_BASE ? ORK_NESTED_BASE : ORK_NESTED_FULL,
        .progress = cli_progress_report,
        .progress_context = &progress,
    };
    double start = cli_clock();
    ork_status status = ork_model_open(model->path, &params, &model->model, &error);
    model->load_seconds = cli_clock() - start;
    cli_progress_end(&progress);
    if (status == ORK_OK) {
        const char *warning;
        for (size_t i = 0; (warning = ork_model_warning(model->model, i)); i++)
            cli_say("%s: %s", path, warning);
        return CLI_OK;
    }
    cli_model_close(model);
    if (status == ORK_CANCELLED)
        return cli_interrupt_exit_code();
    code = cli_report_input_error(&error);
    if (kind == ORK_FILE_GGUF && status == ORK_BAD_FILE)
        cli_say("the cached pack is damaged: remove it, and it is made again");
    return code;
}

void cli_model_close(cli_model *model)
{
    if (model->model)
        ork_model_close(model->model);
    cli_npu_close(&model->npu);
    free(model->path);
    memset(model, 0, sizeof *model);
}

/* "f0" or "0xf0": bit i is CPU i. False when it is no hexadecimal number. */
static bool parse_mask(const char *text, cpu_set_t *set)
{
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    size_t length = strlen(text);
    if (!length || length > CPU_SETSIZE / 4)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[length - 1 - i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        for (size_t bit = 0; bit < 4; bit++)
            if (digit >> bit & 1)
                CPU_SET(4 * i + bit, set);
    }
    return true;
}

static bool parse_cpu_range(const char *text, cpu_set_t *set)
{
    unsigned low, high;
    char end;
    if (sscanf(text, "%u-%u%c", &low, &high, &end) != 2 || low > high || high >= CPU_SETSIZE)
        return false;
    for (unsigned cpu = low; cpu <= high; cpu++)
        CPU_SET(cpu, set);
    return true;
}

int cli_affinity_apply(const cli_settings *settings, const char *command)
{
    cpu_set_t wanted, got;
    CPU_ZERO(&wanted);
    if (!settings->cpu_mask && !settings->cpu_range)
        return CLI_OK;
    if (settings->cpu_mask && !parse_mask(settings->cpu_mask, &wanted))
        return cli_usage(command, "-C: '%s' is not a mask like f0", settings->cpu_mask);
    if (settings->cpu_range && !parse_cpu_range(settings->cpu_range, &wanted))
        return cli_usage(command, "-Cr: '%s' is not a range like 4-7", settings->cpu_range);
    if (CPU_COUNT(&wanted) == 0)
        return cli_usage(command, "-C: the mask names no CPU");
    if (sched_setaffinity(0, sizeof wanted, &wanted) != 0 || sched_getaffinity(0, sizeof got, &got) != 0)
        return cli_fail(CLI_FAILURE, command, "cannot use these CPUs: %s", strerror(errno));
    if (!CPU_EQUAL(&wanted, &got))
        return cli_fail(CLI_FAILURE, command, "only %d of these %d CPUs can be used", CPU_COUNT(&got),
                        CPU_COUNT(&wanted));
    return CLI_OK;
}

ork_session_params cli_session_params(const cli_settings *settings, uint32_t context_length)
{
    int64_t rows = settings->ubatch;
    if (settings->batch > 0 && (rows < 0 || settings->batch < rows) && (rows > 0 || settings->batch < 512))
        rows = settings->batch; /* a small -b limits the rows; a large one leaves the choice */
    return (ork_session_params){
        .context_length = context_length,
        .threads = settings->threads > 0 ? (uint32_t)settings->threads : 0,
        .activation_block = settings->activation_block < 0 ? UINT32_MAX : (uint32_t)settings->activation_block,
        .threads_batch = settings->threads_batch > 0 ? (uint32_t)settings->threads_batch : 0,
        .batch_rows = rows > 0 ? (uint32_t)rows : 0,
        .kv_type_key = (ork_kv_type)settings->kv_type_key,
        .kv_type_value = (ork_kv_type)settings->kv_type_value,
        .overlay = {.mode = (ork_overlay_mode)settings->overlay,
                    .late_layers = (uint32_t)settings->overlay_layers,
                    .all = settings->overlay_all,
                    .window_us = (uint32_t)settings->overlay_window_us},
        .spin_us = settings->poll >= 0 ? (uint32_t)settings->poll * 4 : UINT32_MAX,
        .cancel = cli_interrupt_poll,
    };
}

int cli_session_create(const cli_model *model, const ork_session_params *given, ork_session **session)
{
    ork_error error;
    ork_session_stats stats;
    ork_session_params params = *given;
    params.npu = model->npu.npu;
    params.perf = model->npu.figures.perf;
    if (ork_session_create(model->model, &params, session, &error) != ORK_OK)
        return cli_report_error(&error);
    ork_session_get_stats(*session, &stats);
    if (stats.context_clamped)
        cli_say("context is %u tokens, less than %s: memory allows no more (-c sets it)", stats.context_length,
                params.context_length ? "asked for" : "the model's");
    int code = cli_npu_check_session(&model->npu, *session);
    if (code != CLI_OK) {
        ork_session_destroy(*session);
        *session = NULL;
    }
    return code;
}
