/* The vendor kernel's driver "rknpu" as a device. Owns its node, buffers, task arrays and what a job is to that driver; knows
 * no register programs and no matmuls. Facts: npu-hw.md 1.
 *
 * Jobs are submitted without waiting and without fences (most kernels are built without them), so the driver never says
 * that one is done: outputs are watched.
 *
 * The timeout of a job that nobody waits for is a trap. The driver looks at it when the next such job arrives on the same
 * core: if the job before is still on the core and is older than `timeout` taken as MICROSECONDS (a mistake in its units),
 * the driver resets the whole NPU and throws that job and all behind it away. Milliseconds that look generous would kill
 * healthy jobs. It is also the only way in which a job that got lost ever leaves its core: a reset by ACTION stops the
 * hardware but leaves the job in its place, and what comes later queues behind it for ever. So the value must lie above
 * every healthy job and below what a recovery may take: REAP_US, told to the engine as job_limit_us; reset() returns when
 * whatever was lost is older, and the next submit then takes the core over (at the price of a second reset of 0.1 s). */
#include "engine/npu/device/device.h"

#include "base/error.h"
#include "engine/npu/device/machine.h"
#include "engine/npu/device/rknpu_abi.h"
#include "engine/npu/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CORES = 3,
    PAGE_BYTES = 4096,
    PROGRAM_TAIL_WORDS = 4,
    /* Convention of every user of the driver: enable CNA, CORE, DPU; wait for either group of the DPU. */
    TASK_ENABLE = 0xd,
    TASK_INT_MASK = 0x300,
    TASK_INT_CLEAR = 0x1ffff,
    /* Tasks of one job are allotted in one pool buffer in steps of UNIT; a pool holds the largest job. */
    UNIT = 15,
    POOL_UNITS = ORK_NPU_TASKS_PER_KICK / UNIT,
    /* More mappings than this in a domain have wedged boards (about 2,340: ork-driver.md 4.5). */
    BUFFERS_MAX = 2048
};
#define REAP_US 500000u                /* see above; the mainline driver's watchdog has the same value */
#define DRAIN_US 100000u               /* close waits so long behind a job that may still run */
#define SETTLE_NS 1000000u             /* after a reset */
#define SWITCH_REFUSED_NS 100000000ull /* EINVAL after so long a wait: the domain could not be switched */

/* A buffer of tasks and which of its units are taken. */
struct pool {
    struct pool *next;
    struct ork_npu_buffer buffer;
    bool taken[POOL_UNITS];
};

struct ork_npu_job {
    struct ork_npu_job *next;
    struct pool *pool;
    uint32_t first_unit, units;
    uint32_t core, domain, task_start, task_count;
    bool submitted;     /* since it was made */
    uint64_t resets;    /* of the device when it was submitted */
    uint64_t submit_ns; /* last time */
};

/* What close must free. */
struct held {
    uint32_t handle, domain;
    uint64_t object, size_bytes;
    uint8_t *host;
};

struct rknpu {
    struct ork_npu_device base;
    struct ork_npu_capabilities capabilities;
    int descriptor, lock;
    uint32_t timeout_us;
    struct held *held;
    size_t held_count, held_room;
    uint64_t used_bytes[ORK_NPU_DOMAINS_MAX];
    struct pool *pools;
    struct ork_npu_job *jobs;
    uint32_t domain; /* that the driver has live */
    /* The driver refused to leave `domain`: it waits for jobs that were lost. */
    bool pinned;
    uint64_t resets;
    uint64_t newest_submit_ns; /* since the last reset, 0: none */
};

static struct rknpu *self(struct ork_npu_device *device)
{
    return (struct rknpu *)device;
}

static uint64_t now_ns(void)
{
    const struct ork_clock *clock = ork_clock_monotonic();
    return clock->now_ns(clock);
}

static void wait_until(uint64_t time_ns)
{
    const struct ork_clock *clock = ork_clock_monotonic();
    while (clock->now_ns(clock) < time_ns)
        clock->sleep_until(clock, time_ns);
}

/* ---- requests ---- */

static ork_status request_error(const struct rknpu *r, ork_error *error, int result, uint32_t domain,
                                uint64_t size_bytes, const char *what)
{
    char reason[128];
    ork_status code = result == -ENOMEM || result == -ENOSPC || result == -EMFILE ? ORK_NO_MEMORY : ORK_IO;
    return ork_error_set(error, code, r->capabilities.node, -1, "%s (domain %u, %llu bytes): %s", what, domain,
                         (unsigned long long)size_bytes, strerror_r(-result, reason, sizeof reason));
}

