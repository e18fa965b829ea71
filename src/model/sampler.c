/* Owns the choice of a token from logits: penalties, top-k, top-p, min-p, temperature, in llama.cpp's order. Its only
 * randomness is the seed; its mathematics is our own, so that a seed gives the same text everywhere. */
#include "base/error.h"
#include "base/mathematics.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { BLOCK = 128 }; /* logits that share a maximum, so that most are looked at once */

struct candidate {
    float logit;
    ork_token token;
};

struct ork_sampler {
    const struct ork_kernels *kernels;
    ork_sampler_params params;
    uint32_t vocabulary;
    uint64_t random_state;
    struct candidate *candidates; /* [vocabulary] */
    double *weights;              /* [vocabulary] */
    float *adjusted;              /* [vocabulary in whole blocks], minus infinity behind the vocabulary */
    float *maxima;                /* [blocks] of adjusted */
    float *largest;               /* [blocks]: scratch of the selection */
    uint32_t blocks;
    uint32_t *counts;  /* [vocabulary], all 0 between calls */
    ork_token *banned; /* [banned_count] */
    size_t banned_count;
};

ork_sampler_params ork_sampler_defaults(void)
{
    ork_sampler_params params = {
        .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_last_n = 64, .repeat_penalty = 1.0f};
    if (getrandom(&params.seed, sizeof params.seed, 0) != (ssize_t)sizeof params.seed)
        params.seed = 1;
    params.seed &= UINT32_MAX; /* short enough to type again */
    return params;
}

static bool in_range(float value, float low, float high)
{
    return value >= low && value <= high; /* false for NaN */
}

static ork_status check_params(const ork_sampler_params *p, ork_error *error)
{
    const struct {
        const char *name;
        float value, low, high;
    } ranges[] = {
        {"temperature", p->temperature, -1e6f, 1e6f},
        {"top-p", p->top_p, 0.0f, 1e6f},
        {"min-p", p->min_p, 0.0f, 1.0f},
        {"repeat penalty", p->repeat_penalty, 1e-3f, 1e3f},
        {"frequency penalty", p->frequency_penalty, -1e3f, 1e3f},
        {"presence penalty", p->presence_penalty, -1e3f, 1e3f},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!in_range(ranges[i].value, ranges[i].low, ranges[i].high))
            return ork_error_set(error, ORK_BAD_ARGUMENT, ranges[i].name, -1, "%g is not in %g..%g",
                                 (double)ranges[i].value, (double)ranges[i].low, (double)ranges[i].high);
    if (p->repeat_last_n < -1)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "repeat last n", -1, "%d is below -1", p->repeat_last_n);
    return ORK_OK;
}

ork_status ork_sampler_create(const ork_sampler_params *params, uint32_t vocabulary, ork_sampler **out,
                              ork_error *error)
{
    *out = NULL;
    ork_status status = check_params(params, error);
    if (status != ORK_OK)
        return status;
    if (!vocabulary)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "sampler", -1, "the vocabulary is empty");
    const struct ork_kernels *kernels;
    status = ork_kernels_get(&kernels, error);
    if (status != ORK_OK)
        return status;
    ork_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return ork_error_no_memory(error, "sampler", sizeof *sampler);
    sampler->kernels = kernels;
    sampler->params = *params;
    sampler->vocabulary = vocabulary;
    sampler->random_state = params->seed;
    sampler->blocks = (vocabulary - 1) / BLOCK + 1;
    sampler->candidates = malloc(vocabulary * sizeof *sampler->candidates);
    sampler->weights = malloc(vocabulary * sizeof *sampler->weights);
    sampler->adjusted = malloc((size_t)sampler->blocks * BLOCK * sizeof *sampler->adjusted);
    sampler->maxima = malloc(sampler->blocks * sizeof *sampler->maxima);
    sampler->largest = malloc(sampler->blocks * sizeof *sampler->largest);
    sampler->counts = calloc(vocabulary, sizeof *sampler->counts);
    if (!sampler->candidates || !sampler->weights || !sampler->adjusted || !sampler->maxima || !sampler->largest ||
        !sampler->counts) {
        ork_sampler_destroy(sampler);
        return ork_error_no_memory(error, "sampler", vocabulary * sizeof *sampler->candidates);
    }
    for (uint32_t i = vocabulary; i < sampler->blocks * BLOCK; i++)
        sampler->adjusted[i] = -__builtin_inff();
    *out = sampler;
    return ORK_OK;
}

