/* Guards the scalar table's float functions against libm in double: exp, sigmoid, silu, softmax, rms_norm, the scores
 * and sums of attention, rotations and convolutions, and both directions of f16 on every table. The bounds are those
 * that kernels/vector_math.h states. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kernels/vector_math.h"

/* Distance in units of the last place of the true value, with the smallest subnormal as the least unit. */
static double ulps(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) == isnan(got) ? 0.0 : 1e9;
    if (fabs(want) >= 0x1.ffffffp127) /* rounds to infinity */
        return isinf(got) && (got > 0) == (want > 0) ? 0.0 : 1e9;
    int exponent;
    frexp(want, &exponent);
    double unit = ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
    return fabs(got - want) / unit;
}

static void report(struct harness *h, const char *what, double worst, double bound)
{
    if (h->verbose)
        printf("accuracy %-16s worst %.3f ulp, bound %.2f\n", what, worst, bound);
    harness_check(h, worst <= bound, "%s is off by %.3f ulp, bound %.2f", what, worst, bound);
}

static void check_exp(struct harness *h)
{
    double worst_normal = 0.0, worst_subnormal = 0.0;
    const int steps = h->quick ? 20000 : 2000000;
    for (int i = 0; i < steps; i += 16) {
        float in[16], out[16];
        for (int j = 0; j < 16; j++)
            in[j] = -110.0f + 205.0f * ((float)(i + j) / (float)steps) + random_unit(&h->seed) * 1e-3f;
        v16_store(out, v16_exp(v16_load(in)));
        for (int j = 0; j < 16; j++) {
            double want = exp((double)in[j]), error = ulps(out[j], want);
            double *worst = want >= 0x1p-126 ? &worst_normal : &worst_subnormal;
            *worst = fmax(*worst, error);
        }
    }
    report(h, "exp", worst_normal, 1.01);
    report(h, "exp, subnormal", worst_subnormal, 1.0);
    const float edges[16] = {0.0f,       -0.0f,    INFINITY, -INFINITY, 88.72283f, 88.72284f, 89.0f, 1e30f,
                             -87.33654f, -103.97f, -103.98f, -104.5f,   -1e30f,    1e-40f,    NAN,   1.0f};
    float out[16];
    v16_store(out, v16_exp(v16_load(edges)));
    double worst = 0.0;
    for (int j = 0; j < 16; j++)
        worst = fmax(worst, ulps(out[j], exp((double)edges[j])));
    report(h, "exp at edges", worst, 1.0);
}

static void check_activations(struct harness *h, const struct ork_vector_kernels *v)
{
    enum { COUNT = 4001 };
    float x[COUNT], y[COUNT], up[COUNT];
    double worst_sigmoid = 0.0, worst_silu = 0.0;
    for (int i = 0; i < COUNT; i++) {
        x[i] = i % 2 ? random_unit(&h->seed) * 86.0f : random_normal(&h->seed);
        up[i] = 1.0f;
    }
    v->sigmoid(y, x, COUNT);
    for (int i = 0; i < COUNT; i++)
        worst_sigmoid = fmax(worst_sigmoid, ulps(y[i], 1.0 / (1.0 + exp(-(double)x[i]))));
    v->silu_multiply(y, x, up, COUNT);
    for (int i = 0; i < COUNT; i++)
        worst_silu = fmax(worst_silu, ulps(y[i], x[i] / (1.0 + exp(-(double)x[i]))));
    report(h, "sigmoid", worst_sigmoid, 2.5);
    report(h, "silu", worst_silu, 2.5);
    const float edges[6] = {-89.0f, -1e30f, 1e30f, INFINITY, -INFINITY, 0.0f};
    v->sigmoid(y, edges, 6);
    harness_check(h, y[0] < 1e-37f && y[1] == 0.0f && y[2] == 1.0f && y[3] == 1.0f && y[4] == 0.0f && y[5] == 0.5f,
                  "sigmoid at its ends");
}

