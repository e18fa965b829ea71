/* Guards groups of one row beside which another engine computes chains: what comes in time stands in place of the CPU's
 * result, bit for bit as if that matrix alone were the full one; what does not leaves the bits of the CPU alone; a chain's
 * input has one scale whatever the CPU's has; late results are corrected by exactly what was added; several rows are never
 * asked for. The other engine here has the kernel table, and answers by a mask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/naive.h"
#include "engine/overlay.h"
#include "quant/nested.h"

enum { OUTPUTS = 4, CHAINS = 3, MEMBERS = 6, WIDTH_MAX = 700, THREADS_MAX = 3, VARIANT_STEP = ORK_SLOW_BUILD ? 5 : 1 };
static const float eps = 1e-5f;
static const uint32_t blocks[] = {32, UINT32_MAX};

/* A matrix as the CPU reads it, and the one behind it. */
struct pair {
    struct matrix made, other;
    struct ork_matrix own, full;
    bool is_thin; /* a chain has some of its channels alone */
};

/* Both of a nested matrix; of other tiers the full one is another matrix of its shape, in i8. */
static void pair_create(struct pair *pair, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t *seed)
{
    matrix_create(&pair->made, tier, n, k, 1, seed);
    pair->own = pair->full = pair->made.stored;
    if (tier == ORK_TIER_N8) {
        pair->own = ork_nested_base(&pair->full);
    } else {
        matrix_create(&pair->other, ORK_TIER_I8, n, k, 1, seed);
        pair->full = pair->other.stored;
    }
    pair->is_thin = *seed & 1;
}

/* Whether a chain has a channel of a thin matrix. */
static bool is_in_chain(const struct pair *pair, uint32_t channel)
{
    return !pair->is_thin || channel % 3 == 1 || channel % 7 == 2;
}

static void pair_destroy(struct pair *pair)
{
    matrix_destroy(&pair->made);
    matrix_destroy(&pair->other); /* of zeros, if there is none */
}

static struct ork_activation make_activation(const float *values, uint32_t k, uint32_t block)
{
    const uint32_t padded = (k + 31) / 32 * 32;
    struct ork_activation x = {.rows = 1,
                               .k = k,
                               .k_padded = padded,
                               .block = block < padded ? block : padded,
                               .f32 = values,
                               .f32_stride = k,
                               .plain = calloc(padded, 1),
                               .split = calloc(padded, 1)};
    x.blocks = (padded + x.block - 1) / x.block;
    x.scales = calloc(x.blocks, sizeof *x.scales);
    x.sums = calloc(x.blocks, sizeof *x.sums);
    assert_true(x.plain && x.split && x.scales && x.sums);
    return x;
}

static void free_activation(struct ork_activation *x)
{
    free(x->plain);
    free(x->split);
    free(x->scales);
    free(x->sums);
}

/* y = W x as the kernel table does it, on codes with so many inputs a scale. */
static void multiply(const struct ork_kernels *kernels, const struct ork_matrix *w, const float *values, uint32_t block,
                     float *y)
{
    struct ork_activation x = make_activation(values, w->k, block);
    kernels->vector.quantize(&x, 0);
    const struct ork_matmul_args args = {.w = w, .x = &x, .m = 1, .n_end = w->n, .y = y, .y_stride = w->n};
    kernels->matmul[w->tier].run(&args);
    free_activation(&x);
}

/* What the CPU computes, or with a chain that came in time. */
static void multiply_pair(const struct ork_kernels *kernels, const struct pair *pair, bool replaced,
                          const float *values, uint32_t block, float *y)
{
    float full[WIDTH_MAX];
    multiply(kernels, &pair->own, values, block, y);
    if (!replaced)
        return;
    multiply(kernels, &pair->full, values, UINT32_MAX, full);
    for (uint32_t c = 0; c < pair->own.n; c++)
        if (is_in_chain(pair, c))
            y[c] = full[c];
}

/* ---- the other engine ---- */

struct member {
    const struct pair *pair;
    struct ork_overlay_part part;
    uint32_t channels[WIDTH_MAX];
};

