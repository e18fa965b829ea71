/* Owns batches of offloaded matmuls: what is taken of them, when the caller's memory may be used, and what the caller is
 * told. Knows no devices.
 *
 * The caller's side costs a copy of the tasks and a wake-up. `phase` says who may use the caller's memory: the owner while
 * it is TOUCHED, the caller again from COMPLETE or ABANDONED on. */
#include "engine/npu/owner.h"

#include "base/error.h"
#include "engine/npu/multiply.h"
#include "engine/npu/overlay.h"
#include "engine/npu/recover.h"

#include <stdlib.h>
#include <string.h>

/* ---- attached weights ---- */

static uint32_t address_hash(const void *address)
{
    uint64_t bits = (uint64_t)(uintptr_t)address;
    return (uint32_t)((bits * 0x9e3779b97f4a7c15ull) >> 32);
}

static uint32_t place_of(const struct ork_npu_table *table, const struct ork_matrix *matrix)
{
    uint32_t place = address_hash(matrix) & table->mask;
    while (table->places[place].matrix && table->places[place].matrix != matrix)
        place = (place + 1) & table->mask;
    return place;
}

uint32_t ork_npu_rows_min(const ork_npu *npu, const struct ork_matrix *matrix)
{
    if (!atomic_load_explicit(&npu->attached, memory_order_acquire))
        return UINT32_MAX;
    const struct ork_npu_known *known = &npu->table.places[place_of(&npu->table, matrix)];
    return known->matrix ? known->rows_min : UINT32_MAX;
}

ork_status ork_npu_table_make(const struct ork_npu_known *known, size_t count, struct ork_npu_table *table,
                              ork_error *error)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    table->places = calloc(size, sizeof *table->places);
    table->mask = (uint32_t)(size - 1);
    if (!table->places)
        return ork_error_no_memory(error, NULL, size * sizeof *table->places);
    for (size_t i = 0; i < count; i++)
        table->places[place_of(table, known[i].matrix)] = known[i];
    return ORK_OK;
}

/* ---- the caller's side ---- */

/* Depends on the matrix and the rows alone: the arithmetic of a group must not change with what the device is at. */
bool ork_npu_wants(void *context, const struct ork_matrix *w, uint32_t m)
{
    const uint32_t rows_min = ork_npu_rows_min(context, w);
    return m >= rows_min && rows_min != UINT32_MAX;
}

static void ask_for(ork_npu *npu, const struct ork_matrix *matrix, uint32_t expert)
{
    uint32_t at = (address_hash(matrix) + expert) % ORK_NPU_WANTED_MAX;
    if (atomic_load_explicit(&npu->asks[at].asked, memory_order_acquire))
        return;
    npu->asks[at].matrix = matrix;
    npu->asks[at].expert = expert;
    atomic_store_explicit(&npu->asks[at].asked, true, memory_order_release);
}

static bool is_fitting(const struct ork_offload_task *task)
{
    const struct ork_activation *x = task->x;
    return task->expert < task->w->experts && x->plain && x->scales && x->block == x->k_padded && x->k == task->w->k;
}

static bool take(ork_npu *npu, const struct ork_offload_task *task)
{
    if (!ork_npu_wants(npu, task->w, task->m) || npu->batch.count == ORK_NPU_BATCH_MAX || !is_fitting(task))
        return false;
    if (ork_npu_residency_present(npu->residency, task->w, task->expert))
        return true;
    ask_for(npu, task->w, task->expert);
    return false;
}

void ork_npu_begin(void *context, struct ork_offload_task *tasks, uint32_t count)
{
    ork_npu *npu = context;
    struct ork_npu_batch *batch = &npu->batch;
    unsigned is_free = ORK_NPU_FREE;
    ork_npu_recovered_wait(npu);
    bool open = atomic_load(&npu->health) == ORK_NPU_WELL &&
                atomic_compare_exchange_strong(&batch->phase, &is_free, ORK_NPU_FILLING);
    uint32_t taken = 0;
    if (open)
        batch->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        tasks[i].done = false;
        tasks[i].taken = open && take(npu, &tasks[i]);
        if (!tasks[i].taken)
            continue;
        batch->copies[batch->count] = tasks[i];
        batch->indices[batch->count++] = i;
        taken++;
    }
    ork_npu_count(&npu->counters.declined, count - taken);
    if (!open)
        return;
    batch->tasks = tasks;
    atomic_store_explicit(&batch->caller, pthread_self(), memory_order_relaxed);
    atomic_store(&batch->phase, taken ? ORK_NPU_OPEN : ORK_NPU_FREE);
    if (count)
        ork_npu_owner_ring(npu);
}

