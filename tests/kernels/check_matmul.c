/* Guards every matmul row of every table: equal bits with the scalar row and between any split of the channels, nothing
 * read or written out of bounds (guard pages and canaries), and the scalar row close to a double-precision sum written
 * from the formulas of quant/tier.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "matmul_case.h"

static const enum ork_tier tiers[] = {ORK_TIER_F32, ORK_TIER_F16, ORK_TIER_BF16, ORK_TIER_G8, ORK_TIER_I8,
                                      ORK_TIER_I4,  ORK_TIER_NF4, ORK_TIER_I5,   ORK_TIER_I6, ORK_TIER_N8};
enum { TIER_COUNT = sizeof tiers / sizeof tiers[0] };

struct call {
    ork_matmul_function run;
    struct ork_matmul_args args;
};

static void run_call(void *context)
{
    struct call *call = context;
    call->run(&call->args);
}

static bool survives(ork_matmul_function run, const struct ork_matmul_args *args)
{
    struct call call = {run, *args};
    return harness_survives(run_call, &call);
}

static void describe(const struct matmul_shape *s, const char *name, char *text, size_t size)
{
    snprintf(text, size, "%s n=%u k=%u m=%u expert %u/%u block=%u codes=%d x=%d scales=%d shuffled=%d front=%d", name,
             s->n, s->k, s->m, s->expert, s->experts, s->block, s->codes, s->x_style, s->scale_style, s->shuffled,
             s->front);
}

/* 0xFFA5A5A5 is a NaN that no kernel makes. */
static void fill_canaries(struct matmul_case *c)
{
    uint32_t *words = c->y.data;
    for (size_t i = 0; i < c->y.size_bytes / 4; i++)
        words[i] = 0xFFA5A5A5u;
}

/* Compares all of y, gaps between rows included. NaN results (only from NaN or overflowing input) count as equal. */
static bool same_bits(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, 4) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void hash_results(struct harness *h, uint32_t table, const struct matmul_case *c)
{
    const float *y = c->y.data;
    for (size_t i = 0; i < c->y.size_bytes / 4; i++)
        if (!isnan(y[i]))
            harness_hash(h, table, y + i, 4);
}

/* The scalar results against double sums, for at most 64 results spread over the matrix. */
static void compare_with_double(struct harness *h, const struct matmul_case *c, const float *y, const char *what)
{
    const struct matmul_shape *s = &c->shape;
    const uint32_t total = s->m * s->n, step = total > 64 ? total / 61 : 1;
    const bool integer = s->tier >= ORK_TIER_G8;
    for (uint32_t at = 0; at < total; at += step) {
        uint32_t i = at / s->n, n = at % s->n, row = s->shuffled ? ((const uint32_t *)c->x_rows.data)[i] : i;
        double sum = 0.0, magnitude = 0.0, weight_max = 0.0;
        for (uint32_t k = 0; k < s->k; k++) {
            double w = matmul_case_weight(c, n, k), term = w * matmul_case_input(c, row, k);
            sum += term;
            magnitude += fabs(term);
            weight_max = fmax(weight_max, fabs(w));
        }
        /* One rounding per addition (integers: per block, and a few for the conversions), each relative 2^-24 of at
         * most the sum of magnitudes; below that, multiples of the smallest subnormal. */
        double additions = integer ? c->x.k_padded / 32 + 8.0 : s->k / 16.0 + 24.0;
        double bound = additions * (magnitude * 0x1p-24 + 0x1p-149 * (1.0 + weight_max)) + 1e-300;
        if (!isfinite(sum) || magnitude > 1e37 || weight_max > 1e37)
            continue;
        double got = y[i * c->y_stride + n];
        harness_check(h, fabs(got - sum) <= bound, "%s: row %u channel %u is %.9g, double gives %.9g +- %.3g", what, i,
                      n, got, sum, bound);
    }
}

