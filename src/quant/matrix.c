/* Stored matrices as kernels see them: checks an index entry against its tier and decodes single rows. Owns the reading
 * side of every layout in scalar C; knows no ISA and no file. */
#include "base/error.h"
#include "base/mathematics.h"
#include "quant/nested.h"
#include "quant/upper_bits.h"

#include <string.h>

#define BRICK_BYTES 1024u

static bool planes_agree(const struct ork_orkpack_tensor *stored, const struct ork_orkpack_tensor *wanted)
{
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        if (stored->planes[kind].size_bytes != wanted->planes[kind].size_bytes ||
            stored->planes[kind].expert_stride_bytes != wanted->planes[kind].expert_stride_bytes)
            return false;
    return true;
}

ork_status ork_matrix_from_pack(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                struct ork_matrix *matrix, ork_error *error)
{
    const struct ork_tier_info *info = ork_tier_find(tensor->tier);
    struct ork_orkpack_tensor wanted = *tensor;

    if (info == NULL)
        return ork_error_set(error, ORK_UNSUPPORTED, tensor->name, -1,
                             "tensor is stored in tier %u, which this version does not read", tensor->tier);
    if (tensor->layout != (uint32_t)info->layout)
        return ork_error_set(error, ORK_BAD_FILE, tensor->name, -1, "layout %u does not belong to tier %s",
                             tensor->layout, info->name);
    for (int d = 0; d < 3; d++)
        if (tensor->dimensions[d] > INT32_MAX)
            return ork_error_set(error, ORK_LIMIT, tensor->name, -1, "dimension %d is %llu, more than %d", d,
                                 (unsigned long long)tensor->dimensions[d], INT32_MAX);
    if (!ork_tier_plan_planes(&wanted) || !planes_agree(tensor, &wanted))
        return ork_error_set(error, ORK_BAD_FILE, tensor->name, -1,
                             "plane sizes do not follow from tier %s and the tensor's dimensions", info->name);

    *matrix = (struct ork_matrix){
        .tier = info->tier,
        .layout = info->layout,
        .k = (uint32_t)tensor->dimensions[0],
        .n = (uint32_t)tensor->dimensions[1],
        .experts = (uint32_t)tensor->dimensions[2],
        .data = ork_orkpack_plane_data(pack, tensor, ORK_PLANE_DATA),
        .data_expert_stride = tensor->planes[ORK_PLANE_DATA].expert_stride_bytes,
        .scales = ork_orkpack_plane_data(pack, tensor, ORK_PLANE_SCALES),
        .scale_expert_stride = tensor->planes[ORK_PLANE_SCALES].expert_stride_bytes,
        .table = (const int8_t *)ork_orkpack_plane_data(pack, tensor, ORK_PLANE_TABLE),
        .name = tensor->name,
    };
    if (matrix->table != NULL && memchr(matrix->table, 0, 16) == NULL)
        return ork_error_set(error, ORK_BAD_FILE, tensor->name, (int64_t)tensor->planes[ORK_PLANE_TABLE].offset_bytes,
                             "the code table has no entry that means 0");
    return ORK_OK;
}

