/* Inside of the NPU engine, shared by its files. The owner thread alone touches everything here that is not atomic, once
 * the handle is open. */
#ifndef ORK_ENGINE_NPU_INNER_H
#define ORK_ENGINE_NPU_INNER_H

#include "engine/npu/device/device.h"
#include "engine/npu/engine.h"
#include "engine/npu/residency.h"
#include "engine/npu/tiling.h"
#include "engine/npu/timing.h"
#include "engine/npu/tuning.h"

#include <pthread.h>
#include <stdatomic.h>

enum ork_npu_health {
    ORK_NPU_WELL = 0,
    ORK_NPU_RECOVERING = 1, /* nothing is taken; the owner is about to try resets */
    ORK_NPU_OFF = 2         /* for good */
};

struct ork_npu_counters {
    atomic_ullong matmuls, submits, tasks, multiply_adds, declined, redone;
    atomic_ullong late, never_started, stopped, failed_checks, refused_submits;
    atomic_ullong resets, failed_resets, quarantined_bytes;
    atomic_ullong programs_built, programs_reused, busy_ns, domain_switches;
    atomic_uint cores_in_use;
};

/* ---- compiled matmuls: compile.c ---- */

/* Surfaces of one job in a domain. While one half's job runs, the other is packed or unpacked. */
struct ork_npu_half {
    struct ork_npu_buffer a, c; /* size_bytes 0: none yet */
};

/* What the engine has in a domain. */
struct ork_npu_space {
    struct ork_npu_buffer programs; /* ORK_NPU_PROGRAM_SLOTS slots and slack; size_bytes 0: none yet */
    uint64_t used[ORK_NPU_PROGRAM_SLOTS / 64];
    struct ork_npu_half halves[2];
};

/* What a compiled matmul depends on. */
struct ork_npu_set_key {
    enum ork_npu_type type;
    uint32_t m, k, n; /* of the piece, padded */
    uint32_t domain, half, core_mask;
    uint32_t rows_cap, channels_cap; /* 0 but in self-tests */
};

/* An input surface of a task, shared by the tasks of other channels. */
struct ork_npu_set_input {
    uint64_t a_offset;
    uint32_t m_begin, m, k_begin, k;
    enum ork_npu_surface surface;
};

/* Results of one range of rows and channels: `slices` output surfaces to be summed. */
struct ork_npu_set_result {
    uint32_t m_begin, m, n_begin, n;
    const void *const *parts; /* [plan.slices] */
};

/* Programs and device jobs of one plan, ready for any weights of its shape in the domain. */
struct ork_npu_set {
    struct ork_npu_set_key key;
    struct ork_npu_plan plan;
    uint32_t first_slot;
    uint32_t cores[ORK_NPU_CORES_MAX]; /* physical core of plan core i */
    struct ork_npu_job *jobs[ORK_NPU_CORES_MAX];
    double seconds[ORK_NPU_CORES_MAX]; /* predicted */
    uint64_t multiply_adds;
    struct ork_npu_set_input *inputs;
    uint32_t input_count;
    struct ork_npu_set_result *results;
    uint32_t result_count;
    const void **parts;             /* of all results */
    const struct ork_npu_buffer *b; /* what programs and jobs name at present; NULL: nothing */
    uint64_t b_offset;
    uint32_t users;                           /* pieces; not evicted while there are any */
    struct ork_npu_set *newer, *older, *next; /* by use; in a bucket */
};

#define ORK_NPU_SET_BUCKETS 256u
#define ORK_NPU_CUTS 64u

/* How a matmul of a shape is cut, remembered. */
struct ork_npu_cut {
    struct ork_npu_set_key shape; /* half 0 */
    uint32_t m, n;                /* of a piece; 0: nothing remembered */
};

struct ork_npu_cache {
    struct ork_npu_set *buckets[ORK_NPU_SET_BUCKETS];
    struct ork_npu_set *newest, *oldest;
    uint32_t count;
    struct ork_npu_cut cuts[ORK_NPU_CUTS];
};

/* ---- matmuls under way: multiply.c ---- */

/* One matmul on weights in device memory. */
struct ork_npu_product {
    struct ork_npu_resident weight;
    uint32_t m, n_used;
    const int8_t *codes;
    uint64_t stride;
    const uint32_t *rows; /* or NULL */
    const float *x_scales, *w_scales;
    float *y; /* or NULL */
    uint64_t y_stride;
    int32_t *sums; /* or NULL */
    uint64_t sums_stride;
    uint32_t core_mask;              /* 0: all cores of the lane */
    uint32_t rows_cap, channels_cap; /* 0 but in self-tests */
    /* Filled as it goes. */
    uint32_t piece_m, piece_n, next_m, next_n, pieces_left;
    uint32_t *expected, *actual, *present; /* [m] checks: due; of the pieces so far; of the present piece */
    float *scales;                         /* [m] of its rows */
    bool failed;
    bool done; /* everything came and every row proved right */
};

/* A part of a product that is one job a core. */
struct ork_npu_piece {
    struct ork_npu_product *product; /* NULL: none */
    struct ork_npu_set *set;
    uint32_t m_begin, m, n_begin, n, n_used;
    bool last;                 /* of its rows: their checks are complete with it */
    uint32_t submitted, there; /* masks of plan cores */
    uint64_t submitted_ns, deadline_ns, done_ns[ORK_NPU_CORES_MAX], look_ns;
    uint32_t step_us, read_again;
};

