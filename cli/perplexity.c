/* Owns `ork perplexity`: llama-perplexity's method (models.md 7.5) on ork's logits, with and without a base to compare
 * with. Must not know the file format or the statistics of a comparison. */
#include "commands.h"
#include "divergence.h"
#include "json.h"
#include "model.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX_BYTES = 1 << 30, CHUNK_DEFAULT = 512 };

typedef struct ppl_evaluation {
    const cli_settings *settings;
    cli_model model;
    ork_session *session;
    uint32_t chunk_length, vocabulary_size, chunk_count;
    ork_token *tokens; /* [chunk_count * chunk_length] and the dropped rest */
    size_t token_count;
    ork_token *chunk; /* [chunk_length] as evaluated: the first token may be BOS */
    uint32_t block;   /* positions whose logits are asked for at once */

    cli_base_file base; /* written, or compared with */
    bool writes_base;
    cli_divergence divergence;
    double nll, nll_squared; /* sums over counted positions */
    size_t count;
} ppl_evaluation;

static bool compares(const ppl_evaluation *evaluation)
{
    return evaluation->settings->divergence != 0;
}

/* Tokenizes the whole text as llama-perplexity does: BOS once if the model adds one, no control tokens. */
static int tokenize_text(ppl_evaluation *evaluation)
{
    const char *path = evaluation->settings->file;
    const ork_model *model = evaluation->model.model;
    char *text;
    size_t size_bytes, probe_count;
    ork_token *probe;
    ork_error error;
    if (ork_tokenize(model, "", 0, ORK_TOKENIZE_SPECIAL, &probe, &probe_count, &error) != ORK_OK)
        return cli_report_error(&error);
    bool adds_eos = probe_count && probe[probe_count - 1] == ork_token_eos(model) &&
                    !(probe_count == 1 && ork_token_adds_bos(model));
    ork_free(probe);
    if (adds_eos)
        return cli_fail(CLI_FAILURE, evaluation->model.given,
                        "its tokenizer ends every text with EOS: the method does not fit");
    int code = cli_read_file(path, TEXT_MAX_BYTES, &text, &size_bytes);
    if (code != CLI_OK)
        return code;
    ork_status status = ork_tokenize(model, text, size_bytes, ORK_TOKENIZE_SPECIAL, &evaluation->tokens,
                                     &evaluation->token_count, &error);
    free(text);
    if (status != ORK_OK)
        return cli_report_error(&error);
    uint32_t length = evaluation->chunk_length;
    if (evaluation->token_count < 2 * (size_t)length)
        return cli_fail(CLI_BAD_INPUT, path, "has %zu tokens, the method needs %u for chunks of %u (-c)",
                        evaluation->token_count, 2 * length, length);
    size_t chunks = evaluation->token_count / length;
    evaluation->chunk_count = chunks > UINT32_MAX ? UINT32_MAX : (uint32_t)chunks;
    return CLI_OK;
}

static int take_base_tokens(ppl_evaluation *evaluation)
{
    int code = cli_base_open(&evaluation->base, evaluation->settings->divergence_base, evaluation->vocabulary_size);
    if (code != CLI_OK)
        return code;
    if (evaluation->settings->context > 0 && (uint32_t)evaluation->settings->context != evaluation->base.chunk_length)
        cli_say("-c %lld is ignored: the base was made with chunks of %u tokens",
                (long long)evaluation->settings->context, evaluation->base.chunk_length);
    evaluation->chunk_length = evaluation->base.chunk_length;
    evaluation->chunk_count = evaluation->base.chunk_count;
    evaluation->tokens = evaluation->base.tokens;
    return CLI_OK;
}

static int open_session(ppl_evaluation *evaluation)
{
    ork_session_params params = cli_session_params(evaluation->settings, evaluation->chunk_length);
    ork_session_stats stats;
    int code = cli_session_create(&evaluation->model, &params, &evaluation->session);
    if (code != CLI_OK)
        return code;
    ork_session_get_stats(evaluation->session, &stats);
    if (stats.context_length < evaluation->chunk_length)
        return cli_fail(CLI_FAILURE, "context", "is %u tokens, a chunk %u: give a smaller -c", stats.context_length,
                        evaluation->chunk_length);
    /* About 64 MiB of logits at a time, and enough rows to be computed well. */
    uint64_t rows = (64u << 20) / (evaluation->vocabulary_size * (uint64_t)sizeof(float));
    evaluation->block = rows < 32 ? 32 : rows > 512 ? 512 : (uint32_t)rows;
    evaluation->chunk = cli_allocate(evaluation->chunk_length * sizeof *evaluation->chunk);
    return CLI_OK;
}

