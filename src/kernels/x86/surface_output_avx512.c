/* Output surfaces with AVX-512. */
#include "kernels/isa.h"
#include "kernels/x86/surface_registers_avx512.h"
#include "kernels/surface_output.inc.c"

void ork_surface_output_i32_avx512(const struct ork_surface_output *output)
{
    output_native(output, false);
}

void ork_surface_output_i32_rows_avx512(const struct ork_surface_output *output)
{
    output_rows(output);
}

void ork_surface_output_i16_avx512(const struct ork_surface_output *output)
{
    output_native(output, true);
}
