/* Compiled matmuls and the device memory that they run in. Owner thread alone. */
#ifndef ORK_ENGINE_NPU_COMPILE_H
#define ORK_ENGINE_NPU_COMPILE_H

#include "engine/npu/inner.h"

/* Whether a set of this key could be had and run without an allocation on the device. */
bool ork_npu_set_is_ready(const ork_npu *npu, const struct ork_npu_set_key *key);
/* The compiled matmul of a key; from the cache, or built. Its surfaces are there. No job may be running if
 * ork_npu_set_is_ready says no. */
ork_status ork_npu_set_get(ork_npu *npu, const struct ork_npu_set_key *key, struct ork_npu_set **set, ork_error *error);
/* Makes programs and jobs name the weights at an offset of a buffer. */
ork_status ork_npu_set_bind(ork_npu *npu, struct ork_npu_set *set, const struct ork_npu_buffer *b, uint64_t b_offset,
                            ork_error *error);
/* How a matmul is cut into pieces: key->m and key->n become those of a piece. */
ork_status ork_npu_cut_find(ork_npu *npu, struct ork_npu_set_key *key, ork_error *error);
/* Forgets what names a buffer that is about to be released; NULL: everything, and the programs themselves. Nothing may
 * run. */
void ork_npu_cache_forget(ork_npu *npu, const struct ork_npu_buffer *buffer);
/* Releases all buffers of all domains. Nothing may run. */
void ork_npu_spaces_release(ork_npu *npu);

/* Bytes of a run of channels of weights before a channel: n channels of k codes. */
static inline uint64_t ork_npu_weight_bytes(enum ork_npu_type type, uint64_t n, uint64_t k)
{
    return type == ORK_NPU_W4A4 ? n * k / 2 : n * k;
}
/* Bytes of a result. */
static inline uint32_t ork_npu_result_bytes(enum ork_npu_type type)
{
    return type == ORK_NPU_W4A4 ? 2 : 4;
}

#endif
