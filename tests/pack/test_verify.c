/* Guards verification: a good pack passes with the right counts; every kind of damage that a checksum shows, and every kind
 * that only looking at the numbers shows (checksums made right again), is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"
#include "pack/source.h"

#include "quant/tier.h"

static int make_place(void **state)
{
    struct source_place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    source_open_place(place);
    source_write(place);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct source_place *place = *state;
    assert_true(source_close_place(place));
    free(place);
    return 0;
}

static void pack_as(const struct source_place *place, const char *tier)
{
    ork_error error = {0};
    const ork_pack_params params = {.default_tier = tier, .overwrite = true, .threads = 1};
    if (ork_pack_file(place->gguf, place->pack, &params, NULL, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
}

static void test_good_packs(void **state)
{
    const struct source_place *place = *state;
    for (const char *const *tier = ork_tier_names(); *tier != NULL; tier++) {
        ork_verify_report report;
        ork_orkpack *pack;
        ork_error error = {0};
        size_t planes = 0;
        uint64_t bytes = 0;
        pack_as(place, *tier);
        assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
        for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++)
            for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
                planes += ork_orkpack_tensor_at(pack, i)->planes[kind].size_bytes != 0;
                bytes += ork_orkpack_tensor_at(pack, i)->planes[kind].size_bytes;
            }
        ork_orkpack_close(pack);
        assert_int_equal(ork_verify_file(place->pack, NULL, NULL, &report, &error), ORK_OK);
        assert_int_equal(report.plane_count, planes);
        assert_int_equal(report.checked_bytes, bytes);
        assert_int_equal(report.non_finite_count, 0);
    }
    assert_int_equal(ork_verify_file(place->pack, NULL, NULL, NULL, NULL), ORK_OK);
}

static bool stop(void *context, const ork_progress *progress)
{
    (void)progress;
    ++*(int *)context;
    return false;
}

static void test_it_can_be_stopped(void **state)
{
    const struct source_place *place = *state;
    ork_error error;
    int calls = 0;
    pack_as(place, "auto");
    assert_int_equal(ork_verify_file(place->pack, stop, &calls, NULL, &error), ORK_CANCELLED);
    assert_int_equal(calls, 1);
}

static void test_files_that_are_no_packs(void **state)
{
    const struct source_place *place = *state;
    ork_error error;
    assert_int_equal(ork_verify_file("/nonexistent", NULL, NULL, NULL, &error), ORK_NOT_FOUND);
    assert_int_equal(ork_verify_file(place->gguf, NULL, NULL, NULL, &error), ORK_BAD_FILE);
    assert_int_equal(ork_verify_file(place->directory, NULL, NULL, NULL, &error), ORK_BAD_FILE);
}

/* ---- damage ---- */

/* A pack in memory, changed at will, and where its tensors' planes stand. */
struct damaged {
    uint8_t *bytes;
    size_t size;
};

static struct damaged load(const struct source_place *place, const char *tier)
{
    struct damaged file;
    pack_as(place, tier);
    file.bytes = sample_read_file(place->pack, &file.size);
    assert_non_null(file.bytes);
    return file;
}

/* The index entry of a tensor. */
static uint8_t *entry_of(const struct damaged *file, const char *name)
{
    uint64_t index = sample_get_u64(file->bytes, FIELD_INDEX_OFFSET),
             count = sample_get_u64(file->bytes, FIELD_TENSOR_COUNT);
    for (uint64_t i = 0; i < count; i++)
        if (strcmp((const char *)file->bytes + index + i * ENTRY_BYTES, name) == 0)
            return file->bytes + index + i * ENTRY_BYTES;
    fail_msg("no %s", name);
    return NULL;
}

static uint64_t plane_of(const struct damaged *file, const char *name, int kind)
{
    return sample_get_u64(entry_of(file, name), ENTRY_PLANES + (size_t)kind * 32);
}

