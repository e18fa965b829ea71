/* Guards the tiers as bytes and as numbers: sizes and addresses against the formulas of the architecture page, written
 * out here a second time; errors against what round-to-nearest with the absolute maximum gives and against the figures
 * of the fact sheet; rows that have broken other encoders (zero, tiny, huge, one single weight, one heavy weight). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mathematics.h"
#include "quant/nested.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum ork_tier all_tiers[] = {ORK_TIER_F32, ORK_TIER_F16, ORK_TIER_BF16, ORK_TIER_G8, ORK_TIER_I8,
                                          ORK_TIER_I4,  ORK_TIER_NF4, ORK_TIER_I5,   ORK_TIER_I6, ORK_TIER_N8};
/* Those whose scale is searched for. */
static const enum ork_tier searched_tiers[] = {ORK_TIER_I4, ORK_TIER_NF4, ORK_TIER_I5, ORK_TIER_I6};
enum { SEARCHED_TOTAL = sizeof searched_tiers / sizeof searched_tiers[0] };
enum { TIER_TOTAL = sizeof all_tiers / sizeof all_tiers[0] };

/* ---- random rows ---- */

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

/* Before every test, so that what one draws does not move another. */
static int reset_random(void **state)
{
    (void)state;
    random_state = UINT64_C(0x9e3779b97f4a7c15);
    return 0;
}

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double gaussian(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double laplacian(void)
{
    double u = uniform() - 0.5;
    return (u < 0.0 ? 1.0 : -1.0) * log(1.0 - 2.0 * fabs(u));
}

static float *random_rows(uint32_t n, uint32_t k, double (*draw)(void))
{
    float *rows = malloc((size_t)n * k * sizeof(float));
    assert_non_null(rows);
    for (size_t i = 0; i < (size_t)n * k; i++)
        rows[i] = (float)draw();
    return rows;
}

/* ---- an encoded matrix ---- */

struct encoded {
    struct ork_tier_sizes sizes;
    uint8_t *data, *scales;
    struct ork_matrix matrix;
    double squared_error, squared_norm;
};

static struct encoded encode(enum ork_tier tier, const float *rows, uint32_t n, uint32_t k, const float *importance)
{
    struct encoded e;
    assert_true(ork_tier_sizes(tier, n, k, &e.sizes));
    e.data = malloc(e.sizes.data_bytes);
    e.scales = malloc(e.sizes.scale_bytes + 1);
    assert_non_null(e.data);
    assert_non_null(e.scales);
    memset(e.data, 0xa5, e.sizes.data_bytes);
    memset(e.scales, 0xa5, e.sizes.scale_bytes);
    ork_tier_encode(tier, rows, n, k, importance, ork_tier_has_table(tier) ? ork_nf4_table : NULL, e.data, e.scales,
                    &e.squared_error, &e.squared_norm);
    e.matrix = (struct ork_matrix){
        .tier = tier,
        .layout = ork_tier_find(tier)->layout,
        .n = n,
        .k = k,
        .experts = 1,
        .data = e.data,
        .scales = e.sizes.scale_bytes != 0 ? e.scales : NULL,
        .table = ork_tier_has_table(tier) ? ork_nf4_table : NULL,
        .name = "test",
    };
    return e;
}

static void free_encoded(struct encoded *e)
{
    free(e->data);
    free(e->scales);
}

static float scale_of(const struct encoded *e, uint64_t index)
{
    float value;
    memcpy(&value, e->scales + index * sizeof value, sizeof value);
    return value;
}

/* Codes of i5 and i6 by section 6 of docs/orkpack-format.md. */
static int upper_code(const uint8_t *data, bool six, uint64_t kt, uint64_t n, uint64_t k)
{
    uint64_t brick = (n / 64) * kt + k / 32, j = (k % 32) / 2, nibble, line;
    int shift, low, high;
    if (six) {
        nibble = brick * 1536 + (n % 64) / 8 * 192 + 64 + (n % 8) * 16 + j;
        line = brick * 1536 + (n % 64) / 8 * 192 + (n % 4) * 16 + j;
        shift = (int)((n % 8) / 4 * 2 + (k % 2) * 4);
    } else {
        nibble = brick * 1280 + (n % 64) / 16 * 320 + 64 + (n % 16) * 16 + j;
        line = brick * 1280 + (n % 64) / 16 * 320 + (n % 4) * 16 + j;
        shift = (int)((n % 16) / 4 + (k % 2) * 4);
    }
    low = k % 2 ? data[nibble] >> 4 : data[nibble] & 15;
    high = data[line] >> shift & (six ? 3 : 1);
    return high * 16 + low - (high >= (six ? 2 : 1) ? (six ? 64 : 32) : 0);
}

/* The weight at (channel, input) by the formulas of the architecture page, section 3; channels and inputs of the padding
 * included. */
static float weight_by_formula(const struct encoded *e, uint64_t n, uint64_t k)
{
    uint64_t kt = (e->matrix.k + 31u) / 32u;
    uint16_t half;
    float value;
    switch (e->matrix.tier) {
    case ORK_TIER_F32:
        memcpy(&value, e->data + (n * e->matrix.k + k) * 4, 4);
        return value;
    case ORK_TIER_F16:
        memcpy(&half, e->data + (n * e->matrix.k + k) * 2, 2);
        return ork_f16_to_f32(half);
    case ORK_TIER_BF16:
        memcpy(&half, e->data + (n * e->matrix.k + k) * 2, 2);
        return ork_bf16_to_f32(half);
    case ORK_TIER_G8:
        memcpy(&half, e->scales + (n * kt + k / 32) * 2, 2);
        return ork_f16_to_f32(half) * (float)(int8_t)e->data[n * kt * 32 + k];
    case ORK_TIER_I8:
        return scale_of(e, n) * (float)(int8_t)e->data[((n / 32) * kt + k / 32) * 1024 + (n % 32) * 32 + k % 32];
    case ORK_TIER_I5:
    case ORK_TIER_I6:
        return scale_of(e, n) * (float)upper_code(e->data, e->matrix.tier == ORK_TIER_I6, kt, n, k);
    default: {
        uint64_t at = ((n / 64) * kt + k / 32) * 1024 + (n % 64) * 16 + (k % 32) / 2;
        uint8_t byte = e->data[at];
        int nibble = k % 2 ? byte >> 4 : byte & 15;
        if (e->matrix.tier == ORK_TIER_N8) {
            uint64_t groups = (e->matrix.n + 63u) / 64u, second = (groups * kt * 1024 + 4095) / 4096 * 4096;
            int residual = k % 2 ? e->data[second + at] >> 4 : e->data[second + at] & 15;
            int full = ork_nf4_table[nibble] + 2 * (residual >= 8 ? residual - 16 : residual);
            assert_in_range(full + 128, 0, 255);
            return scale_of(e, n) * (float)full;
        }
        int code = e->matrix.tier == ORK_TIER_NF4 ? ork_nf4_table[nibble] : nibble >= 8 ? nibble - 16 : nibble;
        return scale_of(e, n) * (float)code;
    }
    }
}

/* ---- description ---- */

static void test_names_and_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"f32", "f16", "bf16", "g8", "i8", "i4", "nf4", "i5", "i6", "n8"};
    for (uint32_t i = 0; i < 10; i++) {
        const struct ork_tier_info *info = ork_tier_find(i);
        assert_non_null(info);
        assert_int_equal(info->tier, i);
        assert_string_equal(info->name, names[i]);
        assert_ptr_equal(ork_tier_find_name(names[i]), info);
    }
    for (uint32_t i = 10; i < 300; i++)
        assert_null(ork_tier_find(i));
    assert_null(ork_tier_find_name("n4"));
    assert_null(ork_tier_find_name(""));
    assert_int_equal(ork_tier_find(ORK_TIER_I8)->brick_channels, 32);
    assert_int_equal(ork_tier_find(ORK_TIER_NF4)->brick_channels, 64);
    assert_int_equal(ork_tier_find(ORK_TIER_I5)->brick_channels, 64);
    assert_int_equal(ork_tier_find(ORK_TIER_I6)->layout, 4);
    assert_int_equal(ork_tier_find(ORK_TIER_G8)->layout, ORK_LAYOUT_ROWS);
}

