/* The vendor driver as the shim plays it: cores, their queues and interrupts, address domains, resets. Must not know nodes
 * and memory. Behaviour: npu-hw.md 1.5, 1.6, 1.8, 10. */
#include "shim/rknpu_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { JOB_PC = 1, JOB_NONBLOCK = 2, JOB_PINGPONG = 4, JOB_FENCES = 0x18, INT_CLEAR_ALL = 0x1ffff };

static void wait_changed(uint64_t until_us)
{
    struct timespec until = {(time_t)(until_us / 1000000u), (long)(until_us % 1000000u) * 1000};
    pthread_cond_timedwait(&rk.changed, &rk.lock, &until);
}

void rk_sleep_us(uint64_t us)
{
    for (uint64_t end = shim_now_us() + us; shim_now_us() < end;)
        wait_changed(end);
}

bool rk_busy(void)
{
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (rk.core[i].running)
            return true;
    return false;
}

/* ---- domains ---- */

int rk_domain_get(uint32_t domain)
{
    if (rk.version < 908)
        domain = 0; /* the field did not exist, or nothing looked at it */
    if (domain == rk.domain) {
        rk.domain_references++;
        return 0;
    }
    if (ork_npu_faults_next_switch(rk.faults).kind == ORK_FAULT_SWITCH) {
        rk_sleep_us(1000ull * rk.switch_ms);
        shim_log("RKNPU: switch iommu domain time out (fault of the script)");
        return -EINVAL;
    }
    uint64_t end = shim_now_us() + 1000ull * rk.switch_ms;
    while (domain != rk.domain && rk.domain_references != 0) {
        if (shim_now_us() >= end) {
            shim_log("RKNPU: switch iommu domain time out, domain %u, %lld references on domain %u", domain,
                     (long long)rk.domain_references, rk.domain);
            return -EINVAL;
        }
        wait_changed(end);
    }
    if (domain != rk.domain) {
        if (!rk.iommu || domain >= RK_DOMAINS)
            return -EINVAL;
        rk.domain = domain;
        rk.count.switches++;
    }
    rk.domain_references++;
    return 0;
}

void rk_domain_put(void)
{
    rk.domain_references--;
    pthread_cond_broadcast(&rk.changed);
}

/* ---- jobs ---- */

static void job_free(struct rk_job *job)
{
    if (job->tasks)
        rk_object_put(job->tasks);
    free(job);
}

/* Tasks of the job on one core: where three cores work together, the last three slots count. */
static uint32_t job_slot(const struct rk_job *job, uint32_t core)
{
    return job->cores_used == 3 ? core + 2 : core;
}

/* Starts a core on what of its range was not yet kicked. */
static void commit_core(struct rk_job *job, uint32_t index)
{
    struct rk_core *core = &rk.core[index];
    if (!(job->flags & JOB_PC) || !job->tasks) {
        job->result = -EINVAL;
        return;
    }
    uint32_t slot = job_slot(job, index), done = job->kicks[index] * RK_TASKS_PER_KICK;
    uint32_t start = job->range[slot].start + done, number = job->range[slot].number - done;
    if (number > RK_TASKS_PER_KICK)
        number = RK_TASKS_PER_KICK;
    if (!(job->tasks->flags & RK_KERNEL_MAPPING)) {
        shim_oops("the task buffer has no KERNEL_MAPPING");
        return;
    }
    if (!number || (uint64_t)start + number > job->tasks->size_bytes / RK_TASK_BYTES) {
        shim_oops("core %u: tasks %u + %u of a buffer of %llu bytes (slot %u)", index, start, number,
                  (unsigned long long)job->tasks->size_bytes, slot);
        return;
    }
    const uint8_t *first = job->tasks->host + (size_t)start * RK_TASK_BYTES;
    job->last_task = job->tasks->host + (size_t)(start + number - 1) * RK_TASK_BYTES;
    job->int_mask[index] = rk_get32(job->last_task, 12);
    core->kick = (struct ork_silicon_kick){.core = index,
                                           .domain = rk.domain,
                                           .regcmd_iova = (uint32_t)rk_get64(first, 32),
                                           .amount = (rk_get32(first, 24) + 4 + 1) / 2 - 1,
                                           .int_mask = job->int_mask[index],
                                           .int_clear = rk_get32(first, 12),
                                           .task_number = number,
                                           .ping_pong = job->flags & JOB_PINGPONG,
                                           .dma_base = job->base};
    core->fault = job->fault[index];
    core->kicked = true;
    rk.count.kicks++;
    pthread_cond_broadcast(&rk.changed);
}

