/* Owns the test jobs of soft_rig.h; reference results are a plain triple loop. */
#include "soft_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POISON 0x5a

struct ork_npu_device *rig_open(const char *faults, bool real_time)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .faults = faults, .real_time = real_time};
    struct ork_npu_device *device = NULL;
    ork_error error = {0};
    if (ork_npu_soft_open(&params, &device, &error) != ORK_OK)
        fail_msg("%s", error.what);
    return device;
}

/* Small codes that differ everywhere. */
static int8_t code(uint64_t seed)
{
    seed = (seed + 1) * 0x9e3779b97f4a7c15u;
    return (int8_t)((seed >> 40) % 255 - 127);
}

static void compute(struct rig *rig)
{
    const uint32_t m = rig->shape.m, k = rig->shape.k, n = rig->shape.n;
    const int8_t *a = (const int8_t *)rig->a.host;
    rig->expected = calloc((size_t)rig->tasks * m * n, sizeof *rig->expected);
    assert_non_null(rig->expected);
    for (uint32_t t = 0; t < rig->tasks; t++) {
        const int8_t *b = (const int8_t *)rig->b.host + (size_t)t * n * k;
        for (uint32_t i = 0; i < m; i++)
            for (uint32_t j = 0; j < n; j++) {
                int32_t sum = 0;
                for (uint32_t x = 0; x < k; x++)
                    sum += a[(x / 16 * m + i) * 16 + x % 16] *
                           b[((j / 32 * (k / 32) + x / 32) * 32 + j % 32) * 32 + x % 32];
                rig->expected[(size_t)t * m * n + (j / 4 * m + i) * 4 + j % 4] = sum;
            }
    }
}

void rig_make(struct rig *rig, struct ork_npu_device *device, uint32_t core, uint32_t domain, uint32_t tasks,
              uint32_t m, uint32_t k, uint32_t n)
{
    assert_true(tasks <= RIG_TASKS_MAX);
    *rig = (struct rig){.device = device, .core = core, .domain = domain, .tasks = tasks};
    rig->shape = (struct ork_npu_shape){ORK_NPU_W8A8, ORK_NPU_NATIVE, ORK_NPU_NATIVE, m, k, n};
    ork_error error;
    const struct ork_npu_device_ops *ops = device->ops;
    const uint64_t slot_bytes = 8 * ORK_NPU_PROGRAM_SLOT_WORDS, c_bytes = 4ull * m * n;
    assert_int_equal(ops->allocate(device, domain, slot_bytes * tasks + 4096, &rig->programs, &error), ORK_OK);
    assert_int_equal(ops->allocate(device, domain, (uint64_t)m * k, &rig->a, &error), ORK_OK);
    assert_int_equal(ops->allocate(device, domain, (uint64_t)n * k * tasks, &rig->b, &error), ORK_OK);
    assert_int_equal(ops->allocate(device, domain, c_bytes * tasks, &rig->c, &error), ORK_OK);
    for (uint64_t i = 0; i < (uint64_t)m * k; i++)
        rig->a.host[i] = (uint8_t)code(i);
    for (uint64_t i = 0; i < (uint64_t)n * k * tasks; i++)
        rig->b.host[i] = (uint8_t)code(i + 1000003);
    struct ork_npu_task list[RIG_TASKS_MAX];
    for (uint32_t t = 0; t < tasks; t++) {
        uint64_t *words = (uint64_t *)(void *)(rig->programs.host + slot_bytes * t);
        const struct ork_npu_addresses addresses = {rig->a.iova, rig->b.iova + n * k * t,
                                                    rig->c.iova + (uint32_t)c_bytes * t};
        assert_int_equal(ork_npu_program_write(&rig->shape, &addresses, words, &error), ORK_OK);
        list[t] =
            (struct ork_npu_task){rig->programs.iova + (uint32_t)slot_bytes * t, ork_npu_program_words(ORK_NPU_W8A8)};
        if (t + 1 < tasks)
            ork_npu_program_set_next(ORK_NPU_W8A8, false, list[t].program_iova + (uint32_t)slot_bytes, ORK_NPU_W8A8,
                                     words);
    }
    const struct ork_npu_buffer *inputs[] = {&rig->programs, &rig->a, &rig->b}, *outputs[] = {&rig->c};
    const struct ork_npu_job_params params = {core, domain, list, tasks, inputs, 3, outputs, 1};
    assert_int_equal(ops->job_create(device, &params, &rig->job, &error), ORK_OK);
    compute(rig);
}

void rig_free(struct rig *rig)
{
    const struct ork_npu_device_ops *ops = rig->device->ops;
    ops->job_destroy(rig->device, rig->job);
    ops->release(rig->device, &rig->programs);
    ops->release(rig->device, &rig->a);
    ops->release(rig->device, &rig->b);
    ops->release(rig->device, &rig->c);
    free(rig->expected);
}

void rig_poison(struct rig *rig)
{
    memset(rig->c.host, POISON, rig->c.size_bytes);
}

ork_status rig_submit(struct rig *rig)
{
    rig_poison(rig);
    ork_error error;
    return rig->device->ops->submit(rig->device, rig->job, &error);
}

uint32_t rig_wrong_in(const struct rig *rig, uint32_t task)
{
    const size_t count = (size_t)rig->shape.m * rig->shape.n;
    const int32_t *c = (const int32_t *)(const void *)rig->c.host + task * count;
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += c[i] != rig->expected[task * count + i];
    return wrong;
}

uint32_t rig_wrong(const struct rig *rig)
{
    uint32_t wrong = 0;
    for (uint32_t t = 0; t < rig->tasks; t++)
        wrong += rig_wrong_in(rig, t);
    return wrong;
}

uint64_t rig_now(const struct rig *rig)
{
    const struct ork_clock *clock = rig->device->ops->clock(rig->device);
    return clock->now_ns(clock);
}

enum ork_npu_state rig_wait(struct rig *rig, uint64_t limit_us)
{
    const struct ork_clock *clock = rig->device->ops->clock(rig->device);
    const uint64_t limit_ns = clock->now_ns(clock) + limit_us * 1000;
    for (;;) {
        const enum ork_npu_state state = rig->device->ops->poll(rig->device, rig->job);
        if (state != ORK_NPU_PENDING || clock->now_ns(clock) >= limit_ns)
            return state;
        const uint64_t look = rig->device->ops->next_look_ns(rig->device, rig->job);
        clock->sleep_until(clock, look < limit_ns ? look : limit_ns);
    }
}
