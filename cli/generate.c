/* Owns the token loop of run and chat: sample, stream, hold back stop strings, measure. Must not know prompts. */
#include "generate.h"
#include "json.h"
#include "report.h"
#include "stop.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that came from the model: `held` of them at the end of `text` are not shown yet. */
typedef struct output {
    const cli_generator *generator;
    char *text;
    size_t size, capacity, shown;
    bool show, is_stopped, is_refused;
} output;

static void output_show(output *out, size_t end)
{
    if (out->show && end > out->shown && !cli_output_write(out->text + out->shown, end - out->shown))
        out->is_refused = true;
    out->shown = end;
}

static void output_push(output *out, const char *bytes, size_t size_bytes)
{
    if (out->size + size_bytes + 1 > out->capacity) {
        out->capacity = 2 * (out->size + size_bytes) + 256;
        out->text = cli_reallocate(out->text, out->capacity);
    }
    memcpy(out->text + out->size, bytes, size_bytes);
    out->size += size_bytes;
    const char *const *stops = (const char *const *)out->generator->stops;
    size_t free_bytes = cli_stop_scan(out->text + out->shown, out->size - out->shown, stops, out->generator->stop_count,
                                      &out->is_stopped);
    size_t end = out->shown + free_bytes;
    output_show(out, end);
    if (out->is_stopped)
        out->size = end;
}

static int ban_end_tokens(cli_generator *generator, uint32_t vocabulary_size)
{
    ork_error error;
    for (uint32_t id = 0; id < vocabulary_size; id++)
        if (ork_token_is_end(generator->model->model, (ork_token)id))
            if (ork_sampler_ban(generator->sampler, (ork_token)id, &error) != ORK_OK)
                return cli_report_error(&error);
    return CLI_OK;
}

static int open_lookup(cli_generator *generator)
{
    int64_t most = generator->settings->draft_max;
    ork_lookup_params params = {.draft_max = most > 0 ? (uint32_t)most : 0};
    ork_session_stats stats;
    ork_error error;
    ork_session_get_stats(generator->session, &stats);
    if (stats.overlay.on)
        cli_say("lookup: no drafts, because passes of several rows have no overlay");
    if (ork_lookup_create(generator->model->model, &params, &generator->lookup, &error) != ORK_OK)
        return cli_report_error(&error);
    return CLI_OK;
}

int cli_generator_open(cli_generator *generator, const cli_settings *settings, const cli_model *model)
{
    memset(generator, 0, sizeof *generator);
    generator->settings = settings;
    generator->model = model;
    ork_sampler_params params = ork_sampler_defaults();
    params.temperature = (float)settings->temperature;
    params.top_k = (int32_t)settings->top_k;
    params.top_p = (float)settings->top_p;
    params.min_p = (float)settings->min_p;
    params.repeat_last_n = (int32_t)settings->repeat_last_n;
    params.repeat_penalty = (float)settings->repeat_penalty;
    params.presence_penalty = (float)settings->presence_penalty;
    params.frequency_penalty = (float)settings->frequency_penalty;
    if (settings->seed >= 0)
        params.seed = (uint64_t)settings->seed;
    else
        params.seed &= 0xffffffffu; /* short enough to be typed again */
    generator->seed = params.seed;

    generator->stops = cli_allocate(settings->stops.count * sizeof *generator->stops);
    for (size_t i = 0; i < settings->stops.count; i++)
        generator->stops[generator->stop_count++] = cli_unescape(settings->stops.items[i], settings->escape);

    uint32_t vocabulary_size = ork_card_get_summary(ork_model_card(model->model))->vocabulary_size;
    ork_error error;
    int code = CLI_OK;
    if (ork_sampler_create(&params, vocabulary_size, &generator->sampler, &error) != ORK_OK)
        code = cli_report_error(&error);
    if (code == CLI_OK && settings->ignore_eos)
        code = ban_end_tokens(generator, vocabulary_size);
    ork_session_params session = cli_session_params(settings, settings->context > 0 ? (uint32_t)settings->context : 0);
    if (code == CLI_OK)
        code = cli_session_create(model, &session, &generator->session);
    if (code == CLI_OK && settings->lookup)
        code = open_lookup(generator);
    if (code != CLI_OK)
        cli_generator_close(generator);
    return code;
}

