/* Choice of the scale of one row. Owns the search and what "best" means; knows no bytes and no ISA: inner loops run over
 * lanes of eight so that compilers vectorise them and the result is the same on every machine.
 *
 * With x = w / s and q the nearest level, the weighted squared error is s^2 sum h (x - q)^2. Candidates
 * for s between absmax / outermost level and a seventh of it, for both signs where the levels are not symmetric, are
 * compared on a histogram of the row: for the partition that a candidate makes, the best scale is A / B and removes
 * A^2 / B from the error, where A = sum h w q, B = sum h q^2. The winner is refined on the row itself by alternating
 * assignment and least squares; the absolute maximum is measured the same way and kept when nothing beats it.
 * More than 16 levels stand too close together for that alone: a candidate may be off by several levels at the ends, which
 * least squares does not repair. There scales around the winner are measured too, in steps that move the outermost of
 * 64 levels by a third of a gap.
 *
 * Super-weights: a single weight that is above ten times the row's RMS and carries more than 1/64 of its energy (both
 * weighted) is never clipped: such weights carry whole models, and their activations are far above what a mean says. */
#include "quant/scale_search.h"

#include <math.h>
#include <string.h>

#define LANES 8u
#define STEP_K 256u /* weights of a row that are looked at together; a multiple of LANES */
#define BIN_COUNT 512
#define CANDIDATE_COUNT 28
#define REFINEMENTS_MAX 4
#define NEARBY_STEPS 4
#define NEARBY_STEP 0.01f

float ork_row_absolute_maximum(const float *row, uint32_t count)
{
    float lane[LANES] = {0};
    uint32_t k = 0;

    for (; k + LANES <= count; k += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            float x = fabsf(row[k + l]);
            lane[l] = lane[l] > x ? lane[l] : x;
        }
    for (uint32_t l = 0; k < count; k++, l++)
        lane[l] = fmaxf(lane[l], fabsf(row[k]));
    for (uint32_t l = 1; l < LANES; l++)
        lane[0] = fmaxf(lane[0], lane[l]);
    return lane[0];
}

void ork_code_set_make(enum ork_tier tier, const int8_t *table, struct ork_code_set *set)
{
    bool symmetric = true;
    int count = tier == ORK_TIER_I6 ? 64 : tier == ORK_TIER_I5 ? 32 : 16;

    set->count = (uint32_t)count;
    set->uniform = tier != ORK_TIER_NF4;
    set->zero_index = 0;
    for (int i = 0; i < count; i++) {
        float level = set->uniform ? (float)(i - count / 2) : (float)table[i];
        set->level[0][i] = level;
        set->level[1][count - 1 - i] = -level;
        if (level == 0.0f)
            set->zero_index = (uint8_t)i;
    }
    for (int sign = 0; sign < 2; sign++)
        for (int i = 0; i < count - 1; i++) {
            set->gap[sign][i] = (int32_t)(set->level[sign][i + 1] - set->level[sign][i]);
            set->threshold[sign][i] = 0.5f * (set->level[sign][i + 1] + set->level[sign][i]);
        }
    for (int i = 0; i < count; i++)
        symmetric = symmetric && set->level[0][i] == set->level[1][i];
    set->signs = symmetric ? 1 : 2;
}

/* x[i] = w[i] / scale and the nearest level q[i] of it, of all integers from lowest to highest. */
static void nearest_integers(float lowest, float highest, const float *restrict w, uint32_t count, float inverse,
                             float *restrict x, float *restrict q)
{
    for (uint32_t i = 0; i < count; i++) {
        float value = w[i] * inverse, level = value > highest ? highest : value;
        level = level < lowest ? lowest : level;
        x[i] = value;
        q[i] = ork_round_even(level);
    }
}

/* The same of 16 levels. Counting thresholds in integers is what every compiler vectorises; STEP adds the gap to the
 * next level where x is above the threshold. */
static void nearest_sixteen(const struct ork_code_set *set, uint32_t sign, const float *restrict w, uint32_t count,
                            float inverse, float *restrict x, float *restrict q)
{
    const float *restrict t = set->threshold[sign];
    const int32_t *restrict gap = set->gap[sign];
    int32_t lowest = (int32_t)set->level[sign][0];

    for (uint32_t i = 0; i < count; i++) {
        float value = w[i] * inverse;
        int32_t level = lowest;
#define STEP(j) level += -(int32_t)(value > t[j]) & gap[j]
        STEP(0);
        STEP(1);
        STEP(2);
        STEP(3);
        STEP(4);
        STEP(5);
        STEP(6);
        STEP(7);
        STEP(8);
        STEP(9);
        STEP(10);
        STEP(11);
        STEP(12);
        STEP(13);
        STEP(14);
#undef STEP
        x[i] = value;
        q[i] = (float)level;
    }
}

