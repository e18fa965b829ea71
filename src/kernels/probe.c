/* Owns the choice of a probe's loops by instruction set; knows no loop's inside. */
#include "kernels/probe.h"

const struct ork_probe_kernels *ork_probe_kernels_find(enum ork_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ORK_ISA_AVX2:
        return &ork_probe_kernels_avx2;
    case ORK_ISA_AVXVNNI:
        return &ork_probe_kernels_avxvnni;
    case ORK_ISA_AVX512:
        return &ork_probe_kernels_avx512;
#elif defined(__aarch64__)
    case ORK_ISA_NEON:
        return &ork_probe_kernels_neon;
    case ORK_ISA_DOTPROD:
        return &ork_probe_kernels_dotprod;
    case ORK_ISA_I8MM:
        return &ork_probe_kernels_i8mm;
#endif
    default:
        return &ork_probe_kernels_scalar;
    }
}
