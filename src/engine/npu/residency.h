/* Which weights stand in device memory, where, and how they get there. Owns chunks (few large buffers), slots in them, the
 * order of eviction, and the threads that fill slots; knows no programs and no jobs.
 *
 * Matrices are announced per layer before anything runs; a layer's tensors go to one domain as long as it fits. One slot
 * holds one matrix (one expert of a stack) in the order that the NPU fetches: int8 bricks (i8 as they are; nf4, i4, i5, i6, n8
 * inflated to their exact int8 codes) or int4 bricks (i4 for W4A4). Where the device imports host memory and the tier needs
 * no inflation, the pack's own pages serve and no slot is used: only the check key has to be computed.
 *
 * What does not fit competes for slots. An acquire takes a slot from what was used neither in this round nor in the one
 * before (a round is one pass over the layers), least recently released first; so a model that is too large keeps a
 * standing part instead of turning over with every pass. Asked ORK_NPU_PATIENCE times in a round, it takes the least recently
 * released slot of all. A prefetch takes the least recently released slot too, but none of the same layer that was used
 * in this round and none that was filled in it and not used yet.
 *
 * Threads: everything but ork_npu_residency_present is called by the device's owner thread; slots are filled by swap
 * threads on the little cores, which touch memory only and never the device. */
#ifndef ORK_ENGINE_NPU_RESIDENCY_H
#define ORK_ENGINE_NPU_RESIDENCY_H

#include "engine/npu/device/device.h"
#include "engine/npu/program.h"
#include "kernels/surfaces.h"

struct ork_npu_residency;

struct ork_npu_residency_params {
    uint64_t
        memory_bytes; /* device memory for weights at most; imported pages do not count. 0: half of what is available */
    uint64_t chunk_bytes;   /* 0: chosen; one buffer's size at most, unless one matrix is larger */
    uint32_t swap_threads;  /* 0: one, on a little core where there is one */
    uint32_t domains;       /* use so many at most, 0: all */
    uint64_t reserve_bytes; /* left free in every domain for programs and surfaces */
};

/* One matrix as the NPU sees it. */
struct ork_npu_resident {
    const struct ork_npu_buffer *buffer;
    uint64_t offset; /* bytes in it, a multiple of 64 */
    enum ork_npu_type type;
    uint32_t n, k;       /* padded: whole groups, multiple of 32 */
    const uint32_t *key; /* [k] check key, see surfaces.h: sum over n of weight(n) * code(n, k), mod 2^32 */
    uint32_t slot;       /* for release; one for each matrix and expert */
};

#define ORK_NPU_PATIENCE 8u

enum ork_npu_presence { ORK_NPU_ABSENT = 0, ORK_NPU_COMING = 1, ORK_NPU_PRESENT = 2 };

ork_status ork_npu_residency_create(struct ork_npu_device *device, const struct ork_npu_residency_params *params,
                                    struct ork_npu_residency **residency, ork_error *error);
/* Slots must not be in use by a job. Joins the swap threads. */
void ork_npu_residency_destroy(struct ork_npu_residency *residency);

/* Announces a matrix or stack of experts of a layer. The matrix (and its planes) must outlive the residency. type: as what
 * it shall stand there. pinned: never evicted. Layers are announced in ascending order, a matrix once. */
ork_status ork_npu_residency_add(struct ork_npu_residency *residency, const struct ork_matrix *matrix, uint32_t layer,
                                 enum ork_npu_type type, bool pinned, ork_error *error);
/* After the last add: places layers, allocates chunks, fills in order what fits at once: pinned, then plain matrices, then
 * experts. When the device has less memory than it should, chunks get smaller and fewer. Refuses (ORK_NO_MEMORY) when pinned
 * weights do not fit or nothing does; the residency can then only be destroyed. With wait, returns when all that fits is
 * present. */
ork_status ork_npu_residency_start(struct ork_npu_residency *residency, bool wait, ork_error *error);

/* Finishes swaps whose filling is done (cache maintenance) and starts queued ones whose slot is free. Never waits. */
ork_status ork_npu_residency_pump(struct ork_npu_residency *residency, ork_error *error);
/* PRESENT: *resident is filled and its slot cannot be evicted until released, once for each acquire. COMING: a swap is
 * queued, or was already. ABSENT: unknown, or no slot may be taken from another weight now (see above). */
enum ork_npu_presence ork_npu_residency_acquire(struct ork_npu_residency *residency, const struct ork_matrix *matrix,
                                                uint32_t expert, struct ork_npu_resident *resident);
void ork_npu_residency_release(struct ork_npu_residency *residency, const struct ork_npu_resident *resident);
/* Queues the layer's absent matrices (experts only those in the list, or all with NULL), most wanted first. */
void ork_npu_residency_prefetch(struct ork_npu_residency *residency, uint32_t layer, const uint32_t *experts,
                                uint32_t count);
/* After start, by any thread: whether an acquire would answer PRESENT now. A hint, for the owner may evict at any time;
 * false for what is not known. */
bool ork_npu_residency_present(const struct ork_npu_residency *residency, const struct ork_matrix *matrix,
                               uint32_t expert);
/* Whether a matrix was announced and, after start, all of its experts could be present some time. */
bool ork_npu_residency_knows(const struct ork_npu_residency *residency, const struct ork_matrix *matrix);

/* One group of channels of a brick tier other than i4 as int8 bricks: of i8 32 channels, of the others 64. source: its bricks;
 * out: [channels / 32][tiles][1024]. */
void ork_npu_inflate_group(const struct ork_surface_kernels *kernels, const struct ork_matrix *matrix,
                           const uint8_t *source, uint32_t tiles, uint8_t *out);

struct ork_npu_residency_stats {
    uint32_t domains, mappings; /* in use; mappings: buffers and imports */
    uint64_t chunk_bytes, resident_bytes, imported_bytes;
    uint64_t announced_bytes;                                           /* what it would take to hold everything */
    uint64_t hits, misses, swaps_in, evictions, swapped_bytes, refused; /* refused: no slot could be freed */
    uint64_t failed_allocations;                                        /* by the device, of chunks and imports */
};
void ork_npu_residency_get_stats(const struct ork_npu_residency *residency, struct ork_npu_residency_stats *stats);

#endif
