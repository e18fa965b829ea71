/* Owns the mixture-of-experts group: routing, the chosen experts' gate, up and down, the weighted sum. One region.
 *
 * Rows are sorted by expert, so that an expert's weights are read once for all rows that chose it. A choice is a pair
 * (row, j), j < used; its place is its index in the sorted order. */
#include "engine/cpu/engine.h"

#include <string.h>

struct moe_region {
    ork_cpu *cpu;
    const struct ork_cpu_moe *layer;
    float *x;
    uint64_t x_stride;
    uint32_t rows;
    bool router_codes, input_codes, product_codes; /* input: of router, gate or up */
};

static void score_experts(const struct moe_region *r, uint32_t thread, uint32_t threads)
{
    const struct ork_matrix *router = r->layer->router;
    uint32_t unit = ork_cpu_unit(router), begin, end;
    struct ork_cpu_share share = ork_cpu_share_make(r->cpu, 0, ork_cpu_units(router, unit), r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end))
        ork_cpu_matmul(r->cpu, router, 0, &r->cpu->input, NULL, r->rows,
                       ork_cpu_unit_channels(router, unit, begin, end), r->cpu->router, router->n);
}

/* The `used` largest of score (+ bias), lower index first among equals, and their weights. */
static void choose_for_row(const struct moe_region *r, uint32_t row, uint32_t thread)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_cpu_moe *layer = r->layer;
    uint32_t experts = layer->router->n, used = layer->used;
    float *score = cpu->router + (uint64_t)row * experts,
          *biased = cpu->biased + (uint64_t)thread * cpu->limits.experts;
    uint32_t *chosen = cpu->chosen + (uint64_t)row * used;
    float *weights = cpu->weights + (uint64_t)row * used;
    if (layer->sigmoid)
        cpu->kernels->vector.sigmoid(score, score, experts);
    else
        cpu->kernels->vector.softmax(score, experts, 1.0f);
    memcpy(biased, score, experts * sizeof *biased);
    if (layer->router_bias)
        cpu->kernels->vector.add(biased, biased, layer->router_bias, experts);

    uint64_t taken[ORK_CPU_EXPERTS_MAX / 64] = {0};
    float sum = 0.0f;
    for (uint32_t j = 0; j < used; j++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < experts; e++)
            if (!(taken[e / 64] >> e % 64 & 1) && (best == UINT32_MAX || biased[e] > biased[best]))
                best = e;
        taken[best / 64] |= 1ull << best % 64;
        chosen[j] = best;
        weights[j] = score[best];
        sum += weights[j];
    }
    if (sum < 0x1p-14f)
        sum = 0x1p-14f;
    for (uint32_t j = 0; j < used; j++) {
        if (layer->normalise)
            weights[j] /= sum;
        weights[j] *= layer->scale;
    }
}

/* Counting sort of the choices by expert; rows stay in order within an expert. On one thread, with a single row after
 * that row's choice. */
static void sort_choices(void *context)
{
    const struct moe_region *r = context;
    if (r->rows == 1)
        choose_for_row(r, 0, 0);
    ork_cpu *cpu = r->cpu;
    uint32_t used = r->layer->used, experts = r->layer->router->n, choices = r->rows * used;
    uint32_t *begin = cpu->expert_begin;
    memset(begin, 0, (experts + 1ull) * sizeof *begin);
    for (uint32_t i = 0; i < choices; i++)
        begin[cpu->chosen[i] + 1]++;
    for (uint32_t e = 0; e < experts; e++)
        begin[e + 1] += begin[e];
    for (uint32_t i = 0; i < choices; i++) {
        uint32_t place = begin[cpu->chosen[i]]++;
        cpu->place[i] = place;
        cpu->sorted_row[place] = i / used;
    }
    memmove(begin + 1, begin, experts * sizeof *begin);
    begin[0] = 0;
}

