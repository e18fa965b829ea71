/* Owns the worker threads: how they wait, wake, meet and end. Must not know what they compute.
 *
 * A region is published by bumping `generation`; workers spin on it for a while and then sleep on a futex. The caller
 * waits the same way on `active`. Workers may run on any performance core: pinning them one to one would leave them stuck
 * behind other programs, and the caller's own affinity is never touched. */
#include "base/pool.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE 64

/* A window of regions is bad when this many of them spent more than half of their time waiting; the caller then goes on
 * alone, twice as long each time in a row. Four stalls cost about four time slices, 16 ms; against the longest time alone
 * that is a small part. The measurement is in docs/performance.md, "Beside
 * other programs". */
enum { WINDOW_REGIONS = 64, WINDOW_STALLS = 4, ALONE_FIRST_US = 20 * 1000, ALONE_LONGEST_US = 1000 * 1000 };

struct worker {
    ork_pool *pool;
    uint32_t thread;
    pthread_t handle;
};

struct ork_pool {
    uint32_t threads;
    uint32_t spin_us;
    struct worker *workers; /* [threads - 1], for threads 1.. */
    uint32_t started;
    ork_pool_function function;
    void *context;
    uint32_t region_threads;
    bool stopping;
    _Alignas(CACHE_LINE) atomic_uint generation;
    atomic_uint sleepers;
    _Alignas(CACHE_LINE) atomic_uint active; /* workers that have not left the present region */
    atomic_uint caller_sleeps;
    _Alignas(CACHE_LINE) atomic_uint barrier_arrived;
    _Alignas(CACHE_LINE) atomic_uint barrier_round;
    atomic_uint barrier_sleepers;
    struct yielding {
        bool allowed;
        atomic_uint waited_us; /* longest wait of any thread in the present region, beyond spinning */
        uint32_t regions, stalled; /* of the present window */
        uint64_t alone_until_us;
        uint32_t alone_us; /* how long the caller goes on alone next time */
        uint64_t yielded_regions;
    } yielding;
};

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until *word differs from `old` or the time is over; returns the last value seen. */
static unsigned spin_until_changed(atomic_uint *word, unsigned old, uint32_t spin_us)
{
    unsigned value = atomic_load_explicit(word, memory_order_acquire);
    uint64_t end_us = 0;
    while (value == old) {
        for (int i = 0; i < 64 && value == old; i++) {
            relax();
            value = atomic_load_explicit(word, memory_order_acquire);
        }
        if (value != old)
            break;
        uint64_t now_us = ork_clock_now_us();
        if (!end_us)
            end_us = now_us + spin_us;
        else if (now_us >= end_us)
            break;
    }
    return value;
}

static unsigned await_generation(ork_pool *pool, unsigned seen)
{
    unsigned value = spin_until_changed(&pool->generation, seen, pool->spin_us);
    while (value == seen) {
        atomic_fetch_add(&pool->sleepers, 1);
        futex_wait(&pool->generation, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
        value = atomic_load_explicit(&pool->generation, memory_order_acquire);
    }
    return value;
}

static void *worker_main(void *argument)
{
    struct worker *self = argument;
    ork_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        seen = await_generation(pool, seen);
        if (pool->stopping)
            return NULL;
        if (self->thread < pool->region_threads)
            pool->function(pool->context, self->thread, pool->region_threads);
        if (atomic_fetch_sub(&pool->active, 1) == 1 && atomic_load(&pool->caller_sleeps))
            futex_wake_all(&pool->active);
    }
}

/* Workers inherit the caller's mask; on machines with little cores they are kept to the performance cores in it. */
static int restrict_to_performance_cores(pthread_t handle)
{
    uint32_t cpus[ORK_POOL_THREADS_MAX];
    uint32_t count = ork_topology_performance_cores("/sys", cpus, ORK_POOL_THREADS_MAX);
    if (!count)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < count; i++)
        CPU_SET(cpus[i], &set);
    return pthread_setaffinity_np(handle, sizeof set, &set);
}

