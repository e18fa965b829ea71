/* Splitting of text into words by regular expressions, before byte-level BPE merges inside words (models.md 5.4). Knows
 * no vocabulary. */
#ifndef ORK_TEXT_PRETOKENIZE_H
#define ORK_TEXT_PRETOKENIZE_H

#include "ork/ork.h"

#define ORK_SPLIT_PATTERNS_MAX 4

/* How a value of tokenizer.ggml.pre splits. */
struct ork_pretokenizer {
    const char *const *names; /* NULL-terminated */
    /* NULL-terminated, at most ORK_SPLIT_PATTERNS_MAX; each splits what the one before left. */
    const char *const *patterns;
    bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
    bool adds_bos;      /* when the file does not say */
};
/* NULL when the name is not known. */
const struct ork_pretokenizer *ork_pretokenizer_find(const char *name, size_t length);
/* Writes up to `capacity` known names; returns how many. */
size_t ork_pretokenizer_names(const char **names, size_t capacity);

/* Compiled patterns; immutable, shared by threads. */
struct ork_splitter;
ork_status ork_splitter_create(const char *const *patterns, struct ork_splitter **splitter, ork_error *error);
void ork_splitter_destroy(struct ork_splitter *splitter);

/* What one thread needs while splitting, kept between calls; zeroed is empty. After a split, word i ends at ends[i]. */
struct ork_split_scratch {
    uint32_t *ends, *other_ends; /* [capacity] each */
    size_t count, capacity;
    void *match_data, *match_context;
    /* Matches for which the stack of the compiled code was too small, so that the interpreter did them. */
    uint64_t interpreted_count;
};
/* Splits well-formed UTF-8 into words that cover every byte of it. A limit that is hit is an error, never a missed
 * match. */
ork_status ork_splitter_split(const struct ork_splitter *splitter, const char *text, uint32_t size_bytes,
                              struct ork_split_scratch *scratch, ork_error *error);
void ork_split_scratch_free(struct ork_split_scratch *scratch);

#endif
