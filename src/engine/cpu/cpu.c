/* Owns creation of the CPU engine, its scratch memory and the helpers that all groups share; must not know which groups
 * exist. */
#include "engine/cpu/engine.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/cpu/tuning.h"

#include <stdlib.h>

/* Lays out one scratch block: first pass with base NULL measures, second pass hands out. */
struct layout {
    uint8_t *base;
    uint64_t used_bytes;
    bool overflow;
};

static void *take(struct layout *layout, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes, rounded, end;
    if (!ork_checked_multiply(count, size_bytes, &bytes) || !ork_checked_align(bytes, 64, &rounded) ||
        !ork_checked_add(layout->used_bytes, rounded, &end)) {
        layout->overflow = true;
        return NULL;
    }
    void *place = layout->base ? layout->base + layout->used_bytes : NULL;
    layout->used_bytes = end;
    return place;
}

/* Room for rows of together `inputs` padded inputs. */
static void take_activation(struct layout *layout, struct ork_activation *x, uint64_t inputs)
{
    x->plain = take(layout, inputs, sizeof *x->plain);
    x->split = take(layout, inputs, sizeof *x->split);
    /* The smallest block has 32 inputs. */
    x->scales = take(layout, inputs / 32, sizeof *x->scales);
    x->sums = take(layout, inputs / 32, sizeof *x->sums);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct ork_cpu *cpu, struct layout *layout)
{
    const struct ork_cpu_limits *l = &cpu->limits;
    uint64_t rows = l->rows, choices = rows * l->experts_used, threads = cpu->pool_threads;
    uint64_t hidden = larger(rows * ork_round_up(l->hidden, 32), choices * ork_round_up(l->expert_hidden, 32));
    cpu->normed = take(layout, rows * l->input_k, sizeof(float));
    take_activation(layout, &cpu->input, rows * ork_round_up(l->input_k, 32));
    cpu->hidden = take(layout, hidden, sizeof(float));
    cpu->up = take(layout, hidden, sizeof(float));
    take_activation(layout, &cpu->product, hidden);
    cpu->projected = take(layout, larger(rows, choices) * l->output_n, sizeof(float));
    cpu->attend_scratch = take(layout, threads * ork_cpu_attend_scratch(l), sizeof(float));
    cpu->attend_parts = take(layout, ork_cpu_attend_parts(l), sizeof(float));
    take_activation(layout, &cpu->whole, larger(ork_round_up(l->input_k, 32), ork_round_up(l->hidden, 32)));
    cpu->row = take(layout, threads * l->input_k, sizeof(float));
    cpu->router = take(layout, rows * l->experts, sizeof(float));
    cpu->biased = take(layout, threads * l->experts, sizeof(float));
    cpu->chosen = take(layout, choices, sizeof(uint32_t));
    cpu->weights = take(layout, choices, sizeof(float));
    cpu->expert_begin = take(layout, l->experts + 1ull, sizeof(uint32_t));
    cpu->sorted_row = take(layout, choices, sizeof(uint32_t));
    cpu->place = take(layout, choices, sizeof(uint32_t));
    cpu->counting = take(layout, choices, sizeof(uint32_t));
    cpu->runs = take(layout, threads, sizeof *cpu->runs);
    cpu->tasks = take(layout, larger(ORK_CPU_OUTPUTS_MAX, 2ull * l->experts), sizeof *cpu->tasks);
}

static ork_status choose_block(uint32_t wished, uint32_t *block, ork_error *error)
{
    *block = wished ? wished : ORK_CPU_ACTIVATION_BLOCK;
    if (*block != UINT32_MAX && (*block % 32 || *block > ORK_ACTIVATION_BLOCK_MAX))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "activation block", -1,
                             "%u is not a multiple of 32 up to %u, nor whole rows", wished, ORK_ACTIVATION_BLOCK_MAX);
    return ORK_OK;
}

ork_status ork_cpu_create(const struct ork_cpu_config *config, ork_cpu **out, ork_error *error)
{
    *out = NULL;
    struct ork_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return ork_error_no_memory(error, "CPU engine", sizeof *cpu);
    struct layout layout = {0};
    cpu->limits = config->limits;
    ork_status status = choose_block(config->activation_block, &cpu->activation_block, error);
    if (status == ORK_OK)
        status = ork_kernels_get(&cpu->kernels, error);
    if (status != ORK_OK)
        goto out;
    cpu->threads = config->threads ? config->threads : ork_topology_threads();
    cpu->threads_batch = config->threads_batch ? config->threads_batch : cpu->threads;
    cpu->pool_threads = cpu->threads > cpu->threads_batch ? cpu->threads : cpu->threads_batch;
    status = ork_pool_create(cpu->pool_threads, config->spin_us, &cpu->pool, error);
    if (status != ORK_OK)
        goto out;
    ork_pool_set_yielding(cpu->pool, true);
    lay_out(cpu, &layout);
    cpu->scratch_bytes = layout.used_bytes;
    layout = (struct layout){.base = layout.overflow ? NULL : ork_pages_allocate(layout.used_bytes)};
    cpu->scratch = layout.base;
    if (!cpu->scratch) {
        status = ork_error_no_memory(error, "CPU engine scratch", cpu->scratch_bytes);
        goto out;
    }
    lay_out(cpu, &layout);
    for (uint32_t i = 0; i < cpu->limits.rows * cpu->limits.experts_used; i++)
        cpu->counting[i] = i;
    *out = cpu;
    cpu = NULL;
out:
    ork_cpu_destroy(cpu);
    return status;
}

