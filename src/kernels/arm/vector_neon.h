/* v16 as four q registers, lanes 0..3, 4..7, 8..11, 12..15. See kernels/vector.h; the operations are described in
 * x86/vector_avx512.h. */
#ifndef ORK_KERNELS_ARM_VECTOR_NEON_H
#define ORK_KERNELS_ARM_VECTOR_NEON_H

#include <arm_neon.h>

typedef struct {
    float32x4_t q[4];
} v16;

#define V16_EACH(expression)                                                                                           \
    v16 r;                                                                                                             \
    for (int i = 0; i < 4; i++)                                                                                        \
        r.q[i] = (expression);                                                                                         \
    return r

V16_INLINE v16 v16_set1(float a)
{
    V16_EACH(vdupq_n_f32(a));
}

V16_INLINE v16 v16_load(const float *p)
{
    V16_EACH(vld1q_f32(p + 4 * i));
}

V16_INLINE void v16_store(float *p, v16 a)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, a.q[i]);
}

V16_INLINE void v16_load_pairs(v16 *even, v16 *odd, const float *p)
{
    for (int i = 0; i < 4; i++) {
        float32x4x2_t pairs = vld2q_f32(p + 8 * i);
        even->q[i] = pairs.val[0];
        odd->q[i] = pairs.val[1];
    }
}

V16_INLINE void v16_store_pairs(float *p, v16 even, v16 odd)
{
    for (int i = 0; i < 4; i++)
        vst2q_f32(p + 8 * i, (float32x4x2_t){{even.q[i], odd.q[i]}});
}

V16_INLINE v16 v16_add(v16 a, v16 b)
{
    V16_EACH(vaddq_f32(a.q[i], b.q[i]));
}

V16_INLINE v16 v16_subtract(v16 a, v16 b)
{
    V16_EACH(vsubq_f32(a.q[i], b.q[i]));
}

V16_INLINE v16 v16_multiply(v16 a, v16 b)
{
    V16_EACH(vmulq_f32(a.q[i], b.q[i]));
}

V16_INLINE v16 v16_divide(v16 a, v16 b)
{
    V16_EACH(vdivq_f32(a.q[i], b.q[i]));
}

V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    V16_EACH(vfmaq_f32(c.q[i], a.q[i], b.q[i]));
}

/* Selected by comparison: FMAX orders zeros and keeps NaN otherwise than the other instruction sets. */
V16_INLINE v16 v16_max(v16 a, v16 b)
{
    V16_EACH(vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]));
}

V16_INLINE v16 v16_min(v16 a, v16 b)
{
    V16_EACH(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]));
}

V16_INLINE v16 v16_absolute(v16 a)
{
    V16_EACH(vabsq_f32(a.q[i]));
}

V16_INLINE v16 v16_from_i32(const int32_t *p)
{
    V16_EACH(vcvtq_f32_s32(vld1q_s32(p + 4 * i)));
}

V16_INLINE v16 v16_load_f16(const uint16_t *p)
{
    V16_EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}

V16_INLINE void v16_store_f16(uint16_t *p, v16 a)
{
    for (int i = 0; i < 4; i++)
        vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.q[i])));
}

V16_INLINE v16 v16_load_bf16(const uint16_t *p)
{
    V16_EACH(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}

typedef struct {
    int32x4_t q[4];
} v16i;

V16_INLINE v16i v16i_zero(void)
{
    int32x4_t zero = vdupq_n_s32(0);
    return (v16i){{zero, zero, zero, zero}};
}

V16_INLINE v16i v16i_add(v16i a, v16i b)
{
    for (int i = 0; i < 4; i++)
        a.q[i] = vaddq_s32(a.q[i], b.q[i]);
    return a;
}

V16_INLINE int32_t v16i_sum(v16i a)
{
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.q[0], a.q[1]), vaddq_s32(a.q[2], a.q[3])));
}

/* The conversion gives 0 for NaN by itself. */
V16_INLINE v16i v16_round(v16 a)
{
    v16i r;
    for (int i = 0; i < 4; i++)
        r.q[i] = vcvtnq_s32_f32(a.q[i]);
    return r;
}

V16_INLINE int8x16_t v16i_bytes_neon(v16i a)
{
    int16x8_t low = vcombine_s16(vmovn_s32(a.q[0]), vmovn_s32(a.q[1]));
    int16x8_t high = vcombine_s16(vmovn_s32(a.q[2]), vmovn_s32(a.q[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

V16_INLINE void v16i_store_bytes(int8_t *p, v16i a, v16i b)
{
    vst1q_s8(p, v16i_bytes_neon(a));
    vst1q_s8(p + 16, v16i_bytes_neon(b));
}

V16_INLINE void v16i_store_bytes_split(int8_t *p, v16i a, v16i b)
{
    int8x16_t first = v16i_bytes_neon(a), second = v16i_bytes_neon(b);
    vst1q_s8(p, vuzp1q_s8(first, second));
    vst1q_s8(p + 16, vuzp2q_s8(first, second));
}

V16_INLINE float32x4_t v16_power_neon(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

V16_INLINE v16 v16_scale_by_power(v16 a, v16 shifted)
{
    for (int i = 0; i < 4; i++) {
        int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted.q[i]), vdupq_n_s32(0x4B400000));
        int32x4_t half = vshrq_n_s32(n, 1);
        a.q[i] = vmulq_f32(vmulq_f32(a.q[i], v16_power_neon(half)), v16_power_neon(vsubq_s32(n, half)));
    }
    return a;
}

V16_INLINE float v16_sum(v16 a)
{
    float32x4_t b = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

V16_INLINE float v16_maximum(v16 a)
{
    float32x4_t b = vbslq_f32(vcgtq_f32(a.q[0], a.q[2]), a.q[0], a.q[2]);
    float32x4_t c = vbslq_f32(vcgtq_f32(a.q[1], a.q[3]), a.q[1], a.q[3]);
    b = vbslq_f32(vcgtq_f32(b, c), b, c);
    float32x2_t low = vget_low_f32(b), high = vget_high_f32(b);
    low = vbsl_f32(vcgt_f32(low, high), low, high);
    float first = vget_lane_f32(low, 0), second = vget_lane_f32(low, 1);
    return first > second ? first : second;
}

typedef struct {
    float64x2_t d[4];
} v8d;

V16_INLINE v8d v8d_zero(void)
{
    float64x2_t zero = vdupq_n_f64(0.0);
    return (v8d){{zero, zero, zero, zero}};
}

V16_INLINE v8d v8d_add_squares(v8d acc, v16 x)
{
    for (int i = 0; i < 4; i++) {
        float64x2_t low = vcvt_f64_f32(vget_low_f32(x.q[i])), high = vcvt_high_f64_f32(x.q[i]);
        acc.d[i % 2 * 2] = vfmaq_f64(acc.d[i % 2 * 2], low, low);
        acc.d[i % 2 * 2 + 1] = vfmaq_f64(acc.d[i % 2 * 2 + 1], high, high);
    }
    return acc;
}

V16_INLINE double v8d_sum(v8d a)
{
    float64x2_t b = vaddq_f64(vaddq_f64(a.d[0], a.d[2]), vaddq_f64(a.d[1], a.d[3]));
    return vgetq_lane_f64(b, 0) + vgetq_lane_f64(b, 1);
}

#undef V16_EACH

#endif
