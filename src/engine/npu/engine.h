/* The NPU engine beside the public handle: what the model room and the scheduler use of it. Owns the contract of
 * ork_npu's inner side; the outer side stands in ork/ork.h.
 *
 * One owner thread makes all device calls. Callers hand it work through a queue and never wait longer than their own
 * deadline. A result counts only after its check: every row of every matmul is compared with a checksum of the exact
 * product (Huang and Abraham, 1984; mod 2^32 with odd weights, so that any single wrong number is found). */
#ifndef ORK_ENGINE_NPU_ENGINE_H
#define ORK_ENGINE_NPU_ENGINE_H

#include "engine/offload.h"
#include "engine/overlay.h"

/* A matrix that may run on the NPU. */
struct ork_npu_weight {
    const struct ork_matrix *matrix;
    uint32_t layer;
    bool pinned;
    /* Wanted with so many rows and more; 0: ORK_NPU_ROWS_MIN; UINT32_MAX: never, and placed only if pinned. Where
     * ork_npu_params.rows_min is given, that counts instead. */
    uint32_t rows_min;
};
/* Makes a model's weights known to the engine, places them and fills what fits; returns when that is done. owner: any
 * pointer that names the model; attaching it again counts a reference and leaves all as it is. ORK_LIMIT while another
 * owner is attached. Weights that the NPU cannot multiply (row tiers, too many inputs) are passed over. The matrices must live until the last detach,
 * and nobody may use the offload while that call or the first attach runs. */
ork_status ork_npu_attach(ork_npu *npu, const void *owner, const struct ork_npu_weight *weights, size_t count,
                          ork_error *error);
/* The number of rows from which it wants a matrix; UINT32_MAX: never, or the matrix is not attached. */
uint32_t ork_npu_rows_min(const ork_npu *npu, const struct ork_matrix *matrix);
/* The last reference frees the weights' memory; waits until the device is idle, if need be by a reset. */
void ork_npu_detach(ork_npu *npu, const void *owner);

/* The engine as the CPU engine's helper; lives as long as the handle. It wants every matmul of at least
 * ork_npu_rows_min rows on attached weights, whatever state it is in: a fault moves work to the CPU and never changes a bit. begin takes
 * those whose weights are present while the engine is well. begin and finish of a pair come from one thread; a begin while
 * another thread's pair is open takes nothing. */
const struct ork_offload *ork_npu_offload(ork_npu *npu);

/* ---- overlay: int8 chains beside the CPU's own matmuls of one row; overlay.c ---- */

#define ORK_NPU_CHAIN_MEMBERS_MAX 8u

/* Matrices that read the same input. full is what the NPU multiplies with: n8, or a tier that it takes as it is. */
struct ork_npu_chain {
    const struct ork_matrix *members[ORK_NPU_CHAIN_MEMBERS_MAX]; /* the CPU's, which name them */
    struct ork_matrix full[ORK_NPU_CHAIN_MEMBERS_MAX];           /* same n and k, one expert */
    /* The channels of each that the chain has, ascending; NULL: all. */
    const uint32_t *channels[ORK_NPU_CHAIN_MEMBERS_MAX];
    uint32_t channel_counts[ORK_NPU_CHAIN_MEMBERS_MAX];
    uint32_t member_count;
    uint32_t due_layer; /* late: the layer at whose beginning it is asked for */
    /* Where time is virtual: from the beginning of a token to begin, and from begin to the question. */
    uint64_t begin_ns, window_ns;
};
struct ork_npu_overlay_params {
    const struct ork_npu_chain *chains; /* copied, in the order of a pass */
    uint32_t count;
    bool late;         /* every chain has one member */
    bool rests;        /* chains that are hardly ever in time rest, tuning.h */
    uint64_t token_ns; /* where time is virtual: of one token */
};
/* What begin, the question and taking over 2,048 results cost the caller: docs/npu.md, bench_npu. */
#define ORK_NPU_OVERLAY_CALLS_S 3e-6
/* Bytes of int8 weights that chains may take. */
uint64_t ork_npu_overlay_room(const ork_npu *npu);
/* Puts the chains' weights into memory of one domain, copied, and compiles their programs; from then on ork_npu_overlay may be
 * used, by one thread at a time. One user at a time: ORK_LIMIT while another has it. ORK_NO_MEMORY: they do not fit. Nobody
 * may use the engine's offload while the call runs. */
ork_status ork_npu_overlay_attach(ork_npu *npu, const void *user, const struct ork_npu_overlay_params *params,
                                  ork_error *error);
void ork_npu_overlay_detach(ork_npu *npu, const void *user);
/* NULL while nobody is attached; lives as long as the attachment. begin never waits and never queues behind work of others: a chain that finds the NPU at
 * something else, off or recovering is not begun. */
const struct ork_overlay *ork_npu_overlay(ork_npu *npu);
/* Since the attach. */
struct ork_npu_overlay_counts {
    uint64_t planned;         /* begins */
    uint64_t submitted, busy; /* of them: begun; not, for the NPU was at something else, off or recovering */
    uint64_t rested;          /* nor, for the chain rests */
    uint64_t in_time, late, faulted, pending; /* of submitted: used; too late; failed their check; not asked for yet */
    uint64_t bytes;                           /* of int8 weights behind results that were used */
    uint64_t resident_bytes;                  /* of weights, now */
};
/* When the chain that was begun last was complete, on the device's clock; 0 while it is under way. For measurements. */
uint64_t ork_npu_overlay_completed_ns(const ork_npu *npu, uint32_t chain);
void ork_npu_overlay_get_counts(ork_npu *npu, struct ork_npu_overlay_counts *counts);

/* Returns when the owner has done what it is at: recovery after a fault is over, or the engine off. */
void ork_npu_settle(ork_npu *npu);
/* Whether the device has a clock of its own, on which nothing of this machine can be measured. */
bool ork_npu_is_virtual(const ork_npu *npu);
/* The device, for tests; only the owner thread may use it. */
struct ork_npu_device;
const struct ork_npu_device *ork_npu_get_device(const ork_npu *npu);

/* W4A4 for tests and tuning: C[i][n] = sum of codes, exact int32 summed over k slices; codes of a in -8..7 in int8,
 * [m][k] with k padded to 32; b an i4 matrix. ORK_FAILURE when the NPU cannot or the check fails; c is then unspecified. */
ork_status ork_npu_multiply_w4a4(ork_npu *npu, const int8_t *a, uint32_t m, const struct ork_matrix *b, int32_t *c,
                                 ork_error *error);

#endif
