/* Guards the overlay in whole models, on the software device in virtual time: with every chain in time the logits are, bit
 * for bit, those of the model that reads both planes, with none those of the base; in between they depend on the seed alone;
 * batches, cancelled passes and other sessions change nothing; late corrections of nothing change nothing; where there is no
 * overlay the stats say why. Stacks of experts are never in a chain. Of a matrix whose channels are not all in a chain, those
 * with the largest scales are, and the logits are those of a file that has residuals of these channels alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/npu/engine.h"
#include "format/orkpack.h"
#include "model/channels.h"
#include "model/fixture.h"
#include "model/groups.h"
#include "quant/nested.h"

enum { TOKENS = 12, CONTEXT = 128 };
static const char *const paths[] = {
    "tests/compat/tiny/lfm2.gguf",  "tests/compat/tiny/lfm2moe.gguf", "tests/compat/tiny/llama.gguf",
    "tests/compat/tiny/qwen3.gguf", "tests/compat/tiny/llama3.gguf",  "tests/compat/tiny/qwen3moe.gguf",
};
#define PATHS (sizeof paths / sizeof *paths)
enum { STEP = ORK_SLOW_BUILD ? 5 : 1 }; /* 5: the first and the last, a model with states and one with experts */

/* A pack whose experts are not nested, so that everything that is can be in a chain, opened in both ways. */
struct models {
    struct fixture base;
    ork_model *full;
    size_t vocabulary;
};

static void models_reopen(struct models *models)
{
    ork_error error;
    const ork_model_params full = {.load_mode = ORK_LOAD_MAP, .nested = ORK_NESTED_FULL},
                           base = {.load_mode = ORK_LOAD_MAP, .nested = ORK_NESTED_BASE};
    fixture_check(ork_model_open(models->base.pack, &full, &models->full, &error), &error, models->base.pack);
    fixture_check(ork_model_open(models->base.pack, &base, &models->base.model, &error), &error, models->base.pack);
    models->vocabulary = ork_card_get_summary(ork_model_card(models->full))->vocabulary_size;
}

static void models_open(struct models *models, const char *path, bool nested_experts)
{
    static const char *const rules[] = {"^output\\.weight$=n8", "_exps=i8"};
    fixture_open_by_rules(&models->base, path, "n8", rules, nested_experts ? 1 : 2);
    ork_model_close(models->base.model);
    models_reopen(models);
}

static void models_close(struct models *models)
{
    ork_model_close(models->full);
    fixture_close(&models->base);
}

/* rows_min: batches stay on the CPU unless it says otherwise. */
static ork_npu *open_npu(const char *faults, uint64_t memory_bytes, uint32_t rows_min)
{
    ork_error error;
    ork_npu *npu;
    const ork_npu_params params = {.kind = ORK_NPU_SOFT,
                                   .rows_min = rows_min ? rows_min : 100000,
                                   .faults = faults,
                                   .memory_bytes = memory_bytes,
                                   .skip_self_test = true};
    fixture_check(ork_npu_open(&params, &npu, &error), &error, "NPU");
    return npu;
}

static const ork_overlay_params off = {0}, in_time = {.mode = ORK_OVERLAY_JOIN, .all = true, .window_us = 100000},
                                never = {.mode = ORK_OVERLAY_JOIN, .all = true, .window_us = 1};

static ork_session_params session_params(ork_npu *npu, const ork_overlay_params *overlay)
{
    return (ork_session_params){.context_length = CONTEXT,
                                .threads = 2,
                                .activation_block = UINT32_MAX,
                                .spin_us = 20,
                                .npu = npu,
                                .overlay = *overlay};
}

static ork_session *create(const ork_model *model, ork_npu *npu, const ork_overlay_params *overlay)
{
    ork_error error;
    ork_session *session;
    const ork_session_params params = session_params(npu, overlay);
    fixture_check(ork_session_create(model, &params, &session, &error), &error, "session");
    return session;
}