static void commit(struct rk_job *job)
{
    if (job->core_mask == 5 || job->core_mask == 6) {
        shim_log("RKNPU: Unknown core mask: %u", job->core_mask);
        return;
    }
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (job->core_mask >> i & 1)
            commit_core(job, i);
}

static void core_next(uint32_t index)
{
    struct rk_core *core = &rk.core[index];
    if (rk.resetting || core->job || !core->first)
        return;
    struct rk_job *job = core->first;
    core->first = job->next[index];
    if (!core->first)
        core->last = NULL;
    core->job = job;
    job->committed_us = shim_now_us();
    if (!--job->to_run)
        commit(job);
}

static void unqueue(struct rk_job *job)
{
    for (uint32_t i = 0; i < RK_CORES; i++) {
        struct rk_core *core = &rk.core[i];
        struct rk_job *before = NULL;
        for (struct rk_job *at = core->first; at; before = at, at = at->next[i])
            if (at == job) {
                if (before)
                    before->next[i] = at->next[i];
                else
                    core->first = at->next[i];
                if (core->last == at)
                    core->last = before;
                break;
            }
        if (core->job == job)
            core->job = NULL;
    }
}

static void job_done(struct rk_job *job, uint32_t index)
{
    struct rk_core *core = &rk.core[index];
    uint32_t number = job->range[job_slot(job, index)].number;
    if (++job->kicks[index] * (uint64_t)RK_TASKS_PER_KICK < number) {
        commit_core(job, index);
        return;
    }
    core->job = NULL;
    core->queued_tasks -= number;
    job->elapsed_ns = 1000 * (shim_now_us() - job->committed_us);
    if (!--job->to_finish) {
        rk_domain_put();
        job->done = true;
        rk.count.completed++;
        if (job->async)
            job_free(job);
        pthread_cond_broadcast(&rk.changed);
    }
    core_next(index);
}

/* Bits of the status come in pairs of register groups; either counts for both. */
static uint32_t collapse(uint32_t status)
{
    uint32_t result = 0;
    for (uint32_t pair = 0x3; pair <= 0xc00; pair <<= 2)
        if (status & pair)
            result |= pair;
    return result;
}

static void interrupt(uint32_t index, uint32_t status)
{
    struct rk_job *job = rk.core[index].job;
    if (!job) {
        rk.count.spurious++;
        core_next(index);
        return;
    }
    job->int_status[index] = status;
    if (collapse(status) != job->int_mask[index]) {
        shim_log("RKNPU: invalid irq status: %#x, require mask: %#x, task counter: %#x", status, job->int_mask[index],
                 rk.core[index].task_counter);
        return;
    }
    job_done(job, index);
}

/* ---- cores ---- */

static bool waits_for_reset(enum ork_npu_fault_kind kind)
{
    return kind == ORK_FAULT_NEVER || kind == ORK_FAULT_DEAD || kind == ORK_FAULT_WEDGE;
}

static bool shows_in_memory(enum ork_npu_fault_kind kind)
{
    return kind == ORK_FAULT_STOP || kind == ORK_FAULT_CONSTANT || kind == ORK_FAULT_UNTOUCHED ||
           kind == ORK_FAULT_TAIL || kind == ORK_FAULT_FLIP;
}

/* One kick, on the core's thread. The lock is not held while healthy silicon computes. */
static void run_kick(struct rk_core *core, uint32_t index)
{
    struct ork_silicon_kick kick = core->kick;
    struct ork_npu_fault fault = core->fault;
    uint64_t generation = rk.generation;
    core->kicked = false;
    core->task_counter = 0;
    if (fault.kind == ORK_FAULT_DEAD)
        core->dead = true;
    if (fault.kind == ORK_FAULT_WEDGE)
        rk.wedged = true;
    if (core->dead || rk.wedged || waits_for_reset(fault.kind))
        return;
    core->running = true;
    if (fault.kind == ORK_FAULT_EARLY)
        interrupt(index, kick.int_mask & 0x100);
    bool slow = fault.kind == ORK_FAULT_LATE || fault.kind == ORK_FAULT_EARLY;
    uint64_t start = shim_now_us() + rk.job_us + (slow ? fault.us : 0);
    while (shim_now_us() < start && rk.generation == generation && !rk.stopping && !rk.resetting)
        wait_changed(start);
    struct ork_silicon_outcome outcome = {0};
    if (rk.generation == generation && !rk.stopping && !rk.resetting) {
        kick.fault = shows_in_memory(fault.kind) ? &fault : NULL;
        /* The model writes the right output first and spoils it then: nobody shall see it in between. */
        if (!kick.fault)
            pthread_mutex_unlock(&rk.lock);
        ork_silicon_run(rk.silicon, &kick, &outcome);
        if (!kick.fault)
            pthread_mutex_lock(&rk.lock);
        core->task_counter = outcome.task_counter;
        if (outcome.anomalies) {
            rk.count.anomalies++;
            shim_log("core %u: anomalies %#x after %u of %u tasks: %s", index, outcome.anomalies, outcome.task_counter,
                     kick.task_number, outcome.why);
        }
        rk_evict_fresh(kick.domain);
    }
    core->running = false;
    if (rk.generation == generation && !rk.resetting && outcome.interrupt && fault.kind != ORK_FAULT_LOST &&
        fault.kind != ORK_FAULT_EARLY)
        interrupt(index, outcome.status);
    pthread_cond_broadcast(&rk.changed);
}

