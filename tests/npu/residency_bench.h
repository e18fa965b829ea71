/* What the tests of the residency manager stand on: a device that has nothing but memory, with limits and failures, and
 * matrices of every tier with random codes and scales of 1. */
#ifndef ORK_TESTS_NPU_RESIDENCY_BENCH_H
#define ORK_TESTS_NPU_RESIDENCY_BENCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/npu/residency.h"

#define FAKE_BUFFERS 512u

/* The NPU's side of a buffer: what it would read. Only a sync brings the host's bytes there. */
struct fake_memory {
    struct ork_npu_buffer *buffer; /* as the residency has it */
    const uint8_t *host;
    uint8_t *shadow;
    uint64_t size_bytes;
    uint32_t domain;
    bool imported;
};

struct fake_device {
    struct ork_npu_device device;
    struct ork_npu_capabilities capabilities;
    pthread_t owner; /* calls of other threads fail the test */
    struct fake_memory memory[FAKE_BUFFERS];
    uint32_t count;
    uint64_t allocations, imports, syncs;
    uint64_t fail_allocation, fail_import, fail_sync; /* number of the call that fails, from 1; 0: none */
    bool fail_all_after;                              /* and all that follow it */
    uint64_t bytes_max;                               /* all chunks together, 0: no limit */
    uint64_t chunk_bytes, domain_bytes[ORK_NPU_DOMAINS_MAX];
};
void fake_device_make(struct fake_device *device, uint32_t domains, uint64_t domain_bytes, bool imports);
/* What the NPU would read at that place. */
const uint8_t *fake_read(const struct fake_device *device, const struct ork_npu_buffer *buffer, uint64_t offset);

struct test_matrix {
    struct ork_matrix matrix;
    void *data; /* page-aligned unless `offset` */
    float *scales;
    int8_t table[16];
    char name[32];
};
void test_matrix_make(struct test_matrix *m, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts,
                      uint32_t offset);
void test_matrix_free(struct test_matrix *m);
/* Whether device memory and key of a resident are those of the matrix: codes as the decoder of the tiers has them, in the
 * order of docs/npu.md. */
bool test_resident_is_right(const struct fake_device *device, const struct ork_matrix *matrix, uint32_t expert,
                            enum ork_npu_type type, const struct ork_npu_resident *resident);

#endif
