/* Guards cards of both kinds of file: counts worked out by hand, what a token reads, and that broken metadata is an error
 * and not a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pack/source.h"

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

/* Elements of the source: embedding and output, experts, everything else of the two blocks, and the predictor's. */
enum {
    ENDS = 72 * 50,
    EXPERT = 72 * 100,
    OTHER = 4 + 2 * 72 + 72 * 70 + 70 + 3 * 72 + 72 * 3 + 3 + 100 * 72,
    PREDICTOR = 144 * 72 + 72 * 70
};

static void check_keys(const ork_card_summary *s)
{
    assert_string_equal(s->architecture, "llama");
    assert_string_equal(s->name, "Source");
    assert_string_equal(s->license, "");
    assert_string_equal(s->tokenizer_model, "");
    assert_string_equal(s->chat_template, "");
    assert_int_equal(s->layer_count, 2);
    assert_int_equal(s->embedding_length, 72);
    assert_int_equal(s->context_length, 512);
    assert_int_equal(s->vocabulary_size, 3);
    assert_int_equal(s->head_count, 9);
    assert_int_equal(s->head_count_kv, 6); /* the largest of the layers */
    assert_int_equal(s->expert_count, 3);
    assert_int_equal(s->expert_used_count, 2);
    assert_false(s->runnable); /* no tokenizer */
}

static void test_gguf(void **state)
{
    const struct source_place *place = *state;
    ork_card *card;
    ork_error error;
    ork_tensor_info info;
    struct stat file;
    assert_int_equal(ork_card_open(place->gguf, &card, &error), ORK_OK);
    const ork_card_summary *s = ork_card_get_summary(card);
    assert_int_equal(stat(place->gguf, &file), 0);
    check_keys(s);
    assert_int_equal(s->kind, ORK_FILE_GGUF);
    assert_int_equal(s->format_version, 3);
    assert_int_equal(s->file_size_bytes, file.st_size);
    assert_int_equal(s->tensor_count, SOURCE_TENSORS);
    assert_int_equal(s->parameter_count, 2 * ENDS + 3 * EXPERT + OTHER + PREDICTOR);
    assert_int_equal(s->active_parameter_count, 2 * ENDS + 2 * EXPERT + OTHER);
    /* f16 but for vectors, router, convolution; of the embedding one row */
    uint64_t floats = 4 + 2 * 72 + 70 + 3 * 72 + 72 * 3 + 3;
    assert_int_equal(s->bytes_per_token, 2 * (72 + ENDS + 2 * EXPERT + OTHER - floats) + 4 * floats);
    assert_int_equal(ork_card_get_tensor(card, 8, &info), ORK_OK);
    assert_string_equal(info.name, "blk.0.ffn_up_exps.weight");
    assert_string_equal(info.type, "F16");
    assert_string_equal(info.source_type, "F16");
    assert_int_equal(info.dimension_count, 3);
    assert_int_equal(info.dimensions[2], 3);
    assert_int_equal(info.size_bytes, 2 * 3 * EXPERT);
    assert_true(info.relative_error == -1.0);
    assert_int_equal(ork_card_get_tensor(card, SOURCE_TENSORS, &info), ORK_BAD_ARGUMENT);
    ork_card_close(card);
}

static void test_orkpack(void **state)
{
    const struct source_place *place = *state;
    ork_card *card;
    ork_error error;
    ork_tensor_info info;
    assert_int_equal(ork_pack_file(place->gguf, place->pack, NULL, NULL, &error), ORK_OK);
    assert_int_equal(ork_card_open(place->pack, &card, &error), ORK_OK);
    const ork_card_summary *s = ork_card_get_summary(card);
    check_keys(s);
    assert_int_equal(s->kind, ORK_FILE_ORKPACK);
    assert_int_equal(s->format_version, 1);
    assert_int_equal(s->tensor_count, SOURCE_TENSORS - SOURCE_SKIPPED);
    assert_int_equal(s->parameter_count, 2 * ENDS + 3 * EXPERT + OTHER);
    assert_int_equal(s->active_parameter_count, 2 * ENDS + 2 * EXPERT + OTHER);
    uint64_t floats = 4 + 2 * 72 + 70 + 3 * 72 + 72 * 3 + 3;
    uint64_t head = 2 * 3 * 1024 + 64 * 4; /* 50 channels in i8 are 2 columns of 3 bricks */
    uint64_t attn_q = 3 * 3 * 1024 + 96 * 4, ffn_down = 3 * 4 * 1024 + 96 * 4;
    /* an expert: 2 x 3 bricks on pages of their own; the plane ends with the last expert's bricks */
    uint64_t experts = 2 * 8192 + 6144 + 3 * 128 * 4 + 16;
    assert_int_equal(s->bytes_per_token,
                     (head + 49) / 50 + head + attn_q + ffn_down + experts / 3 * 2 + experts % 3 * 2 / 3 + 4 * floats);
    assert_int_equal(ork_card_get_tensor(card, 8, &info), ORK_OK);
    assert_string_equal(info.name, "blk.0.ffn_up_exps.weight");
    assert_string_equal(info.type, "nf4");
    assert_string_equal(info.source_type, "F16");
    assert_int_equal(info.size_bytes, experts);
    assert_int_equal(info.offset_bytes % 4096, 0);
    assert_true(info.relative_error > 0.02 && info.relative_error < 0.08);
    assert_int_equal(ork_card_get_tensor(card, 2, &info), ORK_OK);
    assert_true(info.relative_error == 0.0);
    ork_card_close(card);
}

