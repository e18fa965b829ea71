/* Cards: what a GGUF or an orkpack holds, without loading weights. Owns the counting of parameters and of the bytes that a
 * token reads; knows tensor names, no arithmetic. */
#include "model/card.h"

#include "base/checked.h"
#include "base/error.h"
#include "format/gguf.h"
#include "model/arch/arch.h"
#include "quant/ggml_blocks.h"
#include "quant/tier.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ork_card {
    struct ork_arena arena;
    ork_card_summary summary;
    ork_tensor_info *tensors; /* [summary.tensor_count] */
};

bool ork_tensor_is_in_main_pass(const char *name, uint32_t block_count)
{
    char *end;
    unsigned long long block;

    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return true;
    block = strtoull(name + 4, &end, 10);
    return *end != '.' || (block < block_count && strncmp(end, ".nextn.", 7) != 0);
}

/* ---- metadata ---- */

/* A card being filled; like a loader, the first error sticks. */
struct card_reader {
    ork_card *card;
    const ork_meta *meta;
    const char *path;
    ork_status status;
    ork_error *error;
};

static void no_memory(struct card_reader *reader, uint64_t size_bytes)
{
    if (reader->status == ORK_OK)
        reader->status = ork_error_no_memory(reader->error, reader->path, size_bytes);
}

static const char *read_text(struct card_reader *reader, const char *key)
{
    const char *text = "";
    uint64_t length = 0;
    char *copy;

    if (reader->status == ORK_OK)
        reader->status = ork_meta_string(reader->meta, key, false, &text, &length, reader->error);
    if (reader->status != ORK_OK)
        return "";
    copy = ork_arena_string(&reader->card->arena, text, length);
    if (copy == NULL)
        no_memory(reader, length);
    return copy != NULL ? copy : "";
}

static uint32_t read_u32(struct card_reader *reader, const char *key)
{
    char name[160];
    uint32_t value = 0;

    snprintf(name, sizeof(name), "%s.%s", reader->card->summary.architecture, key);
    if (reader->status == ORK_OK)
        reader->status = ork_meta_u32(reader->meta, name, false, &value, reader->error);
    return value;
}

/* The largest of a value per layer, or the one value of all layers. */
static uint32_t read_u32_largest(struct card_reader *reader, const char *key)
{
    char name[160];
    const struct ork_meta_value *value;
    uint32_t largest = 0, *values;

    snprintf(name, sizeof(name), "%s.%s", reader->card->summary.architecture, key);
    value = ork_meta_find(reader->meta, name);
    if (value == NULL || value->type != ORK_META_ARRAY)
        return read_u32(reader, key);
    if (value->count > ORK_MODEL_LAYERS_MAX || reader->status != ORK_OK)
        return 0;
    values = calloc(value->count + 1, sizeof(*values));
    if (values == NULL) {
        no_memory(reader, value->count * sizeof(*values));
        return 0;
    }
    reader->status = ork_meta_u32_array(reader->meta, name, false, values, (uint32_t)value->count, reader->error);
    for (uint64_t i = 0; i < value->count; i++)
        largest = values[i] > largest ? values[i] : largest;
    free(values);
    return largest;
}

static void read_metadata(struct card_reader *reader)
{
    ork_card_summary *summary = &reader->card->summary;
    const struct ork_meta_value *tokens = ork_meta_find(reader->meta, "tokenizer.ggml.tokens");

    summary->architecture = read_text(reader, "general.architecture");
    summary->name = read_text(reader, "general.name");
    summary->license = read_text(reader, "general.license");
    summary->tokenizer_model = read_text(reader, "tokenizer.ggml.model");
    summary->tokenizer_pre = read_text(reader, "tokenizer.ggml.pre");
    summary->chat_template = read_text(reader, "tokenizer.chat_template");
    summary->layer_count = read_u32(reader, "block_count");
    summary->embedding_length = read_u32(reader, "embedding_length");
    summary->context_length = read_u32(reader, "context_length");
    summary->vocabulary_size = read_u32(reader, "vocab_size");
    summary->expert_count = read_u32(reader, "expert_count");
    summary->expert_used_count = read_u32(reader, "expert_used_count");
    summary->head_count = read_u32_largest(reader, "attention.head_count");
    summary->head_count_kv = read_u32_largest(reader, "attention.head_count_kv");
    if (tokens != NULL && tokens->type == ORK_META_ARRAY && tokens->count <= UINT32_MAX)
        summary->vocabulary_size = (uint32_t)tokens->count;
    summary->runnable = ork_arch_find(summary->architecture, strlen(summary->architecture)) != NULL &&
                        ork_tokenizer_check(reader->meta, NULL) == ORK_OK;
}

