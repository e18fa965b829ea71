/* Encodes float rows into tiers. Owns the places of codes and scales in planes and the errors against the source; knows
 * no ISA. Scales of 4 to 6-bit tiers come from scale_search.c. */
#include "base/mathematics.h"
#include "quant/nested.h"
#include "quant/scale_search.h"
#include "quant/upper_bits.h"

#include <string.h>

#define LANES 8u
#define BLOCK_K 32u
#define BRICK_BYTES 1024u

/* ---- plain rows ---- */

static void add_errors(const float *source, const float *stored, uint32_t count, double *squared_error,
                       double *squared_norm)
{
    double error[LANES] = {0}, norm[LANES] = {0};
    uint32_t k = 0;

    for (; k + LANES <= count; k += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            double w = source[k + l], d = (double)stored[k + l] - w;
            error[l] += d * d;
            norm[l] += w * w;
        }
    for (uint32_t l = 0; k < count; k++, l++) {
        double w = source[k], d = (double)stored[k] - w;
        error[l] += d * d;
        norm[l] += w * w;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        *squared_error += error[l];
        *squared_norm += norm[l];
    }
}

static void encode_float_rows(enum ork_tier tier, const float *rows, uint64_t count, uint8_t *data,
                              double *squared_error, double *squared_norm)
{
    float stored[BLOCK_K];
    uint16_t bits[BLOCK_K];

    for (uint64_t first = 0; first < count; first += BLOCK_K) {
        uint32_t part = count - first < BLOCK_K ? (uint32_t)(count - first) : BLOCK_K;
        for (uint32_t i = 0; i < part; i++) {
            bits[i] = tier == ORK_TIER_F16 ? ork_f32_to_f16(rows[first + i]) : ork_f32_to_bf16(rows[first + i]);
            stored[i] = tier == ORK_TIER_F16 ? ork_f16_to_f32(bits[i]) : ork_bf16_to_f32(bits[i]);
        }
        memcpy(data + first * sizeof(bits[0]), bits, part * sizeof(bits[0]));
        add_errors(rows + first, stored, part, squared_error, squared_norm);
    }
}

/* codes[count] = nearest integers of row / scale within -127..127; errors against scale * code. */
static void encode_bytes(const float *row, uint32_t count, float scale, float inverse, int8_t *codes,
                         double *squared_error, double *squared_norm)
{
    float stored[BLOCK_K];

    for (uint32_t first = 0; first < count; first += BLOCK_K) {
        uint32_t part = count - first < BLOCK_K ? count - first : BLOCK_K;
        for (uint32_t i = 0; i < part; i++) {
            float x = row[first + i] * inverse;
            x = x > 127.0f ? 127.0f : x;
            x = x < -127.0f ? -127.0f : x;
            x = ork_round_even(x);
            codes[first + i] = (int8_t)(int32_t)x;
            stored[i] = scale * x;
        }
        add_errors(row + first, stored, part, squared_error, squared_norm);
    }
}

static void encode_g8_row(const float *row, uint32_t k, uint8_t *codes, uint8_t *scales, double *squared_error,
                          double *squared_norm)
{
    for (uint32_t first = 0; first < k; first += BLOCK_K) {
        uint32_t part = k - first < BLOCK_K ? k - first : BLOCK_K;
        float wanted = ork_row_absolute_maximum(row + first, part) / 127.0f;
        uint16_t bits = ork_f32_to_f16(wanted > 65504.0f ? 65504.0f : wanted);
        float scale = ork_f16_to_f32(bits);

        memset(codes + first, 0, BLOCK_K);
        encode_bytes(row + first, part, scale, scale > 0.0f ? 1.0f / scale : 0.0f, (int8_t *)codes + first,
                     squared_error, squared_norm);
        memcpy(scales + first / BLOCK_K * sizeof(bits), &bits, sizeof(bits));
    }
}

/* ---- i8 bricks ---- */

static void encode_i8_row(const float *row, uint32_t k, uint32_t channel, uint8_t *data, uint8_t *scales,
                          double *squared_error, double *squared_norm)
{
    uint64_t tiles = ((uint64_t)k + BLOCK_K - 1) / BLOCK_K;
    uint8_t *bytes = data + channel / 32 * tiles * BRICK_BYTES + channel % 32 * 32;
    float largest = ork_row_absolute_maximum(row, k);
    bool zero = largest < ORK_ZERO_ROW_LIMIT;
    float scale = zero ? 0.0f : largest / 127.0f;
    float inverse = zero ? 0.0f : 127.0f / largest;

    for (uint32_t first = 0; first < k; first += BLOCK_K) {
        uint32_t part = k - first < BLOCK_K ? k - first : BLOCK_K;
        encode_bytes(row + first, part, scale, inverse, (int8_t *)bytes + (uint64_t)(first / BLOCK_K) * BRICK_BYTES,
                     squared_error, squared_norm);
    }
    memcpy(scales + (uint64_t)channel * sizeof(scale), &scale, sizeof(scale));
}