static void nearest_levels(const struct ork_code_set *set, uint32_t sign, const float *w, uint32_t count, float inverse,
                           float *x, float *q)
{
    if (set->count == 16)
        nearest_sixteen(set, sign, w, count, inverse, x, q);
    else
        nearest_integers(set->level[sign][0], set->level[sign][set->count - 1], w, count, inverse, x, q);
}

/* Sums over a row in code units, per lane: error = sum h (x - q)^2, a = sum h x q, b = sum h q q. */
struct lane_sums {
    float error[LANES], a[LANES], b[LANES];
};

/* count: a multiple of LANES; h may be NULL. */
static inline void add_lanes(const float *restrict x, const float *restrict q, const float *restrict h, uint32_t count,
                             struct lane_sums *sums)
{
    float error[LANES], a[LANES], b[LANES];

    memcpy(error, sums->error, sizeof(error));
    memcpy(a, sums->a, sizeof(a));
    memcpy(b, sums->b, sizeof(b));
    for (uint32_t i = 0; i < count; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            float d = x[i + l] - q[i + l], hq = q[i + l], hd = d;
            if (h != NULL) {
                hq *= h[i + l];
                hd *= h[i + l];
            }
            error[l] += hd * d;
            a[l] += hq * x[i + l];
            b[l] += hq * q[i + l];
        }
    memcpy(sums->error, error, sizeof(error));
    memcpy(sums->a, a, sizeof(a));
    memcpy(sums->b, b, sizeof(b));
}

/* Exact error of a row at one scale, and the least-squares scale of the assignment it makes. */
static double measure_scale(const struct ork_code_set *set, uint32_t sign, const float *row, const float *importance,
                            uint32_t k, float scale, float *refit)
{
    struct lane_sums sums = {0};
    double error = 0.0, a = 0.0, b = 0.0;
    float inverse = 1.0f / scale, x[STEP_K], q[STEP_K], h[LANES] = {0};

    for (uint32_t first = 0; first < k; first += STEP_K) {
        uint32_t part = k - first < STEP_K ? k - first : STEP_K, whole = part / LANES * LANES;

        nearest_levels(set, sign, row + first, part, inverse, x, q);
        if (importance != NULL)
            add_lanes(x, q, importance + first, whole, &sums);
        else
            add_lanes(x, q, NULL, whole, &sums);
        if (whole == part)
            continue;
        for (uint32_t i = whole; i < part; i++)
            h[i - whole] = importance != NULL ? importance[first + i] : 1.0f;
        memset(x + part, 0, (LANES - (part - whole)) * sizeof(float));
        memset(q + part, 0, (LANES - (part - whole)) * sizeof(float));
        add_lanes(x + whole, q + whole, h, LANES, &sums);
    }
    for (uint32_t l = 0; l < LANES; l++) {
        error += sums.error[l];
        a += sums.a[l];
        b += sums.b[l];
    }
    *refit = b > 0.0 && a > 0.0 ? (float)(scale * (a / b)) : scale;
    return error * scale * scale;
}

/* Weight mass by value: prefix[i] are sums over all weights in bins below i, of h and of h * w / absmax. */
struct row_histogram {
    double h[BIN_COUNT + 1], hw[BIN_COUNT + 1];
};

/* Fills the histogram over [-largest, largest] and the smallest scales that clip no super-weight, per sign. */
static void make_histogram(const struct ork_code_set *set, const float *row, const float *importance, uint32_t k,
                           float largest, struct row_histogram *histogram, float scale_min[2])
{
    float h_bin[BIN_COUNT] = {0}, hw_bin[BIN_COUNT] = {0};
    float inverse = 1.0f / largest;
    double energy = 0.0, limit;

    for (uint32_t i = 0; i < k; i++) {
        float x = row[i] * inverse, h = importance != NULL ? importance[i] : 1.0f;
        int bin = (int)((x + 1.0f) * (BIN_COUNT / 2));
        bin = bin < BIN_COUNT - 1 ? bin : BIN_COUNT - 1;
        h_bin[bin] += h;
        hw_bin[bin] += h * x;
        energy += (double)h * x * x;
    }
    histogram->h[0] = histogram->hw[0] = 0.0;
    for (int bin = 0; bin < BIN_COUNT; bin++) {
        histogram->h[bin + 1] = histogram->h[bin] + h_bin[bin];
        histogram->hw[bin + 1] = histogram->hw[bin] + hw_bin[bin];
    }

    scale_min[0] = scale_min[1] = 0.0f;
    limit = fmax(energy / 64.0, energy / k * 100.0);
    if (importance == NULL && limit > 1.0)
        return;
    for (uint32_t i = 0; i < k; i++) {
        float x = row[i] * inverse, h = importance != NULL ? importance[i] : 1.0f;
        if ((double)h * x * x <= limit)
            continue;
        for (uint32_t sign = 0; sign < 2; sign++)
            scale_min[sign] = fmaxf(scale_min[sign], row[i] / set->level[sign][row[i] > 0.0f ? set->count - 1 : 0]);
    }
}

