/* Owns chains: int8 weights in memory of their own, and slots in which inputs and results wait while a chain runs beside the
 * CPU. Must not know layers, models, or what a result is good for.
 *
 * A slot belongs to the caller while it is FREE, DONE or FAULTED, to the owner thread while it is RUNNING or DROPPED. A chain
 * that is not in time is dropped: its slot, and the surfaces that its job may still write, come back when the owner has
 * seen the job's end or has recovered. Chains run one after the other on one core.
 *
 * Where the device's time is virtual the caller's time is too: a chain begins and is asked for when the plan says that the
 * CPU would be there. Both then wait for the owner, and compare times: what it does in real time must not show. */
#include "engine/npu/overlay.h"

#include "base/checked.h"
#include "base/error.h"
#include "engine/npu/compile.h"
#include "engine/npu/multiply.h"
#include "engine/npu/owner.h"
#include "engine/npu/recover.h"

#include <stdlib.h>
#include <string.h>

#define NO_CHAIN UINT32_MAX

enum {
    BRICK = 32,          /* channels and inputs of an int8 brick */
    GROUP_CHANNELS = 64, /* of a group of bricks of any tier, at most */
};

enum slot_phase {
    SLOT_FREE = 0,
    SLOT_OPEN = 1,    /* begun */
    SLOT_RUNNING = 2, /* the owner is at it */
    SLOT_DONE = 3,
    SLOT_FAULTED = 4,
    SLOT_DROPPED = 5 /* nobody will ask; the owner makes it free */
};

struct chain {
    uint32_t buffer; /* index */
    uint64_t offset;
    uint32_t n, k; /* padded */
    uint32_t due_layer;
    uint64_t begin_ns, window_ns;
    uint32_t *key;                       /* [k] */
    float *scales;                       /* [n] */
    uint32_t slot;                       /* the last begin's */
    const struct ork_overlay_part *part; /* of its first member */
    /* The caller's: how often it was in time of late, and begins that it rests for: the last rest, and what is left of it. */
    uint32_t rate, rest, rest_left;
};

struct slot {
    atomic_uint phase;
    uint32_t chain;
    uint64_t sequence;
    bool pending;          /* begun late chain that was not asked for yet; the caller's */
    uint64_t begin_ns;     /* virtual */
    uint64_t completed_ns; /* on the device's clock, when DONE */
    int8_t *codes;         /* [most k] */
    float scale;
    float *result, *own; /* [most n] */
    bool is_kept;        /* own is there */
};

struct member {
    const struct ork_matrix *matrix;
    struct ork_overlay_part part;
    uint32_t *channels; /* of part */
};

struct counters {
    atomic_ullong planned, submitted, busy, rested, in_time, late, faulted, bytes;
};

struct ork_npu_overlay {
    ork_npu *npu;
    const void *user;
    struct ork_overlay interface;
    struct chain *chains;
    uint32_t chain_count;
    struct member *members; /* by address */
    uint32_t member_count;
    struct ork_npu_buffer *buffers;
    uint32_t buffer_count;
    uint64_t resident_bytes;
    struct slot slots[ORK_NPU_OVERLAY_SLOTS];
    uint32_t slot_count;
    bool rests;
    struct counters counters;
    atomic_bool is_cut_off; /* no core is left that sees the chains' domain */
    /* The caller's. */
    uint64_t sequence;
    struct slot *lent; /* whose correction the caller looks at */
    uint64_t token_ns, token_begin_ns;
    uint32_t last_chain;
};

/* ---- the caller's side ---- */

static int compare_members(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct member *)a)->matrix,
                    y = (uintptr_t)((const struct member *)b)->matrix;
    return (x > y) - (x < y);
}

