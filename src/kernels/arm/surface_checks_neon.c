/* Checksums of rows and bricks with the AArch64 baseline. */
#include "kernels/isa.h"
#include "kernels/arm/surface_registers_neon.h"
#include "kernels/surface_checks.inc.c"

void ork_surface_row_checks_neon(const int8_t *codes, uint64_t stride, const uint32_t *rows, uint32_t m,
                                 const uint32_t *key, uint32_t k, uint32_t *checks)
{
    row_checks(codes, stride, rows, m, key, k, checks);
}

void ork_surface_key_i8_neon(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key)
{
    add_keys(bricks, k_tiles, weights, key, 32, false);
}

void ork_surface_key_i4_neon(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key)
{
    add_keys(bricks, k_tiles, weights, key, 64, true);
}