struct fake {
    struct ork_overlay interface;
    const struct ork_kernels *kernels;
    struct member members[MEMBERS];
    uint32_t member_count;
    uint32_t busy, in_time; /* masks of chains */
    bool is_taken;          /* says beforehand that nothing will be begun: then there must be no input */
    float results[CHAINS][2 * WIDTH_MAX];
    float own[CHAINS][WIDTH_MAX];
    bool is_kept[CHAINS];
    uint32_t due[CHAINS];
    enum { NOTHING, BEGUN, LENT } states[CHAINS];
    uint32_t begun, polled, done, kept, forgotten, corrections; /* calls */
    const char *violation;
};

static const struct ork_overlay_part *find(void *context, const struct ork_matrix *w)
{
    const struct fake *fake = context;
    for (uint32_t i = 0; i < fake->member_count; i++)
        if (&fake->members[i].pair->own == w)
            return &fake->members[i].part;
    return NULL;
}

static bool is_free(void *context, uint32_t chain)
{
    const struct fake *fake = context;
    (void)chain;
    return !fake->is_taken;
}

/* The input must be what quantizing its own floats with one scale gives. */
static void check_input(struct fake *fake, const struct ork_activation *x)
{
    struct ork_activation again = make_activation(x->f32, x->k, UINT32_MAX);
    fake->kernels->vector.quantize(&again, 0);
    if (x->rows != 1 || x->block != x->k_padded || x->blocks != 1 || x->k_padded != again.k_padded)
        fake->violation = "an input of another shape";
    else if (memcmp(x->plain, again.plain, x->k_padded) != 0 || x->scales[0] != again.scales[0])
        fake->violation = "codes or a scale that do not belong to the row";
    free_activation(&again);
}

static bool begin(void *context, uint32_t chain, const struct ork_activation *x)
{
    struct fake *fake = context;
    if (fake->states[chain] != NOTHING)
        fake->violation = "begun while it is under way";
    fake->begun++;
    if (fake->is_taken != !x)
        fake->violation = "an input that nobody wanted, or none";
    if (x)
        check_input(fake, x);
    if (!x || fake->busy >> chain & 1)
        return false;
    for (uint32_t i = 0; i < 2 * WIDTH_MAX; i++)
        fake->results[chain][i] = 1e9f; /* what is not a member's */
    for (uint32_t i = 0; i < fake->member_count; i++) {
        const struct ork_overlay_part *part = &fake->members[i].part;
        float full[WIDTH_MAX];
        if (part->chain != chain)
            continue;
        multiply(fake->kernels, &fake->members[i].pair->full, x->f32, UINT32_MAX, full);
        for (uint32_t c = 0; c < part->count; c++)
            fake->results[chain][part->first + c] = full[part->channels[c]];
    }
    fake->states[chain] = BEGUN;
    fake->is_kept[chain] = false;
    return true;
}

static const float *poll(void *context, uint32_t chain)
{
    struct fake *fake = context;
    const bool in_time = fake->in_time >> chain & 1;
    if (fake->states[chain] != BEGUN || fake->interface.late)
        fake->violation = "asked for what is not under way";
    fake->polled++;
    fake->states[chain] = in_time ? LENT : NOTHING;
    return in_time ? fake->results[chain] : NULL;
}

static void done(void *context, uint32_t chain)
{
    struct fake *fake = context;
    if (fake->states[chain] != LENT)
        fake->violation = "given back without having it";
    fake->done++;
    fake->states[chain] = NOTHING;
}

/* A late chain has one member. */
static const struct ork_overlay_part *part_of(const struct fake *fake, uint32_t chain)
{
    const struct member *member = fake->members;
    while (member->part.chain != chain)
        member++;
    return &member->part;
}

static void keep(void *context, uint32_t chain, const float *own)
{
    struct fake *fake = context;
    const struct ork_overlay_part *part = part_of(fake, chain);
    if (fake->states[chain] != BEGUN || !fake->interface.late || fake->is_kept[chain])
        fake->violation = "kept without reason, or twice";
    for (uint32_t c = 0; c < part->count; c++)
        fake->own[chain][c] = own[part->channels[c]];
    fake->is_kept[chain] = true;
    fake->kept++;
}

