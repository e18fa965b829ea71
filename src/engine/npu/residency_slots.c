/* Slots of the residency manager: which are free, and in which order the others are evicted. Knows no devices. */
#include "engine/npu/residency_inner.h"

#include <stdlib.h>

#include "base/error.h"

enum { LOOKED_AT = 64 }; /* slots of a class that are asked at most whether they may be taken */

static struct residency_class *class_of(struct ork_npu_residency *r, uint8_t domain, uint64_t slot_bytes)
{
    for (uint32_t i = 0; i < r->class_count; i++)
        if (r->classes[i].domain == domain && r->classes[i].slot_bytes == slot_bytes)
            return &r->classes[i];
    if (r->class_count == r->class_capacity) {
        uint32_t capacity = r->class_capacity ? 2 * r->class_capacity : 16;
        struct residency_class *classes = realloc(r->classes, capacity * sizeof *classes);
        if (!classes)
            return NULL;
        r->classes = classes;
        r->class_capacity = capacity;
    }
    r->classes[r->class_count] = (struct residency_class){.domain = domain,
                                                          .slot_bytes = slot_bytes,
                                                          .oldest = RESIDENCY_NONE,
                                                          .newest = RESIDENCY_NONE,
                                                          .first_free = RESIDENCY_NONE};
    return &r->classes[r->class_count++];
}

static void occupy(struct ork_npu_residency *r, uint32_t slot, uint32_t unit)
{
    struct residency_unit *u = &r->units[unit];
    r->slots[slot].unit = unit;
    u->slot = slot;
    u->buffer = r->slots[slot].buffer;
    u->offset = r->slots[slot].offset;
}

ork_status residency_slot_add(struct ork_npu_residency *r, uint32_t unit, uint32_t buffer, uint64_t offset,
                              ork_error *error)
{
    const struct residency_matrix *matrix = residency_matrix_of(r, unit);
    if (r->slot_count == r->slot_capacity) {
        uint32_t capacity = r->slot_capacity ? 2 * r->slot_capacity : 256;
        struct residency_slot *slots = realloc(r->slots, capacity * sizeof *slots);
        if (!slots)
            return ork_error_no_memory(error, "NPU weights", capacity * sizeof *slots);
        r->slots = slots;
        r->slot_capacity = capacity;
    }
    struct residency_class *class = class_of(r, r->units[unit].domain, matrix->unit_bytes);
    if (!class)
        return ork_error_no_memory(error, "NPU weights", sizeof *class);
    class->slots++;
    class->pinned += matrix->pinned;
    r->slots[r->slot_count] = (struct residency_slot){.buffer = buffer,
                                                      .class = (uint32_t)(class - r->classes),
                                                      .offset = offset,
                                                      .older = RESIDENCY_NONE,
                                                      .newer = RESIDENCY_NONE};
    occupy(r, r->slot_count++, unit);
    return ORK_OK;
}

static void unlink_idle(struct ork_npu_residency *r, uint32_t index)
{
    struct residency_slot *slot = &r->slots[index];
    struct residency_class *class = &r->classes[slot->class];
    if (slot->older != RESIDENCY_NONE)
        r->slots[slot->older].newer = slot->newer;
    else
        class->oldest = slot->newer;
    if (slot->newer != RESIDENCY_NONE)
        r->slots[slot->newer].older = slot->older;
    else
        class->newest = slot->older;
    slot->older = slot->newer = RESIDENCY_NONE;
    class->idle--;
}

void residency_slot_idle(struct ork_npu_residency *r, uint32_t unit)
{
    const uint32_t index = r->units[unit].slot;
    if (index == RESIDENCY_NONE || residency_matrix_of(r, unit)->pinned)
        return;
    struct residency_slot *slot = &r->slots[index];
    struct residency_class *class = &r->classes[slot->class];
    slot->stamp = ++r->stamp;
    slot->newer = RESIDENCY_NONE;
    slot->older = class->newest;
    if (class->newest != RESIDENCY_NONE)
        r->slots[class->newest].newer = index;
    else
        class->oldest = index;
    class->newest = index;
    class->idle++;
}

void residency_slot_busy(struct ork_npu_residency *r, uint32_t unit)
{
    if (r->units[unit].slot != RESIDENCY_NONE && !residency_matrix_of(r, unit)->pinned)
        unlink_idle(r, r->units[unit].slot);
}

void residency_slot_vacate(struct ork_npu_residency *r, uint32_t unit)
{
    struct residency_unit *u = &r->units[unit];
    struct residency_slot *slot = &r->slots[u->slot];
    struct residency_class *class = &r->classes[slot->class];
    residency_set_state(r, unit, RESIDENCY_ABSENT);
    slot->unit = RESIDENCY_NONE;
    slot->newer = class->first_free;
    class->first_free = u->slot;
    class->vacant++;
    u->slot = RESIDENCY_NONE;
}

