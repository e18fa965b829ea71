/* Guards the nested tier in whole models: the base is read alone when that is asked for (rubbish in the residual planes
 * changes nothing), and the full codes come closer to the float model. */
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

#include "format/orkpack.h"
#include "model/fixture.h"
#include "quant/nested.h"

enum { TOKENS = 48 };
static const char *const paths[] = {"tests/compat/tiny/lfm2moe.gguf", "tests/compat/tiny/qwen3.gguf"};

static ork_token token_at(size_t i)
{
    return (ork_token)(i * 37 % 250 + 3);
}

/* Logits of the last position, freed by the caller. */
static float *last_logits(const char *pack, ork_nested nested, size_t *vocabulary)
{
    ork_error error;
    struct fixture fixture;
    ork_token tokens[TOKENS];
    const ork_model_params params = {.load_mode = ORK_LOAD_MAP, .nested = nested};
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = token_at(i);
    fixture_check(ork_model_open(pack, &params, &fixture.model, &error), &error, pack);
    *vocabulary = ork_card_get_summary(ork_model_card(fixture.model))->vocabulary_size;
    ork_session *session = fixture_session(&fixture, 1, 16);
    fixture_check(ork_session_sync(session, tokens, TOKENS, TOKENS, &error), &error, "sync");
    float *logits = malloc(*vocabulary * sizeof *logits);
    memcpy(logits, ork_session_logits(session, TOKENS - 1), *vocabulary * sizeof *logits);
    ork_session_destroy(session);
    ork_model_close(fixture.model);
    return logits;
}

static double distance(const float *a, const float *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum / (double)count);
}

/* Turns every residual plane of the file into rubbish. */
static void spoil_residuals(const char *path)
{
    ork_error error;
    ork_orkpack *pack;
    size_t spoiled = 0;
    fixture_check(ork_orkpack_open(path, ORK_LOAD_MAP, NULL, NULL, &pack, &error), &error, path);
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, i);
        const struct ork_orkpack_plane *data = &tensor->planes[ORK_PLANE_DATA];
        if (tensor->tier != ORK_TIER_N8)
            continue;
        for (uint64_t expert = 0; expert < tensor->dimensions[2]; expert++) {
            uint64_t second = ork_nested_residual_bytes(tensor->dimensions[1], tensor->dimensions[0]);
            uint64_t run = ork_divide_up(tensor->dimensions[1], 64) * ork_divide_up(tensor->dimensions[0], 32) * 1024;
            for (uint64_t at = 0; at < run; at += 512) {
                uint8_t rubbish[512];
                memset(rubbish, (int)(0x35 + at / 512 % 7), sizeof rubbish);
                assert_int_equal(pwrite(file, rubbish, sizeof rubbish,
                                        (off_t)(data->offset_bytes + expert * data->expert_stride_bytes + second + at)),
                                 sizeof rubbish);
            }
            spoiled++;
        }
    }
    close(file);
    ork_orkpack_close(pack);
    assert_true(spoiled > 0);
}

static void test_base_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct fixture exact, nested;
        size_t vocabulary;
        fixture_open(&exact, paths[i], "f32");
        fixture_open(&nested, paths[i], "n8");
        float *wanted = last_logits(exact.pack, ORK_NESTED_FULL, &vocabulary);
        float *full = last_logits(nested.pack, ORK_NESTED_FULL, &vocabulary);
        float *base = last_logits(nested.pack, ORK_NESTED_BASE, &vocabulary);
        assert_true(distance(full, wanted, vocabulary) < 0.5 * distance(base, wanted, vocabulary));
        ork_model_close(nested.model); /* the file changes under a mapping otherwise */
        nested.model = NULL;
        spoil_residuals(nested.pack);
        float *base_again = last_logits(nested.pack, ORK_NESTED_BASE, &vocabulary);
        float *spoiled = last_logits(nested.pack, ORK_NESTED_FULL, &vocabulary);
        assert_memory_equal(base, base_again, vocabulary * sizeof *base);
        assert_true(distance(spoiled, full, vocabulary) > 0.0);
        free(wanted);
        free(full);
        free(base);
        free(base_again);
        free(spoiled);
        fixture_close(&exact);
        fixture_close(&nested);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
