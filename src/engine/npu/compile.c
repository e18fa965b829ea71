/* Owns compiled matmuls: plans, their programs in device memory and the device's jobs, kept by shape, and the surfaces
 * that they are compiled for. Knows no activations and no results.
 *
 * Programs of a set name the surfaces of one half of one domain, which stay where they are, and the weights, which are
 * patched in: a matmul of a known shape costs one address a task. */
#include "engine/npu/compile.h"

#include "base/checked.h"
#include "base/error.h"
#include "engine/npu/self_test.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES (ORK_NPU_PROGRAM_SLOT_WORDS * sizeof(uint64_t))
#define PROGRAM_BYTES (ORK_NPU_PROGRAM_SLOTS * SLOT_BYTES + 4096u) /* a page of slack behind the last */

static bool keys_equal(const struct ork_npu_set_key *a, const struct ork_npu_set_key *b)
{
    return a->type == b->type && a->m == b->m && a->k == b->k && a->n == b->n && a->domain == b->domain &&
           a->half == b->half && a->core_mask == b->core_mask && a->rows_cap == b->rows_cap &&
           a->channels_cap == b->channels_cap;
}

static uint32_t key_hash(const struct ork_npu_set_key *key)
{
    const uint32_t words[] = {key->type, key->m, key->k, key->n, key->domain, key->half, key->core_mask};
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* ---- device memory ---- */

static ork_status allocate_clean(ork_npu *npu, uint32_t domain, uint64_t size_bytes, struct ork_npu_buffer *buffer,
                                 ork_error *error)
{
    const struct ork_npu_device_ops *ops = npu->device->ops;
    ork_status status = ops->allocate(npu->device, domain, size_bytes, buffer, error);
    if (status) {
        *buffer = (struct ork_npu_buffer){0};
        return status;
    }
    /* A dirty line of a fresh buffer would be written over a result later (npu-hw.md 1.4). */
    memset(buffer->host, 0, size_bytes);
    status = ops->sync(npu->device, buffer, 0, size_bytes, ORK_NPU_TO_DEVICE, error);
    if (status) {
        ops->release(npu->device, buffer);
        *buffer = (struct ork_npu_buffer){0};
    }
    return status;
}

static void release(ork_npu *npu, struct ork_npu_buffer *buffer)
{
    if (buffer->size_bytes)
        npu->device->ops->release(npu->device, buffer);
    *buffer = (struct ork_npu_buffer){0};
}

void ork_npu_spaces_release(ork_npu *npu)
{
    for (uint32_t d = 0; d < ORK_NPU_DOMAINS_MAX; d++) {
        struct ork_npu_space *space = &npu->spaces[d];
        for (uint32_t h = 0; h < 2; h++) {
            release(npu, &space->halves[h].a);
            release(npu, &space->halves[h].c);
        }
        release(npu, &space->programs);
    }
}

static bool slots_find(const struct ork_npu_space *space, uint32_t count, uint32_t *first)
{
    uint32_t run = 0;
    for (uint32_t i = 0; i < ORK_NPU_PROGRAM_SLOTS; i++) {
        run = space->used[i / 64] >> i % 64 & 1 ? 0 : run + 1;
        if (run == count) {
            *first = i + 1 - count;
            return true;
        }
    }
    return false;
}

static void slots_mark(struct ork_npu_space *space, uint32_t first, uint32_t count, bool used)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (used)
            space->used[i / 64] |= 1ull << i % 64;
        else
            space->used[i / 64] &= ~(1ull << i % 64);
    }
}

/* ---- the cache ---- */

static void destroy_jobs(ork_npu *npu, struct ork_npu_set *set)
{
    for (uint32_t c = 0; c < set->plan.cores; c++)
        if (set->jobs[c])
            npu->device->ops->job_destroy(npu->device, set->jobs[c]);
    memset(set->jobs, 0, sizeof set->jobs);
    set->b = NULL;
}