static bool next_correction(void *context, uint32_t layer, struct ork_overlay_correction *correction)
{
    struct fake *fake = context;
    for (uint32_t c = 0; c < CHAINS; c++) {
        if (fake->states[c] != BEGUN || fake->due[c] > layer)
            continue;
        fake->states[c] = NOTHING;
        if (!(fake->in_time >> c & 1))
            continue;
        if (!fake->is_kept[c])
            fake->violation = "a correction of what was not kept";
        *correction = (struct ork_overlay_correction){fake->results[c], fake->own[c], part_of(fake, c)};
        fake->corrections++;
        return true;
    }
    return false;
}

static void forget(void *context)
{
    struct fake *fake = context;
    fake->forgotten++;
    memset(fake->states, 0, sizeof fake->states);
}

static void fake_make(struct fake *fake, bool late)
{
    ork_error error;
    *fake = (struct fake){
        .interface = {fake, late, find, is_free, begin, poll, done, keep, next_correction, forget},
    };
    assert_int_equal(ork_kernels_get(&fake->kernels, &error), ORK_OK);
}

static void fake_add(struct fake *fake, const struct pair *pair, uint32_t chain, uint32_t first)
{
    assert_true(fake->member_count < MEMBERS);
    struct member *member = &fake->members[fake->member_count++];
    *member = (struct member){.pair = pair, .part = {chain, first, 0, member->channels}};
    for (uint32_t c = 0; c < pair->own.n; c++)
        if (is_in_chain(pair, c))
            member->channels[member->part.count++] = c;
}

static void check_fake(struct fake *fake)
{
    if (fake->violation)
        fail_msg("%s", fake->violation);
    for (uint32_t c = 0; c < CHAINS; c++)
        assert_true(fake->interface.late || fake->states[c] == NOTHING);
}

static ork_cpu *create(uint32_t threads, uint32_t block, uint32_t rows, const struct ork_overlay *overlay)
{
    ork_error error;
    ork_cpu *cpu;
    const struct ork_cpu_config config = {
        .threads = threads,
        .spin_us = 20,
        .activation_block = block,
        .limits = {.rows = rows, .input_k = WIDTH_MAX, .output_n = WIDTH_MAX, .hidden = WIDTH_MAX}};
    if (ork_cpu_create(&config, &cpu, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    ork_cpu_set_overlay(cpu, overlay);
    return cpu;
}

/* ---- projection groups ---- */

/* Four outputs: of chain 0 (with a bias), in floats on the CPU, of chain 0 again (added, with a bias), of none. */
struct projection {
    struct pair pairs[OUTPUTS];
    struct ork_cpu_output outputs[OUTPUTS];
    uint32_t k;
    float norm[WIDTH_MAX], bias[WIDTH_MAX], x[WIDTH_MAX], stream[WIDTH_MAX];
    bool has_norm;
};

static void projection_create(struct projection *p, uint32_t variant)
{
    static const uint32_t inputs[] = {64, 333, 700}, widths[OUTPUTS] = {100, 33, 65, 128};
    static const enum ork_tier tiers[][OUTPUTS] = {{ORK_TIER_N8, ORK_TIER_F16, ORK_TIER_N8, ORK_TIER_NF4},
                                                   {ORK_TIER_I4, ORK_TIER_N8, ORK_TIER_NF4, ORK_TIER_F32},
                                                   {ORK_TIER_F16, ORK_TIER_F32, ORK_TIER_F16, ORK_TIER_F32}};
    uint32_t seed = variant + 1;
    *p = (struct projection){.k = inputs[variant % 3], .has_norm = variant % 2};
    fill_random(p->norm, WIDTH_MAX, &seed);
    fill_random(p->bias, WIDTH_MAX, &seed);
    fill_random(p->x, WIDTH_MAX, &seed);
    fill_random(p->stream, WIDTH_MAX, &seed);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        pair_create(&p->pairs[i], tiers[variant % 4 % 3][i], widths[i], p->k, &seed);
        p->outputs[i] = (struct ork_cpu_output){.w = &p->pairs[i].own, .y_stride = widths[i]};
    }
    p->outputs[0].bias = p->bias;
    p->outputs[2].bias = variant % 5 ? p->bias + 1 : NULL;
    p->outputs[2].add = true;
}

static void projection_destroy(struct projection *p)
{
    for (uint32_t i = 0; i < OUTPUTS; i++)
        pair_destroy(&p->pairs[i]);
}

/* Results of all outputs, one behind the other; of the added one the stream. */
static void project(ork_cpu *cpu, const struct projection *p, float y[OUTPUTS][WIDTH_MAX])
{
    struct ork_cpu_output outputs[OUTPUTS];
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        outputs[i] = p->outputs[i];
        outputs[i].y = y[i];
        memcpy(y[i], p->stream, sizeof y[i]);
    }
    ork_cpu_project(cpu, p->x, p->k, 1, p->has_norm ? p->norm : NULL, eps, outputs, OUTPUTS);
}

