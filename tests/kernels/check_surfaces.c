/* Guards the surface kernels of every table: the scalar ones against index formulas of the NPU's orders (docs/npu.md) and
 * of the pack's bricks (docs/orkpack-format.md), written here once more element by element; all others against the scalar
 * ones, bit for bit. Nothing outside the buffers is touched, and what is not wanted is not written. */
#include <math.h>
#include <string.h>

#include "harness.h"

enum { SURFACE_INPUT_I8, SURFACE_INPUT_I4, SURFACE_OUTPUT_I32, SURFACE_OUTPUT_ROWS, SURFACE_OUTPUT_I16 };
enum { PARTS_MAX = 6 };

static struct guarded allocate(struct harness *h, size_t size_bytes)
{
    return random_below(&h->seed, 2) ? guarded_allocate(size_bytes) : guarded_allocate_front(size_bytes);
}

static void random_bytes(struct harness *h, void *out, size_t size_bytes)
{
    uint8_t *bytes = out;
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)(random_u64(&h->seed) >> 56);
}

/* Rows to take: NULL, or any of `existing` in any order. */
static struct guarded random_rows(struct harness *h, uint32_t m, uint32_t existing)
{
    if (random_below(&h->seed, 2))
        return (struct guarded){0};
    struct guarded rows = allocate(h, (size_t)m * 4);
    for (uint32_t i = 0; i < m; i++)
        ((uint32_t *)rows.data)[i] = random_below(&h->seed, existing);
    return rows;
}

static uint32_t row_of(const uint32_t *rows, uint32_t i)
{
    return rows ? rows[i] : i;
}

/* Compares one table's output with the scalar one's, and adds it to the table's checksum. */
static void compare(struct harness *h, uint32_t table, const struct guarded *got, struct guarded *reference,
                    const char *what, uint32_t m, uint32_t n, uint32_t k)
{
    harness_hash(h, table, got->data, got->size_bytes);
    if (table == 0)
        memcpy(reference->data, got->data, got->size_bytes);
    else
        harness_check(h, memcmp(got->data, reference->data, got->size_bytes) == 0,
                      "%s %s m=%u n=%u k=%u differs from scalar", h->tables[table].surface.name, what, m, n, k);
}

/* ---- inputs ---- */

struct input_call {
    void (*run)(const struct ork_surface_input *input);
    struct ork_surface_input input;
};

static void run_input(void *context)
{
    struct input_call *call = context;
    call->run(&call->input);
}

static bool input_is_right(const struct ork_surface_input *input, bool i4)
{
    const uint64_t m_count = input->m;
    for (uint64_t m = 0; m < m_count; m++)
        for (uint64_t k = 0; k < input->k; k++) {
            int8_t want = input->codes[row_of(input->rows, (uint32_t)m) * input->stride + input->k_begin + k];
            uint64_t q = (k / 32) * m_count * 32 + m * 32 + k % 32;
            uint8_t nibble = q % 2 ? input->out[q / 2] >> 4 : input->out[q / 2] & 15;
            if (i4 ? nibble != (want & 15) : (int8_t)input->out[(k / 16) * m_count * 16 + m * 16 + k % 16] != want)
                return false;
        }
    return true;
}

