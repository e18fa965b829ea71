/* Guards importance matrices: both forms give the same packs, values reach the right experts and inputs, what is missing is
 * neutral and counted, and damaged files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"
#include "pack/source.h"

#include "pack/pack.h"
#include "quant/ggml_blocks.h"
#include "quant/tier.h"

#define EXPERTS "blk.0.ffn_up_exps.weight"
#define DENSE "blk.1.ffn_down.weight"

enum { DENSE_K = 100, CALLS = 4 };

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

/* E[x^2]: expert e cares for inputs k with k % 3 == e. */
static float importance_of(uint64_t expert, uint64_t k)
{
    return k % 3 == expert ? 8.0f : 0.01f;
}

/* ---- writing both forms ---- */

static void append_legacy_entry(struct ork_buffer *out, const char *name, uint32_t calls, uint64_t k, uint64_t experts)
{
    ork_buffer_u32(out, (uint32_t)strlen(name));
    ork_buffer_append(out, name, strlen(name));
    ork_buffer_u32(out, calls);
    ork_buffer_u32(out, (uint32_t)(k * experts));
    for (uint64_t e = 0; e < experts; e++)
        for (uint64_t i = 0; i < k; i++)
            ork_buffer_f32(out, importance_of(e, i) * (float)calls);
}

static struct ork_buffer legacy_file(void)
{
    struct ork_buffer out = {0};
    ork_buffer_u32(&out, 2);
    append_legacy_entry(&out, EXPERTS, CALLS, SOURCE_K, SOURCE_EXPERTS);
    append_legacy_entry(&out, DENSE, CALLS, DENSE_K, 1);
    ork_buffer_u32(&out, 17); /* last chunk */
    ork_buffer_u32(&out, 5);
    ork_buffer_append(&out, "a.txt", 5);
    return out;
}

static void add_gguf_entry(struct gguf_builder *b, const char *name, uint64_t k, uint64_t experts, uint64_t unseen)
{
    char full[80];
    struct ork_buffer sums = {0}, counts = {0};
    for (uint64_t e = 0; e < experts; e++) {
        float count = e == unseen ? 0.0f : (float)(100 * (e + 1));
        ork_buffer_f32(&counts, count);
        for (uint64_t i = 0; i < k; i++)
            ork_buffer_f32(&sums, importance_of(e, i) * count);
    }
    snprintf(full, sizeof full, "%s.in_sum2", name);
    gguf_builder_tensor(b, full, ORK_GGML_F32, 2, (uint64_t[]){k, experts}, sums.data, sums.size_bytes);
    snprintf(full, sizeof full, "%s.counts", name);
    gguf_builder_tensor(b, full, ORK_GGML_F32, 2, (uint64_t[]){1, experts}, counts.data, counts.size_bytes);
    ork_buffer_free(&sums);
    ork_buffer_free(&counts);
}

static void write_gguf(const struct source_place *place, const char *type, uint64_t unseen)
{
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.type", type);
    gguf_builder_u32(&b, "imatrix.chunk_count", 17);
    add_gguf_entry(&b, EXPERTS, SOURCE_K, SOURCE_EXPERTS, unseen);
    add_gguf_entry(&b, DENSE, DENSE_K, 1, UINT64_MAX);
    gguf_builder_tensor(&b, "blk.1.ffn_down.weight.in_sum", ORK_GGML_F32, 1, (uint64_t[]){DENSE_K}, NULL, DENSE_K * 4);
    assert_true(gguf_builder_write(&b, place->imatrix));
    gguf_builder_free(&b);
}

/* ---- reading ---- */

static void check_values(const ork_imatrix *imatrix)
{
    float values[SOURCE_EXPERTS * SOURCE_K];
    uint64_t neutral;
    ork_error error;
    assert_int_equal(ork_imatrix_entry_count(imatrix), 2);
    assert_int_equal(ork_imatrix_fill(imatrix, EXPERTS, SOURCE_K, SOURCE_EXPERTS, values, &neutral, &error), ORK_OK);
    assert_int_equal(neutral, 0);
    for (uint64_t e = 0; e < SOURCE_EXPERTS; e++) {
        double mean = 0.0, sum = 0.0;
        for (uint64_t i = 0; i < SOURCE_K; i++)
            mean += importance_of(e, i) / SOURCE_K;
        for (uint64_t i = 0; i < SOURCE_K; i++) {
            double wanted = importance_of(e, i) / mean;
            assert_true(fabs(values[e * SOURCE_K + i] - wanted) < 1e-5 * wanted);
            sum += values[e * SOURCE_K + i];
        }
        assert_true(fabs(sum / SOURCE_K - 1.0) < 1e-5);
    }
    assert_int_equal(ork_imatrix_fill(imatrix, "blk.0.attn_q.weight", SOURCE_K, 1, values, &neutral, &error), ORK_OK);
    assert_int_equal(neutral, 1);
    for (uint64_t i = 0; i < SOURCE_K; i++)
        assert_true(values[i] == 1.0f);
    assert_int_equal(ork_imatrix_fill(imatrix, EXPERTS, SOURCE_K + 1, SOURCE_EXPERTS, values, &neutral, &error),
                     ORK_BAD_FILE);
    assert_int_equal(ork_imatrix_fill(imatrix, EXPERTS, SOURCE_K, SOURCE_EXPERTS - 1, values, &neutral, &error),
                     ORK_BAD_FILE);
    assert_non_null(strstr(error.what, EXPERTS));
}

