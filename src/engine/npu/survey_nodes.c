/* Owns the survey's NPU part: which nodes there are, whose they are, whether this process may use them, why there are none,
 * and the address translation behind them. Must not open a device: a first opener of a card node becomes its master. */
#include "engine/npu/survey.h"

#include "engine/npu/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES_MAX = 32, ENTRIES_MAX = 4096, GROUPS_BYTES_MAX = 65536 };

struct node {
    char path[64];     /* "/dev/dri/card1" */
    char driver[64];   /* as sysfs names it */
    ork_npu_kind kind; /* 0: not one of ours */
    bool exists, accessible;
    struct stat status;
};

struct nodes {
    struct node items[NODES_MAX];
    size_t count;
};

static bool exists(const struct survey *survey, const char *path)
{
    char full[PATH_MAX];
    return ork_system_path(survey->root, path, full, sizeof full) && access(full, F_OK) == 0;
}

static void look_at(const struct survey *survey, struct node *node)
{
    char full[PATH_MAX];
    if (!ork_system_path(survey->root, node->path, full, sizeof full))
        return;
    node->exists = stat(full, &node->status) == 0;
    node->accessible = node->exists && faccessat(AT_FDCWD, full, R_OK | W_OK, AT_EACCESS) == 0;
}

/* Value of a line KEY=value of a uevent file. */
static bool uevent_value(const char *text, const char *key, char *value, size_t capacity)
{
    size_t length = strlen(key);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            snprintf(value, capacity, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
            return true;
        }
    *value = 0;
    return false;
}

static void add_node(const struct survey *survey, struct nodes *nodes, const char *class, const char *folder,
                     const char *name)
{
    char path[256], text[4096], alias[64];
    if (nodes->count == NODES_MAX || strlen(name) > 16)
        return;
    snprintf(path, sizeof path, "sys/class/%s/%s/device/uevent", class, name);
    if (ork_system_read(survey->root, path, text, sizeof text) < 0)
        return;
    struct node *node = &nodes->items[nodes->count];
    memset(node, 0, sizeof *node);
    uevent_value(text, "DRIVER", node->driver, sizeof node->driver);
    uevent_value(text, "MODALIAS", alias, sizeof alias);
    if (strcasecmp(node->driver, "rknpu") == 0)
        node->kind = ORK_NPU_RKNPU;
    /* rocket's node hangs on a device of its own that no driver is bound to. */
    else if (strcmp(node->driver, "rocket") == 0 || (!*node->driver && strcmp(alias, "platform:rknn") == 0))
        node->kind = ORK_NPU_ROCKET;
    if (!node->kind && strcmp(class, "accel") != 0)
        return; /* a display */
    snprintf(node->path, sizeof node->path, "/dev/%s/%s", folder, name);
    look_at(survey, node);
    nodes->count++;
}

static void add_class(const struct survey *survey, struct nodes *nodes, const char *class, const char *folder,
                      const char *prefix)
{
    char path[PATH_MAX], relative[64];
    snprintf(relative, sizeof relative, "sys/class/%s", class);
    if (!ork_system_path(survey->root, relative, path, sizeof path))
        return;
    DIR *listing = opendir(path);
    if (!listing)
        return;
    int entries = 0;
    for (const struct dirent *entry; entries++ < ENTRIES_MAX && (entry = readdir(listing));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && !strchr(entry->d_name, '-'))
            add_node(survey, nodes, class, folder, entry->d_name);
    closedir(listing);
}

static void find_nodes(const struct survey *survey, struct nodes *nodes)
{
    /* The order is that of the device code: card before render node. */
    add_class(survey, nodes, "drm", "dri", "card");
    add_class(survey, nodes, "drm", "dri", "renderD");
    if (exists(survey, "dev/rknpu") && nodes->count < NODES_MAX) {
        struct node *node = &nodes->items[nodes->count++];
        *node = (struct node){.path = "/dev/rknpu", .driver = "rknpu", .kind = ORK_NPU_RKNPU};
        look_at(survey, node);
    }
    add_class(survey, nodes, "accel", "accel", "accel");
}