void ork_sampler_destroy(ork_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
    free(sampler->weights);
    free(sampler->adjusted);
    free(sampler->maxima);
    free(sampler->largest);
    free(sampler->counts);
    free(sampler->banned);
    free(sampler);
}

ork_status ork_sampler_ban(ork_sampler *sampler, ork_token token, ork_error *error)
{
    if (token < 0 || (uint32_t)token >= sampler->vocabulary)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "token", -1, "%d is not in a vocabulary of %u", token,
                             sampler->vocabulary);
    for (size_t i = 0; i < sampler->banned_count; i++)
        if (sampler->banned[i] == token)
            return ORK_OK;
    ork_token *grown = realloc(sampler->banned, (sampler->banned_count + 1) * sizeof *grown);
    if (!grown)
        return ork_error_no_memory(error, "sampler", (sampler->banned_count + 1) * sizeof *grown);
    sampler->banned = grown;
    sampler->banned[sampler->banned_count++] = token;
    return ORK_OK;
}

/* SplitMix64 (Steele, Lea, Flood 2014), uniform in [0, 1). */
static double next_random(ork_sampler *sampler)
{
    uint64_t z = sampler->random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

static void copy_logits(ork_sampler *sampler, const float *logits)
{
    for (uint32_t block = 0; block < sampler->blocks; block++) {
        uint32_t begin = block * BLOCK, left = sampler->vocabulary - begin;
        sampler->maxima[block] = sampler->kernels->vector.copy_maximum(sampler->adjusted + begin, logits + begin,
                                                                       left < BLOCK ? left : BLOCK);
    }
}

/* After a logit was changed. */
static void renew_maximum(ork_sampler *sampler, ork_token token)
{
    float *block = sampler->adjusted + (uint32_t)token / BLOCK * BLOCK;
    sampler->maxima[(uint32_t)token / BLOCK] = sampler->kernels->vector.copy_maximum(block, block, BLOCK);
}

/* Copies the logits, lowering those of recent tokens and voiding banned ones; NaN counts as minus infinity. */
static void adjust(ork_sampler *sampler, const float *logits, const ork_token *history, size_t history_count)
{
    const ork_sampler_params *p = &sampler->params;
    copy_logits(sampler, logits);
    for (size_t i = 0; i < sampler->banned_count; i++) {
        sampler->adjusted[sampler->banned[i]] = -__builtin_inff();
        renew_maximum(sampler, sampler->banned[i]);
    }
    size_t last =
        p->repeat_last_n < 0 || (size_t)p->repeat_last_n > history_count ? history_count : (size_t)p->repeat_last_n;
    bool neutral = p->repeat_penalty == 1.0f && p->frequency_penalty == 0.0f && p->presence_penalty == 0.0f;
    if (!last || neutral)
        return;
    const ork_token *recent = history + (history_count - last);
    for (size_t i = 0; i < last; i++)
        if (recent[i] >= 0 && (uint32_t)recent[i] < sampler->vocabulary)
            sampler->counts[recent[i]]++;
    for (size_t i = 0; i < last; i++) {
        if (recent[i] < 0 || (uint32_t)recent[i] >= sampler->vocabulary || !sampler->counts[recent[i]])
            continue;
        float *logit = &sampler->adjusted[recent[i]];
        *logit = *logit > 0.0f ? *logit / p->repeat_penalty : *logit * p->repeat_penalty;
        *logit -= (float)sampler->counts[recent[i]] * p->frequency_penalty + p->presence_penalty;
        sampler->counts[recent[i]] = 0;
        renew_maximum(sampler, recent[i]);
    }
}

/* The lowest id among equals. */
static ork_token best_token(const ork_sampler *sampler)
{
    uint32_t block = 0, i = 0;
    for (uint32_t b = 1; b < sampler->blocks; b++)
        if (sampler->maxima[b] > sampler->maxima[block])
            block = b;
    while (sampler->adjusted[block * BLOCK + i] != sampler->maxima[block])
        i++;
    return (ork_token)(block * BLOCK + i);
}

/* Highest logit first, lowest id among equals: a total order, so the result does not depend on the sort. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
    return a->logit != b->logit ? a->logit > b->logit : a->token < b->token;
}

static void sift_down(struct candidate *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t worst = at, left = 2 * at + 1, right = left + 1;
        if (left < count && is_better(&heap[worst], &heap[left]))
            worst = left;
        if (right < count && is_better(&heap[worst], &heap[right]))
            worst = right;
        if (worst == at)
            return;
        struct candidate swap = heap[at];
        heap[at] = heap[worst];
        heap[worst] = swap;
        at = worst;
    }
}

/* A logit that at least k tokens reach: the k-th largest maximum of a block. */
static float reached_by(ork_sampler *sampler, uint32_t k)
{
    float *kept = sampler->largest;
    if (k > sampler->blocks)
        return -__builtin_inff();
    /* Kept in order by insertion: few maxima get beyond the first comparison. */
    uint32_t count = 0;
    for (uint32_t b = 0; b < sampler->blocks; b++) {
        float maximum = sampler->maxima[b];
        if (count == k && maximum <= kept[k - 1])
            continue;
        uint32_t at = count < k ? count++ : k - 1;
        for (; at && kept[at - 1] < maximum; at--)
            kept[at] = kept[at - 1];
        kept[at] = maximum;
    }
    return kept[k - 1];
}

/* Offers the tokens of a block to a heap of the k best, whose root is the worst of them. */
static uint32_t offer_block(ork_sampler *sampler, uint32_t block, float least, uint32_t k, uint32_t count)
{
    struct candidate *kept = sampler->candidates;
    uint32_t end = sampler->vocabulary - block * BLOCK < BLOCK ? sampler->vocabulary : (block + 1) * BLOCK;
    for (uint32_t i = block * BLOCK; i < end; i++) {
        struct candidate next = {sampler->adjusted[i], (ork_token)i};
        if (next.logit < least)
            continue;
        if (count < k) {
            kept[count++] = next;
            for (uint32_t root = count / 2; count == k && root-- > 0;)
                sift_down(kept, k, root);
        } else if (is_better(&next, &kept[0])) {
            kept[0] = next;
            sift_down(kept, k, 0);
        }
    }
    return count;
}

/* The k best, sorted. */
static uint32_t select_candidates(ork_sampler *sampler)
{
    uint32_t k = sampler->vocabulary, count = 0;
    struct candidate *kept = sampler->candidates;
    if (sampler->params.top_k > 0 && (uint32_t)sampler->params.top_k < k)
        k = (uint32_t)sampler->params.top_k;
    float least = reached_by(sampler, k);
    for (uint32_t block = 0; block < sampler->blocks; block++)
        if (sampler->maxima[block] >= least)
            count = offer_block(sampler, block, least, k, count);
    /* In place: the worst of what is left goes to the end. */
    for (uint32_t left = k; left-- > 1;) {
        struct candidate swap = kept[0];
        kept[0] = kept[left];
        kept[left] = swap;
        sift_down(kept, left, 0);
    }
    return k;
}

/* weights[i] = exp((logit_i - logit_0) / temperature); returns their sum. */
static double weigh(ork_sampler *sampler, uint32_t count, double temperature)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double difference = (double)sampler->candidates[i].logit - (double)sampler->candidates[0].logit;
        sampler->weights[i] = ork_math_exp(difference / temperature);
        sum += sampler->weights[i];
    }
    return sum;
}

