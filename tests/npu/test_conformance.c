/* Random matmuls of both types over the whole limit space through planner, program writer, surface kernels and a device,
 * compared number by number with the definition, in floats with the kernel table, and with their checks.
 *
 * Usage: test_conformance soft|rknpu|rocket. rknpu and rocket are the real code on drivers played at the system-call
 * boundary. ORK_NPU_SHAPES: how many shapes of each type (default 150). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/npu/device/device.h"
#include "engine/npu/device/soft.h"
#include "engine/npu/tiling.h"
#include "kernels/kernels.h"
#include "quant/nested.h"
#include "shim/shim.h"

static uint64_t seed = 4;

static uint32_t below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

#define MULTIPLY_ADDS_MOST (24u << 20) /* of a shape */
#define QUEUE_MOST 32u                 /* jobs of a core at once */

static const char *device_name = "soft";
static const struct ork_kernels *kernels;

/* What one core needs. Rocket's cores have a domain each; elsewhere all are in one. */
struct part {
    struct ork_npu_buffer programs, a, b, c;
    struct ork_npu_job **jobs; /* one, or one a task */
    uint32_t job_count;
};

struct matmul {
    struct ork_npu_device *device;
    struct ork_npu_plan plan;
    struct ork_matrix matrix; /* where B comes from; k and n as wished */
    uint8_t *data;
    float *scales;
    int8_t table[16];
    int8_t *a, *b;     /* [m][k], [n][k] codes, padded k and n */
    uint8_t *resident; /* B as the NPU fetches it */
    bool chained;      /* one job a core, else one a task */
    struct part parts[ORK_NPU_CORES_MAX];
    bool saturates;                                                       /* int16 results are clamped somewhere */
    uint64_t jobs, tasks, on_cores[ORK_NPU_CORES_MAX], chains, saturated; /* of all shapes */
};

static void check(ork_status status, const ork_error *error)
{
    if (status != ORK_OK)
        fail_msg("%s: %s", error->where, error->what);
}

/* ---- operands ---- */

static void fill_bytes(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)below(256);
}

/* B in a tier of the pack: any bytes, a fourth of the time the largest codes; padding channels and inputs are what they
 * are, for the plan's product covers them. */
static void make_weights(struct matmul *matmul, const struct ork_npu_tiling *tiling, enum ork_tier tier)
{
    const struct ork_tier_info *info = ork_tier_find(tier);
    struct ork_tier_sizes sizes;
    assert_true(ork_tier_sizes(tier, tiling->n, tiling->k, &sizes));
    matmul->data = malloc(sizes.data_bytes);
    matmul->scales = malloc(sizes.scale_bytes);
    assert_true(matmul->data && matmul->scales);
    if (tiling->type == ORK_NPU_W4A4 && tiling->a_max < 8)
        memset(matmul->data, below(2) ? 0x88 : 0x77, sizes.data_bytes);
    else if (below(4) == 0)
        memset(matmul->data, below(2) ? 0x88 : 0x80, sizes.data_bytes);
    else
        fill_bytes(matmul->data, sizes.data_bytes);
    for (size_t i = 0; i < sizes.scale_bytes / 4; i++)
        matmul->scales[i] = (float)(below(2001) + 1) / 4096.0f;
    memcpy(matmul->table, ork_nf4_table, sizeof matmul->table);
    matmul->matrix = (struct ork_matrix){.tier = tier,
                                         .layout = info->layout,
                                         .n = tiling->n,
                                         .k = tiling->k,
                                         .experts = 1,
                                         .data = matmul->data,
                                         .data_expert_stride = sizes.data_bytes,
                                         .scales = (const uint8_t *)matmul->scales,
                                         .scale_expert_stride = sizes.scale_bytes,
                                         .table = ork_tier_has_table(tier) ? matmul->table : NULL,
                                         .name = "conformance"};
}

/* As the NPU fetches them: the bricks themselves, or inflated to int8. Groups of 64 channels become two of 32, of which the
 * plan may use one. */