/* Hands out runs of units of every expert that has rows; begin and end count through those experts in order. */
struct expert_walk {
    uint32_t expert, first; /* the expert at the present point, units before it */
};

static bool next_expert_run(const struct moe_region *r, uint32_t units, struct expert_walk *walk, uint32_t *begin,
                            uint32_t end, uint32_t *from, uint32_t *to)
{
    const uint32_t *rows_begin = r->cpu->expert_begin;
    uint32_t experts = r->layer->router->n;
    while (walk->expert < experts && *begin < end) {
        bool active = rows_begin[walk->expert + 1] > rows_begin[walk->expert];
        if (active && *begin < walk->first + units) {
            *from = *begin - walk->first;
            *to = end - walk->first < units ? end - walk->first : units;
            *begin = walk->first + *to;
            return true;
        }
        walk->expert++;
        walk->first += active ? units : 0;
    }
    return false;
}

static uint32_t active_experts(const struct moe_region *r)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < r->layer->router->n; e++)
        count += r->cpu->expert_begin[e + 1] > r->cpu->expert_begin[e];
    return count;
}

static void compute_hidden(const struct moe_region *r, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_matrix *gate = r->layer->gate, *up = r->layer->up;
    uint32_t unit = ork_cpu_unit(gate) > ork_cpu_unit(up) ? ork_cpu_unit(gate) : ork_cpu_unit(up);
    uint32_t units = ork_cpu_units(gate, unit), begin, end, from, to;
    struct ork_cpu_share share = ork_cpu_share_make(cpu, 1, units * active_experts(r), r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        struct expert_walk walk = {0};
        while (next_expert_run(r, units, &walk, &begin, end, &from, &to)) {
            uint32_t first = cpu->expert_begin[walk.expert], m = cpu->expert_begin[walk.expert + 1] - first;
            struct ork_cpu_channels channels = ork_cpu_unit_channels(gate, unit, from, to);
            const uint32_t *x_rows = cpu->sorted_row + first;
            uint64_t at = (uint64_t)first * gate->n;
            ork_cpu_matmul(cpu, gate, walk.expert, &cpu->input, x_rows, m, channels, cpu->hidden + at, gate->n);
            ork_cpu_matmul(cpu, up, walk.expert, &cpu->input, x_rows, m, channels, cpu->up + at, gate->n);
            for (uint32_t i = 0; i < m; i++, at += gate->n)
                cpu->kernels->vector.silu_multiply(cpu->hidden + at + channels.n_begin,
                                                   cpu->hidden + at + channels.n_begin, cpu->up + at + channels.n_begin,
                                                   channels.n_end - channels.n_begin);
        }
    }
}

/* x[row][n] += sum over j ascending of weight_j * down_j[n], for the channels given. */
static void add_weighted(const struct moe_region *r, uint32_t row, struct ork_cpu_channels channels, uint32_t thread)
{
    ork_cpu *cpu = r->cpu;
    uint32_t used = r->layer->used, n = channels.n_end - channels.n_begin;
    float *sum = cpu->row + (uint64_t)thread * cpu->limits.input_k;
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t j = 0; j < used; j++) {
        uint64_t choice = (uint64_t)row * used + j;
        const float *part = cpu->projected + (uint64_t)cpu->place[choice] * r->layer->down->n + channels.n_begin;
        cpu->kernels->vector.axpy(sum, part, cpu->weights[choice], n);
    }
    float *x = r->x + row * r->x_stride + channels.n_begin;
    cpu->kernels->vector.add(x, x, sum, n);
}

static void sum_rows(const struct moe_region *r, uint32_t thread, uint32_t threads)
{
    uint32_t begin, end;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        add_weighted(r, row, (struct ork_cpu_channels){0, r->layer->down->n}, thread);
}

