/* The residency manager's calls: announcing, starting, acquiring, pumping. Knows no devices' insides. */
#include "engine/npu/residency_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

ork_status ork_npu_residency_create(struct ork_npu_device *device, const struct ork_npu_residency_params *params,
                                    struct ork_npu_residency **residency, ork_error *error)
{
    const struct ork_kernels *kernels;
    ork_status status = ork_kernels_get(&kernels, error);
    if (status != ORK_OK)
        return status;
    struct ork_npu_residency *r = calloc(1, sizeof *r);
    if (!r)
        return ork_error_no_memory(error, "NPU weights", sizeof *r);
    r->device = device;
    r->capabilities = device->ops->capabilities(device);
    r->kernels = &kernels->surface;
    r->params = *params;
    r->domains = r->capabilities->domains;
    if (params->domains > 0 && params->domains < r->domains)
        r->domains = params->domains;
    if (r->domains > ORK_NPU_DOMAINS_MAX)
        r->domains = ORK_NPU_DOMAINS_MAX;
    if (r->capabilities->domain_bytes > params->reserve_bytes)
        r->domain_capacity = r->capabilities->domain_bytes - params->reserve_bytes;
    /* Programs, surfaces and tasks want buffers too. */
    const uint32_t most = r->capabilities->buffers_max;
    r->mappings_max = most > 128 ? most - 64 : most / 2;
    if (r->mappings_max > RESIDENCY_MAPPINGS_MAX)
        r->mappings_max = RESIDENCY_MAPPINGS_MAX;
    r->round = 2; /* what was never used counts as used in round 0 */
    r->waiting_first = r->waiting_last = RESIDENCY_NONE;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->filled, NULL);
    *residency = r;
    return ORK_OK;
}

void ork_npu_residency_destroy(struct ork_npu_residency *residency)
{
    struct ork_npu_residency *r = residency;
    if (!r)
        return;
    residency_threads_stop(r);
    for (uint32_t i = 0; i < r->buffer_count; i++)
        r->device->ops->release(r->device, &r->buffers[i]);
    pthread_cond_destroy(&r->filled);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->lock);
    ork_pages_free(r->keys, r->key_bytes);
    free(r->done);
    free(r->todo);
    free(r->classes);
    free(r->slots);
    free(r->buffers);
    free(r->table);
    free(r->units);
    free(r->matrices);
    free(r);
}

/* ---- matrices ---- */

static uint32_t hash_of(const struct ork_matrix *matrix)
{
    return (uint32_t)(((uint64_t)(uintptr_t)matrix >> 3) * 0x9E3779B97F4A7C15u >> 40);
}

/* Where the matrix stands in the table, or the free place for it. */
static uint32_t place_of(const struct ork_npu_residency *r, const struct ork_matrix *matrix)
{
    uint32_t place = hash_of(matrix) & r->table_mask;
    while (r->table[place] != RESIDENCY_NONE && r->matrices[r->table[place]].matrix != matrix)
        place = (place + 1) & r->table_mask;
    return place;
}

static uint32_t find_matrix(const struct ork_npu_residency *r, const struct ork_matrix *matrix)
{
    return r->table ? r->table[place_of(r, matrix)] : RESIDENCY_NONE;
}

/* The unit of a matrix and expert, RESIDENCY_NONE for what was not announced. */
static uint32_t find_unit(const struct ork_npu_residency *r, const struct ork_matrix *matrix, uint32_t expert)
{
    uint32_t index = find_matrix(r, matrix);
    if (index == RESIDENCY_NONE || expert >= matrix->experts)
        return RESIDENCY_NONE;
    return r->matrices[index].first_unit + expert;
}

static ork_status grow(struct ork_npu_residency *r, uint32_t experts, ork_error *error)
{
    if (experts > RESIDENCY_UNITS_MAX - r->unit_count)
        return ork_error_set(error, ORK_UNSUPPORTED, "NPU weights", -1, "more than %u matrices", RESIDENCY_UNITS_MAX);
    if (r->unit_count + experts > r->unit_capacity) {
        uint32_t capacity = 2 * (r->unit_count + experts);
        struct residency_unit *units = realloc(r->units, capacity * sizeof *units);
        if (!units)
            return ork_error_no_memory(error, "NPU weights", capacity * sizeof *units);
        r->units = units;
        r->unit_capacity = capacity;
    }
    if (r->matrix_count < r->matrix_capacity)
        return ORK_OK;
    const uint32_t capacity = r->matrix_capacity ? 2 * r->matrix_capacity : 64;
    struct residency_matrix *matrices = realloc(r->matrices, capacity * sizeof *matrices);
    if (!matrices)
        return ork_error_no_memory(error, "NPU weights", capacity * sizeof *matrices);
    r->matrices = matrices;
    uint32_t *table = malloc(4ull * capacity * sizeof *table);
    if (!table)
        return ork_error_no_memory(error, "NPU weights", 4ull * capacity * sizeof *table);
    free(r->table);
    r->table = table;
    r->table_mask = 4 * capacity - 1;
    r->matrix_capacity = capacity;
    memset(table, 0xFF, 4ull * capacity * sizeof *table);
    for (uint32_t i = 0; i < r->matrix_count; i++)
        table[place_of(r, r->matrices[i].matrix)] = i;
    return ORK_OK;
}