static void check_softmax(struct harness *h, const struct ork_vector_kernels *v)
{
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 100, 4096};
    double worst = 0.0, worst_sum = 0.0;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        const uint32_t n = lengths[l];
        float x[4096], y[4096];
        double sum = 0.0, total = 0.0, top = -INFINITY;
        const float scale = 0.125f;
        for (uint32_t i = 0; i < n; i++) {
            x[i] = random_normal(&h->seed) * 30.0f;
            top = fmax(top, (double)(x[i] * scale));
        }
        memcpy(y, x, n * sizeof(float));
        v->softmax(y, n, scale);
        for (uint32_t i = 0; i < n; i++)
            sum += exp((double)(x[i] * scale) - top);
        for (uint32_t i = 0; i < n; i++) {
            double want = exp((double)(x[i] * scale) - top) / sum;
            worst = fmax(worst, fabs(y[i] - want) / want * 0x1p24);
            total += y[i];
        }
        worst_sum = fmax(worst_sum, fabs(total - 1.0) * 0x1p24);
    }
    /* The shift by the maximum rounds an argument of up to 32: half of 2^-19 relative, 2^4 half-units; then the sum of
     * n / 16 terms a lane. */
    report(h, "softmax", worst, 48.0);
    report(h, "softmax total", worst_sum, 32.0);
}

static void check_norm(struct harness *h, const struct ork_vector_kernels *v)
{
    static const uint32_t lengths[] = {1, 7, 16, 17, 576, 4096};
    static const enum float_style styles[] = {FLOATS_NORMAL, FLOATS_SMALLER, FLOATS_LARGE, FLOATS_HUGE, FLOATS_ZERO};
    double worst = 0.0;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t s = 0; s < sizeof styles / sizeof styles[0]; s++) {
            const uint32_t n = lengths[l];
            float x[4096], w[4096], y[4096];
            random_floats(&h->seed, styles[s], x, n);
            random_floats(&h->seed, FLOATS_NORMAL, w, n);
            v->rms_norm(y, x, w, n, 1e-5f);
            double squares = 0.0;
            for (uint32_t i = 0; i < n; i++)
                squares += (double)x[i] * x[i];
            for (uint32_t i = 0; i < n; i++)
                worst = fmax(worst, ulps(y[i], x[i] / sqrt(squares / n + (double)1e-5f) * w[i]));
        }
    report(h, "rms_norm", worst, 2.5);
}

/* One query over positions of three blocks, the second part of which is merged. */
static void check_attention(struct harness *h, const struct ork_vector_kernels *v)
{
    enum { N = 70, ROWS = 2 * ORK_ATTEND_BLOCK + 9, RUNS = (ROWS + 15) / 16 };
    static float q[N], keys[RUNS * N * ORK_KEY_RUN], values[ROWS * N], states[2][ORK_ATTEND_STATE(N)], y[N];
    static float scratch[ORK_ATTEND_SCRATCH(N)];
    double weights[ROWS], total = 0.0, worst = 0.0;
    random_floats(&h->seed, FLOATS_NORMAL, q, N);
    random_floats(&h->seed, FLOATS_NORMAL, keys, RUNS * N * ORK_KEY_RUN);
    random_floats(&h->seed, FLOATS_NORMAL, values, ROWS * N);
    const struct ork_attend tile = {.rows = 1,
                                    .head_size = N,
                                    .q = {q},
                                    .visible = {ROWS},
                                    .scale = 0.25f,
                                    .keys = keys,
                                    .values = values,
                                    .keys_f32 = true,
                                    .values_f32 = true,
                                    .scratch = scratch};
    v->attend(&tile, 0, ORK_ATTEND_BLOCK, states[0]);
    v->attend(&tile, ORK_ATTEND_BLOCK, ROWS, states[1]);
    v->attend_merge(states[0], states[1], N);
    v->attend_finish(y, states[0], N);
    for (int t = 0; t < ROWS; t++) {
        double dot = 0.0;
        for (int i = 0; i < N; i++)
            dot += (double)q[i] * keys[(t / 16 * N + i) * 16 + t % 16];
        total += weights[t] = exp(dot * 0.25);
    }
    for (int i = 0; i < N; i++) {
        double want = 0.0, magnitude = 0.0;
        for (int t = 0; t < ROWS; t++) {
            want += weights[t] / total * values[t * N + i];
            magnitude += fabs(weights[t] / total * values[t * N + i]);
        }
        worst = fmax(worst, fabs(y[i] - want) / magnitude * 0x1p24);
    }
    /* A dot of 70 terms and its shift by the maximum round by a few half-units of magnitudes up to 32. */
    report(h, "attention", worst, 48.0);
}

