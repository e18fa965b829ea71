/* The two algorithms that turn a piece of text without special tokens into tokens. They know the vocabulary; neither
 * knows special tokens, BOS or templates. */
#ifndef ORK_TEXT_ENCODERS_H
#define ORK_TEXT_ENCODERS_H

#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

/* Storage of one call, kept between pieces; zeroed is empty. */
struct ork_text_scratch {
    struct ork_merger merger;
    struct ork_split_scratch split;
    uint8_t *bytes;
    size_t byte_capacity;
};
ork_status ork_text_scratch_reserve(struct ork_text_scratch *scratch, uint64_t size_bytes, ork_error *error);
void ork_text_scratch_free(struct ork_text_scratch *scratch);

/* ---- byte-level BPE (models.md 5.4) ---- */

#define ORK_BPE_MERGES_MAX (1u << 24)

struct ork_bpe_merge {
    ork_token left, right, result;
};

struct ork_bpe {
    const struct ork_vocabulary *vocabulary;
    struct ork_splitter *splitter;
    bool ignore_merges;
    ork_token byte_tokens[256];   /* token of a single byte, -1: the vocabulary has none */
    struct ork_bpe_merge *merges; /* [merge_count] by rank */
    uint32_t merge_count;
    /* Open addressing over (left, right): rank + 1, 0 is free. */
    uint32_t *slots; /* [slot_mask + 1] */
    uint32_t slot_mask;
};

/* Fills a zeroed struct; tables go into the vocabulary's arena. Merges whose parts or result are no tokens are left
 * out: they could only make symbols that cannot be written down. */
ork_status ork_bpe_load(struct ork_bpe *bpe, struct ork_vocabulary *vocabulary, const struct ork_pretokenizer *pre,
                        const ork_meta *meta, ork_error *error);
void ork_bpe_free(struct ork_bpe *bpe);
/* Bytes that are no UTF-8 become U+FFFD each. */
ork_status ork_bpe_encode(const struct ork_bpe *bpe, const char *text, uint32_t size_bytes,
                          struct ork_text_scratch *scratch, struct ork_token_list *list, ork_error *error);

/* ---- SPM: SentencePiece's BPE (models.md 5.3) ---- */

struct ork_spm {
    const struct ork_vocabulary *vocabulary;
    uint32_t *ranks;            /* [vocabulary size] lower for higher scores */
    ork_token byte_tokens[256]; /* <0xHH>, else the one-byte token, else -1 */
    bool adds_space;            /* before every piece: at the beginning of a text and after a special token */
};

ork_status ork_spm_load(struct ork_spm *spm, struct ork_vocabulary *vocabulary, const ork_meta *meta, ork_error *error);
ork_status ork_spm_encode(const struct ork_spm *spm, const char *text, uint32_t size_bytes,
                          struct ork_text_scratch *scratch, struct ork_token_list *list, ork_error *error);

#endif
