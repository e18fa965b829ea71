/* Guards the op groups: on float weights they equal their formulas within rounding, on every tier all thread counts give
 * the same bits, and odd shapes (1, 63, 64, 65 experts; 1, 2, 511, 512 rows; up to 17 threads: bug B25) neither crash
 * nor overrun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/naive.h"

static const float eps = 1e-5f;

static ork_cpu *create_engine(uint32_t threads, struct ork_cpu_limits limits)
{
    ork_error error;
    ork_cpu *cpu;
    struct ork_cpu_config config = {.threads = threads, .spin_us = 20, .limits = limits};
    if (ork_cpu_create(&config, &cpu, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    return cpu;
}

static float *allocate(uint64_t count)
{
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static void check_close(const float *have, const double *want, uint64_t count, double tolerance)
{
    double scale = 0.0;
    for (uint64_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(want[i]));
    for (uint64_t i = 0; i < count; i++)
        if (!(fabs(have[i] - want[i]) <= tolerance * (scale + 1e-9)))
            fail_msg("element %llu is %g, should be %g", (unsigned long long)i, (double)have[i], want[i]);
}

struct moe_case {
    uint32_t experts, used, embedding, hidden, rows;
    enum ork_tier tier;
    bool sigmoid, bias;
};

struct moe_weights {
    struct matrix router, gate, up, down;
    float *norm, *bias;
};

static void create_moe(struct moe_weights *w, const struct moe_case *c, uint32_t *seed)
{
    matrix_create(&w->router, ORK_TIER_F32, c->experts, c->embedding, 1, seed);
    matrix_create(&w->gate, c->tier, c->hidden, c->embedding, c->experts, seed);
    matrix_create(&w->up, c->tier, c->hidden, c->embedding, c->experts, seed);
    matrix_create(&w->down, c->tier, c->embedding, c->hidden, c->experts, seed);
    w->norm = allocate(c->embedding);
    w->bias = allocate(c->experts);
    fill_random(w->norm, c->embedding, seed);
    fill_random(w->bias, c->experts, seed);
}

static void destroy_moe(struct moe_weights *w)
{
    matrix_destroy(&w->router);
    matrix_destroy(&w->gate);
    matrix_destroy(&w->up);
    matrix_destroy(&w->down);
    free(w->norm);
    free(w->bias);
}

static void run_moe(const struct moe_case *c, const struct moe_weights *w, uint32_t threads, float *x)
{
    struct ork_cpu_limits limits = {.rows = c->rows,
                                    .input_k = c->embedding,
                                    .output_n = c->embedding,
                                    .experts = c->experts,
                                    .experts_used = c->used,
                                    .expert_hidden = c->hidden};
    struct ork_cpu_moe layer = {.norm = w->norm,
                                .eps = eps,
                                .router = &w->router.stored,
                                .router_bias = c->bias ? w->bias : NULL,
                                .sigmoid = c->sigmoid,
                                .normalise = true,
                                .scale = 1.0f,
                                .used = c->used,
                                .gate = &w->gate.stored,
                                .up = &w->up.stored,
                                .down = &w->down.stored};
    ork_cpu *cpu = create_engine(threads, limits);
    ork_cpu_moe(cpu, &layer, x, c->embedding, c->rows);
    ork_cpu_destroy(cpu);
}

static void naive_moe(const struct moe_case *c, const struct moe_weights *w, const float *x, double *y)
{
    double h[256], score[600], biased[600], sum = 0.0;
    uint32_t chosen[600];
    naive_norm(h, x, w->norm, c->embedding, eps);
    naive_multiply(score, &w->router, 0, h);
    double total = 0.0;
    for (uint32_t e = 0; e < c->experts; e++) {
        score[e] = c->sigmoid ? 1.0 / (1.0 + exp(-score[e])) : exp(score[e]);
        total += score[e];
    }
    for (uint32_t e = 0; e < c->experts; e++) {
        if (!c->sigmoid)
            score[e] /= total;
        biased[e] = score[e] + (c->bias ? w->bias[e] : 0.0f);
    }
    for (uint32_t j = 0; j < c->used; j++) {
        chosen[j] = 0;
        for (uint32_t e = 1; e < c->experts; e++)
            if (biased[e] > biased[chosen[j]])
                chosen[j] = e;
        sum += score[chosen[j]];
        biased[chosen[j]] = -1e30;
    }
    for (uint32_t i = 0; i < c->embedding; i++)
        y[i] = x[i];
    for (uint32_t j = 0; j < c->used; j++)
        naive_feed_forward(y, &w->gate, &w->up, &w->down, chosen[j], h, score[chosen[j]] / sum);
}

static void test_moe_equals_its_formula(void **state)
{
    (void)state;
    const struct moe_case cases[] = {
        {1, 1, 64, 32, 3, ORK_TIER_F32, true, true},     {8, 2, 96, 40, 1, ORK_TIER_F32, true, true},
        {8, 2, 96, 40, 17, ORK_TIER_F32, true, true},    {63, 4, 64, 33, 5, ORK_TIER_F32, false, false},
        {64, 8, 64, 32, 2, ORK_TIER_F32, false, false},  {65, 65, 48, 16, 4, ORK_TIER_F32, true, false},
        {128, 8, 64, 48, 33, ORK_TIER_F16, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct moe_case *c = &cases[i];
        uint32_t seed = (uint32_t)i + 1;
        struct moe_weights w;
        create_moe(&w, c, &seed);
        uint64_t count = (uint64_t)c->rows * c->embedding;
        float *x = allocate(count);
        double *want = calloc(count, sizeof *want);
        fill_random(x, count, &seed);
        for (uint32_t row = 0; row < c->rows; row++)
            naive_moe(c, &w, x + (uint64_t)row * c->embedding, want + (uint64_t)row * c->embedding);
        run_moe(c, &w, 2, x);
        check_close(x, want, count, 1e-4);
        free(x);
        free(want);
        destroy_moe(&w);
    }
}

static void test_moe_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 7, 64}, threads[] = {1, 2, 3, 4, 5, 11, 17};
    for (uint32_t tier = 0; tier < ORK_TIER_COUNT; tier++) {
        if (!ork_tier_find(tier))
            continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            struct moe_case c = {9, 3, 160, 70, rows[r], (enum ork_tier)tier, true, true};
            uint32_t seed = 77;
            struct moe_weights w;
            create_moe(&w, &c, &seed);
            uint64_t count = (uint64_t)c.rows * c.embedding;
            float *source = allocate(count), *first = allocate(count), *x = allocate(count);
            fill_random(source, count, &seed);
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t += ORK_SLOW_BUILD ? 3 : 1) {
                memcpy(x, source, count * sizeof *x);
                run_moe(&c, &w, threads[t], x);
                if (t == 0)
                    memcpy(first, x, count * sizeof *x);
                assert_memory_equal(x, first, count * sizeof *x);
            }
            free(source);
            free(first);
            free(x);
            destroy_moe(&w);
        }
    }
}

/* Wide batches: every row is what it is alone. */
static void test_moe_rows_are_independent(void **state)
{
    (void)state;
    const uint32_t rows[] = {511, 512};
    for (size_t r = 0; r < 2; r++) {
        struct moe_case c = {12, 4, 64, 64, rows[r], ORK_TIER_NF4, true, true}, one = c;
        one.rows = 1;
        uint32_t seed = 5;
        struct moe_weights w;
        create_moe(&w, &c, &seed);
        uint64_t count = (uint64_t)c.rows * c.embedding;
        float *x = allocate(count), *alone = allocate(count);
        fill_random(x, count, &seed);
        memcpy(alone, x, count * sizeof *x);
        run_moe(&c, &w, 3, x);
        for (uint32_t row = 0; row < c.rows; row += 73) {
            run_moe(&one, &w, 1, alone + (uint64_t)row * c.embedding);
            assert_memory_equal(x + (uint64_t)row * c.embedding, alone + (uint64_t)row * c.embedding,
                                c.embedding * sizeof *x);
        }
        free(x);
        free(alone);
        destroy_moe(&w);
    }
}

