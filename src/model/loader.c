/* Owns typed, shape-checked access to a pack's metadata and tensors; must not know what a forward pass does with them. */
#include "model/loader.h"

#include "base/error.h"
#include "quant/nested.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 128 };

static bool failed(const struct ork_loader *loader)
{
    return loader->status != ORK_OK;
}

static void full_key(const struct ork_loader *loader, const char *key, char out[static NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s.%s", loader->architecture, key);
}

static uint32_t load_u32(struct ork_loader *loader, const char *key, bool required, uint32_t value)
{
    char name[NAME_BYTES];
    full_key(loader, key, name);
    if (!failed(loader))
        loader->status = ork_meta_u32(loader->meta, name, required, &value, loader->error);
    return value;
}

static float load_f32(struct ork_loader *loader, const char *key, bool required, float value)
{
    char name[NAME_BYTES];
    full_key(loader, key, name);
    if (!failed(loader))
        loader->status = ork_meta_f32(loader->meta, name, required, &value, loader->error);
    return value;
}

uint32_t ork_load_u32(struct ork_loader *loader, const char *key, uint32_t value)
{
    return load_u32(loader, key, false, value);
}

float ork_load_f32(struct ork_loader *loader, const char *key, float value)
{
    return load_f32(loader, key, false, value);
}

uint32_t ork_load_required_u32(struct ork_loader *loader, const char *key)
{
    return load_u32(loader, key, true, 0);
}

float ork_load_required_f32(struct ork_loader *loader, const char *key)
{
    return load_f32(loader, key, true, 0.0f);
}

void ork_load_u32_layers(struct ork_loader *loader, const char *key, bool required, uint32_t value, uint32_t *values)
{
    char name[NAME_BYTES];
    uint32_t layers = loader->model->hp.layers;
    full_key(loader, key, name);
    for (uint32_t i = 0; i < layers; i++)
        values[i] = value;
    if (!failed(loader))
        loader->status = ork_meta_u32_array(loader->meta, name, required, values, layers, loader->error);
}

void ork_load_check(struct ork_loader *loader, bool condition, const char *format, ...)
{
    if (failed(loader) || condition)
        return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    loader->status = ork_error_set(loader->error, ORK_BAD_FILE, ork_orkpack_path(loader->model->pack), -1, "%s", text);
}

static const struct ork_orkpack_tensor *find(const struct ork_loader *loader, const char *format, va_list arguments,
                                             char name[static NAME_BYTES])
{
    vsnprintf(name, NAME_BYTES, format, arguments);
    return ork_orkpack_tensor_find(loader->model->pack, name);
}

bool ork_load_has(const struct ork_loader *loader, const char *name_format, ...)
{
    char name[NAME_BYTES];
    va_list arguments;
    va_start(arguments, name_format);
    bool found = find(loader, name_format, arguments, name) != NULL;
    va_end(arguments);
    return found;
}

/* Checks presence and shape; marks the tensor as used. */
static bool fill_matrix(struct ork_loader *loader, const struct ork_orkpack_tensor *tensor, const char *name,
                        uint32_t n, uint32_t k, uint32_t experts, struct ork_matrix *matrix)
{
    const char *path = ork_orkpack_path(loader->model->pack);
    if (!tensor) {
        loader->status = ork_error_set(loader->error, ORK_BAD_FILE, path, -1, "tensor %s is missing", name);
        return false;
    }
    const uint64_t *have = tensor->dimensions;
    if (have[0] != k || have[1] != n || have[2] != experts || have[3] != 1) {
        loader->status =
            ork_error_set(loader->error, ORK_BAD_FILE, path, -1,
                          "tensor %s has shape %llu x %llu x %llu x %llu, the architecture needs %u x %u x %u", name,
                          (unsigned long long)have[0], (unsigned long long)have[1], (unsigned long long)have[2],
                          (unsigned long long)have[3], k, n, experts);
        return false;
    }
    loader->status = ork_matrix_from_pack(loader->model->pack, tensor, matrix, loader->error);
    if (failed(loader))
        return false;
    if (loader->base_alone && matrix->tier == ORK_TIER_N8)
        *matrix = ork_nested_base(matrix);
    if (k > ORK_MATMUL_K_MAX) {
        loader->status = ork_error_set(loader->error, ORK_UNSUPPORTED, path, -1,
                                       "tensor %s has %u inputs, at most %u run", name, k, ORK_MATMUL_K_MAX);
        return false;
    }
    for (size_t i = 0, count = ork_orkpack_tensor_count(loader->model->pack); i < count; i++)
        if (ork_orkpack_tensor_at(loader->model->pack, i) == tensor)
            loader->used[i] = true;
    return true;
}

/* An optional tensor that is absent gives false without an error. */
static bool read_matrix(struct ork_loader *loader, uint32_t n, uint32_t k, uint32_t experts, bool optional,
                        struct ork_matrix *matrix, const char *name_format, va_list arguments)
{
    char name[NAME_BYTES];
    *matrix = (struct ork_matrix){0};
    if (failed(loader))
        return false;
    const struct ork_orkpack_tensor *tensor = find(loader, name_format, arguments, name);
    if (!tensor && optional)
        return false;
    return fill_matrix(loader, tensor, name, n, k, experts, matrix);
}

struct ork_matrix ork_load_matrix(struct ork_loader *loader, uint32_t n, uint32_t k, const char *name_format, ...)
{
    struct ork_matrix matrix;
    va_list arguments;
    va_start(arguments, name_format);
    read_matrix(loader, n, k, 1, false, &matrix, name_format, arguments);
    va_end(arguments);
    return matrix;
}

struct ork_matrix ork_load_experts(struct ork_loader *loader, uint32_t n, uint32_t k, uint32_t experts,
                                   const char *name_format, ...)
{
    struct ork_matrix matrix;
    va_list arguments;
    va_start(arguments, name_format);
    read_matrix(loader, n, k, experts, false, &matrix, name_format, arguments);
    va_end(arguments);
    return matrix;
}

/* f32 rows are used in place; other tiers (a packing rule may have asked for them) are decoded once. */
static const float *matrix_floats(struct ork_loader *loader, const struct ork_matrix *matrix)
{
    if (matrix->tier == ORK_TIER_F32)
        return (const float *)matrix->data;
    float *floats = ork_arena_array(&loader->model->arena, (uint64_t)matrix->n * matrix->k, sizeof *floats);
    if (!floats) {
        loader->status =
            ork_error_no_memory(loader->error, matrix->name, (uint64_t)matrix->n * matrix->k * sizeof *floats);
        return NULL;
    }
    for (uint32_t channel = 0; channel < matrix->n; channel++)
        ork_matrix_decode_row(matrix, 0, channel, floats + (uint64_t)channel * matrix->k);
    return floats;
}

const float *ork_load_floats(struct ork_loader *loader, uint32_t n, uint32_t k, const char *name_format, ...)
{
    struct ork_matrix matrix;
    va_list arguments;
    va_start(arguments, name_format);
    bool found = read_matrix(loader, n, k, 1, false, &matrix, name_format, arguments);
    va_end(arguments);
    return found ? matrix_floats(loader, &matrix) : NULL;
}

const float *ork_load_optional_vector(struct ork_loader *loader, uint32_t k, const char *name_format, ...)
{
    struct ork_matrix matrix;
    va_list arguments;
    va_start(arguments, name_format);
    bool found = read_matrix(loader, 1, k, 1, true, &matrix, name_format, arguments);
    va_end(arguments);
    return found ? matrix_floats(loader, &matrix) : NULL;
}
