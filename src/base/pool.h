/* The thread pool: persistent workers pinned to performance cores, spinning briefly and then sleeping. One caller at a
 * time. Knows nothing of what it runs. */
#ifndef ORK_BASE_POOL_H
#define ORK_BASE_POOL_H

#include "ork/ork.h"

typedef struct ork_pool ork_pool;

/* Runs on every thread of a region; thread 0 is the caller. */
typedef void (*ork_pool_function)(void *context, uint32_t thread, uint32_t threads);

#define ORK_POOL_THREADS_MAX 256u
#define ORK_POOL_SPIN_DEFAULT_US 200u

/* threads: 1..ORK_POOL_THREADS_MAX including the caller; 0: ork_topology_threads(). spin_us: UINT32_MAX for the default. */
ork_status ork_pool_create(uint32_t threads, uint32_t spin_us, ork_pool **pool, ork_error *error);
void ork_pool_destroy(ork_pool *pool);
uint32_t ork_pool_threads(const ork_pool *pool);
/* Calls function(context, thread, threads) on `threads` threads (at most the pool's) and returns when all are done. */
void ork_pool_run(ork_pool *pool, uint32_t threads, ork_pool_function function, void *context);
/* Whether regions may run on the caller alone for a while (default: no) when other programs keep taking the workers' cores
 * away: a short region that waits for a descheduled worker takes a time slice of the system instead of microseconds. Only
 * for callers whose results do not depend on the number of threads. Has no effect on pools larger than the machine. */
void ork_pool_set_yielding(ork_pool *pool, bool yielding);
/* Regions that ran on fewer threads than asked for that reason, since creation. */
uint64_t ork_pool_yielded_regions(const ork_pool *pool);
/* Inside a region: returns when all its threads have come here. */
void ork_pool_barrier(ork_pool *pool);
/* As ork_pool_barrier; the last thread to come calls function(context) before any of them goes on. For work too small to be
 * split, it saves the second barrier. */
void ork_pool_barrier_then(ork_pool *pool, void (*function)(void *context), void *context);

/* Performance cores inside the affinity mask: cores whose cpu_capacity (or, failing that, cpuinfo_max_freq) is at least
 * 80 % of the best, one a physical core. sysfs_root is "/sys" or a test tree; cpus receives up to capacity ids. */
uint32_t ork_topology_performance_cores(const char *sysfs_root, uint32_t *cpus, uint32_t capacity);
uint32_t ork_topology_threads(void);
/* The other cores inside the affinity mask, those below 80 % of the best; none where all are alike. */
uint32_t ork_topology_little_cores(const char *sysfs_root, uint32_t *cpus, uint32_t capacity);

/* Splits [0, count) into `parts` runs that differ by at most one unit; the run of `part` is [*begin, *end). */
static inline void ork_split_range(uint32_t count, uint32_t part, uint32_t parts, uint32_t *begin, uint32_t *end)
{
    *begin = (uint32_t)((uint64_t)count * part / parts);
    *end = (uint32_t)((uint64_t)count * (part + 1) / parts);
}

#endif
