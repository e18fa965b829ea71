/* Register programs as text: ork_npu_describe_program and ork_npu_disassemble. Owns the form of the text; names come from
 * the register description. Any bytes are a program here: what has no name is shown as numbers. */
#include "base/error.h"
#include "engine/npu/limits.h"
#include "engine/npu/registers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_BYTES = 8,
    WORDS_MAX = 1 << 17, /* a thousand programs */
    ZEROS_MIN = 4        /* so many words of zeros share a line */
};

struct text {
    char *bytes;
    size_t size, capacity;
    bool failed; /* out of memory */
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    char piece[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof piece ? (size_t)length : sizeof piece - 1;
    if (text->capacity - text->size <= size) {
        size_t capacity = text->capacity * 2 + 4096;
        char *bytes = text->failed ? NULL : realloc(text->bytes, capacity);
        if (!bytes) {
            text->failed = true;
            return;
        }
        text->bytes = bytes;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->size, piece, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

static void add_field(struct text *text, const struct ork_npu_field *field, uint32_t value)
{
    int64_t number = ork_npu_field_get(field, value);
    const struct ork_npu_enumeration *names = &ork_npu_enumerations[field->enumeration];
    size_t length = strlen(field->name);
    for (uint32_t i = 0; i < names->count; i++)
        if (names->values[i].value == (uint64_t)number) {
            add(text, " %s=%s", field->name, names->values[i].name);
            return;
        }
    if (length >= 4 && strcmp(field->name + length - 4, "addr") == 0) /* fields of addresses leave out the low bits */
        add(text, " %s=0x%08llx", field->name, (unsigned long long)number << field->low);
    else
        add(text, " %s=%lld", field->name, (long long)number);
}

/* Fields that are not zero, and bits that no field has. */
static void add_fields(struct text *text, const struct ork_npu_register *one, uint32_t value)
{
    uint32_t rest = value;
    for (uint32_t i = 0; i < one->field_count; i++) {
        const struct ork_npu_field *field = &ork_npu_fields[one->field + i];
        uint32_t mask = (uint32_t)(((UINT64_C(1) << field->bits) - 1) << field->low);
        if (value & mask)
            add_field(text, field, value);
        rest &= ~mask;
    }
    if (rest)
        add(text, " unnamed bits 0x%x", rest);
}

static const struct ork_npu_block *find_block(uint32_t target)
{
    for (size_t i = 0; i < ork_npu_block_count; i++)
        if (target && ork_npu_blocks[i].target == target)
            return &ork_npu_blocks[i];
    return NULL;
}

/* What the word means for the chain, where it means something. */
static void add_role(struct text *text, uint64_t word)
{
    uint32_t target = ork_npu_word_target(word), offset = ork_npu_word_offset(word), value = ork_npu_word_value(word);
    if (target == ORK_NPU_TARGET_PC && offset == ORK_NPU_OFFSET_PC_BASE_ADDRESS && value)
        add(text, "  (next program)");
    else if (target == ORK_NPU_TARGET_PC && offset == ORK_NPU_OFFSET_PC_REGISTER_AMOUNTS && value)
        add(text, "  (%llu words of the next program)", 2 * ((value & 0xffffull) + 1));
    else if (target == ORK_NPU_TARGET_PC && offset == ORK_NPU_OFFSET_PC_REGISTER_AMOUNTS)
        add(text, "  (no next program)");
    else if (target == ORK_NPU_TARGET_SYNC && offset == ORK_NPU_OFFSET_SYNC_MARKER)
        add(text, "  (end of registers)");
    else if (target == ORK_NPU_TARGET_START && offset == ORK_NPU_OFFSET_START_OPERATION_ENABLE)
        add(text, "  (start)");
}

static void add_word(struct text *text, size_t index, uint64_t word)
{
    uint32_t target = ork_npu_word_target(word), offset = ork_npu_word_offset(word), value = ork_npu_word_value(word);
    const struct ork_npu_register *one = ork_npu_register_find(target, offset);
    const struct ork_npu_block *block = find_block(target);
    char name[64];
    if (one)
        snprintf(name, sizeof name, "%s.%s", block->name, one->name);
    else if (block)
        snprintf(name, sizeof name, "%s.0x%04x", block->name, offset);
    else if (word)
        snprintf(name, sizeof name, "0x%04x.0x%04x", target, offset);
    else
        snprintf(name, sizeof name, "nothing");
    add(text, "%5zu  %-28s = 0x%08x", index, name, value);
    if (one) {
        if (value)
            add(text, " ");
        add_fields(text, one, value);
    }
    add_role(text, word);
    add(text, "\n");
}

static uint64_t word_at(const uint8_t *bytes, size_t index)
{
    uint64_t word = 0;
    for (int i = WORD_BYTES - 1; i >= 0; i--)
        word = word << 8 | bytes[index * WORD_BYTES + (size_t)i];
    return word;
}

ork_status ork_npu_disassemble(const void *words, size_t size_bytes, char **text, ork_error *error)
{
    struct text out = {0};
    size_t count = size_bytes / WORD_BYTES;
    if (size_bytes % WORD_BYTES)
        return ork_error_set(error, ORK_BAD_FILE, NULL, (int64_t)(count * WORD_BYTES),
                             "%zu bytes are no whole number of words of 8", size_bytes);
    if (count == 0 || count > WORDS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, NULL, -1, "%zu words: a program has 1 to %d", count, WORDS_MAX);
    for (size_t i = 0; i < count;) {
        size_t zeros = 0;
        while (i + zeros < count && word_at(words, i + zeros) == 0)
            zeros++;
        if (zeros >= ZEROS_MIN)
            add(&out, "%5zu  ... %zu words of zeros\n", i, zeros);
        else
            add_word(&out, i, word_at(words, i));
        i += zeros >= ZEROS_MIN ? zeros : 1;
    }
    if (out.failed) {
        free(out.bytes);
        return ork_error_no_memory(error, "text of a program", out.capacity);
    }
    *text = out.bytes;
    return ORK_OK;
}

ork_status ork_npu_describe_program(uint32_t weight_bits, uint32_t m, uint32_t k, uint32_t n, char **text,
                                    ork_error *error)
{
    uint64_t words[ORK_NPU_PROGRAM_SLOT_WORDS];
    uint8_t bytes[sizeof words];
    struct ork_npu_addresses addresses = {0};
    if (weight_bits != 8 && weight_bits != 4)
        return ork_error_set(error, ORK_BAD_ARGUMENT, NULL, -1, "weights of %u bits: 8 or 4 are possible", weight_bits);
    struct ork_npu_shape shape = {.type = weight_bits == 8 ? ORK_NPU_W8A8 : ORK_NPU_W4A4, .m = m, .k = k, .n = n};
    shape.input = ork_npu_best_input(shape.type, k, m);
    ork_status status = ork_npu_program_write(&shape, &addresses, words, error);
    if (status != ORK_OK)
        return status;
    uint32_t count = ork_npu_program_words(shape.type);
    for (size_t i = 0; i < count * sizeof *words; i++)
        bytes[i] = (uint8_t)(words[i / WORD_BYTES] >> i % WORD_BYTES * 8);
    return ork_npu_disassemble(bytes, count * sizeof *words, text, error);
}
