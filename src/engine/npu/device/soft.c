/* The software device: the vtable, and the timeline of jobs on the device's clock. Owns when a job starts and finishes,
 * domains, faults of submits, resets; knows no registers. What a job computes is the silicon's, which the workers run. */
#include "engine/npu/device/soft_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define DOMAIN_WAIT_NS 6000000000u /* how long the vendor driver waits for a domain to become free, npu-hw.md 1.8 */
#define LOOK_AGAIN_NS 20000u       /* when the model's time is over and the worker is not through, on a real clock */
#define HARDWARE_VERSION 0x46495245u

void soft_spend_ns(struct soft *soft, uint64_t duration_ns)
{
    if (!soft->real_time)
        ork_virtual_clock_advance(&soft->virtual_clock, soft->clock->now_ns(soft->clock) + duration_ns);
}

static uint64_t now_ns(const struct soft *soft)
{
    return soft->clock->now_ns(soft->clock);
}

/* ---- states of jobs; all with the lock held ---- */

static void take_off(struct soft *soft, struct ork_npu_job *job, enum soft_job_state state)
{
    if (soft->flying == job)
        soft->flying = job->flying_next;
    if (job->flying_next)
        job->flying_next->flying_previous = job->flying_previous;
    if (job->flying_previous)
        job->flying_previous->flying_next = job->flying_next;
    job->flying_next = job->flying_previous = NULL;
    job->state = state;
}

static void put_on(struct soft *soft, struct ork_npu_job *job)
{
    job->state = SOFT_FLYING;
    job->flying_previous = NULL;
    job->flying_next = soft->flying;
    if (soft->flying)
        soft->flying->flying_previous = job;
    soft->flying = job;
}

static void release_held(struct soft *soft, struct ork_npu_job *job)
{
    soft->held -= !job->released;
    soft_worker_release(soft, job);
    job->written_ns = 0;
}

/* Lets held jobs go whose output is due; true when there was one. */
static bool let_go(struct soft *soft, uint64_t now)
{
    bool some = false;
    for (struct ork_npu_job *job = soft->jobs; job && soft->held; job = job->next)
        if (job->written_ns && !job->released && now >= job->written_ns) {
            job->released = some = true;
            soft->held--;
            pthread_cond_signal(&soft->cores[job->core].wake);
        }
    return some;
}

void soft_write_due(struct soft *soft)
{
    if (soft->real_time)
        return;
    const uint64_t now = now_ns(soft);
    /* A held job may stand behind another in its queue: all are let go before any is waited for. */
    if (let_go(soft, now))
        for (struct ork_npu_job *job = soft->jobs; job; job = job->next)
            if (job->written_ns && job->released) {
                soft_worker_wait(soft, job);
                job->written_ns = 0;
            }
    for (struct ork_npu_job *job = soft->flying; job; job = job->flying_next)
        if (job->output_ns <= now)
            soft_worker_wait(soft, job);
}

/* Whether a flying job is through as the clock stands; then it is done, or found to hang. */
static bool settle(struct soft *soft, struct ork_npu_job *job)
{
    soft_write_due(soft);
    if (now_ns(soft) < job->finish_ns || job->finish_ns == SOFT_NEVER)
        return false;
    /* What is late says done when its output is there; on a real clock that is when the worker is through. */
    if (!job->written_ns || (soft->real_time && job->fault.kind == ORK_FAULT_LATE)) {
        if (soft->real_time && !job->ran)
            return false;
        soft_worker_wait(soft, job);
        if (!job->outcome.interrupt) {
            job->finish_ns = soft->cores[job->core].free_ns = SOFT_NEVER;
            soft->stats.hangs++;
            return false;
        }
    }
    soft->stats.completed++;
    take_off(soft, job, SOFT_DONE);
    return true;
}

