/* Guards split models: parts are found by name, bound by their keys, and every disagreement is refused with the part
 * named. */
#include "format/gguf_exercise.h"
#include "format/gguf_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <unistd.h>

enum { PARTS = 3 };

/* A model of three parts in a directory of its own: no tensors in the first, two in each other one, named t0 to t3 and
 * filled with their number. */
struct model {
    char directory[64];
    struct gguf_builder parts[PARTS];
    char paths[PARTS][128];
};

static void add_tensor(struct gguf_builder *b, int number)
{
    char name[16];
    uint8_t bytes[40];
    snprintf(name, sizeof name, "t%d", number);
    memset(bytes, number, sizeof bytes);
    gguf_builder_tensor(b, name, ORK_GGML_I8, 1, (uint64_t[]){sizeof bytes}, bytes, sizeof bytes);
}

/* Parts with their keys but no tensors yet. */
static void begin_model(struct model *model, int32_t tensor_total)
{
    snprintf(model->directory, sizeof model->directory, "/tmp/ork-split-XXXXXX");
    assert_non_null(mkdtemp(model->directory));
    char prefix[96];
    snprintf(prefix, sizeof prefix, "%s/model", model->directory);
    for (unsigned i = 0; i < PARTS; i++) {
        gguf_builder_init(&model->parts[i]);
        gguf_builder_split_path(model->paths[i], sizeof model->paths[i], prefix, i, PARTS);
        if (i == 0)
            gguf_builder_string(&model->parts[0], "general.architecture", "llama");
        gguf_builder_split(&model->parts[i], (uint16_t)i, PARTS, tensor_total);
    }
}

static void make_model(struct model *model)
{
    begin_model(model, 4);
    for (int i = 0; i < 4; i++)
        add_tensor(&model->parts[1 + i / 2], i);
}

static void write_model(struct model *model)
{
    for (int i = 0; i < PARTS; i++)
        assert_true(gguf_builder_write(&model->parts[i], model->paths[i]));
}

static void remove_model(struct model *model)
{
    for (int i = 0; i < PARTS; i++) {
        unlink(model->paths[i]);
        gguf_builder_free(&model->parts[i]);
    }
    assert_int_equal(rmdir(model->directory), 0);
}

static void assert_refused(const char *path, ork_status status, const char *words, const char *where)
{
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    ork_status got = ork_gguf_open(path, &gguf, &error);
    if (got != status || !strstr(error.what, words))
        fail_msg("wanted %s '%s', got %s '%s'", ork_status_name(status), words, ork_status_name(got), error.what);
    assert_null(gguf);
    assert_string_equal(error.where, where);
    assert_int_equal(ork_gguf_open(path, &gguf, NULL), status);
}

/* Writes the model, expects the refusal when its first part is opened, removes it. `part` is the one at fault. */
static void assert_model_refused(struct model *model, ork_status status, const char *words, int part)
{
    write_model(model);
    assert_refused(model->paths[0], status, words, model->paths[part]);
    remove_model(model);
}

static void test_parts_become_one_model(void **state)
{
    (void)state;
    struct model model;
    make_model(&model);
    write_model(&model);
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    if (ork_gguf_open(model.paths[0], &gguf, &error) != ORK_OK)
        fail_msg("%s", error.what);
    uint64_t size_bytes = 0;
    for (int i = 0; i < PARTS; i++) {
        struct ork_buffer file = gguf_builder_finish(&model.parts[i]);
        size_bytes += file.size_bytes;
        ork_buffer_free(&file);
    }
    assert_int_equal(ork_gguf_file_size_bytes(gguf), size_bytes);
    assert_string_equal(ork_gguf_path(gguf), model.paths[0]);
    assert_int_equal(ork_gguf_tensor_count(gguf), 4);
    for (int i = 0; i < 4; i++) {
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_at(gguf, (size_t)i);
        assert_int_equal(tensor->name[1], '0' + i);
        assert_int_equal(tensor->part, 1 + i / 2);
        for (int j = 0; j < 40; j++)
            assert_int_equal(tensor->data[j], i);
    }
    gguf_exercise(gguf);
    ork_gguf_close(gguf);
    remove_model(&model);
}

static void test_later_part_names_the_first(void **state)
{
    (void)state;
    struct model model;
    make_model(&model);
    write_model(&model);
    assert_refused(model.paths[1], ORK_BAD_FILE, "part 2 of 3 of a split model; open 'model-00001-of-00003.gguf'",
                   model.paths[1]);
    assert_refused(model.paths[2], ORK_BAD_FILE, "part 3 of 3 of a split model; open 'model-00001-of-00003.gguf'",
                   model.paths[2]);
    char renamed[128];
    snprintf(renamed, sizeof renamed, "%s/last.gguf", model.directory);
    assert_int_equal(rename(model.paths[2], renamed), 0);
    assert_refused(renamed, ORK_BAD_FILE, "part 3 of 3 of a split model; open its first part", renamed);
    assert_int_equal(unlink(renamed), 0);
    remove_model(&model);
}

