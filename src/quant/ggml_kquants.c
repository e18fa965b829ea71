/* Owns decoding of ggml's K-quants: super-blocks of 256 elements with quantized scales inside. Must not know files.
 *
 * y = (d * scale) * q - dmin * minimum in float. A half has 11 significant bits, |scale| at most 7, |q| at most 5 (or
 * is a power of two), so every product is exact and only the subtraction rounds: no other order gives other bits. */
#include "quant/ggml_kquants.h"

#include "base/mathematics.h"

static float half(const uint8_t *bytes)
{
    return ork_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* {u8 sc[16]; u8 qs[64]; half d; half dmin}: 16 groups of 16; of each sc the low nibble is the scale, the high nibble
 * the minimum. A run of 128 elements has 32 bytes of qs: the two bits of element 32 p + c are at bit 2 p of byte c. */
void ork_ggml_decode_q2_k(const uint8_t *block, float *out)
{
    const uint8_t *sc = block, *qs = block + 16;
    float d = half(block + 80), dmin = half(block + 82);
    for (int group = 0; group < 16; group++) {
        float scale = d * (float)(sc[group] & 15), minimum = dmin * (float)(sc[group] >> 4);
        const uint8_t *bytes = qs + 32 * (group / 8) + 16 * (group % 2);
        int shift = 2 * (group % 8 / 2);
        for (int i = 0; i < 16; i++)
            out[16 * group + i] = scale * (float)(bytes[i] >> shift & 3) - minimum;
    }
}

/* The 16 six-bit scales of Q3_K in 12 bytes: low nibbles in bytes 0 to 7 (groups 0 to 7 low, 8 to 15 high), the two
 * high bits of group g in byte 8 + g % 4 at bit 2 (g / 4). */
static int q3_k_scale(const uint8_t *packed, int group)
{
    int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    int high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
    return (low | high << 4) - 32;
}

/* {u8 hmask[32]; u8 qs[64]; u8 scales[12]; half d}: qs as in Q2_K; a third bit of element i is bit i / 32 of
 * hmask[i % 32], and 4 is taken off where it is clear. */
void ork_ggml_decode_q3_k(const uint8_t *block, float *out)
{
    const uint8_t *hmask = block, *qs = block + 32, *scales = block + 96;
    float d = half(block + 108);
    for (int group = 0; group < 16; group++) {
        float scale = d * (float)q3_k_scale(scales, group);
        const uint8_t *bytes = qs + 32 * (group / 8) + 16 * (group % 2), *high = hmask + 16 * (group % 2);
        int shift = 2 * (group % 8 / 2);
        for (int i = 0; i < 16; i++) {
            int q = bytes[i] >> shift & 3;
            if ((high[i] >> (group / 2) & 1) == 0)
                q -= 4;
            out[16 * group + i] = scale * (float)q;
        }
    }
}

/* The eight pairs (scale, minimum) of six bits of Q4_K and Q5_K in 12 bytes: pairs 0 to 3 in the low six bits of bytes
 * 0 to 3 and 4 to 7; of pairs 4 to 7 the low nibbles in bytes 8 to 11, the high bits on top of bytes 0 to 7. */
static void q4_k_pair(const uint8_t *packed, int s, int *scale, int *minimum)
{
    if (s < 4) {
        *scale = packed[s] & 63;
        *minimum = packed[s + 4] & 63;
    } else {
        *scale = (packed[s + 4] & 15) | packed[s - 4] >> 6 << 4;
        *minimum = packed[s + 4] >> 4 | packed[s] >> 6 << 4;
    }
}

/* {half d; half dmin; u8 scales[12]; u8 qs[128]}: 8 groups of 32; groups 2 p and 2 p + 1 share 32 bytes of qs, the even
 * one in the low nibbles. */
void ork_ggml_decode_q4_k(const uint8_t *block, float *out)
{
    float d = half(block), dmin = half(block + 2);
    for (int s = 0; s < 8; s++) {
        int scale_bits, minimum_bits;
        q4_k_pair(block + 4, s, &scale_bits, &minimum_bits);
        float scale = d * (float)scale_bits, minimum = dmin * (float)minimum_bits;
        const uint8_t *bytes = block + 16 + 32 * (s / 2);
        int shift = 4 * (s % 2);
        for (int i = 0; i < 32; i++)
            out[32 * s + i] = scale * (float)(bytes[i] >> shift & 15) - minimum;
    }
}

/* {half d; half dmin; u8 scales[12]; u8 qh[32]; u8 qs[128]}: as Q4_K with a fifth bit, bit s of qh[i % 32]. */
void ork_ggml_decode_q5_k(const uint8_t *block, float *out)
{
    const uint8_t *qh = block + 16;
    float d = half(block), dmin = half(block + 2);
    for (int s = 0; s < 8; s++) {
        int scale_bits, minimum_bits;
        q4_k_pair(block + 4, s, &scale_bits, &minimum_bits);
        float scale = d * (float)scale_bits, minimum = dmin * (float)minimum_bits;
        const uint8_t *bytes = block + 48 + 32 * (s / 2);
        int shift = 4 * (s % 2);
        for (int i = 0; i < 32; i++) {
            int q = (bytes[i] >> shift & 15) | (qh[i] >> s & 1) << 4;
            out[32 * s + i] = scale * (float)q - minimum;
        }
    }
}

/* {u8 ql[128]; u8 qh[64]; i8 sc[16]; half d}: a run of 128 elements has 64 bytes of ql and 32 of qh. Element 32 p + c
 * has its low nibble in ql[c + 32 (p % 2)] (the high nibble for p >= 2) and its two high bits at bit 2 p of qh[c]. */
void ork_ggml_decode_q6_k(const uint8_t *block, float *out)
{
    float d = half(block + 208);
    for (int group = 0; group < 16; group++) {
        int p = group % 8 / 2, c = 16 * (group % 2);
        const uint8_t *ql = block + 64 * (group / 8) + 32 * (p % 2) + c;
        const uint8_t *qh = block + 128 + 32 * (group / 8) + c;
        float scale = d * (float)(int8_t)block[192 + group];
        for (int i = 0; i < 16; i++) {
            int q = (ql[i] >> (4 * (p / 2)) & 15) | (qh[i] >> (2 * p) & 3) << 4;
            out[16 * group + i] = scale * (float)(q - 32);
        }
    }
}
