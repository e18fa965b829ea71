/* Owns board files (boards/NAME.json): which figures they hold, their bounds, and the one that is built in. Knows no
 * formulas. A figure is {"value": number or list, "source": text}; the sources are for readers. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/npu/tiling.h"
#include "engine/npu/timing.h"

#define BOARD_VERSION 1
#define BOARD_BYTES_MAX (64u << 10)

/* boards/rk3588.json, written into a C file by the build. */
extern const unsigned char ork_board_rk3588[];
extern const unsigned long ork_board_rk3588_bytes;

enum figure_kind { FIGURE_DOUBLE, FIGURE_INTEGER, FIGURE_PER_TYPE, FIGURE_RANGE };

struct figure {
    const char *key;
    enum figure_kind kind;
    double low, high;
    size_t offset; /* in the profile, NOT_KEPT: checked alone */
};

#define NOT_KEPT SIZE_MAX
#define AT(field) offsetof(struct ork_npu_profile, field)

/* Bounds are wide: they catch wrong units and lost digits, not unusual boards. */
static const struct figure npu_figures[] = {
    {"cores", FIGURE_INTEGER, 1, ORK_NPU_CORES_MAX, AT(cores)},
    {"clock_hz", FIGURE_DOUBLE, 1e8, 1e10, AT(clock_hz)},
    {"macs_per_cycle", FIGURE_PER_TYPE, 16, 65536, AT(macs_per_cycle)},
    {"efficiency", FIGURE_PER_TYPE, 0.05, 1, AT(efficiency)},
    {"submit_us", FIGURE_DOUBLE, 0, 1e5, AT(submit_us)},
    {"complete_us", FIGURE_DOUBLE, 0, 1e5, AT(complete_us)},
    {"task_us", FIGURE_DOUBLE, 0, 1e4, AT(task_us)},
    {"core_bytes_per_s", FIGURE_DOUBLE, 1e8, 1e12, AT(core_bytes_per_s)},
    {"core_bytes_per_s_i4", FIGURE_DOUBLE, 1e8, 1e12, AT(core_bytes_per_s_i4)},
    {"shared_bytes_per_s", FIGURE_DOUBLE, 1e8, 1e12, AT(shared_bytes_per_s)},
    {"domain_switch_us", FIGURE_DOUBLE, 0, 1e6, AT(domain_switch_us)},
    {"reset_us", FIGURE_DOUBLE, 0, 1e7, AT(reset_us)},
    {"allocate_us", FIGURE_DOUBLE, 0, 1e6, AT(allocate_us)},
    {"release_us", FIGURE_DOUBLE, 0, 1e6, AT(release_us)},
    {"host_call_us", FIGURE_DOUBLE, 0, 1e5, AT(host_call_us)},
    {"host_core_us", FIGURE_DOUBLE, 0, 1e5, AT(host_core_us)},
    {"host_surface_bytes_per_s", FIGURE_DOUBLE, 1e8, 1e12, AT(host_surface_bytes_per_s)},
    {"host_bytes_per_s", FIGURE_DOUBLE, 1e8, 1e12, AT(host_bytes_per_s)},
};

static const struct figure cpu_figures[] = {
    {"cores", FIGURE_INTEGER, 1, 1024, NOT_KEPT},
    {"core_hz", FIGURE_DOUBLE, 1e8, 1e10, NOT_KEPT},
    {"bytes_per_s", FIGURE_RANGE, 1e8, 1e13, NOT_KEPT},
    {"core_bytes_per_s", FIGURE_DOUBLE, 1e8, 1e13, NOT_KEPT},
};

struct section {
    const char *name;
    const struct figure *figures;
    size_t count;
};
static const struct section sections[] = {
    {"npu", npu_figures, sizeof npu_figures / sizeof npu_figures[0]},
    {"cpu", cpu_figures, sizeof cpu_figures / sizeof cpu_figures[0]},
};
enum { SECTION_COUNT = sizeof sections / sizeof sections[0] };

static ork_status number_read(const json_t *json, const struct figure *figure, const char *section, const char *where,
                              double *value, ork_error *error)
{
    if (!json_is_number(json))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: value is not a number", section, figure->key);
    *value = json_number_value(json);
    if (!(*value >= figure->low && *value <= figure->high))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s is %g, must be %g to %g", section, figure->key, *value,
                             figure->low, figure->high);
    if (figure->kind == FIGURE_INTEGER && *value != floor(*value))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s is %g, must be a whole number", section, figure->key,
                             *value);
    return ORK_OK;
}

