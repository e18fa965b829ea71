/* Owns the simulator's two public calls: checking what is asked, choosing the system, and handing results out in one block.
 * Knows no formulas. */
#include "sched/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { PROMPT_MAX = 1 << 20, TOKENS_MAX = 4096, DOMAINS_MAX = 16, EVENTS_MAX = 4096 };

struct block {
    ork_simulation simulation;
    ork_simulation_event events[EVENTS_MAX];
};

const char *const *ork_simulate_shapes(void)
{
    return ork_shape_names();
}

ork_status ork_simulate_check(const ork_simulate_params *params, ork_error *error)
{
    if (params->policy && (params->policy < ORK_POLICY_CPU || params->policy > ORK_POLICY_LATE))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "policy %d is unknown", (int)params->policy);
    if (params->published && (params->policy == ORK_POLICY_OVERLAY || params->policy == ORK_POLICY_LATE))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "the published system has no overlay");
    if (params->prompt > PROMPT_MAX || params->tokens > TOKENS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1,
                             "%u tokens of prompt and %u to decode, at most %d and %d", params->prompt, params->tokens,
                             PROMPT_MAX, TOKENS_MAX);
    if (!(params->submit_us >= 0 && params->submit_us <= 1e5))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a submit of %g us, must be 0 to 100000",
                             params->submit_us);
    if (!(params->delay_us >= 0 && params->delay_us <= 1e6))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a delay of %g us, must be 0 to 1000000",
                             params->delay_us);
    if (params->bus_share != 0 && !(params->bus_share >= 0.1 && params->bus_share <= 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a bus share of %g, must be 0.1 to 1",
                             params->bus_share);
    if (params->late_layers > ORK_PLAN_LATE_LAYERS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%u layers late, at most %d", params->late_layers,
                             ORK_PLAN_LATE_LAYERS_MAX);
    if (!(params->slowdown_max >= 0 && params->slowdown_max <= 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "a slowdown of at most %g, must be 0 to 1",
                             params->slowdown_max);
    if (params->domains > DOMAINS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%u domains, at most %d", params->domains, DOMAINS_MAX);
    return ORK_OK;
}

static ork_status job_make(const ork_simulate_params *params, const struct ork_simulate_board *board,
                           const struct ork_simulate_model *model, struct ork_simulate_job *job, ork_error *error)
{
    *job = (struct ork_simulate_job){
        .board = board,
        .model = model,
        .policy = ork_route_policy_default(),
        .context = params->context,
        .prompt = params->prompt ? params->prompt : 128,
        .tokens = params->tokens ? params->tokens : 64,
        .seed = params->seed,
        .late_layers = params->late_layers ? params->late_layers : ORK_OVERLAY_LATE_LAYERS,
        .delay_s = params->delay_us * 1e-6,
        .npu_memory_bytes = params->npu_memory_bytes,
    };
    ork_perf_from_figures(board, &job->perf);
    if (params->submit_us > 0)
        job->perf.npu.submit_us = params->submit_us;
    if (params->bus_share > 0)
        job->perf.bus_bytes_per_s *= params->bus_share;
    if (params->slowdown_max > 0)
        job->policy.slowdown_max = params->slowdown_max;
    const double weights = (double)ork_model_shape_weight_bytes(model->shape), memory = board->ork.memory_bytes;
    if (weights > memory)
        return ork_error_set(error, ORK_LIMIT, model->shape->name, -1,
                             "the weights are %.1f GiB, the board has %.1f GiB of memory", weights / 0x1p30,
                             memory / 0x1p30);
    if (!job->npu_memory_bytes)
        job->npu_memory_bytes = (uint64_t)((memory - weights) / 2);
    if ((double)job->npu_memory_bytes > DOMAINS_MAX * board->ork.domain_bytes)
        job->npu_memory_bytes = (uint64_t)(DOMAINS_MAX * board->ork.domain_bytes);
    const uint64_t positions = (uint64_t)job->context + job->prompt + job->tokens;
    if (positions > model->context_max)
        return ork_error_set(error, ORK_LIMIT, model->shape->name, -1,
                             "context, prompt and tokens are %llu positions, the model has %u",
                             (unsigned long long)positions, model->context_max);
    return ORK_OK;
}

static void simulation_head(const struct ork_simulate_job *job, ork_policy policy, ork_simulation *simulation)
{
    const struct ork_model_shape *shape = job->model->shape;
    memcpy(simulation->board, job->board->npu.name, sizeof simulation->board);
    memcpy(simulation->shape, shape->name, sizeof simulation->shape);
    simulation->policy = policy;
    simulation->context = job->context;
    simulation->prompt = job->prompt;
    simulation->tokens = job->tokens;
    simulation->weight_bytes = ork_model_shape_weight_bytes(shape);
    simulation->kv_bytes = ork_model_shape_kv_bytes(shape) * ((uint64_t)job->context + job->prompt + job->tokens);
    simulation->state_bytes = ork_model_shape_state_bytes(shape);
}

static bool has_experts(const struct ork_model_shape *shape)
{
    for (size_t i = 0; i < shape->group_count; i++)
        if (shape->groups[i].kind == ORK_GROUP_EXPERT_UP)
            return true;
    return false;
}

static bool wants_published(const ork_simulate_params *params)
{
    return params->published || params->policy == ORK_POLICY_PARTITION || params->policy == ORK_POLICY_STREAMING;
}

static ork_status published_check(const ork_simulate_params *params, const struct ork_simulate_model *model,
                                  ork_error *error)
{
    if (!model->gguf_bits_layers)
        return ork_error_set(error, ORK_UNSUPPORTED, model->shape->name, -1,
                             "the published system read a GGUF, whose bits a weight only a shape file says");
    if (params->policy > ORK_POLICY_CPU && !has_experts(model->shape))
        return ork_error_set(error, ORK_UNSUPPORTED, model->shape->name, -1,
                             "has no experts that this policy could move");
    return ORK_OK;
}

ork_status ork_simulate_any(const ork_simulate_params *params, const struct ork_simulate_model *model,
                            ork_simulation **simulation, ork_error *error)
{
    struct ork_simulate_board board;
    struct ork_simulate_job job;
    const bool published = wants_published(params);
    const ork_policy policy = params->policy ? params->policy : ORK_POLICY_CPU;
    ork_status status = ork_simulate_board_read(params->board, &board, error);
    if (status == ORK_OK && published)
        status = published_check(params, model, error);
    if (status == ORK_OK)
        status = job_make(params, &board, model, &job, error);
    if (status != ORK_OK)
        return status;
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return ork_error_no_memory(error, NULL, sizeof *block);
    struct ork_simulate_record record = {block->events, 0, EVENTS_MAX, false};
    simulation_head(&job, policy, &block->simulation);
    block->simulation.published = published;
    const bool streaming = policy == ORK_POLICY_STREAMING;
    if (published)
        ork_simulate_other(&job, policy, streaming ? "auto" : "gguf",
                           params->domains ? params->domains
                           : streaming     ? 2
                                           : 1,
                           &block->simulation, &record);
    else
        status = ork_simulate_ork(&job, policy, &block->simulation, &record, error);
    if (status != ORK_OK) {
        free(block);
        return status;
    }
    /* Times count from the first event. */
    for (size_t i = record.count; i-- > 0;) {
        block->events[i].begin_us -= block->events[0].begin_us;
        block->events[i].end_us -= i ? block->events[0].begin_us : 0;
    }
    block->simulation.events = block->events;
    block->simulation.event_count = record.count;
    *simulation = &block->simulation;
    return ORK_OK;
}

ork_status ork_simulate(const ork_simulate_params *params, ork_simulation **simulation, ork_error *error)
{
    struct ork_shape shape;
    struct ork_model_shape groups;
    ork_status status = params && params->shape ? ork_simulate_check(params, error)
                                                : ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "no shape is named");
    if (status == ORK_OK)
        status = ork_shape_read(params->shape, &shape, error);
    if (status == ORK_OK)
        status = ork_shape_model(&shape, params->policy >= ORK_POLICY_OVERLAY, &groups, error);
    if (status != ORK_OK)
        return status;
    const struct ork_simulate_model model = {&groups, shape.context_max, shape.gguf_bits_layers, shape.gguf_bits_head,
                                             false};
    status = ork_simulate_any(params, &model, simulation, error);
    ork_model_shape_free(&groups);
    return status;
}

static ork_policy run_policy(const struct ork_published_run *run)
{
    return !strcmp(run->policy, "partition")   ? ORK_POLICY_PARTITION
           : !strcmp(run->policy, "streaming") ? ORK_POLICY_STREAMING
                                               : ORK_POLICY_CPU;
}

static ork_status row_fill(const struct ork_simulate_board *board, const struct ork_published_run *run,
                           ork_published_row *row, ork_error *error)
{
    struct ork_shape shape;
    struct ork_model_shape groups = {0};
    struct ork_simulate_job job;
    struct block *block = NULL;
    ork_status status = ork_shape_read(run->shape, &shape, error);
    const ork_simulate_params params = {.shape = run->shape, .prompt = run->prompt, .tokens = run->tokens};
    if (status == ORK_OK)
        status = ork_shape_model(&shape, false, &groups, error);
    if (status != ORK_OK)
        return status;
    const struct ork_simulate_model model = {&groups, shape.context_max, shape.gguf_bits_layers, shape.gguf_bits_head,
                                             false};
    status = job_make(&params, board, &model, &job, error);
    if (status != ORK_OK)
        goto out;
    block = calloc(1, sizeof *block);
    if (!block) {
        status = ork_error_no_memory(error, NULL, sizeof *block);
        goto out;
    }
    struct ork_simulate_record record = {block->events, 0, EVENTS_MAX, false};
    ork_simulate_other(&job, run_policy(run), run->weights, run->domains, &block->simulation, &record);
    memcpy(row->name, run->name, sizeof row->name);
    memcpy(row->shape, run->shape, sizeof row->shape);
    memcpy(row->quantity, run->quantity, sizeof row->quantity);
    memcpy(row->fitted, run->fitted, sizeof row->fitted);
    row->measured = run->measured;
    row->simulated = !strcmp(run->quantity, "prefill") ? block->simulation.prefill_tokens_per_second
                                                       : block->simulation.decode_tokens_per_second;
out:
    free(block);
    ork_model_shape_free(&groups);
    return status;
}

ork_status ork_simulate_published(const char *board_path, ork_published_report **report, ork_error *error)
{
    struct ork_simulate_board board;
    ork_status status = ork_simulate_board_read(board_path, &board, error);
    if (status != ORK_OK)
        return status;
    struct {
        ork_published_report report;
        ork_published_row rows[ORK_PUBLISHED_RUNS_MAX];
    } *made = calloc(1, sizeof *made);
    if (!made)
        return ork_error_no_memory(error, NULL, sizeof *made);
    for (size_t i = 0; status == ORK_OK && i < board.run_count; i++) {
        status = row_fill(&board, &board.runs[i], &made->rows[i], error);
        made->report.fitted_count += made->rows[i].fitted[0] != 0;
    }
    if (status != ORK_OK) {
        free(made);
        return status;
    }
    made->report.rows = made->rows;
    made->report.row_count = board.run_count;
    *report = &made->report;
    return ORK_OK;
}
