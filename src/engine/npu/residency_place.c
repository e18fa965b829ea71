/* Where weights stand: layers into domains, units into few large chunks, planes of the pack as imports. Knows no order of
 * use: that is residency_slots.c. */
#include "engine/npu/residency_inner.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

enum { FAILURES_MAX = 8 }; /* allocations that fail one after another before a domain is given up */

/* ---- buffers ---- */

static struct ork_npu_buffer *next_buffer(struct ork_npu_residency *r)
{
    if (r->buffer_count == r->buffer_capacity) {
        uint32_t capacity = r->buffer_capacity ? 2 * r->buffer_capacity : 64;
        struct ork_npu_buffer *buffers = realloc(r->buffers, capacity * sizeof *buffers);
        if (!buffers)
            return NULL;
        r->buffers = buffers;
        r->buffer_capacity = capacity;
    }
    return &r->buffers[r->buffer_count];
}

static bool may_map(const struct ork_npu_residency *r, uint32_t domain, uint64_t size_bytes)
{
    return r->buffer_count < r->mappings_max && size_bytes <= r->domain_capacity - r->domain_used[domain];
}

static uint64_t buffer_bytes_max(const struct ork_npu_residency *r)
{
    return r->capabilities->buffer_bytes_max ? r->capabilities->buffer_bytes_max : UINT64_MAX;
}

/* ---- imports ---- */

static bool may_import(const struct ork_npu_residency *r, const struct residency_matrix *m, uint64_t page)
{
    const struct ork_matrix *matrix = m->matrix;
    bool same = m->type == ORK_NPU_W4A4 ? matrix->tier == ORK_TIER_I4 : matrix->tier == ORK_TIER_I8;
    return r->capabilities->imports && same && (uintptr_t)matrix->data % page == 0 &&
           (matrix->experts == 1 || matrix->data_expert_stride % page == 0);
}

/* Whole experts from `expert` on as one mapping, which ends with the page of their last byte. Returns how many. */
static uint32_t import_run(struct ork_npu_residency *r, const struct residency_matrix *m, uint32_t expert,
                           uint64_t page)
{
    const uint64_t stride = m->matrix->data_expert_stride;
    const uint32_t domain = r->units[m->first_unit + expert].domain;
    uint64_t size_bytes = ork_round_up(m->unit_bytes, page);
    uint32_t count = 1;
    while (expert + count < m->matrix->experts && count * stride + size_bytes <= RESIDENCY_IMPORT_BYTES &&
           r->units[m->first_unit + expert + count].domain == domain)
        count++;
    size_bytes += (count - 1) * stride;
    struct ork_npu_buffer *buffer = next_buffer(r);
    if (!buffer || size_bytes > buffer_bytes_max(r) || !may_map(r, domain, size_bytes))
        return count;
    if (r->device->ops->import(r->device, domain, m->matrix->data + expert * stride, size_bytes, buffer, NULL) !=
        ORK_OK) {
        r->stats.failed_allocations++;
        return count;
    }
    r->domain_used[domain] += size_bytes;
    r->stats.imported_bytes += size_bytes;
    for (uint32_t i = 0; i < count; i++) {
        struct residency_unit *unit = &r->units[m->first_unit + expert + i];
        unit->imported = true;
        unit->buffer = r->buffer_count;
        unit->offset = i * stride;
    }
    r->buffer_count++;
    return count;
}

static void import_all(struct ork_npu_residency *r)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < r->matrix_count; i++) {
        const struct residency_matrix *m = &r->matrices[i];
        if (may_import(r, m, page))
            for (uint32_t expert = 0; expert < m->matrix->experts;)
                expert += import_run(r, m, expert, page);
    }
}

/* ---- layers to domains ---- */

/* How many domains it takes when memory for slots is `budget`, and so the share of each layer that is there at once. */
static uint32_t domains_needed(const struct ork_npu_residency *r, uint64_t import_bytes, uint64_t slot_bytes,
                               uint64_t budget)
{
    uint64_t there = import_bytes + (slot_bytes < budget ? slot_bytes : budget);
    uint64_t needed = r->domain_capacity ? ork_divide_up(there, r->domain_capacity) : 1;
    return needed < 1 ? 1 : needed > r->domains ? r->domains : (uint32_t)needed;
}

