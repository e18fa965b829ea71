/* See engine_rig.h. */
#include "engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define GUARD 3.25f /* around results */

uint32_t rig_random(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % limit);
}

static float random_float(uint64_t *state)
{
    return (float)rig_random(state, 2001) / 1000.0f - 1.0f;
}

const struct ork_kernels *rig_kernels(void)
{
    const struct ork_kernels *kernels;
    ork_error error;
    assert_int_equal(ork_kernels_get(&kernels, &error), ORK_OK);
    return kernels;
}

static void *pages(uint64_t size_bytes)
{
    void *memory = aligned_alloc(PAGE, (size_bytes + PAGE - 1) / PAGE * PAGE);
    assert_non_null(memory);
    memset(memory, 0, (size_bytes + PAGE - 1) / PAGE * PAGE);
    return memory;
}

const struct ork_matrix *rig_add(struct rig_model *model, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts,
                                 uint32_t layer)
{
    struct ork_tier_sizes sizes;
    assert_true(model->count < RIG_MATRICES_MAX && ork_tier_sizes(tier, n, k, &sizes));
    uint64_t stride = (sizes.data_bytes + PAGE - 1) / PAGE * PAGE;
    uint8_t *data = pages(stride * experts), *scales = pages(sizes.scale_bytes * experts + 1);
    const int8_t *table = ork_tier_has_table(tier) ? ork_nf4_table : NULL;
    float *rows = malloc(sizeof *rows * n * k);
    assert_non_null(rows);
    for (uint32_t e = 0; e < experts; e++) {
        for (uint64_t i = 0; i < (uint64_t)n * k; i++)
            rows[i] = random_float(&model->random);
        ork_tier_encode(tier, rows, n, k, NULL, table, data + e * stride, scales + e * sizes.scale_bytes, NULL, NULL);
    }
    free(rows);
    struct ork_matrix *matrix = &model->matrices[model->count];
    *matrix = (struct ork_matrix){
        .tier = tier,
        .layout = ork_tier_find(tier)->layout,
        .n = n,
        .k = k,
        .experts = experts,
        .data = data,
        .data_expert_stride = stride,
        .scales = scales,
        .scale_expert_stride = sizes.scale_bytes,
        .table = table,
        .name = ork_tier_find(tier)->name,
    };
    model->weights[model->count++] = (struct ork_npu_weight){.matrix = matrix, .layer = layer};
    return matrix;
}

void rig_model_free(struct rig_model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        free((void *)(uintptr_t)model->matrices[i].data);
        free((void *)(uintptr_t)model->matrices[i].scales);
    }
    model->count = 0;
}

void rig_input(struct ork_activation *x, uint32_t rows, uint32_t k, uint64_t *random)
{
    uint32_t padded = (k + 31) / 32 * 32;
    float *values = malloc(sizeof *values * rows * k);
    assert_non_null(values);
    for (uint64_t i = 0; i < (uint64_t)rows * k; i++)
        values[i] = random_float(random);
    *x = (struct ork_activation){
        .rows = rows,
        .k = k,
        .k_padded = padded,
        .block = padded,
        .blocks = 1,
        .f32 = values,
        .f32_stride = k,
        .plain = pages((uint64_t)rows * padded),
        .split = pages((uint64_t)rows * padded),
        .scales = malloc(rows * sizeof(float)),
        .sums = malloc(rows * sizeof(int32_t)),
    };
    for (uint32_t row = 0; row < rows; row++)
        rig_kernels()->vector.quantize(x, row);
}

void rig_input_free(struct ork_activation *x)
{
    free((void *)(uintptr_t)x->f32);
    free(x->plain);
    free(x->split);
    free(x->scales);
    free(x->sums);
}

static void compute(const struct ork_offload_task *task, float *y)
{
    const struct ork_matmul_args args = {
        .w = task->w,
        .expert = task->expert,
        .x = task->x,
        .x_rows = task->x_rows,
        .m = task->m,
        .n_begin = 0,
        .n_end = task->w->n,
        .y = y,
        .y_stride = task->y_stride,
    };
    rig_kernels()->matmul[task->w->tier].run(&args);
}

static uint64_t room(const struct ork_offload_task *task)
{
    return task->m * task->y_stride;
}

static void fill(float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = GUARD;
}

void rig_task(struct rig_group *group, const struct ork_matrix *w, uint32_t expert, uint32_t m, bool gathered,
              uint64_t *random)
{
    assert_true(group->count < RIG_GROUP_MAX);
    struct ork_offload_task *task = &group->tasks[group->count];
    struct ork_activation *x = &group->inputs[group->count];
    uint32_t tall = gathered ? 2 * m + 3 : m, *rows = NULL;
    rig_input(x, tall, w->k, random);
    if (gathered) {
        rows = malloc(m * sizeof *rows);
        assert_non_null(rows);
        for (uint32_t i = 0; i < m; i++)
            rows[i] = rig_random(random, tall);
    }
    *task = (struct ork_offload_task){.w = w, .expert = expert, .x = x, .x_rows = rows, .m = m};
    task->y_stride = w->n + rig_random(random, 5);
    task->y = malloc(room(task) * sizeof(float));
    group->right[group->count] = malloc(room(task) * sizeof(float));
    assert_true(task->y && group->right[group->count]);
    fill(group->right[group->count], room(task));
    compute(task, group->right[group->count]);
    group->count++;
}

static bool is_right(const struct rig_group *group, uint32_t i)
{
    return !memcmp(group->tasks[i].y, group->right[i], room(&group->tasks[i]) * sizeof(float));
}

void rig_run(struct rig_group *group, const struct ork_offload *offload, struct rig_tally *tally)
{
    for (uint32_t i = 0; i < group->count; i++)
        fill(group->tasks[i].y, room(&group->tasks[i]));
    offload->begin(offload->context, group->tasks, group->count);
    /* What was not taken is the caller's at once. */
    for (uint32_t i = 0; i < group->count; i++)
        if (!group->tasks[i].taken)
            compute(&group->tasks[i], group->tasks[i].y);
    offload->finish(offload->context);
    for (uint32_t i = 0; i < group->count; i++) {
        const struct ork_offload_task *task = &group->tasks[i];
        tally->offered++;
        tally->taken += task->taken;
        tally->done += task->taken && task->done;
        tally->wrong += task->taken && task->done && !is_right(group, i);
        if (task->taken && !task->done)
            compute(task, task->y);
        assert_true(is_right(group, i));
    }
}

void rig_group_free(struct rig_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        rig_input_free(&group->inputs[i]);
        free((void *)(uintptr_t)group->tasks[i].x_rows);
        free(group->tasks[i].y);
        free(group->right[i]);
    }
    group->count = 0;
}

ork_npu *rig_open_npu(const char *faults)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .rows_min = 1, .skip_self_test = true, .faults = faults};
    ork_npu *npu = NULL;
    ork_error error = {0};
    ork_status status = ork_npu_open(&params, &npu, &error);
    if (status)
        print_error("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
    return npu;
}

ork_npu_stats rig_stats(const ork_npu *npu)
{
    ork_npu_stats stats;
    ork_npu_get_stats(npu, &stats);
    return stats;
}

void rig_leave_out_watching(void)
{
#ifdef __SANITIZE_THREAD__
    print_message("LEFT OUT: outputs that a played device writes while they are watched, under the thread sanitizer\n");
    skip();
#endif
}
