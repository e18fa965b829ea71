/* The tokenizer: text to tokens and back, for a vocabulary that is read from metadata. Immutable after creation and safe
 * to share between threads; streams belong to one thread. Knows no models and no files.
 *
 * Rules and their sources: models.md 5. Differences from llama.cpp, all on purpose:
 *  - text that is merged never becomes a control, unknown or byte token, whatever the merges allow;
 *  - regexes are the published ones (for gpt-4o and tekken, cased letters and marks as in tiktoken);
 *  - overlong forms, surrogates and values above U+10FFFF are bad bytes like any other. */
#ifndef ORK_TEXT_TOKENIZER_H
#define ORK_TEXT_TOKENIZER_H

#include "format/meta.h"
#include "ork/ork.h"

/* Longer texts are refused with ORK_LIMIT. */
#define ORK_TEXT_BYTES_MAX (1u << 27)

typedef struct ork_tokenizer ork_tokenizer;

/* A growing list of tokens; zeroed is empty. */
struct ork_token_list {
    ork_token *tokens;
    size_t count, capacity;
    /* Bytes of text that the vocabulary has no token for, left out as llama.cpp and Hugging Face do. SmolLM2, for
     * example, has none for U+0004 and for most private-use characters. */
    uint64_t dropped_bytes;
};
ork_status ork_token_list_push(struct ork_token_list *list, ork_token token, ork_error *error);
void ork_token_list_free(struct ork_token_list *list);

/* A run of text. In plain runs control tokens written out stay text, whatever the flags say. */
struct ork_text_span {
    size_t size_bytes;
    bool plain;
};

/* Whether this version has the tokenizer that the metadata names; reads two strings only. */
ork_status ork_tokenizer_check(const ork_meta *meta, ork_error *error);
/* Copies what it needs; the metadata may go afterwards. Refuses unknown tokenizers and pre-tokenizers (naming the nearest
 * known one) and arrays of the wrong type, length or content. */
ork_status ork_tokenizer_create(const ork_meta *meta, ork_tokenizer **tokenizer, ork_error *error);
void ork_tokenizer_destroy(ork_tokenizer *tokenizer);
/* One line for the user where the file left something to a guess (no pre-tokenizer named), NULL otherwise. */
const char *ork_tokenizer_warning(const ork_tokenizer *tokenizer);

/* Appends the tokens of `text` (any bytes) to *list; flags are ORK_TOKENIZE_*. A BOS that is already written out in the
 * text and parsed is not looked for: with ORK_TOKENIZE_SPECIAL there are then two, as in llama.cpp. */
ork_status ork_tokenizer_encode(const ork_tokenizer *tokenizer, const char *text, size_t size_bytes, unsigned flags,
                                struct ork_token_list *list, ork_error *error);
/* As above for text made of consecutive spans: boundaries do not split words, but a control token is only found where
 * all its bytes are in spans that are not plain. */
ork_status ork_tokenizer_encode_spans(const ork_tokenizer *tokenizer, const char *text,
                                      const struct ork_text_span *spans, size_t span_count, unsigned flags,
                                      struct ork_token_list *list, ork_error *error);

uint32_t ork_tokenizer_vocabulary_size(const ork_tokenizer *tokenizer);
/* -1 where there is none. */
ork_token ork_tokenizer_bos(const ork_tokenizer *tokenizer);
ork_token ork_tokenizer_eos(const ork_tokenizer *tokenizer);
ork_token ork_tokenizer_eot(const ork_tokenizer *tokenizer);
bool ork_tokenizer_adds_bos(const ork_tokenizer *tokenizer);
bool ork_tokenizer_adds_eos(const ork_tokenizer *tokenizer);
/* True for the tokens that end a generation; false for ids outside the vocabulary. */
bool ork_tokenizer_is_end(const ork_tokenizer *tokenizer, ork_token token);
/* Control and unknown tokens, which are text only when asked for. */
bool ork_tokenizer_is_special(const ork_tokenizer *tokenizer, ork_token token);
/* The raw bytes that a token stands for (for special ones their text), perhaps part of a UTF-8 sequence; NULL for ids
 * outside the vocabulary. Lives as long as the tokenizer. */
const char *ork_tokenizer_piece(const ork_tokenizer *tokenizer, ork_token token, size_t *size_bytes);
/* The token whose text in the file is this, -1 when there is none. */
ork_token ork_tokenizer_find(const ork_tokenizer *tokenizer, const char *text, size_t size_bytes);

/* For ork_detokenize(): the whole list through a stream. *text is NUL-terminated, well-formed UTF-8, freed with
 * ork_free(). */
ork_status ork_tokenizer_detokenize(const ork_tokenizer *tokenizer, const ork_token *tokens, size_t count, bool special,
                                    char **text, size_t *size_bytes, ork_error *error);
/* For ork_text_stream_create(); push, finish and destroy are the public functions of ork.h, defined in stream.c.
 * strip_space: leave out one space at the very beginning where the tokenizer puts one before a text (SPM); true for a
 * whole text, false for a continuation, whose first space counts. The tokenizer must outlive the stream. */
ork_status ork_tokenizer_stream_create(const ork_tokenizer *tokenizer, bool special, bool strip_space,
                                       ork_text_stream **stream, ork_error *error);

#endif