/* A request that makes `domain` live. The driver switches all cores at once and only when no job holds the domain before;
 * it waits up to 6 s for that. Where it gave up once, asking again would cost 6 s each time: refused until a reset. */
static ork_status request_in_domain(struct rknpu *r, uint32_t domain, unsigned long request, void *argument,
                                    uint64_t size_bytes, const char *what, ork_error *error)
{
    if (r->pinned && domain != r->domain)
        return ork_error_set(
            error, ORK_IO, r->capabilities.node, -1,
            "%s: the driver does not leave domain %u for domain %u: it still counts jobs that were lost "
            "(a known fault of it, gone after a reboot)",
            what, r->domain, domain);
    uint64_t start = now_ns();
    bool interrupted;
    /* A job that is submitted twice would write its outputs once more after they were read. Where a signal leaves it open
     * whether it was queued, its output will tell. */
    int result = request == ORK_RKNPU_SUBMIT ? ork_npu_ioctl_once(r->descriptor, request, argument, &interrupted)
                                             : ork_npu_ioctl(r->descriptor, request, argument);
    if (!result) {
        r->domain = domain;
        return ORK_OK;
    }
    if (result == -EINVAL && domain != r->domain && now_ns() - start >= SWITCH_REFUSED_NS) {
        r->pinned = true;
        return ork_error_set(error, ORK_IO, r->capabilities.node, -1,
                             "%s: the driver did not switch from domain %u to domain %u within %llu ms", what,
                             r->domain, domain, (unsigned long long)((now_ns() - start) / 1000000u));
    }
    return request_error(r, error, result, domain, size_bytes, what);
}

static int action(int descriptor, uint32_t which, uint32_t *value)
{
    struct ork_rknpu_action request = {.action = which};
    int result = ork_npu_ioctl(descriptor, ORK_RKNPU_ACTION, &request);
    if (value)
        *value = request.value;
    return result;
}

/* ---- buffers ---- */

static void destroy_object(struct rknpu *r, uint32_t handle, uint64_t object, uint32_t domain)
{
    /* Would wait in vain, 6 s each; the node's close frees it. */
    if (r->pinned && domain != r->domain)
        return;
    struct ork_rknpu_mem_destroy request = {.handle = handle, .object = object};
    request_in_domain(r, domain, ORK_RKNPU_MEM_DESTROY, &request, 0, "MEM_DESTROY", NULL);
}

static ork_status held_add(struct rknpu *r, const struct ork_npu_buffer *buffer, ork_error *error)
{
    if (r->held_count == r->held_room) {
        size_t room = r->held_room ? 2 * r->held_room : 64;
        struct held *more = realloc(r->held, room * sizeof *more);
        if (!more)
            return ork_error_no_memory(error, r->capabilities.node, room * sizeof *more);
        r->held = more;
        r->held_room = room;
    }
    r->held[r->held_count++] = (struct held){.handle = (uint32_t)buffer->handle,
                                             .domain = buffer->domain,
                                             .object = buffer->object,
                                             .size_bytes = buffer->size_bytes,
                                             .host = buffer->host};
    r->used_bytes[buffer->domain] += buffer->size_bytes;
    return ORK_OK;
}

static struct held *held_find(struct rknpu *r, uint64_t handle)
{
    for (size_t i = 0; i < r->held_count; i++)
        if (r->held[i].handle == handle)
            return &r->held[i];
    return NULL;
}

static ork_status sync_request(struct rknpu *r, const struct ork_npu_buffer *buffer, uint64_t offset,
                               uint64_t size_bytes, uint32_t flags, ork_error *error)
{
    struct ork_rknpu_mem_sync request = {
        .flags = flags, .object = buffer->object, .offset = offset, .size_bytes = size_bytes};
    return request_in_domain(r, buffer->domain, ORK_RKNPU_MEM_SYNC, &request, size_bytes, "MEM_SYNC", error);
}

