/* Guards the NPU engine as the CPU's helper on the software device: results have the bits of the kernel table for every
 * tier, shape and gathering of rows; compiled matmuls are used again; the self-test finds what it is for; handles, models
 * and threads come and go without a trace. */
#include "engine_rig.h"

#include "engine/npu/device/soft.h"
#include "engine/npu/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const enum ork_tier tiers[] = {ORK_TIER_I8, ORK_TIER_I4, ORK_TIER_NF4, ORK_TIER_I5, ORK_TIER_I6, ORK_TIER_N8};
#define TIERS (sizeof tiers / sizeof *tiers)

static void attach(ork_npu *npu, const struct rig_model *model)
{
    ork_error error = {0};
    ork_status status = ork_npu_attach(npu, model, model->weights, model->count, &error);
    if (status)
        print_error("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
}

static void assert_clean(const ork_npu *npu)
{
    struct ork_npu_soft_stats soft;
    ork_npu_soft_get_stats((struct ork_npu_device *)(uintptr_t)ork_npu_get_device(npu), &soft);
    assert_int_equal(soft.misuses, 0);
    assert_int_equal(soft.hangs, 0);
    for (uint32_t i = 0; i < ORK_NPU_SOFT_ANOMALIES; i++)
        assert_int_equal(soft.anomalies[i], 0);
}

static void test_bits_of_every_tier(void **state)
{
    (void)state;
    struct rig_model model = {.random = 1};
    for (uint32_t i = 0; i < 3 * TIERS; i++)
        rig_add(&model, tiers[i % TIERS], 1 + rig_random(&model.random, 300), 1 + rig_random(&model.random, 400),
                1 + i % 2, i / 4);
    ork_npu *npu = rig_open_npu(NULL);
    attach(npu, &model);
    const struct ork_offload *offload = ork_npu_offload(npu);
    struct rig_tally tally = {0};
    for (uint32_t round = 0; round < 20; round++) {
        struct rig_group group = {0};
        for (uint32_t i = 0; i < 1 + round % 6; i++) {
            const struct ork_matrix *w = &model.matrices[rig_random(&model.random, model.count)];
            assert_true(offload->wants(offload->context, w, 1));
            rig_task(&group, w, rig_random(&model.random, w->experts), 1 + rig_random(&model.random, 70),
                     rig_random(&model.random, 2), &model.random);
        }
        rig_run(&group, offload, &tally);
        rig_group_free(&group);
    }
    assert_int_equal(tally.done, tally.offered);
    ork_npu_stats stats = rig_stats(npu);
    assert_int_equal(stats.matmuls, tally.offered);
    assert_int_equal(stats.redone + stats.declined, 0);
    assert_true(stats.tasks >= stats.submits && stats.submits >= stats.matmuls && stats.busy_us > 0);
    assert_clean(npu);
    ork_npu_detach(npu, &model);
    ork_npu_close(npu);
    rig_model_free(&model);
}

/* Cut by rows, by channels, by inputs: the surfaces of a job are bounded. */
static void test_large_shapes(void **state)
{
    (void)state;
    static const struct {
        uint32_t m, k, n;
    } shapes[] = {
        {600, 64, 96},    /* rows over every envelope */
        {40, 3648, 64},   /* a range of inputs in which few rows are allowed */
        {3, 11008, 64},   /* slices of inputs */
        {2, 96, 16416},   /* channels over a task's */
        {1100, 32, 4096}, /* results over the surface: several pieces */
    };
    struct rig_model model = {.random = 2};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        rig_add(&model, ORK_TIER_I8, shapes[i].n, shapes[i].k, 1, 0);
    ork_npu *npu = rig_open_npu(NULL);
    attach(npu, &model);
    struct rig_tally tally = {0};
    for (size_t i = 0; i < model.count; i++) {
        struct rig_group group = {0};
        rig_task(&group, &model.matrices[i], 0, shapes[i].m, i % 2, &model.random);
        rig_run(&group, ork_npu_offload(npu), &tally);
        rig_group_free(&group);
    }
    assert_int_equal(tally.done, model.count);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_model_free(&model);
}

/* The offload declines what it must, and its wants do not depend on its state. */
static void test_what_is_taken(void **state)
{
    (void)state;
    struct rig_model model = {.random = 3}, other = {.random = 4};
    const struct ork_matrix *w = rig_add(&model, ORK_TIER_I8, 64, 64, 2, 0);
    const struct ork_matrix *rows = rig_add(&model, ORK_TIER_G8, 64, 64, 1, 0);
    rig_add(&other, ORK_TIER_I8, 64, 64, 1, 0);
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .skip_self_test = true};
    ork_npu *npu;
    ork_error error;
    assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
    const struct ork_offload *offload = ork_npu_offload(npu);
    assert_false(offload->wants(offload->context, w, 512));
    attach(npu, &model);
    assert_true(offload->wants(offload->context, w, ORK_NPU_ROWS_MIN));
    assert_false(offload->wants(offload->context, w, ORK_NPU_ROWS_MIN - 1));
    assert_false(offload->wants(offload->context, rows, 512));
    assert_int_equal(ork_npu_attach(npu, &other, other.weights, other.count, &error), ORK_LIMIT);

    struct rig_group group = {0};
    struct rig_tally tally = {0};
    rig_task(&group, w, 0, ORK_NPU_ROWS_MIN, false, &model.random);
    rig_task(&group, w, 1, ORK_NPU_ROWS_MIN - 1, false, &model.random);
    rig_task(&group, rows, 0, 40, false, &model.random);
    rig_run(&group, offload, &tally);
    assert_true(group.tasks[0].taken && !group.tasks[1].taken && !group.tasks[2].taken);
    assert_int_equal(rig_stats(npu).declined, 2);
    /* More than one scale a row is another arithmetic. */
    group.inputs[0].block = 32;
    offload->begin(offload->context, group.tasks, 1);
    assert_false(group.tasks[0].taken);
    offload->finish(offload->context);
    rig_group_free(&group);

    attach(npu, &model);
    ork_npu_detach(npu, &model);
    assert_true(offload->wants(offload->context, w, 512));
    ork_npu_detach(npu, &model);
    assert_false(offload->wants(offload->context, w, 512));
    attach(npu, &other);
    ork_npu_close(npu);
    rig_model_free(&model);
    rig_model_free(&other);
}

