/* Fitting the code table of nf4 to a tensor. */
#ifndef ORK_QUANT_NF4_H
#define ORK_QUANT_NF4_H

#include "ork/ork.h"

#define ORK_NF4_TABLE_ENTRIES 16u

/* Fits a table to sample rows of a tensor by alternating scales and levels (Lloyd-Max on the pooled rows, weighted),
 * starting from ork_nf4_table. rows: [n][k]; importance: [n][k] or NULL. The result ascends strictly, spans -127 and 127
 * or nearly, and has a 0. Returns the sample's squared error with the fitted table over that with the default one; the
 * default is kept, and 1 returned, unless the fit is better. Deterministic; no allocation. */
double ork_nf4_fit_table(const float *rows, uint32_t n, uint32_t k, const float *importance, int8_t *table);

#endif