static float read_f32(const uint8_t *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static uint16_t read_u16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static void decode_float_row(const struct ork_matrix *matrix, const uint8_t *data, uint32_t channel, float *out)
{
    uint64_t first = (uint64_t)channel * matrix->k;

    if (matrix->tier == ORK_TIER_F32) {
        memcpy(out, data + first * sizeof(float), (size_t)matrix->k * sizeof(float));
        return;
    }
    for (uint32_t k = 0; k < matrix->k; k++) {
        uint16_t bits = read_u16(data + (first + k) * 2);
        out[k] = matrix->tier == ORK_TIER_F16 ? ork_f16_to_f32(bits) : ork_bf16_to_f32(bits);
    }
}

static void decode_g8_row(const struct ork_matrix *matrix, const uint8_t *data, const uint8_t *scales, uint32_t channel,
                          float *out)
{
    uint64_t blocks = ((uint64_t)matrix->k + 31) / 32;
    const int8_t *codes = (const int8_t *)data + channel * blocks * 32;

    for (uint32_t k = 0; k < matrix->k; k++) {
        float scale = ork_f16_to_f32(read_u16(scales + (channel * blocks + k / 32) * 2));
        out[k] = scale * (float)codes[k];
    }
}

static void decode_i8_row(const struct ork_matrix *matrix, const uint8_t *data, float scale, uint32_t channel,
                          float *out)
{
    uint64_t tiles = ((uint64_t)matrix->k + 31) / 32;

    for (uint32_t k = 0; k < matrix->k; k++) {
        uint64_t address = (channel / 32 * tiles + k / 32) * BRICK_BYTES + channel % 32 * 32 + k % 32;
        out[k] = scale * (float)(int8_t)data[address];
    }
}

static void decode_nibble_row(const struct ork_matrix *matrix, const uint8_t *data, float scale, uint32_t channel,
                              float *out)
{
    uint64_t tiles = ((uint64_t)matrix->k + 31) / 32;

    for (uint32_t k = 0; k < matrix->k; k++) {
        uint64_t address = (channel / 64 * tiles + k / 32) * BRICK_BYTES + channel % 64 * 16 + k % 32 / 2;
        int nibble = k % 2 == 0 ? data[address] & 15 : data[address] >> 4;
        int code = matrix->table != NULL ? matrix->table[nibble] : (nibble ^ 8) - 8;
        out[k] = scale * (float)code;
    }
}

static void decode_upper_row(const struct ork_matrix *matrix, const uint8_t *data, float scale, uint32_t channel,
                             float *out)
{
    uint64_t tiles = ((uint64_t)matrix->k + 31) / 32;
    uint32_t bits = ork_upper_bits(matrix->tier);

    for (uint32_t first = 0; first < matrix->k; first += 32) {
        struct ork_upper_place place = ork_upper_find(bits, tiles, channel, first);
        for (uint32_t i = 0; i < 32 && first + i < matrix->k; i++)
            out[first + i] = scale * (float)ork_upper_read(bits, data, ork_upper_step(place, i));
    }
}

static void decode_nested_row(const struct ork_matrix *matrix, const uint8_t *data, float scale, uint32_t channel,
                              float *out)
{
    uint64_t tiles = ((uint64_t)matrix->k + 31) / 32, second = ork_nested_residual_bytes(matrix->n, matrix->k);

    for (uint32_t k = 0; k < matrix->k; k++) {
        uint64_t address = (channel / 64 * tiles + k / 32) * BRICK_BYTES + channel % 64 * 16 + k % 32 / 2;
        uint32_t shift = k % 2 * 4;
        out[k] = scale * (float)ork_nested_code(matrix->table, data[address] >> shift & 15,
                                                data[second + address] >> shift & 15);
    }
}

struct ork_matrix ork_nested_base(const struct ork_matrix *matrix)
{
    struct ork_matrix base = *matrix;
    base.tier = ORK_TIER_NF4;
    base.layout = ORK_LAYOUT_BRICK64;
    return base;
}

void ork_matrix_decode_row(const struct ork_matrix *matrix, uint32_t expert, uint32_t channel, float *out)
{
    const uint8_t *data = matrix->data + expert * matrix->data_expert_stride;
    const uint8_t *scales = matrix->scales == NULL ? NULL : matrix->scales + expert * matrix->scale_expert_stride;

    switch (matrix->tier) {
    case ORK_TIER_G8:
        decode_g8_row(matrix, data, scales, channel, out);
        break;
    case ORK_TIER_I8:
        decode_i8_row(matrix, data, read_f32(scales + (uint64_t)channel * 4), channel, out);
        break;
    case ORK_TIER_I4:
    case ORK_TIER_NF4:
        decode_nibble_row(matrix, data, read_f32(scales + (uint64_t)channel * 4), channel, out);
        break;
    case ORK_TIER_I5:
    case ORK_TIER_I6:
        decode_upper_row(matrix, data, read_f32(scales + (uint64_t)channel * 4), channel, out);
        break;
    case ORK_TIER_N8:
        decode_nested_row(matrix, data, read_f32(scales + (uint64_t)channel * 4), channel, out);
        break;
    default:
        decode_float_row(matrix, data, channel, out);
    }
}
