/* Guards whole models: on f32 weights with an f32 cache ork's greedy continuation is llama.cpp's on the same weights in
 * float; where they part, the peer's own two best logits must be nearly equal. After a difference the peer's token is
 * taken, so that every one of the 48 steps is compared.
 *
 *     test_greedy GOLDEN.json MODEL.gguf      returns 77 when the model is not there */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ork/ork.h"

/* Logits of two float engines differ by about 1e-3 after 30 layers of this size. */
#define NEAR_TIE 0.02
enum { TOKENS_MAX = 512, SKIPPED = 77 };

static void check(ork_status status, const ork_error *error)
{
    if (status == ORK_OK)
        return;
    fprintf(stderr, "%s: %s\n", error->where, error->what);
    exit(EXIT_FAILURE);
}

static size_t read_tokens(const json_t *array, ork_token *out)
{
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count && i < TOKENS_MAX; i++)
        out[i] = (ork_token)json_integer_value(json_array_get(array, i));
    return count;
}

/* Runs one continuation; false when a step differs without a tie. */
static bool compare_run(ork_session *session, const json_t *run, ork_sampler *greedy)
{
    ork_error error;
    ork_token tokens[TOKENS_MAX], want[TOKENS_MAX];
    const json_t *gaps = json_object_get(run, "gaps");
    const char *prompt = json_string_value(json_object_get(run, "prompt"));
    size_t count = read_tokens(json_object_get(run, "ids"), tokens);
    size_t steps = read_tokens(json_object_get(run, "greedy"), want), ties = 0, first = steps;
    if (!count || count + steps > TOKENS_MAX || json_array_size(gaps) != steps) {
        fprintf(stderr, "the golden file is malformed\n");
        return false;
    }
    for (size_t step = 0; step < steps; step++) {
        ork_token token;
        check(ork_session_sync(session, tokens, count, count, &error), &error);
        check(ork_sampler_sample(greedy, ork_session_logits(session, count - 1), NULL, 0, &token, &error), &error);
        double gap = json_number_value(json_array_get(gaps, step));
        if (token != want[step]) {
            first = first < step ? first : step;
            ties++;
            if (gap > NEAR_TIE) {
                fprintf(stderr, "%.40s...: step %zu is token %d, the peer's is %d, its gap %g is no tie\n", prompt, step,
                        token, want[step], gap);
                return false;
            }
        }
        tokens[count++] = want[step];
    }
    printf("%-44.44s %2zu of %2zu tokens equal%s\n", prompt, first, steps, ties ? ", then a near tie" : "");
    return true;
}

static ork_model *open_packed(const char *gguf, char *directory, char *pack)
{
    ork_error error;
    ork_model *model;
    strcpy(directory, "/tmp/ork-greedy-XXXXXX");
    if (!mkdtemp(directory))
        exit(EXIT_FAILURE);
    sprintf(pack, "%s/model.orkpack", directory);
    ork_pack_params params = {.default_tier = "f32"};
    check(ork_pack_file(gguf, pack, &params, NULL, &error), &error);
    ork_status status = ork_model_open(pack, NULL, &model, &error);
    unlink(pack); /* an open pack stays readable */
    rmdir(directory);
    check(status, &error);
    return model;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return EXIT_FAILURE;
    if (access(argv[2], R_OK) != 0) {
        printf("SKIPPED: %s is not there; tools/fetch_models.py fetches the real models\n", argv[2]);
        return SKIPPED;
    }
    ork_error error;
    json_error_t json_error;
    json_t *golden = json_load_file(argv[1], 0, &json_error);
    if (!golden) {
        fprintf(stderr, "%s: %s\n", argv[1], json_error.text);
        return EXIT_FAILURE;
    }
    char directory[64], pack[128];
    ork_model *model = open_packed(argv[2], directory, pack);
    size_t vocabulary = ork_card_get_summary(ork_model_card(model))->vocabulary_size;
    ork_session *session;
    ork_session_params params = {.context_length = TOKENS_MAX,
                                 .kv_type_key = ORK_KV_F32,
                                 .kv_type_value = ORK_KV_F32,
                                 .spin_us = UINT32_MAX};
    check(ork_session_create(model, &params, &session, &error), &error);
    ork_sampler *greedy;
    ork_sampler_params sampling = ork_sampler_defaults();
    sampling.temperature = 0.0f;
    check(ork_sampler_create(&sampling, (uint32_t)vocabulary, &greedy, &error), &error);

    size_t compared = 0, failed = 0, index;
    const json_t *run;
    json_array_foreach(json_object_get(golden, "runs"), index, run)
    {
        if (strcmp(json_string_value(json_object_get(run, "weights")), "f32") != 0)
            continue;
        compared++;
        failed += !compare_run(session, run, greedy);
    }
    printf("%zu continuations, %zu failed\n", compared, failed);
    ork_sampler_destroy(greedy);
    ork_session_destroy(session);
    ork_model_close(model);
    json_decref(golden);
    return compared >= 10 && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
