/* The mainline kernel's driver `rocket`, played for the system-call shim (npu-hw.md 2; Linux 6.18, drivers/accel/rocket).
 * Owns its files, buffers, fences, schedulers and watchdog; computes nothing, the silicon model does.
 *
 * What is modelled because user space must cope with it: an address space for each open file, its addresses from 0 up; one
 * scheduler a core and one queue a file, so that a file never has two cores; one kick a task; SUBMIT that answers 0 whatever
 * becomes of the jobs; a job with a buffer named twice dropped; a watchdog that signals the fence of a job it has killed;
 * caches: a buffer exists as the host sees it, as memory, and as the host last saw it agree with memory. Lines that differ
 * from the last are dirty: FINI_BO writes them to memory, PREP_BO throws them away, and those of an output may be evicted
 * over a result.
 *
 * Options: cores (3), node (0: /dev/accel/accel0), other (name of the driver that the nodes before it have), absent (1: no
 * node), denied (1: no permission), name, version (major * 10000 + minor * 100 + patch), watchdog_ms (500), us (a task
 * takes so long, beside what the model takes), memory_mib (of all buffers; 0: no limit), evict (1: dirty lines of an output
 * reach memory after the job).
 * Faults on jobs strike when the core begins one; a refused submit is one more job that is dropped, for this driver
 * swallows it; a refused change of domain ends the job unrun; a reset is what the watchdog does. */
#include "shim/shim.h"

#include "engine/npu/device/rocket_abi.h"
#include "engine/npu/device/silicon.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CORES_MAX = 3, FILES_MAX = 16, HANDLES_MAX = 8192, PAGE = 4096, LIST_MAX = 1 << 20 };
#define MAP_OFFSET_STEP (1ull << 32)

/* Signalled when a job is over, however it ended. */
struct fence {
    uint32_t references;
    bool signalled;
};

struct bo {
    uint32_t references; /* handle, jobs, host mappings */
    struct file *file;
    uint64_t size_bytes, iova, map_offset;
    uint8_t *host, *memory, *agreed;
    uint32_t host_mappings;
    uint32_t running; /* jobs on a core that name it */
    struct fence *write_fence;
    struct bo *next; /* of the file, by address */
};

struct job {
    struct file *file;
    struct job *next; /* in the queue of a core */
    struct rocket_abi_task *tasks;
    uint32_t task_count, bo_count, input_count;
    struct bo **bos; /* inputs, then outputs */
    struct fence *fence;
};

struct file {
    uint32_t references; /* descriptor, buffers */
    uint32_t domain;
    struct bo *handles[HANDLES_MAX];
    struct bo *bos;
    uint64_t next_offset;
    struct core *core; /* where its last job went */
    uint32_t pending;  /* jobs queued and running */
};

struct core {
    uint32_t index;
    pthread_t thread;
    struct job *first, **last; /* waiting */
    uint32_t load;             /* waiting and running */
    struct file *attached;     /* whose address space it had last; never followed */
    bool stuck;                /* hangs until a reset succeeds */
    bool dead;                 /* hangs for good */
};

enum { SUBMITS, JOBS, TASKS, DROPPED, TIMEOUTS, RESETS, PREPS, FINIS, EVICTIONS, COUNTERS };
static const char *const counter_names[COUNTERS] = {"submits", "jobs",  "tasks", "dropped",  "timeouts",
                                                    "resets",  "preps", "finis", "evictions"};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, wedged;
    uint32_t core_count, node, watchdog_ms, task_us, version;
    bool absent, denied, evicts;
    char name[32], other[32];
    uint64_t memory_limit_bytes, held_bytes, held_buffers;
    uint64_t counters[COUNTERS];
    struct ork_npu_faults *faults;
    struct ork_silicon *silicon;
    struct core cores[CORES_MAX];
    struct file *files[FILES_MAX]; /* by domain */
} kernel = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fences, buffers ---- */

static void fence_put(struct fence *fence)
{
    if (fence && !--fence->references)
        free(fence);
}

static void file_put(struct file *file)
{
    if (--file->references)
        return;
    kernel.files[file->domain] = NULL;
    free(file);
}

