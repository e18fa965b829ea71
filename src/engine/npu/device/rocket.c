/* The mainline kernel's driver `rocket` behind the device vtable (npu-hw.md 2). Owns open files, buffers and jobs of that
 * driver; must not know matmuls.
 *
 * An open file of this driver is one address space and one queue: the kernel runs the jobs of a file one after another on
 * whichever core is free. Three cores therefore take three files. A buffer is mapped for the file that created it and for
 * no other: a PRIME import into a second file of the same device hands out the same object without mapping it there, and
 * there is no request that maps one. So a file is a domain with one core, and `core_per_domain` says so.
 *
 * The kernel hides errors of single jobs: DONE means that nothing is pending any more, not that the job ran. */
#include "base/error.h"
#include "engine/npu/device/device.h"
#include "engine/npu/device/machine.h"
#include "engine/npu/device/rocket_abi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    QUEUES_MAX = 3,
    NODES_MAX = 16,
    PAGE = 4096,
    FENCES_MAX = 64,  /* jobs in flight in a queue */
    FENCES_FIRST = 4, /* made at once */
    BUFFERS_MAX = 2048,
    HANDLES_MAX = 4096, /* of one job */
    TASKS_MAX = 4095,
    LOOK_US_MIN = 20,
    LOOK_US_MAX = 2000
};
#define STOCK_CLOCK_HZ                                                                                                 \
    200000000ull /* what the kernel leaves the cores at; patched kernels run faster and do not tell */

/* A page of its own for each job in flight, listed among its outputs. Asking the kernel for a buffer's state also does
 * cache maintenance of all of it, so a job is watched by the smallest buffer there is. */
struct fence {
    uint32_t handle;
    bool busy;
    bool orphan; /* its job was destroyed under way */
};

struct queue {
    int file;
    uint64_t used_bytes;
    struct fence fences[FENCES_MAX];
    uint32_t fence_count;
};

struct mapping {
    uint8_t *host; /* NULL: free */
    uint64_t size_bytes;
    uint32_t handle, domain;
};

struct rocket {
    struct ork_npu_device base;
    struct ork_npu_capabilities capabilities;
    struct queue queues[QUEUES_MAX];
    struct mapping mappings[BUFFERS_MAX];
    uint32_t mapping_count;
    int lock; /* of the machine's NPU */
};

struct ork_npu_job {
    struct rocket_abi_job abi;
    uint32_t queue;
    int32_t fence; /* of the queue while submitted, else -1 */
    uint64_t submitted_ns;
    struct rocket_abi_task *tasks;
    uint32_t *outputs; /* with room for the fence */
    uint32_t handles[];
};

static struct rocket *rocket_of(const struct ork_npu_device *device)
{
    return (struct rocket *)(uintptr_t)device;
}

static uint64_t now_ns(void)
{
    return ork_clock_now_ns();
}

/* ---- buffers ---- */

static void close_handle(int file, uint32_t handle)
{
    struct rocket_gem_close close_bo = {.handle = handle};
    (void)ork_npu_ioctl(file, ROCKET_GEM_CLOSE, &close_bo);
}

static ork_status create_bo(struct rocket *rocket, uint32_t domain, uint64_t size_bytes, struct rocket_create_bo *bo,
                            ork_error *error)
{
    *bo = (struct rocket_create_bo){.size_bytes = (uint32_t)size_bytes};
    int number = -ork_npu_ioctl(rocket->queues[domain].file, ROCKET_CREATE_BO, bo);
    if (number) {
        char reason[64];
        return ork_error_set(error, number == ENOMEM || number == ENOSPC ? ORK_NO_MEMORY : ORK_IO,
                             rocket->capabilities.node, -1, "domain %u: %llu bytes beside %llu in use: %s", domain,
                             (unsigned long long)size_bytes, (unsigned long long)rocket->queues[domain].used_bytes,
                             strerror_r(number, reason, sizeof reason));
    }
    if (bo->dma_address + size_bytes > 1ull << 32) {
        close_handle(rocket->queues[domain].file, bo->handle);
        return ork_error_set(error, ORK_UNSUPPORTED, rocket->capabilities.node, -1, "address %llx is out of 32 bits",
                             (unsigned long long)bo->dma_address);
    }
    return ORK_OK;
}

