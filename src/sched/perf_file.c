/* Owns where a perf model's figures come from: boards, guesses, and the JSON of a calibration with its keys and bounds. Must
 * not know formulas or how anything is measured. */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sched/perf.h"
#include "sched/simulate.h"

#define CALIBRATION_FORMAT "ork-calibration"
#define CALIBRATION_VERSION 2 /* 1 had no chain figures */
#define CALIBRATION_BYTES_MAX (64u << 10)

/* A calibration's figures; bounds are wide, they catch wrong units and lost digits. */
struct figure {
    const char *key;
    double low, high;
    size_t offset; /* of a double in struct ork_perf */
};
#define AT(field) offsetof(struct ork_perf, field)
static const struct figure cpu_figures[] = {
    {"region_s", 0, 1, AT(region_s)},
    {"row_s", 0, 1, AT(row_s)},
    {"token_s", 0, 1, AT(token_s)},
    {"attention_bytes_per_s", 1e6, 1e14, AT(attention_bytes_per_s)},
    {"bus_bytes_per_s", 1e6, 1e14, AT(bus_bytes_per_s)},
};
static const struct figure npu_figures[] = {
    {"clock_hz", 1e7, 1e10, AT(npu.clock_hz)},
    {"macs_per_cycle_i8", 16, 65536, AT(npu.macs_per_cycle[ORK_NPU_W8A8])},
    {"macs_per_cycle_i4", 16, 65536, AT(npu.macs_per_cycle[ORK_NPU_W4A4])},
    {"efficiency_i8", 0.001, 1, AT(npu.efficiency[ORK_NPU_W8A8])},
    {"efficiency_i4", 0.001, 1, AT(npu.efficiency[ORK_NPU_W4A4])},
    {"submit_us", 0, 1e6, AT(npu.submit_us)},
    {"complete_us", 0, 1e6, AT(npu.complete_us)},
    {"task_us", 0, 1e5, AT(npu.task_us)},
    {"core_bytes_per_s", 1e6, 1e13, AT(npu.core_bytes_per_s)},
    {"core_bytes_per_s_i4", 1e6, 1e13, AT(npu.core_bytes_per_s_i4)},
    {"shared_bytes_per_s", 1e6, 1e13, AT(npu.shared_bytes_per_s)},
    {"domain_switch_us", 0, 1e7, AT(npu.domain_switch_us)},
    {"reset_us", 0, 1e8, AT(npu.reset_us)},
    {"allocate_us", 0, 1e7, AT(npu.allocate_us)},
    {"release_us", 0, 1e7, AT(npu.release_us)},
    {"host_call_us", 0, 1e6, AT(npu.host_call_us)},
    {"host_core_us", 0, 1e6, AT(npu.host_core_us)},
    {"host_surface_bytes_per_s", 1e6, 1e13, AT(npu.host_surface_bytes_per_s)},
    {"host_bytes_per_s", 1e6, 1e13, AT(npu.host_bytes_per_s)},
    {"chain_fixed_s", 0, 1, AT(chain_fixed_s)},
    {"chain_bytes_per_s", 0, 1e13, AT(chain_bytes_per_s)},
    {"chain_cpu_s", 0, 1, AT(chain_cpu_s)},
    {"chain_bus_bytes_per_s", 0, 1e14, AT(chain_bus_bytes_per_s)},
    {"pack_bytes_per_s", 1e6, 1e13, AT(pack_bytes_per_s)},
    {"unpack_bytes_per_s", 1e6, 1e13, AT(unpack_bytes_per_s)},
    {"swap_bytes_per_s", 1e5, 1e13, AT(swap_bytes_per_s)},
};
#undef AT
enum { CPU_FIGURES = sizeof cpu_figures / sizeof *cpu_figures, NPU_FIGURES = sizeof npu_figures / sizeof *npu_figures };

/* ---- boards and guesses ---- */