static void bo_put(struct bo *bo)
{
    if (--bo->references)
        return;
    struct bo **link = &bo->file->bos;
    while (*link != bo)
        link = &(*link)->next;
    *link = bo->next;
    ork_silicon_unmap(kernel.silicon, bo->file->domain, (uint32_t)bo->iova);
    shim_pages_free(bo->host, bo->size_bytes);
    shim_pages_free(bo->memory, bo->size_bytes);
    shim_pages_free(bo->agreed, bo->size_bytes);
    kernel.held_bytes -= bo->size_bytes;
    kernel.held_buffers--;
    fence_put(bo->write_fence);
    file_put(bo->file);
    free(bo);
}

/* The smallest hole that is large enough, at its low end: what the kernel's allocator does. */
static bool place(struct file *file, struct bo *bo)
{
    uint64_t best = UINT64_MAX, at = 0;
    struct bo **link = &file->bos, **chosen = NULL;
    for (;;) {
        uint64_t end = *link ? (*link)->iova : 1ull << 32;
        if (end - at >= bo->size_bytes && end - at < best) {
            best = end - at;
            bo->iova = at;
            chosen = link;
        }
        if (!*link)
            break;
        at = (*link)->iova + (*link)->size_bytes;
        link = &(*link)->next;
    }
    if (!chosen)
        return false;
    bo->next = *chosen;
    *chosen = bo;
    return true;
}

static int create_bo(void *context, void *copy)
{
    struct file *file = context;
    struct rocket_create_bo *arguments = copy;
    uint64_t size_bytes = ((uint64_t)arguments->size_bytes + PAGE - 1) / PAGE * PAGE;
    uint32_t handle = 1;
    while (handle < HANDLES_MAX && file->handles[handle])
        handle++;
    struct ork_npu_fault fault =
        ork_npu_faults_next_allocation(kernel.faults, size_bytes, kernel.held_bytes, kernel.held_buffers);
    if (!size_bytes || size_bytes > ROCKET_BO_BYTES_MAX)
        return -EINVAL;
    if (handle == HANDLES_MAX || fault.kind != ORK_FAULT_NONE ||
        (kernel.memory_limit_bytes && kernel.held_bytes + size_bytes > kernel.memory_limit_bytes))
        return -ENOMEM;
    struct bo *bo = calloc(1, sizeof *bo);
    if (!bo)
        return -ENOMEM;
    bo->size_bytes = size_bytes;
    bo->host = shim_pages_allocate(size_bytes);
    bo->memory = shim_pages_allocate(size_bytes);
    bo->agreed = shim_pages_allocate(size_bytes);
    int result = -ENOMEM;
    if (!bo->host || !bo->memory || !bo->agreed)
        goto out;
    result = -ENOSPC;
    if (!place(file, bo))
        goto out;
    ork_error error;
    if (ork_silicon_map(kernel.silicon, file->domain, (uint32_t)bo->iova, bo->memory, size_bytes, true, &error) !=
        ORK_OK) {
        shim_log("rocket: cannot map a buffer: %s", error.what);
        struct bo **link = &file->bos;
        while (*link != bo)
            link = &(*link)->next;
        *link = bo->next;
        goto out;
    }
    bo->references = 1;
    bo->file = file;
    bo->map_offset = file->next_offset += MAP_OFFSET_STEP;
    file->references++;
    file->handles[handle] = bo;
    kernel.held_bytes += size_bytes;
    kernel.held_buffers++;
    arguments->handle = handle;
    arguments->dma_address = bo->iova;
    arguments->map_offset = bo->map_offset;
    return 0;
out:
    shim_pages_free(bo->host, size_bytes);
    shim_pages_free(bo->memory, size_bytes);
    shim_pages_free(bo->agreed, size_bytes);
    free(bo);
    return result;
}

static struct bo *lookup(const struct file *file, uint32_t handle)
{
    return handle < HANDLES_MAX ? file->handles[handle] : NULL;
}

static int gem_close(void *context, void *copy)
{
    struct file *file = context;
    const struct rocket_gem_close *arguments = copy;
    struct bo *bo = lookup(file, arguments->handle);
    if (!bo)
        return -EINVAL;
    file->handles[arguments->handle] = NULL;
    bo_put(bo);
    return 0;
}

/* ---- caches ---- */

/* Writes what is dirty to memory, as words of 8 bytes; the rest is not touched: a core may be writing to it. Another thread
 * may fill a part of the buffer that nobody needs yet, as it may on a board; hence volatile and no look of the thread
 * sanitizer. */
