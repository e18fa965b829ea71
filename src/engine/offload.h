/* How the CPU engine hands matmuls of several rows to another engine. Owns the contract alone; knows no device.
 *
 * A task asks for y[i][n] = fmaf((float)acc, x scale of the row, 0) * w scale of the channel, acc the exact int32 dot of the
 * codes: the bits of the kernel table for activations with one scale a row (x->block == x->k_padded). What the other
 * engine does not finish, the CPU computes from the same input. */
#ifndef ORK_ENGINE_OFFLOAD_H
#define ORK_ENGINE_OFFLOAD_H

#include "kernels/kernels.h"

struct ork_offload_task {
    const struct ork_matrix *w;
    uint32_t expert;
    const struct ork_activation *x; /* one scale a row; plain codes, scales are read */
    const uint32_t *x_rows;         /* [m] rows of x to use, or NULL for 0..m-1 */
    uint32_t m;
    float *y;          /* result (i, n) at y[i * y_stride + n], all channels */
    uint64_t y_stride; /* floats */
    bool taken;        /* set by begin: the CPU need not compute it unless finish says so */
    bool done;         /* set by finish: y is complete; a taken task that is not done must be computed by the CPU */
};

/* One caller at a time; begin and finish come in pairs. */
struct ork_offload {
    void *context;
    /* Whether a matmul of m rows on w would be taken now; says so cheaply and without a side effect. What is wanted with m
     * rows is wanted with more. */
    bool (*wants)(void *context, const struct ork_matrix *w, uint32_t m);
    /* Starts what it takes of the tasks and returns without waiting. Tasks, inputs and outputs stay untouched by the
     * caller until finish; outputs of tasks that are not taken are the caller's at once. */
    void (*begin)(void *context, struct ork_offload_task *tasks, uint32_t count);
    /* Waits, within the other engine's own bounds, until every taken task is done or given up. */
    void (*finish)(void *context);
};

#endif
