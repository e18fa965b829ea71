/* Guards the sampler: each step does what its name says on known distributions, a seed repeats, bad numbers are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ork/ork.h"

static ork_sampler_params plain(void)
{
    return (ork_sampler_params){
        .temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 64, .seed = 42};
}

static ork_token draw(ork_sampler *sampler, const float *logits)
{
    ork_error error;
    ork_token token = -1;
    assert_int_equal(ork_sampler_sample(sampler, logits, NULL, 0, &token, &error), ORK_OK);
    return token;
}

static void count_draws(const ork_sampler_params *params, const float *logits, uint32_t vocabulary, int draws, int *counts)
{
    ork_error error;
    ork_sampler *sampler;
    assert_int_equal(ork_sampler_create(params, vocabulary, &sampler, &error), ORK_OK);
    memset(counts, 0, vocabulary * sizeof *counts);
    for (int i = 0; i < draws; i++)
        counts[draw(sampler, logits)]++;
    ork_sampler_destroy(sampler);
}

static void test_frequencies_follow_softmax(void **state)
{
    (void)state;
    enum { N = 5, DRAWS = 200000 };
    const float logits[N] = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f};
    const double temperatures[] = {0.5, 1.0, 2.0};
    for (int t = 0; t < 3; t++) {
        int counts[N];
        double sum = 0.0;
        ork_sampler_params params = plain();
        params.temperature = (float)temperatures[t];
        count_draws(&params, logits, N, DRAWS, counts);
        for (int i = 0; i < N; i++)
            sum += exp((double)logits[i] / temperatures[t]);
        for (int i = 0; i < N; i++) {
            double p = exp((double)logits[i] / temperatures[t]) / sum;
            /* Five standard deviations of a binomial count. */
            assert_true(fabs(counts[i] - p * DRAWS) <= 5.0 * sqrt(DRAWS * p * (1.0 - p)));
        }
    }
}

static void test_truncations_keep_what_they_say(void **state)
{
    (void)state;
    enum { N = 6 };
    /* Probabilities 0.5, 0.2, 0.15, 0.1, 0.04, 0.01, shuffled. */
    const double p[N] = {0.1, 0.5, 0.01, 0.2, 0.04, 0.15};
    float logits[N];
    int counts[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)log(p[i]) + 3.0f;

    ork_sampler_params params = plain();
    params.top_k = 2;
    count_draws(&params, logits, N, 5000, counts);
    assert_true(counts[1] > 0 && counts[3] > 0 && counts[1] + counts[3] == 5000);

    params = plain();
    params.top_p = 0.8f; /* 0.5 + 0.2 + 0.15 is the first sum that reaches it */
    count_draws(&params, logits, N, 5000, counts);
    assert_true(counts[1] > 0 && counts[3] > 0 && counts[5] > 0 && counts[1] + counts[3] + counts[5] == 5000);

    params = plain();
    params.min_p = 0.19f; /* keeps p >= 0.095 */
    count_draws(&params, logits, N, 5000, counts);
    assert_true(counts[0] > 0 && counts[2] == 0 && counts[4] == 0);

    params = plain();
    params.top_p = 0.0f; /* at least one is left */
    count_draws(&params, logits, N, 100, counts);
    assert_int_equal(counts[1], 100);
}

static void test_greedy_takes_the_lowest_of_equals(void **state)
{
    (void)state;
    ork_error error;
    ork_sampler *sampler;
    const float logits[] = {1.0f, 3.0f, 3.0f, NAN, 2.0f};
    ork_sampler_params params = plain();
    params.temperature = 0.0f;
    assert_int_equal(ork_sampler_create(&params, 5, &sampler, &error), ORK_OK);
    assert_int_equal(draw(sampler, logits), 1);
    assert_int_equal(ork_sampler_ban(sampler, 1, &error), ORK_OK);
    assert_int_equal(draw(sampler, logits), 2);
    assert_int_equal(ork_sampler_ban(sampler, 5, &error), ORK_BAD_ARGUMENT);
    ork_sampler_destroy(sampler);
}

