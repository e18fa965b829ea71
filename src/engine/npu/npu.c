/* Owns the handle: opening with all its checks, closing, information and counters, attaching a model's weights, and calls
 * from outside that run on the owner thread. Knows no jobs. */
#include "base/error.h"
#include "engine/npu/compile.h"
#include "engine/npu/multiply.h"
#include "engine/npu/overlay.h"
#include "engine/npu/owner.h"
#include "engine/npu/recover.h"
#include "engine/npu/self_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Unknown clocks are those of the mainline driver as it boots (npu-hw.md 2.4). */
#define CLOCK_UNKNOWN_HZ 200e6

/* ---- opening ---- */

static ork_status open_any(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error)
{
    ork_error vendor;
    ork_status status = ork_npu_rknpu_open(params, device, &vendor);
    if (!status)
        return ORK_OK;
    status = ork_npu_rocket_open(params, device, error);
    if (status == ORK_NOT_FOUND && vendor.code != ORK_NOT_FOUND) {
        if (error)
            *error = vendor;
        status = vendor.code;
    }
    return status;
}

static ork_status open_device(const ork_npu_params *params, struct ork_npu_device **device, ork_error *error)
{
    switch (params->kind) {
    case ORK_NPU_SOFT:
        return ork_npu_soft_open(params, device, error);
    case ORK_NPU_RKNPU:
        return ork_npu_rknpu_open(params, device, error);
    case ORK_NPU_ROCKET:
        return ork_npu_rocket_open(params, device, error);
    case ORK_NPU_AUTO:
        return open_any(params, device, error);
    }
    return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "unknown kind of NPU %d", (int)params->kind);
}

/* What predictions are made from: the board's figures at the clock that the device has. */
static ork_status read_profile(ork_npu *npu, const ork_npu_params *params, ork_error *error)
{
    const struct ork_npu_profile *builtin = ork_npu_profile_builtin();
    if (params->kind == ORK_NPU_SOFT && params->board)
        return ork_npu_profile_read(params->board, &npu->profile, error);
    if (!builtin)
        return ork_error_no_memory(error, NULL, sizeof *builtin);
    npu->profile = *builtin;
    npu->profile.clock_hz = npu->capabilities->clock_hz ? (double)npu->capabilities->clock_hz : CLOCK_UNKNOWN_HZ;
    return ORK_OK;
}

static ork_status check_device(const ork_npu *npu, ork_error *error)
{
    const struct ork_npu_capabilities *can = npu->capabilities;
    if (!can->cores || can->cores > ORK_NPU_CORES_MAX || !can->domains || can->domains > ORK_NPU_DOMAINS_MAX ||
        !can->tasks_per_job_max || (can->core_per_domain && can->domains < can->cores))
        return ork_error_set(error, ORK_UNSUPPORTED, can->driver, -1, "an NPU of %u cores and %u domains", can->cores,
                             can->domains);
    return ORK_OK;
}

static ork_status prepare(ork_npu *npu, const ork_npu_params *params, ork_error *error)
{
    const struct ork_kernels *kernels;
    npu->capabilities = npu->device->ops->capabilities(npu->device);
    npu->clock = npu->device->ops->clock(npu->device);
    ork_status status = check_device(npu, error);
    if (!status)
        status = ork_kernels_get(&kernels, error);
    if (!status)
        status = read_profile(npu, params, error);
    if (status)
        return status;
    npu->kernels = &kernels->surface;
    npu->rows_min = params->rows_min;
    npu->timeout_us = params->timeout_us;
    npu->memory_bytes = params->memory_bytes;
    npu->cores = npu->capabilities->cores;
    if (params->cores && params->cores < npu->cores)
        npu->cores = params->cores;
    for (uint32_t c = 0; c < npu->cores; c++)
        npu->on_core[c].usable = true;
    ork_npu_lanes_set(npu);
    npu->offload = (struct ork_offload){npu, ork_npu_wants, ork_npu_begin, ork_npu_finish};
    return ork_npu_batch_create(npu, error);
}

struct self_test {
    bool opening; /* a doubt is an error, and nothing is tried */
    struct ork_npu_verdict verdict;
};