void cli_generator_close(cli_generator *generator)
{
    if (generator->lookup)
        ork_lookup_destroy(generator->lookup);
    if (generator->session)
        ork_session_destroy(generator->session);
    if (generator->sampler)
        ork_sampler_destroy(generator->sampler);
    for (size_t i = 0; i < generator->stop_count; i++)
        free(generator->stops[i]);
    free(generator->stops);
    memset(generator, 0, sizeof *generator);
}

void cli_answer_free(cli_answer *answer)
{
    free(answer->text);
    memset(answer, 0, sizeof *answer);
}

/* Computes the prompt. FINISH_INTERRUPTED in *finish when the user stopped it. */
static int evaluate_prompt(cli_generator *generator, const ork_token *tokens, size_t count, cli_answer *answer)
{
    ork_session_stats before, after;
    ork_error error;
    ork_session_get_stats(generator->session, &before);
    if (count == 0)
        return cli_fail(CLI_FAILURE, "prompt", "is empty: the model has no token to begin with");
    if (count >= before.context_length)
        return cli_fail(CLI_FAILURE, "prompt", "has %zu tokens, the context %u: no room for an answer (-c sets it)",
                        count, before.context_length);
    double start = cli_clock();
    ork_status status = ork_session_sync(generator->session, tokens, count, count - 1, &error);
    answer->prompt_seconds = cli_clock() - start;
    ork_session_get_stats(generator->session, &after);
    answer->prompt_tokens = count;
    answer->reused_tokens = (size_t)(after.reused_tokens - before.reused_tokens);
    if (status == ORK_CANCELLED) {
        answer->finish = FINISH_INTERRUPTED;
        return CLI_OK;
    }
    return status == ORK_OK ? CLI_OK : cli_report_error(&error);
}

/* Samples from the logits of the last position and shows what comes of it. *ended is true when this was the last. */
static int generate_one(cli_generator *generator, ork_token *timeline, size_t *count, ork_text_stream *stream,
                        output *out, cli_answer *answer, bool *ended)
{
    const ork_model *model = generator->model->model;
    const float *logits = ork_session_logits(generator->session, *count - 1);
    ork_error error;
    ork_token token;
    const char *bytes;
    size_t size_bytes;
    *ended = true;
    if (!logits)
        return cli_fail(CLI_FAILURE, "session", "has no logits for position %zu", *count - 1);
    if (ork_sampler_sample(generator->sampler, logits, timeline, *count, &token, &error) != ORK_OK)
        return cli_report_error(&error);
    timeline[(*count)++] = token;
    answer->generated_tokens++;
    bool is_end = !generator->settings->ignore_eos && ork_token_is_end(model, token);
    if (is_end && !generator->settings->special) {
        answer->finish = FINISH_END;
        return CLI_OK;
    }
    if (ork_text_stream_push(stream, token, &bytes, &size_bytes, &error) != ORK_OK)
        return cli_report_error(&error);
    output_push(out, bytes, size_bytes);
    if (out->is_refused)
        answer->finish = FINISH_OUTPUT;
    else if (is_end)
        answer->finish = FINISH_END;
    else if (out->is_stopped)
        answer->finish = FINISH_STOP;
    else if (cli_interrupted())
        answer->finish = FINISH_INTERRUPTED;
    else
        *ended = false;
    return CLI_OK;
}

