/* Owns `ork simulate`: how a prediction looks as text, JSON and a picture. Must not know how it is made. */
#include "commands.h"
#include "json.h"
#include "model.h"
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policy_names[] = {"", "cpu", "partition", "streaming", "overlay", "late"};
static const char *const engine_names[] = {"cpu", "npu0", "npu1", "npu2"};

static bool has_overlay(const ork_simulation *simulation)
{
    return simulation->policy == ORK_POLICY_OVERLAY || simulation->policy == ORK_POLICY_LATE;
}

static json_t *json_overlay(const ork_simulation *simulation)
{
    json_t *object = json_object();
    cli_json_set_integer(object, "planned", simulation->overlay_planned);
    cli_json_set_integer(object, "submitted", simulation->overlay_submitted);
    cli_json_set_integer(object, "in_time", simulation->overlay_in_time);
    cli_json_set_integer(object, "late", simulation->overlay_late);
    cli_json_set_integer(object, "lost", simulation->overlay_lost);
    cli_json_set_integer(object, "busy", simulation->overlay_busy);
    cli_json_set_number(object, "coverage", simulation->overlay_coverage);
    cli_json_set_text(object, "limit", simulation->overlay_limit);
    cli_json_set_number(object, "decode_alone_tokens_per_second", simulation->decode_alone_tokens_per_second);
    return object;
}

static json_t *json_swap(const ork_simulation_swap *swap)
{
    json_t *object = json_object();
    cli_json_set_integer(object, "bytes", swap->bytes);
    cli_json_set_number(object, "hidden_seconds", swap->hidden_seconds);
    cli_json_set_number(object, "exposed_seconds", swap->exposed_seconds);
    return object;
}

static void print_json(const ork_simulation *simulation)
{
    json_t *object = json_object(), *memory = json_object(), *busy = json_object(), *timeline = json_array();
    cli_json_set_text(object, "board", simulation->board);
    cli_json_set_text(object, "shape", simulation->shape);
    cli_json_set_text(object, "policy", policy_names[simulation->policy]);
    cli_json_set_text(object, "system", simulation->published ? "published" : "ork");
    cli_json_set_integer(object, "context", simulation->context);
    cli_json_set_integer(object, "prompt", simulation->prompt);
    cli_json_set_integer(object, "tokens", simulation->tokens);
    cli_json_set_number(object, "prefill_tokens_per_second", simulation->prefill_tokens_per_second);
    cli_json_set_number(object, "decode_tokens_per_second", simulation->decode_tokens_per_second);
    cli_json_set_number(object, "overlay_hit_rate", simulation->overlay_hit_rate);
    if (has_overlay(simulation))
        json_object_set_new(object, "overlay", json_overlay(simulation));
    cli_json_set_integer(memory, "weight_bytes", simulation->weight_bytes);
    cli_json_set_integer(memory, "kv_bytes", simulation->kv_bytes);
    cli_json_set_integer(memory, "state_bytes", simulation->state_bytes);
    cli_json_set_integer(memory, "npu_resident_bytes", simulation->npu_resident_bytes);
    cli_json_set_integer(memory, "npu_domains", simulation->npu_domains);
    cli_json_set_number(memory, "npu_fill_seconds", simulation->npu_fill_seconds);
    json_object_set_new(object, "memory", memory);
    json_object_set_new(object, "prompt_swap", json_swap(&simulation->prompt_swap));
    json_object_set_new(object, "token_swap", json_swap(&simulation->token_swap));
    for (size_t i = 0; i < 4; i++)
        cli_json_set_number(busy, engine_names[i], simulation->busy_share[i]);
    json_object_set_new(object, "busy", busy);
    for (size_t i = 0; i < simulation->event_count; i++) {
        const ork_simulation_event *event = &simulation->events[i];
        json_t *item = json_object();
        cli_json_set_text(item, "engine", event->engine);
        cli_json_set_text(item, "what", event->what);
        cli_json_set_integer(item, "layer", event->layer);
        cli_json_set_number(item, "begin_us", event->begin_us);
        cli_json_set_number(item, "end_us", event->end_us);
        json_array_append_new(timeline, item);
    }
    json_object_set_new(object, "timeline", timeline);
    cli_json_print(object);
}

static void print_swap(const char *phase, const ork_simulation_swap *swap)
{
    char bytes[32];
    if (swap->bytes)
        cli_output_format("swap     %s that %s wants are not there: %.3g s hidden, %.3g s not, so the CPU has them\n",
                          cli_format_bytes(swap->bytes, bytes, sizeof bytes), phase, swap->hidden_seconds,
                          swap->exposed_seconds);
}

