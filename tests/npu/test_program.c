/* Guards the register programs: every register's value against formulas published for it (tables of our own, written from
 * the published recipes and captures, not from program.c), the order of memory that the strides mean, completeness, links,
 * and that no value leaves its field. */
#include "engine/npu/limits.h"
#include "engine/npu/registers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A = 0x10000, B = 0x2000000, C = 0x7fff0000 };
static const struct ork_npu_addresses addresses = {A, B, C};

static const uint64_t *written(struct ork_npu_shape shape)
{
    static uint64_t words[ORK_NPU_PROGRAM_SLOT_WORDS];
    ork_error error;
    memset(words, 0xa5, sizeof words);
    if (ork_npu_program_write(&shape, &addresses, words, &error) != ORK_OK)
        fail_msg("%u x %u x %u: %s", shape.m, shape.k, shape.n, error.what);
    return words;
}

static uint32_t value_of(const uint64_t *words, uint32_t offset)
{
    for (uint32_t i = 0; i < ork_npu_program_words(ORK_NPU_W8A8); i++)
        if (ork_npu_word_offset(words[i]) == offset && ork_npu_word_target(words[i]) != ORK_NPU_TARGET_PC)
            return ork_npu_word_value(words[i]);
    fail_msg("register 0x%04x is not written", offset);
    return 0;
}

struct pair {
    uint32_t offset;
    uint64_t value;
};

static void check_pairs(const uint64_t *words, const struct pair *pairs, size_t count,
                        const struct ork_npu_shape *shape)
{
    for (size_t i = 0; i < count; i++)
        if (value_of(words, pairs[i].offset) != (uint32_t)pairs[i].value)
            fail_msg("%u x %u x %u: register 0x%04x is 0x%x, published 0x%x", shape->m, shape->k, shape->n,
                     pairs[i].offset, value_of(words, pairs[i].offset), (uint32_t)pairs[i].value);
}
#define CHECK(words, shape, ...)                                                                                       \
    check_pairs(words, (const struct pair[]){__VA_ARGS__},                                                             \
                sizeof((const struct pair[]){__VA_ARGS__}) / sizeof(struct pair), &(shape))

/* What every published matmul program has: ork-driver.md 4.2 "constants", npu-hw.md 4.2. */
static void check_constants(const uint64_t *words, const struct ork_npu_shape *shape)
{
    CHECK(words, *shape, {0x4004, 0xe}, {0x1014, 9}, {0x104c, 0xb}, {0x1050, 0x10000}, {0x1054, 0x10000},
          {0x1058, 0x10000}, {0x105c, 0x10000}, {0x1078, 0xf000f}, {0x1100, 0}, {0x1104, 0}, {0x301c, 0}, {0x3030, 0},
          {0x400c, 0x1e4}, {0x4040, 0x53}, {0x4060, 0x53}, {0x4070, 0x383}, {0x4078, 1}, {0x4084, 1}, {0x4080, 0},
          {0x4088, 0});
    for (uint32_t offset = 0x1140; offset <= 0x117c; offset += 4)
        CHECK(words, *shape, {offset, 0});
    static const uint32_t zeros[] = {0x1060, 0x1064, 0x1068, 0x1074, 0x1180, 0x1184, 0x4014, 0x4044, 0x4048,
                                     0x404c, 0x4054, 0x4064, 0x4068, 0x406c, 0x4074, 0x407c, 0x4090, 0x4094,
                                     0x4098, 0x409c, 0x40a0, 0x40a4, 0x40a8, 0x40ac, 0x4100, 0x4104, 0x4108,
                                     0x410c, 0x4110, 0x4114, 0x4118, 0x411c, 0x4120, 0x4124, 0x4128, 0x412c};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        CHECK(words, *shape, {zeros[i], 0});
}