/* Each unit to the domain that has least so far; for devices whose domains run side by side. */
static void spread_units(struct ork_npu_residency *r)
{
    uint64_t assigned[ORK_NPU_DOMAINS_MAX] = {0};
    for (uint32_t i = 0; i < r->unit_count; i++) {
        uint32_t least = 0;
        for (uint32_t d = 1; d < r->domains; d++)
            if (assigned[d] < assigned[least])
                least = d;
        r->units[i].domain = (uint8_t)least;
        assigned[least] += residency_matrix_of(r, i)->unit_bytes;
    }
}

static uint64_t layer_bytes(const struct ork_npu_residency *r, uint32_t first, uint32_t *end, double share,
                            uint64_t page)
{
    double bytes = 0;
    uint32_t i = first;
    for (; i < r->matrix_count && r->matrices[i].layer == r->matrices[first].layer; i++) {
        const struct residency_matrix *m = &r->matrices[i];
        bytes += (double)m->unit_bytes * m->matrix->experts * (may_import(r, m, page) ? 1.0 : share);
    }
    *end = i;
    return (uint64_t)bytes;
}

/* Runs of whole layers of about the same size to `count` domains. */
static void split_layers(struct ork_npu_residency *r, uint32_t count, uint64_t total, double share, uint64_t page)
{
    uint64_t before = 0;
    for (uint32_t first = 0, end; first < r->matrix_count; first = end) {
        uint64_t bytes = layer_bytes(r, first, &end, share, page);
        uint32_t domain = total ? (uint32_t)((double)(before + bytes / 2) / (double)total * count) : 0;
        before += bytes;
        for (uint32_t i = first; i < end; i++)
            for (uint32_t e = 0; e < r->matrices[i].matrix->experts; e++)
                r->units[r->matrices[i].first_unit + e].domain = (uint8_t)(domain < count ? domain : count - 1);
    }
}

static void choose_domains(struct ork_npu_residency *r, uint64_t budget)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t import_bytes = 0, slot_bytes = 0;
    if (r->capabilities->core_per_domain) {
        spread_units(r);
        return;
    }
    for (uint32_t i = 0; i < r->matrix_count; i++) {
        const struct residency_matrix *m = &r->matrices[i];
        *(may_import(r, m, page) ? &import_bytes : &slot_bytes) += m->unit_bytes * m->matrix->experts;
    }
    const double share = slot_bytes > budget ? (double)budget / (double)slot_bytes : 1.0;
    const uint64_t total = import_bytes + (uint64_t)(share * (double)slot_bytes);
    /* Whole layers do not fill domains evenly: one domain more than the bytes need, when these nearly fill theirs. */
    uint32_t count = domains_needed(r, import_bytes, slot_bytes, budget);
    if (count < r->domains && total / count > r->domain_capacity / 16 * 15)
        count++;
    split_layers(r, count, total, share, page);
}

/* ---- chunks ---- */

struct placing {
    struct ork_npu_residency *r;
    uint32_t *order; /* units that want slots: pinned, plain, experts */
    uint32_t count;
    bool streaming; /* not everything fits */
    uint64_t budget, domain_budget[ORK_NPU_DOMAINS_MAX], domain_chunks[ORK_NPU_DOMAINS_MAX];
    ork_error error; /* of the last allocation that failed */
};

/* Memory for slots by domain: pinned weights have theirs, of the rest each domain gets its share. */
static ork_status divide_budget(struct placing *p, ork_error *error)
{
    const struct ork_npu_residency *r = p->r;
    uint64_t pinned[ORK_NPU_DOMAINS_MAX] = {0}, other[ORK_NPU_DOMAINS_MAX] = {0}, all_pinned = 0, all_other = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct residency_matrix *m = residency_matrix_of(r, p->order[i]);
        const uint32_t domain = r->units[p->order[i]].domain;
        (m->pinned ? pinned : other)[domain] += m->unit_bytes;
        *(m->pinned ? &all_pinned : &all_other) += m->unit_bytes;
    }
    if (all_pinned > p->budget)
        return ork_error_set(error, ORK_NO_MEMORY, "NPU weights", -1,
                             "weights that must stay take %llu MiB of device memory, and %llu MiB may be used",
                             (unsigned long long)(all_pinned >> 20), (unsigned long long)(p->budget >> 20));
    const uint64_t rest = p->budget - all_pinned;
    p->streaming = all_other > rest;
    for (uint32_t d = 0; d < r->domains; d++) {
        uint64_t share = p->streaming ? (uint64_t)((double)rest * ((double)other[d] / (double)all_other)) : 0;
        p->domain_budget[d] = p->streaming ? (pinned[d] + share) / page * page : p->budget;
    }
    return ORK_OK;
}