static void print_text(const ork_simulation *simulation)
{
    char weights[32], kv[32], state[32], resident[32];
    cli_output_format("board    %s\nshape    ", simulation->board);
    cli_output_safe(simulation->shape);
    cli_output_format("\npolicy   %s of %s\n", policy_names[simulation->policy],
                      simulation->published ? "the published system" : "ork");
    cli_output_format("prefill  %.2f tokens/s, %u tokens behind %u\n", simulation->prefill_tokens_per_second,
                      simulation->prompt, simulation->context);
    cli_output_format("decode   %.2f tokens/s, %u tokens\n", simulation->decode_tokens_per_second, simulation->tokens);
    if (has_overlay(simulation)) {
        cli_output_format("alone    %.2f tokens/s, the same tiers without the NPU\n",
                          simulation->decode_alone_tokens_per_second);
        cli_output_format("overlay  %.1f %% in time of %" PRIu64 " chains (%" PRIu64 " late, %" PRIu64
                          " lost), %" PRIu64 " left out for want of a core\n",
                          100 * simulation->overlay_hit_rate, simulation->overlay_submitted, simulation->overlay_late,
                          simulation->overlay_lost, simulation->overlay_busy);
        cli_output_format("         %.1f %% of the sensitive bytes in %" PRIu64
                          " groups a token; most of the rest is left out for: "
                          "%s\n",
                          100 * simulation->overlay_coverage, simulation->overlay_planned, simulation->overlay_limit);
    }
    cli_output_format("memory   weights %s, keys and values %s, states %s\n",
                      cli_format_bytes(simulation->weight_bytes, weights, sizeof weights),
                      cli_format_bytes(simulation->kv_bytes, kv, sizeof kv),
                      cli_format_bytes(simulation->state_bytes, state, sizeof state));
    cli_output_format("npu      %s in %u domain%s\n",
                      cli_format_bytes(simulation->npu_resident_bytes, resident, sizeof resident),
                      simulation->npu_domains, simulation->npu_domains == 1 ? "" : "s");
    if (simulation->npu_fill_seconds > 0)
        cli_output_format("         %.1f s to fill once\n", simulation->npu_fill_seconds);
    print_swap("the prompt", &simulation->prompt_swap);
    print_swap("each token", &simulation->token_swap);
    cli_output_format("busy     cpu %.0f %%, npu %.0f, %.0f and %.0f %% of the time of decoding\n",
                      100 * simulation->busy_share[0], 100 * simulation->busy_share[1], 100 * simulation->busy_share[2],
                      100 * simulation->busy_share[3]);
}

/* The last token as bars, one line an engine; layers alternate in shade. */
static void svg_write(FILE *file, const ork_simulation *simulation)
{
    enum { LEFT = 60, WIDTH = 1200, LINE = 40, TOP = 30 };
    double end_us = 1;
    for (size_t i = 0; i < simulation->event_count; i++)
        end_us = simulation->events[i].end_us > end_us ? simulation->events[i].end_us : end_us;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"18\">%s, policy %s: one token, %.2f ms</text>\n",
            LEFT + WIDTH + 20, TOP + 4 * LINE + 10, LEFT, simulation->board, policy_names[simulation->policy],
            end_us / 1000);
    for (size_t line = 0; line < 4; line++) {
        const int y = TOP + (int)line * LINE;
        fprintf(file, "<text x=\"8\" y=\"%d\">%s</text>\n", y + 20, engine_names[line]);
        for (size_t i = 0; i < simulation->event_count; i++) {
            const ork_simulation_event *event = &simulation->events[i];
            if (strcmp(event->engine, engine_names[line]) != 0)
                continue;
            const double x = LEFT + WIDTH * event->begin_us / end_us,
                         width = WIDTH * (event->end_us - event->begin_us) / end_us;
            fprintf(file,
                    "<rect x=\"%.3f\" y=\"%d\" width=\"%.3f\" height=\"28\" fill=\"%s\" stroke=\"#fff\" "
                    "stroke-width=\"0.3\"><title>layer %u %s: %.1f us</title></rect>\n",
                    x, y, width < 0.2 ? 0.2 : width,
                    line ? (event->layer % 2 ? "#c66" : "#e99") : (event->layer % 2 ? "#47a" : "#7ad"), event->layer,
                    event->what, event->end_us - event->begin_us);
        }
    }
    fprintf(file, "</svg>\n");
}

static int svg_save(const ork_simulation *simulation, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return cli_fail(CLI_FAILURE, path, "cannot write: %s", strerror(errno));
    svg_write(file, simulation);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return cli_fail(CLI_FAILURE, path, "cannot write: %s", strerror(errno));
    return CLI_OK;
}

static double error_of(const ork_published_row *row)
{
    return row->simulated / row->measured - 1;
}