static void set_free(struct ork_npu_set *set)
{
    ork_npu_plan_free(&set->plan);
    free(set->inputs);
    free(set->results);
    free(set->parts);
    free(set);
}

static void unlink_use(struct ork_npu_cache *cache, struct ork_npu_set *set)
{
    *(set->newer ? &set->newer->older : &cache->newest) = set->older;
    *(set->older ? &set->older->newer : &cache->oldest) = set->newer;
    set->newer = set->older = NULL;
}

static void link_newest(struct ork_npu_cache *cache, struct ork_npu_set *set)
{
    set->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = set;
    cache->newest = set;
}

static void evict(ork_npu *npu, struct ork_npu_set *set)
{
    struct ork_npu_cache *cache = &npu->cache;
    struct ork_npu_set **at = &cache->buckets[key_hash(&set->key) % ORK_NPU_SET_BUCKETS];
    assert(!set->users);
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    unlink_use(cache, set);
    cache->count--;
    destroy_jobs(npu, set);
    slots_mark(&npu->spaces[set->key.domain], set->first_slot, set->plan.tile_count, false);
    set_free(set);
}

/* Evicts the least recently used set of a domain, or of any; of a half, or of both. */
static bool evict_oldest(ork_npu *npu, const uint32_t *domain)
{
    struct ork_npu_set *set = npu->cache.oldest;
    while (set && (set->users || (domain && set->key.domain != *domain)))
        set = set->newer;
    if (set)
        evict(npu, set);
    return set;
}

/* False: a job that may still run has its surfaces there. */
static bool evict_half(ork_npu *npu, uint32_t domain, uint32_t half)
{
    bool free_of_users = true;
    for (struct ork_npu_set *set = npu->cache.oldest, *newer; set; set = newer) {
        newer = set->newer;
        if (set->key.domain != domain || set->key.half != half)
            continue;
        if (set->users)
            free_of_users = false;
        else
            evict(npu, set);
    }
    return free_of_users;
}

void ork_npu_cache_forget(ork_npu *npu, const struct ork_npu_buffer *buffer)
{
    for (struct ork_npu_set *set = npu->cache.oldest, *newer; set; set = newer) {
        newer = set->newer;
        if (!buffer)
            evict(npu, set);
        else if (set->b == buffer)
            destroy_jobs(npu, set);
    }
}

static struct ork_npu_set *find(const ork_npu *npu, const struct ork_npu_set_key *key)
{
    struct ork_npu_set *set = npu->cache.buckets[key_hash(key) % ORK_NPU_SET_BUCKETS];
    while (set && !keys_equal(&set->key, key))
        set = set->next;
    return set;
}

