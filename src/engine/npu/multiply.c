/* Owns matmuls on weights in device memory, from packed rows to proven results: pieces, poison, waiting, checks, and the
 * overlap of the host's work with the device's. Knows no recovery: a piece that goes wrong stops the run, and what may
 * still be running is left in npu->on_core.
 *
 * One job a core is under way at a time, and nothing is queued behind it: while it runs, the piece before is unpacked and
 * the piece behind is packed into the other half. A result counts when every row's check is right, whatever the driver
 * says; poison in the output tells an output that has not been written from one that has. */
#include "engine/npu/multiply.h"

#include "base/checked.h"
#include "engine/npu/compile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* No sum of at most 131,071 products of int8 codes is -(2^31 - 1). Of int16 sums every number is possible. */
#define POISON_I32 0x80000001u
#define POISON_I16 0xa5c3a5c3u
#define ATOM_BYTES 16u

enum look { LOOK_PENDING, LOOK_THERE, LOOK_FAULT };

/* ---- cores ---- */

uint32_t ork_npu_cores_busy(const ork_npu *npu)
{
    uint32_t busy = 0;
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++)
        busy |= npu->on_core[c].set ? 1u << c : 0;
    return busy;
}

void ork_npu_core_clear(ork_npu *npu, uint32_t core)
{
    struct ork_npu_core *on = &npu->on_core[core];
    if (on->set)
        on->set->users--;
    on->set = NULL;
}

void ork_npu_lanes_set(ork_npu *npu)
{
    uint32_t usable = 0, count = npu->capabilities->cores;
    for (uint32_t c = 0; c < count && c < ORK_NPU_CORES_MAX; c++)
        usable |= npu->on_core[c].usable ? 1u << c : 0;
    npu->lane_count = npu->capabilities->core_per_domain ? count : 1;
    for (uint32_t l = 0; l < npu->lane_count; l++)
        npu->lanes[l].core_mask = npu->capabilities->core_per_domain ? usable & 1u << l : usable;
    atomic_store(&npu->counters.cores_in_use, (unsigned)__builtin_popcount(usable));
}

static uint32_t lane_of(const ork_npu *npu, uint32_t domain)
{
    return npu->capabilities->core_per_domain ? domain : 0;
}

const uint32_t *ork_npu_check_weights(ork_npu *npu, uint32_t count)
{
    if (npu->weight_count < count) {
        uint32_t *weights = malloc(count * sizeof *weights);
        if (!weights)
            return NULL;
        ork_surface_weights(0, count, weights);
        free(npu->weights);
        npu->weights = weights;
        npu->weight_count = count;
    }
    return npu->weights;
}

/* ---- the caller's memory ---- */

/* Whether the caller still waits; until touch_end it cannot go away. */
static bool touch_begin(struct ork_npu_run *run)
{
    unsigned open = ORK_NPU_OPEN;
    if (!run->phase || atomic_compare_exchange_strong(run->phase, &open, ORK_NPU_TOUCHED))
        return true;
    run->stopping = true;
    return false;
}

static void touch_end(struct ork_npu_run *run)
{
    if (run->phase)
        atomic_store(run->phase, ORK_NPU_OPEN);
}

/* ---- poison ---- */

static uint64_t tile_bytes(const struct ork_npu_tile *tile)
{
    return (uint64_t)tile->shape.m * tile->shape.n * ork_npu_result_bytes(tile->shape.type);
}

static uint8_t *surface_c(const ork_npu *npu, const struct ork_npu_set *set)
{
    return npu->spaces[set->key.domain].halves[set->key.half].c.host;
}

static uint32_t poison_of(enum ork_npu_type type)
{
    return type == ORK_NPU_W4A4 ? POISON_I16 : POISON_I32;
}

static void poison_tile(uint8_t *c, const struct ork_npu_tile *tile)
{
    const uint32_t poison = poison_of(tile->shape.type), atom[4] = {poison, poison, poison, poison};
    memcpy(c + tile->c_offset, atom, sizeof atom);
    memcpy(c + tile->c_offset + tile_bytes(tile) - ATOM_BYTES, atom, sizeof atom);
}

