/* Owns reading of small system files within bounds; must not know what they mean, but for the SoC's name. */
#include "engine/npu/system.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ork_system_path(const char *root, const char *path, char *out, size_t capacity)
{
    size_t length = strlen(root);
    while (length && root[length - 1] == '/')
        length--;
    int written = snprintf(out, capacity, "%.*s/%s", (int)length, root, *path == '/' ? path + 1 : path);
    return written >= 0 && (size_t)written < capacity;
}

long ork_system_read(const char *root, const char *path, char *text, size_t capacity)
{
    char full[PATH_MAX];
    struct stat status;
    long used = -1;
    text[0] = 0;
    if (!ork_system_path(root, path, full, sizeof full))
        return -1;
    int file = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return -1;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        goto out;
    used = 0;
    while ((size_t)used < capacity - 1) {
        ssize_t got = read(file, text + used, capacity - 1 - (size_t)used);
        if (got <= 0)
            break;
        used += (long)got;
    }
    text[used] = 0;
out:
    close(file);
    return used;
}

bool ork_system_line(const char *root, const char *path, char *text, size_t capacity)
{
    if (ork_system_read(root, path, text, capacity) < 0)
        return false;
    size_t length = strcspn(text, "\n");
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t' || text[length - 1] == '\r'))
        length--;
    text[length] = 0;
    return length > 0;
}

bool ork_system_number(const char *root, const char *path, uint64_t *value)
{
    char text[64], *end;
    if (!ork_system_line(root, path, text, sizeof text) || *text < '0' || *text > '9')
        return false;
    *value = strtoull(text, &end, 10);
    return end != text;
}

bool ork_system_soc(const char *root, char *soc, size_t capacity)
{
    static const char maker[] = "rockchip,rk";
    char names[1024];
    *soc = 0;
    long length = ork_system_read(root, "proc/device-tree/compatible", names, sizeof names);
    if (length < 0)
        length = ork_system_read(root, "sys/firmware/devicetree/base/compatible", names, sizeof names);
    if (length < 0)
        return false;
    /* A list of strings that end with 0, the most special first: the SoC is the last of its maker. Boards have names of
     * the same form with a dash ("rockchip,rk3588-evb"). */
    for (const char *name = names; name < names + length; name += strlen(name) + 1)
        if (strncmp(name, maker, sizeof maker - 1) == 0 && !strchr(name, '-'))
            snprintf(soc, capacity, "%s", name + strlen("rockchip,"));
    if (strcmp(soc, "rk3588s") == 0 || strcmp(soc, "rk3588s2") == 0)
        soc[strlen("rk3588")] = 0;
    return true;
}