static void check_input(struct harness *h, uint32_t m, uint32_t k, bool i4)
{
    const uint32_t existing = m + random_below(&h->seed, 4), begin = random_below(&h->seed, 3) * 32;
    const uint64_t stride = begin + k + random_below(&h->seed, 40);
    const char *what = i4 ? "input_i4" : "input_i8";
    struct guarded codes = allocate(h, (existing - 1) * stride + begin + k), rows = random_rows(h, m, existing);
    struct guarded out = allocate(h, (size_t)m * k / (i4 ? 2 : 1)), reference = guarded_allocate(out.size_bytes);
    random_bytes(h, codes.data, codes.size_bytes);
    for (size_t i = 0; i < codes.size_bytes && i4; i++)
        ((int8_t *)codes.data)[i] >>= 4;
    for (uint32_t table = 0; table < h->table_count; table++) {
        const struct ork_surface_kernels *kernels = &h->tables[table].surface;
        struct input_call call = {i4 ? kernels->input_i4 : kernels->input_i8,
                                  {codes.data, stride, rows.data, m, begin, k, out.data}};
        memset(out.data, 0x55, out.size_bytes);
        harness_now("%s %s m=%u k=%u", kernels->name, what, m, k);
        harness_check(h, harness_survives(run_input, &call), "%s %s m=%u k=%u crashed", kernels->name, what, m, k);
        if (table == 0)
            harness_check(h, input_is_right(&call.input, i4), "%s m=%u k=%u is wrong", what, m, k);
        compare(h, table, &out, &reference, what, m, 0, k);
    }
    guarded_free(&codes);
    guarded_free(&rows);
    guarded_free(&out);
    guarded_free(&reference);
}

/* ---- outputs ---- */

struct output_call {
    void (*run)(const struct ork_surface_output *output);
    struct ork_surface_output output;
};

static void run_output(void *context)
{
    struct output_call *call = context;
    call->run(&call->output);
}

static int64_t read_part(const struct ork_surface_output *o, int kind, uint32_t part, uint64_t m, uint64_t n)
{
    const int32_t *words = o->parts[part];
    const int16_t *halves = o->parts[part];
    if (kind == SURFACE_OUTPUT_ROWS)
        return words[m * o->n + n];
    if (kind == SURFACE_OUTPUT_I16)
        return halves[(n / 8) * o->m * 8 + m * 8 + n % 8];
    return words[(n / 4) * o->m * 4 + m * 4 + n % 4];
}

/* checks were all `before`. y and sums hold 0x55 where nothing was to be written. */
static bool output_is_right(const struct ork_surface_output *o, int kind, uint32_t before)
{
    const int32_t untouched = 0x55555555;
    for (uint32_t m = 0; m < o->m; m++) {
        uint64_t check = before;
        for (uint32_t n = 0; n < o->n; n++) {
            int64_t sum = 0;
            for (uint32_t part = 0; part < o->part_count; part++)
                sum += read_part(o, kind, part, m, n);
            int32_t wrapped = (int32_t)(uint32_t)sum;
            check += (uint64_t)o->weights[n] * (uint32_t)wrapped;
            if (n >= o->n_used)
                continue;
            /* A product of two floats is exact in double, so its rounding to float is that of fmaf; + 0 unsigns zeros. */
            if (o->sums && o->sums[m * o->sums_stride + n] != wrapped)
                return false;
            if (o->y) {
                float product = (float)((double)(float)wrapped * (double)o->x_scales[row_of(o->rows, m)]);
                float want = (product == 0.0f ? 0.0f : product) * o->w_scales[n];
                if (wrapped != 0 && o->x_scales[row_of(o->rows, m)] != 0.0f)
                    want = product * o->w_scales[n]; /* underflow keeps its sign */
                if (memcmp(&want, &o->y[m * o->y_stride + n], 4) != 0)
                    return false;
            }
        }
        if ((uint32_t)check != o->checks[m])
            return false;
        for (uint64_t n = o->n_used; m + 1 < o->m && (n < o->y_stride || n < o->sums_stride); n++)
            if ((o->y && n < o->y_stride && memcmp(&untouched, &o->y[m * o->y_stride + n], 4) != 0) ||
                (o->sums && n < o->sums_stride && o->sums[m * o->sums_stride + n] != untouched))
                return false;
    }
    return true;
}

struct output_memory {
    struct guarded parts[PARTS_MAX], rows, x_scales, w_scales, weights, y, sums, checks, y_reference, sums_reference,
        checks_reference;
    const void *pointers[PARTS_MAX];
};