static bool atom_is_poisoned(const uint8_t *at, uint32_t poison, bool any)
{
    uint32_t words[4], hits = 0;
    memcpy(words, at, sizeof words);
    for (uint32_t i = 0; i < 4; i++)
        hits += words[i] == poison;
    return any ? hits : hits == 4;
}

/* Of int32 results no number may be left; of int16 results, where the poison may be a result, a surface counts as written
 * when an atom has changed, and the check has the last word. */
static bool tile_is_written(const uint8_t *c, const struct ork_npu_tile *tile)
{
    const uint8_t *first = c + tile->c_offset, *last = first + tile_bytes(tile) - ATOM_BYTES;
    uint32_t poison = poison_of(tile->shape.type);
    if (tile->shape.type == ORK_NPU_W4A4)
        return !atom_is_poisoned(first, poison, false) || !atom_is_poisoned(last, poison, false);
    return !atom_is_poisoned(first, poison, true) && !atom_is_poisoned(last, poison, true);
}

static bool sync_c(ork_npu *npu, const struct ork_npu_set *set, uint64_t offset, uint64_t size_bytes)
{
    const struct ork_npu_half *half = &npu->spaces[set->key.domain].halves[set->key.half];
    return !npu->device->ops->sync(npu->device, &half->c, offset, size_bytes, ORK_NPU_FROM_DEVICE, NULL);
}

/* Written tasks of a core's job, as memory stands. */
static uint32_t count_written(const ork_npu *npu, const struct ork_npu_set *set, uint32_t plan_core)
{
    uint32_t written = 0;
    for (uint32_t i = set->plan.core_begin[plan_core]; i < set->plan.core_begin[plan_core + 1]; i++)
        written += tile_is_written(surface_c(npu, set), &set->plan.tiles[i]);
    return written;
}

uint32_t ork_npu_count_written(ork_npu *npu, const struct ork_npu_set *set, uint32_t plan_core)
{
    return sync_c(npu, set, 0, set->plan.c_bytes) ? count_written(npu, set, plan_core) : 0;
}

static bool is_all_written(const ork_npu *npu, const struct ork_npu_set *set, uint32_t plan_core)
{
    return count_written(npu, set, plan_core) == set->plan.core_begin[plan_core + 1] - set->plan.core_begin[plan_core];
}

/* Whether the last task of a core has begun to be seen in memory; for devices that cannot say. */
static bool last_is_written(ork_npu *npu, const struct ork_npu_set *set, uint32_t plan_core)
{
    const struct ork_npu_tile *tile = &set->plan.tiles[set->plan.core_begin[plan_core + 1] - 1];
    uint64_t size_bytes = tile_bytes(tile);
    return sync_c(npu, set, tile->c_offset, ATOM_BYTES) &&
           sync_c(npu, set, tile->c_offset + size_bytes - ATOM_BYTES, ATOM_BYTES) &&
           tile_is_written(surface_c(npu, set), tile);
}

/* ---- packing ---- */

/* Cuts the product and makes room for its checks. */
static bool product_start(ork_npu *npu, struct ork_npu_product *product, uint32_t core_mask)
{
    struct ork_npu_set_key key = {
        .type = product->weight.type,
        .m = product->m,
        .k = product->weight.k,
        .n = product->weight.n,
        .domain = product->weight.buffer->domain,
        .core_mask = core_mask,
        .rows_cap = product->rows_cap,
        .channels_cap = product->channels_cap,
    };
    if (!core_mask || !ork_npu_check_weights(npu, product->weight.n) || ork_npu_cut_find(npu, &key, NULL))
        return false;
    uint32_t *memory = calloc(product->m, 4 * sizeof *memory);
    if (!memory)
        return false;
    product->expected = memory;
    product->actual = memory + product->m;
    product->present = memory + 2ull * product->m;
    product->scales = (float *)(void *)(memory + 3ull * product->m);
    product->piece_m = key.m;
    product->piece_n = key.n;
    product->next_m = product->next_n = 0;
    product->pieces_left = (uint32_t)(ork_divide_up(product->m, key.m) * ork_divide_up(product->weight.n, key.n));
    return true;
}

