/* Owns sessions: what of a token list can be kept, evaluation in batches, checkpoints of recurrent state, logits. Must not
 * know architectures or kernels. */
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "model/arch/arch.h"
#include "model/npu.h"
#include "model/overlay.h"
#include "model/session.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH_ROWS = 512, /* docs/performance.md, "rows of a batch" */
    BATCH_ROWS_MAX = 4096,
    CHECKPOINTS = 8,      /* of recurrent state, the oldest is replaced */
    CHECKPOINT_EVERY = 64 /* generated tokens between checkpoints, at least */
};

/* Recurrent state after `position` tokens; a prefix of a timeline can be kept up to the latest of these. */
struct checkpoint {
    float *recurrent;
    uint32_t position;
    bool valid;
};

struct ork_session {
    const struct ork_model *model;
    ork_cpu *cpu;
    ork_npu *npu;         /* attached, or NULL */
    ork_npu *overlay_npu; /* the same, while it has this session's overlay */
    struct ork_state state;
    ork_session_stats stats;
    bool (*cancel)(void *context);
    void *cancel_context;

    ork_token *tokens; /* [context] */
    uint32_t count;    /* tokens that the state holds */
    struct checkpoint checkpoints[CHECKPOINTS];
    uint32_t next_checkpoint;

    uint32_t batch_rows;
    uint8_t *scratch;
    uint64_t scratch_bytes;
    float *x, *q, *k, *v, *mixed, *cosine, *sine;

    float *logits; /* [logits_capacity][vocabulary] */
    uint64_t logits_capacity;
    uint32_t logits_first, logits_count; /* positions that have logits */
};

struct ork_snapshot {
    const struct ork_model *model;
    struct ork_state state;
    ork_token *tokens;
    uint32_t count;
};

/* ---- creation --------------------------------------------------------------------------------------------------- */

/* The model's context or the wished one, as far as keys and values fit in half of the memory that is free. */
static ork_status choose_context(const struct ork_model *model, const ork_session_params *params,
                                 ork_session_stats *stats, ork_error *error)
{
    uint64_t per_position =
        ork_state_bytes_per_position(model, params->kv_type_key == ORK_KV_F32, params->kv_type_value == ORK_KV_F32);
    uint64_t wished = params->context_length ? params->context_length : model->hp.context;
    uint64_t available = ork_memory_available_bytes();
    uint64_t possible = per_position && available ? available / 2 / per_position : wished;
    if (wished > INT32_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "context length", -1, "%llu is above 2^31-1",
                             (unsigned long long)wished);
    if (params->context_length && possible < wished)
        return ork_error_set(
            error, ORK_NO_MEMORY, "context length", -1,
            "%llu positions need %llu MiB of keys and values; at most %llu fit in half of the free memory",
            (unsigned long long)wished, (unsigned long long)(wished * per_position >> 20),
            (unsigned long long)possible);
    stats->context_clamped = possible < wished;
    stats->context_length = (uint32_t)(possible < wished ? possible : wished);
    if (!stats->context_length)
        return ork_error_set(error, ORK_NO_MEMORY, "context length", -1, "not even one position fits in memory");
    return ORK_OK;
}

static uint32_t widest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct ork_cpu_limits engine_limits(const struct ork_model *model, uint32_t rows)
{
    const struct ork_hyperparameters *hp = &model->hp;
    uint32_t q = hp->heads * hp->head_size;
    struct ork_cpu_limits limits = {.rows = rows,
                                    .input_k = widest(hp->embedding, q),
                                    .output_n = hp->embedding,
                                    .experts = hp->experts,
                                    .experts_used = hp->experts_used,
                                    .expert_hidden = hp->expert_hidden,
                                    .heads = hp->heads,
                                    .head_size = hp->head_size};
    for (uint32_t i = 0; i < hp->layers; i++)
        if (!model->layers[i].is_moe)
            limits.hidden = widest(limits.hidden, hp->hidden[i]);
    return limits;
}