/* ---- building ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_input(const void *left, const void *right)
{
    const struct ork_npu_tile *a = *(const struct ork_npu_tile *const *)left;
    const struct ork_npu_tile *b = *(const struct ork_npu_tile *const *)right;
    return compare_u64(a->a_offset, b->a_offset);
}

static int by_result(const void *left, const void *right)
{
    const struct ork_npu_tile *a = *(const struct ork_npu_tile *const *)left;
    const struct ork_npu_tile *b = *(const struct ork_npu_tile *const *)right;
    int order = compare_u64(a->m_begin, b->m_begin);
    if (!order)
        order = compare_u64(a->n_begin, b->n_begin);
    return order ? order : compare_u64(a->k_begin, b->k_begin);
}

static void list_inputs(struct ork_npu_set *set, const struct ork_npu_tile **tiles)
{
    qsort(tiles, set->plan.tile_count, sizeof *tiles, by_input);
    for (uint32_t i = 0; i < set->plan.tile_count; i++) {
        const struct ork_npu_tile *tile = tiles[i];
        if (i && tiles[i - 1]->a_offset == tile->a_offset)
            continue;
        set->inputs[set->input_count++] = (struct ork_npu_set_input){
            .a_offset = tile->a_offset,
            .m_begin = tile->m_begin,
            .m = tile->shape.m,
            .k_begin = tile->k_begin,
            .k = tile->shape.k,
            .surface = tile->shape.input,
        };
    }
}

static void list_results(struct ork_npu_set *set, const uint8_t *c, const struct ork_npu_tile **tiles)
{
    qsort(tiles, set->plan.tile_count, sizeof *tiles, by_result);
    for (uint32_t i = 0; i < set->plan.tile_count; i++) {
        const struct ork_npu_tile *tile = tiles[i];
        set->parts[i] = c + tile->c_offset;
        if (i % set->plan.slices)
            continue;
        set->results[set->result_count++] = (struct ork_npu_set_result){
            .m_begin = tile->m_begin,
            .m = tile->shape.m,
            .n_begin = tile->n_begin,
            .n = tile->shape.n,
            .parts = set->parts + i,
        };
    }
}

/* What has to be packed, and which outputs are summed to which results. */
static ork_status list_surfaces(const ork_npu *npu, struct ork_npu_set *set, ork_error *error)
{
    uint32_t count = set->plan.tile_count;
    const struct ork_npu_tile **tiles = malloc(count * sizeof *tiles);
    set->inputs = malloc(count * sizeof *set->inputs);
    set->results = malloc(count * sizeof *set->results);
    set->parts = malloc(count * sizeof *set->parts);
    if (!tiles || !set->inputs || !set->results || !set->parts) {
        free(tiles);
        return ork_error_no_memory(error, NULL, count * sizeof *set->results);
    }
    for (uint32_t i = 0; i < count; i++)
        tiles[i] = &set->plan.tiles[i];
    list_inputs(set, tiles);
    list_results(set, npu->spaces[set->key.domain].halves[set->key.half].c.host, tiles);
    free(tiles);
    return ORK_OK;
}

static struct ork_npu_tiling tiling_of(const struct ork_npu_set_key *key)
{
    return (struct ork_npu_tiling){
        .type = key->type,
        .m = key->m,
        .k = key->k,
        .n = key->n,
        .cores = (uint32_t)__builtin_popcount(key->core_mask),
        .a_max = 8,
        .w_max = 8,
        .rows_cap = key->rows_cap,
        .channels_cap = key->channels_cap,
        .output = ORK_NPU_NATIVE,
    };
}

static double core_seconds(const ork_npu *npu, const struct ork_npu_plan *plan, uint32_t core)
{
    struct ork_npu_work work = {0};
    for (uint32_t i = plan->core_begin[core]; i < plan->core_begin[core + 1]; i++)
        ork_npu_work_add(&work, &plan->tiles[i].shape);
    return ork_npu_timing_job(&npu->profile, &work, plan->cores);
}

static uint32_t slot_iova(const struct ork_npu_space *space, uint32_t slot)
{
    return space->programs.iova + slot * (uint32_t)SLOT_BYTES;
}

static uint64_t *slot_words(const struct ork_npu_space *space, uint32_t slot)
{
    return (uint64_t *)(void *)(space->programs.host + slot * SLOT_BYTES);
}

/* Every core's tasks, each linked to the next; weights follow with the first binding. */
static ork_status write_programs(ork_npu *npu, struct ork_npu_set *set, ork_error *error)
{
    const struct ork_npu_space *space = &npu->spaces[set->key.domain];
    const struct ork_npu_half *half = &space->halves[set->key.half];
    for (uint32_t c = 0; c < set->plan.cores; c++) {
        for (uint32_t i = set->plan.core_begin[c]; i < set->plan.core_begin[c + 1]; i++) {
            const struct ork_npu_tile *tile = &set->plan.tiles[i];
            const struct ork_npu_addresses addresses = {half->a.iova + (uint32_t)tile->a_offset, 0,
                                                        half->c.iova + (uint32_t)tile->c_offset};
            uint64_t *words = slot_words(space, set->first_slot + i);
            ork_status status = ork_npu_program_write(&tile->shape, &addresses, words, error);
            if (status)
                return status;
            bool last = i + 1 == set->plan.core_begin[c + 1];
            ork_npu_program_set_next(set->key.type, last, last ? 0 : slot_iova(space, set->first_slot + i + 1),
                                     set->key.type, words);
        }
    }
    return ORK_OK;
}

