/* What tests see of the software device beyond the vtable: its fault script, what its silicon complained about, and when
 * jobs ran on its clock. Called by the device's owner. */
#ifndef ORK_ENGINE_NPU_SOFT_H
#define ORK_ENGINE_NPU_SOFT_H

#include "engine/npu/device/device.h"
#include "engine/npu/device/silicon.h"

#define ORK_NPU_SOFT_ANOMALIES 10u /* bits of enum ork_silicon_anomaly */
#define ORK_NPU_SOFT_NEVER UINT64_MAX

struct ork_npu_soft_stats {
    uint64_t submits, refused_submits; /* accepted; refused by the script */
    uint64_t completed;                /* seen as done */
    uint64_t dropped;                  /* by a reset or a cancel */
    uint64_t hangs;                    /* jobs that the silicon did not finish and no fault asked for, seen by poll */
    uint64_t resets, failed_resets, switches, failed_switches;
    uint64_t misuses; /* calls against the contract that have no error to return: release or destroy in use */
    uint64_t anomalies[ORK_NPU_SOFT_ANOMALIES]; /* jobs in which each bit was raised */
    char why[128];                              /* the last reason for which the silicon stopped, or "" */
    uint64_t held_bytes, held_buffers;          /* imports are buffers without bytes */
};

bool ork_npu_soft_is(const struct ork_npu_device *device);
const struct ork_npu_faults *ork_npu_soft_faults(const struct ork_npu_device *device);
/* What jobs left behind is complete for those that poll has answered. */
void ork_npu_soft_get_stats(struct ork_npu_device *device, struct ork_npu_soft_stats *stats);
/* Of the last submit, on the device's clock: when it starts, and when poll says so; ORK_NPU_SOFT_NEVER: not at all. */
void ork_npu_soft_job_times(struct ork_npu_device *device, const struct ork_npu_job *job, uint64_t *start_ns,
                            uint64_t *finish_ns);

#endif