static void test_sizes(void **state)
{
    (void)state;
    struct ork_tier_sizes s;
    assert_true(ork_tier_sizes(ORK_TIER_I8, 33, 65, &s));
    assert_int_equal(s.data_bytes, 2 * 3 * 1024);
    assert_int_equal(s.scale_bytes, 64 * 4);
    assert_int_equal(s.table_bytes, 0);
    assert_true(ork_tier_sizes(ORK_TIER_NF4, 65, 1, &s));
    assert_int_equal(s.data_bytes, 2 * 1 * 1024);
    assert_int_equal(s.scale_bytes, 128 * 4);
    assert_int_equal(s.table_bytes, 16);
    assert_true(ork_tier_sizes(ORK_TIER_I5, 65, 33, &s));
    assert_int_equal(s.data_bytes, 2 * 2 * 1280);
    assert_int_equal(s.scale_bytes, 128 * 4);
    assert_int_equal(s.table_bytes, 0);
    assert_true(ork_tier_sizes(ORK_TIER_I6, 65, 33, &s));
    assert_int_equal(s.data_bytes, 2 * 2 * 1536);
    assert_true(ork_tier_sizes(ORK_TIER_G8, 3, 33, &s));
    assert_int_equal(s.data_bytes, 3 * 64);
    assert_int_equal(s.scale_bytes, 3 * 2 * 2);
    assert_true(ork_tier_sizes(ORK_TIER_BF16, 3, 33, &s));
    assert_int_equal(s.data_bytes, 3 * 33 * 2);
    assert_int_equal(s.scale_bytes, 0);
    for (int t = 0; t < TIER_TOTAL; t++) {
        assert_false(ork_tier_sizes(all_tiers[t], UINT64_MAX / 2, 64, &s));
        assert_false(ork_tier_sizes(all_tiers[t], 64, UINT64_MAX / 2, &s));
        assert_false(ork_tier_sizes(all_tiers[t], UINT64_MAX, UINT64_MAX, &s));
    }
    assert_true(ork_tier_sizes(ORK_TIER_N8, 65, 33, &s)); /* two runs of 2 x 2 bricks, the second on the next page */
    assert_int_equal(s.data_bytes, 4096 + 2 * 2 * 1024);
    assert_true(ork_tier_sizes(ORK_TIER_N8, 64, 160, &s));
    assert_int_equal(s.data_bytes, 8192 + 5 * 1024);
    assert_int_equal(s.scale_bytes, 64 * 4);
    assert_int_equal(s.table_bytes, 16);
    assert_false(ork_tier_sizes(ORK_TIER_COUNT, 1, 1, &s));
}

