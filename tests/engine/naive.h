/* The op groups written as their formulas, in double, one loop a line: what the engine is compared with. */
#ifndef ORK_TESTS_ENGINE_NAIVE_H
#define ORK_TESTS_ENGINE_NAIVE_H

#include "engine/cpu/cpu.h"

/* A stored matrix with its float values: w[e][n][k]. */
struct matrix {
    struct ork_matrix stored;
    float *values;
    void *data, *scales;
};

void matrix_create(struct matrix *matrix, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts, uint32_t *seed);
void matrix_destroy(struct matrix *matrix);
float random_float(uint32_t *seed); /* uniform in -1..1 */
void fill_random(float *values, uint64_t count, uint32_t *seed);

void naive_norm(double *y, const float *x, const float *norm, uint32_t n, double eps);
/* y[n] = W_e h */
void naive_multiply(double *y, const struct matrix *w, uint32_t expert, const double *h);
double naive_silu(double x);
/* y[k] += feed-forward of expert e of gate, up, down on h, times weight */
void naive_feed_forward(double *y, const struct matrix *gate, const struct matrix *up, const struct matrix *down,
                        uint32_t expert, const double *h, double weight);

#endif