/* ---- permission ---- */

/* Name of a group, or its number. */
static void group_name(const struct survey *survey, gid_t group, char *name, size_t capacity)
{
    char *text = malloc(GROUPS_BYTES_MAX);
    snprintf(name, capacity, "%u", (unsigned)group);
    if (text && ork_system_read(survey->root, "etc/group", text, GROUPS_BYTES_MAX) > 0)
        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            size_t length = strcspn(line, ":\n");
            const char *number = line[length] == ':' ? strchr(line + length + 1, ':') : NULL;
            if (number && strtoul(number + 1, NULL, 10) == group && length < capacity) {
                snprintf(name, capacity, "%.*s", (int)length, line);
                break;
            }
        }
    free(text);
}

/* What lets this user open a node that is closed to it. */
static void permission_advice(const struct survey *survey, const struct node *node, char *advice, size_t capacity)
{
    char group[64];
    if ((node->status.st_mode & 060) != 060 || node->status.st_gid == 0) {
        snprintf(advice, capacity,
                 "install the udev rule 60-ork-npu.rules (docs/npu.md), which gives the node to the group render, and "
                 "join it: "
                 "sudo usermod -aG render $USER, then log in again");
        return;
    }
    group_name(survey, node->status.st_gid, group, sizeof group);
    snprintf(advice, capacity, "join the group %s: sudo usermod -aG %s $USER, then log in again", group, group);
}

static void say_denied(struct survey *survey, const struct node *node, ork_finding_kind kind, const char *what)
{
    char advice[512], group[64];
    permission_advice(survey, node, advice, sizeof advice);
    group_name(survey, node->status.st_gid, group, sizeof group);
    survey_add(survey, kind, "permission", advice, "%s is closed to this user (mode %04o, group %s)%s", node->path,
               (unsigned)node->status.st_mode & 07777, group, what);
}

/* Buffers of the misc flavour come from the kernel's heaps. */
static void heaps(struct survey *survey)
{
    static const char *const names[] = {"/dev/dma_heap/system", "/dev/dma_heap/system-dma32", "/dev/dma_heap/cma"};
    struct node heap = {.path = ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct node one = {.path = ""};
        snprintf(one.path, sizeof one.path, "%s", names[i]);
        look_at(survey, &one);
        if (one.accessible)
            return;
        if (one.exists && !heap.exists)
            heap = one;
    }
    survey->usable = false;
    if (heap.exists)
        say_denied(survey, &heap, ORK_FINDING_BAD, "; /dev/rknpu takes its buffers from there");
    else
        survey_add(survey, ORK_FINDING_BAD, "memory heaps", "a kernel with CONFIG_DMABUF_HEAPS_SYSTEM",
                   "/dev/rknpu takes its buffers from /dev/dma_heap, which is not there");
}

/* ---- the driver ---- */

