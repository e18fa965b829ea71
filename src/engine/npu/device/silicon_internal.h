/* What the files of the silicon model share: mappings, register groups, a decoded task, a run. Owns no behaviour. */
#ifndef ORK_ENGINE_NPU_SILICON_INTERNAL_H
#define ORK_ENGINE_NPU_SILICON_INTERNAL_H

#include "engine/npu/device/silicon.h"

#include <pthread.h>

#define SILICON_CORES_MAX 3u
#define SILICON_DOMAINS 16u
#define SILICON_ATOM 16u          /* bytes of one bus unit, npu-hw.md 5 */
#define SILICON_BANK_BYTES 32768u /* of the CBUF, npu-hw.md 4.5 */
#define SILICON_BANKS 12u
#define SILICON_K_MAX 16384u   /* 14 bits of 0x1024 */
#define SILICON_WORDS_MAX 4096 /* of one program; published ones have 112 to 134 */
#define SILICON_ROWS_PER_STEP 64u
#define SILICON_GROUP_MAX 64u /* channels of an int4 kernel group */
#define SILICON_GROUP_ATOMS 8u
#define SILICON_DMA_READ_ERROR (1u << 12) /* interrupt bits, npu-hw.md 3.4 */
#define SILICON_DMA_WRITE_ERROR (1u << 13)

struct silicon_mapping {
    uint64_t iova, size_bytes;
    uint8_t *host;
    bool writable;
};

/* Sorted by iova, without overlap. */
struct silicon_domain {
    struct silicon_mapping *mappings;
    uint32_t count, capacity;
};

/* npu-hw.md 3.4: 0x10xx, 0x30xx, 0x40xx, 0x50xx. The PPU and its RDMA are not modelled; what is written there is lost. */
enum silicon_block { SILICON_CNA, SILICON_CORE, SILICON_DPU, SILICON_RDMA, SILICON_BLOCKS };
#define SILICON_BLOCK_WORDS 128u

struct silicon_registers {
    uint32_t s_pointer;         /* as last written */
    uint32_t pointer, executer; /* group that writes go to; group that runs next */
    uint32_t values[2][SILICON_BLOCK_WORDS];
    bool written[SILICON_BLOCK_WORDS]; /* by the present program */
    bool pointer_written;              /* S_POINTER, by the present program */
};

struct silicon_core {
    struct silicon_registers blocks[SILICON_BLOCKS];
    uint32_t pending; /* raw interrupt bits that nobody cleared */
    bool stuck;       /* a task never completed: only a reset helps */
    int8_t *rows;     /* features of a task, [row][k] */
    int32_t *row_sums;
    int8_t *bricks; /* one kernel group as int8, where memory does not hold it so */
};

struct ork_silicon {
    pthread_rwlock_t lock; /* mappings: read during a task */
    uint32_t cores;
    struct silicon_domain domains[SILICON_DOMAINS];
    struct silicon_core core[SILICON_CORES_MAX];
};

/* What a program's own registers of the PC say. */
struct silicon_program {
    bool enabled;
    uint32_t enable;
    uint32_t next_iova, next_amount;
};

/* A matmul as its registers describe it. */
struct silicon_task {
    bool int4, fp32;
    bool group_line_off;
    uint32_t width, height, rows, k, n;
    uint32_t row_bytes;               /* of one pixel's channels in memory */
    uint32_t group, lane_channels;    /* channels of a kernel group, of an atom of features */
    uint64_t a, b, c;                 /* with the DMA base */
    int64_t line_stride, surf_stride; /* atoms */
    uint64_t surface_add, surface_stride, line_atoms;
    uint32_t group_atoms;   /* written of each kernel group, 1..8 */
    uint32_t lines_written; /* 1..height */
    uint32_t rows_right;    /* rows from here on come out as garbage */
    struct ork_npu_shape shape;
};

struct silicon_run {
    struct ork_silicon *silicon;
    struct silicon_core *core;
    const struct silicon_domain *domain;
    const struct ork_silicon_kick *kick;
    struct ork_silicon_outcome *outcome;
    uint32_t raw; /* interrupt bits so far */
};

/* The task never completes: raises the anomaly, keeps the first reason. Returns false. */
bool silicon_stop(struct silicon_run *run, uint32_t anomaly, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- silicon_memory.c ---- */

void silicon_domains_free(struct ork_silicon *silicon);
/* Host memory of [address, address + size_bytes), NULL unless one mapping holds all of it. *read_only (may be NULL) is
 * set when it is there but may not be written. */
uint8_t *silicon_translate(const struct silicon_domain *domain, uint64_t address, uint64_t size_bytes, bool write,
                           bool *read_only);

/* ---- silicon_registers.c ---- */

void silicon_registers_reset(struct silicon_core *core);
/* The driver's or a program's write of an S_POINTER. */
void silicon_pointer_write(struct silicon_registers *block, uint32_t value);
/* Bits of a register that have one value in an operation. */
struct silicon_fixed {
    uint16_t offset;
    uint32_t mask, value;
    const char *what;
};
/* Stops with CONFIG at the first register whose bits are others. */
bool silicon_registers_check(struct silicon_run *run, const struct silicon_fixed *fixed, size_t count);
/* Fetches one program and applies its writes, up to the word that enables the blocks. */
bool silicon_fetch(struct silicon_run *run, uint64_t address, uint32_t amount, struct silicon_program *program);
/* Value for the group that is about to run. offset: of the register map, such as 0x1020. */
uint32_t silicon_register(const struct silicon_core *core, uint32_t offset);
/* The same of a register that the task needs: raises INCOMPLETE when this program did not write it. */
uint32_t silicon_register_needed(struct silicon_run *run, uint32_t offset);
/* The blocks of the mask begin: false when one of them waits for a group that was not written. */
bool silicon_blocks_start(struct silicon_run *run, uint32_t enable);
/* They are through: raises their interrupt bits, groups alternate. */
void silicon_blocks_finish(struct silicon_run *run, uint32_t enable);

/* ---- silicon_task.c ---- */

/* Reads the task out of the registers; false: it never completes. */
bool silicon_task_decode(struct silicon_run *run, uint32_t enable, struct silicon_task *task);

/* ---- silicon_execute.c ---- */

bool silicon_task_execute(struct silicon_run *run, const struct silicon_task *task, uint32_t task_index);

/* ---- silicon_sum.c ---- */

#define SILICON_ENABLE_SUM 0x18u /* DPU and its RDMA */
/* The stand-alone sum of two int32 surfaces, from its registers to memory. */
bool silicon_sum_run(struct silicon_run *run);

/* ---- silicon_math.c ---- */

/* sums[r][c] = sum over k of rows[r][k] * bricks[k / 32][c][k % 32], mod 2^32.
 * rows: [row_count][32 * k_tiles], row_count 1 or a multiple of 4; row_sums: [row_count] sum of each row; channels: 32 or 64. */
void silicon_math_dots(const int8_t *rows, const int32_t *row_sums, uint32_t row_count, const int8_t *bricks,
                       uint32_t k_tiles, uint32_t channels, int32_t *sums);
/* The same in plain C, for machines without the instructions and for tests. */
void silicon_math_dots_plain(const int8_t *rows, uint32_t row_count, const int8_t *bricks, uint32_t k_tiles,
                             uint32_t channels, int32_t *sums);
int32_t silicon_math_row_sum(const int8_t *row, uint32_t k);
/* Signed nibbles, low one first, two a byte. */
void silicon_math_unpack(const uint8_t *packed, uint32_t bytes, int8_t *out);

#endif