/* Makes the checksums of all planes and of the front right again. */
static void repair(const struct damaged *file)
{
    uint64_t index = sample_get_u64(file->bytes, FIELD_INDEX_OFFSET),
             count = sample_get_u64(file->bytes, FIELD_TENSOR_COUNT);
    for (uint64_t i = 0; i < count; i++)
        for (size_t kind = 0; kind < 3; kind++) {
            size_t at = index + i * ENTRY_BYTES + ENTRY_PLANES + kind * 32;
            uint64_t size = sample_get_u64(file->bytes, at + 8);
            if (size != 0)
                sample_set_u64(file->bytes, at + 24, XXH3_64bits(file->bytes + sample_get_u64(file->bytes, at), size));
        }
    assert_true(sample_repair_checksum(file->bytes, file->size));
}

static void expect(const struct source_place *place, const struct damaged *file, ork_status status, const char *part,
                   size_t non_finite)
{
    ork_verify_report report;
    ork_error error = {0};
    assert_true(gguf_builder_write_bytes(place->pack, file->bytes, file->size));
    ork_status found = ork_verify_file(place->pack, NULL, NULL, &report, &error);
    if (found != status || strstr(error.what, part) == NULL)
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", found, error.what, status, part);
    assert_int_equal(report.non_finite_count, non_finite);
}

static void test_changed_bytes(void **state)
{
    const struct source_place *place = *state;
    struct damaged file = load(place, "auto");
    uint64_t first = sample_get_u64(file.bytes, FIELD_PLANES);
    for (uint64_t at = first + 5; at < file.size; at += file.size / 37) {
        ork_error error = {0};
        file.bytes[at] ^= 4;
        assert_true(gguf_builder_write_bytes(place->pack, file.bytes, file.size));
        assert_int_equal(ork_verify_file(place->pack, NULL, NULL, NULL, &error), ORK_BAD_FILE);
        assert_true((uint64_t)error.offset >= first && (uint64_t)error.offset <= at);
        file.bytes[at] ^= 4;
    }
    free(file.bytes);
}

/* Sets bytes in a plane, repairs the checksums, expects the message. */
static void check_change(const struct source_place *place, const char *tier, const char *name, int kind, uint64_t at,
                         const void *bytes, size_t count, const char *part, size_t non_finite)
{
    struct damaged file = load(place, tier);
    memcpy(file.bytes + plane_of(&file, name, kind) + at, bytes, count);
    repair(&file);
    expect(place, &file, ORK_BAD_FILE, part, non_finite);
    free(file.bytes);
}

