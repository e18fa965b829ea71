/* Output surfaces with the AArch64 baseline. */
#include "kernels/isa.h"
#include "kernels/arm/surface_registers_neon.h"
#include "kernels/surface_output.inc.c"

void ork_surface_output_i32_neon(const struct ork_surface_output *output)
{
    output_native(output, false);
}

void ork_surface_output_i32_rows_neon(const struct ork_surface_output *output)
{
    output_rows(output);
}

void ork_surface_output_i16_neon(const struct ork_surface_output *output)
{
    output_native(output, true);
}
