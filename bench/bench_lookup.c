/* Replays texts as if a model generated them token by token, with drafts where the library makes some, and counts: passes,
 * drafted and right tokens, and what the passes would cost. Owns nothing of drafting; must not know how drafts are found.
 *
 *     bench_lookup PACK DRAFT COST TEXT...
 *
 * DRAFT: longest drafts, 0: the default. COST: of passes of 1, 2, 3, 4, 6, 8, 12, 16, 24 and 32 rows, ':' between them.
 *
 * A TEXT is a file, its first 64 tokens are the prompt, or PROMPT,FILE. The pack gives tokenizer and experts. */
#include "ork/ork.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COSTS = 10, TEXT_MAX = 40000, PROMPT = 64 };
static const double cost_rows[COSTS] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

struct result {
    size_t tokens, passes, drafted, right;
    double cost;
};

static void check(ork_status status, const ork_error *error)
{
    if (status == ORK_OK)
        return;
    fprintf(stderr, "%s: %s\n", error->where, error->what);
    exit(EXIT_FAILURE);
}

static void tokenize_file(const ork_model *model, const char *path, ork_token **tokens, size_t *count)
{
    ork_error error;
    char *text = malloc(TEXT_MAX);
    FILE *file = fopen(path, "rb");
    if (!text || !file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(EXIT_FAILURE);
    }
    size_t size = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    check(ork_tokenize(model, text, size, 0, tokens, count, &error), &error);
    free(text);
}

static bool parse_costs(const char *text, double *costs)
{
    for (int i = 0; i < COSTS; i++) {
        char *end;
        costs[i] = strtod(text, &end);
        if (end == text || !(costs[i] > 0) || *end != (i + 1 < COSTS ? ':' : 0))
            return false;
        text = end + 1;
    }
    return true;
}

static double cost_of(const double *costs, double rows)
{
    int i = 0;
    while (i + 2 < COSTS && rows > cost_rows[i + 1])
        i++;
    return costs[i] + (costs[i + 1] - costs[i]) * (rows - cost_rows[i]) / (cost_rows[i + 1] - cost_rows[i]);
}

static struct result replay(const ork_model *model, const ork_lookup_params *params, const ork_token *text,
                            size_t prompt, size_t count, const double *costs)
{
    ork_error error;
    ork_lookup *lookup;
    ork_token draft[ORK_LOOKUP_DRAFT_MAX];
    struct result result = {.tokens = count - prompt - 1};
    check(ork_lookup_create(model, params, &lookup, &error), &error);
    for (size_t at = prompt + 1; at < count; result.passes++) {
        size_t size, right = 0;
        check(ork_lookup_draft(lookup, text, at, count - at - 1, draft, &size, &error), &error);
        while (right < size && draft[right] == text[at + right])
            right++;
        result.drafted += size;
        result.right += right;
        result.cost += cost_of(costs, (double)size + 1) / costs[0];
        at += 1 + right;
    }
    ork_lookup_destroy(lookup);
    return result;
}

static double replay_file(const ork_model *model, const ork_lookup_params *params, const char *name,
                          const double *costs)
{
    ork_token *tokens[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    char first[512];
    const char *comma = strchr(name, ',');
    snprintf(first, sizeof first, "%.*s", comma ? (int)(comma - name) : 0, name);
    if (comma)
        tokenize_file(model, first, &tokens[0], &counts[0]);
    tokenize_file(model, comma ? comma + 1 : name, &tokens[1], &counts[1]);
    size_t count = counts[0] + counts[1], prompt = comma ? counts[0] : PROMPT;
    if (count < prompt + 2) {
        fprintf(stderr, "%s: is too short\n", name);
        exit(EXIT_FAILURE);
    }
    ork_token *text = malloc(count * sizeof *text);
    if (!text)
        exit(EXIT_FAILURE);
    if (counts[0])
        memcpy(text, tokens[0], counts[0] * sizeof *text);
    memcpy(text + counts[0], tokens[1], counts[1] * sizeof *text);
    struct result result = replay(model, params, text, prompt, count, costs);
    double speed = (double)result.tokens / result.cost;
    const char *slash = strrchr(name, '/');
    printf("%-28.28s %6zu tokens %6zu passes %6zu drafted %6zu right, speed %.3f\n", slash ? slash + 1 : name,
           result.tokens, result.passes, result.drafted, result.right, speed);
    free(text);
    ork_free(tokens[0]);
    ork_free(tokens[1]);
    return speed;
}

int main(int argc, char **argv)
{
    ork_error error;
    ork_model *model;
    double costs[COSTS], logarithms = 0.0, lowest = INFINITY;
    ork_lookup_params params = {.draft_max = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0};
    if (argc < 5 || !parse_costs(argv[3], costs)) {
        fprintf(stderr, "usage: bench_lookup PACK DRAFT COST:COST:... [PROMPT,]TEXT...\n");
        return 2;
    }
    check(ork_model_open(argv[1], &(ork_model_params){.load_mode = ORK_LOAD_MAP}, &model, &error), &error);
    for (int i = 4; i < argc; i++) {
        double speed = replay_file(model, &params, argv[i], costs);
        logarithms += log(speed);
        lowest = speed < lowest ? speed : lowest;
    }
    printf("speed in the mean %.3f, at least %.3f\n", exp(logarithms / (argc - 4)), lowest);
    ork_model_close(model);
    return EXIT_SUCCESS;
}
