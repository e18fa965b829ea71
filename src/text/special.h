/* Tokens that are found by their text before anything else splits it (models.md 5.2). Knows no merging. */
#ifndef ORK_TEXT_SPECIAL_H
#define ORK_TEXT_SPECIAL_H

#include "text/tokenizer.h"
#include "text/vocabulary.h"

/* Longer ones are refused; the longest real ones are runs of a few dozen spaces. */
#define ORK_SPECIAL_BYTES_MAX 1023u

struct ork_special {
    const char *text;
    uint32_t size_bytes;
    ork_token token;
    uint32_t parent; /* the longest other entry that is a prefix of this one, UINT32_MAX: none */
    bool control;    /* control or unknown: found only where parsing is wanted */
};

/* Entries sorted by their bytes, so that a search narrows a range one byte at a time. */
struct ork_special_set {
    struct ork_special *entries; /* [count] in the vocabulary's arena, as are their texts */
    uint32_t count;
    uint32_t first[257]; /* entries that begin with byte b are first[b] to first[b + 1] */
};

ork_status ork_special_set_load(struct ork_special_set *set, struct ork_vocabulary *vocabulary, ork_error *error);

struct ork_special_match {
    uint32_t begin, size_bytes;
    ork_token token;
};

struct ork_special_matches {
    struct ork_special_match *matches; /* ascending, without overlap */
    size_t count;
};

/* Longest entries first, equally long ones from left to right; matches never overlap. Spans cover the text. O(n) for
 * ordinary text; at worst n times the bytes of the longest entry. */
ork_status ork_special_partition(const struct ork_special_set *set, const char *text, const struct ork_text_span *spans,
                                 size_t span_count, bool parse_special, struct ork_special_matches *matches,
                                 ork_error *error);
void ork_special_matches_free(struct ork_special_matches *matches);

#endif