/* The same by the definition; replaced: mask of outputs. part: the added one's before bias and sum. */
static void project_by_definition(const struct ork_kernels *kernels, const struct projection *p, uint32_t block,
                                  uint32_t replaced, float y[OUTPUTS][WIDTH_MAX], float *part)
{
    float h[WIDTH_MAX];
    memcpy(h, p->x, sizeof h);
    if (p->has_norm)
        kernels->vector.rms_norm(h, p->x, p->norm, p->k, eps);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        const struct ork_cpu_output *output = &p->outputs[i];
        float result[WIDTH_MAX];
        multiply_pair(kernels, &p->pairs[i], replaced >> i & 1, h, block, result);
        if (output->add)
            memcpy(part, result, output->w->n * sizeof *part);
        memcpy(y[i], p->stream, sizeof y[i]);
        for (uint32_t n = 0; n < output->w->n; n++) {
            const float sum = output->bias ? result[n] + output->bias[n] : result[n];
            y[i][n] = output->add ? y[i][n] + sum : sum;
        }
    }
}

static void test_project(void **state)
{
    (void)state;
    static struct projection p;
    static struct fake fake;
    for (uint32_t variant = 0; variant < 12; variant += VARIANT_STEP) {
        projection_create(&p, variant);
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t threads = 1; threads <= THREADS_MAX; threads++)
                for (uint32_t what = 0; what < 5; what++) { /* used, dropped, busy, not free, in no chain */
                    float y[OUTPUTS][WIDTH_MAX], want[OUTPUTS][WIDTH_MAX], part[WIDTH_MAX];
                    fake_make(&fake, false);
                    if (what < 4) {
                        fake_add(&fake, &p.pairs[2], 1, 128); /* not in the order of the outputs */
                        fake_add(&fake, &p.pairs[0], 1, 0);
                    }
                    fake.in_time = what == 0 ? 2 : 0;
                    fake.busy = what == 2 ? 2 : 0;
                    fake.is_taken = what == 3;
                    ork_cpu *cpu = create(threads, blocks[b], 1, &fake.interface);
                    project_by_definition(fake.kernels, &p, blocks[b], what == 0 ? 5 : 0, want, part);
                    for (uint32_t again = 0; again < 2; again++) {
                        project(cpu, &p, y);
                        if (memcmp(y, want, sizeof y) != 0)
                            fail_msg("variant %u, block %u, %u threads, %u", variant, blocks[b], threads, what);
                    }
                    check_fake(&fake);
                    assert_int_equal(fake.begun, what < 4 ? 2 : 0);
                    assert_int_equal(fake.polled, what < 2 ? 2 : 0);
                    assert_int_equal(fake.done, what < 1 ? 2 : 0);
                    assert_int_equal(fake.kept + fake.corrections, 0);
                    ork_cpu_destroy(cpu);
                }
        projection_destroy(&p);
    }
}

