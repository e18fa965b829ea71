/* Inside of the calibration. */
#ifndef ORK_SCHED_CALIBRATE_H
#define ORK_SCHED_CALIBRATE_H

#include "sched/perf.h"

/* Times three matmuls through the handle, on the device's own clock, and fits the built-in board's fixed cost, streams and
 * efficiency to them; the other figures stay those of the board at the device's clock. Sets has_npu. ORK_FAILURE when the
 * NPU did not compute one of them. */
ork_status ork_calibrate_npu(ork_npu *npu, struct ork_perf *perf, ork_error *error);

#endif
