/* Owns shape files: their keys and bounds. Must not know op groups or speeds. */
#include "sched/shape.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

#define SHAPE_VERSION 1
#define SHAPE_BYTES_MAX (64u << 10)

extern const unsigned char ork_shape_lfm2_5_8b_a1b[], ork_shape_qwen3_6_35b_a3b[], ork_shape_qwen3_30b_a3b[];
extern const unsigned long ork_shape_lfm2_5_8b_a1b_bytes, ork_shape_qwen3_6_35b_a3b_bytes,
    ork_shape_qwen3_30b_a3b_bytes;

static const char *const shape_names[] = {"lfm2.5-8b-a1b", "qwen3.6-35b-a3b", "qwen3-30b-a3b", NULL};

const char *const *ork_shape_names(void)
{
    return shape_names;
}

struct number {
    const char *section, *key; /* section NULL: at the top */
    double low, high;
    size_t offset; /* of a uint32_t in the shape */
    bool optional; /* 0 when its section is missing */
};
#define AT(field) offsetof(struct ork_shape, field)

/* Bounds keep every product below within 64 bits. */
static const struct number numbers[] = {
    {NULL, "layers", 1, ORK_SHAPE_LAYERS_MAX, AT(layers), false},
    {NULL, "width", 32, 65536, AT(width), false},
    {NULL, "vocabulary", 32, 1 << 20, AT(vocabulary), false},
    {NULL, "context_max", 1, 1 << 24, AT(context_max), false},
    {"attention", "heads", 1, 512, AT(heads), true},
    {"attention", "heads_kv", 1, 512, AT(heads_kv), true},
    {"attention", "head_width", 8, 1024, AT(head_width), true},
    {"convolution", "length", 1, 64, AT(convolution_length), true},
    {"delta", "key_heads", 1, 512, AT(delta_key_heads), true},
    {"delta", "value_heads", 1, 512, AT(delta_value_heads), true},
    {"delta", "head_width", 8, 1024, AT(delta_head_width), true},
    {"delta", "length", 1, 64, AT(delta_length), true},
    {"dense", "layers", 0, ORK_SHAPE_LAYERS_MAX, AT(dense_layers), true},
    {"dense", "width", 0, 1 << 18, AT(dense_width), true},
    {"experts", "count", 1, 1024, AT(experts), true},
    {"experts", "used", 1, 64, AT(experts_used), true},
    {"experts", "width", 32, 65536, AT(expert_width), true},
    {"experts", "shared_width", 0, 65536, AT(shared_width), true},
};
enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

static const struct {
    const char *name;
    const char *const *keys;
} sections[] = {
    {NULL, (const char *const[]){"format", "version", "name", "source", "layers", "width", "vocabulary", "context_max",
                                 "attention", "convolution", "delta", "dense", "experts", "tiers", "gguf_bits", NULL}},
    {"attention", (const char *const[]){"layers", "heads", "heads_kv", "head_width", "gated", NULL}},
    {"convolution", (const char *const[]){"length", NULL}},
    {"delta", (const char *const[]){"key_heads", "value_heads", "head_width", "length", NULL}},
    {"dense", (const char *const[]){"layers", "width", NULL}},
    {"experts", (const char *const[]){"count", "used", "width", "shared_width", NULL}},
    {"tiers", (const char *const[]){"mixer", "dense", "experts", "shared", "head", NULL}},
    {"gguf_bits", (const char *const[]){"layers", "head", NULL}},
};
enum { SECTION_COUNT = sizeof sections / sizeof sections[0] };

static ork_status refuse(ork_error *error, const char *where, const char *section, const char *key, const char *what)
{
    return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s%s%s: %s", section ? section : "", section ? "." : "", key,
                         what);
}

/* Unknown keys are refused: a misspelt one would silently mean 0. */
static ork_status keys_check(json_t *root, const char *where, ork_error *error)
{
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        json_t *object = sections[i].name ? json_object_get(root, sections[i].name) : root;
        if (!object)
            continue;
        if (!json_is_object(object))
            return refuse(error, where, NULL, sections[i].name ? sections[i].name : "shape", "is not an object");
        const char *key;
        json_t *value;
        json_object_foreach(object, key, value)
        {
            size_t k = 0;
            while (sections[i].keys[k] && strcmp(sections[i].keys[k], key) != 0)
                k++;
            if (!sections[i].keys[k])
                return refuse(error, where, sections[i].name, key, "unknown key");
        }
    }
    return ORK_OK;
}

