/* Owns the search for special tokens; must not know what happens to the text between them.
 *
 * The reference goes through all tokens, longest first, and splits every remaining piece of text at each. The same
 * result comes from the positions: each position has a longest entry that begins there; a heap hands out the longest of
 * all, leftmost first; where it overlaps what is taken already, the position tries the next shorter entry. */
#include "text/special.h"

#include "base/error.h"
#include "text/heap.h"

#include <stdlib.h>

/* A candidate as a heap key: longest first, then leftmost; the entry's index rides along. */
enum { SIZE_BITS = 10, POSITION_BITS = 27, ENTRY_BITS = 27 };
_Static_assert(SIZE_BITS + POSITION_BITS + ENTRY_BITS == 64, "a candidate is one key");
_Static_assert(ORK_SPECIAL_BYTES_MAX < 1u << SIZE_BITS, "sizes fit");
_Static_assert(ORK_TEXT_BYTES_MAX <= 1u << POSITION_BITS, "positions fit");
_Static_assert(ORK_VOCABULARY_TOKENS_MAX <= 1u << ENTRY_BITS, "entries fit");

static uint64_t make_key(uint32_t size_bytes, uint32_t position, uint32_t entry)
{
    return (uint64_t)(ORK_SPECIAL_BYTES_MAX - size_bytes) << (POSITION_BITS + ENTRY_BITS) |
           (uint64_t)position << ENTRY_BITS | entry;
}

/* ---- the set ---- */

static int compare_specials(const void *a, const void *b)
{
    const struct ork_special *x = a, *y = b;
    uint32_t common = x->size_bytes < y->size_bytes ? x->size_bytes : y->size_bytes;
    int order = memcmp(x->text, y->text, common);
    return order ? order : (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static bool is_prefix(const struct ork_special *prefix, const struct ork_special *entry)
{
    return prefix->size_bytes < entry->size_bytes && memcmp(prefix->text, entry->text, prefix->size_bytes) == 0;
}

static bool is_special_type(uint8_t type)
{
    return type == ORK_TOKEN_CONTROL || type == ORK_TOKEN_UNKNOWN || type == ORK_TOKEN_USER_DEFINED;
}

ork_status ork_special_set_load(struct ork_special_set *set, struct ork_vocabulary *vocabulary, ork_error *error)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < vocabulary->size; i++)
        count += is_special_type(vocabulary->types[i]);
    set->entries = ork_arena_array(&vocabulary->arena, count, sizeof *set->entries);
    if (!set->entries)
        return ork_error_no_memory(error, "tokenizer.ggml.token_type", count * sizeof *set->entries);
    for (uint32_t i = 0; i < vocabulary->size; i++) {
        if (!is_special_type(vocabulary->types[i]))
            continue;
        struct ork_special *entry = &set->entries[set->count++];
        entry->text = ork_vocabulary_text(vocabulary, (ork_token)i, &entry->size_bytes);
        entry->token = (ork_token)i;
        entry->control = vocabulary->types[i] != ORK_TOKEN_USER_DEFINED;
        if (entry->size_bytes > ORK_SPECIAL_BYTES_MAX)
            return ork_error_set(error, ORK_UNSUPPORTED, "tokenizer.ggml.tokens", -1,
                                 "special token %u has %u bytes, at most %u are possible", i, entry->size_bytes,
                                 ORK_SPECIAL_BYTES_MAX);
    }
    if (set->count)
        qsort(set->entries, set->count, sizeof *set->entries, compare_specials);
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t parent = i ? i - 1 : UINT32_MAX;
        while (parent != UINT32_MAX && !is_prefix(&set->entries[parent], &set->entries[i]))
            parent = set->entries[parent].parent;
        set->entries[i].parent = parent;
        set->first[(uint8_t)set->entries[i].text[0] + 1] = i + 1;
    }
    for (uint32_t b = 0; b < 256; b++)
        if (set->first[b + 1] < set->first[b])
            set->first[b + 1] = set->first[b];
    return ORK_OK;
}

/* First entry of [low, high), all of which are longer than `depth`, whose byte at `depth` is at least `byte`. */
static uint32_t lower_bound(const struct ork_special_set *set, uint32_t low, uint32_t high, uint32_t depth,
                            unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)set->entries[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest entry that text[0..left) begins with, UINT32_MAX when there is none. */
static uint32_t longest_match(const struct ork_special_set *set, const char *text, size_t left)
{
    uint32_t best = UINT32_MAX;
    uint8_t byte = (uint8_t)text[0];
    uint32_t low = set->first[byte], high = set->first[byte + 1];
    for (uint32_t depth = 1; low < high; depth++) {
        /* All of [low, high) share `depth` bytes with the text; one that ends here sorts first. */
        if (set->entries[low].size_bytes == depth)
            best = low++;
        if (depth == left)
            break;
        byte = (uint8_t)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1u);
    }
    return best;
}

/* ---- the search ---- */

struct search {
    const struct ork_special_set *set;
    const uint32_t *span_ends; /* [span_count] */
    const struct ork_text_span *spans;
    size_t span_count;
    bool parse_special;
    uint8_t *taken; /* one bit a byte of text */
    uint64_t *keys; /* candidates */
    size_t key_count, key_capacity;
};

