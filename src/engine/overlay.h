/* How another engine may add quality to matmuls of one row that the CPU engine computes completely. Owns the contract alone;
 * knows no device.
 *
 * A chain is a number of channels of matrices that read the same input, of which the other engine has more than the CPU reads
 * (int8 where the CPU reads 4 bits). The CPU engine hands over the input before it computes the chain's members and asks once
 * when it has: a result that is there replaces its own, one that is not is forgotten. Nothing here waits, except where the
 * other engine's time is virtual. Results: y[n] = fmaf((float)acc, x scale, 0) * w scale of the channel, the bits of the
 * kernel table for the full matrix and an activation with one scale a row.
 *
 * A late chain is not asked for at the join. What the CPU has added to the residual stream is remembered, and the
 * difference is added when the CPU begins a later layer. */
#ifndef ORK_ENGINE_OVERLAY_H
#define ORK_ENGINE_OVERLAY_H

#include "kernels/kernels.h"

/* What a chain has of a matrix: its results from `first` on are those of these channels. */
struct ork_overlay_part {
    uint32_t chain, first, count;
    const uint32_t *channels; /* [count], ascending, each below the matrix's n */
};

/* A late chain of one member whose time has come: add result[i] - own[i] to channel part->channels[i] of the residual
 * stream. */
struct ork_overlay_correction {
    const float *result, *own; /* [part->count] */
    const struct ork_overlay_part *part;
};

/* One caller at a time. */
struct ork_overlay {
    void *context;
    bool late;
    /* The part of a matrix that is in a chain, NULL: there is none. Lives as long as the overlay. Cheap. */
    const struct ork_overlay_part *(*find)(void *context, const struct ork_matrix *w);
    /* Whether it is worth preparing a chain's input for begin. A hint. */
    bool (*is_free)(void *context, uint32_t chain);
    /* Hands over the chain's input, a row with one scale, which is copied. True: there will be something to ask for. x NULL: a
     * begin that was not worth it, which is counted. */
    bool (*begin)(void *context, uint32_t chain, const struct ork_activation *x);
    /* Once after a begin that said true, unless late. The results of all members, NULL: not in time. They stay until done. */
    const float *(*poll)(void *context, uint32_t chain);
    void (*done)(void *context, uint32_t chain);
    /* After a begin of a late chain that said true: own is what the CPU has computed of the whole matrix. */
    void (*keep)(void *context, uint32_t chain, const float *own);
    /* At the beginning of a layer (the head counts as one), until it says false: the next chain that is due and came in time.
     * The correction is valid until the next call. */
    bool (*next_correction)(void *context, uint32_t layer, struct ork_overlay_correction *correction);
    /* Nobody will ask for what is under way: a pass ends early. */
    void (*forget)(void *context);
};

#endif
