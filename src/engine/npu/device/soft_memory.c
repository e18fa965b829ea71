/* Buffers of the software device: address spaces of 4 GiB, given out from the top as the vendor driver does (npu-hw.md 1.8),
 * anonymous pages and imports. Knows no times but what its calls take. */
#include "engine/npu/device/soft_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

#define ADDRESS_SPACE (1ull << 32)
#define COST_UNIT_BYTES (4ull << 20) /* what the profile's allocate_us and release_us are for */

struct soft_buffer *soft_find(struct soft *soft, const struct ork_npu_buffer *buffer)
{
    if (!buffer || buffer->handle == 0 || buffer->handle > SOFT_BUFFERS_MAX)
        return NULL;
    struct soft_buffer *found = &soft->buffers[buffer->handle - 1];
    return found->host && found->object == buffer->object ? found : NULL;
}

/* The highest free run of addresses in a domain; false: none. */
static bool find_address(const struct soft *soft, uint32_t domain, uint64_t size_bytes, uint32_t *iova)
{
    uint64_t end = ADDRESS_SPACE;
    while (end >= size_bytes) {
        const struct soft_buffer *in_the_way = NULL;
        for (uint32_t i = 0; i < SOFT_BUFFERS_MAX && !in_the_way; i++) {
            const struct soft_buffer *other = &soft->buffers[i];
            if (other->host && other->domain == domain && other->iova < end &&
                other->iova + other->size_bytes > end - size_bytes)
                in_the_way = other;
        }
        if (!in_the_way) {
            *iova = (uint32_t)(end - size_bytes);
            return true;
        }
        end = in_the_way->iova;
    }
    return false;
}

static ork_status refuse_size(const struct soft *soft, uint32_t domain, uint64_t size_bytes, const char *why,
                              ork_error *error)
{
    const uint64_t used = domain < ORK_NPU_DOMAINS_MAX ? soft->domain_bytes[domain] : 0;
    return ork_error_set(error, ORK_NO_MEMORY, "soft NPU", -1,
                         "%" PRIu64 " bytes in domain %" PRIu32 ", which uses %" PRIu64 " of %" PRIu64 ": %s", size_bytes,
                         domain, used, soft->capabilities.domain_bytes, why);
}

/* A free record with an address for so many bytes, not yet mapped. */
static ork_status reserve(struct soft *soft, uint32_t domain, uint64_t size_bytes, bool imported,
                          struct soft_buffer **buffer, ork_error *error)
{
    if (domain >= soft->capabilities.domains)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "domain %" PRIu32 ", there are %" PRIu32, domain,
                             soft->capabilities.domains);
    const struct ork_npu_fault fault = ork_npu_faults_next_allocation(
        soft->faults, imported ? 0 : size_bytes, soft->stats.held_bytes, soft->stats.held_buffers);
    if (fault.kind == ORK_FAULT_MEMORY)
        return refuse_size(soft, domain, size_bytes, "out of memory (scripted)", error);
    struct soft_buffer *free_one = NULL;
    for (uint32_t i = 0; i < SOFT_BUFFERS_MAX && !free_one; i++)
        if (!soft->buffers[i].host)
            free_one = &soft->buffers[i];
    if (fault.kind == ORK_FAULT_DESCRIPTORS || !free_one)
        return ork_error_set(error, ORK_LIMIT, "soft NPU", -1, "%" PRIu64 " buffers are held: no descriptor left",
                             soft->stats.held_buffers);
    uint32_t iova;
    if (size_bytes > soft->capabilities.domain_bytes - soft->domain_bytes[domain])
        return refuse_size(soft, domain, size_bytes, "more than is left", error);
    if (!find_address(soft, domain, size_bytes, &iova))
        return refuse_size(soft, domain, size_bytes, "no run of addresses is that long", error);
    *free_one = (struct soft_buffer){
        .size_bytes = size_bytes, .object = ++soft->objects, .iova = iova, .domain = domain, .imported = imported};
    *buffer = free_one;
    return ORK_OK;
}

/* Maps a reserved record's host memory and hands it out. */
static ork_status publish(struct soft *soft, struct soft_buffer *made, uint8_t *host, struct ork_npu_buffer *buffer,
                          ork_error *error)
{
    const ork_status status =
        ork_silicon_map(soft->silicon, made->domain, made->iova, host, made->size_bytes, !made->imported, error);
    if (status != ORK_OK)
        return status;
    made->host = host;
    soft->domain_bytes[made->domain] += made->size_bytes;
    soft->stats.held_bytes += made->imported ? 0 : made->size_bytes;
    soft->stats.held_buffers++;
    *buffer = (struct ork_npu_buffer){.host = host,
                                      .size_bytes = made->size_bytes,
                                      .iova = made->iova,
                                      .domain = made->domain,
                                      .handle = (uint64_t)(made - soft->buffers) + 1,
                                      .object = made->object,
                                      .imported = made->imported};
    soft_spend_ns(soft, soft_ns(soft->profile.allocate_us) * ork_divide_up(made->size_bytes, COST_UNIT_BYTES));
    return ORK_OK;
}