static void set_tiers(struct ork_perf *perf, double four, double eight, double macs, double float_macs)
{
    for (uint32_t i = 0; i < ORK_TIER_COUNT; i++) {
        const struct ork_tier_info *info = ork_tier_find(i);
        perf->tiers[i].bytes_per_s = info && info->quantized && info->bits_per_weight < 7 ? four : eight;
        perf->tiers[i].macs_per_s = info && info->quantized ? macs : float_macs;
    }
}

void ork_perf_from_figures(const struct ork_simulate_board *board, struct ork_perf *perf)
{
    const struct ork_system_figures *ork = &board->ork;
    *perf = (struct ork_perf){
        .source = ORK_PERF_BOARD,
        .region_s = ork->region_us * 1e-6,
        .row_s = ork->region_us * 0.1e-6, /* a row's quantizing is a small part of a region of one row */
        .token_s = 2 * ork->region_us * 1e-6,
        .attention_bytes_per_s = ork->bytes_per_s_8, /* keys and values are read like int8 weights */
        .has_npu = true,
        .npu = board->npu,
        .pack_bytes_per_s = board->npu.host_bytes_per_s,
        .unpack_bytes_per_s = board->npu.host_surface_bytes_per_s * board->npu.cores,
        .swap_bytes_per_s = ork->swap_bytes_per_s,
        .bus_bytes_per_s = ork->bus_bytes_per_s,
    };
    snprintf(perf->name, sizeof perf->name, "%s", board->npu.name);
    set_tiers(perf, ork->bytes_per_s_4, ork->bytes_per_s_8, ork->macs_per_s, ork->float_macs_per_s);
}

ork_status ork_perf_from_board(const char *path, struct ork_perf *perf, ork_error *error)
{
    struct ork_simulate_board *board = malloc(sizeof *board);
    if (!board)
        return ork_error_no_memory(error, path, sizeof *board);
    const ork_status status = ork_simulate_board_read(path, board, error);
    if (status == ORK_OK)
        ork_perf_from_figures(board, perf);
    free(board);
    return status;
}

/* A thread that streams 5e9 bytes a second up to a bus of 20e9, and dots at 20e9 multiply-adds: small machines of today. */
void ork_perf_assume(const struct ork_perf_identity *identity, struct ork_perf *perf)
{
    const double threads = identity->threads ? identity->threads : 1, own = 5e9 * threads;
    const double bytes_per_s = own < 20e9 ? own : 20e9;
    *perf = (struct ork_perf){
        .source = ORK_PERF_ASSUMED,
        .name = "assumed",
        .identity = *identity,
        .region_s = 10e-6,
        .row_s = 1e-6,
        .token_s = 20e-6,
        .attention_bytes_per_s = bytes_per_s,
        .bus_bytes_per_s = bytes_per_s,
    };
    set_tiers(perf, bytes_per_s, bytes_per_s, 20e9 * threads, 4e9 * threads);
}

/* ---- writing ---- */

static void write_figures(json_t *object, const struct figure *figures, size_t count, const struct ork_perf *perf)
{
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, figures[i].key,
                            json_real(*(const double *)(const void *)((const char *)perf + figures[i].offset)));
}

static json_t *write_identity(const struct ork_perf_identity *identity)
{
    json_t *object = json_object();
    json_object_set_new(object, "ork_version", json_string(identity->ork_version));
    json_object_set_new(object, "cpu", json_string(identity->cpu));
    json_object_set_new(object, "kernels", json_string(identity->kernels));
    json_object_set_new(object, "threads", json_integer(identity->threads));
    json_object_set_new(object, "memory_bytes", json_integer((json_int_t)identity->memory_bytes));
    json_object_set_new(object, "memory_clock_hz", json_integer((json_int_t)identity->memory_clock_hz));
    json_object_set_new(object, "npu_driver", json_string(identity->npu_driver));
    json_object_set_new(object, "npu_driver_version", json_integer(identity->npu_driver_version));
    return object;
}

