/* Bricks of 4 to 6 bits into int8 bricks with the AArch64 baseline. */
#include "kernels/isa.h"
#include "kernels/arm/surface_registers_neon.h"
#include "kernels/surface_inflate.inc.c"

void ork_surface_inflate_neon(enum ork_tier tier, const int8_t *table, const uint8_t *bricks, const uint8_t *residual,
                              uint32_t k_tiles, uint8_t *out)
{
    inflate(tier, table, bricks, residual, k_tiles, out);
}