static ork_status rocket_allocate(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                                  struct ork_npu_buffer *buffer, ork_error *error)
{
    struct rocket *rocket = rocket_of(device);
    const char *node = rocket->capabilities.node;
    struct rocket_create_bo bo;
    *buffer = (struct ork_npu_buffer){0};
    if (domain >= rocket->capabilities.domains || !size_bytes)
        return ork_error_set(error, ORK_BAD_ARGUMENT, node, -1, "domain %u, %llu bytes", domain,
                             (unsigned long long)size_bytes);
    struct queue *queue = &rocket->queues[domain];
    if (size_bytes > ROCKET_BO_BYTES_MAX || size_bytes > ORK_NPU_DOMAIN_BYTES - queue->used_bytes)
        return ork_error_set(error, ORK_NO_MEMORY, node, -1,
                             "domain %u: %llu bytes beside %llu in use, of %llu, %u at once", domain,
                             (unsigned long long)size_bytes, (unsigned long long)queue->used_bytes,
                             (unsigned long long)ORK_NPU_DOMAIN_BYTES, ROCKET_BO_BYTES_MAX);
    size_bytes = (size_bytes + PAGE - 1) / PAGE * PAGE;
    uint32_t slot = 0;
    while (slot < rocket->mapping_count && rocket->mappings[slot].host)
        slot++;
    if (slot == BUFFERS_MAX)
        return ork_error_set(error, ORK_NO_MEMORY, node, -1, "%u buffers are in use", slot);
    ork_status status = create_bo(rocket, domain, size_bytes, &bo, error);
    if (status != ORK_OK)
        return status;
    void *host = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, queue->file, (off_t)bo.map_offset);
    if (host == MAP_FAILED) {
        status = ork_error_errno(error, node, "cannot map a buffer");
        close_handle(queue->file, bo.handle);
        return status;
    }
    rocket->mappings[slot] =
        (struct mapping){.host = host, .size_bytes = size_bytes, .handle = bo.handle, .domain = domain};
    if (slot == rocket->mapping_count)
        rocket->mapping_count++;
    queue->used_bytes += size_bytes;
    *buffer = (struct ork_npu_buffer){.host = host,
                                      .size_bytes = size_bytes,
                                      .iova = (uint32_t)bo.dma_address,
                                      .domain = domain,
                                      .handle = bo.handle,
                                      .object = slot};
    return ORK_OK;
}

static ork_status rocket_import(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                                struct ork_npu_buffer *buffer, ork_error *error)
{
    (void)domain, (void)host, (void)size_bytes;
    *buffer = (struct ork_npu_buffer){0};
    return ork_error_set(error, ORK_UNSUPPORTED, rocket_of(device)->capabilities.node, -1,
                         "this driver maps only memory that it has allocated itself");
}

static void rocket_release(struct ork_npu_device *device, struct ork_npu_buffer *buffer)
{
    struct rocket *rocket = rocket_of(device);
    if (!buffer->host)
        return;
    struct mapping *mapping = &rocket->mappings[buffer->object];
    struct queue *queue = &rocket->queues[mapping->domain];
    munmap(mapping->host, mapping->size_bytes);
    close_handle(queue->file, mapping->handle);
    queue->used_bytes -= mapping->size_bytes;
    *mapping = (struct mapping){0};
    *buffer = (struct ork_npu_buffer){0};
}

/* 0 when nothing is pending on it, else errno. deadline_ns 0: does not wait. */
static int prepare(const struct queue *queue, uint32_t handle, int64_t deadline_ns)
{
    struct rocket_prep_bo prep = {.handle = handle, .deadline_ns = deadline_ns};
    return -ork_npu_ioctl(queue->file, ROCKET_PREP_BO, &prep);
}

static ork_status rocket_sync(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                              uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error)
{
    struct rocket *rocket = rocket_of(device);
    if (offset > buffer->size_bytes || size_bytes > buffer->size_bytes - offset)
        return ork_error_set(error, ORK_BAD_ARGUMENT, rocket->capabilities.node, -1, "a sync past the end of a buffer");
    struct queue *queue = &rocket->queues[buffer->domain];
    int number = 0;
    if (direction == ORK_NPU_TO_DEVICE) {
        struct rocket_fini_bo fini = {.handle = (uint32_t)buffer->handle};
        number = -ork_npu_ioctl(queue->file, ROCKET_FINI_BO, &fini);
    } else {
        number = prepare(queue, (uint32_t)buffer->handle, 0);
        if (number == EBUSY || number == ETIMEDOUT) /* another job writes to it; the caches were seen to all the same */
            number = 0;
    }
    if (!number)
        return ORK_OK;
    errno = number;
    return ork_error_errno(error, rocket->capabilities.node, "cache maintenance");
}