/* Shapes of a matrix at the NPU; false when they are out of bounds or its tier cannot be that type. */
static bool describe(struct residency_matrix *m, enum ork_npu_type type)
{
    const struct ork_matrix *matrix = m->matrix;
    const struct ork_tier_info *info = ork_tier_find(matrix->tier);
    if (!info || info->brick_bytes == 0 || matrix->n == 0 || matrix->k == 0 || matrix->experts == 0 ||
        matrix->n > INT32_MAX || matrix->k > INT32_MAX - 31 || !matrix->data)
        return false;
    if (type == ORK_NPU_W4A4 ? matrix->tier != ORK_TIER_I4 : type != ORK_NPU_W8A8)
        return false;
    if (ork_tier_has_table(matrix->tier) && !matrix->table)
        return false;
    const uint32_t tiles = (uint32_t)ork_divide_up(matrix->k, 32), channels = type == ORK_NPU_W4A4 ? 64 : 32;
    m->type = type;
    m->groups = (uint32_t)ork_divide_up(matrix->n, info->brick_channels);
    m->n = m->groups * info->brick_channels;
    m->k = tiles * 32;
    m->group_bytes = (uint64_t)tiles * info->brick_bytes;
    return ork_checked_multiply((uint64_t)m->n / channels * tiles, 1024, &m->unit_bytes) &&
           m->unit_bytes <= UINT64_MAX / matrix->experts / 16;
}

ork_status ork_npu_residency_add(struct ork_npu_residency *residency, const struct ork_matrix *matrix, uint32_t layer,
                                 enum ork_npu_type type, bool pinned, ork_error *error)
{
    struct ork_npu_residency *r = residency;
    struct residency_matrix m = {.matrix = matrix, .layer = layer, .first_unit = r->unit_count, .pinned = pinned};
    const char *name = matrix->name ? matrix->name : "NPU weights";
    if (r->started || r->failed)
        return ork_error_set(error, ORK_BAD_ARGUMENT, name, -1, "announced after the start");
    if (r->matrix_count > 0 && layer < r->matrices[r->matrix_count - 1].layer)
        return ork_error_set(error, ORK_BAD_ARGUMENT, name, -1, "layers must be announced in ascending order");
    if (find_matrix(r, matrix) != RESIDENCY_NONE)
        return ork_error_set(error, ORK_BAD_ARGUMENT, name, -1, "announced twice");
    if (!describe(&m, type))
        return ork_error_set(error, ORK_UNSUPPORTED, name, -1, "not a matrix that the NPU can take");
    ork_status status = grow(r, matrix->experts, error);
    if (status != ORK_OK)
        return status;
    for (uint32_t e = 0; e < matrix->experts; e++) {
        struct residency_unit *unit = &r->units[r->unit_count++];
        memset(unit, 0, sizeof *unit);
        atomic_init(&unit->state, RESIDENCY_ABSENT);
        unit->matrix = r->matrix_count;
        unit->expert = e;
        unit->slot = unit->next = RESIDENCY_NONE;
    }
    r->key_words += (uint64_t)m.k * matrix->experts;
    r->stats.announced_bytes += m.unit_bytes * matrix->experts;
    r->table[place_of(r, matrix)] = r->matrix_count;
    r->matrices[r->matrix_count++] = m;
    return ORK_OK;
}

/* ---- start ---- */

