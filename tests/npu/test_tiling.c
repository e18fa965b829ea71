/* Guards the tiling: over thousands of random matmuls every (m, n, k) is computed exactly once, every tile is a task that
 * the hardware takes, surfaces lie apart and aligned, cores share channels evenly, and k is cut only where it must be. */
#include "engine/npu/tiling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANDOM_PLANS = ORK_SLOW_BUILD ? 600 : 3000, LOOKED_AT = 60 };

static uint32_t below(uint32_t limit)
{
    return (uint32_t)(random() % limit);
}

static uint64_t a_bytes(const struct ork_npu_shape *s)
{
    return (uint64_t)s->m * s->k / (s->type == ORK_NPU_W4A4 ? 2 : 1);
}

static uint64_t c_bytes(const struct ork_npu_shape *s)
{
    return (uint64_t)s->m * s->n * (s->type == ORK_NPU_W4A4 ? 2 : 4);
}

static int by_c_offset(const void *left, const void *right)
{
    uint64_t a = ((const struct ork_npu_tile *)left)->c_offset, b = ((const struct ork_npu_tile *)right)->c_offset;
    return a < b ? -1 : a > b;
}

static int by_a_offset(const void *left, const void *right)
{
    uint64_t a = ((const struct ork_npu_tile *)left)->a_offset, b = ((const struct ork_npu_tile *)right)->a_offset;
    return a < b ? -1 : a > b;
}

/* Each tile alone. */
static void check_tile(const struct ork_npu_plan *plan, const struct ork_npu_tiling *tiling,
                       const struct ork_npu_tile *tile)
{
    ork_error error;
    uint32_t group = ork_npu_group(plan->type);
    if (ork_npu_shape_check(&tile->shape, &error) != ORK_OK)
        fail_msg("%u x %u x %u: %s", tiling->m, tiling->k, tiling->n, error.what);
    assert_int_equal(tile->shape.type, plan->type);
    assert_int_equal(tile->shape.output, tiling->output);
    if (tiling->force_input)
        assert_int_equal(tile->shape.input, tiling->input);
    if (tiling->rows_cap)
        assert_true(tile->shape.m <= tiling->rows_cap);
    if (tiling->channels_cap)
        assert_true(tile->shape.n <= tiling->channels_cap);
    if (plan->type == ORK_NPU_W4A4)
        assert_true(tiling->a_max * tiling->w_max * tile->shape.k <= INT16_MAX);
    if (plan->slices > 1)
        assert_int_equal(tile->shape.n, group);
    assert_int_equal(tile->n_begin % group, 0);
    assert_int_equal(tile->k_begin % 32, 0);
    assert_true(tile->m_begin + tile->shape.m <= plan->m && tile->n_begin + tile->shape.n <= plan->n &&
                tile->k_begin + tile->shape.k <= plan->k);
    assert_int_equal((tile->a_offset | tile->b_offset | tile->c_offset) % 64, 0);
    assert_int_equal(tile->b_offset, ((uint64_t)tile->n_begin / group * (plan->k / 32) + tile->k_begin / 32) * 1024);
    assert_true(tile->a_offset + a_bytes(&tile->shape) <= plan->a_bytes);
    assert_true(tile->c_offset + c_bytes(&tile->shape) <= plan->c_bytes);
    assert_true(tile->b_offset + (uint64_t)tile->shape.n / group * (tile->shape.k / 32) * 1024 <= plan->b_bytes);
}

/* Tiles are boxes within the plan: they cover everything exactly once if no two overlap and their volumes add up. Overlap
 * is looked for by the grid that their edges make. */
static void check_cover(const struct ork_npu_plan *plan)
{
    uint64_t volume = 0;
    for (uint32_t i = 0; i < plan->tile_count; i++) {
        const struct ork_npu_tile *t = &plan->tiles[i];
        volume += (uint64_t)t->shape.m * t->shape.k / 32 * (t->shape.n / 32);
    }
    assert_int_equal(volume, (uint64_t)plan->m * (plan->k / 32) * (plan->n / 32));
    uint32_t tries = plan->tile_count < LOOKED_AT ? plan->tile_count : LOOKED_AT;
    for (uint32_t i = 0; i < tries; i++) {
        const struct ork_npu_tile *t = &plan->tiles[plan->tile_count < LOOKED_AT ? i : below(plan->tile_count)];
        for (uint32_t j = 0; j < plan->tile_count; j++) {
            const struct ork_npu_tile *o = &plan->tiles[j];
            if (o == t)
                continue;
            assert_false(t->m_begin < o->m_begin + o->shape.m && o->m_begin < t->m_begin + t->shape.m &&
                         t->k_begin < o->k_begin + o->shape.k && o->k_begin < t->k_begin + t->shape.k &&
                         t->n_begin < o->n_begin + o->shape.n && o->n_begin < t->n_begin + t->shape.n);
        }
    }
}

