/* Guards the fit of code tables: whatever the rows, the table that comes out can be used (ascends, has a 0, both signs),
 * and it is better than the default on fresh rows of the same kind, not only on the sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quant/nf4.h"
#include "quant/tier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 12345;

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double gaussian(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Nearly all weight above zero, where the default table has eight levels of sixteen. */
static double skewed(void)
{
    return fabs(gaussian()) + 0.05 * gaussian();
}

static float *random_rows(uint32_t n, uint32_t k, double (*draw)(void))
{
    float *rows = malloc((size_t)n * k * sizeof(float));
    assert_non_null(rows);
    for (size_t i = 0; i < (size_t)n * k; i++)
        rows[i] = (float)draw();
    return rows;
}

static void check_usable(const int8_t *table)
{
    int zeros = 0;
    for (int i = 0; i < 16; i++) {
        zeros += table[i] == 0;
        if (i > 0)
            assert_true(table[i] > table[i - 1]);
    }
    assert_int_equal(zeros, 1);
    assert_true(table[0] < 0 && table[15] > 0 && table[0] >= -127);
    assert_true(table[0] == -127 || table[15] == 127);
}

static double error_with(const float *rows, uint32_t n, uint32_t k, const int8_t *table)
{
    struct ork_tier_sizes sizes;
    double error = 0.0;
    assert_true(ork_tier_sizes(ORK_TIER_NF4, n, k, &sizes));
    uint8_t *data = malloc(sizes.data_bytes), *scales = malloc(sizes.scale_bytes);
    assert_non_null(data);
    assert_non_null(scales);
    ork_tier_encode(ORK_TIER_NF4, rows, n, k, NULL, table, data, scales, &error, NULL);
    free(data);
    free(scales);
    return error;
}

static void test_default_table_is_usable(void **state)
{
    (void)state;
    check_usable(ork_nf4_table);
    /* NF4's published levels, scaled */
    static const double levels[16] = {-1.0,    -.696193, -.525073, -.394917, -.284441, -.184773, -.091050, 0.0,
                                      .079580, .160930,  .246112,  .337915,  .440710,  .562617,  .722957,  1.0};
    for (int i = 0; i < 16; i++)
        assert_true(fabs(ork_nf4_table[i] - 127.0 * levels[i]) <= 0.51);
}

static void check_gain(double (*draw)(void), double least_gain)
{
    enum { N = 96, K = 512 };
    int8_t table[16];
    float *sample = random_rows(N, K, draw), *fresh = random_rows(N, K, draw);
    double ratio = ork_nf4_fit_table(sample, N, K, NULL, table);
    check_usable(table);
    assert_true(ratio <= 1.0 - least_gain);
    double fresh_ratio = error_with(fresh, N, K, table) / error_with(fresh, N, K, ork_nf4_table);
    assert_true(fresh_ratio <= 1.0 - 0.8 * least_gain);
    free(sample);
    free(fresh);
}

static void test_fit_is_better_on_fresh_rows(void **state)
{
    (void)state;
    check_gain(gaussian, 0.01);
    check_gain(uniform, 0.2);
    check_gain(skewed, 0.01);
}

static void test_fit_follows_importance(void **state)
{
    (void)state;
    enum { N = 64, K = 256 };
    int8_t plain[16], aware[16];
    float *rows = random_rows(N, K, gaussian), *h = random_rows(N, K, uniform);
    for (int i = 0; i < N * K; i++) {
        /* Inputs that count are spread evenly, the others are Gaussian. */
        h[i] = i % 4 == 0 ? 1.0f : 0.001f;
        if (i % 4 == 0)
            rows[i] = (float)(2.0 * uniform() - 1.0);
    }
    ork_nf4_fit_table(rows, N, K, NULL, plain);
    ork_nf4_fit_table(rows, N, K, h, aware);
    check_usable(aware);
    assert_memory_not_equal(plain, aware, sizeof plain);
    free(rows);
    free(h);
}

static void test_degenerate_rows(void **state)
{
    (void)state;
    enum { N = 8, K = 40, CASES = 6 };
    float rows[N * K];
    for (int c = 0; c < CASES; c++) {
        int8_t table[16];
        for (int i = 0; i < N * K; i++)
            rows[i] = c == 0   ? 0.0f
                      : c == 1 ? 1.0f
                      : c == 2 ? (i % 2 ? 1.0f : -1.0f)
                      : c == 3 ? (float)(i % K == 0)
                      : c == 4 ? 1e-44f
                               : (float)(i % 3) * 1e30f;
        double ratio = ork_nf4_fit_table(rows, N, K, NULL, table);
        check_usable(table);
        assert_true(ratio >= 0.0 && ratio <= 1.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_table_is_usable),
        cmocka_unit_test(test_fit_is_better_on_fresh_rows),
        cmocka_unit_test(test_fit_follows_importance),
        cmocka_unit_test(test_degenerate_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
