/* The vendor driver as the shim plays it: nodes, requests, memory (npu-hw.md 1.1 to 1.4, 1.7). Cores and queues stand in
 * rknpu_jobs.c.
 *
 * Options: version=0.9.8 · flavour=drm|misc · node=1 (number of the card; numbers below it are the display's; the render
 * node is 128 more) · open=EACCES|EBUSY (error of the NPU's nodes) · iommu=1 · hardware=0x46495245 · frequency=1000000000 ·
 * memory_mb, iova_mb=3900 (in all; of a domain) · switch_ms=6000, reset_ms=100 (the driver's own waits) · job_us=0 (least
 * time of a kick) · interrupt=N, restart=N (every so many requests end with EINTR, ERESTARTSYS before anything is done) ·
 * leak=1 (jobs that are thrown away keep their domain).
 *
 * Counters: objects, held_bytes, domain, references, switches, submits, kicks, completed, resets, reaped, leaked,
 * anomalies, spurious, evicted, freed_busy, requests. */
#include "shim/rknpu_kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

struct rk_kernel rk = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { SYNC_TO_DEVICE = 1, SYNC_FROM_DEVICE = 2, ERESTARTSYS_NUMBER = 512 };

struct file {
    bool display;               /* a node of another driver */
    struct rk_object **handles; /* by number, 0 is none */
    uint32_t handle_room;
};

/* ---- memory ---- */

/* As the NPU's bus does it: not through the caches and beside whatever the processor does with these bytes, so that it is no
 * race of the program's. Equal words are left alone, which keeps untouched pages of large buffers unbacked. */