/* Results never overlap; surfaces of A are the same for all channels and apart from one another. */
static void check_places(const struct ork_npu_plan *plan)
{
    size_t size = plan->tile_count * sizeof(struct ork_npu_tile);
    struct ork_npu_tile *sorted = malloc(size);
    assert_non_null(sorted);
    memcpy(sorted, plan->tiles, size);
    qsort(sorted, plan->tile_count, sizeof *sorted, by_c_offset);
    for (uint32_t i = 1; i < plan->tile_count; i++)
        assert_true(sorted[i - 1].c_offset + c_bytes(&sorted[i - 1].shape) <= sorted[i].c_offset);
    qsort(sorted, plan->tile_count, sizeof *sorted, by_a_offset);
    for (uint32_t i = 1; i < plan->tile_count; i++) {
        const struct ork_npu_tile *before = &sorted[i - 1], *tile = &sorted[i];
        bool same = before->m_begin == tile->m_begin && before->k_begin == tile->k_begin;
        assert_int_equal(same, before->a_offset == tile->a_offset);
        if (!same)
            assert_true(before->a_offset + a_bytes(&before->shape) <= tile->a_offset);
    }
    free(sorted);
}

/* Each core has a contiguous run of channels, of as many groups as the others or one more. */
static void check_cores(const struct ork_npu_plan *plan, const struct ork_npu_tiling *tiling)
{
    uint32_t group = ork_npu_group(plan->type), groups = plan->n / group, channel = 0;
    assert_int_equal(plan->cores, groups < tiling->cores ? groups : tiling->cores);
    assert_int_equal(plan->core_begin[0], 0);
    assert_int_equal(plan->core_begin[plan->cores], plan->tile_count);
    for (uint32_t c = 0; c < plan->cores; c++) {
        uint32_t first = UINT32_MAX, last = 0;
        for (uint32_t i = plan->core_begin[c]; i < plan->core_begin[c + 1]; i++) {
            const struct ork_npu_tile *t = &plan->tiles[i];
            first = t->n_begin < first ? t->n_begin : first;
            last = t->n_begin + t->shape.n > last ? t->n_begin + t->shape.n : last;
        }
        assert_int_equal(first, channel);
        uint32_t own = (last - first) / group;
        assert_true(own == groups / plan->cores || own == (groups + plan->cores - 1) / plan->cores);
        channel = last;
    }
    assert_int_equal(channel, plan->n);
}

static void check_slices(const struct ork_npu_plan *plan, const struct ork_npu_tiling *tiling)
{
    uint32_t k_max = ork_npu_k_max(plan->type, tiling->a_max, tiling->w_max);
    if (plan->k <= k_max && (plan->type == ORK_NPU_W4A4 || plan->k <= 8192 || plan->m == 1))
        assert_int_equal(plan->slices, 1);
    for (uint32_t i = 0; i < plan->tile_count && plan->slices > 1; i++) {
        assert_true(plan->tiles[i].shape.k >= plan->k / plan->slices / 32 * 32);
        assert_true(plan->tiles[i].shape.k <= (plan->k / 32 + plan->slices - 1) / plan->slices * 32);
    }
}

static struct ork_npu_tiling random_tiling(void)
{
    struct ork_npu_tiling t = {.type = below(2), .cores = 1 + below(3)};
    uint32_t group = ork_npu_group(t.type);
    t.m = 1 + below((uint32_t[]){1, 8, 200, 700}[below(4)]);
    t.k = 1 + below((uint32_t[]){64, 2048, 12000, 40000}[below(4)]);
    t.n = 1 + below((uint32_t[]){100, 2048, 30000}[below(3)]);
    if (t.type == ORK_NPU_W4A4) {
        t.a_max = 1 + below(8);
        t.w_max = 1 + below(8);
    } else {
        t.output = below(4) == 0 ? ORK_NPU_ROWS : ORK_NPU_NATIVE;
        t.force_input = below(3) == 0;
        t.input = t.output == ORK_NPU_ROWS ? ORK_NPU_ROWS : below(2);
    }
    t.rows_cap = below(5) == 0 ? 1 + below(40) : 0;
    t.channels_cap = below(5) == 0 ? group * (1 + below(20)) : 0;
    return t;
}

