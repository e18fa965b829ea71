/* The perf model: figures of a machine's engines, and pure functions from them and an op group to seconds. Owns the figures
 * and the formulas; knows no models, no routes and no clock. docs/dispatch.md states formulas and sources.
 *
 *   CPU, one row     region + sum of members: bytes / bytes_per_s of their tier (what the kernels reach, all threads)
 *   CPU, m rows      region + sum of members: max(bytes of distinct experts / bytes_per_s, multiply-adds / macs_per_s)
 *   NPU, m rows      submit + complete + host per call and core + the longest core's job (engine/npu/timing.h)
 *                    + rows packed / pack_bytes_per_s + int32 results / unpack_bytes_per_s
 *   chain            the same with one row and one core; its fixed cost and stream are measured apart where there is an NPU
 *   attention        max(keys and values / attention_bytes_per_s, multiply-adds / macs_per_s of f32)
 *   states           max(read and written / bytes_per_s, multiply-adds / macs_per_s of f32)
 *   both at once     see ork_perf_share */
#ifndef ORK_SCHED_PERF_H
#define ORK_SCHED_PERF_H

#include "engine/npu/timing.h"
#include "sched/groups.h"

enum ork_perf_source {
    ORK_PERF_ASSUMED = 0, /* built-in guesses for a machine of which nothing is known; no NPU */
    ORK_PERF_BOARD = 1,
    ORK_PERF_CALIBRATED = 2
};

/* What figures depend on: where one of these differs, a calibration does not count. */
struct ork_perf_identity {
    char ork_version[16];
    char cpu[128];    /* model name, or implementer and parts */
    char kernels[16]; /* instruction set */
    uint32_t threads;
    uint64_t memory_bytes;
    uint64_t memory_clock_hz; /* the memory controller's devfreq limit in force; 0: the system does not say */
    char npu_driver[32];      /* "": none; "rknpu" */
    uint32_t npu_driver_version;
};

struct ork_perf_tier {
    double bytes_per_s; /* weights of one row, all threads */
    double macs_per_s;  /* many rows, all threads */
};

struct ork_perf {
    enum ork_perf_source source;
    char name[64];                     /* of the board, or "this machine" */
    struct ork_perf_identity identity; /* boards: threads alone */

    struct ork_perf_tier tiers[ORK_TIER_COUNT]; /* all set */
    double region_s;              /* a parallel region of one row: start, join, norm and quantizing of the input */
    double row_s;                 /* norm and quantizing of each further row of a group */
    double token_s;               /* per pass: embedding, final norm, sampler */
    double attention_bytes_per_s; /* keys and values of past positions, one row */

    bool has_npu;
    struct ork_npu_profile npu;
    /* Of a chain, measured, the first task included; 0: submit, completion, host, task and stream as above. */
    double chain_fixed_s, chain_bytes_per_s;
    double chain_cpu_s; /* that each chain costs the CPU in all, however short; 0: as who plans says */
    double pack_bytes_per_s;   /* int8 activations into the NPU's buffers */
    double unpack_bytes_per_s; /* int32 results checked and scaled */
    double swap_bytes_per_s;   /* int8 bricks made resident by the little cores */

    double bus_bytes_per_s;       /* that CPU and NPU get together, see ork_perf_share */
    double chain_bus_bytes_per_s; /* the same, by what the NPU lost; 0: not measured, as by what the CPU lost */
};

/* ---- prediction, pure ---------------------------------------------------------------------------------------------- */

/* Which of the terms is the largest part of a prediction. */
enum ork_perf_bound { ORK_PERF_BANDWIDTH, ORK_PERF_COMPUTE, ORK_PERF_FIXED };

struct ork_perf_time {
    double seconds;
    double fixed_s;    /* of them: regions, submits, calls, tasks */
    double transfer_s; /* of the CPU: members that wait for weights; of the NPU: host packing and unpacking */
    double compute_s; /* of the CPU: members that wait for arithmetic; of the NPU: the job less its tasks' fixed cost */
    double bytes;     /* of weights read */
    enum ork_perf_bound bound;
};

/* base: the CPU reads the base planes of n8 members. rows >= 1. */
struct ork_perf_time ork_perf_predict_cpu(const struct ork_perf *perf, const struct ork_group *group, uint32_t rows,
                                          bool base);
/* What a pass of `rows` rows behind `context` positions does in a layer without matrices: attention, convolution or
 * recurrence. */
struct ork_perf_time ork_perf_predict_core(const struct ork_perf *perf, const struct ork_layer_cost *layer,
                                           uint32_t rows, uint32_t context);
/* What a pass takes outside of layers: embedding, norms, sampler. */
double ork_perf_predict_rest(const struct ork_perf *perf, const struct ork_model_shape *shape);
/* All members of the group (every one must be ork_perf_npu_can) on all cores, weights resident. Infinite seconds without
 * an NPU. */
struct ork_perf_time ork_perf_predict_npu(const struct ork_perf *perf, const struct ork_group *group, uint32_t rows);
/* One row of the members whose bit is set, a chain on one core, from the submit to a host that knows. */
struct ork_perf_time ork_perf_predict_chain(const struct ork_perf *perf, const struct ork_group *group,
                                            uint32_t members);
/* Whether the member can be int8 bricks on an NPU: a tier of bricks, and k within the exact sums. */
bool ork_perf_npu_can(const struct ork_group_member *member);

/* Rates of both while both stream. If they sum to less than the bus carries, nothing changes. Else each keeps its part in
 * proportion to its own rate: the controller serves requests as they come, and who asks more often gets more. Measured
 * machines may let one lose more than the other: then each has a bus of its own. */
struct ork_perf_rates {
    double cpu_bytes_per_s, npu_bytes_per_s;
    double cpu_part, npu_part; /* that each keeps */
};
struct ork_perf_rates ork_perf_share(const struct ork_perf *perf, double cpu_bytes_per_s, double npu_bytes_per_s);

/* ---- figures from files --------------------------------------------------------------------------------------------- */

/* A board file's figures (npu and cpu sections). path NULL: the built-in board. */
ork_status ork_perf_from_board(const char *path, struct ork_perf *perf, ork_error *error);
/* Guesses by the number of threads alone, no NPU. identity is taken over. */
void ork_perf_assume(const struct ork_perf_identity *identity, struct ork_perf *perf);
/* JSON of a calibration. *text is freed with ork_free(). */
ork_status ork_perf_write(const struct ork_perf *perf, char **text, ork_error *error);
/* Refuses malformed files, other versions and impossible figures, with the key. Does not compare identities. */
ork_status ork_perf_parse(const void *text, uint64_t size_bytes, const char *where, struct ork_perf *perf,
                          ork_error *error);
/* ORK_UNSUPPORTED with the first difference: what the calibration was made on and what is here. An identity without an NPU
 * may use a calibration with one: has_npu is then to be cleared. */
ork_status ork_perf_check_identity(const struct ork_perf_identity *made_on, const struct ork_perf_identity *here,
                                   const char *where, ork_error *error);
/* Reads the system. root: "/" or a test tree with proc/ and sys/. threads 0: as sessions choose. npu may be NULL. */
ork_status ork_perf_identify(const char *root, uint32_t threads, const ork_npu *npu, struct ork_perf_identity *identity,
                             ork_error *error);

#endif
