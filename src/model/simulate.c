/* Owns the simulator's call for a loaded model: its groups, and what it allows. Must not know formulas. */
#include "model/channels.h"
#include "model/groups.h"
#include "sched/simulate.h"

ork_status ork_simulate_model(const ork_model *model, const ork_simulate_params *params, ork_simulation **simulation,
                              ork_error *error)
{
    struct ork_model_shape shape;
    ork_status status = ork_simulate_check(params, error);
    if (status == ORK_OK)
        status = ork_model_get_shape(model, &shape, error);
    if (status != ORK_OK)
        return status;
    const struct ork_simulate_model simulated = {
        .shape = &shape, .context_max = model->hp.context, .base_alone = model->base_alone};
    status = ork_channels_fill_shares(model, &shape, error);
    if (status == ORK_OK)
        status = ork_simulate_any(params, &simulated, simulation, error);
    ork_model_shape_free(&shape);
    return status;
}