static void make_resident(struct matmul *matmul)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    const struct ork_matrix *w = &matmul->matrix;
    const struct ork_tier_info *info = ork_tier_find(w->tier);
    uint32_t tiles = plan->k / 32, groups = (w->n + info->brick_channels - 1) / info->brick_channels;
    matmul->resident = calloc(1, (size_t)groups * 2 * tiles * 1024 + 4096);
    assert_non_null(matmul->resident);
    if (plan->type == ORK_NPU_W4A4 || w->tier == ORK_TIER_I8) {
        memcpy(matmul->resident, matmul->data, plan->b_bytes);
        return;
    }
    for (uint32_t g = 0; g < groups; g++) {
        const uint8_t *bricks = matmul->data + (size_t)g * tiles * info->brick_bytes;
        uint8_t *out = matmul->resident + (size_t)g * 2 * tiles * 1024;
        const uint8_t *residual = w->tier == ORK_TIER_N8 ? bricks + ork_nested_residual_bytes(w->n, w->k) : NULL;
        kernels->surface.inflate(w->tier, w->table, bricks, residual, tiles, out);
    }
}

/* Codes by the quant room's reader with scales of 1; channels and inputs beyond the matrix from the stored padding. */
static void make_codes(struct matmul *matmul)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    const uint32_t channels = ork_tier_find(matmul->matrix.tier)->brick_channels;
    struct ork_matrix whole = matmul->matrix;
    float *ones = malloc((size_t)(plan->n + 64) * sizeof *ones), *row = malloc((size_t)plan->k * sizeof *row);
    matmul->b = calloc(plan->n, plan->k);
    assert_true(ones && row && matmul->b);
    for (uint32_t n = 0; n < plan->n + 64; n++)
        ones[n] = 1.0f;
    uint64_t groups = (whole.n + channels - 1) / channels;
    assert_true(plan->n <= groups * channels);
    /* n8 finds its second plane by n and k; both round to the same bricks. */
    whole.n = (uint32_t)(groups * channels);
    whole.k = plan->k;
    whole.scales = (const uint8_t *)ones;
    for (uint32_t n = 0; n < plan->n; n++) {
        ork_matrix_decode_row(&whole, 0, n, row);
        for (uint32_t k = 0; k < plan->k; k++)
            matmul->b[(size_t)n * plan->k + k] = (int8_t)row[k];
    }
    free(ones);
    free(row);
}

static void make_inputs(struct matmul *matmul, uint32_t k)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    int range = plan->type == ORK_NPU_W4A4 ? 16 : 256, lowest = -range / 2;
    bool extreme = below(4) == 0 || (plan->type == ORK_NPU_W4A4 && plan->slices == 1 && plan->k > 512);
    matmul->a = calloc(plan->m, plan->k);
    assert_non_null(matmul->a);
    for (uint32_t m = 0; m < plan->m; m++)
        for (uint32_t i = 0; i < k; i++)
            matmul->a[(size_t)m * plan->k + i] = (int8_t)(lowest + (extreme ? 0 : (int)below((uint32_t)range)));
}

static void lay_a(const struct matmul *matmul, const struct ork_npu_tile *tile, uint8_t *out)
{
    const struct ork_npu_shape *shape = &tile->shape;
    const struct ork_surface_input input = {.codes = matmul->a + (size_t)tile->m_begin * matmul->plan.k,
                                            .stride = matmul->plan.k,
                                            .m = shape->m,
                                            .k_begin = tile->k_begin,
                                            .k = shape->k,
                                            .out = out};
    if (shape->input == ORK_NPU_ROWS)
        for (uint32_t m = 0; m < shape->m; m++)
            memcpy(out + (size_t)m * shape->k, input.codes + (size_t)m * input.stride + tile->k_begin, shape->k);
    else if (shape->type == ORK_NPU_W4A4)
        kernels->surface.input_i4(&input);
    else
        kernels->surface.input_i8(&input);
}

/* ---- jobs ---- */

