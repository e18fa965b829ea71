/* Owns the printed shapes of a benchmark: markdown, CSV, JSON, JSON lines, SQL. Must not know how rows are measured. */
#include "bench_output.h"
#include "json.h"
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_TEXT, FIELD_INTEGER, FIELD_REAL, FIELD_BOOLEAN };

typedef struct bench_field {
    const char *name;
    int kind;
    const char *text;
    int64_t integer;
    double real;
} bench_field;

enum { FIELD_MAX = 50 };

static void emit(const cli_bench_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void emit(const cli_bench_printer *printer, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        exit(cli_fail(CLI_FAILURE, "", "out of memory"));
    if (printer->to_errors)
        fwrite(text, 1, (size_t)length, stderr);
    else
        cli_output_write(text, (size_t)length);
    free(text);
}

static double tokens_per_second(const cli_bench_row *row, size_t sample)
{
    uint64_t ns = row->samples_ns[sample] ? row->samples_ns[sample] : 1;
    return 1e9 * (double)(row->prompt + row->generate) / (double)ns;
}

/* Mean and sample standard deviation of the times (ns) or the speeds. */
static void statistics(const cli_bench_row *row, bool of_speed, double *mean, double *deviation)
{
    double sum = 0, squares = 0, n = (double)row->sample_count;
    for (size_t i = 0; i < row->sample_count; i++)
        sum += of_speed ? tokens_per_second(row, i) : (double)row->samples_ns[i];
    *mean = sum / n;
    for (size_t i = 0; i < row->sample_count; i++) {
        double off = (of_speed ? tokens_per_second(row, i) : (double)row->samples_ns[i]) - *mean;
        squares += off * off;
    }
    *deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
}

#define TEXT(key, value)                                                                                               \
    fields[n++] = (bench_field)                                                                                        \
    {                                                                                                                  \
        .name = (key), .kind = FIELD_TEXT, .text = (value)                                                             \
    }
#define INTEGER(key, value)                                                                                            \
    fields[n++] = (bench_field)                                                                                        \
    {                                                                                                                  \
        .name = (key), .kind = FIELD_INTEGER, .integer = (int64_t)(value)                                              \
    }
#define REAL(key, value)                                                                                               \
    fields[n++] = (bench_field)                                                                                        \
    {                                                                                                                  \
        .name = (key), .kind = FIELD_REAL, .real = (value)                                                             \
    }
#define BOOLEAN(key, value)                                                                                            \
    fields[n++] = (bench_field)                                                                                        \
    {                                                                                                                  \
        .name = (key), .kind = FIELD_BOOLEAN, .integer = (value)                                                       \
    }

static const char *backends(const cli_bench_row *row)
{
    return row->npu_share > 0 ? "CPU,NPU" : "CPU";
}

static size_t list_fields(const cli_bench_row *row, bench_field *fields)
{
    size_t n = 0;
    double mean_ns, deviation_ns, mean_speed, deviation_speed;
    statistics(row, false, &mean_ns, &deviation_ns);
    statistics(row, true, &mean_speed, &deviation_speed);
    TEXT("build_commit", row->version);
    INTEGER("build_number", row->build_number);
    TEXT("cpu_info", row->cpu);
    TEXT("gpu_info", "");
    TEXT("backends", backends(row));
    TEXT("model_filename", row->model_file);
    TEXT("model_type", row->model_type);
    INTEGER("model_size", row->model_size_bytes);
    INTEGER("model_n_params", row->parameter_count);
    INTEGER("n_batch", row->batch);
    INTEGER("n_ubatch", row->ubatch);
    INTEGER("n_threads", row->threads);
    TEXT("cpu_mask", row->cpu_mask);
    BOOLEAN("cpu_strict", true);
    INTEGER("poll", row->poll);
    TEXT("type_k", row->type_key);
    TEXT("type_v", row->type_value);
    INTEGER("n_gpu_layers", 0);
    TEXT("load_mode", row->load_mode);
    INTEGER("n_prompt", row->prompt);
    INTEGER("n_gen", row->generate);
    INTEGER("n_depth", row->depth);
    TEXT("test_time", row->time);
    INTEGER("avg_ns", mean_ns + 0.5);
    INTEGER("stddev_ns", deviation_ns + 0.5);
    REAL("avg_ts", mean_speed);
    REAL("stddev_ts", deviation_speed);
    TEXT("engine", row->kernels);
    TEXT("tier_plan", row->tier_plan);
    INTEGER("bytes_per_token", row->bytes_per_token);
    TEXT("npu", row->npu);
    REAL("npu_share", row->npu_share);
    INTEGER("npu_declined", row->npu_declined);
    INTEGER("npu_redone", row->npu_redone);
    INTEGER("npu_faults", row->npu_faults);
    BOOLEAN("npu_off", row->npu_off);
    INTEGER("overlay_planned", row->overlay_planned);
    INTEGER("overlay_submitted", row->overlay_submitted);
    INTEGER("overlay_busy", row->overlay_busy);
    INTEGER("overlay_rested", row->overlay_rested);
    INTEGER("overlay_in_time", row->overlay_in_time);
    INTEGER("overlay_late", row->overlay_late);
    INTEGER("overlay_faulted", row->overlay_faulted);
    INTEGER("overlay_bytes", row->overlay_bytes);
    INTEGER("repeats", row->repeats);
    INTEGER("lookup", row->draft_max);
    INTEGER("lookup_passes", row->passes);
    INTEGER("lookup_drafted", row->drafted);
    INTEGER("lookup_accepted", row->accepted);
    return n;
}

static void format_value(const bench_field *field, char *text, size_t capacity)
{
    if (field->kind == FIELD_TEXT)
        snprintf(text, capacity, "%s", field->text);
    else if (field->kind == FIELD_REAL)
        snprintf(text, capacity, "%.6f", field->real);
    else
        snprintf(text, capacity, "%lld", (long long)field->integer);
}

/* Text within `quote`s, a quote inside doubled: CSV with ", SQL with '. */
static char *quoted(const char *text, char quote)
{
    char *copy = cli_allocate(2 * strlen(text) + 3), *out = copy;
    *out++ = quote;
    for (; *text; text++) {
        if (*text == quote)
            *out++ = quote;
        *out++ = *text;
    }
    *out++ = quote;
    *out = 0;
    return copy;
}

static void print_values(const cli_bench_printer *printer, const cli_bench_row *row, char quote, const char *separator)
{
    bench_field fields[FIELD_MAX];
    size_t count = list_fields(row, fields);
    for (size_t i = 0; i < count; i++) {
        char value[1024];
        format_value(&fields[i], value, sizeof value);
        char *text = quoted(value, quote);
        emit(printer, "%s%s", i ? separator : "", text);
        free(text);
    }
}

static void print_names(const cli_bench_printer *printer, const char *separator, bool with_types)
{
    static const uint64_t sample = 1;
    static const char *const types[] = {"TEXT", "INTEGER", "REAL", "INTEGER"};
    cli_bench_row row = {.samples_ns = &sample, .sample_count = 1, .npu = ""};
    bench_field fields[FIELD_MAX];
    size_t count = list_fields(&row, fields);
    for (size_t i = 0; i < count; i++)
        emit(printer, "%s%s%s%s", i ? separator : "", fields[i].name, with_types ? " " : "",
             with_types ? types[fields[i].kind] : "");
}

static json_t *row_json(const cli_bench_row *row)
{
    bench_field fields[FIELD_MAX];
    size_t count = list_fields(row, fields);
    json_t *object = json_object(), *times = json_array(), *speeds = json_array();
    for (size_t i = 0; i < count; i++) {
        if (fields[i].kind == FIELD_TEXT)
            cli_json_set_text(object, fields[i].name, fields[i].text);
        else if (fields[i].kind == FIELD_REAL)
            cli_json_set_number(object, fields[i].name, fields[i].real);
        else if (fields[i].kind == FIELD_BOOLEAN)
            cli_json_set_boolean(object, fields[i].name, fields[i].integer != 0);
        else
            json_object_set_new(object, fields[i].name, json_integer(fields[i].integer));
    }
    for (size_t i = 0; i < row->sample_count; i++) {
        json_array_append_new(times, json_integer((json_int_t)row->samples_ns[i]));
        json_array_append_new(speeds, cli_json_number(tokens_per_second(row, i)));
    }
    json_object_set_new(object, "samples_ns", times);
    json_object_set_new(object, "samples_ts", speeds);
    return object;
}

static void print_json(const cli_bench_printer *printer, const cli_bench_row *row)
{
    bool is_lines = printer->format == BENCH_JSONL;
    json_t *object = row_json(row);
    char *text = json_dumps(object, (is_lines ? 0 : JSON_INDENT(2)) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (!text)
        exit(cli_fail(CLI_FAILURE, "", "out of memory"));
    if (is_lines)
        emit(printer, "%s\n", text);
    else
        emit(printer, "%s%s", printer->row_count ? ",\n" : "", text);
    free(text);
}

/* A cell of `width` columns, left-aligned when negative; ± is one column and two bytes. */
static void print_cell(const cli_bench_printer *printer, int width, const char *text)
{
    int extra = strstr(text, "±") ? 1 : 0;
    emit(printer, " %*s |", width < 0 ? width - extra : width + extra, text);
}

/* The cells of the table in their order; row NULL: the heading; rule: the line below it. */
static void print_markdown(const cli_bench_printer *printer, const cli_bench_row *row, bool is_rule)
{
    const struct {
        const char *name;
        int width;
        bool is_shown;
    } cells[] = {
        {"model", -30, true},
        {"size", 10, true},
        {"params", 10, true},
        {"backend", -10, true},
        {"threads", 7, true},
        {"n_batch", 7, printer->columns.batch},
        {"n_ubatch", 8, printer->columns.ubatch},
        {"type_k", 6, printer->columns.type_key},
        {"type_v", 6, printer->columns.type_value},
        {"lm", 6, printer->columns.load_mode},
        {"npu", 15, printer->columns.npu},
        {"lookup", 13, printer->columns.lookup},
        {"test", 15, true},
        {"t/s", 20, true},
    };
    enum { CELL_COUNT = sizeof cells / sizeof *cells };
    char values[CELL_COUNT][128];
    for (size_t i = 0; i < CELL_COUNT; i++)
        snprintf(values[i], sizeof values[i], "%s", cells[i].name);
    if (row) {
        double mean, deviation;
        char depth[32] = "";
        statistics(row, true, &mean, &deviation);
        if (row->depth)
            snprintf(depth, sizeof depth, " @ d%llu", (unsigned long long)row->depth);
        snprintf(values[0], sizeof values[0], "%s", row->model_type);
        bool is_small = row->model_size_bytes < 1u << 30;
        snprintf(values[1], sizeof values[1], "%.2f %s", (double)row->model_size_bytes / (is_small ? 1 << 20 : 1 << 30),
                 is_small ? "MiB" : "GiB");
        cli_format_count(row->parameter_count, values[2], sizeof values[2]);
        snprintf(values[3], sizeof values[3], "%s", backends(row));
        snprintf(values[4], sizeof values[4], "%llu", (unsigned long long)row->threads);
        snprintf(values[5], sizeof values[5], "%llu", (unsigned long long)row->batch);
        snprintf(values[6], sizeof values[6], "%llu", (unsigned long long)row->ubatch);
        snprintf(values[7], sizeof values[7], "%s", row->type_key);
        snprintf(values[8], sizeof values[8], "%s", row->type_value);
        snprintf(values[9], sizeof values[9], "%s", row->load_mode);
        snprintf(values[10], sizeof values[10], "%s %.1f %%%s", row->npu, 100 * row->npu_share,
                 row->npu_off ? ", off" : "");
        if (row->draft_max)
            snprintf(values[11], sizeof values[11], "%llu, %.0f %%", (unsigned long long)row->draft_max,
                     row->drafted ? 100.0 * (double)row->accepted / (double)row->drafted : 0.0);
        else
            snprintf(values[11], sizeof values[11], "off");
        if (row->prompt && row->generate)
            snprintf(values[12], sizeof values[12], "pp%llu+tg%llu%s", (unsigned long long)row->prompt,
                     (unsigned long long)row->generate, depth);
        else
            snprintf(values[12], sizeof values[12], "%s%llu%s", row->prompt ? "pp" : "tg",
                     (unsigned long long)(row->prompt + row->generate), depth);
        snprintf(values[13], sizeof values[13], "%.2f ± %.2f", mean, deviation);
    }
    emit(printer, "|");
    for (size_t i = 0; i < CELL_COUNT; i++) {
        if (!cells[i].is_shown)
            continue;
        if (is_rule)
            emit(printer, " %.*s%c |", abs(cells[i].width) - 1, "--------------------------------",
                 cells[i].width < 0 ? '-' : ':');
        else
            print_cell(printer, cells[i].width, values[i]);
    }
    emit(printer, "\n");
}

static void print_header(const cli_bench_printer *printer)
{
    if (printer->format == BENCH_MARKDOWN) {
        print_markdown(printer, NULL, false);
        print_markdown(printer, NULL, true);
    } else if (printer->format == BENCH_CSV) {
        print_names(printer, ",", false);
        emit(printer, "\n");
    } else if (printer->format == BENCH_JSON) {
        emit(printer, "[\n");
    } else if (printer->format == BENCH_SQL) {
        emit(printer, "CREATE TABLE IF NOT EXISTS llama_bench (\n  ");
        print_names(printer, ",\n  ", true);
        emit(printer, "\n);\n\n");
    }
}

void cli_bench_print_row(cli_bench_printer *printer, const cli_bench_row *row)
{
    if (printer->row_count == 0)
        print_header(printer);
    if (printer->format == BENCH_MARKDOWN) {
        print_markdown(printer, row, false);
    } else if (printer->format == BENCH_CSV) {
        print_values(printer, row, '"', ",");
        emit(printer, "\n");
    } else if (printer->format == BENCH_JSON || printer->format == BENCH_JSONL) {
        print_json(printer, row);
    } else if (printer->format == BENCH_SQL) {
        emit(printer, "INSERT INTO llama_bench (");
        print_names(printer, ", ", false);
        emit(printer, ") VALUES (");
        print_values(printer, row, '\'', ", ");
        emit(printer, ");\n");
    }
    printer->row_count++;
}

void cli_bench_print_footer(cli_bench_printer *printer)
{
    if (printer->format == BENCH_JSON && printer->row_count)
        emit(printer, "\n]\n");
}