/* The next part of a product; false: there is none. */
static bool piece_take(struct ork_npu_product *product, struct ork_npu_piece *piece)
{
    if (product->failed || product->next_m >= product->m)
        return false;
    uint32_t m_left = product->m - product->next_m, n_left = product->weight.n - product->next_n;
    *piece = (struct ork_npu_piece){
        .product = product,
        .m_begin = product->next_m,
        .m = m_left < product->piece_m ? m_left : product->piece_m,
        .n_begin = product->next_n,
        .n = n_left < product->piece_n ? n_left : product->piece_n,
        .read_again = ORK_NPU_READ_AGAIN,
        .step_us = ORK_NPU_LOOK_FIRST_US,
    };
    uint32_t used = product->n_used > piece->n_begin ? product->n_used - piece->n_begin : 0;
    piece->n_used = used < piece->n ? used : piece->n;
    piece->last = piece->n == n_left;
    product->next_n = piece->last ? 0 : product->next_n + piece->n;
    product->next_m += piece->last ? piece->m : 0;
    return true;
}

static void pack_input(const ork_npu *npu, const struct ork_npu_piece *piece, const struct ork_npu_set_input *input,
                       uint8_t *a)
{
    const struct ork_npu_product *product = piece->product;
    bool nibbles = product->weight.type == ORK_NPU_W4A4;
    void (*pack)(const struct ork_surface_input *) = nibbles ? npu->kernels->input_i4 : npu->kernels->input_i8;
    uint32_t row = piece->m_begin + input->m_begin;
    struct ork_surface_input surface = {
        .codes = product->rows ? product->codes : product->codes + row * product->stride,
        .stride = product->stride,
        .rows = product->rows ? product->rows + row : NULL,
        .m = input->m,
        .k_begin = input->k_begin,
        .k = input->k,
        .out = a + input->a_offset,
    };
    if (input->surface == ORK_NPU_NATIVE) {
        pack(&surface);
        return;
    }
    /* Plain rows: a native surface of one row each. */
    for (surface.m = 1; row < piece->m_begin + input->m_begin + input->m; row++) {
        pack(&surface);
        surface.out += nibbles ? input->k / 2 : input->k;
        if (product->rows)
            surface.rows++;
        else
            surface.codes += product->stride;
    }
}

static void pack_rows(const ork_npu *npu, const struct ork_npu_piece *piece)
{
    struct ork_npu_product *product = piece->product;
    const struct ork_npu_set *set = piece->set;
    uint8_t *a = npu->spaces[set->key.domain].halves[set->key.half].a.host;
    for (uint32_t i = 0; i < set->input_count; i++)
        pack_input(npu, piece, &set->inputs[i], a);
    if (piece->n_begin)
        return;
    const uint32_t *rows = product->rows ? product->rows + piece->m_begin : NULL;
    npu->kernels->row_checks(product->rows ? product->codes : product->codes + piece->m_begin * product->stride,
                             product->stride, rows, piece->m, product->weight.key, product->weight.k,
                             product->expected + piece->m_begin);
    for (uint32_t i = 0; i < piece->m && product->x_scales; i++)
        product->scales[piece->m_begin + i] = product->x_scales[rows ? rows[i] : piece->m_begin + i];
}

static bool poison_outputs(ork_npu *npu, const struct ork_npu_set *set)
{
    const struct ork_npu_half *half = &npu->spaces[set->key.domain].halves[set->key.half];
    for (uint32_t i = 0; i < set->plan.tile_count; i++)
        poison_tile(half->c.host, &set->plan.tiles[i]);
    return !npu->device->ops->sync(npu->device, &half->a, 0, set->plan.a_bytes, ORK_NPU_TO_DEVICE, NULL) &&
           !npu->device->ops->sync(npu->device, &half->c, 0, set->plan.c_bytes, ORK_NPU_TO_DEVICE, NULL);
}

static uint32_t product_cores(const struct ork_npu_lane *lane, const struct ork_npu_product *product)
{
    return product->core_mask ? product->core_mask & lane->core_mask : lane->core_mask;
}