static void *core_main(void *argument)
{
    uint32_t index = (uint32_t)(uintptr_t)argument;
    struct rk_core *core = &rk.core[index];
    pthread_mutex_lock(&rk.lock);
    while (!rk.stopping)
        if (core->kicked)
            run_kick(core, index);
        else
            pthread_cond_wait(&rk.changed, &rk.lock);
    pthread_mutex_unlock(&rk.lock);
    return NULL;
}

int rk_jobs_start(void)
{
    ork_error error;
    if (ork_silicon_create(RK_CORES, &rk.silicon, &error) != ORK_OK)
        return -ENOMEM;
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (pthread_create(&rk.core[i].thread, NULL, core_main, (void *)(uintptr_t)i))
            abort();
    return 0;
}

void rk_jobs_stop(void)
{
    pthread_mutex_lock(&rk.lock);
    rk.stopping = true;
    pthread_cond_broadcast(&rk.changed);
    pthread_mutex_unlock(&rk.lock);
    for (uint32_t i = 0; i < RK_CORES; i++)
        pthread_join(rk.core[i].thread, NULL);
    pthread_mutex_lock(&rk.lock);
    for (uint32_t i = 0; i < RK_CORES; i++)
        for (struct rk_job *job; (job = rk.core[i].job ? rk.core[i].job : rk.core[i].first);) {
            unqueue(job);
            job_free(job);
        }
    pthread_mutex_unlock(&rk.lock);
    ork_silicon_destroy(rk.silicon);
    rk.silicon = NULL;
}

/* ---- resets ---- */

int rk_soft_reset(void)
{
    if (rk.resetting)
        return 0; /* as the driver: says so and does nothing */
    if (ork_npu_faults_next_reset(rk.faults).kind == ORK_FAULT_RESET_FAILS)
        return -EIO;
    rk.resetting = true;
    pthread_cond_broadcast(&rk.changed);
    rk_sleep_us(1000ull * rk.reset_ms);
    rk.generation++;
    pthread_cond_broadcast(&rk.changed);
    while (rk_busy())
        pthread_cond_wait(&rk.changed, &rk.lock);
    ork_silicon_reset(rk.silicon, (1u << RK_CORES) - 1);
    for (uint32_t i = 0; i < RK_CORES; i++) {
        rk.core[i].kicked = false;
        rk.core[i].task_counter = 0;
    }
    rk.wedged = false;
    rk.resetting = false;
    rk.count.resets++;
    shim_log("RKNPU: soft reset, num: 6");
    pthread_cond_broadcast(&rk.changed);
    return 0;
}

static void reap(struct rk_job *job)
{
    unqueue(job);
    rk.count.reaped++;
    /* The known fault: its domain reference stays. */
    if (rk.leak)
        rk.count.leaked++;
    else
        rk_domain_put();
    job_free(job);
}

/* Before a job that nobody waits for is queued. `timeout` of the job on the core is in ms everywhere but here. */
static void timeout_clean(uint32_t core_mask)
{
    for (uint32_t i = 0; i < RK_CORES; i++) {
        struct rk_core *core = &rk.core[i];
        struct rk_job *job = core->job;
        if (!(core_mask >> i & 1) || !job || shim_now_us() - job->submitted_us < job->timeout)
            continue;
        rk_soft_reset();
        if (core->job != job) /* another thread was faster */
            continue;
        reap(job);
        while (core->first)
            reap(core->first);
    }
}

static void job_abort(struct rk_job *job)
{
    rk_domain_put();
    rk_sleep_us(100000);
    unqueue(job);
    if (job->result == -ETIMEDOUT)
        rk_soft_reset();
    job_free(job);
}

/* ---- submit ---- */

