/* Owns the dense gated feed-forward group: gate and up, activation, down, residual, in one region. */
#include "engine/cpu/engine.h"

struct swiglu_region {
    ork_cpu *cpu;
    const struct ork_cpu_swiglu *layer;
    float *x;
    uint64_t x_stride;
    uint32_t rows;
    bool input_codes, product_codes;
    struct ork_cpu_chain hidden_chain, output_chain;
};

/* gate and up may be in tiers with bricks of different width: the wider one sets the unit. */
static uint32_t hidden_unit(const struct ork_cpu_swiglu *layer)
{
    uint32_t gate = ork_cpu_unit(layer->gate), up = ork_cpu_unit(layer->up);
    return gate > up ? gate : up;
}

static void compute_hidden(const struct swiglu_region *r, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_matrix *gate = r->layer->gate, *up = r->layer->up;
    uint32_t unit = hidden_unit(r->layer), begin, end;
    struct ork_cpu_share share = ork_cpu_share_make(cpu, 0, ork_cpu_units(gate, unit), r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        struct ork_cpu_channels channels = ork_cpu_unit_channels(gate, unit, begin, end);
        ork_cpu_matmul(cpu, gate, 0, &cpu->input, NULL, r->rows, channels, cpu->hidden, gate->n);
        ork_cpu_matmul(cpu, up, 0, &cpu->input, NULL, r->rows, channels, cpu->up, up->n);
        for (uint32_t row = 0; row < r->rows && !r->hidden_chain.replaces; row++) {
            uint64_t at = (uint64_t)row * gate->n + channels.n_begin;
            cpu->kernels->vector.silu_multiply(cpu->hidden + at, cpu->hidden + at, cpu->up + at,
                                               channels.n_end - channels.n_begin);
        }
    }
}

static void compute_output(const struct swiglu_region *r, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_matrix *down = r->layer->down;
    uint32_t unit = ork_cpu_unit(down), begin, end;
    struct ork_cpu_share share = ork_cpu_share_make(cpu, 1, ork_cpu_units(down, unit), r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        struct ork_cpu_channels channels = ork_cpu_unit_channels(down, unit, begin, end);
        ork_cpu_matmul(cpu, down, 0, &cpu->product, NULL, r->rows, channels, cpu->projected, down->n);
        for (uint32_t row = 0; row < r->rows && !r->output_chain.replaces; row++) {
            float *sum = r->x + row * r->x_stride + channels.n_begin;
            cpu->kernels->vector.add(sum, sum, cpu->projected + (uint64_t)row * down->n + channels.n_begin,
                                     channels.n_end - channels.n_begin);
        }
    }
}

/* On one thread: the join of gate and up of one row, which were left as they were computed. */
static void join_hidden(void *context)
{
    struct swiglu_region *r = context;
    ork_cpu *cpu = r->cpu;
    const float *results = ork_cpu_chain_poll(cpu, &r->hidden_chain);
    ork_cpu_chain_replace(cpu, &r->hidden_chain, results, r->layer->gate, NULL, cpu->hidden);
    ork_cpu_chain_replace(cpu, &r->hidden_chain, results, r->layer->up, NULL, cpu->up);
    if (results)
        ork_cpu_chain_done(cpu, &r->hidden_chain);
    ork_cpu_activate_rows(cpu, r->product_codes, 0, 1);
}

static void join_output(struct swiglu_region *r)
{
    const struct ork_matrix *down = r->layer->down;
    const float *results = ork_cpu_chain_poll(r->cpu, &r->output_chain);
    ork_cpu_chain_replace(r->cpu, &r->output_chain, results, down, NULL, r->cpu->projected);
    if (results)
        ork_cpu_chain_done(r->cpu, &r->output_chain);
    r->cpu->kernels->vector.add(r->x, r->x, r->cpu->projected, down->n);
}

static void swiglu_region(void *context, uint32_t thread, uint32_t threads)
{
    struct swiglu_region *r = context;
    ork_cpu *cpu = r->cpu;
    ork_cpu_prepare_rows(cpu, r->x, r->x_stride, r->layer->norm, r->layer->eps, r->input_codes, thread, threads);
    ork_pool_barrier(cpu->pool);
    if (thread == 0)
        ork_cpu_chain_begin(cpu, &r->hidden_chain, &cpu->input);
    compute_hidden(r, thread, threads);
    if (r->hidden_chain.replaces)
        ork_pool_barrier_then(cpu->pool, join_hidden, r);
    else
        ork_pool_barrier(cpu->pool);
    if (r->product_codes && !r->hidden_chain.replaces) {
        ork_cpu_quantize_product(cpu, thread, threads);
        ork_pool_barrier(cpu->pool);
    }
    if (thread == 0)
        ork_cpu_chain_begin(cpu, &r->output_chain, &cpu->product);
    compute_output(r, thread, threads);
}