/* Tied: the embedding is read as output, in full. */
static void test_tied_embeddings(void **state)
{
    const struct source_place *place = *state;
    struct gguf_builder b;
    ork_card *card;
    ork_error error;
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.architecture", "llama");
    source_add(&b, "token_embd.weight", ORK_GGML_F16, 2, 64, 50, 1);
    assert_true(gguf_builder_write(&b, place->gguf));
    assert_int_equal(ork_card_open(place->gguf, &card, &error), ORK_OK);
    assert_int_equal(ork_card_get_summary(card)->bytes_per_token, 2 * 64 * 50);
    assert_int_equal(ork_card_get_summary(card)->active_parameter_count, 64 * 50);
    ork_card_close(card);
    source_add(&b, "output.weight", ORK_GGML_F16, 2, 64, 50, 1);
    assert_true(gguf_builder_write(&b, place->gguf));
    assert_int_equal(ork_card_open(place->gguf, &card, &error), ORK_OK);
    assert_int_equal(ork_card_get_summary(card)->bytes_per_token, 2 * 64 * 50 + 2 * 64);
    ork_card_close(card);
    gguf_builder_free(&b);
}

static void test_models_that_run(void **state)
{
    (void)state;
    static const char *const names[] = {"lfm2", "lfm2moe", "llama", "qwen3", "qwen3moe"};
    for (size_t i = 0; i < 5; i++) {
        char path[512];
        ork_card *card;
        ork_error error;
        snprintf(path, sizeof path, "%s/tests/compat/tiny/%s.gguf", ORK_SOURCE_DIR, names[i]);
        assert_int_equal(ork_card_open(path, &card, &error), ORK_OK);
        assert_true(ork_card_get_summary(card)->runnable);
        assert_string_equal(ork_card_get_summary(card)->architecture, names[i]);
        ork_card_close(card);
    }
}

static void expect_gguf(const struct source_place *place, struct gguf_builder *b, ork_status status)
{
    ork_card *card = (ork_card *)1;
    ork_error error = {0};
    assert_true(gguf_builder_write(b, place->gguf));
    assert_int_equal(ork_card_open(place->gguf, &card, &error), status);
    if (status == ORK_OK)
        assert_false(ork_card_get_summary(card)->runnable);
    ork_card_close(status == ORK_OK ? card : NULL);
    gguf_builder_free(b);
}

static void test_strange_metadata(void **state)
{
    const struct source_place *place = *state;
    struct gguf_builder b;
    gguf_builder_init(&b); /* nothing at all */
    expect_gguf(place, &b, ORK_OK);
    gguf_builder_init(&b);
    gguf_builder_u32(&b, "general.architecture", 3);
    expect_gguf(place, &b, ORK_BAD_FILE);
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.architecture", "llama");
    gguf_builder_string(&b, "llama.block_count", "two");
    expect_gguf(place, &b, ORK_BAD_FILE);
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.architecture", "llama");
    gguf_builder_strings(&b, "llama.attention.head_count", (const char *const[]){"a"}, 1);
    expect_gguf(place, &b, ORK_BAD_FILE);
    gguf_builder_init(&b); /* more experts used than there are */
    gguf_builder_string(&b, "general.architecture", "llama");
    gguf_builder_u32(&b, "llama.expert_count", 2);
    gguf_builder_u32(&b, "llama.expert_used_count", UINT32_MAX);
    source_add(&b, "blk.0.ffn_up_exps.weight", ORK_GGML_F16, 3, 64, 10, 2);
    expect_gguf(place, &b, ORK_OK);
    gguf_builder_init(&b); /* a name as long as a key may be */
    char *architecture = malloc(60001);
    assert_non_null(architecture);
    memset(architecture, 'x', 60000);
    architecture[60000] = 0;
    gguf_builder_string(&b, "general.architecture", architecture);
    expect_gguf(place, &b, ORK_OK);
    free(architecture);
}

static void test_files_that_have_no_card(void **state)
{
    const struct source_place *place = *state;
    static const uint8_t foreign[] = "blobs and a footer ORKPK01";
    ork_card *card = (ork_card *)1;
    ork_error error = {0};
    assert_int_equal(ork_card_open("/nonexistent", &card, &error), ORK_NOT_FOUND);
    assert_null(card);
    assert_int_equal(ork_card_open(place->directory, &card, &error), ORK_BAD_FILE);
    assert_true(gguf_builder_write_bytes(place->gguf, "", 0));
    assert_int_equal(ork_card_open(place->gguf, &card, &error), ORK_BAD_FILE);
    assert_true(gguf_builder_write_bytes(place->gguf, foreign, sizeof foreign));
    assert_int_equal(ork_card_open(place->gguf, &card, &error), ORK_UNSUPPORTED);
    assert_non_null(strstr(error.what, "another project"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gguf, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_orkpack, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_tied_embeddings, make_place, remove_place),
        cmocka_unit_test(test_models_that_run),
        cmocka_unit_test_setup_teardown(test_strange_metadata, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_files_that_have_no_card, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