/* All results again in several calls: one channel group at a time, then in three uneven runs. */
static void compare_splits(struct harness *h, struct matmul_case *c, ork_matmul_function run, const float *whole,
                           const char *what)
{
    const uint32_t unit = matmul_brick_channels(c->shape.tier), n = c->shape.n, units = (n + unit - 1) / unit;
    const uint32_t steps[] = {1, 2, units / 3 + 1};
    for (size_t s = 0; s < 3; s++) {
        fill_canaries(c);
        bool good = true;
        for (uint32_t begin = 0; begin < units && good; begin += steps[s]) {
            uint32_t end = (begin + steps[s]) * unit;
            struct ork_matmul_args args = matmul_case_args(c, begin * unit, end < n ? end : n);
            good = survives(run, &args);
        }
        harness_check(h, good && same_bits(c->y.data, whole, c->y.size_bytes / 4), "%s: split by %u differs", what,
                      steps[s]);
    }
}

static void check_case(struct harness *h, const struct matmul_shape *shape, bool splits)
{
    struct matmul_case c;
    matmul_case_make(&c, shape, &h->seed);
    float *reference = malloc(c.y.size_bytes + 1);
    struct ork_matmul_args args = matmul_case_args(&c, 0, shape->n);
    for (uint32_t table = 0; table < h->table_count && reference; table++) {
        const struct ork_matmul_kernel *row = &h->tables[table].matmul[shape->tier];
        char what[256];
        describe(shape, row->name, what, sizeof what);
        harness_now("%s", what);
        fill_canaries(&c);
        bool good = survives(row->run, &args);
        harness_check(h, good, "%s: crashed", what);
        hash_results(h, table, &c);
        if (table == 0) {
            memcpy(reference, c.y.data, c.y.size_bytes);
            if (shape->x_style < FLOATS_FINITE_COUNT && shape->scale_style < FLOATS_FINITE_COUNT)
                compare_with_double(h, &c, reference, what);
        } else if (shape->x_style < FLOATS_FINITE_COUNT && shape->scale_style < FLOATS_FINITE_COUNT) {
            harness_check(h, same_bits(c.y.data, reference, c.y.size_bytes / 4), "%s: differs from scalar", what);
        }
        if (splits && good)
            compare_splits(h, &c, row->run, reference, what);
    }
    free(reference);
    matmul_case_free(&c);
}

static struct matmul_shape random_shape(struct harness *h, enum ork_tier tier, uint32_t k, uint32_t m, uint32_t block)
{
    static const uint32_t channels[] = {1, 2, 31, 32, 33, 63, 64, 65, 96, 127, 130, 192};
    struct matmul_shape s = {.tier = tier, .k = k, .m = m, .block = block};
    s.n = channels[random_below(&h->seed, sizeof channels / sizeof channels[0])];
    s.experts = 1 + random_below(&h->seed, 3);
    s.expert = random_below(&h->seed, s.experts);
    s.shuffled = random_below(&h->seed, 2);
    s.x_row_count = s.shuffled ? 1 + random_below(&h->seed, m + 2) : m;
    s.x_style = (enum float_style)(random_below(&h->seed, 2) ? 0 : random_below(&h->seed, FLOATS_FINITE_COUNT));
    s.scale_style = (enum float_style)(random_below(&h->seed, 2) ? 0 : random_below(&h->seed, FLOATS_FINITE_COUNT));
    s.codes = (enum code_style)(random_below(&h->seed, 3) ? 0 : random_below(&h->seed, CODE_STYLE_COUNT));
    s.front = random_below(&h->seed, 4) == 0;
    return s;
}

/* Every inner length with every number of rows and every activation block; the rest is drawn. */
static void check_shapes(struct harness *h)
{
    static const uint32_t lengths[] = {1, 31, 32, 33, 64, 95, 576, 1536, 1792, 2048, 4096 + 32};
    static const uint32_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 64, 65};
    static const uint32_t blocks[] = {0, 32, 64, 128, 256};
    for (size_t t = 0; t < TIER_COUNT; t++)
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++)
            for (size_t m = 0; m < sizeof rows / sizeof rows[0]; m++)
                for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
                    bool drawn = random_below(&h->seed, h->quick ? 12 : 2) == 0;
                    if ((tiers[t] < ORK_TIER_G8 && b > 0) || (lengths[k] * rows[m] > 20000 && !drawn) ||
                        (h->quick && (!drawn || lengths[k] * rows[m] > 20000)))
                        continue;
                    struct matmul_shape s = random_shape(h, tiers[t], lengths[k], rows[m], blocks[b]);
                    check_case(h, &s, lengths[k] * rows[m] <= 10000);
                }
}

