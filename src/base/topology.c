/* Owns the choice of cores that work: performance cores, one thread each, inside the affinity mask. Must not change any
 * affinity. */
#include "base/pool.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* First number of a sysfs file of one CPU, -1 when it is not there. */
static long cpu_number(const char *root, uint32_t cpu, const char *file)
{
    char path[512];
    long value = -1;
    int length = snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%u/%s", root, cpu, file);
    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    FILE *stream = fopen(path, "re");
    if (!stream)
        return -1;
    if (fscanf(stream, "%ld", &value) != 1)
        value = -1;
    fclose(stream);
    return value;
}

static bool is_online(const char *root, uint32_t cpu)
{
    return cpu_number(root, cpu, "online") != 0; /* cpu0 often has no such file */
}

/* Of hyperthreads on one core only the first listed counts: a memory-bound loop gains nothing from the second. */
static bool is_first_sibling(const char *root, uint32_t cpu, const cpu_set_t *allowed)
{
    long first = cpu_number(root, cpu, "topology/thread_siblings_list");
    return first < 0 || (uint32_t)first == cpu || first >= CPU_SETSIZE || !CPU_ISSET((size_t)first, allowed);
}

static long strength(const char *root, uint32_t cpu)
{
    long capacity = cpu_number(root, cpu, "cpu_capacity");
    return capacity > 0 ? capacity : cpu_number(root, cpu, "cpufreq/cpuinfo_max_freq");
}

/* The affinity mask, and the strength of the best core in it. */
static long best_strength(const char *root, cpu_set_t *allowed)
{
    CPU_ZERO(allowed);
    if (sched_getaffinity(0, sizeof *allowed, allowed) != 0)
        CPU_SET(0, allowed);
    long best = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && is_online(root, cpu)) {
            long value = strength(root, cpu);
            if (value > best)
                best = value;
        }
    return best;
}

uint32_t ork_topology_performance_cores(const char *sysfs_root, uint32_t *cpus, uint32_t capacity)
{
    cpu_set_t allowed;
    const long best = best_strength(sysfs_root, &allowed);
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || !is_online(sysfs_root, cpu) || !is_first_sibling(sysfs_root, cpu, &allowed))
            continue;
        long value = strength(sysfs_root, cpu);
        if (value > 0 && value < best * 8 / 10)
            continue;
        cpus[count++] = cpu;
    }
    return count;
}

uint32_t ork_topology_little_cores(const char *sysfs_root, uint32_t *cpus, uint32_t capacity)
{
    cpu_set_t allowed;
    const long best = best_strength(sysfs_root, &allowed);
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || !is_online(sysfs_root, cpu))
            continue;
        long value = strength(sysfs_root, cpu);
        if (value > 0 && value < best * 8 / 10)
            cpus[count++] = cpu;
    }
    return count;
}

uint32_t ork_topology_threads(void)
{
    uint32_t cpus[ORK_POOL_THREADS_MAX];
    uint32_t count = ork_topology_performance_cores("/sys", cpus, ORK_POOL_THREADS_MAX);
    return count ? count : 1;
}