static ork_status run_self_test(ork_npu *npu, void *argument, ork_error *error)
{
    struct self_test *test = argument;
    uint32_t mask = 0;
    for (uint32_t l = 0; l < npu->lane_count; l++)
        mask |= npu->lanes[l].core_mask;
    if (atomic_load(&npu->health) == ORK_NPU_OFF)
        return ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1, "the NPU engine is off: %s", npu->why);
    ork_status status = ork_npu_test_cores(npu, mask, false, &test->verdict, error);
    if (status || test->verdict.right == mask)
        return status;
    if (!test->opening)
        ork_npu_faulted(npu, mask);
    return ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1, "self-test: %s", test->verdict.why);
}

/* Frees everything; what may still run on the device is ended by it. */
static void dismantle(ork_npu *npu)
{
    if (npu->device) {
        ork_npu_idle_force(npu);
        ork_npu_overlay_drop(npu);
        ork_npu_cache_forget(npu, NULL);
        ork_npu_residency_destroy(npu->residency);
        ork_npu_spaces_release(npu);
        ork_npu_test_release(npu);
        npu->device->ops->close(npu->device);
    }
    ork_npu_batch_destroy(npu);
    pthread_cond_destroy(&npu->answered);
    pthread_mutex_destroy(&npu->lock);
    free(npu->table.places);
    free(npu->weights);
    free(npu);
}

ork_status ork_npu_open(const ork_npu_params *params, ork_npu **npu, ork_error *error)
{
    struct self_test test = {.opening = true};
    if (!params || !npu)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "no parameters");
    *npu = NULL;
    ork_npu *made = calloc(1, sizeof *made);
    if (!made)
        return ork_error_no_memory(error, NULL, sizeof *made);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->answered, NULL);
    ork_status status = open_device(params, &made->device, error);
    if (status)
        made->device = NULL;
    if (!status)
        status = prepare(made, params, error);
    if (!status)
        status = ork_npu_owner_start(made, error);
    if (status) {
        dismantle(made);
        return status;
    }
    if (!params->skip_self_test)
        status = ork_npu_owner_call(made, run_self_test, &test, error);
    if (status) {
        ork_npu_close(made);
        return status;
    }
    *npu = made;
    return ORK_OK;
}

void ork_npu_close(ork_npu *npu)
{
    if (!npu)
        return;
    ork_npu_owner_stop(npu);
    dismantle(npu);
}

/* ---- information ---- */

void ork_npu_get_info(const ork_npu *npu, ork_npu_info *info)
{
    const struct ork_npu_capabilities *can = npu->capabilities;
    *info = (ork_npu_info){
        .driver = can->driver,
        .soc = can->soc,
        .node = can->node,
        .driver_version = can->driver_version,
        .cores = can->cores,
        .domains = can->domains,
        .domain_bytes = can->domain_bytes,
        .clock_hz = can->clock_hz,
    };
}

