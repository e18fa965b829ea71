/* Where the two planes of an n8 matrix stand and what its codes are; knows no ISA.
 *
 * An expert's data is a run of nf4 bricks, the base, and from the next page on a run of the same shape with signed nibbles,
 * the residual. The int8 code of an input is table[base] + 2 * residual; encoders keep it within -128..127, and whatever
 * bytes a file holds, it is meant mod 256. The base alone is a whole nf4 matrix with the same scales and table. */
#ifndef ORK_QUANT_NESTED_H
#define ORK_QUANT_NESTED_H

#include "base/checked.h"
#include "quant/tier.h"

/* Bytes from an expert's base bricks to its residual bricks. */
static inline uint64_t ork_nested_residual_bytes(uint64_t n, uint64_t k)
{
    return ork_round_up(ork_divide_up(n, 64) * ork_divide_up(k, 32) * 1024, ORK_ORKPACK_ALIGNMENT);
}

/* What a residual nibble adds to a code: twice its signed value. */
static const int8_t ork_nested_doubled[16] = {0, 2, 4, 6, 8, 10, 12, 14, -16, -14, -12, -10, -8, -6, -4, -2};

static inline int8_t ork_nested_code(const int8_t *table, uint32_t base, uint32_t residual)
{
    return (int8_t)(uint8_t)(table[base] + ork_nested_doubled[residual]);
}

/* The base of an n8 matrix as an nf4 matrix. */
struct ork_matrix ork_nested_base(const struct ork_matrix *matrix);

/* As ork_nf4_fit_table for the table of an n8 tensor. */
double ork_nested_fit_table(const float *rows, uint32_t n, uint32_t k, const float *importance, int8_t *table);
/* Encodes channels; parameters as of ork_tier_encode, with both runs of bricks given apart. The errors are those of the
 * full codes; base_error (may be NULL) receives the squared error of the base alone. */
void ork_nested_encode(const float *rows, uint32_t n, uint32_t k, const float *importance, const int8_t *table,
                       uint8_t *base, uint8_t *residual, uint8_t *scales, double *squared_error, double *squared_norm,
                       double *base_error);

#endif
