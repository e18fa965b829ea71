/* Importance matrices of llama.cpp: E[x^2] per input of a weight, in the GGUF form and in the older .dat form. Owns both
 * layouts (facts on GGUF 7.2 and 7.3); knows nothing of tiers. */
#include "pack/pack.h"

#include "base/checked.h"
#include "base/cursor.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ENTRIES_MAX (1u << 20)
#define ENTRY_BYTES_MIN 12u /* legacy: three lengths */
#define NAME_BYTES_MAX 256u

struct imatrix_entry {
    const char *name;
    const uint8_t *sums; /* [value_count] f32, little-endian, perhaps unaligned */
    uint64_t value_count;
    const uint8_t *counts; /* GGUF: [expert_count] f32; legacy: NULL */
    uint64_t expert_count; /* GGUF: rows of counts; legacy: 1 */
    float divisor;         /* legacy: ncall */
};

struct ork_imatrix {
    char *path;
    struct ork_mapping mapping; /* legacy */
    ork_gguf *gguf;             /* GGUF form */
    struct ork_arena arena;
    struct imatrix_entry *entries; /* sorted by name */
    size_t entry_count;
    uint64_t hash;
};

static float read_f32(const uint8_t *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct imatrix_entry *)a)->name, ((const struct imatrix_entry *)b)->name);
}

/* ---- the older form: i32 n; n times {i32 length, name, i32 ncall, i32 nval, f32[nval]} ---- */

static ork_status read_legacy_entry(ork_imatrix *imatrix, struct ork_cursor *cursor, ork_error *error)
{
    struct imatrix_entry *entry = &imatrix->entries[imatrix->entry_count];
    int64_t offset = (int64_t)cursor->position;
    uint32_t name_length, calls, values;
    const uint8_t *name;

    if (!ork_cursor_u32(cursor, &name_length) || name_length == 0 || name_length > NAME_BYTES_MAX ||
        (name = ork_cursor_take(cursor, name_length)) == NULL || memchr(name, 0, name_length) != NULL ||
        !ork_cursor_u32(cursor, &calls) || !ork_cursor_u32(cursor, &values) || calls == 0 || calls > INT32_MAX ||
        values == 0 || (entry->sums = ork_cursor_take(cursor, (uint64_t)values * sizeof(float))) == NULL)
        return ork_error_set(error, ORK_BAD_FILE, imatrix->path, offset,
                             "importance matrix: entry %zu is malformed or cut off", imatrix->entry_count);
    entry->name = ork_arena_string(&imatrix->arena, (const char *)name, name_length);
    if (entry->name == NULL)
        return ork_error_no_memory(error, imatrix->path, name_length);
    entry->value_count = values;
    entry->expert_count = 1;
    entry->divisor = (float)calls;
    imatrix->entry_count++;
    return ORK_OK;
}

static ork_status read_legacy(ork_imatrix *imatrix, ork_error *error)
{
    struct ork_cursor cursor = ork_cursor_make(imatrix->mapping.data, imatrix->mapping.size_bytes);
    uint32_t count;
    ork_status status = ORK_OK;

    if (!ork_cursor_u32(&cursor, &count) || count == 0 || count > ENTRIES_MAX ||
        count > ork_cursor_left(&cursor) / ENTRY_BYTES_MIN)
        return ork_error_set(error, ORK_BAD_FILE, imatrix->path, 0,
                             "neither a GGUF nor an importance matrix in the older form");
    imatrix->entries = ork_arena_array(&imatrix->arena, count, sizeof(*imatrix->entries));
    if (imatrix->entries == NULL)
        return ork_error_no_memory(error, imatrix->path, count * sizeof(*imatrix->entries));
    while (imatrix->entry_count < count && status == ORK_OK)
        status = read_legacy_entry(imatrix, &cursor, error);
    imatrix->hash = XXH3_64bits(imatrix->mapping.data, imatrix->mapping.size_bytes);
    return status;
}

/* ---- the GGUF form: tensors NAME.in_sum2 {k, experts} and NAME.counts {1, experts} ---- */