/* One position: logits that predict `next`. */
static int take_position(ppl_evaluation *evaluation, const float *logits, ork_token next)
{
    double nll;
    int code = CLI_OK;
    if (compares(evaluation)) {
        code = cli_base_read(&evaluation->base);
        if (code != CLI_OK)
            return code;
        cli_divergence_add(&evaluation->divergence, logits, evaluation->vocabulary_size, evaluation->base.record, next);
        return CLI_OK;
    }
    if (evaluation->writes_base)
        code = cli_base_append(&evaluation->base, logits, next, &nll);
    else
        nll = cli_negative_log_probability(logits, evaluation->vocabulary_size, next);
    if (code != CLI_OK)
        return code;
    if (!isfinite(nll))
        return cli_fail(CLI_FAILURE, "logits", "are not finite after %zu positions: the model computes nonsense",
                        evaluation->count);
    evaluation->nll += nll;
    evaluation->nll_squared += nll * nll;
    evaluation->count++;
    return CLI_OK;
}

/* Positions first..length-2 of a chunk predict their next token, first being the middle. The last token of the chunk
 * is only predicted, never evaluated. */
static int evaluate_chunk(ppl_evaluation *evaluation, uint32_t index)
{
    uint32_t length = evaluation->chunk_length, first = length / 2;
    const ork_token *tokens = evaluation->tokens + (size_t)index * length;
    const ork_model *model = evaluation->model.model;
    ork_error error;
    memcpy(evaluation->chunk, tokens, length * sizeof *tokens);
    if (ork_token_adds_bos(model))
        evaluation->chunk[0] = ork_token_bos(model);
    ork_session_clear(evaluation->session);
    for (uint32_t begin = first; begin < length - 1;) {
        uint32_t end = length - 1 - begin > evaluation->block ? begin + evaluation->block : length - 1;
        ork_status status = ork_session_sync(evaluation->session, evaluation->chunk, end, begin, &error);
        if (status == ORK_CANCELLED)
            return cli_interrupt_exit_code();
        if (status != ORK_OK)
            return cli_report_error(&error);
        for (uint32_t position = begin; position < end; position++) {
            const float *logits = ork_session_logits(evaluation->session, position);
            if (!logits)
                return cli_fail(CLI_FAILURE, "session", "has no logits for position %u", position);
            int code = take_position(evaluation, logits, tokens[position + 1]);
            if (code != CLI_OK)
                return code;
        }
        begin = end;
    }
    return CLI_OK;
}

static void get_result(const ppl_evaluation *evaluation, double *perplexity, double *error)
{
    double mean = evaluation->nll / (double)evaluation->count;
    double variance = evaluation->nll_squared / (double)evaluation->count - mean * mean;
    *perplexity = exp(mean);
    *error = variance > 0 && evaluation->count > 1 ? *perplexity * sqrt(variance / (double)(evaluation->count - 1)) : 0;
}

static void show_chunk(const ppl_evaluation *evaluation, uint32_t index, double start)
{
    char left[32];
    double seconds = cli_clock() - start;
    if (index == 0)
        cli_say("%u chunks of %u tokens, %.2f s each, %s left", evaluation->chunk_count, evaluation->chunk_length,
                seconds, cli_format_duration(seconds * (evaluation->chunk_count - 1), left, sizeof left));
    if (evaluation->settings->json)
        return;
    if (compares(evaluation)) {
        cli_divergence_print_line(&evaluation->divergence, index + 1);
    } else {
        double perplexity, error;
        get_result(evaluation, &perplexity, &error);
        cli_output_format("[%u]%.4f,", index + 1, perplexity);
        cli_output_write("", 0);
    }
}

