/* Output surfaces with the AArch64 baseline. */
#include "kernels/isa.h"
#include "kernels/arm/surface_registers_neon.h"
#include "kernels/surface_output.inc.c"

/* Copies of the arguments, which no store can change, stay in registers. */
void ork_surface_output_i32_neon(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_native(&own, false);
}

void ork_surface_output_i32_rows_neon(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_rows(&own);
}

void ork_surface_output_i16_neon(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_native(&own, true);
}
