/* Guards the attention and short convolution functions of every table: equal bits with the scalar table for tiles of all
 * sizes, odd head sizes, both cache types and ranges that some queries see only a part of; and nothing touched out of
 * bounds. That they compute the right thing is for tests/engine to say. */
#include "check_attention.h"

#include <math.h>
#include <string.h>

#include "base/mathematics.h"

static void fill(struct harness *h, enum float_style style, struct guarded *buffer, bool half)
{
    if (!half) {
        random_floats(&h->seed, style, buffer->data, buffer->size_bytes / 4);
        return;
    }
    for (size_t i = 0; i < buffer->size_bytes / 2; i++) {
        float value;
        random_floats(&h->seed, style, &value, 1);
        ((uint16_t *)buffer->data)[i] = ork_f32_to_f16(value);
    }
}

/* Equal in bits; a NaN (infinite inputs, halves that overflowed) has no bits to compare. */
static bool same(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void compare(struct harness *h, uint32_t table, const struct guarded *have, const struct guarded *want,
                    bool finite, const char *what)
{
    if (!finite)
        return;
    for (size_t i = 0; i < have->size_bytes / 4; i++)
        if (!isnan(((const float *)have->data)[i]))
            harness_hash(h, table, (const float *)have->data + i, 4);
    harness_check(h, same(have->data, want->data, have->size_bytes / 4), "%s differs from scalar", what);
}

/* ---- attention ---- */

struct attend_call {
    const struct ork_vector_kernels *v;
    const struct ork_attend *tile;
    uint32_t begin, end;
    float *states, *part, *y;
};

/* A part, then a second one of the positions behind it, merged; then the results. */
static void run_attend(void *context)
{
    const struct attend_call *c = context;
    const struct ork_attend *tile = c->tile;
    const uint32_t state = ORK_ATTEND_STATE(tile->head_size);
    c->v->attend(tile, c->begin, c->end, c->states);
    c->v->attend(tile, c->end, c->end + 2 * ORK_ATTEND_BLOCK, c->part);
    for (uint32_t r = 0; r < tile->rows; r++) {
        if (tile->visible[r] > c->end)
            c->v->attend_merge(c->states + r * state, c->part + r * state, tile->head_size);
        if (tile->visible[r] > c->begin)
            c->v->attend_finish(c->y + r * tile->head_size, c->states + r * state, tile->head_size);
        else
            memset(c->y + r * tile->head_size, 0, tile->head_size * sizeof *c->y);
    }
}

static void check_attend(struct harness *h, uint32_t size, uint32_t rows, enum float_style style, bool keys_f32,
                         bool values_f32)
{
    const bool finite = style < FLOATS_FINITE_COUNT;
    struct ork_attend tile = {
        .rows = rows, .head_size = size, .scale = 0.125f, .keys_f32 = keys_f32, .values_f32 = values_f32};
    struct attend_call call = {.tile = &tile};
    call.begin = random_below(&h->seed, 2) * ORK_ATTEND_BLOCK;
    call.end = call.begin + (1 + random_below(&h->seed, 2)) * ORK_ATTEND_BLOCK;
    /* Ascending; now and then the first ones see nothing of the range. The last sees something of it. */
    uint32_t visible = call.begin + 1 + random_below(&h->seed, 4 * ORK_ATTEND_BLOCK), positions = visible;
    for (uint32_t r = rows; r-- > 0; visible -= visible > 1 ? random_below(&h->seed, 3) : 0)
        tile.visible[r] = visible;
    struct guarded q = guarded_allocate((size_t)rows * size * 4);
    struct guarded keys = guarded_allocate((positions + 15) / 16 * 16 * (size_t)size * (keys_f32 ? 4 : 2));
    struct guarded values = guarded_allocate(positions * (size_t)size * (values_f32 ? 4 : 2));
    struct guarded scratch = guarded_allocate(ORK_ATTEND_SCRATCH((size_t)size) * 4);
    struct guarded states = guarded_allocate((size_t)rows * ORK_ATTEND_STATE(size) * 4);
    struct guarded part = guarded_allocate((size_t)rows * ORK_ATTEND_STATE(size) * 4);
    struct guarded y[2] = {guarded_allocate((size_t)rows * size * 4), guarded_allocate((size_t)rows * size * 4)};
    fill(h, style, &q, false);
    fill(h, style, &keys, !keys_f32);
    fill(h, style, &values, !values_f32);
    for (uint32_t r = 0; r < rows; r++)
        tile.q[r] = (const float *)q.data + (size_t)r * size;
    tile.keys = keys.data;
    tile.values = values.data;
    tile.scratch = scratch.data;
    call.states = states.data;
    call.part = part.data;
    for (uint32_t table = 0; table < h->table_count; table++) {
        char what[160];
        call.v = &h->tables[table].vector;
        call.y = y[table > 0].data;
        snprintf(what, sizeof what, "%s attend size=%u rows=%u positions=%u from %u to %u style=%d f32=%d%d",
                 call.v->name, size, rows, positions, call.begin, call.end, style, keys_f32, values_f32);
        harness_now("%s", what);
        harness_check(h, harness_survives(run_attend, &call), "%s crashed", what);
        compare(h, table, &y[table > 0], &y[0], finite, what);
    }
    struct guarded *buffers[] = {&q, &keys, &values, &scratch, &states, &part, &y[0], &y[1]};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        guarded_free(buffers[i]);
}

void check_attentions(struct harness *h)
{
    static const uint32_t sizes[] = {1, 16, 17, 32, 40, 64, 80, 128};
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 48, ORK_ATTEND_ROWS};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j += h->quick && j > 5 ? 2 : 1)
            for (int types = 0; types < 4; types++) {
                int style = (int)(i + j + (size_t)types) % (FLOATS_NOT_FINITE + 1);
                check_attend(h, sizes[i], rows[j], (enum float_style)(h->quick ? style : 0), types & 1, types & 2);
                if (!h->quick)
                    check_attend(h, sizes[i], rows[j], (enum float_style)style, types & 1, types & 2);
            }
}