/* Row buffers of the forward pass in one block. */
static ork_status create_buffers(ork_session *session, ork_error *error)
{
    const struct ork_hyperparameters *hp = &session->model->hp;
    uint64_t rows = session->batch_rows, e = hp->embedding, q = (uint64_t)hp->heads * hp->head_size;
    struct {
        float **buffer;
        uint64_t floats;
    } parts[] = {
        {&session->x, rows * e},
        {&session->q, rows * (hp->conv_taps && 3 * e > q ? 3 * e : q)},
        {&session->k, rows * q},
        {&session->v, rows * q},
        {&session->mixed, rows * (e > q ? e : q)},
        {&session->cosine, rows * hp->rope_pairs},
        {&session->sine, rows * hp->rope_pairs},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        session->scratch_bytes += ork_round_up(parts[i].floats * sizeof(float), 64);
    session->scratch = ork_pages_allocate(session->scratch_bytes);
    session->tokens = calloc(session->state.context, sizeof *session->tokens);
    if (!session->scratch || !session->tokens)
        return ork_error_no_memory(error, "session buffers", session->scratch_bytes);
    uint8_t *place = session->scratch;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].buffer = (float *)place;
        place += ork_round_up(parts[i].floats * sizeof(float), 64);
    }
    for (int i = 0; session->state.recurrent_floats && i < CHECKPOINTS; i++) {
        session->checkpoints[i].recurrent = malloc(session->state.recurrent_floats * sizeof(float));
        if (!session->checkpoints[i].recurrent)
            return ork_error_no_memory(error, "checkpoint", session->state.recurrent_floats * sizeof(float));
    }
    return ORK_OK;
}

static ork_status use_npu(ork_session *session, const ork_session_params *params, ork_error *error)
{
    ork_session_stats *stats = &session->stats;
    struct ork_perf builtin;
    const struct ork_perf *perf = params->perf ? params->perf : &builtin;
    ork_status status = params->perf ? ORK_OK : ork_perf_from_board(NULL, &builtin, error);
    if (status == ORK_OK && params->overlay.mode)
        status = ork_model_use_overlay(session->model, perf, params->npu, session->cpu, session, &params->overlay, 0,
                                       &stats->overlay, error);
    session->overlay_npu = stats->overlay.on ? params->npu : NULL;
    if (status == ORK_OK && params->npu)
        status = ork_model_use_npu(session->model, params->npu, session->cpu, perf, stats, error);
    session->npu = stats->npu ? params->npu : NULL;
    return status;
}

ork_status ork_session_create(const ork_model *model, const ork_session_params *given, ork_session **out,
                              ork_error *error)
{
    ork_session_params params = given ? *given : (ork_session_params){.spin_us = UINT32_MAX};
    *out = NULL;
    ork_session *session = calloc(1, sizeof *session);
    if (!session)
        return ork_error_no_memory(error, "session", sizeof *session);
    session->model = model;
    session->cancel = params.cancel;
    session->cancel_context = params.cancel_context;
    struct ork_cpu_config config;
    ork_session_stats *stats = &session->stats;
    ork_status status = choose_context(model, &params, stats, error);
    if (status == ORK_OK && params.batch_rows > BATCH_ROWS_MAX)
        status = ork_error_set(error, ORK_BAD_ARGUMENT, "batch rows", -1, "%u is above %d", params.batch_rows,
                               BATCH_ROWS_MAX);
    if (status == ORK_OK)
        status = ork_state_create(model, stats->context_length, params.kv_type_key == ORK_KV_F32,
                                  params.kv_type_value == ORK_KV_F32, &session->state, error);
    if (status != ORK_OK)
        goto out;
    session->batch_rows = params.batch_rows ? params.batch_rows : BATCH_ROWS;
    if (session->batch_rows > stats->context_length)
        session->batch_rows = stats->context_length;
    config = (struct ork_cpu_config){.threads = params.threads,
                                     .threads_batch = params.threads_batch,
                                     .spin_us = params.spin_us,
                                     .activation_block = params.activation_block,
                                     .limits = engine_limits(model, session->batch_rows)};
    status = ork_cpu_create(&config, &session->cpu, error);
    if (status == ORK_OK)
        status = ork_state_keep_rows(&session->state, error);
    if (status == ORK_OK)
        status = create_buffers(session, error);
    if (status == ORK_OK && (params.npu || params.overlay.mode))
        status = use_npu(session, &params, error);
    if (status != ORK_OK)
        goto out;
    stats->threads = ork_cpu_threads(session->cpu, false);
    stats->threads_batch = ork_cpu_threads(session->cpu, true);
    stats->batch_rows = session->batch_rows;
    stats->kv_bytes = session->state.cache_bytes;
    stats->state_bytes =
        (session->state.recurrent_floats * (CHECKPOINTS + 1) + session->state.kept_floats) * sizeof(float);
    stats->kernels = ork_isa_name(ork_cpu_kernels(session->cpu)->isa);
    *out = session;
    session = NULL;
out:
    ork_session_destroy(session);
    return status;
}

