/* Owns the index of a token list by its runs of tokens; must not know sessions, models or what a place is used for. */
#include "model/lookup_index.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { BITS_MIN = 10 };

static uint32_t sizes_of(const struct ork_lookup_index *index)
{
    return index->match_max - index->match_min + 1;
}

void ork_lookup_index_create(struct ork_lookup_index *index, uint32_t match_min, uint32_t match_max)
{
    *index = (struct ork_lookup_index){.match_min = match_min, .match_max = match_max};
}

void ork_lookup_index_destroy(struct ork_lookup_index *index)
{
    for (uint32_t i = 0; i < ORK_LOOKUP_SIZES; i++)
        free(index->places[i]);
    free(index->tokens);
    *index = (struct ork_lookup_index){0};
}

/* Of `size` tokens that end before `end`. */
static uint64_t hash_run(const ork_token *end, uint32_t size)
{
    uint64_t hash = 0;
    for (uint32_t i = 1; i <= size; i++)
        hash = (hash ^ (uint32_t)end[-(ptrdiff_t)i]) * 0x9e3779b97f4a7c15u;
    return hash;
}

/* The entry of the run of match_min + i tokens that ends before `end`: its latest place, or an empty one. */
static uint32_t *find_entry(const struct ork_lookup_index *index, uint32_t i, const ork_token *end)
{
    const uint32_t size = index->match_min + i, mask = (1u << index->bits) - 1;
    uint32_t *places = index->places[i];
    for (uint32_t slot = (uint32_t)(hash_run(end, size) >> (64 - index->bits));; slot = (slot + 1) & mask)
        if (!places[slot] || memcmp(index->tokens + places[slot] - size, end - size, size * sizeof *end) == 0)
            return &places[slot];
}

/* Enters the runs that end before position `end`. */
static void enter_runs(struct ork_lookup_index *index, uint32_t end)
{
    for (uint32_t i = 0; i < sizes_of(index) && index->match_min + i <= end; i++)
        *find_entry(index, i, index->tokens + end) = end;
}

/* At most half of the entries are in use. */
static ork_status grow_places(struct ork_lookup_index *index, ork_error *error)
{
    uint32_t bits = index->bits ? index->bits + 1 : BITS_MIN;
    uint32_t *grown[ORK_LOOKUP_SIZES] = {NULL};
    for (uint32_t i = 0; i < sizes_of(index); i++) {
        grown[i] = calloc((size_t)1 << bits, sizeof *grown[i]);
        if (!grown[i]) {
            for (uint32_t j = 0; j < i; j++)
                free(grown[j]);
            return ork_error_no_memory(error, "lookup", sizeof *grown[i] << bits);
        }
    }
    for (uint32_t i = 0; i < sizes_of(index); i++) {
        free(index->places[i]);
        index->places[i] = grown[i];
    }
    index->bits = bits;
    for (uint32_t end = 1; end < index->count; end++)
        enter_runs(index, end);
    return ORK_OK;
}

ork_status ork_lookup_index_reserve(struct ork_lookup_index *index, size_t count, ork_error *error)
{
    if (count <= index->capacity)
        return ORK_OK;
    if (count > ORK_LOOKUP_TOKENS_MAX)
        return ork_error_set(error, ORK_LIMIT, "lookup", -1, "%zu tokens are more than %d", count,
                             ORK_LOOKUP_TOKENS_MAX);
    size_t capacity = 2 * count;
    ork_token *grown = realloc(index->tokens, capacity * sizeof *grown);
    if (!grown)
        return ork_error_no_memory(error, "lookup", capacity * sizeof *grown);
    index->tokens = grown;
    index->capacity = (uint32_t)capacity;
    return ORK_OK;
}

ork_status ork_lookup_index_add(struct ork_lookup_index *index, ork_token token, ork_error *error)
{
    ork_status status = ork_lookup_index_reserve(index, (size_t)index->count + 1, error);
    if (status == ORK_OK && (!index->bits || index->count >= 1u << (index->bits - 1)))
        status = grow_places(index, error);
    if (status != ORK_OK)
        return status;
    enter_runs(index, index->count);
    index->tokens[index->count++] = token;
    return ORK_OK;
}

uint64_t ork_lookup_index_bytes(const struct ork_lookup_index *index)
{
    uint64_t tables = index->bits ? sizes_of(index) : 0;
    return index->capacity * sizeof *index->tokens + (tables * sizeof *index->places[0] << index->bits);
}

void ork_lookup_index_clear(struct ork_lookup_index *index)
{
    for (uint32_t i = 0; index->bits && i < sizes_of(index); i++)
        memset(index->places[i], 0, sizeof *index->places[i] << index->bits);
    index->count = 0;
}

struct ork_lookup_place ork_lookup_index_find(const struct ork_lookup_index *index)
{
    const ork_token *end = index->tokens + index->count;
    for (uint32_t i = index->bits ? sizes_of(index) : 0; i-- > 0;) {
        uint32_t size = index->match_min + i;
        if (size >= index->count)
            continue;
        uint32_t at = *find_entry(index, i, end), matched = size;
        if (!at)
            continue;
        while (matched < ORK_LOOKUP_SEEN && matched < at &&
               index->tokens[at - 1 - matched] == end[-1 - (ptrdiff_t)matched])
            matched++;
        return (struct ork_lookup_place){at, matched};
    }
    return (struct ork_lookup_place){0};
}

void ork_lookup_index_copy(const struct ork_lookup_index *index, uint32_t at, ork_token *out, uint32_t count)
{
    uint32_t period = index->count - at;
    for (uint32_t i = 0; i < count; i++)
        out[i] = i < period ? index->tokens[at + i] : out[i - period];
}