static ork_status open_space(ork_npu *npu, const struct ork_npu_set *set, ork_error *error)
{
    struct ork_npu_space *space = &npu->spaces[set->key.domain];
    struct ork_npu_half *half = &space->halves[set->key.half];
    const uint64_t needed[2] = {set->plan.a_bytes, set->plan.c_bytes};
    struct ork_npu_buffer *const surfaces[2] = {&half->a, &half->c};
    ork_status status = ORK_OK;
    if (!space->programs.size_bytes)
        status = allocate_clean(npu, set->key.domain, PROGRAM_BYTES, &space->programs, error);
    if (!status)
        status = ork_npu_test_reserve(npu, set->key.domain, error);
    for (uint32_t i = 0; i < 2 && !status; i++) {
        uint64_t size = ORK_NPU_SURFACE_LEAST_BYTES;
        if (surfaces[i]->size_bytes >= needed[i])
            continue;
        while (size < needed[i])
            size *= 2;
        if (!evict_half(npu, set->key.domain, set->key.half))
            return ork_error_set(error, ORK_FAILURE, NULL, -1, "the NPU's surfaces are withheld after a fault");
        release(npu, surfaces[i]);
        status = allocate_clean(npu, set->key.domain, size, surfaces[i], error);
    }
    return status;
}

static ork_status reserve_slots(ork_npu *npu, struct ork_npu_set *set, ork_error *error)
{
    struct ork_npu_space *space = &npu->spaces[set->key.domain];
    while (!slots_find(space, set->plan.tile_count, &set->first_slot))
        if (!evict_oldest(npu, &set->key.domain))
            return ork_error_set(error, ORK_LIMIT, NULL, -1, "%u register programs do not fit those kept for the NPU",
                                 set->plan.tile_count);
    slots_mark(space, set->first_slot, set->plan.tile_count, true);
    return ORK_OK;
}

static void choose_cores(const ork_npu *npu, struct ork_npu_set *set)
{
    uint32_t left = set->key.core_mask;
    for (uint32_t c = 0; c < set->plan.cores; c++) {
        set->cores[c] = (uint32_t)__builtin_ctz(left);
        set->seconds[c] = core_seconds(npu, &set->plan, c);
        left &= left - 1;
    }
}

static ork_status build(ork_npu *npu, const struct ork_npu_set_key *key, struct ork_npu_set **out, ork_error *error)
{
    struct ork_npu_tiling tiling = tiling_of(key);
    struct ork_npu_set *set = calloc(1, sizeof *set);
    if (!set)
        return ork_error_no_memory(error, NULL, sizeof *set);
    set->key = *key;
    ork_status status = ork_npu_plan_make(&tiling, &set->plan, error);
    if (!status)
        status = open_space(npu, set, error);
    if (!status)
        status = list_surfaces(npu, set, error);
    if (!status)
        status = reserve_slots(npu, set, error);
    if (status) {
        set_free(set);
        return status;
    }
    choose_cores(npu, set);
    status = write_programs(npu, set, error);
    if (status) {
        slots_mark(&npu->spaces[key->domain], set->first_slot, set->plan.tile_count, false);
        set_free(set);
        return status;
    }
    struct ork_npu_set **bucket = &npu->cache.buckets[key_hash(key) % ORK_NPU_SET_BUCKETS];
    set->next = *bucket;
    *bucket = set;
    link_newest(&npu->cache, set);
    npu->cache.count++;
    *out = set;
    return ORK_OK;
}

