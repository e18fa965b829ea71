/* Measures what the NPU costs the host: the caller's share of handing over matmuls and of a chain beside its own work, and compiling a matmul against using it
 * again with other weights; and the device's own submit. On the software device, whose submit does no arithmetic in the calling thread.
 *
 *   bench_npu
 *
 * Medians, and the 99th percentile of the hand-over. */
#include "engine/npu/compile.h"
#include "engine/npu/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 2001, TASKS_MAX = 8, N = 2048, K = 2048 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_quantile(double *samples, uint32_t count, double quantile)
{
    qsort(samples, count, sizeof *samples, compare);
    return samples[(uint32_t)((count - 1) * quantile)];
}

static void fail(const ork_error *error)
{
    fprintf(stderr, "bench_npu: %s: %s\n", error->where, error->what);
    exit(1);
}

/* ---- handing over ---- */

static struct ork_matrix make_matrix(void)
{
    uint8_t *data = aligned_alloc(4096, N * K), *scales = calloc(N, sizeof(float));
    if (!data || !scales)
        abort();
    for (size_t i = 0; i < N * K; i++)
        data[i] = (uint8_t)(i * 131 % 255 - 127);
    return (struct ork_matrix){.tier = ORK_TIER_I8,
                               .layout = ORK_LAYOUT_BRICK32,
                               .n = N,
                               .k = K,
                               .experts = 1,
                               .data = data,
                               .data_expert_stride = N * K,
                               .scales = scales,
                               .scale_expert_stride = N * sizeof(float),
                               .name = "bench"};
}

static void measure_begin(ork_npu *npu, uint32_t tasks, uint32_t rows)
{
    static struct ork_matrix matrix;
    static double samples[ROUNDS];
    struct ork_offload_task batch[TASKS_MAX];
    ork_error error;
    if (!matrix.data)
        matrix = make_matrix();
    const struct ork_npu_weight weight = {.matrix = &matrix};
    if (ork_npu_attach(npu, &matrix, &weight, 1, &error))
        fail(&error);
    struct ork_activation x = {.rows = rows,
                               .k = K,
                               .k_padded = K,
                               .block = K,
                               .blocks = 1,
                               .plain = calloc(rows, K),
                               .scales = calloc(rows, sizeof(float))};
    float *y = calloc((size_t)rows * N * tasks, sizeof *y);
    uint32_t rounds = rows > 1 ? ROUNDS / 20 : ROUNDS, done = 0;
    const struct ork_offload *offload = ork_npu_offload(npu);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < tasks; i++)
            batch[i] = (struct ork_offload_task){
                .w = &matrix, .x = &x, .m = rows, .y = y + (size_t)i * rows * N, .y_stride = N};
        uint64_t begin = ork_clock_now_ns();
        offload->begin(offload->context, batch, tasks);
        samples[round] = (double)(ork_clock_now_ns() - begin) / 1000;
        offload->finish(offload->context);
        for (uint32_t i = 0; i < tasks; i++)
            done += batch[i].done;
    }
    printf(
        "hand over %u matmuls of %u x %u times %u x %u: %.2f us, 99 of 100 below %.2f us (%u of %u done on the NPU)\n",
        tasks, rows, K, N, K, at_quantile(samples, rounds, 0.5), at_quantile(samples, rounds, 0.99), done,
        rounds * tasks);
    free(x.plain);
    free(x.scales);
    free(y);
    ork_npu_detach(npu, &matrix);
}

/* ---- chains beside the CPU ---- */