static ork_status numbers_read(const json_t *root, const char *where, struct ork_shape *shape, ork_error *error)
{
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        const struct number *number = &numbers[i];
        const json_t *object = number->section ? json_object_get(root, number->section) : root;
        if (!object && number->optional)
            continue;
        const json_t *json = json_object_get(object, number->key);
        if (!json_is_integer(json))
            return refuse(error, where, number->section, number->key, "missing or not a whole number");
        const double value = (double)json_integer_value(json);
        if (!(value >= number->low && value <= number->high))
            return ork_error_set(error, ORK_BAD_FILE, where, -1, "%s%s%s is %.0f, must be %.0f to %.0f",
                                 number->section ? number->section : "", number->section ? "." : "", number->key, value,
                                 number->low, number->high);
        *(uint32_t *)(void *)((char *)shape + number->offset) = (uint32_t)value;
    }
    return ORK_OK;
}

static ork_status mixers_read(const json_t *root, const char *where, struct ork_shape *shape, ork_error *error)
{
    const json_t *attention = json_object_get(root, "attention"), *layers = json_object_get(attention, "layers"),
                 *gated = json_object_get(attention, "gated");
    const bool has_convolution = shape->convolution_length != 0, has_delta = shape->delta_length != 0;
    if (has_convolution && has_delta)
        return refuse(error, where, NULL, "delta", "beside a convolution: layers that are no attention have one kind");
    if (attention && (!json_is_array(layers) || !json_is_boolean(gated)))
        return refuse(error, where, "attention", "layers, gated", "a list and true or false are needed");
    memset(shape->mixer, has_delta ? ORK_SHAPE_DELTA : ORK_SHAPE_CONVOLUTION, sizeof shape->mixer);
    shape->gated = json_is_true(gated);
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *item = json_array_get(layers, i);
        const json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= shape->layers)
            return refuse(error, where, "attention", "layers", "holds what is no layer's number");
        count += shape->mixer[layer] != ORK_SHAPE_ATTENTION;
        shape->mixer[layer] = ORK_SHAPE_ATTENTION;
    }
    if (count < shape->layers && !has_convolution && !has_delta)
        return refuse(error, where, "attention", "layers", "does not name all layers, and there is no other kind");
    if (attention && shape->heads % shape->heads_kv)
        return refuse(error, where, "attention", "heads_kv", "does not divide heads");
    if (has_delta && shape->delta_value_heads % shape->delta_key_heads)
        return refuse(error, where, "delta", "key_heads", "does not divide value_heads");
    return ORK_OK;
}

static ork_status feeds_check(const char *where, const struct ork_shape *shape, ork_error *error)
{
    if (shape->dense_layers > shape->layers || (!shape->experts && shape->dense_layers < shape->layers))
        return refuse(error, where, "dense", "layers", "more than there are, or layers without any feed forward part");
    if (shape->dense_layers && !shape->dense_width)
        return refuse(error, where, "dense", "width", "is 0");
    if (shape->experts_used > shape->experts)
        return refuse(error, where, "experts", "used", "more than there are");
    return ORK_OK;
}

static ork_status bits_read(const json_t *root, const char *key, const char *where, double *bits, ork_error *error)
{
    const json_t *value = json_object_get(json_object_get(root, "gguf_bits"), key);
    *bits = json_is_number(value) ? json_number_value(value) : 0;
    if (!(*bits >= 1 && *bits <= 32))
        return refuse(error, where, "gguf_bits", key, "must be a number from 1 to 32");
    return ORK_OK;
}

