/* Runs a fuzz target without libFuzzer: every seed as it is, then `iterations` mutated seeds from a generator with a
 * fixed start, so that a failure comes again. Arguments: ITERATIONS [FILE...]; files are further seeds. When the target
 * crashes the input is in the file named by ORK_FUZZ_CRASH, if that is set. */
#include "format/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 64, INPUT_BYTES_MAX = 1 << 20, EDITS_MAX = 6 };

struct seeds {
    uint8_t *data[SEEDS_MAX];
    size_t size_bytes[SEEDS_MAX];
    size_t count;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t random_below(size_t limit)
{
    return limit ? (size_t)(random_u64() % limit) : 0;
}

static void add_seed(void *context, const void *data, size_t size_bytes)
{
    struct seeds *seeds = context;
    if (seeds->count == SEEDS_MAX || size_bytes > INPUT_BYTES_MAX)
        return;
    seeds->data[seeds->count] = malloc(size_bytes ? size_bytes : 1);
    if (!seeds->data[seeds->count])
        abort();
    memcpy(seeds->data[seeds->count], data, size_bytes);
    seeds->size_bytes[seeds->count++] = size_bytes;
}

static void add_file(struct seeds *seeds, const char *path)
{
    static uint8_t content[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    add_seed(seeds, content, fread(content, 1, sizeof content, file));
    fclose(file);
}

/* A number of 1, 2, 4 or 8 bytes that lies at an edge of some range, little endian. */
static void overwrite_number(uint8_t *input, size_t size_bytes)
{
    static const int shifts[] = {0, 7, 8, 15, 16, 30, 31, 32, 40, 61, 62, 63};
    size_t width = (size_t)1 << random_below(4), at = random_below(size_bytes);
    uint64_t number = UINT64_C(1) << shifts[random_below(sizeof shifts / sizeof shifts[0])];
    number += random_below(5) - 2;
    if (random_below(4) == 0)
        number = 0 - number;
    for (size_t i = 0; i < width && at + i < size_bytes; i++)
        input[at + i] = (uint8_t)(number >> (8 * i));
}

/* One change of input[0..size_bytes), which has room for INPUT_BYTES_MAX; returns the new size. */
static size_t edit(uint8_t *input, size_t size_bytes, const struct seeds *seeds)
{
    size_t at = random_below(size_bytes), length = 1 + random_below(16);
    if (size_bytes == 0)
        return 0;
    if (length > size_bytes - at)
        length = size_bytes - at;
    switch (random_below(7)) {
    case 0:
        input[at] ^= (uint8_t)(1u << random_below(8));
        return size_bytes;
    case 1:
        input[at] = (uint8_t)random_u64();
        return size_bytes;
    case 2:
        overwrite_number(input, size_bytes);
        return size_bytes;
    case 3: /* cut the end off */
        return at;
    case 4: /* take a run out */
        memmove(input + at, input + at + length, size_bytes - at - length);
        return size_bytes - length;
    case 5: /* double a run */
        if (size_bytes + length > INPUT_BYTES_MAX)
            return size_bytes;
        memmove(input + at + length, input + at, size_bytes - at);
        return size_bytes + length;
    default: { /* a run of another seed */
        size_t other = random_below(seeds->count), from = random_below(seeds->size_bytes[other]);
        for (size_t i = 0; i < length && from + i < seeds->size_bytes[other]; i++)
            input[at + i] = seeds->data[other][from + i];
        return size_bytes;
    }
    }
}

static void run(const uint8_t *data, size_t size_bytes)
{
    const char *crash = getenv("ORK_FUZZ_CRASH");
    if (crash) {
        FILE *file = fopen(crash, "wb");
        if (file) {
            fwrite(data, 1, size_bytes, file);
            fclose(file);
        }
    }
    /* An exact copy, so that one byte read too far is seen. */
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size_bytes);
    LLVMFuzzerTestOneInput(copy, size_bytes);
    free(copy);
}

int main(int argc, char **argv)
{
    static uint8_t input[INPUT_BYTES_MAX];
    struct seeds seeds = {0};
    long iterations = argc > 1 ? strtol(argv[1], NULL, 10) : 300000;
    fuzz_seeds(add_seed, &seeds);
    for (int i = 2; i < argc; i++)
        add_file(&seeds, argv[i]);
    for (size_t i = 0; i < seeds.count; i++)
        run(seeds.data[i], seeds.size_bytes[i]);
    for (long i = 0; i < iterations && seeds.count; i++) {
        size_t seed = random_below(seeds.count), size_bytes = seeds.size_bytes[seed];
        memcpy(input, seeds.data[seed], size_bytes);
        for (size_t edits = 1 + random_below(EDITS_MAX); edits > 0; edits--)
            size_bytes = edit(input, size_bytes, &seeds);
        run(input, size_bytes);
    }
    printf("%zu seeds, %ld mutated inputs\n", seeds.count, iterations);
    for (size_t i = 0; i < seeds.count; i++)
        free(seeds.data[i]);
    return 0;
}
