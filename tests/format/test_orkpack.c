/* Guards the orkpack reader on good files: what was written comes back, mapped and copied; bytes stand where the
 * specification says; damage of planes is found by verification. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"

static const size_t in_order[SAMPLE_TENSORS] = {0, 1, 2};

struct place {
    char directory[64], path[96];
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/ork-test-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->path, sizeof place->path, "%s/model.orkpack", place->directory);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    assert_int_equal(rmdir(place->directory), 0); /* nothing left behind */
    free(place);
    return 0;
}

static void check_tensor(const ork_orkpack *pack, size_t index, const struct ork_orkpack_tensor *wanted)
{
    const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, index);
    ork_error error;
    assert_non_null(tensor);
    assert_string_equal(tensor->name, wanted->name);
    assert_ptr_equal(ork_orkpack_tensor_find(pack, wanted->name), tensor);
    assert_int_equal(tensor->tier, wanted->tier);
    assert_int_equal(tensor->layout, wanted->layout);
    assert_int_equal(tensor->source_type, wanted->source_type);
    assert_int_equal(tensor->dimension_count, wanted->dimension_count);
    assert_memory_equal(tensor->dimensions, wanted->dimensions, sizeof wanted->dimensions);
    assert_true(tensor->relative_error == 0.25f * (float)index);
    assert_true(tensor->sensitivity == wanted->sensitivity);
    for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
        const struct ork_orkpack_plane *plane = &tensor->planes[kind];
        const uint8_t *data = ork_orkpack_plane_data(pack, tensor, (enum ork_plane_kind)kind);
        assert_int_equal(plane->size_bytes, wanted->planes[kind].size_bytes);
        assert_int_equal(plane->expert_stride_bytes, wanted->planes[kind].expert_stride_bytes);
        assert_int_equal(plane->offset_bytes % 4096, 0);
        assert_true((data == NULL) == (plane->size_bytes == 0));
        for (uint64_t at = 0; at < plane->size_bytes; at++)
            assert_int_equal(data[at], sample_byte(index, kind, at));
        assert_int_equal(ork_orkpack_verify_plane(pack, tensor, (enum ork_plane_kind)kind, &error), ORK_OK);
    }
}