static ork_overlay_stats overlay_stats(const ork_session *session)
{
    ork_session_stats stats;
    ork_session_get_stats(session, &stats);
    const ork_overlay_stats *overlay = &stats.overlay;
    assert_int_equal(overlay->planned, overlay->submitted + overlay->busy + overlay->rested);
    assert_true(overlay->submitted >= overlay->in_time + overlay->late + overlay->faulted);
    return *overlay;
}

static ork_token token_at(size_t i, size_t vocabulary)
{
    return (ork_token)((i * 37 + 11) % vocabulary);
}

/* Logits of positions first..last - 1, one token at a time or all at once; freed by the caller. */
static float *evaluate(ork_session *session, size_t vocabulary, size_t first, size_t last, bool at_once)
{
    ork_error error;
    ork_token tokens[CONTEXT];
    float *logits = malloc((last - first) * vocabulary * sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; i < last; i++)
        tokens[i] = token_at(i, vocabulary);
    for (size_t end = at_once ? last : first + 1; end <= last; end++) {
        const size_t from = at_once ? first : end - 1;
        fixture_check(ork_session_sync(session, tokens, end, from, &error), &error, "sync");
        for (size_t i = from; i < end; i++)
            memcpy(logits + (i - first) * vocabulary, ork_session_logits(session, i), vocabulary * sizeof *logits);
    }
    return logits;
}

/* Decodes all tokens in a new session, whose stats are left. */
static float *decode(const struct models *models, const ork_model *model, ork_npu *npu,
                     const ork_overlay_params *overlay, ork_overlay_stats *stats)
{
    ork_session *session = create(model, npu, overlay);
    float *logits = evaluate(session, models->vocabulary, 0, TOKENS, false);
    *stats = overlay_stats(session);
    ork_session_destroy(session);
    return logits;
}

static bool is_same(const struct models *models, const float *a, const float *b)
{
    return !memcmp(a, b, TOKENS * models->vocabulary * sizeof *a);
}

/* ---- both ends ---- */

static void test_all_and_none(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP) {
        struct models models;
        ork_overlay_stats stats;
        models_open(&models, paths[m], false);
        float *full = decode(&models, models.full, NULL, &off, &stats);
        float *base = decode(&models, models.base.model, NULL, &off, &stats);
        assert_false(is_same(&models, full, base));
        assert_false(stats.on || *stats.why);
        ork_npu *npu = open_npu(NULL, 0, 0);
        for (int round = 0; round < 2; round++) { /* attached anew */
            float *all = decode(&models, models.base.model, npu, &in_time, &stats);
            assert_true(stats.on && !*stats.why && stats.chains > 0);
            assert_int_equal(stats.in_time, (uint64_t)stats.chains * TOKENS);
            assert_int_equal(stats.planned, stats.in_time);
            assert_true(stats.bytes >= stats.in_time / stats.chains * stats.resident_bytes);
            assert_int_equal(stats.resident_bytes, stats.sensitive_bytes);
            if (!is_same(&models, all, full))
                fail_msg("%s: other logits than the full model", paths[m]);
            float *none = decode(&models, models.base.model, npu, &never, &stats);
            assert_int_equal(stats.in_time, 0);
            assert_int_equal(stats.planned, (uint64_t)stats.chains * TOKENS);
            assert_true(stats.late > 0);
            if (!is_same(&models, none, base))
                fail_msg("%s: other logits than the base", paths[m]);
            free(all);
            free(none);
        }
        ork_npu_close(npu);
        free(full);
        free(base);
        models_close(&models);
    }
}

/* ---- in between ---- */

