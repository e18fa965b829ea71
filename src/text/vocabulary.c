/* Owns reading a vocabulary from metadata, look-up by text and the bytes of tokens; must not know how text is split or
 * merged. Rules: models.md 5.1 and 5.5; the lists of marker texts are facts from llama.cpp's vocabulary loader. */
#include "text/vocabulary.h"

#include "base/error.h"
#include "text/markers.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define TYPES_KEY "tokenizer.ggml.token_type"

/* "[EMPTY_4194303]" and room. */
enum { EMPTY_NAME_BYTES = 24 };

uint64_t ork_hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)&now;
    }
    return seed;
}

/* The first bytes of a text, at most 8, as one word. */
static uint64_t load_head(const char *text, size_t size_bytes)
{
    uint64_t head = 0;
    memcpy(&head, text, size_bytes < 8 ? size_bytes : 8);
    return head;
}

static uint64_t hash_text(uint64_t seed, const char *text, size_t size_bytes)
{
    uint64_t hash = ork_hash_mix(seed, size_bytes);
    for (; size_bytes > 8; text += 8, size_bytes -= 8)
        hash = ork_hash_mix(hash, load_head(text, 8));
    return ork_hash_mix(hash, load_head(text, size_bytes));
}

/* ---- the byte alphabet ---- */

