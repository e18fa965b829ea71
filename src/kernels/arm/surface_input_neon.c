/* Input surfaces with the AArch64 baseline. */
#include "kernels/isa.h"
#include "kernels/arm/surface_registers_neon.h"
#include "kernels/surface_input.inc.c"

void ork_surface_input_i8_neon(const struct ork_surface_input *input)
{
    place_rows(input, false);
}

void ork_surface_input_i4_neon(const struct ork_surface_input *input)
{
    place_rows(input, true);
}
