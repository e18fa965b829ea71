/* A kick of the silicon model from its first word to its interrupt: tasks one after the other along their links. Owns
 * cores and the outcome; registers, memory and arithmetic have files of their own. */
#include "engine/npu/device/silicon_internal.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Features of a task fill the CBUF at most; int4 ones are held as bytes; four rows more, for loops over four. */
#define ROWS_BYTES (2ull * SILICON_BANKS * SILICON_BANK_BYTES + 4ull * SILICON_K_MAX)
#define ROWS_MAX (SILICON_BANKS * SILICON_BANK_BYTES / 16 + 4)
#define BRICKS_BYTES ((uint64_t)SILICON_GROUP_MAX * SILICON_K_MAX)

#define TASKS_MAX 4095u                 /* 12 bits of 0x30 */
#define S_POINTER_OF_KERNEL 0x0000000eu /* npu-hw.md 1.6, and the core's number above bit 28 */

ork_status ork_silicon_create(uint32_t cores, struct ork_silicon **silicon, ork_error *error)
{
    *silicon = NULL;
    if (cores == 0 || cores > SILICON_CORES_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "%" PRIu32 " cores, 1 to %u are possible", cores,
                             SILICON_CORES_MAX);
    struct ork_silicon *made = calloc(1, sizeof *made);
    if (!made)
        return ork_error_no_memory(error, NULL, sizeof *made);
    made->cores = cores;
    /* A change of mappings must not wait for ever behind cores that run one kick after the other. */
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&made->lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    for (uint32_t i = 0; i < cores; i++) {
        struct silicon_core *core = &made->core[i];
        core->rows = aligned_alloc(64, ROWS_BYTES);
        core->row_sums = aligned_alloc(64, ork_round_up(ROWS_MAX * sizeof *core->row_sums, 64));
        core->bricks = aligned_alloc(64, BRICKS_BYTES);
        if (!core->rows || !core->row_sums || !core->bricks) {
            ork_silicon_destroy(made);
            return ork_error_no_memory(error, NULL, ROWS_BYTES + ROWS_MAX * sizeof *core->row_sums + BRICKS_BYTES);
        }
    }
    *silicon = made;
    return ORK_OK;
}

void ork_silicon_destroy(struct ork_silicon *silicon)
{
    if (!silicon)
        return;
    for (uint32_t i = 0; i < silicon->cores; i++) {
        free(silicon->core[i].rows);
        free(silicon->core[i].row_sums);
        free(silicon->core[i].bricks);
    }
    silicon_domains_free(silicon);
    pthread_rwlock_destroy(&silicon->lock);
    free(silicon);
}

void ork_silicon_reset(struct ork_silicon *silicon, uint32_t core_mask)
{
    for (uint32_t i = 0; i < silicon->cores; i++)
        if (core_mask & 1u << i)
            silicon_registers_reset(&silicon->core[i]);
}

bool silicon_stop(struct silicon_run *run, uint32_t anomaly, const char *format, ...)
{
    run->outcome->anomalies |= anomaly;
    run->core->stuck = true;
    if (run->outcome->why[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run->outcome->why, sizeof run->outcome->why, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool run_matmul(struct silicon_run *run, uint32_t enable, uint32_t index)
{
    struct silicon_task task;
    if (!silicon_task_decode(run, enable, &task) || !silicon_task_execute(run, &task, index))
        return false;
    ork_npu_work_add(&run->outcome->work, &task.shape);
    return true;
}

static bool run_task(struct silicon_run *run, uint64_t address, uint32_t amount, uint32_t index,
                     struct silicon_program *program)
{
    pthread_rwlock_rdlock(&run->silicon->lock);
    const bool completed =
        silicon_fetch(run, address, amount, program) && silicon_blocks_start(run, program->enable) &&
        (program->enable == SILICON_ENABLE_SUM ? silicon_sum_run(run) : run_matmul(run, program->enable, index));
    pthread_rwlock_unlock(&run->silicon->lock);
    if (completed) {
        run->raw = 0; /* the interrupt of a chain is that of its last task: 0x100 or 0x200 are seen, never both */
        silicon_blocks_finish(run, program->enable);
        run->outcome->task_counter++;
    }
    return completed;
}

/* True when all tasks completed. */
static bool run_tasks(struct silicon_run *run)
{
    const struct ork_silicon_kick *kick = run->kick;
    uint64_t address = (uint64_t)kick->dma_base + kick->regcmd_iova;
    uint32_t amount = kick->amount;
    for (uint32_t i = 0; i < kick->task_number; i++) {
        struct silicon_program program;
        if (kick->fault && kick->fault->kind == ORK_FAULT_STOP && i >= kick->fault->after)
            return silicon_stop(run, 0, "fault: stopped after %" PRIu32 " tasks", i);
        if (!run_task(run, address, amount, i, &program))
            return false;
        if (i + 1 < kick->task_number && program.next_iova == 0)
            return silicon_stop(run, ORK_SILICON_UNLINKED, "task %" PRIu32 " of %" PRIu32 " has no successor", i + 1,
                                kick->task_number);
        address = (uint64_t)kick->dma_base + program.next_iova;
        amount = program.next_amount;
    }
    return true;
}

static bool run_kick(struct silicon_run *run)
{
    const struct ork_silicon_kick *kick = run->kick;
    if (run->core->stuck)
        return silicon_stop(run, 0, "the core has not been reset since a task that never completed");
    if (kick->task_number == 0 || kick->task_number > TASKS_MAX)
        return silicon_stop(run, ORK_SILICON_CONFIG, "%" PRIu32 " tasks, 1 to %u are possible", kick->task_number,
                            TASKS_MAX);
    if (kick->fault && kick->fault->kind == ORK_FAULT_NEVER)
        return silicon_stop(run, 0, "fault: never starts");
    silicon_pointer_write(&run->core->blocks[SILICON_CNA], S_POINTER_OF_KERNEL | kick->core << 28);
    silicon_pointer_write(&run->core->blocks[SILICON_CORE], S_POINTER_OF_KERNEL | kick->core << 28);
    return run_tasks(run);
}

void ork_silicon_run(struct ork_silicon *silicon, const struct ork_silicon_kick *kick,
                     struct ork_silicon_outcome *outcome)
{
    *outcome = (struct ork_silicon_outcome){0};
    if (kick->core >= silicon->cores || kick->domain >= SILICON_DOMAINS) {
        outcome->anomalies = ORK_SILICON_CONFIG;
        snprintf(outcome->why, sizeof outcome->why, "core %" PRIu32 " in domain %" PRIu32 " does not exist", kick->core,
                 kick->domain);
        return;
    }
    struct silicon_run run = {.silicon = silicon,
                              .core = &silicon->core[kick->core],
                              .domain = &silicon->domains[kick->domain],
                              .kick = kick,
                              .outcome = outcome};
    const uint32_t before = run.core->pending & ~kick->int_clear;
    const bool completed = run_kick(&run);
    /* Bits of blocks count when the last task is through; errors at once. */
    const uint32_t raw = before | (completed ? run.raw : run.raw & (SILICON_DMA_READ_ERROR | SILICON_DMA_WRITE_ERROR));
    outcome->status = raw & kick->int_mask;
    outcome->interrupt = outcome->status != 0;
    /* A handler clears what it has seen. */
    run.core->pending = outcome->interrupt ? 0 : raw;
}