/* Whether the unit in an idle slot may make room for another one; the rules of residency.h. */
static bool may_evict(const struct ork_npu_residency *r, uint32_t victim, uint32_t unit)
{
    const struct residency_unit *v = &r->units[victim], *u = &r->units[unit];
    if (u->prefetch) {
        bool recent = v->used_round == r->round || v->filled_round == r->round;
        if (recent && residency_matrix_of(r, victim)->layer == residency_matrix_of(r, unit)->layer)
            return false;
        return v->used || v->filled_round != r->round;
    }
    if (u->refused_round == r->round && u->refusals >= ORK_NPU_PATIENCE)
        return true;
    return v->used_round + 1 < r->round && v->filled_round + 1 < r->round;
}

static uint32_t victim_of(const struct ork_npu_residency *r, const struct residency_class *class, uint32_t unit)
{
    uint32_t slot = class->oldest;
    for (uint32_t looked = 0; looked < LOOKED_AT && slot != RESIDENCY_NONE; looked++, slot = r->slots[slot].newer)
        if (may_evict(r, r->slots[slot].unit, unit))
            return slot;
    return RESIDENCY_NONE;
}

static bool fits(const struct residency_class *class, uint8_t domain, uint64_t least_bytes, uint64_t most_bytes)
{
    return class->domain == domain && class->slot_bytes >= least_bytes && class->slot_bytes <= most_bytes &&
           class->slots > class->pinned;
}

bool residency_slot_exists(const struct ork_npu_residency *r, uint32_t unit)
{
    if (r->units[unit].slot != RESIDENCY_NONE)
        return true;
    for (uint32_t i = 0; i < r->class_count; i++)
        if (fits(&r->classes[i], r->units[unit].domain, residency_matrix_of(r, unit)->unit_bytes, UINT64_MAX))
            return true;
    return false;
}

static uint32_t take_free(struct ork_npu_residency *r, struct residency_class *class)
{
    const uint32_t slot = class->first_free;
    class->first_free = r->slots[slot].newer;
    class->vacant--;
    r->slots[slot].newer = RESIDENCY_NONE;
    return slot;
}

static void evict(struct ork_npu_residency *r, uint32_t slot)
{
    const uint32_t victim = r->slots[slot].unit;
    unlink_idle(r, slot);
    residency_set_state(r, victim, RESIDENCY_ABSENT);
    r->units[victim].slot = RESIDENCY_NONE;
    r->slots[slot].unit = RESIDENCY_NONE;
    r->stats.resident_bytes -= residency_matrix_of(r, victim)->unit_bytes;
    r->stats.evictions++;
}

/* Among slots of least_bytes to most_bytes: the smallest free one, else the one that may be evicted and was released first. */
static enum residency_find find_among(struct ork_npu_residency *r, uint32_t unit, uint64_t least_bytes,
                                      uint64_t most_bytes)
{
    struct residency_class *vacant = NULL;
    uint32_t victim = RESIDENCY_NONE;
    bool in_use = false;
    for (uint32_t i = 0; i < r->class_count; i++) {
        struct residency_class *class = &r->classes[i];
        if (!fits(class, r->units[unit].domain, least_bytes, most_bytes))
            continue;
        if (class->vacant > 0 && (!vacant || class->slot_bytes < vacant->slot_bytes))
            vacant = class;
        in_use = in_use || class->slots - class->pinned > class->vacant + class->idle;
        uint32_t slot = victim_of(r, class, unit);
        if (slot != RESIDENCY_NONE && (victim == RESIDENCY_NONE || r->slots[slot].stamp < r->slots[victim].stamp))
            victim = slot;
    }
    if (vacant) {
        occupy(r, take_free(r, vacant), unit);
        return RESIDENCY_GOT;
    }
    if (victim != RESIDENCY_NONE) {
        evict(r, victim);
        occupy(r, victim, unit);
        return RESIDENCY_GOT;
    }
    return in_use ? RESIDENCY_BUSY : RESIDENCY_REFUSED;
}

enum residency_find residency_slot_find(struct ork_npu_residency *r, uint32_t unit)
{
    /* Slots of much more than it needs only where there are no others. */
    const uint64_t bytes = residency_matrix_of(r, unit)->unit_bytes;
    enum residency_find found = find_among(r, unit, bytes, 2 * bytes);
    if (found == RESIDENCY_GOT)
        return found;
    enum residency_find larger = find_among(r, unit, 2 * bytes + 1, UINT64_MAX);
    return larger == RESIDENCY_REFUSED ? found : larger;
}