static void test_a_part_depends_on_the_seed_alone(void **state)
{
    (void)state;
    static const char *const scripts[] = {"seed=3;late:p=0.3,us=3000", "seed=4;late:p=0.3,us=3000",
                                          "seed=5;flip:p=0.05;late:p=0.2,us=4000;never:p=0.01;refuse:p=0.02"};
    static const ork_overlay_params modes[] = {
        {.mode = ORK_OVERLAY_JOIN, .all = true, .window_us = 400},
        {.mode = ORK_OVERLAY_LATE, .all = true, .window_us = 400, .late_layers = 1},
    };
    for (size_t m = 0; m < PATHS; m += 2 * STEP)
        for (size_t mode = 0; mode < 2; mode++) {
            struct models models;
            float *before = NULL;
            models_open(&models, paths[m], false);
            for (size_t s = 0; s < sizeof scripts / sizeof *scripts; s++) {
                ork_overlay_stats stats, again_stats;
                ork_npu *npu = open_npu(scripts[s], 0, 0);
                float *once = decode(&models, models.base.model, npu, &modes[mode], &stats);
                ork_npu_close(npu);
                npu = open_npu(scripts[s], 0, 0);
                float *again = decode(&models, models.base.model, npu, &modes[mode], &again_stats);
                ork_npu_close(npu);
                assert_true(is_same(&models, once, again));
                assert_memory_equal(&stats, &again_stats, sizeof stats);
                assert_true(stats.on && stats.in_time > 0 && stats.in_time < stats.planned);
                assert_true(!before || !is_same(&models, once, before));
                free(before);
                before = once;
                free(again);
            }
            free(before);
            models_close(&models);
        }
}

/* ---- late ---- */

/* Makes every residual nothing, so that both planes are the base. */
static void clear_residuals(const char *path)
{
    ork_error error;
    ork_orkpack *pack;
    size_t cleared = 0;
    fixture_check(ork_orkpack_open(path, ORK_LOAD_MAP, NULL, NULL, &pack, &error), &error, path);
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, i);
        const struct ork_orkpack_plane *data = &tensor->planes[ORK_PLANE_DATA];
        static const uint8_t nothing[1024];
        if (tensor->tier != ORK_TIER_N8)
            continue;
        for (uint64_t expert = 0; expert < tensor->dimensions[2]; expert++) {
            const uint64_t second = ork_nested_residual_bytes(tensor->dimensions[1], tensor->dimensions[0]);
            const uint64_t run =
                ork_divide_up(tensor->dimensions[1], 64) * ork_divide_up(tensor->dimensions[0], 32) * 1024;
            for (uint64_t at = 0; at < run; at += sizeof nothing)
                assert_int_equal(pwrite(file, nothing, sizeof nothing,
                                        (off_t)(data->offset_bytes + expert * data->expert_stride_bytes + second + at)),
                                 sizeof nothing);
            cleared++;
        }
    }
    close(file);
    ork_orkpack_close(pack);
    assert_true(cleared > 0);
}

static void test_late_layers(void **state)
{
    (void)state;
    static const uint32_t layers[] = {1, 2, 4, 64};
    for (size_t m = 0; m < PATHS; m += STEP) {
        struct models models;
        ork_overlay_stats stats;
        models_open(&models, paths[m], false);
        float *base = decode(&models, models.base.model, NULL, &off, &stats);
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            const ork_overlay_params late = {
                .mode = ORK_OVERLAY_LATE, .all = true, .window_us = 100000, .late_layers = layers[l]};
            ork_npu *npu = open_npu(NULL, 0, 0);
            float *once = decode(&models, models.base.model, npu, &late, &stats);
            float *again = decode(&models, models.base.model, npu, &late, &stats);
            assert_true(stats.on);
            assert_int_equal(stats.in_time, (uint64_t)stats.chains * TOKENS);
            assert_true(is_same(&models, once, again));
            assert_false(is_same(&models, once, base));
            for (size_t i = 0; i < TOKENS * models.vocabulary; i++)
                assert_true(isfinite(once[i]));
            free(again);
            again = decode(&models, models.base.model, npu,
                           &(ork_overlay_params){.mode = ORK_OVERLAY_LATE, .all = true, .window_us = 1}, &stats);
            assert_int_equal(stats.in_time, 0);
            assert_true(is_same(&models, again, base));
            free(once);
            free(again);
            ork_npu_close(npu);
        }
        free(base);
        models_close(&models);
    }
}