bool ork_npu_set_is_ready(const ork_npu *npu, const struct ork_npu_set_key *key)
{
    const struct ork_npu_space *space = &npu->spaces[key->domain];
    const struct ork_npu_half *half = &space->halves[key->half];
    /* Surfaces of the largest size hold every piece; below it only a known shape is certain to fit. */
    return find(npu, key) || (space->programs.size_bytes && half->a.size_bytes >= ORK_NPU_SURFACE_A_BYTES &&
                              half->c.size_bytes >= ORK_NPU_SURFACE_C_BYTES);
}

ork_status ork_npu_set_get(ork_npu *npu, const struct ork_npu_set_key *key, struct ork_npu_set **set, ork_error *error)
{
    struct ork_npu_cache *cache = &npu->cache;
    *set = find(npu, key);
    if (*set) {
        unlink_use(cache, *set);
        link_newest(cache, *set);
        atomic_fetch_add_explicit(&npu->counters.programs_reused, (*set)->plan.tile_count, memory_order_relaxed);
        return ORK_OK;
    }
    while (cache->count >= ORK_NPU_SETS_MAX && evict_oldest(npu, NULL))
        continue;
    ork_status status = build(npu, key, set, error);
    if (!status)
        atomic_fetch_add_explicit(&npu->counters.programs_built, (*set)->plan.tile_count, memory_order_relaxed);
    return status;
}

/* ---- binding ---- */

static ork_status create_job(ork_npu *npu, struct ork_npu_set *set, uint32_t core, const struct ork_npu_buffer *b,
                             struct ork_npu_task *tasks, ork_error *error)
{
    const struct ork_npu_space *space = &npu->spaces[set->key.domain];
    const struct ork_npu_half *half = &space->halves[set->key.half];
    const struct ork_npu_buffer *inputs[] = {&space->programs, &half->a, b}, *outputs[] = {&half->c};
    uint32_t first = set->plan.core_begin[core], count = set->plan.core_begin[core + 1] - first;
    for (uint32_t i = 0; i < count; i++)
        tasks[i] =
            (struct ork_npu_task){slot_iova(space, set->first_slot + first + i), ork_npu_program_words(set->key.type)};
    const struct ork_npu_job_params params = {
        .core = set->cores[core],
        .domain = set->key.domain,
        .tasks = tasks,
        .task_count = count,
        .inputs = inputs,
        .input_count = 3,
        .outputs = outputs,
        .output_count = 1,
    };
    return npu->device->ops->job_create(npu->device, &params, &set->jobs[core], error);
}

static ork_status create_jobs(ork_npu *npu, struct ork_npu_set *set, const struct ork_npu_buffer *b, ork_error *error)
{
    struct ork_npu_task *tasks = malloc(set->plan.tile_count * sizeof *tasks);
    ork_status status = tasks ? ORK_OK : ork_error_no_memory(error, NULL, set->plan.tile_count * sizeof *tasks);
    for (uint32_t c = 0; c < set->plan.cores && !status; c++)
        status = create_job(npu, set, c, b, tasks, error);
    free(tasks);
    if (status)
        destroy_jobs(npu, set);
    return status;
}

static void patch(ork_npu *npu, const struct ork_npu_set *set, uint32_t b_iova)
{
    const struct ork_npu_space *space = &npu->spaces[set->key.domain];
    const struct ork_npu_half *half = &space->halves[set->key.half];
    for (uint32_t i = 0; i < set->plan.tile_count; i++) {
        const struct ork_npu_tile *tile = &set->plan.tiles[i];
        const struct ork_npu_addresses addresses = {half->a.iova + (uint32_t)tile->a_offset,
                                                    b_iova + (uint32_t)tile->b_offset,
                                                    half->c.iova + (uint32_t)tile->c_offset};
        ork_npu_program_set_addresses(set->key.type, &addresses, slot_words(space, set->first_slot + i));
    }
}