/* ---- the group cut at its joins, for another engine to take part ---- */

static void prepare_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct swiglu_region *r = context;
    ork_cpu_prepare_rows(r->cpu, r->x, r->x_stride, r->layer->norm, r->layer->eps, r->input_codes, thread, threads);
}

static void activate_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct swiglu_region *r = context;
    ork_cpu_activate_rows(r->cpu, r->product_codes, thread, threads);
}

static void add_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct swiglu_region *r = context;
    uint32_t begin, end, n = r->layer->down->n;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        float *sum = r->x + row * r->x_stride;
        r->cpu->kernels->vector.add(sum, sum, r->cpu->projected + (uint64_t)row * n, n);
    }
}

static bool is_wanted(const struct swiglu_region *r)
{
    return ork_cpu_wanted(r->cpu, r->layer->gate, r->rows) || ork_cpu_wanted(r->cpu, r->layer->up, r->rows) ||
           ork_cpu_wanted(r->cpu, r->layer->down, r->rows);
}

static void list(const struct swiglu_region *r, const struct ork_matrix *w, const struct ork_activation *x, float *y)
{
    const struct ork_offload_task task = {.w = w, .x = x, .m = r->rows, .y = y, .y_stride = w->n};
    ork_cpu_list(r->cpu, &task);
}

static void swiglu_with_offload(struct swiglu_region *r)
{
    ork_cpu *cpu = r->cpu;
    ork_cpu_use_whole_rows(&cpu->input);
    ork_cpu_use_whole_rows(&cpu->product);
    ork_cpu_run(cpu, r->rows, prepare_region, r);
    list(r, r->layer->gate, &cpu->input, cpu->hidden);
    list(r, r->layer->up, &cpu->input, cpu->up);
    ork_cpu_multiply_listed(cpu);
    ork_cpu_run(cpu, r->rows, activate_region, r);
    list(r, r->layer->down, &cpu->product, cpu->projected);
    ork_cpu_multiply_listed(cpu);
    ork_cpu_run(cpu, r->rows, add_region, r);
}

void ork_cpu_swiglu(ork_cpu *cpu, const struct ork_cpu_swiglu *layer, float *x, uint64_t x_stride, uint32_t rows)
{
    struct swiglu_region region = {.cpu = cpu,
                                   .layer = layer,
                                   .x = x,
                                   .x_stride = x_stride,
                                   .rows = rows,
                                   .input_codes =
                                       ork_cpu_wants_codes(cpu, layer->gate) || ork_cpu_wants_codes(cpu, layer->up),
                                   .product_codes = ork_cpu_wants_codes(cpu, layer->down)};
    uint32_t k = layer->gate->k, f = layer->gate->n;
    ork_cpu_describe(cpu, &cpu->input, cpu->normed, k, rows, k);
    ork_cpu_describe(cpu, &cpu->product, cpu->hidden, f, rows, f);
    ork_cpu_count_batch(cpu, layer->gate, rows);
    ork_cpu_count_batch(cpu, layer->up, rows);
    ork_cpu_count_batch(cpu, layer->down, rows);
    region.hidden_chain = ork_cpu_chain_find(cpu, layer->gate, rows);
    if (!region.hidden_chain.part)
        region.hidden_chain = ork_cpu_chain_find(cpu, layer->up, rows);
    region.output_chain = ork_cpu_chain_find(cpu, layer->down, rows);
    region.input_codes |= region.hidden_chain.part != NULL;
    region.product_codes |= region.output_chain.part != NULL;
    if (rows > 1 && cpu->offload && is_wanted(&region))
        swiglu_with_offload(&region);
    else
        ork_cpu_run(cpu, rows, swiglu_region, &region);
    if (region.output_chain.replaces)
        join_output(&region);
    else
        ork_cpu_chain_keep(cpu, &region.output_chain, layer->down, cpu->projected);
}
