/* Owns the self-test: random products of every shape class, computed in plain integer arithmetic from their definition and
 * compared number by number. Knows no model. */
#include "engine/npu/self_test.h"

#include "base/error.h"
#include "engine/npu/compile.h"
#include "engine/npu/multiply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_shape {
    enum ork_npu_type type;
    uint32_t m, k, n;
    uint32_t channels_cap;
    const char *name;
};

/* m 0: the most rows of a task. The first is the brief test. */
static const struct test_shape test_shapes[] = {
    {ORK_NPU_W8A8, 5, 96, 96, 0, "a few rows"},
    {ORK_NPU_W8A8, 1, 64, 64, 0, "one row"},
    {ORK_NPU_W8A8, 0, 2048, 32, 0, "as many rows as a task takes"},
    {ORK_NPU_W8A8, 2, 8320, 32, 0, "slices of inputs"},
    {ORK_NPU_W8A8, 4, 64, 224, 96, "a chain with a last task of fewer channels"},
    {ORK_NPU_W4A4, 1, 64, 64, 0, "4 bits, one row"},
    {ORK_NPU_W4A4, 3, 1024, 128, 0, "4 bits, slices of inputs"},
};
#define TEST_SHAPES (sizeof test_shapes / sizeof *test_shapes)

struct test_data {
    struct test_shape shape;
    int8_t *a;  /* [m][k] */
    uint8_t *b; /* bricks */
    uint64_t b_bytes;
    uint32_t *key;  /* [k] */
    int32_t *right; /* [m][n] */
    int32_t *sums;  /* [m][n], what came */
};