static void make_part(struct matmul *matmul, uint32_t core)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    const struct ork_npu_plan *plan = &matmul->plan;
    struct part *part = &matmul->parts[core];
    uint32_t begin = plan->core_begin[core], count = plan->core_begin[core + 1] - begin;
    uint64_t slot_bytes = 8 * ORK_NPU_PROGRAM_SLOT_WORDS;
    ork_error error = {0};
    uint32_t domain = ops->capabilities(matmul->device)->core_per_domain ? core : 0;
    check(ops->allocate(matmul->device, domain, count * slot_bytes + 8 * ORK_NPU_PROGRAM_SLACK_WORDS, &part->programs,
                        &error),
          &error);
    check(ops->allocate(matmul->device, domain, plan->a_bytes, &part->a, &error), &error);
    check(ops->allocate(matmul->device, domain, plan->b_bytes, &part->b, &error), &error);
    check(ops->allocate(matmul->device, domain, plan->c_bytes, &part->c, &error), &error);
    memcpy(part->b.host, matmul->resident, plan->b_bytes);
    memset(part->c.host, 0x5a, part->c.size_bytes);
    struct ork_npu_task *tasks = calloc(count, sizeof *tasks);
    assert_non_null(tasks);
    for (uint32_t i = 0; i < count; i++) {
        const struct ork_npu_tile *tile = &plan->tiles[begin + i];
        uint64_t *words = (uint64_t *)(part->programs.host + i * slot_bytes);
        struct ork_npu_addresses addresses = {part->a.iova + (uint32_t)tile->a_offset,
                                              part->b.iova + (uint32_t)tile->b_offset,
                                              part->c.iova + (uint32_t)tile->c_offset};
        lay_a(matmul, tile, part->a.host + tile->a_offset);
        check(ork_npu_program_write(&tile->shape, &addresses, words, &error), &error);
        tasks[i] =
            (struct ork_npu_task){part->programs.iova + (uint32_t)(i * slot_bytes), ork_npu_program_words(plan->type)};
        bool last = !matmul->chained || i + 1 == count;
        ork_npu_program_set_next(plan->type, last, last ? 0 : tasks[i].program_iova + (uint32_t)slot_bytes, plan->type,
                                 words);
    }
    const struct ork_npu_buffer *inputs[] = {&part->programs, &part->a, &part->b}, *outputs[] = {&part->c};
    for (int i = 0; i < 3; i++)
        check(ops->sync(matmul->device, inputs[i], 0, inputs[i]->size_bytes, ORK_NPU_TO_DEVICE, &error), &error);
    check(ops->sync(matmul->device, &part->c, 0, part->c.size_bytes, ORK_NPU_TO_DEVICE, &error), &error);
    part->job_count = matmul->chained ? 1 : count;
    part->jobs = calloc(part->job_count, sizeof *part->jobs);
    assert_non_null(part->jobs);
    for (uint32_t i = 0; i < part->job_count; i++) {
        const struct ork_npu_job_params params = {.core = core,
                                                  .domain = domain,
                                                  .tasks = tasks + i,
                                                  .task_count = matmul->chained ? count : 1,
                                                  .inputs = inputs,
                                                  .input_count = 3,
                                                  .outputs = outputs,
                                                  .output_count = 1};
        check(ops->job_create(matmul->device, &params, &part->jobs[i], &error), &error);
    }
    free(tasks);
}

/* ---- results ---- */

struct results {
    int32_t *sums;    /* [m][n] */
    float *y;         /* [m][n wished] */
    uint32_t *checks; /* [m] */
};

/* What is read too early is not a sum of anything. */
static void add_sum(int32_t *sum, int32_t part)
{
    *sum = (int32_t)((uint32_t)*sum + (uint32_t)part);
}

/* A core's results through the output kernels; slices of inputs are neighbours in the plan or far apart, so sums are added
 * here and floats come from the last. */
static void gather(const struct matmul *matmul, uint32_t core, const uint32_t *weights, struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    for (uint32_t i = plan->core_begin[core]; i < plan->core_begin[core + 1]; i++) {
        const struct ork_npu_tile *tile = &plan->tiles[i];
        const void *parts[1] = {matmul->parts[core].c.host + tile->c_offset};
        int32_t *sums = malloc((size_t)tile->shape.m * tile->shape.n * sizeof *sums);
        assert_non_null(sums);
        struct ork_surface_output output = {.parts = parts,
                                            .part_count = 1,
                                            .m = tile->shape.m,
                                            .n = tile->shape.n,
                                            .n_used = tile->shape.n,
                                            .sums = sums,
                                            .sums_stride = tile->shape.n,
                                            .weights = weights + tile->n_begin,
                                            .checks = results->checks + tile->m_begin};
        if (plan->type == ORK_NPU_W4A4)
            kernels->surface.output_i16(&output);
        else if (tile->shape.output == ORK_NPU_ROWS)
            kernels->surface.output_i32_rows(&output);
        else
            kernels->surface.output_i32(&output);
        for (uint32_t m = 0; m < tile->shape.m; m++)
            for (uint32_t n = 0; n < tile->shape.n; n++)
                add_sum(&results->sums[(size_t)(tile->m_begin + m) * plan->n + tile->n_begin + n],
                        sums[(size_t)m * tile->shape.n + n]);
        free(sums);
    }
}

