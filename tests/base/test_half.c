/* Guards the half and bfloat16 conversions: every pattern against its definition by ldexp, and every rounding tie. */
#include "base/mathematics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct form {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    float (*widen)(uint16_t bits);
    uint16_t (*narrow)(float value);
};

static float widen_bf16(uint16_t bits)
{
    return ork_bf16_to_f32(bits);
}

static const struct form forms[] = {
    {"f16", 5, 10, 15, ork_f16_to_f32, ork_f32_to_f16},
    {"bf16", 8, 7, 127, widen_bf16, ork_f32_to_bf16},
};

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What IEEE 754 says that the bits of a finite pattern are worth. */
static double definition(const struct form *form, uint16_t bits)
{
    int mantissa = bits & ((1 << form->mantissa_bits) - 1);
    int exponent = bits >> form->mantissa_bits & ((1 << form->exponent_bits) - 1);
    double magnitude = exponent
                           ? ldexp((1 << form->mantissa_bits) + mantissa, exponent - form->bias - form->mantissa_bits)
                           : ldexp(mantissa, 1 - form->bias - form->mantissa_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t infinity_of(const struct form *form)
{
    return (uint16_t)(((1 << form->exponent_bits) - 1) << form->mantissa_bits);
}

static void test_all_patterns_have_their_value(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const struct form *form = &forms[f];
        uint16_t infinity = infinity_of(form);
        for (uint32_t pattern = 0; pattern < 65536; pattern++) {
            uint16_t bits = (uint16_t)pattern, magnitude = bits & 0x7fff;
            float wide = form->widen(bits);
            if (magnitude > infinity) {
                assert_true(isnan(wide));
                assert_true(isnan(form->widen(form->narrow(wide))));
                continue;
            }
            if (magnitude == infinity)
                assert_true(isinf(wide));
            else if ((double)wide != definition(form, bits))
                fail_msg("%s %04x is %a, not %a", form->name, bits, wide, definition(form, bits));
            assert_int_equal(signbit(wide) != 0, bits >> 15);
            if (form->narrow(wide) != bits)
                fail_msg("%s %04x comes back as %04x", form->name, bits, form->narrow(wide));
        }
    }
}

/* Between each pair of neighbours: the midpoint goes to the even one, the floats beside it to the nearer one. The last
 * pair has infinity as its upper neighbour, as IEEE 754 rounds. */
static void test_ties_go_to_the_even_neighbour(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const struct form *form = &forms[f];
        uint16_t infinity = infinity_of(form);
        for (uint16_t low = 0; low < infinity; low++) {
            uint16_t high = low + 1;
            double top =
                high == infinity ? ldexp(1, (1 << form->exponent_bits) - 1 - form->bias) : definition(form, high);
            double middle = (definition(form, low) + top) / 2;
            float tie = (float)middle;
            if ((double)tie != middle) /* bf16 subnormals: half of the least float step */
                continue;
            for (int sign = 0; sign < 2; sign++) {
                uint16_t s = sign ? 0x8000 : 0;
                float t = sign ? -tie : tie;
                assert_int_equal(form->narrow(t), s | (low & 1 ? high : low));
                assert_int_equal(form->narrow(nextafterf(t, 0)), s | low);
                assert_int_equal(form->narrow(nextafterf(t, sign ? -INFINITY : INFINITY)), s | high);
            }
        }
    }
}

static void test_beyond_the_range(void **state)
{
    (void)state;
    assert_int_equal(ork_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(ork_f32_to_f16(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(ork_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ork_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(ork_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(ork_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(ork_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(ork_f32_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(ork_f32_to_bf16(0x1.fep+127f), 0x7f7f);
    assert_int_equal(ork_f32_to_bf16(0x1.fffffep+127f), 0x7f80);
    assert_int_equal(ork_f32_to_bf16(-INFINITY), 0xff80);
}

/* A NaN whose payload lies only in the bits that are cut off must not become infinity. */
static void test_nan_stays_nan(void **state)
{
    (void)state;
    for (int shift = 0; shift < 23; shift++)
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t bits = sign << 31 | 0x7f800000u | 1u << shift;
            float nan;
            memcpy(&nan, &bits, sizeof nan);
            assert_true((ork_f32_to_f16(nan) & 0x7fff) > 0x7c00);
            assert_true((ork_f32_to_bf16(nan) & 0x7fff) > 0x7f80);
            assert_int_equal(ork_f32_to_f16(nan) >> 15, sign);
            assert_int_equal(ork_f32_to_bf16(nan) >> 15, sign);
        }
}

/* Floats of all magnitudes: the result is a nearest neighbour, which with the ties above leaves no other answer. */
static void test_floats_of_all_magnitudes(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const struct form *form = &forms[f];
        uint16_t infinity = infinity_of(form);
        for (uint32_t bits = 0; bits < 0x7f800000u; bits += 4099) {
            float value;
            memcpy(&value, &bits, sizeof value);
            uint16_t narrow = form->narrow(value);
            assert_true(narrow <= infinity);
            if (narrow == infinity)
                continue; /* the border is tested above, and narrowing is monotonic here */
            double error = fabs((double)value - definition(form, narrow));
            if (narrow + 1 < infinity)
                assert_true(error <= fabs(definition(form, narrow + 1) - (double)value));
            if (narrow > 0)
                assert_true(error <= fabs(definition(form, narrow - 1) - (double)value));
            assert_int_equal(bits_of(form->widen(form->narrow(-value))), bits_of(form->widen(narrow)) | 0x80000000u);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_patterns_have_their_value),
        cmocka_unit_test(test_ties_go_to_the_even_neighbour),
        cmocka_unit_test(test_beyond_the_range),
        cmocka_unit_test(test_nan_stays_nan),
        cmocka_unit_test(test_floats_of_all_magnitudes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
