/* Owns where a machine's name stands. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

/* The first of these keys in /proc/cpuinfo; an ARM board has its name in the device tree. */
void cli_machine_name(char *name, size_t capacity)
{
    char line[512];
    snprintf(name, capacity, "unknown");
    FILE *stream = fopen("/proc/cpuinfo", "re");
    while (stream && fgets(line, sizeof line, stream)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0)
            continue;
        colon[1 + strcspn(colon + 1, "\n")] = 0;
        snprintf(name, capacity, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (stream)
        fclose(stream);
    if (strcmp(name, "unknown") != 0)
        return;
    stream = fopen("/proc/device-tree/model", "re");
    if (stream && fgets(line, sizeof line, stream))
        snprintf(name, capacity, "%.100s", line);
    if (stream)
        fclose(stream);
}
