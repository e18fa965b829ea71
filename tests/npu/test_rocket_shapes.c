/* Random matmuls of both types through planner, program writer and the mainline driver's device on the played driver: cut over
 * the three cores, each with an address space of its own, and compared number by number with a plain product. Guards that
 * the parts fit together. ORK_NPU_SHAPES: how many of each type (default 25). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/npu/device/device.h"
#include "engine/npu/tiling.h"
#include "shim/shim.h"

static uint64_t seed = 4;

static uint32_t below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

/* What one core needs, in its own domain. */
struct part {
    struct ork_npu_buffer programs, a, b, c;
    struct ork_npu_job *job;
};

struct matmul {
    struct ork_npu_device *device;
    struct ork_npu_plan plan;
    int8_t *a, *b; /* [m][k], [n][k], padded k and n */
    struct part parts[ORK_NPU_CORES_MAX];
};

static void check(ork_status status, const ork_error *error)
{
    if (status != ORK_OK)
        fail_msg("%s: %s", error->where, error->what);
}

static void set_nibble(uint8_t *bytes, size_t index, int8_t value)
{
    bytes[index / 2] |= (uint8_t)((value & 15) << index % 2 * 4);
}

/* npu-hw.md 6. A of one tile: native or by rows. */
static void lay_a(const struct matmul *matmul, const struct ork_npu_tile *tile, uint8_t *out)
{
    const struct ork_npu_shape *shape = &tile->shape;
    bool int4 = shape->type == ORK_NPU_W4A4;
    uint32_t lanes = int4 ? 32 : 16;
    memset(out, 0, (size_t)shape->m * shape->k / (int4 ? 2 : 1));
    for (uint32_t m = 0; m < shape->m; m++)
        for (uint32_t k = 0; k < shape->k; k++) {
            int8_t value = matmul->a[(size_t)(tile->m_begin + m) * matmul->plan.k + tile->k_begin + k];
            size_t at = shape->input == ORK_NPU_ROWS ? (size_t)m * shape->k + k
                                                     : (size_t)(k / lanes) * shape->m * lanes + m * lanes + k % lanes;
            if (int4)
                set_nibble(out, at, value);
            else
                out[at] = (uint8_t)value;
        }
}

/* B whole, in the pack's order [n/G][k/32][G][32]. */
static void lay_b(const struct matmul *matmul, uint8_t *out)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    uint32_t group = ork_npu_group(plan->type);
    memset(out, 0, plan->b_bytes);
    for (uint32_t n = 0; n < plan->n; n++)
        for (uint32_t k = 0; k < plan->k; k++) {
            size_t at = ((size_t)(n / group) * (plan->k / 32) + k / 32) * group * 32 + n % group * 32 + k % 32;
            int8_t value = matmul->b[(size_t)n * plan->k + k];
            if (plan->type == ORK_NPU_W4A4)
                set_nibble(out, at, value);
            else
                out[at] = (uint8_t)value;
        }
}

static void make_part(struct matmul *matmul, uint32_t core)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    const struct ork_npu_plan *plan = &matmul->plan;
    struct part *part = &matmul->parts[core];
    uint32_t begin = plan->core_begin[core], count = plan->core_begin[core + 1] - begin;
    uint64_t slot_bytes = 8 * ORK_NPU_PROGRAM_SLOT_WORDS;
    ork_error error = {0};
    check(ops->allocate(matmul->device, core, count * slot_bytes + 8 * ORK_NPU_PROGRAM_SLACK_WORDS, &part->programs,
                        &error),
          &error);
    check(ops->allocate(matmul->device, core, plan->a_bytes, &part->a, &error), &error);
    check(ops->allocate(matmul->device, core, plan->b_bytes, &part->b, &error), &error);
    check(ops->allocate(matmul->device, core, plan->c_bytes, &part->c, &error), &error);
    lay_b(matmul, part->b.host);
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
        ork_npu_program_set_next(plan->type, i + 1 == count,
                                 i + 1 == count ? 0 : tasks[i].program_iova + (uint32_t)slot_bytes, plan->type, words);
    }
    const struct ork_npu_buffer *inputs[] = {&part->programs, &part->a, &part->b}, *outputs[] = {&part->c};
    for (int i = 0; i < 3; i++)
        check(ops->sync(matmul->device, inputs[i], 0, inputs[i]->size_bytes, ORK_NPU_TO_DEVICE, &error), &error);
    check(ops->sync(matmul->device, &part->c, 0, part->c.size_bytes, ORK_NPU_TO_DEVICE, &error), &error);
    check(ops->job_create(matmul->device,
                          &(struct ork_npu_job_params){.core = core,
                                                       .domain = core,
                                                       .tasks = tasks,
                                                       .task_count = count,
                                                       .inputs = inputs,
                                                       .input_count = 3,
                                                       .outputs = outputs,
                                                       .output_count = 1},
                          &part->job, &error),
          &error);
    free(tasks);
}