static uint64_t room(const struct placing *p, uint32_t domain)
{
    const struct ork_npu_residency *r = p->r;
    uint64_t left = p->budget - r->stats.chunk_bytes;
    uint64_t domain_left = p->domain_budget[domain] - p->domain_chunks[domain];
    uint64_t space = r->domain_capacity - r->domain_used[domain];
    left = left < domain_left ? left : domain_left;
    return left < space ? left : space;
}

/* A chunk with slots for units order[0..count-1] of one domain. */
static ork_status add_chunk(struct placing *p, uint32_t domain, const uint32_t *order, uint32_t count,
                            uint64_t size_bytes, ork_error *error)
{
    struct ork_npu_residency *r = p->r;
    struct ork_npu_buffer *buffer = next_buffer(r);
    uint64_t offset = 0;
    if (!buffer)
        return ork_error_no_memory(error, "NPU weights", sizeof *buffer);
    ork_status status = r->device->ops->allocate(r->device, domain, size_bytes, buffer, error);
    if (status != ORK_OK) {
        r->stats.failed_allocations++;
        return status;
    }
    const uint32_t index = r->buffer_count++;
    r->domain_used[domain] += size_bytes;
    p->domain_chunks[domain] += size_bytes;
    r->stats.chunk_bytes += size_bytes;
    for (uint32_t i = 0; i < count; i++) {
        if ((status = residency_slot_add(r, order[i], index, offset, error)) != ORK_OK)
            return status;
        offset += residency_matrix_of(r, order[i])->unit_bytes;
    }
    return ORK_OK;
}

/* Units of one domain into chunks of about target bytes; smaller ones when the device refuses. What does not fit stays
 * without a slot. */
static void fill_domain(struct placing *p, uint32_t domain, const uint32_t *order, uint32_t count, uint64_t target)
{
    struct ork_npu_residency *r = p->r;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t failures = 0;
    for (uint32_t i = 0; i < count && failures < FAILURES_MAX && r->buffer_count < r->mappings_max;) {
        const uint64_t most = room(p, domain) / page * page, limit = target < most ? target : most;
        uint64_t bytes = residency_matrix_of(r, order[i])->unit_bytes;
        uint32_t end = i + 1;
        if (ork_round_up(bytes, page) > most || ork_round_up(bytes, page) > buffer_bytes_max(r)) {
            i++; /* a later one may be smaller */
            continue;
        }
        while (end < count && bytes + residency_matrix_of(r, order[end])->unit_bytes <= limit)
            bytes += residency_matrix_of(r, order[end++])->unit_bytes;
        if (add_chunk(p, domain, order + i, end - i, ork_round_up(bytes, page), &p->error) == ORK_OK) {
            i = end;
            failures = 0;
        } else if (end > i + 1 && bytes > RESIDENCY_CHUNK_BYTES_MIN) {
            target = bytes / 2;
        } else {
            failures++;
            i++;
        }
    }
}

static uint64_t chunk_target(const struct ork_npu_residency *r)
{
    uint64_t target = r->params.chunk_bytes;
    if (target == 0)
        target = r->capabilities->sync_whole ? RESIDENCY_CHUNK_BYTES_WHOLE : RESIDENCY_CHUNK_BYTES;
    return target < buffer_bytes_max(r) ? target : buffer_bytes_max(r);
}

/* Units that have no place yet, by domain. */
static ork_status place_slots(struct placing *p, ork_error *error)
{
    struct ork_npu_residency *r = p->r;
    uint32_t *own = malloc((p->count ? p->count : 1) * sizeof *own);
    if (!own)
        return ork_error_no_memory(error, "NPU weights", p->count * sizeof *own);
    for (uint32_t domain = 0; domain < r->domains; domain++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < p->count; i++)
            if (r->units[p->order[i]].domain == domain && r->units[p->order[i]].slot == RESIDENCY_NONE)
                own[count++] = p->order[i];
        fill_domain(p, domain, own, count, chunk_target(r));
    }
    free(own);
    return ORK_OK;
}

