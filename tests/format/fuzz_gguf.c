/* Fuzz target of the GGUF reader: libFuzzer calls it where the compiler has it, fuzz_replay.c everywhere. */
#include "format/fuzz.h"
#include "format/gguf_exercise.h"
#include "format/gguf_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    ork_gguf *gguf = NULL;
    ork_error error = {0};
    ork_status status = ork_gguf_parse(data, size_bytes, "fuzz", &gguf, &error);
    GGUF_REQUIRE((status == ORK_OK) == (gguf != NULL));
    if (gguf)
        gguf_exercise(gguf);
    else
        GGUF_REQUIRE(error.code == status && error.what[0] != 0);
    ork_gguf_close(gguf);
    return 0;
}

void fuzz_seeds(void (*add)(void *context, const void *data, size_t size_bytes), void *context)
{
    for (uint32_t version = 2; version <= 3; version++) {
        struct ork_buffer file = gguf_sample_file(version);
        add(context, file.data, file.size_bytes);
        ork_buffer_free(&file);
    }
    /* Small ones, in which a change is more likely to hit a length or a type. */
    struct gguf_builder b;
    gguf_builder_init(&b);
    gguf_builder_alignment(&b, 8);
    gguf_builder_strings(&b, "s", (const char *const[]){"a", "bc"}, 2);
    gguf_builder_tensor(&b, "t", ORK_GGML_Q4_0, 2, (uint64_t[]){32, 2}, NULL, 36);
    gguf_builder_tensor(&b, "u", ORK_GGML_F32, 1, (uint64_t[]){3}, NULL, 12);
    struct ork_buffer file = gguf_builder_finish(&b);
    add(context, file.data, file.size_bytes);
    ork_buffer_free(&file);
    gguf_builder_free(&b);
}
