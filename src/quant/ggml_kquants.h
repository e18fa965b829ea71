/* Decoders of ggml's K-quants, for ggml_blocks.c alone: each turns one block of 256 elements into floats. */
#ifndef ORK_QUANT_GGML_KQUANTS_H
#define ORK_QUANT_GGML_KQUANTS_H

#include "quant/ggml_blocks.h"

void ork_ggml_decode_q2_k(const uint8_t *block, float *out); /* 84 bytes */
void ork_ggml_decode_q3_k(const uint8_t *block, float *out); /* 110 bytes */
void ork_ggml_decode_q4_k(const uint8_t *block, float *out); /* 144 bytes */
void ork_ggml_decode_q5_k(const uint8_t *block, float *out); /* 176 bytes */
void ork_ggml_decode_q6_k(const uint8_t *block, float *out); /* 210 bytes */

#endif