static ork_status create_and_map(struct rknpu *r, uint32_t domain, uint64_t size_bytes, uint32_t extra_flags,
                                 struct ork_npu_buffer *buffer, ork_error *error)
{
    struct ork_rknpu_mem_create create = {.flags = ORK_RKNPU_MEM_NON_CONTIGUOUS | ORK_RKNPU_MEM_CACHEABLE | extra_flags,
                                          .size_bytes = size_bytes,
                                          .domain = (int32_t)domain};
    uint32_t version = r->capabilities.driver_version;
    /* Addresses aligned to the size (a power of two) break a domain into pieces: npu-hw.md 1.8. */
    if (version >= ORK_RKNPU_VERSION(0, 9, 7))
        create.flags |= ORK_RKNPU_MEM_LIMIT_IOVA_ALIGNMENT;
    ork_status status = request_in_domain(
        r, domain, version >= ORK_RKNPU_VERSION(0, 9, 6) ? ORK_RKNPU_MEM_CREATE : ORK_RKNPU_MEM_CREATE_OLD, &create,
        size_bytes, "MEM_CREATE", error);
    if (status != ORK_OK)
        return status;
    void *host = MAP_FAILED;
    struct ork_rknpu_mem_map map = {.handle = create.handle};
    int result;
    if (create.size_bytes < size_bytes || create.iova % 16 || create.iova + create.size_bytes > 1ull << 32) {
        status = ork_error_set(error, ORK_IO, r->capabilities.node, -1,
                               "MEM_CREATE (domain %u, %llu bytes) answers %llu bytes at address %#llx", domain,
                               (unsigned long long)size_bytes, (unsigned long long)create.size_bytes,
                               (unsigned long long)create.iova);
        goto out;
    }
    result = ork_npu_ioctl(r->descriptor, ORK_RKNPU_MEM_MAP, &map);
    if (result) {
        status = request_error(r, error, result, domain, size_bytes, "MEM_MAP");
        goto out;
    }
    host = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->descriptor, (off_t)map.offset);
    if (host == MAP_FAILED) {
        status = request_error(r, error, -errno, domain, size_bytes, "mmap of a buffer");
        goto out;
    }
    *buffer = (struct ork_npu_buffer){.host = host,
                                      .size_bytes = size_bytes,
                                      .iova = (uint32_t)create.iova,
                                      .domain = domain,
                                      .handle = create.handle,
                                      .object = create.object};
    /* The kernel wrote the pages through the cache: lines that are still dirty would land on the NPU's results later. */
    status = sync_request(r, buffer, 0, size_bytes, ORK_RKNPU_SYNC_TO_DEVICE, error);
    if (status == ORK_OK)
        status = held_add(r, buffer, error);
out:
    if (status != ORK_OK) {
        if (host != MAP_FAILED)
            munmap(host, size_bytes);
        destroy_object(r, create.handle, create.object, domain);
        memset(buffer, 0, sizeof *buffer);
    }
    return status;
}

