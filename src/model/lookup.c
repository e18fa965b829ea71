/* Owns drafts: how often guesses were right, how long a draft pays, and their way through a session. Must not know
 * sampling; where the last tokens stood before is lookup_index.c's. */
#include "base/error.h"
#include "model/card.h"
#include "model/lookup_index.h"
#include "model/model.h"
#include "model/session.h"
#include "model/tuning.h"
#include "sched/groups.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(ORK_LOOKUP_DRAFT_MAX < ORK_STATE_ROWS, "a draft and the token before it can be cut at any row");
_Static_assert((int)ORK_LOOKUP_MATCH_MAX <= (int)ORK_LOOKUP_SEEN, "the longest match is seen whole");

/* Guesses with so many equal tokens before them are judged together. */
enum { CLASSES = 6 };

/* Guesses of one class: right ones and all, older ones counting less. */
struct record {
    double right, all;
};

struct ork_lookup {
    ork_lookup_params params;
    struct ork_lookup_index index;
    struct ork_lookup_place place; /* for the token after the index's list */
    struct record records[CLASSES];
    double cost[ORK_LOOKUP_DRAFT_MAX + 1]; /* of a pass with so many drafted tokens, in passes without */
    size_t awaited, awaited_end;           /* lists of so many tokens, the end excluded, were computed as a draft */
    ork_lookup_stats stats;
};

/* ---- what several rows cost ------------------------------------------------------------------------------------- */

/* Of the bytes that a token reads, the part in experts of which it chooses some. */
static double expert_share(const struct ork_model *model)
{
    double bytes = 0.0, all = (double)ork_card_get_summary(model->card)->bytes_per_token;
    for (uint32_t i = 0; i < model->hp.layers; i++) {
        const struct ork_layer *layer = &model->layers[i];
        if (layer->is_moe)
            bytes += (double)(layer->gate.data_expert_stride + layer->up.data_expert_stride +
                              layer->down.data_expert_stride) *
                     model->hp.experts_used;
    }
    return all > 0.0 ? bytes / all : 0.0;
}

static void fill_costs(ork_lookup *lookup, const struct ork_model *model)
{
    double share = model ? expert_share(model) : 0.0;
    lookup->cost[0] = 1.0;
    for (uint32_t d = 1; d <= ORK_LOOKUP_DRAFT_MAX; d++) {
        lookup->cost[d] = 1.0 + ORK_LOOKUP_COST_PASS + ORK_LOOKUP_COST_ROW * d;
        if (share > 0.0)
            lookup->cost[d] +=
                share *
                (ork_group_distinct(model->hp.experts, model->hp.experts_used, d + 1) / model->hp.experts_used - 1.0);
    }
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

ork_status ork_lookup_create(const ork_model *model, const ork_lookup_params *given, ork_lookup **out, ork_error *error)
{
    ork_lookup_params params = given ? *given : (ork_lookup_params){0};
    *out = NULL;
    if (params.draft_max > ORK_LOOKUP_DRAFT_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "lookup", -1, "a draft of %u tokens is above %d",
                             params.draft_max, ORK_LOOKUP_DRAFT_MAX);
    if (params.match_min > ORK_LOOKUP_MATCH_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "lookup", -1, "a match of %u tokens is above %d",
                             params.match_min, ORK_LOOKUP_MATCH_MAX);
    if (!params.draft_max)
        params.draft_max = ORK_LOOKUP_DRAFT;
    if (!params.match_min)
        params.match_min = ORK_LOOKUP_MATCH_FROM;
    ork_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return ork_error_no_memory(error, "lookup", sizeof *lookup);
    lookup->params = params;
    ork_lookup_index_create(&lookup->index, params.match_min,
                            params.match_min > ORK_LOOKUP_MATCH_TO ? params.match_min : ORK_LOOKUP_MATCH_TO);
    fill_costs(lookup, model);
    *out = lookup;
    return ORK_OK;
}

void ork_lookup_destroy(ork_lookup *lookup)
{
    if (!lookup)
        return;
    ork_lookup_index_destroy(&lookup->index);
    free(lookup);
}

void ork_lookup_get_stats(const ork_lookup *lookup, ork_lookup_stats *stats)
{
    *stats = lookup->stats;
    stats->memory_bytes = sizeof *lookup + ork_lookup_index_bytes(&lookup->index);
}

/* ---- drafts ----------------------------------------------------------------------------------------------------- */

static uint32_t class_of(uint32_t matched)
{
    static const uint32_t least[CLASSES] = {0, 3, 4, 6, 9, ORK_LOOKUP_SEEN};
    uint32_t class = CLASSES - 1;
    while (matched < least[class])
        class --;
    return class;
}

static double probability(const ork_lookup *lookup, uint32_t matched)
{
    static const double prior_right[CLASSES] = ORK_LOOKUP_PRIOR_RIGHT;
    const uint32_t class = class_of(matched);
    const struct record *record = &lookup->records[class];
    return (record->right + ORK_LOOKUP_PRIOR * prior_right[class]) / (record->all + ORK_LOOKUP_PRIOR);
}

static void learn(ork_lookup *lookup, ork_token token)
{
    const struct ork_lookup_place *place = &lookup->place;
    if (!place->matched)
        return;
    struct record *record = &lookup->records[class_of(place->matched)];
    record->right *= ORK_LOOKUP_MEMORY;
    record->all = record->all * ORK_LOOKUP_MEMORY + 1.0;
    if (lookup->index.tokens[place->at] == token)
        record->right += 1.0;
}

/* Brings the index to the list. What comes token by token, or a draft at once, was generated and says how good guesses
 * are; more than that is a prompt. */
static ork_status follow(ork_lookup *lookup, const ork_token *tokens, size_t count, ork_error *error)
{
    struct ork_lookup_index *index = &lookup->index;
    if (index->count > count || (index->count && memcmp(index->tokens, tokens, index->count * sizeof *tokens) != 0))
        ork_lookup_index_clear(index);
    if (index->count == count)
        return ORK_OK;
    bool is_generated = index->count && count - index->count <= ORK_LOOKUP_DRAFT_MAX + 1;
    ork_status status = ork_lookup_index_reserve(index, count, error);
    while (status == ORK_OK && index->count < count) {
        ork_token token = tokens[index->count];
        if (is_generated)
            learn(lookup, token);
        status = ork_lookup_index_add(index, token, error);
        if (status == ORK_OK && (is_generated || index->count == count))
            lookup->place = ork_lookup_index_find(index);
    }
    if (status != ORK_OK)
        ork_lookup_index_clear(index);
    return status;
}

/* The length at which a pass is expected to give most tokens for its time; 0 where none pays. */
static uint32_t choose_length(const ork_lookup *lookup, uint32_t most)
{
    double gain = ORK_LOOKUP_GAIN, expected = 1.0, reached = 1.0;
    uint32_t best = 0;
    if (lookup->params.always)
        return most;
    for (uint32_t d = 1; d <= most; d++) {
        reached *= probability(lookup, lookup->place.matched + d - 1);
        expected += reached;
        if (expected / lookup->cost[d] > gain) {
            gain = expected / lookup->cost[d];
            best = d;
        }
    }
    return best;
}

ork_status ork_lookup_draft(ork_lookup *lookup, const ork_token *tokens, size_t count, size_t room, ork_token *draft,
                            size_t *draft_count, ork_error *error)
{
    *draft_count = 0;
    if (!count)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "lookup", -1, "the token list is empty");
    ork_status status = follow(lookup, tokens, count, error);
    if (status != ORK_OK || !lookup->place.matched)
        return status;
    uint32_t most = room < lookup->params.draft_max ? (uint32_t)room : lookup->params.draft_max;
    uint32_t length = choose_length(lookup, most);
    ork_lookup_index_copy(&lookup->index, lookup->place.at, draft, length);
    *draft_count = length;
    return ORK_OK;
}