static void write_legacy(const struct source_place *place)
{
    struct ork_buffer file = legacy_file();
    assert_true(gguf_builder_write_bytes(place->imatrix, file.data, file.size_bytes));
    ork_buffer_free(&file);
}

static void test_both_forms_say_the_same(void **state)
{
    const struct source_place *place = *state;
    ork_imatrix *imatrix;
    ork_error error = {0};
    write_legacy(place);
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_OK);
    check_values(imatrix);
    ork_imatrix_close(imatrix);
    write_gguf(place, "imatrix", UINT64_MAX);
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_OK);
    check_values(imatrix);
    ork_imatrix_close(imatrix);
}

static void test_experts_never_reached_are_neutral(void **state)
{
    const struct source_place *place = *state;
    float values[SOURCE_EXPERTS * SOURCE_K];
    ork_imatrix *imatrix;
    uint64_t neutral;
    ork_error error;
    write_gguf(place, "imatrix", 1);
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_OK);
    assert_int_equal(ork_imatrix_fill(imatrix, EXPERTS, SOURCE_K, SOURCE_EXPERTS, values, &neutral, &error), ORK_OK);
    assert_int_equal(neutral, 1);
    for (uint64_t i = 0; i < SOURCE_K; i++)
        assert_true(values[SOURCE_K + i] == 1.0f && values[i] != 1.0f);
    ork_imatrix_close(imatrix);
}

/* ---- packing ---- */

/* Squared error of the expert stack over inputs with k % 3 == e, and over the others. */
static void expert_errors(const struct source_place *place, double *cared, double *other)
{
    ork_orkpack *pack;
    ork_gguf *gguf;
    ork_error error;
    struct ork_matrix m;
    float row[SOURCE_K], *weights = malloc(SOURCE_K * 100 * SOURCE_EXPERTS * sizeof(float));
    assert_int_equal(ork_gguf_open(place->gguf, &gguf, &error), ORK_OK);
    assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    assert_int_equal(ork_matrix_from_pack(pack, ork_orkpack_tensor_find(pack, EXPERTS), &m, &error), ORK_OK);
    ork_ggml_decode(ORK_GGML_F16, ork_gguf_tensor_find(gguf, EXPERTS)->data, SOURCE_K * 100 * SOURCE_EXPERTS, weights);
    *cared = *other = 0.0;
    for (uint32_t e = 0; e < SOURCE_EXPERTS; e++)
        for (uint32_t n = 0; n < 100; n++) {
            ork_matrix_decode_row(&m, e, n, row);
            for (uint32_t k = 0; k < SOURCE_K; k++) {
                double d = (double)row[k] - weights[(e * 100 + n) * SOURCE_K + k];
                *(k % 3 == e ? cared : other) += d * d;
            }
        }
    free(weights);
    ork_orkpack_close(pack);
    ork_gguf_close(gguf);
}