/* Values that depend on m, k and n alone: ork-driver.md 4.2 for int8, npu-hw.md 4.2 and 4.3. */
static void check_sizes(const uint64_t *words, const struct ork_npu_shape *shape)
{
    uint64_t k = shape->k, n = shape->n, kernel = shape->type == ORK_NPU_W4A4 ? k / 2 : k;
    CHECK(words, *shape, {0x1070, A}, {0x1110, B}, {0x4020, C}, {0x1024, (k - 1) << 16 | k}, {0x102c, shape->m},
          {0x1030, kernel * n}, {0x1034, kernel}, {0x1038, 0x01010000 | n}, {0x1088, k}, {0x3018, n - 1},
          {0x4058, n - 1}, {0x403c, (n - 1) << 16 | (n - 1)});
}

/* oRKLLM/ork-driver's int8 programs, board-tested: rows in, rows out. */
static void rows_w8a8(void **state)
{
    (void)state;
    static const struct ork_npu_shape shapes[] = {
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 1, 512, 32},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 3, 1024, 3072},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 64, 2048, 2048},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 128, 2048, 8192},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 64, 3584, 512},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 64, 4096, 4096},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 1, 10752, 8192},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 15, 3840, 1024},
        {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 7, 96, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct ork_npu_shape *s = &shapes[i];
        const uint64_t *words = written(*s);
        uint64_t m = s->m, k = s->k, n = s->n;
        check_constants(words, s);
        check_sizes(words, s);
        CHECK(words, *s, {0x100c, 0x20000000}, {0x1020, 0x10000 | m}, {0x1084, 0x10000 | m}, {0x1028, 1},
              {0x1044, (k + 63) / 64}, {0x107c, k / 16}, {0x1080, 0}, {0x3010, 1}, {0x3014, (m - 1) << 16},
              {0x405c, (m - 1) << 16}, {0x4010, 0x80000000}, {0x4024, 0x10}, {0x4030, 0}, {0x4034, m - 1},
              {0x4038, (n / 4 - 1) << 16 | (n / 4 - 1)}, {0x4050, 0x7fe}, {0x40c0, 0x80});
        /* The same with native results (happyme531/rknpu2_matmul_open). */
        struct ork_npu_shape native = *s;
        native.output = ORK_NPU_NATIVE;
        words = written(native);
        check_constants(words, s);
        check_sizes(words, s);
        CHECK(words, *s, {0x100c, 0x20000000}, {0x1020, 0x10000 | m}, {0x107c, k / 16}, {0x1080, 0}, {0x4024, 16 * m},
              {0x4038, 0}, {0x40c0, 128 * m});
    }
}

