/* Prints a hash of the logits of every tiny model in every tier, for many thread counts and batch sizes at once; all of
 * them must agree within one run, and same_bits.sh compares runs under different instruction sets. */
#include "model/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"llama", "llama3", "qwen3", "qwen3moe", "lfm2", "lfm2moe"};
enum { TOKENS = 70 };

/* FNV-1a over the bytes of the logits. */
static uint64_t hash_logits(ork_session *session, size_t first, size_t count, size_t vocabulary, uint64_t hash)
{
    for (size_t position = first; position < count; position++) {
        const unsigned char *bytes = (const unsigned char *)ork_session_logits(session, position);
        if (!bytes)
            abort();
        for (size_t i = 0; i < vocabulary * sizeof(float); i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

/* All tokens through batches of batch_rows, or one by one when that is 1. */
static uint64_t run(const struct fixture *fixture, uint32_t threads, uint32_t batch_rows)
{
    ork_error error;
    ork_token tokens[TOKENS];
    size_t vocabulary = ork_card_get_summary(ork_model_card(fixture->model))->vocabulary_size;
    uint64_t hash = 0xcbf29ce484222325u;
    ork_session *session = fixture_session(fixture, threads, batch_rows);
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = (ork_token)((i * i * 7 + i * 3 + 1) % vocabulary);
    fixture_check(ork_session_sync(session, tokens, TOKENS, 0, &error), &error, "sync");
    hash = hash_logits(session, 0, TOKENS, vocabulary, hash);
    ork_session_destroy(session);
    return hash;
}

static bool check(const char *model, const char *tier)
{
    static const struct {
        uint32_t threads, batch_rows;
    } variants[] = {{1, 1}, {3, 33}, {2, 1}, {1, 3}, {2, 128}};
    const size_t variant_count = ORK_SLOW_BUILD ? 2 : sizeof variants / sizeof *variants;
    struct fixture fixture;
    char path[256];
    bool same = true;
    snprintf(path, sizeof path, "tests/compat/tiny/%s.gguf", model);
    fixture_open(&fixture, path, tier);
    uint64_t first = run(&fixture, variants[0].threads, variants[0].batch_rows);
    for (size_t i = 1; i < variant_count; i++) {
        uint64_t hash = run(&fixture, variants[i].threads, variants[i].batch_rows);
        if (hash != first) {
            fprintf(stderr, "%s %s: %u threads, %u rows differ from 1 thread, 1 row\n", model, tier, variants[i].threads,
                    variants[i].batch_rows);
            same = false;
        }
    }
    printf("%s %s %016llx\n", model, tier, (unsigned long long)first);
    fixture_close(&fixture);
    return same;
}

int main(void)
{
    bool same = true;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (const char *const *tier = ork_tier_names(); *tier; tier++)
            same &= check(models[m], *tier);
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
