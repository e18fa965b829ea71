/* One int8 product as jobs on any device, with every step a caller can forget made separately callable. Owns buffers and
 * reference; knows no driver. */
#ifndef ORK_TESTS_NPU_PRODUCT_H
#define ORK_TESTS_NPU_PRODUCT_H

#include "engine/npu/device/device.h"
#include "engine/npu/limits.h"

enum { PRODUCT_CORES = 3, PRODUCT_TASKS_MAX = 64 };
#define PRODUCT_UNWRITTEN 0x7fffffff /* no sum here reaches it */

/* C[m][n] of m x k times n x k, n = cores * tasks * task_n, cut by channels: core c has `tasks` chained tasks. All in one
 * domain, one buffer each for programs, A, B and C. */
struct product {
    struct ork_npu_device *device;
    uint32_t m, k, task_n, tasks, cores, first_core, domain;
    uint32_t n;
    struct ork_npu_buffer programs, a, b, c;
    struct ork_npu_job *job[PRODUCT_CORES];
    int32_t *expected; /* [m][n] */
};

/* Allocates, fills from seed, writes programs, makes jobs; asserts that all of it works. */
void product_make(struct product *p, struct ork_npu_device *device, uint32_t m, uint32_t k, uint32_t task_n,
                  uint32_t tasks, uint32_t cores, uint32_t first_core, uint32_t domain, uint32_t seed);
void product_free(struct product *p);
/* New inputs; host side only. */
void product_fill(struct product *p, uint32_t seed);
/* Programs, A and B to the device. */
void product_sync_inputs(struct product *p);
/* C full of PRODUCT_UNWRITTEN, to the device. */
void product_poison(struct product *p);
ork_status product_submit(struct product *p, ork_error *error);
/* Looks at C until all of it is written or timeout_us are over (false). */
bool product_wait(struct product *p, uint64_t timeout_us);
/* Numbers of C that are wrong, in the host's view. */
uint32_t product_wrong(const struct product *p);
/* All of it: poison, submit, wait, compare; true: right. */
bool product_run(struct product *p, uint64_t timeout_us);

#endif