bool soft_job_in_use(struct soft *soft, struct ork_npu_job *job)
{
    if (job->state == SOFT_FLYING && !settle(soft, job))
        return true;
    if (job->written_ns) /* says done already; what it has to write is written now, before its memory goes */
        release_held(soft, job);
    return false;
}

/* ---- submit ---- */

/* Changes the live domain. False: refused, after the time that the driver waits. */
static bool switch_domain(struct soft *soft, uint32_t domain, uint64_t now)
{
    uint64_t drained = now;
    for (uint32_t i = 0; i < soft->capabilities.cores; i++)
        if (soft->cores[i].free_ns > drained)
            drained = soft->cores[i].free_ns;
    if (ork_npu_faults_next_switch(soft->faults).kind == ORK_FAULT_SWITCH || drained == SOFT_NEVER) {
        soft->stats.failed_switches++;
        return false;
    }
    soft->stats.switches++;
    soft->domain = domain;
    soft->domain_ns = drained + soft_ns(soft->profile.domain_switch_us);
    return true;
}

/* Cores that have a job at that time, with this one. */
static uint32_t active_cores(const struct soft *soft, const struct ork_npu_job *job, uint64_t time_ns)
{
    uint32_t mask = 1u << job->core;
    for (const struct ork_npu_job *other = soft->flying; other; other = other->flying_next)
        if (other->start_ns <= time_ns && time_ns < other->end_ns && other->end_ns != SOFT_NEVER)
            mask |= 1u << other->core;
    return (uint32_t)__builtin_popcount(mask);
}

/* All that was to start after this moment never does. */
static void wedge(struct soft *soft, uint64_t time_ns)
{
    for (struct ork_npu_job *other = soft->flying; other; other = other->flying_next)
        if (other->start_ns > time_ns)
            other->finish_ns = other->end_ns = SOFT_NEVER;
    for (uint32_t i = 0; i < soft->capabilities.cores; i++)
        soft->cores[i].free_ns = SOFT_NEVER;
}

/* What the fault makes of a job's times. Returns whether the silicon runs it. */
static bool apply_fault(struct soft *soft, struct ork_npu_job *job)
{
    struct soft_core *core = &soft->cores[job->core];
    const uint64_t us_ns = job->fault.us * 1000;
    bool runs = true;
    switch (job->fault.kind) {
    case ORK_FAULT_LATE: /* so is what it writes */
        job->finish_ns = job->end_ns = job->output_ns = soft_later(job->finish_ns, us_ns);
        job->written_ns = us_ns ? job->finish_ns : 0;
        break;
    case ORK_FAULT_STOP:
        if (job->fault.after < job->task_count)
            job->finish_ns = job->end_ns = SOFT_NEVER;
        break;
    case ORK_FAULT_NEVER:
    case ORK_FAULT_LOST:
        job->finish_ns = job->end_ns = SOFT_NEVER;
        break;
    case ORK_FAULT_EARLY:
        job->written_ns = job->finish_ns;
        job->finish_ns = us_ns < job->finish_ns - job->start_ns ? job->finish_ns - us_ns : job->start_ns;
        break;
    case ORK_FAULT_DEAD:
        core->dead = true;
        break;
    case ORK_FAULT_WEDGE:
        wedge(soft, job->start_ns);
        job->finish_ns = job->end_ns = SOFT_NEVER;
        runs = false;
        break;
    default:
        break;
    }
    if (core->dead) {
        job->finish_ns = job->end_ns = SOFT_NEVER;
        job->written_ns = 0;
        runs = false;
    }
    return runs;
}