static void check_rotation(struct harness *h, const struct ork_vector_kernels *v)
{
    enum { PAIRS = 35 };
    float x[2 * PAIRS], adjacent[2 * PAIRS], halves[2 * PAIRS], c[PAIRS], s[PAIRS];
    random_floats(&h->seed, FLOATS_NORMAL, x, 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        c[i] = (float)cos(i * 0.7);
        s[i] = (float)sin(i * 0.7);
        adjacent[2 * i] = halves[i] = x[i];
        adjacent[2 * i + 1] = halves[i + PAIRS] = x[i + PAIRS];
    }
    v->rope_adjacent(adjacent, c, s, PAIRS);
    v->rope_halves(halves, c, s, PAIRS);
    bool good = true;
    for (int i = 0; i < PAIRS; i++) {
        double a = x[i], b = x[i + PAIRS], first = a * c[i] - b * s[i], second = a * s[i] + b * c[i];
        double bound = (fabs(a) + fabs(b)) * 0x1p-23;
        good = good && fabs(halves[i] - first) <= bound && fabs(halves[i + PAIRS] - second) <= bound;
        good = good && adjacent[2 * i] == halves[i] && adjacent[2 * i + 1] == halves[i + PAIRS];
    }
    harness_check(h, good, "rope rotates wrongly");
}

static void check_convolution(struct harness *h, const struct ork_vector_kernels *v)
{
    enum { N = 37, TAPS_COUNT = 3 };
    float u[TAPS_COUNT][N], w[TAPS_COUNT * N], y[N], ones[N], gate[N];
    for (int i = 0; i < TAPS_COUNT; i++)
        random_floats(&h->seed, FLOATS_NORMAL, u[i], N);
    random_floats(&h->seed, FLOATS_NORMAL, w, TAPS_COUNT * N);
    random_floats(&h->seed, FLOATS_NORMAL, gate, N);
    for (int c = 0; c < N; c++)
        ones[c] = 1.0f;
    double expected[N], magnitude[N];
    for (int c = 0; c < N; c++) {
        expected[c] = magnitude[c] = 0.0;
        for (int i = 0; i < TAPS_COUNT; i++) {
            expected[c] += (double)w[i * N + c] * u[i][c] * gate[c];
            magnitude[c] += fabs((double)w[i * N + c] * u[i][c] * gate[c]);
        }
    }
    float newest[N];
    memcpy(newest, u[2], sizeof newest);
    const struct ork_short_conv args = {.b = newest,
                                        .c = gate,
                                        .x = ones,
                                        .stride = N,
                                        .w = w,
                                        .w_stride = N,
                                        .state = u[0],
                                        .state_stride = N,
                                        .y = y,
                                        .y_stride = N,
                                        .n = N,
                                        .taps = TAPS_COUNT,
                                        .rows = 1};
    v->short_conv(&args);
    bool good = memcmp(u[1], newest, sizeof newest) == 0;
    for (int c = 0; c < N; c++)
        good = good && fabs(y[c] - expected[c]) <= magnitude[c] * 0x1p-22;
    harness_check(h, good, "short_conv is wrong");
}

