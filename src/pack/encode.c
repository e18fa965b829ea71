/* Encodes one tensor on all threads: decodes the source in groups of 64 channels, checks that it is finite and encodes
 * each group into its place in the planes. Groups are independent, so the bytes do not depend on the number of threads.
 * Owns the split of work; knows no files. */
#include "pack/encode.h"

#include "base/checked.h"
#include "base/error.h"
#include "quant/ggml_blocks.h"
#include "quant/nested.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_CHANNELS 64u               /* a multiple of every tier's brick_channels */
#define REGION_BYTES (UINT64_C(8) << 20) /* source bytes between two calls of progress */
#define NONE UINT64_MAX

struct ork_pack_encoder {
    ork_pool *pool;
    uint32_t threads;
    float **scratch; /* [threads][scratch_floats] */
    uint64_t scratch_floats;
    uint8_t *planes;
    uint64_t planes_bytes;
};

/* One tensor being encoded; what threads share. */
struct encode_job {
    const struct ork_pack_encoder *encoder;
    const struct ork_pack_task *task;
    const struct ork_ggml_type_info *type;
    uint8_t *planes[ORK_PLANE_COUNT];
    struct ork_tier_sizes group_sizes; /* of GROUP_CHANNELS channels; of n8's data one of the two runs */
    uint32_t n, k, groups;             /* groups an expert */
    uint64_t end;                      /* first unit (expert * groups + group) after this region */
    atomic_uint_fast64_t next;
    atomic_uint_fast64_t bad; /* lowest element that cannot be stored, NONE */
    uint32_t limit_bits;      /* magnitudes from this bit pattern on cannot be stored */
    double *errors, *norms;   /* [experts * groups] sums of squares */
};

/* ---- one group ---- */

/* Index of the first float whose magnitude has at least these bits, or count. */
static uint64_t find_beyond(const float *values, uint64_t count, uint32_t limit_bits)
{
    for (uint64_t first = 0; first < count; first += 1024) {
        uint64_t end = count - first < 1024 ? count : first + 1024;
        uint32_t found = 0, bits;
        for (uint64_t i = first; i < end; i++) {
            memcpy(&bits, values + i, sizeof(bits));
            found |= (bits & 0x7fffffffu) >= limit_bits;
        }
        for (uint64_t i = first; found != 0 && i < end; i++) {
            memcpy(&bits, values + i, sizeof(bits));
            if ((bits & 0x7fffffffu) >= limit_bits)
                return i;
        }
    }
    return count;
}

static void lower_bad(struct encode_job *job, uint64_t element)
{
    uint_fast64_t before = atomic_load(&job->bad);

    while (element < before && !atomic_compare_exchange_weak(&job->bad, &before, element))
        continue;
}

static void encode_group(struct encode_job *job, uint64_t unit, float *rows)
{
    const struct ork_pack_task *task = job->task;
    const struct ork_orkpack_plane *planes = task->tensor->planes;
    uint64_t expert = unit / job->groups, group = unit % job->groups, k = job->k;
    uint32_t first = (uint32_t)group * GROUP_CHANNELS;
    uint32_t channels = job->n - first < GROUP_CHANNELS ? job->n - first : GROUP_CHANNELS;
    uint64_t element = (expert * job->n + first) * k, count = channels * k, bad;
    const uint8_t *blocks = task->source->data + element / job->type->block_length * job->type->block_bytes;
    uint8_t *data = job->planes[ORK_PLANE_DATA] + expert * planes[ORK_PLANE_DATA].expert_stride_bytes +
                    group * job->group_sizes.data_bytes;
    uint8_t *scales = job->planes[ORK_PLANE_SCALES] + expert * planes[ORK_PLANE_SCALES].expert_stride_bytes +
                      group * job->group_sizes.scale_bytes;

    ork_ggml_decode(task->source->type, blocks, count, rows);
    bad = find_beyond(rows, count, job->limit_bits);
    if (bad != count) {
        lower_bad(job, element + bad);
        return;
    }
    const float *importance = task->importance == NULL ? NULL : task->importance + expert * k;
    if (task->tensor->tier == ORK_TIER_N8)
        ork_nested_encode(rows, channels, job->k, importance, task->table, data,
                          data + ork_nested_residual_bytes(job->n, k), scales, &job->errors[unit], &job->norms[unit],
                          NULL);
    else
        ork_tier_encode((enum ork_tier)task->tensor->tier, rows, channels, job->k, importance, task->table, data,
                        scales, &job->errors[unit], &job->norms[unit]);
}