static void test_planes_of_expert_stacks(void **state)
{
    (void)state;
    struct ork_orkpack_tensor tensor = {.tier = ORK_TIER_NF4, .dimensions = {100, 70, 3, 1}};
    assert_true(ork_tier_plan_planes(&tensor));
    assert_int_equal(tensor.layout, ORK_LAYOUT_BRICK64);
    /* 2 x 4 bricks of 1024 an expert are a multiple of 4096 already */
    assert_int_equal(tensor.planes[ORK_PLANE_DATA].expert_stride_bytes, 8192);
    assert_int_equal(tensor.planes[ORK_PLANE_DATA].size_bytes, 3 * 8192);
    assert_int_equal(tensor.planes[ORK_PLANE_SCALES].expert_stride_bytes, 128 * 4);
    assert_int_equal(tensor.planes[ORK_PLANE_SCALES].size_bytes, 3 * 128 * 4);
    assert_int_equal(tensor.planes[ORK_PLANE_TABLE].size_bytes, 16);
    assert_int_equal(tensor.planes[ORK_PLANE_TABLE].expert_stride_bytes, 0);
    tensor.tier = ORK_TIER_F16; /* 14000 bytes an expert: the next one starts on a page */
    assert_true(ork_tier_plan_planes(&tensor));
    assert_int_equal(tensor.planes[ORK_PLANE_DATA].expert_stride_bytes, 16384);
    assert_int_equal(tensor.planes[ORK_PLANE_DATA].size_bytes, 2 * 16384 + 14000);
    assert_int_equal(tensor.planes[ORK_PLANE_SCALES].size_bytes, 0);
    tensor.dimensions[3] = 2;
    assert_false(ork_tier_plan_planes(&tensor));
    tensor.dimensions[3] = 1;
    tensor.dimensions[2] = UINT64_MAX / 2;
    assert_false(ork_tier_plan_planes(&tensor));
    tensor.dimensions[2] = 0;
    assert_false(ork_tier_plan_planes(&tensor));
    tensor.dimensions[2] = 1;
    tensor.tier = ORK_TIER_COUNT;
    assert_false(ork_tier_plan_planes(&tensor));
}

/* ---- bytes ---- */

static void check_padding(const struct encoded *e)
{
    uint32_t channels = ork_tier_find(e->matrix.tier)->brick_channels;
    uint64_t k_padded = (e->matrix.k + 31u) / 32u * 32u, n_padded = (e->matrix.n + channels - 1) / channels * channels;
    if (!ork_tier_find(e->matrix.tier)->quantized)
        return;
    for (uint64_t n = 0; n < n_padded; n++) {
        if (n >= e->matrix.n)
            assert_true(scale_of(e, n) == 0.0f);
        for (uint64_t k = n < e->matrix.n ? e->matrix.k : 0; k < k_padded; k++)
            assert_true(weight_by_formula(e, n, k) == 0.0f);
    }
}