static void check_maximum(struct harness *h, const struct ork_vector_kernels *v)
{
    float x[37], y[37];
    uint64_t seed = h->seed; /* machines differ in tables; what follows must draw the same on all */
    random_floats(&seed, FLOATS_NORMAL, x, 37);
    x[3] = x[20] = x[36] = NAN;
    x[33] = 50.0f;
    bool good = v->copy_maximum(y, x, 37) == 50.0f && v->copy_maximum(y, x, 33) < 50.0f;
    v->copy_maximum(y, x, 37);
    for (int i = 0; i < 37; i++)
        good = good && y[i] == (isnan(x[i]) ? -INFINITY : x[i]);
    x[0] = NAN;
    good = good && v->copy_maximum(x, x, 1) == -INFINITY && x[0] == -INFINITY;
    harness_check(h, good, "%s: copy_maximum is wrong", v->name);
}

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* Every half to float and back, and floats around every midpoint of two halves. */
static void check_halves(struct harness *h, const struct ork_vector_kernels *v)
{
    static const float zeros[16];
    static const uint16_t zero_keys[16 * ORK_KEY_RUN];
    float state[ORK_ATTEND_STATE(16)];
    bool to_float = true, back = true, nearest = true;
    for (uint32_t bits = 0; bits < 65536; bits += 16) {
        uint16_t in[16], out[16];
        float values[16], probes[16];
        for (uint32_t j = 0; j < 16; j++)
            in[j] = (uint16_t)(bits + j);
        /* The values of a single position come through attention as they are. */
        const struct ork_attend tile = {
            .rows = 1, .head_size = 16, .q = {zeros}, .visible = {1}, .keys = zero_keys, .values = in};
        v->attend(&tile, 0, 1, state);
        v->attend_finish(values, state, 16);
        v->f32_to_f16(out, values, 16);
        for (uint32_t j = 0; j < 16; j++) {
            double want = half_value(in[j]);
            to_float = to_float && (isnan(want) ? isnan(values[j]) : (double)values[j] == want);
            back = back && (isnan(want) ? (out[j] & 0x7FFF) > 0x7C00 : out[j] == in[j] || in[j] == 0x8000);
            if (isnan(want) || (in[j] & 0x7FFF) >= 0x7BFF) {
                probes[j] = 0.0f;
                continue;
            }
            double middle = (want + half_value((uint16_t)(in[j] + 1))) / 2;
            probes[j] = j % 3 == 0 ? (float)middle : nextafterf((float)middle, j % 3 == 1 ? INFINITY : -INFINITY);
        }
        v->f32_to_f16(out, probes, 16);
        for (uint32_t j = 0; j < 16; j++) {
            uint16_t even = in[j] & 1 ? (uint16_t)(in[j] + 1) : in[j];
            uint16_t outward = (uint16_t)(in[j] + 1); /* larger magnitude */
            bool up = (j % 3 == 1) != (in[j] >> 15);
            uint16_t want = j % 3 == 0 ? even : up ? outward : in[j];
            if (isnan(half_value(in[j])) || (in[j] & 0x7FFF) >= 0x7BFF)
                want = 0;
            nearest = nearest && out[j] == want;
        }
    }
    const float limits[4] = {65519.99f, 65520.0f, -65520.0f, 1e30f};
    uint16_t out[4];
    v->f32_to_f16(out, limits, 4);
    nearest = nearest && out[0] == 0x7BFF && out[1] == 0x7C00 && out[2] == 0xFC00 && out[3] == 0x7C00;
    harness_check(h, to_float, "%s: f16 to f32 is wrong", v->name);
    harness_check(h, back, "%s: f32 to f16 does not give back every half", v->name);
    harness_check(h, nearest, "%s: f32 to f16 does not round to nearest even", v->name);
}

void check_accuracy(struct harness *h)
{
    check_exp(h);
    const struct ork_vector_kernels *v = &h->tables[0].vector;
    check_activations(h, v);
    check_softmax(h, v);
    check_norm(h, v);
    check_attention(h, v);
    check_rotation(h, v);
    check_convolution(h, v);
    for (uint32_t table = 0; table < h->table_count; table++)
        check_halves(h, &h->tables[table].vector);
    for (uint32_t table = 0; table < h->table_count; table++)
        check_maximum(h, &h->tables[table].vector);
}
