/* Plans a pack: which tensors, in which tiers, under which metadata. Everything that can be refused without reading
 * weights is refused here, before a byte is written. Owns the rule of what is left out; knows no encoding.
 *
 * Left out and counted: tensors of blocks at or beyond <architecture>.block_count, and "nextn" tensors, both of
 * next-token predictors that the main pass does not run. Everything else is kept; names that the architecture does
 * not know are the loader's to judge. */
#include "pack/pack.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/card.h"
#include "quant/ggml_blocks.h"
#include "quant/tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* Counted up whenever the same input gives other bytes, so that no run continues another encoder's. */
#define ENCODER_REVISION 1u
#define SAMPLE_BYTES 1024u
#define SAMPLE_COUNT 4u

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* ---- what is packed ---- */

static ork_status plan_tensor(struct ork_pack_plan *plan, struct ork_tier_rules *rules,
                              const struct ork_gguf_tensor *source, const char *path, ork_error *error)
{
    struct ork_orkpack_tensor *tensor = &plan->tensors[plan->count];
    const struct ork_ggml_type_info *type = ork_ggml_type_find(source->type);
    ork_status status;

    if (!ork_ggml_can_decode(source->type))
        return ork_error_set(error, ORK_UNSUPPORTED, path, -1, "tensor %s has type %s, which cannot be decoded",
                             source->name, type != NULL ? type->name : "?");
    if (source->dimensions[3] != 1)
        return ork_error_set(error, ORK_UNSUPPORTED, path, -1, "tensor %s has four dimensions", source->name);
    for (int d = 0; d < 3; d++)
        if (source->dimensions[d] > INT32_MAX)
            return ork_error_set(error, ORK_LIMIT, path, -1, "tensor %s: dimension %d is %" PRIu64, source->name, d,
                                 source->dimensions[d]);
    if ((status = ork_tier_rules_choose(rules, source, &tensor->tier, &tensor->sensitivity, error)) != ORK_OK)
        return status;
    snprintf(tensor->name, sizeof(tensor->name), "%s", source->name);
    tensor->source_type = source->type;
    tensor->dimension_count = source->dimension_count == 0 ? 1 : source->dimension_count;
    memcpy(tensor->dimensions, source->dimensions, sizeof(tensor->dimensions));
    if (!ork_tier_plan_planes(tensor))
        return ork_error_set(error, ORK_LIMIT, path, -1, "tensor %s is too large", source->name);
    plan->sources[plan->count++] = source;
    plan->source_bytes += source->size_bytes;
    return ORK_OK;
}

static ork_status plan_tensors(struct ork_pack_plan *plan, const ork_gguf *gguf, struct ork_tier_rules *rules,
                               ork_error *error)
{
    const char *path = ork_gguf_path(gguf);
    char key[96];
    uint32_t block_count = UINT32_MAX;
    size_t total = ork_gguf_tensor_count(gguf);
    const struct ork_arch *architecture;
    ork_status status = ork_arch_read(ork_gguf_meta(gguf), path, &architecture, error);

    if (status != ORK_OK)
        return status;
    snprintf(key, sizeof(key), "%s.block_count", architecture->name);
    if ((status = ork_meta_u32(ork_gguf_meta(gguf), key, false, &block_count, error)) != ORK_OK)
        return status;
    plan->sources = ork_arena_array(&plan->arena, total + 1, sizeof(*plan->sources));
    plan->tensors = ork_arena_array(&plan->arena, total + 1, sizeof(*plan->tensors));
    if (plan->sources == NULL || plan->tensors == NULL)
        return ork_error_no_memory(error, path, total * sizeof(*plan->tensors));
    for (size_t i = 0; i < total; i++) {
        const struct ork_gguf_tensor *source = ork_gguf_tensor_at(gguf, i);
        if (!ork_tensor_is_in_main_pass(source->name, block_count))
            plan->skipped_count++;
        else if ((status = plan_tensor(plan, rules, source, path, error)) != ORK_OK)
            return status;
    }
    if (plan->count == 0)
        return ork_error_set(error, ORK_BAD_FILE, path, -1, "the file holds no tensors to pack");
    plan->unmatched_rule_count = ork_tier_rules_unmatched_count(rules);
    return ORK_OK;
}

/* ---- metadata ---- */

static void append_string(struct ork_buffer *buffer, const char *text)
{
    ork_buffer_u64(buffer, strlen(text));
    ork_buffer_append(buffer, text, strlen(text));
}

static void append_text_pair(struct ork_pack_plan *plan, const char *key, const char *text)
{
    append_string(&plan->metadata, key);
    ork_buffer_u32(&plan->metadata, ORK_META_STRING);
    append_string(&plan->metadata, text);
    plan->metadata_count++;
}