/* Logits behind the timeline, of which at most `left` more tokens are wanted. */
static ork_status compute_next(cli_generator *generator, const ork_token *timeline, size_t count, size_t left,
                               ork_error *error)
{
    if (generator->lookup)
        return ork_lookup_sync(generator->lookup, generator->session, timeline, count, left - 1, error);
    return ork_session_sync(generator->session, timeline, count, count - 1, error);
}

/* What the lookup did since `before`. */
static ork_lookup_stats lookup_since(const cli_generator *generator, const ork_lookup_stats *before)
{
    ork_lookup_stats stats = {0};
    if (generator->lookup)
        ork_lookup_get_stats(generator->lookup, &stats);
    stats.passes -= before->passes;
    stats.drafts -= before->drafts;
    stats.drafted -= before->drafted;
    stats.accepted -= before->accepted;
    return stats;
}

static int generate_tokens(cli_generator *generator, ork_token *timeline, size_t count, size_t limit, bool by_context,
                           ork_text_stream *stream, output *out, cli_answer *answer)
{
    double start = cli_clock();
    ork_error error;
    int code = CLI_OK;
    bool ended = false;
    const ork_lookup_stats none = {0}, before = lookup_since(generator, &none);
    answer->finish = by_context ? FINISH_CONTEXT : FINISH_LENGTH;
    while (answer->generated_tokens < limit) {
        code = generate_one(generator, timeline, &count, stream, out, answer, &ended);
        if (code != CLI_OK || ended || answer->generated_tokens == limit)
            break;
        ork_status status = compute_next(generator, timeline, count, limit - answer->generated_tokens, &error);
        if (status == ORK_CANCELLED) {
            answer->finish = FINISH_INTERRUPTED;
            break;
        }
        if (status != ORK_OK) {
            code = cli_report_error(&error);
            break;
        }
    }
    answer->generate_seconds = cli_clock() - start;
    answer->lookup = lookup_since(generator, &before);
    return code;
}

int cli_generate(cli_generator *generator, const ork_token *tokens, size_t count, bool show, cli_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->text = cli_copy_text("");
    int code = evaluate_prompt(generator, tokens, count, answer);
    if (code != CLI_OK || answer->finish == FINISH_INTERRUPTED)
        return code;

    ork_session_stats stats;
    ork_session_get_stats(generator->session, &stats);
    size_t room = stats.context_length - count; /* the last token need not be computed, but must have its place */
    int64_t predict = generator->settings->predict;
    bool by_context = predict < 0 || (uint64_t)predict > room;
    size_t limit = by_context ? room : (size_t)predict;

    ork_error error;
    ork_text_stream *stream = NULL;
    output out = {.generator = generator, .show = show};
    ork_token *timeline = cli_allocate((count + limit) * sizeof *timeline);
    memcpy(timeline, tokens, count * sizeof *timeline);
    if (ork_text_stream_create(generator->model->model, generator->settings->special, &stream, &error) != ORK_OK) {
        code = cli_report_error(&error);
        goto out;
    }
    code = generate_tokens(generator, timeline, count, limit, by_context, stream, &out, answer);
    if (!out.is_stopped) {
        const char *bytes;
        size_t size_bytes;
        if (ork_text_stream_finish(stream, &bytes, &size_bytes, &error) == ORK_OK)
            output_push(&out, bytes, size_bytes);
        if (out.is_stopped)
            answer->finish = FINISH_STOP;
        output_show(&out, out.size); /* a held beginning of a stop string is text after all */
    }
    if (out.text) {
        free(answer->text);
        answer->text = out.text;
        answer->text_bytes = out.size;
        answer->text[out.size] = 0;
    }
out:
    if (stream)
        ork_text_stream_destroy(stream);
    free(timeline);
    return code;
}

const char *cli_finish_name(cli_finish finish)
{
    static const char *const names[] = {"end", "stop", "length", "context", "interrupted", "output"};
    return names[finish];
}

double cli_prompt_speed(const cli_answer *answer)
{
    size_t computed = answer->prompt_tokens - answer->reused_tokens;
    return computed && answer->prompt_seconds > 0 ? (double)computed / answer->prompt_seconds : 0;
}