static uint64_t read_counter(const atomic_ullong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void ork_npu_get_stats(const ork_npu *npu, ork_npu_stats *stats)
{
    const struct ork_npu_counters *c = &npu->counters;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&npu->lock; /* reading is no change to the caller */
    pthread_mutex_lock(lock);
    const struct ork_npu_residency_stats residency = npu->residency_stats;
    *stats = (ork_npu_stats){.off = atomic_load(&npu->health) == ORK_NPU_OFF};
    memcpy(stats->why, npu->why, sizeof stats->why);
    pthread_mutex_unlock(lock);
    stats->matmuls = read_counter(&c->matmuls);
    stats->submits = read_counter(&c->submits);
    stats->tasks = read_counter(&c->tasks);
    stats->multiply_adds = read_counter(&c->multiply_adds);
    stats->declined = read_counter(&c->declined);
    stats->redone = read_counter(&c->redone);
    stats->late = read_counter(&c->late);
    stats->never_started = read_counter(&c->never_started);
    stats->stopped = read_counter(&c->stopped);
    stats->failed_checks = read_counter(&c->failed_checks);
    stats->refused_submits = read_counter(&c->refused_submits);
    stats->resets = read_counter(&c->resets);
    stats->failed_resets = read_counter(&c->failed_resets);
    stats->quarantined_bytes = read_counter(&c->quarantined_bytes);
    stats->programs_built = read_counter(&c->programs_built);
    stats->programs_reused = read_counter(&c->programs_reused);
    stats->busy_us = read_counter(&c->busy_ns) / 1000;
    stats->domain_switches = read_counter(&c->domain_switches);
    stats->cores_in_use = atomic_load(&c->cores_in_use);
    stats->resident_bytes = residency.resident_bytes;
    stats->imported_bytes = residency.imported_bytes;
    stats->mappings = residency.mappings;
    stats->swaps_in = residency.swaps_in;
    stats->evictions = residency.evictions;
}

ork_status ork_npu_self_test(ork_npu *npu, uint32_t *shapes, uint64_t *checked, ork_error *error)
{
    struct self_test test = {0};
    ork_status status = ork_npu_owner_call(npu, run_self_test, &test, error);
    if (shapes)
        *shapes = test.verdict.shapes;
    if (checked)
        *checked = test.verdict.checked;
    return status;
}

const struct ork_offload *ork_npu_offload(ork_npu *npu)
{
    return &npu->offload;
}

bool ork_npu_is_virtual(const ork_npu *npu)
{
    return npu->capabilities->virtual_time;
}

const struct ork_npu_device *ork_npu_get_device(const ork_npu *npu)
{
    return npu->device;
}

static ork_status do_nothing(ork_npu *npu, void *argument, ork_error *error)
{
    (void)npu;
    (void)argument;
    (void)error;
    return ORK_OK;
}

void ork_npu_settle(ork_npu *npu)
{
    ork_npu_owner_call(npu, do_nothing, NULL, NULL);
}

/* ---- a model's weights ---- */

struct attachment {
    const void *owner;
    const struct ork_npu_weight *weights;
    size_t count;
    struct ork_npu_known *known; /* [count] those that the NPU takes */
    size_t known_count;
    size_t left_count; /* those that it need not take */
};

static uint32_t rows_min_of(const ork_npu *npu, const struct ork_npu_weight *weight)
{
    return npu->rows_min ? npu->rows_min : weight->rows_min ? weight->rows_min : ORK_NPU_ROWS_MIN;
}

/* Whether the NPU can multiply with a matrix at all. */
static bool is_possible(ork_npu *npu, const struct ork_matrix *matrix)
{
    struct ork_npu_set_key key = {
        .type = ORK_NPU_W8A8,
        .m = npu->rows_min ? npu->rows_min : ORK_NPU_ROWS_MIN,
        .k = matrix->k,
        .n = matrix->n,
        .core_mask = npu->capabilities->core_per_domain ? 1 : npu->lanes[0].core_mask,
    };
    key.k = (key.k + 31) / 32 * 32;
    key.n = (key.n + 31) / 32 * 32;
    return ork_tier_find(matrix->tier)->brick_bytes && key.core_mask && !ork_npu_cut_find(npu, &key, NULL);
}

/* One weight, if the NPU can and need take it. */
static ork_status announce_one(ork_npu *npu, struct attachment *attachment, const struct ork_npu_weight *weight,
                               ork_error *error)
{
    const uint32_t rows_min = rows_min_of(npu, weight);
    if (!is_possible(npu, weight->matrix))
        return ORK_OK;
    if (rows_min == UINT32_MAX && !weight->pinned) {
        attachment->left_count++;
        return ORK_OK;
    }
    ork_status status =
        ork_npu_residency_add(npu->residency, weight->matrix, weight->layer, ORK_NPU_W8A8, weight->pinned, error);
    if (status == ORK_OK)
        attachment->known[attachment->known_count++] = (struct ork_npu_known){weight->matrix, rows_min};
    return status == ORK_UNSUPPORTED ? ORK_OK : status;
}

static ork_status announce(ork_npu *npu, struct attachment *attachment, ork_error *error)
{
    uint32_t layer = 0, next = 0;
    /* Layers ascending, whatever order the caller has them in. */
    for (bool more = true; more; layer = next) {
        more = false;
        next = UINT32_MAX;
        for (size_t i = 0; i < attachment->count; i++) {
            const struct ork_npu_weight *weight = &attachment->weights[i];
            if (weight->layer > layer) {
                more = true;
                next = weight->layer < next ? weight->layer : next;
            }
            ork_status status = weight->layer == layer ? announce_one(npu, attachment, weight, error) : ORK_OK;
            if (status)
                return status;
        }
    }
    return ORK_OK;
}

static void drop_weights(ork_npu *npu)
{
    atomic_store(&npu->attached, false);
    ork_npu_cache_forget(npu, NULL);
    ork_npu_residency_destroy(npu->residency);
    npu->residency = NULL;
    npu->wanted_count = 0;
    npu->held_count = 0;
    for (uint32_t i = 0; i < ORK_NPU_WANTED_MAX; i++)
        atomic_store(&npu->asks[i].asked, false);
    free(npu->table.places);
    npu->table = (struct ork_npu_table){0};
}

/* What chains have of a bound is not there for others; 1: nothing, 0: no bound. */
static uint64_t memory_left(const ork_npu *npu)
{
    const uint64_t taken = ork_npu_overlay_bytes(npu);
    return npu->memory_bytes > taken ? npu->memory_bytes - taken : npu->memory_bytes != 0;
}

static ork_status place(ork_npu *npu, struct attachment *attachment, ork_error *error)
{
    const struct ork_npu_residency_params params = {
        .memory_bytes = memory_left(npu),
        .domains = npu->capabilities->core_per_domain ? npu->cores : 0,
        .reserve_bytes = ORK_NPU_RESERVE_BYTES,
    };
    ork_status status = ork_npu_residency_create(npu->device, &params, &npu->residency, error);
    if (!status)
        status = announce(npu, attachment, error);
    if (!status && !attachment->known_count)
        status = ork_error_set(error, ORK_UNSUPPORTED, NULL, -1,
                               attachment->left_count ? "the CPU is quicker on all of the model's weights"
                                                      : "the model has no weights that the NPU can multiply");
    if (!status)
        status = ork_npu_residency_start(npu->residency, true, error);
    if (status)
        return status;
    size_t kept = 0;
    for (size_t i = 0; i < attachment->known_count; i++)
        if (ork_npu_residency_knows(npu->residency, attachment->known[i].matrix))
            attachment->known[kept++] = attachment->known[i];
    return ork_npu_table_make(attachment->known, kept, &npu->table, error);
}

static ork_status attach(ork_npu *npu, void *argument, ork_error *error)
{
    struct attachment *attachment = argument;
    if (npu->references && npu->model == attachment->owner) {
        npu->references++;
        return ORK_OK;
    }
    if (npu->references)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "the NPU already has the weights of another model");
    if (atomic_load(&npu->health) == ORK_NPU_OFF)
        return ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1, "the NPU engine is off: %s", npu->why);
    attachment->known = calloc(attachment->count ? attachment->count : 1, sizeof *attachment->known);
    if (!attachment->known)
        return ork_error_no_memory(error, NULL, attachment->count * sizeof *attachment->known);
    ork_status status = place(npu, attachment, error);
    free(attachment->known);
    if (status) {
        drop_weights(npu);
        return status;
    }
    npu->model = attachment->owner;
    npu->references = 1;
    atomic_store_explicit(&npu->attached, true, memory_order_release);
    return ORK_OK;
}

