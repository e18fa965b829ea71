/* Owns projection groups: several matrices on one shared, normalised input. Must not know what the outputs mean. */
#include "engine/cpu/engine.h"

#include <assert.h>

struct project_region {
    ork_cpu *cpu;
    const float *x;
    uint64_t x_stride;
    uint32_t rows;
    const float *norm;
    float eps;
    const struct ork_cpu_output *outputs;
    uint32_t output_count;
    bool codes;
    uint32_t units; /* of all outputs together */
    struct ork_cpu_chain chain;
};

/* Results that are added to something are put aside first. */
static float *target(const struct project_region *r, const struct ork_cpu_output *output, uint64_t *stride)
{
    *stride = output->add ? output->w->n : output->y_stride;
    return output->add ? r->cpu->projected : output->y;
}

/* Bias and sum of one row of an output. What a late chain corrects later stays without the bias, so that of equal results
 * nothing is left. */
static void complete_row(const struct project_region *r, const struct ork_cpu_output *output, uint32_t row,
                         struct ork_cpu_channels channels)
{
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    uint32_t n = channels.n_end - channels.n_begin;
    uint64_t stride;
    float *part = target(r, output, &stride) + row * stride + channels.n_begin;
    if (output->bias && output->add && r->chain.part && !r->chain.replaces) {
        float *sum = output->y + row * output->y_stride + channels.n_begin;
        for (uint32_t i = 0; i < n; i++)
            sum[i] += part[i] + output->bias[channels.n_begin + i];
        return;
    }
    if (output->bias)
        vector->add(part, part, output->bias + channels.n_begin, n);
    if (output->add && !r->chain.replaces) {
        float *sum = output->y + row * output->y_stride + channels.n_begin;
        vector->add(sum, sum, part, n);
    }
}

/* A run of units of one output for all rows, then its epilogue while the results are in cache. */
static void compute_output(const struct project_region *r, const struct ork_cpu_output *output, uint32_t unit,
                           uint32_t begin, uint32_t end)
{
    ork_cpu *cpu = r->cpu;
    struct ork_cpu_channels channels = ork_cpu_unit_channels(output->w, unit, begin, end);
    uint64_t stride;
    float *y = target(r, output, &stride);
    ork_cpu_matmul(cpu, output->w, 0, &cpu->input, NULL, r->rows, channels, y, stride);
    for (uint32_t row = 0; row < r->rows; row++)
        complete_row(r, output, row, channels);
}

/* Units [begin, end) counted through all outputs of the group. */
static void compute_units(const struct project_region *r, uint32_t begin, uint32_t end)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < r->output_count && first < end; i++) {
        uint32_t unit = ork_cpu_unit(r->outputs[i].w), units = ork_cpu_units(r->outputs[i].w, unit);
        uint32_t from = begin > first ? begin - first : 0, to = end - first < units ? end - first : units;
        if (from < to)
            compute_output(r, &r->outputs[i], unit, from, to);
        first += units;
    }
}

static void project_region(void *context, uint32_t thread, uint32_t threads)
{
    struct project_region *r = context;
    ork_cpu_prepare_rows(r->cpu, r->x, r->x_stride, r->norm, r->eps, r->codes, thread, threads);
    ork_pool_barrier(r->cpu->pool);
    if (thread == 0)
        ork_cpu_chain_begin(r->cpu, &r->chain, &r->cpu->input);
    struct ork_cpu_share share = ork_cpu_share_make(r->cpu, 0, r->units, r->rows, threads);
    uint32_t begin, end;
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end))
        compute_units(r, begin, end);
}

static void prepare_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct project_region *r = context;
    ork_cpu_prepare_rows(r->cpu, r->x, r->x_stride, r->norm, r->eps, r->codes, thread, threads);
}

static void complete_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct project_region *r = context;
    uint32_t begin, end;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t i = 0; i < r->output_count; i++)
        for (uint32_t row = begin; row < end; row++)
            complete_row(r, &r->outputs[i], row, (struct ork_cpu_channels){0, r->outputs[i].w->n});
}

