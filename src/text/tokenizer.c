/* Owns putting the parts together: which algorithm a file asks for, special tokens around pieces of text, BOS and EOS.
 * Must not know models or templates. */
#include "text/tokenizer.h"

#include "base/error.h"
#include "text/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define MODEL_KEY "tokenizer.ggml.model"
#define PRE_KEY "tokenizer.ggml.pre"

/* ---- lists and scratch ---- */

ork_status ork_token_list_push(struct ork_token_list *list, ork_token token, ork_error *error)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        ork_token *tokens = realloc(list->tokens, capacity * sizeof *tokens);
        if (!tokens)
            return ork_error_no_memory(error, "tokens", capacity * sizeof *tokens);
        list->tokens = tokens;
        list->capacity = capacity;
    }
    list->tokens[list->count++] = token;
    return ORK_OK;
}

void ork_token_list_free(struct ork_token_list *list)
{
    free(list->tokens);
    *list = (struct ork_token_list){0};
}

ork_status ork_text_scratch_reserve(struct ork_text_scratch *scratch, uint64_t size_bytes, ork_error *error)
{
    if (size_bytes <= scratch->byte_capacity)
        return ORK_OK;
    uint8_t *bytes = realloc(scratch->bytes, size_bytes);
    if (!bytes)
        return ork_error_no_memory(error, "tokenizer", size_bytes);
    scratch->bytes = bytes;
    scratch->byte_capacity = size_bytes;
    return ORK_OK;
}

void ork_text_scratch_free(struct ork_text_scratch *scratch)
{
    ork_merger_free(&scratch->merger);
    ork_split_scratch_free(&scratch->split);
    free(scratch->bytes);
    scratch->bytes = NULL;
    scratch->byte_capacity = 0;
}

/* ---- creation ---- */

/* What the metadata asks for. `pre` is NULL for SPM. */
struct choice {
    enum ork_tokenizer_kind kind;
    const struct ork_pretokenizer *pre;
    bool guessed; /* no pre-tokenizer is named */
};

static ork_status choose_pre(const ork_meta *meta, struct choice *choice, ork_error *error)
{
    enum { NAMES_MAX = 64 };
    const char *name = NULL, *names[NAMES_MAX];
    uint64_t length = 0;
    ork_status status = ork_meta_string(meta, PRE_KEY, false, &name, &length, error);
    if (status != ORK_OK)
        return status;
    choice->guessed = length == 0;
    choice->pre = length ? ork_pretokenizer_find(name, length) : ork_pretokenizer_find("default", strlen("default"));
    if (choice->pre)
        return ORK_OK;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *nearest = ork_nearest_name(word, names, ork_pretokenizer_names(names, NAMES_MAX));
    return ork_error_set(error, ORK_UNSUPPORTED, PRE_KEY, -1, "pre-tokenizer '%s' is not known%s%s%s", word,
                         nearest ? " (nearest known: '" : "", nearest ? nearest : "", nearest ? "')" : "");
}

static ork_status choose(const ork_meta *meta, struct choice *choice, ork_error *error)
{
    const char *name = NULL;
    uint64_t length = 0;
    ork_status status = ork_meta_string(meta, MODEL_KEY, true, &name, &length, error);
    if (status != ORK_OK)
        return status;
    if (length == 4 && memcmp(name, "gpt2", 4) == 0) {
        choice->kind = ORK_TOKENIZER_BPE;
        return choose_pre(meta, choice, error);
    }
    choice->kind = ORK_TOKENIZER_SPM;
    if (length == 5 && memcmp(name, "llama", 5) == 0)
        return ORK_OK;
    return ork_error_set(error, ORK_UNSUPPORTED, MODEL_KEY, -1,
                         "tokenizer '%.*s' is not supported (known: gpt2, llama)", (int)(length < 64 ? length : 64),
                         name);
}

ork_status ork_tokenizer_check(const ork_meta *meta, ork_error *error)
{
    struct choice choice = {0};
    return choose(meta, &choice, error);
}

ork_status ork_tokenizer_create(const ork_meta *meta, ork_tokenizer **out, ork_error *error)
{
    *out = NULL;
    struct choice choice = {0};
    ork_status status = choose(meta, &choice, error);
    if (status != ORK_OK)
        return status;
    ork_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return ork_error_no_memory(error, "tokenizer", sizeof *tokenizer);
    bool spm = choice.kind == ORK_TOKENIZER_SPM;
    struct ork_vocabulary *vocabulary = &tokenizer->vocabulary;
    status = ork_vocabulary_load(vocabulary, choice.kind, spm || choice.pre->adds_bos, meta, error);
    if (status == ORK_OK)
        status = ork_special_set_load(&tokenizer->specials, vocabulary, error);
    if (status == ORK_OK)
        status = spm ? ork_spm_load(&tokenizer->spm, vocabulary, meta, error)
                     : ork_bpe_load(&tokenizer->bpe, vocabulary, choice.pre, meta, error);
    if (status == ORK_OK)
        status = ork_chat_detect(meta, &tokenizer->chat, error);
    if (choice.guessed)
        snprintf(tokenizer->warning, sizeof tokenizer->warning,
                 "the file names no pre-tokenizer (%s); 'default' is used, which may split words in other places than "
                 "the model was trained with",
                 PRE_KEY);
    if (status == ORK_OK)
        *out = tokenizer;
    else
        ork_tokenizer_destroy(tokenizer);
    return status;
}