double cli_generate_speed(const cli_answer *answer)
{
    /* The first token comes from the prompt's logits, so one token fewer was computed. */
    bool has_speed = answer->generated_tokens > 1 && answer->generate_seconds > 0;
    return has_speed ? (double)(answer->generated_tokens - 1) / answer->generate_seconds : 0;
}

void cli_answer_say(const cli_generator *generator, const cli_answer *answer)
{
    char reused[48] = "", seed[48] = "", speed[2][48] = {"", ""};
    double rates[2] = {cli_prompt_speed(answer), cli_generate_speed(answer)};
    for (size_t i = 0; i < 2; i++)
        if (rates[i] > 0)
            snprintf(speed[i], sizeof speed[i], ", %.1f tokens/s", rates[i]);
    if (answer->reused_tokens)
        snprintf(reused, sizeof reused, " (%zu reused)", answer->reused_tokens);
    if (generator->settings->temperature > 0)
        snprintf(seed, sizeof seed, "; seed %llu", (unsigned long long)generator->seed);
    cli_say("prompt %zu tokens%s%s; generated %zu tokens%s; ended by %s%s", answer->prompt_tokens, reused, speed[0],
            answer->generated_tokens, speed[1], cli_finish_name(answer->finish), seed);
    if (generator->lookup)
        cli_say("lookup: %llu tokens drafted, %llu of them right; %llu passes, %llu with a draft",
                (unsigned long long)answer->lookup.drafted, (unsigned long long)answer->lookup.accepted,
                (unsigned long long)answer->lookup.passes, (unsigned long long)answer->lookup.drafts);
}

static const char *load_mode_name(ork_load_mode mode)
{
    return mode == ORK_LOAD_MAP ? "mapped" : mode == ORK_LOAD_COPY ? "copied" : "auto";
}

void cli_generator_say_stats(const cli_generator *generator)
{
    ork_session_stats stats;
    uint64_t weight_bytes;
    char text[4][32];
    ork_session_get_stats(generator->session, &stats);
    ork_load_mode mode = ork_model_load_mode(generator->model->model, &weight_bytes);
    cli_say("weights %s %s in %.2f s; context %u tokens: KV %s, states %s, scratch %s",
            cli_format_bytes(weight_bytes, text[0], sizeof text[0]), load_mode_name(mode),
            generator->model->load_seconds, stats.context_length,
            cli_format_bytes(stats.kv_bytes, text[1], sizeof text[1]),
            cli_format_bytes(stats.state_bytes, text[2], sizeof text[2]),
            cli_format_bytes(stats.scratch_bytes, text[3], sizeof text[3]));
    cli_say("kernels %s; threads %u, for prompts %u, rows at once %u; %llu tokens evaluated", stats.kernels, stats.threads,
            stats.threads_batch, stats.batch_rows, (unsigned long long)stats.evaluated_tokens);
    if (stats.yielded_regions)
        cli_say("other programs kept the cores busy: %llu parallel regions ran on one thread",
                (unsigned long long)stats.yielded_regions);
    cli_npu_say(&generator->model->npu, generator->session);
}

static json_t *lookup_json(const ork_lookup_stats *stats)
{
    json_t *object = json_object();
    cli_json_set_integer(object, "passes", stats->passes);
    cli_json_set_integer(object, "drafts", stats->drafts);
    cli_json_set_integer(object, "drafted", stats->drafted);
    cli_json_set_integer(object, "accepted", stats->accepted);
    cli_json_set_integer(object, "memory_bytes", stats->memory_bytes);
    return object;
}

