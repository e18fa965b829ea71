/* Fits the code tables of nf4 and n8 tensors on samples of their rows, tensors in parallel. Owns the choice of samples; the
 * fit is quant's. */
#include "pack/tables.h"

#include "base/error.h"
#include "quant/ggml_blocks.h"
#include "quant/nested.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_ROWS 96u
#define TENSORS_PER_THREAD 4u /* in one parallel region */

struct fit_job {
    const struct ork_pack_plan *plan;
    const ork_imatrix *imatrix;
    const ork_orkpack_writer *writer;
    int8_t (*tables)[ORK_NF4_TABLE_ENTRIES];
    size_t end;
    atomic_size_t next;
    atomic_bool failed; /* out of memory; a bad imatrix entry shows again when the tensor is encoded */
};

/* A source that is not finite is refused when it is encoded; here it only must not steer the fit. */
static void clear_if_not_finite(float *row, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++)
        if (!isfinite(row[i])) {
            memset(row, 0, k * sizeof(*row));
            return;
        }
}

static void fit_tensor(struct fit_job *job, size_t index)
{
    const struct ork_gguf_tensor *source = job->plan->sources[index];
    const struct ork_ggml_type_info *type = ork_ggml_type_find(source->type);
    uint64_t k = source->dimensions[0], n = source->dimensions[1], experts = source->dimensions[2];
    uint64_t total = n * experts, count = total < SAMPLE_ROWS ? total : SAMPLE_ROWS, neutral;
    float *rows = calloc(count * k, sizeof(*rows)), *importance = NULL, *sample = NULL;

    if (job->imatrix != NULL) {
        importance = calloc(experts * k, sizeof(*importance));
        sample = calloc(count * k, sizeof(*sample));
    }
    if (rows == NULL || (job->imatrix != NULL && (importance == NULL || sample == NULL))) {
        atomic_store(&job->failed, true);
        goto out;
    }
    if (job->imatrix != NULL &&
        ork_imatrix_fill(job->imatrix, source->name, k, experts, importance, &neutral, NULL) != ORK_OK)
        goto out;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = i * total / count;
        ork_ggml_decode(source->type, source->data + row * k / type->block_length * type->block_bytes, k, rows + i * k);
        clear_if_not_finite(rows + i * k, k);
        if (sample != NULL)
            memcpy(sample + i * k, importance + row / n * k, k * sizeof(*sample));
    }
    if (job->plan->tensors[index].tier == ORK_TIER_N8)
        ork_nested_fit_table(rows, (uint32_t)count, (uint32_t)k, sample, job->tables[index]);
    else
        ork_nf4_fit_table(rows, (uint32_t)count, (uint32_t)k, sample, job->tables[index]);
out:
    free(rows);
    free(importance);
    free(sample);
}

static void fit_region(void *context, uint32_t thread, uint32_t threads)
{
    struct fit_job *job = context;
    size_t index;

    (void)thread;
    (void)threads;
    while ((index = atomic_fetch_add(&job->next, 1)) < job->end)
        if (ork_tier_has_table(job->plan->tensors[index].tier) && !ork_orkpack_writer_is_done(job->writer, index))
            fit_tensor(job, index);
}

ork_status ork_pack_fit_tables(ork_pool *pool, const struct ork_pack_plan *plan, const ork_imatrix *imatrix,
                               const ork_orkpack_writer *writer, int8_t (*tables)[ORK_NF4_TABLE_ENTRIES],
                               bool (*tick)(void *context, uint64_t source_bytes), void *tick_context, ork_error *error)
{
    struct fit_job job = {.plan = plan, .imatrix = imatrix, .writer = writer, .tables = tables};
    size_t step = (size_t)TENSORS_PER_THREAD * ork_pool_threads(pool);

    atomic_init(&job.failed, false);
    for (size_t first = 0; first < plan->count; first = job.end) {
        job.end = plan->count - first < step ? plan->count : first + step;
        atomic_store(&job.next, first);
        ork_pool_run(pool, ork_pool_threads(pool), fit_region, &job);
        if (atomic_load(&job.failed))
            return ork_error_no_memory(error, plan->tensors[first].name, SAMPLE_ROWS * sizeof(float));
        if (!tick(tick_context, 0))
            return ork_error_set(error, ORK_CANCELLED, plan->tensors[first].name, -1, "packing was stopped");
    }
    return ORK_OK;
}
