/* Guards what a pack is made of: tiers by role and rule, values, metadata, the same bytes for every number of threads, and
 * every refusal before or during packing, with nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack_sample.h"
#include "pack/source.h"

#include "quant/ggml_blocks.h"
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

static void pack_with(const struct source_place *place, const ork_pack_params *given, ork_pack_report *report)
{
    ork_pack_params params = *given;
    ork_error error = {0};
    params.overwrite = true;
    if (ork_pack_file(place->gguf, place->pack, &params, report, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    assert_false(source_is_there(place->partial));
    assert_false(source_is_there(place->journal));
}

/* Expects a refusal with `part` in its message or place, and no file. */
static void expect_refusal(const struct source_place *place, const ork_pack_params *params, ork_status status,
                           const char *part)
{
    ork_error error = {0};
    ork_status found = ork_pack_file(place->gguf, place->pack, params, NULL, &error);
    if (found != status || (strstr(error.what, part) == NULL && strstr(error.where, part) == NULL))
        fail_msg("status %d, \"%s: %s\"; expected %d, \"%s\"", found, error.where, error.what, status, part);
    assert_false(source_is_there(place->pack));
    assert_false(source_is_there(place->partial));
    assert_false(source_is_there(place->journal));
}

/* ---- tiers ---- */

static const char *tier_in(const ork_orkpack *pack, const char *name)
{
    const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_find(pack, name);
    return tensor == NULL ? "absent" : ork_tier_find(tensor->tier)->name;
}

struct expected_tier {
    const char *name, *tier;
};

static void expect_tiers(const struct source_place *place, const ork_pack_params *params,
                         const struct expected_tier *expected, size_t count)
{
    ork_orkpack *pack;
    ork_error error;
    pack_with(place, params, NULL);
    assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    assert_int_equal(ork_orkpack_tensor_count(pack), SOURCE_TENSORS - SOURCE_SKIPPED);
    for (size_t i = 0; i < count; i++)
        if (strcmp(tier_in(pack, expected[i].name), expected[i].tier) != 0)
            fail_msg("%s is %s, expected %s", expected[i].name, tier_in(pack, expected[i].name), expected[i].tier);
    ork_orkpack_close(pack);
}

static const struct expected_tier always_float[] = {
    {"rope_freqs.weight", "f32"},           {"blk.0.attn_norm.weight", "f32"},        {"blk.0.attn_q.bias", "f32"},
    {"blk.0.shortconv.conv.weight", "f32"}, {"blk.0.ffn_gate_inp.weight", "f32"},     {"blk.0.exp_probs_b.bias", "f32"},
    {"output_norm.weight", "f32"},          {"blk.1.nextn.eh_proj.weight", "absent"}, {"blk.2.attn_q.weight", "absent"},
};
enum { ALWAYS = sizeof always_float / sizeof always_float[0] };

static void check_default(const struct source_place *place, const char *name, const char *ends, const char *matrices,
                          const char *experts)
{
    const struct expected_tier expected[] = {
        {"token_embd.weight", ends},           {"output.weight", ends},
        {"blk.0.attn_q.weight", matrices},     {"blk.1.ffn_down.weight", matrices},
        {"blk.0.ffn_up_exps.weight", experts},
    };
    const ork_pack_params params = {.default_tier = name, .threads = 2};
    expect_tiers(place, &params, expected, 5);
    expect_tiers(place, &params, always_float, ALWAYS);
}

static void test_default_tiers_by_role(void **state)
{
    check_default(*state, NULL, "i8", "i8", "nf4");
    check_default(*state, "auto", "i8", "i8", "nf4");
    check_default(*state, "nf4", "i8", "nf4", "nf4");
    check_default(*state, "i4", "i8", "i4", "i4");
    check_default(*state, "i5", "i8", "i5", "i5");
    check_default(*state, "i6", "i8", "i6", "i6");
    check_default(*state, "n8", "i8", "n8", "n8");
    check_default(*state, "i8", "i8", "i8", "i8");
    check_default(*state, "g8", "g8", "g8", "g8");
    check_default(*state, "f16", "f16", "f16", "f16");
    check_default(*state, "bf16", "bf16", "bf16", "bf16");
    check_default(*state, "f32", "f32", "f32", "f32");
}