/* Keys of all units, pages that are taken when they are first written; rings. */
static ork_status allocate_parts(struct ork_npu_residency *r, ork_error *error)
{
    const size_t ring_bytes = (r->unit_count + 1) * sizeof *r->todo;
    uint64_t first = 0;
    r->key_bytes = (r->key_words + 1) * sizeof *r->keys;
    r->keys = ork_pages_allocate(r->key_bytes);
    r->todo = malloc(ring_bytes);
    r->done = malloc(ring_bytes);
    if (!r->keys || !r->todo || !r->done)
        return ork_error_no_memory(error, "NPU weights", r->key_bytes + 2 * ring_bytes);
    for (uint32_t i = 0; i < r->unit_count; i++) {
        r->units[i].key = r->keys + first;
        first += residency_matrix_of(r, i)->k;
    }
    return ORK_OK;
}

ork_status ork_npu_residency_start(struct ork_npu_residency *residency, bool wait, ork_error *error)
{
    struct ork_npu_residency *r = residency;
    ork_status status;
    if (r->started || r->failed)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "NPU weights", -1, "started twice");
    r->failed = true; /* until all of this is done */
    if ((status = allocate_parts(r, error)) != ORK_OK || (status = residency_place(r, error)) != ORK_OK)
        return status;
    if ((status = residency_threads_start(r, error)) != ORK_OK)
        return status;
    r->failed = false;
    r->started = true;
    for (int pinned = 1; pinned >= 0; pinned--)
        for (uint32_t i = 0; i < r->unit_count; i++)
            if (residency_matrix_of(r, i)->pinned == pinned &&
                (r->units[i].imported || r->units[i].slot != RESIDENCY_NONE))
                residency_fill(r, i);
    while (wait && r->filling > 0) {
        status = residency_finish(r, residency_filled(r, true), error);
        if (status != ORK_OK)
            return status;
    }
    return ORK_OK;
}

/* ---- running ---- */

ork_status residency_finish(struct ork_npu_residency *r, uint32_t unit, ork_error *error)
{
    struct residency_unit *u = &r->units[unit];
    const uint64_t bytes = residency_matrix_of(r, unit)->unit_bytes;
    u->keyed = true;
    ork_status status =
        r->device->ops->sync(r->device, &r->buffers[u->buffer], u->offset, bytes, ORK_NPU_TO_DEVICE, error);
    if (status != ORK_OK) {
        if (u->imported)
            residency_set_state(r, unit, RESIDENCY_ABSENT);
        else
            residency_slot_vacate(r, unit);
        return status;
    }
    u->used = false;
    u->filled_round = r->round;
    residency_set_state(r, unit, RESIDENCY_PRESENT);
    if (!u->imported) {
        r->stats.resident_bytes += bytes;
        r->stats.swapped_bytes += bytes;
        r->stats.swaps_in++;
        residency_slot_idle(r, unit);
    }
    return ORK_OK;
}

static void wait_for_slot(struct ork_npu_residency *r, uint32_t unit)
{
    residency_set_state(r, unit, RESIDENCY_WAITING);
    r->units[unit].next = RESIDENCY_NONE;
    if (r->waiting_last != RESIDENCY_NONE)
        r->units[r->waiting_last].next = unit;
    else
        r->waiting_first = unit;
    r->waiting_last = unit;
}

/* An absent or waiting unit that has no slot: to be filled, to wait for a slot, or back to absent. */
static void bring(struct ork_npu_residency *r, uint32_t unit)
{
    if (r->units[unit].imported) { /* its sync failed before */
        residency_fill(r, unit);
        return;
    }
    switch (residency_slot_find(r, unit)) {
    case RESIDENCY_GOT:
        residency_fill(r, unit);
        break;
    case RESIDENCY_BUSY:
        wait_for_slot(r, unit);
        break;
    case RESIDENCY_REFUSED:
        residency_set_state(r, unit, RESIDENCY_ABSENT);
        r->stats.refused++;
        break;
    }
}

ork_status ork_npu_residency_pump(struct ork_npu_residency *residency, ork_error *error)
{
    struct ork_npu_residency *r = residency;
    uint32_t unit;
    if (!r->started)
        return ORK_OK;
    while ((unit = residency_filled(r, false)) != RESIDENCY_NONE) {
        ork_status status = residency_finish(r, unit, error);
        if (status != ORK_OK)
            return status;
    }
    for (uint32_t next = r->waiting_first, last = r->waiting_last; next != RESIDENCY_NONE;) {
        unit = next;
        next = unit == last ? RESIDENCY_NONE : r->units[unit].next;
        r->waiting_first = r->units[unit].next;
        if (r->waiting_first == RESIDENCY_NONE)
            r->waiting_last = RESIDENCY_NONE;
        bring(r, unit);
    }
    return ORK_OK;
}