void ork_session_destroy(ork_session *session)
{
    if (!session)
        return;
    for (int i = 0; i < CHECKPOINTS; i++)
        free(session->checkpoints[i].recurrent);
    ork_cpu_destroy(session->cpu);
    if (session->overlay_npu)
        ork_model_leave_overlay(session->overlay_npu, session);
    if (session->npu)
        ork_model_leave_npu(session->model, session->npu);
    ork_state_destroy(&session->state);
    ork_pages_free(session->scratch, session->scratch_bytes);
    free(session->tokens);
    free(session->logits);
    free(session);
}

/* ---- what can be kept ------------------------------------------------------------------------------------------- */

static void save_checkpoint(ork_session *session)
{
    uint64_t floats = session->state.recurrent_floats;
    if (!floats)
        return;
    for (int i = 0; i < CHECKPOINTS; i++)
        if (session->checkpoints[i].valid && session->checkpoints[i].position == session->count)
            return;
    struct checkpoint *checkpoint = &session->checkpoints[session->next_checkpoint];
    session->next_checkpoint = (session->next_checkpoint + 1) % CHECKPOINTS;
    memcpy(checkpoint->recurrent, session->state.recurrent, floats * sizeof(float));
    checkpoint->position = session->count;
    checkpoint->valid = true;
}

/* Tokens generated since the latest checkpoint would take long to be computed again. */
static bool is_checkpoint_due(const ork_session *session)
{
    uint32_t latest = 0;
    for (int i = 0; i < CHECKPOINTS; i++)
        if (session->checkpoints[i].valid && session->checkpoints[i].position > latest)
            latest = session->checkpoints[i].position;
    return session->count - latest >= CHECKPOINT_EVERY;
}

/* Cuts the timeline to at most `wanted` tokens and returns how many are kept: with recurrent state all of them within the
 * last batch of few rows, else as many as a checkpoint has, and what was saved of what was cut is void. */
static uint32_t cut_timeline(ork_session *session, uint32_t wanted)
{
    uint64_t floats = session->state.recurrent_floats;
    if (!floats) {
        session->count = wanted;
        return wanted;
    }
    const struct checkpoint *best = NULL;
    for (int i = 0; i < CHECKPOINTS; i++) {
        struct checkpoint *checkpoint = &session->checkpoints[i];
        if (checkpoint->position > wanted)
            checkpoint->valid = false;
        else if (checkpoint->valid && (!best || checkpoint->position > best->position))
            best = checkpoint;
    }
    if (ork_state_has_kept(&session->state, wanted)) {
        ork_state_restore_kept(&session->state, wanted);
        session->count = wanted;
        return wanted;
    }
    session->state.kept_rows = 0;
    if (best)
        memcpy(session->state.recurrent, best->recurrent, floats * sizeof(float));
    else
        memset(session->state.recurrent, 0, floats * sizeof(float));
    session->count = best ? best->position : 0;
    return session->count;
}