/* The version that the vendor's driver shows in debugfs, which takes root to read. */
static void vendor_version(struct survey *survey)
{
    static const char *const places[] = {"sys/kernel/debug/rknpu/version", "proc/rknpu/version"};
    static const char update[] = "a vendor kernel with rknpu 0.9.8 (6.1, 2024-08 or later)";
    char text[128];
    unsigned major, minor, patch;
    bool known = false;
    for (size_t i = 0; !known && i < sizeof places / sizeof *places; i++)
        if (ork_system_line(survey->root, places[i], text, sizeof text)) {
            const char *number = strpbrk(text, "0123456789");
            known = number && sscanf(number, "%3u.%3u.%3u", &major, &minor, &patch) == 3;
        }
    if (!known) {
        bool is_old = strncmp(survey->kernel, "5.", 2) == 0 || strncmp(survey->kernel, "4.", 2) == 0;
        survey_add(survey, ORK_FINDING_NOTE, "driver", is_old ? update : "",
                   "rknpu; its version can be asked of the driver itself (ork npu)%s",
                   is_old ? "; kernels of this age have 0.7 to 0.9.2, with which int8 products may fail" : "");
        return;
    }
    unsigned version = major * 10000 + minor * 100 + patch;
    if (version < 902)
        survey_add(survey, ORK_FINDING_BAD, "driver", update,
                   "rknpu %u.%u.%u is too old: int8 products fail now and then", major, minor, patch);
    else if (version < 908)
        survey_add(survey, ORK_FINDING_NOTE, "driver", update,
                   "rknpu %u.%u.%u has one address space: 3.75 GiB of weights at most%s", major, minor, patch,
                   version < 905 ? "; builds before March 2024 can freeze the board" : "");
    else
        survey_add(survey, ORK_FINDING_GOOD, "driver", "", "rknpu %u.%u.%u", major, minor, patch);
}

/* Whether the NPU's addresses are translated; without that only some 12 MB can be allocated. */
static void translation(struct survey *survey)
{
    char text[64], path[PATH_MAX], relative[128];
    static const char topic[] = "iommu",
                      off[] = "enable it in the device tree (iommu@fdab9000, status \"okay\"), or take another kernel";
    if (ork_system_line(survey->root, "proc/device-tree/iommu@fdab9000/status", text, sizeof text) &&
        strcmp(text, "disabled") == 0) {
        survey_add(survey, ORK_FINDING_BAD, topic, off,
                   "the NPU's IOMMU is off in the device tree: it can have only some 12 MB");
        survey->usable = false;
        return;
    }
    if (!ork_system_path(survey->root, "sys/kernel/iommu_groups", path, sizeof path))
        return;
    DIR *groups = opendir(path);
    if (!groups)
        return;
    bool found = false;
    int entries = 0;
    for (const struct dirent *entry; !found && entries++ < ENTRIES_MAX && (entry = readdir(groups));) {
        snprintf(relative, sizeof relative, "sys/kernel/iommu_groups/%.32s/devices/fdab0000.npu", entry->d_name);
        found = entry->d_name[0] != '.' && exists(survey, relative);
    }
    closedir(groups);
    if (found) {
        survey_add(survey, ORK_FINDING_GOOD, topic, "", "the NPU has an IOMMU");
        return;
    }
    survey_add(survey, ORK_FINDING_BAD, topic, off, "no IOMMU group has the NPU: it can have only some 12 MB");
    survey->usable = false;
}

/* ---- no node ---- */

static bool has_module_file(const struct survey *survey)
{
    static const char *const endings[] = {"", ".xz", ".zst", ".gz"};
    char path[256];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(path, sizeof path, "lib/modules/%s/kernel/drivers/accel/rocket/rocket.ko%s", survey->kernel,
                 endings[i]);
        if (exists(survey, path))
            return true;
    }
    return false;
}

/* Why an RK3588 has no node, as far as it shows. */
static void missing(struct survey *survey)
{
    static const char topic[] = "npu node";
    char text[128];
    if (ork_system_line(survey->root, "proc/device-tree/npu@fdab0000/status", text, sizeof text) &&
        strcmp(text, "disabled") == 0)
        survey_add(survey, ORK_FINDING_BAD, topic,
                   "enable npu@fdab0000 and its IOMMU with an overlay, or take the vendor's device tree",
                   "the NPU is off in the device tree");
    else if (exists(survey, "sys/module/rocket") || exists(survey, "sys/bus/platform/drivers/rocket"))
        survey_add(survey, ORK_FINDING_BAD, topic,
                   "put rocket into the initramfs (or build it in), so that it comes before the kernel switches off "
                   "the unused "
                   "regulator vdd_npu_s0; see dmesg | grep -i -e rocket -e npu",
                   "the driver rocket is loaded, but there is no /dev/accel/accel0: it came too late or found no core");
    else if (has_module_file(survey))
        survey_add(survey, ORK_FINDING_BAD, topic,
                   "sudo modprobe rocket; if no node appears, put it into the initramfs",
                   "the kernel has the driver rocket, but it is not loaded");
    else
        survey_add(survey, ORK_FINDING_BAD, topic,
                   "a vendor kernel with rknpu 0.9.8, or Linux 6.18 and later with CONFIG_DRM_ACCEL_ROCKET",
                   "this kernel has no NPU driver: neither rknpu nor rocket");
}

