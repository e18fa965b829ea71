/* See overlay_rig.h. */
#include "overlay_rig.h"

#include "quant/nested.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

struct ork_npu_chain *rig_chain(struct rig_chains *chains, uint32_t k, uint32_t members, const enum ork_tier *tiers,
                                const uint32_t *n)
{
    assert_true(chains->params.count < RIG_CHAINS_MAX);
    struct ork_npu_chain *chain = &chains->chains[chains->params.count++];
    *chain = (struct ork_npu_chain){.member_count = members};
    for (uint32_t i = 0; i < members; i++) {
        const uint32_t index = chains->model.count;
        const struct ork_matrix *full = rig_add(&chains->model, tiers[i], n[i], k, 1, 0);
        chains->own[index] = full->tier == ORK_TIER_N8 ? ork_nested_base(full) : *full;
        chain->full[i] = *full;
        chain->members[i] = &chains->own[index];
    }
    chains->params.chains = chains->chains;
    return chain;
}

void rig_chain_thin(struct rig_chains *chains, struct ork_npu_chain *chain, uint64_t *random)
{
    for (uint32_t i = 0; i < chain->member_count; i++) {
        const uint32_t n = chain->full[i].n, kept = 1 + rig_random(random, 16);
        if (kept > 8)
            continue;
        uint32_t *list = malloc(n * sizeof *list), count = 0;
        assert_non_null(list);
        assert_true(chains->list_count < RIG_MATRICES_MAX);
        chains->lists[chains->list_count++] = list;
        for (uint32_t c = 0; c < n; c++)
            if (rig_random(random, 8) < kept || (c == n - 1 && !count))
                list[count++] = c;
        chain->channels[i] = list;
        chain->channel_counts[i] = count;
    }
}

void rig_chains_free(struct rig_chains *chains)
{
    for (uint32_t i = 0; i < chains->list_count; i++)
        free(chains->lists[i]);
    chains->list_count = 0;
    rig_model_free(&chains->model);
    chains->params.count = 0;
}

void rig_chains_time(struct rig_chains *chains, uint64_t step_ns, uint64_t window_ns)
{
    for (uint32_t i = 0; i < chains->params.count; i++) {
        chains->chains[i].begin_ns = i * step_ns;
        chains->chains[i].window_ns = window_ns;
    }
    chains->params.token_ns = chains->params.count * step_ns;
}

void rig_step(struct rig_step *step, const struct ork_npu_chain *chain, uint64_t *random)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < chain->member_count; i++)
        n += chain->full[i].n;
    rig_input(&step->x, 1, chain->full[0].k, random);
    step->right = malloc(n * sizeof *step->right);
    assert_non_null(step->right);
    n = 0;
    for (uint32_t i = 0; i < chain->member_count; i++) {
        const struct ork_matrix *w = &chain->full[i];
        const struct ork_matmul_args args = {
            .w = w, .x = &step->x, .m = 1, .n_end = w->n, .y = step->right + n, .y_stride = w->n};
        rig_kernels()->matmul[w->tier].run(&args);
        n += w->n;
    }
}

void rig_step_free(struct rig_step *step)
{
    rig_input_free(&step->x);
    free(step->right);
}

bool rig_step_is_right(const struct rig_step *step, const struct ork_npu_chain *chain,
                       const struct ork_overlay *overlay, const float *results)
{
    const float *right = step->right;
    bool same = true;
    for (uint32_t i = 0; i < chain->member_count; i++) {
        const struct ork_overlay_part *part = overlay->find(overlay->context, chain->members[i]);
        assert_non_null(part);
        assert_int_equal(part->count, chain->channels[i] ? chain->channel_counts[i] : chain->full[i].n);
        for (uint32_t c = 0; c < part->count; c++) {
            assert_int_equal(part->channels[c], chain->channels[i] ? chain->channels[i][c] : c);
            same &= !memcmp(&results[part->first + c], &right[part->channels[c]], sizeof *right);
        }
        right += chain->full[i].n;
    }
    return same;
}

bool rig_step_is_corrected(const struct rig_step *step, const struct ork_npu_chain *chain,
                           const struct ork_overlay_correction *correction)
{
    const struct ork_overlay_part *part = correction->part;
    bool same = part->count == (chain->channels[0] ? chain->channel_counts[0] : chain->full[0].n);
    for (uint32_t c = 0; c < part->count && same; c++)
        same = part->channels[c] == (chain->channels[0] ? chain->channels[0][c] : c) &&
               !memcmp(&correction->result[c], &step->right[part->channels[c]], sizeof(float));
    return same;
}

void rig_attach_chains(ork_npu *npu, const struct rig_chains *chains)
{
    ork_error error = {0};
    const ork_status status = ork_npu_overlay_attach(npu, chains, &chains->params, &error);
    if (status)
        print_error("%s: %s\n", error.where, error.what);
    assert_int_equal(status, ORK_OK);
}

void rig_play(ork_npu *npu, const struct rig_chains *chains, uint32_t index, uint64_t *random, struct rig_hits *hits)
{
    const struct ork_overlay *overlay = ork_npu_overlay(npu);
    const struct ork_npu_chain *chain = &chains->chains[index];
    struct rig_step step;
    rig_step(&step, chain, random);
    uint32_t outcome = 0;
    if (!overlay->begin(overlay->context, index, &step.x)) {
        hits->refused++;
    } else {
        hits->begun++;
        /* The input was copied: what becomes of the caller's changes nothing. */
        memset(step.x.plain, 0x55, step.x.k_padded);
        step.x.scales[0] = 1e30f;
        const float *results = overlay->poll(overlay->context, index);
        outcome = results ? 2 : 1;
        if (results) {
            hits->used++;
            hits->wrong += !rig_step_is_right(&step, chain, overlay, results);
            overlay->done(overlay->context, index);
        } else {
            hits->missed++;
        }
    }
    hits->pattern = (hits->pattern ^ (outcome + 1)) * 0x100000001b3ull;
    rig_step_free(&step);
}

struct ork_npu_overlay_counts rig_counts(ork_npu *npu)
{
    struct ork_npu_overlay_counts counts;
    ork_npu_overlay_get_counts(npu, &counts);
    assert_int_equal(counts.planned, counts.submitted + counts.busy + counts.rested);
    assert_int_equal(counts.submitted, counts.in_time + counts.late + counts.faulted + counts.pending);
    return counts;
}

void rig_check_counts(ork_npu *npu, const struct rig_hits *hits)
{
    const struct ork_npu_overlay_counts counts = rig_counts(npu);
    assert_int_equal(hits->wrong, 0);
    assert_int_equal(counts.submitted, hits->begun);
    assert_int_equal(counts.busy + counts.rested, hits->refused);
    assert_int_equal(counts.in_time, hits->used);
    assert_int_equal(counts.late + counts.faulted, hits->missed);
    assert_int_equal(counts.pending, 0);
}
