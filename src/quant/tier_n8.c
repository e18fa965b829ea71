/* Encodes n8: a base that is the nearest of 16 table entries, and a residual that takes it to int8. Owns the choice of
 * scales, which both share; the table's fit is shared with nf4.
 *
 * The base is what every token gets, so it is never made worse for the residual's sake: its index is the nearest entry. A
 * scale is judged by both errors, for one that clips suits the base and spoils the full code. */
#include "quant/nested.h"
#include "quant/nf4.h"
#include "quant/scale_search.h"

#include <string.h>

#define STEP_K 32u
#define BRICK_BYTES 1024u
/* What a squared error of the full code weighs beside one of the base. Gaussian rows of 2048: 0.25 gives 0.0967 and 0.0259
 * (base and full, relative RMS), 1 gives 0.0973 and 0.0229, 2 gives 0.0983 and 0.0212, 4 gives 0.1003 and 0.0186. */
#define FULL_WEIGHT 2.0
#define CANDIDATES 10
#define CANDIDATE_STEP 0.96f

/* Indices (ascending levels) and residuals of up to STEP_K inputs; x in code units of the set's sign. */
static void nest(const struct ork_code_set *set, uint32_t sign, const float *x, int32_t *index, float *base,
                 float *residual)
{
    for (uint32_t i = 0; i < STEP_K; i++)
        index[i] = 0;
    for (uint32_t t = 0; t < 15; t++)
        for (uint32_t i = 0; i < STEP_K; i++)
            index[i] += x[i] > set->threshold[sign][t] ? 1 : 0;
    for (uint32_t i = 0; i < STEP_K; i++) {
        /* The stored code is the mirror image for sign 1, so that both ends are held to -127..127. */
        float level = set->level[sign][index[i]], r = ork_round_even((x[i] - level) * 0.5f);
        float lowest = (-127.0f - level) * 0.5f, highest = (127.0f - level) * 0.5f;
        lowest = lowest > -7.0f ? lowest : -7.0f; /* -8 would be 8 when mirrored */
        highest = highest < 7.0f ? highest : 7.0f;
        r = r > highest ? (float)(int32_t)(highest + 8.0f) - 8.0f : r;
        r = r < lowest ? -((float)(int32_t)(8.0f - lowest) - 8.0f) : r;
        base[i] = level;
        residual[i] = r;
    }
}

/* Weighted squared errors of a row at one scale, in code units. */
struct nested_error {
    double base, full;
};

static struct nested_error measure(const struct ork_code_set *set, uint32_t sign, const float *row,
                                   const float *importance, uint32_t k, float inverse)
{
    float base_lane[8] = {0}, full_lane[8] = {0};
    struct nested_error error = {0};
    for (uint32_t first = 0; first < k; first += STEP_K) {
        uint32_t part = k - first < STEP_K ? k - first : STEP_K;
        float x[STEP_K] = {0}, h[STEP_K] = {0}, base[STEP_K], residual[STEP_K];
        int32_t index[STEP_K];
        for (uint32_t i = 0; i < part; i++) {
            x[i] = row[first + i] * inverse;
            h[i] = importance ? importance[first + i] : 1.0f;
        }
        nest(set, sign, x, index, base, residual);
        for (uint32_t i = 0; i < STEP_K; i++) {
            float d = x[i] - base[i], f = d - 2.0f * residual[i];
            base_lane[i % 8] += h[i] * d * d;
            full_lane[i % 8] += h[i] * f * f;
        }
    }
    for (int l = 0; l < 8; l++) {
        error.base += (double)base_lane[l];
        error.full += (double)full_lane[l];
    }
    return error;
}

/* The scale whose base and full errors together are least; choice.error is that sum. */
static struct ork_scale_choice choose(const struct ork_code_set *set, const float *row, const float *importance,
                                      uint32_t k)
{
    struct ork_scale_choice best = {0};
    float largest = ork_row_absolute_maximum(row, k);
    if (largest < ORK_ZERO_ROW_LIMIT)
        return best;
    for (uint32_t sign = 0; sign < set->signs; sign++) {
        float scale = largest / 127.0f;
        for (int i = 0; i < CANDIDATES; i++, scale *= CANDIDATE_STEP) {
            struct nested_error e = measure(set, sign, row, importance, k, 1.0f / scale);
            double error = (e.base + FULL_WEIGHT * e.full) * scale * scale;
            if (best.scale == 0.0f || error < best.error)
                best = (struct ork_scale_choice){scale, sign, error};
        }
    }
    return best;
}