static void test_no_residual_no_correction(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP) {
        struct models models;
        ork_overlay_stats stats;
        models_open(&models, paths[m], false);
        ork_model_close(models.full); /* the file changes under a mapping otherwise */
        ork_model_close(models.base.model);
        clear_residuals(models.base.pack);
        models_reopen(&models);
        float *base = decode(&models, models.base.model, NULL, &off, &stats);
        ork_npu *npu = open_npu(NULL, 0, 0);
        for (uint32_t layers = 0; layers < 4; layers++) {
            const ork_overlay_params late = {
                .mode = ORK_OVERLAY_LATE, .all = true, .window_us = 100000, .late_layers = layers};
            float *corrected = decode(&models, models.base.model, npu, layers ? &late : &in_time, &stats);
            assert_int_equal(stats.in_time, (uint64_t)stats.chains * TOKENS);
            assert_true(is_same(&models, corrected, base));
            free(corrected);
        }
        ork_npu_close(npu);
        free(base);
        models_close(&models);
    }
}

/* ---- what else a session does ---- */

/* A prompt in batches, on the CPU and on the NPU, then tokens one by one: the batches are those without an overlay, and so is
 * everything behind them when nothing comes in time. */
static void test_batches(void **state)
{
    (void)state;
    enum { PROMPT = 70 };
    for (size_t m = 0; m < PATHS; m += 3 * STEP)
        for (uint32_t rows_min = 0; rows_min <= 2; rows_min += 2) {
            struct models models;
            models_open(&models, paths[m], false);
            ork_npu *npu = open_npu(NULL, 0, rows_min);
            ork_session *want = create(models.base.model, NULL, &off);
            ork_session *with = create(models.base.model, npu, &in_time);
            for (size_t first = 0; first < 2 * PROMPT - 40; first += PROMPT / 2) {
                float *a = evaluate(want, models.vocabulary, first, first + PROMPT / 2, true);
                float *b = evaluate(with, models.vocabulary, first, first + PROMPT / 2, true);
                assert_memory_equal(a, b, PROMPT / 2 * models.vocabulary * sizeof *a);
                free(a);
                free(b);
            }
            assert_int_equal(overlay_stats(with).planned, 0);
            const size_t at = 3 * (PROMPT / 2);
            float *token = evaluate(with, models.vocabulary, at, at + 1, false);
            ork_overlay_stats stats = overlay_stats(with);
            assert_int_equal(stats.in_time, stats.chains);
            free(token);
            ork_session_destroy(with);
            with = create(models.base.model, npu, &never);
            free(evaluate(with, models.vocabulary, 0, at, true));
            token = evaluate(with, models.vocabulary, at, at + 3, false);
            float *plain = evaluate(want, models.vocabulary, at, at + 3, false);
            assert_memory_equal(token, plain, 3 * models.vocabulary * sizeof *plain);
            assert_true(overlay_stats(with).planned > 0);
            free(token);
            free(plain);
            ork_session_destroy(want);
            ork_session_destroy(with);
            ork_npu_close(npu);
            models_close(&models);
        }
}

static bool cancel_when_due(void *context)
{
    uint32_t *left = context;
    return *left && !--*left;
}

/* Passes that end before their last layer, at every layer: what was begun is forgotten, and the logits are those of a session
 * that was never cancelled. A model with recurrent states goes back to a checkpoint and on in batches, which have no overlay:
 * there nothing comes in time, so that this makes no difference. */
