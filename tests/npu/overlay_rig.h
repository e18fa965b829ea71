/* Chains of random matrices, inputs and right results for tests of the overlay on the NPU; a player that begins, asks and
 * compares as the CPU engine would. */
#ifndef ORK_TESTS_OVERLAY_RIG_H
#define ORK_TESTS_OVERLAY_RIG_H

#include "engine_rig.h"

#define RIG_CHAINS_MAX 24u

struct rig_chains {
    struct rig_model model; /* the full matrices */
    struct ork_matrix own[RIG_MATRICES_MAX];
    struct ork_npu_chain chains[RIG_CHAINS_MAX];
    struct ork_npu_overlay_params params; /* of them */
    uint32_t *lists[RIG_MATRICES_MAX];    /* channels of thinned members */
    uint32_t list_count;
};

/* A chain's input and the right results of its members, all channels, one behind the other without padding. */
struct rig_step {
    struct ork_activation x;
    float *right;
};

/* What the player saw. */
struct rig_hits {
    uint64_t begun, refused, used, missed, wrong;
    uint64_t pattern; /* of what became of each begin, hashed in order */
};

/* Adds a chain of members with the same k; times are 0. */
struct ork_npu_chain *rig_chain(struct rig_chains *chains, uint32_t k, uint32_t members, const enum ork_tier *tiers,
                                const uint32_t *n);
/* About half of the chain's members have some of their channels alone from now on, at random. */
void rig_chain_thin(struct rig_chains *chains, struct ork_npu_chain *chain, uint64_t *random);
void rig_chains_free(struct rig_chains *chains);
/* Chain i begins at i * step_ns and has window_ns. */
void rig_chains_time(struct rig_chains *chains, uint64_t step_ns, uint64_t window_ns);

void rig_step(struct rig_step *step, const struct ork_npu_chain *chain, uint64_t *random);
void rig_step_free(struct rig_step *step);
/* Whether a chain's results are the right ones, where find says that they are. */
bool rig_step_is_right(const struct rig_step *step, const struct ork_npu_chain *chain,
                       const struct ork_overlay *overlay, const float *results);

/* Whether a late chain's correction is of its member, with the right results. */
bool rig_step_is_corrected(const struct rig_step *step, const struct ork_npu_chain *chain,
                           const struct ork_overlay_correction *correction);

void rig_attach_chains(ork_npu *npu, const struct rig_chains *chains);
/* Begin, poll, compare, done of one chain with a random input; everything that follows from it is asserted or tallied. */
void rig_play(ork_npu *npu, const struct rig_chains *chains, uint32_t chain, uint64_t *random, struct rig_hits *hits);
struct ork_npu_overlay_counts rig_counts(ork_npu *npu);
/* Counts conserve and are those of the player. */
void rig_check_counts(ork_npu *npu, const struct rig_hits *hits);

#endif