double ork_nested_fit_table(const float *rows, uint32_t n, uint32_t k, const float *importance, int8_t *table)
{
    return ork_code_table_fit(choose, rows, n, k, importance, table);
}

/* Squared error sums in weight units. */
struct nested_sums {
    double error, norm, base_error;
};

static void store_row(const struct ork_code_set *set, const float *row, uint32_t k,
                      const struct ork_scale_choice *choice, uint8_t *base_bytes, uint8_t *residual_bytes,
                      struct nested_sums *sums)
{
    float inverse = choice->scale > 0.0f ? 1.0f / choice->scale : 0.0f;
    uint32_t flip = choice->sign == 0 ? 0 : 15;
    for (uint32_t first = 0; first < k; first += STEP_K) {
        uint32_t part = k - first < STEP_K ? k - first : STEP_K;
        uint64_t brick = (uint64_t)(first / STEP_K) * BRICK_BYTES;
        float x[STEP_K] = {0}, base[STEP_K], residual[STEP_K];
        int32_t index[STEP_K];
        uint32_t b[STEP_K], r[STEP_K];
        for (uint32_t i = 0; i < part; i++)
            x[i] = row[first + i] * inverse;
        nest(set, choice->sign, x, index, base, residual);
        for (uint32_t i = 0; i < STEP_K; i++) {
            bool padding = i >= part || choice->scale == 0.0f;
            int32_t stored = choice->sign == 0 ? (int32_t)residual[i] : -(int32_t)residual[i];
            b[i] = padding ? set->zero_index : (uint32_t)index[i] ^ flip;
            r[i] = padding ? 0 : (uint32_t)stored & 15;
        }
        for (uint32_t i = 0; i < part; i++) {
            double w = row[first + i]; /* what is stored is rounded to float, as readers have it */
            double d = w - (double)(choice->scale * base[i]);
            double f = w - (double)(choice->scale * (base[i] + 2.0f * residual[i]));
            sums->norm += w * w;
            sums->base_error += d * d;
            sums->error += f * f;
        }
        for (uint32_t i = 0; i < 16; i++) {
            base_bytes[brick + i] = (uint8_t)(b[2 * i] | b[2 * i + 1] << 4);
            residual_bytes[brick + i] = (uint8_t)(r[2 * i] | r[2 * i + 1] << 4);
        }
    }
}

void ork_nested_encode(const float *rows, uint32_t n, uint32_t k, const float *importance, const int8_t *table,
                       uint8_t *base, uint8_t *residual, uint8_t *scales, double *squared_error, double *squared_norm,
                       double *base_error)
{
    uint64_t tiles = ork_divide_up(k, 32), groups = ork_divide_up(n, 64);
    struct ork_code_set set;
    struct nested_sums sums = {0};

    ork_code_set_make(ORK_TIER_NF4, table, &set);
    if (n % 64 != 0) { /* channels of the last group that are padding */
        memset(base + (groups - 1) * tiles * BRICK_BYTES, set.zero_index | set.zero_index << 4, tiles * BRICK_BYTES);
        memset(residual + (groups - 1) * tiles * BRICK_BYTES, 0, tiles * BRICK_BYTES);
        memset(scales + (uint64_t)n * sizeof(float), 0, (groups * 64 - n) * sizeof(float));
    }
    for (uint32_t channel = 0; channel < n; channel++) {
        const float *row = rows + (uint64_t)channel * k;
        struct ork_scale_choice choice = choose(&set, row, importance, k);
        uint64_t at = channel / 64 * tiles * BRICK_BYTES + channel % 64 * 16;
        float scale = choice.sign == 0 ? choice.scale : -choice.scale;
        store_row(&set, row, k, &choice, base + at, residual + at, &sums);
        memcpy(scales + (uint64_t)channel * sizeof scale, &scale, sizeof scale);
    }
    if (squared_error)
        *squared_error = sums.error;
    if (squared_norm)
        *squared_norm = sums.norm;
    if (base_error)
        *base_error = sums.base_error;
}
