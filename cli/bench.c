/* Owns `ork bench`: which tests, how they are measured, what a speed needs to be believed. Must not know how it is
 * printed. Only ork_session_sync() is inside the measured time. */
#include "bench_output.h"
#include "commands.h"
#include "machine.h"
#include "model.h"
#include "report.h"
#include "terminal.h"
#include "tiers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* One test; 0 in threads and ubatch: chosen. */
typedef struct bench_case {
    uint64_t batch, ubatch, threads, depth, prompt, generate;
    uint32_t draft_max; /* 0: no lookup */
    ork_kv_type type_key, type_value;
} bench_case;

typedef struct bench_plan {
    const cli_settings *settings;
    bench_case *cases; /* for every model */
    size_t case_count;
    cli_bench_printer printers[2];
} bench_plan;

/* What is open while a model's cases run. */
typedef struct bench_model {
    cli_model opened;
    const ork_card_summary *summary;
    uint64_t size_bytes;
    char *type, *tier_plan;
    const char *load_mode;
    char cpu[128];
} bench_model;

static uint32_t random_below(uint64_t *state, uint64_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * limit >> 32);
}

/* The same tokens in every run. From `from` on `repeats` percent of them go on copying from an earlier place; the others
 * are new, and the copy goes on elsewhere. */
static void random_tokens(ork_token *tokens, size_t count, size_t from, uint32_t repeats, const ork_model *model,
                          uint32_t vocabulary_size)
{
    uint64_t state = 0x6f726b2062656e63u;
    size_t place = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_copy = i && i >= from && repeats && random_below(&state, 100) < repeats;
        tokens[i] = is_copy ? tokens[place++] : (ork_token)random_below(&state, vocabulary_size);
        if (!is_copy && i && repeats)
            place = random_below(&state, i);
    }
    if (count && ork_token_adds_bos(model))
        tokens[0] = ork_token_bos(model);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* lookup: NULL for none; with one, `left` more tokens follow. */
static int sync_to(ork_session *session, ork_lookup *lookup, const ork_token *tokens, size_t count, size_t left)
{
    ork_error error;
    ork_status status = lookup ? ork_lookup_sync(lookup, session, tokens, count, left, &error)
                               : ork_session_sync(session, tokens, count, count - 1, &error);
    if (status == ORK_CANCELLED)
        return cli_interrupt_exit_code();
    return status == ORK_OK ? CLI_OK : cli_report_error(&error);
}

/* A speed of wrong numbers is worth nothing: the last logits must be finite and not all the same. */
static int check_logits(const ork_session *session, size_t position, uint32_t vocabulary_size)
{
    const float *logits = ork_session_logits(session, position);
    if (!logits)
        return cli_fail(CLI_FAILURE, "bench", "there are no logits for position %zu: no speed is shown", position);
    bool is_constant = vocabulary_size > 1;
    for (uint32_t i = 0; i < vocabulary_size; i++) {
        if (!isfinite(logits[i]))
            return cli_fail(CLI_FAILURE, "bench", "logit %u at position %zu is not finite: no speed is shown", i,
                            position);
        is_constant = is_constant && logits[i] == logits[0];
    }
    if (is_constant)
        return cli_fail(CLI_FAILURE, "bench", "all logits at position %zu are equal: no speed is shown", position);
    return CLI_OK;
}

/* Runs the prompt and the generation of a case behind what the session holds. */
static int run_case(ork_session *session, ork_lookup *lookup, const bench_case *test, const ork_token *tokens)
{
    size_t count = test->depth, prompt_end = test->depth + test->prompt, end = prompt_end + test->generate;
    int code = CLI_OK;
    while (code == CLI_OK && count < prompt_end) {
        count = prompt_end - count > test->batch ? count + test->batch : prompt_end;
        code = sync_to(session, NULL, tokens, count, 0);
    }
    for (count++; code == CLI_OK && count <= end; count++)
        code = sync_to(session, lookup, tokens, count, end - count);
    return code;
}