/* ---- tensors ---- */

/* The part of `whole` that the chosen experts have. */
static uint64_t used_part(const ork_card_summary *summary, uint64_t whole)
{
    uint64_t count = summary->expert_count, used = summary->expert_used_count;

    if (count == 0 || used >= count)
        return whole;
    return whole / count * used + whole % count * used / count;
}

static void count_tensors(ork_card *card)
{
    ork_card_summary *summary = &card->summary;
    bool tied = true;

    for (size_t i = 0; i < summary->tensor_count; i++)
        tied = tied && strcmp(card->tensors[i].name, "output.weight") != 0;
    for (size_t i = 0; i < summary->tensor_count; i++) {
        const ork_tensor_info *tensor = &card->tensors[i];
        uint64_t elements = 1, bytes = tensor->size_bytes;

        for (int d = 0; d < 4; d++)
            elements *= tensor->dimensions[d];
        summary->parameter_count += elements;
        if (!ork_tensor_is_in_main_pass(tensor->name, summary->layer_count != 0 ? summary->layer_count : UINT32_MAX))
            continue;
        if (strstr(tensor->name, "_exps.") != NULL) {
            elements = used_part(summary, elements);
            bytes = used_part(summary, bytes);
        } else if (!tied && strcmp(tensor->name, "token_embd.weight") == 0) {
            bytes = ork_divide_up(bytes, tensor->dimensions[1]);
        }
        summary->active_parameter_count += elements;
        summary->bytes_per_token += bytes;
    }
}

static bool allocate_tensors(struct card_reader *reader, size_t count)
{
    reader->card->summary.tensor_count = count;
    reader->card->tensors = ork_arena_array(&reader->card->arena, count + 1, sizeof(*reader->card->tensors));
    if (reader->card->tensors == NULL)
        no_memory(reader, count * sizeof(*reader->card->tensors));
    return reader->card->tensors != NULL;
}

static const char *copy_name(struct card_reader *reader, const char *name)
{
    char *copy = ork_arena_string(&reader->card->arena, name, strlen(name));

    if (copy == NULL)
        no_memory(reader, strlen(name));
    return copy != NULL ? copy : "";
}

static const char *ggml_type_name(uint32_t type)
{
    const struct ork_ggml_type_info *info = ork_ggml_type_find(type);
    return info != NULL ? info->name : "?";
}

static void read_gguf_tensors(struct card_reader *reader, const ork_gguf *gguf)
{
    if (!allocate_tensors(reader, ork_gguf_tensor_count(gguf)))
        return;
    for (size_t i = 0; i < reader->card->summary.tensor_count; i++) {
        const struct ork_gguf_tensor *source = ork_gguf_tensor_at(gguf, i);
        ork_tensor_info *info = &reader->card->tensors[i];

        *info = (ork_tensor_info){
            .name = copy_name(reader, source->name),
            .type = ggml_type_name(source->type),
            .source_type = ggml_type_name(source->type),
            .dimension_count = source->dimension_count,
            .size_bytes = source->size_bytes,
            .offset_bytes = source->offset_bytes,
            .relative_error = -1.0,
        };
        memcpy(info->dimensions, source->dimensions, sizeof(info->dimensions));
        if (!ork_ggml_can_decode(source->type) &&
            ork_tensor_is_in_main_pass(source->name, reader->card->summary.layer_count))
            reader->card->summary.runnable = false;
    }
}