static void test_numbers_that_no_encoder_writes(void **state)
{
    const struct source_place *place = *state;
    const float not_a_number = NAN, one = 1.0f;
    const uint16_t infinite_half = 0x7c00, brain_nan = 0x7fc0;
    const uint8_t minus_128 = 0x80, anything = 0x33;
    /* attn_q has 70 channels and 72 inputs: 3 tiles, padding from channel 70 and input 72 on */
    check_change(place, "i8", "blk.0.attn_q.weight", 1, 5 * 4, &not_a_number, 4,
                 "NaN or infinite, the first in tensor "
                 "blk.0.attn_q.weight",
                 1);
    check_change(place, "i8", "blk.0.attn_q.weight", 1, 70 * 4, &one, 4, "scale of a padding channel", 0);
    check_change(place, "i8", "blk.0.attn_q.weight", 0, 40, &minus_128, 1, "code -128", 0);
    check_change(place, "i8", "blk.0.attn_q.weight", 0, 2 * 1024 + 8, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "i4", "blk.0.attn_q.weight", 0, 2 * 1024 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "nf4", "blk.0.attn_q.weight", 0, 2 * 1024 + 4, &anything, 1, "padding does not mean 0", 0);
    /* i5: four bytes into the first channel's nibbles of the last tile, and into the line that holds their fifth bits */
    check_change(place, "i5", "blk.0.attn_q.weight", 0, 2 * 1280 + 64 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "i5", "blk.0.attn_q.weight", 0, 2 * 1280 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "i6", "blk.0.attn_q.weight", 0, 2 * 1536 + 64 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "i6", "blk.0.attn_q.weight", 0, 2 * 1536 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "i6", "blk.0.attn_q.weight", 1, 127 * 4, &one, 4, "scale of a padding channel", 0);
    /* n8: base and residual of the first channel in the last tile; two groups of three tiles are 6144 bytes a run */
    check_change(place, "n8", "blk.0.attn_q.weight", 0, 2 * 1024 + 4, &anything, 1, "padding does not mean 0", 0);
    check_change(place, "n8", "blk.0.attn_q.weight", 0, 8192 + 2 * 1024 + 4, &anything, 1, "padding does not mean 0",
                 0);
    check_change(place, "nf4", "blk.0.attn_q.weight", 1, 127 * 4, &one, 4, "scale of a padding channel", 0);
    check_change(place, "nf4", "blk.0.ffn_up_exps.weight", 1, (2 * 128 + 99) * 4, &not_a_number, 4, "NaN or infinite",
                 1);
    check_change(place, "g8", "token_embd.weight", 1, 6, &infinite_half, 2, "NaN or infinite", 1);
    check_change(place, "g8", "token_embd.weight", 0, 72, &anything, 1, "padding is not zero", 0);
    check_change(place, "g8", "token_embd.weight", 0, 3, &minus_128, 1, "code -128", 0);
    check_change(place, "f16", "token_embd.weight", 0, 100, &infinite_half, 2, "NaN or infinite", 1);
    check_change(place, "bf16", "token_embd.weight", 0, 100, &brain_nan, 2, "NaN or infinite", 1);
    check_change(place, "f32", "output_norm.weight", 0, 100, &not_a_number, 4, "NaN or infinite", 1);
}

static void test_tables_that_cannot_be_used(void **state)
{
    const struct source_place *place = *state;
    struct damaged file = load(place, "nf4");
    uint64_t table = plane_of(&file, "blk.0.attn_q.weight", 2);
    int8_t good[16];
    memcpy(good, file.bytes + table, 16);
    file.bytes[table + 15] = 5; /* below the entries before it */
    repair(&file);
    expect(place, &file, ORK_BAD_FILE, "does not ascend", 0);
    memcpy(file.bytes + table, good, 16);
    for (int i = 0; i < 16; i++)
        if (good[i] == 0)
            file.bytes[table + (size_t)i] = 1;
    repair(&file);
    expect(place, &file, ORK_BAD_FILE, "no entry that means 0", 0);
    free(file.bytes);
}

static void test_index_and_planes_that_disagree(void **state)
{
    const struct source_place *place = *state;
    static const struct {
        size_t at;
        uint32_t value;
        ork_status status;
        const char *message;
    } cases[] = {
        {ENTRY_TIER, 10, ORK_UNSUPPORTED, "tier 10"},
        {ENTRY_TIER, 99, ORK_UNSUPPORTED, "tier 99"},
        {ENTRY_TIER, ORK_TIER_I5, ORK_BAD_FILE, "layout 1 does not belong to tier i5"},
        {ENTRY_TIER, ORK_TIER_I4, ORK_BAD_FILE, "layout 1 does not belong to tier i4"},
        {ENTRY_TIER + 4, 2, ORK_BAD_FILE, "layout 2 does not belong to tier i8"},
        {ENTRY_DIMENSIONS, 1000, ORK_BAD_FILE, "plane sizes do not follow"},
        {ENTRY_DIMENSIONS + 8, 10, ORK_BAD_FILE, "plane sizes do not follow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct damaged file = load(place, "i8");
        sample_set_u32(entry_of(&file, "blk.0.attn_q.weight"), cases[i].at, cases[i].value);
        repair(&file);
        expect(place, &file, cases[i].status, cases[i].message, 0);
        free(file.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_packs, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_it_can_be_stopped, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_files_that_are_no_packs, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_changed_bytes, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_numbers_that_no_encoder_writes, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_tables_that_cannot_be_used, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_index_and_planes_that_disagree, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