static struct ork_npu_set_key piece_key(const struct ork_npu_lane *lane, const struct ork_npu_product *product,
                                        const struct ork_npu_piece *piece)
{
    return (struct ork_npu_set_key){
        .type = product->weight.type,
        .m = piece->m,
        .k = product->weight.k,
        .n = piece->n,
        .domain = product->weight.buffer->domain,
        .half = lane->running.product ? 1 - lane->running.set->key.half : 0,
        .core_mask = product_cores(lane, product),
        .rows_cap = product->rows_cap,
        .channels_cap = product->channels_cap,
    };
}

/* Programs, inputs and poison of a piece: ready to be submitted. */
static bool piece_pack(ork_npu *npu, struct ork_npu_run *run, const struct ork_npu_lane *lane,
                       struct ork_npu_piece *piece)
{
    struct ork_npu_product *product = piece->product;
    struct ork_npu_set_key key = piece_key(lane, product, piece);
    uint64_t b_offset = product->weight.offset + ork_npu_weight_bytes(key.type, piece->n_begin, product->weight.k);
    if (ork_npu_set_get(npu, &key, &piece->set, &run->error) ||
        ork_npu_set_bind(npu, piece->set, product->weight.buffer, b_offset, &run->error) || !touch_begin(run))
        return false;
    pack_rows(npu, piece);
    touch_end(run);
    if (!poison_outputs(npu, piece->set))
        return false;
    piece->set->users++;
    return true;
}

/* ---- submitting and waiting ---- */

static void piece_drop(struct ork_npu_piece *piece)
{
    piece->set->users--;
    piece->product = NULL;
}

static uint32_t physical_cores(const struct ork_npu_set *set)
{
    uint32_t mask = 0;
    for (uint32_t c = 0; c < set->plan.cores; c++)
        mask |= 1u << set->cores[c];
    return mask;
}

/* The piece's product is given up, and nothing new is begun. */
static void piece_fault(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_piece *piece)
{
    piece->product->failed = true;
    run->stopping = true;
    run->suspects |= physical_cores(piece->set);
    npu->outcomes = npu->outcomes << 1 | 1;
    piece_drop(piece);
}

static uint64_t deadline_us(const ork_npu *npu, const struct ork_npu_set *set)
{
    double seconds = 0;
    for (uint32_t c = 0; c < set->plan.cores; c++)
        seconds = set->seconds[c] > seconds ? set->seconds[c] : seconds;
    uint64_t predicted = (uint64_t)(seconds * ORK_NPU_DEADLINE_FACTOR * 1e6);
    if (npu->timeout_us)
        return npu->timeout_us;
    return predicted > ORK_NPU_DEADLINE_FLOOR_US ? predicted : ORK_NPU_DEADLINE_FLOOR_US;
}

static void count_switch(ork_npu *npu, uint32_t domain)
{
    if (!npu->capabilities->core_per_domain && npu->last_domain != domain)
        ork_npu_count(&npu->counters.domain_switches, 1);
    npu->last_domain = domain;
}

static bool piece_submit(ork_npu *npu, struct ork_npu_piece *piece)
{
    struct ork_npu_set *set = piece->set;
    uint64_t limit_us = deadline_us(npu, set);
    count_switch(npu, set->key.domain);
    for (uint32_t c = 0; c < set->plan.cores; c++) {
        assert(!npu->on_core[set->cores[c]].set);
        if (npu->device->ops->submit(npu->device, set->jobs[c], NULL)) {
            ork_npu_count(&npu->counters.refused_submits, 1);
            return false;
        }
        struct ork_npu_core *on = &npu->on_core[set->cores[c]];
        on->set = set;
        on->plan_core = c;
        on->deadline_us = limit_us;
        set->users++;
        piece->submitted |= 1u << c;
        ork_npu_count(&npu->counters.submits, 1);
        ork_npu_count(&npu->counters.tasks, set->plan.core_begin[c + 1] - set->plan.core_begin[c]);
    }
    piece->submitted_ns = npu->clock->now_ns(npu->clock);
    piece->deadline_ns = piece->submitted_ns + limit_us * 1000;
    piece->look_ns = 0;
    return true;
}