static void read_pack_tensors(struct card_reader *reader, const ork_orkpack *pack)
{
    if (!allocate_tensors(reader, ork_orkpack_tensor_count(pack)))
        return;
    for (size_t i = 0; i < reader->card->summary.tensor_count; i++) {
        const struct ork_orkpack_tensor *source = ork_orkpack_tensor_at(pack, i);
        const struct ork_tier_info *tier = ork_tier_find(source->tier);
        ork_tensor_info *info = &reader->card->tensors[i];

        *info = (ork_tensor_info){
            .name = copy_name(reader, source->name),
            .type = tier != NULL ? tier->name : "?",
            .source_type = ggml_type_name(source->source_type),
            .dimension_count = source->dimension_count,
            .offset_bytes = source->planes[ORK_PLANE_DATA].offset_bytes,
            .relative_error = source->relative_error < 0.0f ? -1.0 : source->relative_error,
        };
        for (int kind = 0; kind < ORK_PLANE_COUNT; kind++)
            info->size_bytes += source->planes[kind].size_bytes;
        memcpy(info->dimensions, source->dimensions, sizeof(info->dimensions));
        if (tier == NULL)
            reader->card->summary.runnable = false;
    }
}

/* ---- opening ---- */

static ork_status read_card(const ork_gguf *gguf, const ork_orkpack *pack, ork_card **out, ork_error *error)
{
    struct card_reader reader = {
        .card = calloc(1, sizeof(ork_card)),
        .meta = gguf != NULL ? ork_gguf_meta(gguf) : ork_orkpack_meta(pack),
        .path = gguf != NULL ? ork_gguf_path(gguf) : ork_orkpack_path(pack),
        .error = error,
    };

    *out = NULL;
    if (reader.card == NULL)
        return ork_error_no_memory(error, reader.path, sizeof(ork_card));
    read_metadata(&reader);
    reader.card->summary.kind = gguf != NULL ? ORK_FILE_GGUF : ORK_FILE_ORKPACK;
    reader.card->summary.format_version = gguf != NULL ? ork_gguf_version(gguf) : ORK_ORKPACK_VERSION;
    reader.card->summary.file_size_bytes =
        gguf != NULL ? ork_gguf_file_size_bytes(gguf) : ork_orkpack_file_size_bytes(pack);
    if (reader.status == ORK_OK && gguf != NULL)
        read_gguf_tensors(&reader, gguf);
    else if (reader.status == ORK_OK)
        read_pack_tensors(&reader, pack);
    if (reader.status != ORK_OK) {
        ork_card_close(reader.card);
        return reader.status;
    }
    count_tensors(reader.card);
    *out = reader.card;
    return ORK_OK;
}

ork_status ork_card_from_orkpack(const ork_orkpack *pack, ork_card **card, ork_error *error)
{
    return read_card(NULL, pack, card, error);
}

ork_status ork_card_open(const char *path, ork_card **card, ork_error *error)
{
    struct ork_mapping mapping;
    ork_orkpack *pack = NULL;
    ork_gguf *gguf = NULL;
    bool is_pack, foreign = false;
    ork_status status = ork_file_map(path, &mapping, error);

    *card = NULL;
    if (status != ORK_OK)
        return status;
    is_pack = ork_orkpack_recognise(mapping.data, mapping.size_bytes, &foreign) || foreign;
    ork_mapping_release(&mapping);
    if (is_pack)
        status = ork_orkpack_open(path, ORK_LOAD_MAP, NULL, NULL, &pack, error);
    else
        status = ork_gguf_open(path, &gguf, error);
    if (status == ORK_OK)
        status = read_card(gguf, pack, card, error);
    ork_orkpack_close(pack);
    ork_gguf_close(gguf);
    return status;
}

void ork_card_close(ork_card *card)
{
    if (card == NULL)
        return;
    ork_arena_free(&card->arena);
    free(card);
}

const ork_card_summary *ork_card_get_summary(const ork_card *card)
{
    return &card->summary;
}

ork_status ork_card_get_tensor(const ork_card *card, size_t index, ork_tensor_info *info)
{
    if (index >= card->summary.tensor_count)
        return ORK_BAD_ARGUMENT;
    *info = card->tensors[index];
    return ORK_OK;
}
