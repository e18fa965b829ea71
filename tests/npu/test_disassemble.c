/* Guards the disassembler: programs come out in names with the fields that are set, links and ends are said, and no bytes
 * whatever make it fail or say nothing. Texts are freed with free(): that is what ork_free() of a room above does. */
#include "engine/npu/limits.h"
#include "engine/npu/registers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *listing(const void *words, size_t size_bytes)
{
    char *text = NULL;
    ork_error error;
    if (ork_npu_disassemble(words, size_bytes, &text, &error) != ORK_OK)
        fail_msg("%s", error.what);
    return text;
}

static size_t lines_of(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void must_say(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("the listing lacks '%s':\n%s", line, text);
}

static void names(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(ork_npu_describe_program(4, 5, 480, 128, &text, NULL), ORK_OK);
    assert_int_equal(lines_of(text), ork_npu_program_words(ORK_NPU_W4A4));
    must_say(text,
             "    0  dpu.s_pointer                = 0x0000000e  pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1\n");
    must_say(text, "cna.conv_con1                = 0x00000360  in_precision=int4 proc_precision=int4\n");
    must_say(text, "cna.data_size1               = 0x01df01e0  datain_channel=480 datain_channel_real=479\n");
    must_say(text, "cna.dma_con2                 = 0x0ffffff1  surf_stride=-15\n");
    must_say(text, "in_precision=int4 out_precision=int16\n");
    must_say(text, "pc.register_amounts          = 0x00000000  (no next program)\n");
    must_say(text, "sync.marker                  = 0x00000000  (end of registers)\n");
    must_say(text, "start.operation_enable       = 0x0000000d  cna_op_en=1 core_op_en=1 dpu_op_en=1  (start)\n");
    free(text);
    assert_int_equal(ork_npu_describe_program(8, 128, 2048, 4096, &text, NULL), ORK_OK);
    must_say(text, "group_line_off=1\n"); /* so many rows need the row surface */
    free(text);
}

static void chains_and_strangers(void **state)
{
    (void)state;
    const uint64_t words[] = {
        0x0101abcd00400010, /* link */
        0x0101000000350014,
        0x1001000000000000 | UINT64_C(7) << 16 | 0x40c4,
        0x7777000000010002,
        0x1001ffffffff4010,
        0x0801000000800010 | 0x3000,
        0,
        0,
        0,
        0,
        0x0201000000000000,
        0,
    };
    char *text = listing(words, sizeof words);
    must_say(text, "pc.base_address              = 0xabcd0040  pc_source_addr=0xabcd0040  (next program)\n");
    must_say(text, "pc.register_amounts          = 0x00000035  pc_data_amount=53  (108 words of the next program)\n");
    must_say(text, "dpu.0x40c4                   = 0x00000007\n");
    must_say(text, "0x7777.0x0002                = 0x00000001\n");
    must_say(text, "unnamed bits 0x80\n");
    must_say(text, "    6  ... 4 words of zeros\n");
    must_say(text, "   10  cna.0x0000                   = 0x00000000\n");
    must_say(text, "   11  nothing                      = 0x00000000\n");
    free(text);
}

/* Words of chance and words that nearly are registers. */
static void any_bytes(void **state)
{
    (void)state;
    enum { WORDS = 64, TIMES = 3000 };
    uint64_t words[WORDS];
    srandom(5);
    for (int i = 0; i < TIMES; i++) {
        size_t count = 1 + (size_t)random() % WORDS;
        for (size_t j = 0; j < count; j++) {
            words[j] = (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();
            const struct ork_npu_register *one = &ork_npu_registers[random() % ORK_NPU_REGISTER_COUNT];
            if (random() % 4)
                words[j] = ork_npu_word(ork_npu_blocks[one->block].target, one->offset, (uint32_t)(words[j] >> 13));
            if (random() % 8 == 0)
                words[j] ^= UINT64_C(1) << random() % 64;
            if (random() % 16 == 0)
                words[j] = 0;
        }
        char *text = listing(words, count * sizeof *words);
        size_t lines = lines_of(text);
        assert_true(lines >= 1 && lines <= count);
        assert_int_equal(text[strlen(text) - 1], '\n');
        free(text);
    }
    /* Unaligned bytes, and every length around whole words. */
    for (size_t size = 0; size < 40; size++) {
        char *text = NULL;
        uint8_t *bytes = malloc(size + 1);
        assert_non_null(bytes);
        memset(bytes, 0xff, size + 1);
        assert_int_equal(ork_npu_disassemble(bytes + 1, size, &text, NULL),
                         size && size % 8 == 0 ? ORK_OK : ORK_BAD_FILE);
        free(text);
        free(bytes);
    }
}

static void refuse(uint32_t bits, uint32_t m, uint32_t k, uint32_t n, const char *word)
{
    char *text = NULL;
    ork_error error;
    assert_int_not_equal(ork_npu_describe_program(bits, m, k, n, &text, &error), ORK_OK);
    if (!strstr(error.what, word))
        fail_msg("'%s' does not name %s", error.what, word);
    assert_null(text);
}

static void refusals(void **state)
{
    (void)state;
    char *text = NULL;
    uint8_t *many = calloc((1 << 17) + 1, 8);
    assert_non_null(many);
    refuse(16, 1, 32, 32, "16 bits");
    refuse(8, 1, 40, 32, "40 inputs");
    refuse(8, 600, 32, 32, "at most 512");
    refuse(4, 1, 32, UINT32_MAX - 63, "4096");
    refuse(4, UINT32_MAX, 32, 64, "128");
    assert_int_equal(ork_npu_disassemble(many, ((1 << 17) + 1) * 8, &text, NULL), ORK_BAD_FILE);
    assert_int_equal(ork_npu_disassemble(many, (1 << 17) * 8, &text, NULL), ORK_OK);
    assert_string_equal(text, "    0  ... 131072 words of zeros\n");
    free(text);
    memset(many, 0x10, (1 << 17) * 8);
    assert_int_equal(ork_npu_disassemble(many, (1 << 17) * 8, &text, NULL), ORK_OK);
    assert_int_equal(lines_of(text), 1 << 17);
    free(text);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(chains_and_strangers),
                                       cmocka_unit_test(any_bytes), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