ork_status ork_npu_set_bind(ork_npu *npu, struct ork_npu_set *set, const struct ork_npu_buffer *b, uint64_t b_offset,
                            ork_error *error)
{
    const struct ork_npu_space *space = &npu->spaces[set->key.domain];
    ork_status status = ORK_OK;
    if (set->b == b && set->b_offset == b_offset)
        return ORK_OK;
    /* An address that no buffer has would be fetched all the same. */
    if (b->domain != set->key.domain || b_offset > b->size_bytes || set->plan.b_bytes > b->size_bytes - b_offset)
        return ork_error_set(error, ORK_FAILURE, NULL, -1, "weights at %llu leave their buffer of %llu bytes",
                             (unsigned long long)b_offset, (unsigned long long)b->size_bytes);
    if (set->b != b) {
        destroy_jobs(npu, set);
        status = create_jobs(npu, set, b, error);
        if (status)
            return status;
    }
    set->b = NULL;
    patch(npu, set, b->iova + (uint32_t)b_offset);
    status = npu->device->ops->sync(npu->device, &space->programs, set->first_slot * SLOT_BYTES,
                                    set->plan.tile_count * SLOT_BYTES, ORK_NPU_TO_DEVICE, error);
    if (status)
        return status;
    set->b = b;
    set->b_offset = b_offset;
    return ORK_OK;
}

/* ---- cutting ---- */

/* Whether a piece keeps to the surfaces, the programs and the time that a job may take. */
static bool piece_fits(const ork_npu *npu, const struct ork_npu_plan *plan)
{
    uint32_t tasks_most = npu->capabilities->tasks_per_job_max;
    if (plan->a_bytes > ORK_NPU_SURFACE_A_BYTES || plan->c_bytes > ORK_NPU_SURFACE_C_BYTES ||
        plan->tile_count > ORK_NPU_TASKS_PER_PIECE)
        return false;
    for (uint32_t c = 0; c < plan->cores; c++)
        if (plan->core_begin[c + 1] - plan->core_begin[c] > tasks_most ||
            core_seconds(npu, plan, c) > ORK_NPU_JOB_MOST_US * 1e-6)
            return false;
    return true;
}

/* Half of the channels, in as many whole groups as there are cores if possible; else half of the rows. */
static bool make_smaller(struct ork_npu_set_key *key)
{
    uint32_t group = ork_npu_group(key->type);
    if (key->n > group)
        key->n = (uint32_t)ork_round_up(key->n / 2, group);
    else if (key->m > 1)
        key->m = key->m / 2;
    else
        return false;
    return true;
}

ork_status ork_npu_cut_find(ork_npu *npu, struct ork_npu_set_key *key, ork_error *error)
{
    struct ork_npu_set_key shape = *key;
    shape.half = 0;
    struct ork_npu_cut *known = &npu->cache.cuts[key_hash(&shape) % ORK_NPU_CUTS];
    uint32_t rows = key->m, channels = key->n, group = ork_npu_group(key->type);
    if (known->m && keys_equal(&known->shape, &shape)) {
        key->m = known->m;
        key->n = known->n;
        return ORK_OK;
    }
    for (bool fits = false; !fits;) {
        struct ork_npu_plan plan = {0};
        struct ork_npu_tiling tiling = tiling_of(key);
        ork_status status = ork_npu_plan_make(&tiling, &plan, error);
        if (status)
            return status;
        fits = piece_fits(npu, &plan);
        if (!fits && plan.a_bytes > ORK_NPU_SURFACE_A_BYTES && key->m > 1)
            key->m /= 2;
        else if (!fits && !make_smaller(key)) {
            ork_npu_plan_free(&plan);
            return ork_error_set(error, ORK_UNSUPPORTED, NULL, -1,
                                 "a matmul of %u inputs does not fit the NPU's limits", key->k);
        }
        ork_npu_plan_free(&plan);
    }
    /* Pieces of equal size: the last is not a small rest. */
    key->m = (uint32_t)ork_divide_up(rows, ork_divide_up(rows, key->m));
    key->n = (uint32_t)ork_round_up(ork_divide_up(channels, ork_divide_up(channels, key->n)), group);
    *known = (struct ork_npu_cut){shape, key->m, key->n};
    return ORK_OK;
}