/* The source's pairs without what only its own container means, then ours. */
static void plan_metadata(struct ork_pack_plan *plan, const ork_gguf *gguf, const ork_pack_params *params)
{
    static const char *const dropped[] = {"split.", "general.alignment", "ork.", NULL};

    ork_meta_write(ork_gguf_meta(gguf), dropped, &plan->metadata, &plan->metadata_count);
    append_text_pair(plan, "ork.version", ork_version());
    append_text_pair(plan, "ork.source", base_name(ork_gguf_path(gguf)));
    append_text_pair(plan, "ork.plan.default_tier", params->default_tier == NULL ? "auto" : params->default_tier);
    if (params->tier_rule_count != 0) {
        append_string(&plan->metadata, "ork.plan.rules");
        ork_buffer_u32(&plan->metadata, ORK_META_ARRAY);
        ork_buffer_u32(&plan->metadata, ORK_META_STRING);
        ork_buffer_u64(&plan->metadata, params->tier_rule_count);
        for (size_t i = 0; i < params->tier_rule_count; i++)
            append_string(&plan->metadata, params->tier_rules[i]);
        plan->metadata_count++;
    }
    if (params->imatrix_path != NULL)
        append_text_pair(plan, "ork.plan.imatrix", base_name(params->imatrix_path));
}

/* ---- identity ---- */

/* Hashes what tells one run from another: file size and time, every tensor's place with samples of its content, the
 * plan, the importance matrix, the encoder. Samples and not all bytes: the source may have 60 GB. */
static ork_status hash_plan(struct ork_pack_plan *plan, const ork_gguf *gguf, const ork_imatrix *imatrix,
                            ork_error *error)
{
    struct ork_buffer buffer = {0};
    struct stat info = {0};
    ork_status status = ORK_OK;

    if (stat(ork_gguf_path(gguf), &info) != 0)
        return ork_error_errno(error, ork_gguf_path(gguf), "cannot stat");
    ork_buffer_u32(&buffer, ENCODER_REVISION);
    ork_buffer_u64(&buffer, ork_gguf_file_size_bytes(gguf));
    ork_buffer_u64(&buffer, (uint64_t)info.st_mtim.tv_sec);
    ork_buffer_u64(&buffer, (uint64_t)info.st_mtim.tv_nsec);
    ork_buffer_u64(&buffer, imatrix != NULL ? ork_imatrix_hash(imatrix) : 0);
    ork_buffer_append(&buffer, plan->metadata.data, plan->metadata.size_bytes);
    for (size_t i = 0; i < plan->count; i++) {
        const struct ork_gguf_tensor *source = plan->sources[i];
        uint64_t sample = source->size_bytes < SAMPLE_BYTES ? source->size_bytes : SAMPLE_BYTES;

        ork_buffer_append(&buffer, &plan->tensors[i], sizeof(plan->tensors[i]));
        ork_buffer_u32(&buffer, source->part);
        ork_buffer_u64(&buffer, source->offset_bytes);
        for (uint64_t s = 0; s < SAMPLE_COUNT; s++)
            ork_buffer_u64(&buffer,
                           XXH3_64bits(source->data + (source->size_bytes - sample) / (SAMPLE_COUNT - 1) * s, sample));
    }
    if (buffer.failed)
        status = ork_error_no_memory(error, ork_gguf_path(gguf), buffer.size_bytes);
    else
        plan->hash = XXH3_64bits(buffer.data, buffer.size_bytes);
    ork_buffer_free(&buffer);
    return status;
}

ork_status ork_pack_plan_create(const ork_gguf *gguf, const ork_pack_params *params, const ork_imatrix *imatrix,
                                struct ork_pack_plan *plan, ork_error *error)
{
    struct ork_tier_rules *rules = NULL;
    ork_status status;

    *plan = (struct ork_pack_plan){0};
    if ((status = ork_tier_rules_parse(params, &rules, error)) != ORK_OK)
        return status;
    if ((status = plan_tensors(plan, gguf, rules, error)) != ORK_OK)
        goto out;
    plan_metadata(plan, gguf, params);
    if (plan->metadata.failed) {
        status = ork_error_no_memory(error, ork_gguf_path(gguf), plan->metadata.size_bytes);
        goto out;
    }
    status = hash_plan(plan, gguf, imatrix, error);
out:
    ork_tier_rules_free(rules);
    return status;
}

void ork_pack_plan_free(struct ork_pack_plan *plan)
{
    ork_arena_free(&plan->arena);
    ork_buffer_free(&plan->metadata);
    *plan = (struct ork_pack_plan){0};
}
