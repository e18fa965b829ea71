/* v16: sixteen float lanes, the one vector type that all float kernels are written in. Owns the mapping of lane
 * operations to an instruction set, chosen by the including file (ORK_VECTOR_AVX512, ORK_VECTOR_AVX2, ORK_VECTOR_NEON,
 * else scalar); knows no operation of a model.
 *
 * Every operation is an IEEE operation on each lane (or a fixed tree over lanes), so that the same source gives the
 * same bits on every instruction set. Everything is static: objects built with different flags share no symbols. */
#ifndef ORK_KERNELS_VECTOR_H
#define ORK_KERNELS_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(ORK_VECTOR_AVX512) || defined(ORK_VECTOR_AVX2) || defined(ORK_VECTOR_NEON)
#define V16_INLINE static inline __attribute__((always_inline, unused))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define V16_INLINE static __attribute__((noinline, unused)) /* inlined instrumented loops take minutes to compile */
#else
#define V16_INLINE static inline __attribute__((unused))
#endif

#if defined(ORK_VECTOR_AVX512)
#include "kernels/x86/vector_avx512.h"
#elif defined(ORK_VECTOR_AVX2)
#include "kernels/x86/vector_avx2.h"
#elif defined(ORK_VECTOR_NEON)
#include "kernels/arm/vector_neon.h"
#else
#include "kernels/ref/vector_scalar.h"
#endif

/* The magic addend that rounds a float of magnitude below 2^22 to an integer, which then stands in the low bits. */
#define V16_ROUND_MAGIC 0x1.8p23f

V16_INLINE v16 v16_zero(void)
{
    return v16_set1(0.0f);
}

/* Loads and stores of the first `count` < 16 lanes; missing lanes are zero. Nothing outside is touched. */
#ifndef V16_HAS_PARTIAL
V16_INLINE v16 v16_load_partial(const float *p, uint32_t count)
{
    float lanes[16] = {0};
    memcpy(lanes, p, count * sizeof(float));
    return v16_load(lanes);
}

V16_INLINE void v16_store_partial(float *p, v16 a, uint32_t count)
{
    float lanes[16];
    v16_store(lanes, a);
    memcpy(p, lanes, count * sizeof(float));
}
#endif

V16_INLINE v16 v16_load_f16_partial(const uint16_t *p, uint32_t count)
{
    uint16_t lanes[16] = {0};
    memcpy(lanes, p, count * sizeof(uint16_t));
    return v16_load_f16(lanes);
}

V16_INLINE v16 v16_load_bf16_partial(const uint16_t *p, uint32_t count)
{
    uint16_t lanes[16] = {0};
    memcpy(lanes, p, count * sizeof(uint16_t));
    return v16_load_bf16(lanes);
}

#endif