/* Brings the session to the depth where a repetition begins. */
static int go_to_depth(ork_session *session, const bench_case *test, const ork_token *tokens, ork_snapshot **snapshot)
{
    ork_error error;
    if (*snapshot)
        return ork_session_restore(session, *snapshot, &error) == ORK_OK ? CLI_OK : cli_report_error(&error);
    ork_session_clear(session);
    if (!test->depth)
        return CLI_OK;
    int code = sync_to(session, NULL, tokens, test->depth, 0);
    if (code == CLI_OK && ork_session_snapshot(session, snapshot, &error) != ORK_OK)
        code = cli_report_error(&error);
    return code;
}

/* One timed repetition, with a lookup that has seen nothing yet where the case wants one. */
static int run_repetition(const bench_model *model, ork_session *session, const bench_case *test,
                          const ork_token *tokens, uint64_t *sample_ns, ork_lookup_stats *lookup_stats)
{
    ork_lookup_params params = {.draft_max = test->draft_max};
    ork_lookup *lookup = NULL;
    ork_error error;
    if (test->draft_max && ork_lookup_create(model->opened.model, &params, &lookup, &error) != ORK_OK)
        return cli_report_error(&error);
    uint64_t start = now_ns();
    int code = run_case(session, lookup, test, tokens);
    *sample_ns = now_ns() - start;
    if (lookup)
        ork_lookup_get_stats(lookup, lookup_stats);
    ork_lookup_destroy(lookup);
    return code;
}

static int measure(const bench_plan *plan, const bench_model *model, ork_session *session, const bench_case *test,
                   const ork_token *tokens, uint64_t *samples_ns, ork_lookup_stats *lookup_stats)
{
    const cli_settings *settings = plan->settings;
    size_t end = test->depth + test->prompt + test->generate;
    ork_snapshot *snapshot = NULL;
    int code = CLI_OK;
    if (!settings->no_warmup) {
        bench_case warmup = *test; /* a whole prompt, but one generated token, as llama-bench does */
        warmup.depth = 0;
        warmup.generate = warmup.generate ? 1 : 0;
        ork_session_clear(session);
        code = run_case(session, NULL, &warmup, tokens);
    }
    for (int64_t i = 0; code == CLI_OK && i < settings->repetitions; i++) {
        if (settings->bench_progress)
            cli_say("repetition %lld of %lld", (long long)i + 1, (long long)settings->repetitions);
        code = go_to_depth(session, test, tokens, &snapshot);
        if (code != CLI_OK)
            break;
        code = run_repetition(model, session, test, tokens, &samples_ns[i], lookup_stats);
        if (code == CLI_OK)
            code = check_logits(session, end - 1, model->summary->vocabulary_size);
    }
    if (snapshot)
        ork_snapshot_destroy(snapshot);
    return code;
}

static void print_row(bench_plan *plan, const bench_model *model, const bench_case *test, const ork_session *session,
                      const uint64_t *samples_ns, const ork_lookup_stats *lookup, const cli_npu_troubles *before)
{
    static const char *const kv_names[] = {[ORK_KV_F16] = "f16", [ORK_KV_F32] = "f32"};
    ork_session_stats stats;
    char moment[32], mask[80];
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%SZ", &utc);
    ork_session_get_stats(session, &stats);
    cli_npu_troubles after = cli_npu_get_troubles(&model->opened.npu);
    snprintf(mask, sizeof mask, "%s",
             plan->settings->cpu_mask    ? plan->settings->cpu_mask
             : plan->settings->cpu_range ? plan->settings->cpu_range
                                         : "0x0");
    cli_bench_row row = {
        .version = ork_version(),
        .build_number = ORK_VERSION_MAJOR * 10000 + ORK_VERSION_MINOR * 100 + ORK_VERSION_PATCH,
        .cpu = model->cpu,
        .model_file = model->opened.given,
        .model_type = model->type,
        .model_size_bytes = model->size_bytes,
        .parameter_count = model->summary->parameter_count,
        .bytes_per_token = model->summary->bytes_per_token,
        .kernels = stats.kernels,
        .tier_plan = model->tier_plan,
        .load_mode = model->load_mode,
        .type_key = kv_names[test->type_key],
        .type_value = kv_names[test->type_value],
        .batch = test->batch,
        .ubatch = stats.batch_rows,
        .threads = stats.threads,
        .cpu_mask = mask,
        .poll = plan->settings->poll >= 0 ? plan->settings->poll : 50,
        .prompt = test->prompt,
        .generate = test->generate,
        .depth = test->depth,
        .draft_max = test->draft_max,
        .repeats = test->generate ? (uint64_t)plan->settings->bench_repeats : 0,
        .passes = lookup->passes,
        .drafted = lookup->drafted,
        .accepted = lookup->accepted,
        .time = moment,
        .samples_ns = samples_ns,
        .sample_count = (size_t)plan->settings->repetitions,
        .npu = cli_npu_name(&model->opened.npu),
        .npu_share = cli_npu_share(session),
        .npu_declined = after.declined - before->declined,
        .npu_redone = after.redone - before->redone,
        .npu_faults = after.faults - before->faults,
        .npu_off = after.off,
        .overlay_planned = stats.overlay.planned,
        .overlay_submitted = stats.overlay.submitted,
        .overlay_busy = stats.overlay.busy,
        .overlay_rested = stats.overlay.rested,
        .overlay_in_time = stats.overlay.in_time,
        .overlay_late = stats.overlay.late,
        .overlay_faulted = stats.overlay.faulted,
        .overlay_bytes = stats.overlay.bytes,
    };
    for (size_t i = 0; i < 2; i++)
        if (plan->printers[i].format != BENCH_NONE)
            cli_bench_print_row(&plan->printers[i], &row);
}

