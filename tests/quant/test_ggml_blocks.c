/* Guards decoding of ggml block types against the Python package `gguf`: vectors by make_ggml_vectors.py, which also
 * describes their file.
 *
 * The comparison is of bits. Every product in a decoder is exact in float (ggml_kquants.c says why), so there is one
 * rounding at most and no freedom that a tolerance would have to cover; only NaN may differ in its payload. */
#include "base/cursor.h"
#include "base/file.h"
#include "format/gguf.h"
#include "quant/ggml_blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct vectors {
    uint32_t type, block_bytes, block_length, explicit_blocks, hashed_blocks;
    const uint8_t *blocks, *floats;
    uint64_t hash;
};

static struct ork_mapping mapping;

static int open_vectors(void **state)
{
    (void)state;
    ork_error error = {0};
    return ork_file_map(ORK_SOURCE_DIR "/tests/quant/ggml_vectors.bin", &mapping, &error) != ORK_OK;
}

static int close_vectors(void **state)
{
    (void)state;
    ork_mapping_release(&mapping);
    return 0;
}

/* False at the end of the file. */
static bool next_vectors(struct ork_cursor *cursor, struct vectors *v)
{
    if (ork_cursor_left(cursor) == 0)
        return false;
    assert_true(ork_cursor_u32(cursor, &v->type) && ork_cursor_u32(cursor, &v->block_bytes) &&
                ork_cursor_u32(cursor, &v->block_length) && ork_cursor_u32(cursor, &v->explicit_blocks) &&
                ork_cursor_u32(cursor, &v->hashed_blocks));
    v->blocks = ork_cursor_take(cursor, (uint64_t)v->explicit_blocks * v->block_bytes);
    v->floats = ork_cursor_take(cursor, (uint64_t)v->explicit_blocks * v->block_length * 4);
    assert_true(v->blocks && v->floats && ork_cursor_u64(cursor, &v->hash));
    return true;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7fc00000 : bits;
}

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The bytes of the hashed blocks, as the script made them. */
static uint8_t *make_hashed_blocks(const struct vectors *v)
{
    uint64_t size_bytes = (uint64_t)v->hashed_blocks * v->block_bytes;
    uint8_t *blocks = malloc(size_bytes + 8);
    bool all_values = v->type == ORK_GGML_F16 || v->type == ORK_GGML_BF16;
    for (uint64_t i = 0; all_values && i < v->hashed_blocks; i++) {
        blocks[2 * i] = (uint8_t)i;
        blocks[2 * i + 1] = (uint8_t)(i >> 8);
    }
    for (uint64_t i = 0; !all_values && 8 * i < size_bytes; i++) {
        uint64_t word = mix(v->type + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
        for (int j = 0; j < 8; j++)
            blocks[8 * i + (uint64_t)j] = (uint8_t)(word >> (8 * j));
    }
    return blocks;
}

static void test_explicit_blocks(void **state)
{
    (void)state;
    struct ork_cursor cursor = ork_cursor_make(mapping.data, mapping.size_bytes);
    struct vectors v;
    int types = 0;
    while (next_vectors(&cursor, &v)) {
        const struct ork_ggml_type_info *info = ork_ggml_type_find(v.type);
        assert_non_null(info);
        assert_int_equal(info->block_bytes, v.block_bytes);
        assert_int_equal(info->block_length, v.block_length);
        uint64_t count = (uint64_t)v.explicit_blocks * v.block_length;
        float *out = malloc(count * sizeof *out);
        ork_ggml_decode(v.type, v.blocks, count, out);
        struct ork_cursor floats = ork_cursor_make(v.floats, count * 4);
        for (uint64_t i = 0; i < count; i++) {
            float wanted = 0;
            assert_true(ork_cursor_f32(&floats, &wanted));
            if (bits_of(out[i]) != bits_of(wanted))
                fail_msg("%s block %llu element %llu: wanted %a, got %a", info->name,
                         (unsigned long long)(i / v.block_length), (unsigned long long)(i % v.block_length),
                         (double)wanted, (double)out[i]);
        }
        free(out);
        types++;
    }
    assert_int_equal(types, 13);
}

static void test_hashed_blocks(void **state)
{
    (void)state;
    struct ork_cursor cursor = ork_cursor_make(mapping.data, mapping.size_bytes);
    struct vectors v;
    while (next_vectors(&cursor, &v)) {
        uint64_t count = (uint64_t)v.hashed_blocks * v.block_length, hash = 0;
        uint8_t *blocks = make_hashed_blocks(&v);
        float *out = malloc(count * sizeof *out);
        ork_ggml_decode(v.type, blocks, count, out);
        for (uint64_t i = 0; i < count; i++)
            hash += mix(bits_of(out[i]) + (i << 32));
        if (hash != v.hash)
            fail_msg("%s: the hash of %u decoded blocks differs", ork_ggml_type_find(v.type)->name, v.hashed_blocks);
        free(out);
        free(blocks);
    }
}

/* Blocks at odd addresses, and nothing written or read beyond: both ends are exact heap blocks, which ASan watches. */
static void test_unaligned_and_exact(void **state)
{
    (void)state;
    struct ork_cursor cursor = ork_cursor_make(mapping.data, mapping.size_bytes);
    struct vectors v;
    while (next_vectors(&cursor, &v)) {
        uint8_t *bytes = malloc(v.block_bytes + 1);
        float *out = malloc(v.block_length * sizeof *out), *again = malloc(v.block_length * sizeof *again);
        memcpy(bytes + 1, v.blocks, v.block_bytes);
        ork_ggml_decode(v.type, bytes + 1, v.block_length, out);
        ork_ggml_decode(v.type, v.blocks, v.block_length, again);
        assert_memory_equal(out, again, v.block_length * sizeof *out);
        free(bytes);
        free(out);
        free(again);
    }
}

static void test_decodable_types(void **state)
{
    (void)state;
    static const uint32_t decodable[] = {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 30};
    size_t found = 0;
    for (uint32_t id = 0; id < 300; id++) {
        bool wanted = found < sizeof decodable / sizeof decodable[0] && decodable[found] == id;
        assert_int_equal(ork_ggml_can_decode(id), wanted);
        found += wanted;
        if (wanted)
            assert_non_null(ork_ggml_type_find(id));
    }
    assert_int_equal(found, 13);
    assert_false(ork_ggml_can_decode(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explicit_blocks),
        cmocka_unit_test(test_hashed_blocks),
        cmocka_unit_test(test_unaligned_and_exact),
        cmocka_unit_test(test_decodable_types),
    };
    return cmocka_run_group_tests(tests, open_vectors, close_vectors);
}
