/* Owns the survey's look at who else uses the NPU: open nodes of all processes that this user may look into, and the vendor's
 * runtime. Bounded in processes and links; must not touch any process. */
#include "engine/npu/survey.h"

#include "engine/npu/system.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROCESSES_MAX = 8192, LINKS_MAX = 65536, HOLDERS_SHOWN = 4 };

struct scan {
    const char *const *nodes;
    size_t node_count;
    uint32_t processes, links, hidden, holders;
    bool cut;
};

static bool is_node(const struct scan *scan, const char *target)
{
    for (size_t i = 0; i < scan->node_count; i++)
        if (strcmp(target, scan->nodes[i]) == 0)
            return true;
    return false;
}

/* Whether a process has one of the nodes open; `which` is its path. */
static bool holds(const struct survey *survey, struct scan *scan, long process, char *which, size_t capacity)
{
    char relative[64], path[PATH_MAX], link[PATH_MAX + 32], target[128];
    bool found = false;
    snprintf(relative, sizeof relative, "proc/%ld/fd", process);
    if (!ork_system_path(survey->root, relative, path, sizeof path))
        return false;
    DIR *folder = opendir(path);
    if (!folder) {
        scan->hidden += errno == EACCES;
        return false;
    }
    for (const struct dirent *entry; !found && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        if (scan->links++ >= LINKS_MAX) {
            scan->cut = true;
            break;
        }
        snprintf(link, sizeof link, "%s/%.20s", path, entry->d_name);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = 0;
        found = is_node(scan, target);
    }
    closedir(folder);
    if (found)
        snprintf(which, capacity, "%s", target);
    return found;
}

static bool is_vendor(const char *name)
{
    return strstr(name, "rknn") || strstr(name, "rkllm");
}

static void look_at_process(struct survey *survey, struct scan *scan, long process)
{
    char relative[64], name[64], which[128];
    snprintf(relative, sizeof relative, "proc/%ld/comm", process);
    if (!ork_system_line(survey->root, relative, name, sizeof name))
        snprintf(name, sizeof name, "?");
    bool holder = holds(survey, scan, process, which, sizeof which), vendor = is_vendor(name);
    if (!holder && !vendor)
        return;
    if (scan->holders++ >= HOLDERS_SHOWN)
        return;
    if (vendor)
        survey_add(survey, ORK_FINDING_BAD, "other users",
                   "stop it before ork uses the NPU; two that submit have crashed boards",
                   "process %ld (%s) is the vendor's runtime%s%s", process, name, holder ? " and has open " : "",
                   holder ? which : "");
    else
        survey_add(survey, ORK_FINDING_NOTE, "other users", "if it submits jobs, stop it before ork uses the NPU",
                   "process %ld (%s) has %s open", process, name, which);
}

static void libraries(struct survey *survey)
{
    static const char *const places[] = {"usr/lib", "usr/local/lib", "usr/lib/aarch64-linux-gnu", "usr/lib64"};
    static const char *const names[] = {"librknnrt.so", "librkllmrt.so"};
    char path[128], full[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
            snprintf(path, sizeof path, "%s/%s", places[j], names[i]);
            if (!ork_system_path(survey->root, path, full, sizeof full) || access(full, F_OK) != 0)
                continue;
            survey_add(survey, ORK_FINDING_NOTE, "vendor runtime", "",
                       "/%s is installed; ork does not need it, and must not run beside it", path);
            break;
        }
}

void survey_others(struct survey *survey, const char *const *nodes, size_t count)
{
    struct scan scan = {.nodes = nodes, .node_count = count};
    char path[PATH_MAX];
    libraries(survey);
    if (!ork_system_path(survey->root, "proc", path, sizeof path))
        return;
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry; !scan.cut && (entry = readdir(folder));) {
        char *end;
        long process = strtol(entry->d_name, &end, 10);
        if (*end || process <= 0 || process == (long)getpid())
            continue;
        scan.cut = scan.processes++ >= PROCESSES_MAX;
        if (!scan.cut)
            look_at_process(survey, &scan, process);
    }
    closedir(folder);
    if (scan.holders > HOLDERS_SHOWN)
        survey_add(survey, ORK_FINDING_NOTE, "other users", "", "and %u more", scan.holders - HOLDERS_SHOWN);
    if (!scan.holders)
        survey_add(survey, ORK_FINDING_GOOD, "other users", "", "no other process has the NPU open%s%s",
                   scan.hidden ? ", of those that this user may look into" : "",
                   scan.cut ? "; not all were looked at" : "");
}