ork_status ork_perf_write(const struct ork_perf *perf, char **text, ork_error *error)
{
    json_t *root = json_object(), *cpu = json_object(), *tiers = json_object();
    json_object_set_new(root, "format", json_string(CALIBRATION_FORMAT));
    json_object_set_new(root, "version", json_integer(CALIBRATION_VERSION));
    json_object_set_new(root, "identity", write_identity(&perf->identity));
    for (uint32_t i = 0; i < ORK_TIER_COUNT; i++) {
        json_t *tier = json_object();
        json_object_set_new(tier, "bytes_per_s", json_real(perf->tiers[i].bytes_per_s));
        json_object_set_new(tier, "macs_per_s", json_real(perf->tiers[i].macs_per_s));
        json_object_set_new(tiers, ork_tier_find(i)->name, tier);
    }
    write_figures(cpu, cpu_figures, CPU_FIGURES, perf);
    json_object_set_new(cpu, "tiers", tiers);
    json_object_set_new(root, "cpu", cpu);
    if (perf->has_npu) {
        json_t *npu = json_object();
        json_object_set_new(npu, "name", json_string(perf->npu.name));
        json_object_set_new(npu, "cores", json_integer(perf->npu.cores));
        write_figures(npu, npu_figures, NPU_FIGURES, perf);
        json_object_set_new(root, "npu", npu);
    }
    *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return *text ? ORK_OK : ork_error_no_memory(error, "calibration", CALIBRATION_BYTES_MAX);
}

/* ---- reading ---- */

static ork_status refuse(ork_error *error, const char *where, const char *section, const char *key, const char *what)
{
    return ork_error_set(error, ORK_BAD_FILE, where, -1, "calibration: %s.%s: %s", section, key, what);
}

static ork_status read_number(const json_t *object, const char *section, const char *key, double low, double high,
                              const char *where, double *number, ork_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        return refuse(error, where, section, key, "missing, or not a number");
    *number = json_number_value(value);
    if (!(*number >= low && *number <= high))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "calibration: %s.%s is %g, must be %g to %g", section, key,
                             *number, low, high);
    return ORK_OK;
}

static ork_status read_integer(const json_t *object, const char *section, const char *key, double low, double high,
                               const char *where, uint64_t *number, ork_error *error)
{
    double value = 0;
    const ork_status status = read_number(object, section, key, low, high, where, &value, error);
    if (status == ORK_OK && value != floor(value))
        return refuse(error, where, section, key, "not a whole number");
    if (status == ORK_OK)
        *number = (uint64_t)value;
    return status;
}

static ork_status read_text(const json_t *object, const char *section, const char *key, const char *where, char *text,
                            size_t capacity, ork_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) >= capacity ||
        strlen(json_string_value(value)) != json_string_length(value))
        return refuse(error, where, section, key, "missing, or not a short text");
    memcpy(text, json_string_value(value), json_string_length(value) + 1);
    return ORK_OK;
}

static ork_status read_figures(const json_t *object, const char *section, const struct figure *figures, size_t count,
                               const char *where, struct ork_perf *perf, ork_error *error)
{
    ork_status status = ORK_OK;
    for (size_t i = 0; i < count && status == ORK_OK; i++)
        status = read_number(object, section, figures[i].key, figures[i].low, figures[i].high, where,
                             (double *)(void *)((char *)perf + figures[i].offset), error);
    return status;
}

static ork_status read_identity(const json_t *root, const char *where, struct ork_perf_identity *identity,
                                ork_error *error)
{
    const json_t *object = json_object_get(root, "identity");
    uint64_t threads = 0, version = 0;
    ork_status status =
        read_text(object, "identity", "ork_version", where, identity->ork_version, sizeof identity->ork_version, error);
    if (status == ORK_OK)
        status = read_text(object, "identity", "cpu", where, identity->cpu, sizeof identity->cpu, error);
    if (status == ORK_OK)
        status = read_text(object, "identity", "kernels", where, identity->kernels, sizeof identity->kernels, error);
    if (status == ORK_OK)
        status = read_text(object, "identity", "npu_driver", where, identity->npu_driver, sizeof identity->npu_driver,
                           error);
    if (status == ORK_OK)
        status = read_integer(object, "identity", "threads", 1, 4096, where, &threads, error);
    if (status == ORK_OK)
        status = read_integer(object, "identity", "memory_bytes", 0, 1e18, where, &identity->memory_bytes, error);
    if (status == ORK_OK)
        status = read_integer(object, "identity", "memory_clock_hz", 0, 1e12, where, &identity->memory_clock_hz, error);
    if (status == ORK_OK)
        status = read_integer(object, "identity", "npu_driver_version", 0, UINT32_MAX, where, &version, error);
    identity->threads = (uint32_t)threads;
    identity->npu_driver_version = (uint32_t)version;
    return status;
}