/* Runs of channels so long that kernels read their halves side by side: even and odd numbers of columns, a last one that
 * is cut, and runs just too short for it. */
static void check_wide(struct harness *h)
{
    static const uint32_t channels[] = {128, 255, 256, 257, 320, 450};
    for (size_t t = 0; t < TIER_COUNT; t++)
        for (size_t n = 0; n < sizeof channels / sizeof channels[0]; n++) {
            struct matmul_shape s = random_shape(h, tiers[t], 4096 + 40, 1, n % 2 ? 64 : 128);
            if (h->quick && n % 3 != 0)
                continue;
            s.n = channels[n];
            check_case(h, &s, true);
        }
}

/* Every style of scales with every style of activations and codes, on one odd shape; one row and a tile. */
static void check_styles(struct harness *h)
{
    for (size_t t = 0; t < TIER_COUNT; t++)
        for (int x = 0; x <= FLOATS_NOT_FINITE; x++)
            for (int w = 0; w <= FLOATS_NOT_FINITE; w++)
                for (int codes = 0; codes < CODE_STYLE_COUNT; codes++) {
                    if ((tiers[t] < ORK_TIER_G8 && codes > 0) || (h->quick && (x * 7 + w * 3 + codes) % 9 != 0))
                        continue;
                    for (uint32_t m = 1; m <= 10; m += 9) {
                        struct matmul_shape s = random_shape(h, tiers[t], 161, m, x % 2 ? 64 : 0);
                        s.x_style = (enum float_style)x;
                        s.scale_style = (enum float_style)w;
                        s.codes = (enum code_style)codes;
                        s.n = 70;
                        check_case(h, &s, false);
                    }
                }
}

/* The largest inner length of the contract: sums near the end of int32. */
static void check_longest(struct harness *h)
{
    for (size_t t = 0; t < TIER_COUNT; t++)
        for (uint32_t m = 1; m <= 2; m++)
            for (int codes = CODES_LARGEST; codes <= CODES_OPPOSITE; codes++) {
                struct matmul_shape s = {.tier = tiers[t],
                                         .n = 3,
                                         .k = ORK_MATMUL_K_MAX,
                                         .m = m,
                                         .experts = 1,
                                         .x_row_count = m,
                                         .codes = (enum code_style)codes};
                check_case(h, &s, false);
            }
}

/* The table itself: each row is named, binds its tier to the layout and activations that tier.h gives it. */
static void check_rows(struct harness *h)
{
    for (uint32_t table = 0; table < h->table_count; table++)
        for (uint32_t tier = 0; tier < ORK_TIER_COUNT; tier++) {
            const struct ork_matmul_kernel *row = &h->tables[table].matmul[tier];
            bool reserved = tier > ORK_TIER_N8;
            harness_check(h, reserved == (row->run == NULL), "tier %u of table %u", tier, table);
            if (reserved)
                continue;
            uint32_t unit = matmul_brick_channels(row->tier);
            enum ork_activation_kind kind = tier < ORK_TIER_G8 ? ORK_ACTIVATION_F32
                                            : unit == 64       ? ORK_ACTIVATION_I8_SPLIT
                                                               : ORK_ACTIVATION_I8;
            harness_check(h,
                          row->tier == tier && row->name && row->activation == kind &&
                              row->layout == matmul_case_layout(row->tier),
                          "row of tier %u in table %u", tier, table);
        }
}

void check_matmuls(struct harness *h)
{
    check_rows(h);
    check_shapes(h);
    check_wide(h);
    check_styles(h);
    if (!h->quick)
        check_longest(h);
}