/* pause_us: how long the caller is busy between begin and the question, like a CPU that computes; and between chains. */
static void measure_overlay(uint32_t pause_us)
{
    static double begins[ROUNDS], polls[ROUNDS];
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .skip_self_test = true, .real_time = true};
    struct ork_matrix matrix = make_matrix();
    struct ork_activation x = {.rows = 1,
                               .k = K,
                               .k_padded = K,
                               .block = K,
                               .blocks = 1,
                               .plain = calloc(1, K),
                               .scales = calloc(1, sizeof(float))};
    static float taken[N];
    ork_npu *npu;
    ork_error error;
    const struct ork_npu_chain chain = {.members = {&matrix}, .full = {matrix}, .member_count = 1};
    const struct ork_npu_overlay_params overlay_params = {.chains = &chain, .count = 1};
    if (ork_npu_open(&params, &npu, &error) || ork_npu_overlay_attach(npu, &matrix, &overlay_params, &error))
        fail(&error);
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    uint32_t begun = 0, in_time = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t begin = ork_clock_now_ns();
        const bool is_begun = overlay->is_free(overlay->context, 0) && overlay->begin(overlay->context, 0, &x);
        const uint64_t middle = ork_clock_now_ns();
        while (ork_clock_now_ns() - middle < pause_us * 1000ull)
            ork_npu_relax();
        const uint64_t after = ork_clock_now_ns();
        const float *results = is_begun ? overlay->poll(overlay->context, 0) : NULL;
        if (results) {
            memcpy(taken, results, sizeof taken);
            overlay->done(overlay->context, 0);
        }
        const uint64_t end = ork_clock_now_ns();
        if (is_begun) {
            begins[begun] = (double)(middle - begin) / 1000;
            polls[begun++] = (double)(end - after) / 1000;
        }
        in_time += results != NULL;
        while (ork_clock_now_ns() - end < pause_us * 1000ull)
            ork_npu_relax();
    }
    if (begun)
        printf(
            "chain of %u x %u, %u us until the question: begin %.2f us, 99 of 100 below %.2f us; question and results "
            "%.2f us, 99 of 100 below %.2f us (%u of %u begun, %u in time)\n",
            N, K, pause_us, at_quantile(begins, begun, 0.5), at_quantile(begins, begun, 0.99),
            at_quantile(polls, begun, 0.5), at_quantile(polls, begun, 0.99), begun, ROUNDS, in_time);
    ork_npu_overlay_detach(npu, &matrix);
    ork_npu_close(npu);
    free((void *)(uintptr_t)matrix.data);
    free((void *)(uintptr_t)matrix.scales);
    free(x.plain);
    free(x.scales);
}

/* ---- compiling ---- */

struct shape {
    uint32_t m, n, k;
};

static ork_status measure_compile(ork_npu *npu, void *argument, ork_error *error)
{
    const struct shape *shape = argument;
    static double builds[ROUNDS], reuses[ROUNDS];
    struct ork_npu_buffer weights;
    struct ork_npu_set *set = NULL;
    uint64_t bytes = (uint64_t)shape->n * shape->k;
    struct ork_npu_set_key key = {.m = shape->m, .n = shape->n, .k = shape->k, .core_mask = 7};
    ork_status status = npu->device->ops->allocate(npu->device, 0, 2 * bytes, &weights, error);
    if (!status)
        status = ork_npu_cut_find(npu, &key, error);
    for (uint32_t round = 0; round < ROUNDS && !status; round++) {
        ork_npu_cache_forget(npu, NULL);
        uint64_t begin = ork_clock_now_ns();
        status = ork_npu_set_get(npu, &key, &set, error);
        if (!status)
            status = ork_npu_set_bind(npu, set, &weights, 0, error);
        uint64_t middle = ork_clock_now_ns();
        if (!status)
            status = ork_npu_set_get(npu, &key, &set, error);
        if (!status)
            status = ork_npu_set_bind(npu, set, &weights, bytes, error);
        reuses[round] = (double)(ork_clock_now_ns() - middle) / 1000;
        builds[round] = (double)(middle - begin) / 1000;
    }
    if (!status) {
        uint32_t tasks = set->plan.tile_count;
        double build = at_quantile(builds, ROUNDS, 0.5), reuse = at_quantile(reuses, ROUNDS, 0.5);
        printf("%u x %u times %u x %u, %u tasks: built in %.2f us, used again with other weights in %.2f us, %.1f x\n",
               key.m, key.k, key.n, key.k, tasks, build, reuse, build / reuse);
    }
    ork_npu_cache_forget(npu, NULL);
    npu->device->ops->release(npu->device, &weights);
    return status;
}

/* ---- the device's own submit ---- */