void ork_session_clear(ork_session *session)
{
    for (int i = 0; i < CHECKPOINTS; i++)
        session->checkpoints[i].valid = false;
    session->logits_count = 0;
    cut_timeline(session, 0);
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

static ork_status reserve_logits(ork_session *session, uint64_t rows, ork_error *error)
{
    uint64_t bytes;
    if (rows <= session->logits_capacity)
        return ORK_OK;
    if (!ork_checked_multiply(rows, (uint64_t)session->model->hp.vocabulary * sizeof(float), &bytes))
        return ork_error_no_memory(error, "logits", UINT64_MAX);
    float *grown = realloc(session->logits, bytes);
    if (!grown)
        return ork_error_no_memory(error, "logits", bytes);
    session->logits = grown;
    session->logits_capacity = rows;
    return ORK_OK;
}

/* Evaluates tokens[session->count .. count) of the list, which the caller has copied to session->tokens. */
static ork_status evaluate(ork_session *session, uint32_t count, uint32_t logits_from, ork_error *error)
{
    uint32_t vocabulary = session->model->hp.vocabulary;
    session->logits_first = logits_from;
    session->logits_count = 0;
    while (session->count < count) {
        uint32_t left = count - session->count, rows = left < session->batch_rows ? left : session->batch_rows;
        uint32_t end = session->count + rows;
        bool keep_rows = session->state.kept && rows > 1 && rows <= ORK_STATE_ROWS;
        if (is_checkpoint_due(session))
            save_checkpoint(session);
        if (keep_rows)
            session->state.kept_rows = 0;
        struct ork_forward f = {.model = session->model,
                                .cpu = session->cpu,
                                .state = &session->state,
                                .tokens = session->tokens + session->count,
                                .rows = rows,
                                .past = session->count,
                                .keep_rows = keep_rows,
                                .x = session->x,
                                .q = session->q,
                                .k = session->k,
                                .v = session->v,
                                .mixed = session->mixed,
                                .cosine = session->cosine,
                                .sine = session->sine,
                                .logits_from = end <= logits_from             ? rows
                                               : logits_from > session->count ? logits_from - session->count
                                                                              : 0,
                                .logits = session->logits + (uint64_t)session->logits_count * vocabulary,
                                .cancel = session->cancel,
                                .cancel_context = session->cancel_context};
        if (!session->model->arch->forward(&f)) {
            session->logits_count = 0;
            cut_timeline(session, session->count);
            return ork_error_set(error, ORK_CANCELLED, "session", -1, "evaluation was cancelled");
        }
        if (keep_rows) {
            session->state.kept_first = session->count;
            session->state.kept_rows = rows;
        }
        session->count = end;
        session->logits_count += rows - f.logits_from;
        session->stats.evaluated_tokens += rows;
        /* Few rows that all want logits are a draft: its end may be cut at once. */
        if (rows > 1 && !(keep_rows && rows - f.logits_from > 1))
            save_checkpoint(session);
    }
    return ORK_OK;
}

static ork_status check_tokens(const ork_session *session, const ork_token *tokens, size_t count, ork_error *error)
{
    if (count == 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "tokens", -1, "the token list is empty");
    if (count > session->state.context)
        return ork_error_set(error, ORK_LIMIT, "tokens", -1, "%zu tokens do not fit into a context of %u", count,
                             session->state.context);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= session->model->hp.vocabulary)
            return ork_error_set(error, ORK_BAD_ARGUMENT, "tokens", -1, "token %zu is %d, the vocabulary has %u", i,
                                 tokens[i], session->model->hp.vocabulary);
    return ORK_OK;
}

ork_status ork_session_sync(ork_session *session, const ork_token *tokens, size_t size, size_t logits_from,
                            ork_error *error)
{
    ork_status status = check_tokens(session, tokens, size, error);
    if (status != ORK_OK)
        return status;
    uint32_t count = (uint32_t)size, kept = 0;
    if (logits_from > count - 1)
        logits_from = count - 1;
    while (kept < session->count && kept < count && session->tokens[kept] == tokens[kept])
        kept++;
    /* At least the last token is computed, so that its logits exist. */
    bool have_logits = session->count == count && kept == count && session->logits_count &&
                       session->logits_first + session->logits_count == count;
    if (have_logits) {
        session->stats.reused_tokens += count;
        return ORK_OK;
    }
    if (kept == count)
        kept--;
    if (kept < session->count)
        kept = cut_timeline(session, kept);
    session->stats.reused_tokens += kept;
    memcpy(session->tokens + kept, tokens + kept, (count - kept) * sizeof *tokens);
    if (logits_from < kept)
        logits_from = kept;
    session->logits_count = 0;
    status = reserve_logits(session, count - logits_from, error);
    return status == ORK_OK ? evaluate(session, count, (uint32_t)logits_from, error) : status;
}