static void plans(void **state)
{
    (void)state;
    uint32_t made = 0, many = 0, sliced = 0;
    srandom(3);
    for (int i = 0; i < RANDOM_PLANS; i++) {
        struct ork_npu_tiling tiling = random_tiling();
        struct ork_npu_plan plan;
        ork_error error;
        ork_status status = ork_npu_plan_make(&tiling, &plan, &error);
        if (status == ORK_LIMIT && strstr(error.what, "tasks")) { /* only where tasks of 96 inputs would be too many */
            assert_true((uint64_t)tiling.m * (tiling.k / 96 + 1) * (tiling.n / 32 + 1) > ORK_NPU_TILES_MAX);
            continue;
        }
        if (status != ORK_OK)
            fail_msg("%u x %u x %u: %s", tiling.m, tiling.k, tiling.n, error.what);
        made++;
        assert_true(plan.m == tiling.m && plan.k == (tiling.k + 31) / 32 * 32);
        assert_true(plan.n >= tiling.n && plan.n - tiling.n < ork_npu_group(plan.type) &&
                    plan.n % ork_npu_group(plan.type) == 0);
        assert_int_equal(plan.b_bytes, (uint64_t)plan.n * plan.k / (plan.type == ORK_NPU_W4A4 ? 2 : 1));
        for (uint32_t j = 0; j < plan.tile_count; j++)
            check_tile(&plan, &tiling, &plan.tiles[j]);
        check_cover(&plan);
        check_places(&plan);
        check_cores(&plan, &tiling);
        check_slices(&plan, &tiling);
        many += plan.tile_count > 100;
        sliced += plan.slices > 1;
        ork_npu_plan_free(&plan);
        assert_null(plan.tiles);
    }
    assert_true(made > RANDOM_PLANS * 9 / 10 && many > RANDOM_PLANS / 20 && sliced > RANDOM_PLANS / 10);
}

/* Few large tasks: shapes of models that ork runs. */
static void counts(void **state)
{
    (void)state;
    static const struct {
        struct ork_npu_tiling tiling;
        uint32_t tiles, slices;
    } cases[] = {
        {{.type = ORK_NPU_W8A8, .m = 1, .k = 2048, .n = 8192, .cores = 3}, 3, 1},
        {{.type = ORK_NPU_W8A8, .m = 512, .k = 2048, .n = 2048, .cores = 3}, 12, 1},
        {{.type = ORK_NPU_W8A8, .m = 64, .k = 1792, .n = 2048, .cores = 1}, 1, 1},
        {{.type = ORK_NPU_W8A8, .m = 128, .k = 3584, .n = 3584, .cores = 1}, 2, 1},
        {{.type = ORK_NPU_W8A8, .m = 1, .k = 10752, .n = 65536, .cores = 1}, 8, 1},
        {{.type = ORK_NPU_W8A8, .m = 2, .k = 10752, .n = 64, .cores = 1}, 8, 4},
        {{.type = ORK_NPU_W4A4, .m = 128, .k = 2048, .n = 2048, .a_max = 1, .w_max = 8, .cores = 1}, 1, 1},
        {{.type = ORK_NPU_W4A4, .m = 128, .k = 512, .n = 2048, .a_max = 8, .w_max = 8, .cores = 2}, 64, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ork_npu_plan plan;
        assert_int_equal(ork_npu_plan_make(&cases[i].tiling, &plan, NULL), ORK_OK);
        assert_int_equal(plan.tile_count, cases[i].tiles);
        assert_int_equal(plan.slices, cases[i].slices);
        ork_npu_plan_free(&plan);
    }
}

static void refuse(struct ork_npu_tiling tiling, ork_status status, const char *word)
{
    struct ork_npu_plan plan;
    ork_error error;
    assert_int_equal(ork_npu_plan_make(&tiling, &plan, &error), status);
    if (!strstr(error.what, word))
        fail_msg("'%s' does not name %s", error.what, word);
    assert_null(plan.tiles);
    ork_npu_plan_free(&plan);
}

static void refusals(void **state)
{
    (void)state;
    const struct ork_npu_tiling good = {.type = ORK_NPU_W8A8, .m = 1, .k = 32, .n = 32, .cores = 1};
    struct ork_npu_tiling t = good;
    t.m = 0;
    refuse(t, ORK_BAD_ARGUMENT, "empty");
    t = good, t.cores = 0;
    refuse(t, ORK_BAD_ARGUMENT, "cores");
    t = good, t.cores = 4;
    refuse(t, ORK_BAD_ARGUMENT, "cores");
    t = good, t.channels_cap = 31;
    refuse(t, ORK_BAD_ARGUMENT, "channels_cap");
    t = good, t.k = 131072;
    refuse(t, ORK_LIMIT, "exact");
    t = good, t.n = UINT32_MAX;
    refuse(t, ORK_LIMIT, "channels");
    t = good, t.m = UINT32_MAX, t.n = UINT32_MAX - 100, t.k = 100000;
    refuse(t, ORK_LIMIT, "tasks");
    t = good, t.m = UINT32_MAX;
    refuse(t, ORK_LIMIT, "tasks");
    t = good, t.type = ORK_NPU_W4A4;
    refuse(t, ORK_BAD_ARGUMENT, "magnitudes");
    t.a_max = t.w_max = 8, t.output = ORK_NPU_ROWS;
    refuse(t, ORK_BAD_ARGUMENT, "by rows");
    t.output = ORK_NPU_NATIVE, t.force_input = true, t.input = ORK_NPU_ROWS;
    refuse(t, ORK_LIMIT, "surface");
    t = good, t.type = 5;
    refuse(t, ORK_BAD_ARGUMENT, "type");
    t = good, t.output = ORK_NPU_ROWS, t.force_input = true;
    refuse(t, ORK_BAD_ARGUMENT, "by rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans), cmocka_unit_test(counts), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