/* ---- 4-bit bricks ---- */

/* Writes the nibbles of one row and its scale. */
static void store_nibble_row(const struct ork_code_set *set, const float *row, uint32_t k, uint32_t channel,
                             const struct ork_scale_choice *choice, uint8_t *data, uint8_t *scales,
                             double *squared_error, double *squared_norm)
{
    uint64_t tiles = ((uint64_t)k + BLOCK_K - 1) / BLOCK_K;
    uint8_t *bytes = data + channel / 64 * tiles * BRICK_BYTES + channel % 64 * 16;
    float scale = choice->sign == 0 ? choice->scale : -choice->scale;
    float inverse = choice->scale > 0.0f ? 1.0f / choice->scale : 0.0f;
    uint32_t flip = choice->sign == 0 ? 0 : 15, bias = set->uniform ? 8 : 0;

    for (uint32_t first = 0; first < k; first += BLOCK_K) {
        uint32_t part = k - first < BLOCK_K ? k - first : BLOCK_K;
        float x[BLOCK_K] = {0}, stored[BLOCK_K];
        int32_t index[BLOCK_K] = {0};

        for (uint32_t i = 0; i < part; i++)
            x[i] = row[first + i] * inverse;
        for (uint32_t t = 0; t < 15; t++)
            for (uint32_t i = 0; i < BLOCK_K; i++)
                index[i] += x[i] > set->threshold[choice->sign][t] ? 1 : 0;
        for (uint32_t i = 0; i < part; i++) {
            index[i] = (int32_t)((uint32_t)index[i] ^ flip);
            stored[i] = scale * set->level[0][index[i]];
        }
        for (uint32_t i = part; i < BLOCK_K; i++)
            index[i] = set->zero_index;
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t low = (uint32_t)index[2 * i] ^ bias, high = (uint32_t)index[2 * i + 1] ^ bias;
            bytes[(uint64_t)(first / BLOCK_K) * BRICK_BYTES + i] = (uint8_t)(low | high << 4);
        }
        add_errors(row + first, stored, part, squared_error, squared_norm);
    }
    memcpy(scales + (uint64_t)channel * sizeof(scale), &scale, sizeof(scale));
}

static void encode_nibbles(enum ork_tier tier, const float *rows, uint32_t n, uint32_t k, const float *importance,
                           const int8_t *table, uint8_t *data, uint8_t *scales, double *squared_error,
                           double *squared_norm)
{
    struct ork_tier_sizes sizes;
    struct ork_code_set set;
    uint8_t zero;

    ork_code_set_make(tier, table, &set);
    ork_tier_sizes(tier, n, k, &sizes);
    zero = set.uniform ? 0 : (uint8_t)(set.zero_index | set.zero_index << 4);
    if (n % 64 != 0) {
        uint64_t group_bytes = ((uint64_t)k + BLOCK_K - 1) / BLOCK_K * BRICK_BYTES;
        memset(data + n / 64 * group_bytes, zero, group_bytes);
        memset(scales + (uint64_t)n * sizeof(float), 0, sizes.scale_bytes - (uint64_t)n * sizeof(float));
    }
    for (uint32_t channel = 0; channel < n; channel++) {
        const float *row = rows + (uint64_t)channel * k;
        struct ork_scale_choice choice = ork_scale_choose(&set, row, importance, k);
        store_nibble_row(&set, row, k, channel, &choice, data, scales, squared_error, squared_norm);
    }
}

/* ---- 5 and 6-bit bricks ---- */