ork_status ork_pool_create(uint32_t threads, uint32_t spin_us, ork_pool **out, ork_error *error)
{
    *out = NULL;
    if (!threads)
        threads = ork_topology_threads();
    if (threads > ORK_POOL_THREADS_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "threads", -1, "%u threads asked for, at most %u are possible",
                             threads, ORK_POOL_THREADS_MAX);
    ork_pool *pool = aligned_alloc(CACHE_LINE, (sizeof *pool + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!pool)
        return ork_error_no_memory(error, "thread pool", sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->threads = threads;
    pool->spin_us = spin_us == UINT32_MAX ? ORK_POOL_SPIN_DEFAULT_US : spin_us;
    if (threads > ork_topology_threads())
        pool->spin_us = 0; /* who is waited for may need this core */
    pool->workers = calloc(threads, sizeof *pool->workers);
    ork_status status = ORK_OK;
    if (!pool->workers) {
        status = ork_error_no_memory(error, "thread pool", threads * sizeof *pool->workers);
        goto out;
    }
    for (uint32_t i = 1; i < threads; i++) {
        struct worker *worker = &pool->workers[i - 1];
        *worker = (struct worker){.pool = pool, .thread = i};
        errno = pthread_create(&worker->handle, NULL, worker_main, worker);
        if (errno) {
            status = ork_error_errno(error, "thread pool", "cannot start a thread");
            goto out;
        }
        pool->started++;
        errno = restrict_to_performance_cores(worker->handle);
        if (errno) {
            status = ork_error_errno(error, "thread pool", "cannot set the affinity of a thread");
            goto out;
        }
    }
    *out = pool;
    pool = NULL;
out:
    ork_pool_destroy(pool);
    return status;
}

void ork_pool_destroy(ork_pool *pool)
{
    if (!pool)
        return;
    pool->stopping = true;
    atomic_fetch_add(&pool->generation, 1);
    futex_wake_all(&pool->generation);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    free(pool->workers);
    free(pool);
}

uint32_t ork_pool_threads(const ork_pool *pool)
{
    return pool->threads;
}

void ork_pool_set_yielding(ork_pool *pool, bool yielding)
{
    pool->yielding.allowed = yielding && pool->spin_us > 0;
}

uint64_t ork_pool_yielded_regions(const ork_pool *pool)
{
    return pool->yielding.yielded_regions;
}

/* A wait that outlasted the spinning, begun at begin_us without the spin. */
static void note_wait(ork_pool *pool, uint64_t begin_us)
{
    unsigned waited_us = (unsigned)(ork_clock_now_us() - begin_us) + pool->spin_us;
    unsigned longest = atomic_load_explicit(&pool->yielding.waited_us, memory_order_relaxed);
    while (waited_us > longest && !atomic_compare_exchange_weak(&pool->yielding.waited_us, &longest, waited_us))
        continue;
}

/* After a region on all threads: whether the next ones should run on the caller alone. */
static void judge_region(struct yielding *y, uint64_t begin_us)
{
    unsigned waited_us = atomic_load_explicit(&y->waited_us, memory_order_relaxed);
    y->regions++;
    if (waited_us) {
        uint64_t now_us = ork_clock_now_us();
        atomic_store_explicit(&y->waited_us, 0, memory_order_relaxed);
        if (waited_us * 2ull > now_us - begin_us && ++y->stalled == WINDOW_STALLS) {
            y->alone_us = !y->alone_us                             ? ALONE_FIRST_US
                          : y->alone_us < ALONE_LONGEST_US / 2 ? y->alone_us * 2
                                                                   : ALONE_LONGEST_US;
            y->alone_until_us = now_us + y->alone_us;
            y->regions = y->stalled = 0;
        }
    }
    if (y->regions == WINDOW_REGIONS) {
        y->regions = y->stalled = 0;
        y->alone_us = 0;
    }
}

void ork_pool_run(ork_pool *pool, uint32_t threads, ork_pool_function function, void *context)
{
    if (threads > pool->threads)
        threads = pool->threads;
    uint64_t begin_us = threads > 1 && pool->yielding.allowed ? ork_clock_now_us() : 0;
    bool alone = begin_us && begin_us < pool->yielding.alone_until_us;
    pool->yielding.yielded_regions += alone;
    if (threads <= 1 || alone) {
        pool->region_threads = 1;
        function(context, 0, 1);
        return;
    }
    pool->function = function;
    pool->context = context;
    pool->region_threads = threads;
    atomic_store(&pool->active, pool->threads - 1);
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers))
        futex_wake_all(&pool->generation);
    function(context, 0, threads);

    unsigned left = atomic_load_explicit(&pool->active, memory_order_acquire);
    while (left) {
        left = spin_until_changed(&pool->active, left, pool->spin_us);
        if (!left)
            break;
        uint64_t sleep_us = ork_clock_now_us();
        atomic_store(&pool->caller_sleeps, 1);
        unsigned now = atomic_load(&pool->active);
        if (now)
            futex_wait(&pool->active, now);
        atomic_store(&pool->caller_sleeps, 0);
        note_wait(pool, sleep_us);
        left = atomic_load_explicit(&pool->active, memory_order_acquire);
    }
    if (begin_us)
        judge_region(&pool->yielding, begin_us);
}

void ork_pool_barrier(ork_pool *pool)
{
    ork_pool_barrier_then(pool, NULL, NULL);
}

void ork_pool_barrier_then(ork_pool *pool, void (*function)(void *context), void *context)
{
    uint32_t threads = pool->region_threads;
    if (threads <= 1) {
        if (function)
            function(context);
        return;
    }
    unsigned round = atomic_load_explicit(&pool->barrier_round, memory_order_acquire);
    if (atomic_fetch_add(&pool->barrier_arrived, 1) + 1 == threads) {
        if (function)
            function(context);
        atomic_store_explicit(&pool->barrier_arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&pool->barrier_round, 1);
        if (atomic_load(&pool->barrier_sleepers))
            futex_wake_all(&pool->barrier_round);
        return;
    }
    /* Everybody else is running too, so this is short unless a core was taken away: then leave this one to others. */
    while (spin_until_changed(&pool->barrier_round, round, pool->spin_us) == round) {
        uint64_t sleep_us = ork_clock_now_us();
        atomic_fetch_add(&pool->barrier_sleepers, 1);
        futex_wait(&pool->barrier_round, round);
        atomic_fetch_sub(&pool->barrier_sleepers, 1);
        note_wait(pool, sleep_us);
    }
}
