/* Output surfaces with AVX2. */
#include "kernels/isa.h"
#include "kernels/x86/surface_registers_avx2.h"
#include "kernels/surface_output.inc.c"

/* Copies of the arguments, which no store can change, stay in registers. */
void ork_surface_output_i32_avx2(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_native(&own, false);
}

void ork_surface_output_i32_rows_avx2(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_rows(&own);
}

void ork_surface_output_i16_avx2(const struct ork_surface_output *output)
{
    const struct ork_surface_output own = *output;
    output_native(&own, true);
}
