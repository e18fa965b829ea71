/* Owns decoding of the float types and of the 32-element block types of ggml, and the choice of decoder for a type.
 * Must not know files. Blocks are read byte by byte: they may stand at any address, on either endianness.
 *
 * In a 32-element block byte i of qs holds element i in its low nibble and element i + 16 in its high nibble. */
#include "quant/ggml_kquants.h"

#include "base/mathematics.h"
#include "format/gguf.h"

static float half(const uint8_t *bytes)
{
    return ork_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

static void decode_f32(const uint8_t *block, float *out)
{
    union {
        uint32_t u;
        float f;
    } value = {(uint32_t)block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16 | (uint32_t)block[3] << 24};
    *out = value.f;
}

static void decode_f16(const uint8_t *block, float *out)
{
    *out = half(block);
}

static void decode_bf16(const uint8_t *block, float *out)
{
    *out = ork_bf16_to_f32((uint16_t)(block[0] | block[1] << 8));
}

/* {half d; u8 qs[16]}: d * (q - 8) */
static void decode_q4_0(const uint8_t *block, float *out)
{
    float d = half(block);
    const uint8_t *qs = block + 2;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((qs[i] & 15) - 8);
        out[i + 16] = d * (float)((qs[i] >> 4) - 8);
    }
}

/* {half d; half m; u8 qs[16]}: d * q + m */
static void decode_q4_1(const uint8_t *block, float *out)
{
    float d = half(block), m = half(block + 2);
    const uint8_t *qs = block + 4;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(qs[i] & 15) + m;
        out[i + 16] = d * (float)(qs[i] >> 4) + m;
    }
}

/* Fifth bits of a Q5 block: bit i belongs to element i. */
static uint32_t high_bits(const uint8_t *qh)
{
    return (uint32_t)qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;
}

/* {half d; u32 qh; u8 qs[16]}: d * (q - 16) */
static void decode_q5_0(const uint8_t *block, float *out)
{
    float d = half(block);
    uint32_t qh = high_bits(block + 2);
    const uint8_t *qs = block + 6;
    for (int i = 0; i < 16; i++) {
        int low = (qs[i] & 15) | (int)(qh >> i & 1) << 4, high = qs[i] >> 4 | (int)(qh >> (i + 16) & 1) << 4;
        out[i] = d * (float)(low - 16);
        out[i + 16] = d * (float)(high - 16);
    }
}

/* {half d; half m; u32 qh; u8 qs[16]}: d * q + m */
static void decode_q5_1(const uint8_t *block, float *out)
{
    float d = half(block), m = half(block + 2);
    uint32_t qh = high_bits(block + 4);
    const uint8_t *qs = block + 8;
    for (int i = 0; i < 16; i++) {
        int low = (qs[i] & 15) | (int)(qh >> i & 1) << 4, high = qs[i] >> 4 | (int)(qh >> (i + 16) & 1) << 4;
        out[i] = d * (float)low + m;
        out[i + 16] = d * (float)high + m;
    }
}

/* {half d; i8 qs[32]}: d * q */
static void decode_q8_0(const uint8_t *block, float *out)
{
    float d = half(block);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)block[2 + i];
}

/* Decodes one block. */
typedef void (*decode_function)(const uint8_t *block, float *out);

static decode_function find_decoder(uint32_t type)
{
    switch (type) {
    case ORK_GGML_F32:
        return decode_f32;
    case ORK_GGML_F16:
        return decode_f16;
    case ORK_GGML_BF16:
        return decode_bf16;
    case ORK_GGML_Q4_0:
        return decode_q4_0;
    case ORK_GGML_Q4_1:
        return decode_q4_1;
    case ORK_GGML_Q5_0:
        return decode_q5_0;
    case ORK_GGML_Q5_1:
        return decode_q5_1;
    case ORK_GGML_Q8_0:
        return decode_q8_0;
    case ORK_GGML_Q2_K:
        return ork_ggml_decode_q2_k;
    case ORK_GGML_Q3_K:
        return ork_ggml_decode_q3_k;
    case ORK_GGML_Q4_K:
        return ork_ggml_decode_q4_k;
    case ORK_GGML_Q5_K:
        return ork_ggml_decode_q5_k;
    case ORK_GGML_Q6_K:
        return ork_ggml_decode_q6_k;
    default:
        return NULL;
    }
}

bool ork_ggml_can_decode(uint32_t type)
{
    return find_decoder(type) != NULL;
}

void ork_ggml_decode(uint32_t type, const uint8_t *blocks, uint64_t count, float *out)
{
    decode_function decode = find_decoder(type);
    const struct ork_ggml_type_info *info = ork_ggml_type_find(type);
    for (uint64_t i = 0; i < count / info->block_length; i++)
        decode(blocks + i * info->block_bytes, out + i * info->block_length);
}