/* What is known of one core's job. arrived: its output is worth looking at. */
static enum look look_at_core(ork_npu *npu, struct ork_npu_piece *piece, uint32_t c, uint64_t now)
{
    struct ork_npu_set *set = piece->set;
    enum ork_npu_state state = ORK_NPU_DONE;
    if (!piece->done_ns[c])
        state = npu->device->ops->poll(npu->device, set->jobs[c]);
    if (state == ORK_NPU_DONE) {
        if (!piece->done_ns[c])
            ork_npu_core_clear(npu, set->cores[c]);
        piece->done_ns[c] = piece->done_ns[c] ? piece->done_ns[c] : now;
        return LOOK_THERE;
    }
    if (state == ORK_NPU_FAILED)
        return LOOK_FAULT;
    if (state == ORK_NPU_UNKNOWN && last_is_written(npu, set, c))
        return LOOK_THERE;
    if (now < piece->deadline_ns)
        return LOOK_PENDING;
    /* Too late. What a device that says "done" has not said it of may be being written at this moment: it is not read. */
    return state == ORK_NPU_UNKNOWN ? LOOK_THERE : LOOK_FAULT;
}

/* All cores have arrived: whether the outputs are complete. Cores that did not say "done" stay busy when they are late. */
static enum look look_at_outputs(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_piece *piece, uint64_t now)
{
    struct ork_npu_set *set = piece->set;
    bool late = now >= piece->deadline_ns;
    if (!sync_c(npu, set, 0, set->plan.c_bytes))
        return LOOK_FAULT;
    for (uint32_t c = 0; c < set->plan.cores; c++) {
        if (is_all_written(npu, set, c)) {
            if (!late)
                ork_npu_core_clear(npu, set->cores[c]);
            continue;
        }
        bool over = piece->done_ns[c] && now >= piece->done_ns[c] + ORK_NPU_DONE_GRACE_US * 1000u;
        if (over)
            ork_npu_count(&npu->counters.failed_checks, 1);
        if (over || late)
            return LOOK_FAULT;
        piece->there &= ~(1u << c);
    }
    if (late && ork_npu_cores_busy(npu) & physical_cores(set)) {
        run->stopping = true;
        run->suspects |= physical_cores(set);
    }
    return piece->there == (1u << set->plan.cores) - 1 ? LOOK_THERE : LOOK_PENDING;
}

static void plan_look(ork_npu *npu, struct ork_npu_piece *piece, uint64_t now)
{
    uint64_t look = now + piece->step_us * 1000ull;
    piece->step_us = piece->step_us * 5 / 4 < ORK_NPU_LOOK_LAST_US ? piece->step_us * 5 / 4 + 1 : ORK_NPU_LOOK_LAST_US;
    for (uint32_t c = 0; c < piece->set->plan.cores; c++) {
        if (piece->done_ns[c] || piece->there >> c & 1)
            continue;
        uint64_t hint = npu->device->ops->next_look_ns(npu->device, piece->set->jobs[c]);
        look = hint > look ? hint : look;
    }
    piece->look_ns = look < piece->deadline_ns || now >= piece->deadline_ns ? look : piece->deadline_ns;
}

static enum look piece_look(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_piece *piece)
{
    uint64_t now = npu->clock->now_ns(npu->clock);
    uint32_t all = (1u << piece->set->plan.cores) - 1;
    if (now < piece->look_ns)
        return LOOK_PENDING;
    for (uint32_t c = 0; c < piece->set->plan.cores; c++) {
        if (piece->there >> c & 1)
            continue;
        enum look look = look_at_core(npu, piece, c, now);
        if (look == LOOK_FAULT)
            return look;
        piece->there |= look == LOOK_THERE ? 1u << c : 0;
    }
    enum look look = piece->there == all ? look_at_outputs(npu, run, piece, now) : LOOK_PENDING;
    if (look == LOOK_PENDING)
        plan_look(npu, piece, now);
    return look;
}

/* ---- results ---- */

