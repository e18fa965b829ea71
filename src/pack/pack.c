/* Packs a GGUF into an orkpack. Owns the order of steps, progress and the report; planning, encoding and writing are
 * done elsewhere. */
#include "pack/pack.h"

#include "base/clock.h"
#include "base/error.h"
#include "pack/encode.h"
#include "pack/tables.h"
#include "quant/ggml_blocks.h"
#include "quant/tier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRESS_INTERVAL_US 250000u

struct pack_run {
    const ork_pack_params *params;
    const char *source_path;
    struct ork_pack_plan *plan;
    const ork_imatrix *imatrix;
    ork_orkpack_writer *writer;
    ork_pack_encoder *encoder;
    int8_t (*tables)[ORK_NF4_TABLE_ENTRIES]; /* [plan->count], used by nf4 tensors */
    ork_pack_report *report;
    struct ork_progress progress;
    uint64_t tensors_bytes; /* source bytes of finished tensors */
    uint64_t reported_us;
    double weighted_error; /* sum over quantized weights of the tensor's squared relative error */
    uint64_t weighted_count;
};

/* ---- progress ---- */

static bool report_progress(struct pack_run *run, bool force)
{
    uint64_t now = ork_clock_now_us();

    if (run->params->progress == NULL || (!force && now - run->reported_us < PROGRESS_INTERVAL_US))
        return true;
    run->reported_us = now;
    return run->params->progress(run->params->progress_context, &run->progress);
}

static bool tick(void *context, uint64_t source_bytes)
{
    struct pack_run *run = context;
    uint64_t done = run->tensors_bytes + source_bytes;

    run->progress.done_bytes = done < run->progress.total_bytes ? done : run->progress.total_bytes;
    return report_progress(run, false);
}

/* ---- checks before anything is opened for writing ---- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_ino == right.st_ino && left.st_dev == right.st_dev;
}

/* The output and the two files beside it must not be what is read. */
static ork_status check_paths(const char *output, const char *input, ork_error *error)
{
    static const char *const suffixes[] = {"", ".partial", ".journal"};

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char *path = NULL;
        bool same;
        if (asprintf(&path, "%s%s", output, suffixes[i]) < 0)
            return ork_error_no_memory(error, output, strlen(output));
        same = is_same_file(path, input);
        free(path);
        if (same)
            return ork_error_set(error, ORK_BAD_ARGUMENT, input, -1, "the input is the output%s%s",
                                 suffixes[i][0] != 0 ? "'s " : "", suffixes[i]);
    }
    return ORK_OK;
}

/* ---- one tensor ---- */

static void account(struct pack_run *run, size_t index, double relative_error)
{
    const struct ork_orkpack_tensor *tensor = &run->plan->tensors[index];
    uint64_t count = tensor->dimensions[0] * tensor->dimensions[1] * tensor->dimensions[2];

    run->tensors_bytes += run->plan->sources[index]->size_bytes;
    run->progress.done_bytes = run->tensors_bytes;
    run->progress.done_tensors++;
    if (!ork_tier_find(tensor->tier)->quantized)
        return;
    run->weighted_error += relative_error * relative_error * (double)count;
    run->weighted_count += count;
}

static ork_status pack_tensor(struct pack_run *run, size_t index, ork_error *error)
{
    const struct ork_orkpack_tensor *tensor = &run->plan->tensors[index];
    bool weighs = tensor->tier == ORK_TIER_I4 || tensor->tier == ORK_TIER_NF4 || tensor->tier == ORK_TIER_I5 ||
                  tensor->tier == ORK_TIER_I6 || tensor->tier == ORK_TIER_N8; /* the errors of its inputs */
    struct ork_pack_task task = {
        .where = run->source_path,
        .source = run->plan->sources[index],
        .tensor = tensor,
        .table = ork_tier_has_table(tensor->tier) ? run->tables[index] : NULL,
        .tick = tick,
        .tick_context = run,
    };
    struct ork_pack_result result;
    float *importance = NULL;
    uint64_t neutral_count;
    double relative_error;
    ork_status status = ORK_OK;

    run->progress.step = tensor->name;
    if (weighs && run->imatrix != NULL) {
        uint64_t count = tensor->dimensions[0] * tensor->dimensions[2];
        task.importance = importance = calloc(count, sizeof(float));
        if (importance == NULL)
            return ork_error_no_memory(error, tensor->name, count * sizeof(float));
        status = ork_imatrix_fill(run->imatrix, tensor->name, tensor->dimensions[0], tensor->dimensions[2], importance,
                                  &neutral_count, error);
        if (status == ORK_OK)
            run->report->neutral_importance_count += neutral_count;
    }
    if (status == ORK_OK)
        status = ork_pack_encode(run->encoder, &task, &result, error);
    free(importance);
    if (status != ORK_OK)
        return status;
    relative_error = result.squared_norm > 0.0 ? sqrt(result.squared_error / result.squared_norm) : 0.0;
    status = ork_orkpack_writer_put(run->writer, index, result.planes, (float)relative_error, error);
    if (status == ORK_OK)
        account(run, index, (float)relative_error);
    return status;
}

static ork_status pack_tensors(struct pack_run *run, ork_error *error)
{
    ork_status status;

    for (size_t i = 0; i < run->plan->count; i++) {
        if (ork_orkpack_writer_is_done(run->writer, i))
            account(run, i, ork_orkpack_writer_relative_error(run->writer, i));
        else if ((status = pack_tensor(run, i, error)) != ORK_OK)
            return status;
        if (!report_progress(run, false))
            return ork_error_set(error, ORK_CANCELLED, run->source_path, -1, "packing was stopped");
    }
    return ORK_OK;
}

