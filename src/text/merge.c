/* Owns the queue of merges and the list of symbols; must not know where ranks come from.
 *
 * A key in the queue is (rank, left symbol). A popped key is stale when the left symbol's present rank differs: it has
 * merged since, or its neighbour has. */
#include "text/merge.h"

#include "base/error.h"
#include "text/heap.h"

#include <stdlib.h>

ork_status ork_merger_reserve(struct ork_merger *merger, size_t count, ork_error *error)
{
    if (count > merger->symbol_capacity) {
        size_t capacity = count < 256 ? 256 : count;
        struct ork_merge_symbol *symbols = realloc(merger->symbols, capacity * sizeof *symbols);
        if (!symbols)
            return ork_error_no_memory(error, "tokenizer", capacity * sizeof *symbols);
        merger->symbols = symbols;
        merger->symbol_capacity = capacity;
    }
    /* count - 1 pairs to begin with; each of at most count - 1 merges takes one key and adds at most two. */
    if (2 * count > merger->key_capacity) {
        size_t capacity = 2 * merger->symbol_capacity;
        uint64_t *keys = realloc(merger->keys, capacity * sizeof *keys);
        if (!keys)
            return ork_error_no_memory(error, "tokenizer", capacity * sizeof *keys);
        merger->keys = keys;
        merger->key_capacity = capacity;
    }
    return ORK_OK;
}

static uint64_t make_key(const struct ork_merger *merger, uint32_t left)
{
    return (uint64_t)merger->symbols[left].rank << 32 | left;
}

/* Looks up the merge of `left` with its neighbour; true when there is one. */
static bool find_pair(struct ork_merger *merger, uint32_t left, ork_merge_pair_function pair, const void *context)
{
    struct ork_merge_symbol *symbol = &merger->symbols[left];
    symbol->rank = ORK_MERGE_NONE;
    if (symbol->next != ORK_MERGE_NONE)
        pair(context, symbol, &merger->symbols[symbol->next]);
    return symbol->rank != ORK_MERGE_NONE;
}

void ork_merger_run(struct ork_merger *merger, uint32_t count, ork_merge_pair_function pair, const void *context)
{
    struct ork_merge_symbol *symbols = merger->symbols;
    for (uint32_t i = 0; i < count; i++) {
        symbols[i].previous = i ? i - 1 : ORK_MERGE_NONE;
        symbols[i].next = i + 1 < count ? i + 1 : ORK_MERGE_NONE;
    }
    size_t key_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (find_pair(merger, i, pair, context))
            merger->keys[key_count++] = make_key(merger, i);
    ork_heap_build(merger->keys, key_count);
    while (key_count) {
        uint64_t key = ork_heap_pop(merger->keys, &key_count);
        uint32_t left = (uint32_t)key;
        struct ork_merge_symbol *symbol = &symbols[left];
        if (symbol->rank != key >> 32)
            continue;
        struct ork_merge_symbol *right = &symbols[symbol->next];
        symbol->token = symbol->merged;
        symbol->size_bytes += right->size_bytes;
        symbol->next = right->next;
        right->rank = ORK_MERGE_NONE;
        if (symbol->next != ORK_MERGE_NONE)
            symbols[symbol->next].previous = left;
        if (find_pair(merger, left, pair, context))
            ork_heap_push(merger->keys, &key_count, make_key(merger, left));
        if (symbol->previous != ORK_MERGE_NONE && find_pair(merger, symbol->previous, pair, context))
            ork_heap_push(merger->keys, &key_count, make_key(merger, symbol->previous));
    }
}

void ork_merger_free(struct ork_merger *merger)
{
    free(merger->symbols);
    free(merger->keys);
    *merger = (struct ork_merger){0};
}