/* Start and finish, and whether it ever runs. */
static bool schedule(struct soft *soft, struct ork_npu_job *job, uint64_t now)
{
    struct soft_core *core = &soft->cores[job->core];
    uint64_t start = now + soft_ns(soft->profile.submit_us);
    start = core->free_ns > start ? core->free_ns : start;
    start = soft->domain_ns > start ? soft->domain_ns : start;
    job->before_ns = core->free_ns;
    job->start_ns = start;
    job->finish_ns = job->end_ns = job->output_ns = SOFT_NEVER;
    job->written_ns = 0;
    job->released = job->ran = false;
    bool runs = start != SOFT_NEVER;
    if (runs) {
        struct ork_npu_work work;
        soft_job_work(job, &work);
        const double seconds = ork_npu_timing_job(&soft->profile, &work, active_cores(soft, job, start));
        job->finish_ns = soft_later(start, (uint64_t)(seconds * 1e9) + soft_ns(soft->profile.complete_us));
        job->end_ns = job->output_ns = job->finish_ns;
        runs = apply_fault(soft, job);
    }
    core->free_ns = job->end_ns;
    soft->held += job->written_ns != 0;
    return runs;
}

static ork_status soft_submit(struct ork_npu_device *device, struct ork_npu_job *job, ork_error *error)
{
    struct soft *soft = soft_of(device);
    ork_status status = ORK_OK;
    pthread_mutex_lock(&soft->lock);
    if (soft_job_in_use(soft, job)) {
        status = ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "the job is still running");
        goto out;
    }
    job->fault = ork_npu_faults_next_job(soft->faults, job->core);
    if (job->fault.kind == ORK_FAULT_REFUSE) {
        soft->stats.refused_submits++;
        status = ork_error_set(error, ORK_IO, "soft NPU", -1, "submit refused (scripted)");
        goto out;
    }
    const uint64_t now = now_ns(soft);
    if (job->domain != soft->domain && !switch_domain(soft, job->domain, now)) {
        pthread_mutex_unlock(&soft->lock);
        soft->clock->sleep_until(soft->clock, now + DOMAIN_WAIT_NS);
        return ork_error_set(error, ORK_IO, "soft NPU", -1,
                             "domain %" PRIu32 " did not become free in 6 s for domain %" PRIu32, soft->domain,
                             job->domain);
    }
    const bool runs = schedule(soft, job, now);
    put_on(soft, job);
    soft->stats.submits++;
    if (runs)
        soft_worker_give(soft, job);
out:
    pthread_mutex_unlock(&soft->lock);
    return status;
}

/* ---- after the submit ---- */

static enum ork_npu_state soft_poll(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct soft *soft = soft_of(device);
    enum ork_npu_state state = ORK_NPU_FAILED;
    pthread_mutex_lock(&soft->lock);
    if (job->state == SOFT_DONE || (job->state == SOFT_FLYING && settle(soft, job)))
        state = ORK_NPU_DONE;
    else if (job->state == SOFT_FLYING)
        state = ORK_NPU_PENDING;
    soft_write_due(soft);
    pthread_mutex_unlock(&soft->lock);
    return state;
}

static uint64_t soft_next_look(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct soft *soft = soft_of(device);
    pthread_mutex_lock(&soft->lock);
    const uint64_t now = now_ns(soft);
    uint64_t look = job->state == SOFT_FLYING ? job->finish_ns : now;
    if (look <= now && job->state == SOFT_FLYING && soft->real_time)
        look = now + LOOK_AGAIN_NS;
    pthread_mutex_unlock(&soft->lock);
    return look;
}

/* A job that waits behind others on its clock can be taken back, whatever its worker has done with it by now; one that a
 * fault keeps from finishing cannot, so that the answer never depends on how far the worker is. */
static bool cancel_waiting(struct soft *soft, struct ork_npu_job *job)
{
    const bool given = job->queued || job->running || job->ran;
    if (given && job->finish_ns == SOFT_NEVER)
        return false;
    soft_worker_unlink(soft, job);
    if (job->written_ns && !job->released)
        soft->held--;
    job->written_ns = 0;
    soft_worker_wait(soft, job);
    if (job->ran && !job->outcome.interrupt)
        return false;
    if (soft->cores[job->core].free_ns == job->end_ns)
        soft->cores[job->core].free_ns = job->before_ns;
    soft->stats.dropped++;
    take_off(soft, job, SOFT_DROPPED);
    return true;
}