/* Units that their domain had no room for, though there is memory: to the domains with most room. */
static bool move_units(struct placing *p)
{
    struct ork_npu_residency *r = p->r;
    uint64_t promised[ORK_NPU_DOMAINS_MAX] = {0};
    bool moved = false;
    for (uint32_t i = 0; i < p->count; i++) {
        struct residency_unit *unit = &r->units[p->order[i]];
        const uint64_t bytes = residency_matrix_of(r, p->order[i])->unit_bytes;
        uint32_t best = 0;
        if (unit->slot != RESIDENCY_NONE)
            continue;
        for (uint32_t d = 1; d < r->domains; d++)
            if (r->domain_used[d] + promised[d] < r->domain_used[best] + promised[best])
                best = d;
        if (best == unit->domain || r->domain_used[best] + promised[best] + bytes > r->domain_capacity)
            continue;
        promised[best] += bytes;
        unit->domain = (uint8_t)best;
        moved = true;
    }
    return moved;
}

/* Pinned, then plain, then experts by layer and number, so that the slots of a domain suit each of its tensors. */
static uint32_t order_units(const struct ork_npu_residency *r, uint32_t *order)
{
    uint32_t count = 0;
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t i = 0; i < r->matrix_count; i++) {
            const struct residency_matrix *m = &r->matrices[i];
            if (kind == 0 ? !m->pinned : m->pinned || m->matrix->experts > 1)
                continue;
            for (uint32_t e = 0; e < m->matrix->experts; e++)
                if (!r->units[m->first_unit + e].imported)
                    order[count++] = m->first_unit + e;
        }
    for (uint32_t first = 0, end; first < r->matrix_count; first = end) {
        uint32_t most = 0;
        for (end = first; end < r->matrix_count && r->matrices[end].layer == r->matrices[first].layer; end++)
            if (r->matrices[end].matrix->experts > most)
                most = r->matrices[end].matrix->experts;
        for (uint32_t e = 0; e < most && most > 1; e++)
            for (uint32_t i = first; i < end; i++) {
                const struct residency_matrix *m = &r->matrices[i];
                if (!m->pinned && m->matrix->experts > 1 && e < m->matrix->experts &&
                    !r->units[m->first_unit + e].imported)
                    order[count++] = m->first_unit + e;
            }
    }
    return count;
}

static ork_status check_placed(struct placing *p, ork_error *error)
{
    struct ork_npu_residency *r = p->r;
    bool any = r->unit_count == 0;
    for (uint32_t i = 0; i < r->unit_count; i++) {
        struct residency_unit *unit = &r->units[i];
        const bool there = unit->imported || unit->slot != RESIDENCY_NONE;
        any = any || there;
        unit->possible = unit->imported || residency_slot_exists(r, i);
        if (residency_matrix_of(r, i)->pinned && !there)
            return ork_error_set(error, ORK_NO_MEMORY, residency_matrix_of(r, i)->matrix->name, -1,
                                 "weights that must stay do not fit into the device's memory%s%s",
                                 p->error.what[0] ? ": " : "", p->error.what);
    }
    if (!any)
        return ork_error_set(error, ORK_NO_MEMORY, "NPU weights", -1,
                             "no weight fits into the %llu MiB of device memory that may be used%s%s",
                             (unsigned long long)(p->budget >> 20), p->error.what[0] ? ": " : "", p->error.what);
    return ORK_OK;
}

ork_status residency_place(struct ork_npu_residency *r, ork_error *error)
{
    struct placing p = {.r = r, .budget = r->params.memory_bytes};
    ork_status status;
    if (p.budget == 0)
        p.budget = ork_memory_available_bytes() / 2;
    choose_domains(r, p.budget);
    p.order = malloc((r->unit_count ? r->unit_count : 1) * sizeof *p.order);
    if (!p.order)
        return ork_error_no_memory(error, "NPU weights", r->unit_count * sizeof *p.order);
    import_all(r);
    p.count = order_units(r, p.order);
    if ((status = divide_budget(&p, error)) != ORK_OK || (status = place_slots(&p, error)) != ORK_OK)
        goto out;
    if (!p.streaming && r->domains > 1 && move_units(&p))
        status = place_slots(&p, error);
    if (status == ORK_OK)
        status = check_placed(&p, error);
    for (uint32_t i = 0; i < r->buffer_count; i++) {
        uint32_t before = 0;
        while (before < i && r->buffers[before].domain != r->buffers[i].domain)
            before++;
        r->stats.domains += before == i;
    }
    r->stats.mappings = r->buffer_count;
out:
    free(p.order);
    return status;
}