/* ---- short convolution ---- */

struct conv_call {
    const struct ork_vector_kernels *v;
    const struct ork_short_conv *args;
};

static void run_short_conv(void *context)
{
    const struct conv_call *c = context;
    c->v->short_conv(c->args);
}

static void check_short_conv(struct harness *h, uint32_t n, uint32_t taps, uint32_t rows, enum float_style style)
{
    const bool finite = style < FLOATS_FINITE_COUNT;
    struct ork_short_conv args = {
        .stride = 3 * n + 2, .w_stride = n, .state_stride = n, .y_stride = n, .n = n, .taps = taps, .rows = rows};
    struct guarded bcx = guarded_allocate(((rows - 1) * args.stride + 3 * n) * 4);
    struct guarded w = guarded_allocate((size_t)taps * n * 4), before = guarded_allocate((taps - 1) * (size_t)n * 4);
    struct guarded state[2] = {guarded_allocate(before.size_bytes), guarded_allocate(before.size_bytes)};
    struct guarded y[2] = {guarded_allocate((size_t)rows * n * 4), guarded_allocate((size_t)rows * n * 4)};
    fill(h, style, &bcx, false);
    fill(h, style, &w, false);
    fill(h, style, &before, false);
    args.b = bcx.data;
    args.c = args.b + n;
    args.x = args.c + n;
    args.w = w.data;
    for (uint32_t table = 0; table < h->table_count; table++) {
        struct conv_call call = {&h->tables[table].vector, &args};
        char what[120];
        args.state = state[table > 0].data;
        args.y = y[table > 0].data;
        memcpy(args.state, before.data, before.size_bytes);
        snprintf(what, sizeof what, "%s short_conv n=%u taps=%u rows=%u style=%d", call.v->name, n, taps, rows, style);
        harness_now("%s", what);
        harness_check(h, harness_survives(run_short_conv, &call), "%s crashed", what);
        compare(h, table, &y[table > 0], &y[0], finite, what);
        compare(h, table, &state[table > 0], &state[0], finite, what);
    }
    struct guarded *buffers[] = {&bcx, &w, &before, &state[0], &state[1], &y[0], &y[1]};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        guarded_free(buffers[i]);
}

void check_short_convs(struct harness *h)
{
    static const uint32_t channels[] = {1, 15, 16, 17, 31, 64, 255, 256, 257, 520};
    static const uint32_t taps[] = {2, 3, 4, ORK_SHORT_CONV_TAPS_MAX};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        for (size_t j = 0; j < sizeof taps / sizeof taps[0]; j++)
            for (int style = 0; style <= FLOATS_NOT_FINITE; style++) {
                check_short_conv(h, channels[i], taps[j], 1, (enum float_style)style);
                check_short_conv(h, channels[i], taps[j], 2 + random_below(&h->seed, 20), (enum float_style)style);
            }
}