static void unpack_result(const ork_npu *npu, const struct ork_npu_piece *piece,
                          const struct ork_npu_set_result *result)
{
    const struct ork_npu_product *product = piece->product;
    uint32_t row = piece->m_begin + result->m_begin, channel = piece->n_begin + result->n_begin;
    uint32_t used = piece->n_used > result->n_begin ? piece->n_used - result->n_begin : 0;
    const struct ork_surface_output output = {
        .parts = result->parts,
        .part_count = piece->set->plan.slices,
        .m = result->m,
        .n = result->n,
        .n_used = used < 1           ? 1
                  : used < result->n ? used
                                     : result->n,
        .x_scales = product->scales + row,
        .w_scales = product->w_scales ? product->w_scales + channel : NULL,
        .y = product->y && used ? product->y + row * product->y_stride + channel : NULL,
        .y_stride = product->y_stride,
        .sums = product->sums && used ? product->sums + row * product->sums_stride + channel : NULL,
        .sums_stride = product->sums_stride,
        .weights = npu->weights + channel,
        .checks = product->present + row,
    };
    if (product->weight.type == ORK_NPU_W4A4)
        npu->kernels->output_i16(&output);
    else
        npu->kernels->output_i32(&output);
}

static bool checks_are_right(const struct ork_npu_piece *piece)
{
    const struct ork_npu_product *product = piece->product;
    uint32_t wrong = 0;
    for (uint32_t i = piece->m_begin; i < piece->m_begin + piece->m; i++)
        wrong |= product->expected[i] ^ (product->actual[i] + product->present[i]);
    return !wrong;
}

/* Results into place with their checks; whether they are right, as far as that can be known before the last channels of
 * these rows. */
static bool piece_unpack(ork_npu *npu, struct ork_npu_run *run, const struct ork_npu_piece *piece)
{
    struct ork_npu_product *product = piece->product;
    memset(product->present + piece->m_begin, 0, piece->m * sizeof *product->present);
    if (!touch_begin(run))
        return false;
    for (uint32_t i = 0; i < piece->set->result_count; i++)
        unpack_result(npu, piece, &piece->set->results[i]);
    touch_end(run);
    return !piece->last || checks_are_right(piece);
}

static void piece_complete(ork_npu *npu, struct ork_npu_piece *piece)
{
    struct ork_npu_product *product = piece->product;
    for (uint32_t i = piece->m_begin; i < piece->m_begin + piece->m; i++)
        product->actual[i] += product->present[i];
    product->done = !--product->pieces_left && !product->failed;
    npu->outcomes <<= 1;
    piece_drop(piece);
}

/* Reads the finished piece; if it is wrong, writes may lag behind, and it is read again a little later. */
static void piece_read(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_piece *piece)
{
    uint64_t now = npu->clock->now_ns(npu->clock);
    if (piece_unpack(npu, run, piece)) {
        piece_complete(npu, piece);
    } else if (run->phase && atomic_load(run->phase) == ORK_NPU_ABANDONED) {
        piece->product->failed = true;
        piece_drop(piece);
    } else if (piece->read_again && sync_c(npu, piece->set, 0, piece->set->plan.c_bytes)) {
        piece->read_again--;
        piece->look_ns = now + ORK_NPU_DONE_GRACE_US * 1000ull / ORK_NPU_READ_AGAIN;
    } else {
        ork_npu_count(&npu->counters.failed_checks, 1);
        piece_fault(npu, run, piece);
    }
}

/* ---- lanes ---- */

static bool is_running(const ork_npu *npu)
{
    bool running = false;
    for (uint32_t l = 0; l < npu->lane_count; l++)
        running |= npu->lanes[l].running.product != NULL;
    return running;
}

/* The lane's product that has pieces left; NULL: none. */
static struct ork_npu_product *lane_product(ork_npu *npu, const struct ork_npu_run *run, uint32_t l)
{
    struct ork_npu_lane *lane = &npu->lanes[l];
    for (; lane->next_product < run->count; lane->next_product++) {
        struct ork_npu_product *product = &run->products[run->order[lane->next_product]];
        if (lane_of(npu, product->weight.buffer->domain) != l || product->failed)
            continue;
        if (!product->expected && !product_start(npu, product, product_cores(lane, product)))
            product->failed = true;
        else if (product->next_m < product->m)
            return product;
    }
    return NULL;
}

/* Packs the next piece into the free half. No buffer is allocated while a job runs (bugs.md B76): then the lane waits, and
 * with it all that would be submitted. */