/* How many of the sorted candidates top-p and min-p leave; at least one. Both look at temperature 1. */
static uint32_t truncate(ork_sampler *sampler, uint32_t count)
{
    const ork_sampler_params *p = &sampler->params;
    double sum = weigh(sampler, count, 1.0), cumulative = 0.0;
    uint32_t kept = count;
    if (p->top_p < 1.0f) {
        for (uint32_t i = 0; i < kept; i++) {
            cumulative += sampler->weights[i] / sum;
            if (cumulative >= (double)p->top_p)
                kept = i + 1;
        }
    }
    if (p->min_p > 0.0f)
        while (kept > 1 && sampler->weights[kept - 1] < (double)p->min_p * sampler->weights[0])
            kept--;
    return kept;
}

ork_status ork_sampler_sample(ork_sampler *sampler, const float *logits, const ork_token *history, size_t history_count,
                              ork_token *token, ork_error *error)
{
    adjust(sampler, logits, history, history_count);
    *token = best_token(sampler);
    float best = sampler->adjusted[*token];
    if (!(best > -__builtin_inff() && best < __builtin_inff()))
        return ork_error_set(error, ORK_FAILURE, "sampler", -1, "the largest logit is not finite");
    if (sampler->params.temperature <= 0.0f)
        return ORK_OK;
    uint32_t count = truncate(sampler, select_candidates(sampler));
    double sum = weigh(sampler, count, (double)sampler->params.temperature);
    double point = next_random(sampler) * sum;
    uint32_t chosen = 0;
    for (; chosen + 1 < count; chosen++) {
        point -= sampler->weights[chosen];
        if (point < 0.0)
            break;
    }
    *token = sampler->candidates[chosen].token;
    return ORK_OK;
}