static ork_status tiers_read(const json_t *root, const char *where, struct ork_shape *shape, ork_error *error)
{
    static const struct {
        const char *key;
        enum ork_shape_role role;
    } roles[] = {{"mixer", ORK_SHAPE_MIXER},
                 {"dense", ORK_SHAPE_DENSE},
                 {"experts", ORK_SHAPE_EXPERT},
                 {"shared", ORK_SHAPE_SHARED},
                 {"head", ORK_SHAPE_HEAD}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *name = json_string_value(json_object_get(json_object_get(root, "tiers"), roles[i].key));
        const struct ork_tier_info *info = name ? ork_tier_find_name(name) : NULL;
        if (!info)
            return refuse(error, where, "tiers", roles[i].key, "missing or not the name of a tier");
        shape->tier[roles[i].role] = info->tier;
    }
    shape->tier[ORK_SHAPE_ROUTER] = ORK_TIER_F32;
    ork_status status = bits_read(root, "layers", where, &shape->gguf_bits_layers, error);
    return status == ORK_OK ? bits_read(root, "head", where, &shape->gguf_bits_head, error) : status;
}

static ork_status head_read(const json_t *root, const char *where, struct ork_shape *shape, ork_error *error)
{
    const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version"),
                 *name = json_object_get(root, "name");
    if (!json_is_string(format) || strcmp(json_string_value(format), "ork-shape") != 0)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "not a shape file: format is not \"ork-shape\"");
    if (!json_is_integer(version) || json_integer_value(version) != SHAPE_VERSION)
        return ork_error_set(error, ORK_UNSUPPORTED, where, -1, "version is not %d", SHAPE_VERSION);
    const size_t length = json_is_string(name) ? json_string_length(name) : 0;
    if (length < 1 || length >= sizeof shape->name)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "name: must be a text of 1 to %zu bytes",
                             sizeof shape->name - 1);
    if (!json_is_string(json_object_get(root, "source")))
        return refuse(error, where, NULL, "source", "is missing");
    memcpy(shape->name, json_string_value(name), length + 1);
    return ORK_OK;
}

ork_status ork_shape_parse(const void *text, uint64_t size_bytes, const char *where, struct ork_shape *shape,
                           ork_error *error)
{
    if (size_bytes > SHAPE_BYTES_MAX)
        return ork_error_set(error, ORK_BAD_FILE, where, -1, "%llu bytes, a shape file has at most %u",
                             (unsigned long long)size_bytes, SHAPE_BYTES_MAX);
    struct ork_shape read;
    memset(&read, 0, sizeof read);
    json_error_t problem;
    json_t *root = json_loadb(size_bytes ? text : "", size_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return ork_error_set(error, ORK_BAD_FILE, where, problem.position, "line %d: %s", problem.line, problem.text);
    ork_status status = head_read(root, where, &read, error);
    if (status == ORK_OK)
        status = keys_check(root, where, error);
    if (status == ORK_OK)
        status = numbers_read(root, where, &read, error);
    if (status == ORK_OK)
        status = mixers_read(root, where, &read, error);
    if (status == ORK_OK)
        status = feeds_check(where, &read, error);
    if (status == ORK_OK)
        status = tiers_read(root, where, &read, error);
    if (status == ORK_OK)
        *shape = read;
    json_decref(root);
    return status;
}

ork_status ork_shape_read(const char *name, struct ork_shape *shape, ork_error *error)
{
    const struct {
        const unsigned char *text;
        unsigned long size_bytes;
    } built_in[] = {{ork_shape_lfm2_5_8b_a1b, ork_shape_lfm2_5_8b_a1b_bytes},
                    {ork_shape_qwen3_6_35b_a3b, ork_shape_qwen3_6_35b_a3b_bytes},
                    {ork_shape_qwen3_30b_a3b, ork_shape_qwen3_30b_a3b_bytes}};
    for (size_t i = 0; shape_names[i]; i++)
        if (!strcmp(name, shape_names[i]))
            return ork_shape_parse(built_in[i].text, built_in[i].size_bytes, name, shape, error);
    struct ork_mapping mapping;
    ork_status status = ork_file_map(name, &mapping, error);
    if (status == ORK_NOT_FOUND)
        return ork_error_set(error, ORK_NOT_FOUND, name, -1,
                             "no such file, and no built-in shape (those are %s, %s and %s)", shape_names[0],
                             shape_names[1], shape_names[2]);
    if (status != ORK_OK)
        return status;
    status = ork_shape_parse(mapping.data, mapping.size_bytes, name, shape, error);
    ork_mapping_release(&mapping);
    return status;
}
