/* Fuzz target of the orkpack reader. The header's checksum is made right before parsing, because no fuzzer would guess
 * it and everything behind it would stay unseen. Inputs shorter than a page are a pack folded up: the used part of the
 * header, then metadata and index; they are unfolded here, so that most changes hit bytes that mean something. */
#include "format/fuzz.h"
#include "format/orkpack_sample.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void exercise(const ork_orkpack *pack)
{
    volatile uint8_t seen = 0;
    ork_error error;
    for (size_t i = 0; i < ork_orkpack_tensor_count(pack); i++) {
        const struct ork_orkpack_tensor *tensor = ork_orkpack_tensor_at(pack, i);
        REQUIRE(ork_orkpack_tensor_find(pack, tensor->name) == tensor);
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++) {
            const uint8_t *data = ork_orkpack_plane_data(pack, tensor, (enum ork_plane_kind)kind);
            const struct ork_orkpack_plane *plane = &tensor->planes[kind];
            ork_orkpack_verify_plane(pack, tensor, (enum ork_plane_kind)kind, &error);
            if (data == NULL)
                continue;
            seen = (uint8_t)(seen + data[0] + data[plane->size_bytes - 1]);
            seen = (uint8_t)(seen + data[plane->expert_stride_bytes * (tensor->dimensions[2] - 1)]);
        }
    }
    for (size_t i = 0; i < ork_meta_count(ork_orkpack_meta(pack)); i++)
        REQUIRE(ork_meta_at(ork_orkpack_meta(pack), i) != NULL);
}

enum { FILE_BYTES = 40960, FRONT_BYTES = 4096 };

/* The file that an input stands for, in memory of exactly its size. */
static uint8_t *unfold(const uint8_t *data, size_t size_bytes, size_t *file_bytes)
{
    bool folded = size_bytes > FIELD_RESERVED && size_bytes < FRONT_BYTES;
    *file_bytes = folded ? FILE_BYTES : size_bytes;
    uint8_t *file = calloc(*file_bytes + 1, 1);
    REQUIRE(file != NULL);
    if (folded) {
        memcpy(file, data, FIELD_RESERVED);
        memcpy(file + FRONT_BYTES, data + FIELD_RESERVED, size_bytes - FIELD_RESERVED);
    } else if (size_bytes != 0) {
        memcpy(file, data, size_bytes);
    }
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    ork_orkpack *pack = NULL;
    ork_error error = {0};
    uint8_t *file = unfold(data, size_bytes, &size_bytes);
    sample_repair_checksum(file, size_bytes);
    ork_status status = ork_orkpack_parse(file, size_bytes, "fuzz", &pack, &error);
    REQUIRE((status == ORK_OK) == (pack != NULL));
    if (pack != NULL)
        exercise(pack);
    else
        REQUIRE(error.code == status && error.what[0] != 0);
    ork_orkpack_close(pack);
    free(file);
    return 0;
}

void fuzz_seeds(void (*add)(void *context, const void *data, size_t size_bytes), void *context)
{
    size_t size;
    uint8_t *bytes = sample_bytes(&size);
    add(context, bytes, size);
    memmove(bytes + FIELD_RESERVED, bytes + FRONT_BYTES, 128 + 3 * ENTRY_BYTES);
    add(context, bytes, FIELD_RESERVED + 128 + 3 * ENTRY_BYTES);
    free(bytes);
}