/* ---- through a session ------------------------------------------------------------------------------------------ */

/* Computes the list and a draft behind it; the list alone where the draft left its last position without logits, because
 * the session had computed that already. */
static ork_status compute(ork_lookup *lookup, ork_session *session, size_t count, size_t draft_count, ork_error *error)
{
    const ork_token *list = lookup->index.tokens;
    ork_status status = ork_session_sync(session, list, count + draft_count, count - 1, error);
    if (status == ORK_OK && !ork_session_logits(session, count - 1)) {
        draft_count = 0;
        status = ork_session_sync(session, list, count, count - 1, error);
    }
    if (status != ORK_OK)
        return status;
    lookup->awaited = count + 1;
    lookup->awaited_end = count + draft_count + 1;
    lookup->stats.passes++;
    lookup->stats.drafts += draft_count > 0;
    lookup->stats.drafted += draft_count;
    return ORK_OK;
}

ork_status ork_lookup_sync(ork_lookup *lookup, ork_session *session, const ork_token *tokens, size_t count, size_t room,
                           ork_error *error)
{
    ork_session_stats stats;
    ork_token draft[ORK_LOOKUP_DRAFT_MAX];
    size_t draft_count = 0;
    ork_session_get_stats(session, &stats);
    if (!count || count > stats.context_length)
        return ork_session_sync(session, tokens, count, count - 1, error);
    if (room > stats.context_length - count)
        room = stats.context_length - count;
    if (room > stats.batch_rows - 1)
        room = stats.batch_rows - 1;
    if (stats.overlay.on)
        room = 0; /* rows of a batch have no overlay, so text would depend on drafts */
    if (ork_session_holds(session, tokens, count)) {
        if (count >= lookup->awaited && count < lookup->awaited_end)
            lookup->stats.accepted++;
        lookup->awaited = count + 1;
        return follow(lookup, tokens, count, error);
    }
    ork_status status = ork_lookup_draft(lookup, tokens, count, room, draft, &draft_count, error);
    if (status == ORK_OK)
        status = ork_lookup_index_reserve(&lookup->index, count + draft_count, error);
    if (status != ORK_OK)
        return status;
    memcpy(lookup->index.tokens + count, draft, draft_count * sizeof *draft);
    return compute(lookup, session, count, draft_count, error);
}