static ork_status rknpu_allocate_flags(struct rknpu *r, uint32_t domain, uint64_t size_bytes, uint32_t extra_flags,
                                       struct ork_npu_buffer *buffer, ork_error *error)
{
    memset(buffer, 0, sizeof *buffer);
    if (domain >= r->capabilities.domains || !size_bytes)
        return ork_error_set(error, ORK_BAD_ARGUMENT, r->capabilities.node, -1,
                             "buffer of %llu bytes in domain %u of %u", (unsigned long long)size_bytes, domain,
                             r->capabilities.domains);
    uint64_t used = r->used_bytes[domain];
    if (size_bytes > ORK_NPU_DOMAIN_BYTES || used + size_bytes > ORK_NPU_DOMAIN_BYTES)
        return ork_error_set(error, ORK_NO_MEMORY, r->capabilities.node, -1,
                             "domain %u has %llu of %llu bytes in use, %llu more do not fit", domain,
                             (unsigned long long)used, (unsigned long long)ORK_NPU_DOMAIN_BYTES,
                             (unsigned long long)size_bytes);
    if (r->held_count >= BUFFERS_MAX)
        return ork_error_set(error, ORK_NO_MEMORY, r->capabilities.node, -1, "%u buffers are in use, no more are made",
                             BUFFERS_MAX);
    size_bytes = (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    return create_and_map(r, domain, size_bytes, extra_flags, buffer, error);
}

static ork_status rknpu_allocate(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                                 struct ork_npu_buffer *buffer, ork_error *error)
{
    return rknpu_allocate_flags(self(device), domain, size_bytes, 0, buffer, error);
}

static ork_status rknpu_import(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                               struct ork_npu_buffer *buffer, ork_error *error)
{
    (void)domain, (void)host, (void)size_bytes;
    memset(buffer, 0, sizeof *buffer);
    return ork_error_set(error, ORK_UNSUPPORTED, self(device)->capabilities.node, -1,
                         "host memory cannot be given to this driver");
}

static void rknpu_release(struct ork_npu_device *device, struct ork_npu_buffer *buffer)
{
    struct rknpu *r = self(device);
    struct held *held = buffer->size_bytes ? held_find(r, buffer->handle) : NULL;
    if (held) {
        munmap(held->host, held->size_bytes);
        destroy_object(r, held->handle, held->object, held->domain);
        r->used_bytes[held->domain] -= held->size_bytes;
        *held = r->held[--r->held_count];
    }
    memset(buffer, 0, sizeof *buffer);
}

static ork_status rknpu_sync(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                             uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error)
{
    struct rknpu *r = self(device);
    /* The driver does not check the range. */
    if (offset > buffer->size_bytes || size_bytes > buffer->size_bytes - offset)
        return ork_error_set(error, ORK_BAD_ARGUMENT, r->capabilities.node, -1,
                             "sync of %llu bytes at %llu in a buffer of %llu", (unsigned long long)size_bytes,
                             (unsigned long long)offset, (unsigned long long)buffer->size_bytes);
    if (!size_bytes)
        return ORK_OK;
    return sync_request(r, buffer, offset, size_bytes,
                        direction == ORK_NPU_TO_DEVICE ? ORK_RKNPU_SYNC_TO_DEVICE : ORK_RKNPU_SYNC_FROM_DEVICE, error);
}

/* ---- jobs ---- */

static ork_status pool_add(struct rknpu *r, uint32_t domain, ork_error *error)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return ork_error_no_memory(error, r->capabilities.node, sizeof *pool);
    /* The kernel reads tasks through a mapping of its own: without the flag it would crash. */
    ork_status status = rknpu_allocate_flags(r, domain, (uint64_t)POOL_UNITS * UNIT * sizeof(struct ork_rknpu_task),
                                             ORK_RKNPU_MEM_KERNEL_MAPPING, &pool->buffer, error);
    if (status != ORK_OK) {
        free(pool);
        return status;
    }
    pool->next = r->pools;
    r->pools = pool;
    return ORK_OK;
}

/* First run of free units that is long enough. */
static bool pool_take(struct rknpu *r, struct ork_npu_job *job)
{
    for (struct pool *pool = r->pools; pool; pool = pool->next)
        for (uint32_t first = 0, length = 0; first + length < POOL_UNITS;) {
            if (pool->taken[first + length]) {
                first += length + 1;
                length = 0;
            } else if (++length == job->units) {
                memset(pool->taken + first, true, length);
                job->pool = pool;
                job->first_unit = first;
                return true;
            }
        }
    return false;
}

/* Every program must lie in a buffer of the job's domain: an address that nothing is mapped at stops the NPU. */
static bool program_mapped(const struct ork_npu_job_params *params, const struct ork_npu_task *task)
{
    uint64_t end = (uint64_t)task->program_iova + 8ull * task->program_words;
    for (uint32_t i = 0; i < params->input_count; i++) {
        const struct ork_npu_buffer *b = params->inputs[i];
        if (b->domain == params->domain && task->program_iova >= b->iova && end <= (uint64_t)b->iova + b->size_bytes)
            return true;
    }
    return false;
}

static ork_status job_check(const struct rknpu *r, const struct ork_npu_job_params *params, ork_error *error)
{
    const char *node = r->capabilities.node;
    if (params->core >= CORES || params->domain >= r->capabilities.domains)
        return ork_error_set(error, ORK_BAD_ARGUMENT, node, -1, "job on core %u in domain %u", params->core,
                             params->domain);
    if (!params->task_count || params->task_count > r->capabilities.tasks_per_job_max)
        return ork_error_set(error, ORK_BAD_ARGUMENT, node, -1, "job of %u tasks, 1 to %u are possible",
                             params->task_count, r->capabilities.tasks_per_job_max);
    for (uint32_t i = 0; i < params->output_count; i++)
        if (params->outputs[i]->domain != params->domain)
            return ork_error_set(error, ORK_BAD_ARGUMENT, node, -1, "output %u of a job in domain %u is in domain %u",
                                 i, params->domain, params->outputs[i]->domain);
    for (uint32_t i = 0; i < params->task_count; i++) {
        const struct ork_npu_task *task = &params->tasks[i];
        if (task->program_words <= PROGRAM_TAIL_WORDS || task->program_iova % 16 || !program_mapped(params, task))
            return ork_error_set(error, ORK_BAD_ARGUMENT, node, -1,
                                 "program of task %u (%u words at %#x) is not in a buffer of domain %u", i,
                                 task->program_words, task->program_iova, params->domain);
    }
    return ORK_OK;
}