static ork_pack_report pack_experts(const struct source_place *place, const char *tier, const char *imatrix)
{
    ork_pack_report report;
    ork_error error = {0};
    const ork_pack_params params = {.default_tier = tier, .imatrix_path = imatrix, .overwrite = true, .threads = 2};
    if (ork_pack_file(place->gguf, place->pack, &params, &report, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    return report;
}

static void test_errors_move_away_from_what_counts(void **state)
{
    const struct source_place *place = *state;
    static const char *const tiers[] = {"i4", "nf4", "i5", "i6", "n8"};
    double plain_cared, plain_other, cared, other;
    size_t legacy_size, size = 0;
    for (int t = 0; t < 4; t++) {
        pack_experts(place, tiers[t], NULL);
        expert_errors(place, &plain_cared, &plain_other);
        write_legacy(place);
        ork_pack_report report = pack_experts(place, tiers[t], place->imatrix);
        assert_int_equal(report.neutral_importance_count, 1); /* attn_q has no entry */
        expert_errors(place, &cared, &other);
        assert_true(cared < 0.95 * plain_cared);
        assert_true(other > plain_other);
        uint8_t *legacy = sample_read_file(place->pack, &legacy_size);
        write_gguf(place, "imatrix", UINT64_MAX);
        pack_experts(place, tiers[t], place->imatrix);
        uint8_t *bytes = sample_read_file(place->pack, &size);
        assert_int_equal(size, legacy_size);
        /* Divisors differ, so values do in the last bits; the codes must not, but for a rounding here and there. */
        size_t different = 0;
        for (size_t i = 0; i < size; i++)
            different += bytes[i] != legacy[i];
        assert_true(different < size / 100);
        free(legacy);
        free(bytes);
    }
    write_gguf(place, "imatrix", 1);
    assert_int_equal(pack_experts(place, "nf4", place->imatrix).neutral_importance_count, 2);
    assert_int_equal(pack_experts(place, "i8", place->imatrix).neutral_importance_count, 0); /* i8 does not look */
}

static void test_the_pack_names_its_imatrix(void **state)
{
    const struct source_place *place = *state;
    ork_orkpack *pack;
    ork_error error;
    const char *text = NULL;
    uint64_t length = 0;
    write_legacy(place);
    pack_experts(place, "nf4", place->imatrix);
    assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    assert_int_equal(ork_meta_string(ork_orkpack_meta(pack), "ork.plan.imatrix", true, &text, &length, &error), ORK_OK);
    assert_int_equal(length, 7);
    assert_memory_equal(text, "imatrix", 7);
    ork_orkpack_close(pack);
}

/* ---- refusals ---- */

static void expect_refusal(const struct source_place *place, const void *data, size_t size, const char *part)
{
    ork_imatrix *imatrix = (ork_imatrix *)1;
    ork_error error = {0};
    assert_true(gguf_builder_write_bytes(place->imatrix, data, size));
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_BAD_FILE);
    assert_null(imatrix);
    if (strstr(error.what, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.what, part);
}

static void test_damaged_files(void **state)
{
    const struct source_place *place = *state;
    struct ork_buffer file = legacy_file(), twice = {0};
    size_t entries_end = file.size_bytes - 4 - 4 - 5;
    ork_imatrix *imatrix;
    ork_error error;
    expect_refusal(place, "", 0, "older form");
    expect_refusal(place, "\0\0\0\0", 4, "older form");
    expect_refusal(place, "\xff\xff\xff\xff", 4, "older form");
    for (size_t length = 5; length < entries_end; length += 7)
        expect_refusal(place, file.data, length, "");
    /* The trailer is of no use to us. */
    assert_true(gguf_builder_write_bytes(place->imatrix, file.data, entries_end));
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_OK);
    ork_imatrix_close(imatrix);
    ork_buffer_u32(&twice, 2);
    append_legacy_entry(&twice, DENSE, 1, 4, 1);
    append_legacy_entry(&twice, DENSE, 1, 4, 1);
    expect_refusal(place, twice.data, twice.size_bytes, "two entries are named");
    ork_buffer_free(&twice);
    ork_buffer_u32(&twice, 1);
    append_legacy_entry(&twice, DENSE, 0, 4, 1);
    expect_refusal(place, twice.data, twice.size_bytes, "malformed");
    ork_buffer_free(&twice);
    ork_buffer_free(&file);
}

static void test_other_ggufs(void **state)
{
    const struct source_place *place = *state;
    ork_imatrix *imatrix;
    ork_error error;
    struct gguf_builder b;
    write_gguf(place, "model", UINT64_MAX);
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "general.type is \"model\""));
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.type", "imatrix");
    gguf_builder_tensor(&b, "x.in_sum2", ORK_GGML_F32, 2, (uint64_t[]){4, 2}, NULL, 32);
    gguf_builder_tensor(&b, "x.counts", ORK_GGML_F32, 2, (uint64_t[]){1, 3}, NULL, 12);
    assert_true(gguf_builder_write(&b, place->imatrix));
    assert_int_equal(ork_imatrix_open(place->imatrix, &imatrix, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "counts"));
    gguf_builder_free(&b);
    assert_int_equal(ork_imatrix_open("/nonexistent", &imatrix, &error), ORK_NOT_FOUND);
}

static void check_bad_value(const struct source_place *place, float value)
{
    struct ork_buffer file = {0};
    ork_error error = {0};
    const ork_pack_params params = {.default_tier = "nf4", .imatrix_path = place->imatrix, .threads = 1};
    ork_buffer_u32(&file, 1);
    append_legacy_entry(&file, DENSE, 1, DENSE_K, 1);
    memcpy(file.data + file.size_bytes - 4, &value, 4);
    assert_true(gguf_builder_write_bytes(place->imatrix, file.data, file.size_bytes));
    assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, NULL, &error), ORK_BAD_FILE);
    assert_non_null(strstr(error.what, "value 99 is negative or not finite"));
    assert_false(source_is_there(place->pack));
    assert_false(source_is_there(place->partial));
    ork_buffer_free(&file);
}

static void test_values_that_are_no_importance(void **state)
{
    const struct source_place *place = *state;
    ork_error error = {0};
    check_bad_value(place, -1.0f);
    check_bad_value(place, NAN);
    check_bad_value(place, INFINITY);
    write_legacy(place);
    assert_int_equal(ork_pack_file(place->gguf, place->imatrix,
                                   &(ork_pack_params){.imatrix_path = place->imatrix, .overwrite = true}, NULL, &error),
                     ORK_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_forms_say_the_same, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_experts_never_reached_are_neutral, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_errors_move_away_from_what_counts, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_the_pack_names_its_imatrix, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_damaged_files, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_other_ggufs, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_values_that_are_no_importance, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
