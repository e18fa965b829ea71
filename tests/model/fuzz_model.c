/* Guards the whole way of a hostile file: a small GGUF with some bytes of its header changed is packed, opened and run for
 * a few tokens. Every step may refuse it with an error; nothing may crash, hang or read out of bounds (run it in the
 * sanitizer builds too). Deterministic: the arguments are a seed and a number of rounds.
 *
 *     fuzz_model [SEED [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ork/ork.h"

static const char *const models[] = {"llama", "llama3", "qwen3", "qwen3moe", "lfm2", "lfm2moe"};
enum { MODELS = sizeof models / sizeof *models, FILE_BYTES_MAX = 1 << 18, TOKENS = 5 };

static uint64_t random_state;

static uint32_t next_random(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % bound);
}

static size_t read_model(const char *name, unsigned char *bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/compat/tiny/%s.gguf", ORK_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, FILE_BYTES_MAX, file) : 0;
    if (!size || size == FILE_BYTES_MAX) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    return size;
}

/* Where the text `key` stands, or size. */
static size_t find(const unsigned char *bytes, size_t size, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(bytes + i, key, length) == 0)
            return i;
    return size;
}

/* Half of the rounds hit a hyperparameter or a shape, where the deeper code is; the others any byte of the header. */
static void damage(unsigned char *bytes, size_t size)
{
    static const char *const keys[] = {"block_count", "embedding_length", "head_count",  "head_count_kv", "key_length",
                                       "feed_forward", "expert_count",    "expert_used", "freq_base",     "l_cache",
                                       "dimension_count", "context_length", "epsilon",   "leading_dense", "token_embd",
                                       "attn_q.weight", "ffn_down",       "shortconv",   "gating_func",   "token_type"};
    static const unsigned char values[] = {0, 1, 2, 3, 7, 31, 32, 64, 127, 128, 255};
    size_t header = find(bytes, size, "token_embd.weight") + 4096;
    if (header > size)
        header = size;
    uint32_t changes = 1 + next_random(3);
    for (uint32_t i = 0; i < changes; i++) {
        size_t at = next_random((uint32_t)header);
        if (next_random(2)) {
            const char *key = keys[next_random(sizeof keys / sizeof *keys)];
            size_t place = find(bytes, size, key);
            if (place < size)
                at = place + strlen(key) + next_random(24);
        }
        if (at < size)
            bytes[at] = next_random(3) ? values[next_random(sizeof values)] : (unsigned char)next_random(256);
    }
}

/* How far a file came: 0 refused by pack, 1 by open, 2 by the session, 3 ran. */
static int run(const char *gguf, const char *pack, const char *tier)
{
    ork_error error;
    ork_model *model;
    ork_session *session;
    ork_pack_params params = {.default_tier = tier, .threads = 1, .overwrite = true};
    if (ork_pack_file(gguf, pack, &params, NULL, &error) != ORK_OK)
        return 0;
    if (ork_model_open(pack, NULL, &model, &error) != ORK_OK)
        return 1;
    int reached = 2;
    ork_session_params session_params = {.context_length = 16, .threads = 1, .batch_rows = 4, .spin_us = UINT32_MAX};
    if (ork_session_create(model, &session_params, &session, &error) == ORK_OK) {
        ork_token tokens[TOKENS] = {1, 2, 3, 4, 5}, *list = NULL;
        size_t count;
        if (ork_session_sync(session, tokens, TOKENS, 0, &error) == ORK_OK)
            reached = 3;
        if (ork_tokenize(model, "any text", 8, ORK_TOKENIZE_SPECIAL, &list, &count, &error) == ORK_OK)
            ork_free(list);
        ork_session_destroy(session);
    }
    ork_model_close(model);
    return reached;
}

int main(int argc, char **argv)
{
    static unsigned char original[MODELS][FILE_BYTES_MAX], bytes[FILE_BYTES_MAX];
    size_t sizes[MODELS];
    char directory[] = "/tmp/ork-fuzz-XXXXXX", gguf[64], pack[64];
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000, reached[4] = {0};
    random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    if (!mkdtemp(directory))
        return EXIT_FAILURE;
    snprintf(gguf, sizeof gguf, "%s/model.gguf", directory);
    snprintf(pack, sizeof pack, "%s/model.orkpack", directory);
    for (size_t m = 0; m < MODELS; m++)
        sizes[m] = read_model(models[m], original[m]);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t m = next_random(MODELS);
        memcpy(bytes, original[m], sizes[m]);
        if (round >= MODELS) /* the first ones are left whole, so that the way to the end is known to be open */
            damage(bytes, sizes[m]);
        FILE *file = fopen(gguf, "wb");
        if (!file || fwrite(bytes, 1, sizes[m], file) != sizes[m] || fclose(file) != 0)
            return EXIT_FAILURE;
        reached[run(gguf, pack, next_random(2) ? "f32" : "nf4")]++;
    }
    unlink(gguf);
    unlink(pack);
    rmdir(directory);
    printf("%u files: pack refused %u, open refused %u, session refused %u, %u ran\n", rounds, reached[0], reached[1],
           reached[2], reached[3]);
    return reached[3] >= MODELS && reached[0] ? EXIT_SUCCESS : EXIT_FAILURE;
}
