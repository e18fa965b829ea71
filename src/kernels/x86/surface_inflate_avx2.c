/* Bricks of 4 to 6 bits into int8 bricks with AVX2. */
#include "kernels/isa.h"
#include "kernels/x86/surface_registers_avx2.h"
#include "kernels/surface_inflate.inc.c"

void ork_surface_inflate_avx2(enum ork_tier tier, const int8_t *table, const uint8_t *bricks, const uint8_t *residual,
                              uint32_t k_tiles, uint8_t *out)
{
    inflate(tier, table, bricks, residual, k_tiles, out);
}