static bool is_wanted(const struct project_region *r)
{
    bool wanted = false;
    for (uint32_t i = 0; i < r->output_count; i++)
        wanted |= ork_cpu_wanted(r->cpu, r->outputs[i].w, r->rows);
    return wanted;
}

/* The group cut at its join, for another engine to take part. */
static void project_with_offload(struct project_region *r)
{
    ork_cpu *cpu = r->cpu;
    bool has_epilogue = false;
    ork_cpu_use_whole_rows(&cpu->input);
    ork_cpu_run(cpu, r->rows, prepare_region, r);
    for (uint32_t i = 0; i < r->output_count; i++) {
        const struct ork_cpu_output *output = &r->outputs[i];
        struct ork_offload_task task = {.w = output->w, .x = &cpu->input, .m = r->rows};
        task.y = target(r, output, &task.y_stride);
        ork_cpu_list(cpu, &task);
        has_epilogue |= output->bias || output->add;
    }
    ork_cpu_multiply_listed(cpu);
    if (has_epilogue)
        ork_cpu_run(cpu, r->rows, complete_region, r);
}

static struct ork_cpu_chain find_chain(const struct project_region *r)
{
    struct ork_cpu_chain chain = {0};
    for (uint32_t i = 0; i < r->output_count && !chain.part; i++)
        chain = ork_cpu_chain_find(r->cpu, r->outputs[i].w, r->rows);
    return chain;
}

/* Results of the chain in place of the CPU's, and sums that waited for them. One row. */
static void replace_results(const struct project_region *r)
{
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    const float *results = ork_cpu_chain_poll(r->cpu, &r->chain);
    for (uint32_t i = 0; i < r->output_count; i++) {
        const struct ork_cpu_output *output = &r->outputs[i];
        uint64_t stride;
        float *part = target(r, output, &stride);
        ork_cpu_chain_replace(r->cpu, &r->chain, results, output->w, output->bias, part);
        if (output->add)
            vector->add(output->y, output->y, part, output->w->n);
    }
    if (results)
        ork_cpu_chain_done(r->cpu, &r->chain);
}

/* A late chain has one member, whose result has been added to the stream, with a bias that is not in it. */
static void keep_results(const struct project_region *r)
{
    for (uint32_t i = 0; i < r->output_count; i++) {
        const struct ork_cpu_output *output = &r->outputs[i];
        uint64_t stride;
        float *part = target(r, output, &stride);
        if (output->add)
            ork_cpu_chain_keep(r->cpu, &r->chain, output->w, part);
    }
}

void ork_cpu_project(ork_cpu *cpu, const float *x, uint64_t x_stride, uint32_t rows, const float *norm, float eps,
                     const struct ork_cpu_output *outputs, uint32_t output_count)
{
    struct project_region region = {.cpu = cpu,
                                    .x = x,
                                    .x_stride = x_stride,
                                    .rows = rows,
                                    .norm = norm,
                                    .eps = eps,
                                    .outputs = outputs,
                                    .output_count = output_count};
    uint32_t k = outputs[0].w->k;
    assert(output_count && output_count <= ORK_CPU_OUTPUTS_MAX);
    ork_cpu_describe(cpu, &cpu->input, norm ? cpu->normed : x, norm ? k : x_stride, rows, k);
    for (uint32_t i = 0; i < output_count; i++) {
        ork_cpu_count_batch(cpu, outputs[i].w, rows);
        region.codes |= ork_cpu_wants_codes(cpu, outputs[i].w);
        region.units += ork_cpu_units(outputs[i].w, ork_cpu_unit(outputs[i].w));
    }
    region.chain = find_chain(&region);
    region.codes |= region.chain.part != NULL; /* a chain's members may be read as floats here */
    if (rows > 1 && cpu->offload && is_wanted(&region))
        project_with_offload(&region);
    else
        ork_cpu_run(cpu, rows, project_region, &region);
    if (region.chain.replaces)
        replace_results(&region);
    else if (region.chain.begun)
        keep_results(&region);
}
