/* Owns double-precision exp, log, sine and cosine and the half-precision conversions, in plain arithmetic whose order is
 * fixed, so that every machine computes the same bits. Must not call libm. */
#include "base/mathematics.h"

#include <float.h>
#include <string.h>

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^n for -1022 <= n <= 1023. */
static double power_of_two(int n)
{
    return from_bits((uint64_t)(n + 1023) << 52);
}

/* x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by its Taylor series, whose 14th term is below 2^-53. */
double ork_math_exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.0)
        return from_bits(0x7ff0000000000000u);
    if (x < -708.0)
        return 0.0;
    static const double ln2_high = 0x1.62e42fefa0000p-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
    double scaled = x * 0x1.71547652b82fep+0;
    int n = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = (x - (double)n * ln2_high) - (double)n * ln2_low;
    double sum = 1.0;
    for (int i = 14; i >= 1; i--)
        sum = 1.0 + r / (double)i * sum;
    return sum * power_of_two(n);
}

/* x = 2^n m, sqrt(1/2) <= m < sqrt(2); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172. */
double ork_math_log(double x)
{
    if (!(x > 0.0))
        return x == 0.0 ? from_bits(0xfff0000000000000u) : from_bits(0x7ff8000000000000u);
    if (x > DBL_MAX)
        return x;
    int n = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        n = -54;
    }
    uint64_t bits = to_bits(x);
    n += (int)(bits >> 52) - 1023;
    double m = from_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        n++;
    }
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, sum = 0.0;
    for (int i = 23; i >= 1; i -= 2)
        sum = 1.0 / (double)i + s2 * sum;
    static const double ln2_high = 0x1.62e42fefa0000p-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
    return (double)n * ln2_high + (2.0 * s * sum + (double)n * ln2_low);
}

/* Reduction by pi/2 in three parts of 33 bits (Cody and Waite): exact products for quotients below 2^20, and good to
 * 2e-16 up to arguments of 2^23 and to 1.2e-7 at 2^31. */
void ork_math_sincos(double x, double *sine, double *cosine)
{
    static const double part1 = 0x1.921fb54400000p+0, part2 = 0x1.0b4611a600000p-34, part3 = 0x1.3198a2e037073p-69;
    double scaled = x * 0x1.45f306dc9c883p-1;
    int64_t n = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double q = (double)n;
    double r = ((x - q * part1) - q * part2) - q * part3;
    double r2 = r * r, s = 0.0, c = 0.0;
    for (int i = 21; i >= 3; i -= 2)
        s = (1.0 + s) * -r2 / (double)(i * (i - 1));
    s = r + r * s;
    for (int i = 20; i >= 2; i -= 2)
        c = (1.0 + c) * -r2 / (double)(i * (i - 1));
    c = 1.0 + c;
    switch (n & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
    }
}

float ork_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff, out;
    if (exponent == 31) {
        out = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        out = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        /* A subnormal half is mantissa * 2^-24, exact in float. */
        float value = (float)mantissa * 0x1p-24f;
        memcpy(&out, &value, sizeof out);
        out |= sign;
    }
    float value;
    memcpy(&value, &out, sizeof value);
    return value;
}

uint16_t ork_f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below the smallest normal half: adding 0.5 aligns the last kept bit with the float's last bit, and the
         * addition rounds to nearest even. */
        float aligned;
        memcpy(&aligned, &magnitude, sizeof aligned);
        aligned += 0.5f;
        uint32_t out;
        memcpy(&out, &aligned, sizeof out);
        return (uint16_t)(sign | (out - 0x3f000000));
    }
    uint32_t odd = magnitude >> 13 & 1;
    magnitude += 0xfff + odd;
    return (uint16_t)(sign | ((magnitude - 0x38000000) >> 13));
}

uint16_t ork_f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