/* ---- all together ---- */

static void say_others_nodes(struct survey *survey, const struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (!nodes->items[i].kind)
            survey_add(survey, ORK_FINDING_NOTE, "npu node", "",
                       "%s belongs to the driver '%s', which ork does not drive", nodes->items[i].path,
                       nodes->items[i].driver);
}

/* The nodes of one driver: the best that this process may open, or what keeps it from all of them. */
static void judge(struct survey *survey, const struct nodes *nodes, ork_npu_kind kind)
{
    const struct node *best = NULL, *first = NULL;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct node *node = &nodes->items[i];
        if (node->kind != kind || !node->exists)
            continue;
        if (!first)
            first = node;
        if (!best && node->accessible)
            best = node;
    }
    const char *name = kind == ORK_NPU_RKNPU ? "rknpu (vendor kernel)" : "rocket (mainline kernel)";
    if (!first) {
        survey_add(survey, ORK_FINDING_BAD, "npu node",
                   "in a container: pass the device in (--device); else look whether udev runs",
                   "the driver %s is there, but /dev has no node of it", name);
        return;
    }
    survey->usable = best != NULL;
    survey_add(survey, ORK_FINDING_GOOD, "npu node", "", "%s, driver %s", (best ? best : first)->path, name);
    if (!best)
        say_denied(survey, first, ORK_FINDING_BAD, "");
    else if (best != first && strncmp(first->path, "/dev/dri/card", 13) == 0)
        say_denied(survey, first, ORK_FINDING_NOTE, "; on some kernels jobs run through the card node alone");
    else
        survey_add(survey, ORK_FINDING_GOOD, "permission", "", "this user may open %s", best->path);
    if (best && strcmp(best->path, "/dev/rknpu") == 0)
        heaps(survey);
}

void survey_nodes(struct survey *survey)
{
    struct nodes nodes = {.count = 0};
    const char *paths[NODES_MAX];
    size_t count = 0;
    find_nodes(survey, &nodes);
    for (size_t i = nodes.count; i-- > 0;)
        if (nodes.items[i].kind)
            survey->driver = nodes.items[i].kind; /* of the first one, the best */
    say_others_nodes(survey, &nodes);
    if (!survey->driver && survey->is_rk3588)
        missing(survey);
    else if (!survey->driver && *survey->soc)
        survey_add(survey, ORK_FINDING_NOTE, "npu node", "",
                   "ork drives the NPU of the RK3588 alone; the CPU engine runs here");
    else if (!survey->driver)
        survey_add(survey, ORK_FINDING_NOTE, "npu node", "",
                   "no NPU that ork drives: the CPU engine computes everything, and that is fine");
    if (!survey->driver)
        return;
    judge(survey, &nodes, survey->driver);
    if (survey->driver == ORK_NPU_RKNPU)
        vendor_version(survey);
    if (!survey->is_rk3588) {
        survey->usable = false;
        survey_add(survey, ORK_FINDING_BAD, "soc", "", "register programs are for the RK3588; this is %s",
                   *survey->soc ? survey->soc : "a machine without a device tree");
    }
    translation(survey);
    for (size_t i = 0; i < nodes.count; i++)
        if (nodes.items[i].kind && nodes.items[i].exists)
            paths[count++] = nodes.items[i].path;
    survey_others(survey, paths, count);
}
