/* Owns byte-level BPE: the merge table and merging inside words; must not know special tokens.
 *
 * A word's symbols start as its bytes, so texts are never written in the byte alphabet; only the file's tokens and
 * merges are. */
#include "text/encoders.h"

#include "base/error.h"
#include "text/utf8.h"

#include <stdlib.h>

#define MERGES_KEY "tokenizer.ggml.merges"

/* ---- the merge table ---- */

static uint32_t first_slot(const struct ork_bpe *bpe, ork_token left, ork_token right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)ork_hash_mix(bpe->vocabulary->seed, pair) & bpe->slot_mask;
}

/* The slot of the pair, or the free one where it belongs. */
static uint32_t find_slot(const struct ork_bpe *bpe, ork_token left, ork_token right)
{
    uint32_t slot = first_slot(bpe, left, right);
    while (bpe->slots[slot]) {
        const struct ork_bpe_merge *merge = &bpe->merges[bpe->slots[slot] - 1];
        if (merge->left == left && merge->right == right)
            break;
        slot = (slot + 1) & bpe->slot_mask;
    }
    return slot;
}

/* The two sides of a merge as the file has it. */
struct sides {
    const char *left, *right;
    size_t left_bytes, right_bytes;
};

/* "left right", split at the first space that is not at the beginning; false for anything else. */
static bool split_merge(const char *text, uint64_t length, struct sides *sides)
{
    const char *space = length > 1 ? memchr(text + 1, ' ', length - 1) : NULL;
    if (!space)
        return false;
    *sides = (struct sides){text, space + 1, (size_t)(space - text), length - (size_t)(space - text) - 1};
    return true;
}

/* The token that a merge makes. In real files that is nearly always the one after the result of the merge before, or the
 * same, which saves a search. joined: room for text_bytes_max bytes. */
static ork_token find_result(const struct ork_bpe *bpe, const struct sides *sides, char *joined)
{
    const struct ork_vocabulary *vocabulary = bpe->vocabulary;
    size_t size_bytes = sides->left_bytes + sides->right_bytes;
    if (size_bytes > vocabulary->text_bytes_max)
        return -1;
    memcpy(joined, sides->left, sides->left_bytes);
    memcpy(joined + sides->left_bytes, sides->right, sides->right_bytes);
    ork_token last = bpe->merge_count ? bpe->merges[bpe->merge_count - 1].result : -1;
    for (ork_token guess = last; last >= 0 && guess <= last + 1 && (uint32_t)guess < vocabulary->size; guess++) {
        uint32_t guess_bytes;
        const char *guess_text = ork_vocabulary_text(vocabulary, guess, &guess_bytes);
        if (guess_bytes == size_bytes && memcmp(guess_text, joined, size_bytes) == 0)
            return ork_vocabulary_is_plain(vocabulary, guess) ? guess : -1;
    }
    return ork_vocabulary_find_plain(vocabulary, joined, size_bytes);
}

/* Reads the merges between tokens into bpe->merges. Searches miss the cache, so they are asked for some merges ahead. */
static void read_merges(struct ork_bpe *bpe, const struct ork_meta_value *merges, char *joined)
{
    enum { AHEAD = 16 };
    const struct ork_vocabulary *vocabulary = bpe->vocabulary;
    uint64_t position = 0, length;
    const char *text;
    for (size_t count = AHEAD; count == AHEAD;) {
        struct sides batch[AHEAD];
        for (count = 0; count < AHEAD && ork_meta_next_string(merges, &position, &text, &length);) {
            if (!split_merge(text, length, &batch[count]))
                continue;
            ork_vocabulary_prefetch(vocabulary, batch[count].left, batch[count].left_bytes);
            ork_vocabulary_prefetch(vocabulary, batch[count].right, batch[count].right_bytes);
            count++;
        }
        for (size_t i = 0; i < count; i++) {
            struct ork_bpe_merge merge = {
                .left = ork_vocabulary_find_plain(vocabulary, batch[i].left, batch[i].left_bytes),
                .right = ork_vocabulary_find_plain(vocabulary, batch[i].right, batch[i].right_bytes),
                .result = find_result(bpe, &batch[i], joined),
            };
            if (merge.left >= 0 && merge.right >= 0 && merge.result >= 0)
                bpe->merges[bpe->merge_count++] = merge;
        }
    }
}

