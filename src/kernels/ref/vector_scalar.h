/* v16 in plain C: the reference, and the baseline of every architecture. See kernels/vector.h; the operations are
 * described in x86/vector_avx512.h and must agree with it lane for lane. */
#ifndef ORK_KERNELS_REF_VECTOR_SCALAR_H
#define ORK_KERNELS_REF_VECTOR_SCALAR_H

#include <math.h>

#include "base/mathematics.h"

typedef struct {
    float lane[16];
} v16;

#define V16_EACH(expression)                                                                                           \
    v16 r;                                                                                                             \
    for (int i = 0; i < 16; i++)                                                                                       \
        r.lane[i] = (expression);                                                                                      \
    return r

V16_INLINE v16 v16_set1(float a)
{
    V16_EACH(a);
}

V16_INLINE v16 v16_load(const float *p)
{
    V16_EACH(p[i]);
}

V16_INLINE void v16_store(float *p, v16 a)
{
    for (int i = 0; i < 16; i++)
        p[i] = a.lane[i];
}

V16_INLINE void v16_load_pairs(v16 *even, v16 *odd, const float *p)
{
    for (int i = 0; i < 16; i++) {
        even->lane[i] = p[2 * i];
        odd->lane[i] = p[2 * i + 1];
    }
}

V16_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    for (int i = 0; i < 16; i++) {
        p[2 * i] = even.lane[i];
        p[2 * i + 1] = odd.lane[i];
    }
}

V16_INLINE v16 v16_add(v16 a, v16 b)
{
    V16_EACH(a.lane[i] + b.lane[i]);
}

V16_INLINE v16 v16_subtract(v16 a, v16 b)
{
    V16_EACH(a.lane[i] - b.lane[i]);
}

V16_INLINE v16 v16_multiply(v16 a, v16 b)
{
    V16_EACH(a.lane[i] * b.lane[i]);
}

V16_INLINE v16 v16_divide(v16 a, v16 b)
{
    V16_EACH(a.lane[i] / b.lane[i]);
}

V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    V16_EACH(fmaf(a.lane[i], b.lane[i], c.lane[i]));
}

V16_INLINE v16 v16_max(v16 a, v16 b)
{
    V16_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}

V16_INLINE v16 v16_min(v16 a, v16 b)
{
    V16_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}

V16_INLINE v16 v16_absolute(v16 a)
{
    V16_EACH(fabsf(a.lane[i]));
}

V16_INLINE v16 v16_from_i32(const int32_t *p)
{
    V16_EACH((float)p[i]);
}

V16_INLINE v16 v16_load_f16(const uint16_t *p)
{
    V16_EACH(ork_f16_to_f32(p[i]));
}

V16_INLINE void v16_store_f16(uint16_t *p, v16 a)
{
    for (int i = 0; i < 16; i++)
        p[i] = ork_f32_to_f16(a.lane[i]);
}

V16_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    V16_EACH(ork_bf16_to_f32(p[i]));
}

typedef struct {
    int32_t lane[16];
} v16i;

V16_INLINE v16i v16i_zero(void)
{
    return (v16i){{0}};
}

V16_INLINE v16i v16i_add(v16i a, v16i b)
{
    for (int i = 0; i < 16; i++)
        a.lane[i] += b.lane[i];
    return a;
}

V16_INLINE int32_t v16i_sum(v16i a)
{
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += a.lane[i];
    return sum;
}

V16_INLINE v16i v16_round(v16 a)
{
    v16i r;
    for (int i = 0; i < 16; i++)
        r.lane[i] = isnan(a.lane[i]) ? 0 : (int32_t)rintf(a.lane[i]);
    return r;
}

V16_INLINE void v16i_store_bytes(int8_t *p, v16i a, v16i b)
{
    for (int i = 0; i < 16; i++) {
        p[i] = (int8_t)a.lane[i];
        p[i + 16] = (int8_t)b.lane[i];
    }
}

V16_INLINE void v16i_store_bytes_split(int8_t *p, v16i a, v16i b)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (int8_t)a.lane[2 * i];
        p[i + 8] = (int8_t)b.lane[2 * i];
        p[i + 16] = (int8_t)a.lane[2 * i + 1];
        p[i + 24] = (int8_t)b.lane[2 * i + 1];
    }
}

V16_INLINE v16 v16_scale_by_power(v16 a, v16 shifted)
{
    for (int i = 0; i < 16; i++) {
        uint32_t bits, half_bits, rest_bits;
        memcpy(&bits, &shifted.lane[i], sizeof bits);
        int32_t n = (int32_t)(bits - 0x4B400000u), half = n >> 1;
        float half_power, rest_power;
        half_bits = ((uint32_t)half + 127u) << 23;
        rest_bits = ((uint32_t)n - (uint32_t)half + 127u) << 23;
        memcpy(&half_power, &half_bits, sizeof half_power);
        memcpy(&rest_power, &rest_bits, sizeof rest_power);
        a.lane[i] = a.lane[i] * half_power * rest_power;
    }
    return a;
}

V16_INLINE float v16_sum(v16 a)
{
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            a.lane[i] += a.lane[i + width];
    return a.lane[0];
}

V16_INLINE float v16_maximum(v16 a)
{
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            a.lane[i] = a.lane[i] > a.lane[i + width] ? a.lane[i] : a.lane[i + width];
    return a.lane[0];
}

typedef struct {
    double lane[8];
} v8d;

V16_INLINE v8d v8d_zero(void)
{
    return (v8d){{0}};
}

V16_INLINE v8d v8d_add_squares(v8d acc, v16 x)
{
    for (int i = 0; i < 16; i++)
        acc.lane[i % 8] += (double)x.lane[i] * (double)x.lane[i];
    return acc;
}

V16_INLINE double v8d_sum(v8d a)
{
    for (int width = 4; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            a.lane[i] += a.lane[i + width];
    return a.lane[0];
}

#undef V16_EACH

#endif