/* What was added is kept without its bias; the correction is the difference, and nothing where the results are equal. */
static void test_late_project(void **state)
{
    (void)state;
    static struct projection p;
    static struct fake fake;
    for (uint32_t variant = 0; variant < 12; variant += VARIANT_STEP) {
        projection_create(&p, variant);
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t what = 0; what < 3; what++) { /* in time, not, the same matrix */
                const uint32_t threads = 1 + (variant + what) % THREADS_MAX;
                float y[OUTPUTS][WIDTH_MAX], want[OUTPUTS][WIDTH_MAX], part[WIDTH_MAX], before[WIDTH_MAX];
                struct ork_matrix full = p.pairs[2].full;
                fake_make(&fake, true);
                fake_add(&fake, &p.pairs[2], 2, 0);
                fake.in_time = what == 1 ? 0 : 4;
                fake.due[2] = 5;
                if (what == 2)
                    p.pairs[2].full = p.pairs[2].own;
                ork_cpu *cpu = create(threads, blocks[b], 2, &fake.interface);
                project_by_definition(fake.kernels, &p, blocks[b], 0, want, part);
                project(cpu, &p, y);
                assert_memory_equal(y, want, sizeof y);
                assert_int_equal(fake.kept, 1);
                const struct ork_overlay_part *chosen = part_of(&fake, 2);
                float due[WIDTH_MAX] = {0};
                for (uint32_t c = 0; c < chosen->count; c++) {
                    assert_memory_equal(&fake.own[2][c], &part[chosen->channels[c]], sizeof *part);
                    due[chosen->channels[c]] = what == 1 ? 0 : fake.results[2][c] - part[chosen->channels[c]];
                }
                memcpy(before, y[2], sizeof before);
                ork_cpu_begin_layer(cpu, 4, y[2], 1);
                assert_memory_equal(y[2], before, sizeof before);
                ork_cpu_begin_layer(cpu, 5, y[2], 2); /* several rows */
                assert_memory_equal(y[2], before, sizeof before);
                ork_cpu_begin_layer(cpu, 5, y[2], 1);
                for (uint32_t i = 0; i < WIDTH_MAX; i++) {
                    assert_true(y[2][i] == before[i] + due[i]);
                    /* Codes with one scale a row and equal matrices: equal results. */
                    assert_true(what != 2 || blocks[b] != UINT32_MAX || due[i] == 0);
                }
                assert_int_equal(fake.corrections, what != 1);
                ork_cpu_begin_layer(cpu, 5, y[2], 1);
                assert_int_equal(fake.corrections, what != 1);
                assert_int_equal(fake.polled + fake.forgotten, 0);
                ork_cpu_break_pass(cpu);
                assert_int_equal(fake.forgotten, 1);
                check_fake(&fake);
                p.pairs[2].full = full;
                ork_cpu_destroy(cpu);
            }
        projection_destroy(&p);
    }
}

/* ---- feed-forward groups ---- */

enum { GATE, UP, DOWN, PARTS };
struct feed_forward {
    struct pair pairs[PARTS];
    uint32_t k, f;
    float norm[WIDTH_MAX], x[2 * WIDTH_MAX];
};

static void feed_forward_create(struct feed_forward *layer, uint32_t variant)
{
    static const uint32_t shapes[][2] = {{96, 150}, {700, 333}, {65, 640}};
    static const enum ork_tier tiers[][PARTS] = {{ORK_TIER_N8, ORK_TIER_N8, ORK_TIER_N8},
                                                 {ORK_TIER_NF4, ORK_TIER_N8, ORK_TIER_I4},
                                                 {ORK_TIER_N8, ORK_TIER_F32, ORK_TIER_F16},
                                                 {ORK_TIER_F16, ORK_TIER_F16, ORK_TIER_F32}};
    uint32_t seed = variant + 77, k = shapes[variant % 3][0], f = shapes[variant % 3][1];
    *layer = (struct feed_forward){.k = k, .f = f};
    fill_random(layer->norm, WIDTH_MAX, &seed);
    fill_random(layer->x, 2 * WIDTH_MAX, &seed);
    for (uint32_t i = 0; i < PARTS; i++)
        pair_create(&layer->pairs[i], tiers[variant % 4][i], i == DOWN ? k : f, i == DOWN ? f : k, &seed);
}