/* Waits for the owner; false: it shows no life and the batch was taken from it. */
static bool wait_for_owner(ork_npu *npu)
{
    struct ork_npu_batch *batch = &npu->batch;
    uint64_t begin = ork_clock_now_us(), now = begin;
    struct ork_npu_life life = ork_npu_life_watch(npu, begin);
    unsigned phase;
    while ((phase = atomic_load(&batch->phase)) != ORK_NPU_COMPLETE) {
        unsigned open = ORK_NPU_OPEN;
        if (ork_npu_life_is_missed(npu, &life, now) &&
            atomic_compare_exchange_strong(&batch->phase, &open, ORK_NPU_ABANDONED))
            return false;
        if (now - begin < ORK_NPU_SPIN_US)
            ork_npu_relax();
        else
            ork_npu_word_wait(&batch->phase, phase, ORK_NPU_BEAT_LOOK_US);
        now = ork_clock_now_us();
    }
    return true;
}

static bool is_caller(struct ork_npu_batch *batch)
{
    return pthread_equal(atomic_load_explicit(&batch->caller, memory_order_relaxed), pthread_self());
}

void ork_npu_finish(void *context)
{
    ork_npu *npu = context;
    struct ork_npu_batch *batch = &npu->batch;
    unsigned phase = atomic_load(&batch->phase);
    if (phase < ORK_NPU_OPEN || phase == ORK_NPU_ABANDONED || !is_caller(batch) || !wait_for_owner(npu))
        return;
    for (uint32_t i = 0; i < batch->count; i++)
        batch->tasks[batch->indices[i]].done = batch->done[i];
    atomic_store(&batch->phase, ORK_NPU_FREE);
}

/* ---- the owner's side ---- */

/* Watches for weights that are on their way. */
static void watch_for(ork_npu *npu, const struct ork_matrix *matrix, uint32_t expert)
{
    for (uint32_t i = 0; i < npu->wanted_count; i++)
        if (npu->wanted[i].matrix == matrix && npu->wanted[i].expert == expert)
            return;
    if (npu->wanted_count < ORK_NPU_WANTED_MAX)
        npu->wanted[npu->wanted_count++] = (struct ork_npu_wanted){matrix, expert, 0};
}

/* Queues the swap of weights that a caller missed. */
static void serve_asks(ork_npu *npu)
{
    for (uint32_t i = 0; i < ORK_NPU_WANTED_MAX; i++) {
        struct ork_npu_resident resident;
        if (!atomic_load_explicit(&npu->asks[i].asked, memory_order_acquire))
            continue;
        const struct ork_matrix *matrix = npu->asks[i].matrix;
        uint32_t expert = npu->asks[i].expert;
        enum ork_npu_presence presence = ork_npu_residency_acquire(npu->residency, matrix, expert, &resident);
        if (presence == ORK_NPU_PRESENT)
            ork_npu_residency_release(npu->residency, &resident);
        if (presence == ORK_NPU_COMING)
            watch_for(npu, matrix, expert);
        atomic_store_explicit(&npu->asks[i].asked, false, memory_order_release);
    }
}

void ork_npu_wanted_serve(ork_npu *npu)
{
    if (!npu->residency || atomic_load(&npu->health) == ORK_NPU_OFF)
        return;
    serve_asks(npu);
    if (!npu->wanted_count)
        return;
    ork_npu_residency_pump(npu->residency, NULL);
    uint32_t left = 0;
    for (uint32_t i = 0; i < npu->wanted_count; i++) {
        struct ork_npu_wanted *wanted = &npu->wanted[i];
        if (!ork_npu_residency_present(npu->residency, wanted->matrix, wanted->expert) &&
            ++wanted->looks < ORK_NPU_SWAP_LOOKS)
            npu->wanted[left++] = *wanted;
    }
    npu->wanted_count = left;
}

/* The products of the batch whose weights are there. */
static uint32_t collect_products(ork_npu *npu)
{
    struct ork_npu_batch *batch = &npu->batch;
    uint32_t count = 0;
    ork_npu_residency_pump(npu->residency, NULL);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct ork_offload_task *task = &batch->copies[i];
        struct ork_npu_product *product = &batch->products[count];
        batch->done[i] = false;
        *product = (struct ork_npu_product){
            .m = task->m,
            .n_used = task->w->n,
            .codes = task->x->plain,
            .stride = task->x->k_padded,
            .rows = task->x_rows,
            .x_scales = task->x->scales,
            .w_scales = (const float *)(const void *)(task->w->scales + task->expert * task->w->scale_expert_stride),
            .y = task->y,
            .y_stride = task->y_stride,
        };
        enum ork_npu_presence presence =
            ork_npu_residency_acquire(npu->residency, task->w, task->expert, &product->weight);
        if (presence == ORK_NPU_PRESENT)
            batch->product_copies[count++] = i;
        else
            ork_npu_count(&npu->counters.declined, 1);
        if (presence == ORK_NPU_COMING)
            watch_for(npu, task->w, task->expert);
    }
    return count;
}