static void output_free(struct output_memory *s)
{
    struct guarded *buffers[] = {&s->rows, &s->x_scales, &s->w_scales,    &s->weights,        &s->y,
                                 &s->sums, &s->checks,   &s->y_reference, &s->sums_reference, &s->checks_reference};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        guarded_free(buffers[i]);
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        guarded_free(&s->parts[i]);
}

static void output_make(struct harness *h, struct output_memory *s, struct ork_surface_output *o, int kind)
{
    const uint32_t existing = o->m + random_below(&h->seed, 4), style = random_below(&h->seed, 3);
    const bool i16 = kind == SURFACE_OUTPUT_I16;
    for (uint32_t i = 0; i < o->part_count; i++) {
        s->parts[i] = allocate(h, (size_t)o->m * o->n * (i16 ? 2 : 4));
        random_bytes(h, s->parts[i].data, s->parts[i].size_bytes);
        for (size_t j = 0; j < (size_t)o->m * o->n && style && !i16; j++) /* style 0: whatever a broken device leaves */
            ((int32_t *)s->parts[i].data)[j] >>= style == 1 ? 9 : 28;
        s->pointers[i] = s->parts[i].data;
    }
    s->rows = random_rows(h, o->m, existing);
    s->x_scales = allocate(h, (size_t)existing * 4);
    s->w_scales = allocate(h, (size_t)o->n * 4);
    s->weights = allocate(h, (size_t)o->n * 4);
    random_floats(&h->seed, random_below(&h->seed, 4) ? FLOATS_NORMAL : FLOATS_SPREAD, s->x_scales.data, existing);
    random_floats(&h->seed, random_below(&h->seed, 4) ? FLOATS_NORMAL : FLOATS_SPREAD, s->w_scales.data, o->n);
    ork_surface_weights(random_below(&h->seed, 4096), o->n, s->weights.data);
    s->y = allocate(h, ((o->m - 1) * o->y_stride + o->n_used) * 4);
    s->sums = allocate(h, ((o->m - 1) * o->sums_stride + o->n_used) * 4);
    s->checks = allocate(h, (size_t)o->m * 4);
    s->y_reference = guarded_allocate(s->y.size_bytes);
    s->sums_reference = guarded_allocate(s->sums.size_bytes);
    s->checks_reference = guarded_allocate(s->checks.size_bytes);
    o->parts = s->pointers;
    o->rows = s->rows.data;
    o->x_scales = s->x_scales.data;
    o->w_scales = s->w_scales.data;
    o->weights = s->weights.data;
    o->checks = s->checks.data;
}

static void check_output(struct harness *h, int kind, uint32_t m, uint32_t n)
{
    static const char *const names[] = {[SURFACE_OUTPUT_I32] = "output_i32",
                                        [SURFACE_OUTPUT_ROWS] = "output_i32_rows",
                                        [SURFACE_OUTPUT_I16] = "output_i16"};
    struct output_memory s = {0};
    struct ork_surface_output o = {.m = m, .n = n, .part_count = 1 + random_below(&h->seed, PARTS_MAX)};
    o.n_used = random_below(&h->seed, 2) ? n : 1 + random_below(&h->seed, n);
    o.y_stride = o.n_used + random_below(&h->seed, 20);
    o.sums_stride = o.n_used + random_below(&h->seed, 20);
    const uint32_t wanted = random_below(&h->seed, 4); /* bit 0: not y; bit 1: sums */
    output_make(h, &s, &o, kind);
    for (uint32_t table = 0; table < h->table_count; table++) {
        const struct ork_surface_kernels *kernels = &h->tables[table].surface;
        o.y = wanted & 1 ? NULL : s.y.data;
        o.sums = wanted & 2 ? s.sums.data : NULL;
        memset(s.y.data, 0x55, s.y.size_bytes);
        memset(s.sums.data, 0x55, s.sums.size_bytes);
        for (uint32_t i = 0; i < m; i++)
            o.checks[i] = 0x89ABCDEF;
        struct output_call call = {kind == SURFACE_OUTPUT_I32    ? kernels->output_i32
                                   : kind == SURFACE_OUTPUT_ROWS ? kernels->output_i32_rows
                                                                 : kernels->output_i16,
                                   o};
        harness_now("%s %s m=%u n=%u", kernels->name, names[kind], m, n);
        harness_check(h, harness_survives(run_output, &call), "%s %s m=%u n=%u crashed", kernels->name, names[kind], m,
                      n);
        if (table == 0)
            harness_check(h, output_is_right(&o, kind, 0x89ABCDEF), "%s m=%u n=%u used=%u parts=%u is wrong",
                          names[kind], m, n, o.n_used, o.part_count);
        compare(h, table, &s.y, &s.y_reference, names[kind], m, n, 0);
        compare(h, table, &s.sums, &s.sums_reference, names[kind], m, n, 0);
        compare(h, table, &s.checks, &s.checks_reference, names[kind], m, n, 0);
    }
    output_free(&s);
}

