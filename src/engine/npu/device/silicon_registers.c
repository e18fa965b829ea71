/* The register files of the silicon model's cores and the program fetch that fills them. Owns words, pointers and groups;
 * knows not what registers mean to a task. */
#include "engine/npu/device/silicon_internal.h"

#include <inttypes.h>
#include <string.h>

/* npu-hw.md 3.1: the upper 16 bits of a word. */
enum {
    TARGET_SYNC = 0x0041,
    TARGET_ENABLE = 0x0081,
    TARGET_PC = 0x0101,
    TARGET_CNA = 0x0201,
    TARGET_CORE = 0x0801,
    TARGET_DPU = 0x1001,
    TARGET_RDMA = 0x2001
};
enum { PC_OPERATION_ENABLE = 0x08, PC_BASE_ADDRESS = 0x10, PC_REGISTER_AMOUNTS = 0x14, S_POINTER = 0x04 };

/* S_POINTER, npu-hw.md 3.4. */
enum { POINTER_PP_EN = 1 << 1, EXECUTER_PP_EN = 1 << 2, POINTER_PP_CLEAR = 1 << 4, EXECUTER_PP_CLEAR = 1 << 5 };

/* Per block: target of its words, upper bits of its offsets, bit of the enable mask (3.2), interrupt bits of group 0. */
static const struct {
    uint16_t target, base;
    uint32_t enable, interrupts;
} block_facts[SILICON_BLOCKS] = {
    [SILICON_CNA] = {TARGET_CNA, 0x1000, 1 << 0, 1 << 0 | 1 << 2 | 1 << 4},
    [SILICON_CORE] = {TARGET_CORE, 0x3000, 1 << 2, 1 << 6},
    [SILICON_DPU] = {TARGET_DPU, 0x4000, 1 << 3, 1 << 8},
    [SILICON_RDMA] = {TARGET_RDMA, 0x5000, 1 << 4, 0},
};

void silicon_registers_reset(struct silicon_core *core)
{
    memset(core->blocks, 0, sizeof core->blocks);
    core->pending = 0;
    core->stuck = false;
}

/* With ping-pong enabled the pointers move by themselves and the written pointer bit means nothing: kernels and programs
 * write 0xe before every task, and interrupts of both groups are seen (npu-hw.md 1.6). */
void silicon_pointer_write(struct silicon_registers *block, uint32_t value)
{
    block->s_pointer = value;
    if (!(value & POINTER_PP_EN))
        block->pointer = value & 1;
    if (value & POINTER_PP_CLEAR)
        block->pointer = 0;
    if (value & EXECUTER_PP_CLEAR)
        block->executer = 0;
}

static void write_register(struct silicon_core *core, uint32_t target, uint32_t offset, uint32_t value)
{
    for (int i = 0; i < SILICON_BLOCKS; i++) {
        struct silicon_registers *block = &core->blocks[i];
        const uint32_t word = (offset - block_facts[i].base) / 4;
        if (target != block_facts[i].target || offset < block_facts[i].base || word >= SILICON_BLOCK_WORDS ||
            offset % 4)
            continue;
        if (word == S_POINTER / 4) {
            silicon_pointer_write(block, value);
            block->pointer_written = true;
        } else {
            block->values[block->pointer][word] = value;
            block->written[word] = true;
        }
    }
}

/* What one word does. Words behind the one that enables do nothing: the harmless over-fetch of 3.2. */
static void apply_word(struct silicon_core *core, uint64_t word, bool *synced, struct silicon_program *program)
{
    const uint32_t target = (uint32_t)(word >> 48), offset = word & 0xffff, value = (uint32_t)(word >> 16);
    if (program->enabled)
        return;
    if (target == TARGET_SYNC)
        *synced = true;
    else if (target == TARGET_PC && offset == PC_BASE_ADDRESS)
        program->next_iova = value;
    else if (target == TARGET_PC && offset == PC_REGISTER_AMOUNTS)
        program->next_amount = value;
    else if (target == TARGET_ENABLE && offset == PC_OPERATION_ENABLE) {
        program->enable = value;
        program->enabled = true;
    } else
        write_register(core, target, offset, value);
}