/* ---- the whole ---- */

static void announce_plan(const struct pack_run *run)
{
    for (size_t i = 0; run->params->planned != NULL && i < run->plan->count; i++) {
        const struct ork_orkpack_tensor *tensor = &run->plan->tensors[i];
        ork_tensor_info info = {
            .name = tensor->name,
            .type = ork_tier_find(tensor->tier)->name,
            .source_type = ork_ggml_type_find(tensor->source_type)->name, /* the plan has a decoder for it */
            .dimension_count = tensor->dimension_count,
            .relative_error = -1.0,
        };
        memcpy(info.dimensions, tensor->dimensions, sizeof(info.dimensions));
        for (size_t plane = 0; plane < ORK_PLANE_COUNT; plane++)
            info.size_bytes += tensor->planes[plane].size_bytes;
        run->params->planned(run->params->planned_context, i, run->plan->count, &info,
                             run->plan->sources[i]->size_bytes);
    }
}

static uint64_t weight_count(const struct ork_pack_plan *plan)
{
    uint64_t count = 0;

    for (size_t i = 0; i < plan->count; i++)
        count += plan->tensors[i].dimensions[0] * plan->tensors[i].dimensions[1] * plan->tensors[i].dimensions[2];
    return count;
}

static ork_status write_pack(struct pack_run *run, const char *output, ork_error *error)
{
    const ork_pack_params *params = run->params;
    struct ork_pack_plan *plan = run->plan;
    ork_pool *pool = NULL;
    ork_status status;

    status =
        ork_orkpack_writer_create(output, params->overwrite, &plan->metadata, plan->metadata_count, plan->tensors,
                                  plan->count, plan->hash, &run->writer, &run->report->resumed_tensor_count, error);
    if (status != ORK_OK)
        return status;
    run->tables = ork_arena_array(&plan->arena, plan->count, sizeof(*run->tables));
    if (run->tables == NULL)
        status = ork_error_no_memory(error, output, plan->count * sizeof(*run->tables));
    if (status == ORK_OK)
        status = ork_pool_create(params->threads, 0, &pool, error);
    if (status == ORK_OK)
        status = ork_pack_encoder_create(pool, plan->tensors, plan->count, &run->encoder, error);
    run->progress.step = "code tables";
    if (status == ORK_OK)
        status = ork_pack_fit_tables(pool, plan, run->imatrix, run->writer, run->tables, tick, run, error);
    if (status == ORK_OK)
        status = pack_tensors(run, error);
    ork_pack_encoder_destroy(run->encoder);
    ork_pool_destroy(pool);
    if (status != ORK_OK) {
        /* Only a run that was stopped is worth continuing; a bad source stays bad and a full disk wants its room. */
        ork_orkpack_writer_abandon(run->writer, status == ORK_CANCELLED);
        return status;
    }
    run->progress.step = "fsync";
    if (!report_progress(run, true)) {
        ork_orkpack_writer_abandon(run->writer, true);
        return ork_error_set(error, ORK_CANCELLED, run->source_path, -1, "packing was stopped");
    }
    return ork_orkpack_writer_finish(run->writer, &run->report->pack_bytes, error);
}

static void finish_report(const struct pack_run *run, uint64_t started_us)
{
    ork_pack_report *report = run->report;

    report->bits_per_weight = 8.0 * (double)report->pack_bytes / (double)weight_count(run->plan);
    report->mean_relative_error =
        run->weighted_count != 0 ? sqrt(run->weighted_error / (double)run->weighted_count) : 0.0;
    report->seconds = (double)(ork_clock_now_us() - started_us) * 1e-6;
}

ork_status ork_pack_file(const char *gguf_path, const char *orkpack_path, const ork_pack_params *params,
                         ork_pack_report *report, ork_error *error)
{
    static const ork_pack_params defaults;
    ork_pack_report local_report;
    struct ork_pack_plan plan = {0};
    struct pack_run run = {.params = params != NULL ? params : &defaults, .source_path = gguf_path, .plan = &plan};
    uint64_t started_us = ork_clock_now_us();
    ork_gguf *gguf = NULL;
    ork_imatrix *imatrix = NULL;
    ork_status status;

    run.report = report != NULL ? report : &local_report;
    *run.report = (ork_pack_report){0};
    if ((status = check_paths(orkpack_path, gguf_path, error)) != ORK_OK ||
        (status = ork_gguf_open(gguf_path, &gguf, error)) != ORK_OK)
        goto out;
    if (run.params->imatrix_path != NULL &&
        ((status = check_paths(orkpack_path, run.params->imatrix_path, error)) != ORK_OK ||
         (status = ork_imatrix_open(run.params->imatrix_path, &imatrix, error)) != ORK_OK))
        goto out;
    run.imatrix = imatrix;
    if ((status = ork_pack_plan_create(gguf, run.params, imatrix, &plan, error)) != ORK_OK)
        goto out;
    run.report->tensor_count = plan.count;
    run.report->skipped_tensor_count = plan.skipped_count;
    run.report->unmatched_rule_count = plan.unmatched_rule_count;
    run.report->source_bytes = plan.source_bytes;
    run.progress.total_bytes = plan.source_bytes;
    run.progress.total_tensors = plan.count;
    announce_plan(&run);
    if (run.params->dry_run)
        run.report->pack_bytes = ork_orkpack_planned_size_bytes(&plan.metadata, plan.tensors, plan.count);
    else
        status = write_pack(&run, orkpack_path, error);
    if (status == ORK_OK)
        finish_report(&run, started_us);
out:
    ork_pack_plan_free(&plan);
    ork_imatrix_close(imatrix);
    ork_gguf_close(gguf);
    return status;
}