/* The vendor's and happyme531's programs: one line of m pixels. m = 1 has the surface stride -3. */
static void native_w8a8(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {{1, 3584, 128},   {2, 3584, 128},  {4, 3584, 512}, {1, 10752, 32},
                                        {64, 2048, 8192}, {32, 4096, 256}, {512, 64, 32},  {33, 96, 96},
                                        {16, 8192, 1024}, {21, 6144, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t m = sizes[i][0], k = sizes[i][1];
        struct ork_npu_shape s = {ORK_NPU_W8A8, ORK_NPU_NATIVE, ORK_NPU_NATIVE, sizes[i][0], sizes[i][1], sizes[i][2]};
        const uint64_t *words = written(s);
        check_constants(words, &s);
        check_sizes(words, &s);
        CHECK(words, s, {0x100c, 0}, {0x1010, 0x20}, {0x1020, m << 16 | 1}, {0x1084, m << 16 | 1}, {0x1028, m},
              {0x1044, m * ((k + 63) / 64)}, {0x107c, 4 * m}, {0x1080, (0x10000000 - 3 * m) & 0xfffffff}, {0x3010, 1},
              {0x3014, m - 1}, {0x405c, m - 1}, {0x4010, 0x80000000}, {0x4024, 16 * m}, {0x4030, m - 1}, {0x4034, 0},
              {0x4038, 0}, {0x4050, 0x7fe}, {0x40c0, 128 * m});
    }
    assert_int_equal(value_of(written((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 1024, 32}), 0x1080), 0x0ffffffd);
}

/* npu-hw.md 4.3, and at m = 1 the template of oRKLLM/ork-driver but for its surface addition of 0x80 = 128 m. */
static void native_w4a4(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {{1, 480, 64}, {1, 2048, 4096}, {128, 2048, 2048},
                                        {7, 96, 128}, {128, 32, 64},   {65, 640, 192}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t m = sizes[i][0], k = sizes[i][1];
        struct ork_npu_shape s = {ORK_NPU_W4A4, ORK_NPU_NATIVE, ORK_NPU_NATIVE, sizes[i][0], sizes[i][1], sizes[i][2]};
        const uint64_t *words = written(s);
        uint64_t banks = (m * k / 2 + 32767) / 32768;
        check_constants(words, &s);
        check_sizes(words, &s);
        CHECK(words, s, {0x100c, 0x360}, {0x1010, 0x20}, {0x1020, m << 16 | 1}, {0x1084, m << 16 | 1}, {0x1028, m},
              {0x1040, (12 - banks) << 4 | banks}, {0x1044, m * ((k + 127) / 128)}, {0x107c, 4 * m},
              {0x1080, (0x10000000 - 3 * m) & 0xfffffff}, {0x3010, 0x601}, {0x3014, m - 1}, {0x405c, m - 1},
              {0x4010, 0x38000006}, {0x4024, 16 * m}, {0x4030, m - 1}, {0x4034, 0}, {0x4038, 0}, {0x4050, 0x7fe},
              {0x40c0, 128 * m});
    }
}

/* Register 0x1040: what the vendor's runtime wrote at k = 3584 (captured by oRKLLM/ork-driver; some of these rows are more
 * than our envelope takes, the rule is the same), and ork-driver's own schedule where it is in whole groups of 64 rows. */
static void banks(void **state)
{
    (void)state;
    for (uint32_t m = 1; m <= 36; m++) {
        struct ork_npu_schedule schedule =
            ork_npu_schedule_of(&(struct ork_npu_shape){ORK_NPU_W8A8, ORK_NPU_NATIVE, ORK_NPU_NATIVE, m, 3584, 128});
        uint32_t captured = m <= 9 ? 0xb1 : m <= 18 ? 0xa2 : m <= 27 ? 0x93 : 0x84;
        assert_int_equal(schedule.weight_banks << 4 | schedule.data_banks, captured);
    }
    for (uint32_t k = 512; k <= 4096; k += 512)
        for (uint32_t group = 1;; group++) {
            uint32_t scale = k / 512, base = 177 - 15 * (scale - 1), slope = 15 * scale;
            struct ork_npu_shape s = {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 64 * group, k, 64};
            if (s.m > ork_npu_rows_max(s.type, s.input, k))
                break;
            assert_int_equal(value_of(written(s), 0x1040), base - slope * (group - 1));
        }
    /* ork-driver at 3584: the schedule of 64 rows for fewer rows, too, and lines up to 16. */
    struct ork_npu_shape s = {ORK_NPU_W8A8, ORK_NPU_ROWS, ORK_NPU_ROWS, 10, 3584, 64};
    assert_int_equal(value_of(written(s), 0x1040), 0x57);
    assert_int_equal(value_of(written(s), 0x1010), 16 * 11);
    s.m = 40;
    assert_int_equal(value_of(written(s), 0x1010), 16 * 16);
    s.m = 1;
    assert_int_equal(value_of(written(s), 0x1040), 0xb1);
    assert_int_equal(value_of(written(s), 0x1010), 0x20);
}

/* Address of an atom of A as the hardware makes it (npu-hw.md 5), in atoms. */
static int64_t feature_atom(const uint64_t *words, int64_t row, int64_t surface)
{
    int64_t width = value_of(words, 0x1084) >> 16, line = value_of(words, 0x107c);
    int64_t stride = (int32_t)(value_of(words, 0x1080) << 4) >> 4, h = row / width, w = row % width;
    if (value_of(words, 0x100c) >> 29 & 1)
        return h * line + w + surface * (width + stride);
    return h / 4 * line + h % 4 * width + w + surface * (4 * width + stride);
}

/* Address of a result, in bytes. */
static uint64_t result_byte(const uint64_t *words, uint64_t row, uint64_t n, uint64_t group, uint64_t size)
{
    uint64_t width = (value_of(words, 0x4030) & 0x1fff) + 1, notch = value_of(words, 0x4038) & 0x1fff;
    uint64_t pixel = row / width * (width + notch) + row % width;
    return n / group * value_of(words, 0x40c0) + n % group * size / 16 * value_of(words, 0x4024) + 16 * pixel +
           n * size % 16;
}

static uint32_t below(uint32_t limit)
{
    return (uint32_t)(random() % limit);
}

static struct ork_npu_shape random_shape(void)
{
    struct ork_npu_shape s = {.type = below(2)};
    uint32_t group = ork_npu_group(s.type);
    if (s.type == ORK_NPU_W8A8) {
        s.input = below(2);
        s.output = s.input && below(2) ? ORK_NPU_ROWS : ORK_NPU_NATIVE;
    }
    s.k = 32 * (1 + below(s.type == ORK_NPU_W4A4 ? 64 : below(2) ? 64 : 336));
    s.n = group * (1 + below(below(2) ? 8 : ork_npu_n_max(s.type) / group));
    s.m = 1 + below(ork_npu_rows_max(s.type, s.input, s.k));
    return s;
}

static void strides_mean_the_layouts(void **state)
{
    (void)state;
    srandom(11);
    for (int i = 0; i < 3000; i++) {
        struct ork_npu_shape s = random_shape();
        const uint64_t *words = written(s);
        uint64_t size = s.type == ORK_NPU_W4A4 ? 2 : 4, group = ork_npu_group(s.type), lanes = 16 / size;
        for (int j = 0; j < 8; j++) {
            uint64_t row = below(s.m), surface = below(s.k / (s.type == ORK_NPU_W4A4 ? 32 : 16)), n = below(s.n);
            uint64_t atom = s.input == ORK_NPU_ROWS ? row * (s.k / 16) + surface : surface * s.m + row;
            uint64_t byte = s.output == ORK_NPU_ROWS ? 4 * (row * s.n + n)
                                                     : size * (n / lanes * s.m * lanes + row * lanes + n % lanes);
            assert_int_equal(feature_atom(words, (int64_t)row, (int64_t)surface), atom);
            assert_int_equal(result_byte(words, row, n, group, size), byte);
        }
        assert_int_equal(value_of(words, 0x40c0), 8 * value_of(words, 0x4024));
        uint32_t data = value_of(words, 0x1040) & 15, weight = value_of(words, 0x1040) >> 4 & 15;
        assert_int_equal(data + weight, ORK_NPU_BANKS);
        assert_true((uint64_t)data * ORK_NPU_BANK_BYTES >= (uint64_t)s.m * value_of(words, 0x1034));
        assert_true((uint64_t)weight * ORK_NPU_BANK_BYTES >= value_of(words, 0x1034));
    }
}

/* Complete, each register once, the pointer first; and every program has its registers at the same places. */
static void one_form(void **state)
{
    (void)state;
    static uint64_t first[ORK_NPU_PROGRAM_SLOT_WORDS];
    uint32_t count = ork_npu_program_words(ORK_NPU_W8A8);
    assert_int_equal(count, ork_npu_program_words(ORK_NPU_W4A4));
    memcpy(first, written((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 32, 32}), sizeof first);
    assert_int_equal(ork_npu_word_offset(first[0]), 0x4004);
    for (uint32_t i = 0; i + 4 < count; i++) {
        assert_non_null(ork_npu_register_find(ork_npu_word_target(first[i]), ork_npu_word_offset(first[i])));
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(ork_npu_word_offset(first[i]), ork_npu_word_offset(first[j]));
    }
    srandom(12);
    for (int i = 0; i < 500; i++) {
        const uint64_t *words = written(random_shape());
        for (uint32_t j = 0; j < ORK_NPU_PROGRAM_SLOT_WORDS; j++) {
            assert_int_equal(ork_npu_word_target(words[j]), ork_npu_word_target(first[j]));
            assert_int_equal(ork_npu_word_offset(words[j]), ork_npu_word_offset(first[j]));
        }
        for (uint32_t j = count; j < ORK_NPU_PROGRAM_SLOT_WORDS; j++)
            assert_int_equal(words[j], 0);
    }
}

static void tail_and_patches(void **state)
{
    (void)state;
    uint64_t words[ORK_NPU_PROGRAM_SLOT_WORDS], again[ORK_NPU_PROGRAM_SLOT_WORDS];
    struct ork_npu_shape shape = {ORK_NPU_W4A4, 0, 0, 5, 64, 64};
    struct ork_npu_addresses other = {0xfffffff0, 0x40, 0x80}, got;
    uint32_t count = ork_npu_program_words(ORK_NPU_W4A4);
    memcpy(words, written(shape), sizeof words);
    assert_int_equal(words[count - 4], 0);
    assert_int_equal(words[count - 3], 0x0101000000000014);
    assert_int_equal(words[count - 2], 0x0041000000000000);
    assert_int_equal(words[count - 1], 0x00810000000d0008);
    ork_npu_program_set_next(ORK_NPU_W4A4, false, 0xabcd0040, ORK_NPU_W8A8, words);
    assert_int_equal(words[count - 4], 0x0101abcd00400010);
    uint64_t amount = words[count - 3] >> 16 & 0xffffffff;
    assert_int_equal(amount, (count - 4 + 1) / 2 + 1);
    assert_true(2 * (amount + 1) >= count && 2 * (amount + 1) <= ORK_NPU_PROGRAM_SLOT_WORDS);
    ork_npu_program_set_next(ORK_NPU_W4A4, true, 0, ORK_NPU_W4A4, words);
    assert_memory_equal(words, written(shape), sizeof words);
    ork_npu_program_set_addresses(ORK_NPU_W4A4, &other, words);
    ork_npu_program_get_addresses(ORK_NPU_W4A4, words, &got);
    assert_memory_equal(&got, &other, sizeof got);
    assert_int_equal(ork_npu_program_write(&shape, &other, again, NULL), ORK_OK);
    assert_memory_equal(words, again, sizeof words);
}

static void refuse(struct ork_npu_shape shape, const char *word)
{
    uint64_t words[ORK_NPU_PROGRAM_SLOT_WORDS];
    ork_error error;
    assert_int_not_equal(ork_npu_program_write(&shape, &addresses, words, &error), ORK_OK);
    if (!strstr(error.what, word))
        fail_msg("'%s' does not name %s", error.what, word);
}

static void refusals(void **state)
{
    (void)state;
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 0, 32, 32}, "empty");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 33, 32}, "33 inputs");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 32, 16}, "16 channels");
    refuse((struct ork_npu_shape){ORK_NPU_W4A4, 0, 0, 1, 32, 32}, "W4A4's 64");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 32, 8224}, "8192");
    refuse((struct ork_npu_shape){ORK_NPU_W4A4, 0, 0, 1, 32, 4160}, "4096");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 1, 10784, 32}, "10784 inputs");
    refuse((struct ork_npu_shape){ORK_NPU_W4A4, 0, 0, 1, 2080, 64}, "2080 inputs");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 65, 2048, 32}, "at most 64");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, 0, 5, 3584, 32}, "at most 4");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, ORK_NPU_ROWS, 0, 129, 2048, 32}, "at most 128");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, ORK_NPU_ROWS, 0, 16, 3840, 32}, "at most 15");
    refuse((struct ork_npu_shape){ORK_NPU_W4A4, 0, 0, 129, 64, 64}, "at most 128");
    refuse((struct ork_npu_shape){ORK_NPU_W8A8, 0, ORK_NPU_ROWS, 1, 32, 32}, "results by rows");
    refuse((struct ork_npu_shape){ORK_NPU_W4A4, ORK_NPU_ROWS, 0, 1, 32, 64}, "W4A4");
    refuse((struct ork_npu_shape){7, 0, 0, 1, 32, 64}, "type");
    refuse((struct ork_npu_shape){0, 9, 0, 1, 32, 64}, "surface");
    uint64_t words[ORK_NPU_PROGRAM_SLOT_WORDS];
    struct ork_npu_shape shape = {ORK_NPU_W8A8, 0, 0, 1, 32, 32};
    assert_int_equal(ork_npu_program_write(&shape, &(struct ork_npu_addresses){8, 0, 0}, words, NULL),
                     ORK_BAD_ARGUMENT);
}