/* Decoding agrees bit for bit with the formulas, the reported error with the difference, whatever the shape. */
static void check_round_trip(enum ork_tier tier, uint32_t n, uint32_t k)
{
    float *rows = random_rows(n, k, gaussian), *decoded = malloc(k * sizeof(float));
    struct encoded e = encode(tier, rows, n, k, NULL);
    double error = 0.0, norm = 0.0;
    assert_non_null(decoded);
    for (uint32_t channel = 0; channel < n; channel++) {
        ork_matrix_decode_row(&e.matrix, 0, channel, decoded);
        for (uint32_t i = 0; i < k; i++) {
            float formula = weight_by_formula(&e, channel, i);
            double w = rows[(size_t)channel * k + i], d = formula - w;
            assert_memory_equal(&formula, &decoded[i], sizeof formula);
            error += d * d;
            norm += w * w;
        }
    }
    assert_true(fabs(error - e.squared_error) <= 1e-9 * error);
    assert_true(fabs(norm - e.squared_norm) <= 1e-9 * norm);
    check_padding(&e);
    free_encoded(&e);
    free(rows);
    free(decoded);
}

static void test_round_trips_of_awkward_shapes(void **state)
{
    (void)state;
    static const uint32_t ns[] = {1, 2, 31, 32, 33, 63, 64, 65, 130},
                          ks[] = {1, 2, 7, 31, 32, 33, 64, 95, 127, 257, 320};
    for (int t = 0; t < TIER_TOTAL; t++)
        for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
            for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
                check_round_trip(all_tiers[t], ns[i], ks[j]);
}

static void test_float_tiers_round_each_value(void **state)
{
    (void)state;
    enum { K = 1000 };
    float *rows = random_rows(1, K, gaussian);
    struct encoded f32 = encode(ORK_TIER_F32, rows, 1, K, NULL), f16 = encode(ORK_TIER_F16, rows, 1, K, NULL),
                   bf16 = encode(ORK_TIER_BF16, rows, 1, K, NULL);
    assert_memory_equal(f32.data, rows, K * sizeof(float));
    assert_true(f32.squared_error == 0.0);
    for (uint32_t k = 0; k < K; k++) {
        uint16_t half = ork_f32_to_f16(rows[k]), brain = ork_f32_to_bf16(rows[k]);
        assert_memory_equal(f16.data + k * 2, &half, 2);
        assert_memory_equal(bf16.data + k * 2, &brain, 2);
    }
    free_encoded(&f32);
    free_encoded(&f16);
    free_encoded(&bf16);
    free(rows);
}

/* Threads encode groups of 64 channels on their own: together they must give the bytes of the whole matrix. */
static void test_groups_equal_the_whole(void **state)
{
    (void)state;
    enum { N = 150, K = 100 };
    float *rows = random_rows(N, K, laplacian);
    for (int t = 0; t < TIER_TOTAL; t++) {
        struct encoded whole = encode(all_tiers[t], rows, N, K, NULL);
        struct ork_tier_sizes group;
        ork_tier_sizes(all_tiers[t], 64, K, &group);
        for (uint32_t first = 0; first < N; first += 64) {
            uint32_t count = N - first < 64 ? N - first : 64;
            struct encoded part = encode(all_tiers[t], rows + (size_t)first * K, count, K, NULL);
            uint64_t run = all_tiers[t] == ORK_TIER_N8 ? (uint64_t)(K + 31) / 32 * 1024 : part.sizes.data_bytes;
            uint64_t at = first / 64 * (all_tiers[t] == ORK_TIER_N8 ? run : group.data_bytes);
            assert_memory_equal(whole.data + at, part.data, run);
            if (all_tiers[t] == ORK_TIER_N8) /* the second runs begin on pages */
                assert_memory_equal(whole.data + ork_nested_residual_bytes(N, K) + at,
                                    part.data + ork_nested_residual_bytes(count, K), run);
            assert_memory_equal(whole.scales + first / 64 * group.scale_bytes, part.scales, part.sizes.scale_bytes);
            free_encoded(&part);
        }
        free_encoded(&whole);
    }
    free(rows);
}

