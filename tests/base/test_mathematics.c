/* Guards our own exp, log, sine and cosine: against long double libm, and by a digest of their bits that every machine
 * must reproduce (the suite runs on x86-64 and on aarch64). */
#include "base/mathematics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random_next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double random_between(uint64_t *seed, double low, double high)
{
    return low + (high - low) * ((double)(random_next(seed) >> 11) * 0x1p-53);
}

static void test_exp_is_within_1e15(void **state)
{
    (void)state;
    uint64_t seed = 1;
    long double worst = 0;
    for (int i = 0; i < 60000; i++) {
        double x = i % 2 ? random_between(&seed, -708, 709) : random_between(&seed, -2, 2);
        long double exact = expl((long double)x), error = fabsl(((long double)ork_math_exp(x) - exact) / exact);
        if (error > worst)
            worst = error;
    }
    print_message("exp: largest relative error %.3Lg\n", worst);
    assert_true(worst < 1e-15L);
}

static void test_exp_at_the_edges(void **state)
{
    (void)state;
    assert_true(ork_math_exp(0.0) == 1.0 && ork_math_exp(-0.0) == 1.0);
    assert_true(ork_math_exp(709.5) == INFINITY && ork_math_exp(INFINITY) == INFINITY &&
                ork_math_exp(1e300) == INFINITY);
    assert_true(ork_math_exp(-708.5) == 0.0 && ork_math_exp(-INFINITY) == 0.0 && ork_math_exp(-1e300) == 0.0);
    assert_true(isnan(ork_math_exp(NAN)));
    assert_true(isfinite(ork_math_exp(709.0)) && ork_math_exp(-708.0) > 0.0);
}

static void test_log_is_within_1e15(void **state)
{
    (void)state;
    uint64_t seed = 2;
    long double worst = 0;
    for (int i = 0; i < 60000; i++) {
        double x;
        if (i % 2) { /* any positive double, subnormals included */
            uint64_t bits = random_next(&seed) >> 1;
            if (bits == 0 || bits >= UINT64_C(0x7ff0000000000000))
                continue;
            memcpy(&x, &bits, sizeof x);
        } else { /* near 1, where the logarithm itself is small */
            x = random_between(&seed, 0.5, 2);
        }
        long double exact = logl((long double)x);
        long double error =
            exact == 0 ? fabsl((long double)ork_math_log(x)) : fabsl(((long double)ork_math_log(x) - exact) / exact);
        if (error > worst)
            worst = error;
    }
    print_message("log: largest relative error %.3Lg\n", worst);
    assert_true(worst < 1e-15L);
}

static void test_log_at_the_edges(void **state)
{
    (void)state;
    assert_true(ork_math_log(1.0) == 0.0);
    assert_true(ork_math_log(0.0) == -INFINITY && ork_math_log(INFINITY) == INFINITY);
    assert_true(isnan(ork_math_log(-1.0)) && isnan(ork_math_log(NAN)) && isnan(ork_math_log(-INFINITY)));
    assert_true(fabs(ork_math_log(0x1p-1074) + 1074 * 0.6931471805599453) < 1e-12);
    assert_true(fabs(ork_math_log(0x1.fffffffffffffp+1023) - 709.782712893384) < 1e-12);
}

/* Angles of positions up to 2^23 are exact to rounding; the largest allowed ones are good to a float's last bits. */
static void test_sine_and_cosine(void **state)
{
    (void)state;
    static const struct {
        double largest;
        long double bound;
    } ranges[] = {{4, 4e-16L}, {1 << 23, 4e-16L}, {2147483648.0, 1e-6L}};
    uint64_t seed = 3;
    for (size_t range = 0; range < sizeof ranges / sizeof *ranges; range++) {
        long double worst = 0;
        for (int i = 0; i < 30000; i++) {
            double x = random_between(&seed, -ranges[range].largest, ranges[range].largest), sine, cosine;
            if (i % 4 == 0) /* next to the zeros and extremes, where the reduction cancels most */
                x = floor(x / 1.5707963267948966) * 1.5707963267948966;
            ork_math_sincos(x, &sine, &cosine);
            long double error = fmaxl(fabsl((long double)sine - sinl((long double)x)),
                                      fabsl((long double)cosine - cosl((long double)x)));
            if (error > worst)
                worst = error;
            assert_true(fabs(sine * sine + cosine * cosine - 1) < 1e-9);
        }
        print_message("sincos up to %g: largest absolute error %.3Lg\n", ranges[range].largest, worst);
        assert_true(worst < ranges[range].bound);
    }
    double sine, cosine;
    ork_math_sincos(0.0, &sine, &cosine);
    assert_true(sine == 0.0 && cosine == 1.0);
}

static uint64_t mix(uint64_t digest, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (digest ^ bits) * UINT64_C(0x100000001b3);
}

/* The numerics contract: the same bits on every instruction set. The constant was computed on x86-64; it may change only
 * together with the formulas. */
static void test_every_machine_computes_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = 4, digest = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 100000; i++) {
        double sine, cosine;
        digest = mix(digest, ork_math_exp(random_between(&seed, -720, 720)));
        digest = mix(digest, ork_math_log(ork_math_exp(random_between(&seed, -700, 700))));
        ork_math_sincos(random_between(&seed, -1e6, 1e6), &sine, &cosine);
        digest = mix(mix(digest, sine), cosine);
    }
    if (digest != UINT64_C(0x1305bace04f3f7f4))
        fail_msg("digest %016llx", (unsigned long long)digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_within_1e15), cmocka_unit_test(test_exp_at_the_edges),
        cmocka_unit_test(test_log_is_within_1e15), cmocka_unit_test(test_log_at_the_edges),
        cmocka_unit_test(test_sine_and_cosine),    cmocka_unit_test(test_every_machine_computes_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
