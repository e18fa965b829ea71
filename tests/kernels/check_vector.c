/* Guards every vector function of every table: equal bits with the scalar table for every small length and some large
 * ones, aliasing as documented, nothing touched out of bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check_attention.h"
#include "harness.h"

/* Operands of one call. `out` is preset with `initial`; functions that work in place or accumulate read it. */
struct vector_call {
    const struct ork_vector_kernels *v;
    void (*run)(struct vector_call *call);
    uint32_t n;
    float scalar;
    bool alias_first, alias_second;
    const float *a, *b;
    float *out;
};

enum operand { NONE, N, PAIRS }; /* sizes in elements: 0, n, 2 n */

struct vector_case {
    const char *name;
    void (*run)(struct vector_call *call);
    enum operand out, a, b;
    bool half_out, alias; /* out is uint16; out may be an input */
};

static void run_rms_norm(struct vector_call *c)
{
    c->v->rms_norm(c->out, c->alias_first ? c->out : c->a, c->b, c->n, 1e-5f);
}

static void run_add(struct vector_call *c)
{
    c->v->add(c->out, c->alias_first ? c->out : c->a, c->alias_second ? c->out : c->b, c->n);
}

static void run_multiply(struct vector_call *c)
{
    c->v->multiply(c->out, c->alias_first ? c->out : c->a, c->alias_second ? c->out : c->b, c->n);
}

static void run_axpy(struct vector_call *c)
{
    c->v->axpy(c->out, c->a, c->scalar, c->n);
}

static void run_silu_multiply(struct vector_call *c)
{
    c->v->silu_multiply(c->out, c->alias_first ? c->out : c->a, c->alias_second ? c->out : c->b, c->n);
}

static void run_sigmoid(struct vector_call *c)
{
    c->v->sigmoid(c->out, c->alias_first ? c->out : c->a, c->n);
}

static void run_copy_maximum(struct vector_call *c)
{
    float largest = c->v->copy_maximum(c->out, c->alias_first ? c->out : c->a, c->n), want = -INFINITY;
    for (uint32_t i = 0; i < c->n; i++)
        want = c->out[i] > want ? c->out[i] : want;
    if (largest != want)
        c->out[0] = 1.5f; /* shows as a difference */
}

static void run_softmax(struct vector_call *c)
{
    c->v->softmax(c->out, c->n, c->scalar);
}

static void run_rope_adjacent(struct vector_call *c)
{
    c->v->rope_adjacent(c->out, c->a, c->b, c->n);
}

static void run_rope_halves(struct vector_call *c)
{
    c->v->rope_halves(c->out, c->a, c->b, c->n);
}

static void run_f32_to_f16(struct vector_call *c)
{
    c->v->f32_to_f16((uint16_t *)(void *)c->out, c->a, c->n);
}