static void test_g8_and_i8_use_the_whole_range(void **state)
{
    (void)state;
    enum { K = 64 };
    float row[K];
    for (int k = 0; k < K; k++)
        row[k] = (float)(k - 32) / 8.0f;
    struct encoded i8 = encode(ORK_TIER_I8, row, 1, K, NULL), g8 = encode(ORK_TIER_G8, row, 1, K, NULL);
    assert_int_equal((int8_t)i8.data[0], -127);
    assert_int_equal((int8_t)g8.data[0], -127);
    for (uint32_t k = 0; k < K; k++) {
        assert_true(fabsf(weight_by_formula(&i8, 0, k) - row[k]) <= 0.5001f * 4.0f / 127.0f);
        assert_true(fabsf(weight_by_formula(&g8, 0, k) - row[k]) <= 0.5001f * 4.0f / 127.0f * 1.001f);
    }
    /* Blocks of their own scale: the second one, up to 31/8, must not be coarser than its own maximum asks. */
    assert_true(fabsf(weight_by_formula(&g8, 0, 63) - row[63]) <= 0.002f);
    free_encoded(&i8);
    free_encoded(&g8);
}

/* ---- errors of 4 to 6-bit tiers ---- */

/* The largest code that has a partner of the other sign. */
static int outermost(enum ork_tier tier)
{
    return tier == ORK_TIER_NF4 ? 127 : tier == ORK_TIER_I4 ? 7 : tier == ORK_TIER_I5 ? 15 : 31;
}

/* Weighted squared error of nearest codes at one scale, in double, written without the encoder's tricks. */
static double error_at_scale(enum ork_tier tier, const float *row, const float *h, uint32_t k, double scale, int lowest)
{
    double total = 0.0;
    for (uint32_t i = 0; i < k; i++) {
        double best = INFINITY;
        for (int entry = 0; entry < (tier == ORK_TIER_NF4 ? 16 : 2 * outermost(tier) + 2); entry++) {
            int code = tier == ORK_TIER_NF4 ? ork_nf4_table[entry] : entry - 1 - outermost(tier);
            double d = row[i] - scale * code;
            if (code >= lowest && d * d < best)
                best = d * d;
        }
        total += (h != NULL ? h[i] : 1.0) * best;
    }
    return total;
}

static double weighted_error(const struct encoded *e, const float *rows, const float *h, uint32_t channel)
{
    double total = 0.0;
    for (uint32_t k = 0; k < e->matrix.k; k++) {
        double d = (double)weight_by_formula(e, channel, k) - rows[(size_t)channel * e->matrix.k + k];
        total += (h != NULL ? h[k] : 1.0) * d * d;
    }
    return total;
}

static void check_not_worse_than_absmax(enum ork_tier tier, uint32_t k, double (*draw)(void), bool weighted)
{
    enum { N = 40 };
    float *rows = random_rows(N, k, draw), *h = random_rows(1, k, gaussian);
    for (uint32_t i = 0; i < k; i++)
        h[i] = expf(1.5f * h[i]);
    struct encoded e = encode(tier, rows, N, k, weighted ? h : NULL);
    for (uint32_t channel = 0; channel < N; channel++) {
        const float *row = rows + (size_t)channel * k;
        double largest = 0.0;
        for (uint32_t i = 0; i < k; i++)
            largest = fmax(largest, fabs(row[i]));
        double absmax = error_at_scale(tier, row, weighted ? h : NULL, k, largest / outermost(tier), -outermost(tier));
        assert_true(weighted_error(&e, rows, weighted ? h : NULL, channel) <= absmax * 1.00001 + 1e-12);
    }
    free_encoded(&e);
    free(rows);
    free(h);
}

static void test_searches_are_never_worse_than_absmax(void **state)
{
    (void)state;
    static const uint32_t ks[] = {1, 2, 3, 8, 17, 32, 100, 576, 2048};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
        for (int weighted = 0; weighted < 2; weighted++)
            for (int t = 0; t < SEARCHED_TOTAL; t++) {
                check_not_worse_than_absmax(searched_tiers[t], ks[i], gaussian, weighted);
                check_not_worse_than_absmax(searched_tiers[t], ks[i], laplacian, weighted);
            }
}

static double relative_error(enum ork_tier tier, uint32_t n, uint32_t k, double (*draw)(void))
{
    float *rows = random_rows(n, k, draw);
    struct encoded e = encode(tier, rows, n, k, NULL);
    double result = sqrt(e.squared_error / e.squared_norm);
    free_encoded(&e);
    free(rows);
    return result;
}

/* Fact sheet on quantization, table 1.1: rel-RMSE of synthetic rows. "MSE" columns for 4 to 6 bits; ours may be better
 * than the table, which scans 56 scales and does not refine. */