static void test_compiled_once(void **state)
{
    (void)state;
    struct rig_model model = {.random = 5};
    for (uint32_t i = 0; i < 8; i++)
        rig_add(&model, tiers[i % TIERS], 256, 128, 1, i);
    ork_npu *npu = rig_open_npu(NULL);
    attach(npu, &model);
    struct rig_tally tally = {0};
    struct rig_group group = {0};
    for (uint32_t i = 0; i < model.count; i++)
        rig_task(&group, &model.matrices[i], 0, 48, false, &model.random);
    rig_run(&group, ork_npu_offload(npu), &tally);
    ork_npu_stats first = rig_stats(npu);
    for (uint32_t i = 0; i < 5; i++)
        rig_run(&group, ork_npu_offload(npu), &tally);
    ork_npu_stats last = rig_stats(npu);
    assert_int_equal(tally.done, 6 * model.count);
    /* One shape in two halves, three cores, a task each. */
    assert_int_equal(first.programs_built, 6);
    assert_int_equal(last.programs_built, 6);
    assert_int_equal(last.programs_reused - first.programs_reused, 5 * model.count * 3);
    rig_group_free(&group);
    ork_npu_close(npu);
    rig_model_free(&model);
}

/* More shapes than programs are kept for: old ones make room. */
static void test_many_shapes(void **state)
{
    (void)state;
    struct rig_model model = {.random = 6};
    const struct ork_matrix *w = rig_add(&model, ORK_TIER_I8, 96, 32, 1, 0);
    ork_npu *npu = rig_open_npu(NULL);
    attach(npu, &model);
    struct rig_tally tally = {0};
    for (uint32_t m = 1; m <= ORK_NPU_SETS_MAX + 100; m++) {
        struct rig_group group = {0};
        rig_task(&group, w, 0, m, false, &model.random);
        rig_run(&group, ork_npu_offload(npu), &tally);
        rig_group_free(&group);
    }
    assert_int_equal(tally.done, ORK_NPU_SETS_MAX + 100);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_model_free(&model);
}