/* ---- checks and keys ---- */

struct key_call {
    const struct ork_surface_kernels *kernels;
    const int8_t *codes;
    const uint8_t *bricks;
    uint64_t stride;
    const uint32_t *rows, *weights;
    uint32_t m, k, *key, *checks;
    bool i4;
};

static void run_row_checks(void *context)
{
    struct key_call *c = context;
    c->kernels->row_checks(c->codes, c->stride, c->rows, c->m, c->key, c->k, c->checks);
}

static void run_key(void *context)
{
    struct key_call *c = context;
    (c->i4 ? c->kernels->key_i4 : c->kernels->key_i8)(c->bricks, c->k / 32, c->weights, c->key);
}

static void check_row_checks(struct harness *h, uint32_t m, uint32_t k)
{
    const uint32_t existing = m + random_below(&h->seed, 4);
    const uint64_t stride = k + random_below(&h->seed, 40);
    struct guarded codes = allocate(h, (existing - 1) * stride + k), rows = random_rows(h, m, existing);
    struct guarded key = allocate(h, (size_t)k * 4), checks = allocate(h, (size_t)m * 4);
    struct guarded reference = guarded_allocate(checks.size_bytes);
    random_bytes(h, codes.data, codes.size_bytes);
    random_bytes(h, key.data, key.size_bytes);
    for (uint32_t table = 0; table < h->table_count; table++) {
        struct key_call c = {.kernels = &h->tables[table].surface,
                             .codes = codes.data,
                             .stride = stride,
                             .rows = rows.data,
                             .m = m,
                             .k = k,
                             .key = key.data,
                             .checks = checks.data};
        memset(checks.data, 0x55, checks.size_bytes);
        harness_now("%s row_checks m=%u k=%u", c.kernels->name, m, k);
        bool good = harness_survives(run_row_checks, &c);
        for (uint32_t i = 0; i < m && good && table == 0; i++) {
            int64_t want = 0x55555555;
            for (uint32_t j = 0; j < k; j++)
                want += (int64_t)c.codes[row_of(c.rows, i) * stride + j] * c.key[j];
            good = c.checks[i] == (uint32_t)want;
        }
        harness_check(h, good, "%s row_checks m=%u k=%u is wrong", c.kernels->name, m, k);
        compare(h, table, &checks, &reference, "row_checks", m, 0, k);
    }
    guarded_free(&codes);
    guarded_free(&rows);
    guarded_free(&key);
    guarded_free(&checks);
    guarded_free(&reference);
}

/* B of one group of channels in the NPU's order. */
static int32_t group_code(const uint8_t *bricks, bool i4, uint64_t n, uint64_t k)
{
    if (!i4)
        return (int8_t)bricks[(k / 32) * 1024 + n * 32 + k % 32];
    uint64_t q = (k / 32) * 2048 + n * 32 + k % 32;
    int32_t nibble = q % 2 ? bricks[q / 2] >> 4 : bricks[q / 2] & 15;
    return nibble > 7 ? nibble - 16 : nibble;
}

