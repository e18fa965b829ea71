/* Command words: how one is built, and the tables that name registers and fields. Owns the word's form (target << 48 |
 * value << 16 | offset, npu-hw.md 3.1) and the check that every value fits its field; knows no tasks. */
#ifndef ORK_ENGINE_NPU_WRITER_H
#define ORK_ENGINE_NPU_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ork_npu_field_value {
    const char *name;
    uint32_t value;
};
struct ork_npu_enumeration {
    const struct ork_npu_field_value *values;
    uint32_t count;
};
struct ork_npu_field {
    const char *name;
    uint8_t low, bits;
    uint8_t is_signed;   /* two's complement */
    uint8_t enumeration; /* index, 0: plain number */
};
struct ork_npu_block {
    const char *name;
    uint16_t target; /* 0: not reached by command words */
};
struct ork_npu_register {
    const char *name;
    uint8_t block;
    uint16_t offset, field, field_count; /* field: index of the first */
};

extern const struct ork_npu_enumeration ork_npu_enumerations[];
extern const struct ork_npu_block ork_npu_blocks[];
extern const size_t ork_npu_block_count;
extern const struct ork_npu_field ork_npu_fields[];
extern const struct ork_npu_register ork_npu_registers[];

/* Appends words to the caller's buffer. After the first failure it appends nothing more. */
struct ork_npu_writer {
    uint64_t *words;
    size_t capacity, count;
    const struct ork_npu_register *failed_register; /* NULL: all is well */
    const struct ork_npu_field *failed_field;       /* NULL with a failed register: the buffer is full */
    int64_t failed_value;
};

/* values: one for each field of the register, in the order of the description. Used by the packers of registers.h. */
void ork_npu_writer_put(struct ork_npu_writer *writer, uint32_t register_index, const int64_t *values);

static inline uint64_t ork_npu_word(uint32_t target, uint32_t offset, uint32_t value)
{
    return (uint64_t)target << 48 | (uint64_t)value << 16 | offset;
}
static inline uint32_t ork_npu_word_target(uint64_t word)
{
    return (uint32_t)(word >> 48);
}
static inline uint32_t ork_npu_word_value(uint64_t word)
{
    return (uint32_t)(word >> 16);
}
static inline uint32_t ork_npu_word_offset(uint64_t word)
{
    return (uint32_t)word & 0xffff;
}
/* Value of a field in a register's value, sign-extended where it is signed. */
static inline int64_t ork_npu_field_get(const struct ork_npu_field *field, uint32_t value)
{
    int64_t part = (int64_t)(value >> field->low) & ((INT64_C(1) << field->bits) - 1);
    return field->is_signed && part >> (field->bits - 1) ? part - (INT64_C(1) << field->bits) : part;
}
/* The register that a word writes, NULL for an unknown one. */
const struct ork_npu_register *ork_npu_register_find(uint32_t target, uint32_t offset);

#endif