json_t *cli_answer_json(const cli_generator *generator, const cli_answer *answer)
{
    ork_session_stats stats;
    uint64_t weight_bytes;
    ork_session_get_stats(generator->session, &stats);
    ork_load_mode mode = ork_model_load_mode(generator->model->model, &weight_bytes);
    json_t *object = json_object();
    cli_json_set_text(object, "model", generator->model->given);
    cli_json_set_text(object, "pack", generator->model->path);
    json_object_set_new(object, "text", cli_json_bytes(answer->text, answer->text_bytes));
    cli_json_set_text(object, "finish_reason", cli_finish_name(answer->finish));
    cli_json_set_integer(object, "seed", generator->seed);
    cli_json_set_integer(object, "prompt_tokens", answer->prompt_tokens);
    cli_json_set_integer(object, "reused_tokens", answer->reused_tokens);
    cli_json_set_integer(object, "generated_tokens", answer->generated_tokens);
    cli_json_set_number(object, "prompt_seconds", answer->prompt_seconds);
    cli_json_set_number(object, "generate_seconds", answer->generate_seconds);
    cli_json_set_number(object, "prompt_tokens_per_second", cli_prompt_speed(answer));
    cli_json_set_number(object, "generated_tokens_per_second", cli_generate_speed(answer));
    cli_json_set_number(object, "load_seconds", generator->model->load_seconds);
    cli_json_set_text(object, "load_mode", load_mode_name(mode));
    cli_json_set_integer(object, "weight_bytes", weight_bytes);
    cli_json_set_integer(object, "context_length", stats.context_length);
    cli_json_set_boolean(object, "context_clamped", stats.context_clamped);
    cli_json_set_integer(object, "kv_bytes", stats.kv_bytes);
    cli_json_set_integer(object, "state_bytes", stats.state_bytes);
    cli_json_set_integer(object, "scratch_bytes", stats.scratch_bytes);
    cli_json_set_integer(object, "threads", stats.threads);
    cli_json_set_integer(object, "threads_batch", stats.threads_batch);
    cli_json_set_integer(object, "yielded_regions", stats.yielded_regions);
    cli_json_set_integer(object, "batch_rows", stats.batch_rows);
    cli_json_set_text(object, "kernels", stats.kernels);
    json_object_set_new(object, "lookup", generator->lookup ? lookup_json(&answer->lookup) : json_null());
    json_object_set_new(object, "npu", cli_npu_json(&generator->model->npu, generator->session));
    return object;
}

int cli_dump_prompt(const cli_generator *generator, const ork_token *tokens, size_t count, const char *text)
{
    const ork_model *model = generator->model->model;
    if (text)
        fprintf(stderr, "prompt: %s\n", text);
    for (size_t i = 0; i < count; i++) {
        char *piece;
        size_t size_bytes;
        ork_error error;
        if (ork_detokenize(model, tokens + i, 1, true, &piece, &size_bytes, &error) != ORK_OK)
            return cli_report_error(&error);
        json_t *quoted = cli_json_bytes(piece, size_bytes);
        char *shown = json_dumps(quoted, JSON_ENCODE_ANY);
        fprintf(stderr, "%7d %s\n", tokens[i], shown ? shown : "");
        free(shown);
        json_decref(quoted);
        ork_free(piece);
    }
    return CLI_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *cli_unescape(const char *text, bool escape)
{
    static const char letters[] = "ntrabfve\\'\"", values[] = "\n\t\r\a\b\f\v\033\\'\"";
    char *copy = cli_copy_text(text), *out = copy;
    if (!escape)
        return copy;
    for (const char *in = copy; *in; in++) {
        const char *letter = *in == '\\' && in[1] ? strchr(letters, in[1]) : NULL;
        if (letter) {
            *out++ = values[letter - letters];
            in++;
        } else if (*in == '\\' && in[1] == 'x' && hex_digit(in[2]) >= 0 && hex_digit(in[3]) >= 0) {
            char byte = (char)(hex_digit(in[2]) * 16 + hex_digit(in[3]));
            *out++ = byte ? byte : '?'; /* a NUL would end the text */
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = 0;
    return copy;
}
