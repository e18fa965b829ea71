/* Input surfaces with AVX-512. */
#include "kernels/isa.h"
#include "kernels/x86/surface_registers_avx512.h"
#include "kernels/surface_input.inc.c"

void ork_surface_input_i8_avx512(const struct ork_surface_input *input)
{
    place_rows(input, false);
}

void ork_surface_input_i4_avx512(const struct ork_surface_input *input)
{
    place_rows(input, true);
}
