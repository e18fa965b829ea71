/* One int8 product as jobs on any device. */
#include "product.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

void product_fill(struct product *p, uint32_t seed)
{
    /* Surfaces: npu-hw.md 6, A native [k/16][m][16], B [n/32][k/32][32][32]. */
    int8_t *a = calloc(p->m, p->k), *b = calloc(p->n, p->k);
    assert_true(a && b);
    for (uint32_t i = 0; i < p->m * p->k; i++)
        a[i] = (int8_t)next_random(&seed);
    for (uint32_t i = 0; i < p->n * p->k; i++)
        b[i] = (int8_t)next_random(&seed);
    for (uint32_t m = 0; m < p->m; m++)
        for (uint32_t k = 0; k < p->k; k++)
            p->a.host[k / 16 * p->m * 16 + m * 16 + k % 16] = (uint8_t)a[m * p->k + k];
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t k = 0; k < p->k; k++)
            p->b.host[n / 32 * (p->k / 32) * 1024 + k / 32 * 1024 + n % 32 * 32 + k % 32] = (uint8_t)b[n * p->k + k];
    for (uint32_t m = 0; m < p->m; m++)
        for (uint32_t n = 0; n < p->n; n++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < p->k; k++)
                sum += a[m * p->k + k] * b[n * p->k + k];
            p->expected[m * p->n + n] = sum;
        }
    free(a);
    free(b);
}

static void check(ork_status status, const ork_error *error)
{
    if (status != ORK_OK)
        print_message("%s: %s\n", error->where, error->what);
    assert_int_equal(status, ORK_OK);
}

static void write_core(struct product *p, uint32_t core)
{
    ork_error error = {0};
    struct ork_npu_task tasks[PRODUCT_TASKS_MAX];
    for (uint32_t t = 0; t < p->tasks; t++) {
        uint32_t index = core * p->tasks + t;
        uint32_t slot_bytes = 8 * ORK_NPU_PROGRAM_SLOT_WORDS;
        uint64_t *words = (uint64_t *)(p->programs.host + (size_t)index * slot_bytes);
        struct ork_npu_shape shape = {.type = ORK_NPU_W8A8, .m = p->m, .k = p->k, .n = p->task_n};
        struct ork_npu_addresses addresses = {
            .a = p->a.iova, .b = p->b.iova + index * p->task_n * p->k, .c = p->c.iova + index * p->task_n * p->m * 4};
        check(ork_npu_program_write(&shape, &addresses, words, &error), &error);
        tasks[t] = (struct ork_npu_task){p->programs.iova + index * slot_bytes, ork_npu_program_words(ORK_NPU_W8A8)};
        bool last = t + 1 == p->tasks;
        ork_npu_program_set_next(ORK_NPU_W8A8, last, last ? 0 : tasks[t].program_iova + slot_bytes, ORK_NPU_W8A8,
                                 words);
    }
    const struct ork_npu_buffer *inputs[] = {&p->programs, &p->a, &p->b}, *outputs[] = {&p->c};
    struct ork_npu_job_params params = {.core = p->first_core + core,
                                        .domain = p->domain,
                                        .tasks = tasks,
                                        .task_count = p->tasks,
                                        .inputs = inputs,
                                        .input_count = 3,
                                        .outputs = outputs,
                                        .output_count = 1};
    check(p->device->ops->job_create(p->device, &params, &p->job[core], &error), &error);
}

void product_make(struct product *p, struct ork_npu_device *device, uint32_t m, uint32_t k, uint32_t task_n,
                  uint32_t tasks, uint32_t cores, uint32_t first_core, uint32_t domain, uint32_t seed)
{
    *p = (struct product){.device = device,
                          .m = m,
                          .k = k,
                          .task_n = task_n,
                          .tasks = tasks,
                          .cores = cores,
                          .first_core = first_core,
                          .domain = domain,
                          .n = cores * tasks * task_n};
    assert_true(tasks <= PRODUCT_TASKS_MAX && cores <= PRODUCT_CORES);
    p->expected = calloc((size_t)m * p->n, sizeof *p->expected);
    assert_non_null(p->expected);
    ork_error error = {0};
    uint64_t program_bytes = 8ull * (cores * tasks * ORK_NPU_PROGRAM_SLOT_WORDS + ORK_NPU_PROGRAM_SLACK_WORDS);
    check(device->ops->allocate(device, domain, program_bytes, &p->programs, &error), &error);
    check(device->ops->allocate(device, domain, (uint64_t)m * k, &p->a, &error), &error);
    check(device->ops->allocate(device, domain, (uint64_t)p->n * k, &p->b, &error), &error);
    check(device->ops->allocate(device, domain, 4ull * m * p->n, &p->c, &error), &error);
    product_fill(p, seed);
    for (uint32_t core = 0; core < cores; core++)
        write_core(p, core);
    product_sync_inputs(p);
}