static void test_the_last_rule_that_matches_wins(void **state)
{
    static const char *const rules[] = {
        "attn_q\\.weight=i4", "^blk\\.0\\.attn_q\\.w=nf4", "^output\\.=f16", "exps=bf16",
        "no_such_tensor=i8",  "ffn_gate_inp=i8",           "a=b=f32",        "ffn_down\\.weight=i6"};
    static const struct expected_tier expected[] = {
        {"blk.0.attn_q.weight", "nf4"},      {"output.weight", "f16"},    {"blk.0.ffn_up_exps.weight", "bf16"},
        {"blk.0.ffn_gate_inp.weight", "i8"}, {"token_embd.weight", "i8"}, {"blk.1.ffn_down.weight", "i6"},
    };
    const ork_pack_params params = {.tier_rules = rules, .tier_rule_count = 8, .threads = 1};
    ork_pack_report report;
    expect_tiers(*state, &params, expected, 6);
    pack_with(*state, &params, &report);
    assert_int_equal(report.unmatched_rule_count, 2); /* the name that is not there, and the regex "a=b" */
}

static void test_rules_record_sensitivities(void **state)
{
    const struct source_place *place = *state;
    static const char *const rules[] = {"attn_q\\.weight=n8:0.5", "^blk\\.1\\.attn_q\\.weight=n8:2.5e-3",
                                        "ffn_down\\.weight=n8:3", "^blk\\.1\\.ffn_down\\.weight=n8"};
    static const struct {
        const char *name;
        float sensitivity;
    } expected[] = {
        {"blk.0.attn_q.weight", 0.5f},
        {"blk.1.ffn_down.weight", 0},
        {"blk.0.ffn_up_exps.weight", 0},
    };
    ork_orkpack *pack;
    ork_error error;
    pack_with(place, &(ork_pack_params){.tier_rules = rules, .tier_rule_count = 4}, NULL);
    assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_true(ork_orkpack_tensor_find(pack, expected[i].name)->sensitivity == expected[i].sensitivity);
    assert_string_equal(tier_in(pack, "blk.0.attn_q.weight"), "n8");
    ork_orkpack_close(pack);
}