ork_status ork_npu_attach(ork_npu *npu, const void *owner, const struct ork_npu_weight *weights, size_t count,
                          ork_error *error)
{
    struct attachment attachment = {.owner = owner, .weights = weights, .count = count};
    return ork_npu_owner_call(npu, attach, &attachment, error);
}

static ork_status detach(ork_npu *npu, void *argument, ork_error *error)
{
    const void *owner = argument;
    (void)error;
    if (!npu->references || npu->model != owner || --npu->references)
        return ORK_OK;
    ork_npu_idle_force(npu);
    drop_weights(npu);
    npu->model = NULL;
    return ORK_OK;
}

void ork_npu_detach(ork_npu *npu, const void *owner)
{
    ork_npu_owner_call(npu, detach, (void *)(uintptr_t)owner, NULL);
}

/* ---- 4-bit matmuls ---- */

struct multiply_w4a4 {
    const int8_t *a;
    uint32_t m;
    const struct ork_matrix *b;
    int32_t *c;
};

static void run_w4a4(ork_npu *npu, const struct multiply_w4a4 *task, struct ork_npu_product *product)
{
    const uint32_t order = 0;
    struct ork_npu_run run = {.products = product, .order = &order, .count = 1};
    ork_npu_run_products(npu, &run);
    if (run.suspects)
        ork_npu_faulted(npu, run.suspects);
    if (!product->done)
        return;
    ork_npu_count(&npu->counters.matmuls, 1);
    ork_npu_count(&npu->counters.multiply_adds, (uint64_t)task->m * task->b->n * task->b->k);
}