static void data_free(struct test_data *data)
{
    free(data->a);
    free(data->b);
    free(data->key);
    free(data->right);
    free(data->sums);
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static int32_t brick_code(const struct test_data *data, uint32_t n, uint32_t k)
{
    uint32_t tiles = data->shape.k / 32;
    if (data->shape.type == ORK_NPU_W8A8)
        return (int8_t)data->b[((uint64_t)(n / 32) * tiles + k / 32) * 1024 + n % 32 * 32 + k % 32];
    uint8_t pair = data->b[((uint64_t)(n / 64) * tiles + k / 32) * 1024 + n % 64 * 16 + k % 32 / 2];
    int32_t nibble = k % 2 ? pair >> 4 : pair & 15;
    return nibble < 8 ? nibble : nibble - 16;
}

/* The definition, a row of weights at a time. */
static bool compute_right(struct test_data *data)
{
    int8_t *row = malloc(data->shape.k);
    for (uint32_t n = 0; n < data->shape.n && row; n++) {
        for (uint32_t k = 0; k < data->shape.k; k++)
            row[k] = (int8_t)brick_code(data, n, k);
        for (uint32_t m = 0; m < data->shape.m; m++) {
            const int8_t *a = data->a + (uint64_t)m * data->shape.k;
            int32_t sum = 0;
            for (uint32_t k = 0; k < data->shape.k; k++)
                sum += a[k] * row[k];
            data->right[(uint64_t)m * data->shape.n + n] = sum;
        }
    }
    bool done = row != NULL;
    free(row);
    return done;
}

static void compute_key(const ork_npu *npu, struct test_data *data)
{
    const struct test_shape *shape = &data->shape;
    uint32_t group = ork_npu_group(shape->type), tiles = shape->k / 32;
    memset(data->key, 0, shape->k * sizeof *data->key);
    for (uint32_t n = 0; n < shape->n; n += group) {
        const uint8_t *bricks = data->b + ork_npu_weight_bytes(shape->type, n, shape->k);
        if (shape->type == ORK_NPU_W8A8)
            npu->kernels->key_i8(bricks, tiles, npu->weights + n, data->key);
        else
            npu->kernels->key_i4(bricks, tiles, npu->weights + n, data->key);
    }
}

static ork_status data_make(ork_npu *npu, const struct test_shape *shape, uint32_t seed, struct test_data *data,
                            ork_error *error)
{
    *data = (struct test_data){.shape = *shape};
    if (!data->shape.m)
        data->shape.m = ork_npu_rows_max(shape->type, ORK_NPU_ROWS, shape->k);
    shape = &data->shape;
    uint64_t a_bytes = (uint64_t)shape->m * shape->k, results = (uint64_t)shape->m * shape->n;
    data->b_bytes = ork_npu_weight_bytes(shape->type, shape->n, shape->k);
    data->a = malloc(a_bytes);
    data->b = malloc(data->b_bytes);
    data->key = malloc(shape->k * sizeof *data->key);
    data->right = malloc(results * sizeof *data->right);
    data->sums = malloc(results * sizeof *data->sums);
    if (!data->a || !data->b || !data->key || !data->right || !data->sums || !ork_npu_check_weights(npu, shape->n))
        return ork_error_no_memory(error, "self-test", a_bytes + data->b_bytes);
    for (uint64_t i = 0; i < a_bytes; i++)
        data->a[i] = (int8_t)(shape->type == ORK_NPU_W8A8 ? (int32_t)(next_random(&seed) % 255) - 127
                                                          : (int32_t)(next_random(&seed) % 16) - 8);
    for (uint64_t i = 0; i < data->b_bytes; i++)
        data->b[i] =
            shape->type == ORK_NPU_W8A8 ? (uint8_t)(next_random(&seed) % 255 - 127) : (uint8_t)next_random(&seed);
    compute_key(npu, data);
    return compute_right(data) ? ORK_OK : ork_error_no_memory(error, "self-test", shape->k);
}

ork_status ork_npu_test_reserve(ork_npu *npu, uint32_t domain, ork_error *error)
{
    struct ork_npu_buffer *buffer = &npu->test_weights[domain];
    uint64_t largest = 0;
    if (buffer->size_bytes)
        return ORK_OK;
    for (size_t i = 0; i < TEST_SHAPES; i++) {
        uint64_t size = ork_npu_weight_bytes(test_shapes[i].type, test_shapes[i].n, test_shapes[i].k);
        largest = size > largest ? size : largest;
    }
    ork_status status = npu->device->ops->allocate(npu->device, domain, largest, buffer, error);
    if (status)
        *buffer = (struct ork_npu_buffer){0};
    return status;
}

/* Weights into the domain that the core works in: its own, or the one that is live. */
static ork_status place_weights(ork_npu *npu, const struct test_data *data, uint32_t core,
                                struct ork_npu_buffer **buffer, ork_error *error)
{
    uint32_t domain = npu->capabilities->core_per_domain ? core : npu->last_domain;
    ork_status status = ork_npu_test_reserve(npu, domain, error);
    if (status)
        return status;
    *buffer = &npu->test_weights[domain];
    memcpy((*buffer)->host, data->b, data->b_bytes);
    return npu->device->ops->sync(npu->device, *buffer, 0, data->b_bytes, ORK_NPU_TO_DEVICE, error);
}

void ork_npu_test_release(ork_npu *npu)
{
    for (uint32_t d = 0; d < ORK_NPU_DOMAINS_MAX; d++) {
        if (npu->test_weights[d].size_bytes)
            npu->device->ops->release(npu->device, &npu->test_weights[d]);
        npu->test_weights[d] = (struct ork_npu_buffer){0};
    }
}

static void explain(struct ork_npu_verdict *verdict, const struct test_data *data, uint32_t core, const char *what)
{
    if (!verdict->why[0])
        snprintf(verdict->why, sizeof verdict->why, "core %u, %s (%u x %u times %u x %u): %s", core, data->shape.name,
                 data->shape.m, data->shape.k, data->shape.n, data->shape.k, what);
}

/* One shape on one core; whether it came out right. */
static ork_status test_core(ork_npu *npu, struct test_data *data, uint32_t core, struct ork_npu_verdict *verdict,
                            bool *right, ork_error *error)
{
    const struct test_shape *shape = &data->shape;
    uint64_t results = (uint64_t)shape->m * shape->n;
    struct ork_npu_buffer *weights;
    const uint32_t order = 0;
    *right = false;
    ork_status status = place_weights(npu, data, core, &weights, error);
    if (status)
        return status;
    memset(data->sums, 0, results * sizeof *data->sums);
    struct ork_npu_product product = {
        .weight = {.buffer = weights, .type = shape->type, .n = shape->n, .k = shape->k, .key = data->key},
        .m = shape->m,
        .n_used = shape->n,
        .codes = data->a,
        .stride = shape->k,
        .sums = data->sums,
        .sums_stride = shape->n,
        .core_mask = 1u << core,
        .channels_cap = shape->channels_cap,
    };
    struct ork_npu_run run = {.products = &product, .order = &order, .count = 1};
    ork_npu_run_products(npu, &run);
    if (!product.done && run.error.code) { /* not the core's fault: no memory, no descriptor */
        if (error)
            *error = run.error;
        return run.error.code;
    }
    verdict->checked++;
    if (!product.done)
        explain(verdict, data, core, "no result, or one that fails its check");
    else if (memcmp(data->sums, data->right, results * sizeof *data->sums))
        explain(verdict, data, core, "wrong numbers");
    else
        *right = true;
    return ORK_OK;
}

ork_status ork_npu_test_cores(ork_npu *npu, uint32_t core_mask, bool brief, struct ork_npu_verdict *verdict,
                              ork_error *error)
{
    ork_status status = ORK_OK;
    *verdict = (struct ork_npu_verdict){.right = core_mask};
    for (size_t i = 0; i < (brief ? 1 : TEST_SHAPES) && !status; i++) {
        struct test_data data;
        status = data_make(npu, &test_shapes[i], 0x9e3779b9u * (uint32_t)(i + 1), &data, error);
        verdict->shapes++;
        for (uint32_t c = 0; c < npu->capabilities->cores && !status; c++) {
            bool right = false;
            if (!(verdict->right >> c & 1))
                continue;
            status = test_core(npu, &data, c, verdict, &right, error);
            verdict->right &= ~(right ? 0 : 1u << c);
        }
        data_free(&data);
        /* A job that does not end withholds surfaces that larger shapes would replace. */
        if (ork_npu_cores_busy(npu))
            break;
    }
    return status;
}