static ork_status rknpu_job_create(struct ork_npu_device *device, const struct ork_npu_job_params *params,
                                   struct ork_npu_job **made, ork_error *error)
{
    struct rknpu *r = self(device);
    *made = NULL;
    ork_status status = job_check(r, params, error);
    if (status != ORK_OK)
        return status;
    struct ork_npu_job *job = calloc(1, sizeof *job);
    if (!job)
        return ork_error_no_memory(error, r->capabilities.node, sizeof *job);
    job->core = params->core;
    job->domain = params->domain;
    job->task_count = params->task_count;
    job->units = (params->task_count + UNIT - 1) / UNIT;
    if (!pool_take(r, job)) {
        status = pool_add(r, params->domain, error);
        if (status != ORK_OK || !pool_take(r, job)) {
            free(job);
            return status;
        }
    }
    job->task_start = job->first_unit * UNIT;
    /* Read by the kernel's CPU alone, in ordinary cached memory: no sync. */
    struct ork_rknpu_task *tasks = (struct ork_rknpu_task *)job->pool->buffer.host + job->task_start;
    for (uint32_t i = 0; i < params->task_count; i++)
        tasks[i] = (struct ork_rknpu_task){.enable_mask = TASK_ENABLE,
                                           .int_mask = TASK_INT_MASK,
                                           .int_clear = TASK_INT_CLEAR,
                                           .amount = params->tasks[i].program_words - PROGRAM_TAIL_WORDS,
                                           .program_iova = params->tasks[i].program_iova};
    job->next = r->jobs;
    r->jobs = job;
    *made = job;
    return ORK_OK;
}

static void rknpu_job_destroy(struct ork_npu_device *device, struct ork_npu_job *job)
{
    struct rknpu *r = self(device);
    if (!job)
        return;
    struct ork_npu_job **link = &r->jobs;
    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
    memset(job->pool->taken + job->first_unit, false, job->units);
    free(job);
}

static ork_status rknpu_submit(struct ork_npu_device *device, struct ork_npu_job *job, ork_error *error)
{
    struct rknpu *r = self(device);
    struct ork_rknpu_submit request = {
        .flags = ORK_RKNPU_JOB_PC | ORK_RKNPU_JOB_NONBLOCK | ORK_RKNPU_JOB_PINGPONG,
        .timeout = r->timeout_us,
        .task_start = job->task_start,
        .task_number = job->task_count,
        .task_object = job->pool->buffer.object,
        .domain = job->domain,
        .core_mask = 1u << job->core,
        .fence = -1,
    };
    /* One core reads the slot of its number; the same range in all five is right for every version (npu-hw.md 1.5). */
    for (uint32_t i = 0; i < ORK_RKNPU_SUBCORES; i++)
        request.subcore[i] = (struct ork_rknpu_range){job->task_start, job->task_count};
    ork_status status = request_in_domain(r, job->domain, ORK_RKNPU_SUBMIT, &request, 0, "SUBMIT", error);
    if (status != ORK_OK)
        return status;
    job->submitted = true;
    job->resets = r->resets;
    job->submit_ns = r->newest_submit_ns = now_ns();
    return ORK_OK;
}

static bool job_gone(const struct rknpu *r, const struct ork_npu_job *job)
{
    return !job->submitted || job->resets != r->resets;
}

static enum ork_npu_state rknpu_poll(struct ork_npu_device *device, struct ork_npu_job *job)
{
    return job_gone(self(device), job) ? ORK_NPU_FAILED : ORK_NPU_UNKNOWN;
}

static bool rknpu_cancel(struct ork_npu_device *device, struct ork_npu_job *job)
{
    return job_gone(self(device), job);
}

