/* Published measurements of RK3588 boards and what the timing model says of each. Owns the list of measurements and how
 * each was made (tiling, chaining, cores); the model itself is engine/npu/timing.h. Used by the test that guards the
 * agreement, by the table (bench/npu_timing.c) and through that by the fit (tools/fit_npu_timing.py). */
#ifndef ORK_TESTS_PUBLISHED_H
#define ORK_TESTS_PUBLISHED_H

#include "engine/npu/timing.h"

/* One matmul of a call and how it was cut into programs. */
struct published_matmul {
    enum ork_npu_type type;
    uint32_t m, k, n;
    uint32_t rows, k_slice, channels; /* of a program; 0: all rows, all of k, up to 8192 channels */
    uint32_t copies;                  /* equal matmuls in the chain; 0: 1 */
    bool double_rows; /* two physical rows a row, and weights kept in the CBUF for the row groups after the first */
};

enum published_path {
    PUBLISHED_DEVICE, /* the job alone */
    PUBLISHED_SUBMIT, /* submit, job, completion */
    PUBLISHED_CALL    /* a whole library call: host work, submit, job, completion */
};

struct published_call {
    enum published_path path;
    uint32_t cores, calls; /* calls one after the other */
    struct published_matmul matmuls[2];
};

enum published_unit {
    PUBLISHED_US,   /* time */
    PUBLISHED_GB_S, /* weight bytes over time */
    PUBLISHED_GOPS, /* 2 * m * k * n over time */
    PUBLISHED_TIMES /* time of `versus` over time of `call` */
};

enum published_use {
    PUBLISHED_FIT,   /* a figure was fitted to it */
    PUBLISHED_GIVEN, /* is itself a figure of the profile, or nearly */
    PUBLISHED_OUT    /* left out of the fit: a prediction */
};

struct published_row {
    const char *what, *source;
    double value;
    enum published_unit unit;
    enum published_use use;
    struct published_call call, versus;
    const char *reason; /* NULL: within PUBLISHED_TOLERANCE; else why it is not claimed to be */
    const char *note;   /* what was assumed, or NULL */
};

#define PUBLISHED_TOLERANCE 0.20

extern const struct published_row published_rows[];
extern const unsigned published_row_count;

/* The model's value in the row's unit. */
double published_model(const struct ork_npu_profile *profile, const struct published_row *row);
/* Measurements that say nothing the model could be asked, each with the reason; ends with NULL. */
extern const char *const published_not_modelled[];

#endif
