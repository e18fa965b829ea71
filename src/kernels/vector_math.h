/* exp, sigmoid and silu on sixteen lanes. One polynomial and one operation order for every instruction set; knows no
 * rows and no tails. */
#ifndef ORK_KERNELS_VECTOR_MATH_H
#define ORK_KERNELS_VECTOR_MATH_H

#include "kernels/vector.h"

/* e^x, within 1.01 ulp of the true value (tried with every float). Overflows to infinity, underflows through the
 * subnormals to 0; NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2, e^r = 1 + (r + r^2 q(r)); q is a degree 4
 * polynomial fitted by iteratively reweighted least squares for the least largest relative error of e^r (3.1e-9 before
 * rounding). */
V16_INLINE v16 v16_exp(v16 x)
{
    /* Beyond these bounds the result is infinity or 0 anyway; the operand order lets NaN pass. */
    x = v16_max(v16_set1(-104.0f), x);
    x = v16_min(v16_set1(89.0f), x);
    const v16 magic = v16_set1(V16_ROUND_MAGIC);
    v16 shifted = v16_fma(x, v16_set1(0x1.715476p0f), magic); /* log2(e) */
    v16 n = v16_subtract(shifted, magic);
    v16 r = v16_fma(n, v16_set1(-0x1.62e400p-1f), x); /* ln 2, high part: 15 bits, so that n times it is exact */
    r = v16_fma(n, v16_set1(-0x1.7f7d1cp-20f), r);    /* ln 2, low part */
    v16 q = v16_set1(0x1.6a2434p-10f);
    q = v16_fma(q, r, v16_set1(0x1.1239e2p-7f));
    q = v16_fma(q, r, v16_set1(0x1.5558f2p-5f));
    q = v16_fma(q, r, v16_set1(0x1.555492p-3f));
    q = v16_fma(q, r, v16_set1(0x1.fffffcp-2f));
    v16 p = v16_fma(v16_multiply(r, r), q, r);
    return v16_scale_by_power(v16_add(v16_set1(1.0f), p), shifted);
}

/* 1 / (1 + e^-x); 0 where e^-x overflows. */
V16_INLINE v16 v16_sigmoid(v16 x)
{
    const v16 one = v16_set1(1.0f);
    return v16_divide(one, v16_add(one, v16_exp(v16_subtract(v16_zero(), x))));
}

/* x / (1 + e^-x) */
V16_INLINE v16 v16_silu(v16 x)
{
    return v16_divide(x, v16_add(v16_set1(1.0f), v16_exp(v16_subtract(v16_zero(), x))));
}

#endif