/* Weights that do not fit are swapped in behind the callers' backs; results stay right. */
static void test_more_weights_than_memory(void **state)
{
    (void)state;
    struct rig_model model = {.random = 7};
    for (uint32_t i = 0; i < 12; i++)
        rig_add(&model, ORK_TIER_NF4, 128, 128, 2, i);
    const ork_npu_params params = {
        .kind = ORK_NPU_SOFT, .rows_min = 1, .skip_self_test = true, .memory_bytes = 10 * 128 * 128};
    ork_npu *npu;
    ork_error error;
    assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
    attach(npu, &model);
    struct rig_tally tally = {0};
    for (uint32_t round = 0; round < 200; round++) {
        struct rig_group group = {0};
        const struct ork_matrix *w = &model.matrices[round % model.count];
        for (uint32_t e = 0; e < 2; e++)
            rig_task(&group, w, e, 4, false, &model.random);
        rig_run(&group, ork_npu_offload(npu), &tally);
        rig_group_free(&group);
        ork_npu_settle(npu);
    }
    ork_npu_stats stats = rig_stats(npu);
    assert_int_equal(stats.matmuls + stats.declined + stats.redone, tally.offered);
    assert_int_equal(stats.matmuls, tally.done);
    assert_true(tally.done > 0 && tally.done < tally.offered);
    assert_true(stats.resident_bytes <= params.memory_bytes);
    assert_clean(npu);
    ork_npu_close(npu);
    rig_model_free(&model);
}

/* A model in several domains, made small for it: tasks of a group are done domain by domain. */
static void test_domains(void **state)
{
    (void)state;
    struct rig_model model = {.random = 8};
    for (uint32_t i = 0; i < 12; i++)
        rig_add(&model, ORK_TIER_I6, 96, 96, 1, i);
    ork_npu *npu = rig_open_npu(NULL);
    const struct ork_npu_device *device = ork_npu_get_device(npu);
    ((struct ork_npu_capabilities *)(uintptr_t)device->ops->capabilities(device))->domain_bytes =
        ORK_NPU_RESERVE_BYTES + 24 * 1024;
    attach(npu, &model);
    struct rig_group group = {0};
    struct rig_tally tally = {0};
    for (uint32_t i = 0; i < 40; i++)
        rig_task(&group, &model.matrices[i * 5 % model.count], 0, 9, i % 3 == 0, &model.random);
    rig_run(&group, ork_npu_offload(npu), &tally);
    assert_int_equal(tally.done, 40);
    uint64_t switches = rig_stats(npu).domain_switches;
    assert_true(switches >= 4 && switches < 12);
    rig_run(&group, ork_npu_offload(npu), &tally);
    assert_int_equal(tally.done, 80);
    assert_true(rig_stats(npu).domain_switches < 2 * switches + 2);
    assert_clean(npu);
    rig_group_free(&group);
    ork_npu_close(npu);
    rig_model_free(&model);
}