static int run_test(bench_plan *plan, const bench_model *model, const bench_case *test)
{
    size_t count = test->depth + test->prompt + test->generate;
    ork_session_params params = cli_session_params(plan->settings, (uint32_t)count);
    params.threads = (uint32_t)test->threads;
    params.threads_batch = (uint32_t)test->threads;
    params.batch_rows = (uint32_t)(test->ubatch && test->ubatch > test->batch ? test->batch : test->ubatch);
    params.kv_type_key = test->type_key;
    params.kv_type_value = test->type_value;
    ork_session *session;
    ork_session_stats stats;
    ork_lookup_stats lookup = {0};
    cli_npu_troubles before = cli_npu_get_troubles(&model->opened.npu);
    int code = cli_session_create(&model->opened, &params, &session);
    if (code != CLI_OK)
        return code;
    ork_session_get_stats(session, &stats);
    if (stats.context_length < count)
        code = cli_fail(CLI_FAILURE, "bench", "a test needs %zu tokens of context, %u are there", count,
                        stats.context_length);
    ork_token *tokens = cli_allocate(count * sizeof *tokens);
    uint64_t *samples_ns = cli_allocate((size_t)plan->settings->repetitions * sizeof *samples_ns);
    random_tokens(tokens, count, test->depth + test->prompt, (uint32_t)plan->settings->bench_repeats,
                  model->opened.model, model->summary->vocabulary_size);
    if (code == CLI_OK)
        code = measure(plan, model, session, test, tokens, samples_ns, &lookup);
    if (code == CLI_OK)
        print_row(plan, model, test, session, samples_ns, &lookup, &before);
    code = cli_npu_end(&model->opened.npu, session, code);
    free(samples_ns);
    free(tokens);
    ork_session_destroy(session);
    return code;
}

static void close_model(bench_model *model)
{
    free(model->type);
    free(model->tier_plan);
    cli_model_close(&model->opened);
}

static int open_model(const bench_plan *plan, const char *path, bench_model *model)
{
    cli_tier_map map;
    char count[32];
    uint64_t weight_bytes;
    memset(model, 0, sizeof *model);
    int code = cli_model_open(plan->settings, path, &model->opened);
    if (code != CLI_OK)
        return code;
    const ork_card *card = ork_model_card(model->opened.model);
    model->summary = ork_card_get_summary(card);
    code = cli_tier_map_create(card, &map);
    if (code != CLI_OK) {
        close_model(model);
        return code;
    }
    /* "lfm2moe 8.34 B nf4": the largest tier names the file, as llama.cpp's file type does. */
    model->type = cli_format_text("%s %s %s", model->summary->architecture,
                                  cli_format_count(model->summary->parameter_count, count, sizeof count),
                                  map.tier_count ? map.tiers[0].type : "");
    model->tier_plan = cli_tier_map_plan(&map);
    model->size_bytes = map.size_bytes;
    model->load_mode = ork_model_load_mode(model->opened.model, &weight_bytes) == ORK_LOAD_COPY ? "copy" : "map";
    cli_machine_name(model->cpu, sizeof model->cpu);
    cli_tier_map_free(&map);
    return CLI_OK;
}