static void test_penalties(void **state)
{
    (void)state;
    ork_error error;
    ork_sampler *sampler;
    const float logits[] = {2.0f, 1.9f, -1.0f, 1.0f};
    const ork_token history[] = {0, 0, 1, 3, 0};
    struct {
        float repeat, frequency, presence;
        int32_t last;
        ork_token want;
    } cases[] = {
        {1.0f, 0.0f, 0.0f, 64, 0},
        {1.2f, 0.0f, 0.0f, 1, 1},   /* only token 0 is recent: 2/1.2 < 1.9 */
        {1.0f, 0.35f, 0.0f, 64, 1}, /* 2 - 3*0.35 < 1.9 - 0.35 */
        {1.0f, 0.0f, 3.5f, 64, 2},  /* only token 2 was never seen */
        {1.0f, 0.0f, 3.5f, 0, 0},   /* nothing looked at */
        {1.0f, 0.0f, 3.5f, 2, 1},   /* 0 and 3 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ork_token token;
        ork_sampler_params params = plain();
        params.temperature = 0.0f;
        params.repeat_penalty = cases[i].repeat;
        params.frequency_penalty = cases[i].frequency;
        params.presence_penalty = cases[i].presence;
        params.repeat_last_n = cases[i].last;
        assert_int_equal(ork_sampler_create(&params, 4, &sampler, &error), ORK_OK);
        /* Twice: the counts of one call must not leak into the next. */
        for (int repeat = 0; repeat < 2; repeat++) {
            assert_int_equal(ork_sampler_sample(sampler, logits, history, 5, &token, &error), ORK_OK);
            assert_int_equal(token, cases[i].want);
        }
        ork_sampler_destroy(sampler);
    }
}

static void test_a_seed_repeats(void **state)
{
    (void)state;
    enum { N = 300 };
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)(i * 37 % 101) / 20.0f;
    ork_token first[50];
    bool differs = false;
    for (int round = 0; round < 3; round++) {
        ork_error error;
        ork_sampler *sampler;
        ork_sampler_params params = ork_sampler_defaults();
        params.seed = round == 2 ? 8 : 7;
        assert_int_equal(ork_sampler_create(&params, N, &sampler, &error), ORK_OK);
        for (int i = 0; i < 50; i++) {
            ork_token token = draw(sampler, logits);
            if (round == 0)
                first[i] = token;
            else if (round == 1)
                assert_int_equal(token, first[i]);
            else
                differs |= token != first[i];
        }
        ork_sampler_destroy(sampler);
    }
    assert_true(differs);
}

static void test_bad_numbers_are_refused(void **state)
{
    (void)state;
    ork_error error;
    ork_sampler *sampler;
    ork_token token;
    float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        for (int field = 0; field < 6; field++) {
            ork_sampler_params params = plain();
            float *fields[6] = {&params.temperature,    &params.top_p,
                                &params.min_p,          &params.repeat_penalty,
                                &params.frequency_penalty, &params.presence_penalty};
            *fields[field] = bad[i];
            assert_int_equal(ork_sampler_create(&params, 4, &sampler, &error), ORK_BAD_ARGUMENT);
            assert_null(sampler);
        }
    }
    const float nothing[] = {NAN, -INFINITY, NAN};
    ork_sampler_params params = plain();
    assert_int_equal(ork_sampler_create(&params, 3, &sampler, &error), ORK_OK);
    assert_int_equal(ork_sampler_sample(sampler, nothing, NULL, 0, &token, &error), ORK_FAILURE);
    ork_sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies_follow_softmax),     cmocka_unit_test(test_truncations_keep_what_they_say),
        cmocka_unit_test(test_greedy_takes_the_lowest_of_equals), cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_a_seed_repeats),                 cmocka_unit_test(test_bad_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