static void encode_region(void *context, uint32_t thread, uint32_t threads)
{
    struct encode_job *job = context;
    uint64_t unit;

    (void)threads;
    while ((unit = atomic_fetch_add(&job->next, 1)) < job->end)
        encode_group(job, unit, job->encoder->scratch[thread]);
}

/* ---- one tensor ---- */

/* Smallest magnitude that the tier cannot hold: what rounds to infinity, or where scale * code might. */
static uint32_t limit_bits_of(uint32_t tier)
{
    switch (tier) {
    case ORK_TIER_F32:
        return 0x7f800000u; /* infinity */
    case ORK_TIER_F16:
        return 0x477ff000u; /* 65520 */
    case ORK_TIER_BF16:
        return 0x7f7f8000u;
    default:
        return 0x7b800000u; /* 2^120 */
    }
}

static ork_status refuse_element(const struct encode_job *job, ork_error *error)
{
    const struct ork_pack_task *task = job->task;
    uint64_t element = atomic_load(&job->bad), block = element / job->type->block_length;
    int64_t offset = (int64_t)(task->source->offset_bytes + block * job->type->block_bytes);
    float *values = job->encoder->scratch[0];
    float value;

    ork_ggml_decode(task->source->type, task->source->data + block * job->type->block_bytes, job->type->block_length,
                    values);
    value = values[element % job->type->block_length];
    if (isfinite(value))
        return ork_error_set(error, ORK_BAD_FILE, task->where, offset,
                             "tensor %s: element %llu is %g, too large for tier %s", task->source->name,
                             (unsigned long long)element, (double)value, ork_tier_find(task->tensor->tier)->name);
    return ork_error_set(error, ORK_BAD_FILE, task->where, offset, "tensor %s: element %llu is %s", task->source->name,
                         (unsigned long long)element, isnan(value) ? "NaN" : "infinite");
}

/* Room between the end of an expert's data and the next one's start is part of the plane. */
static void clear_gaps(const struct encode_job *job)
{
    const struct ork_orkpack_plane *plane = &job->task->tensor->planes[ORK_PLANE_DATA];
    uint64_t experts = job->task->tensor->dimensions[2], stride = plane->expert_stride_bytes;
    uint64_t used = plane->size_bytes - (experts - 1) * stride;

    for (uint64_t expert = 0; expert + 1 < experts; expert++)
        memset(job->planes[ORK_PLANE_DATA] + expert * stride + used, 0, stride - used);
    if (job->task->tensor->tier != ORK_TIER_N8)
        return;
    uint64_t run = job->groups * job->group_sizes.data_bytes, second = ork_nested_residual_bytes(job->n, job->k);
    for (uint64_t expert = 0; expert < experts; expert++)
        memset(job->planes[ORK_PLANE_DATA] + expert * stride + run, 0, second - run);
}

static void place_planes(struct encode_job *job)
{
    uint8_t *at = job->encoder->planes;

    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        job->planes[kind] = at;
        at += ork_round_up(job->task->tensor->planes[kind].size_bytes, 64);
    }
    if (job->task->table != NULL)
        memcpy(job->planes[ORK_PLANE_TABLE], job->task->table, job->task->tensor->planes[ORK_PLANE_TABLE].size_bytes);
    clear_gaps(job);
}

/* Runs regions until the tensor is done, with progress between them. */
static ork_status encode_all(struct encode_job *job, ork_error *error)
{
    const struct ork_pack_task *task = job->task;
    uint64_t units = job->groups * task->tensor->dimensions[2];
    uint64_t unit_bytes = ork_divide_up(task->source->size_bytes, units);
    uint64_t step = REGION_BYTES / (unit_bytes + 1) + job->encoder->threads;

    for (uint64_t first = 0; first < units; first = job->end) {
        job->end = units - first < step ? units : first + step;
        atomic_store(&job->next, first);
        ork_pool_run(job->encoder->pool, job->encoder->threads, encode_region, job);
        if (atomic_load(&job->bad) != NONE)
            return refuse_element(job, error);
        if (task->tick != NULL && !task->tick(task->tick_context, job->end * unit_bytes))
            return ork_error_set(error, ORK_CANCELLED, task->where, -1, "packing was stopped");
    }
    return ORK_OK;
}

