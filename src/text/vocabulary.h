/* The vocabulary: token texts, types and the bytes they stand for, look-up by text, special ids and the set of tokens
 * that end a generation. Read once from metadata, immutable afterwards. Knows no algorithm that turns text into tokens. */
#ifndef ORK_TEXT_VOCABULARY_H
#define ORK_TEXT_VOCABULARY_H

#include "base/arena.h"
#include "format/meta.h"
#include "ork/ork.h"

#include <string.h>

/* Bounds; the largest real vocabularies have 262144 tokens and less than 3 MB of text. */
#define ORK_VOCABULARY_TOKENS_MAX (1u << 22)
#define ORK_VOCABULARY_TEXT_BYTES_MAX (1u << 28)

/* The numbers are those of tokenizer.ggml.token_type. */
enum ork_token_type {
    ORK_TOKEN_UNDEFINED = 0,
    ORK_TOKEN_NORMAL = 1,
    ORK_TOKEN_UNKNOWN = 2,
    ORK_TOKEN_CONTROL = 3,
    ORK_TOKEN_USER_DEFINED = 4,
    ORK_TOKEN_UNUSED = 5,
    ORK_TOKEN_BYTE = 6
};

enum ork_tokenizer_kind {
    ORK_TOKENIZER_BPE, /* "gpt2": token texts are in the byte alphabet (models.md 5.4) */
    ORK_TOKENIZER_SPM  /* "llama": U+2581 stands for a space, byte tokens are <0xHH> */
};

/* Open addressing by text. The first bytes stand here too, so that a search for a short text stays in one cache line. */
struct ork_vocabulary_slot {
    uint32_t next_id; /* id + 1; 0 is free */
    uint32_t size_bytes;
    uint64_t head; /* the first 8 bytes, zeros behind a shorter text */
};

struct ork_vocabulary {
    struct ork_arena arena;
    enum ork_tokenizer_kind kind;
    uint32_t size;                     /* tokens */
    const char *texts;                 /* all texts, one after the other */
    const uint32_t *text_begins;       /* [size + 1] */
    uint32_t text_bytes_max;           /* of the longest text */
    uint8_t *types;                    /* [size] enum ork_token_type */
    uint8_t *ends;                     /* [size] 1 for a token that ends a generation */
    const uint8_t *pieces;             /* bytes that tokens stand for; piece i begins at text_begins[i] */
    const uint32_t *piece_sizes;       /* [size] bytes */
    struct ork_vocabulary_slot *slots; /* [slot_mask + 1] */
    uint32_t slot_mask;
    uint64_t seed;
    ork_token bos, eos, eot, unknown; /* -1: none */
    bool adds_bos, adds_eos;
};

/* Fills a zeroed struct. adds_bos_default: what holds when tokenizer.ggml.add_bos_token is absent. */
ork_status ork_vocabulary_load(struct ork_vocabulary *vocabulary, enum ork_tokenizer_kind kind, bool adds_bos_default,
                               const ork_meta *meta, ork_error *error);
void ork_vocabulary_free(struct ork_vocabulary *vocabulary);

static inline const char *ork_vocabulary_text(const struct ork_vocabulary *vocabulary, ork_token token,
                                              uint32_t *size_bytes)
{
    uint32_t begin = vocabulary->text_begins[token];
    *size_bytes = vocabulary->text_begins[token + 1] - begin;
    return vocabulary->texts + begin;
}

/* Whether plain text may become this token: never control, unknown or byte tokens. So nothing that a user writes is
 * merged into a control token. */
static inline bool ork_vocabulary_is_plain(const struct ork_vocabulary *vocabulary, ork_token token)
{
    uint8_t type = vocabulary->types[token];
    return type == ORK_TOKEN_NORMAL || type == ORK_TOKEN_USER_DEFINED || type == ORK_TOKEN_UNUSED;
}

/* The token with this text, -1 when there is none. */
ork_token ork_vocabulary_find(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes);
/* As above, among the plain ones. */
ork_token ork_vocabulary_find_plain(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes);
/* Fetches what a search for this text will look at, for searches that are known in advance. */
void ork_vocabulary_prefetch(const struct ork_vocabulary *vocabulary, const char *text, size_t size_bytes);
static inline ork_token ork_vocabulary_find_string(const struct ork_vocabulary *vocabulary, const char *text)
{
    return ork_vocabulary_find(vocabulary, text, strlen(text));
}

/* The byte alphabet of byte-level BPE: UTF-8 of the character that stands for a byte, one or two bytes long. */
size_t ork_byte_alphabet_encode(uint8_t byte, char out[2]);
/* A seed for hash tables, new in every process, so that no file can be made to collide. */
uint64_t ork_hash_seed(void);
static inline uint64_t ork_hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product =
        (unsigned __int128)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xd1b54a32d192ed03));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