void ork_cpu_destroy(ork_cpu *cpu)
{
    if (!cpu)
        return;
    ork_pool_destroy(cpu->pool);
    ork_pages_free(cpu->scratch, cpu->scratch_bytes);
    free(cpu);
}

uint64_t ork_cpu_scratch_bytes(const ork_cpu *cpu)
{
    return cpu->scratch_bytes;
}

uint64_t ork_cpu_yielded_regions(const ork_cpu *cpu)
{
    return ork_pool_yielded_regions(cpu->pool);
}

uint32_t ork_cpu_threads(const ork_cpu *cpu, bool batch)
{
    return batch ? cpu->threads_batch : cpu->threads;
}

const struct ork_kernels *ork_cpu_kernels(const ork_cpu *cpu)
{
    return cpu->kernels;
}

uint32_t ork_cpu_unit(const struct ork_matrix *w)
{
    uint32_t channels = ork_tier_find(w->tier)->brick_channels;
    return channels > 16 ? channels : 16;
}

uint32_t ork_cpu_units(const struct ork_matrix *w, uint32_t unit)
{
    return (uint32_t)ork_divide_up(w->n, unit);
}

struct ork_cpu_channels ork_cpu_unit_channels(const struct ork_matrix *w, uint32_t unit, uint32_t begin, uint32_t end)
{
    uint64_t n_end = (uint64_t)end * unit;
    return (struct ork_cpu_channels){begin * unit, n_end < w->n ? (uint32_t)n_end : w->n};
}

void ork_cpu_matmul(const struct ork_cpu *cpu, const struct ork_matrix *w, uint32_t expert,
                    const struct ork_activation *x, const uint32_t *x_rows, uint32_t m, struct ork_cpu_channels channels,
                    float *y, uint64_t y_stride)
{
    struct ork_matmul_args args = {.w = w,
                                   .expert = expert,
                                   .x = x,
                                   .x_rows = x_rows,
                                   .m = m,
                                   .n_begin = channels.n_begin,
                                   .n_end = channels.n_end,
                                   .y = y,
                                   .y_stride = y_stride};
    cpu->kernels->matmul[w->tier].run(&args);
}

void ork_cpu_describe(const ork_cpu *cpu, struct ork_activation *x, const float *rows_f32, uint64_t stride, uint32_t rows,
                      uint32_t k)
{
    x->rows = rows;
    x->k = k;
    x->k_padded = (uint32_t)ork_round_up(k, 32);
    x->block = cpu->activation_block < x->k_padded ? cpu->activation_block : x->k_padded;
    x->blocks = (uint32_t)ork_divide_up(x->k_padded, x->block);
    x->f32 = rows_f32;
    x->f32_stride = stride;
}

bool ork_cpu_wants_codes(const ork_cpu *cpu, const struct ork_matrix *w)
{
    return cpu->kernels->matmul[w->tier].activation != ORK_ACTIVATION_F32;
}

void ork_cpu_prepare_rows(ork_cpu *cpu, const float *x, uint64_t x_stride, const float *norm, float eps, bool codes,
                          uint32_t thread, uint32_t threads)
{
    const struct ork_vector_kernels *vector = &cpu->kernels->vector;
    uint32_t begin, end, k = cpu->input.k;
    ork_split_range(cpu->input.rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        if (norm)
            vector->rms_norm(cpu->normed + (uint64_t)row * k, x + row * x_stride, norm, k, eps);
        if (codes)
            vector->quantize(&cpu->input, row);
    }
}

void ork_cpu_quantize_product(struct ork_cpu *cpu, uint32_t thread, uint32_t threads)
{
    uint32_t begin, end;
    ork_split_range(cpu->product.rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        cpu->kernels->vector.quantize(&cpu->product, row);
}

struct embed_region {
    ork_cpu *cpu;
    const struct ork_matrix *embedding;
    const int32_t *tokens;
    uint32_t rows;
    float *x;
    uint64_t x_stride;
};

static void embed_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct embed_region *r = context;
    uint32_t begin, end;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        ork_matrix_decode_row(r->embedding, 0, (uint32_t)r->tokens[row], r->x + row * r->x_stride);
}

void ork_cpu_embed(ork_cpu *cpu, const struct ork_matrix *embedding, const int32_t *tokens, uint32_t rows, float *x,
                   uint64_t x_stride)
{
    struct embed_region region = {cpu, embedding, tokens, rows, x, x_stride};
    ork_cpu_run(cpu, rows, embed_region, &region);
}