static void store_upper_row(const struct ork_code_set *set, uint32_t bits, const float *row, uint32_t k,
                            uint32_t channel, const struct ork_scale_choice *choice, uint8_t *data, uint8_t *scales,
                            double *squared_error, double *squared_norm)
{
    uint64_t tiles = ((uint64_t)k + BLOCK_K - 1) / BLOCK_K;
    float scale = choice->sign == 0 ? choice->scale : -choice->scale;
    float inverse = choice->scale > 0.0f ? 1.0f / choice->scale : 0.0f;
    float lowest = set->level[choice->sign][0], highest = set->level[choice->sign][set->count - 1];

    for (uint32_t first = 0; first < k; first += BLOCK_K) {
        uint32_t part = k - first < BLOCK_K ? k - first : BLOCK_K;
        struct ork_upper_place place = ork_upper_find(bits, tiles, channel, first);
        float stored[BLOCK_K];
        int32_t codes[BLOCK_K];

        for (uint32_t i = 0; i < part; i++) {
            float x = row[first + i] * inverse;
            x = x > highest ? highest : x;
            x = ork_round_even(x < lowest ? lowest : x);
            x = choice->sign == 0 ? x : -x;
            codes[i] = (int32_t)x;
            stored[i] = scale * x;
        }
        for (uint32_t i = 0; i < part; i++)
            ork_upper_write(data, ork_upper_step(place, i), bits, codes[i]);
        add_errors(row + first, stored, part, squared_error, squared_norm);
    }
    memcpy(scales + (uint64_t)channel * sizeof(scale), &scale, sizeof(scale));
}

static void encode_upper(enum ork_tier tier, const float *rows, uint32_t n, uint32_t k, const float *importance,
                         uint8_t *data, uint8_t *scales, double *squared_error, double *squared_norm)
{
    struct ork_tier_sizes sizes;
    struct ork_code_set set;

    ork_code_set_make(tier, NULL, &set);
    ork_tier_sizes(tier, n, k, &sizes);
    memset(data, 0, sizes.data_bytes);
    memset(scales, 0, sizes.scale_bytes);
    for (uint32_t channel = 0; channel < n; channel++) {
        const float *row = rows + (uint64_t)channel * k;
        struct ork_scale_choice choice = ork_scale_choose(&set, row, importance, k);
        store_upper_row(&set, ork_upper_bits(tier), row, k, channel, &choice, data, scales, squared_error,
                        squared_norm);
    }
}

static void encode_i8(const float *rows, uint32_t n, uint32_t k, uint8_t *data, uint8_t *scales, double *squared_error,
                      double *squared_norm)
{
    struct ork_tier_sizes sizes;

    ork_tier_sizes(ORK_TIER_I8, n, k, &sizes);
    memset(data, 0, sizes.data_bytes);
    memset(scales, 0, sizes.scale_bytes);
    for (uint32_t channel = 0; channel < n; channel++)
        encode_i8_row(rows + (uint64_t)channel * k, k, channel, data, scales, squared_error, squared_norm);
}

void ork_tier_encode(enum ork_tier tier, const float *rows, uint32_t n, uint32_t k, const float *importance,
                     const int8_t *table, uint8_t *data, uint8_t *scales, double *squared_error, double *squared_norm)
{
    uint64_t k_padded = ((uint64_t)k + BLOCK_K - 1) / BLOCK_K * BLOCK_K;
    uint64_t residual;
    double error = 0.0, norm = 0.0;

    switch (tier) {
    case ORK_TIER_F32:
        memcpy(data, rows, (uint64_t)n * k * sizeof(float));
        for (uint32_t channel = 0; channel < n; channel++)
            add_errors(rows + (uint64_t)channel * k, rows + (uint64_t)channel * k, k, &error, &norm);
        break;
    case ORK_TIER_G8:
        for (uint32_t channel = 0; channel < n; channel++)
            encode_g8_row(rows + (uint64_t)channel * k, k, data + channel * k_padded,
                          scales + channel * (k_padded / BLOCK_K) * sizeof(uint16_t), &error, &norm);
        break;
    case ORK_TIER_I8:
        encode_i8(rows, n, k, data, scales, &error, &norm);
        break;
    case ORK_TIER_I4:
    case ORK_TIER_NF4:
        encode_nibbles(tier, rows, n, k, importance, table, data, scales, &error, &norm);
        break;
    case ORK_TIER_I5:
    case ORK_TIER_I6:
        encode_upper(tier, rows, n, k, importance, data, scales, &error, &norm);
        break;
    case ORK_TIER_N8:
        residual = ork_nested_residual_bytes(n, k);
        memset(data, 0, residual); /* the gap behind the base */
        ork_nested_encode(rows, n, k, importance, table, data, data + residual, scales, &error, &norm, NULL);
        break;
    default:
        encode_float_rows(tier, rows, (uint64_t)n * k, data, &error, &norm);
    }
    if (squared_error != NULL)
        *squared_error = error;
    if (squared_norm != NULL)
        *squared_norm = norm;
}
