/* Inside of the CPU engine, shared by its files. */
#ifndef ORK_ENGINE_CPU_ENGINE_H
#define ORK_ENGINE_CPU_ENGINE_H

#include "base/pool.h"
#include "engine/cpu/cpu.h"
#include "engine/offload.h"
#include "engine/overlay.h"

#include <stdatomic.h>

#define ORK_CPU_PHASES 4u /* parts of a region that deal out work, at most */

/* What is left of one thread's run of units in a phase; share.c. A line of its own, for it is written often. */
struct ork_cpu_run_left {
    _Alignas(64) atomic_ullong word;
};

struct ork_cpu {
    ork_pool *pool;
    const struct ork_kernels *kernels;
    uint32_t threads, threads_batch, pool_threads;
    uint32_t activation_block;
    struct ork_cpu_limits limits;
    uint64_t scratch_bytes;
    uint8_t *scratch;

    float *normed;                  /* [rows][input_k] */
    struct ork_activation input;    /* of normed rows */
    float *hidden, *up;             /* [hidden_rows][hidden_k]: gate output, then the product; up output */
    struct ork_activation product;  /* of hidden rows */
    float *projected;               /* [hidden_rows][output_n]: results before they are added to the stream */
    float *attend_scratch;          /* [pool threads][ork_cpu_attend_scratch] */
    float *attend_parts;            /* [parts][heads][ORK_ATTEND_STATE(head_size)] of a single row */
    float *row;                     /* [pool threads][input_k] */
    float *router;                  /* [rows][experts] */
    float *biased;                  /* [pool threads][experts] */
    uint32_t *chosen;               /* [rows][used]: expert */
    float *weights;                 /* [rows][used] */
    uint32_t *expert_begin;         /* [experts + 1]: where an expert's rows begin in the sorted order */
    uint32_t *sorted_row;           /* [rows * used]: token row of a sorted place */
    uint32_t *place;                /* [rows][used]: sorted place of a choice */
    uint32_t *counting;             /* [rows * used]: 0, 1, 2, ... */
    struct ork_cpu_run_left *runs;  /* [pool threads] */
    uint32_t region_tag;            /* of phase 0 of the present region */
    const struct ork_offload *offload; /* NULL: none; offload.c */
    struct ork_offload_task *tasks; /* matmuls up to the present join, those that are offered first */
    uint32_t task_count, offered_count;
    struct ork_cpu_batch_work batch_work;
    const struct ork_overlay *overlay; /* NULL: none; overlay.c */
    struct ork_activation whole;       /* one row with one scale, for chains */
};

/* Channels n_begin..n_end-1 of a matrix. */
struct ork_cpu_channels {
    uint32_t n_begin, n_end;
};

/* Channels of one unit of work: whole bricks in brick tiers, 16 channels in row tiers; about the same bytes in each. */
uint32_t ork_cpu_unit(const struct ork_matrix *w);
uint32_t ork_cpu_units(const struct ork_matrix *w, uint32_t unit);
/* Channels of the units [begin, end). */
struct ork_cpu_channels ork_cpu_unit_channels(const struct ork_matrix *w, uint32_t unit, uint32_t begin, uint32_t end);

/* How the units of one phase of a region are dealt out; see share.c. One a thread, all made with the same numbers; a phase
 * ends with a barrier or the region. */
struct ork_cpu_share {
    struct ork_cpu_run_left *runs;
    uint32_t tag, units, piece_most;
    uint32_t unit, count; /* what a unit here stands for: `unit` of the caller's `count` units */
    uint32_t passed;      /* runs found empty, beginning with the own one */
};
struct ork_cpu_share ork_cpu_share_make(struct ork_cpu *cpu, uint32_t phase, uint32_t units, uint32_t rows,
                                        uint32_t threads);
bool ork_cpu_share_next(struct ork_cpu_share *share, uint32_t thread, uint32_t threads, uint32_t *begin, uint32_t *end);
/* Runs a region for so many rows. */
void ork_cpu_run(struct ork_cpu *cpu, uint32_t rows, ork_pool_function function, void *context);