static void check_key(struct harness *h, uint32_t k, bool i4)
{
    const uint32_t channels = i4 ? 64 : 32;
    struct guarded bricks = allocate(h, (size_t)k * 32), weights = allocate(h, channels * 4);
    struct guarded key = allocate(h, (size_t)k * 4), reference = guarded_allocate(key.size_bytes);
    random_bytes(h, bricks.data, bricks.size_bytes);
    random_bytes(h, weights.data, weights.size_bytes);
    for (uint32_t table = 0; table < h->table_count; table++) {
        struct key_call c = {.kernels = &h->tables[table].surface,
                             .bricks = bricks.data,
                             .weights = weights.data,
                             .k = k,
                             .key = key.data,
                             .i4 = i4};
        memset(key.data, 0x55, key.size_bytes);
        harness_now("%s key i4=%d k=%u", c.kernels->name, i4, k);
        bool good = harness_survives(run_key, &c);
        for (uint32_t j = 0; j < k && good && table == 0; j++) {
            int64_t want = 0x55555555;
            for (uint32_t n = 0; n < channels; n++)
                want += (int64_t)group_code(c.bricks, i4, n, j) * c.weights[n];
            good = c.key[j] == (uint32_t)want;
        }
        harness_check(h, good, "%s key i4=%d k=%u is wrong", c.kernels->name, i4, k);
        compare(h, table, &key, &reference, i4 ? "key_i4" : "key_i8", 0, channels, k);
    }
    guarded_free(&bricks);
    guarded_free(&weights);
    guarded_free(&key);
    guarded_free(&reference);
}

/* ---- bricks into int8 bricks ---- */

struct inflate_call {
    const struct ork_surface_kernels *kernels;
    enum ork_tier tier;
    const int8_t *table;
    const uint8_t *bricks, *residual; /* the latter of n8 alone */
    uint32_t k_tiles;
    uint8_t *out;
};

static void run_inflate(void *context)
{
    struct inflate_call *c = context;
    c->kernels->inflate(c->tier, c->table, c->bricks, c->residual, c->k_tiles, c->out);
}

/* The code of (c, i) of one brick group as docs/orkpack-format.md 6 says. */
static int32_t packed_code(const struct inflate_call *call, uint32_t c, uint32_t i)
{
    const enum ork_tier tier = call->tier;
    const uint8_t *bricks = call->bricks;
    const uint32_t p = tier == ORK_TIER_I5 ? 1 : tier == ORK_TIER_I6 ? 2 : 0, j = (i % 32) / 2;
    if (p == 0) {
        const uint32_t at = (i / 32) * 1024 + (c % 64) * 16 + j, shift = i % 2 * 4;
        const int32_t nibble = bricks[at] >> shift & 15;
        const int32_t code = call->table ? call->table[nibble] : nibble > 7 ? nibble - 16 : nibble;
        if (tier != ORK_TIER_N8)
            return code;
        const int32_t more = call->residual[at] >> shift & 15;
        return (int8_t)(code + 2 * (more > 7 ? more - 16 : more)); /* random bytes: mod 256 */
    }
    const uint32_t part_channels = 16 / p, part_bytes = 64 + 16 * part_channels;
    const uint8_t *part = bricks + (uint64_t)(i / 32) * 4 * p * part_bytes + (c % 64) / part_channels * part_bytes;
    uint32_t nibble = part[64 + c % part_channels * 16 + j] >> 4 * (i % 2) & 15;
    uint32_t upper = part[c % 4 * 16 + j] >> (p * (c % part_channels / 4) + 4 * (i % 2)) & ((1u << p) - 1);
    int32_t code = (int32_t)(16 * upper + nibble);
    return code >= 8 << p ? code - (16 << p) : code;
}

