/* Owns the sections "published_system" and "ork_system" of a board file: keys, bounds, and the measurements that the
 * simulator is held against. Knows no formulas; the NPU's section is read by engine/npu. */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "sched/simulate.h"

extern const unsigned char ork_board_rk3588[];
extern const unsigned long ork_board_rk3588_bytes;

struct figure {
    const char *key;
    double low, high;
    size_t offset; /* of a double */
};

#define AT(field) offsetof(struct ork_published_figures, field)
static const struct figure published_figures[] = {
    {"bytes_per_s", 1e8, 1e13, AT(bytes_per_s)},
    {"nf4_bytes_per_s", 1e8, 1e13, AT(nf4_bytes_per_s)},
    {"op_us", 0, 1e4, AT(op_us)},
    {"delta_layer_us", 0, 1e5, AT(delta_layer_us)},
    {"attention_ops", 0, 1e4, AT(attention_ops)},
    {"convolution_ops", 0, 1e4, AT(convolution_ops)},
    {"delta_ops", 0, 1e4, AT(delta_ops)},
    {"experts_ops", 0, 1e4, AT(experts_ops)},
    {"dense_ops", 0, 1e4, AT(dense_ops)},
    {"head_ops", 0, 1e4, AT(head_ops)},
    {"dense_macs_per_s", 1e8, 1e15, AT(dense_macs_per_s)},
    {"expert_macs_per_s", 1e8, 1e15, AT(expert_macs_per_s)},
    {"float_macs_per_s", 1e8, 1e15, AT(float_macs_per_s)},
    {"runtime_call_us", 0, 1e5, AT(runtime_call_us)},
    {"domain_bytes", 1e6, 4294967296.0, AT(domain_bytes)},
    {"touched_share", 0.01, 1, AT(touched_share)},
    {"batched_experts", 0, 1e6, AT(batched_experts)},
    {"batched_expert_us", 0, 1e6, AT(batched_expert_us)},
    {"split_expert_us", 0, 1e6, AT(split_expert_us)},
    {"q8_bits", 1, 32, AT(q8_bits)},
    {"nf4_bits", 1, 32, AT(nf4_bits)},
};
#undef AT
#define AT(field) offsetof(struct ork_system_figures, field)
static const struct figure ork_figures[] = {
    {"bytes_per_s_4", 1e8, 1e13, AT(bytes_per_s_4)},
    {"bytes_per_s_8", 1e8, 1e13, AT(bytes_per_s_8)},
    {"region_us", 0, 1e4, AT(region_us)},
    {"macs_per_s", 1e8, 1e15, AT(macs_per_s)},
    {"float_macs_per_s", 1e8, 1e15, AT(float_macs_per_s)},
    {"bus_bytes_per_s", 1e8, 1e13, AT(bus_bytes_per_s)},
    {"submit_jitter_us", 0, 1e5, AT(submit_jitter_us)},
    {"lost_chance", 0, 1, AT(lost_chance)},
    {"swap_bytes_per_s", 1e6, 1e13, AT(swap_bytes_per_s)},
    {"memory_bytes", 1e6, 1e15, AT(memory_bytes)},
    {"domain_bytes", 1e6, 4294967296.0, AT(domain_bytes)},
};
#undef AT

static ork_status figures_read(const json_t *root, const char *section, const struct figure *figures, size_t count,
                               const char *where, void *target, ork_error *error)
{
    json_t *object = json_object_get(root, section);
    if (!json_is_object(object))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "no section \"%s\": this board cannot be simulated",
                             section);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_object_get(object, figures[i].key), *value = json_object_get(item, "value");
        const double number = json_number_value(value);
        if (!json_is_number(value) || !json_is_string(json_object_get(item, "source")))
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: missing, or without a number or a source",
                                 section, figures[i].key);
        if (!(number >= figures[i].low && number <= figures[i].high))
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s is %g, must be %g to %g", section,
                                 figures[i].key, number, figures[i].low, figures[i].high);
        memcpy((char *)target + figures[i].offset, &number, sizeof number);
    }
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(figures[i].key, key) != 0)
            i++;
        if (i == count && strcmp(key, "runs") != 0)
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: unknown figure", section, key);
    }
    return ORK_OK;
}

