/* Command words from field values, and registers by their address. Owns the range check; knows no tasks. */
#include "engine/npu/registers.h"

void ork_npu_writer_put(struct ork_npu_writer *writer, uint32_t register_index, const int64_t *values)
{
    const struct ork_npu_register *one = &ork_npu_registers[register_index];
    uint32_t value = 0;
    if (writer->failed_register)
        return;
    for (uint32_t i = 0; i < one->field_count; i++) {
        const struct ork_npu_field *field = &ork_npu_fields[one->field + i];
        int64_t limit = INT64_C(1) << (field->is_signed ? field->bits - 1 : field->bits);
        if (values[i] >= limit || values[i] < (field->is_signed ? -limit : 0)) {
            writer->failed_register = one;
            writer->failed_field = field;
            writer->failed_value = values[i];
            return;
        }
        value |= ((uint32_t)values[i] & (uint32_t)((UINT64_C(1) << field->bits) - 1)) << field->low;
    }
    if (writer->count >= writer->capacity) {
        writer->failed_register = one;
        return;
    }
    writer->words[writer->count++] = ork_npu_word(ork_npu_blocks[one->block].target, one->offset, value);
}

const struct ork_npu_register *ork_npu_register_find(uint32_t target, uint32_t offset)
{
    for (uint32_t i = 0; i < ORK_NPU_REGISTER_COUNT; i++)
        if (ork_npu_registers[i].offset == offset && target &&
            ork_npu_blocks[ork_npu_registers[i].block].target == target)
            return &ork_npu_registers[i];
    return NULL;
}
