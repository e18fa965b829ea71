/* Inside of the residency manager, shared by its files: residency.c (the calls), residency_place.c (domains, chunks,
 * imports), residency_slots.c (slots and their order of eviction), residency_swap.c (threads that fill). The owner thread
 * alone touches all of it, but for the part behind the lock and the atomics. */
#ifndef ORK_ENGINE_NPU_RESIDENCY_INNER_H
#define ORK_ENGINE_NPU_RESIDENCY_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/npu/residency.h"
#include "kernels/kernels.h"

#define RESIDENCY_NONE UINT32_MAX
#define RESIDENCY_UNITS_MAX (1u << 20)
#define RESIDENCY_THREADS_MAX 8u
/* Separate mappings of a domain wedged the vendor's kernel at about 2,340: ork-driver.md 4.5. */
#define RESIDENCY_MAPPINGS_MAX 1024u
#define RESIDENCY_CHUNK_BYTES (128ull << 20)
#define RESIDENCY_CHUNK_BYTES_WHOLE (16ull << 20) /* where a sync acts on the whole chunk */
#define RESIDENCY_CHUNK_BYTES_MIN (4ull << 20)    /* when memory is short */
#define RESIDENCY_IMPORT_BYTES (64ull << 20)      /* whole experts up to so much are one mapping */

enum residency_state {
    RESIDENCY_ABSENT = 0,
    RESIDENCY_WAITING = 1, /* for a slot that is in use */
    RESIDENCY_FILLING = 2, /* at the swap threads, or done there and not yet finished by pump */
    RESIDENCY_PRESENT = 3
};

/* One matrix, or one expert of a stack. */
struct residency_unit {
    atomic_uchar state; /* enum residency_state, written by the owner */
    uint8_t domain;
    bool imported;
    bool keyed;    /* its key stands; keys are kept when slots change hands */
    bool used;     /* acquired since it was filled */
    bool prefetch; /* how it came to be waiting */
    bool possible; /* a slot that fits, or an import, exists */
    uint32_t matrix, expert;
    uint32_t buffer; /* index, and offset in it; meaningful while it has a slot or is imported */
    uint32_t slot;
    uint64_t offset;
    uint32_t users;
    uint32_t used_round, filled_round, refused_round, refusals;
    uint32_t next; /* in the queue of waiting units */
    uint32_t *key; /* [k padded] */
};

struct residency_matrix {
    const struct ork_matrix *matrix;
    uint32_t layer, first_unit;
    enum ork_npu_type type;
    bool pinned;
    uint32_t n, k, groups; /* padded; groups of the source: 32 or 64 channels */
    uint64_t group_bytes;  /* of the source */
    uint64_t unit_bytes;   /* as resident */
};

struct residency_slot {
    uint32_t buffer, class, unit; /* RESIDENCY_NONE: free */
    uint64_t offset, stamp;       /* stamp: order of release */
    uint32_t older, newer;        /* among those that may be evicted; newer is the next free one when free */
};

/* Slots of one size in one domain. */
struct residency_class {
    uint8_t domain;
    uint64_t slot_bytes;
    uint32_t slots, pinned, idle, vacant; /* of slots: pinned for good, evictable, free */
    uint32_t oldest, newest, first_free;
};

struct ork_npu_residency {
    struct ork_npu_device *device;
    const struct ork_npu_capabilities *capabilities;
    const struct ork_surface_kernels *kernels;
    struct ork_npu_residency_params params;
    bool started, failed;

    struct residency_matrix *matrices;
    uint32_t matrix_count, matrix_capacity;
    struct residency_unit *units;
    uint32_t unit_count, unit_capacity;
    uint32_t *table; /* matrix by address: index, open addressing; not changed after start */
    uint32_t table_mask;
    uint32_t *keys; /* of all units */
    uint64_t key_words, key_bytes;

    struct ork_npu_buffer *buffers; /* chunks and imports; not moved after start */
    uint32_t buffer_count, buffer_capacity, mappings_max;
    uint32_t domains;
    uint64_t domain_capacity, domain_used[ORK_NPU_DOMAINS_MAX]; /* chunks and imports */

    struct residency_slot *slots;
    uint32_t slot_count, slot_capacity;
    struct residency_class *classes;
    uint32_t class_count, class_capacity;

    uint32_t round, last_layer;
    uint64_t stamp;
    uint32_t waiting_first, waiting_last;
    uint32_t filling; /* handed to the swap threads, not finished */

    struct ork_npu_residency_stats stats;

    /* Swap threads. */
    pthread_t threads[RESIDENCY_THREADS_MAX];
    uint32_t thread_count;
    atomic_bool stop;
    pthread_mutex_t lock; /* of the two rings */
    pthread_cond_t work, filled;
    uint32_t *todo, *done; /* [unit_count] rings */
    uint32_t todo_first, todo_count, done_first, done_count;
};

static inline struct residency_matrix *residency_matrix_of(const struct ork_npu_residency *r, uint32_t unit)
{
    return &r->matrices[r->units[unit].matrix];
}

static inline uint32_t residency_state_of(const struct ork_npu_residency *r, uint32_t unit)
{
    return atomic_load_explicit(&r->units[unit].state, memory_order_acquire);
}

static inline void residency_set_state(struct ork_npu_residency *r, uint32_t unit, enum residency_state state)
{
    atomic_store_explicit(&r->units[unit].state, (unsigned char)state, memory_order_release);
}

/* residency.c: a unit that was filled is ready for the device, or absent again when the device refuses. */
ork_status residency_finish(struct ork_npu_residency *r, uint32_t unit, ork_error *error);

/* residency_slots.c */
enum residency_find {
    RESIDENCY_GOT,
    RESIDENCY_BUSY,   /* one that fits is in use or being filled */
    RESIDENCY_REFUSED /* none may be taken */
};
ork_status residency_slot_add(struct ork_npu_residency *r, uint32_t unit, uint32_t buffer, uint64_t offset,
                              ork_error *error);
/* Gives the unit a slot, evicting another unit for it if it must. */
enum residency_find residency_slot_find(struct ork_npu_residency *r, uint32_t unit);
bool residency_slot_exists(const struct ork_npu_residency *r, uint32_t unit);
void residency_slot_vacate(struct ork_npu_residency *r, uint32_t unit); /* its unit is then ABSENT */
/* The slot of a present unit may be evicted from now on, or no more. */
void residency_slot_idle(struct ork_npu_residency *r, uint32_t unit);
void residency_slot_busy(struct ork_npu_residency *r, uint32_t unit);

/* residency_place.c: gives every unit that it can a slot or an import, and hands all of them to be filled. */
ork_status residency_place(struct ork_npu_residency *r, ork_error *error);

/* residency_swap.c */
ork_status residency_threads_start(struct ork_npu_residency *r, ork_error *error);
void residency_threads_stop(struct ork_npu_residency *r);
/* Of a unit that has its place. */
void residency_fill(struct ork_npu_residency *r, uint32_t unit);
/* A unit that was filled, RESIDENCY_NONE when there is none. wait: until one is. */
uint32_t residency_filled(struct ork_npu_residency *r, bool wait);

#endif