/* The definition; int16 results of one task are clamped. */
static int32_t *multiply(struct matmul *matmul)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    int32_t *right = malloc((size_t)plan->m * plan->n * sizeof *right);
    assert_non_null(right);
    matmul->saturates = false;
    for (uint32_t m = 0; m < plan->m; m++)
        for (uint32_t n = 0; n < plan->n; n++) {
            const int8_t *a = matmul->a + (size_t)m * plan->k, *b = matmul->b + (size_t)n * plan->k;
            int32_t sum = 0;
            for (uint32_t k = 0; k < plan->k; k++)
                sum += a[k] * b[k];
            int32_t clamped = sum < INT16_MIN ? INT16_MIN : sum > INT16_MAX ? INT16_MAX : sum;
            if (plan->type == ORK_NPU_W4A4 && plan->slices == 1 && clamped != sum) {
                matmul->saturates = true;
                sum = clamped;
            }
            right[(size_t)m * plan->n + n] = sum;
        }
    return right;
}

/* What the engine does with the check: it is right for right results. */
static void compare_checks(const struct matmul *matmul, const uint32_t *weights, const struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    uint32_t *key = calloc(plan->k, sizeof *key), *expected = calloc(plan->m, sizeof *expected);
    uint32_t group = ork_npu_group(plan->type);
    assert_true(key && expected);
    for (uint32_t n = 0; n < plan->n; n += group) {
        const uint8_t *bricks = matmul->resident + (size_t)(n / group) * (plan->k / 32) * 1024;
        if (plan->type == ORK_NPU_W4A4)
            kernels->surface.key_i4(bricks, plan->k / 32, weights + n, key);
        else
            kernels->surface.key_i8(bricks, plan->k / 32, weights + n, key);
    }
    kernels->surface.row_checks(matmul->a, plan->k, NULL, plan->m, key, plan->k, expected);
    for (uint32_t m = 0; m < plan->m; m++)
        assert_int_equal(expected[m], results->checks[m]);
    free(key);
    free(expected);
}

/* One bit of one number in memory is turned over and everything read again: one row's check notices. */
static void spoil_one(struct matmul *matmul, const uint32_t *weights, const struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    uint32_t core = below(plan->cores), tiles = plan->core_begin[core + 1] - plan->core_begin[core], differ = 0;
    const struct ork_npu_tile *tile = &plan->tiles[plan->core_begin[core] + below(tiles)];
    uint32_t bytes = tile->shape.m * tile->shape.n * (plan->type == ORK_NPU_W4A4 ? 2 : 4);
    uint8_t *byte = matmul->parts[core].c.host + tile->c_offset + below(bytes), bit = (uint8_t)(1u << below(8));
    struct results again = {.sums = calloc((size_t)plan->m * plan->n, sizeof(int32_t)),
                            .checks = calloc(plan->m, sizeof(uint32_t))};
    assert_true(again.sums && again.checks);
    *byte ^= bit;
    for (uint32_t c = 0; c < plan->cores; c++)
        gather(matmul, c, weights, &again);
    *byte ^= bit;
    for (uint32_t m = 0; m < plan->m; m++)
        differ += again.checks[m] != results->checks[m];
    assert_int_equal(differ, 1);
    free(again.sums);
    free(again.checks);
}

