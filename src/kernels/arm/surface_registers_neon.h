/* Registers of the surface kernels on AArch64: a register is one atom of 16 bytes. */
#ifndef ORK_KERNELS_ARM_SURFACE_REGISTERS_NEON_H
#define ORK_KERNELS_ARM_SURFACE_REGISTERS_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

#define LANES 1
#define EXPANDED 1

typedef int8x16_t atom;
typedef int32x4_t wide;
typedef float32x4_t wide_float;
typedef uint8x16x2_t expanded;
typedef uint8x16_t expanded_table;

static inline atom load_atom(const void *p)
{
    return vld1q_s8(p);
}

static inline void store_atom(void *p, atom a)
{
    vst1q_s8(p, a);
}

static inline wide load_wide(const void *p)
{
    return vreinterpretq_s32_s8(vld1q_s8(p));
}

static inline void store_wide(void *p, wide a)
{
    vst1q_s8(p, vreinterpretq_s8_s32(a));
}

static inline wide no_words(void)
{
    return vdupq_n_s32(0);
}

static inline wide repeat_word(uint32_t a)
{
    return vreinterpretq_s32_u32(vdupq_n_u32(a));
}

static inline wide load_rows(const void *p, uint32_t count)
{
    (void)count;
    return load_wide(p);
}

static inline wide repeat_atom(const uint32_t *p)
{
    return load_wide(p);
}

static inline wide add_words(wide a, wide b)
{
    return vaddq_s32(a, b);
}

static inline wide multiply_words(wide a, wide b)
{
    return vmulq_s32(a, b);
}

static inline wide add_product(wide sum, wide a, wide b)
{
    return vmlaq_s32(sum, a, b);
}

static inline uint32_t sum_words(wide a)
{
    return (uint32_t)vaddvq_s32(a);
}

static inline void add_checks(uint32_t *checks, wide a, uint32_t count)
{
    (void)count;
    checks[0] += sum_words(a);
}

static inline void transpose_square(wide *a)
{
    (void)a; /* of one */
}

/* Eight int16 as two times four int32. */
static inline void widen_halves(wide *low, wide *high, wide a)
{
    const int16x8_t halves = vreinterpretq_s16_s32(a);
    *low = vmovl_s16(vget_low_s16(halves));
    *high = vmovl_high_s16(halves);
}

/* 32 codes as 16 bytes of nibbles, even k low. */
static inline atom pack_atom(const int8_t *codes)
{
    const int8x16x2_t pairs = vld2q_s8(codes);
    const uint8x16_t even = vreinterpretq_u8_s8(pairs.val[0]), odd = vreinterpretq_u8_s8(pairs.val[1]);
    return vreinterpretq_s8_u8(vsliq_n_u8(vandq_u8(even, vdupq_n_u8(15)), odd, 4));
}

static inline wide pack_wide(const int8_t *codes)
{
    return vreinterpretq_s32_s8(pack_atom(codes));
}

/* 32 nibbles in two's complement as bytes. */
static inline void expand_nibbles(atom *first, atom *second, atom bytes)
{
    const int8x16_t low = vshrq_n_s8(vshlq_n_s8(bytes, 4), 4), high = vshrq_n_s8(bytes, 4);
    *first = vzip1q_s8(low, high);
    *second = vzip2q_s8(low, high);
}

/* Sixteen int8 as int32. */
static inline void widen_codes(wide *words, atom codes)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_high_s8(codes);
    words[0] = vmovl_s16(vget_low_s16(low));
    words[1] = vmovl_high_s16(low);
    words[2] = vmovl_s16(vget_low_s16(high));
    words[3] = vmovl_high_s16(high);
}

static inline wide_float no_floats(void)
{
    return vdupq_n_f32(0.0f);
}

static inline wide_float load_floats(const float *p)
{
    return vld1q_f32(p);
}

static inline void store_floats(float *p, wide_float a)
{
    vst1q_f32(p, a);
}

static inline wide_float scale_words(wide sums, float x_scale, wide_float w_scales)
{
    return vmulq_f32(vfmaq_n_f32(no_floats(), vcvtq_f32_s32(sums), x_scale), w_scales);
}

/* ---- nibbles to bytes ---- */

/* Either half of a byte in a byte of its own. */
static inline expanded expand(const uint8_t *p)
{
    const uint8x16_t bytes = vld1q_u8(p), low = vandq_u8(bytes, vdupq_n_u8(15)), high = vshrq_n_u8(bytes, 4);
    return (expanded){{low, high}};
}

/* Joins the halves again in order. */
static inline void store_expanded(uint8_t *p, expanded a)
{
    vst2q_u8(p, a);
}

static inline expanded_table load_table(const int8_t *table)
{
    return vreinterpretq_u8_s8(vld1q_s8(table));
}

static inline expanded look_up(expanded_table table, expanded index)
{
    return (expanded){{vqtbl1q_u8(table, index.val[0]), vqtbl1q_u8(table, index.val[1])}};
}

/* Bytes mod 256. */
static inline expanded add_expanded(expanded a, expanded b)
{
    return (expanded){{vaddq_u8(a.val[0], b.val[0]), vaddq_u8(a.val[1], b.val[1])}};
}

/* Bits shift .. shift + bits - 1 of either half of a byte, shifted up by four. */
static inline expanded expand_upper(const uint8_t *p, uint32_t shift, uint32_t bits)
{
    const uint8x16_t bytes = vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)-shift));
    const uint8x16_t used = vandq_u8(bytes, vdupq_n_u8(bits == 1 ? 0x11 : 0x33));
    return (expanded){{vshlq_n_u8(used, 4), vandq_u8(used, vdupq_n_u8(0xF0))}};
}

static inline expanded join_upper(expanded low, expanded upper, uint32_t bits)
{
    const uint8x16_t sign = vdupq_n_u8((uint8_t)(8 << bits));
    for (int i = 0; i < 2; i++)
        low.val[i] = vsubq_u8(veorq_u8(vorrq_u8(low.val[i], upper.val[i]), sign), sign);
    return low;
}

#endif
