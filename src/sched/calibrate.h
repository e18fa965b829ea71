/* Inside of the calibration. */
#ifndef ORK_SCHED_CALIBRATE_H
#define ORK_SCHED_CALIBRATE_H

#include "sched/perf.h"

/* Times three matmuls through the handle, on the device's own clock, and fits the built-in board's fixed cost, streams and
 * efficiency to them; the other figures stay those of the board at the device's clock. Sets has_npu. ORK_FAILURE when the
 * NPU did not compute one of them. */
ork_status ork_calibrate_npu(ork_npu *npu, struct ork_perf *perf, ork_error *error);
/* Times chains of one row on one core through the overlay, then the CPU with all threads on one-row weights with such chains
 * beside it and without. Sets the chain's figures and bus_bytes_per_s. For NPUs whose time is not virtual. */
ork_status ork_calibrate_both(const struct ork_calibrate_params *params, struct ork_perf *perf, ork_error *error);

/* ---- what the measurements say, pure ---- */

/* Chain figures with which chains of 64 x 64 and 2048 x 2048 int8 weights are predicted to take as long as they did. */
void ork_calibrate_fit_chain(struct ork_perf *perf, double short_s, double long_s);

/* Rates while each streams. */
struct ork_calibrate_beside {
    double cpu_alone_bytes_per_s, cpu_beside_bytes_per_s; /* beside: of a time in a part of which the NPU streamed */
    double npu_alone_bytes_per_s, npu_beside_bytes_per_s;
    double npu_streaming; /* that part, 0 to 1 */
};
/* The buses with which ork_perf_share leaves each the part that it kept. Where one keeps all, it is the sum of both, or what
 * perf's bus was if that is more. */
void ork_calibrate_fit_buses(struct ork_perf *perf, const struct ork_calibrate_beside *measured);

#endif