/* AUTO becomes the core that has the least to do; what goes wrong with the job is settled. -EINVAL: refused by the script. */
static int settle_job(struct rk_job *job)
{
    if (!job->core_mask) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < RK_CORES; i++)
            if (rk.core[i].queued_tasks < rk.core[least].queued_tasks)
                least = i;
        job->core_mask = 1u << least;
        job->cores_used = job->to_run = job->to_finish = 1;
    }
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (job->core_mask >> i & 1) {
            job->fault[i] = ork_npu_faults_next_job(rk.faults, i);
            if (job->fault[i].kind == ORK_FAULT_REFUSE)
                return -EINVAL;
        }
    return 0;
}

static int queue_job(struct rk_job *job)
{
    if (rk_domain_get(job->domain)) {
        job->result = -EINVAL;
        return -EINVAL;
    }
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (job->core_mask >> i & 1) {
            struct rk_core *core = &rk.core[i];
            job->next[i] = NULL;
            if (core->last)
                core->last->next[i] = job;
            else
                core->first = job;
            core->last = job;
            core->queued_tasks += job->range[job_slot(job, i)].number;
        }
    uint32_t mask = job->core_mask; /* the job may be over before the loop is */
    for (uint32_t i = 0; i < RK_CORES; i++)
        if (mask >> i & 1)
            core_next(i);
    return 0;
}

static uint32_t wait_core(const struct rk_job *job)
{
    return job->core_mask == 2 ? 1 : job->core_mask == 4 ? 2 : 0;
}

/* For a job that the caller waits for: up to three rounds of its timeout while it has not been on its core for as long. */
static int wait_done(struct rk_job *job, void *copy)
{
    bool timed_out = false, again = true;
    for (int round = 0; round < 3 && again; round++) {
        uint64_t end = shim_now_us() + 1000ull * job->timeout;
        while (!job->done && !rk.resetting && shim_now_us() < end)
            wait_changed(end);
        timed_out = !job->done && !rk.resetting;
        again = timed_out && (!job->committed_us || shim_now_us() - job->committed_us < 1000ull * job->timeout);
    }
    if (!job->last_task)
        return -EINVAL; /* never committed */
    rk_put32(job->last_task, 20, job->int_status[wait_core(job)]);
    if (timed_out) {
        rk_put32(copy, 16, rk.core[wait_core(job)].task_counter);
        return -ETIMEDOUT;
    }
    if (!job->done)
        return -EINVAL; /* a reset came in between */
    rk_put32(copy, 16, job->task_number);
    rk_put64(copy, 48, job->elapsed_ns);
    return 0;
}

int rk_submit(void *copy)
{
    uint32_t flags = rk_get32(copy, 0), mask = rk_get32(copy, 56);
    if (!rk_get32(copy, 12) || mask > 7 || flags & JOB_FENCES)
        return -EINVAL; /* fences: built without CONFIG_ROCKCHIP_RKNPU_FENCE, as most kernels are */
    uint64_t id = rk_get64(copy, 24);
    struct rk_object *tasks = id ? rk_object_find(id) : NULL;
    if (id && !tasks) {
        shim_oops("SUBMIT with an unknown task object %#llx", (unsigned long long)id);
        return -EFAULT;
    }
    struct rk_job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOMEM;
    job->flags = flags;
    job->timeout = rk_get32(copy, 4);
    job->task_start = rk_get32(copy, 8);
    job->task_number = rk_get32(copy, 12);
    job->domain = rk_get32(copy, 32);
    job->base = (uint32_t)rk_get64(copy, 40);
    job->core_mask = mask;
    for (size_t i = 0; i < RK_SLOTS; i++) {
        job->range[i].start = rk_get32(copy, 64 + 8 * i);
        job->range[i].number = rk_get32(copy, 68 + 8 * i);
    }
    job->submitted_us = shim_now_us();
    job->cores_used = job->to_run = job->to_finish = (mask & 1) + (mask >> 1 & 1) + (mask >> 2);
    job->async = flags & JOB_NONBLOCK;
    job->tasks = tasks;
    if (tasks)
        tasks->references++;
    rk.count.submits++;
    int result = settle_job(job);
    if (result) {
        job_free(job);
        return result;
    }
    if (job->async) {
        timeout_clean(job->core_mask);
        queue_job(job); /* nothing can end it while the lock is held */
        result = job->result;
        if (result)
            job_abort(job);
        return result;
    }
    if (!queue_job(job) && flags & JOB_PC)
        job->result = wait_done(job, copy);
    result = job->result;
    if (result)
        job_abort(job);
    else
        job_free(job);
    return result;
}