void product_free(struct product *p)
{
    for (uint32_t i = 0; i < p->cores; i++)
        p->device->ops->job_destroy(p->device, p->job[i]);
    struct ork_npu_buffer *buffers[] = {&p->programs, &p->a, &p->b, &p->c};
    for (size_t i = 0; i < 4; i++)
        p->device->ops->release(p->device, buffers[i]);
    free(p->expected);
}

static void sync_whole(struct product *p, const struct ork_npu_buffer *buffer, enum ork_npu_direction direction)
{
    ork_error error = {0};
    check(p->device->ops->sync(p->device, buffer, 0, buffer->size_bytes, direction, &error), &error);
}

void product_sync_inputs(struct product *p)
{
    sync_whole(p, &p->programs, ORK_NPU_TO_DEVICE);
    sync_whole(p, &p->a, ORK_NPU_TO_DEVICE);
    sync_whole(p, &p->b, ORK_NPU_TO_DEVICE);
}

void product_poison(struct product *p)
{
    int32_t *c = (int32_t *)p->c.host;
    for (uint32_t i = 0; i < p->m * p->n; i++)
        c[i] = PRODUCT_UNWRITTEN;
    sync_whole(p, &p->c, ORK_NPU_TO_DEVICE);
}

ork_status product_submit(struct product *p, ork_error *error)
{
    for (uint32_t i = 0; i < p->cores; i++) {
        ork_status status = p->device->ops->submit(p->device, p->job[i], error);
        if (status != ORK_OK)
            return status;
    }
    return ORK_OK;
}

bool product_wait(struct product *p, uint64_t timeout_us)
{
    const struct ork_clock *clock = p->device->ops->clock(p->device);
    uint64_t end = clock->now_ns(clock) + 1000 * timeout_us;
    for (;;) {
        bool late = clock->now_ns(clock) >= end;
        sync_whole(p, &p->c, ORK_NPU_FROM_DEVICE);
        const int32_t *c = (const int32_t *)p->c.host;
        uint32_t written = 0;
        while (written < p->m * p->n && c[written] != PRODUCT_UNWRITTEN)
            written++;
        if (written == p->m * p->n) {
            sync_whole(p, &p->c, ORK_NPU_FROM_DEVICE); /* what was copied while it was written */
            return true;
        }
        if (late)
            return false;
        uint64_t look = UINT64_MAX;
        for (uint32_t i = 0; i < p->cores; i++) {
            uint64_t next = p->device->ops->next_look_ns(p->device, p->job[i]);
            look = next < look ? next : look;
        }
        clock->sleep_until(clock, look < end ? look : end);
    }
}

uint32_t product_wrong(const struct product *p)
{
    uint32_t wrong = 0, core_n = p->task_n;
    const int32_t *c = (const int32_t *)p->c.host;
    for (uint32_t m = 0; m < p->m; m++)
        for (uint32_t n = 0; n < p->n; n++) {
            /* Each task has a surface of its own, [n/4][m][4]. */
            uint32_t task = n / core_n, lane = n % core_n;
            wrong += c[task * core_n * p->m + lane / 4 * p->m * 4 + m * 4 + lane % 4] != p->expected[m * p->n + n];
        }
    return wrong;
}

bool product_run(struct product *p, uint64_t timeout_us)
{
    ork_error error = {0};
    product_poison(p);
    check(product_submit(p, &error), &error);
    return product_wait(p, timeout_us) && !product_wrong(p);
}
