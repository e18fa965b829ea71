/* The threads that run the silicon, one a core, each with its queue. They know no clock but for jobs that are held back. */
#include "engine/npu/device/soft_internal.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"

#define INTERRUPT_MASK 0x300u /* DPU of both groups, npu-hw.md 1.3 */

/* The head of the queue when it may run now. Waits on a real clock until a held job is due. */
static struct ork_npu_job *next_job(struct soft_core *core)
{
    struct soft *soft = core->device;
    for (;;) {
        struct ork_npu_job *job = core->head;
        if (soft->stop)
            return NULL;
        if (job && (!job->written_ns || job->released))
            return job;
        if (job && soft->real_time) {
            if (soft->clock->now_ns(soft->clock) >= job->written_ns)
                return job;
            const struct timespec until = {.tv_sec = (time_t)(job->written_ns / 1000000000u),
                                           .tv_nsec = (long)(job->written_ns % 1000000000u)};
            pthread_cond_timedwait(&core->wake, &soft->lock, &until);
        } else {
            pthread_cond_wait(&core->wake, &soft->lock);
        }
    }
}

static void run_job(struct soft_core *core, struct ork_npu_job *job)
{
    struct soft *soft = core->device;
    core->head = job->queue_next;
    if (!core->head)
        core->tail = NULL;
    job->queued = false;
    job->running = core->busy = true;
    const struct ork_npu_fault fault = job->fault;
    /* What the vendor driver writes, npu-hw.md 1.6: its amount counts words without the tail of four. */
    const struct ork_silicon_kick kick = {.core = core->index,
                                          .domain = job->domain,
                                          .regcmd_iova = job->first_iova,
                                          .amount = (job->first_words + 1) / 2 - 1,
                                          .int_mask = INTERRUPT_MASK,
                                          .int_clear = INTERRUPT_MASK,
                                          .task_number = job->task_count,
                                          .ping_pong = true,
                                          .fault = &fault};
    struct ork_silicon_outcome outcome;
    pthread_mutex_unlock(&soft->lock);
    ork_silicon_run(soft->silicon, &kick, &outcome);
    pthread_mutex_lock(&soft->lock);
    job->outcome = outcome;
    for (uint32_t bit = 0; bit < ORK_NPU_SOFT_ANOMALIES; bit++)
        soft->stats.anomalies[bit] += outcome.anomalies >> bit & 1;
    if (outcome.why[0])
        memcpy(soft->stats.why, outcome.why, sizeof soft->stats.why);
    job->running = core->busy = false;
    job->ran = true;
    pthread_cond_broadcast(&soft->ran);
}

static void *work(void *argument)
{
    struct soft_core *core = argument;
    pthread_mutex_lock(&core->device->lock);
    for (struct ork_npu_job *job = next_job(core); job; job = next_job(core))
        run_job(core, job);
    pthread_mutex_unlock(&core->device->lock);
    return NULL;
}

ork_status soft_workers_start(struct soft *soft, ork_error *error)
{
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ork_status status = ORK_OK;
    for (uint32_t i = 0; i < soft->capabilities.cores && status == ORK_OK; i++) {
        struct soft_core *core = &soft->cores[i];
        const int result = pthread_create(&core->thread, NULL, work, core);
        core->started = result == 0;
        if (result)
            status = ork_error_set(error, ORK_NO_MEMORY, "soft NPU", -1, "cannot start a thread: %s", strerror(result));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void soft_workers_stop(struct soft *soft)
{
    pthread_mutex_lock(&soft->lock);
    soft->stop = true;
    for (uint32_t i = 0; i < ORK_NPU_CORES_MAX; i++)
        pthread_cond_signal(&soft->cores[i].wake);
    pthread_mutex_unlock(&soft->lock);
    for (uint32_t i = 0; i < ORK_NPU_CORES_MAX; i++)
        if (soft->cores[i].started)
            pthread_join(soft->cores[i].thread, NULL);
}

void soft_worker_give(struct soft *soft, struct ork_npu_job *job)
{
    struct soft_core *core = &soft->cores[job->core];
    job->queue_next = NULL;
    job->queued = true;
    if (core->tail)
        core->tail->queue_next = job;
    else
        core->head = job;
    core->tail = job;
    pthread_cond_signal(&core->wake);
}

void soft_worker_release(struct soft *soft, struct ork_npu_job *job)
{
    job->released = true;
    pthread_cond_signal(&soft->cores[job->core].wake);
    soft_worker_wait(soft, job);
}

void soft_worker_wait(struct soft *soft, struct ork_npu_job *job)
{
    while (job->queued || job->running)
        pthread_cond_wait(&soft->ran, &soft->lock);
}

void soft_worker_unlink(struct soft *soft, struct ork_npu_job *job)
{
    struct soft_core *core = &soft->cores[job->core];
    struct ork_npu_job *before = NULL;
    for (struct ork_npu_job *at = core->head; at && at != job; at = at->queue_next)
        before = at;
    if (!job->queued)
        return;
    *(before ? &before->queue_next : &core->head) = job->queue_next;
    if (core->tail == job)
        core->tail = before;
    job->queued = false;
    pthread_cond_signal(&core->wake);
}

void soft_workers_drop(struct soft *soft)
{
    for (uint32_t i = 0; i < soft->capabilities.cores; i++) {
        struct soft_core *core = &soft->cores[i];
        for (; core->head; core->head = core->head->queue_next)
            core->head->queued = false;
        core->tail = NULL;
        while (core->busy)
            pthread_cond_wait(&soft->ran, &soft->lock);
    }
}