static void test_four_bits(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 64, 64}, {7, 512, 192}, {33, 1000, 100}, {130, 96, 64}};
    ork_npu *npu = rig_open_npu(NULL);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        uint32_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2], padded = (k + 31) / 32 * 32;
        struct rig_model model = {.random = 9 + s};
        const struct ork_matrix *w = rig_add(&model, ORK_TIER_I4, n, k, 1, 0);
        int8_t *a = calloc((size_t)m * padded, 1);
        int32_t *c = calloc((size_t)m * n, sizeof *c);
        ork_error error = {0};
        for (uint32_t i = 0; i < m; i++)
            for (uint32_t j = 0; j < k; j++)
                a[(size_t)i * padded + j] = (int8_t)(rig_random(&model.random, 16) - 8);
        ork_status status = ork_npu_multiply_w4a4(npu, a, m, w, c, &error);
        if (status)
            print_error("%s\n", error.what);
        assert_int_equal(status, ORK_OK);
        for (uint32_t i = 0; i < m; i++) {
            for (uint32_t j = 0; j < n; j++) {
                int32_t sum = 0;
                for (uint32_t x = 0; x < k; x++) {
                    uint8_t pair =
                        w->data[((uint64_t)(j / 64) * (padded / 32) + x / 32) * 1024 + j % 64 * 16 + x % 32 / 2];
                    int32_t code = x % 2 ? pair >> 4 : pair & 15;
                    sum += a[(size_t)i * padded + x] * (code < 8 ? code : code - 16);
                }
                assert_int_equal(c[(size_t)i * n + j], sum);
            }
        }
        free(a);
        free(c);
        rig_model_free(&model);
    }
    assert_int_equal(rig_stats(npu).matmuls, 4);
    assert_clean(npu);
    ork_npu_close(npu);
}

/* ---- self-test ---- */

static ork_status open_with(const char *faults, ork_error *error)
{
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .faults = faults};
    ork_npu *npu;
    ork_status status = ork_npu_open(&params, &npu, error);
    ork_npu_close(npu);
    return status;
}

static void test_self_test(void **state)
{
    (void)state;
    const ork_npu_params params = {.kind = ORK_NPU_SOFT};
    ork_npu *npu;
    ork_error error = {0};
    uint32_t shapes;
    uint64_t checked;
    assert_int_equal(ork_npu_open(&params, &npu, &error), ORK_OK);
    uint64_t before = rig_stats(npu).submits;
    assert_int_equal(ork_npu_self_test(npu, &shapes, &checked, &error), ORK_OK);
    assert_int_equal(shapes, 7);
    assert_int_equal(checked, 21);
    assert_int_equal(rig_stats(npu).submits, before * 2);
    assert_clean(npu);
    ork_npu_info info;
    ork_npu_get_info(npu, &info);
    assert_string_equal(info.driver, "soft");
    assert_int_equal(info.cores, 3);
    ork_npu_close(npu);
}

static void test_self_test_refuses(void **state)
{
    (void)state;
    static const char *const faults[] = {
        "dead:core=1,from=0", "constant:core=2,from=0",
        "flip:core=0,from=0", "untouched:from=0",
        "tail:from=0",        "never:at=4",
        "stop:core=1,from=0", "refuse:core=2,from=0",
        "wedge:at=3",         "late:from=0,us=10000000",
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ork_error error = {0};
        ork_status status = open_with(faults[i], &error);
        if (status != ORK_FAILURE)
            print_error("%s: status %d %s\n", faults[i], status, error.what);
        assert_int_equal(status, ORK_FAILURE);
        assert_non_null(strstr(error.what, "self-test"));
    }
    ork_error error = {0};
    assert_int_equal(open_with("memory:from=0", &error), ORK_NO_MEMORY);
    assert_int_equal(open_with("descriptors:limit=2", &error), ORK_LIMIT);
    assert_int_equal(open_with("nonsense", &error), ORK_BAD_ARGUMENT);
}