static void test_cancelled_passes(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP)
        for (size_t mode = 0; mode < 2; mode++) {
            const ork_overlay_params overlay = {.mode = mode ? ORK_OVERLAY_LATE : ORK_OVERLAY_JOIN,
                                                .all = true,
                                                .window_us = strstr(paths[m], "lfm2") ? 1 : 100000};
            struct models models;
            ork_overlay_stats stats;
            ork_error error;
            uint32_t left = 0, cancelled = 0;
            models_open(&models, paths[m], false);
            ork_npu *npu = open_npu(NULL, 0, 0);
            float *want = decode(&models, models.base.model, npu, &overlay, &stats);
            ork_session_params params = session_params(npu, &overlay);
            ork_session *session;
            params.cancel = cancel_when_due;
            params.cancel_context = &left;
            fixture_check(ork_session_create(models.base.model, &params, &session, &error), &error, "session");
            ork_token tokens[TOKENS];
            for (size_t i = 0; i < TOKENS; i++) {
                tokens[i] = token_at(i, models.vocabulary);
                for (uint32_t layer = 1; layer <= 3; layer++) {
                    left = layer;
                    const ork_status status = ork_session_sync(session, tokens, i + 1, i, &error);
                    assert_true(status == ORK_CANCELLED || (status == ORK_OK && left));
                    cancelled += status == ORK_CANCELLED;
                }
                left = 0;
                fixture_check(ork_session_sync(session, tokens, i + 1, i, &error), &error, "sync");
                assert_memory_equal(ork_session_logits(session, i), want + i * models.vocabulary,
                                    models.vocabulary * sizeof *want);
            }
            assert_true(cancelled >= TOKENS);
            stats = overlay_stats(session);
            assert_int_equal(stats.submitted, stats.in_time + stats.late + stats.faulted);
            assert_true(mode == 0 || stats.late > 0);
            ork_session_destroy(session);
            ork_npu_close(npu);
            free(want);
            models_close(&models);
        }
}

/* ---- where there is none ---- */

/* A session that is created all the same, says why, and has the CPU's logits. */
static void expect_none(const struct models *models, const ork_model *model, ork_npu *npu,
                        const ork_overlay_params *overlay, const char *why)
{
    ork_overlay_stats stats, unused;
    float *want = decode(models, model, NULL, &off, &unused), *logits = decode(models, model, npu, overlay, &stats);
    assert_false(stats.on);
    if (!strstr(stats.why, why))
        fail_msg("\"%s\" is not in \"%s\"", why, stats.why);
    assert_int_equal(stats.planned + stats.chains + stats.resident_bytes, 0);
    assert_true(is_same(models, logits, want));
    free(want);
    free(logits);
}

static void test_no_overlay_says_why(void **state)
{
    (void)state;
    struct models models, plain;
    ork_error error;
    ork_session *session;
    models_open(&models, paths[0], false);
    expect_none(&models, models.base.model, NULL, &in_time, "there is no NPU");
    ork_npu *npu = open_npu(NULL, 0, 0);
    expect_none(&models, models.full, npu, &in_time, "both planes");
    ork_session *first = create(models.base.model, npu, &in_time);
    expect_none(&models, models.base.model, npu, &in_time, "another session");
    ork_session_destroy(first);
    first = create(models.base.model, npu, &in_time); /* it is free again */
    assert_true(overlay_stats(first).on);
    ork_session_destroy(first);
    ork_npu_close(npu);

    const ork_npu_params tight = {.kind = ORK_NPU_SOFT, .memory_bytes = 1, .skip_self_test = true};
    fixture_check(ork_npu_open(&tight, &npu, &error), &error, "NPU");
    expect_none(&models, models.base.model, npu, &in_time, "no chain fits");
    ork_npu_close(npu);
    npu = open_npu("memory:from=0", 0, 0);
    expect_none(&models, models.base.model, npu, &in_time, "memory");
    ork_npu_close(npu);

    static const ork_overlay_params bad[] = {
        {.mode = (ork_overlay_mode)3},
        {.mode = ORK_OVERLAY_LATE, .late_layers = 65},
        {.mode = ORK_OVERLAY_JOIN, .window_us = 1000001},
    };
    npu = open_npu(NULL, 0, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const ork_session_params params = session_params(npu, &bad[i]);
        assert_int_equal(ork_session_create(models.base.model, &params, &session, &error), ORK_BAD_ARGUMENT);
        assert_string_equal(error.where, "overlay");
        assert_null(session);
    }
    /* A session that cannot be created for another reason does not keep it. */
    fixture_open(&plain.base, paths[2], "n8");
    ork_session *owner = create(plain.base.model, npu, &off);
    const ork_session_params params = session_params(npu, &in_time);
    assert_int_equal(ork_session_create(models.base.model, &params, &session, &error), ORK_LIMIT);
    ork_session_destroy(owner);
    fixture_close(&plain.base);
    first = create(models.base.model, npu, &in_time);
    assert_true(overlay_stats(first).on);
    ork_session_destroy(first);
    models_close(&models);

    fixture_open(&plain.base, paths[0], "nf4");
    ork_model_close(plain.base.model);
    models_reopen(&plain);
    expect_none(&plain, plain.base.model, npu, &in_time, "no matrices in tier n8");
    models_close(&plain);
    ork_npu_close(npu);
}

