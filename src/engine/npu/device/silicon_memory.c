/* The address spaces of the silicon model: which host memory stands at which address of a domain. Knows no registers. */
#include "engine/npu/device/silicon_internal.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_SPACE (1ull << 32) /* npu-hw.md 1.10: 32-bit addresses */

/* Index of the first mapping that ends behind the address. */
static uint32_t find_mapping(const struct silicon_domain *domain, uint64_t address)
{
    uint32_t low = 0, high = domain->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct silicon_mapping *mapping = &domain->mappings[middle];
        if (mapping->iova + mapping->size_bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint8_t *silicon_translate(const struct silicon_domain *domain, uint64_t address, uint64_t size_bytes, bool write,
                           bool *read_only)
{
    const uint32_t i = find_mapping(domain, address);
    if (i == domain->count || address < domain->mappings[i].iova)
        return NULL;
    const struct silicon_mapping *mapping = &domain->mappings[i];
    const uint64_t inside = address - mapping->iova;
    if (size_bytes > mapping->size_bytes - inside)
        return NULL;
    if (write && !mapping->writable) {
        if (read_only)
            *read_only = true;
        return NULL;
    }
    return mapping->host + inside;
}

static ork_status insert(struct silicon_domain *domain, const struct silicon_mapping *mapping, ork_error *error)
{
    const uint32_t at = find_mapping(domain, mapping->iova);
    if (at < domain->count && domain->mappings[at].iova < mapping->iova + mapping->size_bytes)
        return ork_error_set(error, ORK_EXISTS, NULL, -1, "address 0x%" PRIx64 " is mapped already", mapping->iova);
    if (domain->count == domain->capacity) {
        const uint32_t capacity = domain->capacity ? 2 * domain->capacity : 16;
        struct silicon_mapping *grown = realloc(domain->mappings, capacity * sizeof *grown);
        if (!grown)
            return ork_error_no_memory(error, NULL, capacity * sizeof *grown);
        domain->mappings = grown;
        domain->capacity = capacity;
    }
    memmove(&domain->mappings[at + 1], &domain->mappings[at], (domain->count - at) * sizeof *mapping);
    domain->mappings[at] = *mapping;
    domain->count++;
    return ORK_OK;
}

ork_status ork_silicon_map(struct ork_silicon *silicon, uint32_t domain, uint32_t iova, void *host, uint64_t size_bytes,
                           bool writable, ork_error *error)
{
    if (domain >= SILICON_DOMAINS)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "domain %" PRIu32 ", there are %u", domain,
                             SILICON_DOMAINS);
    if (!host || size_bytes == 0 || size_bytes > ADDRESS_SPACE - iova)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1,
                             "%" PRIu64 " bytes at 0x%" PRIx32 " do not fit 32-bit addresses", size_bytes, iova);
    const struct silicon_mapping mapping = {.iova = iova, .size_bytes = size_bytes, .host = host, .writable = writable};
    pthread_rwlock_wrlock(&silicon->lock);
    const ork_status status = insert(&silicon->domains[domain], &mapping, error);
    pthread_rwlock_unlock(&silicon->lock);
    return status;
}

void ork_silicon_unmap(struct ork_silicon *silicon, uint32_t domain, uint32_t iova)
{
    if (domain >= SILICON_DOMAINS)
        return;
    pthread_rwlock_wrlock(&silicon->lock);
    struct silicon_domain *space = &silicon->domains[domain];
    const uint32_t at = find_mapping(space, iova);
    if (at < space->count && space->mappings[at].iova == iova) {
        space->count--;
        memmove(&space->mappings[at], &space->mappings[at + 1], (space->count - at) * sizeof *space->mappings);
    }
    pthread_rwlock_unlock(&silicon->lock);
}

void silicon_domains_free(struct ork_silicon *silicon)
{
    for (uint32_t i = 0; i < SILICON_DOMAINS; i++)
        free(silicon->domains[i].mappings);
}