/* ---- jobs ---- */

/* Adds a handle once; the kernel drops a job that names one twice, in whichever lists. */
static void add_handle(uint32_t *handles, uint32_t *count, uint32_t handle)
{
    for (uint32_t i = 0; i < *count; i++)
        if (handles[i] == handle)
            return;
    handles[(*count)++] = handle;
}

static bool is_inside(const struct ork_npu_job_params *params, const struct ork_npu_task *task)
{
    uint64_t begin = task->program_iova, end = begin + 8ull * task->program_words;
    for (uint32_t i = 0; i < params->input_count; i++) {
        const struct ork_npu_buffer *buffer = params->inputs[i];
        if (begin >= buffer->iova && end <= buffer->iova + buffer->size_bytes)
            return true;
    }
    return false;
}

static const char *job_fault(const struct rocket *rocket, const struct ork_npu_job_params *params)
{
    if (params->core != params->domain || params->domain >= rocket->capabilities.domains)
        return "a core has the domain of its own number alone";
    if (!params->task_count || params->task_count > TASKS_MAX)
        return "number of tasks";
    if (!params->input_count || !params->output_count || params->input_count > HANDLES_MAX ||
        params->output_count > HANDLES_MAX)
        return "number of buffers";
    for (uint32_t i = 0; i < params->input_count; i++)
        if (!params->inputs[i]->host || params->inputs[i]->domain != params->domain)
            return "an input of another domain";
    for (uint32_t i = 0; i < params->output_count; i++) {
        if (!params->outputs[i]->host || params->outputs[i]->domain != params->domain)
            return "an output of another domain";
        for (uint32_t j = 0; j < params->input_count; j++)
            if (params->inputs[j]->handle == params->outputs[i]->handle)
                return "a buffer that is input and output";
    }
    for (uint32_t i = 0; i < params->task_count; i++)
        if (!params->tasks[i].program_words || params->tasks[i].program_iova % 16 || !params->tasks[i].program_iova ||
            !is_inside(params, &params->tasks[i]))
            return "a program outside the inputs";
    return NULL;
}

static ork_status rocket_job_create(struct ork_npu_device *device, const struct ork_npu_job_params *params,
                                    struct ork_npu_job **result, ork_error *error)
{
    struct rocket *rocket = rocket_of(device);
    *result = NULL;
    const char *fault = job_fault(rocket, params);
    if (fault)
        return ork_error_set(error, ORK_BAD_ARGUMENT, rocket->capabilities.node, -1, "job: %s", fault);
    size_t handles = (size_t)params->input_count + params->output_count + 1;
    size_t size_bytes = sizeof(struct ork_npu_job) + (handles + 2ull * params->task_count) * sizeof(uint32_t);
    struct ork_npu_job *job = calloc(1, size_bytes);
    if (!job)
        return ork_error_no_memory(error, rocket->capabilities.node, size_bytes);
    job->queue = params->core;
    job->fence = -1;
    job->tasks = (struct rocket_abi_task *)(job->handles + handles);
    job->outputs = job->handles + params->input_count;
    for (uint32_t i = 0; i < params->task_count; i++)
        job->tasks[i] = (struct rocket_abi_task){params->tasks[i].program_iova, params->tasks[i].program_words};
    for (uint32_t i = 0; i < params->input_count; i++)
        add_handle(job->handles, &job->abi.input_count, (uint32_t)params->inputs[i]->handle);
    for (uint32_t i = 0; i < params->output_count; i++)
        add_handle(job->outputs, &job->abi.output_count, (uint32_t)params->outputs[i]->handle);
    job->abi.output_count++; /* the fence, filled in by submit */
    job->abi.tasks = (uintptr_t)job->tasks;
    job->abi.inputs = (uintptr_t)job->handles;
    job->abi.outputs = (uintptr_t)job->outputs;
    job->abi.task_count = params->task_count;
    job->abi.task_size_bytes = sizeof *job->tasks;
    *result = job;
    return ORK_OK;
}