static ork_status add_gguf_entry(ork_imatrix *imatrix, const struct ork_gguf_tensor *sums, ork_error *error)
{
    static const char sums_suffix[] = ".in_sum2", counts_suffix[] = ".counts";
    struct imatrix_entry *entry = &imatrix->entries[imatrix->entry_count];
    const struct ork_gguf_tensor *counts;
    size_t length = strlen(sums->name), suffix = sizeof(sums_suffix) - 1;
    char name[NAME_BYTES_MAX];

    if (length <= suffix || strcmp(sums->name + length - suffix, sums_suffix) != 0)
        return ORK_OK; /* counts, or a kind of a later version */
    length -= suffix;
    snprintf(name, sizeof(name), "%.*s%s", (int)length, sums->name, counts_suffix);
    counts = ork_gguf_tensor_find(imatrix->gguf, name);
    if (sums->type != ORK_GGML_F32 || counts == NULL || counts->type != ORK_GGML_F32 || counts->dimensions[0] != 1 ||
        counts->dimensions[1] != sums->dimensions[1] || counts->dimensions[2] != 1 || counts->dimensions[3] != 1 ||
        sums->dimensions[2] != 1 || sums->dimensions[3] != 1)
        return ork_error_set(error, ORK_BAD_FILE, imatrix->path, (int64_t)sums->offset_bytes,
                             "importance matrix: %s is not f32 or has no counts of its shape", sums->name);
    *entry = (struct imatrix_entry){
        .name = ork_arena_string(&imatrix->arena, sums->name, length),
        .sums = sums->data,
        .value_count = sums->dimensions[0] * sums->dimensions[1],
        .counts = counts->data,
        .expert_count = sums->dimensions[1],
    };
    if (entry->name == NULL)
        return ork_error_no_memory(error, imatrix->path, length);
    imatrix->hash ^= XXH3_64bits_withSeed(sums->data, sums->size_bytes, XXH3_64bits(sums->name, strlen(sums->name)));
    imatrix->hash ^= XXH3_64bits_withSeed(counts->data, counts->size_bytes, XXH3_64bits(name, strlen(name)));
    imatrix->entry_count++;
    return ORK_OK;
}

static ork_status read_gguf(ork_imatrix *imatrix, ork_error *error)
{
    const char *type = NULL;
    uint64_t type_length = 0;
    size_t count;
    ork_status status = ork_gguf_open(imatrix->path, &imatrix->gguf, error);

    if (status != ORK_OK)
        return status;
    status = ork_meta_string(ork_gguf_meta(imatrix->gguf), "general.type", true, &type, &type_length, error);
    if (status != ORK_OK)
        return status;
    if (type_length != 7 || memcmp(type, "imatrix", 7) != 0)
        return ork_error_set(error, ORK_BAD_FILE, imatrix->path, -1,
                             "this GGUF is not an importance matrix (general.type is \"%.*s\")",
                             (int)(type_length < 32 ? type_length : 32), type);
    count = ork_gguf_tensor_count(imatrix->gguf);
    imatrix->entries = ork_arena_array(&imatrix->arena, count + 1, sizeof(*imatrix->entries));
    if (imatrix->entries == NULL)
        return ork_error_no_memory(error, imatrix->path, count * sizeof(*imatrix->entries));
    for (size_t i = 0; i < count && status == ORK_OK; i++)
        status = add_gguf_entry(imatrix, ork_gguf_tensor_at(imatrix->gguf, i), error);
    return status;
}

/* ---- use ---- */

