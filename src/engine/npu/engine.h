/* The NPU engine beside the public handle: what the model room and the scheduler use of it. Owns the contract of
 * ork_npu's inner side; the outer side stands in ork/ork.h.
 *
 * One owner thread makes all device calls. Callers hand it work through a queue and never wait longer than their own
 * deadline. A result counts only after its check: every row of every matmul is compared with a checksum of the exact
 * product (Huang and Abraham, 1984; mod 2^32 with odd weights, so that any single wrong number is found). */
#ifndef ORK_ENGINE_NPU_ENGINE_H
#define ORK_ENGINE_NPU_ENGINE_H

#include "engine/offload.h"

/* A matrix that may run on the NPU. */
struct ork_npu_weight {
    const struct ork_matrix *matrix;
    uint32_t layer;
    bool pinned;
};
/* Makes a model's weights known to the engine, places them and fills what fits; returns when that is done. owner: any
 * pointer that names the model; attaching it again counts a reference. ORK_LIMIT while another owner is attached. Weights
 * that the NPU cannot multiply (row tiers, too many inputs) are passed over. The matrices must live until the last detach,
 * and nobody may use the offload while that call or the first attach runs. */
ork_status ork_npu_attach(ork_npu *npu, const void *owner, const struct ork_npu_weight *weights, size_t count,
                          ork_error *error);
/* The last reference frees the weights' memory; waits until the device is idle, if need be by a reset. */
void ork_npu_detach(ork_npu *npu, const void *owner);

/* The engine as the CPU engine's helper; lives as long as the handle. It wants every matmul of ork_npu_params.rows_min rows
 * and more on attached weights, whatever state it is in: a fault moves work to the CPU and never changes a bit. begin takes
 * those whose weights are present while the engine is well. begin and finish of a pair come from one thread; a begin while
 * another thread's pair is open takes nothing. */
const struct ork_offload *ork_npu_offload(ork_npu *npu);

/* Returns when the owner has done what it is at: recovery after a fault is over, or the engine off. */
void ork_npu_settle(ork_npu *npu);
/* The device, for tests; only the owner thread may use it. */
struct ork_npu_device;
const struct ork_npu_device *ork_npu_get_device(const ork_npu *npu);

/* W4A4 for tests and tuning: C[i][n] = sum of codes, exact int32 summed over k slices; codes of a in -8..7 in int8,
 * [m][k] with k padded to 32; b an i4 matrix. ORK_FAILURE when the NPU cannot or the check fails; c is then unspecified. */
ork_status ork_npu_multiply_w4a4(ork_npu *npu, const int8_t *a, uint32_t m, const struct ork_matrix *b, int32_t *c,
                                 ork_error *error);

#endif