static int run_model(bench_plan *plan, const char *path)
{
    bench_model model;
    int code = open_model(plan, path, &model);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; code == CLI_OK && i < plan->case_count; i++) {
        const bench_case *test = &plan->cases[i];
        if (plan->settings->bench_progress)
            cli_say("%s: test %zu of %zu: pp%llu tg%llu at depth %llu", path, i + 1, plan->case_count,
                    (unsigned long long)test->prompt, (unsigned long long)test->generate,
                    (unsigned long long)test->depth);
        struct timespec pause = {.tv_sec = (time_t)plan->settings->delay};
        if (pause.tv_sec && nanosleep(&pause, NULL) != 0 && cli_interrupted())
            code = cli_interrupt_exit_code();
        else
            code = run_test(plan, &model, test);
    }
    close_model(&model);
    return code;
}

/* A list, or one default value when it is empty. */
static const int64_t *values_of(const cli_number_list *list, const int64_t *value, size_t *count)
{
    *count = list->count ? list->count : 1;
    return list->count ? list->items : value;
}

static void add_case(bench_plan *plan, bench_case test)
{
    if (!test.prompt && !test.generate)
        return;
    plan->cases = cli_reallocate(plan->cases, (plan->case_count + 1) * sizeof *plan->cases);
    plan->cases[plan->case_count++] = test;
}

/* A test that generates: with every longest draft that is asked for. */
static void add_generation(bench_plan *plan, bench_case test)
{
    static const int64_t off = 0;
    size_t count;
    const int64_t *lengths = values_of(&plan->settings->bench_lookup, &off, &count);
    for (size_t i = 0; i < count; i++) {
        test.draft_max = (uint32_t)lengths[i];
        add_case(plan, test);
    }
}

/* The tests of one combination of parameters: every -p, every -n, every -pg. */
static int add_tests(bench_plan *plan, bench_case base)
{
    const cli_settings *settings = plan->settings;
    static const int64_t default_prompt = 512, default_generate = 128;
    size_t pairs = settings->bench_pairs.count;
    bool has_default = !settings->bench_prompt.count && !pairs,
         has_default_gen = !settings->bench_generate.count && !pairs;
    const int64_t *prompts = has_default ? &default_prompt : settings->bench_prompt.items;
    const int64_t *lengths = has_default_gen ? &default_generate : settings->bench_generate.items;
    size_t prompt_count = has_default ? 1 : settings->bench_prompt.count;
    size_t length_count = has_default_gen ? 1 : settings->bench_generate.count;
    for (size_t i = 0; i < prompt_count; i++) {
        base.prompt = (uint64_t)prompts[i];
        base.generate = 0;
        add_case(plan, base);
    }
    for (size_t i = 0; i < length_count; i++) {
        base.prompt = 0;
        base.generate = (uint64_t)lengths[i];
        add_generation(plan, base);
    }
    for (size_t i = 0; i < pairs; i++) {
        unsigned prompt, length;
        char end;
        if (sscanf(settings->bench_pairs.items[i], "%u,%u%c", &prompt, &length, &end) != 2 || prompt > 1u << 24 ||
            length > 1u << 24)
            return cli_usage("bench", "-pg: '%s' is not P,N", settings->bench_pairs.items[i]);
        base.prompt = prompt;
        base.generate = length;
        add_generation(plan, base);
    }
    return CLI_OK;
}

/* "f16,f32" in all the lists given -> types; at most four. */
static int parse_types(const cli_text_list *list, const char *option, ork_kv_type *types, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < list->count; i++)
        for (const char *text = list->items[i]; *text;) {
            size_t length = strcspn(text, ",");
            bool is_half = length == 3 && strncasecmp(text, "f16", 3) == 0;
            if ((!is_half && !(length == 3 && strncasecmp(text, "f32", 3) == 0)) || *count == 4)
                return cli_usage("bench", "%s: '%s' is not a list of f16, f32", option, list->items[i]);
            types[(*count)++] = is_half ? ORK_KV_F16 : ORK_KV_F32;
            text += length + (text[length] == ',');
        }
    if (!*count)
        types[(*count)++] = ORK_KV_F16;
    return CLI_OK;
}

