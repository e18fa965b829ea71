/* Owns SentencePiece's BPE: scores as ranks and merging over whole pieces of text; must not know special tokens. */
#include "text/encoders.h"

#include "base/error.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>

#define SCORES_KEY "tokenizer.ggml.scores"

/* ---- loading ---- */

/* Floats as integers in the opposite order: a higher score is a lower rank; both zeros are one. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

static ork_status load_ranks(struct ork_spm *spm, struct ork_vocabulary *vocabulary, const ork_meta *meta,
                             ork_error *error)
{
    const struct ork_meta_value *scores = NULL;
    ork_status status = ork_meta_array(meta, SCORES_KEY, true, ORK_META_F32, vocabulary->size, &scores, error);
    if (status != ORK_OK)
        return status;
    spm->ranks = ork_arena_array(&vocabulary->arena, vocabulary->size, sizeof *spm->ranks);
    if (!spm->ranks)
        return ork_error_no_memory(error, SCORES_KEY, vocabulary->size * sizeof *spm->ranks);
    struct ork_cursor cursor = ork_cursor_make(scores->data, scores->size_bytes);
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        float score;
        if (!ork_cursor_f32(&cursor, &score) || !isfinite(score))
            return ork_error_set(error, ORK_BAD_FILE, SCORES_KEY, scores->offset + (int64_t)(4 * (uint64_t)i),
                                 "the score of token %u is not a finite number", i);
        spm->ranks[i] = rank_of_score(score);
    }
    return ORK_OK;
}

ork_status ork_spm_load(struct ork_spm *spm, struct ork_vocabulary *vocabulary, const ork_meta *meta, ork_error *error)
{
    spm->vocabulary = vocabulary;
    spm->adds_space = true;
    ork_status status = ork_meta_bool(meta, "tokenizer.ggml.add_space_prefix", false, &spm->adds_space, error);
    if (status == ORK_OK)
        status = load_ranks(spm, vocabulary, meta, error);
    for (int byte = 0; status == ORK_OK && byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        spm->byte_tokens[byte] = ork_vocabulary_find_string(vocabulary, name);
        if (spm->byte_tokens[byte] < 0)
            spm->byte_tokens[byte] = ork_vocabulary_find_plain(vocabulary, &(char){(char)byte}, 1);
    }
    return status;
}

/* ---- encoding ---- */

struct piece {
    const struct ork_spm *spm;
    const char *text;
};

static void find_merge(const void *context, struct ork_merge_symbol *left, const struct ork_merge_symbol *right)
{
    const struct piece *piece = context;
    ork_token token = ork_vocabulary_find_plain(piece->spm->vocabulary, piece->text + left->begin,
                                                left->size_bytes + right->size_bytes);
    if (token >= 0) {
        left->rank = piece->spm->ranks[token];
        left->merged = token;
    }
}

/* Copies the text with U+2581 for every space. */
static ork_status escape(const char *text, uint32_t size_bytes, bool prefix, struct ork_text_scratch *scratch,
                         uint32_t *escaped, ork_error *error)
{
    static const char mark[] = "\xe2\x96\x81";
    enum { MARK_BYTES = sizeof mark - 1 };
    ork_status status = ork_text_scratch_reserve(scratch, ((uint64_t)size_bytes + 1) * MARK_BYTES, error);
    if (status != ORK_OK)
        return status;
    uint8_t *out = scratch->bytes;
    if (prefix) {
        memcpy(out, mark, MARK_BYTES);
        out += MARK_BYTES;
    }
    for (uint32_t i = 0; i < size_bytes; i++) {
        if (text[i] == ' ') {
            memcpy(out, mark, MARK_BYTES);
            out += MARK_BYTES;
        } else {
            *out++ = (uint8_t)text[i];
        }
    }
    *escaped = (uint32_t)(out - scratch->bytes);
    return ORK_OK;
}

/* A character that is no token: its bytes, or else the unknown token. */
static ork_status push_bytes(const struct ork_spm *spm, const uint8_t *bytes, uint32_t size_bytes,
                             struct ork_token_list *list, ork_error *error)
{
    ork_status status = ORK_OK;
    for (uint32_t i = 0; i < size_bytes; i++) {
        if (spm->byte_tokens[bytes[i]] >= 0)
            continue;
        list->dropped_bytes += size_bytes;
        ork_token unknown = spm->vocabulary->unknown;
        return unknown >= 0 ? ork_token_list_push(list, unknown, error) : ORK_OK;
    }
    for (uint32_t i = 0; i < size_bytes && status == ORK_OK; i++)
        status = ork_token_list_push(list, spm->byte_tokens[bytes[i]], error);
    return status;
}

ork_status ork_spm_encode(const struct ork_spm *spm, const char *text, uint32_t size_bytes,
                          struct ork_text_scratch *scratch, struct ork_token_list *list, ork_error *error)
{
    uint32_t count = 0, escaped;
    ork_status status = escape(text, size_bytes, spm->adds_space, scratch, &escaped, error);
    if (status == ORK_OK)
        status = ork_merger_reserve(&scratch->merger, escaped, error);
    if (status != ORK_OK || escaped == 0)
        return status;
    struct piece piece = {spm, (const char *)scratch->bytes};
    struct ork_merge_symbol *symbols = scratch->merger.symbols;
    for (uint32_t i = 0; i < escaped; i += symbols[count++].size_bytes) {
        uint32_t length = (uint32_t)ork_utf8_promised_length(scratch->bytes[i]);
        if (length > escaped - i)
            length = escaped - i;
        symbols[count] =
            (struct ork_merge_symbol){.begin = i,
                                      .size_bytes = length,
                                      .token = ork_vocabulary_find_plain(spm->vocabulary, piece.text + i, length)};
    }
    ork_merger_run(&scratch->merger, count, find_merge, &piece);
    for (uint32_t i = 0; i != ORK_MERGE_NONE && status == ORK_OK; i = symbols[i].next) {
        if (symbols[i].token >= 0)
            status = ork_token_list_push(list, symbols[i].token, error);
        else
            status = push_bytes(spm, scratch->bytes + symbols[i].begin, symbols[i].size_bytes, list, error);
    }
    return status;
}