static ork_status figure_read(const json_t *json, const struct figure *figure, const char *section, const char *where,
                              struct ork_npu_profile *profile, ork_error *error)
{
    const json_t *value = json_object_get(json, "value");
    if (!json_is_object(json) || !value)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: missing, or without a value", section, figure->key);
    if (!json_is_string(json_object_get(json, "source")))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: has no source", section, figure->key);
    double numbers[2] = {0, 0};
    const bool list = figure->kind == FIGURE_PER_TYPE || figure->kind == FIGURE_RANGE;
    if (list && (!json_is_array(value) || json_array_size(value) != 2))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: value must be a list of 2 numbers (%s)", section,
                             figure->key, figure->kind == FIGURE_RANGE ? "lowest, highest" : "int8, int4");
    for (size_t i = 0; i < (list ? 2u : 1u); i++) {
        const ork_status status =
            number_read(list ? json_array_get(value, i) : value, figure, section, where, &numbers[i], error);
        if (status != ORK_OK)
            return status;
    }
    if (figure->kind == FIGURE_RANGE && numbers[0] > numbers[1])
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: lowest value is above the highest", section,
                             figure->key);
    if (figure->offset == NOT_KEPT)
        return ORK_OK;
    char *field = (char *)profile + figure->offset;
    if (figure->kind == FIGURE_INTEGER)
        *(uint32_t *)(void *)field = (uint32_t)numbers[0];
    else
        memcpy(field, numbers, (list ? 2 : 1) * sizeof numbers[0]);
    return ORK_OK;
}
_Static_assert(ORK_NPU_TYPE_COUNT == 2, "a list of figures per type has two numbers");

static ork_status section_read(const json_t *root, const struct section *section, const char *where,
                               struct ork_npu_profile *profile, ork_error *error)
{
    json_t *object = json_object_get(root, section->name);
    if (!json_is_object(object))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "no section \"%s\"", section->name);
    for (size_t i = 0; i < section->count; i++) {
        const struct figure *figure = &section->figures[i];
        const ork_status status =
            figure_read(json_object_get(object, figure->key), figure, section->name, where, profile, error);
        if (status != ORK_OK)
            return status;
    }
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < section->count && strcmp(section->figures[i].key, key))
            i++;
        if (i == section->count)
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s.%s: unknown figure", section->name, key);
    }
    return ORK_OK;
}

static ork_status head_read(const json_t *root, const char *where, struct ork_npu_profile *profile, ork_error *error)
{
    const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version"),
                 *name = json_object_get(root, "name");
    if (!json_is_string(format) || strcmp(json_string_value(format), "ork-board"))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "not a board file: format is not \"ork-board\"");
    if (!json_is_integer(version))
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "version: missing or not a whole number");
    if (json_integer_value(version) != BOARD_VERSION)
        return ork_error_set(error, ORK_UNSUPPORTED, where, -1, "board file of version %lld, this program reads %d",
                             (long long)json_integer_value(version), BOARD_VERSION);
    const size_t length = json_is_string(name) ? json_string_length(name) : 0;
    if (length < 1 || length >= sizeof profile->name)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "name: must be a text of 1 to %zu bytes",
                             sizeof profile->name - 1);
    memcpy(profile->name, json_string_value(name), length + 1);
    return ORK_OK;
}

ork_status ork_npu_profile_parse(const void *text, uint64_t size_bytes, const char *where,
                                 struct ork_npu_profile *profile, ork_error *error)
{
    if (size_bytes > BOARD_BYTES_MAX)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%llu bytes, a board file has at most %u",
                             (unsigned long long)size_bytes, BOARD_BYTES_MAX);
    struct ork_npu_profile read;
    memset(&read, 0, sizeof read);
    json_error_t problem;
    json_t *root = json_loadb(size_bytes ? text : "", size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return json_error_code(&problem) == json_error_out_of_memory
                   ? ork_error_no_memory(error, where, size_bytes)
                   : ork_error_set(error, ORK_BAD_FILE, where, problem.position, "line %d: %s", problem.line, problem.text);
    ork_status status = head_read(root, where, &read, error);
    for (size_t i = 0; status == ORK_OK && i < SECTION_COUNT; i++)
        status = section_read(root, &sections[i], where, &read, error);
    if (status == ORK_OK)
        *profile = read;
    json_decref(root);
    return status;
}

ork_status ork_npu_profile_read(const char *path, struct ork_npu_profile *profile, ork_error *error)
{
    struct ork_mapping mapping;
    ork_status status = ork_file_map(path, &mapping, error);
    if (status != ORK_OK)
        return status;
    status = ork_npu_profile_parse(mapping.data, mapping.size_bytes, path, profile, error);
    ork_mapping_release(&mapping);
    return status;
}

const struct ork_npu_profile *ork_npu_profile_builtin(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ork_npu_profile profile;
    static bool there;
    pthread_mutex_lock(&lock);
    if (!there)
        there = ork_npu_profile_parse(ork_board_rk3588, ork_board_rk3588_bytes, "built-in board", &profile, NULL) == ORK_OK;
    const struct ork_npu_profile *result = there ? &profile : NULL;
    pthread_mutex_unlock(&lock);
    return result;
}