static void test_errors_are_those_of_the_fact_sheet(void **state)
{
    (void)state;
    static const struct {
        enum ork_tier tier;
        uint32_t k;
        double (*draw)(void);
        double expected;
    } cases[] = {
        {ORK_TIER_I8, 512, gaussian, .0074},   {ORK_TIER_I8, 2048, gaussian, .0083},
        {ORK_TIER_I8, 4096, gaussian, .0089},  {ORK_TIER_I8, 2048, laplacian, .0135},
        {ORK_TIER_I4, 512, gaussian, .1063},   {ORK_TIER_I4, 2048, gaussian, .1092},
        {ORK_TIER_I4, 4096, gaussian, .1089},  {ORK_TIER_I4, 2048, laplacian, .1588},
        {ORK_TIER_NF4, 512, gaussian, .0954},  {ORK_TIER_NF4, 2048, gaussian, .0979},
        {ORK_TIER_NF4, 4096, gaussian, .0989}, {ORK_TIER_NF4, 2048, laplacian, .1277},
        {ORK_TIER_I5, 512, gaussian, .058},    {ORK_TIER_I5, 2048, gaussian, .060},
        {ORK_TIER_I5, 4096, gaussian, .061},   {ORK_TIER_I5, 2048, laplacian, .094},
        {ORK_TIER_I6, 512, gaussian, .0294},   {ORK_TIER_I6, 2048, gaussian, .0318},
        {ORK_TIER_I6, 4096, gaussian, .0328},  {ORK_TIER_I6, 2048, laplacian, .0514},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double found = relative_error(cases[i].tier, 100, cases[i].k, cases[i].draw);
        if (found < 0.93 * cases[i].expected || found > 1.03 * cases[i].expected)
            fail_msg("%s, k %u: %.4f instead of %.4f", ork_tier_find(cases[i].tier)->name, cases[i].k, found,
                     cases[i].expected);
    }
}

/* n8: the base is as good as nf4's table at such scales, the full code nearly int8 (architecture page, section 3: 0.098 and
 * 0.022 for Gaussian rows of 2048); the base alone is an nf4 matrix whose codes are the nearest table entries. */
static void test_nested_base_and_full(void **state)
{
    (void)state;
    enum { N = 96, K = 2048 };
    static const struct {
        double (*draw)(void);
        double base, full;
    } cases[] = {{gaussian, .100, .023}, {laplacian, .145, .034}};
    for (size_t i = 0; i < 2; i++) {
        float *rows = random_rows(N, K, cases[i].draw), decoded[K];
        int8_t table[16];
        struct ork_tier_sizes sizes;
        assert_true(ork_nested_fit_table(rows, N, K, NULL, table) <= 1.0);
        assert_true(ork_tier_sizes(ORK_TIER_N8, N, K, &sizes));
        uint8_t *data = malloc(sizes.data_bytes), *scales = malloc(sizes.scale_bytes);
        double error, norm, base_error, found = 0.0;
        ork_nested_encode(rows, N, K, NULL, table, data, data + ork_nested_residual_bytes(N, K), scales, &error, &norm,
                          &base_error);
        struct ork_matrix full = {.tier = ORK_TIER_N8,
                                  .layout = ORK_LAYOUT_BRICK64_PAIR,
                                  .n = N,
                                  .k = K,
                                  .experts = 1,
                                  .data = data,
                                  .scales = scales,
                                  .table = table};
        struct ork_matrix base = ork_nested_base(&full);
        for (uint32_t n = 0; n < N; n++) {
            ork_matrix_decode_row(&base, 0, n, decoded);
            for (uint32_t k = 0; k < K; k++)
                found += pow((double)decoded[k] - (double)rows[n * K + k], 2.0);
        }
        assert_true(fabs(found - base_error) <= 1e-9 * found);
        if (sqrt(base_error / norm) > cases[i].base || sqrt(error / norm) > cases[i].full)
            fail_msg("case %zu: base %.4f, full %.4f", i, sqrt(base_error / norm), sqrt(error / norm));
        free(data);
        free(scales);
        free(rows);
    }
}

