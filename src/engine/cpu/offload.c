/* Owns how matmuls of a group are shared with another engine: the list of matmuls that end at one join, who computes
 * them, and what has to be computed again. Must not know what the results mean, nor which engine it is.
 *
 * A group of several rows of which the other engine wants something is cut at its joins: its input is prepared, the
 * matmuls up to the join are listed and offered, the pool computes what was not taken meanwhile, then what was taken and
 * not done, and only then goes on. Codes with one scale a row give the same bits on both sides. */
#include "engine/cpu/engine.h"

void ork_cpu_set_offload(ork_cpu *cpu, const struct ork_offload *offload)
{
    cpu->offload = offload;
}

struct ork_cpu_batch_work ork_cpu_get_batch_work(const ork_cpu *cpu)
{
    return cpu->batch_work;
}

bool ork_cpu_wanted(const ork_cpu *cpu, const struct ork_matrix *w, uint32_t m)
{
    return cpu->offload && ork_tier_find(w->tier)->brick_bytes && cpu->offload->wants(cpu->offload->context, w, m);
}

void ork_cpu_use_whole_rows(struct ork_activation *x)
{
    x->block = x->k_padded;
    x->blocks = 1;
}

void ork_cpu_count_batch(ork_cpu *cpu, const struct ork_matrix *w, uint64_t rows)
{
    if (cpu->offload && cpu->input.rows > 1)
        cpu->batch_work.multiply_adds += rows * w->n * w->k;
}

void ork_cpu_list(ork_cpu *cpu, const struct ork_offload_task *task)
{
    struct ork_offload_task *last = &cpu->tasks[cpu->task_count++];
    if (task->x->block != task->x->k_padded || !ork_cpu_wanted(cpu, task->w, task->m)) {
        *last = *task;
        return;
    }
    struct ork_offload_task *offered = &cpu->tasks[cpu->offered_count++];
    *last = *offered;
    *offered = *task;
}

void ork_cpu_activate_rows(ork_cpu *cpu, bool codes, uint32_t thread, uint32_t threads)
{
    const struct ork_vector_kernels *vector = &cpu->kernels->vector;
    uint32_t begin, end, k = cpu->product.k;
    ork_split_range(cpu->product.rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        float *gate = cpu->hidden + (uint64_t)row * k;
        vector->silu_multiply(gate, gate, cpu->up + (uint64_t)row * k, k);
        if (codes)
            vector->quantize(&cpu->product, row);
    }
}

struct multiply_region {
    ork_cpu *cpu;
    bool again; /* taken and not done, else not taken */
};

static bool is_due(const struct multiply_region *r, const struct ork_offload_task *task)
{
    return r->again ? task->taken && !task->done : !task->taken;
}

static uint32_t due_units(const struct multiply_region *r)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < r->cpu->task_count; i++) {
        const struct ork_offload_task *task = &r->cpu->tasks[i];
        units += is_due(r, task) ? ork_cpu_units(task->w, ork_cpu_unit(task->w)) : 0;
    }
    return units;
}

/* Units [begin, end) counted through all tasks that are due. */
static void compute_due(const struct multiply_region *r, uint32_t begin, uint32_t end)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < r->cpu->task_count && first < end; i++) {
        const struct ork_offload_task *task = &r->cpu->tasks[i];
        if (!is_due(r, task))
            continue;
        uint32_t unit = ork_cpu_unit(task->w), units = ork_cpu_units(task->w, unit);
        uint32_t from = begin > first ? begin - first : 0, to = end - first < units ? end - first : units;
        if (from < to)
            ork_cpu_matmul(r->cpu, task->w, task->expert, task->x, task->x_rows, task->m,
                           ork_cpu_unit_channels(task->w, unit, from, to), task->y, task->y_stride);
        first += units;
    }
}

static void multiply_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct multiply_region *r = context;
    struct ork_cpu_share share = ork_cpu_share_make(r->cpu, 0, due_units(r), r->cpu->input.rows, threads);
    uint32_t begin, end;
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end))
        compute_due(r, begin, end);
}

static void multiply_due(ork_cpu *cpu, bool again)
{
    struct multiply_region region = {.cpu = cpu, .again = again};
    if (due_units(&region))
        ork_cpu_run(cpu, cpu->input.rows, multiply_region, &region);
}

void ork_cpu_multiply_listed(ork_cpu *cpu)
{
    const struct ork_offload *offload = cpu->offload;
    uint32_t offered = cpu->offered_count;
    if (offered)
        offload->begin(offload->context, cpu->tasks, offered);
    multiply_due(cpu, false);
    if (offered) {
        offload->finish(offload->context);
        multiply_due(cpu, true);
    }
    for (uint32_t i = 0; i < offered; i++) {
        const struct ork_offload_task *task = &cpu->tasks[i];
        cpu->batch_work.offered++;
        cpu->batch_work.taken += task->taken;
        cpu->batch_work.done += task->taken && task->done;
        if (task->taken && task->done)
            cpu->batch_work.offloaded_multiply_adds += (uint64_t)task->m * task->w->n * task->w->k;
    }
    cpu->task_count = 0;
    cpu->offered_count = 0;
}
