/* The reference of the surface kernels: the orders of kernels/surfaces.h written down plainly. Every other instruction
 * set is compared with this file bit for bit. */
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "quant/nested.h"
#include "quant/upper_bits.h"

static uint32_t row_of(const uint32_t *rows, uint32_t i)
{
    return rows ? rows[i] : i;
}

static const int8_t *codes_of(const struct ork_surface_input *input, uint32_t i)
{
    return input->codes + row_of(input->rows, i) * input->stride + input->k_begin;
}

void ork_surface_input_i8_scalar(const struct ork_surface_input *input)
{
    for (uint32_t i = 0; i < input->m; i++) {
        const int8_t *codes = codes_of(input, i);
        for (uint32_t k = 0; k < input->k; k += 16)
            memcpy(input->out + ((uint64_t)(k / 16) * input->m + i) * 16, codes + k, 16);
    }
}

void ork_surface_input_i4_scalar(const struct ork_surface_input *input)
{
    for (uint32_t i = 0; i < input->m; i++) {
        const int8_t *codes = codes_of(input, i);
        for (uint32_t k = 0; k < input->k; k += 2) {
            uint8_t *out = input->out + ((uint64_t)(k / 32) * input->m + i) * 16 + k % 32 / 2;
            *out = (uint8_t)((codes[k] & 15) | (codes[k + 1] & 15) << 4);
        }
    }
}

/* One number of one part. */
typedef int32_t (*output_read)(const struct ork_surface_output *output, uint32_t part, uint32_t i, uint32_t j);

static int32_t read_i32(const struct ork_surface_output *output, uint32_t part, uint32_t i, uint32_t j)
{
    return ((const int32_t *)output->parts[part])[((uint64_t)(j / 4) * output->m + i) * 4 + j % 4];
}

static int32_t read_i32_rows(const struct ork_surface_output *output, uint32_t part, uint32_t i, uint32_t j)
{
    return ((const int32_t *)output->parts[part])[(uint64_t)i * output->n + j];
}

static int32_t read_i16(const struct ork_surface_output *output, uint32_t part, uint32_t i, uint32_t j)
{
    return ((const int16_t *)output->parts[part])[((uint64_t)(j / 8) * output->m + i) * 8 + j % 8];
}

static inline void output_scalar(const struct ork_surface_output *output, output_read read)
{
    for (uint32_t i = 0; i < output->m; i++) {
        float x_scale = output->y ? output->x_scales[row_of(output->rows, i)] : 0.0f;
        uint32_t check = 0;
        for (uint32_t j = 0; j < output->n; j++) {
            uint32_t sum = 0; /* wrong results of the device may overflow */
            for (uint32_t part = 0; part < output->part_count; part++)
                sum += (uint32_t)read(output, part, i, j);
            check += output->weights[j] * sum;
            if (output->y && j < output->n_used)
                output->y[i * output->y_stride + j] = fmaf((float)(int32_t)sum, x_scale, 0.0f) * output->w_scales[j];
            if (output->sums && j < output->n_used)
                output->sums[i * output->sums_stride + j] = (int32_t)sum;
        }
        output->checks[i] += check;
    }
}

void ork_surface_output_i32_scalar(const struct ork_surface_output *output)
{
    output_scalar(output, read_i32);
}

void ork_surface_output_i32_rows_scalar(const struct ork_surface_output *output)
{
    output_scalar(output, read_i32_rows);
}

void ork_surface_output_i16_scalar(const struct ork_surface_output *output)
{
    output_scalar(output, read_i16);
}

void ork_surface_row_checks_scalar(const int8_t *codes, uint64_t stride, const uint32_t *rows, uint32_t m,
                                   const uint32_t *key, uint32_t k, uint32_t *checks)
{
    for (uint32_t i = 0; i < m; i++) {
        const int8_t *row = codes + row_of(rows, i) * stride;
        uint32_t check = 0;
        for (uint32_t j = 0; j < k; j++)
            check += (uint32_t)row[j] * key[j];
        checks[i] += check;
    }
}

void ork_surface_key_i8_scalar(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key)
{
    for (uint32_t tile = 0; tile < k_tiles; tile++, bricks += 1024, key += 32)
        for (uint32_t channel = 0; channel < 32; channel++)
            for (uint32_t k = 0; k < 32; k++)
                key[k] += weights[channel] * (uint32_t)(int8_t)bricks[channel * 32 + k];
}

static int32_t nibble(const uint8_t *bytes, uint32_t k)
{
    return bytes[k / 2] >> k % 2 * 4 & 15;
}

void ork_surface_key_i4_scalar(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key)
{
    for (uint32_t tile = 0; tile < k_tiles; tile++, bricks += 1024, key += 32)
        for (uint32_t channel = 0; channel < 64; channel++)
            for (uint32_t k = 0; k < 32; k++)
                key[k] += weights[channel] * (uint32_t)((nibble(bricks + channel * 16, k) ^ 8) - 8);
}

static int32_t code_of(enum ork_tier tier, const int8_t *table, const uint8_t *brick, const uint8_t *residual,
                       uint32_t channel, uint32_t k)
{
    const uint32_t bits = ork_upper_bits(tier);
    if (bits)
        return ork_upper_read(bits, brick, ork_upper_find(bits, 1, channel, k));
    int32_t index = nibble(brick + channel * 16, k);
    if (tier == ORK_TIER_N8)
        return ork_nested_code(table, (uint32_t)index, (uint32_t)nibble(residual + channel * 16, k));
    return tier == ORK_TIER_NF4 ? table[index] : (index ^ 8) - 8;
}

void ork_surface_inflate_scalar(enum ork_tier tier, const int8_t *table, const uint8_t *bricks, const uint8_t *residual,
                                uint32_t k_tiles, uint8_t *out)
{
    const uint32_t brick_bytes = 1024 + 256 * ork_upper_bits(tier);
    for (uint32_t tile = 0; tile < k_tiles; tile++)
        for (uint32_t channel = 0; channel < 64; channel++)
            for (uint32_t k = 0; k < 32; k++)
                out[((uint64_t)(channel / 32) * k_tiles + tile) * 1024 + channel % 32 * 32 + k] =
                    (uint8_t)code_of(tier, table, bricks + (uint64_t)tile * brick_bytes,
                                     residual ? residual + (uint64_t)tile * 1024 : NULL, channel, k);
}