/* Floats as the engine makes them, against the kernel table on the tier's own bricks. */
static void compare_floats(const struct matmul *matmul, const struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    const struct ork_matrix *w = &matmul->matrix;
    int8_t *split = malloc((size_t)plan->m * plan->k);
    float *x_scales = malloc(plan->m * sizeof *x_scales), *y = malloc((size_t)plan->m * w->n * sizeof *y);
    int32_t *sums = calloc(plan->m, sizeof *sums);
    assert_true(split && x_scales && y && sums);
    for (uint32_t m = 0; m < plan->m; m++) {
        x_scales[m] = (float)(m % 17 + 1) / 512.0f;
        for (uint32_t k = 0; k < plan->k; k++) {
            int8_t code = matmul->a[(size_t)m * plan->k + k];
            split[(size_t)m * plan->k + k / 32 * 32 + k % 2 * 16 + k % 32 / 2] = code;
            sums[m] += code;
        }
    }
    const struct ork_activation x = {.rows = plan->m,
                                     .k = w->k,
                                     .k_padded = plan->k,
                                     .block = plan->k,
                                     .blocks = 1,
                                     .plain = matmul->a,
                                     .split = split,
                                     .scales = x_scales,
                                     .sums = sums};
    const struct ork_matmul_args args = {
        .w = w, .x = &x, .m = plan->m, .n_begin = 0, .n_end = w->n, .y = y, .y_stride = w->n};
    kernels->matmul[w->tier].run(&args);
    for (uint32_t m = 0; m < plan->m; m++)
        for (uint32_t n = 0; n < w->n; n++) {
            float due = fmaf((float)results->sums[(size_t)m * plan->n + n], x_scales[m], 0.0f) * matmul->scales[n];
            assert_memory_equal(&due, &y[(size_t)m * w->n + n], sizeof due);
        }
    free(split);
    free(x_scales);
    free(sums);
    free(y);
}

static void wait_for_job(const struct matmul *matmul, struct ork_npu_job *job)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    const struct ork_clock *clock = ops->clock(matmul->device);
    enum ork_npu_state state;
    while ((state = ops->poll(matmul->device, job)) == ORK_NPU_PENDING)
        clock->sleep_until(clock, ops->next_look_ns(matmul->device, job));
    assert_int_not_equal(state, ORK_NPU_FAILED);
}

static void wait_for(struct matmul *matmul, uint32_t core)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    struct part *part = &matmul->parts[core];
    ork_error error = {0};
    for (uint32_t i = 0; i < part->job_count; i++)
        wait_for_job(matmul, part->jobs[i]);
    check(ops->sync(matmul->device, &part->c, 0, part->c.size_bytes, ORK_NPU_FROM_DEVICE, &error), &error);
}

static bool read_all(struct matmul *matmul, const uint32_t *weights, const int32_t *right, struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    memset(results->sums, 0, (size_t)plan->m * plan->n * sizeof *results->sums);
    memset(results->checks, 0, plan->m * sizeof *results->checks);
    for (uint32_t core = 0; core < plan->cores; core++) {
        wait_for(matmul, core);
        gather(matmul, core, weights, results);
    }
    return memcmp(results->sums, right, (size_t)plan->m * plan->n * sizeof *right) == 0;
}

static void explain(const struct matmul *matmul, const int32_t *right, const struct results *results)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    for (size_t i = 0; i < (size_t)plan->m * plan->n; i++)
        if (right[i] != results->sums[i])
            fail_msg("%s, type %d, tier %s, %u x %u times %u x %u, %u tasks: row %zu, channel %zu: %d instead of %d",
                     device_name, plan->type, matmul->matrix.name, plan->m, plan->k, plan->n, plan->k, plan->tile_count,
                     i / plan->n, i % plan->n, results->sums[i], right[i]);
}

static void submit_all(struct matmul *matmul)
{
    ork_error error = {0};
    uint32_t most = 0;
    for (uint32_t core = 0; core < matmul->plan.cores; core++)
        most = matmul->parts[core].job_count > most ? matmul->parts[core].job_count : most;
    for (uint32_t i = 0; i < most; i++)
        for (uint32_t core = 0; core < matmul->plan.cores; core++) {
            const struct part *part = &matmul->parts[core];
            if (i >= part->job_count)
                continue;
            if (i >= QUEUE_MOST)
                wait_for_job(matmul, part->jobs[i - QUEUE_MOST]);
            check(matmul->device->ops->submit(matmul->device, part->jobs[i], &error), &error);
        }
}

static void free_parts(struct matmul *matmul)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    for (uint32_t core = 0; core < matmul->plan.cores; core++) {
        struct part *part = &matmul->parts[core];
        for (uint32_t i = 0; i < part->job_count; i++)
            ops->job_destroy(matmul->device, part->jobs[i]);
        free(part->jobs);
        struct ork_npu_buffer *buffers[] = {&part->programs, &part->a, &part->b, &part->c};
        for (int i = 0; i < 4; i++)
            ops->release(matmul->device, buffers[i]);
    }
}