/* A round is one pass over the layers: it ends where a lower layer is asked for, or where a weight comes a second time. */
static void count_round(struct ork_npu_residency *r, uint32_t unit, bool present)
{
    const uint32_t layer = residency_matrix_of(r, unit)->layer;
    if (layer < r->last_layer || (present && r->units[unit].used && r->units[unit].used_round == r->round))
        r->round++;
    r->last_layer = layer;
}

enum ork_npu_presence ork_npu_residency_acquire(struct ork_npu_residency *residency, const struct ork_matrix *matrix,
                                                uint32_t expert, struct ork_npu_resident *resident)
{
    struct ork_npu_residency *r = residency;
    const uint32_t unit = r->started ? find_unit(r, matrix, expert) : RESIDENCY_NONE;
    if (unit == RESIDENCY_NONE || !r->units[unit].possible)
        return ORK_NPU_ABSENT;
    struct residency_unit *u = &r->units[unit];
    const struct residency_matrix *m = residency_matrix_of(r, unit);
    const uint32_t state = residency_state_of(r, unit);
    count_round(r, unit, state == RESIDENCY_PRESENT);
    if (state == RESIDENCY_PRESENT) {
        r->stats.hits++;
        if (u->users++ == 0)
            residency_slot_busy(r, unit);
        u->used = true;
        u->used_round = r->round;
        *resident = (struct ork_npu_resident){
            &r->buffers[u->buffer], u->offset, m->type, m->n, m->k, u->key, unit,
        };
        return ORK_NPU_PRESENT;
    }
    r->stats.misses++;
    u->prefetch = false;
    if (u->refused_round != r->round) {
        u->refused_round = r->round;
        u->refusals = 0;
    }
    u->refusals++;
    if (state == RESIDENCY_ABSENT)
        bring(r, unit);
    return residency_state_of(r, unit) == RESIDENCY_ABSENT ? ORK_NPU_ABSENT : ORK_NPU_COMING;
}

void ork_npu_residency_release(struct ork_npu_residency *residency, const struct ork_npu_resident *resident)
{
    struct ork_npu_residency *r = residency;
    struct residency_unit *u = &r->units[resident->slot];
    if (u->users > 0 && --u->users == 0)
        residency_slot_idle(r, resident->slot);
}

static void prefetch_unit(struct ork_npu_residency *r, uint32_t unit)
{
    if (residency_state_of(r, unit) != RESIDENCY_ABSENT || !r->units[unit].possible)
        return;
    r->units[unit].prefetch = true;
    bring(r, unit);
}

void ork_npu_residency_prefetch(struct ork_npu_residency *residency, uint32_t layer, const uint32_t *experts,
                                uint32_t count)
{
    struct ork_npu_residency *r = residency;
    uint32_t first = 0, end = r->started ? r->matrix_count : 0, most = 1;
    while (first < end && r->matrices[first].layer < layer)
        first++;
    for (uint32_t i = first; i < end && r->matrices[i].layer == layer; i++) {
        if (r->matrices[i].matrix->experts == 1)
            prefetch_unit(r, r->matrices[i].first_unit);
        else if (r->matrices[i].matrix->experts > most)
            most = r->matrices[i].matrix->experts;
    }
    for (uint32_t e = 0; most > 1 && e < (experts ? count : most); e++) {
        const uint32_t expert = experts ? experts[e] : e;
        for (uint32_t i = first; i < end && r->matrices[i].layer == layer; i++)
            if (r->matrices[i].matrix->experts > 1 && expert < r->matrices[i].matrix->experts)
                prefetch_unit(r, r->matrices[i].first_unit + expert);
    }
}

bool ork_npu_residency_present(const struct ork_npu_residency *residency, const struct ork_matrix *matrix,
                               uint32_t expert)
{
    const uint32_t unit = residency->started ? find_unit(residency, matrix, expert) : RESIDENCY_NONE;
    return unit != RESIDENCY_NONE && residency_state_of(residency, unit) == RESIDENCY_PRESENT;
}

bool ork_npu_residency_knows(const struct ork_npu_residency *residency, const struct ork_matrix *matrix)
{
    const uint32_t index = find_matrix(residency, matrix);
    if (index == RESIDENCY_NONE)
        return false;
    for (uint32_t e = 0; residency->started && e < matrix->experts; e++)
        if (!residency->units[residency->matrices[index].first_unit + e].possible)
            return false;
    return true;
}

void ork_npu_residency_get_stats(const struct ork_npu_residency *residency, struct ork_npu_residency_stats *stats)
{
    *stats = residency->stats;
}