/* Makes one more fence. The first buffer of a file stands at address 0, where no program may live (a link to 0 ends a
 * chain): it is a fence, and stays for the life of the file. */
static ork_status add_fence(struct rocket *rocket, uint32_t domain, ork_error *error)
{
    struct queue *queue = &rocket->queues[domain];
    struct rocket_create_bo bo;
    if (queue->fence_count == FENCES_MAX)
        return ork_error_set(error, ORK_LIMIT, rocket->capabilities.node, -1, "%u jobs are in flight on core %u",
                             FENCES_MAX, domain);
    ork_status status = create_bo(rocket, domain, PAGE, &bo, error);
    if (status != ORK_OK)
        return status;
    queue->fences[queue->fence_count++] = (struct fence){.handle = bo.handle};
    queue->used_bytes += PAGE;
    return ORK_OK;
}

/* A fence that no job has, FENCES_MAX when all are taken. Jobs that were given up may have ended meanwhile. */
static uint32_t find_fence(struct queue *queue)
{
    for (uint32_t i = 0; i < queue->fence_count; i++)
        if (!queue->fences[i].busy)
            return i;
    uint32_t found = FENCES_MAX;
    for (uint32_t i = 0; i < queue->fence_count; i++)
        if (queue->fences[i].orphan && prepare(queue, queue->fences[i].handle, 0) == 0) {
            queue->fences[i].busy = queue->fences[i].orphan = false;
            found = i;
        }
    return found;
}

static ork_status rocket_submit_job(struct ork_npu_device *device, struct ork_npu_job *job, ork_error *error)
{
    struct rocket *rocket = rocket_of(device);
    struct queue *queue = &rocket->queues[job->queue];
    if (job->fence >= 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, rocket->capabilities.node, -1, "the job is submitted already");
    uint32_t fence = find_fence(queue);
    if (fence == FENCES_MAX) {
        ork_status status = add_fence(rocket, job->queue, error);
        if (status != ORK_OK)
            return status;
        fence = queue->fence_count - 1;
    }
    job->outputs[job->abi.output_count - 1] = queue->fences[fence].handle;
    struct rocket_submit submit = {.jobs = (uintptr_t)&job->abi, .job_count = 1, .job_size_bytes = sizeof job->abi};
    job->submitted_ns = now_ns();
    int result = ork_npu_ioctl(queue->file, ROCKET_SUBMIT, &submit);
    if (result) {
        errno = -result;
        return ork_error_errno(error, rocket->capabilities.node, "submit");
    }
    queue->fences[fence].busy = true;
    job->fence = (int32_t)fence;
    return ORK_OK;
}

static enum ork_npu_state rocket_poll(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct queue *queue = &rocket_of(device)->queues[job->queue];
    if (job->fence < 0)
        return ORK_NPU_DONE;
    int number = prepare(queue, queue->fences[job->fence].handle, 0);
    if (number == EBUSY || number == ETIMEDOUT)
        return ORK_NPU_PENDING;
    if (number)
        return ORK_NPU_FAILED; /* the device is gone; the fence stays taken */
    queue->fences[job->fence].busy = false;
    job->fence = -1;
    return ORK_NPU_DONE;
}

/* Nothing can be taken back from this kernel. */
static bool rocket_cancel(struct ork_npu_device *device, struct ork_npu_job *job)
{
    return rocket_poll(device, job) == ORK_NPU_DONE;
}

static void rocket_job_destroy(struct ork_npu_device *device, struct ork_npu_job *job)
{
    if (job && job->fence >= 0 && rocket_poll(device, job) != ORK_NPU_DONE)
        rocket_of(device)->queues[job->queue].fences[job->fence].orphan = true;
    free(job);
}

/* Waits until no job is pending in any queue. The kernel's watchdog ends each job within its time from its start and resets
 * the core, so the wait is bounded by the longest queue. */
