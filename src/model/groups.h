/* A loaded model as op groups. Knows no speeds. */
#ifndef ORK_MODEL_GROUPS_H
#define ORK_MODEL_GROUPS_H

#include "model/model.h"
#include "sched/groups.h"

/* keys and values in f16. Freed with ork_model_shape_free. The sum of its token bytes is the card's bytes_per_token where
 * all matrices are used in the tiers that the pack has. */
ork_status ork_model_get_shape(const struct ork_model *model, struct ork_model_shape *shape, ork_error *error);

/* The matrix that a member of a group of this model's shape stands for; NULL: there is none. */
const struct ork_matrix *ork_model_group_matrix(const struct ork_model *model, const struct ork_group *group,
                                                uint32_t member);

#endif