static bool lane_pack(ork_npu *npu, struct ork_npu_run *run, uint32_t l)
{
    struct ork_npu_lane *lane = &npu->lanes[l];
    struct ork_npu_product *product = lane_product(npu, run, l);
    lane->waits_for_idle = false;
    if (lane->has_wanted && !is_running(npu)) { /* for the next time; this piece takes the half that is free now */
        struct ork_npu_set *unused;
        lane->has_wanted = false;
        (void)ork_npu_set_get(npu, &lane->wanted, &unused, NULL);
    }
    if (!product)
        return false;
    struct ork_npu_product before = *product;
    struct ork_npu_piece piece;
    bool taken = piece_take(product, &piece);
    assert(taken);
    (void)taken;
    struct ork_npu_set_key key = piece_key(lane, product, &piece);
    if (!ork_npu_set_is_ready(npu, &key) && is_running(npu)) {
        *product = before;
        lane->waits_for_idle = lane->has_wanted = true;
        lane->wanted = key;
        return false;
    }
    if (piece_pack(npu, run, lane, &piece))
        lane->packed = piece;
    else
        product->failed = true;
    return true;
}

static bool is_waiting_for_idle(const ork_npu *npu)
{
    bool waits = false;
    for (uint32_t l = 0; l < npu->lane_count; l++)
        waits |= npu->lanes[l].waits_for_idle;
    return waits;
}

static void lane_submit(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_lane *lane)
{
    lane->running = lane->packed;
    lane->packed.product = NULL;
    if (!piece_submit(npu, &lane->running))
        piece_fault(npu, run, &lane->running);
}

static bool lane_look(ork_npu *npu, struct ork_npu_run *run, struct ork_npu_lane *lane)
{
    enum look look = piece_look(npu, run, &lane->running);
    if (look == LOOK_FAULT)
        piece_fault(npu, run, &lane->running);
    if (look == LOOK_THERE) {
        ork_npu_count(&npu->counters.busy_ns, npu->clock->now_ns(npu->clock) - lane->running.submitted_ns);
        lane->finished = lane->running;
        lane->finished.look_ns = 0;
        lane->running.product = NULL;
    }
    return look != LOOK_PENDING;
}

/* Everything that can be done in a lane without waiting; whether that was something. */
static bool lane_step(ork_npu *npu, struct ork_npu_run *run, uint32_t l)
{
    struct ork_npu_lane *lane = &npu->lanes[l];
    bool moved = false;
    if (lane->running.product && !lane->finished.product)
        moved |= lane_look(npu, run, lane);
    if (run->stopping && lane->packed.product) {
        lane->packed.product->failed = true;
        piece_drop(&lane->packed);
        moved = true;
    }
    if (!lane->running.product && lane->packed.product && !is_waiting_for_idle(npu)) {
        lane_submit(npu, run, lane);
        moved = true;
    }
    if (lane->finished.product && npu->clock->now_ns(npu->clock) >= lane->finished.look_ns) {
        piece_read(npu, run, &lane->finished);
        moved = true;
    }
    if (run->stopping)
        lane->waits_for_idle = false;
    else if (!lane->packed.product && !lane->finished.product)
        moved |= lane_pack(npu, run, l);
    return moved;
}

/* When it is worth looking at a lane again; UINT64_MAX: nothing is under way. */
static uint64_t lane_look_ns(const struct ork_npu_lane *lane)
{
    if (lane->finished.product)
        return lane->finished.look_ns;
    return lane->running.product ? lane->running.look_ns : UINT64_MAX;
}

void ork_npu_run_products(ork_npu *npu, struct ork_npu_run *run)
{
    for (uint32_t l = 0; l < npu->lane_count; l++)
        npu->lanes[l].next_product = 0;
    for (;;) {
        bool moved = false;
        uint64_t look = UINT64_MAX;
        for (uint32_t l = 0; l < npu->lane_count; l++) {
            moved |= lane_step(npu, run, l);
            uint64_t lane_look_at = lane_look_ns(&npu->lanes[l]);
            look = lane_look_at < look ? lane_look_at : look;
        }
        atomic_fetch_add_explicit(&npu->beat, 1, memory_order_relaxed);
        if (!moved && look == UINT64_MAX)
            break;
        if (!moved)
            npu->clock->sleep_until(npu->clock, look);
    }
    for (uint32_t i = 0; i < run->count; i++) {
        free(run->products[i].expected);
        run->products[i].expected = NULL;
    }
}