/* With nested experts the chains are the same: stacks are in none. */
static void test_stacks_are_never_in_a_chain(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP) {
        ork_overlay_stats stats[2];
        for (int nested = 0; nested < 2; nested++) {
            struct models models;
            models_open(&models, paths[m], nested);
            ork_npu *npu = open_npu(NULL, 0, 0);
            ork_session *session = create(models.base.model, npu, &in_time);
            free(evaluate(session, models.vocabulary, 0, 2, false));
            stats[nested] = overlay_stats(session);
            assert_true(stats[nested].on);
            ork_session_destroy(session);
            ork_npu_close(npu);
            models_close(&models);
        }
        assert_int_equal(stats[0].chains, stats[1].chains);
        assert_int_equal(stats[0].resident_bytes, stats[1].resident_bytes);
        assert_int_equal(stats[0].in_time, stats[1].in_time);
    }
}

/* However little memory there is, what was planned for it fits it. */
static void test_plans_fit_their_memory(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP) {
        struct models models;
        uint64_t last = 0;
        models_open(&models, paths[m], false);
        for (uint64_t bytes = 2048; bytes <= 160 * 1024; bytes += 7 * 1024) {
            ork_npu *npu = open_npu(NULL, bytes, 2);
            ork_session *session = create(models.base.model, npu, &in_time);
            const ork_overlay_stats stats = overlay_stats(session);
            if (!stats.on && !strstr(stats.why, "no chain fits"))
                fail_msg("%s, %llu bytes: %s", paths[m], (unsigned long long)bytes, stats.why);
            assert_true(stats.resident_bytes <= bytes && stats.resident_bytes >= last);
            last = stats.resident_bytes;
            free(evaluate(session, models.vocabulary, 0, 1, false));
            assert_int_equal(overlay_stats(session).in_time, stats.chains);
            ork_session_destroy(session);
            ork_npu_close(npu);
        }
        assert_true(last > 0);
        models_close(&models);
    }
}

/* ---- chains of some channels ---- */

/* Zeroes the residual codes of all channels of a tensor that the part does not name (NULL: of all) in the pack's file. */
static void clear_channels(int file, const struct ork_orkpack_tensor *tensor, const struct ork_overlay_part *part)
{
    static const uint8_t zeros[16];
    const uint64_t k = tensor->dimensions[0], n = tensor->dimensions[1], tiles = (k + 31) / 32;
    const uint64_t residual = tensor->planes[ORK_PLANE_DATA].offset_bytes + ork_nested_residual_bytes(n, k);
    for (uint32_t c = 0, next = 0; c < n; c++) {
        if (part && next < part->count && part->channels[next] == c) {
            next++;
            continue;
        }
        for (uint64_t tile = 0; tile < tiles; tile++) {
            const uint64_t offset = residual + (c / 64 * tiles + tile) * 1024 + c % 64 * 16;
            assert_int_equal(pwrite(file, zeros, sizeof zeros, (off_t)offset), sizeof zeros);
        }
    }
}

/* Makes the file what the overlay computes: what no chain has is no more than its base. Returns how many matrices are in a
 * chain with some of their channels. */
