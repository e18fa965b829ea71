/* Transcendental functions that give the same bits on every machine: plain double arithmetic in a fixed order, no libm.
 * Used at load time (RoPE tables, sampling); the float forms of the hot path are kernels. */
#ifndef ORK_BASE_MATHEMATICS_H
#define ORK_BASE_MATHEMATICS_H

#include <stdint.h>

double ork_math_exp(double x);          /* relative error < 1e-15 on [-708, 709], 0 and +inf outside */
double ork_math_log(double x);          /* x > 0 */
void ork_math_sincos(double x, double *sine, double *cosine); /* |x| <= 2^31 */

/* IEEE half and bfloat16, round to nearest even, subnormals and infinities kept, NaN stays NaN. */
float ork_f16_to_f32(uint16_t bits);
uint16_t ork_f32_to_f16(float value);
static inline float ork_bf16_to_f32(uint16_t bits)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)bits << 16};
    return v.f;
}
uint16_t ork_f32_to_bf16(float value);

#endif