static void run(struct matmul *matmul, const struct ork_npu_tiling *tiling, enum ork_tier tier)
{
    struct ork_npu_plan *plan = &matmul->plan;
    ork_error error = {0};
    check(ork_npu_plan_make(tiling, plan, &error), &error);
    if (plan->slices > 1 && tiling->a_max < 8) { /* sums of clamped slices have no definition here */
        struct ork_npu_tiling safe = *tiling;
        safe.a_max = safe.w_max = 8;
        ork_npu_plan_free(plan);
        check(ork_npu_plan_make(&safe, plan, &error), &error);
    }
    make_weights(matmul, tiling, tier);
    make_resident(matmul);
    make_codes(matmul);
    make_inputs(matmul, tiling->k);
    struct results results = {.sums = malloc((size_t)plan->m * plan->n * sizeof(int32_t)),
                              .checks = malloc(plan->m * sizeof(uint32_t))};
    uint32_t *weights = malloc(plan->n * sizeof *weights);
    assert_true(results.sums && results.checks && weights);
    ork_surface_weights(0, plan->n, weights);
    int32_t *right = multiply(matmul);
    for (uint32_t core = 0; core < plan->cores; core++)
        make_part(matmul, core);
    submit_all(matmul);
    const uint64_t until = ork_clock_now_us() + 200000000; /* others may want this machine too */
    /* A driver that cannot say: the output is read until it is right, or much too long. */
    while (!read_all(matmul, weights, right, &results) && strcmp(device_name, "rknpu") == 0 &&
           ork_clock_now_us() < until)
        ork_clock_monotonic()->sleep_until(ork_clock_monotonic(), ork_clock_now_ns() + 100000);
    explain(matmul, right, &results);
    spoil_one(matmul, weights, &results);
    if (!matmul->saturates) /* clamped sums are not the product */
        compare_checks(matmul, weights, &results);
    matmul->saturated += matmul->saturates;
    if (plan->type == ORK_NPU_W8A8)
        compare_floats(matmul, &results);
    for (uint32_t core = 0; core < plan->cores; core++)
        matmul->jobs += matmul->parts[core].job_count;
    matmul->tasks += plan->tile_count;
    matmul->on_cores[plan->cores - 1]++;
    matmul->chains += matmul->chained;
    free_parts(matmul);
    free(weights);
    free(right);
    free(results.sums);
    free(results.checks);
    free(matmul->a);
    free(matmul->b);
    free(matmul->data);
    free(matmul->scales);
    free(matmul->resident);
    ork_npu_plan_free(plan);
}

/* ---- shapes ---- */

/* Most are drawn evenly over magnitudes, some sit at a limit or beside it. */
static uint32_t draw(uint32_t most, const uint32_t *limits, uint32_t limit_count)
{
    uint32_t bits = 1;
    if (below(5) == 0) {
        uint32_t value = limits[below(limit_count)] + below(3) - 1;
        return value < 1 ? 1 : value > most ? most : value;
    }
    while (most >> bits)
        bits++;
    uint32_t value = 1 + below(1u << (1 + below(bits)));
    return value > most ? most : value;
}

static struct ork_npu_tiling draw_tiling(enum ork_npu_type type)
{
    static const uint32_t rows[] = {1, 2, 4, 15, 16, 32, 64, 128, 129, 512},
                          inputs[] = {1,    32,   64,   480,  512,   1024,  2048, 3072,
                                      3584, 4096, 6144, 8192, 10752, 10784, 16384},
                          channels[] = {1, 32, 64, 96, 4096, 8192, 8224, 12000};
    struct ork_npu_tiling tiling = {.type = type, .cores = 1 + below(3), .a_max = 8, .w_max = 8};
    uint64_t work;
    do {
        tiling.m = draw(600, rows, sizeof rows / sizeof *rows);
        tiling.k = draw(17000, inputs, sizeof inputs / sizeof *inputs);
        tiling.n = draw(13000, channels, sizeof channels / sizeof *channels);
        if (below(3) && tiling.n < tiling.cores * ork_npu_group(type)) /* work for every core */
            tiling.n += tiling.cores * ork_npu_group(type);
        work = (uint64_t)tiling.m * tiling.k * tiling.n;
    } while (work > MULTIPLY_ADDS_MOST);
    if (below(4) == 0)
        tiling.rows_cap = 1 + below(40);
    if (below(4) == 0)
        tiling.channels_cap = ork_npu_group(type) * (1 + below(8));
    if (type == ORK_NPU_W8A8 && below(4) == 0)
        tiling.output = ORK_NPU_ROWS;
    if (type == ORK_NPU_W8A8 && below(4) == 0) {
        tiling.force_input = true;
        tiling.input = tiling.output == ORK_NPU_ROWS || below(2) ? ORK_NPU_ROWS : ORK_NPU_NATIVE;
    }
    if (type == ORK_NPU_W4A4 && below(4) == 0) /* promises smaller codes than come: results are clamped */
        tiling.a_max = tiling.w_max = 1 + below(3);
    return tiling;
}

