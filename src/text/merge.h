/* Merging of adjacent symbols, best rank first: what byte-level BPE and SPM have in common. O(n log n) for n symbols,
 * without recursion. Knows neither vocabularies nor what symbols stand for. */
#ifndef ORK_TEXT_MERGE_H
#define ORK_TEXT_MERGE_H

#include "ork/ork.h"

#define ORK_MERGE_NONE UINT32_MAX

struct ork_merge_symbol {
    uint32_t begin, size_bytes; /* of the text that it covers */
    uint32_t next, previous;    /* ORK_MERGE_NONE at the ends */
    ork_token token;            /* -1: not in the vocabulary */
    /* The merge with the next symbol: its rank (ORK_MERGE_NONE: they do not merge) and what comes out. */
    uint32_t rank;
    ork_token merged;
};

/* Storage that is kept from one word to the next; zeroed is empty. */
struct ork_merger {
    struct ork_merge_symbol *symbols;
    uint64_t *keys;
    size_t symbol_capacity, key_capacity;
};

/* Fills left->rank and left->merged for two neighbours. Ranks are below ORK_MERGE_NONE; lower ones go first, equal ones
 * from left to right. */
typedef void (*ork_merge_pair_function)(const void *context, struct ork_merge_symbol *left,
                                        const struct ork_merge_symbol *right);

/* Makes room for `count` symbols in merger->symbols. */
ork_status ork_merger_reserve(struct ork_merger *merger, size_t count, ork_error *error);
/* Links symbols[0..count) in order and merges until no pair is left; the result is the list that starts at symbol 0.
 * begin, size_bytes and token are set by the caller. count > 0. */
void ork_merger_run(struct ork_merger *merger, uint32_t count, ork_merge_pair_function pair, const void *context);
void ork_merger_free(struct ork_merger *merger);

#endif
