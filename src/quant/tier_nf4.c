/* The code table of nf4 and n8: the default, and the fit to a tensor. Owns levels; scales come from scale_search.c.
 *
 * The default is NF4's published levels (QLoRA, arXiv 2305.14314, appendix E) times 127, rounded. */
#include "quant/nf4.h"

#include "quant/scale_search.h"

#include <math.h>
#include <string.h>

#define ROUNDS 6
#define LLOYD_STEPS 40
#define BINS_PER_UNIT 4
#define BIN_REACH 160 /* code units on each side; what lies beyond counts as there */
#define BIN_COUNT (2 * BIN_REACH * BINS_PER_UNIT)

const int8_t ork_nf4_table[16] = {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127};

/* Pooled weight mass by code value: prefix sums of mass, and of mass times value. */
struct pool {
    double mass[BIN_COUNT + 1], moment[BIN_COUNT + 1];
};

/* Error of the rows under a table; fills the pool with the rows in the units of their chosen scales. */
static double pool_rows(ork_scale_chooser choose, const float *rows, uint32_t n, uint32_t k, const float *importance,
                        const int8_t *table, struct pool *pool)
{
    struct ork_code_set set;
    double error = 0.0;

    ork_code_set_make(ORK_TIER_NF4, table, &set);
    memset(pool, 0, sizeof(*pool));
    for (uint32_t row = 0; row < n; row++) {
        const float *w = rows + (uint64_t)row * k, *h = importance == NULL ? NULL : importance + (uint64_t)row * k;
        struct ork_scale_choice choice = choose(&set, w, h, k);
        float inverse = choice.sign == 0 ? 1.0f / choice.scale : -1.0f / choice.scale;
        double weight = (double)choice.scale * choice.scale;

        error += choice.error;
        for (uint32_t i = 0; choice.scale > 0.0f && i < k; i++) {
            float x = w[i] * inverse, at = (x + BIN_REACH) * BINS_PER_UNIT;
            int bin = at < 0.0f ? 0 : at >= BIN_COUNT ? BIN_COUNT - 1 : (int)at;
            double mass = h == NULL ? weight : weight * h[i];
            pool->mass[bin + 1] += mass;
            pool->moment[bin + 1] += mass * x;
        }
    }
    for (int bin = 0; bin < BIN_COUNT; bin++) {
        pool->mass[bin + 1] += pool->mass[bin];
        pool->moment[bin + 1] += pool->moment[bin];
    }
    return error;
}

/* One Lloyd step: every level but the zero moves to the mean of its cell. */
static void move_levels(const struct pool *pool, int zero, double level[16])
{
    int begin = 0;

    for (int i = 0; i < 16; i++) {
        int end = BIN_COUNT;
        if (i < 15) {
            end = (int)((0.5 * (level[i] + level[i + 1]) + BIN_REACH) * BINS_PER_UNIT + 0.5);
            end = end < begin ? begin : end > BIN_COUNT ? BIN_COUNT : end;
        }
        double mass = pool->mass[end] - pool->mass[begin];
        if (i != zero && mass > 0.0)
            level[i] = (pool->moment[end] - pool->moment[begin]) / mass;
        begin = end;
    }
}

/* Levels to entries: the larger end becomes 127; false when they would not ascend strictly. */
static bool round_levels(const double level[16], int zero, int8_t *table)
{
    double largest = fmax(-level[0], level[15]);

    if (!(level[0] < 0.0) || !(level[15] > 0.0))
        return false;
    for (int i = 0; i < 16; i++) {
        double scaled = level[i] * (127.0 / largest);
        table[i] = i == zero ? 0 : (int8_t)(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    }
    for (int i = 1; i < 16; i++)
        if (table[i] <= table[i - 1])
            return false;
    return true;
}

double ork_code_table_fit(ork_scale_chooser choose, const float *rows, uint32_t n, uint32_t k, const float *importance,
                          int8_t *table)
{
    struct pool pool;
    int8_t current[16];
    double first = 0.0, best = 0.0;

    memcpy(table, ork_nf4_table, sizeof(current));
    memcpy(current, ork_nf4_table, sizeof(current));
    for (int round = 0; round <= ROUNDS; round++) {
        double error = pool_rows(choose, rows, n, k, importance, current, &pool), level[16];
        int zero = (int)((const int8_t *)memchr(current, 0, sizeof(current)) - current);

        if (round == 0)
            first = best = error;
        if (error < best) {
            best = error;
            memcpy(table, current, sizeof(current));
        }
        for (int i = 0; i < 16; i++)
            level[i] = current[i];
        for (int step = 0; step < LLOYD_STEPS; step++)
            move_levels(&pool, zero, level);
        if (!round_levels(level, zero, current))
            break;
    }
    return first > 0.0 ? best / first : 1.0;
}

double ork_nf4_fit_table(const float *rows, uint32_t n, uint32_t k, const float *importance, int8_t *table)
{
    return ork_code_table_fit(ork_scale_choose, rows, n, k, importance, table);
}
