/* Owns opening and closing of models and the public functions that only pass a model on; must not know how architectures
 * compute. */
#include "base/error.h"
#include "base/pool.h"
#include "model/arch/arch.h"
#include "model/card.h"
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARNING_BYTES = 256 };

static ork_status count_unused(struct ork_model *model, const bool *used, ork_error *error)
{
    size_t unused = 0, first = 0, count = ork_orkpack_tensor_count(model->pack);
    for (size_t i = count; i-- > 0;)
        if (!used[i]) {
            unused++;
            first = i;
        }
    if (!unused)
        return ORK_OK;
    char *text = ork_arena_allocate(&model->arena, WARNING_BYTES);
    if (!text)
        return ork_error_no_memory(error, "model", WARNING_BYTES);
    snprintf(text, WARNING_BYTES, "%zu tensors of the pack are not used by %s, the first is %s", unused,
             model->arch->name, ork_orkpack_tensor_at(model->pack, first)->name);
    model->warnings[model->warning_count++] = text;
    return ORK_OK;
}

static ork_status load_weights(struct ork_model *model, ork_nested nested, ork_error *error)
{
    struct ork_loader loader = {.model = model,
                                .meta = ork_orkpack_meta(model->pack),
                                .architecture = model->arch->name,
                                .base_alone = nested == ORK_NESTED_BASE,
                                .error = error};
    loader.used = calloc(ork_orkpack_tensor_count(model->pack) + 1, sizeof *loader.used);
    if (!loader.used)
        return ork_error_no_memory(error, "model", ork_orkpack_tensor_count(model->pack));
    model->base_alone = loader.base_alone;
    model->hp.vocabulary = ork_tokenizer_vocabulary_size(model->tokenizer);
    ork_load_common(&loader);
    if (loader.status == ORK_OK) {
        model->layers = ork_arena_array(&model->arena, model->hp.layers, sizeof *model->layers);
        if (model->layers)
            model->arch->load(&loader);
        else
            loader.status = ork_error_no_memory(error, "model", model->hp.layers * sizeof *model->layers);
    }
    if (loader.status == ORK_OK)
        loader.status = count_unused(model, loader.used, error);
    free(loader.used);
    return loader.status;
}

ork_status ork_model_open(const char *path, const ork_model_params *given, ork_model **out, ork_error *error)
{
    ork_model_params params = given ? *given : (ork_model_params){0};
    *out = NULL;
    struct ork_model *model = calloc(1, sizeof *model);
    if (!model)
        return ork_error_no_memory(error, "model", sizeof *model);
    ork_status status =
        ork_orkpack_open(path, params.load_mode, params.progress, params.progress_context, &model->pack, error);
    if (status == ORK_OK)
        status = ork_arch_read(ork_orkpack_meta(model->pack), ork_orkpack_path(model->pack), &model->arch, error);
    if (status == ORK_OK)
        status = ork_tokenizer_create(ork_orkpack_meta(model->pack), &model->tokenizer, error);
    if (status != ORK_OK)
        goto out;
    if (ork_tokenizer_warning(model->tokenizer))
        model->warnings[model->warning_count++] = ork_tokenizer_warning(model->tokenizer);
    status = load_weights(model, params.nested, error);
    if (status == ORK_OK)
        status = ork_card_from_orkpack(model->pack, &model->card, error);
    if (status != ORK_OK)
        goto out;
    *out = model;
    model = NULL;
out:
    ork_model_close(model);
    return status;
}

void ork_model_close(ork_model *model)
{
    if (!model)
        return;
    ork_card_close(model->card);
    ork_tokenizer_destroy(model->tokenizer);
    ork_orkpack_close(model->pack);
    ork_arena_free(&model->arena);
    free(model);
}

const ork_card *ork_model_card(const ork_model *model)
{
    return model->card;
}

ork_load_mode ork_model_load_mode(const ork_model *model, uint64_t *weight_bytes)
{
    if (weight_bytes)
        *weight_bytes = ork_orkpack_file_size_bytes(model->pack) + model->arena.total_bytes;
    return ork_orkpack_load_mode(model->pack);
}

const char *ork_model_warning(const ork_model *model, size_t index)
{
    return index < model->warning_count ? model->warnings[index] : NULL;
}

const char *ork_version(void)
{
    return "0.1.0";
}

void ork_free(void *pointer)
{
    free(pointer);
}

uint32_t ork_default_threads(void)
{
    return ork_topology_threads();
}

ork_status ork_kernels_name(const char **name, ork_error *error)
{
    const struct ork_kernels *kernels;
    ork_status status = ork_kernels_get(&kernels, error);
    if (status == ORK_OK)
        *name = ork_isa_name(kernels->isa);
    return status;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

ork_status ork_tokenize(const ork_model *model, const char *text, size_t size_bytes, unsigned flags, ork_token **tokens,
                        size_t *count, ork_error *error)
{
    struct ork_token_list list = {0};
    *tokens = NULL;
    *count = 0;
    ork_status status = ork_tokenizer_encode(model->tokenizer, text, size_bytes, flags, &list, error);
    if (status != ORK_OK) {
        ork_token_list_free(&list);
        return status;
    }
    *tokens = list.tokens;
    *count = list.count;
    return ORK_OK;
}

ork_status ork_detokenize(const ork_model *model, const ork_token *tokens, size_t count, bool special, char **text,
                          size_t *size_bytes, ork_error *error)
{
    return ork_tokenizer_detokenize(model->tokenizer, tokens, count, special, text, size_bytes, error);
}

ork_token ork_token_bos(const ork_model *model)
{
    return ork_tokenizer_bos(model->tokenizer);
}

ork_token ork_token_eos(const ork_model *model)
{
    return ork_tokenizer_eos(model->tokenizer);
}

bool ork_token_adds_bos(const ork_model *model)
{
    return ork_tokenizer_adds_bos(model->tokenizer);
}

bool ork_token_is_end(const ork_model *model, ork_token token)
{
    return ork_tokenizer_is_end(model->tokenizer, token);
}

ork_status ork_text_stream_create(const ork_model *model, bool special, ork_text_stream **stream, ork_error *error)
{
    /* What is generated continues a prompt, so its first space counts. */
    return ork_tokenizer_stream_create(model->tokenizer, special, false, stream, error);
}

const char *ork_chat_template_name(const ork_model *model)
{
    return ork_tokenizer_chat_template_name(model->tokenizer);
}

ork_status ork_chat_tokenize(const ork_model *model, const char *template_name, const ork_chat_message *messages,
                             size_t message_count, bool add_generation_prompt, ork_token **tokens, size_t *count,
                             char **text, ork_error *error)
{
    return ork_tokenizer_chat_tokenize(model->tokenizer, template_name, messages, message_count, add_generation_prompt,
                                       tokens, count, text, error);
}