static void test_bad_parameters(void **state)
{
    (void)state;
    ork_error error;
    ork_npu *npu = (ork_npu *)&error;
    const ork_npu_params none = {0}, no_board = {.kind = ORK_NPU_SOFT, .board = "/nonexistent/board.json"};
    assert_int_equal(ork_npu_open(NULL, &npu, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ork_npu_open(&none, &npu, &error), ORK_BAD_ARGUMENT);
    assert_null(npu);
    assert_int_equal(ork_npu_open(&no_board, &npu, &error), ORK_NOT_FOUND);
    ork_npu_close(NULL);
}

/* ---- coming and going ---- */

static void test_open_close(void **state)
{
    (void)state;
    struct rig_model model = {.random = 10};
    rig_add(&model, ORK_TIER_I8, 64, 64, 1, 0);
    for (uint32_t i = 0; i < 200; i++) {
        ork_npu *npu = rig_open_npu(NULL);
        if (i % 4 == 0) {
            struct rig_tally tally = {0};
            struct rig_group group = {0};
            attach(npu, &model);
            rig_task(&group, &model.matrices[0], 0, 3, false, &model.random);
            rig_run(&group, ork_npu_offload(npu), &tally);
            assert_int_equal(tally.done, 1);
            rig_group_free(&group);
        }
        ork_npu_close(npu);
    }
    rig_model_free(&model);
}

/* A model goes while a job of its weights is lost: the device is made idle first; where even resets fail, nothing hangs
 * and the engine says why it is off. */
static void test_detach_after_a_fault(void **state)
{
    (void)state;
    struct rig_model model = {.random = 12};
    struct rig_tally tally = {0};
    rig_add(&model, ORK_TIER_NF4, 192, 64, 1, 0);
    static const char *const faults[] = {"never:at=2", "never:at=2;reset-fails:from=0"};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig_group group = {0};
        ork_npu *npu = rig_open_npu(faults[i]);
        attach(npu, &model);
        rig_task(&group, &model.matrices[0], 0, 8, false, &model.random);
        rig_run(&group, ork_npu_offload(npu), &tally);
        assert_false(group.tasks[0].done);
        ork_npu_detach(npu, &model);
        ork_npu_stats stats = rig_stats(npu);
        assert_int_equal(stats.never_started, 1);
        assert_int_equal(stats.quarantined_bytes, 0);
        assert_int_equal(stats.off, i == 1);
        if (i == 0) {
            attach(npu, &model);
            rig_run(&group, ork_npu_offload(npu), &tally);
            assert_true(group.tasks[0].done);
            assert_clean(npu);
        } else {
            ork_error error;
            assert_int_equal(ork_npu_attach(npu, &model, model.weights, model.count, &error), ORK_FAILURE);
            assert_non_null(strstr(error.what, stats.why));
        }
        rig_group_free(&group);
        ork_npu_close(npu);
    }
    rig_model_free(&model);
}

struct worker {
    ork_npu *npu;
    struct rig_model *model;
    uint64_t random, done;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct rig_tally tally = {0};
    for (uint32_t i = 0; i < 10; i++) {
        struct rig_group group = {0};
        rig_task(&group, &worker->model->matrices[i % 2], 0, 5, false, &worker->random);
        rig_run(&group, ork_npu_offload(worker->npu), &tally);
        rig_group_free(&group);
    }
    assert_int_equal(tally.wrong, 0);
    worker->done = tally.done;
    return NULL;
}

/* Sessions of one model share the engine: one after the other everything is taken, at once nothing goes wrong. */
static void test_threads(void **state)
{
    (void)state;
    struct rig_model model = {.random = 11};
    rig_add(&model, ORK_TIER_I8, 64, 64, 1, 0);
    rig_add(&model, ORK_TIER_NF4, 64, 96, 1, 0);
    ork_npu *npu = rig_open_npu(NULL);
    attach(npu, &model);
    struct worker workers[2] = {{npu, &model, 1, 0}, {npu, &model, 2, 0}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].done, 10);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(workers[0].done + workers[1].done > 0);
    ork_npu_close(npu);
    rig_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_every_tier),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_compiled_once),
        cmocka_unit_test(test_many_shapes),
        cmocka_unit_test(test_more_weights_than_memory),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_four_bits),
        cmocka_unit_test(test_self_test),
        cmocka_unit_test(test_self_test_refuses),
        cmocka_unit_test(test_bad_parameters),
        cmocka_unit_test(test_open_close),
        cmocka_unit_test(test_detach_after_a_fault),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