static void test_bad_rules(void **state)
{
    static const struct {
        const char *rule, *message;
    } cases[] = {
        {"attn_q", "REGEX=TIER"},
        {"=i8", "REGEX=TIER"},
        {"attn_q=", "unknown tier \"\""},
        {"attn_q=nf5", "did you mean nf4?"},
        {"attn_q=auto", "unknown tier \"auto\""},
        {"attn_q=n9", "unknown tier \"n9\""},
        {"attn_(q=i8", "bad regex at character"},
        {"attn_norm=i4", "blk.0.attn_norm.weight has one dimension and cannot be i4"},
        {"^(([a-z0-9._])+.)+[!?]$=i8", "gives up on tensor"},
        {"attn_q=n9:1", "unknown tier \"n9\""},
        {"attn_q=n8:", "above 0, not \"\""},
        {"attn_q=n8:0", "above 0"},
        {"attn_q=n8:-1", "above 0"},
        {"attn_q=n8:nan", "above 0"},
        {"attn_q=n8:1e99", "above 0"},
        {"attn_q=n8:0.5x", "not \"0.5x\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ork_pack_params params = {.tier_rules = &cases[i].rule, .tier_rule_count = 1, .threads = 1};
        expect_refusal(*state, &params, ORK_BAD_ARGUMENT, cases[i].message);
    }
    expect_refusal(*state, &(ork_pack_params){.default_tier = "Q4_K"}, ORK_BAD_ARGUMENT, "unknown tier \"Q4_K\"");
    expect_refusal(*state, &(ork_pack_params){.default_tier = "aut"}, ORK_BAD_ARGUMENT, "did you mean auto?");
    expect_refusal(*state, &(ork_pack_params){.threads = 100000}, ORK_BAD_ARGUMENT, "threads");
}

static void test_tier_names(void **state)
{
    (void)state;
    size_t count = 0;
    for (const char *const *name = ork_tier_names(); *name != NULL; name++, count++)
        assert_non_null(ork_tier_find_name(*name));
    assert_int_equal(count, 10);
}

/* ---- content ---- */

/* Every weight of the pack against the source, decoded here; returns the RMS error over quantized weights. */
static double compare_with_source(const struct source_place *place, const ork_orkpack *pack)
{
    ork_gguf *gguf;
    ork_error error;
    double total = 0.0, count = 0.0;
    assert_int_equal(ork_gguf_open(place->gguf, &gguf, &error), ORK_OK);
    for (size_t t = 0; t < ork_orkpack_tensor_count(pack); t++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, t);
        const struct ork_gguf_tensor *source = ork_gguf_tensor_find(gguf, tensor->name);
        struct ork_matrix m;
        assert_int_equal(ork_matrix_from_pack(pack, tensor, &m, &error), ORK_OK);
        uint64_t elements = (uint64_t)m.n * m.k * m.experts;
        float *weights = malloc(elements * sizeof(float)), *row = malloc(m.k * sizeof(float));
        double squared_error = 0.0, squared_norm = 0.0;
        ork_ggml_decode(source->type, source->data, elements, weights);
        for (uint64_t r = 0; r < (uint64_t)m.n * m.experts; r++) {
            ork_matrix_decode_row(&m, (uint32_t)(r / m.n), (uint32_t)(r % m.n), row);
            for (uint32_t k = 0; k < m.k; k++) {
                double d = (double)row[k] - weights[r * m.k + k];
                squared_error += d * d;
                squared_norm += (double)weights[r * m.k + k] * weights[r * m.k + k];
            }
        }
        double relative = sqrt(squared_error / squared_norm);
        assert_true(fabs(relative - tensor->relative_error) <= 1e-5 * relative);
        if (ork_tier_find(m.tier)->quantized) {
            total += relative * relative * (double)elements;
            count += (double)elements;
        }
        if (m.tier == ORK_TIER_F32)
            assert_true(relative == 0.0);
        free(weights);
        free(row);
    }
    ork_gguf_close(gguf);
    return count > 0.0 ? sqrt(total / count) : 0.0;
}

static void test_weights_and_report(void **state)
{
    const struct source_place *place = *state;
    static const struct {
        const char *tier;
        double largest;
    } cases[] = {{"f32", 0.0}, {"f16", 1e-3}, {"bf16", 4e-3}, {"g8", 5e-3}, {"i8", 5e-3},
                 {"i4", 0.08}, {"nf4", 0.08}, {"i5", 0.04},   {"i6", 0.02}, {"n8", 0.02}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ork_pack_report report;
        ork_orkpack *pack;
        ork_error error;
        struct stat info;
        pack_with(place, &(ork_pack_params){.default_tier = cases[i].tier, .threads = 2}, &report);
        assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_COPY, NULL, NULL, &pack, &error), ORK_OK);
        double found = compare_with_source(place, pack);
        assert_true(found <= cases[i].largest);
        assert_true(fabs(found - report.mean_relative_error) <= 1e-5 * found);
        ork_orkpack_close(pack);
        assert_int_equal(stat(place->pack, &info), 0);
        assert_int_equal(report.pack_bytes, info.st_size);
        assert_int_equal(report.tensor_count, SOURCE_TENSORS - SOURCE_SKIPPED);
        assert_int_equal(report.skipped_tensor_count, SOURCE_SKIPPED);
        assert_int_equal(report.resumed_tensor_count, 0);
        assert_int_equal(report.unmatched_rule_count, 0);
        uint64_t weights = 2 * 72 * 50 + 4 + 2 * 72 + 72 * 70 + 70 + 3 * 72 + 72 * 3 + 3 + 3 * 72 * 100 + 100 * 72;
        assert_true(fabs(report.bits_per_weight - 8.0 * (double)info.st_size / (double)weights) < 1e-9);
        assert_true(report.seconds >= 0.0);
    }
}