bool silicon_fetch(struct silicon_run *run, uint64_t address, uint32_t amount, struct silicon_program *program)
{
    const uint32_t count = 2 * ((amount & 0xffff) + 1);
    bool synced = false;
    *program = (struct silicon_program){0};
    for (int i = 0; i < SILICON_BLOCKS; i++) {
        memset(run->core->blocks[i].written, 0, sizeof run->core->blocks[i].written);
        run->core->blocks[i].pointer_written = false;
    }
    if (address % SILICON_ATOM)
        return silicon_stop(run, ORK_SILICON_ALIGNMENT, "program at 0x%" PRIx64 ", not a multiple of 16", address);
    if (count > SILICON_WORDS_MAX)
        return silicon_stop(run, ORK_SILICON_CONFIG, "a program of %" PRIu32 " words", count);
    const uint8_t *whole = silicon_translate(run->domain, address, 8ull * count, false, NULL);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at = address + 8ull * i;
        const uint8_t *host = whole ? whole + 8ull * i : silicon_translate(run->domain, at, 8, false, NULL);
        if (!host) {
            run->raw |= SILICON_DMA_READ_ERROR;
            return silicon_stop(run, ORK_SILICON_UNMAPPED, "program word at 0x%" PRIx64 " is not mapped", at);
        }
        uint64_t word;
        memcpy(&word, host, sizeof word);
        apply_word(run->core, word, &synced, program);
    }
    if (!program->enabled)
        return silicon_stop(run, ORK_SILICON_CONFIG, "none of the %" PRIu32 " words fetched enables the blocks", count);
    return synced || silicon_stop(run, ORK_SILICON_CONFIG, "no 0x0041 word before the one that enables");
}

static const struct silicon_registers *block_of(const struct silicon_core *core, uint32_t offset)
{
    int i = 0;
    while (block_facts[i].base != (offset & 0xf000))
        i++;
    return &core->blocks[i];
}

uint32_t silicon_register(const struct silicon_core *core, uint32_t offset)
{
    const struct silicon_registers *block = block_of(core, offset);
    return block->values[block->executer][(offset & 0xfff) / 4];
}

uint32_t silicon_register_needed(struct silicon_run *run, uint32_t offset)
{
    if (!block_of(run->core, offset)->written[(offset & 0xfff) / 4])
        run->outcome->anomalies |= ORK_SILICON_INCOMPLETE;
    return silicon_register(run->core, offset);
}

bool silicon_registers_check(struct silicon_run *run, const struct silicon_fixed *fixed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t value = silicon_register(run->core, fixed[i].offset);
        if ((value & fixed[i].mask) != fixed[i].value)
            return silicon_stop(run, ORK_SILICON_CONFIG, "register 0x%x is 0x%" PRIx32 ": %s", fixed[i].offset, value,
                                fixed[i].what);
    }
    return true;
}

bool silicon_blocks_start(struct silicon_run *run, uint32_t enable)
{
    for (int i = 0; i < SILICON_BLOCKS; i++) {
        struct silicon_registers *block = &run->core->blocks[i];
        if (!(enable & block_facts[i].enable))
            continue;
        /* The kernel writes those of CNA and CORE, a program those of DPU and RDMA (3.2). */
        if (i >= SILICON_DPU && !block->pointer_written)
            run->outcome->anomalies |= ORK_SILICON_INCOMPLETE;
        if (block->pointer != block->executer)
            return silicon_stop(run, ORK_SILICON_CONFIG, "group %" PRIu32 " of 0x%x is enabled, %" PRIu32 " is to run",
                                block->pointer, block_facts[i].base, block->executer);
        if (block->s_pointer & POINTER_PP_EN)
            block->pointer ^= 1;
    }
    return true;
}

void silicon_blocks_finish(struct silicon_run *run, uint32_t enable)
{
    for (int i = 0; i < SILICON_BLOCKS; i++) {
        struct silicon_registers *block = &run->core->blocks[i];
        if (!(enable & block_facts[i].enable))
            continue;
        run->raw |= block_facts[i].interrupts << block->executer;
        if (block->s_pointer & EXECUTER_PP_EN)
            block->executer ^= 1;
    }
}