static void check_sample(const ork_orkpack *pack)
{
    struct ork_orkpack_tensor tensors[SAMPLE_TENSORS];
    const char *text = NULL;
    uint64_t length = 0;
    ork_error error;
    sample_tensors(tensors);
    assert_int_equal(ork_orkpack_tensor_count(pack), SAMPLE_TENSORS);
    for (size_t i = 0; i < SAMPLE_TENSORS; i++)
        check_tensor(pack, i, &tensors[i]);
    assert_null(ork_orkpack_tensor_at(pack, SAMPLE_TENSORS));
    assert_null(ork_orkpack_tensor_find(pack, "output"));
    assert_null(ork_orkpack_tensor_find(pack, ""));
    assert_int_equal(ork_meta_count(ork_orkpack_meta(pack)), 2);
    assert_int_equal(ork_meta_string(ork_orkpack_meta(pack), "general.architecture", true, &text, &length, &error),
                     ORK_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(text, "llama", 5);
}

static bool count_calls(void *context, const ork_progress *progress)
{
    (void)progress;
    ++*(int *)context;
    return true;
}

static bool stop(void *context, const ork_progress *progress)
{
    (void)context;
    (void)progress;
    return false;
}

static void test_what_is_written_comes_back(void **state)
{
    const struct place *place = *state;
    static const ork_load_mode modes[] = {ORK_LOAD_MAP, ORK_LOAD_COPY, ORK_LOAD_AUTO};
    ork_orkpack *pack;
    ork_error error = {0};
    assert_int_equal(sample_write(place->path, false, in_order, &error), ORK_OK);
    for (int i = 0; i < 3; i++) {
        int calls = 0;
        assert_int_equal(ork_orkpack_open(place->path, modes[i], count_calls, &calls, &pack, &error), ORK_OK);
        assert_string_equal(ork_orkpack_path(pack), place->path);
        /* Automatic: a few pages fit into memory on any machine, so they are copied. */
        assert_int_equal(ork_orkpack_load_mode(pack), i == 0 ? ORK_LOAD_MAP : ORK_LOAD_COPY);
        assert_true(i == 0 ? calls == 0 : calls > 0);
        check_sample(pack);
        ork_orkpack_close(pack);
    }
    assert_int_equal(ork_orkpack_open(place->path, ORK_LOAD_COPY, stop, NULL, &pack, &error), ORK_CANCELLED);
    assert_null(pack);
}

static void test_bytes_stand_where_the_specification_says(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    static const uint8_t magic[8] = {0x89, 'O', 'R', 'K', '\r', '\n', 0x1a, '\n'};
    /* pairs: 8 + 20 + 4 + 8 + 5 and 8 + 11 + 4 + 8 + 1 bytes */
    const uint64_t metadata = 45 + 32, index = 4096 + 128;
    assert_memory_equal(bytes, magic, 8);
    assert_int_equal(bytes[FIELD_VERSION], 1);
    assert_int_equal(sample_get_u64(bytes, FIELD_MANDATORY), 0);
    assert_int_equal(sample_get_u64(bytes, FIELD_FILE_SIZE), size);
    assert_int_equal(sample_get_u64(bytes, FIELD_METADATA_OFFSET), 4096);
    assert_int_equal(sample_get_u64(bytes, FIELD_METADATA_SIZE), metadata);
    assert_int_equal(sample_get_u64(bytes, FIELD_INDEX_OFFSET), index);
    assert_int_equal(sample_get_u64(bytes, FIELD_INDEX_SIZE), 3 * ENTRY_BYTES);
    assert_int_equal(sample_get_u64(bytes, FIELD_TENSOR_COUNT), 3);
    assert_int_equal(sample_get_u64(bytes, FIELD_PLANES), 8192);
    assert_int_equal(sample_get_u64(bytes, FIELD_CHECKSUM), XXH3_64bits(bytes + 16, 8192 - 16));
    assert_string_equal((char *)bytes + index + ENTRY_BYTES, "output.weight");
    /* planes in index order, a page each, the experts' data three */
    static const uint64_t offsets[3][3] = {{8192, 0, 0}, {12288, 16384, 0}, {20480, 32768, 36864}};
    for (size_t i = 0; i < 3; i++)
        for (int kind = 0; kind < 3; kind++) {
            size_t at = index + i * ENTRY_BYTES + ENTRY_PLANES + (size_t)kind * 32;
            uint64_t offset = sample_get_u64(bytes, at), length = sample_get_u64(bytes, at + 8);
            assert_int_equal(offset, offsets[i][kind]);
            if (length != 0)
                assert_int_equal(sample_get_u64(bytes, at + 24), XXH3_64bits(bytes + offset, length));
        }
    assert_int_equal(size, 40960);
    free(bytes);
}

static void test_order_of_writing_does_not_show(void **state)
{
    const struct place *place = *state;
    static const size_t orders[2][SAMPLE_TENSORS] = {{2, 0, 1}, {1, 2, 0}};
    size_t size, other_size;
    uint8_t *bytes = sample_bytes(&size);
    for (int i = 0; i < 2; i++) {
        ork_error error;
        assert_int_equal(sample_write(place->path, true, orders[i], &error), ORK_OK);
        uint8_t *other = sample_read_file(place->path, &other_size);
        assert_int_equal(size, other_size);
        assert_memory_equal(bytes, other, size);
        free(other);
    }
    free(bytes);
}

static void test_planned_size_is_the_size(void **state)
{
    (void)state;
    struct ork_orkpack_tensor tensors[SAMPLE_TENSORS];
    struct ork_buffer metadata = {0};
    uint64_t count;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    sample_tensors(tensors);
    sample_metadata(&metadata, &count);
    assert_int_equal(ork_orkpack_planned_size_bytes(&metadata, tensors, SAMPLE_TENSORS), size);
    tensors[1].planes[0].size_bytes = UINT64_MAX - 100;
    assert_int_equal(ork_orkpack_planned_size_bytes(&metadata, tensors, SAMPLE_TENSORS), 0);
    ork_buffer_free(&metadata);
    free(bytes);
}

/* Every byte behind the index belongs to a plane or to the zeros behind one; verification sees any change. */
static void test_every_damage_of_planes_is_found(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    for (size_t at = 8192; at < size; at += at % 4096 < 300 ? 1 : 17) {
        ork_orkpack *pack;
        ork_error error = {0};
        int failures = 0;
        bytes[at] ^= 0x10;
        assert_int_equal(ork_orkpack_parse(bytes, size, "damaged", &pack, &error), ORK_OK);
        for (size_t i = 0; i < SAMPLE_TENSORS; i++)
            for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
                if (ork_orkpack_verify_plane(pack, ork_orkpack_tensor_at(pack, i), (enum ork_plane_kind)kind, &error) !=
                    ORK_OK) {
                    assert_int_equal(error.code, ORK_BAD_FILE);
                    assert_true(error.offset >= 8192 && (size_t)error.offset <= at);
                    failures++;
                }
        assert_int_equal(failures, 1);
        ork_orkpack_close(pack);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

static void test_a_pack_without_tensors_is_a_pack(void **state)
{
    const struct place *place = *state;
    struct ork_buffer metadata = {0};
    ork_orkpack_writer *writer;
    ork_orkpack *pack;
    ork_error error;
    size_t resumed;
    assert_int_equal(ork_orkpack_writer_create(place->path, false, &metadata, 0, NULL, 0, 1, &writer, &resumed, &error),
                     ORK_OK);
    assert_int_equal(ork_orkpack_writer_finish(writer, NULL, &error), ORK_OK);
    assert_int_equal(ork_orkpack_open(place->path, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    assert_int_equal(ork_orkpack_tensor_count(pack), 0);
    assert_null(ork_orkpack_tensor_find(pack, "x"));
    ork_orkpack_close(pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_written_comes_back, make_place, remove_place),
        cmocka_unit_test(test_bytes_stand_where_the_specification_says),
        cmocka_unit_test_setup_teardown(test_order_of_writing_does_not_show, make_place, remove_place),
        cmocka_unit_test(test_planned_size_is_the_size),
        cmocka_unit_test(test_every_damage_of_planes_is_found),
        cmocka_unit_test_setup_teardown(test_a_pack_without_tensors_is_a_pack, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