/* Cores that work on one product at a time: all of them, or one each where a domain belongs to a core. */
struct ork_npu_lane {
    uint32_t core_mask;
    struct ork_npu_piece running, packed, finished; /* at most two of them at once, in different halves */
    uint32_t next_product;                          /* index into the run */
    bool waits_for_idle;                            /* to allocate */
    bool has_wanted;                                /* a set that was not ready while a job ran: to be made when idle */
    struct ork_npu_set_key wanted;
};

/* A number of products to be done together. */
struct ork_npu_run {
    struct ork_npu_product *products;
    const uint32_t *order; /* indices of products, those of one domain side by side */
    uint32_t count;
    atomic_uint *phase; /* of the batch whose memory is used, NULL: the memory is ours meanwhile */
    ork_error error;    /* why the last piece could not be made ready; code 0: none */
    bool stopping;      /* a fault: nothing new is begun */
    uint32_t suspects;  /* cores of faulty pieces */
};

/* ---- the handle ---- */

/* What the engine has on a core: a job that runs or may run. */
struct ork_npu_core {
    struct ork_npu_set *set; /* NULL: nothing runs */
    uint32_t plan_core;
    uint64_t deadline_us; /* how long it was waited for */
    bool unexplained;     /* it is late, and what became of it shows only when it is over */
    bool usable;
};

/* An attached matrix, and the number of rows from which it is wanted. */
struct ork_npu_known {
    const struct ork_matrix *matrix;
    uint32_t rows_min;
};

/* Attached weights by address, open addressing; not changed while anybody may look. */
struct ork_npu_table {
    struct ork_npu_known *places; /* [mask + 1], no matrix: free */
    uint32_t mask;
};

/* Of a batch of tasks. Whoever moves it from OPEN to TOUCHED may use the caller's memory until it moves it back. */
enum ork_npu_phase {
    ORK_NPU_FREE = 0,
    ORK_NPU_FILLING = 1,
    ORK_NPU_OPEN = 2,
    ORK_NPU_TOUCHED = 3,
    ORK_NPU_COMPLETE = 4,
    ORK_NPU_ABANDONED = 5 /* by finish; the owner frees it */
};

struct ork_npu_batch {
    atomic_uint phase;
    _Atomic pthread_t caller;         /* another thread's finish may look while it is set */
    struct ork_offload_task *tasks;   /* the caller's */
    uint32_t count;                   /* taken */
    struct ork_offload_task *copies;  /* [ORK_NPU_BATCH_MAX] */
    uint32_t *indices;                /* of copies in tasks */
    struct ork_npu_product *products; /* [ORK_NPU_BATCH_MAX] */
    uint32_t *product_copies;         /* which copy a product is */
    uint32_t *order;
    bool *done; /* by copy */
};

struct ork_npu_wanted {
    const struct ork_matrix *matrix;
    uint32_t expert, looks;
};

struct ork_npu_overlay;

typedef ork_status (*ork_npu_call)(ork_npu *npu, void *argument, ork_error *error);

struct ork_npu {
    struct ork_npu_device *device;
    const struct ork_npu_capabilities *capabilities;
    const struct ork_clock *clock;
    const struct ork_surface_kernels *kernels;
    struct ork_npu_profile profile;
    uint32_t rows_min, timeout_us, cores; /* rows_min: of all weights, 0: their own; cores: to be used at most */
    uint64_t memory_bytes;
    struct ork_offload offload;
    struct ork_npu_overlay *overlay; /* NULL: none; changed by the owner while nobody uses the engine; overlay.c */

    /* Owner's. */
    struct ork_npu_space spaces[ORK_NPU_DOMAINS_MAX];
    struct ork_npu_cache cache;
    struct ork_npu_core on_core[ORK_NPU_CORES_MAX];
    struct ork_npu_lane lanes[ORK_NPU_CORES_MAX];
    uint32_t lane_count;
    uint32_t last_domain; /* of the last job */
    uint64_t outcomes;    /* of the last 64 jobs, 1: faulty */
    uint32_t suspects;    /* cores of faulty jobs since the last recovery */
    struct ork_npu_residency *residency;
    struct ork_npu_resident *held; /* [ORK_NPU_BATCH_MAX] weights that jobs may still read */
    uint32_t held_count;
    uint32_t *weights; /* check weights of channels */
    uint32_t weight_count;
    struct ork_npu_buffer test_weights[ORK_NPU_DOMAINS_MAX]; /* of domains that are used; size_bytes 0: none */

    /* Shared. */
    struct ork_npu_counters counters;
    atomic_uint health;
    struct ork_npu_table table;
    atomic_bool attached;
    struct ork_npu_batch batch;
    struct {
        const struct ork_matrix *matrix;
        uint32_t expert;
        atomic_bool asked; /* by begin; cleared by the owner */
    } asks[ORK_NPU_WANTED_MAX];
    struct ork_npu_wanted wanted[ORK_NPU_WANTED_MAX];
    uint32_t wanted_count;
    /* For the overlay: virtual time until which a caller has waited, 0: nothing new; when the last recovery ended. */
    atomic_ullong waited_ns, recovered_ns;
    atomic_uint beat; /* the owner's sign of life */

    pthread_t owner;
    atomic_uint bell;     /* rung when there is something for the owner; it sleeps on it */
    atomic_bool is_asleep;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t answered;
    ork_npu_call call; /* waiting or running, NULL: none */
    void *call_argument;
    ork_error *call_error;
    ork_status call_status;
    bool call_done, stop;
    const void *model; /* what is attached */
    uint32_t references;
    char why[256];
    struct ork_npu_residency_stats residency_stats;
};

#endif