static bool soft_cancel(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct soft *soft = soft_of(device);
    pthread_mutex_lock(&soft->lock);
    bool gone = job->state != SOFT_FLYING || settle(soft, job);
    if (!gone && now_ns(soft) < job->start_ns)
        gone = cancel_waiting(soft, job);
    pthread_mutex_unlock(&soft->lock);
    return gone;
}

static ork_status soft_reset(struct ork_npu_device *device, ork_error *error)
{
    struct soft *soft = soft_of(device);
    pthread_mutex_lock(&soft->lock);
    const bool fails = ork_npu_faults_next_reset(soft->faults).kind == ORK_FAULT_RESET_FAILS;
    soft->stats.failed_resets += fails;
    if (!fails) {
        const uint64_t now = now_ns(soft);
        soft->stats.resets++;
        for (struct ork_npu_job *job = soft->flying, *next; job; job = next) {
            next = job->flying_next;
            /* What has begun on a virtual clock shows as far as it came, however far its worker is. */
            if (!settle(soft, job) && !soft->real_time && !job->written_ns && job->start_ns <= now)
                soft_worker_wait(soft, job);
        }
        soft_workers_drop(soft);
        while (soft->flying) {
            soft->stats.dropped++;
            take_off(soft, soft->flying, SOFT_DROPPED);
        }
        for (struct ork_npu_job *job = soft->jobs; job && soft->held; job = job->next)
            if (job->written_ns) {
                job->written_ns = 0;
                soft->held--;
            }
        ork_silicon_reset(soft->silicon, (1u << soft->capabilities.cores) - 1);
        for (uint32_t i = 0; i < soft->capabilities.cores; i++)
            soft->cores[i].free_ns = 0;
        soft->domain_ns = 0;
    }
    const uint64_t until = now_ns(soft) + soft_ns(soft->profile.reset_us);
    pthread_mutex_unlock(&soft->lock);
    soft->clock->sleep_until(soft->clock, until);
    return fails ? ork_error_set(error, ORK_IO, "soft NPU", -1, "the reset failed (scripted)") : ORK_OK;
}

/* ---- the device ---- */

static const struct ork_npu_capabilities *soft_capabilities(const struct ork_npu_device *device)
{
    return &soft_of(device)->capabilities;
}

static const struct ork_clock *soft_clock(const struct ork_npu_device *device)
{
    return soft_of(device)->clock;
}

static void soft_close(struct ork_npu_device *device)
{
    struct soft *soft = soft_of(device);
    if (!soft)
        return;
    if (soft->locks_made) {
        soft_workers_stop(soft);
        for (uint32_t i = 0; i < ORK_NPU_CORES_MAX; i++)
            pthread_cond_destroy(&soft->cores[i].wake);
        pthread_cond_destroy(&soft->ran);
        pthread_mutex_destroy(&soft->lock);
    }
    while (soft->jobs)
        soft_job_free(soft, soft->jobs);
    ork_silicon_destroy(soft->silicon);
    soft_buffers_free(soft);
    ork_npu_faults_free(soft->faults);
    free(soft);
}

static const struct ork_npu_device_ops soft_ops = {
    .name = "soft",
    .close = soft_close,
    .capabilities = soft_capabilities,
    .clock = soft_clock,
    .allocate = soft_allocate,
    .import = soft_import,
    .release = soft_release,
    .sync = soft_sync,
    .job_create = soft_job_create,
    .job_destroy = soft_job_destroy,
    .submit = soft_submit,
    .poll = soft_poll,
    .cancel = soft_cancel,
    .reset = soft_reset,
    .next_look_ns = soft_next_look,
};

static ork_status read_board(struct soft *soft, const char *path, ork_error *error)
{
    if (path)
        return ork_npu_profile_read(path, &soft->profile, error);
    const struct ork_npu_profile *built_in = ork_npu_profile_builtin();
    if (!built_in)
        return ork_error_no_memory(error, "built-in board", sizeof *built_in);
    soft->profile = *built_in;
    return ORK_OK;
}