ork_status ork_imatrix_open(const char *path, ork_imatrix **out, ork_error *error)
{
    ork_imatrix *imatrix = calloc(1, sizeof(*imatrix));
    ork_status status;

    *out = NULL;
    if (imatrix == NULL || (imatrix->path = strdup(path)) == NULL) {
        free(imatrix);
        return ork_error_no_memory(error, path, sizeof(*imatrix));
    }
    if ((status = ork_file_map(path, &imatrix->mapping, error)) != ORK_OK)
        goto out;
    if (imatrix->mapping.size_bytes >= 4 && memcmp(imatrix->mapping.data, "GGUF", 4) == 0)
        status = read_gguf(imatrix, error);
    else
        status = read_legacy(imatrix, error);
    if (status != ORK_OK)
        goto out;
    qsort(imatrix->entries, imatrix->entry_count, sizeof(*imatrix->entries), compare_entries);
    for (size_t i = 1; i < imatrix->entry_count; i++)
        if (strcmp(imatrix->entries[i - 1].name, imatrix->entries[i].name) == 0) {
            status = ork_error_set(error, ORK_BAD_FILE, path, -1, "importance matrix: two entries are named %s",
                                   imatrix->entries[i].name);
            goto out;
        }
out:
    if (status == ORK_OK)
        *out = imatrix;
    else
        ork_imatrix_close(imatrix);
    return status;
}

void ork_imatrix_close(ork_imatrix *imatrix)
{
    if (imatrix == NULL)
        return;
    ork_gguf_close(imatrix->gguf);
    ork_mapping_release(&imatrix->mapping);
    ork_arena_free(&imatrix->arena);
    free(imatrix->path);
    free(imatrix);
}

size_t ork_imatrix_entry_count(const ork_imatrix *imatrix)
{
    return imatrix->entry_count;
}

uint64_t ork_imatrix_hash(const ork_imatrix *imatrix)
{
    return imatrix->hash;
}

static const struct imatrix_entry *find_entry(const ork_imatrix *imatrix, const char *name)
{
    struct imatrix_entry key = {.name = name};
    return bsearch(&key, imatrix->entries, imatrix->entry_count, sizeof(key), compare_entries);
}

/* One expert's vector scaled to mean 1; false when it is all zero or was never reached. */
static bool fill_expert(const uint8_t *sums, uint64_t k, float divisor, float *out)
{
    double total = 0.0;

    if (!(divisor > 0.0f))
        return false;
    for (uint64_t i = 0; i < k; i++) {
        out[i] = read_f32(sums + i * sizeof(float)) / divisor;
        total += out[i];
    }
    if (!(total > 0.0))
        return false;
    for (uint64_t i = 0; i < k; i++)
        out[i] = (float)(out[i] * ((double)k / total));
    return true;
}

ork_status ork_imatrix_fill(const ork_imatrix *imatrix, const char *name, uint64_t k, uint64_t experts, float *out,
                            uint64_t *neutral_count, ork_error *error)
{
    const struct imatrix_entry *entry = find_entry(imatrix, name);

    *neutral_count = 0;
    if (entry != NULL &&
        (entry->value_count != k * experts || (entry->counts != NULL && entry->expert_count != experts)))
        return ork_error_set(
            error, ORK_BAD_FILE, imatrix->path, -1, "importance of %s has %llu values, the weight needs %llu x %llu",
            name, (unsigned long long)entry->value_count, (unsigned long long)k, (unsigned long long)experts);
    if (entry != NULL)
        for (uint64_t i = 0; i < entry->value_count; i++) {
            float value = read_f32(entry->sums + i * sizeof(float));
            if (!(value >= 0.0f) || !isfinite(value))
                return ork_error_set(error, ORK_BAD_FILE, imatrix->path, -1,
                                     "importance of %s: value %llu is negative or not finite", name,
                                     (unsigned long long)i);
        }
    for (uint64_t expert = 0; expert < experts; expert++) {
        float divisor = entry == NULL           ? 0.0f
                        : entry->counts == NULL ? entry->divisor
                                                : read_f32(entry->counts + expert * sizeof(float));
        if (entry != NULL && isfinite(divisor) &&
            fill_expert(entry->sums + expert * k * sizeof(float), k, divisor, out + expert * k))
            continue;
        for (uint64_t i = 0; i < k; i++)
            out[expert * k + i] = 1.0f;
        ++*neutral_count;
    }
    return ORK_OK;
}
