/* What the AVX-VNNI kernels share: the byte dot product and the names of the kernels. AVX-VNNI is AVX2 with vpdpbusd in
 * VEX encoding, for processors without AVX-512.
 *
 * The kernel harness compiles the same sources once more with ORK_AVXVNNI_TWIN: there vpdpbusd has the EVEX encoding of
 * AVX-512 VNNI, so that processors that have only that one can check and time these kernels. Nothing else differs, sixteen
 * registers included; the twin is in no library. */
#ifndef ORK_KERNELS_X86_INTEGER_AVXVNNI_H
#define ORK_KERNELS_X86_INTEGER_AVXVNNI_H

#include "kernels/kernels.h"
#include "kernels/x86/integer_avx2.h"

#ifdef ORK_AVXVNNI_TWIN
#define ORK_AVXVNNI(name) name##_avxvnni_evex
#define ORK_AVXVNNI_TEXT(name) name "_avxvnni_evex"
#else
#define ORK_AVXVNNI(name) name##_avxvnni
#define ORK_AVXVNNI_TEXT(name) name "_avxvnni"
#endif

void ORK_AVXVNNI(ork_kernels_install)(struct ork_kernels *kernels);
void ORK_AVXVNNI(ork_matmul_g8)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_i8)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_i4)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_nf4)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_i5)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_i6)(const struct ork_matmul_args *args);
void ORK_AVXVNNI(ork_matmul_n8)(const struct ork_matmul_args *args);

/* sums + unsigned weights times signed activations, four products a dword, exact. */
static inline __m256i ork_dot_avxvnni(__m256i sums, __m256i weights, __m256i activations)
{
#ifdef ORK_AVXVNNI_TWIN
    __asm__("%{evex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(weights), "xm"(activations));
    return sums;
#else
    return _mm256_dpbusd_avx_epi32(sums, weights, activations);
#endif
}

#endif