static ork_status open_device(struct ork_npu_device **device, ork_error *error)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT};
    if (strcmp(device_name, "soft") == 0)
        return ork_npu_soft_open(&params, device, error);
    assert_int_equal(
        ork_shim_configure(strcmp(device_name, "rknpu") == 0 ? "rknpu" : "rocket,watchdog_ms=60000", NULL, NULL), 0);
    if (strcmp(device_name, "rknpu") == 0)
        return ork_npu_rknpu_open(&params, device, error);
    return ork_npu_rocket_open(&params, device, error);
}

static void random_shapes(enum ork_npu_type type)
{
    static const enum ork_tier tiers[] = {ORK_TIER_I8, ORK_TIER_NF4, ORK_TIER_I4,
                                          ORK_TIER_I5, ORK_TIER_I6,  ORK_TIER_N8};
    const char *wish = getenv("ORK_NPU_SHAPES");
    long count = wish ? strtol(wish, NULL, 10) : 150;
    ork_error error = {0};
    struct matmul matmul = {0};
    assert_int_equal(ork_kernels_get(&kernels, &error), ORK_OK);
    check(open_device(&matmul.device, &error), &error);
    for (long i = 0; i < count; i++) {
        struct ork_npu_tiling tiling = draw_tiling(type);
        matmul.chained = below(4) != 0;
        run(&matmul, &tiling, type == ORK_NPU_W4A4 ? ORK_TIER_I4 : tiers[i % 6]);
    }
    /* The NPU has computed, and nothing was lost on the way. */
    if (strcmp(device_name, "soft") == 0) {
        struct ork_npu_soft_stats stats;
        ork_npu_soft_get_stats(matmul.device, &stats);
        assert_int_equal(stats.completed, matmul.jobs);
        assert_int_equal(stats.misuses + stats.hangs, 0);
        for (uint32_t i = 0; i < ORK_NPU_SOFT_ANOMALIES; i++)
            if (1u << i == ORK_SILICON_SATURATED)
                assert_int_equal(stats.anomalies[i] > 0, matmul.saturated > 0);
            else
                assert_int_equal(stats.anomalies[i], 0);
    } else if (strcmp(device_name, "rknpu") == 0) {
        assert_int_equal(ork_shim_count("submits"), matmul.jobs);
    } else {
        assert_int_equal(ork_shim_count("tasks"), matmul.tasks);
        assert_int_equal(ork_shim_count("timeouts") + ork_shim_count("dropped") + ork_shim_count("resets"), 0);
    }
    matmul.device->ops->close(matmul.device);
    if (strcmp(device_name, "soft"))
        assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
    print_message("%s, %s: %ld shapes, %llu jobs, %llu tasks, on 1, 2 and 3 cores %llu, %llu and %llu, chained %llu, "
                  "clamped %llu\n",
                  device_name, type == ORK_NPU_W4A4 ? "W4A4" : "W8A8", count, (unsigned long long)matmul.jobs,
                  (unsigned long long)matmul.tasks, (unsigned long long)matmul.on_cores[0],
                  (unsigned long long)matmul.on_cores[1], (unsigned long long)matmul.on_cores[2],
                  (unsigned long long)matmul.chains, (unsigned long long)matmul.saturated);
}

static void test_w8a8(void **state)
{
    (void)state;
    random_shapes(ORK_NPU_W8A8);
}

static void test_w4a4(void **state)
{
    (void)state;
    random_shapes(ORK_NPU_W4A4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_w8a8), cmocka_unit_test(test_w4a4)};
    if (argc > 1)
        device_name = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
