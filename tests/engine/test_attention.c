/* Guards attention: it equals its formula in double for odd head sizes, any number of query heads to a kv head, contexts
 * that are no multiple of a block or of a run of keys, and both cache types; and a row's bits depend neither on the rows
 * computed with it, nor on the threads, nor on what stands in the cache behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mathematics.h"
#include "engine/naive.h"

static const float eps = 1e-5f;

struct shape {
    uint32_t heads, heads_kv, size, pairs, context, count; /* count: positions of the test */
    bool halves, norms, keys_f32, values_f32;
};

/* Inputs of all positions, never changed; the engine gets copies because it works in place. */
struct sequence {
    struct shape shape;
    float *q, *k, *v, *cosine, *sine, *q_norm, *k_norm;
    void *keys, *values;
    uint64_t keys_bytes, values_bytes;
};

static void *allocate(uint64_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

static float *random_floats(uint64_t count, uint32_t *seed)
{
    float *values = allocate(count * sizeof *values);
    fill_random(values, count, seed);
    return values;
}

static void sequence_create(struct sequence *s, const struct shape *shape)
{
    uint32_t seed = shape->heads * 100 + shape->size;
    const uint64_t count = shape->count;
    *s = (struct sequence){.shape = *shape};
    s->q = random_floats(count * shape->heads * shape->size, &seed);
    s->k = random_floats(count * shape->heads_kv * shape->size, &seed);
    s->v = random_floats(count * shape->heads_kv * shape->size, &seed);
    s->q_norm = random_floats(shape->size, &seed);
    s->k_norm = random_floats(shape->size, &seed);
    s->cosine = allocate(count * shape->pairs * sizeof(float));
    s->sine = allocate(count * shape->pairs * sizeof(float));
    for (uint32_t t = 0; t < shape->count; t++)
        for (uint32_t i = 0; i < shape->pairs; i++) {
            s->cosine[t * shape->pairs + i] = (float)cos(t * pow(100.0, -(double)i / shape->pairs));
            s->sine[t * shape->pairs + i] = (float)sin(t * pow(100.0, -(double)i / shape->pairs));
        }
    uint64_t channels = (uint64_t)shape->heads_kv * shape->size;
    s->keys_bytes = channels * ((shape->context + 15) / 16 * 16) * (shape->keys_f32 ? 4 : 2);
    s->values_bytes = channels * shape->context * (shape->values_f32 ? 4 : 2);
    s->keys = allocate(s->keys_bytes);
    s->values = allocate(s->values_bytes);
}

static void sequence_destroy(struct sequence *s)
{
    void *parts[] = {s->q, s->k, s->v, s->cosine, s->sine, s->q_norm, s->k_norm, s->keys, s->values};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
}

static ork_cpu *create_engine(const struct shape *shape, uint32_t threads, uint32_t rows)
{
    ork_error error;
    ork_cpu *cpu;
    struct ork_cpu_config config = {.threads = threads,
                                    .spin_us = 20,
                                    .limits = {.rows = rows,
                                               .input_k = shape->heads * shape->size,
                                               .output_n = 1,
                                               .heads = shape->heads,
                                               .head_size = shape->size}};
    if (ork_cpu_create(&config, &cpu, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    return cpu;
}

/* Positions past .. past + rows - 1 into y, which has all positions. */
static void run(ork_cpu *cpu, const struct sequence *s, uint32_t past, uint32_t rows, float *y)
{
    const struct shape *shape = &s->shape;
    const uint64_t q = shape->heads * shape->size, kv = shape->heads_kv * shape->size;
    float *copies[3] = {allocate(rows * q * 4), allocate(rows * kv * 4), allocate(rows * kv * 4)};
    memcpy(copies[0], s->q + past * q, rows * q * 4);
    memcpy(copies[1], s->k + past * kv, rows * kv * 4);
    memcpy(copies[2], s->v + past * kv, rows * kv * 4);
    const struct ork_cpu_attention layer = {.q = copies[0],
                                            .k = copies[1],
                                            .v = copies[2],
                                            .q_stride = q,
                                            .kv_stride = kv,
                                            .y = y + past * q,
                                            .y_stride = q,
                                            .q_norm = shape->norms ? s->q_norm : NULL,
                                            .k_norm = shape->norms ? s->k_norm : NULL,
                                            .eps = eps,
                                            .cosine = s->cosine + (uint64_t)past * shape->pairs,
                                            .sine = s->sine + (uint64_t)past * shape->pairs,
                                            .pairs = shape->pairs,
                                            .rope_halves = shape->halves,
                                            .heads = shape->heads,
                                            .heads_kv = shape->heads_kv,
                                            .head_size = shape->size,
                                            .scale = 0.25f,
                                            .keys = s->keys,
                                            .values = s->values,
                                            .keys_f32 = shape->keys_f32,
                                            .values_f32 = shape->values_f32,
                                            .context = shape->context,
                                            .past = past};
    ork_cpu_attend(cpu, &layer, rows);
    for (int i = 0; i < 3; i++)
        free(copies[i]);
}

static void run_all(const struct sequence *s, uint32_t threads, uint32_t batch, float *y)
{
    ork_cpu *cpu = create_engine(&s->shape, threads, batch);
    for (uint32_t past = 0; past < s->shape.count; past += batch)
        run(cpu, s, past, s->shape.count - past < batch ? s->shape.count - past : batch, y);
    ork_cpu_destroy(cpu);
}

/* A head of one position after norm and rotation; through f16 where the cache is. */
static void naive_head(double *out, const struct sequence *s, const float *head, const float *norm, uint32_t t,
                       bool half)
{
    const struct shape *shape = &s->shape;
    double n[256];
    if (shape->norms)
        naive_norm(n, head, norm, shape->size, eps);
    for (uint32_t i = 0; i < shape->size; i++)
        out[i] = shape->norms ? n[i] : (double)head[i];
    for (uint32_t i = 0; i < shape->pairs; i++) {
        uint32_t first = shape->halves ? i : 2 * i, second = shape->halves ? i + shape->pairs : 2 * i + 1;
        double c = s->cosine[t * shape->pairs + i], sine = s->sine[t * shape->pairs + i], a = out[first],
               b = out[second];
        out[first] = a * c - b * sine;
        out[second] = a * sine + b * c;
    }
    for (uint32_t i = 0; i < shape->size && half; i++)
        out[i] = ork_f16_to_f32(ork_f32_to_f16((float)out[i]));
}

static void naive_attention(double *y, const struct sequence *s, uint32_t t, uint32_t head)
{
    const struct shape *shape = &s->shape;
    const uint32_t head_kv = head / (shape->heads / shape->heads_kv), size = shape->size;
    double q[256], k[256], sum = 0.0;
    naive_head(q, s, s->q + ((uint64_t)t * shape->heads + head) * size, s->q_norm, t, false);
    memset(y, 0, size * sizeof *y);
    for (uint32_t u = 0; u <= t; u++) {
        const float *v = s->v + ((uint64_t)u * shape->heads_kv + head_kv) * size;
        double dot = 0.0;
        naive_head(k, s, s->k + ((uint64_t)u * shape->heads_kv + head_kv) * size, s->k_norm, u, !shape->keys_f32);
        for (uint32_t i = 0; i < size; i++)
            dot += q[i] * k[i];
        double weight = exp(dot * 0.25);
        sum += weight;
        for (uint32_t i = 0; i < size; i++)
            y[i] += weight * (double)(shape->values_f32 ? v[i] : ork_f16_to_f32(ork_f32_to_f16(v[i])));
    }
    for (uint32_t i = 0; i < size; i++)
        y[i] /= sum;
}

static void check_formula(const struct sequence *s, const float *y, uint32_t t, uint32_t head)
{
    const struct shape *shape = &s->shape;
    double want[256];
    naive_attention(want, s, t, head);
    const float *have = y + ((uint64_t)t * shape->heads + head) * shape->size;
    /* A key that falls just to the other side of a half changes a score by 2^-11 of it. */
    const double tolerance = shape->keys_f32 ? 1e-5 : 1e-3;
    for (uint32_t i = 0; i < shape->size; i++)
        if (!(fabs((double)have[i] - want[i]) <= tolerance))
            fail_msg("heads %u/%u size %u: position %u head %u channel %u is %g, should be %g", shape->heads,
                     shape->heads_kv, shape->size, t, head, i, (double)have[i], want[i]);
}

/* heads, kv heads, size, pairs, context, positions, halves, norms, f32 keys, f32 values */
static const struct shape shapes[] = {
    {1, 1, 16, 0, 1, 1, false, false, true, true},        /* one position */
    {6, 2, 16, 8, 20, 16, true, true, true, true},        /* less than a block */
    {3, 1, 64, 32, 130, 129, false, false, false, false}, /* one more than two blocks */
    {9, 3, 64, 32, 203, 200, false, false, false, true},  /* blocks and parts of one */
    {4, 4, 20, 10, 70, 65, true, true, true, false},      /* no shared kv heads, odd size */
    {7, 1, 1, 0, 67, 67, false, false, true, true},       /* the least size */
    {2, 2, 33, 5, 77, 77, false, false, false, false},    /* odd size, part of it rotated */
    {100, 2, 8, 4, 90, 81, true, false, false, false},    /* more query heads than a tile has places */
    {32, 4, 128, 64, 80, 71, true, true, false, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void test_equals_its_formula(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct sequence s;
        sequence_create(&s, &shapes[i]);
        float *y = allocate((uint64_t)s.shape.count * s.shape.heads * s.shape.size * 4);
        run_all(&s, 3, s.shape.count, y);
        for (uint32_t t = 0; t < s.shape.count; t += t < 3 ? 1 : 7)
            for (uint32_t head = 0; head<s.shape.heads; head += s.shape.heads> 9 ? 11 : 1)
                check_formula(&s, y, t, head);
        free(y);
        sequence_destroy(&s);
    }
}

static void test_bits_depend_on_the_row_alone(void **state)
{
    (void)state;
    static const uint32_t variants[][2] = {{1, 1}, {3, 1}, {2, 7}, {1, 64}, {5, 1000}}; /* threads, rows together */
    for (int i = 0; i < SHAPES; i++) {
        struct sequence s;
        sequence_create(&s, &shapes[i]);
        uint64_t bytes = (uint64_t)s.shape.count * s.shape.heads * s.shape.size * 4;
        float *first = allocate(bytes), *y = allocate(bytes);
        for (size_t j = 0; j < sizeof variants / sizeof *variants; j++) {
            /* What an earlier timeline left behind must not matter: all bits set is NaN in both types. */
            memset(s.keys, 0xFF, s.keys_bytes);
            memset(s.values, 0xFF, s.values_bytes);
            run_all(&s, variants[j][0], variants[j][1], j ? y : first);
            if (j && memcmp(y, first, bytes) != 0)
                fail_msg("heads %u/%u size %u: %u threads with %u rows differ from one row after the other",
                         s.shape.heads, s.shape.heads_kv, s.shape.size, variants[j][0], variants[j][1]);
        }
        free(first);
        free(y);
        sequence_destroy(&s);
    }
}

/* Beyond 16 x 256 positions the parts grow: a batch across that border, single rows on both sides, and the formula. */
static void test_long_contexts(void **state)
{
    (void)state;
    enum { BATCH = 512, COUNT = 4096 + 300 };
    const struct shape shape = {2, 1, 16, 0, COUNT, COUNT, false, false, false, false};
    static const uint32_t positions[] = {255, 256, 257, 511, 2047, 4094, 4095, 4096, 4097, 4351, COUNT - 1};
    struct sequence s;
    sequence_create(&s, &shape);
    float *y = allocate((uint64_t)COUNT * 32 * 4), *alone = allocate((uint64_t)COUNT * 32 * 4);
    run_all(&s, 2, BATCH, y);
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        ork_cpu *cpu = create_engine(&shape, threads, 1);
        for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
            run(cpu, &s, positions[i], 1, alone);
            assert_memory_equal(alone + positions[i] * 32, y + positions[i] * 32, 32 * sizeof(float));
        }
        ork_cpu_destroy(cpu);
    }
    check_formula(&s, y, 2047, 0);
    check_formula(&s, y, COUNT - 1, 1);
    free(y);
    free(alone);
    sequence_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_its_formula),
        cmocka_unit_test(test_bits_depend_on_the_row_alone),
        cmocka_unit_test(test_long_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