static uint32_t clear_what_is_in_no_chain(const struct models *models, const struct ork_overlay *overlay)
{
    ork_error error;
    struct ork_model_shape shape;
    uint32_t thin = 0;
    const ork_model *model = models->base.model;
    const int file = open(models->base.pack, O_WRONLY);
    assert_true(file >= 0);
    fixture_check(ork_model_get_shape(model, &shape, &error), &error, "shape");
    for (size_t i = 0; i < shape.group_count; i++)
        for (uint32_t m = 0; m < shape.groups[i].member_count; m++) {
            const struct ork_matrix *matrix = ork_model_group_matrix(model, &shape.groups[i], m);
            const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_find(model->pack, matrix->name);
            if (tensor->tier != ORK_TIER_N8)
                continue;
            const struct ork_overlay_part *part = overlay->find(overlay->context, matrix);
            thin += part && part->count < matrix->n;
            clear_channels(file, tensor, part);
        }
    close(file);
    ork_model_shape_free(&shape);
    return thin;
}

/* With memory for a part of the bricks, chains have the channels with the largest scales; with all in time the logits are
 * those of a file that has the residuals of these channels alone. */
static void test_some_channels(void **state)
{
    (void)state;
    uint32_t thin = 0;
    for (size_t m = 0; m < PATHS; m += STEP)
        for (uint64_t eighths = 1; eighths < 8; eighths += 3) {
            struct models models;
            ork_overlay_stats stats;
            models_open(&models, paths[m], false);
            ork_npu *npu = open_npu(NULL, 0, 0);
            free(decode(&models, models.base.model, npu, &in_time, &stats));
            ork_npu_close(npu);
            const uint64_t bytes = stats.sensitive_bytes * eighths / 8;
            float *base = decode(&models, models.base.model, NULL, &off, &stats);
            npu = open_npu(NULL, bytes, 0);
            ork_session *session = create(models.base.model, npu, &in_time);
            float *some = evaluate(session, models.vocabulary, 0, TOKENS, false);
            stats = overlay_stats(session);
            assert_int_equal(stats.in_time, (uint64_t)stats.chains * TOKENS);
            assert_true(stats.resident_bytes <= bytes && stats.resident_bytes > 0);
            thin += clear_what_is_in_no_chain(&models, ork_npu_overlay(npu));
            ork_session_destroy(session);
            ork_npu_close(npu);
            ork_model_close(models.base.model);
            ork_model_close(models.full);
            models_reopen(&models);
            float *same = decode(&models, models.full, NULL, &off, &stats);
            assert_false(is_same(&models, some, base));
            if (!is_same(&models, some, same))
                fail_msg("%s, %llu bytes: other logits than with the residuals of these channels", paths[m],
                         (unsigned long long)bytes);
            free(base);
            free(some);
            free(same);
            models_close(&models);
        }
    assert_true(thin >= 3);
}

/* The order in which channels are taken: those with the largest scales, equal ones as they stand. */
static void test_ranks(void **state)
{
    (void)state;
    for (size_t m = 0; m < PATHS; m += STEP) {
        struct models models;
        models_open(&models, paths[m], false);
        const struct ork_matrix *matrix = &models.base.model->layers[0].down;
        const float *scales = (const float *)(const void *)matrix->scales;
        uint32_t order[1024];
        bool seen[1024] = {false};
        ork_error error;
        assert_true(matrix->n > 1 && matrix->n <= 1024);
        fixture_check(ork_channels_rank(matrix, order, &error), &error, "ranks");
        for (uint32_t i = 0; i < matrix->n; i++) {
            assert_true(order[i] < matrix->n && !seen[order[i]]);
            seen[order[i]] = true;
            if (!i)
                continue;
            const float before = fabsf(scales[order[i - 1]]), own = fabsf(scales[order[i]]);
            assert_true(before > own || (before == own && order[i - 1] < order[i]));
        }
        models_close(&models);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_and_none),
        cmocka_unit_test(test_a_part_depends_on_the_seed_alone),
        cmocka_unit_test(test_late_layers),
        cmocka_unit_test(test_no_residual_no_correction),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_cancelled_passes),
        cmocka_unit_test(test_no_overlay_says_why),
        cmocka_unit_test(test_stacks_are_never_in_a_chain),
        cmocka_unit_test(test_plans_fit_their_memory),
        cmocka_unit_test(test_some_channels),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
