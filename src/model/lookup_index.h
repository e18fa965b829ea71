/* Where in a token list the last tokens stood before. Pure: a list goes in, a place comes out. */
#ifndef ORK_MODEL_LOOKUP_INDEX_H
#define ORK_MODEL_LOOKUP_INDEX_H

#include "ork/ork.h"

enum {
    ORK_LOOKUP_SIZES = 16,              /* lengths of matches that are indexed, at most */
    ORK_LOOKUP_SEEN = 16,               /* tokens that a match is followed back, at most */
    ORK_LOOKUP_TOKENS_MAX = 1 << 28     /* of a list */
};

struct ork_lookup_index {
    uint32_t match_min, match_max; /* 1 <= min <= max, max - min < ORK_LOOKUP_SIZES */
    ork_token *tokens;             /* [capacity]; the first `count` are the list */
    uint32_t count, capacity;
    /* [1 << bits] for each length: open addressing; how many tokens end with the latest place of a run of that length that
     * another token follows, 0: empty. */
    uint32_t *places[ORK_LOOKUP_SIZES];
    uint32_t bits;
};

/* A place where the last tokens stood before: the token there followed them. */
struct ork_lookup_place {
    uint32_t at;      /* index into the list, at least 1 */
    uint32_t matched; /* tokens before it that equal the last of the list, at most ORK_LOOKUP_SEEN; 0: there is no place */
};

void ork_lookup_index_create(struct ork_lookup_index *index, uint32_t match_min, uint32_t match_max);
void ork_lookup_index_destroy(struct ork_lookup_index *index);
/* Makes room in `tokens` for so many. */
ork_status ork_lookup_index_reserve(struct ork_lookup_index *index, size_t count, ork_error *error);
/* Appends one token. Time does not depend on the list, but for a doubling of memory now and then. */
ork_status ork_lookup_index_add(struct ork_lookup_index *index, ork_token token, ork_error *error);
uint64_t ork_lookup_index_bytes(const struct ork_lookup_index *index);
void ork_lookup_index_clear(struct ork_lookup_index *index);
/* Of the longest run of last tokens, from match_max down to match_min, that stood in the list before, the latest place. */
struct ork_lookup_place ork_lookup_index_find(const struct ork_lookup_index *index);
/* What followed there, `count` tokens; behind the end of the list it goes on with the same period. */
void ork_lookup_index_copy(const struct ork_lookup_index *index, uint32_t at, ork_token *out, uint32_t count);

#endif