/* One row: a thread computes its channels for every chosen expert and can sum them at once. */
static void compute_output_row(const struct moe_region *r, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_matrix *down = r->layer->down;
    uint32_t unit = ork_cpu_unit(down), begin, end;
    struct ork_cpu_share share = ork_cpu_share_make(cpu, 2, ork_cpu_units(down, unit), 1, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        struct ork_cpu_channels channels = ork_cpu_unit_channels(down, unit, begin, end);
        for (uint32_t j = 0; j < r->layer->used; j++) {
            uint32_t place = cpu->place[j];
            ork_cpu_matmul(cpu, down, cpu->chosen[j], &cpu->product, cpu->counting + place, 1, channels,
                           cpu->projected + (uint64_t)place * down->n, down->n);
        }
        add_weighted(r, 0, channels, thread);
    }
}

static void compute_output_rows(const struct moe_region *r, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_matrix *down = r->layer->down;
    uint32_t unit = ork_cpu_unit(down), units = ork_cpu_units(down, unit), begin, end, from, to;
    struct ork_cpu_share share = ork_cpu_share_make(cpu, 2, units * active_experts(r), r->rows, threads);
    while (ork_cpu_share_next(&share, thread, threads, &begin, &end)) {
        struct expert_walk walk = {0};
        while (next_expert_run(r, units, &walk, &begin, end, &from, &to)) {
            uint32_t first = cpu->expert_begin[walk.expert], m = cpu->expert_begin[walk.expert + 1] - first;
            ork_cpu_matmul(cpu, down, walk.expert, &cpu->product, cpu->counting + first, m,
                           ork_cpu_unit_channels(down, unit, from, to), cpu->projected + (uint64_t)first * down->n,
                           down->n);
        }
    }
    ork_pool_barrier(cpu->pool);
    sum_rows(r, thread, threads);
}

/* From the residual stream to sorted choices. codes: whether the input is quantized on the way. Ends with a barrier. */
static void route(struct moe_region *r, bool codes, uint32_t thread, uint32_t threads)
{
    ork_cpu *cpu = r->cpu;
    uint32_t begin, end;
    ork_cpu_prepare_rows(cpu, r->x, r->x_stride, r->layer->norm, r->layer->eps, codes, thread, threads);
    ork_pool_barrier(cpu->pool);
    score_experts(r, thread, threads);
    if (r->rows > 1) {
        ork_pool_barrier(cpu->pool);
        ork_split_range(r->rows, thread, threads, &begin, &end);
        for (uint32_t row = begin; row < end; row++)
            choose_for_row(r, row, thread);
    }
    ork_pool_barrier_then(cpu->pool, sort_choices, r);
}

static void moe_region(void *context, uint32_t thread, uint32_t threads)
{
    struct moe_region *r = context;
    ork_cpu *cpu = r->cpu;
    route(r, r->input_codes, thread, threads);
    compute_hidden(r, thread, threads);
    ork_pool_barrier(cpu->pool);
    if (r->product_codes) {
        ork_cpu_quantize_product(cpu, thread, threads);
        ork_pool_barrier(cpu->pool);
    }
    if (r->rows == 1)
        compute_output_row(r, thread, threads);
    else
        compute_output_rows(r, thread, threads);
}

/* ---- the group cut at its joins, for another engine to take part ---- */

static void route_region(void *context, uint32_t thread, uint32_t threads)
{
    struct moe_region *r = context;
    route(r, r->router_codes, thread, threads);
}

static void quantize_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct moe_region *r = context;
    uint32_t begin, end;
    ork_split_range(r->rows, thread, threads, &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        r->cpu->kernels->vector.quantize(&r->cpu->input, row);
}

static void activate_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct moe_region *r = context;
    ork_cpu_activate_rows(r->cpu, r->product_codes, thread, threads);
}

static void sum_region(void *context, uint32_t thread, uint32_t threads)
{
    sum_rows(context, thread, threads);
}

static bool is_wanted(const struct moe_region *r, uint32_t m)
{
    return ork_cpu_wanted(r->cpu, r->layer->gate, m) || ork_cpu_wanted(r->cpu, r->layer->up, m) ||
           ork_cpu_wanted(r->cpu, r->layer->down, m);
}

