/* One matmul with random content: a matrix of a tier, activations, and where the result goes. Used by the checks and by
 * the benchmark. */
#ifndef ORK_TESTS_KERNELS_MATMUL_CASE_H
#define ORK_TESTS_KERNELS_MATMUL_CASE_H

#include "harness.h"

enum code_style {
    CODES_RANDOM,
    CODES_LARGEST,  /* all weights and activations at one end: sums as large as they get */
    CODES_OPPOSITE, /* weights at one end, activations at the other */
    CODES_ZERO,
    CODE_STYLE_COUNT
};

struct matmul_shape {
    enum ork_tier tier;
    uint32_t n, k, m;
    uint32_t experts, expert;
    uint32_t x_row_count; /* rows that exist; when != m or shuffled, x_rows names m of them, with duplicates */
    bool shuffled;
    uint32_t block; /* 0: whole row */
    enum code_style codes;
    enum float_style x_style, scale_style; /* activations; weight scales or float weights */
    bool front;                            /* guard pages directly before the buffers instead of directly after them */
};

struct matmul_case {
    struct matmul_shape shape;
    struct ork_matrix matrix;
    struct ork_activation x;
    struct guarded data, scales, table, f32, plain, split, x_scales, x_sums, x_rows, y;
    uint64_t y_stride;
};

void matmul_case_make(struct matmul_case *c, const struct matmul_shape *shape, uint64_t *seed);
void matmul_case_free(struct matmul_case *c);
/* Arguments for channels n_begin..n_end-1 into the case's own y. */
struct ork_matmul_args matmul_case_args(const struct matmul_case *c, uint32_t n_begin, uint32_t n_end);
/* Weight W[n][k] and activation value x[row][k] in double, read by the formulas of quant/tier.h. */
double matmul_case_weight(const struct matmul_case *c, uint32_t n, uint32_t k);
double matmul_case_input(const struct matmul_case *c, uint32_t row, uint32_t k);
/* Bytes of codes and scales that one expert has. */
uint64_t matmul_case_bytes(const struct matmul_case *c);
uint32_t matmul_brick_channels(enum ork_tier tier);
enum ork_layout matmul_case_layout(enum ork_tier tier);

#endif