void ork_tokenizer_destroy(ork_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    ork_bpe_free(&tokenizer->bpe);
    ork_vocabulary_free(&tokenizer->vocabulary);
    free(tokenizer);
}

const char *ork_tokenizer_warning(const ork_tokenizer *tokenizer)
{
    return tokenizer->warning[0] ? tokenizer->warning : NULL;
}

/* ---- encoding ---- */

static ork_status encode_piece(const ork_tokenizer *tokenizer, const char *text, uint32_t size_bytes,
                               struct ork_text_scratch *scratch, struct ork_token_list *list, ork_error *error)
{
    if (size_bytes == 0)
        return ORK_OK;
    return tokenizer->vocabulary.kind == ORK_TOKENIZER_SPM
               ? ork_spm_encode(&tokenizer->spm, text, size_bytes, scratch, list, error)
               : ork_bpe_encode(&tokenizer->bpe, text, size_bytes, scratch, list, error);
}

/* The tokens of a text that is cut at `matches`. */
static ork_status encode_pieces(const ork_tokenizer *tokenizer, const char *text, uint32_t size_bytes,
                                const struct ork_special_matches *matches, struct ork_token_list *list,
                                ork_error *error)
{
    struct ork_text_scratch scratch = {0};
    ork_status status = ORK_OK;
    uint32_t begin = 0;
    for (size_t i = 0; i < matches->count && status == ORK_OK; i++) {
        const struct ork_special_match *match = &matches->matches[i];
        status = encode_piece(tokenizer, text + begin, match->begin - begin, &scratch, list, error);
        if (status == ORK_OK)
            status = ork_token_list_push(list, match->token, error);
        begin = match->begin + match->size_bytes;
    }
    if (status == ORK_OK)
        status = encode_piece(tokenizer, text + begin, size_bytes - begin, &scratch, list, error);
    ork_text_scratch_free(&scratch);
    return status;
}

ork_status ork_tokenizer_encode_spans(const ork_tokenizer *tokenizer, const char *text,
                                      const struct ork_text_span *spans, size_t span_count, unsigned flags,
                                      struct ork_token_list *list, ork_error *error)
{
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < span_count && size_bytes <= ORK_TEXT_BYTES_MAX; i++)
        size_bytes += spans[i].size_bytes < ORK_TEXT_BYTES_MAX ? spans[i].size_bytes : (uint64_t)ORK_TEXT_BYTES_MAX + 1;
    if (size_bytes > ORK_TEXT_BYTES_MAX)
        return ork_error_set(error, ORK_LIMIT, NULL, -1, "the text is longer than %u bytes", ORK_TEXT_BYTES_MAX);
    const struct ork_vocabulary *vocabulary = &tokenizer->vocabulary;
    struct ork_special_matches matches;
    ork_status status = ork_special_partition(&tokenizer->specials, text, spans, span_count,
                                              flags & ORK_TOKENIZE_PARSE_SPECIAL, &matches, error);
    if (status != ORK_OK)
        return status;
    if (flags & ORK_TOKENIZE_SPECIAL && vocabulary->adds_bos)
        status = ork_token_list_push(list, vocabulary->bos, error);
    if (status == ORK_OK)
        status = encode_pieces(tokenizer, text, (uint32_t)size_bytes, &matches, list, error);
    if (status == ORK_OK && flags & ORK_TOKENIZE_SPECIAL && vocabulary->adds_eos)
        status = ork_token_list_push(list, vocabulary->eos, error);
    ork_special_matches_free(&matches);
    return status;
}

ork_status ork_tokenizer_encode(const ork_tokenizer *tokenizer, const char *text, size_t size_bytes, unsigned flags,
                                struct ork_token_list *list, ork_error *error)
{
    struct ork_text_span span = {size_bytes, false};
    return ork_tokenizer_encode_spans(tokenizer, text, &span, 1, flags, list, error);
}

/* ---- tokens ---- */

static bool is_known(const ork_tokenizer *tokenizer, ork_token token)
{
    return token >= 0 && (uint32_t)token < tokenizer->vocabulary.size;
}

uint32_t ork_tokenizer_vocabulary_size(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.size;
}

ork_token ork_tokenizer_bos(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.bos;
}

ork_token ork_tokenizer_eos(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.eos;
}

ork_token ork_tokenizer_eot(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.eot;
}

bool ork_tokenizer_adds_bos(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.adds_bos;
}

bool ork_tokenizer_adds_eos(const ork_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.adds_eos;
}

bool ork_tokenizer_is_end(const ork_tokenizer *tokenizer, ork_token token)
{
    return is_known(tokenizer, token) && tokenizer->vocabulary.ends[token];
}

bool ork_tokenizer_is_special(const ork_tokenizer *tokenizer, ork_token token)
{
    if (!is_known(tokenizer, token))
        return false;
    uint8_t type = tokenizer->vocabulary.types[token];
    return type == ORK_TOKEN_CONTROL || type == ORK_TOKEN_UNKNOWN;
}

const char *ork_tokenizer_piece(const ork_tokenizer *tokenizer, ork_token token, size_t *size_bytes)
{
    *size_bytes = 0;
    if (!is_known(tokenizer, token))
        return NULL;
    *size_bytes = tokenizer->vocabulary.piece_sizes[token];
    return (const char *)tokenizer->vocabulary.pieces + tokenizer->vocabulary.text_begins[token];
}

ork_token ork_tokenizer_find(const ork_tokenizer *tokenizer, const char *text, size_t size_bytes)
{
    return ork_vocabulary_find(&tokenizer->vocabulary, text, size_bytes);
}