static bool is_taken(const struct search *search, uint32_t position)
{
    return search->taken[position / 8] >> position % 8 & 1;
}

/* Whether control tokens may be found in [begin, begin + size_bytes). */
static bool is_parsed(const struct search *search, uint32_t begin, uint32_t size_bytes)
{
    if (!search->parse_special)
        return false;
    size_t low = 0, high = search->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->span_ends[middle] <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < search->span_count; low++) {
        if (search->spans[low].plain && search->spans[low].size_bytes)
            return false;
        if (search->span_ends[low] >= begin + size_bytes)
            return true;
    }
    return false;
}

/* The first of `entry` and its prefixes that may stand at `begin`. */
static uint32_t allowed_entry(const struct search *search, uint32_t begin, uint32_t entry)
{
    while (entry != UINT32_MAX) {
        const struct ork_special *special = &search->set->entries[entry];
        if (!special->control || is_parsed(search, begin, special->size_bytes))
            break;
        entry = special->parent;
    }
    return entry;
}

static ork_status add_candidate(struct search *search, uint64_t key, ork_error *error)
{
    if (search->key_count == search->key_capacity) {
        size_t capacity = search->key_capacity ? 2 * search->key_capacity : 64;
        uint64_t *keys = realloc(search->keys, capacity * sizeof *keys);
        if (!keys)
            return ork_error_no_memory(error, "special tokens", capacity * sizeof *keys);
        search->keys = keys;
        search->key_capacity = capacity;
    }
    search->keys[search->key_count++] = key;
    return ORK_OK;
}

static ork_status find_candidates(struct search *search, const char *text, uint32_t size_bytes, ork_error *error)
{
    const struct ork_special_set *set = search->set;
    for (uint32_t i = 0; i < size_bytes; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (set->first[byte] == set->first[byte + 1])
            continue;
        uint32_t entry = allowed_entry(search, i, longest_match(set, text + i, size_bytes - i));
        if (entry == UINT32_MAX)
            continue;
        ork_status status = add_candidate(search, make_key(set->entries[entry].size_bytes, i, entry), error);
        if (status != ORK_OK)
            return status;
    }
    return ORK_OK;
}

static int compare_matches(const void *a, const void *b)
{
    const struct ork_special_match *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Takes candidates, longest first. What is taken is never shorter than what comes, so an overlap shows at the ends. */
static ork_status choose(struct search *search, struct ork_special_matches *out, ork_error *error)
{
    out->matches = malloc(search->key_count * sizeof *out->matches);
    if (!out->matches)
        return ork_error_no_memory(error, "special tokens", search->key_count * sizeof *out->matches);
    ork_heap_build(search->keys, search->key_count);
    while (search->key_count) {
        uint64_t key = ork_heap_pop(search->keys, &search->key_count);
        uint32_t entry = (uint32_t)(key & ((1u << ENTRY_BITS) - 1));
        uint32_t begin = (uint32_t)(key >> ENTRY_BITS & ((1u << POSITION_BITS) - 1));
        const struct ork_special *special = &search->set->entries[entry];
        if (is_taken(search, begin))
            continue;
        if (is_taken(search, begin + special->size_bytes - 1)) {
            entry = allowed_entry(search, begin, special->parent);
            if (entry != UINT32_MAX)
                ork_heap_push(search->keys, &search->key_count,
                              make_key(search->set->entries[entry].size_bytes, begin, entry));
            continue;
        }
        for (uint32_t i = begin; i < begin + special->size_bytes; i++)
            search->taken[i / 8] |= (uint8_t)(1u << i % 8);
        out->matches[out->count++] = (struct ork_special_match){begin, special->size_bytes, special->token};
    }
    qsort(out->matches, out->count, sizeof *out->matches, compare_matches);
    return ORK_OK;
}

ork_status ork_special_partition(const struct ork_special_set *set, const char *text, const struct ork_text_span *spans,
                                 size_t span_count, bool parse_special, struct ork_special_matches *matches,
                                 ork_error *error)
{
    *matches = (struct ork_special_matches){0};
    if (set->count == 0)
        return ORK_OK;
    ork_status status = ORK_OK;
    struct search search = {.set = set, .spans = spans, .span_count = span_count, .parse_special = parse_special};
    uint32_t size_bytes = 0;
    uint32_t *ends = calloc(span_count ? span_count : 1, sizeof *ends);
    if (!ends) {
        status = ork_error_no_memory(error, "special tokens", span_count * sizeof *ends);
        goto out;
    }
    for (size_t i = 0; i < span_count; i++)
        ends[i] = size_bytes += (uint32_t)spans[i].size_bytes;
    search.span_ends = ends;
    status = find_candidates(&search, text, size_bytes, error);
    if (status != ORK_OK || search.key_count == 0)
        goto out;
    search.taken = calloc(size_bytes / 8 + 1, 1);
    if (!search.taken) {
        status = ork_error_no_memory(error, "special tokens", size_bytes / 8 + 1);
        goto out;
    }
    status = choose(&search, matches, error);
out:
    if (status != ORK_OK)
        ork_special_matches_free(matches);
    free(ends);
    free(search.taken);
    free(search.keys);
    return status;
}

void ork_special_matches_free(struct ork_special_matches *matches)
{
    free(matches->matches);
    *matches = (struct ork_special_matches){0};
}