/* Adds the tiles of a core to sums [m][n]. */
static void gather(const struct matmul *matmul, uint32_t core, int32_t *sums)
{
    const struct ork_npu_plan *plan = &matmul->plan;
    for (uint32_t i = plan->core_begin[core]; i < plan->core_begin[core + 1]; i++) {
        const struct ork_npu_tile *tile = &plan->tiles[i];
        const uint8_t *c = matmul->parts[core].c.host + tile->c_offset;
        for (uint32_t m = 0; m < tile->shape.m; m++)
            for (uint32_t n = 0; n < tile->shape.n; n++) {
                int32_t value;
                if (plan->type == ORK_NPU_W4A4)
                    value = ((const int16_t *)c)[n / 8 * tile->shape.m * 8 + m * 8 + n % 8];
                else if (tile->shape.output == ORK_NPU_ROWS)
                    value = ((const int32_t *)c)[m * tile->shape.n + n];
                else
                    value = ((const int32_t *)c)[n / 4 * tile->shape.m * 4 + m * 4 + n % 4];
                sums[(size_t)(tile->m_begin + m) * plan->n + tile->n_begin + n] += value;
            }
    }
}

static void run(struct matmul *matmul, const struct ork_npu_tiling *tiling)
{
    const struct ork_npu_device_ops *ops = matmul->device->ops;
    struct ork_npu_plan *plan = &matmul->plan;
    ork_error error = {0};
    check(ork_npu_plan_make(tiling, plan, &error), &error);
    matmul->a = calloc(plan->m, plan->k);
    matmul->b = calloc(plan->n, plan->k);
    int32_t *sums = calloc((size_t)plan->m * plan->n, sizeof *sums);
    assert_true(matmul->a && matmul->b && sums);
    uint32_t range = plan->type == ORK_NPU_W4A4 ? 16 : 256, extreme = below(4) == 0;
    for (uint32_t m = 0; m < plan->m; m++)
        for (uint32_t k = 0; k < tiling->k; k++)
            matmul->a[(size_t)m * plan->k + k] = (int8_t)((extreme ? 0 : (int)below(range)) - (int)range / 2);
    for (uint32_t n = 0; n < tiling->n; n++)
        for (uint32_t k = 0; k < tiling->k; k++)
            matmul->b[(size_t)n * plan->k + k] = (int8_t)((extreme ? 0 : (int)below(range)) - (int)range / 2);
    for (uint32_t core = 0; core < plan->cores; core++)
        make_part(matmul, core);
    for (uint32_t core = 0; core < plan->cores; core++)
        check(ops->submit(matmul->device, matmul->parts[core].job, &error), &error);
    const struct ork_clock *clock = ops->clock(matmul->device);
    for (uint32_t core = 0; core < plan->cores; core++) {
        struct part *part = &matmul->parts[core];
        while (ops->poll(matmul->device, part->job) == ORK_NPU_PENDING)
            clock->sleep_until(clock, ops->next_look_ns(matmul->device, part->job));
        check(ops->sync(matmul->device, &part->c, 0, part->c.size_bytes, ORK_NPU_FROM_DEVICE, &error), &error);
        gather(matmul, core, sums);
        ops->job_destroy(matmul->device, part->job);
        struct ork_npu_buffer *buffers[] = {&part->programs, &part->a, &part->b, &part->c};
        for (int i = 0; i < 4; i++)
            ops->release(matmul->device, buffers[i]);
    }
    for (uint32_t m = 0; m < plan->m; m++)
        for (uint32_t n = 0; n < plan->n; n++) {
            const int8_t *a = matmul->a + (size_t)m * plan->k, *b = matmul->b + (size_t)n * plan->k;
            int32_t sum = 0;
            for (uint32_t k = 0; k < plan->k; k++)
                sum += a[k] * b[k];
            if (sum != sums[(size_t)m * plan->n + n])
                fail_msg("type %d, %u x %u x %u, row %u, channel %u: %d instead of %d", plan->type, tiling->m,
                         tiling->k, tiling->n, m, n, sums[(size_t)m * plan->n + n], sum);
        }
    free(sums);
    free(matmul->a);
    free(matmul->b);
    ork_npu_plan_free(plan);
}

static void random_shapes(enum ork_npu_type type)
{
    const char *wish = getenv("ORK_NPU_SHAPES");
    long count = wish ? strtol(wish, NULL, 10) : 25;
    ork_error error = {0};
    struct matmul matmul = {0};
    assert_int_equal(ork_shim_configure("rocket,watchdog_ms=60000", NULL, NULL), 0);
    check(ork_npu_rocket_open(NULL, &matmul.device, &error), &error);
    for (long i = 0; i < count; i++) {
        struct ork_npu_tiling tiling = {.type = type,
                                        .m = 1 + below(i % 3 ? 12 : 70),
                                        .k = 1 + below(i % 5 ? 700 : 4000),
                                        .n = 1 + below(i % 4 ? 200 : 600),
                                        .cores = 1 + below(3),
                                        .a_max = 8,
                                        .w_max = 8};
        if (below(3) == 0)
            tiling.rows_cap = 1 + below(8);
        if (type == ORK_NPU_W8A8 && below(3) == 0)
            tiling.output = ORK_NPU_ROWS;
        run(&matmul, &tiling);
    }
    /* The NPU has computed, and nothing was lost on the way. */
    assert_true(ork_shim_count("tasks") >= (uint64_t)count);
    assert_int_equal(ork_shim_count("dropped") + ork_shim_count("timeouts"), 0);
    matmul.device->ops->close(matmul.device);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_w8a8), cmocka_unit_test(test_w4a4)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