static bool text_read(const json_t *item, const char *key, char *text, size_t capacity)
{
    const char *value = json_string_value(json_object_get(item, key));
    return value && snprintf(text, capacity, "%s", value) < (int)capacity;
}

static bool count_read(const json_t *item, const char *key, uint32_t *count)
{
    const json_t *value = json_object_get(item, key);
    const json_int_t number = json_integer_value(value);
    *count = (uint32_t)number;
    return json_is_integer(value) && number >= 0 && number <= 4096;
}

/* "fitted" is the figure that was chosen by this row, or "" for a prediction. */
static ork_status runs_read(const json_t *root, const char *where, struct ork_simulate_board *board, ork_error *error)
{
    const json_t *runs = json_object_get(json_object_get(root, "published_system"), "runs");
    if (!json_is_array(runs) || json_array_size(runs) > ORK_PUBLISHED_RUNS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "published_system.runs: must be a list of at most %d",
                             ORK_PUBLISHED_RUNS_MAX);
    board->run_count = json_array_size(runs);
    for (size_t i = 0; i < board->run_count; i++) {
        const json_t *item = json_array_get(runs, i);
        struct ork_published_run *run = &board->runs[i];
        run->measured = json_number_value(json_object_get(item, "measured"));
        if (!text_read(item, "name", run->name, sizeof run->name) ||
            !text_read(item, "shape", run->shape, sizeof run->shape) ||
            !text_read(item, "policy", run->policy, sizeof run->policy) ||
            !text_read(item, "weights", run->weights, sizeof run->weights) ||
            !text_read(item, "quantity", run->quantity, sizeof run->quantity) ||
            !text_read(item, "fitted", run->fitted, sizeof run->fitted) || !count_read(item, "prompt", &run->prompt) ||
            !count_read(item, "tokens", &run->tokens) || !count_read(item, "domains", &run->domains) ||
            !(run->measured > 0) || !run->prompt || !run->tokens ||
            (strcmp(run->quantity, "prefill") != 0 && strcmp(run->quantity, "decode") != 0) ||
            (strcmp(run->policy, "cpu") != 0 && strcmp(run->policy, "partition") != 0 &&
             strcmp(run->policy, "streaming") != 0) ||
            (strcmp(run->weights, "gguf") != 0 && strcmp(run->weights, "auto") != 0))
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "published_system.runs[%zu]: incomplete or impossible",
                                 i);
    }
    return ORK_OK;
}

static ork_status parse(const void *text, uint64_t size_bytes, const char *where, struct ork_simulate_board *board,
                        ork_error *error)
{
    ork_status status = ork_npu_profile_parse(text, size_bytes, where, &board->npu, error);
    if (status != ORK_OK)
        return status;
    json_error_t problem;
    json_t *root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return ork_error_no_memory(error, where, size_bytes); /* it was well-formed a moment ago */
    status = figures_read(root, "published_system", published_figures,
                          sizeof published_figures / sizeof published_figures[0], where, &board->published, error);
    if (status == ORK_OK)
        status = figures_read(root, "ork_system", ork_figures, sizeof ork_figures / sizeof ork_figures[0], where,
                              &board->ork, error);
    if (status == ORK_OK)
        status = runs_read(root, where, board, error);
    json_decref(root);
    return status;
}

ork_status ork_simulate_board_read(const char *path, struct ork_simulate_board *board, ork_error *error)
{
    memset(board, 0, sizeof *board);
    if (!path)
        return parse(ork_board_rk3588, ork_board_rk3588_bytes, "built-in board", board, error);
    struct ork_mapping mapping;
    ork_status status = ork_file_map(path, &mapping, error);
    if (status != ORK_OK)
        return status;
    status = parse(mapping.data ? (const void *)mapping.data : "", mapping.size_bytes, path, board, error);
    ork_mapping_release(&mapping);
    return status;
}
