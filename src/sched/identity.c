/* Owns what a calibration depends on: reading it from the system and comparing it. Must not know figures. */
#include "base/error.h"
#include "base/pool.h"
#include "engine/npu/system.h"
#include "kernels/kernels.h"
#include "sched/perf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPUINFO_BYTES = 16384 };

/* Value of the first line "key : value"; the part numbers of ARM cores are collected: a board has several kinds. */
static bool find_value(const char *text, const char *key, char *value, size_t capacity)
{
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *colon = strchr(line, ':'), *end = line + strcspn(line, "\n");
        if (!colon || colon > end)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, capacity, "%.*s", (int)(end > colon ? end - colon : 0), colon);
        return true;
    }
    return false;
}

static void collect_parts(const char *text, char *name, size_t capacity)
{
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char part[24];
        if (strncmp(line, "CPU part", 8) != 0 || !find_value(line, "CPU part", part, sizeof part) || strstr(name, part))
            continue;
        const size_t length = strlen(name);
        snprintf(name + length, capacity - length, "%s%s", length ? "+" : "ARM ", part);
    }
}

static ork_status read_cpu(const char *root, char *cpu, size_t capacity, ork_error *error)
{
    char *text = malloc(CPUINFO_BYTES);
    if (!text)
        return ork_error_no_memory(error, "cpuinfo", CPUINFO_BYTES);
    cpu[0] = 0;
    if (ork_system_read(root, "proc/cpuinfo", text, CPUINFO_BYTES) > 0 &&
        !find_value(text, "model name", cpu, capacity))
        collect_parts(text, cpu, capacity);
    free(text);
    if (!cpu[0])
        snprintf(cpu, capacity, "unknown");
    return ORK_OK;
}

/* The clock that the memory controller may be driven to: what a parked or lowered governor changes, unlike the momentary
 * clock, which follows the load. */
static uint64_t read_memory_clock(const char *root)
{
    char governor[32] = "";
    uint64_t hz = 0;
    ork_system_line(root, "sys/class/devfreq/dmc/governor", governor, sizeof governor);
    const char *file = strcmp(governor, "powersave") == 0   ? "sys/class/devfreq/dmc/min_freq"
                       : strcmp(governor, "userspace") == 0 ? "sys/class/devfreq/dmc/cur_freq"
                                                            : "sys/class/devfreq/dmc/max_freq";
    return ork_system_number(root, file, &hz) ? hz : 0;
}

static uint64_t read_memory(const char *root)
{
    char text[2048], value[64] = "";
    if (ork_system_read(root, "proc/meminfo", text, sizeof text) > 0)
        find_value(text, "MemTotal", value, sizeof value);
    return strtoull(value, NULL, 10) * 1024;
}

ork_status ork_perf_identify(const char *root, uint32_t threads, const ork_npu *npu, struct ork_perf_identity *identity,
                             ork_error *error)
{
    const struct ork_kernels *kernels = NULL;
    memset(identity, 0, sizeof *identity);
    ork_status status = ork_kernels_get(&kernels, error);
    if (status == ORK_OK)
        status = read_cpu(root, identity->cpu, sizeof identity->cpu, error);
    if (status != ORK_OK)
        return status;
    snprintf(identity->ork_version, sizeof identity->ork_version, "%d.%d.%d", ORK_VERSION_MAJOR, ORK_VERSION_MINOR,
             ORK_VERSION_PATCH);
    snprintf(identity->kernels, sizeof identity->kernels, "%s", ork_isa_name(kernels->isa));
    identity->threads = threads ? threads : ork_topology_threads();
    identity->memory_bytes = read_memory(root);
    identity->memory_clock_hz = read_memory_clock(root);
    if (npu) {
        ork_npu_info info;
        ork_npu_get_info(npu, &info);
        snprintf(identity->npu_driver, sizeof identity->npu_driver, "%s", info.driver);
        identity->npu_driver_version = info.driver_version;
    }
    return ORK_OK;
}

static ork_status differ(ork_error *error, const char *where, const char *what, const char *then, const char *now)
{
    return ork_error_set(
        error, ORK_UNSUPPORTED, where, -1,
        "the calibration does not count here: it was made with %s %.100s, this is %.100s; run ork calibrate", what,
        then, now);
}

static ork_status differ_number(ork_error *error, const char *where, const char *what, uint64_t then, uint64_t now)
{
    char a[24], b[24];
    snprintf(a, sizeof a, "%" PRIu64, then);
    snprintf(b, sizeof b, "%" PRIu64, now);
    return differ(error, where, what, a, b);
}

ork_status ork_perf_check_identity(const struct ork_perf_identity *made_on, const struct ork_perf_identity *here,
                                   const char *where, ork_error *error)
{
    /* The kernel reserves a little more or less memory at each boot. */
    const uint64_t a = made_on->memory_bytes, b = here->memory_bytes, apart = a > b ? a - b : b - a;
    if (strcmp(made_on->ork_version, here->ork_version) != 0)
        return differ(error, where, "ork", made_on->ork_version, here->ork_version);
    if (strcmp(made_on->cpu, here->cpu) != 0)
        return differ(error, where, "the CPU", made_on->cpu, here->cpu);
    if (strcmp(made_on->kernels, here->kernels) != 0)
        return differ(error, where, "kernels", made_on->kernels, here->kernels);
    if (made_on->threads != here->threads)
        return differ_number(error, where, "threads:", made_on->threads, here->threads);
    if (apart > a / 16)
        return differ_number(error, where, "memory bytes:", a, b);
    if (made_on->memory_clock_hz != here->memory_clock_hz)
        return differ_number(error, where, "a memory clock of", made_on->memory_clock_hz, here->memory_clock_hz);
    if (!here->npu_driver[0])
        return ORK_OK;
    if (strcmp(made_on->npu_driver, here->npu_driver) != 0)
        return differ(error, where, "the NPU driver", made_on->npu_driver[0] ? made_on->npu_driver : "none",
                      here->npu_driver);
    if (made_on->npu_driver_version != here->npu_driver_version)
        return differ_number(error, where, "NPU driver version", made_on->npu_driver_version, here->npu_driver_version);
    return ORK_OK;
}