/* A fine scan of scales of both signs in double must not find anything clearly better than the search did. */
static void test_search_finds_the_best_scale(void **state)
{
    (void)state;
    static const uint32_t ks[] = {16, 64, 256, 1024};
    double worst = 1.0, found_total = 0.0, best_total = 0.0;
    for (size_t i = 0; i < 4; i++)
        for (int repeat = 0; repeat < (ORK_SLOW_BUILD ? 2 : 12); repeat++)
            for (int t = 0; t < SEARCHED_TOTAL; t++) {
                enum ork_tier tier = searched_tiers[t];
                if (t > 1 && ks[i] < 256)
                    continue; /* with more levels than weights nearly every scale has a minimum of its own */
                float *row = random_rows(1, ks[i], repeat % 2 ? gaussian : laplacian);
                struct encoded e = encode(tier, row, 1, ks[i], NULL);
                double largest = 0.0, best = INFINITY, found = weighted_error(&e, row, NULL, 0);
                for (uint32_t k = 0; k < ks[i]; k++)
                    largest = fmax(largest, fabs(row[k]));
                for (double part = 0.12; part <= 1.0; part *= 1.004)
                    for (int sign = -1; sign <= 1; sign += 2)
                        best = fmin(best, error_at_scale(tier, row, NULL, ks[i],
                                                         sign * part * largest / outermost(tier), -127));
                worst = fmax(worst, found / best);
                found_total += found / best;
                best_total += 1.0;
                free_encoded(&e);
                free(row);
            }
    /* Short rows have ragged minima; on average the search must lose next to nothing. */
    assert_true(worst < 1.15);
    assert_true(found_total / best_total < 1.01);
}

static void test_importance_moves_the_error(void **state)
{
    (void)state;
    enum { N = 50, K = 512 };
    float *rows = random_rows(N, K, laplacian), h[K];
    for (int k = 0; k < K; k++)
        h[k] = k % 8 == 0 ? 20.0f : 0.05f;
    for (int t = 0; t < SEARCHED_TOTAL; t++) {
        enum ork_tier tier = searched_tiers[t];
        struct encoded plain = encode(tier, rows, N, K, NULL), aware = encode(tier, rows, N, K, h);
        double plain_error = 0.0, aware_error = 0.0;
        for (uint32_t channel = 0; channel < N; channel++) {
            plain_error += weighted_error(&plain, rows, h, channel);
            aware_error += weighted_error(&aware, rows, h, channel);
        }
        assert_true(aware_error < 0.9 * plain_error);
        assert_true(aware.squared_error > plain.squared_error);
        free_encoded(&plain);
        free_encoded(&aware);
    }
    free(rows);
}

/* All inputs of no importance say nothing: the row is then encoded as without. */
static void test_zero_importance_is_no_importance(void **state)
{
    (void)state;
    enum { K = 96 };
    float *row = random_rows(1, K, gaussian), h[K] = {0};
    struct encoded plain = encode(ORK_TIER_NF4, row, 1, K, NULL), zero = encode(ORK_TIER_NF4, row, 1, K, h);
    assert_memory_equal(plain.data, zero.data, plain.sizes.data_bytes);
    assert_memory_equal(plain.scales, zero.scales, plain.sizes.scale_bytes);
    free_encoded(&plain);
    free_encoded(&zero);
    free(row);
}

/* -8 and -16 have no partner: a row with one long tail is best with that tail on their side, whatever its sign. */
static void test_sign_of_the_scale_follows_the_tail(void **state)
{
    (void)state;
    static const enum ork_tier tiers[] = {ORK_TIER_I4, ORK_TIER_I5};
    enum { K = 256 };
    float row[K], mirrored[K];
    for (int t = 0; t < 2; t++) {
        int half = outermost(tiers[t]) + 1;
        for (int k = 0; k < K; k++) {
            row[k] = (float)(k % (2 * half) - half);
            mirrored[k] = -row[k];
        }
        struct encoded plain = encode(tiers[t], row, 1, K, NULL), other = encode(tiers[t], mirrored, 1, K, NULL);
        assert_true(plain.squared_error < 1e-9);
        assert_true(other.squared_error < 1e-9);
        assert_true(scale_of(&plain, 0) > 0.0f);
        assert_true(scale_of(&other, 0) < 0.0f);
        free_encoded(&plain);
        free_encoded(&other);
    }
}

/* A weight that carries the row (far above ten times its RMS) keeps its value to within a step, although a smaller
 * scale would have the smaller error. */
static void test_super_weights_are_not_clipped(void **state)
{
    (void)state;
    enum { K = 2048 };
    for (int t = 0; t < SEARCHED_TOTAL; t++)
        for (int sign = -1; sign <= 1; sign += 2) {
            enum ork_tier tier = searched_tiers[t];
            float *row = random_rows(1, K, gaussian);
            row[777] = 20.0f * (float)sign;
            struct encoded e = encode(tier, row, 1, K, NULL);
            assert_true(fabsf(weight_by_formula(&e, 0, 777) - row[777]) < 0.08f * 20.0f);
            free_encoded(&e);
            /* 5 sigma is an ordinary extreme value: clipping it is what the search is for. */
            row[777] = 5.0f * (float)sign;
            e = encode(tier, row, 1, K, NULL);
            assert_true(fabsf(weight_by_formula(&e, 0, 777)) < 4.5f);
            free_encoded(&e);
            free(row);
        }
}