static void show_result(ppl_evaluation *evaluation, double seconds)
{
    bool is_json = evaluation->settings->json != 0;
    json_t *object = NULL;
    if (compares(evaluation)) {
        if (is_json)
            object = cli_divergence_json(&evaluation->divergence);
        else
            cli_divergence_print(&evaluation->divergence);
    } else {
        double perplexity, error;
        get_result(evaluation, &perplexity, &error);
        if (!is_json) {
            cli_output_format("\nFinal estimate: PPL = %.4f +/- %.5f\n", perplexity, error);
        } else {
            object = json_object();
            cli_json_set_integer(object, "tokens", evaluation->count);
            cli_json_set_number(object, "perplexity", perplexity);
            cli_json_set_number(object, "perplexity_error", error);
            cli_json_set_number(object, "mean_nll", evaluation->nll / (double)evaluation->count);
        }
    }
    if (!is_json)
        return;
    cli_json_set_text(object, "model", evaluation->model.given);
    cli_json_set_text(object, "pack", evaluation->model.path);
    cli_json_set_text(object, "file", evaluation->settings->file);
    cli_json_set_integer(object, "chunks", evaluation->chunk_count);
    cli_json_set_integer(object, "chunk_tokens", evaluation->chunk_length);
    cli_json_set_number(object, "seconds", seconds);
    json_object_set_new(object, "npu", cli_npu_json(&evaluation->model.npu, evaluation->session));
    cli_json_print(object);
}

static int evaluate(ppl_evaluation *evaluation)
{
    const cli_settings *settings = evaluation->settings;
    if (settings->chunks > 0 && (uint64_t)settings->chunks < evaluation->chunk_count)
        evaluation->chunk_count = (uint32_t)settings->chunks;
    int code = CLI_OK;
    if (compares(evaluation))
        cli_divergence_init(&evaluation->divergence,
                            (size_t)evaluation->chunk_count * cli_counted_positions(evaluation->chunk_length));
    evaluation->writes_base = settings->divergence_base && !compares(evaluation);
    if (evaluation->writes_base)
        code = cli_base_create(&evaluation->base, settings->divergence_base, evaluation->chunk_length,
                               evaluation->vocabulary_size, evaluation->chunk_count, evaluation->tokens);
    double start = cli_clock();
    for (uint32_t i = 0; code == CLI_OK && i < evaluation->chunk_count; i++) {
        double chunk_start = cli_clock();
        code = evaluate_chunk(evaluation, i);
        if (code == CLI_OK)
            show_chunk(evaluation, i, chunk_start);
    }
    if (code == CLI_OK && evaluation->writes_base)
        code = cli_base_commit(&evaluation->base);
    if (code == CLI_OK)
        show_result(evaluation, cli_clock() - start);
    else if (!settings->json && evaluation->count)
        cli_output_format("\n");
    return code;
}

static int check_settings(const cli_settings *settings)
{
    if (settings->divergence && !settings->divergence_base)
        return cli_usage("perplexity", "--kl-divergence needs --kl-divergence-base FILE");
    if (!settings->divergence && !settings->file)
        return cli_usage("perplexity", "no text given: -f FILE");
    if (settings->context > 0 && settings->context < 8)
        return cli_usage("perplexity", "-c: a chunk of %lld tokens is too short", (long long)settings->context);
    if (settings->divergence || strcmp(settings->file, "-") == 0)
        return CLI_OK;
    return cli_check_input(settings->file);
}

int cli_perplexity(const cli_settings *settings)
{
    ppl_evaluation evaluation = {.settings = settings};
    const char *path;
    int code = check_settings(settings);
    if (code == CLI_OK)
        code = cli_model_path(settings, "perplexity", &path);
    if (code == CLI_OK)
        code = cli_npu_check(settings, "perplexity");
    if (code == CLI_OK)
        code = cli_affinity_apply(settings, "perplexity");
    if (code == CLI_OK)
        code = cli_model_open(settings, path, &evaluation.model);
    if (code == CLI_OK) {
        evaluation.chunk_length = settings->context > 0 ? (uint32_t)settings->context : CHUNK_DEFAULT;
        evaluation.vocabulary_size = ork_card_get_summary(ork_model_card(evaluation.model.model))->vocabulary_size;
        code = compares(&evaluation) ? take_base_tokens(&evaluation) : tokenize_text(&evaluation);
    }
    if (code == CLI_OK)
        code = open_session(&evaluation);
    if (code == CLI_OK) {
        code = evaluate(&evaluation);
        cli_output_write("", 0); /* before what is said of it */
        cli_npu_say(&evaluation.model.npu, evaluation.session);
        code = cli_npu_end(&evaluation.model.npu, evaluation.session, code);
    }
    if (evaluation.session)
        ork_session_destroy(evaluation.session);
    if (!compares(&evaluation))
        ork_free(evaluation.tokens);
    cli_base_close(&evaluation.base);
    cli_divergence_free(&evaluation.divergence);
    free(evaluation.chunk);
    cli_model_close(&evaluation.model);
    return code;
}