/* A chain of equal tasks, small so that the worker is through soon: what the calling thread pays depends on their number. */
static ork_status measure_submit(ork_npu *npu, void *argument, ork_error *error)
{
    static double samples[ROUNDS];
    const uint32_t count = *(const uint32_t *)argument, slot_bytes = 8 * ORK_NPU_PROGRAM_SLOT_WORDS;
    const struct ork_npu_device_ops *ops = npu->device->ops;
    const struct ork_npu_shape shape = {ORK_NPU_W8A8, ORK_NPU_NATIVE, ORK_NPU_NATIVE, 4, 64, 32};
    struct ork_npu_buffer programs = {0}, a = {0}, b = {0}, c = {0};
    const struct ork_npu_buffer *inputs[] = {&programs, &a, &b}, *outputs[] = {&c};
    struct ork_npu_task *tasks = calloc(count, sizeof *tasks);
    struct ork_npu_job *job = NULL;
    ork_status status = tasks ? ORK_OK : ORK_NO_MEMORY;
    if (!status)
        status = ops->allocate(npu->device, 0, (uint64_t)(count + 1) * slot_bytes, &programs, error);
    if (!status)
        status = ops->allocate(npu->device, 0, 4096, &a, error);
    if (!status)
        status = ops->allocate(npu->device, 0, 4096, &b, error);
    if (!status)
        status = ops->allocate(npu->device, 0, 4096, &c, error);
    for (uint32_t i = 0; i < count && !status; i++) {
        uint64_t *words = (uint64_t *)(void *)(programs.host + (size_t)i * slot_bytes);
        tasks[i] = (struct ork_npu_task){programs.iova + i * slot_bytes, ork_npu_program_words(ORK_NPU_W8A8)};
        status = ork_npu_program_write(&shape, &(struct ork_npu_addresses){a.iova, b.iova, c.iova}, words, error);
        if (!status && i + 1 < count)
            ork_npu_program_set_next(ORK_NPU_W8A8, false, tasks[i].program_iova + slot_bytes, ORK_NPU_W8A8, words);
    }
    const struct ork_npu_job_params params = {0, 0, tasks, count, inputs, 3, outputs, 1};
    if (!status)
        status = ops->job_create(npu->device, &params, &job, error);
    const struct ork_clock *clock = ops->clock(npu->device);
    for (uint32_t round = 0; round < ROUNDS && !status; round++) {
        const uint64_t begin = ork_clock_now_ns();
        status = ops->submit(npu->device, job, error);
        samples[round] = (double)(ork_clock_now_ns() - begin) / 1000;
        while (!status && ops->poll(npu->device, job) == ORK_NPU_PENDING)
            clock->sleep_until(clock, ops->next_look_ns(npu->device, job));
    }
    if (!status)
        printf("submit of %u tasks: %.2f us, 99 of 100 below %.2f us\n", count, at_quantile(samples, ROUNDS, 0.5),
               at_quantile(samples, ROUNDS, 0.99));
    struct ork_npu_buffer *const buffers[] = {&programs, &a, &b, &c};
    if (job)
        ops->job_destroy(npu->device, job);
    for (int i = 0; i < 4; i++)
        if (buffers[i]->handle)
            ops->release(npu->device, buffers[i]);
    free(tasks);
    return status;
}

int main(void)
{
    static const uint32_t chains[] = {1, 12, 100, 1000};
    static const struct shape shapes[] = {
        {1, 2048, 2048}, {128, 2048, 2048}, {512, 2048, 2048}, {512, 8192, 2048}, {512, 2048, 7168}};
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .rows_min = 1, .skip_self_test = true};
    ork_npu *npu;
    ork_error error;
    if (ork_npu_open(&params, &npu, &error))
        fail(&error);
    measure_begin(npu, 1, 1);
    measure_begin(npu, 3, 1);
    measure_begin(npu, 8, 1);
    measure_begin(npu, 3, 64);
    measure_overlay(20);
    measure_overlay(2000);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape shape = shapes[i];
        if (ork_npu_owner_call(npu, measure_compile, &shape, &error))
            fail(&error);
    }
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        uint32_t count = chains[i];
        if (ork_npu_owner_call(npu, measure_submit, &count, &error))
            fail(&error);
    }
    ork_npu_close(npu);
    return 0;
}
