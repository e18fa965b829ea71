/* The owner thread: the one that makes all device calls. */
#ifndef ORK_ENGINE_NPU_OWNER_H
#define ORK_ENGINE_NPU_OWNER_H

#include "engine/npu/inner.h"

/* Starts the thread, signals blocked, on little cores where there are some. */
ork_status ork_npu_owner_start(ork_npu *npu, ork_error *error);
/* Ends it when it has done what it is at. */
void ork_npu_owner_stop(ork_npu *npu);
/* Runs a function on the owner thread, after whatever it is at and after recovery, and returns its status. */
ork_status ork_npu_owner_call(ork_npu *npu, ork_npu_call call, void *argument, ork_error *error);
void ork_npu_owner_ring(ork_npu *npu);

/* The offload functions; batch.c. */
bool ork_npu_wants(void *context, const struct ork_matrix *w, uint32_t m);
void ork_npu_begin(void *context, struct ork_offload_task *tasks, uint32_t count);
void ork_npu_finish(void *context);
ork_status ork_npu_batch_create(ork_npu *npu, ork_error *error);
void ork_npu_batch_destroy(ork_npu *npu);
/* The owner's side: whether there was a batch. */
bool ork_npu_batch_serve(ork_npu *npu);
/* Looks after weights that were asked for and absent. */
void ork_npu_wanted_serve(ork_npu *npu);
/* A table of so many attached weights. */
ork_status ork_npu_table_make(const struct ork_npu_known *known, size_t count, struct ork_npu_table *table,
                              ork_error *error);

/* For threads of the engine: little cores where there are some, anywhere else where there are none. */
void ork_npu_choose_cores(pthread_attr_t *attributes);

/* For who waits for the owner: its last sign of life that was seen. */
struct ork_npu_life {
    unsigned beat;
    uint64_t seen_us;
};
struct ork_npu_life ork_npu_life_watch(const ork_npu *npu, uint64_t now_us);
/* Whether there has been no sign for so long that none is to be expected. */
bool ork_npu_life_is_missed(const ork_npu *npu, struct ork_npu_life *life, uint64_t now_us);

void ork_npu_word_wait(atomic_uint *word, unsigned expected, uint64_t timeout_us); /* 0: no limit */
void ork_npu_word_wake(atomic_uint *word);

static inline void ork_npu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
