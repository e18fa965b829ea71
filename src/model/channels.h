/* Which output channels of a nested matrix lack most without its residual plane. Owns that order; knows no plans and no times.
 *
 * The base plane rounds each channel to its scale times the same 16 values, so the error that a channel is left with is about
 * as large as its scale: what it lacks, as mean square, is counted as scale^2 (docs/quality.md has what that is worth). */
#ifndef ORK_MODEL_CHANNELS_H
#define ORK_MODEL_CHANNELS_H

#include "model/model.h"
#include "sched/groups.h"

/* order[matrix->n]: all channels of an n8 matrix or of its base, those that lack most first, equal ones in their order. */
ork_status ork_channels_rank(const struct ork_matrix *matrix, uint32_t *order, ork_error *error);
/* Fills part_share of all members in n8 that are no stacks of experts. */
ork_status ork_channels_fill_shares(const struct ork_model *model, struct ork_model_shape *shape, ork_error *error);

#endif