static void test_swiglu_equals_its_formula(void **state)
{
    (void)state;
    enum { E = 96, F = 150, ROWS = 5 };
    uint32_t seed = 9;
    struct matrix gate, up, down;
    float norm[E], x[ROWS * E];
    double want[ROWS * E], h[E];
    matrix_create(&gate, ORK_TIER_F32, F, E, 1, &seed);
    matrix_create(&up, ORK_TIER_F16, F, E, 1, &seed);
    matrix_create(&down, ORK_TIER_BF16, E, F, 1, &seed);
    fill_random(norm, E, &seed);
    fill_random(x, ROWS * E, &seed);
    for (int row = 0; row < ROWS; row++) {
        naive_norm(h, x + row * E, norm, E, eps);
        for (int i = 0; i < E; i++)
            want[row * E + i] = x[row * E + i];
        naive_feed_forward(want + row * E, &gate, &up, &down, 0, h, 1.0);
    }
    ork_cpu *cpu = create_engine(
        3, (struct ork_cpu_limits){.rows = ROWS, .input_k = E, .output_n = E, .hidden = F});
    struct ork_cpu_swiglu layer = {norm, eps, &gate.stored, &up.stored, &down.stored};
    ork_cpu_swiglu(cpu, &layer, x, E, ROWS);
    check_close(x, want, ROWS * E, 1e-4);
    ork_cpu_destroy(cpu);
    matrix_destroy(&gate);
    matrix_destroy(&up);
    matrix_destroy(&down);
}