static void feed_forward_destroy(struct feed_forward *layer)
{
    for (uint32_t i = 0; i < PARTS; i++)
        pair_destroy(&layer->pairs[i]);
}

static void run_feed_forward(ork_cpu *cpu, const struct feed_forward *layer, uint32_t rows, float *x)
{
    const struct ork_cpu_swiglu swiglu = {layer->norm, eps, &layer->pairs[GATE].own, &layer->pairs[UP].own,
                                          &layer->pairs[DOWN].own};
    memcpy(x, layer->x, sizeof layer->x);
    ork_cpu_swiglu(cpu, &swiglu, x, WIDTH_MAX, rows);
}

static void feed_forward_by_definition(const struct ork_kernels *kernels, const struct feed_forward *layer,
                                       uint32_t block, uint32_t replaced, float *x, float *part)
{
    float h[WIDTH_MAX], gate[WIDTH_MAX], up[WIDTH_MAX];
    memcpy(x, layer->x, sizeof layer->x);
    kernels->vector.rms_norm(h, x, layer->norm, layer->k, eps);
    multiply_pair(kernels, &layer->pairs[GATE], replaced >> GATE & 1, h, block, gate);
    multiply_pair(kernels, &layer->pairs[UP], replaced >> UP & 1, h, block, up);
    kernels->vector.silu_multiply(gate, gate, up, layer->f);
    multiply_pair(kernels, &layer->pairs[DOWN], replaced >> DOWN & 1, gate, block, part);
    kernels->vector.add(x, x, part, layer->k);
}

/* chains: mask of gate, up, down that are members; gate and up share chain 0, down is chain 1. */
static void check_feed_forward(const struct feed_forward *layer, uint32_t chains, uint32_t in_time, uint32_t busy,
                               uint32_t threads, uint32_t block)
{
    static struct fake fake;
    float x[2 * WIDTH_MAX], want[2 * WIDTH_MAX], part[WIDTH_MAX];
    uint32_t replaced = 0, began = 0;
    fake_make(&fake, false);
    fake.in_time = in_time;
    fake.busy = busy;
    fake.is_taken = busy == 3;
    for (uint32_t i = 0; i < PARTS; i++) {
        const uint32_t chain = i == DOWN;
        if (!(chains >> i & 1))
            continue;
        fake_add(&fake, &layer->pairs[i], chain, i == GATE ? WIDTH_MAX : 0);
        began |= 1u << chain;
        replaced |= (in_time & ~busy) >> chain & 1 ? 1u << i : 0;
    }
    feed_forward_by_definition(fake.kernels, layer, block, replaced, want, part);
    ork_cpu *cpu = create(threads, block, 1, &fake.interface);
    for (uint32_t again = 0; again < 2; again++) {
        run_feed_forward(cpu, layer, 1, x);
        if (memcmp(x, want, sizeof x) != 0)
            fail_msg("%u x %u, members %x, in time %x, busy %x, %u threads, block %u", layer->f, layer->k, chains,
                     in_time, busy, threads, block);
    }
    check_fake(&fake);
    assert_int_equal(fake.begun, 2 * __builtin_popcount(began));
    assert_int_equal(fake.polled, 2 * __builtin_popcount(began & ~busy));
    assert_int_equal(fake.done, 2 * __builtin_popcount(began & ~busy & in_time));
    ork_cpu_destroy(cpu);
}

static void test_feed_forward(void **state)
{
    (void)state;
    static struct feed_forward layer;
    for (uint32_t variant = 0; variant < 12; variant += VARIANT_STEP) {
        feed_forward_create(&layer, variant);
        for (uint32_t chains = 0; chains < 8; chains++)
            for (uint32_t answer = 0; answer < 5; answer++)
                check_feed_forward(&layer, chains, answer < 4 ? answer : 3, answer < 4 ? 0 : 1 + chains % 3,
                                   1 + (chains + answer) % THREADS_MAX, blocks[(chains + answer + variant) % 2]);
        feed_forward_destroy(&layer);
    }
}

