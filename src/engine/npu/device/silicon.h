/* The NPU's silicon in software: three cores with their register files, the address model, exact arithmetic. Owns what the
 * hardware does with a kick: fetching register lists, following links, two alternating register groups, computing, writing,
 * interrupt status. Knows no drivers, no queues and no time of its own; soft.c and the system-call shim of the tests
 * stand on it.
 *
 * It computes int8 -> int32 or fp32 and int4 -> int16 matmuls and the DPU's stand-alone sum of int32 surfaces; nothing else
 * that the hardware can do is modelled. It refuses or corrupts what silicon would refuse or corrupt (npu-hw.md 4.7, 5, 7, 10), and says so in the outcome.
 * A core on which a kick did not complete (an anomaly that hangs, a fault that stops) takes no kick until it is reset.
 * Registers keep their values and the two groups go on alternating from kick to kick.
 *
 * Different cores may be run from different threads at once; one core by one thread at a time. Mapping changes are safe
 * beside running cores (they wait for the tasks that run), but memory that a running job uses must stay. Result memory is
 * written with plain stores by the thread that runs. */
#ifndef ORK_ENGINE_NPU_SILICON_H
#define ORK_ENGINE_NPU_SILICON_H

#include "engine/npu/device/faults.h"
#include "engine/npu/program.h"
#include "engine/npu/timing.h"

struct ork_silicon;

ork_status ork_silicon_create(uint32_t cores, struct ork_silicon **silicon, ork_error *error);
void ork_silicon_destroy(struct ork_silicon *silicon);
/* Host memory at an address of a domain, 0..15. writable false: the NPU may only read. Refuses overlap. */
ork_status ork_silicon_map(struct ork_silicon *silicon, uint32_t domain, uint32_t iova, void *host, uint64_t size_bytes,
                           bool writable, ork_error *error);
void ork_silicon_unmap(struct ork_silicon *silicon, uint32_t domain, uint32_t iova);
/* Registers of all groups and cores as after power-up. Not while a core runs. */
void ork_silicon_reset(struct ork_silicon *silicon, uint32_t core_mask);

/* What a driver writes to the PC of a core to start it (npu-hw.md 1.6). */
struct ork_silicon_kick {
    uint32_t core, domain;
    uint32_t regcmd_iova;
    uint32_t amount;              /* register 0x14: 2 * (amount + 1) words are fetched for the first task */
    uint32_t int_mask, int_clear; /* registers 0x20, 0x24; bits of an earlier kick that nobody cleared are seen again */
    uint32_t task_number;         /* 1..4095 */
    bool ping_pong; /* fetch beside the running task: of no effect on results, groups alternate by their S_POINTERs */
    uint32_t dma_base; /* added to every address, links too; a multiple of 16 */
    const struct ork_npu_fault
        *fault; /* NULL, or NEVER, STOP; of matmuls CONSTANT, UNTOUCHED, TAIL, FLIP; others are ignored */
};

enum ork_silicon_anomaly {
    ORK_SILICON_UNMAPPED = 1 << 0, /* an address that no buffer of the domain has: DMA error, never completes */
    ORK_SILICON_READ_ONLY = 1 << 1,
    ORK_SILICON_UNLINKED = 1 << 2,   /* more tasks than links: stops after the last link */
    ORK_SILICON_INCOMPLETE = 1 << 3, /* a register that the task needs was left from an earlier task of its group */
    ORK_SILICON_ROWS = 1 << 4,       /* over the row envelope: hangs or wrong tail rows, as published for the shape */
    ORK_SILICON_STRIDES = 1 << 5,    /* output strides or SIZE_E off the table: part of the output is not written */
    ORK_SILICON_SATURATED = 1 << 6,  /* an int16 result was clamped */
    ORK_SILICON_BANKS = 1 << 7,      /* features or a kernel do not fit their CBUF banks */
    ORK_SILICON_CONFIG = 1 << 8,     /* modes that do not exist together, or are not modelled: never completes */
    ORK_SILICON_ALIGNMENT = 1 << 9   /* address or link not a multiple of 16 */
};

struct ork_silicon_outcome {
    bool interrupt;           /* raised: status is not 0 */
    uint32_t status;          /* register 0x28: raw bits & int_mask; of a matmul with 0x300: 0x100 or 0x200 */
    uint32_t task_counter;    /* register 0x3c, tasks completed */
    uint32_t anomalies;       /* ORK_SILICON_* */
    char why[128];            /* of the first anomaly that stopped it, or "" */
    struct ork_npu_work work; /* what was done, for timing.h */
};
void ork_silicon_run(struct ork_silicon *silicon, const struct ork_silicon_kick *kick,
                     struct ork_silicon_outcome *outcome);

#endif