/* Domain by domain, the present one first. */
static void order_products(ork_npu *npu, uint32_t count)
{
    struct ork_npu_batch *batch = &npu->batch;
    uint32_t placed = 0;
    for (uint32_t turn = 0; turn < ORK_NPU_DOMAINS_MAX && placed < count; turn++) {
        uint32_t domain = (npu->last_domain + turn) % ORK_NPU_DOMAINS_MAX;
        for (uint32_t i = 0; i < count; i++)
            if (batch->products[i].weight.buffer->domain == domain)
                batch->order[placed++] = i;
    }
}

static void release_weights(ork_npu *npu, uint32_t count)
{
    bool busy = ork_npu_cores_busy(npu);
    for (uint32_t i = 0; i < count; i++) {
        const struct ork_npu_resident *weight = &npu->batch.products[i].weight;
        if (busy)
            npu->held[npu->held_count++] = *weight;
        else
            ork_npu_residency_release(npu->residency, weight);
    }
    ork_npu_quarantine_update(npu);
}

/* The batch is the caller's again; results that it no longer waits for do not count. */
static void give_back(ork_npu *npu, uint32_t count)
{
    struct ork_npu_batch *batch = &npu->batch;
    unsigned open = ORK_NPU_OPEN;
    bool waits = atomic_compare_exchange_strong(&batch->phase, &open, ORK_NPU_TOUCHED);
    for (uint32_t i = 0; i < count; i++) {
        const struct ork_npu_product *product = &batch->products[i];
        uint32_t copy = batch->product_copies[i];
        batch->done[copy] = product->done;
        if (!product->done || !waits) {
            ork_npu_count(&npu->counters.redone, 1);
            continue;
        }
        ork_npu_count(&npu->counters.matmuls, 1);
        ork_npu_count(&npu->counters.multiply_adds, (uint64_t)product->m * product->n_used * batch->copies[copy].w->k);
    }
    ork_npu_overlay_note_wait(npu);
    atomic_store(&batch->phase, waits ? ORK_NPU_COMPLETE : ORK_NPU_FREE);
    if (waits)
        ork_npu_word_wake(&batch->phase);
}

/* Collecting looks into the caller's memory. */
static uint32_t open_batch(ork_npu *npu)
{
    struct ork_npu_batch *batch = &npu->batch;
    unsigned open = ORK_NPU_OPEN;
    if (!atomic_compare_exchange_strong(&batch->phase, &open, ORK_NPU_TOUCHED))
        return 0;
    uint32_t count = collect_products(npu);
    atomic_store(&batch->phase, ORK_NPU_OPEN);
    order_products(npu, count);
    return count;
}

bool ork_npu_batch_serve(ork_npu *npu)
{
    struct ork_npu_batch *batch = &npu->batch;
    unsigned phase = atomic_load(&batch->phase);
    if (phase != ORK_NPU_OPEN && phase != ORK_NPU_ABANDONED)
        return false;
    uint32_t count = open_batch(npu);
    struct ork_npu_run run = {
        .products = batch->products, .order = batch->order, .count = count, .phase = &batch->phase};
    ork_npu_run_products(npu, &run);
    if (run.suspects)
        ork_npu_faulted(npu, run.suspects);
    release_weights(npu, count);
    give_back(npu, count);
    ork_npu_residency_pump(npu->residency, NULL);
    return true;
}

ork_status ork_npu_batch_create(ork_npu *npu, ork_error *error)
{
    struct ork_npu_batch *batch = &npu->batch;
    batch->copies = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->copies);
    batch->indices = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->indices);
    batch->products = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->products);
    batch->product_copies = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->product_copies);
    batch->order = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->order);
    batch->done = calloc(ORK_NPU_BATCH_MAX, sizeof *batch->done);
    npu->held = calloc(ORK_NPU_BATCH_MAX, sizeof *npu->held);
    if (!batch->copies || !batch->indices || !batch->products || !batch->product_copies || !batch->order ||
        !batch->done || !npu->held)
        return ork_error_no_memory(error, NULL, ORK_NPU_BATCH_MAX * sizeof *batch->products);
    return ORK_OK;
}

void ork_npu_batch_destroy(ork_npu *npu)
{
    struct ork_npu_batch *batch = &npu->batch;
    free(batch->copies);
    free(batch->indices);
    free(batch->products);
    free(batch->product_copies);
    free(batch->order);
    free(batch->done);
    free(npu->held);
}