static int show_published(const cli_settings *settings)
{
    ork_published_report *report;
    ork_error error;
    if (ork_simulate_published(settings->npu_board, &report, &error) != ORK_OK)
        return cli_report_input_error(&error);
    json_t *object = json_object(), *rows = json_array();
    if (!settings->json)
        cli_output_format("| run | quantity | measured | simulated | error | |\n|---|---|---:|---:|---:|---|\n");
    for (size_t i = 0; i < report->row_count; i++) {
        const ork_published_row *row = &report->rows[i];
        json_t *item = json_object();
        cli_json_set_text(item, "name", row->name);
        cli_json_set_text(item, "shape", row->shape);
        cli_json_set_text(item, "quantity", row->quantity);
        cli_json_set_text(item, "fitted", row->fitted);
        cli_json_set_number(item, "measured", row->measured);
        cli_json_set_number(item, "simulated", row->simulated);
        cli_json_set_number(item, "error", error_of(row));
        json_array_append_new(rows, item);
        if (settings->json)
            continue;
        cli_output_format("| ");
        cli_output_safe(row->name);
        cli_output_format(" | %s | %.2f | %.2f | %+.1f %% | ", row->quantity, row->measured, row->simulated,
                          100 * error_of(row));
        cli_output_safe(*row->fitted ? "fitted by " : "predicted");
        cli_output_safe(row->fitted);
        cli_output_format(" |\n");
    }
    if (settings->json) {
        cli_json_set_integer(object, "fitted", report->fitted_count);
        json_object_set_new(object, "rows", rows);
        cli_json_print(object);
    } else {
        json_decref(rows);
        json_decref(object);
    }
    ork_free(report);
    return CLI_OK;
}

/* Shapes are names or JSON; what else can be read is opened as a model. */
static bool is_model(const char *path)
{
    for (size_t i = 0; ork_simulate_shapes()[i]; i++)
        if (!strcmp(path, ork_simulate_shapes()[i]))
            return false;
    FILE *file = fopen(path, "re");
    int first = file ? fgetc(file) : EOF;
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t')
        first = fgetc(file);
    if (file)
        fclose(file);
    return first != EOF && first != '{';
}

static int simulate_model(const cli_settings *settings, const ork_simulate_params *params, ork_simulation **simulation,
                          ork_status *status, ork_error *error)
{
    cli_model model;
    cli_settings mapped = *settings;
    mapped.load_mode = ORK_LOAD_MAP;
    const int code = cli_model_open(&mapped, settings->positional[0], &model);
    if (code != CLI_OK)
        return code;
    *status = ork_simulate_model(model.model, params, simulation, error);
    cli_model_close(&model);
    return CLI_OK;
}

int cli_simulate(const cli_settings *settings)
{
    ork_simulation *simulation;
    ork_error error;
    const ork_simulate_params params = {
        .board = settings->npu_board,
        .shape = settings->positional[0],
        .policy = (ork_policy)settings->simulate_policy,
        .published = settings->simulate_published,
        .context = settings->context > 0 ? (uint32_t)settings->context : 0,
        .prompt = (uint32_t)settings->simulate_prompt,
        .tokens = (uint32_t)settings->simulate_tokens,
        .seed = settings->seed > 0 ? (uint64_t)settings->seed : 0,
        .submit_us = settings->simulate_submit_us,
        .bus_share = settings->simulate_bus_share,
        .late_layers = (uint32_t)settings->simulate_late,
        .domains = (uint32_t)settings->simulate_domains,
        .delay_us = settings->simulate_delay_us,
        .slowdown_max = settings->simulate_slowdown,
        .npu_memory_bytes = settings->npu_memory > 0 ? (uint64_t)settings->npu_memory << 20 : 0,
    };
    int code = settings->npu_board ? cli_check_input(settings->npu_board) : CLI_OK;
    ork_status status = ORK_OK;
    if (code != CLI_OK)
        return code;
    if (!settings->positional_count)
        return settings->simulate_published ? show_published(settings) : cli_usage("simulate", "which model or shape?");
    if (is_model(settings->positional[0]))
        code = simulate_model(settings, &params, &simulation, &status, &error);
    else
        status = ork_simulate(&params, &simulation, &error);
    if (code != CLI_OK)
        return code;
    if (status != ORK_OK) {
        if (error.code == ORK_BAD_ARGUMENT)
            return cli_usage("simulate", "%s", error.what);
        code = cli_report_input_error(&error);
        return error.code == ORK_LIMIT ? CLI_BAD_INPUT : code; /* of the shape */
    }
    if (settings->simulate_svg)
        code = svg_save(simulation, settings->simulate_svg);
    if (code == CLI_OK && settings->json)
        print_json(simulation);
    else if (code == CLI_OK)
        print_text(simulation);
    ork_free(simulation);
    return code;
}
