/* The reference of the integer matmuls: the numerics contract of kernels/kernels.h written down plainly. Every other
 * instruction set is compared with this file bit for bit. */
#include <math.h>

#include "base/mathematics.h"
#include "kernels/isa.h"
#include "quant/nested.h"
#include "quant/upper_bits.h"

static const int8_t i4_codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};

static uint32_t activation_row(const struct ork_matmul_args *args, uint32_t i)
{
    return args->x_rows ? args->x_rows[i] : i;
}

/* Sum over the 32 inputs of one brick for one channel of it. */
static int32_t dot_i8(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *unused)
{
    (void)unused;
    int32_t sum = 0;
    for (uint32_t k = 0; k < 32; k++)
        sum += (int8_t)brick[channel * 32 + k] * x[k];
    return sum;
}

/* The same for a 4-bit brick and split activations: 16 even inputs, then 16 odd ones. */
static int32_t dot_4bit(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *w)
{
    const uint8_t *weights = brick + channel * 16;
    const int8_t *codes = w->table ? w->table : i4_codes;
    int32_t sum = 0;
    for (uint32_t j = 0; j < 16; j++)
        sum += codes[weights[j] & 15] * x[j] + codes[weights[j] >> 4] * x[16 + j];
    return sum;
}

/* Base and residual. */
static int32_t dot_nested(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *w)
{
    const uint8_t *base = brick + channel * 16, *residual = base + ork_nested_residual_bytes(w->n, w->k);
    int32_t sum = 0;
    for (uint32_t j = 0; j < 16; j++)
        sum += ork_nested_code(w->table, base[j] & 15, residual[j] & 15) * x[j] +
               ork_nested_code(w->table, base[j] >> 4, residual[j] >> 4) * x[16 + j];
    return sum;
}

static inline int32_t dot_upper(const uint8_t *brick, uint32_t channel, const int8_t *x, uint32_t bits)
{
    const struct ork_upper_place place = ork_upper_find(bits, 1, channel, 0);
    int32_t sum = 0;
    for (uint32_t k = 0; k < 32; k++)
        sum += ork_upper_read(bits, brick, ork_upper_step(place, k)) * x[k % 2 * 16 + k / 2];
    return sum;
}

static int32_t dot_i5(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *unused)
{
    (void)unused;
    return dot_upper(brick, channel, x, 1);
}

static int32_t dot_i6(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *unused)
{
    (void)unused;
    return dot_upper(brick, channel, x, 2);
}

typedef int32_t (*brick_dot)(const uint8_t *brick, uint32_t channel, const int8_t *x, const struct ork_matrix *w);

/* One result: channel n of one activation row. */
static inline float brick_channel(const struct ork_matmul_args *args, uint32_t n, uint32_t row,
                                  const int8_t *activation, uint32_t brick_channels, uint32_t brick_bytes,
                                  brick_dot dot)
{
    const struct ork_matrix *w = args->w;
    const struct ork_activation *x = args->x;
    const uint32_t bricks = x->k_padded / 32;
    const uint8_t *column =
        w->data + args->expert * w->data_expert_stride + (uint64_t)(n / brick_channels) * bricks * brick_bytes;
    const int8_t *input = activation + (uint64_t)row * x->k_padded;
    const float *scales = (const float *)(const void *)(w->scales + args->expert * w->scale_expert_stride);
    float y = 0.0f;
    for (uint32_t block = 0; block < x->blocks; block++) {
        uint32_t begin = block * (x->block / 32), end = begin + x->block / 32 < bricks ? begin + x->block / 32 : bricks;
        int32_t sum = 0;
        for (uint32_t t = begin; t < end; t++)
            sum += dot(column + t * (uint64_t)brick_bytes, n % brick_channels, input + t * 32, w);
        y = fmaf((float)sum, x->scales[(uint64_t)row * x->blocks + block], y);
    }
    return y * scales[n];
}

void ork_matmul_i8_scalar(const struct ork_matmul_args *args)
{
    for (uint32_t n = args->n_begin; n < args->n_end; n++)
        for (uint32_t i = 0; i < args->m; i++)
            args->y[i * args->y_stride + n] =
                brick_channel(args, n, activation_row(args, i), args->x->plain, 32, 1024, dot_i8);
}

/* Bricks of 64 channels. */
static inline void matmul_split(const struct ork_matmul_args *args, uint32_t brick_bytes, brick_dot dot)
{
    for (uint32_t n = args->n_begin; n < args->n_end; n++)
        for (uint32_t i = 0; i < args->m; i++)
            args->y[i * args->y_stride + n] =
                brick_channel(args, n, activation_row(args, i), args->x->split, 64, brick_bytes, dot);
}

void ork_matmul_i4_scalar(const struct ork_matmul_args *args)
{
    matmul_split(args, 1024, dot_4bit);
}

void ork_matmul_nf4_scalar(const struct ork_matmul_args *args)
{
    matmul_split(args, 1024, dot_4bit);
}

void ork_matmul_i5_scalar(const struct ork_matmul_args *args)
{
    matmul_split(args, 1280, dot_i5);
}

void ork_matmul_i6_scalar(const struct ork_matmul_args *args)
{
    matmul_split(args, 1536, dot_i6);
}

void ork_matmul_n8_scalar(const struct ork_matmul_args *args)
{
    matmul_split(args, 1024, dot_nested);
}

/* One result of g8: weights [blocks of 32 int8], scales [blocks of f16]. Lanes beyond the last block add zeros, as the
 * float dots do. */
static float g8_channel(const uint8_t *weights, const uint8_t *scales, const struct ork_activation *x, uint32_t row)
{
    const uint32_t groups = x->k_padded / 32;
    const int8_t *input = x->plain + (uint64_t)row * x->k_padded;
    const float *x_scales = x->scales + (uint64_t)row * x->blocks;
    float lane[16] = {0};
    for (uint32_t j = 0; j < (groups + 15) / 16 * 16; j++) {
        float term = 0.0f, scale = 0.0f;
        if (j < groups) {
            uint16_t half = (uint16_t)(scales[2 * j] | scales[2 * j + 1] << 8);
            term = (float)dot_i8(weights, j, input + j * 32, NULL) * x_scales[j * 32 / x->block];
            scale = ork_f16_to_f32(half);
        }
        lane[j % 16] = fmaf(term, scale, lane[j % 16]);
    }
    for (uint32_t width = 8; width > 0; width /= 2)
        for (uint32_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

void ork_matmul_g8_scalar(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const uint64_t padded = args->x->k_padded;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    for (uint32_t n = args->n_begin; n < args->n_end; n++)
        for (uint32_t i = 0; i < args->m; i++)
            args->y[i * args->y_stride + n] =
                g8_channel(data + n * padded, scales + n * (padded / 32) * 2, args->x, activation_row(args, i));
}