static ork_status place_w4a4(ork_npu *npu, const struct multiply_w4a4 *task, uint32_t domain, uint32_t n, uint32_t k,
                             struct ork_npu_buffer *buffer, uint32_t *key, ork_error *error)
{
    uint64_t bytes = ork_npu_weight_bytes(ORK_NPU_W4A4, n, k);
    ork_status status = npu->device->ops->allocate(npu->device, domain, bytes, buffer, error);
    if (status) {
        *buffer = (struct ork_npu_buffer){0};
        return status;
    }
    const uint32_t *weights = ork_npu_check_weights(npu, n);
    if (!weights)
        return ork_error_no_memory(error, NULL, n * sizeof *weights);
    memcpy(buffer->host, task->b->data, bytes);
    for (uint32_t group = 0; group < n; group += 64)
        npu->kernels->key_i4(task->b->data + ork_npu_weight_bytes(ORK_NPU_W4A4, group, k), k / 32, weights + group,
                             key);
    return npu->device->ops->sync(npu->device, buffer, 0, bytes, ORK_NPU_TO_DEVICE, error);
}

static ork_status multiply_w4a4(ork_npu *npu, void *argument, ork_error *error)
{
    const struct multiply_w4a4 *task = argument;
    uint32_t n = (task->b->n + 63) / 64 * 64, k = (task->b->k + 31) / 32 * 32, domain = 0;
    struct ork_npu_buffer *buffer = calloc(1, sizeof *buffer);
    uint32_t *key = calloc(k, sizeof *key);
    ork_status status;
    while (npu->capabilities->core_per_domain && domain + 1 < npu->lane_count && !npu->lanes[domain].core_mask)
        domain++;
    if (!buffer || !key)
        status = ork_error_no_memory(error, NULL, k * sizeof *key);
    else if (atomic_load(&npu->health) != ORK_NPU_WELL)
        status =
            ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1, "the NPU engine is off: %s", npu->why);
    else
        status = place_w4a4(npu, task, domain, n, k, buffer, key, error);
    if (!status) {
        struct ork_npu_product product = {
            .weight = {.buffer = buffer, .type = ORK_NPU_W4A4, .n = n, .k = k, .key = key},
            .m = task->m,
            .n_used = task->b->n,
            .codes = task->a,
            .stride = k,
            .sums = task->c,
            .sums_stride = task->b->n,
        };
        run_w4a4(npu, task, &product);
        if (!product.done)
            status = ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1,
                                   "the product did not come, or failed its check");
    }
    /* A job that may still run may read the weights. */
    ork_npu_idle_force(npu);
    ork_npu_cache_forget(npu, buffer);
    if (buffer && buffer->size_bytes)
        npu->device->ops->release(npu->device, buffer);
    free(buffer);
    free(key);
    return status;
}

ork_status ork_npu_multiply_w4a4(ork_npu *npu, const int8_t *a, uint32_t m, const struct ork_matrix *b, int32_t *c,
                                 ork_error *error)
{
    struct multiply_w4a4 task = {a, m, b, c};
    if (!m || b->tier != ORK_TIER_I4 || !b->n || !b->k)
        return ork_error_set(error, ORK_BAD_ARGUMENT, b->name, -1, "not a product with an i4 matrix");
    return ork_npu_owner_call(npu, multiply_w4a4, &task, error);
}
