/* Guards that the same input gives the same bytes on every machine: checksums of all planes of two tiny models in every
 * tier, as they came out on x86-64. A change of the encoder that is meant changes them, and then also
 * ENCODER_REVISION in src/pack/plan.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/orkpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const struct {
    const char *model, *tier;
    uint64_t expected;
} cases[] = {
    {"lfm2moe", "f32", UINT64_C(0xfc5d9c016c5098ef)},
    {"lfm2moe", "f16", UINT64_C(0x43edfffd7bde3ebc)},
    {"lfm2moe", "bf16", UINT64_C(0xed4bd5e0bfb5e887)},
    {"lfm2moe", "g8", UINT64_C(0x69c16700de965e01)},
    {"lfm2moe", "i8", UINT64_C(0x01dab57a859bb730)},
    {"lfm2moe", "i4", UINT64_C(0x99612b8595377555)},
    {"lfm2moe", "nf4", UINT64_C(0x9f97b304a8cd8e4f)},
    {"lfm2moe", "auto", UINT64_C(0x11a263210ac7ea17)},
    {"lfm2moe", "i5", UINT64_C(0x469957fb0a7e104f)},
    {"lfm2moe", "i6", UINT64_C(0xc19369d4ba0d8565)},
    {"lfm2moe", "n8", UINT64_C(0xbdc98a8bcad34dae)},
    {"qwen3", "n8", UINT64_C(0xc497ce326652f570)},
    {"qwen3", "f32", UINT64_C(0x2b0291c2203278f4)},
    {"qwen3", "f16", UINT64_C(0x09d796d426dee68b)},
    {"qwen3", "bf16", UINT64_C(0x7cfb59874ada31b7)},
    {"qwen3", "g8", UINT64_C(0xd3cb2e083c030a9c)},
    {"qwen3", "i8", UINT64_C(0x9990243453723b88)},
    {"qwen3", "i4", UINT64_C(0x007f28919412115f)},
    {"qwen3", "nf4", UINT64_C(0x60c741365bbb0ab5)},
    {"qwen3", "auto", UINT64_C(0x9990243453723b88)},
    {"qwen3", "i5", UINT64_C(0xccf4bd87e2625428)},
    {"qwen3", "i6", UINT64_C(0x315e230b15ea0a35)},
};

/* XXH3 of the checksums of all planes in index order. */
static uint64_t hash_of(const char *model, const char *tier)
{
    char directory[] = "/tmp/ork-test-XXXXXX", source[512], path[96];
    ork_error error = {0};
    ork_orkpack *pack;
    struct ork_buffer checksums = {0};
    assert_non_null(mkdtemp(directory));
    snprintf(source, sizeof source, "%s/tests/compat/tiny/%s.gguf", ORK_SOURCE_DIR, model);
    snprintf(path, sizeof path, "%s/p.orkpack", directory);
    const ork_pack_params params = {.default_tier = tier, .threads = 2};
    if (ork_pack_file(source, path, &params, NULL, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    assert_int_equal(ork_orkpack_open(path, ORK_LOAD_MAP, NULL, NULL, &pack, &error), ORK_OK);
    for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++)
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
            ork_buffer_u64(&checksums, ork_orkpack_tensor_at(pack, i)->planes[kind].checksum);
    uint64_t hash = XXH3_64bits(checksums.data, checksums.size_bytes);
    ork_buffer_free(&checksums);
    ork_orkpack_close(pack);
    unlink(path);
    rmdir(directory);
    return hash;
}

static void test_same_bytes(void **state)
{
    (void)state;
    int different = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t found = hash_of(cases[i].model, cases[i].tier);
        if (found != cases[i].expected) {
            print_error("    {\"%s\", \"%s\", UINT64_C(0x%016" PRIx64 ")},\n", cases[i].model, cases[i].tier, found);
            different++;
        }
    }
    assert_int_equal(different, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