ork_status ork_pack_encode(ork_pack_encoder *encoder, const struct ork_pack_task *task, struct ork_pack_result *result,
                           ork_error *error)
{
    struct encode_job job = {
        .encoder = encoder,
        .task = task,
        .type = ork_ggml_type_find(task->source->type),
        .n = (uint32_t)task->tensor->dimensions[1],
        .k = (uint32_t)task->tensor->dimensions[0],
        .limit_bits = limit_bits_of(task->tensor->tier),
    };
    uint64_t units;
    ork_status status;

    job.groups = (uint32_t)ork_divide_up(job.n, GROUP_CHANNELS);
    units = job.groups * task->tensor->dimensions[2];
    ork_tier_sizes(task->tensor->tier == ORK_TIER_N8 ? ORK_TIER_NF4 : (enum ork_tier)task->tensor->tier, GROUP_CHANNELS,
                   job.k, &job.group_sizes);
    atomic_init(&job.next, 0);
    atomic_init(&job.bad, NONE);
    job.errors = calloc(units, sizeof(double));
    job.norms = calloc(units, sizeof(double));
    if (job.errors == NULL || job.norms == NULL) {
        status = ork_error_no_memory(error, task->source->name, units * sizeof(double));
        goto out;
    }
    place_planes(&job);
    if ((status = encode_all(&job, error)) != ORK_OK)
        goto out;
    result->squared_error = result->squared_norm = 0.0;
    for (uint64_t unit = 0; unit < units; unit++) {
        result->squared_error += job.errors[unit];
        result->squared_norm += job.norms[unit];
    }
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
        result->planes[kind] = task->tensor->planes[kind].size_bytes == 0 ? NULL : job.planes[kind];
out:
    free(job.errors);
    free(job.norms);
    return status;
}

/* ---- the encoder ---- */

ork_status ork_pack_encoder_create(ork_pool *pool, const struct ork_orkpack_tensor *tensors, size_t count,
                                   ork_pack_encoder **out, ork_error *error)
{
    ork_pack_encoder *encoder = calloc(1, sizeof(*encoder));
    uint64_t bytes = 0;
    ork_status status = ORK_OK;

    *out = NULL;
    if (encoder == NULL)
        return ork_error_no_memory(error, "pack", sizeof(*encoder));
    encoder->pool = pool;
    encoder->threads = ork_pool_threads(encoder->pool);
    encoder->scratch_floats = 1024; /* refuse_element() decodes one block */
    for (size_t i = 0; i < count; i++) {
        uint64_t rows = tensors[i].dimensions[1] < GROUP_CHANNELS ? tensors[i].dimensions[1] : GROUP_CHANNELS;
        uint64_t floats = rows * tensors[i].dimensions[0], total = 0;
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
            total += ork_round_up(tensors[i].planes[kind].size_bytes, 64);
        encoder->scratch_floats = floats > encoder->scratch_floats ? floats : encoder->scratch_floats;
        encoder->planes_bytes = total > encoder->planes_bytes ? total : encoder->planes_bytes;
    }
    bytes = encoder->planes_bytes + encoder->threads * encoder->scratch_floats * sizeof(float);
    encoder->planes = ork_pages_allocate(encoder->planes_bytes);
    encoder->scratch = calloc(encoder->threads, sizeof(*encoder->scratch));
    if (encoder->planes == NULL || encoder->scratch == NULL) {
        status = ork_error_no_memory(error, "pack", bytes);
        goto out;
    }
    for (uint32_t i = 0; i < encoder->threads; i++)
        if ((encoder->scratch[i] = malloc(encoder->scratch_floats * sizeof(float))) == NULL) {
            status = ork_error_no_memory(error, "pack", bytes);
            goto out;
        }
out:
    if (status == ORK_OK)
        *out = encoder;
    else
        ork_pack_encoder_destroy(encoder);
    return status;
}

void ork_pack_encoder_destroy(ork_pack_encoder *encoder)
{
    if (encoder == NULL)
        return;
    for (uint32_t i = 0; encoder->scratch != NULL && i < encoder->threads; i++)
        free(encoder->scratch[i]);
    free(encoder->scratch);
    ork_pages_free(encoder->planes, encoder->planes_bytes);
    free(encoder);
}