static void check_inflate(struct harness *h, enum ork_tier tier, uint32_t k_tiles)
{
    const uint32_t brick_bytes = tier == ORK_TIER_I5 ? 1280 : tier == ORK_TIER_I6 ? 1536 : 1024;
    struct guarded bricks = allocate(h, (size_t)k_tiles * brick_bytes), table_memory = allocate(h, 16);
    struct guarded residual = allocate(h, (size_t)k_tiles * 1024);
    struct guarded out = allocate(h, (size_t)k_tiles * 2048), reference = guarded_allocate(out.size_bytes);
    random_bytes(h, bricks.data, bricks.size_bytes);
    random_bytes(h, table_memory.data, 16);
    random_bytes(h, residual.data, residual.size_bytes);
    for (uint32_t table = 0; table < h->table_count; table++) {
        struct inflate_call c = {&h->tables[table].surface,
                                 tier,
                                 ork_tier_has_table(tier) ? table_memory.data : NULL,
                                 bricks.data,
                                 tier == ORK_TIER_N8 ? residual.data : NULL,
                                 k_tiles,
                                 out.data};
        memset(out.data, 0x55, out.size_bytes);
        harness_now("%s inflate tier=%d tiles=%u", c.kernels->name, tier, k_tiles);
        bool good = harness_survives(run_inflate, &c);
        for (uint32_t n = 0; n < 64 && good && table == 0; n++)
            for (uint32_t k = 0; k < k_tiles * 32 && good; k++)
                good = (int8_t)c.out[(n / 32) * (k_tiles * 1024) + (k / 32) * 1024 + (n % 32) * 32 + k % 32] ==
                       packed_code(&c, n, k);
        harness_check(h, good, "%s inflate tier=%d tiles=%u is wrong", c.kernels->name, tier, k_tiles);
        compare(h, table, &out, &reference, "inflate", 0, 64, k_tiles * 32);
    }
    guarded_free(&bricks);
    guarded_free(&table_memory);
    guarded_free(&residual);
    guarded_free(&out);
    guarded_free(&reference);
}

/* Values of the formula in kernels/surfaces.h, computed apart (Python's integers); any part of the sequence is the same. */
static void check_weights(struct harness *h)
{
    static const uint32_t want[8] = {0x92CA2F0F, 0x96A0F96B, 0xB4421BBB, 0xED81DED3,
                                     0x589FD749, 0x582531C1, 0x7AAE1ACF, 0x2316A329};
    uint32_t weights[8] = {0}, part[3] = {0};
    ork_surface_weights(0, 8, weights);
    ork_surface_weights(4, 3, part);
    harness_check(h, memcmp(weights, want, sizeof want) == 0, "surface weights are wrong");
    harness_check(h, memcmp(part, want + 4, sizeof part) == 0, "surface weights depend on where they begin");
}

void check_surfaces(struct harness *h)
{
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 48, 97};
    enum { ROW_COUNT = sizeof rows / sizeof rows[0] };
    const uint32_t repeats = h->quick ? 2 : 12;
    check_weights(h);
    for (uint32_t repeat = 0; repeat < repeats; repeat++) {
        for (uint32_t i = 0; i < ROW_COUNT; i++) {
            uint32_t k = 32 * (1 + random_below(&h->seed, 12)), n = 32 * (1 + random_below(&h->seed, 8));
            check_input(h, rows[i], k, false);
            check_input(h, rows[i], k, true);
            check_row_checks(h, rows[i], k);
            for (int kind = SURFACE_OUTPUT_I32; kind <= SURFACE_OUTPUT_I16; kind++)
                check_output(h, kind, rows[i], n);
        }
        for (uint32_t tiles = 1; tiles <= 5; tiles++) {
            static const enum ork_tier tiers[] = {ORK_TIER_I4, ORK_TIER_NF4, ORK_TIER_I5, ORK_TIER_I6, ORK_TIER_N8};
            check_key(h, tiles * 32, false);
            check_key(h, tiles * 32, true);
            for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
                check_inflate(h, tiers[i], tiles);
        }
    }
}
