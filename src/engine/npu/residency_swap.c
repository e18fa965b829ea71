/* The threads that fill slots: bricks as the NPU fetches them, and their check keys. Touches memory only, never the device. */
#include "engine/npu/owner.h"
#include "engine/npu/residency_inner.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "quant/nested.h"

void ork_npu_inflate_group(const struct ork_surface_kernels *kernels, const struct ork_matrix *matrix,
                           const uint8_t *source, uint32_t tiles, uint8_t *out)
{
    const uint8_t *residual =
        matrix->tier == ORK_TIER_N8 ? source + ork_nested_residual_bytes(matrix->n, matrix->k) : NULL;
    if (matrix->tier == ORK_TIER_I8)
        memcpy(out, source, (uint64_t)tiles * 1024);
    else
        kernels->inflate(matrix->tier, matrix->table, source, residual, tiles, out);
}

/* One group of channels into its place, and its share of the key; from the cache, for a group is some 100 KB. */
static void fill_group(const struct ork_npu_residency *r, const struct residency_matrix *m,
                       const struct residency_unit *u, const uint8_t *source, uint8_t *out, uint32_t group)
{
    const uint32_t tiles = m->k / 32, channels = m->type == ORK_NPU_W4A4 ? 64 : 32;
    const uint32_t parts = m->n / channels / m->groups; /* groups as resident of one group of the source: 1 or 2 */
    const uint64_t part_bytes = (uint64_t)tiles * 1024;
    const uint8_t *resident = out;
    uint32_t weights[64];
    if (!out)
        resident = source;
    else if (parts == 2)
        ork_npu_inflate_group(r->kernels, m->matrix, source, tiles, out);
    else
        memcpy(out, source, part_bytes);
    for (uint32_t part = 0; part < parts && !u->keyed; part++) {
        ork_surface_weights((group * parts + part) * channels, channels, weights);
        if (m->type == ORK_NPU_W4A4)
            r->kernels->key_i4(resident, tiles, weights, u->key);
        else
            r->kernels->key_i8(resident + part * part_bytes, tiles, weights, u->key);
    }
}

static void fill_unit(const struct ork_npu_residency *r, uint32_t unit)
{
    const struct residency_unit *u = &r->units[unit];
    const struct residency_matrix *m = residency_matrix_of(r, unit);
    const uint8_t *source = m->matrix->data + u->expert * m->matrix->data_expert_stride;
    uint8_t *out = u->imported ? NULL : r->buffers[u->buffer].host + u->offset;
    for (uint32_t group = 0; group < m->groups && !atomic_load_explicit(&r->stop, memory_order_relaxed); group++) {
        fill_group(r, m, u, source, out, group);
        source += m->group_bytes;
        if (out)
            out += m->unit_bytes / m->groups;
    }
}

static uint32_t take(uint32_t *ring, uint32_t size, uint32_t *first, uint32_t *count)
{
    uint32_t unit = ring[*first];
    *first = *first + 1 == size ? 0 : *first + 1;
    (*count)--;
    return unit;
}

static void put(uint32_t *ring, uint32_t size, uint32_t first, uint32_t *count, uint32_t unit)
{
    ring[((uint64_t)first + *count) % size] = unit;
    (*count)++;
}

static void *run_thread(void *context)
{
    struct ork_npu_residency *r = context;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->todo_count == 0 && !atomic_load(&r->stop))
            pthread_cond_wait(&r->work, &r->lock);
        if (atomic_load(&r->stop))
            break;
        uint32_t unit = take(r->todo, r->unit_count, &r->todo_first, &r->todo_count);
        pthread_mutex_unlock(&r->lock);
        fill_unit(r, unit);
        pthread_mutex_lock(&r->lock);
        put(r->done, r->unit_count, r->done_first, &r->done_count, unit);
        pthread_cond_signal(&r->filled);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void residency_fill(struct ork_npu_residency *r, uint32_t unit)
{
    residency_set_state(r, unit, RESIDENCY_FILLING);
    r->filling++;
    pthread_mutex_lock(&r->lock);
    put(r->todo, r->unit_count, r->todo_first, &r->todo_count, unit);
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

uint32_t residency_filled(struct ork_npu_residency *r, bool wait)
{
    uint32_t unit = RESIDENCY_NONE;
    if (r->filling == 0)
        return unit;
    pthread_mutex_lock(&r->lock);
    while (wait && r->done_count == 0)
        pthread_cond_wait(&r->filled, &r->lock);
    if (r->done_count > 0) {
        unit = take(r->done, r->unit_count, &r->done_first, &r->done_count);
        r->filling--;
    }
    pthread_mutex_unlock(&r->lock);
    return unit;
}

ork_status residency_threads_start(struct ork_npu_residency *r, ork_error *error)
{
    uint32_t wanted = r->params.swap_threads == 0 ? 1 : r->params.swap_threads;
    sigset_t all, before;
    pthread_attr_t attributes;
    if (wanted > RESIDENCY_THREADS_MAX)
        wanted = RESIDENCY_THREADS_MAX;
    if (pthread_attr_init(&attributes) != 0)
        return ork_error_no_memory(error, "NPU swap threads", sizeof attributes);
    ork_npu_choose_cores(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    while (r->thread_count < wanted && (pthread_create(&r->threads[r->thread_count], &attributes, run_thread, r) == 0 ||
                                        pthread_create(&r->threads[r->thread_count], NULL, run_thread, r) == 0))
        r->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (r->thread_count == 0)
        return ork_error_set(error, ORK_FAILURE, "NPU swap threads", -1, "no thread could be started");
    return ORK_OK;
}

void residency_threads_stop(struct ork_npu_residency *r)
{
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->stop, true);
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < r->thread_count; i++)
        pthread_join(r->threads[i], NULL);
    r->thread_count = 0;
}