/* Every function of struct ork_vector_kernels but those with a check of their own below. */
static const struct vector_case cases[] = {
    {"rms_norm", run_rms_norm, N, N, N, false, true},
    {"add", run_add, N, N, N, false, true},
    {"multiply", run_multiply, N, N, N, false, true},
    {"axpy", run_axpy, N, N, NONE, false, false},
    {"silu_multiply", run_silu_multiply, N, N, N, false, true},
    {"sigmoid", run_sigmoid, N, N, NONE, false, true},
    {"copy_maximum", run_copy_maximum, N, N, NONE, false, true},
    {"softmax", run_softmax, N, NONE, NONE, false, false},
    {"rope_adjacent", run_rope_adjacent, PAIRS, N, N, false, false},
    {"rope_halves", run_rope_halves, PAIRS, N, N, false, false},
    {"f32_to_f16", run_f32_to_f16, N, N, NONE, true, false},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static size_t elements(const struct vector_call *c, enum operand operand)
{
    return operand == N ? c->n : operand == PAIRS ? 2 * (size_t)c->n : 0;
}

static void run_call(void *context)
{
    struct vector_call *call = context;
    call->run(call);
}

static bool same_or_nan(const void *a, const void *b, size_t count, bool half)
{
    for (size_t i = 0; i < count; i++) {
        if (half) {
            uint16_t p = ((const uint16_t *)a)[i], q = ((const uint16_t *)b)[i];
            if (p != q && !((p & 0x7FFF) > 0x7C00 && (q & 0x7FFF) > 0x7C00))
                return false;
        } else {
            float p = ((const float *)a)[i], q = ((const float *)b)[i];
            if (memcmp(&p, &q, 4) != 0 && !(isnan(p) && isnan(q)))
                return false;
        }
    }
    return true;
}

static void hash_out(struct harness *h, uint32_t table, const void *out, size_t count, bool half)
{
    for (size_t i = 0; i < count; i++) {
        if (half && (((const uint16_t *)out)[i] & 0x7FFF) <= 0x7C00)
            harness_hash(h, table, (const uint16_t *)out + i, 2);
        else if (!half && !isnan(((const float *)out)[i]))
            harness_hash(h, table, (const float *)out + i, 4);
    }
}

static void compare_tables(struct harness *h, const struct vector_case *what, struct vector_call *c,
                           const float *initial, size_t out_count, bool finite)
{
    const size_t size_bytes = out_count * (what->half_out ? 2 : 4);
    char *reference = malloc(size_bytes + 1);
    for (uint32_t table = 0; table < h->table_count && reference; table++) {
        c->v = &h->tables[table].vector;
        memcpy(c->out, initial, size_bytes);
        harness_now("%s %s n=%u", c->v->name, what->name, c->n);
        bool good = harness_survives(run_call, c);
        harness_check(h, good, "%s %s n=%u crashed", c->v->name, what->name, c->n);
        if (!finite)
            continue;
        hash_out(h, table, c->out, out_count, what->half_out);
        if (table == 0)
            memcpy(reference, c->out, size_bytes);
        else
            harness_check(h, same_or_nan(c->out, reference, out_count, what->half_out),
                          "%s %s n=%u alias=%d%d differs from scalar", c->v->name, what->name, c->n, c->alias_first,
                          c->alias_second);
    }
    free(reference);
}

static void check_call(struct harness *h, const struct vector_case *what, uint32_t n, enum float_style style,
                       bool front)
{
    struct vector_call c = {.run = what->run, .n = n};
    c.scalar = 0.125f * (float)(1 + random_below(&h->seed, 16));
    struct guarded (*allocate)(size_t) = front ? guarded_allocate_front : guarded_allocate;
    size_t out_count = elements(&c, what->out);
    struct guarded a = allocate(elements(&c, what->a) * 4), b = allocate(elements(&c, what->b) * 4);
    struct guarded out = allocate(out_count * (what->half_out ? 2 : 4)), initial = allocate(out_count * 4);
    random_floats(&h->seed, style, a.data, a.size_bytes / 4);
    random_floats(&h->seed, style, b.data, b.size_bytes / 4);
    random_floats(&h->seed, style, initial.data, out_count);
    c.a = a.data;
    c.b = b.data;
    c.out = out.data;
    for (int alias = 0; alias < (what->alias ? 3 : 1); alias++) {
        c.alias_first = alias == 1;
        c.alias_second = alias == 2;
        compare_tables(h, what, &c, initial.data, out_count, style < FLOATS_FINITE_COUNT);
    }
    guarded_free(&a);
    guarded_free(&b);
    guarded_free(&out);
    guarded_free(&initial);
}

/* ---- quantize ---- */

struct quantize_call {
    const struct ork_vector_kernels *v;
    struct ork_activation *x;
};

static void run_quantize(void *context)
{
    struct quantize_call *c = context;
    for (uint32_t row = 0; row < c->x->rows; row++)
        c->v->quantize(c->x, row);
}

/* The contract of quantize on one block, in double. */
static bool block_is_right(const struct ork_activation *x, uint32_t row, uint32_t block)
{
    const uint64_t slot = (uint64_t)row * x->blocks + block;
    const uint32_t begin = block * x->block, end = begin + x->block < x->k_padded ? begin + x->block : x->k_padded;
    const int8_t *plain = x->plain + (uint64_t)row * x->k_padded, *split = x->split + (uint64_t)row * x->k_padded;
    const float *input = x->f32 + row * x->f32_stride;
    float largest = 0.0f;
    int32_t sum = 0;
    for (uint32_t k = begin; k < end && k < x->k; k++)
        if (fabsf(input[k]) > largest)
            largest = isinf(input[k]) ? 0x1.fffffep127f : fabsf(input[k]);
    if (x->scales[slot] != largest / 127.0f)
        return false;
    for (uint32_t k = begin; k < end; k++) {
        double exact = k < x->k && largest > 0.0f && !isnan(input[k]) ? input[k] * (127.0 / largest) : 0.0;
        exact = exact > 127.0 ? 127.0 : exact < -127.0 ? -127.0 : exact;
        /* Half a step, and what two float roundings of at most 127 add; inputs below 127 / FLT_MAX may vanish. */
        if (fabs(plain[k] - exact) > 0.5 + 127 * 0x1p-22 && largest > 1e-36f)
            return false;
        if (plain[k] < -127 || split[k / 32 * 32 + k % 2 * 16 + k % 32 / 2] != plain[k])
            return false;
        sum += plain[k];
    }
    return x->sums[slot] == sum;
}

static void check_quantize(struct harness *h, uint32_t k, uint32_t block, enum float_style style)
{
    const uint32_t rows = 2, padded = (k + 31) / 32 * 32;
    struct ork_activation x = {.rows = rows, .k = k, .k_padded = padded, .f32_stride = k + 3};
    x.block = block == 0 || block > padded ? padded : block;
    x.blocks = (padded + x.block - 1) / x.block;
    struct guarded f32 = guarded_allocate(((rows - 1) * x.f32_stride + k) * 4);
    struct guarded plain[2] = {guarded_allocate((size_t)rows * padded), guarded_allocate((size_t)rows * padded)};
    struct guarded split = guarded_allocate((size_t)rows * padded);
    struct guarded scales[2] = {guarded_allocate((size_t)rows * x.blocks * 4),
                                guarded_allocate((size_t)rows * x.blocks * 4)};
    struct guarded sums = guarded_allocate((size_t)rows * x.blocks * 4);
    random_floats(&h->seed, style, f32.data, f32.size_bytes / 4);
    x.f32 = f32.data;
    x.sums = sums.data;
    for (uint32_t table = 0; table < h->table_count; table++) {
        const struct ork_vector_kernels *v = &h->tables[table].vector;
        uint32_t use = table > 0;
        x.plain = plain[use].data;
        x.split = split.data;
        x.scales = scales[use].data;
        memset(x.plain, 0x55, plain[use].size_bytes);
        memset(x.split, 0x55, split.size_bytes);
        struct quantize_call call = {v, &x};
        harness_now("%s quantize k=%u block=%u style=%d", v->name, k, x.block, style);
        bool good = harness_survives(run_quantize, &call);
        for (uint32_t i = 0; i < rows * x.blocks && good; i++)
            good = block_is_right(&x, i / x.blocks, i % x.blocks);
        harness_check(h, good, "%s quantize k=%u block=%u style=%d is wrong", v->name, k, x.block, style);
        bool same = memcmp(plain[use].data, plain[0].data, plain[0].size_bytes) == 0 &&
                    memcmp(scales[use].data, scales[0].data, scales[0].size_bytes) == 0;
        harness_check(h, same, "%s quantize k=%u block=%u style=%d differs from scalar", v->name, k, x.block, style);
        harness_hash(h, table, x.plain, plain[use].size_bytes);
        harness_hash(h, table, x.scales, scales[use].size_bytes);
        /* A caller that wants one form of the codes leaves the other out. */
        x.plain = NULL;
        harness_check(h, harness_survives(run_quantize, &call), "%s quantize without plain codes crashed", v->name);
        x.plain = plain[use].data;
        x.split = NULL;
        harness_check(h, harness_survives(run_quantize, &call), "%s quantize without split codes crashed", v->name);
    }
    struct guarded *buffers[] = {&f32, &plain[0], &plain[1], &split, &scales[0], &scales[1], &sums};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        guarded_free(buffers[i]);
}

void check_vectors(struct harness *h)
{
    static const uint32_t large[] = {127, 128, 576, 1000, 2048, 4096 + 5};
    const uint32_t small = h->quick ? 36 : 70;
    for (size_t i = 0; i < CASE_COUNT; i++)
        for (int style = 0; style <= FLOATS_NOT_FINITE; style++) {
            for (uint32_t n = 1; n <= small; n += h->quick && n > 18 ? 5 : 1)
                check_call(h, &cases[i], n, (enum float_style)style, n % 2);
            for (size_t j = 0; j < sizeof large / sizeof large[0]; j += h->quick ? 3 : 1)
                check_call(h, &cases[i], large[j], (enum float_style)style, false);
        }
    static const uint32_t lengths[] = {1, 15, 16, 17, 31, 32, 33, 64, 95, 576, 2048 + 1};
    static const uint32_t blocks[] = {0, 32, 64, 128, 256};
    check_attentions(h);
    check_short_convs(h);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++)
            for (int style = 0; style <= FLOATS_NOT_FINITE; style++)
                check_quantize(h, lengths[k], blocks[b], (enum float_style)style);
}
