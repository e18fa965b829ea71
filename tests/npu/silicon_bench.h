/* A machine around the silicon model for its tests: one address space with memory behind it, matmul programs written from
 * the published recipe alone (npu-hw.md 4.2, 4.3; nothing of src/engine/npu/writer.c), index formulas of section 6. */
#ifndef ORK_TESTS_NPU_SILICON_BENCH_H
#define ORK_TESTS_NPU_SILICON_BENCH_H

#include "engine/npu/device/silicon.h"

#define BENCH_IOVA 0x40000000u
#define BENCH_BYTES (24u << 20)
#define BENCH_PROGRAM_WORDS 160u
#define BENCH_DONE 0x300u

/* How pixels lie: W x H = m. */
enum bench_view {
    BENCH_FLAT,      /* W = m, H = 1, A native */
    BENCH_TALL,      /* W = 1, H = m, A native */
    BENCH_ROWS,      /* W = 1, H = m, A by rows, C native */
    BENCH_ROWS_ROWS, /* W = 1, H = m, A and C by rows */
    BENCH_TALL_ROWS, /* W = 1, H = m, A native, C by rows */
    BENCH_PANELS,    /* W = 8, H = m / 8, A and C in panels of 8 rows */
    BENCH_VIEWS
};

struct bench_task {
    bool int4, fp32;
    enum bench_view view;
    uint32_t m, k, n;
    uint32_t a, b, c; /* addresses */
};

struct bench_program {
    uint64_t words[BENCH_PROGRAM_WORDS];
    uint32_t count;
};

struct bench {
    struct ork_silicon *silicon;
    uint8_t *memory; /* of BENCH_IOVA in domain 0 */
    uint32_t used;
    uint64_t seed;
};

void bench_open(struct bench *bench, uint32_t cores, uint64_t seed);
void bench_close(struct bench *bench);
uint64_t bench_random(struct bench *bench);
uint32_t bench_below(struct bench *bench, uint32_t limit);
/* Memory of the address space, 64-byte aligned; bench_clear takes all of it back. */
uint32_t bench_allocate(struct bench *bench, uint64_t size_bytes);
void bench_clear(struct bench *bench);
void *bench_host(const struct bench *bench, uint32_t iova);

/* A program without successor. */
void bench_write(const struct bench_task *task, struct bench_program *program);
/* The stand-alone sum of two int32 surfaces, npu-hw.md 7.5. addresses: two summands, the sum. */
void bench_write_sum(uint32_t rows, uint32_t channels, const uint32_t addresses[3], struct bench_program *program);
void bench_set(struct bench_program *program, uint32_t offset, uint32_t value);
void bench_drop(struct bench_program *program, uint32_t offset);
uint32_t bench_get(const struct bench_program *program, uint32_t offset); /* UINT32_MAX: not written */
void bench_link(struct bench_program *program, uint32_t next_iova, uint32_t next_count);
/* Into memory; returns its address. */
uint32_t bench_place(struct bench *bench, const struct bench_program *program);

/* Addresses, operands and poisoned output for task->m, k, n; operands random over the whole range of the type. */
void bench_fill(struct bench *bench, struct bench_task *task);
uint64_t bench_output_bytes(const struct bench_task *task);
int32_t bench_a(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t k);
int32_t bench_b(const struct bench *bench, const struct bench_task *task, uint32_t n, uint32_t k);
void bench_set_a(struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t k, int32_t value);
void bench_set_b(struct bench *bench, const struct bench_task *task, uint32_t n, uint32_t k, int32_t value);
int32_t bench_c(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t n);
/* By the definition: three loops, then what the output type does. */
int32_t bench_expected(const struct bench *bench, const struct bench_task *task, uint32_t m, uint32_t n);
#define BENCH_POISON 0xa5
/* Cells that differ from the definition among rows [begin, end) and channels whose number mod 64 is in [from, to). */
uint64_t bench_wrong(const struct bench *bench, const struct bench_task *task, uint32_t begin, uint32_t end,
                     uint32_t from, uint32_t to);
/* Such cells that still hold the poison. */
uint64_t bench_untouched(const struct bench *bench, const struct bench_task *task, uint32_t begin, uint32_t end,
                         uint32_t from, uint32_t to);

/* Kicks `tasks` tasks from a program at regcmd with the usual masks. */
struct ork_silicon_kick bench_kick(uint32_t regcmd, uint32_t count, uint32_t tasks);
struct ork_silicon_outcome bench_run(struct bench *bench, const struct ork_silicon_kick *kick);
/* Places and runs one task. */
struct ork_silicon_outcome bench_run_one(struct bench *bench, const struct bench_program *program);

#endif
