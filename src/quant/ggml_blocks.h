/* Decoding of ggml block types to float. Owns the arithmetic of source formats; no ISA code. Closed forms: facts on
 * GGUF section 2, checked against the PyPI package gguf. */
#ifndef ORK_QUANT_GGML_BLOCKS_H
#define ORK_QUANT_GGML_BLOCKS_H

#include "ork/ork.h"

/* True for F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K. */
bool ork_ggml_can_decode(uint32_t type);
/* Decodes `count` elements (a multiple of the block length) from packed blocks, which may be unaligned, into
 * out[count]. type: one that ork_ggml_can_decode(). Every bit pattern is allowed: scales that are infinite or NaN give
 * infinities and NaN, finite ones give the bits of the reference (float products in its order, no fused steps). Any
 * number of threads. */
void ork_ggml_decode(uint32_t type, const uint8_t *blocks, uint64_t count, float *out);

#endif
