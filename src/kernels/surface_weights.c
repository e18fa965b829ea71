/* The weights of the checksums. Knows no surfaces. */
#include "kernels/surfaces.h"

void ork_surface_weights(uint32_t first, uint32_t count, uint32_t *weights)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t h = first + i + 0x9E3779B9u;
        h = (h ^ h >> 16) * 0x85EBCA6Bu;
        h = (h ^ h >> 13) * 0xC2B2AE35u;
        weights[i] = (h ^ h >> 16) | 1;
    }
}