__attribute__((no_sanitize("thread"))) static void copy_words(uint8_t *to, const uint8_t *from, uint64_t size)
{
    uint64_t i = 0;
    for (; i < size && ((uintptr_t)(to + i) % 8 || (uintptr_t)(from + i) % 8); i++)
        ((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
    for (; i + 8 <= size; i += 8) {
        uint64_t word = *(const volatile uint64_t *)(from + i);
        if (*(volatile uint64_t *)(to + i) != word)
            *(volatile uint64_t *)(to + i) = word;
    }
    for (; i < size; i++)
        ((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}

struct rk_object *rk_object_find(uint64_t id)
{
    struct rk_object *object = rk.objects;
    while (object && object->id != id)
        object = object->next;
    return object;
}

void rk_object_put(struct rk_object *object)
{
    if (--object->references)
        return;
    if (rk_busy())
        rk.count.freed_busy++;
    struct rk_object **link = &rk.objects;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    ork_silicon_unmap(rk.silicon, object->domain, object->iova); /* returns when no core uses it any more */
    rk.held_bytes -= object->size_bytes;
    rk.held_objects--;
    if (object->device != object->host)
        shim_pages_free(object->device, object->size_bytes);
    shim_pages_free(object->host, object->size_bytes);
    free(object->fresh);
    free(object);
}

void rk_evict_fresh(uint32_t domain)
{
    for (struct rk_object *o = rk.objects; o; o = o->next)
        for (uint64_t page = 0; o->domain == domain && o->fresh_pages && page < o->size_bytes / RK_PAGE; page++)
            if (o->fresh[page] && memcmp(o->device + page * RK_PAGE, o->host + page * RK_PAGE, RK_PAGE)) {
                copy_words(o->device + page * RK_PAGE, o->host + page * RK_PAGE, RK_PAGE);
                rk.count.evicted++;
            }
}

/* Highest gap of the domain; the list is kept in falling order of addresses. NULL: none. */
static struct rk_object **find_gap(uint32_t domain, uint64_t size, uint64_t alignment, uint32_t *iova)
{
    uint64_t top = 1ull << 32, bottom = top - rk.iova_bytes;
    struct rk_object **link = &rk.objects;
    for (;; link = &(*link)->next) {
        while (*link && (*link)->domain != domain)
            link = &(*link)->next;
        uint64_t end = *link ? (*link)->iova + (*link)->size_bytes : bottom;
        if (top >= size && (top - size) / alignment * alignment >= end) {
            *iova = (uint32_t)((top - size) / alignment * alignment);
            return link;
        }
        if (!*link)
            return NULL;
        top = (*link)->iova;
    }
}

static int object_create(struct rk_object **made, uint32_t flags, uint64_t size, uint32_t domain)
{
    if (rk.version < 907 && flags & RK_IOVA_ALIGNMENT)
        return -EINVAL;
    size = (size + RK_PAGE - 1) / RK_PAGE * RK_PAGE;
    struct ork_npu_fault fault = ork_npu_faults_next_allocation(rk.faults, size, rk.held_bytes, rk.held_objects);
    if (fault.kind == ORK_FAULT_DESCRIPTORS)
        return -EMFILE;
    if (!size || size > 1ull << 40)
        return -EINVAL;
    if (fault.kind == ORK_FAULT_MEMORY || rk.held_bytes + size > rk.memory_bytes)
        return -ENOMEM;
    uint64_t alignment = RK_PAGE;
    while (!(flags & RK_IOVA_ALIGNMENT) && alignment < size && alignment < 128ull << 20)
        alignment *= 2;
    uint32_t iova;
    struct rk_object **link = find_gap(domain, size, alignment, &iova);
    if (!link)
        return -EFAULT; /* what the driver answers when addresses run out */
    struct rk_object *o = calloc(1, sizeof *o);
    if (!o)
        return -ENOMEM;
    *o = (struct rk_object){.next = *link,
                            .id = rk.next_id,
                            .flags = flags,
                            .domain = domain,
                            .iova = iova,
                            .size_bytes = size,
                            .map_offset = rk.next_offset,
                            .references = 1};
    o->host = shim_pages_allocate(size);
    o->device = flags & RK_CACHEABLE ? shim_pages_allocate(size) : o->host;
    o->fresh = calloc(size / RK_PAGE, sizeof *o->fresh);
    ork_error error;
    if (!o->host || !o->device || !o->fresh ||
        ork_silicon_map(rk.silicon, domain, iova, o->device, size, true, &error) != ORK_OK) {
        if (o->device != o->host)
            shim_pages_free(o->device, size);
        shim_pages_free(o->host, size);
        free(o->fresh);
        free(o);
        return -ENOMEM;
    }
    if (flags & RK_CACHEABLE) {
        memset(o->fresh, true, size / RK_PAGE);
        o->fresh_pages = size / RK_PAGE;
    }
    *link = o;
    rk.next_id += 0x400;
    rk.next_offset += size;
    rk.held_bytes += size;
    rk.held_objects++;
    *made = o;
    return 0;
}

static int handle_add(struct file *file, struct rk_object *object, uint32_t *handle)
{
    uint32_t h = 1;
    while (h < file->handle_room && file->handles[h])
        h++;
    if (h >= file->handle_room) {
        uint32_t room = file->handle_room ? 2 * file->handle_room : 64;
        struct rk_object **more = realloc(file->handles, room * sizeof(*more));
        if (!more)
            return -ENOMEM;
        memset(more + file->handle_room, 0, (room - file->handle_room) * sizeof(*more));
        file->handles = more;
        file->handle_room = room;
    }
    file->handles[h] = object;
    *handle = h;
    return 0;
}

static struct rk_object *handle_find(const struct file *file, uint32_t handle)
{
    return handle < file->handle_room ? file->handles[handle] : NULL;
}

/* ---- requests; each gets the kernel's copy of the struct ---- */

static int memory_create(void *context, void *copy)
{
    struct file *file = context;
    struct rk_object *object = handle_find(file, rk_get32(copy, 0));
    if (!object) {
        uint32_t domain = rk.version >= 908 ? rk_get32(copy, 40) : 0, handle;
        if (!rk_get64(copy, 8) || rk_domain_get(domain))
            return -EINVAL;
        int result = object_create(&object, rk_get32(copy, 4), rk_get64(copy, 8), domain);
        rk_domain_put();
        if (!result && (result = handle_add(file, object, &handle)))
            rk_object_put(object);
        if (result)
            return result;
        rk_put32(copy, 0, handle);
    }
    rk_put64(copy, 8, object->size_bytes);
    rk_put64(copy, 16, object->id);
    rk_put64(copy, 24, object->iova);
    return 0;
}

static int memory_map(void *context, void *copy)
{
    struct rk_object *object = handle_find(context, rk_get32(copy, 0));
    if (!object)
        return -ENOENT;
    rk_put64(copy, 8, object->map_offset);
    return 0;
}

static int memory_destroy(void *context, void *copy)
{
    struct file *file = context;
    uint32_t handle = rk_get32(copy, 0);
    struct rk_object *object = handle_find(file, handle);
    if (!object)
        return -EINVAL;
    for (int tries = 0; rk_domain_get(object->domain);)
        if (++tries == 3)
            return -EINVAL;
    file->handles[handle] = NULL;
    rk_object_put(object);
    rk_domain_put();
    return 0;
}

static int memory_sync(void *context, void *copy)
{
    (void)context;
    uint32_t flags = rk_get32(copy, 0);
    uint64_t id = rk_get64(copy, 8), offset = rk_get64(copy, 16), size = rk_get64(copy, 24);
    struct rk_object *o = id ? rk_object_find(id) : NULL;
    if (id && !o) {
        shim_oops("MEM_SYNC of an unknown object %#llx", (unsigned long long)id);
        return -EFAULT;
    }
    if (!o || !(o->flags & RK_CACHEABLE))
        return -EINVAL;
    if (offset > o->size_bytes || size > o->size_bytes - offset) {
        shim_oops("MEM_SYNC of %llu bytes at %llu, the object has %llu", (unsigned long long)size,
                  (unsigned long long)offset, (unsigned long long)o->size_bytes);
        return -EFAULT;
    }
    if (rk_domain_get(o->domain))
        return -EINVAL;
    if (flags & SYNC_TO_DEVICE) {
        copy_words(o->device + offset, o->host + offset, size);
        for (uint64_t page = (offset + RK_PAGE - 1) / RK_PAGE; o->fresh_pages && page < (offset + size) / RK_PAGE;
             page++)
            if (o->fresh[page]) {
                o->fresh[page] = false;
                o->fresh_pages--;
            }
    }
    if (flags & SYNC_FROM_DEVICE)
        copy_words(o->host + offset, o->device + offset, size);
    rk_domain_put();
    return 0;
}

static int action(void *context, void *copy)
{
    (void)context;
    int result = 0;
    switch (rk_get32(copy, 0)) {
    case 0:
        rk_put32(copy, 4, rk.hardware);
        break;
    case 1:
        rk_put32(copy, 4, rk.version);
        break;
    case 2:
        rk_put32(copy, 4, rk.frequency);
        break;
    case 4:
        rk_put32(copy, 4, 800000);
        break;
    case 6:
        return rk_soft_reset();
    case 13:
    case 19:
        break;
    case 14:
    case 15:
    case 16:
    case 17:
    case 22:
    case 23:
        rk_put32(copy, 4, 0);
        break;
    case 18:
        rk_put32(copy, 4, rk.iommu);
        break;
    case 24:
        if (rk.version < 908)
            return -EINVAL;
        rk_put32(copy, 4, rk.domain);
        break;
    case 25:
        result = rk.version < 908 ? -EINVAL : rk_domain_get(rk_get32(copy, 4));
        if (!result)
            rk_domain_put();
        break;
    default: /* 3, 5: never implemented; 7 to 12: not on this SoC; 20, 21: dropped */
        return -EINVAL;
    }
    return result;
}

static int submit(void *context, void *copy)
{
    (void)context;
    return rk_submit(copy);
}

static int gem_close(void *context, void *copy)
{
    struct file *file = context;
    uint32_t handle = rk_get32(copy, 0);
    struct rk_object *object = handle_find(file, handle);
    if (!object)
        return -EINVAL;
    file->handles[handle] = NULL;
    rk_object_put(object);
    return 0;
}

static const struct request {
    char type;
    uint8_t number;
    uint16_t size_bytes;
    const char *name;
    int (*handler)(void *context, void *copy);
} requests[] = {
    {'d', 0x09, 8, "DRM_IOCTL_GEM_CLOSE", gem_close}, {'d', 0x40, 8, "RKNPU_ACTION", action},
    {'d', 0x41, 104, "RKNPU_SUBMIT", submit},         {'d', 0x42, 48, "RKNPU_MEM_CREATE", memory_create},
    {'d', 0x43, 16, "RKNPU_MEM_MAP", memory_map},     {'d', 0x44, 16, "RKNPU_MEM_DESTROY", memory_destroy},
    {'d', 0x45, 32, "RKNPU_MEM_SYNC", memory_sync},   {'r', 0, 8, "RKNPU_ACTION", action},
};

static const struct request *request_find(unsigned long request)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if ((char)_IOC_TYPE(request) == requests[i].type && _IOC_NR(request) == requests[i].number)
            return &requests[i];
    return NULL;
}

static int rknpu_ioctl(void *context, unsigned long request, void *argument)
{
    struct file *file = context;
    if (file->display)
        return request == SHIM_DRM_VERSION
                   ? shim_drm_version(argument, 3, 0, 0, "rockchip", "20140818", "RockChip Soc DRM")
                   : -EINVAL;
    if (request == SHIM_DRM_VERSION)
        return rk.misc ? -EINVAL
                       : shim_drm_version(argument, 0, (int)(rk.version / 100 % 100), (int)(rk.version % 100), "rknpu",
                                          "20240828", "RKNPU driver");
    const struct request *r = request_find(request);
    if (!r || (r->type == 'r') != rk.misc)
        return -EINVAL;
    uint32_t size = r->number == 0x42 && rk.version < 906 ? 40 : r->size_bytes;
    pthread_mutex_lock(&rk.lock);
    uint64_t number = ++rk.requests;
    int result = rk.interrupt_every && number % rk.interrupt_every == 0 ? -EINTR
                 : rk.restart_every && number % rk.restart_every == 0   ? -ERESTARTSYS_NUMBER
                                                                        : 0;
    if (!result) {
        unsigned directions = r->number == 0x09 ? _IOC_WRITE : _IOC_READ | _IOC_WRITE;
        result = shim_drm_call(file, request, _IOC(directions, r->type, r->number, size), argument, r->handler);
    }
    pthread_mutex_unlock(&rk.lock);
    return result;
}

/* ---- nodes ---- */

static int rknpu_open(const char *path, int flags, void **made)
{
    (void)flags;
    unsigned number;
    char extra;
    bool card = sscanf(path, "/dev/dri/card%u%c", &number, &extra) == 1;
    bool render = !card && sscanf(path, "/dev/dri/renderD%u%c", &number, &extra) == 1 && number >= 128;
    if (render)
        number -= 128;
    bool misc = !strcmp(path, "/dev/rknpu");
    bool display = (card || render) && number < rk.node;
    bool ours = rk.misc ? misc : (card || render) && number == rk.node;
    if (!display && !ours)
        return -ENOENT;
    if (ours && rk.open_error)
        return -rk.open_error;
    struct file *file = calloc(1, sizeof *file);
    if (!file)
        return -ENOMEM;
    file->display = display;
    *made = file;
    return 0;
}

static int rknpu_close(void *context)
{
    struct file *file = context;
    pthread_mutex_lock(&rk.lock);
    for (uint32_t i = 0; i < file->handle_room; i++)
        if (file->handles[i])
            rk_object_put(file->handles[i]);
    pthread_mutex_unlock(&rk.lock);
    free(file->handles);
    free(file);
    return 0;
}

static int rknpu_map(void *context, size_t size, int protection, uint64_t offset, void **address)
{
    (void)protection;
    const struct file *file = context;
    int result = -EINVAL;
    pthread_mutex_lock(&rk.lock);
    for (uint32_t i = 0; i < file->handle_room; i++) {
        struct rk_object *o = file->handles[i];
        if (!o || o->map_offset != offset || size > o->size_bytes)
            continue;
        /* Without NON_CONTIGUOUS the driver falls back to pages that it then cannot map. */
        if (!(o->flags & RK_NON_CONTIGUOUS))
            break;
        o->references++;
        o->mappings++;
        *address = o->host;
        result = 0;
        break;
    }
    pthread_mutex_unlock(&rk.lock);
    return result;
}

static int rknpu_unmap(void *address, size_t size)
{
    int result = -ENOENT;
    pthread_mutex_lock(&rk.lock);
    for (struct rk_object *o = rk.objects; o; o = o->next)
        if (o->host == address) {
            result = o->mappings && (size + RK_PAGE - 1) / RK_PAGE * RK_PAGE == o->size_bytes ? 0 : -EINVAL;
            if (!result) {
                o->mappings--;
                rk_object_put(o);
            }
            break;
        }
    pthread_mutex_unlock(&rk.lock);
    return result;
}

static bool rknpu_describe(unsigned long request, const void *argument, char *text, size_t size)
{
    const struct request *r = request_find(request);
    if (!r || !argument || (r->number == 0x41 && _IOC_SIZE(request) < 104) || _IOC_SIZE(request) < 8)
        return false;
    const void *a = argument;
    int n = snprintf(text, size, "%s, ", r->name);
    text += n;
    size -= (size_t)n;
    switch (r->number) {
    case 0x41:
        snprintf(
            text, size,
            "{flags=%#x, timeout=%u, task_start=%u, task_number=%u, task_counter=%u, priority=%d, task_obj_addr=%#llx, "
            "iommu_domain_id=%u, task_base_addr=%#llx, hw_elapse_time=%lld, core_mask=%#x, fence_fd=%d, "
            "subcore_task=[{%u, %u}, {%u, %u}, {%u, %u}, {%u, %u}, {%u, %u}]}",
            rk_get32(a, 0), rk_get32(a, 4), rk_get32(a, 8), rk_get32(a, 12), rk_get32(a, 16), (int)rk_get32(a, 20),
            (unsigned long long)rk_get64(a, 24), rk_get32(a, 32), (unsigned long long)rk_get64(a, 40),
            (long long)rk_get64(a, 48), rk_get32(a, 56), (int)rk_get32(a, 60), rk_get32(a, 64), rk_get32(a, 68),
            rk_get32(a, 72), rk_get32(a, 76), rk_get32(a, 80), rk_get32(a, 84), rk_get32(a, 88), rk_get32(a, 92),
            rk_get32(a, 96), rk_get32(a, 100));
        break;
    case 0x42:
        n = snprintf(text, size, "{handle=%u, flags=%#x, size=%llu, obj_addr=%#llx, dma_addr=%#llx", rk_get32(a, 0),
                     rk_get32(a, 4), (unsigned long long)rk_get64(a, 8), (unsigned long long)rk_get64(a, 16),
                     (unsigned long long)rk_get64(a, 24));
        if (_IOC_SIZE(request) >= 48)
            snprintf(text + n, size - (size_t)n, ", iommu_domain_id=%d}", (int)rk_get32(a, 40));
        else
            snprintf(text + n, size - (size_t)n, "}");
        break;
    case 0x43:
        snprintf(text, size, "{handle=%u, offset=%#llx}", rk_get32(a, 0), (unsigned long long)rk_get64(a, 8));
        break;
    case 0x44:
        snprintf(text, size, "{handle=%u, obj_addr=%#llx}", rk_get32(a, 0), (unsigned long long)rk_get64(a, 8));
        break;
    case 0x45:
        snprintf(text, size, "{flags=%#x, obj_addr=%#llx, offset=%llu, size=%llu}", rk_get32(a, 0),
                 (unsigned long long)rk_get64(a, 8), (unsigned long long)rk_get64(a, 16),
                 (unsigned long long)rk_get64(a, 24));
        break;
    case 0x09:
        snprintf(text, size, "{handle=%u}", rk_get32(a, 0));
        break;
    default:
        snprintf(text, size, "{flags=%u, value=%#x}", rk_get32(a, 0), rk_get32(a, 4));
    }
    return true;
}

static uint64_t rknpu_count(const char *name)
{
    pthread_mutex_lock(&rk.lock);
    const struct {
        const char *name;
        uint64_t value;
    } table[] = {
        {"objects", rk.held_objects},
        {"held_bytes", rk.held_bytes},
        {"domain", rk.domain},
        {"references", (uint64_t)rk.domain_references},
        {"switches", rk.count.switches},
        {"submits", rk.count.submits},
        {"kicks", rk.count.kicks},
        {"completed", rk.count.completed},
        {"resets", rk.count.resets},
        {"reaped", rk.count.reaped},
        {"leaked", rk.count.leaked},
        {"anomalies", rk.count.anomalies},
        {"spurious", rk.count.spurious},
        {"evicted", rk.count.evicted},
        {"freed_busy", rk.count.freed_busy},
        {"requests", rk.requests},
    };
    uint64_t value = UINT64_MAX;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            value = table[i].value;
    pthread_mutex_unlock(&rk.lock);
    return value;
}

static int rknpu_start(const struct shim_options *options, struct ork_npu_faults *faults)
{
    static const pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    memset(&rk, 0, sizeof rk);
    rk.lock = lock;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&rk.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    unsigned major, minor, patch;
    if (sscanf(shim_option(options, "version", "0.9.8"), "%u.%u.%u", &major, &minor, &patch) != 3)
        return -EINVAL;
    rk.version = major * 10000 + minor * 100 + patch;
    rk.misc = !strcmp(shim_option(options, "flavour", "drm"), "misc");
    rk.node = (uint32_t)shim_option_number(options, "node", 1);
    const char *open_error = shim_option(options, "open", "");
    rk.open_error = !strcmp(open_error, "EACCES") ? EACCES : !strcmp(open_error, "EBUSY") ? EBUSY : 0;
    rk.iommu = shim_option_number(options, "iommu", 1) != 0;
    rk.hardware = (uint32_t)shim_option_number(options, "hardware", 0x46495245);
    rk.frequency = (uint32_t)shim_option_number(options, "frequency", 1000000000);
    rk.memory_bytes = shim_option_number(options, "memory_mb", rk.iommu ? 65536 : 12) << 20;
    rk.iova_bytes = shim_option_number(options, "iova_mb", 3900) << 20;
    rk.switch_ms = (uint32_t)shim_option_number(options, "switch_ms", 6000);
    rk.reset_ms = (uint32_t)shim_option_number(options, "reset_ms", 100);
    rk.job_us = (uint32_t)shim_option_number(options, "job_us", 0);
    rk.interrupt_every = (uint32_t)shim_option_number(options, "interrupt", 0);
    rk.restart_every = (uint32_t)shim_option_number(options, "restart", 0);
    rk.leak = shim_option_number(options, "leak", 1) != 0;
    rk.faults = faults;
    rk.next_id = 0xffffff8100400000ull;
    rk.next_offset = 1ull << 32;
    return rk_jobs_start();
}

static int rknpu_stop(void)
{
    rk_jobs_stop();
    pthread_mutex_lock(&rk.lock);
    int left = (int)rk.held_objects;
    while (rk.objects) { /* mapped by somebody still */
        struct rk_object *object = rk.objects;
        rk.objects = object->next;
        if (object->device != object->host)
            shim_pages_free(object->device, object->size_bytes);
        shim_pages_free(object->host, object->size_bytes);
        free(object->fresh);
        free(object);
    }
    pthread_mutex_unlock(&rk.lock);
    pthread_cond_destroy(&rk.changed);
    pthread_mutex_destroy(&rk.lock);
    return left;
}

const struct shim_driver shim_rknpu = {
    .name = "rknpu",
    .start = rknpu_start,
    .stop = rknpu_stop,
    .open = rknpu_open,
    .close = rknpu_close,
    .ioctl = rknpu_ioctl,
    .map = rknpu_map,
    .unmap = rknpu_unmap,
    .describe = rknpu_describe,
    .count = rknpu_count,
};