static ork_status rknpu_reset(struct ork_npu_device *device, ork_error *error)
{
    struct rknpu *r = self(device);
    /* Healthy jobs end by themselves meanwhile, and the driver will take a lost one off its core at the next submit. */
    if (r->newest_submit_ns)
        wait_until(r->newest_submit_ns + 1000ull * r->timeout_us);
    int result = action(r->descriptor, ORK_RKNPU_RESET, NULL);
    if (result)
        return request_error(r, error, result, r->domain, 0, "ACTION reset");
    r->resets++;
    r->newest_submit_ns = 0;
    r->pinned = false;
    wait_until(now_ns() + SETTLE_NS);
    return ORK_OK;
}

static uint64_t rknpu_next_look_ns(struct ork_npu_device *device, struct ork_npu_job *job)
{
    (void)device;
    enum { LEAST_NS = 10000, MOST_NS = 500000 };
    uint64_t now = now_ns();
    uint64_t age = now > job->submit_ns ? now - job->submit_ns : 0;
    uint64_t wait = age / 8; /* a look costs a system call: seldom enough to be a small share of the job */
    return now + (wait < LEAST_NS ? LEAST_NS : wait > MOST_NS ? MOST_NS : wait);
}

/* ---- the device ---- */

static const struct ork_npu_capabilities *rknpu_capabilities(const struct ork_npu_device *device)
{
    return &((const struct rknpu *)device)->capabilities;
}

static const struct ork_clock *rknpu_clock(const struct ork_npu_device *device)
{
    (void)device;
    return ork_clock_monotonic();
}

static void rknpu_close(struct ork_npu_device *device)
{
    struct rknpu *r = self(device);
    if (!r)
        return;
    for (struct ork_npu_job *job = r->jobs, *next; job; job = next) {
        next = job->next;
        if (!job_gone(r, job))
            wait_until(job->submit_ns + 1000ull * DRAIN_US);
        free(job);
    }
    for (struct pool *pool = r->pools, *next; pool; pool = next) {
        next = pool->next;
        free(pool);
    }
    for (size_t i = 0; i < r->held_count; i++) {
        munmap(r->held[i].host, r->held[i].size_bytes);
        destroy_object(r, r->held[i].handle, r->held[i].object, r->held[i].domain);
    }
    free(r->held);
    if (r->descriptor >= 0)
        close(r->descriptor);
    ork_npu_lock_drop(&r->lock);
    free(r);
}

static const struct ork_npu_device_ops rknpu_ops = {
    .name = "rknpu",
    .close = rknpu_close,
    .capabilities = rknpu_capabilities,
    .clock = rknpu_clock,
    .allocate = rknpu_allocate,
    .import = rknpu_import,
    .release = rknpu_release,
    .sync = rknpu_sync,
    .job_create = rknpu_job_create,
    .job_destroy = rknpu_job_destroy,
    .submit = rknpu_submit,
    .poll = rknpu_poll,
    .cancel = rknpu_cancel,
    .reset = rknpu_reset,
    .next_look_ns = rknpu_next_look_ns,
};

/* ---- finding it ---- */

/* The driver's other build: another kind of node, buffers from dma-heaps and a struct of its own to bring them in. */
static ork_status misc_flavour(int descriptor, ork_error *error)
{
    struct ork_rknpu_action request = {.action = ORK_RKNPU_GET_DRIVER_VERSION};
    char version[32] = "";
    if (!ork_npu_ioctl(descriptor, ORK_RKNPU_MISC_ACTION, &request))
        snprintf(version, sizeof version, " %u.%u.%u", request.value / 10000, request.value / 100 % 100,
                 request.value % 100);
    return ork_error_set(
        error, ORK_UNSUPPORTED, "/dev/rknpu", -1,
        "this kernel's rknpu%s is built for dma-heap memory (CONFIG_ROCKCHIP_RKNPU_DMA_HEAP); a kernel with "
        "CONFIG_ROCKCHIP_RKNPU_DRM_GEM is needed",
        version);
}

