/* Measures what it costs to bring threads together: a barrier inside a region of the thread pool, and a whole region (waking
 * the workers and waiting for them), both with nothing in between.
 *
 *   bench_pool [THREADS...]     default: 1 and the performance cores
 *
 * Nanoseconds, median and 99th percentile over batches of 1000. Where a core is taken away the percentile shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"

enum { BATCHES = 301, BATCH = 1000, THREADS_MAX = 64 };

struct meeting {
    ork_pool *pool;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void meet(void *context, uint32_t thread, uint32_t threads)
{
    const struct meeting *meeting = context;
    (void)thread, (void)threads;
    for (int i = 0; i < BATCH; i++)
        ork_pool_barrier(meeting->pool);
}

static void pass(void *context, uint32_t thread, uint32_t threads)
{
    (void)context, (void)thread, (void)threads;
}

static void report(const char *what, uint32_t threads, double *samples)
{
    qsort(samples, BATCHES, sizeof *samples, compare_doubles);
    printf("%-8s %3u threads: %7.0f ns, 99 of 100 below %7.0f ns\n", what, threads, samples[BATCHES / 2],
           samples[BATCHES - BATCHES / 100 - 1]);
}

static int measure(uint32_t threads)
{
    ork_error error;
    struct meeting meeting;
    double barriers[BATCHES], regions[BATCHES];
    if (ork_pool_create(threads, UINT32_MAX, &meeting.pool, &error) != ORK_OK) {
        fprintf(stderr, "bench_pool: %s: %s\n", error.where, error.what);
        return 1;
    }
    for (int i = 0; i < BATCHES; i++) {
        double begin = now_ns();
        ork_pool_run(meeting.pool, threads, meet, &meeting);
        double middle = now_ns();
        for (int j = 0; j < BATCH; j++)
            ork_pool_run(meeting.pool, threads, pass, NULL);
        barriers[i] = (middle - begin) / BATCH;
        regions[i] = (now_ns() - middle) / BATCH;
    }
    ork_pool_destroy(meeting.pool);
    report("barrier", threads, barriers);
    report("region", threads, regions);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        long threads = strtol(argv[i], NULL, 10);
        if (threads < 1 || threads > THREADS_MAX) {
            fprintf(stderr, "bench_pool: %s is not a number of threads from 1 to %d\n", argv[i], THREADS_MAX);
            return 2;
        }
        failed |= measure((uint32_t)threads);
    }
    if (argc == 1) {
        failed = measure(1);
        if (ork_topology_threads() > 1)
            failed |= measure(ork_topology_threads() < THREADS_MAX ? ork_topology_threads() : THREADS_MAX);
    }
    return failed;
}