/* Late: down's part is kept as it was added. gate and up do not write the stream: they are never replaced nor kept. */
static void test_late_feed_forward(void **state)
{
    (void)state;
    static struct feed_forward layer;
    static struct fake fake;
    for (uint32_t variant = 0; variant < 12; variant += VARIANT_STEP) {
        feed_forward_create(&layer, variant);
        for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
            float x[2 * WIDTH_MAX], want[2 * WIDTH_MAX], part[WIDTH_MAX];
            const uint32_t block = blocks[(variant + threads) % 2];
            fake_make(&fake, true);
            fake_add(&fake, &layer.pairs[UP], 0, 0);
            fake_add(&fake, &layer.pairs[DOWN], 1, 0);
            fake.in_time = 2;
            feed_forward_by_definition(fake.kernels, &layer, block, 0, want, part);
            ork_cpu *cpu = create(threads, block, 1, &fake.interface);
            run_feed_forward(cpu, &layer, 1, x);
            assert_memory_equal(x, want, sizeof x);
            assert_int_equal(fake.begun, 2);
            assert_int_equal(fake.kept, 1);
            const struct ork_overlay_part *chosen = part_of(&fake, 1);
            for (uint32_t c = 0; c < chosen->count; c++) {
                const uint32_t channel = chosen->channels[c];
                assert_memory_equal(&fake.own[1][c], &part[channel], sizeof *part);
                want[channel] += fake.results[1][c] - part[channel];
            }
            ork_cpu_begin_layer(cpu, 0, x, 1);
            assert_memory_equal(x, want, sizeof x);
            assert_int_equal(fake.corrections, 1);
            check_fake(&fake);
            ork_cpu_destroy(cpu);
        }
        feed_forward_destroy(&layer);
    }
}

/* ---- several rows, and none ---- */

static void test_several_rows_are_never_asked_for(void **state)
{
    (void)state;
    static struct feed_forward layer;
    static struct projection p;
    static struct fake fake;
    for (uint32_t late = 0; late < 2; late++) {
        float x[2 * WIDTH_MAX], want[2 * WIDTH_MAX], y[2 * WIDTH_MAX], want_y[2 * WIDTH_MAX];
        feed_forward_create(&layer, 0);
        projection_create(&p, 0);
        fake_make(&fake, late);
        fake.in_time = 7;
        for (uint32_t i = 0; i < PARTS; i++)
            fake_add(&fake, &layer.pairs[i], i == DOWN, 0);
        fake_add(&fake, &p.pairs[0], 2, 0);
        struct ork_cpu_output output = p.outputs[0];
        for (uint32_t with = 0; with < 2; with++) {
            ork_cpu *cpu = create(2, 32, 2, with ? &fake.interface : NULL);
            run_feed_forward(cpu, &layer, 2, with ? x : want);
            output.y = with ? y : want_y;
            ork_cpu_project(cpu, layer.x, WIDTH_MAX, 2, NULL, eps, &output, 1);
            ork_cpu_begin_layer(cpu, 1, x, 2);
            ork_cpu_destroy(cpu);
        }
        assert_memory_equal(x, want, sizeof x);
        assert_memory_equal(y, want_y, 2 * output.y_stride * sizeof *y);
        assert_int_equal(fake.begun + fake.polled + fake.kept + fake.corrections, 0);
        check_fake(&fake);
        feed_forward_destroy(&layer);
        projection_destroy(&p);
    }
    ork_cpu *cpu = create(1, 32, 1, NULL); /* no overlay: nothing to ask and nothing to forget */
    float x = 1.0f;
    ork_cpu_begin_layer(cpu, 0, &x, 1);
    ork_cpu_break_pass(cpu);
    assert_true(x == 1.0f);
    ork_cpu_destroy(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_project),
        cmocka_unit_test(test_late_project),
        cmocka_unit_test(test_feed_forward),
        cmocka_unit_test(test_late_feed_forward),
        cmocka_unit_test(test_several_rows_are_never_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
