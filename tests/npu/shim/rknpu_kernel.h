/* The vendor kernel's driver as the shim plays it: state that its two halves share. rknpu_kernel.c owns nodes, requests and
 * memory; rknpu_jobs.c owns cores, queues, resets and address domains. Everything is protected by one lock, which is held
 * by every function declared here unless it says otherwise. Facts: npu-hw.md 1.
 *
 * Structs of the caller are read by byte offset as the fact sheet lists them, not through the header of the program under
 * test, so that a mistake there shows. */
#ifndef ORK_TESTS_RKNPU_KERNEL_H
#define ORK_TESTS_RKNPU_KERNEL_H

#include "shim/shim.h"

#include <pthread.h>
#include <string.h>

#include "engine/npu/device/silicon.h"

enum { RK_CORES = 3, RK_DOMAINS = 16, RK_PAGE = 4096, RK_TASK_BYTES = 40, RK_TASKS_PER_KICK = 4095, RK_SLOTS = 5 };

/* A GEM object. `host` is what the CPU sees through its cache, `device` what the NPU sees; the same memory if not cacheable.
 * A page that was never cleaned holds dirty lines of the kernel's own zeroing, which go over results when they leave the
 * cache. */
struct rk_object {
    struct rk_object *next;
    uint64_t id; /* the kernel address that callers pass around */
    uint32_t flags, domain, iova;
    uint64_t size_bytes, map_offset;
    uint8_t *host, *device;
    uint32_t references; /* handles, mappings, jobs that have their tasks in it */
    uint32_t mappings;
    bool *fresh; /* per page */
    uint64_t fresh_pages;
};
enum { RK_NON_CONTIGUOUS = 1, RK_CACHEABLE = 2, RK_KERNEL_MAPPING = 8, RK_IOVA_ALIGNMENT = 0x400 };

struct rk_job {
    struct rk_job *next[RK_CORES];
    uint32_t flags, timeout, task_start, task_number, domain, core_mask, base;
    struct {
        uint32_t start, number;
    } range[RK_SLOTS];
    struct rk_object *tasks; /* referenced; NULL: the caller passed 0 */
    uint64_t submitted_us, committed_us, elapsed_ns;
    uint32_t cores_used, to_run, to_finish;
    uint32_t kicks[RK_CORES], int_mask[RK_CORES], int_status[RK_CORES];
    struct ork_npu_fault fault[RK_CORES];
    uint8_t *last_task;
    bool done, async;
    int result;
};

struct rk_core {
    struct rk_job *job, *first, *last; /* on the core, and its queue */
    uint64_t queued_tasks;
    pthread_t thread;
    bool kicked, running, dead;
    struct ork_silicon_kick kick;
    struct ork_npu_fault fault;
    uint32_t task_counter;
};

struct rk_kernel {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    /* Options. */
    uint32_t version, iommu, hardware, frequency, node;
    uint64_t memory_bytes, iova_bytes;
    uint32_t switch_ms, reset_ms, job_us, interrupt_every, restart_every;
    bool misc, leak;
    int open_error;
    /* State. */
    struct ork_npu_faults *faults;
    struct ork_silicon *silicon;
    struct rk_object *objects; /* every one, highest address of a domain first */
    uint64_t next_id, next_offset, held_bytes, held_objects;
    struct rk_core core[RK_CORES];
    uint32_t domain;
    int64_t domain_references;
    bool stopping, resetting, wedged;
    uint64_t generation; /* counts resets: what ran before one has no effect after it */
    uint64_t requests;
    /* Counters for tests. */
    struct {
        uint64_t submits, kicks, completed, resets, reaped, leaked, anomalies, spurious, switches, evicted, freed_busy;
    } count;
};
extern struct rk_kernel rk;

static inline uint32_t rk_get32(const void *bytes, size_t offset)
{
    uint32_t value;
    memcpy(&value, (const uint8_t *)bytes + offset, sizeof value);
    return value;
}
static inline uint64_t rk_get64(const void *bytes, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const uint8_t *)bytes + offset, sizeof value);
    return value;
}
static inline void rk_put32(void *bytes, size_t offset, uint32_t value)
{
    memcpy((uint8_t *)bytes + offset, &value, sizeof value);
}
static inline void rk_put64(void *bytes, size_t offset, uint64_t value)
{
    memcpy((uint8_t *)bytes + offset, &value, sizeof value);
}

/* rknpu_kernel.c */
struct rk_object *rk_object_find(uint64_t id);
void rk_object_put(struct rk_object *object);
/* Dirty lines of never cleaned pages of the domain go over what the NPU wrote. */
void rk_evict_fresh(uint32_t domain);

/* rknpu_jobs.c */
int rk_jobs_start(void); /* without the lock, as is stop */
void rk_jobs_stop(void);
/* The domain becomes the live one as soon as no reference holds another; waits. -EINVAL: in vain. */
int rk_domain_get(uint32_t domain);
void rk_domain_put(void);
int rk_submit(void *copy);
int rk_soft_reset(void);
bool rk_busy(void); /* a core is executing */
/* Lets others in for so long. */
void rk_sleep_us(uint64_t us);

#endif