static void describe(struct soft *soft, const ork_npu_params *params)
{
    struct ork_npu_capabilities *can = &soft->capabilities;
    *can = (struct ork_npu_capabilities){
        .driver = params->real_time ? "soft-real-time" : "soft",
        .driver_version = ORK_VERSION_MAJOR * 10000 + ORK_VERSION_MINOR * 100 + ORK_VERSION_PATCH,
        .hardware_version = HARDWARE_VERSION,
        .cores = params->cores && params->cores < soft->profile.cores ? params->cores : soft->profile.cores,
        .domains = ORK_NPU_DOMAINS_MAX,
        .domain_bytes = ORK_NPU_DOMAIN_BYTES,
        .clock_hz = (uint64_t)soft->profile.clock_hz,
        .tasks_per_job_max = ORK_NPU_TASKS_PER_KICK,
        .buffers_max = SOFT_BUFFERS_MAX,
        .knows_completion = true,
        .imports = true,
        .virtual_time = !params->real_time,
    };
    memcpy(can->soc, soft->profile.name, sizeof can->soc);
}
_Static_assert(sizeof((struct ork_npu_capabilities *)0)->soc == sizeof((struct ork_npu_profile *)0)->name, "same room");

/* Conditions wait on the clock that real-time devices use. */
static void make_locks(struct soft *soft)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&soft->lock, NULL);
    pthread_cond_init(&soft->ran, NULL);
    for (uint32_t i = 0; i < ORK_NPU_CORES_MAX; i++) {
        soft->cores[i].device = soft;
        soft->cores[i].index = i;
        pthread_cond_init(&soft->cores[i].wake, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    soft->locks_made = true;
}

ork_status ork_npu_soft_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error)
{
    *device = NULL;
    struct soft *soft = calloc(1, sizeof *soft);
    if (!soft)
        return ork_error_no_memory(error, "soft NPU", sizeof *soft);
    soft->base.ops = &soft_ops;
    soft->real_time = params->real_time;
    ork_virtual_clock_init(&soft->virtual_clock, 0);
    soft->clock = soft->real_time ? ork_clock_monotonic() : &soft->virtual_clock.clock;
    ork_status status = read_board(soft, params->board, error);
    if (status == ORK_OK)
        status = ork_npu_faults_parse(params->faults, &soft->faults, error);
    if (status == ORK_OK) {
        describe(soft, params);
        status = ork_silicon_create(soft->capabilities.cores, &soft->silicon, error);
    }
    if (status == ORK_OK) {
        make_locks(soft);
        status = soft_workers_start(soft, error);
    }
    if (status != ORK_OK) {
        soft_close(&soft->base);
        return status;
    }
    *device = &soft->base;
    return ORK_OK;
}

/* ---- for tests ---- */

bool ork_npu_soft_is(const struct ork_npu_device *device)
{
    return device->ops == &soft_ops;
}

const struct ork_npu_faults *ork_npu_soft_faults(const struct ork_npu_device *device)
{
    return soft_of(device)->faults;
}

void ork_npu_soft_get_stats(struct ork_npu_device *device, struct ork_npu_soft_stats *stats)
{
    struct soft *soft = soft_of(device);
    pthread_mutex_lock(&soft->lock);
    *stats = soft->stats;
    pthread_mutex_unlock(&soft->lock);
}

void ork_npu_soft_job_times(struct ork_npu_device *device, const struct ork_npu_job *job, uint64_t *start_ns,
                            uint64_t *finish_ns)
{
    struct soft *soft = soft_of(device);
    pthread_mutex_lock(&soft->lock);
    *start_ns = job->start_ns;
    *finish_ns = job->finish_ns;
    pthread_mutex_unlock(&soft->lock);
}