static bool drain(struct rocket *rocket)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < rocket->capabilities.domains; i++) {
        uint32_t busy = 0;
        for (uint32_t j = 0; j < rocket->queues[i].fence_count; j++)
            busy += rocket->queues[i].fences[j].busy;
        longest = busy > longest ? busy : longest;
    }
    bool idle = true;
    int64_t deadline_ns = (int64_t)(now_ns() + (1 + 6ull * longest) * (ROCKET_WATCHDOG_MS / 5) * 1000000);
    for (uint32_t i = 0; i < rocket->capabilities.domains; i++)
        for (uint32_t j = 0; j < rocket->queues[i].fence_count; j++)
            if (rocket->queues[i].fences[j].busy)
                idle &= prepare(&rocket->queues[i], rocket->queues[i].fences[j].handle, deadline_ns) == 0;
    return idle;
}

/* The driver has no reset. Its watchdog resets the core under a job that hangs, so waiting it out is the same: afterwards
 * nothing runs, cores are as after power-up, and buffers are where they were. Opening the files anew would be faster and
 * would lose the weights. */
static ork_status rocket_reset(struct ork_npu_device *device, ork_error *error)
{
    struct rocket *rocket = rocket_of(device);
    if (drain(rocket))
        return ORK_OK;
    return ork_error_set(error, ORK_IO, rocket->capabilities.node, -1, "the kernel's watchdog has not ended the jobs");
}

static uint64_t rocket_next_look_ns(struct ork_npu_device *device, struct ork_npu_job *job)
{
    (void)device;
    uint64_t now = now_ns(), waited_us = (now - job->submitted_ns) / 1000 / 8;
    if (waited_us < LOOK_US_MIN)
        waited_us = LOOK_US_MIN;
    return now + 1000 * (waited_us > LOOK_US_MAX ? LOOK_US_MAX : waited_us);
}

/* ---- opening ---- */

static void rocket_close(struct ork_npu_device *device)
{
    struct rocket *rocket = rocket_of(device);
    if (!rocket)
        return;
    drain(rocket);
    for (uint32_t i = 0; i < rocket->mapping_count; i++)
        if (rocket->mappings[i].host)
            munmap(rocket->mappings[i].host, rocket->mappings[i].size_bytes);
    for (uint32_t i = 0; i < QUEUES_MAX; i++)
        if (rocket->queues[i].file >= 0)
            close(rocket->queues[i].file); /* and with it its handles */
    ork_npu_lock_drop(&rocket->lock);
    free(rocket);
}

static const struct ork_npu_capabilities *rocket_capabilities(const struct ork_npu_device *device)
{
    return &rocket_of(device)->capabilities;
}

static const struct ork_clock *rocket_clock(const struct ork_npu_device *device)
{
    (void)device;
    return ork_clock_monotonic();
}

static const struct ork_npu_device_ops rocket_ops = {
    .name = "rocket",
    .close = rocket_close,
    .capabilities = rocket_capabilities,
    .clock = rocket_clock,
    .allocate = rocket_allocate,
    .import = rocket_import,
    .release = rocket_release,
    .sync = rocket_sync,
    .job_create = rocket_job_create,
    .job_destroy = rocket_job_destroy,
    .submit = rocket_submit_job,
    .poll = rocket_poll,
    .cancel = rocket_cancel,
    .reset = rocket_reset,
    .next_look_ns = rocket_next_look_ns,
};

/* Driver and version of an open DRM node; false when it is none. */
static bool read_version(int file, char *name, size_t capacity, uint32_t *version)
{
    struct rocket_drm_version drm = {.name = (uintptr_t)name, .name_size = capacity - 1};
    memset(name, 0, capacity);
    if (ork_npu_ioctl(file, ROCKET_DRM_VERSION, &drm))
        return false;
    name[drm.name_size < capacity ? drm.name_size : capacity - 1] = 0;
    if (drm.major < 0 || drm.minor < 0 || drm.patch < 0 || drm.major > 9999 || drm.minor > 99 || drm.patch > 99)
        *version = UINT32_MAX;
    else
        *version = (uint32_t)(drm.major * 10000 + drm.minor * 100 + drm.patch);
    return true;
}