bool ork_session_holds(const ork_session *session, const ork_token *tokens, size_t count)
{
    return count && count <= session->count && ork_session_logits(session, count - 1) &&
           memcmp(session->tokens, tokens, count * sizeof *tokens) == 0;
}

const float *ork_session_logits(const ork_session *session, size_t position)
{
    if (position < session->logits_first || position - session->logits_first >= session->logits_count)
        return NULL;
    return session->logits + (position - session->logits_first) * session->model->hp.vocabulary;
}

void ork_session_get_stats(const ork_session *session, ork_session_stats *stats)
{
    struct ork_cpu_batch_work work = ork_cpu_get_batch_work(session->cpu);
    *stats = session->stats;
    if (session->overlay_npu)
        ork_model_count_overlay(session->overlay_npu, &stats->overlay);
    stats->batch_multiply_adds = work.multiply_adds;
    stats->npu_multiply_adds = work.offloaded_multiply_adds;
    stats->yielded_regions = ork_cpu_yielded_regions(session->cpu);
    stats->scratch_bytes = session->scratch_bytes + ork_cpu_scratch_bytes(session->cpu) +
                           session->logits_capacity * session->model->hp.vocabulary * sizeof(float);
}

/* ---- snapshots -------------------------------------------------------------------------------------------------- */

ork_status ork_session_snapshot(const ork_session *session, ork_snapshot **out, ork_error *error)
{
    const struct ork_state *state = &session->state;
    *out = NULL;
    ork_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return ork_error_no_memory(error, "snapshot", sizeof *snapshot);
    snapshot->model = session->model;
    snapshot->count = session->count;
    /* Room for the positions that are used, not for the whole context. */
    ork_status status = ork_state_create(session->model, session->count ? session->count : 1, state->keys_f32,
                                         state->values_f32, &snapshot->state, error);
    if (status != ORK_OK)
        goto out;
    snapshot->tokens = malloc((session->count + 1ull) * sizeof *snapshot->tokens);
    if (!snapshot->tokens) {
        status = ork_error_no_memory(error, "snapshot", (session->count + 1ull) * sizeof *snapshot->tokens);
        goto out;
    }
    memcpy(snapshot->tokens, session->tokens, session->count * sizeof *snapshot->tokens);
    memcpy(snapshot->state.recurrent, state->recurrent, state->recurrent_floats * sizeof(float));
    ork_state_copy_cache(&snapshot->state, state, session->count);
    *out = snapshot;
    snapshot = NULL;
out:
    ork_snapshot_destroy(snapshot);
    return status;
}

ork_status ork_session_restore(ork_session *session, const ork_snapshot *snapshot, ork_error *error)
{
    struct ork_state *state = &session->state;
    if (snapshot->model != session->model || snapshot->state.keys_f32 != state->keys_f32 ||
        snapshot->state.values_f32 != state->values_f32)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "snapshot", -1, "it was taken of another model or cache type");
    if (snapshot->count > state->context)
        return ork_error_set(error, ORK_LIMIT, "snapshot", -1, "its %u tokens do not fit into a context of %u",
                             snapshot->count, state->context);
    ork_session_clear(session);
    memcpy(session->tokens, snapshot->tokens, snapshot->count * sizeof *session->tokens);
    memcpy(state->recurrent, snapshot->state.recurrent, state->recurrent_floats * sizeof(float));
    ork_state_copy_cache(state, &snapshot->state, snapshot->count);
    session->count = snapshot->count;
    save_checkpoint(session);
    return ORK_OK;
}

void ork_snapshot_destroy(ork_snapshot *snapshot)
{
    if (!snapshot)
        return;
    ork_state_destroy(&snapshot->state);
    free(snapshot->tokens);
    free(snapshot);
}