__attribute__((no_sanitize("thread"))) static uint64_t write_back(struct bo *bo)
{
    const volatile uint64_t *host = (const volatile uint64_t *)bo->host;
    volatile uint64_t *agreed = (volatile uint64_t *)bo->agreed, *memory = (volatile uint64_t *)bo->memory;
    uint64_t words = 0;
    for (uint64_t i = 0; i < bo->size_bytes / sizeof *host; i++) {
        uint64_t word = host[i];
        if (word == agreed[i])
            continue;
        memory[i] = agreed[i] = word;
        words++;
    }
    return words;
}

/* The host's lines are thrown away and read anew. While a core works on the buffer it is the state at the last sync that
 * comes back: which part of a result has arrived is nothing to rely on. */
static void invalidate(struct bo *bo)
{
    if (!bo->running)
        memcpy(bo->agreed, bo->memory, bo->size_bytes);
    memcpy(bo->host, bo->agreed, bo->size_bytes);
}

static int prep_bo(void *context, void *copy)
{
    struct file *file = context;
    const struct rocket_prep_bo *arguments = copy;
    kernel.counters[PREPS]++;
    if (arguments->reserved)
        return -EINVAL;
    struct bo *bo = lookup(file, arguments->handle);
    if (!bo)
        return -ENOENT;
    bo->references++;
    struct timespec deadline = {.tv_sec = arguments->deadline_ns / 1000000000,
                                .tv_nsec = arguments->deadline_ns % 1000000000};
    bool waits = arguments->deadline_ns > 0 && (uint64_t)arguments->deadline_ns / 1000 > shim_now_us();
    int result = 0;
    while (bo->write_fence && !bo->write_fence->signalled) {
        if (!waits) {
            result = -EBUSY;
            break;
        }
        if (pthread_cond_clockwait(&kernel.changed, &kernel.lock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT &&
            !bo->write_fence->signalled) {
            result = -ETIMEDOUT;
            break;
        }
    }
    invalidate(bo);
    bo_put(bo);
    return result;
}

static int fini_bo(void *context, void *copy)
{
    struct file *file = context;
    const struct rocket_fini_bo *arguments = copy;
    kernel.counters[FINIS]++;
    if (arguments->reserved)
        return -EINVAL;
    struct bo *bo = lookup(file, arguments->handle);
    if (!bo)
        return -ENOENT;
    write_back(bo);
    return 0;
}

/* ---- jobs ---- */

static void job_free(struct job *job)
{
    for (uint32_t i = 0; i < job->bo_count; i++)
        bo_put(job->bos[i]);
    fence_put(job->fence);
    free(job->bos);
    free(job->tasks);
    free(job);
}

static int look_up_list(const struct file *file, struct job *job, uint64_t list, uint32_t count)
{
    const uint32_t *handles = (const uint32_t *)(uintptr_t)list;
    for (uint32_t i = 0; i < count; i++) {
        struct bo *bo = lookup(file, handles[i]);
        if (!bo)
            return -ENOENT;
        for (uint32_t j = 0; j < job->bo_count; j++)
            if (job->bos[j] == bo)
                return -EALREADY; /* the lock of its reservation is held already */
        bo->references++;
        job->bos[job->bo_count++] = bo;
    }
    return 0;
}

/* While its queue is not empty a file stays with its core; else it takes the least loaded. */
static void choose_core(struct file *file)
{
    if (file->pending)
        return;
    file->core = &kernel.cores[0];
    for (uint32_t i = 1; i < kernel.core_count; i++)
        if (kernel.cores[i].load < file->core->load)
            file->core = &kernel.cores[i];
}

static int submit_job(struct file *file, const struct rocket_abi_job *abi)
{
    if (!abi->task_count || abi->task_size_bytes < sizeof(struct rocket_abi_task))
        return -EINVAL;
    if (abi->task_count > LIST_MAX || abi->input_count > LIST_MAX || abi->output_count > LIST_MAX)
        return -ENOMEM;
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOMEM;
    int result = -ENOMEM;
    job->file = file;
    job->task_count = abi->task_count;
    job->tasks = calloc(abi->task_count, sizeof *job->tasks);
    job->bos = calloc((size_t)abi->input_count + abi->output_count + 1, sizeof *job->bos);
    job->fence = calloc(1, sizeof *job->fence);
    if (job->fence)
        job->fence->references = 1;
    if (!job->tasks || !job->bos || !job->fence)
        goto out;
    for (uint32_t i = 0; i < abi->task_count; i++) {
        memcpy(&job->tasks[i], (const char *)(uintptr_t)abi->tasks + (size_t)i * abi->task_size_bytes,
               sizeof *job->tasks);
        result = -EINVAL;
        if (!job->tasks[i].regcmd_count)
            goto out;
    }
    result = look_up_list(file, job, abi->inputs, abi->input_count);
    job->input_count = job->bo_count;
    if (!result)
        result = look_up_list(file, job, abi->outputs, abi->output_count);
    if (result)
        goto out;
    for (uint32_t i = job->input_count; i < job->bo_count; i++) {
        fence_put(job->bos[i]->write_fence);
        job->bos[i]->write_fence = job->fence;
        job->fence->references++;
    }
    choose_core(file);
    file->pending++;
    file->core->load++;
    *file->core->last = job;
    file->core->last = &job->next;
    kernel.counters[JOBS]++;
    pthread_cond_broadcast(&kernel.changed);
    return 0;
out:
    job_free(job);
    return result;
}

static int submit(void *context, void *copy)
{
    struct file *file = context;
    const struct rocket_submit *arguments = copy;
    kernel.counters[SUBMITS]++;
    if (!arguments->job_count)
        return 0;
    if (arguments->job_size_bytes < sizeof(struct rocket_abi_job) || arguments->reserved)
        return -EINVAL;
    if (arguments->job_count > LIST_MAX)
        return -ENOMEM;
    for (uint32_t i = 0; i < arguments->job_count; i++) {
        struct rocket_abi_job abi;
        memcpy(&abi, (const char *)(uintptr_t)arguments->jobs + (size_t)i * arguments->job_size_bytes, sizeof abi);
        int result = submit_job(file, &abi);
        if (result) { /* and 0 is what user space hears */
            kernel.counters[DROPPED]++;
            shim_log("rocket: a job was dropped: %s", strerrorname_np(-result));
        }
    }
    return 0;
}

/* ---- cores ---- */

/* Waits without the lock's help until time_us, or until the driver stops. */
static void wait_until(uint64_t time_us)
{
    struct timespec time = {.tv_sec = (time_t)(time_us / 1000000), .tv_nsec = (long)(time_us % 1000000 * 1000)};
    while (!kernel.stopping && shim_now_us() < time_us)
        pthread_cond_clockwait(&kernel.changed, &kernel.lock, CLOCK_MONOTONIC, &time);
}

static bool shows_in_memory(enum ork_npu_fault_kind kind)
{
    return kind == ORK_FAULT_CONSTANT || kind == ORK_FAULT_UNTOUCHED || kind == ORK_FAULT_TAIL ||
           kind == ORK_FAULT_FLIP;
}

/* One kick; the lock is let go meanwhile. False: no interrupt. */
static bool kick(const struct core *core, const struct job *job, uint32_t index, const struct ork_npu_fault *fault)
{
    /* A flip strikes one task, the other kinds all. */
    bool strikes =
        shows_in_memory(fault->kind) && (fault->kind != ORK_FAULT_FLIP || fault->random % job->task_count == index);
    struct ork_silicon_kick order = {
        .core = core->index,
        .domain = job->file->domain,
        .regcmd_iova = job->tasks[index].regcmd,
        .amount = (job->tasks[index].regcmd_count + 1) / 2 - 1,
        .int_mask = 0x300,
        .int_clear = 0x300,
        .task_number = 1,
        .ping_pong = true,
        .fault = strikes ? fault : NULL,
    };
    struct ork_silicon_outcome outcome;
    pthread_mutex_unlock(&kernel.lock);
    ork_silicon_run(kernel.silicon, &order, &outcome);
    pthread_mutex_lock(&kernel.lock);
    if (outcome.interrupt)
        kernel.counters[TASKS]++;
    else
        shim_log("rocket: core %u, task %u: no interrupt: %s", core->index, index, outcome.why);
    return outcome.interrupt;
}

static void signal_job(struct job *job)
{
    job->fence->signalled = true;
    pthread_cond_broadcast(&kernel.changed);
}

/* The watchdog: the core is reset, the job is lost, and its fence is signalled all the same. */
static void time_out(struct core *core, struct job *job, uint64_t begin_us)
{
    wait_until(begin_us + kernel.watchdog_ms * 1000ull);
    kernel.counters[TIMEOUTS]++;
    shim_log("rocket: core %u: NPU job timed out", core->index);
    if (ork_npu_faults_next_reset(kernel.faults).kind == ORK_FAULT_RESET_FAILS) {
        core->stuck = true;
    } else {
        kernel.counters[RESETS]++;
        core->stuck = kernel.wedged = false;
        ork_silicon_reset(kernel.silicon, 1u << core->index);
    }
    signal_job(job);
}

/* Runs the tasks one after another. Returns whether the last one's interrupt came before the watchdog. */
static bool run_tasks(struct core *core, struct job *job, const struct ork_npu_fault *fault, uint64_t begin_us)
{
    uint64_t limit_us = kernel.watchdog_ms * 1000ull, planned_us = 0;
    uint64_t stop = fault->kind == ORK_FAULT_STOP ? fault->after : UINT64_MAX;
    uint64_t late_us = fault->kind == ORK_FAULT_LATE ? fault->us : 0;
    for (uint32_t i = 0; i < job->task_count; i++) {
        planned_us += kernel.task_us + (i + 1 == job->task_count ? late_us : 0);
        if (i >= stop || planned_us >= limit_us || !kick(core, job, i, fault))
            return false;
    }
    wait_until(begin_us + planned_us);
    return fault->kind != ORK_FAULT_LOST;
}

static void run_job(struct core *core, struct job *job)
{
    uint64_t begin_us = shim_now_us();
    struct ork_npu_fault fault = ork_npu_faults_next_job(kernel.faults, core->index);
    bool switches = core->attached != job->file;
    if (switches && ork_npu_faults_next_switch(kernel.faults).kind == ORK_FAULT_SWITCH) {
        shim_log("rocket: core %u: the address space was not attached", core->index);
        kernel.counters[DROPPED]++;
        signal_job(job);
        return;
    }
    core->attached = job->file;
    core->dead |= fault.kind == ORK_FAULT_DEAD;
    kernel.wedged |= fault.kind == ORK_FAULT_WEDGE;
    if (fault.kind == ORK_FAULT_REFUSE) {
        kernel.counters[DROPPED]++;
        signal_job(job);
        return;
    }
    if (fault.kind == ORK_FAULT_EARLY) {
        signal_job(job);
        wait_until(begin_us + fault.us);
    }
    bool done = !core->dead && !core->stuck && !kernel.wedged && fault.kind != ORK_FAULT_NEVER &&
                run_tasks(core, job, &fault, begin_us);
    if (!done) {
        time_out(core, job, begin_us);
        return;
    }
    for (uint32_t i = job->input_count; i < job->bo_count && kernel.evicts; i++)
        kernel.counters[EVICTIONS] += write_back(job->bos[i]);
    signal_job(job);
}

static void *core_thread(void *context)
{
    struct core *core = context;
    pthread_mutex_lock(&kernel.lock);
    while (!kernel.stopping) {
        struct job *job = core->first;
        if (!job) {
            pthread_cond_wait(&kernel.changed, &kernel.lock);
            continue;
        }
        core->first = job->next;
        if (!core->first)
            core->last = &core->first;
        for (uint32_t i = 0; i < job->bo_count; i++)
            job->bos[i]->running++;
        run_job(core, job);
        for (uint32_t i = 0; i < job->bo_count; i++)
            job->bos[i]->running--;
        core->load--;
        job->file->pending--;
        job_free(job);
        pthread_cond_broadcast(&kernel.changed);
    }
    pthread_mutex_unlock(&kernel.lock);
    return NULL;
}

/* ---- the driver ---- */

static int start(const struct shim_options *options, struct ork_npu_faults *faults)
{
    kernel.core_count = (uint32_t)shim_option_number(options, "cores", CORES_MAX);
    kernel.node = (uint32_t)shim_option_number(options, "node", 0);
    kernel.watchdog_ms = (uint32_t)shim_option_number(options, "watchdog_ms", ROCKET_WATCHDOG_MS);
    kernel.task_us = (uint32_t)shim_option_number(options, "us", 0);
    kernel.version = (uint32_t)shim_option_number(options, "version", 0);
    kernel.absent = shim_option_number(options, "absent", 0) != 0;
    kernel.denied = shim_option_number(options, "denied", 0) != 0;
    kernel.evicts = shim_option_number(options, "evict", 1) != 0;
    kernel.memory_limit_bytes = shim_option_number(options, "memory_mib", 0) << 20;
    snprintf(kernel.name, sizeof kernel.name, "%s", shim_option(options, "name", "rocket"));
    snprintf(kernel.other, sizeof kernel.other, "%s", shim_option(options, "other", "ivpu"));
    if (!kernel.core_count || kernel.core_count > CORES_MAX)
        return -EINVAL;
    ork_error error;
    if (ork_silicon_create(CORES_MAX, &kernel.silicon, &error) != ORK_OK)
        return -ENOMEM;
    kernel.faults = faults;
    kernel.stopping = kernel.wedged = false;
    memset(kernel.counters, 0, sizeof kernel.counters);
    pthread_cond_init(&kernel.changed, NULL);
    for (uint32_t i = 0; i < kernel.core_count; i++) {
        kernel.cores[i] = (struct core){.index = i, .last = &kernel.cores[i].first};
        if (pthread_create(&kernel.cores[i].thread, NULL, core_thread, &kernel.cores[i]) != 0)
            abort(); /* a test machine without threads */
    }
    return 0;
}

static int stop(void)
{
    pthread_mutex_lock(&kernel.lock);
    kernel.stopping = true;
    pthread_cond_broadcast(&kernel.changed);
    pthread_mutex_unlock(&kernel.lock);
    for (uint32_t i = 0; i < kernel.core_count; i++) {
        pthread_join(kernel.cores[i].thread, NULL);
        for (struct job *job; (job = kernel.cores[i].first);) {
            kernel.cores[i].first = job->next;
            job_free(job);
        }
    }
    int left = (int)kernel.held_buffers;
    ork_silicon_destroy(kernel.silicon);
    kernel.silicon = NULL;
    pthread_cond_destroy(&kernel.changed);
    return left;
}

static int open_file(const char *path, int flags, void **result)
{
    (void)flags;
    char own[32], other[32];
    snprintf(own, sizeof own, "/dev/accel/accel%u", kernel.node);
    bool is_own = strcmp(path, own) == 0, is_other = false;
    for (uint32_t i = 0; i < kernel.node && !is_other; i++) {
        snprintf(other, sizeof other, "/dev/accel/accel%u", i);
        is_other = strcmp(path, other) == 0;
    }
    if (kernel.absent || (!is_own && !is_other))
        return -ENOENT;
    if (kernel.denied)
        return -EACCES;
    struct file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    pthread_mutex_lock(&kernel.lock);
    while (file->domain < FILES_MAX && kernel.files[file->domain])
        file->domain++;
    bool fits = file->domain < FILES_MAX;
    if (fits)
        kernel.files[file->domain] = file;
    pthread_mutex_unlock(&kernel.lock);
    if (!fits) {
        free(file);
        return -ENOMEM;
    }
    file->references = 1;
    file->core = is_own ? &kernel.cores[0] : NULL; /* NULL: a file of the other driver */
    *result = file;
    return 0;
}

static int close_file(void *context)
{
    struct file *file = context;
    pthread_mutex_lock(&kernel.lock);
    while (file->pending) /* the watchdog bounds it */
        pthread_cond_wait(&kernel.changed, &kernel.lock);
    for (uint32_t i = 0; i < HANDLES_MAX; i++)
        if (file->handles[i])
            bo_put(file->handles[i]);
    for (uint32_t i = 0; i < kernel.core_count; i++)
        if (kernel.cores[i].attached == file)
            kernel.cores[i].attached = NULL;
    memset(file->handles, 0, sizeof file->handles);
    file_put(file);
    pthread_mutex_unlock(&kernel.lock);
    return 0;
}

static int call(void *context, unsigned long request, void *argument)
{
    struct file *file = context;
    static const struct {
        unsigned long request;
        int (*handler)(void *file, void *copy);
    } calls[] = {
        {ROCKET_CREATE_BO, create_bo}, {ROCKET_SUBMIT, submit},       {ROCKET_PREP_BO, prep_bo},
        {ROCKET_FINI_BO, fini_bo},     {ROCKET_GEM_CLOSE, gem_close},
    };
    if (request == SHIM_DRM_VERSION)
        return shim_drm_version(argument, (int)(kernel.version / 10000), (int)(kernel.version / 100 % 100),
                                (int)(kernel.version % 100), file->core ? kernel.name : kernel.other, "0",
                                "rocket DRM");
    int result = -EINVAL;
    pthread_mutex_lock(&kernel.lock);
    for (size_t i = 0; i < sizeof calls / sizeof *calls && file->core; i++)
        if (_IOC_NR(calls[i].request) == _IOC_NR(request) && _IOC_TYPE(request) == 'd')
            result = shim_drm_call(file, request, calls[i].request, argument, calls[i].handler);
    pthread_mutex_unlock(&kernel.lock);
    return result;
}

static int map(void *context, size_t size_bytes, int protection, uint64_t offset, void **address)
{
    (void)protection;
    struct file *file = context;
    int result = -EINVAL;
    pthread_mutex_lock(&kernel.lock);
    for (struct bo *bo = file->bos; bo; bo = bo->next)
        if (bo->map_offset == offset && size_bytes <= bo->size_bytes) {
            bo->references++;
            bo->host_mappings++;
            *address = bo->host;
            result = 0;
        }
    pthread_mutex_unlock(&kernel.lock);
    return result;
}

static int unmap(void *address, size_t size_bytes)
{
    (void)size_bytes;
    int result = -ENOENT;
    pthread_mutex_lock(&kernel.lock);
    for (uint32_t i = 0; i < FILES_MAX && result; i++) {
        struct bo *bo = kernel.files[i] ? kernel.files[i]->bos : NULL;
        while (bo && (bo->host != address || !bo->host_mappings))
            bo = bo->next;
        if (bo) {
            bo->host_mappings--;
            bo_put(bo);
            result = 0;
        }
    }
    pthread_mutex_unlock(&kernel.lock);
    return result;
}

static bool describe(unsigned long request, const void *argument, char *text, size_t size)
{
    const struct rocket_create_bo *create = argument;
    const struct rocket_submit *jobs = argument;
    const struct rocket_prep_bo *prep = argument;
    const struct rocket_gem_close *handle = argument; /* fini_bo begins alike */
    switch (request) {
    case ROCKET_CREATE_BO:
        snprintf(text, size, "DRM_IOCTL_ROCKET_CREATE_BO, {size=%u, handle=%u, dma_address=%#llx, offset=%#llx}",
                 create->size_bytes, create->handle, (unsigned long long)create->dma_address,
                 (unsigned long long)create->map_offset);
        return true;
    case ROCKET_SUBMIT:
        snprintf(text, size, "DRM_IOCTL_ROCKET_SUBMIT, {job_count=%u, job_struct_size=%u, reserved=%llu}",
                 jobs->job_count, jobs->job_size_bytes, (unsigned long long)jobs->reserved);
        return true;
    case ROCKET_PREP_BO:
        snprintf(text, size, "DRM_IOCTL_ROCKET_PREP_BO, {handle=%u, timeout_ns=%lld}", prep->handle,
                 (long long)prep->deadline_ns);
        return true;
    case ROCKET_FINI_BO:
        snprintf(text, size, "DRM_IOCTL_ROCKET_FINI_BO, {handle=%u}", handle->handle);
        return true;
    case ROCKET_GEM_CLOSE:
        snprintf(text, size, "DRM_IOCTL_GEM_CLOSE, {handle=%u}", handle->handle);
        return true;
    default:
        return false;
    }
}

/* The counters above, and held: "buffers", "bytes", "files". */
static uint64_t count(const char *name)
{
    uint64_t result = UINT64_MAX;
    pthread_mutex_lock(&kernel.lock);
    for (int i = 0; i < COUNTERS; i++)
        if (strcmp(name, counter_names[i]) == 0)
            result = kernel.counters[i];
    if (strcmp(name, "buffers") == 0)
        result = kernel.held_buffers;
    if (strcmp(name, "bytes") == 0)
        result = kernel.held_bytes;
    if (strcmp(name, "files") == 0) {
        result = 0;
        for (uint32_t i = 0; i < FILES_MAX; i++)
            result += kernel.files[i] != NULL;
    }
    pthread_mutex_unlock(&kernel.lock);
    return result;
}

const struct shim_driver shim_rocket = {
    .name = "rocket",
    .start = start,
    .stop = stop,
    .open = open_file,
    .close = close_file,
    .ioctl = call,
    .map = map,
    .unmap = unmap,
    .describe = describe,
    .count = count,
};