static ork_status find_node(struct rknpu *r, ork_error *error)
{
    char denied[sizeof r->capabilities.node] = "";
    int denied_errno = 0;
    char *node = r->capabilities.node;
    /* Card nodes first: submits through a render node have been seen to run nothing (npu-hw.md 1.1). */
    for (int i = 0; i < 32; i++) {
        snprintf(node, sizeof r->capabilities.node, i < 16 ? "/dev/dri/card%d" : "/dev/dri/renderD%d",
                 i < 16 ? i : 128 + i - 16);
        int descriptor = open(node, O_RDWR | O_CLOEXEC);
        if (descriptor < 0) {
            if (errno != ENOENT && errno != ENOTDIR && errno != ENXIO && !*denied) {
                denied_errno = errno;
                snprintf(denied, sizeof denied, "%s", node);
            }
            continue;
        }
        char name[32];
        if (ork_npu_drm_name(descriptor, name, sizeof name) && !strcmp(name, "rknpu")) {
            r->descriptor = descriptor;
            return ORK_OK;
        }
        close(descriptor);
    }
    int misc = open("/dev/rknpu", O_RDWR | O_CLOEXEC);
    if (misc >= 0) {
        ork_status status = misc_flavour(misc, error);
        close(misc);
        return status;
    }
    if (*denied) {
        errno = denied_errno;
        ork_error_errno(error, denied,
                        denied_errno == EBUSY                             ? "the node is busy"
                        : denied_errno == EACCES || denied_errno == EPERM ? "cannot open the node (is this user in its "
                                                                            "group, render or video?)"
                                                                          : "cannot open the node");
        return error ? error->code : ORK_IO;
    }
    return ork_error_set(error, ORK_NOT_FOUND, "/dev/dri", -1,
                         "no node of the rknpu driver: the kernel is not the vendor's, or has the NPU switched off");
}

static ork_status check_driver(struct rknpu *r, ork_error *error)
{
    struct ork_npu_capabilities *c = &r->capabilities;
    uint32_t iommu = 0, frequency = 0;
    int result = action(r->descriptor, ORK_RKNPU_GET_DRIVER_VERSION, &c->driver_version);
    if (!result)
        result = action(r->descriptor, ORK_RKNPU_GET_HARDWARE_VERSION, &c->hardware_version);
    if (!result)
        result = action(r->descriptor, ORK_RKNPU_GET_IOMMU_ENABLED, &iommu);
    if (result)
        return request_error(r, error, result, 0, 0, "ACTION");
    uint32_t version = c->driver_version;
    if (version < ORK_RKNPU_VERSION(0, 9, 2))
        return ork_error_set(
            error, ORK_UNSUPPORTED, c->node, -1,
            "rknpu driver %u.%u.%u is too old: int8 products fail on it now and then; 0.9.2 is the least, "
            "0.9.8 the best known",
            version / 10000, version / 100 % 100, version % 100);
    if (c->hardware_version != ORK_RKNPU_HARDWARE_VERSION)
        return ork_error_set(error, ORK_UNSUPPORTED, c->node, -1, "the NPU says it is version %#x, known is %#x",
                             c->hardware_version, ORK_RKNPU_HARDWARE_VERSION);
    if (!iommu)
        return ork_error_set(error, ORK_UNSUPPORTED, c->node, -1,
                             "the NPU's IOMMU is off in the device tree: only a few MiB can be allocated");
    if (!action(r->descriptor, ORK_RKNPU_GET_FREQUENCY, &frequency))
        c->clock_hz = frequency;
    c->domains = version >= ORK_RKNPU_VERSION(0, 9, 8) ? ORK_NPU_DOMAINS_MAX : 1;
    return ORK_OK;
}

ork_status ork_npu_rknpu_open(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error)
{
    *device = NULL;
    struct rknpu *r = calloc(1, sizeof *r);
    if (!r)
        return ork_error_no_memory(error, NULL, sizeof *r);
    r->base.ops = &rknpu_ops;
    r->descriptor = r->lock = -1;
    r->timeout_us = params->timeout_us > REAP_US ? params->timeout_us : REAP_US;
    r->capabilities = (struct ork_npu_capabilities){.driver = "rknpu",
                                                    .cores = CORES,
                                                    .domains = 1,
                                                    .domain_bytes = ORK_NPU_DOMAIN_BYTES,
                                                    .tasks_per_job_max = ORK_NPU_TASKS_PER_KICK,
                                                    .job_limit_us = r->timeout_us,
                                                    .buffers_max = BUFFERS_MAX};
    ork_status status = find_node(r, error);
    if (status == ORK_OK)
        status = ork_npu_soc_read(r->capabilities.soc, sizeof r->capabilities.soc, error);
    if (status == ORK_OK)
        status = ork_npu_lock_take(&r->lock, error);
    if (status == ORK_OK)
        status = check_driver(r, error);
    if (status == ORK_OK)
        status = pool_add(r, 0, error);
    if (status != ORK_OK) {
        rknpu_close(&r->base);
        return status;
    }
    *device = &r->base;
    return ORK_OK;
}