/* Safe k: 480 and 640 are published (npu-hw.md 7.2), the rest follows the same rule. */
static void safe_inputs(void **state)
{
    (void)state;
    assert_int_equal(ork_npu_k_max(ORK_NPU_W4A4, 8, 8), 480);
    assert_int_equal(ork_npu_k_max(ORK_NPU_W4A4, 7, 7), 640);
    assert_int_equal(ork_npu_k_max(ORK_NPU_W4A4, 1, 1), 2048);
    assert_int_equal(ork_npu_k_max(ORK_NPU_W4A4, 0, 7), 0);
    assert_int_equal(ork_npu_k_max(ORK_NPU_W4A4, 9, 7), 0);
    assert_int_equal(ork_npu_k_max(ORK_NPU_W8A8, 0, 0), 10752);
    for (uint32_t a = 1; a <= 8; a++)
        for (uint32_t w = 1; w <= 8; w++)
            assert_true(a * w * ork_npu_k_max(ORK_NPU_W4A4, a, w) <= 32767);
    assert_true(ork_npu_k_total_max(ORK_NPU_W8A8) <= 131071);
}

/* The packers refuse what does not fit and say where; the first failure stays. */
static void fields_are_checked(void **state)
{
    (void)state;
    uint64_t words[2] = {0};
    struct ork_npu_writer writer = {.words = words, .capacity = 2};
    ork_npu_put_cna_dma_con2(&writer, (struct ork_npu_cna_dma_con2){.surf_stride = -(1 << 27)});
    assert_int_equal(writer.count, 1);
    assert_int_equal(words[0], 0x0201080000001080);
    assert_int_equal(
        ork_npu_field_get(&ork_npu_fields[ork_npu_registers[ORK_NPU_REGISTER_CNA_DMA_CON2].field], 0x0ffffffd), -3);
    ork_npu_put_cna_cbuf_con0(&writer, (struct ork_npu_cna_cbuf_con0){.data_bank = 15, .weight_bank = 16});
    assert_non_null(writer.failed_field);
    assert_string_equal(writer.failed_register->name, "cbuf_con0");
    assert_string_equal(writer.failed_field->name, "weight_bank");
    assert_int_equal(writer.failed_value, 16);
    ork_npu_put_cna_dma_con2(&writer, (struct ork_npu_cna_dma_con2){.surf_stride = 1 << 27});
    assert_string_equal(writer.failed_field->name, "weight_bank");
    assert_int_equal(writer.count, 1);
    writer = (struct ork_npu_writer){.words = words, .capacity = 2};
    ork_npu_put_cna_dma_con2(&writer, (struct ork_npu_cna_dma_con2){.surf_stride = 1 << 27});
    assert_string_equal(writer.failed_field->name, "surf_stride");
    writer = (struct ork_npu_writer){.words = words, .capacity = 0};
    ork_npu_put_sync_marker(&writer, (struct ork_npu_sync_marker){0});
    assert_non_null(writer.failed_register);
    assert_null(writer.failed_field);
    writer = (struct ork_npu_writer){.words = words, .capacity = 2};
    ork_npu_put_dpu_bs_alu_cfg(&writer, (struct ork_npu_dpu_bs_alu_cfg){.bs_alu_operand = UINT32_MAX});
    assert_int_equal(words[0], 0x1001ffffffff4044);
    ork_npu_put_dpu_bs_alu_cfg(&writer, (struct ork_npu_dpu_bs_alu_cfg){.bs_alu_operand = INT64_C(1) << 32});
    assert_non_null(writer.failed_field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_w8a8),
        cmocka_unit_test(native_w8a8),
        cmocka_unit_test(native_w4a4),
        cmocka_unit_test(banks),
        cmocka_unit_test(strides_mean_the_layouts),
        cmocka_unit_test(one_form),
        cmocka_unit_test(tail_and_patches),
        cmocka_unit_test(refusals),
        cmocka_unit_test(safe_inputs),
        cmocka_unit_test(fields_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
