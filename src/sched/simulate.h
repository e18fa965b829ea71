/* Parts of the simulator that its files share. ork_simulate() and ork_simulate_published() stand in ork.h,
 * ork_simulate_model(), which is about a loaded model, in the room of models.
 *
 * Time is virtual: seconds in a double that only the bus moves forward. Nothing here reads a clock, and chance comes from a
 * seed, so the same question has the same answer on every machine. */
#ifndef ORK_SCHED_SIMULATE_H
#define ORK_SCHED_SIMULATE_H

#include "engine/npu/tiling.h"
#include "ork/ork.h"
#include "sched/plan.h"
#include "sched/shape.h"

/* Figures of the system that others measured, "published_system" of a board file. Never used for ork's predictions. */
struct ork_published_figures {
    double bytes_per_s;     /* weights of GGUF types, one row */
    double nf4_bytes_per_s; /* of its own 4-bit experts */
    double op_us;           /* a node of its graph beyond its bytes */
    double delta_layer_us;  /* a gated delta net layer beyond its bytes, each pass */
    double attention_ops, convolution_ops, delta_ops, experts_ops, dense_ops, head_ops;
    double dense_macs_per_s, expert_macs_per_s, float_macs_per_s; /* many rows */
    double runtime_call_us;   /* a joined NPU matmul inside its runtime, beyond the library's call */
    double domain_bytes;      /* that it fills of a domain */
    double touched_share;     /* of all experts, what a prompt of 128 tokens chooses from */
    double batched_experts;   /* on the NPU in a prompt of 128 tokens with the split */
    double batched_expert_us; /* NPU time of one of those */
    double split_expert_us;   /* of the CPU, for each active expert once a layer's experts are split */
    double q8_bits, nf4_bits; /* of a weight, with scales */
};

/* What ork's predictions hang on, "ork_system" of a board file. */
struct ork_system_figures {
    double bytes_per_s_4, bytes_per_s_8; /* weights of 4 and of 8 bits, one row, all performance cores */
    double region_us;                    /* a parallel region: start, join, quantizing its input */
    double macs_per_s, float_macs_per_s; /* many rows */
    double bus_bytes_per_s;              /* the most that CPU and NPU get together */
    double submit_jitter_us;             /* a submit takes up to so much longer, evenly spread */
    double lost_chance;                  /* that a chain never starts */
    double swap_bytes_per_s;             /* int8 bricks made resident by the little cores */
    double memory_bytes;                 /* of the board */
    double domain_bytes;                 /* that may be used of a domain */
};

enum { ORK_PUBLISHED_RUNS_MAX = 16 };
struct ork_published_run {
    char name[64], shape[64], policy[16], weights[16], quantity[8], fitted[32];
    uint32_t prompt, tokens, domains;
    double measured;
};

struct ork_simulate_board {
    struct ork_npu_profile npu;
    struct ork_published_figures published;
    struct ork_system_figures ork;
    size_t run_count;
    struct ork_published_run runs[ORK_PUBLISHED_RUNS_MAX];
};
/* path NULL: the built-in board. Refuses missing, unknown and impossible figures by name. */
ork_status ork_simulate_board_read(const char *path, struct ork_simulate_board *board, ork_error *error);
/* The perf model of ork on the board. */
void ork_perf_from_figures(const struct ork_simulate_board *board, struct ork_perf *perf);

/* ---- the bus: activities that wait, then draw bytes --------------------------------------------------------------- */

enum { ORK_LANE_CPU = 0, ORK_LANE_NPU = 1, ORK_LANE_COUNT = 1 + ORK_NPU_CORES_MAX };

/* An activity first takes wait_s, without the bus, and then draws `bytes` at most at `rate`. */
struct ork_lane {
    bool live;
    double wait_s, bytes, rate;
    double begin_s, end_s, busy_s; /* of the present or last activity; of all */
    const char *what;
    uint32_t layer;
};

struct ork_simulate_record {
    ork_simulation_event *events;
    size_t count, capacity;
    bool on;
};

/* The rule of sharing: alone, every lane draws at its own rate. While the CPU and the NPU both draw, and all rates sum to
 * more than the limit, each gets its part of the limit in proportion to its rate: the controller serves requests as they
 * come, and who asks more often gets more. */
struct ork_bus {
    double now_s, limit;
    struct ork_lane lanes[ORK_LANE_COUNT];
    struct ork_simulate_record *record;
    /* A lane became idle; may start it again. May be NULL. */
    void (*idle)(void *context, int lane);
    void *context;
};
void ork_bus_start(struct ork_bus *bus, int lane, const char *what, uint32_t layer, double wait_s, double bytes,
                   double rate);
/* Time passes until the lane is idle. */
void ork_bus_wait(struct ork_bus *bus, int lane);
/* Time passes for so long. */
void ork_bus_pass(struct ork_bus *bus, double seconds);

/* ---- the two systems ----------------------------------------------------------------------------------------------- */

/* splitmix64, and a double in [0, 1). */
uint64_t ork_simulate_random(uint64_t *state);
double ork_simulate_chance(uint64_t *state);
/* Draws `used` different of `count` experts for each of `rows` tokens; rows_of: [count], tokens that chose each. Returns how
 * many experts have any. */
uint32_t ork_simulate_choose(uint64_t *state, uint32_t count, uint32_t used, uint32_t rows, uint32_t *rows_of);

/* A model as the simulator sees it. */
struct ork_simulate_model {
    const struct ork_model_shape *shape;
    uint32_t context_max;
    double gguf_bits_layers, gguf_bits_head; /* 0: not known; the published system is out of question */
    bool base_alone;                         /* of n8 the CPU reads base planes with every policy */
};

struct ork_simulate_job {
    const struct ork_simulate_board *board;
    const struct ork_simulate_model *model;
    struct ork_perf perf; /* of ork on the board, with the submit and the bus that were asked for */
    struct ork_route_policy policy;
    uint32_t context, prompt, tokens;
    uint64_t seed;
    uint32_t late_layers;
    double delay_s;            /* of every chain, unknown to the plan */
    uint64_t npu_memory_bytes; /* for int8 bricks */
};
enum { ORK_SIMULATE_BATCH = 512 }; /* prompt rows at once */

/* Refuses what is no shape's or board's fault. */
ork_status ork_simulate_check(const ork_simulate_params *params, ork_error *error);
/* Any model; params are checked, params->shape is not looked at. *simulation is freed with free(). */
ork_status ork_simulate_any(const ork_simulate_params *params, const struct ork_simulate_model *model,
                            ork_simulation **simulation, ork_error *error);

/* int8 bytes that would have to be made resident in a phase and what of the time nothing hides. */
void ork_simulate_swap(const struct ork_simulate_job *job, double bytes, double phase_s, ork_simulation_swap *swap);

/* ork: policies cpu, overlay, late. */
ork_status ork_simulate_ork(const struct ork_simulate_job *job, ork_policy policy, ork_simulation *result,
                            struct ork_simulate_record *record, ork_error *error);
/* The published system: cpu, partition, streaming. weights: "gguf", or "auto" (experts nf4, projections q8_0). */
void ork_simulate_other(const struct ork_simulate_job *job, ork_policy policy, const char *weights, uint32_t domains,
                        ork_simulation *result, struct ork_simulate_record *record);

#endif