/* A pair that stands twice keeps its first, better rank. */
static void index_merges(struct ork_bpe *bpe)
{
    enum { AHEAD = 16 };
    for (uint32_t rank = 0; rank < bpe->merge_count; rank++) {
        if (rank + AHEAD < bpe->merge_count) {
            const struct ork_bpe_merge *later = &bpe->merges[rank + AHEAD];
            __builtin_prefetch(&bpe->slots[first_slot(bpe, later->left, later->right)], 1);
        }
        uint32_t slot = find_slot(bpe, bpe->merges[rank].left, bpe->merges[rank].right);
        if (bpe->slots[slot] == 0)
            bpe->slots[slot] = rank + 1;
    }
}

static ork_status load_merges(struct ork_bpe *bpe, struct ork_vocabulary *vocabulary, const ork_meta *meta,
                              ork_error *error)
{
    const struct ork_meta_value *merges = NULL;
    ork_status status = ork_meta_array(meta, MERGES_KEY, true, ORK_META_STRING, 0, &merges, error);
    if (status != ORK_OK)
        return status;
    if (merges->count > ORK_BPE_MERGES_MAX)
        return ork_error_set(error, ORK_UNSUPPORTED, MERGES_KEY, merges->offset,
                             "%llu merges are more than the limit of %u", (unsigned long long)merges->count,
                             ORK_BPE_MERGES_MAX);
    uint32_t slot_count = 16;
    while (slot_count < merges->count + merges->count / 2)
        slot_count *= 2;
    bpe->merges = ork_arena_array(&vocabulary->arena, merges->count, sizeof *bpe->merges);
    bpe->slots = ork_arena_array(&vocabulary->arena, slot_count, sizeof *bpe->slots);
    char *joined = malloc((size_t)vocabulary->text_bytes_max + 1);
    if (!bpe->merges || !bpe->slots || !joined) {
        free(joined);
        return ork_error_no_memory(error, MERGES_KEY, merges->count * sizeof *bpe->merges);
    }
    bpe->slot_mask = slot_count - 1;
    read_merges(bpe, merges, joined);
    index_merges(bpe);
    free(joined);
    return ORK_OK;
}

ork_status ork_bpe_load(struct ork_bpe *bpe, struct ork_vocabulary *vocabulary, const struct ork_pretokenizer *pre,
                        const ork_meta *meta, ork_error *error)
{
    bpe->vocabulary = vocabulary;
    bpe->ignore_merges = pre->ignore_merges;
    for (int byte = 0; byte < 256; byte++) {
        char character[2];
        size_t length = ork_byte_alphabet_encode((uint8_t)byte, character);
        bpe->byte_tokens[byte] = ork_vocabulary_find_plain(vocabulary, character, length);
    }
    ork_status status = load_merges(bpe, vocabulary, meta, error);
    if (status == ORK_OK)
        status = ork_splitter_create(pre->patterns, &bpe->splitter, error);
    return status;
}

void ork_bpe_free(struct ork_bpe *bpe)
{
    ork_splitter_destroy(bpe->splitter);
    *bpe = (struct ork_bpe){0};
}

/* ---- encoding ---- */

static void find_merge(const void *context, struct ork_merge_symbol *left, const struct ork_merge_symbol *right)
{
    const struct ork_bpe *bpe = context;
    if (left->token < 0 || right->token < 0)
        return;
    uint32_t rank = bpe->slots[find_slot(bpe, left->token, right->token)];
    if (rank) {
        left->rank = rank - 1;
        left->merged = bpe->merges[rank - 1].result;
    }
}

