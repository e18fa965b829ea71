/* Guards groups that share their matmuls with another engine: whatever it takes, finishes, leaves or spoils, the bits are
 * those of the CPU alone with whole rows; it is asked for nothing with one row, and a group of which it wants nothing is
 * computed as without it. The other engine here is a thread with the kernel table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/naive.h"
#include "engine/offload.h"

enum policy {
    REFUSES, /* wants nothing */
    IDLES,   /* wants everything, takes nothing */
    WORKS,   /* takes and does everything */
    PICKS,   /* takes a random part and does it */
    FAILS,   /* takes a random part, leaves a random part of that undone and spoiled */
    SPARES,  /* as WORKS, from SPARED_ROWS rows */
    POLICIES
};
enum { SPARED_ROWS = 5 };

static const float eps = 1e-5f;

struct fake {
    enum policy policy;
    const struct ork_kernels *kernels;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ork_offload_task *tasks;
    uint32_t count;
    bool is_busy, is_ended, is_open; /* open: between begin and finish */
    uint32_t seed;
    /* what the engine asked and what came of it */
    uint64_t asked, begun, offered, done, undone;
    const char *violation;
};

static uint32_t draw(struct fake *fake, uint32_t below)
{
    fake->seed = fake->seed * 1664525u + 1013904223u;
    return (fake->seed >> 8) % below;
}

static void spoil(const struct ork_offload_task *task)
{
    for (uint32_t i = 0; i < task->m; i++)
        for (uint32_t n = 0; n < task->w->n; n++)
            task->y[i * task->y_stride + n] = NAN;
}

static void do_task(struct fake *fake, struct ork_offload_task *task)
{
    spoil(task);
    if (fake->policy == FAILS && draw(fake, 2)) {
        fake->undone++;
        return;
    }
    const struct ork_matmul_args args = {.w = task->w,
                                         .expert = task->expert,
                                         .x = task->x,
                                         .x_rows = task->x_rows,
                                         .m = task->m,
                                         .n_end = task->w->n,
                                         .y = task->y,
                                         .y_stride = task->y_stride};
    fake->kernels->matmul[task->w->tier].run(&args);
    task->done = true;
    fake->done++;
}

static void *work(void *context)
{
    struct fake *fake = context;
    pthread_mutex_lock(&fake->mutex);
    while (!fake->is_ended) {
        if (!fake->is_busy) {
            pthread_cond_wait(&fake->changed, &fake->mutex);
            continue;
        }
        for (uint32_t i = 0; i < fake->count; i++)
            if (fake->tasks[i].taken)
                do_task(fake, &fake->tasks[i]);
        fake->is_busy = false;
        pthread_cond_broadcast(&fake->changed);
    }
    pthread_mutex_unlock(&fake->mutex);
    return NULL;
}

static bool wants(void *context, const struct ork_matrix *w, uint32_t m)
{
    struct fake *fake = context;
    fake->asked++;
    if (!ork_tier_find(w->tier)->brick_bytes)
        fake->violation = "a tier without bricks was offered";
    return fake->policy == SPARES ? m >= SPARED_ROWS : fake->policy != REFUSES;
}

static void begin(void *context, struct ork_offload_task *tasks, uint32_t count)
{
    struct fake *fake = context;
    pthread_mutex_lock(&fake->mutex);
    if (fake->is_open || !count)
        fake->violation = "begin without finish, or of nothing";
    for (uint32_t i = 0; i < count; i++) {
        if (tasks[i].x->block != tasks[i].x->k_padded || tasks[i].x->blocks != 1)
            fake->violation = "more than one scale a row";
        if (!tasks[i].m || tasks[i].taken || tasks[i].done || (fake->policy == SPARES && tasks[i].m < SPARED_ROWS))
            fake->violation = "a task that should not be there";
        tasks[i].taken = fake->policy == WORKS || fake->policy == SPARES ||
                         ((fake->policy == PICKS || fake->policy == FAILS) && draw(fake, 4));
    }
    fake->begun++;
    fake->offered += count;
    fake->tasks = tasks;
    fake->count = count;
    fake->is_busy = fake->is_open = true;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->mutex);
}

static void finish(void *context)
{
    struct fake *fake = context;
    pthread_mutex_lock(&fake->mutex);
    if (!fake->is_open)
        fake->violation = "finish without begin";
    while (fake->is_busy)
        pthread_cond_wait(&fake->changed, &fake->mutex);
    fake->is_open = false;
    pthread_mutex_unlock(&fake->mutex);
}