/* Opens the first node of the driver; says what stood in the way of the others. */
static ork_status find_node(struct ork_npu_capabilities *capabilities, int *file, ork_error *error)
{
    char denied[64] = "", other[128] = "";
    int why = 0;
    for (int i = 0; i < NODES_MAX; i++) {
        char path[32], name[32];
        snprintf(path, sizeof path, "/dev/accel/accel%d", i);
        *file = open(path, O_RDWR | O_CLOEXEC);
        if (*file < 0) {
            if (errno != ENOENT && errno != ENOTDIR && !*denied) {
                why = errno;
                snprintf(denied, sizeof denied, "%s", path);
            }
            continue;
        }
        if (read_version(*file, name, sizeof name, &capabilities->driver_version) && strcmp(name, "rocket") == 0) {
            snprintf(capabilities->node, sizeof capabilities->node, "%s", path);
            return ORK_OK;
        }
        if (!*other)
            snprintf(other, sizeof other, "; %s belongs to the driver '%s'", path, name);
        close(*file);
    }
    *file = -1;
    if (*denied) {
        errno = why;
        return ork_error_errno(error, denied, "cannot open the NPU's node");
    }
    return ork_error_set(error, ORK_NOT_FOUND, "/dev/accel/accel*", -1, "no node of the driver rocket%s", other);
}

/* Cores that the driver has bound, as sysfs lists them; 3 where it does not say. */
static uint32_t count_cores(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/sys/bus/platform/drivers/rocket");
    if (!folder)
        return QUEUES_MAX;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        count += dot && strcmp(dot, ".npu") == 0;
    }
    closedir(folder);
    return count && count < QUEUES_MAX ? count : QUEUES_MAX;
}

static ork_status open_queues(struct rocket *rocket, uint32_t cores, ork_error *error)
{
    ork_status status = ORK_OK;
    for (uint32_t i = 0; i < cores && status == ORK_OK; i++) {
        struct queue *queue = &rocket->queues[i];
        if (queue->file < 0)
            queue->file = open(rocket->capabilities.node, O_RDWR | O_CLOEXEC);
        if (queue->file < 0)
            return ork_error_errno(error, rocket->capabilities.node, "cannot open the NPU's node once more");
        rocket->capabilities.domains = rocket->capabilities.cores = i + 1;
        while (status == ORK_OK && queue->fence_count < FENCES_FIRST)
            status = add_fence(rocket, i, error);
    }
    return status;
}

ork_status ork_npu_rocket_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error)
{
    *device = NULL;
    struct rocket *rocket = calloc(1, sizeof *rocket);
    if (!rocket)
        return ork_error_no_memory(error, "rocket", sizeof *rocket);
    rocket->base.ops = &rocket_ops;
    rocket->lock = -1;
    for (uint32_t i = 0; i < QUEUES_MAX; i++)
        rocket->queues[i].file = -1;
    struct ork_npu_capabilities *capabilities = &rocket->capabilities;
    *capabilities = (struct ork_npu_capabilities){
        .driver = "rocket",
        .domain_bytes = ORK_NPU_DOMAIN_BYTES,
        .clock_hz = STOCK_CLOCK_HZ,
        .tasks_per_job_max = TASKS_MAX,
        .job_limit_us = ROCKET_WATCHDOG_MS * 1000,
        .buffers_max = BUFFERS_MAX,
        .knows_completion = true,
        .core_per_domain = true,
        .sync_whole = true,
        .buffer_bytes_max = ROCKET_BO_BYTES_MAX,
    };
    uint32_t cores = count_cores();
    if (params && params->cores && params->cores < cores)
        cores = params->cores;
    ork_status status = find_node(capabilities, &rocket->queues[0].file, error);
    if (status != ORK_OK)
        goto out;
    if ((status = ork_npu_soc_read(capabilities->soc, sizeof capabilities->soc, error)) != ORK_OK)
        goto out;
    if ((status = ork_npu_lock_take(&rocket->lock, error)) != ORK_OK)
        goto out;
    /* Stock kernels say 0.0.0; 1.x of out-of-tree builds adds requests and changes none. */
    if (capabilities->driver_version >= 20000) {
        status = ork_error_set(error, ORK_UNSUPPORTED, capabilities->node, -1,
                               "rocket %u.%u is newer than what is known (0.x and 1.x)",
                               capabilities->driver_version / 10000, capabilities->driver_version / 100 % 100);
        goto out;
    }
    status = open_queues(rocket, cores, error);
out:
    if (status != ORK_OK) {
        rocket_close(&rocket->base);
        return status;
    }
    *device = &rocket->base;
    return ORK_OK;
}
