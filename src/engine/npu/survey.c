/* Owns the public survey: what a machine is, and its clocks and limits; survey_nodes.c has the NPU's nodes, survey_others.c
 * its other users. Reads short system files below a root and changes nothing; must not open a device. */
#include "engine/npu/survey.h"

#include "base/error.h"
#include "engine/npu/system.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLICIES_MAX = 64, ENTRIES_MAX = 4096, FEW_DESCRIPTORS = 1024 };

static uint32_t keep(struct survey *survey, const char *text)
{
    size_t at = survey->used, length = strlen(text);
    if (length >= sizeof survey->text - at)
        length = sizeof survey->text - at - 1;
    for (size_t i = 0; i < length; i++) /* one line, whatever a file held */
        survey->text[at + i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    survey->text[at + length] = 0;
    survey->used = at + length + 1;
    return (uint32_t)at;
}

void survey_add(struct survey *survey, ork_finding_kind kind, const char *topic, const char *advice, const char *format,
                ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || survey->count == SURVEY_FINDINGS_MAX ||
        survey->used + strlen(topic) + strlen(text) + strlen(advice) + 3 > sizeof survey->text)
        return;
    struct survey_item *item = &survey->items[survey->count++];
    item->kind = kind;
    item->topic = keep(survey, topic);
    item->text = keep(survey, text);
    item->advice = keep(survey, advice);
}

/* ---- the machine ---- */

static void machine(struct survey *survey)
{
    char model[256];
    ork_system_soc(survey->root, survey->soc, sizeof survey->soc);
    survey->is_rk3588 = strcmp(survey->soc, "rk3588") == 0;
    if (!ork_system_line(survey->root, "proc/device-tree/model", model, sizeof model) &&
        !ork_system_line(survey->root, "sys/firmware/devicetree/base/model", model, sizeof model) &&
        !ork_system_line(survey->root, "sys/class/dmi/id/product_name", model, sizeof model))
        snprintf(model, sizeof model, "a machine without a name");
    if (!ork_system_line(survey->root, "proc/sys/kernel/osrelease", survey->kernel, sizeof survey->kernel))
        snprintf(survey->kernel, sizeof survey->kernel, "unknown");
    survey_add(survey, ORK_FINDING_GOOD, "machine", "", "%s%s%s, Linux %s", model, *survey->soc ? ", SoC " : "",
               survey->soc, survey->kernel);
}

struct policy {
    char name[32], governor[32];
    uint64_t max_khz;
    uint32_t cpus;
};

/* CPUs in a list as cpufreq prints it: "4 5 6 7". */
static uint32_t count_words(const char *text)
{
    uint32_t count = 0;
    for (; *text; text += strcspn(text, " ")) {
        text += strspn(text, " ");
        count += *text != 0;
    }
    return count;
}

static size_t read_policies(const struct survey *survey, struct policy *policies)
{
    size_t count = 0;
    for (unsigned i = 0; i < 1024 && count < POLICIES_MAX; i++) {
        char path[128], text[512];
        struct policy *policy = &policies[count];
        snprintf(policy->name, sizeof policy->name, "policy%u", i);
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpufreq/%s/scaling_governor", policy->name);
        if (!ork_system_line(survey->root, path, policy->governor, sizeof policy->governor))
            continue;
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpufreq/%s/cpuinfo_max_freq", policy->name);
        if (!ork_system_number(survey->root, path, &policy->max_khz))
            policy->max_khz = 0;
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpufreq/%s/related_cpus", policy->name);
        policy->cpus = ork_system_line(survey->root, path, text, sizeof text) ? count_words(text) : 1;
        count++;
    }
    return count;
}