/* Three outputs of different tiers and widths on one input, with bias and with adding. */
static void test_project_serves_every_output(void **state)
{
    (void)state;
    enum { K = 80, ROWS = 4 };
    static const uint32_t widths[3] = {100, 33, 64};
    static const enum ork_tier tiers[3] = {ORK_TIER_F32, ORK_TIER_F16, ORK_TIER_I8};
    for (uint32_t rows = 1; rows <= ROWS; rows += 3)
        for (uint32_t threads = 1; threads <= 5; threads += 2) {
            uint32_t seed = 21;
            struct matrix w[3];
            float norm[K], bias[100], x[ROWS * K], y[3][ROWS * 100];
            double want[100], h[K];
            fill_random(norm, K, &seed);
            fill_random(bias, 100, &seed);
            fill_random(x, ROWS * K, &seed);
            struct ork_cpu_output outputs[3];
            for (int i = 0; i < 3; i++) {
                matrix_create(&w[i], tiers[i], widths[i], K, 1, &seed);
                for (int j = 0; j < ROWS * 100; j++)
                    y[i][j] = 0.5f;
                outputs[i] = (struct ork_cpu_output){.w = &w[i].stored, .y = y[i], .y_stride = 100};
            }
            outputs[0].bias = bias;
            outputs[1].add = true;
            ork_cpu *cpu = create_engine(
                threads, (struct ork_cpu_limits){.rows = ROWS, .input_k = K, .output_n = 100});
            ork_cpu_project(cpu, x, K, rows, norm, eps, outputs, 3);
            for (uint32_t row = 0; row < rows; row++) {
                naive_norm(h, x + row * K, norm, K, eps);
                for (int i = 0; i < 3; i++) {
                    naive_multiply(want, &w[i], 0, h);
                    for (uint32_t n = 0; n < widths[i]; n++)
                        want[n] += i == 0 ? bias[n] : i == 1 ? 0.5 : 0.0;
                    check_close(y[i] + row * 100, want, widths[i], i == 2 ? 2e-2 : 1e-5);
                }
            }
            for (int i = 0; i < 3; i++) {
                for (uint32_t n = widths[i]; n < 100; n++)
                    assert_true(y[i][n] == 0.5f);
                matrix_destroy(&w[i]);
            }
            ork_cpu_destroy(cpu);
        }
}

/* In one call, and in two with the state carried over. */
static void test_short_convolution_equals_its_formula(void **state)
{
    (void)state;
    enum { N = 70, TAPS = 3, ROWS = 11 };
    uint32_t seed = 41;
    static float bcx[ROWS * 3 * N], w[TAPS * N], y[ROWS * N];
    static double want[ROWS * N];
    fill_random(bcx, ROWS * 3 * N, &seed);
    fill_random(w, N * TAPS, &seed);
    for (int t = 0; t < ROWS; t++)
        for (int c = 0; c < N; c++) {
            double sum = 0.0;
            for (int i = 0; i < TAPS; i++) {
                int from = t - (TAPS - 1) + i;
                if (from >= 0)
                    sum += (double)w[i * N + c] * bcx[from * 3 * N + c] * bcx[from * 3 * N + 2 * N + c];
            }
            want[t * N + c] = sum * bcx[t * 3 * N + N + c];
        }
    for (uint32_t first = 0; first < ROWS; first += 5)
        for (uint32_t threads = 1; threads <= 7; threads += 3) {
            float carried[(TAPS - 1) * N] = {0};
            ork_cpu *cpu = create_engine(
                threads, (struct ork_cpu_limits){.rows = ROWS, .input_k = N, .output_n = 1});
            struct ork_cpu_short_conv layer = {.bcx = bcx,
                                               .bcx_stride = 3 * N,
                                               .w = w,
                                               .n = N,
                                               .taps = TAPS,
                                               .state = carried,
                                               .y = y,
                                               .y_stride = N};
            if (first)
                ork_cpu_convolve(cpu, &layer, first);
            layer.bcx += (uint64_t)first * 3 * N;
            layer.y += (uint64_t)first * N;
            ork_cpu_convolve(cpu, &layer, ROWS - first);
            check_close(y, want, ROWS * N, 1e-5);
            ork_cpu_destroy(cpu);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe_equals_its_formula),
        cmocka_unit_test(test_moe_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_moe_rows_are_independent),
        cmocka_unit_test(test_swiglu_equals_its_formula),
        cmocka_unit_test(test_project_serves_every_output),
        cmocka_unit_test(test_short_convolution_equals_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