static void fake_create(struct fake *fake, enum policy policy)
{
    ork_error error;
    *fake = (struct fake){.policy = policy, .seed = 1};
    assert_int_equal(ork_kernels_get(&fake->kernels, &error), ORK_OK);
    assert_int_equal(pthread_mutex_init(&fake->mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&fake->changed, NULL), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, work, fake), 0);
}

static void fake_destroy(struct fake *fake)
{
    pthread_mutex_lock(&fake->mutex);
    fake->is_ended = true;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->mutex);
    pthread_join(fake->thread, NULL);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->mutex);
}

/* One group of one shape: weights once, run on any engine. */
struct group {
    struct ork_cpu_limits limits;
    uint32_t rows, width; /* of x */
    void (*run)(ork_cpu *cpu, const struct group *group, float *x, float *y);
    uint64_t y_count;
    const struct ork_cpu_output *outputs;
    uint32_t output_count;
    const float *norm;
    struct ork_cpu_swiglu swiglu;
    struct ork_cpu_moe moe;
    bool router_codes;
};

static float *copy(const float *values, uint64_t count)
{
    float *result = calloc(count + 1, sizeof *result);
    assert_non_null(result);
    if (values)
        memcpy(result, values, count * sizeof *result);
    return result;
}

/* Runs the group once; *x and *y are new. */
static void run_group(const struct group *group, const float *source, uint32_t threads, uint32_t block,
                      const struct ork_offload *offload, float **x, float **y, struct ork_cpu_batch_work *done)
{
    ork_error error;
    ork_cpu *cpu;
    const struct ork_cpu_config config = {
        .threads = threads, .spin_us = 20, .activation_block = block, .limits = group->limits};
    if (ork_cpu_create(&config, &cpu, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    ork_cpu_set_offload(cpu, offload);
    *x = copy(source, (uint64_t)group->rows * group->width);
    *y = copy(NULL, group->y_count);
    group->run(cpu, group, *x, *y);
    if (done)
        *done = ork_cpu_get_batch_work(cpu);
    ork_cpu_destroy(cpu);
}

static void check_same(const struct group *group, const float *x, const float *y, const float *want_x,
                       const float *want_y, const char *what)
{
    uint64_t count = (uint64_t)group->rows * group->width;
    if (memcmp(x, want_x, count * sizeof *x) || memcmp(y, want_y, group->y_count * sizeof *y))
        fail_msg("%s: other bits (%u rows, width %u)", what, group->rows, group->width);
}

/* What the CPU alone computes, with whole rows and with the default block. */
struct reference {
    float *x, *y;
};

static void check_policy(const struct group *group, struct fake *fake, const float *source,
                         const struct reference wanted[2], uint32_t threads)
{
    const struct ork_offload offload = {fake, wants, begin, finish};
    for (uint32_t block = 0; block < 2; block++) { /* the default block, whole rows */
        float *x, *y;
        struct ork_cpu_batch_work work_done;
        uint64_t asked = fake->asked, offered = fake->offered, done = fake->done;
        run_group(group, source, threads, block ? UINT32_MAX : 0, &offload, &x, &y, &work_done);
        /* With the default block it depends on what is wanted: of everything or nothing it is known beforehand. A router in
         * codes keeps its block. */
        bool is_shared = group->rows > 1 && fake->policy != REFUSES, is_whole = block || is_shared;
        bool is_known = block || !is_shared || (fake->policy != SPARES && !group->router_codes);
        if (is_known)
            check_same(group, x, y, wanted[is_whole].x, wanted[is_whole].y, block ? "whole rows" : "default block");
        if (group->rows == 1)
            assert_int_equal(fake->asked, asked);
        else
            assert_true(fake->asked > asked && work_done.multiply_adds);
        assert_int_equal(work_done.offered, fake->offered - offered);
        assert_int_equal(work_done.done, fake->done - done);
        assert_true(!!work_done.offloaded_multiply_adds == (fake->done > done));
        assert_true(work_done.offloaded_multiply_adds <= work_done.multiply_adds);
        free(x);
        free(y);
    }
    if (fake->violation)
        fail_msg("%s", fake->violation);
}

static void check_group(const struct group *group, struct fake *fakes, uint32_t *seed)
{
    static const uint32_t threads[] = {1, 2, 5};
    struct reference wanted[2];
    float *source = copy(NULL, (uint64_t)group->rows * group->width);
    fill_random(source, (uint64_t)group->rows * group->width, seed);
    for (uint32_t block = 0; block < 2; block++)
        run_group(group, source, 2, block ? UINT32_MAX : 0, NULL, &wanted[block].x, &wanted[block].y, NULL);
    for (int policy = 0; policy < POLICIES; policy++)
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
            check_policy(group, &fakes[policy], source, wanted, threads[i]);
    for (uint32_t block = 0; block < 2; block++) {
        free(wanted[block].x);
        free(wanted[block].y);
    }
    free(source);
}

/* Nothing of the above counts unless the other engine was really there. */
static void check_and_destroy_fakes(struct fake *fakes)
{
    assert_true(fakes[REFUSES].asked > 0 && fakes[REFUSES].begun == 0);
    assert_true(fakes[IDLES].begun > 0 && fakes[IDLES].done == 0);
    assert_true(fakes[WORKS].done > 0 && fakes[WORKS].done == fakes[WORKS].offered);
    assert_true(fakes[PICKS].done > 0 && fakes[PICKS].done < fakes[PICKS].offered);
    assert_true(fakes[FAILS].done > 0 && fakes[FAILS].undone > 0);
    assert_true(fakes[SPARES].done > 0 && fakes[SPARES].done < fakes[WORKS].done);
    for (int policy = 0; policy < POLICIES; policy++)
        fake_destroy(&fakes[policy]);
}

static const uint32_t row_counts[] = {1, 2, 4, 5, 33, 70};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts, SHAPE_STEP = ORK_SLOW_BUILD ? 7 : 1 };
static const enum ork_tier brick_tiers[] = {ORK_TIER_I8, ORK_TIER_NF4, ORK_TIER_I4, ORK_TIER_I5, ORK_TIER_I6};

static void run_project(ork_cpu *cpu, const struct group *group, float *x, float *y)
{
    struct ork_cpu_output outputs[3];
    for (uint32_t i = 0; i < group->output_count; i++) {
        outputs[i] = group->outputs[i];
        outputs[i].y = y + (uint64_t)i * group->rows * outputs[i].y_stride;
    }
    ork_cpu_project(cpu, x, group->width, group->rows, group->norm, eps, outputs, group->output_count);
}

/* Three outputs of different tiers and widths, one with a bias, one that is added, one in floats; with and without norm. */
static void test_project_shares_its_outputs(void **state)
{
    (void)state;
    static const uint32_t inputs[] = {32, 100, 257}, widths[] = {100, 33, 64};
    static struct fake fakes[POLICIES]; /* outlives a failed test, as its threads do */
    for (int policy = 0; policy < POLICIES; policy++)
        fake_create(&fakes[policy], (enum policy)policy);
    for (uint32_t shape = 0; shape < 3 * ROW_COUNTS; shape += SHAPE_STEP) {
        uint32_t seed = shape + 1, k = inputs[shape % 3], rows = row_counts[shape / 3];
        struct matrix w[3];
        float norm[257], bias[100];
        struct ork_cpu_output outputs[3];
        const enum ork_tier tiers[3] = {brick_tiers[shape % 5], brick_tiers[(shape + 2) % 5], ORK_TIER_F16};
        fill_random(norm, 257, &seed);
        fill_random(bias, 100, &seed);
        for (int i = 0; i < 3; i++) {
            matrix_create(&w[i], tiers[i], widths[i], k, 1, &seed);
            outputs[i] = (struct ork_cpu_output){.w = &w[i].stored, .y_stride = 103};
        }
        outputs[0].bias = bias;
        outputs[1].add = true;
        outputs[1].bias = bias;
        struct group group = {.limits = {.rows = rows, .input_k = k, .output_n = 100},
                              .rows = rows,
                              .width = k,
                              .run = run_project,
                              .y_count = 3ull * rows * 103,
                              .outputs = outputs,
                              .output_count = 3,
                              .norm = shape % 2 ? norm : NULL};
        check_group(&group, fakes, &seed);
        group.output_count = 1;
        check_group(&group, fakes, &seed);
        for (int i = 0; i < 3; i++)
            matrix_destroy(&w[i]);
    }
    check_and_destroy_fakes(fakes);
}

static void run_swiglu(ork_cpu *cpu, const struct group *group, float *x, float *y)
{
    (void)y;
    ork_cpu_swiglu(cpu, &group->swiglu, x, group->width, group->rows);
}

static void test_swiglu_shares_both_joins(void **state)
{
    (void)state;
    static struct fake fakes[POLICIES]; /* outlives a failed test, as its threads do */
    for (int policy = 0; policy < POLICIES; policy++)
        fake_create(&fakes[policy], (enum policy)policy);
    for (uint32_t shape = 0; shape < 3 * ROW_COUNTS; shape += SHAPE_STEP) {
        uint32_t seed = shape + 1, rows = row_counts[shape / 3], k = 65 + 31 * (shape % 3), f = 150 - 43 * (shape % 3);
        struct matrix gate, up, down;
        float norm[128];
        fill_random(norm, 128, &seed);
        /* Every third: gate in floats, so that only a part of each join can be shared. */
        matrix_create(&gate, shape % 3 == 2 ? ORK_TIER_F32 : brick_tiers[shape % 5], f, k, 1, &seed);
        matrix_create(&up, brick_tiers[(shape + 1) % 5], f, k, 1, &seed);
        matrix_create(&down, shape % 3 == 1 ? ORK_TIER_G8 : brick_tiers[(shape + 3) % 5], k, f, 1, &seed);
        const struct group group = {.limits = {.rows = rows, .input_k = k, .output_n = k, .hidden = f},
                                    .rows = rows,
                                    .width = k,
                                    .run = run_swiglu,
                                    .swiglu = {norm, eps, &gate.stored, &up.stored, &down.stored}};
        check_group(&group, fakes, &seed);
        matrix_destroy(&gate);
        matrix_destroy(&up);
        matrix_destroy(&down);
    }
    check_and_destroy_fakes(fakes);
}

static void run_moe(ork_cpu *cpu, const struct group *group, float *x, float *y)
{
    (void)y;
    ork_cpu_moe(cpu, &group->moe, x, group->width, group->rows);
}

static void test_moe_shares_its_experts(void **state)
{
    (void)state;
    static const uint32_t experts[] = {1, 9, 40}, used[] = {1, 3, 4};
    static struct fake fakes[POLICIES]; /* outlives a failed test, as its threads do */
    for (int policy = 0; policy < POLICIES; policy++)
        fake_create(&fakes[policy], (enum policy)policy);
    for (uint32_t shape = 0; shape < 3 * ROW_COUNTS; shape += SHAPE_STEP) {
        uint32_t seed = shape + 1, rows = row_counts[shape / 3], kind = shape % 3, k = 96 - 11 * kind,
                 f = 70 + 9 * kind;
        struct matrix router, gate, up, down;
        float norm[96], bias[40];
        fill_random(norm, 96, &seed);
        fill_random(bias, 40, &seed);
        bool router_codes = shape % 4 == 3;
        matrix_create(&router, router_codes ? ORK_TIER_I8 : ORK_TIER_F32, experts[kind], k, 1, &seed);
        matrix_create(&gate, brick_tiers[shape % 5], f, k, experts[kind], &seed);
        matrix_create(&up, brick_tiers[(shape + 1) % 5], f, k, experts[kind], &seed);
        matrix_create(&down, brick_tiers[(shape + 2) % 5], k, f, experts[kind], &seed);
        const struct group group = {.limits = {.rows = rows,
                                               .input_k = k,
                                               .output_n = k,
                                               .experts = experts[kind],
                                               .experts_used = used[kind],
                                               .expert_hidden = f},
                                    .rows = rows,
                                    .width = k,
                                    .run = run_moe,
                                    .moe = {.norm = norm,
                                            .eps = eps,
                                            .router = &router.stored,
                                            .router_bias = bias,
                                            .sigmoid = true,
                                            .normalise = true,
                                            .scale = 1.0f,
                                            .used = used[kind],
                                            .gate = &gate.stored,
                                            .up = &up.stored,
                                            .down = &down.stored},
                                    .router_codes = router_codes};
        check_group(&group, fakes, &seed);
        matrix_destroy(&router);
        matrix_destroy(&gate);
        matrix_destroy(&up);
        matrix_destroy(&down);
    }
    check_and_destroy_fakes(fakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_project_shares_its_outputs),
        cmocka_unit_test(test_swiglu_shares_both_joins),
        cmocka_unit_test(test_moe_shares_its_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