/* The token that the whole word is, -1 when it is none. */
static ork_token find_word(const struct ork_bpe *bpe, const uint8_t *word, uint32_t size_bytes)
{
    enum { ENCODED_MAX = 1024 };
    char encoded[ENCODED_MAX];
    size_t used = 0;
    for (uint32_t i = 0; i < size_bytes; i++) {
        if (used + 2 > ENCODED_MAX || used > bpe->vocabulary->text_bytes_max)
            return -1;
        used += ork_byte_alphabet_encode(word[i], encoded + used);
    }
    return ork_vocabulary_find_plain(bpe->vocabulary, encoded, used);
}

static ork_status encode_word(const struct ork_bpe *bpe, const uint8_t *word, uint32_t size_bytes,
                              struct ork_merger *merger, struct ork_token_list *list, ork_error *error)
{
    if (bpe->ignore_merges) {
        ork_token token = find_word(bpe, word, size_bytes);
        if (token >= 0)
            return ork_token_list_push(list, token, error);
    }
    ork_status status = ork_merger_reserve(merger, size_bytes, error);
    if (status != ORK_OK)
        return status;
    for (uint32_t i = 0; i < size_bytes; i++)
        merger->symbols[i] = (struct ork_merge_symbol){.begin = i, .size_bytes = 1, .token = bpe->byte_tokens[word[i]]};
    ork_merger_run(merger, size_bytes, find_merge, bpe);
    for (uint32_t i = 0; i != ORK_MERGE_NONE && status == ORK_OK; i = merger->symbols[i].next) {
        if (merger->symbols[i].token >= 0)
            status = ork_token_list_push(list, merger->symbols[i].token, error);
        else
            list->dropped_bytes++;
    }
    return status;
}

/* Copies the text with U+FFFD in place of every byte that is in no well-formed sequence. */
static ork_status repair(const uint8_t *text, uint32_t size_bytes, struct ork_text_scratch *scratch, uint32_t *repaired,
                         ork_error *error)
{
    ork_status status = ork_text_scratch_reserve(scratch, (uint64_t)size_bytes * ORK_UTF8_REPLACEMENT_BYTES, error);
    if (status != ORK_OK)
        return status;
    uint8_t *out = scratch->bytes;
    for (size_t position = 0, length; position < size_bytes; position += length) {
        if (ork_utf8_next(text + position, size_bytes - position, &length) == ORK_UTF8_VALID) {
            memcpy(out, text + position, length);
            out += length;
        } else {
            length = 1;
            memcpy(out, ORK_UTF8_REPLACEMENT, ORK_UTF8_REPLACEMENT_BYTES);
            out += ORK_UTF8_REPLACEMENT_BYTES;
        }
    }
    *repaired = (uint32_t)(out - scratch->bytes);
    return ORK_OK;
}

ork_status ork_bpe_encode(const struct ork_bpe *bpe, const char *text, uint32_t size_bytes,
                          struct ork_text_scratch *scratch, struct ork_token_list *list, ork_error *error)
{
    const uint8_t *bytes = (const uint8_t *)text;
    ork_status status = ORK_OK;
    if (ork_utf8_valid_prefix(bytes, size_bytes) < size_bytes) {
        status = repair(bytes, size_bytes, scratch, &size_bytes, error);
        bytes = scratch->bytes;
    }
    if (status == ORK_OK)
        status = ork_splitter_split(bpe->splitter, (const char *)bytes, size_bytes, &scratch->split, error);
    uint32_t begin = 0;
    for (size_t i = 0; status == ORK_OK && i < scratch->split.count; i++) {
        uint32_t end = scratch->split.ends[i];
        status = encode_word(bpe, bytes + begin, end - begin, &scratch->merger, list, error);
        begin = end;
    }
    return status;
}