/* Bytes that stand for themselves; the other 68 are U+0100, U+0101, ... in ascending order (models.md 5.4). */
static bool is_own_character(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

static uint32_t byte_character(uint8_t byte)
{
    if (is_own_character(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte <= 0xa0)
        return 0x100u + 0x21 + (byte - 0x7fu);
    return 0x100u + 67; /* 0xad, the last of the 68 */
}

size_t ork_byte_alphabet_encode(uint8_t byte, char out[2])
{
    uint32_t c = byte_character(byte);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

/* The byte that a character stands for, -1 when it is outside the alphabet. */
static int character_byte(uint32_t c)
{
    if (c < 0x100)
        return is_own_character(c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    if (c < 0x100 + 67)
        return (int)(c - 0x121 + 0x7f);
    return c == 0x100 + 67 ? 0xad : -1;
}

/* ---- texts and look-up ---- */

static ork_status copy_texts(struct ork_vocabulary *vocabulary, const struct ork_meta_value *tokens, ork_error *error)
{
    uint64_t capacity = tokens->size_bytes, position = 0, length;
    const char *text;
    for (uint32_t i = 0; ork_meta_next_string(tokens, &position, &text, &length); i++)
        if (length == 0)
            capacity += EMPTY_NAME_BYTES;
    if (capacity > ORK_VOCABULARY_TEXT_BYTES_MAX)
        return ork_error_set(error, ORK_UNSUPPORTED, TOKENS_KEY, tokens->offset,
                             "%llu bytes of token texts are more than the limit of %u", (unsigned long long)capacity,
                             ORK_VOCABULARY_TEXT_BYTES_MAX);
    char *texts = ork_arena_array(&vocabulary->arena, capacity, 1);
    uint32_t *begins = ork_arena_array(&vocabulary->arena, (uint64_t)vocabulary->size + 1, sizeof *begins);
    if (!texts || !begins)
        return ork_error_no_memory(error, TOKENS_KEY, capacity);
    uint32_t used = 0;
    position = 0;
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        if (!ork_meta_next_string(tokens, &position, &text, &length))
            return ork_error_set(error, ORK_BAD_FILE, TOKENS_KEY, tokens->offset, "token %u cannot be read", i);
        char name[EMPTY_NAME_BYTES];
        if (length == 0) {
            length = (uint64_t)snprintf(name, sizeof name, "[EMPTY_%u]", i);
            text = name;
        }
        memcpy(texts + used, text, length);
        begins[i] = used;
        used += (uint32_t)length;
        if (length > vocabulary->text_bytes_max)
            vocabulary->text_bytes_max = (uint32_t)length;
    }
    begins[vocabulary->size] = used;
    vocabulary->texts = texts;
    vocabulary->text_begins = begins;
    return ORK_OK;
}

static uint32_t first_slot(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes)
{
    return (uint32_t)hash_text(vocabulary->seed, text, size_bytes) & vocabulary->slot_mask;
}

/* The slot that holds the text, or the free one where it belongs. */
static struct ork_vocabulary_slot *find_slot(const struct ork_vocabulary *vocabulary, const char *text,
                                             size_t size_bytes)
{
    uint64_t head = load_head(text, size_bytes);
    for (uint32_t i = first_slot(vocabulary, text, size_bytes);; i = (i + 1) & vocabulary->slot_mask) {
        struct ork_vocabulary_slot *slot = &vocabulary->slots[i];
        if (slot->next_id == 0)
            return slot;
        if (slot->head != head || slot->size_bytes != size_bytes)
            continue;
        const char *other = vocabulary->texts + vocabulary->text_begins[slot->next_id - 1];
        if (size_bytes <= 8 || memcmp(other + 8, text + 8, size_bytes - 8) == 0)
            return slot;
    }
}

static ork_status build_index(struct ork_vocabulary *vocabulary, ork_error *error)
{
    uint32_t slot_count = 16;
    while (slot_count < vocabulary->size + vocabulary->size / 2)
        slot_count *= 2;
    vocabulary->slots = ork_arena_array(&vocabulary->arena, slot_count, sizeof *vocabulary->slots);
    if (!vocabulary->slots)
        return ork_error_no_memory(error, TOKENS_KEY, slot_count * sizeof *vocabulary->slots);
    vocabulary->slot_mask = slot_count - 1;
    vocabulary->seed = ork_hash_seed();
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        uint32_t size;
        const char *text = ork_vocabulary_text(vocabulary, (ork_token)i, &size);
        struct ork_vocabulary_slot *slot = find_slot(vocabulary, text, size);
        if (slot->next_id)
            return ork_error_set(error, ORK_BAD_FILE, TOKENS_KEY, -1, "tokens %u and %u have the same text '%.*s'",
                                 slot->next_id - 1, i, (int)(size < 64 ? size : 64), text);
        *slot = (struct ork_vocabulary_slot){i + 1, size, load_head(text, size)};
    }
    return ORK_OK;
}

ork_token ork_vocabulary_find(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes)
{
    if (size_bytes > vocabulary->text_bytes_max)
        return -1;
    return (ork_token)find_slot(vocabulary, text, size_bytes)->next_id - 1;
}

ork_token ork_vocabulary_find_plain(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes)
{
    ork_token token = ork_vocabulary_find(vocabulary, text, size_bytes);
    return token >= 0 && ork_vocabulary_is_plain(vocabulary, token) ? token : -1;
}

void ork_vocabulary_prefetch(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes)
{
    if (size_bytes <= vocabulary->text_bytes_max)
        __builtin_prefetch(&vocabulary->slots[first_slot(vocabulary, text, size_bytes)]);
}

/* ---- types and special ids ---- */

static ork_status read_types(struct ork_vocabulary *vocabulary, const ork_meta *meta, ork_error *error)
{
    vocabulary->types = ork_arena_array(&vocabulary->arena, vocabulary->size, 1);
    vocabulary->ends = ork_arena_array(&vocabulary->arena, vocabulary->size, 1);
    if (!vocabulary->types || !vocabulary->ends)
        return ork_error_no_memory(error, TYPES_KEY, vocabulary->size);
    const struct ork_meta_value *types = NULL;
    ork_status status = ork_meta_array(meta, TYPES_KEY, false, ORK_META_I32, vocabulary->size, &types, error);
    if (status != ORK_OK)
        return status;
    memset(vocabulary->types, ORK_TOKEN_NORMAL, vocabulary->size);
    if (!types)
        return ORK_OK;
    struct ork_cursor cursor = ork_cursor_make(types->data, types->size_bytes);
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        uint32_t type;
        if (!ork_cursor_u32(&cursor, &type) || type > ORK_TOKEN_BYTE)
            return ork_error_set(error, ORK_BAD_FILE, TYPES_KEY, types->offset + (int64_t)(4 * (uint64_t)i),
                                 "token %u has an unknown type (known: 0 to %d)", i, ORK_TOKEN_BYTE);
        vocabulary->types[i] = (uint8_t)type;
    }
    return ORK_OK;
}

/* A token id by key. fallback holds when the key is absent; ids outside the vocabulary are as none (models.md 5.1). */
static ork_status read_id(const struct ork_vocabulary *vocabulary, const ork_meta *meta, const char *key,
                          ork_token fallback, ork_token *token, ork_error *error)
{
    uint32_t id = (uint32_t)fallback; /* -1 becomes the largest id, which is outside */
    ork_status status = ork_meta_u32(meta, key, false, &id, error);
    *token = id < vocabulary->size ? (ork_token)id : -1;
    return status;
}

static ork_status read_special_ids(struct ork_vocabulary *vocabulary, const ork_meta *meta, bool adds_bos_default,
                                   ork_error *error)
{
    bool spm = vocabulary->kind == ORK_TOKENIZER_SPM;
    /* llama.cpp takes 11 for BOS and EOS of a BPE file without the keys; that is an end token in Falcon's vocabulary and
     * a comma in others, so here only if the file calls it control. */
    ork_token eleven = vocabulary->size > 11 && vocabulary->types[11] == ORK_TOKEN_CONTROL ? 11 : -1;
    ork_status status =
        read_id(vocabulary, meta, "tokenizer.ggml.bos_token_id", spm ? 1 : eleven, &vocabulary->bos, error);
    if (status == ORK_OK)
        status = read_id(vocabulary, meta, "tokenizer.ggml.eos_token_id", spm ? 2 : eleven, &vocabulary->eos, error);
    if (status == ORK_OK)
        status =
            read_id(vocabulary, meta, "tokenizer.ggml.unknown_token_id", spm ? 0 : -1, &vocabulary->unknown, error);
    if (status == ORK_OK)
        status = read_id(vocabulary, meta, "tokenizer.ggml.eot_token_id", -1, &vocabulary->eot, error);
    vocabulary->adds_bos = adds_bos_default;
    if (status == ORK_OK)
        status = ork_meta_bool(meta, "tokenizer.ggml.add_bos_token", false, &vocabulary->adds_bos, error);
    if (status == ORK_OK)
        status = ork_meta_bool(meta, "tokenizer.ggml.add_eos_token", false, &vocabulary->adds_eos, error);
    /* Without the token there is nothing to add. */
    vocabulary->adds_bos = vocabulary->adds_bos && vocabulary->bos >= 0;
    vocabulary->adds_eos = vocabulary->adds_eos && vocabulary->eos >= 0;
    return status;
}

/* ---- bytes ---- */

/* The byte of "<0xHH>", -1 for any other text. */
static int byte_token_value(const char *text, uint32_t size_bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    if (size_bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

/* Inverse byte alphabet; what is outside it stays as it is. At most size_bytes bytes come out. */
static uint32_t decode_byte_alphabet(const uint8_t *text, uint32_t size_bytes, uint8_t *out)
{
    uint32_t used = 0;
    for (size_t position = 0, length; position < size_bytes; position += length) {
        bool valid = ork_utf8_next(text + position, size_bytes - position, &length) == ORK_UTF8_VALID;
        int byte = valid ? character_byte(ork_utf8_decode(text + position, length)) : -1;
        if (byte >= 0) {
            out[used++] = (uint8_t)byte;
        } else {
            memcpy(out + used, text + position, length);
            used += (uint32_t)length;
        }
    }
    return used;
}

/* U+2581 becomes a space. */
static uint32_t decode_spaces(const uint8_t *text, uint32_t size_bytes, uint8_t *out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < size_bytes; i++) {
        if (i + 2 < size_bytes && text[i] == 0xe2 && text[i + 1] == 0x96 && text[i + 2] == 0x81) {
            out[used++] = ' ';
            i += 2;
        } else {
            out[used++] = text[i];
        }
    }
    return used;
}

static uint32_t decode_piece(const struct ork_vocabulary *vocabulary, ork_token token, uint8_t *out)
{
    uint32_t size;
    const char *text = ork_vocabulary_text(vocabulary, token, &size);
    int byte;
    switch ((enum ork_token_type)vocabulary->types[token]) {
    case ORK_TOKEN_CONTROL:
    case ORK_TOKEN_UNKNOWN:
    case ORK_TOKEN_USER_DEFINED:
        memcpy(out, text, size);
        return size;
    case ORK_TOKEN_UNUSED:
    case ORK_TOKEN_UNDEFINED:
        return 0;
    case ORK_TOKEN_BYTE:
        byte = byte_token_value(text, size);
        if (byte >= 0) {
            out[0] = (uint8_t)byte;
            return 1;
        }
        break;
    case ORK_TOKEN_NORMAL:
        break;
    }
    return vocabulary->kind == ORK_TOKENIZER_BPE ? decode_byte_alphabet((const uint8_t *)text, size, out)
                                                 : decode_spaces((const uint8_t *)text, size, out);
}

static ork_status decode_pieces(struct ork_vocabulary *vocabulary, ork_error *error)
{
    uint32_t total = vocabulary->text_begins[vocabulary->size];
    uint8_t *pieces = ork_arena_array(&vocabulary->arena, total, 1);
    uint32_t *sizes = ork_arena_array(&vocabulary->arena, vocabulary->size, sizeof *sizes);
    if (!pieces || !sizes)
        return ork_error_no_memory(error, TOKENS_KEY, total);
    for (uint32_t i = 0; i < vocabulary->size; i++)
        sizes[i] = decode_piece(vocabulary, (ork_token)i, pieces + vocabulary->text_begins[i]);
    vocabulary->pieces = pieces;
    vocabulary->piece_sizes = sizes;
    return ORK_OK;
}

/* ---- loading ---- */

ork_status ork_vocabulary_load(struct ork_vocabulary *vocabulary, enum ork_tokenizer_kind kind, bool adds_bos_default,
                               const ork_meta *meta, ork_error *error)
{
    const struct ork_meta_value *tokens = NULL;
    ork_status status = ork_meta_array(meta, TOKENS_KEY, true, ORK_META_STRING, 0, &tokens, error);
    if (status != ORK_OK)
        return status;
    if (tokens->count == 0 || tokens->count > ORK_VOCABULARY_TOKENS_MAX)
        return ork_error_set(error, ORK_BAD_FILE, TOKENS_KEY, tokens->offset,
                             "a vocabulary of %llu tokens (1 to %u are possible)", (unsigned long long)tokens->count,
                             ORK_VOCABULARY_TOKENS_MAX);
    vocabulary->kind = kind;
    vocabulary->size = (uint32_t)tokens->count;
    status = copy_texts(vocabulary, tokens, error);
    if (status == ORK_OK)
        status = build_index(vocabulary, error);
    if (status == ORK_OK)
        status = read_types(vocabulary, meta, error);
    if (status == ORK_OK)
        status = read_special_ids(vocabulary, meta, adds_bos_default, error);
    if (status == ORK_OK)
        status = ork_vocabulary_mark(vocabulary, meta, error);
    if (status == ORK_OK)
        status = decode_pieces(vocabulary, error);
    return status;
}

void ork_vocabulary_free(struct ork_vocabulary *vocabulary)
{
    ork_arena_free(&vocabulary->arena);
    *vocabulary = (struct ork_vocabulary){0};
}