/* ---- rows at the edges of float ---- */

static void test_extreme_rows(void **state)
{
    (void)state;
    enum { K = 70, CASES = 9 };
    static const float magnitudes[CASES] = {0.0f, 1e-44f, 0x1p-110f, 0x1p-99f, 1e-20f, 1.0f, 1e20f, 1e35f, 0x1p119f};
    for (int t = 0; t < TIER_TOTAL; t++)
        for (int i = 0; i < CASES; i++) {
            float *row = random_rows(1, K, uniform);
            for (int k = 0; k < K; k++)
                row[k] = (2.0f * row[k] - 1.0f) * magnitudes[i];
            struct encoded e = encode(all_tiers[t], row, 1, K, NULL);
            bool fits = magnitudes[i] < 60000.0f || (all_tiers[t] != ORK_TIER_F16 && all_tiers[t] != ORK_TIER_G8);
            for (uint32_t k = 0; k < K && fits; k++) {
                float value = weight_by_formula(&e, 0, k);
                assert_true(isfinite(value));
                assert_true(fabsf(value) <= 1.2f * (magnitudes[i] / 1.1f) + 1e-7f);
                if (magnitudes[i] == 0.0f)
                    assert_true(value == 0.0f);
                if (magnitudes[i] >= 1e-20f && all_tiers[t] != ORK_TIER_F16 && all_tiers[t] != ORK_TIER_G8)
                    assert_true(fabsf(value / magnitudes[i] - row[k] / magnitudes[i]) < 0.2f);
            }
            free_encoded(&e);
            free(row);
        }
}

static void test_one_weight_alone_is_exact_enough(void **state)
{
    (void)state;
    for (int t = 0; t < TIER_TOTAL; t++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float row[40] = {0};
            row[13] = 0.3f * (float)sign;
            struct encoded e = encode(all_tiers[t], row, 1, 40, NULL);
            for (uint32_t k = 0; k < 40; k++) {
                float value = weight_by_formula(&e, 0, k);
                assert_true(fabsf(value - row[k]) <= 0.003f);
                if (k != 13)
                    assert_true(value == 0.0f);
            }
            free_encoded(&e);
        }
}

/* A scale of g8 is a half: weights beyond 127 * 65504 are clipped and counted as error, never made infinite. */
static void test_g8_clips_what_a_half_cannot_scale(void **state)
{
    (void)state;
    float row[32] = {1e9f, -1e9f, 1e6f};
    struct encoded e = encode(ORK_TIER_G8, row, 1, 32, NULL);
    assert_true(weight_by_formula(&e, 0, 0) == 127.0f * 65504.0f);
    assert_true(weight_by_formula(&e, 0, 1) == -127.0f * 65504.0f);
    assert_true(e.squared_error > 1e17 && isfinite(e.squared_error));
    free_encoded(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_and_numbers, reset_random),
        cmocka_unit_test_setup(test_sizes, reset_random),
        cmocka_unit_test_setup(test_planes_of_expert_stacks, reset_random),
        cmocka_unit_test_setup(test_round_trips_of_awkward_shapes, reset_random),
        cmocka_unit_test_setup(test_float_tiers_round_each_value, reset_random),
        cmocka_unit_test_setup(test_groups_equal_the_whole, reset_random),
        cmocka_unit_test_setup(test_g8_and_i8_use_the_whole_range, reset_random),
        cmocka_unit_test_setup(test_searches_are_never_worse_than_absmax, reset_random),
        cmocka_unit_test_setup(test_errors_are_those_of_the_fact_sheet, reset_random),
        cmocka_unit_test_setup(test_nested_base_and_full, reset_random),
        cmocka_unit_test_setup(test_search_finds_the_best_scale, reset_random),
        cmocka_unit_test_setup(test_importance_moves_the_error, reset_random),
        cmocka_unit_test_setup(test_zero_importance_is_no_importance, reset_random),
        cmocka_unit_test_setup(test_sign_of_the_scale_follows_the_tail, reset_random),
        cmocka_unit_test_setup(test_super_weights_are_not_clipped, reset_random),
        cmocka_unit_test_setup(test_extreme_rows, reset_random),
        cmocka_unit_test_setup(test_one_weight_alone_is_exact_enough, reset_random),
        cmocka_unit_test_setup(test_g8_clips_what_a_half_cannot_scale, reset_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