static const struct ork_overlay_part *find(void *context, const struct ork_matrix *w)
{
    const struct ork_npu_overlay *overlay = context;
    uint32_t begin = 0, end = overlay->member_count;
    while (begin < end) {
        const uint32_t middle = begin + (end - begin) / 2;
        const struct member *member = &overlay->members[middle];
        if (member->matrix == w)
            return &member->part;
        if ((uintptr_t)member->matrix < (uintptr_t)w)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

static bool is_virtual(const struct ork_npu_overlay *overlay)
{
    return overlay->npu->capabilities->virtual_time;
}

static uint64_t device_now_ns(const struct ork_npu_overlay *overlay)
{
    return overlay->npu->clock->now_ns(overlay->npu->clock);
}

/* The virtual time at which the CPU begins a chain: chains come in the order of a pass, so one that is not behind the last
 * one belongs to the next token. */
static uint64_t begin_time_ns(struct ork_npu_overlay *overlay, uint32_t chain)
{
    if (overlay->last_chain == NO_CHAIN)
        overlay->token_begin_ns = device_now_ns(overlay);
    else if (chain <= overlay->last_chain)
        overlay->token_begin_ns += overlay->token_ns;
    const uint64_t waited_ns = atomic_exchange_explicit(&overlay->npu->waited_ns, 0, memory_order_relaxed);
    if (overlay->token_begin_ns < waited_ns)
        overlay->token_begin_ns = waited_ns;
    overlay->last_chain = chain;
    return overlay->token_begin_ns + overlay->chains[chain].begin_ns;
}

static struct slot *free_slot(struct ork_npu_overlay *overlay)
{
    for (uint32_t i = 0; i < overlay->slot_count; i++)
        if (atomic_load_explicit(&overlay->slots[i].phase, memory_order_acquire) == SLOT_FREE)
            return &overlay->slots[i];
    return NULL;
}

static bool is_under_way(unsigned phase)
{
    return phase == SLOT_OPEN || phase == SLOT_RUNNING;
}

/* Virtual time alone: until the owner is through, as long as it shows life. */
static void wait_for_owner(struct ork_npu_overlay *overlay, struct slot *slot)
{
    ork_npu *npu = overlay->npu;
    struct ork_npu_life life = ork_npu_life_watch(npu, ork_clock_now_us());
    unsigned phase;
    while (is_under_way(phase = atomic_load(&slot->phase))) {
        if (ork_npu_life_is_missed(npu, &life, ork_clock_now_us()))
            return;
        ork_npu_word_wait(&slot->phase, phase, ORK_NPU_BEAT_LOOK_US);
    }
}

/* Virtual time alone: until the owner is through with everything that was begun, and with what came of it. */
static void wait_until_quiet(struct ork_npu_overlay *overlay)
{
    for (uint32_t i = 0; i < overlay->slot_count; i++)
        wait_for_owner(overlay, &overlay->slots[i]);
    ork_npu_recovered_wait(overlay->npu);
}

/* Late chains may wait for each other; others find the device free or do without it. */
static bool is_idle(const struct ork_npu_overlay *overlay, uint64_t begin_ns)
{
    const ork_npu *npu = overlay->npu;
    if (atomic_load_explicit(&npu->health, memory_order_acquire) != ORK_NPU_WELL ||
        atomic_load_explicit(&npu->batch.phase, memory_order_relaxed) != ORK_NPU_FREE ||
        atomic_load_explicit(&overlay->is_cut_off, memory_order_relaxed))
        return false;
    if (!is_virtual(overlay))
        return true;
    return (overlay->interface.late ? atomic_load(&npu->recovered_ns) : device_now_ns(overlay)) <= begin_ns;
}

static bool is_free(void *context, uint32_t chain)
{
    struct ork_npu_overlay *overlay = context;
    if (overlay->chains[chain].rest_left)
        return false;
    return is_virtual(overlay) || (free_slot(overlay) && is_idle(overlay, 0));
}

/* What a try of a chain teaches. */
static void learn(const struct ork_npu_overlay *overlay, struct chain *chain, bool in_time)
{
    if (!overlay->rests)
        return;
    if (!in_time)
        chain->rate -= chain->rate / ORK_NPU_OVERLAY_RATE_WEIGHT;
    else if (chain->rest && chain->rate < ORK_NPU_OVERLAY_RATE_START)
        chain->rate = ORK_NPU_OVERLAY_RATE_START;
    else
        chain->rate += (ORK_NPU_OVERLAY_RATE_ONE - chain->rate) / ORK_NPU_OVERLAY_RATE_WEIGHT;
    if (in_time)
        chain->rest = 0;
    else if (chain->rate < ORK_NPU_OVERLAY_RATE_LEAST)
        chain->rest = !chain->rest                                  ? ORK_NPU_OVERLAY_REST_FIRST
                      : chain->rest < ORK_NPU_OVERLAY_REST_MOST / 2 ? chain->rest * 2
                                                                    : ORK_NPU_OVERLAY_REST_MOST;
    chain->rest_left = chain->rest;
}

static bool begin(void *context, uint32_t index, const struct ork_activation *x)
{
    struct ork_npu_overlay *overlay = context;
    struct chain *chain = &overlay->chains[index];
    if (is_virtual(overlay))
        wait_until_quiet(overlay);
    const uint64_t begin_ns = is_virtual(overlay) ? begin_time_ns(overlay, index) : 0;
    struct slot *slot = free_slot(overlay);
    ork_npu_count(&overlay->counters.planned, 1);
    if (chain->rest_left) {
        chain->rest_left--;
        ork_npu_count(&overlay->counters.rested, 1);
        return false;
    }
    if (!x || !slot || !is_idle(overlay, begin_ns)) {
        ork_npu_count(&overlay->counters.busy, 1);
        return false;
    }
    slot->chain = index;
    slot->sequence = overlay->sequence++;
    slot->begin_ns = begin_ns;
    slot->pending = overlay->interface.late;
    slot->is_kept = false;
    slot->scale = x->scales[0];
    memcpy(slot->codes, x->plain, chain->k);
    chain->slot = (uint32_t)(slot - overlay->slots);
    ork_npu_count(&overlay->counters.submitted, 1);
    atomic_store_explicit(&slot->phase, SLOT_OPEN, memory_order_release);
    ork_npu_owner_ring(overlay->npu);
    return true;
}

/* Takes a slot from the owner if it is still at it. Returns the last phase before. */
static unsigned drop(struct slot *slot)
{
    unsigned phase = atomic_load_explicit(&slot->phase, memory_order_acquire);
    while (is_under_way(phase) && !atomic_compare_exchange_weak(&slot->phase, &phase, SLOT_DROPPED))
        ;
    if (!is_under_way(phase))
        atomic_store_explicit(&slot->phase, SLOT_FREE, memory_order_release);
    return phase;
}

/* Asks once. False: dropped, and counted. */
static bool ask(struct ork_npu_overlay *overlay, struct slot *slot)
{
    struct chain *chain = &overlay->chains[slot->chain];
    if (is_virtual(overlay))
        wait_for_owner(overlay, slot);
    const bool in_time = atomic_load_explicit(&slot->phase, memory_order_acquire) == SLOT_DONE &&
                         (!is_virtual(overlay) || slot->completed_ns <= slot->begin_ns + chain->window_ns);
    learn(overlay, chain, in_time);
    if (in_time) {
        ork_npu_count(&overlay->counters.in_time, 1);
        ork_npu_count(&overlay->counters.bytes, (uint64_t)chain->n * chain->k);
        return true;
    }
    ork_npu_count(drop(slot) == SLOT_FAULTED ? &overlay->counters.faulted : &overlay->counters.late, 1);
    return false;
}

static const float *poll(void *context, uint32_t index)
{
    struct ork_npu_overlay *overlay = context;
    struct slot *slot = &overlay->slots[overlay->chains[index].slot];
    return ask(overlay, slot) ? slot->result : NULL;
}

static void done(void *context, uint32_t index)
{
    struct ork_npu_overlay *overlay = context;
    atomic_store_explicit(&overlay->slots[overlay->chains[index].slot].phase, SLOT_FREE, memory_order_release);
}

static void keep(void *context, uint32_t index, const float *own)
{
    struct ork_npu_overlay *overlay = context;
    const struct chain *chain = &overlay->chains[index];
    struct slot *slot = &overlay->slots[chain->slot];
    for (uint32_t i = 0; i < chain->part->count; i++)
        slot->own[i] = own[chain->part->channels[i]];
    slot->is_kept = true;
}

/* The pending slot that was begun first and is due. */
static struct slot *due_slot(struct ork_npu_overlay *overlay, uint32_t layer)
{
    struct slot *first = NULL;
    for (uint32_t i = 0; i < overlay->slot_count; i++) {
        struct slot *slot = &overlay->slots[i];
        if (slot->pending && overlay->chains[slot->chain].due_layer <= layer &&
            (!first || slot->sequence < first->sequence))
            first = slot;
    }
    return first;
}

static void take_back(struct ork_npu_overlay *overlay)
{
    if (overlay->lent)
        atomic_store_explicit(&overlay->lent->phase, SLOT_FREE, memory_order_release);
    overlay->lent = NULL;
}

static bool next_correction(void *context, uint32_t layer, struct ork_overlay_correction *correction)
{
    static const struct ork_overlay_part nothing = {0};
    struct ork_npu_overlay *overlay = context;
    take_back(overlay);
    for (struct slot *slot; (slot = due_slot(overlay, layer));) {
        slot->pending = false;
        if (!ask(overlay, slot))
            continue;
        overlay->lent = slot;
        *correction = (struct ork_overlay_correction){slot->result, slot->own,
                                                      slot->is_kept ? overlay->chains[slot->chain].part : &nothing};
        return true;
    }
    return false;
}

static void forget(void *context)
{
    struct ork_npu_overlay *overlay = context;
    take_back(overlay);
    for (uint32_t i = 0; i < overlay->slot_count; i++) {
        struct slot *slot = &overlay->slots[i];
        if (!slot->pending)
            continue;
        slot->pending = false;
        if (is_virtual(overlay))
            wait_for_owner(overlay, slot);
        ork_npu_count(drop(slot) == SLOT_FAULTED ? &overlay->counters.faulted : &overlay->counters.late, 1);
    }
}

const struct ork_overlay *ork_npu_overlay(ork_npu *npu)
{
    return npu->overlay ? &npu->overlay->interface : NULL;
}

void ork_npu_overlay_note_wait(ork_npu *npu)
{
    if (npu->capabilities->virtual_time)
        atomic_store_explicit(&npu->waited_ns, npu->clock->now_ns(npu->clock), memory_order_relaxed);
}

uint64_t ork_npu_overlay_completed_ns(const ork_npu *npu, uint32_t chain)
{
    const struct ork_npu_overlay *overlay = npu->overlay;
    const struct slot *slot = &overlay->slots[overlay->chains[chain].slot];
    return is_under_way(atomic_load_explicit(&slot->phase, memory_order_acquire)) ? 0 : slot->completed_ns;
}

static uint64_t read_counter(const atomic_ullong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void ork_npu_overlay_get_counts(ork_npu *npu, struct ork_npu_overlay_counts *counts)
{
    struct ork_npu_overlay *overlay = npu->overlay;
    *counts = (struct ork_npu_overlay_counts){0};
    if (!overlay)
        return;
    const struct counters *c = &overlay->counters;
    counts->planned = read_counter(&c->planned);
    counts->submitted = read_counter(&c->submitted);
    counts->busy = read_counter(&c->busy);
    counts->rested = read_counter(&c->rested);
    counts->in_time = read_counter(&c->in_time);
    counts->late = read_counter(&c->late);
    counts->faulted = read_counter(&c->faulted);
    counts->pending = counts->submitted - counts->in_time - counts->late - counts->faulted;
    counts->bytes = read_counter(&c->bytes);
    counts->resident_bytes = overlay->resident_bytes;
}

/* ---- the owner's side ---- */

static uint32_t lane_with_core(const ork_npu *npu)
{
    for (uint32_t l = 0; l < npu->lane_count; l++)
        if (npu->lanes[l].core_mask)
            return l;
    return 0;
}

/* The one core that chains in a buffer's domain run on, as a mask; 0: none is left. */
static uint32_t chain_core(const ork_npu *npu, const struct ork_npu_buffer *buffer)
{
    const uint32_t mask = npu->lanes[npu->capabilities->core_per_domain ? buffer->domain : 0].core_mask;
    return mask & (0u - mask);
}

/* The begun slot that was begun first; those that were dropped before become free. */
static struct slot *oldest_open(struct ork_npu_overlay *overlay)
{
    struct slot *oldest = NULL;
    for (uint32_t i = 0; i < overlay->slot_count; i++) {
        struct slot *slot = &overlay->slots[i];
        const unsigned phase = atomic_load_explicit(&slot->phase, memory_order_acquire);
        if (phase == SLOT_DROPPED)
            atomic_store_explicit(&slot->phase, SLOT_FREE, memory_order_release);
        else if (phase == SLOT_OPEN && (!oldest || slot->sequence < oldest->sequence))
            oldest = slot;
    }
    return oldest;
}

static bool run_slot(ork_npu *npu, struct ork_npu_overlay *overlay, struct slot *slot)
{
    const struct chain *chain = &overlay->chains[slot->chain];
    const struct ork_npu_buffer *buffer = &overlay->buffers[chain->buffer];
    struct ork_npu_product product = {
        .weight = {.buffer = buffer,
                   .offset = chain->offset,
                   .type = ORK_NPU_W8A8,
                   .n = chain->n,
                   .k = chain->k,
                   .key = chain->key},
        .m = 1,
        .n_used = chain->n,
        .codes = slot->codes,
        .stride = chain->k,
        .x_scales = &slot->scale,
        .w_scales = chain->scales,
        .y = slot->result,
        .y_stride = chain->n,
        .core_mask = chain_core(npu, buffer),
    };
    const uint32_t order = 0;
    struct ork_npu_run run = {.products = &product, .order = &order, .count = 1};
    if (!product.core_mask)
        atomic_store(&overlay->is_cut_off, true);
    if (is_virtual(overlay))
        npu->clock->sleep_until(npu->clock, slot->begin_ns);
    ork_npu_run_products(npu, &run);
    if (run.suspects)
        ork_npu_faulted(npu, run.suspects);
    slot->completed_ns = npu->clock->now_ns(npu->clock);
    return product.done;
}

bool ork_npu_overlay_serve(ork_npu *npu)
{
    struct ork_npu_overlay *overlay = npu->overlay;
    struct slot *slot = overlay ? oldest_open(overlay) : NULL;
    unsigned phase = SLOT_OPEN;
    if (!slot)
        return false;
    if (!atomic_compare_exchange_strong(&slot->phase, &phase, SLOT_RUNNING))
        return true; /* dropped meanwhile; seen when it is looked for again */
    bool right = false;
    if (atomic_load(&npu->health) == ORK_NPU_WELL)
        right = run_slot(npu, overlay, slot);
    phase = SLOT_RUNNING;
    if (!atomic_compare_exchange_strong(&slot->phase, &phase, right ? SLOT_DONE : SLOT_FAULTED))
        atomic_store_explicit(&slot->phase, SLOT_FREE, memory_order_release);
    if (is_virtual(overlay))
        ork_npu_word_wake(&slot->phase);
    return true;
}

uint64_t ork_npu_overlay_bytes(const ork_npu *npu)
{
    return npu->overlay ? npu->overlay->resident_bytes : 0;
}

uint64_t ork_npu_overlay_room(const ork_npu *npu)
{
    const uint64_t domain = npu->capabilities->domain_bytes;
    const uint64_t room = domain > ORK_NPU_RESERVE_BYTES ? domain - ORK_NPU_RESERVE_BYTES : 0;
    return npu->memory_bytes && npu->memory_bytes < room ? npu->memory_bytes : room;
}

/* ---- attaching ---- */

struct overlay_attachment {
    const void *user;
    const struct ork_npu_overlay_params *params;
};

static ork_status check_chain(const struct ork_npu_overlay_params *params, const struct ork_npu_chain *chain,
                              ork_error *error)
{
    if (!chain->member_count || chain->member_count > ORK_NPU_CHAIN_MEMBERS_MAX ||
        (params->late && chain->member_count != 1))
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "a chain of %u members", chain->member_count);
    for (uint32_t i = 0; i < chain->member_count; i++) {
        const struct ork_matrix *full = &chain->full[i], *own = chain->members[i];
        if (!ork_tier_find(full->tier)->brick_bytes || full->tier == ORK_TIER_I4 || full->experts != 1 ||
            full->k != chain->full[0].k || own->n != full->n || own->k != full->k)
            return ork_error_set(error, ORK_BAD_ARGUMENT, own->name, -1, "is not a matrix for a chain");
        const uint32_t *channels = chain->channels[i], count = chain->channel_counts[i];
        bool right = !channels || (count && channels[count - 1] < own->n);
        for (uint32_t c = 1; channels && right && c < count; c++)
            right = channels[c - 1] < channels[c];
        if (!right)
            return ork_error_set(error, ORK_BAD_ARGUMENT, own->name, -1, "has other channels than a chain wants");
    }
    return ORK_OK;
}

static ork_status add_member(struct ork_npu_overlay *overlay, const struct ork_npu_chain *given, uint32_t m,
                             uint32_t chain, uint64_t first, ork_error *error)
{
    const uint32_t *chosen = given->channels[m], count = chosen ? given->channel_counts[m] : given->members[m]->n;
    uint32_t *channels = malloc(count * sizeof *channels);
    if (!channels)
        return ork_error_no_memory(error, "overlay", count * sizeof *channels);
    for (uint32_t i = 0; i < count; i++)
        channels[i] = chosen ? chosen[i] : i;
    overlay->members[overlay->member_count++] =
        (struct member){given->members[m], {chain, (uint32_t)first, count, channels}, channels};
    return ORK_OK;
}

/* Chains find their members, and the first one's part. */
static ork_status sort_members(struct ork_npu_overlay *overlay, ork_error *error)
{
    qsort(overlay->members, overlay->member_count, sizeof *overlay->members, compare_members);
    for (uint32_t i = 0; i < overlay->member_count; i++) {
        const struct member *member = &overlay->members[i];
        if (i && member->matrix == member[-1].matrix)
            return ork_error_set(error, ORK_BAD_ARGUMENT, member->matrix->name, -1, "is in chains more than once");
        if (!member->part.first)
            overlay->chains[member->part.chain].part = &member->part;
    }
    return ORK_OK;
}

static ork_status lay_out(struct ork_npu_overlay *overlay, const struct ork_npu_overlay_params *params, uint64_t chunk,
                          uint64_t *sizes, ork_error *error)
{
    for (uint32_t i = 0; i < params->count; i++) {
        const struct ork_npu_chain *given = &params->chains[i];
        struct chain *chain = &overlay->chains[i];
        uint64_t n = 0;
        ork_status status = check_chain(params, given, error);
        for (uint32_t m = 0; m < given->member_count && !status; m++) {
            status = add_member(overlay, given, m, i, n, error);
            n += ork_round_up(given->channels[m] ? given->channel_counts[m] : given->full[m].n, BRICK);
        }
        if (status)
            return status;
        const uint64_t k = ork_round_up(given->full[0].k, BRICK), bytes = n * k;
        if (n > ORK_MATMUL_K_MAX * 64ull)
            return ork_error_set(error, ORK_LIMIT, "overlay", -1, "a chain of %llu channels", (unsigned long long)n);
        *chain = (struct chain){.n = (uint32_t)n,
                                .k = (uint32_t)k,
                                .due_layer = given->due_layer,
                                .begin_ns = given->begin_ns,
                                .window_ns = given->window_ns,
                                .rate = ORK_NPU_OVERLAY_RATE_START};
        if (!overlay->buffer_count || sizes[overlay->buffer_count - 1] + bytes > chunk)
            sizes[overlay->buffer_count++] = 0;
        chain->buffer = overlay->buffer_count - 1;
        chain->offset = sizes[chain->buffer];
        sizes[chain->buffer] += bytes;
    }
    return sort_members(overlay, error);
}

/* Bricks, scales and check key of a member's channels behind those before it; the last brick's rest is of zeros. scratch: a
 * group of the source as int8. */
static void fill_member(ork_npu *npu, const struct chain *chain, const struct ork_matrix *full,
                        const struct ork_overlay_part *part, uint8_t *scratch, uint8_t *bricks)
{
    const struct ork_tier_info *tier = ork_tier_find(full->tier);
    const uint32_t tiles = chain->k / BRICK, rest = (BRICK - part->count % BRICK) % BRICK;
    const uint64_t source_bytes = (uint64_t)tiles * tier->brick_bytes, brick_bytes = (uint64_t)BRICK * chain->k;
    const float *scales = (const float *)(const void *)full->scales;
    uint8_t *out = bricks + (uint64_t)part->first * chain->k;
    memset(out + (part->count + rest - BRICK) / BRICK * brick_bytes, 0, rest ? brick_bytes : 0);
    for (uint32_t i = 0, inflated = UINT32_MAX; i < part->count; i++) {
        const uint32_t channel = part->channels[i], group = channel / tier->brick_channels,
                       within = channel % tier->brick_channels;
        if (group != inflated)
            ork_npu_inflate_group(npu->kernels, full, full->data + group * source_bytes, tiles, scratch);
        inflated = group;
        const uint8_t *from = scratch + within / BRICK * brick_bytes + within % BRICK * BRICK;
        uint8_t *to = out + i / BRICK * brick_bytes + i % BRICK * BRICK;
        for (uint64_t tile = 0; tile < tiles; tile++)
            memcpy(to + tile * BRICK * BRICK, from + tile * BRICK * BRICK, BRICK);
        chain->scales[part->first + i] = scales[channel];
    }
    for (uint32_t i = 0; i < part->count; i += BRICK)
        npu->kernels->key_i8(out + i / BRICK * brick_bytes, tiles, npu->weights + part->first + i, chain->key);
}

static ork_status fill_chain(ork_npu *npu, struct ork_npu_overlay *overlay, const struct ork_npu_chain *given,
                             struct chain *chain, ork_error *error)
{
    const struct ork_npu_buffer *buffer = &overlay->buffers[chain->buffer];
    uint8_t *scratch = malloc((uint64_t)GROUP_CHANNELS * chain->k);
    chain->key = calloc(chain->k, sizeof *chain->key);
    chain->scales = calloc(chain->n, sizeof *chain->scales);
    if (!scratch || !chain->key || !chain->scales || !ork_npu_check_weights(npu, chain->n)) {
        free(scratch);
        return ork_error_no_memory(error, "overlay", chain->n * sizeof *chain->scales);
    }
    for (uint32_t m = 0; m < given->member_count; m++)
        fill_member(npu, chain, &given->full[m], find(overlay, given->members[m]), scratch,
                    buffer->host + chain->offset);
    free(scratch);
    struct ork_npu_set_key key = {.type = ORK_NPU_W8A8,
                                  .m = 1,
                                  .k = chain->k,
                                  .n = chain->n,
                                  .domain = buffer->domain,
                                  .core_mask = chain_core(npu, buffer)};
    struct ork_npu_set *set;
    ork_status status = ork_npu_cut_find(npu, &key, error);
    /* Compiled now, so that the first token does not wait for it. */
    return status ? status : ork_npu_set_get(npu, &key, &set, error);
}

static ork_status make_slots(struct ork_npu_overlay *overlay, ork_error *error)
{
    uint64_t n = 0, k = 0;
    for (uint32_t i = 0; i < overlay->chain_count; i++) {
        n = overlay->chains[i].n > n ? overlay->chains[i].n : n;
        k = overlay->chains[i].k > k ? overlay->chains[i].k : k;
    }
    overlay->slot_count = overlay->interface.late ? ORK_NPU_OVERLAY_SLOTS : 1;
    for (uint32_t i = 0; i < overlay->slot_count; i++) {
        struct slot *slot = &overlay->slots[i];
        slot->codes = malloc(k);
        slot->result = malloc(n * sizeof *slot->result);
        slot->own = malloc(n * sizeof *slot->own);
        if (!slot->codes || !slot->result || !slot->own)
            return ork_error_no_memory(error, "overlay", n * sizeof *slot->result);
    }
    return ORK_OK;
}

static void destroy(ork_npu *npu, struct ork_npu_overlay *overlay)
{
    ork_npu_idle_force(npu);
    for (uint32_t i = 0; i < overlay->buffer_count && overlay->buffers; i++) {
        if (!overlay->buffers[i].size_bytes)
            continue;
        ork_npu_cache_forget(npu, &overlay->buffers[i]);
        npu->device->ops->release(npu->device, &overlay->buffers[i]);
    }
    for (uint32_t i = 0; i < overlay->chain_count && overlay->chains; i++) {
        free(overlay->chains[i].key);
        free(overlay->chains[i].scales);
    }
    for (uint32_t i = 0; i < ORK_NPU_OVERLAY_SLOTS; i++) {
        free(overlay->slots[i].codes);
        free(overlay->slots[i].result);
        free(overlay->slots[i].own);
    }
    for (uint32_t i = 0; i < overlay->member_count && overlay->members; i++)
        free(overlay->members[i].channels);
    free(overlay->chains);
    free(overlay->members);
    free(overlay->buffers);
    free(overlay);
}

static ork_status fill(ork_npu *npu, struct ork_npu_overlay *overlay, const struct ork_npu_overlay_params *params,
                       ork_error *error)
{
    const uint64_t most = npu->capabilities->buffer_bytes_max;
    const uint64_t chunk = most && most < ORK_NPU_OVERLAY_CHUNK_BYTES ? most : ORK_NPU_OVERLAY_CHUNK_BYTES;
    const uint32_t domain = npu->capabilities->core_per_domain ? lane_with_core(npu) : 0;
    uint64_t *sizes = calloc(params->count, sizeof *sizes);
    ork_status status = ORK_OK;
    if (!sizes)
        return ork_error_no_memory(error, "overlay", params->count * sizeof *sizes);
    status = lay_out(overlay, params, chunk, sizes, error);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < overlay->buffer_count && !status; i++)
        bytes += sizes[i];
    if (bytes > ork_npu_overlay_room(npu))
        status = ork_error_set(error, ORK_NO_MEMORY, "overlay", -1, "%llu bytes of weights, and there is room for %llu",
                               (unsigned long long)bytes, (unsigned long long)ork_npu_overlay_room(npu));
    for (uint32_t i = 0; i < overlay->buffer_count && !status; i++) {
        status = npu->device->ops->allocate(npu->device, domain, sizes[i], &overlay->buffers[i], error);
        if (status)
            overlay->buffers[i] = (struct ork_npu_buffer){0};
        overlay->resident_bytes += overlay->buffers[i].size_bytes;
    }
    for (uint32_t i = 0; i < params->count && !status; i++)
        status = fill_chain(npu, overlay, &params->chains[i], &overlay->chains[i], error);
    for (uint32_t i = 0; i < overlay->buffer_count && !status; i++)
        status = npu->device->ops->sync(npu->device, &overlay->buffers[i], 0, overlay->buffers[i].size_bytes,
                                        ORK_NPU_TO_DEVICE, error);
    free(sizes);
    return status ? status : make_slots(overlay, error);
}

static ork_status attach(ork_npu *npu, void *argument, ork_error *error)
{
    const struct overlay_attachment *attachment = argument;
    const struct ork_npu_overlay_params *params = attachment->params;
    if (npu->overlay)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "the NPU already has the overlay of another session");
    if (atomic_load(&npu->health) == ORK_NPU_OFF)
        return ork_error_set(error, ORK_FAILURE, npu->capabilities->driver, -1, "the NPU engine is off: %s", npu->why);
    struct ork_npu_overlay *overlay = calloc(1, sizeof *overlay);
    if (!overlay)
        return ork_error_no_memory(error, "overlay", sizeof *overlay);
    *overlay = (struct ork_npu_overlay){
        .npu = npu,
        .user = attachment->user,
        .interface = {overlay, params->late, find, is_free, begin, poll, done, keep, next_correction, forget},
        .chains = calloc(params->count, sizeof *overlay->chains),
        .chain_count = params->count,
        .members = calloc((size_t)params->count * ORK_NPU_CHAIN_MEMBERS_MAX, sizeof *overlay->members),
        .buffers = calloc(params->count, sizeof *overlay->buffers),
        .rests = params->rests,
        .token_ns = params->token_ns,
        .last_chain = NO_CHAIN,
    };
    ork_status status = ORK_OK;
    if (!overlay->chains || !overlay->members || !overlay->buffers)
        status = ork_error_no_memory(error, "overlay", params->count * sizeof *overlay->chains);
    if (!status)
        status = fill(npu, overlay, params, error);
    if (status)
        destroy(npu, overlay);
    else
        npu->overlay = overlay;
    return status;
}

ork_status ork_npu_overlay_attach(ork_npu *npu, const void *user, const struct ork_npu_overlay_params *params,
                                  ork_error *error)
{
    struct overlay_attachment attachment = {user, params};
    if (!params->count)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "overlay", -1, "there are no chains");
    return ork_npu_owner_call(npu, attach, &attachment, error);
}

void ork_npu_overlay_drop(ork_npu *npu)
{
    struct ork_npu_overlay *overlay = npu->overlay;
    npu->overlay = NULL;
    if (overlay)
        destroy(npu, overlay);
}

static ork_status detach(ork_npu *npu, void *argument, ork_error *error)
{
    (void)error;
    if (npu->overlay && npu->overlay->user == argument)
        ork_npu_overlay_drop(npu);
    return ORK_OK;
}

void ork_npu_overlay_detach(ork_npu *npu, const void *user)
{
    ork_npu_owner_call(npu, detach, (void *)(uintptr_t)user, NULL);
}
