/* Cutting one matmul into tasks: by rows, channels and inputs, over cores. Owns offsets into the three buffers; knows no
 * addresses, devices or programs.
 *
 * B is one matrix (one expert) in the pack's own order, [n/G][k/32][G][32] codes with G = 32 (int8) or 64 (int4): a run of
 * whole groups with all of k is contiguous, and so is a k slice of one group. A task with a k slice therefore has one
 * group of channels. */
#ifndef ORK_ENGINE_NPU_TILING_H
#define ORK_ENGINE_NPU_TILING_H

#include "engine/npu/limits.h"

#define ORK_NPU_CORES_MAX 3u

struct ork_npu_tile {
    struct ork_npu_shape shape;
    uint32_t m_begin, k_begin, n_begin;
    uint64_t a_offset, b_offset, c_offset; /* bytes from the start of each buffer, multiples of 64 */
};

struct ork_npu_plan {
    enum ork_npu_type type;
    uint32_t m, k, n;                           /* k and n padded to 32 and to the group */
    uint32_t cores;                             /* that have tiles; each has a contiguous run of channels */
    uint32_t slices;                            /* of k: results are the sum over so many tiles */
    uint32_t core_begin[ORK_NPU_CORES_MAX + 1]; /* tiles of core c: core_begin[c] .. core_begin[c + 1] - 1 */
    struct ork_npu_tile *tiles;                 /* of a core: by channels, then rows, then inputs */
    uint32_t tile_count;
    uint64_t a_bytes, b_bytes, c_bytes;
};

struct ork_npu_tiling {
    enum ork_npu_type type;
    uint32_t m, k, n;            /* any, at least 1 */
    uint32_t cores;              /* 1..ORK_NPU_CORES_MAX, at most; fewer are used when there are fewer groups */
    uint32_t a_max, w_max;       /* W4A4: largest magnitudes, see ork_npu_k_max; W8A8: ignored */
    uint32_t rows_cap;           /* 0, or smaller tasks than the envelope allows (tests, watchdogs) */
    uint32_t channels_cap;       /* 0, or fewer channels a task, a multiple of the group */
    enum ork_npu_surface output; /* ROWS for W8A8 only */
    bool force_input;            /* take `input` instead of the best */
    enum ork_npu_surface input;
};

/* Most tiles of a plan. */
#define ORK_NPU_TILES_MAX (1u << 20)

/* k is cut only where it must be: above the largest k of a task and where a task could take one row alone although there
 * are several (W8A8 above 8192 inputs). All row tiles use one input surface. Results by rows need inputs by rows.
 * Freed with ork_npu_plan_free. Refuses shapes that cannot be cut (overflow, more than 2^20 tiles, bad wishes). */
ork_status ork_npu_plan_make(const struct ork_npu_tiling *tiling, struct ork_npu_plan *plan, ork_error *error);
void ork_npu_plan_free(struct ork_npu_plan *plan);

#endif