static void test_missing_part(void **state)
{
    (void)state;
    struct model model;
    make_model(&model);
    write_model(&model);
    assert_int_equal(unlink(model.paths[2]), 0);
    assert_refused(model.paths[0], ORK_NOT_FOUND, "part 3 of 3: cannot open: No such file", model.paths[2]);
    remove_model(&model);
}

static void test_renamed_first_part(void **state)
{
    (void)state;
    static const char *const names[] = {"model.gguf",
                                        "model-00001-of-00002.gguf",
                                        "model-0001-of-0003.gguf",
                                        "model-00001-of-00003.GGUF",
                                        "model_00001-of-00003.gguf",
                                        "-00001-of-00003.ggu"};
    struct model model;
    make_model(&model);
    write_model(&model);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", model.directory, names[i]);
        assert_int_equal(rename(model.paths[0], path), 0);
        assert_refused(path, ORK_BAD_FILE,
                       "part 1 of 3 of a split model, but its name does not end in "
                       "'-00001-of-00003.gguf'",
                       path);
        assert_int_equal(rename(path, model.paths[0]), 0);
    }
    remove_model(&model);
}

static void test_swapped_parts(void **state)
{
    (void)state;
    struct model model;
    make_model(&model);
    struct gguf_builder second = model.parts[1];
    model.parts[1] = model.parts[2];
    model.parts[2] = second;
    assert_model_refused(&model, ORK_BAD_FILE,
                         "part 2 of 3: this should be part 2 of 3, but by its keys it is part 3 of 3", 1);
}

static void test_part_of_another_split(void **state)
{
    (void)state;
    struct model model;
    begin_model(&model, 1);
    add_tensor(&model.parts[1], 0);
    gguf_builder_free(&model.parts[2]);
    gguf_builder_init(&model.parts[2]);
    gguf_builder_split(&model.parts[2], 2, 5, 1);
    assert_model_refused(&model, ORK_BAD_FILE,
                         "part 3 of 3: this should be part 3 of 3, but by its keys it is part 3 of 5", 2);
    begin_model(&model, 0);
    gguf_builder_free(&model.parts[2]);
    gguf_builder_init(&model.parts[2]);
    gguf_builder_string(&model.parts[2], "general.architecture", "llama");
    assert_model_refused(&model, ORK_BAD_FILE, "part 3 of 3: metadata key 'split.no' is missing", 2);
}

/* B09, across files. */
static void test_name_in_two_parts(void **state)
{
    (void)state;
    struct model model;
    begin_model(&model, 3);
    add_tensor(&model.parts[1], 0);
    add_tensor(&model.parts[1], 1);
    add_tensor(&model.parts[2], 1);
    assert_model_refused(&model, ORK_BAD_FILE, "tensor 't1' stands twice: data at byte", 2);
}

static void test_tensor_total(void **state)
{
    (void)state;
    static const int32_t totals[] = {0, 1, 3, INT32_MAX};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        struct model model;
        begin_model(&model, totals[i]);
        add_tensor(&model.parts[1], 0);
        add_tensor(&model.parts[2], 1);
        assert_model_refused(&model, ORK_BAD_FILE, "but the 3 parts hold 2 tensors", 0);
    }
    struct model model;
    begin_model(&model, -1);
    assert_model_refused(&model, ORK_BAD_FILE, "'split.tensors.count': -1 is outside the range", 0);
}