static ork_status read_cpu(const json_t *root, const char *where, struct ork_perf *perf, ork_error *error)
{
    const json_t *object = json_object_get(root, "cpu"), *tiers = json_object_get(object, "tiers");
    ork_status status = read_figures(object, "cpu", cpu_figures, CPU_FIGURES, where, perf, error);
    for (uint32_t i = 0; i < ORK_TIER_COUNT && status == ORK_OK; i++) {
        const char *name = ork_tier_find(i)->name;
        const json_t *tier = json_object_get(tiers, name);
        status = read_number(tier, name, "bytes_per_s", 1e6, 1e14, where, &perf->tiers[i].bytes_per_s, error);
        if (status == ORK_OK)
            status = read_number(tier, name, "macs_per_s", 1e5, 1e17, where, &perf->tiers[i].macs_per_s, error);
    }
    return status;
}

static ork_status read_npu(const json_t *root, const char *where, struct ork_perf *perf, ork_error *error)
{
    const json_t *object = json_object_get(root, "npu");
    uint64_t cores = 0;
    if (!object)
        return ORK_OK;
    ork_status status = read_text(object, "npu", "name", where, perf->npu.name, sizeof perf->npu.name, error);
    if (status == ORK_OK)
        status = read_integer(object, "npu", "cores", 1, ORK_NPU_CORES_MAX, where, &cores, error);
    if (status == ORK_OK)
        status = read_figures(object, "npu", npu_figures, NPU_FIGURES, where, perf, error);
    perf->npu.cores = (uint32_t)cores;
    perf->has_npu = status == ORK_OK;
    return status;
}

ork_status ork_perf_parse(const void *text, uint64_t size_bytes, const char *where, struct ork_perf *perf,
                          ork_error *error)
{
    if (size_bytes > CALIBRATION_BYTES_MAX)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%llu bytes, a calibration has at most %u",
                             (unsigned long long)size_bytes, CALIBRATION_BYTES_MAX);
    struct ork_perf read = {.source = ORK_PERF_CALIBRATED, .name = "this machine"};
    json_error_t problem;
    json_t *root = json_loadb(size_bytes ? text : "", size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return json_error_code(&problem) == json_error_out_of_memory
                   ? ork_error_no_memory(error, where, size_bytes)
                   : ork_error_set(error, ORK_BAD_FILE, where, problem.position, "line %d: %s", problem.line,
                                   problem.text);
    const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version");
    ork_status status = ORK_OK;
    if (!json_is_string(format) || strcmp(json_string_value(format), CALIBRATION_FORMAT) != 0)
        status = ork_error_set(error, ORK_BAD_FILE, where, -1,
                               "not a calibration: format is not \"" CALIBRATION_FORMAT "\"");
    else if (!json_is_integer(version))
        status = ork_error_set(error, ORK_BAD_FILE, where, -1, "version: missing or not a whole number");
    else if (json_integer_value(version) != CALIBRATION_VERSION)
        status = ork_error_set(error, ORK_UNSUPPORTED, where, -1, "calibration of version %lld, this program reads %d",
                               (long long)json_integer_value(version), CALIBRATION_VERSION);
    if (status == ORK_OK)
        status = read_identity(root, where, &read.identity, error);
    if (status == ORK_OK)
        status = read_cpu(root, where, &read, error);
    if (status == ORK_OK)
        status = read_npu(root, where, &read, error);
    if (status == ORK_OK)
        *perf = read;
    json_decref(root);
    return status;
}