void ork_cpu_matmul(const struct ork_cpu *cpu, const struct ork_matrix *w, uint32_t expert,
                    const struct ork_activation *x, const uint32_t *x_rows, uint32_t m, struct ork_cpu_channels channels,
                    float *y, uint64_t y_stride);
/* Describes rows of floats as matmul input: sets shape and pointers of a preallocated activation. */
void ork_cpu_describe(const ork_cpu *cpu, struct ork_activation *x, const float *rows_f32, uint64_t stride, uint32_t rows,
                      uint32_t k);
/* Whether the tier wants integer activations. */
bool ork_cpu_wants_codes(const ork_cpu *cpu, const struct ork_matrix *w);
/* This thread's rows: rms_norm into cpu->normed (or no norm: x itself is described) and quantize. */
void ork_cpu_prepare_rows(ork_cpu *cpu, const float *x, uint64_t x_stride, const float *norm, float eps, bool codes,
                          uint32_t thread, uint32_t threads);
/* Floats of attention's scratch: a thread's own, and what all threads share. */
uint64_t ork_cpu_attend_scratch(const struct ork_cpu_limits *limits);
uint64_t ork_cpu_attend_parts(const struct ork_cpu_limits *limits);
/* Groups of several rows with an offload; offload.c. Whether the other engine would take m rows on w now. */
bool ork_cpu_wanted(const ork_cpu *cpu, const struct ork_matrix *w, uint32_t m);
/* One scale a row for a described activation. */
void ork_cpu_use_whole_rows(struct ork_activation *x);
/* Notes a matmul of so many rows that the group is about to compute, by whichever engine; counts with an offload and
 * several token rows. The input is described. */
void ork_cpu_count_batch(ork_cpu *cpu, const struct ork_matrix *w, uint64_t rows);
/* Adds a matmul to those before the next join: at most ORK_CPU_OUTPUTS_MAX or two for each expert. It is offered if it is
 * wanted and its input has one scale a row. */
void ork_cpu_list(ork_cpu *cpu, const struct ork_offload_task *task);
/* Computes all that is listed, here and there, and empties the list. Between regions. */
void ork_cpu_multiply_listed(ork_cpu *cpu);
/* A group's chain in an overlay; overlay.c. */
struct ork_cpu_chain {
    const struct ork_overlay_part *part; /* of the matrix by which it was found; NULL: there is no chain */
    bool replaces; /* polled at the join: results are added to nothing before */
    bool begun;
};
/* part NULL without an overlay, with several rows, and for a matrix that is in no chain. */
struct ork_cpu_chain ork_cpu_chain_find(const ork_cpu *cpu, const struct ork_matrix *w, uint32_t rows);
/* x: one row, complete and quantized; its floats are read again. By one thread. */
void ork_cpu_chain_begin(ork_cpu *cpu, struct ork_cpu_chain *chain, const struct ork_activation *x);
/* Once, after the join: the results of the chain that replace the CPU's, or NULL. With results, done follows. */
const float *ork_cpu_chain_poll(const ork_cpu *cpu, const struct ork_cpu_chain *chain);
void ork_cpu_chain_done(const ork_cpu *cpu, const struct ork_cpu_chain *chain);
/* Those results that are of w into their places in y[w->n], plus bias[w->n] if not NULL. results NULL: none. */
void ork_cpu_chain_replace(const ork_cpu *cpu, const struct ork_cpu_chain *chain, const float *results,
                           const struct ork_matrix *w, const float *bias, float *y);
/* After the join: what the CPU computed of w, without a bias, if w is in a late chain that was begun. */
void ork_cpu_chain_keep(const ork_cpu *cpu, const struct ork_cpu_chain *chain, const struct ork_matrix *w,
                        const float *own);
/* This thread's rows of cpu->product: silu of gate times up, both complete, and its codes. */
void ork_cpu_activate_rows(ork_cpu *cpu, bool codes, uint32_t thread, uint32_t threads);
/* This thread's part of the rows of cpu->product. */
void ork_cpu_quantize_product(struct ork_cpu *cpu, uint32_t thread, uint32_t threads);

#endif