ork_status soft_allocate(struct ork_npu_device *device, uint32_t domain, uint64_t size_bytes,
                         struct ork_npu_buffer *buffer, ork_error *error)
{
    struct soft *soft = soft_of(device);
    if (size_bytes == 0 || size_bytes > soft->capabilities.domain_bytes)
        return refuse_size(soft, domain, size_bytes, "a buffer has 1 byte to all of a domain", error);
    const uint64_t rounded = ork_round_up(size_bytes, SOFT_PAGE);
    struct soft_buffer *made;
    ork_status status = reserve(soft, domain, rounded, false, &made, error);
    if (status != ORK_OK)
        return status;
    uint8_t *host = ork_pages_allocate(rounded);
    if (!host)
        return refuse_size(soft, domain, rounded, "the system has no memory", error);
    status = publish(soft, made, host, buffer, error);
    if (status != ORK_OK)
        ork_pages_free(host, rounded);
    return status;
}

ork_status soft_import(struct ork_npu_device *device, uint32_t domain, const void *host, uint64_t size_bytes,
                       struct ork_npu_buffer *buffer, ork_error *error)
{
    struct soft *soft = soft_of(device);
    if (!host || (uintptr_t)host % SOFT_PAGE || size_bytes == 0 || size_bytes % SOFT_PAGE)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "imports must be whole pages, not %" PRIu64 " bytes",
                             size_bytes);
    if (size_bytes > soft->capabilities.domain_bytes)
        return refuse_size(soft, domain, size_bytes, "more than a domain", error);
    struct soft_buffer *made;
    const ork_status status = reserve(soft, domain, size_bytes, true, &made, error);
    /* The silicon never writes there: the mapping is for reading alone. */
    return status == ORK_OK ? publish(soft, made, (uint8_t *)(uintptr_t)host, buffer, error) : status;
}

static bool used_by_job(struct soft *soft, uint32_t handle)
{
    for (struct ork_npu_job *job = soft->jobs; job; job = job->next) {
        bool named = false;
        for (uint32_t i = 0; i < job->buffer_count; i++)
            named |= job->handles[i] == handle;
        if (named && soft_job_in_use(soft, job))
            return true;
    }
    return false;
}

void soft_release(struct ork_npu_device *device, struct ork_npu_buffer *buffer)
{
    struct soft *soft = soft_of(device);
    struct soft_buffer *found = soft_find(soft, buffer);
    pthread_mutex_lock(&soft->lock);
    const bool misuse = !found || used_by_job(soft, (uint32_t)buffer->handle);
    soft->stats.misuses += misuse;
    pthread_mutex_unlock(&soft->lock);
    if (misuse)
        return;
    ork_silicon_unmap(soft->silicon, found->domain, found->iova);
    if (!found->imported)
        ork_pages_free(found->host, found->size_bytes);
    soft->domain_bytes[found->domain] -= found->size_bytes;
    soft->stats.held_bytes -= found->imported ? 0 : found->size_bytes;
    soft->stats.held_buffers--;
    soft_spend_ns(soft, soft_ns(soft->profile.release_us) * ork_divide_up(found->size_bytes, COST_UNIT_BYTES));
    *found = (struct soft_buffer){0};
    *buffer = (struct ork_npu_buffer){0};
}

ork_status soft_sync(struct ork_npu_device *device, const struct ork_npu_buffer *buffer, uint64_t offset,
                     uint64_t size_bytes, enum ork_npu_direction direction, ork_error *error)
{
    struct soft *soft = soft_of(device);
    const struct soft_buffer *found = soft_find(soft, buffer);
    if (!found)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "sync of a buffer that this device does not have");
    if (offset > found->size_bytes || size_bytes > found->size_bytes - offset)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1,
                             "sync of %" PRIu64 " bytes at %" PRIu64 " of a buffer of %" PRIu64, size_bytes, offset,
                             found->size_bytes);
    if (direction != ORK_NPU_TO_DEVICE && direction != ORK_NPU_FROM_DEVICE)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "soft NPU", -1, "sync in direction %d", (int)direction);
    /* Host memory is one; only output that is due now must really stand in it. */
    pthread_mutex_lock(&soft->lock);
    soft_write_due(soft);
    pthread_mutex_unlock(&soft->lock);
    return ORK_OK;
}

void soft_buffers_free(struct soft *soft)
{
    for (uint32_t i = 0; i < SOFT_BUFFERS_MAX; i++)
        if (soft->buffers[i].host && !soft->buffers[i].imported)
            ork_pages_free(soft->buffers[i].host, soft->buffers[i].size_bytes);
}