static void expect_text(const ork_meta *meta, const char *key, const char *expected)
{
    const char *text = NULL;
    uint64_t length = 0;
    ork_error error;
    assert_int_equal(ork_meta_string(meta, key, true, &text, &length, &error), ORK_OK);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(text, expected, length);
}

static void test_metadata(void **state)
{
    const struct source_place *place = *state;
    static const char *const rules[] = {"attn_q\\.weight=f16", "^nothing=i8"};
    ork_orkpack *pack;
    ork_gguf *gguf;
    ork_error error;
    uint64_t position = 0, length;
    const char *text;
    pack_with(place, &(ork_pack_params){.default_tier = "i4", .tier_rules = rules, .tier_rule_count = 2}, NULL);
    assert_int_equal(ork_orkpack_open(place->pack, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    assert_int_equal(ork_gguf_open(place->gguf, &gguf, &error), ORK_OK);
    const ork_meta *meta = ork_orkpack_meta(pack), *source = ork_gguf_meta(gguf);
    size_t kept = 0;
    for (size_t i = 0; i < ork_meta_count(source); i++) {
        const struct ork_meta_value *value = ork_meta_at(source, i);
        const struct ork_meta_value *found = ork_meta_find(meta, value->key);
        if (strncmp(value->key, "split.", 6) == 0 || strcmp(value->key, "general.alignment") == 0) {
            assert_null(found);
            continue;
        }
        assert_ptr_equal(ork_meta_at(meta, kept++), found); /* in the source's order */
        assert_int_equal(found->type, value->type);
        assert_int_equal(found->size_bytes, value->size_bytes);
        assert_memory_equal(found->data, value->data, value->size_bytes);
    }
    assert_int_equal(ork_meta_count(meta), kept + 4);
    expect_text(meta, "ork.version", ork_version());
    expect_text(meta, "ork.source", "source.gguf");
    expect_text(meta, "ork.plan.default_tier", "i4");
    assert_null(ork_meta_find(meta, "ork.plan.imatrix"));
    const struct ork_meta_value *list = ork_meta_find(meta, "ork.plan.rules");
    assert_non_null(list);
    for (int i = 0; i < 2; i++) {
        assert_true(ork_meta_next_string(list, &position, &text, &length));
        assert_int_equal(length, strlen(rules[i]));
        assert_memory_equal(text, rules[i], length);
    }
    assert_false(ork_meta_next_string(list, &position, &text, &length));
    ork_gguf_close(gguf);
    ork_orkpack_close(pack);
}

static void test_the_same_bytes_for_every_number_of_threads(void **state)
{
    const struct source_place *place = *state;
    static const char *const tiers[] = {"auto", "i4", "g8"};
    for (int t = 0; t < 3; t++) {
        size_t size, other_size;
        uint8_t *bytes = NULL;
        for (uint32_t threads = 1; threads <= 4; threads++) {
            pack_with(place, &(ork_pack_params){.default_tier = tiers[t], .threads = threads}, NULL);
            uint8_t *other = sample_read_file(place->pack, &other_size);
            assert_non_null(other);
            if (bytes != NULL) {
                assert_int_equal(size, other_size);
                assert_memory_equal(bytes, other, size);
                free(other);
                continue;
            }
            bytes = other;
            size = other_size;
        }
        free(bytes);
    }
}

static void test_dry_run_writes_nothing_and_knows_the_size(void **state)
{
    const struct source_place *place = *state;
    static const char *const tiers[] = {"auto", "f16", "g8"};
    for (int t = 0; t < 3; t++) {
        ork_pack_report dry, wet;
        ork_error error;
        const ork_pack_params params = {.default_tier = tiers[t], .dry_run = true};
        assert_int_equal(ork_pack_file(place->gguf, place->pack, &params, &dry, &error), ORK_OK);
        assert_false(source_is_there(place->pack));
        assert_false(source_is_there(place->partial));
        pack_with(place, &(ork_pack_params){.default_tier = tiers[t]}, &wet);
        assert_int_equal(dry.pack_bytes, wet.pack_bytes);
        assert_int_equal(dry.tensor_count, wet.tensor_count);
        assert_int_equal(dry.skipped_tensor_count, wet.skipped_tensor_count);
        assert_true(dry.bits_per_weight == wet.bits_per_weight);
        unlink(place->pack);
    }
}

/* ---- refusals ---- */

static void test_paths(void **state)
{
    const struct source_place *place = *state;
    ork_error error = {0};
    assert_int_equal(ork_pack_file(place->gguf, place->gguf, &(ork_pack_params){.overwrite = true}, NULL, &error),
                     ORK_BAD_ARGUMENT);
    assert_non_null(strstr(error.what, "the input is the output"));
    /* An input whose name is that of the output's partial file would be emptied. */
    assert_int_equal(rename(place->gguf, place->partial), 0);
    assert_int_equal(ork_pack_file(place->partial, place->pack, NULL, NULL, &error), ORK_BAD_ARGUMENT);
    assert_non_null(strstr(error.what, ".partial"));
    assert_int_equal(rename(place->partial, place->gguf), 0);
    assert_int_equal(ork_pack_file("/nonexistent.gguf", place->pack, NULL, NULL, &error), ORK_NOT_FOUND);
    assert_int_equal(ork_pack_file(place->gguf, "/nonexistent/x.orkpack", NULL, NULL, &error), ORK_NOT_FOUND);
    assert_string_equal(error.where, "/nonexistent");
    assert_int_equal(ork_pack_file(place->directory, place->pack, NULL, NULL, &error), ORK_BAD_FILE);
    assert_int_equal(ork_pack_file(place->gguf, place->pack, NULL, NULL, NULL),
                     ORK_OK); /* report, params, error NULL */
    assert_int_equal(ork_pack_file(place->gguf, place->pack, NULL, NULL, &error), ORK_EXISTS);
    assert_int_equal(ork_pack_file(place->pack, place->pack, NULL, NULL, &error), ORK_BAD_ARGUMENT);
}

/* Replaces the source by one with a single tensor more. */
static void write_source_with(const struct source_place *place, const char *architecture, const char *name,
                              uint32_t type, uint64_t k, uint64_t n, const void *data, size_t size_bytes)
{
    struct gguf_builder b;
    gguf_builder_init(&b);
    if (architecture != NULL)
        gguf_builder_string(&b, "general.architecture", architecture);
    gguf_builder_u32(&b, "llama.block_count", 2);
    source_add(&b, "token_embd.weight", ORK_GGML_F16, 2, SOURCE_K, 50, 1);
    gguf_builder_tensor(&b, name, type, 2, (uint64_t[]){k, n}, data, size_bytes);
    assert_true(gguf_builder_write(&b, place->gguf));
    gguf_builder_free(&b);
}

static void test_sources_that_cannot_be_packed(void **state)
{
    const struct source_place *place = *state;
    struct gguf_builder b;
    write_source_with(place, "llama", "blk.0.attn_q.weight", 20, 32, 2, NULL, 36); /* IQ4_NL */
    expect_refusal(place, NULL, ORK_UNSUPPORTED, "blk.0.attn_q.weight has type IQ4_NL");
    write_source_with(place, "llama", "d2t", ORK_GGML_I32, 32, 2, NULL, 256);
    expect_refusal(place, NULL, ORK_UNSUPPORTED, "d2t has type I32");
    write_source_with(place, "gemma3", "blk.0.attn_q.weight", ORK_GGML_F32, 32, 2, NULL, 256);
    expect_refusal(place, NULL, ORK_UNSUPPORTED, "architecture \"gemma3\" is not supported; there are");
    write_source_with(place, NULL, "blk.0.attn_q.weight", ORK_GGML_F32, 32, 2, NULL, 256);
    expect_refusal(place, NULL, ORK_BAD_FILE, "general.architecture");
    gguf_builder_init(&b);
    gguf_builder_string(&b, "general.architecture", "llama");
    assert_true(gguf_builder_write(&b, place->gguf));
    expect_refusal(place, NULL, ORK_BAD_FILE, "no tensors");
    gguf_builder_u32(&b, "llama.block_count", 0);
    source_add(&b, "blk.0.attn_q.weight", ORK_GGML_F16, 2, 32, 2, 1);
    assert_true(gguf_builder_write(&b, place->gguf));
    expect_refusal(place, NULL, ORK_BAD_FILE, "no tensors"); /* all left out */
    gguf_builder_free(&b);
    /* Undecodable tensors that are left out anyway are no hindrance. */
    write_source_with(place, "llama", "blk.7.attn_q.weight", 20, 32, 2, NULL, 36);
    pack_with(place, &(ork_pack_params){.threads = 1}, NULL);
}

static void test_values_that_cannot_be_packed(void **state)
{
    const struct source_place *place = *state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const words[] = {"NaN", "infinite", "infinite"};
    enum { K = 64, N = 200, AT = 150 * K + 7 };
    float *values = calloc(K * N, sizeof(float));
    char message[96];
    assert_non_null(values);
    for (int i = 0; i < 3; i++) {
        values[AT] = bad[i];
        values[AT + 300] = NAN; /* the first one is named, whichever thread is faster */
        write_source_with(place, "llama", "blk.0.attn_q.weight", ORK_GGML_F32, K, N, values, K * N * sizeof(float));
        snprintf(message, sizeof message, "tensor blk.0.attn_q.weight: element %d is %s", AT, words[i]);
        for (const char *const *tier = ork_tier_names(); *tier != NULL; tier++)
            expect_refusal(place, &(ork_pack_params){.default_tier = *tier, .threads = 3}, ORK_BAD_FILE, message);
    }
    values[AT + 300] = 0.0f;
    values[AT] = 70000.0f;
    write_source_with(place, "llama", "blk.0.attn_q.weight", ORK_GGML_F32, K, N, values, K * N * sizeof(float));
    expect_refusal(place, &(ork_pack_params){.default_tier = "f16"}, ORK_BAD_FILE,
                   "element 9607 is 70000, too large for tier f16");
    pack_with(place, &(ork_pack_params){.default_tier = "nf4"}, NULL);
    unlink(place->pack);
    values[AT] = 3e38f;
    write_source_with(place, "llama", "blk.0.attn_q.weight", ORK_GGML_F32, K, N, values, K * N * sizeof(float));
    expect_refusal(place, &(ork_pack_params){.default_tier = "i8"}, ORK_BAD_FILE, "too large for tier i8");
    pack_with(place, &(ork_pack_params){.default_tier = "bf16"}, NULL);
    unlink(place->pack);
    /* A block whose scale is not a number */
    uint8_t blocks[34 * 4] = {0};
    blocks[34 * 3 + 1] = 0x7e;
    write_source_with(place, "llama", "blk.0.attn_q.weight", ORK_GGML_Q8_0, 64, 2, blocks, sizeof blocks);
    expect_refusal(place, NULL, ORK_BAD_FILE, "tensor blk.0.attn_q.weight: element 96 is NaN");
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_default_tiers_by_role, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_the_last_rule_that_matches_wins, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_rules_record_sensitivities, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_bad_rules, make_place, remove_place),
        cmocka_unit_test(test_tier_names),
        cmocka_unit_test_setup_teardown(test_weights_and_report, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_metadata, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_the_same_bytes_for_every_number_of_threads, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_dry_run_writes_nothing_and_knows_the_size, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_paths, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_sources_that_cannot_be_packed, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_values_that_cannot_be_packed, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