/* Error of the row at the best scale for the assignment that `scale` makes, as far as bins can tell, relative to the
 * part of the error that no scale changes (so negative); *refit is that scale. */
static double estimate_scale(const struct ork_code_set *set, uint32_t sign, const struct row_histogram *histogram,
                             float largest, float scale, float scale_min, float *refit)
{
    float relative = scale / largest;
    double a = 0.0, b = 0.0, h_before = 0.0, hw_before = 0.0, best;

    for (uint32_t i = 0; i < set->count; i++) {
        int bin = BIN_COUNT;
        double level = set->level[sign][i];
        if (i < set->count - 1) {
            float edge = (set->threshold[sign][i] * relative + 1.0f) * (BIN_COUNT / 2);
            edge = edge < 0.0f ? 0.0f : edge;
            bin = edge < (float)BIN_COUNT ? (int)(edge + 0.5f) : BIN_COUNT;
        }
        a += level * (histogram->hw[bin] - hw_before);
        b += level * level * (histogram->h[bin] - h_before);
        h_before = histogram->h[bin];
        hw_before = histogram->hw[bin];
    }
    best = b > 0.0 && a > 0.0 ? a / b : relative;
    if (best < scale_min / largest)
        best = scale_min / largest;
    *refit = (float)(best * largest);
    return best * (best * b - 2.0 * a);
}

static void refine(const struct ork_code_set *set, const float *row, const float *importance, uint32_t k, float scale,
                   float scale_min, uint32_t sign, struct ork_scale_choice *choice)
{
    for (int round = 0; round < REFINEMENTS_MAX; round++) {
        float refit;
        double error = measure_scale(set, sign, row, importance, k, scale, &refit);
        bool better = error < choice->error;

        if (better)
            *choice = (struct ork_scale_choice){scale, sign, error};
        refit = fmaxf(refit, scale_min);
        if ((round > 0 && !better) || fabsf(refit - scale) < 1e-4f * scale)
            break;
        scale = refit;
    }
}

/* The best of the scales around `seed`. */
static float scan_nearby(const struct ork_code_set *set, const float *row, const float *importance, uint32_t k,
                         float seed, float scale_min, uint32_t sign)
{
    double least = INFINITY;
    float best = seed;

    for (int step = -NEARBY_STEPS; step <= NEARBY_STEPS; step++) {
        float scale = fmaxf(seed * (1.0f + NEARBY_STEP * (float)step), scale_min), refit;
        double error = measure_scale(set, sign, row, importance, k, scale, &refit);
        if (error < least) {
            least = error;
            best = scale;
        }
    }
    return best;
}

static struct ork_scale_choice search_scale(const struct ork_code_set *set, const float *row, const float *importance,
                                            uint32_t k, float largest)
{
    struct row_histogram histogram;
    struct ork_scale_choice choice = {0.0f, 0, INFINITY};
    float scale_min[2], seed[2] = {0}, ignored;
    double seed_estimate[2] = {INFINITY, INFINITY};
    uint32_t best_sign = 0;

    make_histogram(set, row, importance, k, largest, &histogram, scale_min);
    for (uint32_t sign = 0; sign < set->signs; sign++) {
        float extent = fminf(set->level[sign][set->count - 1], -set->level[sign][0]);
        float scale = largest / extent;
        /* 28 candidates from absmax down, each 0.93 of the one before: 0.93^27 = 1/7.1 */
        for (int i = 0; i < CANDIDATE_COUNT; i++, scale *= 0.93f) {
            float refit;
            double estimate =
                estimate_scale(set, sign, &histogram, largest, fmaxf(scale, scale_min[sign]), scale_min[sign], &refit);
            if (estimate < seed_estimate[sign]) {
                seed_estimate[sign] = estimate;
                seed[sign] = refit;
            }
        }
        if (seed_estimate[sign] < seed_estimate[best_sign])
            best_sign = sign;
    }

    choice.scale = largest / fminf(set->level[0][set->count - 1], -set->level[0][0]);
    choice.error = measure_scale(set, 0, row, importance, k, choice.scale, &ignored);
    if (set->count > 16)
        seed[best_sign] = scan_nearby(set, row, importance, k, seed[best_sign], scale_min[best_sign], best_sign);
    refine(set, row, importance, k, seed[best_sign], scale_min[best_sign], best_sign, &choice);
    return choice;
}

/* An importance vector that is zero wherever the row is not says nothing about it. */
static bool row_has_weight(const float *row, const float *importance, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        if (importance[i] > 0.0f && row[i] != 0.0f)
            return true;
    return false;
}

struct ork_scale_choice ork_scale_choose(const struct ork_code_set *set, const float *row, const float *importance,
                                         uint32_t k)
{
    float largest = ork_row_absolute_maximum(row, k);

    if (largest < ORK_ZERO_ROW_LIMIT)
        return (struct ork_scale_choice){0};
    if (importance != NULL && !row_has_weight(row, importance, k))
        importance = NULL;
    return search_scale(set, row, importance, k, largest);
}
