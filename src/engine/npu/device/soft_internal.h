/* What the files of the software device share: buffers, jobs, cores with their worker threads. Owns no behaviour.
 *
 * Two times run side by side. On the device's clock a job has a start and a finish that are fixed when it is submitted,
 * from the timing model, the jobs before it and the fault script alone. In real time a worker thread a core runs the
 * silicon model, as soon as it can; poll brings both together. */
#ifndef ORK_ENGINE_NPU_SOFT_INTERNAL_H
#define ORK_ENGINE_NPU_SOFT_INTERNAL_H

#include "engine/npu/device/soft.h"

#include <pthread.h>

#include "engine/npu/tiling.h"

#define SOFT_NEVER ORK_NPU_SOFT_NEVER
#define SOFT_BUFFERS_MAX 1024u /* the usual limit of descriptors, bugs.md B69 */
#define SOFT_PAGE 4096u

struct soft_buffer {
    uint8_t *host; /* NULL: free */
    uint64_t size_bytes, object;
    uint32_t iova, domain;
    bool imported;
};

/* Where a program writes the registers that say how large its task is: words of it, checked at every submit. */
enum { SOFT_PRECISION, SOFT_PIXELS, SOFT_INPUTS, SOFT_CHANNELS, SOFT_SIZE_WORDS };
struct soft_task {
    const uint64_t *words;
    uint32_t count;
    uint16_t at[SOFT_SIZE_WORDS];
};

enum soft_job_state { SOFT_IDLE, SOFT_FLYING, SOFT_DONE, SOFT_DROPPED };

struct ork_npu_job {
    struct ork_npu_job *next, *previous; /* of all jobs of the device */
    uint32_t core, domain, first_iova, first_words, task_count, buffer_count;
    struct soft_task *tasks;
    uint32_t *handles; /* [buffer_count] of soft_buffer, from 1 */

    /* On the device's clock. */
    enum soft_job_state state;
    struct ork_npu_job *flying_next, *flying_previous;
    uint64_t start_ns, finish_ns, end_ns; /* end_ns: until when its core is taken */
    uint64_t before_ns;                   /* until when its core was taken before it */
    uint64_t output_ns;  /* when what it writes stands in memory; SOFT_NEVER: it writes nothing */
    uint64_t written_ns; /* the same of a job that is held back until then: faults EARLY and LATE; else 0 */
    struct ork_npu_fault fault;

    /* Of the worker, under the lock. */
    struct ork_npu_job *queue_next;
    bool queued, running, ran, released; /* released: a job with written_ns may run */
    struct ork_silicon_outcome outcome;
};

struct soft_core {
    struct soft *device;
    uint32_t index;
    pthread_t thread;
    bool started;
    pthread_cond_t wake;
    struct ork_npu_job *head, *tail; /* to run */
    bool busy;
    /* On the device's clock. */
    uint64_t free_ns;
    bool dead;
};

struct soft {
    struct ork_npu_device base;
    struct ork_npu_capabilities capabilities;
    struct ork_npu_profile profile;
    struct ork_npu_faults *faults;
    struct ork_silicon *silicon;
    bool real_time;
    struct ork_virtual_clock virtual_clock;
    const struct ork_clock *clock;

    /* Of the owner alone. */
    struct soft_buffer buffers[SOFT_BUFFERS_MAX];
    uint64_t objects; /* names given */
    uint64_t domain_bytes[ORK_NPU_DOMAINS_MAX];
    uint32_t domain;    /* live, or about to be */
    uint64_t domain_ns; /* from when */
    struct ork_npu_job *jobs, *flying;
    uint32_t held; /* jobs with written_ns that were not released */

    pthread_mutex_t lock; /* jobs' worker fields, queues, stats */
    pthread_cond_t ran;   /* a worker has finished a job */
    bool locks_made, stop;
    struct soft_core cores[ORK_NPU_CORES_MAX];
    struct ork_npu_soft_stats stats;
};

static inline struct soft *soft_of(const struct ork_npu_device *device)
{
    return (struct soft *)(uintptr_t)device;
}

/* a + b, staying at SOFT_NEVER. */
static inline uint64_t soft_later(uint64_t a, uint64_t b)
{
    return a > SOFT_NEVER - b ? SOFT_NEVER : a + b;
}

static inline uint64_t soft_ns(double us)
{
    return (uint64_t)(us * 1000.0);
}

/* Time that a call takes; passes on a virtual clock alone, since a real one passes by itself. */
void soft_spend_ns(struct soft *soft, uint64_t duration_ns);

/* ---- soft_memory.c ---- */

ork_status soft_allocate(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                         struct ork_npu_buffer *buffer, ork_error *error);
ork_status soft_import(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                       struct ork_npu_buffer *buffer, ork_error *error);
void soft_release(struct ork_npu_device *device, struct ork_npu_buffer *buffer);
ork_status soft_sync(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                     uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error);
/* The device's own record of a buffer, NULL when it is none of this device. */
struct soft_buffer *soft_find(struct soft *soft, const struct ork_npu_buffer *buffer);
void soft_buffers_free(struct soft *soft);

/* ---- soft_job.c: job_create, job_destroy; the work of a job's programs as they are now ---- */

ork_status soft_job_create(struct ork_npu_device *device, const struct ork_npu_job_params *params,
                           struct ork_npu_job **job, ork_error *error);
void soft_job_destroy(struct ork_npu_device *device, struct ork_npu_job *job);
void soft_job_free(struct soft *soft, struct ork_npu_job *job);
void soft_job_work(struct ork_npu_job *job, struct ork_npu_work *work);

/* ---- soft_worker.c: the threads; all but start and stop with the lock held ---- */

ork_status soft_workers_start(struct soft *soft, ork_error *error);
/* Whatever is queued is dropped; a running job is waited for. */
void soft_workers_stop(struct soft *soft);
void soft_worker_give(struct soft *soft, struct ork_npu_job *job);
/* Waits until the worker is through with a job that was given to it and is not held back. */
void soft_worker_wait(struct soft *soft, struct ork_npu_job *job);
/* Lets a held job run, and waits. */
void soft_worker_release(struct soft *soft, struct ork_npu_job *job);
/* Takes a job out of the queue if it has not begun. */
void soft_worker_unlink(struct soft *soft, struct ork_npu_job *job);
/* Empties the queues and waits for what runs. */
void soft_workers_drop(struct soft *soft);

/* ---- soft.c ---- */

/* Lets all output that is due as the clock stands really be in memory. Lock held. */
void soft_write_due(struct soft *soft);
/* Whether the device still has the job, as its clock stands: completes it when it is due. Lock held. */
bool soft_job_in_use(struct soft *soft, struct ork_npu_job *job);

#endif
