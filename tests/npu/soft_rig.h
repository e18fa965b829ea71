/* Small matmul jobs on a device for tests: buffers, programs, known results. Owns nothing of the device. */
#ifndef ORK_TESTS_SOFT_RIG_H
#define ORK_TESTS_SOFT_RIG_H

#include "engine/npu/device/soft.h"

#define RIG_TASKS_MAX 16u

/* `tasks` int8 matmuls of m x k times n x k in one chain: one A, a B and a C for each. */
struct rig {
    struct ork_npu_device *device;
    struct ork_npu_shape shape;
    uint32_t core, domain, tasks;
    struct ork_npu_buffer programs, a, b, c;
    struct ork_npu_job *job;
    int32_t *expected; /* in C's order */
};

/* Asserts on every failure. */
struct ork_npu_device *rig_open(const char *faults, bool real_time);
void rig_make(struct rig *rig, struct ork_npu_device *device, uint32_t core, uint32_t domain, uint32_t tasks,
              uint32_t m, uint32_t k, uint32_t n);
void rig_free(struct rig *rig);
void rig_poison(struct rig *rig);
ork_status rig_submit(struct rig *rig); /* poisons first */
/* Words of C that are wrong, in all or one task. */
uint32_t rig_wrong(const struct rig *rig);
uint32_t rig_wrong_in(const struct rig *rig, uint32_t task);
uint64_t rig_now(const struct rig *rig);
/* Sleeps and polls until the job is not pending or the clock is past the limit. */
enum ork_npu_state rig_wait(struct rig *rig, uint64_t limit_us);

#endif