/* Cores, and the governors of the fast ones: little cores do not compute. */
static void processors(struct survey *survey)
{
    struct policy policies[POLICIES_MAX];
    size_t count = read_policies(survey, policies);
    uint64_t best_khz = 0;
    uint32_t fast = 0, slow = 0;
    for (size_t i = 0; i < count; i++)
        best_khz = policies[i].max_khz > best_khz ? policies[i].max_khz : best_khz;
    char text[256];
    if (!count) {
        if (ork_system_line(survey->root, "sys/devices/system/cpu/online", text, sizeof text))
            survey_add(survey, ORK_FINDING_GOOD, "processor", "", "CPUs %s, all of one kind, at fixed or hidden clocks",
                       text);
        return;
    }
    const struct policy *saving = NULL;
    for (size_t i = 0; i < count; i++) {
        bool is_fast = policies[i].max_khz >= best_khz * 8 / 10;
        *(is_fast ? &fast : &slow) += policies[i].cpus;
        if (is_fast && !saving && strcmp(policies[i].governor, "performance") != 0)
            saving = &policies[i];
    }
    if (slow)
        survey_add(survey, ORK_FINDING_GOOD, "processor", "", "%u performance cores up to %.2f GHz, %u others", fast,
                   (double)best_khz / 1e6, slow);
    else
        survey_add(survey, ORK_FINDING_GOOD, "processor", "", "%u cores up to %.2f GHz", fast, (double)best_khz / 1e6);
    if (saving)
        survey_add(
            survey, ORK_FINDING_NOTE, "governor",
            "for steady speed: echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            "the performance cores (%s) are governed by '%s'", saving->name, saving->governor);
    else
        survey_add(survey, ORK_FINDING_GOOD, "governor", "", "the performance cores run at full clock (performance)");
}

/* Kilobytes of a line "MemTotal:  16 kB". */
static uint64_t memory_kb(const struct survey *survey)
{
    char text[4096];
    if (ork_system_read(survey->root, "proc/meminfo", text, sizeof text) <= 0)
        return 0;
    const char *line = strstr(text, "MemTotal:");
    return line ? strtoull(line + strlen("MemTotal:"), NULL, 10) : 0;
}

static void memory(struct survey *survey)
{
    double gib = (double)memory_kb(survey) / (1 << 20);
    if (gib <= 0)
        return;
    if (survey->is_rk3588 && gib > 4)
        survey_add(survey, ORK_FINDING_NOTE, "memory",
                   "nothing to do unless the NPU's self-test fails (ork npu): then update the kernel, or boot once "
                   "with mem=3800M "
                   "to confirm the cause",
                   "%.1f GiB; kernels that put the NPU's page tables above 4 GiB make it read wrong memory", gib);
    else
        survey_add(survey, ORK_FINDING_GOOD, "memory", "", "%.1f GiB", gib);
}

/* ---- clocks of the NPU and of memory ---- */

/* First entry of sys/class/devfreq whose name contains the word. */
static bool find_devfreq(const struct survey *survey, const char *word, char *name, size_t capacity)
{
    char path[PATH_MAX];
    bool found = false;
    if (!ork_system_path(survey->root, "sys/class/devfreq", path, sizeof path))
        return false;
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    int entries = 0;
    for (const struct dirent *entry; !found && entries++ < ENTRIES_MAX && (entry = readdir(folder));)
        if (strstr(entry->d_name, word) && strlen(entry->d_name) < capacity) {
            snprintf(name, capacity, "%s", entry->d_name);
            found = true;
        }
    closedir(folder);
    return found;
}

static void one_clock(struct survey *survey, const char *word, const char *topic, const char *what)
{
    char name[128], path[256], governor[64], advice[512];
    uint64_t now_hz = 0, top_hz = 0;
    if (!find_devfreq(survey, word, name, sizeof name))
        return;
    snprintf(path, sizeof path, "sys/class/devfreq/%s/cur_freq", name);
    bool has_now = ork_system_number(survey->root, path, &now_hz);
    snprintf(path, sizeof path, "sys/class/devfreq/%s/max_freq", name);
    bool has_top = ork_system_number(survey->root, path, &top_hz);
    snprintf(path, sizeof path, "sys/class/devfreq/%s/governor", name);
    if (!has_now || !has_top || !ork_system_line(survey->root, path, governor, sizeof governor))
        return;
    snprintf(advice, sizeof advice, "echo performance | sudo tee /sys/class/devfreq/%s/governor", name);
    bool is_full = now_hz >= top_hz && (strcmp(governor, "performance") == 0 || strcmp(governor, "userspace") == 0);
    survey_add(survey, is_full ? ORK_FINDING_GOOD : ORK_FINDING_NOTE, topic, is_full ? "" : advice,
               "%s at %.0f of %.0f MHz, governor '%s'", what, (double)now_hz / 1e6, (double)top_hz / 1e6, governor);
}

static void clocks(struct survey *survey)
{
    char name[128];
    one_clock(survey, "dmc", "memory clock", "memory");
    one_clock(survey, "npu", "npu clock", "the NPU");
    if (survey->driver == ORK_NPU_ROCKET && !find_devfreq(survey, "npu", name, sizeof name))
        survey_add(survey, ORK_FINDING_NOTE, "npu clock",
                   "a kernel or device tree that raises it makes the NPU three times as fast",
                   "stock mainline kernels leave the NPU at 200 MHz, and nothing here says otherwise");
}

static void descriptors(struct survey *survey)
{
    char text[4096];
    if (!survey->driver || ork_system_read(survey->root, "proc/self/limits", text, sizeof text) <= 0)
        return;
    const char *line = strstr(text, "Max open files");
    if (!line)
        return;
    char *end;
    unsigned long long soft = strtoull(line + strlen("Max open files"), &end, 10);
    unsigned long long hard = strtoull(end, NULL, 10);
    if (soft && soft < FEW_DESCRIPTORS)
        survey_add(survey, ORK_FINDING_NOTE, "open files", "ulimit -n 4096", "at most %llu (hard limit %llu)", soft,
                   hard);
    else if (soft)
        survey_add(survey, ORK_FINDING_GOOD, "open files", "", "at most %llu (hard limit %llu)", soft, hard);
}

/* ---- the report: one block that ork_free() frees ---- */

static ork_status pack(const struct survey *survey, ork_survey **result, ork_error *error)
{
    size_t items_bytes = survey->count * sizeof(ork_finding);
    size_t size_bytes = sizeof(ork_survey) + items_bytes + survey->used;
    char *block = malloc(size_bytes);
    if (!block)
        return ork_error_no_memory(error, "survey", size_bytes);
    ork_survey *report = (ork_survey *)block;
    ork_finding *findings = (ork_finding *)(block + sizeof *report);
    char *text = block + sizeof *report + items_bytes;
    memcpy(text, survey->text, survey->used);
    for (size_t i = 0; i < survey->count; i++) {
        const struct survey_item *item = &survey->items[i];
        findings[i] = (ork_finding){item->kind, text + item->topic, text + item->text, text + item->advice};
    }
    *report = (ork_survey){survey->count, findings, survey->usable, survey->usable ? survey->driver : 0};
    *result = report;
    return ORK_OK;
}

ork_status ork_survey_machine(const char *root, ork_survey **result, ork_error *error)
{
    *result = NULL;
    if (!root || !*root)
        root = "/";
    DIR *folder = opendir(root);
    if (!folder)
        return ork_error_errno(error, root, "cannot look into it");
    closedir(folder);
    struct survey *survey = calloc(1, sizeof *survey);
    if (!survey)
        return ork_error_no_memory(error, "survey", sizeof *survey);
    survey->root = root;
    machine(survey);
    survey_nodes(survey);
    processors(survey);
    memory(survey);
    clocks(survey);
    descriptors(survey);
    ork_status status = pack(survey, result, error);
    free(survey);
    return status;
}