static int plan_cases(bench_plan *plan)
{
    static const int64_t chosen = 0, default_batch = 2048;
    const cli_settings *settings = plan->settings;
    size_t batch_count, ubatch_count, thread_count, depth_count, key_count, value_count, total = 1;
    const int64_t *batches = values_of(&settings->bench_batch, &default_batch, &batch_count);
    const int64_t *ubatches = values_of(&settings->bench_ubatch, &chosen, &ubatch_count);
    const int64_t *threads = values_of(&settings->bench_threads, &chosen, &thread_count);
    const int64_t *depths = values_of(&settings->bench_depth, &chosen, &depth_count);
    ork_kv_type keys[4], values[4];
    int code = parse_types(&settings->bench_type_key, "-ctk", keys, &key_count);
    if (code == CLI_OK)
        code = parse_types(&settings->bench_type_value, "-ctv", values, &value_count);
    if (code != CLI_OK)
        return code;
    /* One counter in mixed radix instead of six nested loops; the depth turns fastest. */
    const size_t counts[] = {depth_count, thread_count, value_count, key_count, ubatch_count, batch_count};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        total *= counts[i];
    for (size_t i = 0; code == CLI_OK && i < total; i++) {
        size_t at[6], rest = i;
        for (size_t j = 0; j < 6; j++) {
            at[j] = rest % counts[j];
            rest /= counts[j];
        }
        code = add_tests(plan, (bench_case){.depth = (uint64_t)depths[at[0]],
                                            .threads = (uint64_t)threads[at[1]],
                                            .type_value = values[at[2]],
                                            .type_key = keys[at[3]],
                                            .ubatch = (uint64_t)ubatches[at[4]],
                                            .batch = (uint64_t)batches[at[5]]});
        if (plan->case_count > 10000)
            code = cli_usage("bench", "more than 10000 tests");
    }
    if (code == CLI_OK && !plan->case_count)
        code = cli_usage("bench", "no tests: -p, -n and -pg are all 0");
    return code;
}

static void set_printers(bench_plan *plan)
{
    const cli_settings *settings = plan->settings;
    cli_bench_columns columns = {
        .batch = settings->bench_batch.count > 0,
        .ubatch = settings->bench_ubatch.count > 0,
        .type_key = settings->bench_type_key.count > 0,
        .type_value = settings->bench_type_value.count > 0,
        .load_mode = settings->load_mode != ORK_LOAD_AUTO,
        .npu = settings->npu_kind != 0,
        .lookup = settings->bench_lookup.count > 0,
    };
    plan->printers[0] = (cli_bench_printer){.format = settings->bench_output, .columns = columns};
    plan->printers[1] = (cli_bench_printer){.format = settings->bench_errors, .to_errors = true, .columns = columns};
}

int cli_bench(const cli_settings *settings)
{
    bench_plan plan = {.settings = settings};
    if (!settings->models.count && !settings->positional_count)
        return cli_usage("bench", "no model given");
    int code = plan_cases(&plan);
    for (size_t i = 0; code == CLI_OK && i < settings->models.count; i++)
        code = cli_check_input(settings->models.items[i]);
    for (size_t i = 0; code == CLI_OK && i < settings->positional_count; i++)
        code = cli_check_input(settings->positional[i]);
    if (code == CLI_OK)
        code = cli_npu_check(settings, "bench");
    if (code == CLI_OK)
        code = cli_affinity_apply(settings, "bench");
    if (code != CLI_OK) {
        free(plan.cases);
        return code;
    }
    set_printers(&plan);
    for (size_t i = 0; code == CLI_OK && i < settings->models.count; i++)
        code = run_model(&plan, settings->models.items[i]);
    for (size_t i = 0; code == CLI_OK && i < settings->positional_count; i++)
        code = run_model(&plan, settings->positional[i]);
    for (size_t i = 0; i < 2; i++)
        cli_bench_print_footer(&plan.printers[i]);
    free(plan.cases);
    return code;
}