static uint32_t expert_rows(const struct moe_region *r, uint32_t expert)
{
    return r->cpu->expert_begin[expert + 1] - r->cpu->expert_begin[expert];
}

static bool is_some_expert_wanted(const struct moe_region *r)
{
    for (uint32_t e = 0; e < r->layer->router->n; e++)
        if (expert_rows(r, e) && is_wanted(r, expert_rows(r, e)))
            return true;
    return false;
}

/* Lists the matmul with w of every expert that has rows. rows: of x, [choices]; y: [choices][w->n], both in sorted order. */
static void list_experts(const struct moe_region *r, const struct ork_matrix *w, const struct ork_activation *x,
                         const uint32_t *rows, float *y)
{
    for (uint32_t e = 0; e < r->layer->router->n; e++) {
        uint32_t first = r->cpu->expert_begin[e];
        const struct ork_offload_task task = {.w = w,
                                              .expert = e,
                                              .x = x,
                                              .x_rows = rows + first,
                                              .m = expert_rows(r, e),
                                              .y = y + (uint64_t)first * w->n,
                                              .y_stride = w->n};
        if (task.m)
            ork_cpu_list(r->cpu, &task);
    }
}

/* How many rows an expert has, and so whether it is wanted, is known after routing. */
static void moe_with_offload(struct moe_region *r)
{
    ork_cpu *cpu = r->cpu;
    const struct ork_cpu_moe *layer = r->layer;
    ork_cpu_run(cpu, r->rows, route_region, r);
    if (is_some_expert_wanted(r)) {
        ork_cpu_use_whole_rows(&cpu->input);
        ork_cpu_use_whole_rows(&cpu->product);
    }
    if (r->input_codes)
        ork_cpu_run(cpu, r->rows, quantize_region, r);
    list_experts(r, layer->gate, &cpu->input, cpu->sorted_row, cpu->hidden);
    list_experts(r, layer->up, &cpu->input, cpu->sorted_row, cpu->up);
    ork_cpu_multiply_listed(cpu);
    ork_cpu_run(cpu, r->rows, activate_region, r);
    list_experts(r, layer->down, &cpu->product, cpu->counting, cpu->projected);
    ork_cpu_multiply_listed(cpu);
    ork_cpu_run(cpu, r->rows, sum_region, r);
}

void ork_cpu_moe(ork_cpu *cpu, const struct ork_cpu_moe *layer, float *x, uint64_t x_stride, uint32_t rows)
{
    struct moe_region region = {.cpu = cpu,
                                .layer = layer,
                                .x = x,
                                .x_stride = x_stride,
                                .rows = rows,
                                .router_codes = ork_cpu_wants_codes(cpu, layer->router),
                                .input_codes = ork_cpu_wants_codes(cpu, layer->gate) ||
                                               ork_cpu_wants_codes(cpu, layer->up) ||
                                               ork_cpu_wants_codes(cpu, layer->router),
                                .product_codes = ork_cpu_wants_codes(cpu, layer->down)};
    uint32_t k = layer->gate->k, f = layer->gate->n;
    ork_cpu_describe(cpu, &cpu->input, cpu->normed, k, rows, k);
    ork_cpu_describe(cpu, &cpu->product, cpu->hidden, f, rows * layer->used, f);
    ork_cpu_count_batch(cpu, layer->router, rows);
    ork_cpu_count_batch(cpu, layer->gate, (uint64_t)rows * layer->used);
    ork_cpu_count_batch(cpu, layer->up, (uint64_t)rows * layer->used);
    ork_cpu_count_batch(cpu, layer->down, (uint64_t)rows * layer->used);
    if (rows > 1 && cpu->offload && is_wanted(&region, rows))
        moe_with_offload(&region);
    else
        ork_cpu_run(cpu, rows, moe_region, &region);
}