/* Keys of the first part that make no sense. */
static void test_first_part_keys(void **state)
{
    (void)state;
    static const struct {
        bool has_number;
        uint16_t number;
        uint32_t count;
        const char *words;
    } cases[] = {
        {true, 3, 3, "'split.no' is 3, but 'split.count' is 3"},
        {true, 0, 1025, "'split.count' is 1025, the limit is 1024"},
        {true, 0, UINT32_MAX, "'split.count' is 4294967295, the limit is 1024"},
        {false, 0, 3, "metadata key 'split.no' is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        begin_model(&model, 0);
        gguf_builder_free(&model.parts[0]);
        gguf_builder_init(&model.parts[0]);
        gguf_builder_u32(&model.parts[0], "split.count", cases[i].count);
        if (cases[i].has_number)
            gguf_builder_u16(&model.parts[0], "split.no", cases[i].number);
        assert_model_refused(&model, ORK_BAD_FILE, cases[i].words, 0);
    }
    struct model model;
    begin_model(&model, 0);
    gguf_builder_free(&model.parts[0]);
    gguf_builder_init(&model.parts[0]);
    gguf_builder_string(&model.parts[0], "split.count", "3");
    assert_model_refused(&model, ORK_BAD_FILE, "'split.count' has type string, it must be an integer", 0);
    begin_model(&model, 0);
    gguf_builder_free(&model.parts[0]);
    gguf_builder_init(&model.parts[0]);
    gguf_builder_u16(&model.parts[0], "split.no", 0);
    gguf_builder_u16(&model.parts[0], "split.count", 3);
    assert_model_refused(&model, ORK_BAD_FILE, "metadata key 'split.tensors.count' is missing", 0);
}

/* A split into one is a whole model, whatever its name. */
static void test_one_part(void **state)
{
    (void)state;
    char directory[] = "/tmp/ork-split-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/whole.gguf", directory);
    for (uint16_t count = 0; count <= 1; count++) {
        struct gguf_builder b;
        gguf_builder_init(&b);
        gguf_builder_split(&b, 0, count, 1);
        add_tensor(&b, 7);
        assert_true(gguf_builder_write(&b, path));
        ork_gguf *gguf = NULL;
        assert_int_equal(ork_gguf_open(path, &gguf, NULL), ORK_OK);
        assert_int_equal(ork_gguf_tensor_find(gguf, "t7")->data[39], 7);
        ork_gguf_close(gguf);
        gguf_builder_free(&b);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* Each part has its own alignment and data start. */
static void test_own_alignments(void **state)
{
    (void)state;
    static const uint32_t alignments[PARTS] = {128, 64, 256};
    struct model model;
    begin_model(&model, 3);
    for (int i = 0; i < PARTS; i++) {
        gguf_builder_alignment(&model.parts[i], alignments[i]);
        add_tensor(&model.parts[i], i);
    }
    write_model(&model);
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    if (ork_gguf_open(model.paths[0], &gguf, &error) != ORK_OK)
        fail_msg("%s", error.what);
    for (size_t i = 0; i < PARTS; i++) {
        const struct ork_gguf_tensor *tensor = ork_gguf_tensor_at(gguf, i);
        assert_int_equal(tensor->offset_bytes % alignments[i], 0);
        assert_int_equal(tensor->data[0], i);
        assert_int_equal(tensor->data[39], i);
    }
    ork_gguf_close(gguf);
    remove_model(&model);
}

/* Two writers disagree about a part without the key when the first part has one: refused when it matters. */
static void test_ambiguous_alignment(void **state)
{
    (void)state;
    int refused = 0, accepted = 0;
    for (int padding = 0; padding < 8; padding++) {
        struct model model;
        begin_model(&model, 1);
        gguf_builder_alignment(&model.parts[0], 64);
        char text[64];
        memset(text, 'x', sizeof text);
        text[8 * padding] = 0;
        gguf_builder_string(&model.parts[1], "padding", text);
        add_tensor(&model.parts[1], 1);
        write_model(&model);
        ork_gguf *gguf = NULL;
        ork_error error = {0};
        if (ork_gguf_open(model.paths[0], &gguf, &error) == ORK_OK) {
            accepted++;
            assert_int_equal(ork_gguf_tensor_at(gguf, 0)->data[0], 1);
            assert_int_equal(ork_gguf_tensor_at(gguf, 0)->offset_bytes % 64, 0);
        } else {
            refused++;
            assert_non_null(strstr(error.what, "part 2 of 3: ambiguous start of tensor data"));
        }
        ork_gguf_close(gguf);
        remove_model(&model);
    }
    assert_int_equal(accepted, 4);
    assert_int_equal(refused, 4);
}

/* Every cut of the second part is refused, and so is its header with any byte of its first 24 changed. */
static void test_damaged_second_part(void **state)
{
    (void)state;
    struct model model;
    make_model(&model);
    write_model(&model);
    struct ork_buffer file = gguf_builder_finish(&model.parts[1]);
    for (size_t size_bytes = 0; size_bytes < file.size_bytes; size_bytes++) {
        assert_true(gguf_builder_write_bytes(model.paths[1], file.data, size_bytes));
        assert_refused(model.paths[0], ORK_BAD_FILE, "part 2 of 3: ", model.paths[1]);
    }
    for (size_t i = 0; i < 24; i++) {
        file.data[i] ^= 0x10;
        assert_true(gguf_builder_write_bytes(model.paths[1], file.data, file.size_bytes));
        ork_gguf *gguf = NULL;
        ork_error error = {0};
        assert_int_not_equal(ork_gguf_open(model.paths[0], &gguf, &error), ORK_OK);
        assert_non_null(strstr(error.what, "part 2 of 3: "));
        file.data[i] ^= 0x10;
    }
    ork_buffer_free(&file);
    remove_model(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_become_one_model), cmocka_unit_test(test_later_part_names_the_first),
        cmocka_unit_test(test_missing_part),           cmocka_unit_test(test_renamed_first_part),
        cmocka_unit_test(test_swapped_parts),          cmocka_unit_test(test_part_of_another_split),
        cmocka_unit_test(test_name_in_two_parts),      cmocka_unit_test(test_tensor_total),
        cmocka_unit_test(test_first_part_keys),        cmocka_unit_test(test_one_part),
        cmocka_unit_test(test_own_alignments),         cmocka_unit_test(test_ambiguous_alignment),
        cmocka_unit_test(test_damaged_second_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
