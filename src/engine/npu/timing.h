/* How long the NPU takes: a board profile and pure functions of it. Owns the profile's figures (boards/NAME.json, each with
 * its source) and the formula; knows no devices and no clock. */
#ifndef ORK_ENGINE_NPU_TIMING_H
#define ORK_ENGINE_NPU_TIMING_H

#include "engine/npu/program.h"

/* NPU part of a board profile. */
struct ork_npu_profile {
    char name[32]; /* "rk3588" */
    uint32_t cores;
    double clock_hz;
    double macs_per_cycle[ORK_NPU_TYPE_COUNT]; /* per core, peak */
    double efficiency[ORK_NPU_TYPE_COUNT];     /* of the peak that a long task reaches */
    double submit_us;                          /* from the call to the first task, warm */
    double complete_us;                        /* from the last write to a host that knows */
    double task_us;                            /* per chained task, the first one too */
    double core_bytes_per_s;                   /* one core's stream */
    double core_bytes_per_s_i4;                /* of int4 weights, which are unpacked on the way */
    double shared_bytes_per_s;                 /* all cores together */
    double domain_switch_us;
    double reset_us;
    double allocate_us, release_us; /* of a buffer of 4 MiB */
    /* The host's share of a matmul as the published library calls do it: per call, per core used, result surfaces read
     * by one thread a core, inputs and finished results by one thread in all. Not part of a job. */
    double host_call_us, host_core_us, host_surface_bytes_per_s, host_bytes_per_s;
};

/* The built-in profile: boards/rk3588.json as it was at build time. NULL only when memory runs out. */
const struct ork_npu_profile *ork_npu_profile_builtin(void);
/* Reads a board file; refuses unknown versions and keys, missing and impossible figures (naming the key and its bounds). */
ork_status ork_npu_profile_read(const char *path, struct ork_npu_profile *profile, ork_error *error);
/* The same for a file's text; `where` stands in errors. */
ork_status ork_npu_profile_parse(const void *text, uint64_t size_bytes, const char *where,
                                 struct ork_npu_profile *profile, ork_error *error);

/* Work of one or more tasks on a core. */
struct ork_npu_work {
    uint64_t tasks;
    uint64_t cycles[ORK_NPU_TYPE_COUNT]; /* of the MAC array at peak: M * ceil(N/G) * ceil(K/32), at least 8 a block */
    uint64_t weight_bytes, feature_bytes, output_bytes; /* bus traffic */
    uint64_t weight_bytes_i4;                           /* of weight_bytes, those of int4 tasks */
};
void ork_npu_work_add(struct ork_npu_work *work, const struct ork_npu_shape *shape);

/* Seconds of a job alone on its core with `active` cores streaming at once (1..cores), without submit and completion:
 * task_us a task, and the longer of computing and streaming, which overlap (npu-hw.md 8.5). */
double ork_npu_timing_job(const struct ork_npu_profile *profile, const struct ork_npu_work *work, uint32_t active);

#endif
