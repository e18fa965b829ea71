/* The kernel table. Owns every inner loop of the CPU engine, one operation a file and instruction set, installed into
 * the table and never chosen by callers. Knows no files, no models, no threads: callers split the work.
 *
 * Numerics contract: every row of the table gives the same bits for the same input, on every instruction set, for every
 * split into calls and for every number of rows m.
 *  - Integer kernels: for channel n, row i and activation block b of `block` inputs, acc_b = sum of code * activation
 *    code, exact in int32. Then y = 0; for b ascending: y = fmaf((float)acc_b, x_scale[i][b], y); result = y * w_scale[n].
 *    g8 has one weight scale per 32 k: with block j = k/32, acc_j exact, t_j = (float)acc_j * x_scale[block of j],
 *    lane[j % 16] = fmaf(t_j, w_scale[n][j], lane[j % 16]) for j ascending, then the lane tree; the last 16 blocks are
 *    completed with terms and scales of 0.
 *  - Float dots: lane[k % 16] = fmaf(w, x, lane[k % 16]) for k ascending from 0.0f (a tail shorter than 16 is padded
 *    with zeros), then the lane tree: l[i] += l[i+8] (i<8), l[i] += l[i+4] (i<4), l[i] += l[i+2] (i<2), l[0] + l[1].
 *    Sums of vectors use the same 16 lanes and tree.
 *  - Transcendental functions are those of kernels/vector_math.h: one polynomial, one operation order, all ISAs.
 *  - NaN and infinity may come in and must not crash or read out of bounds; their results need not be equal in bits. */
#ifndef ORK_KERNELS_KERNELS_H
#define ORK_KERNELS_KERNELS_H

#include "quant/tier.h"

enum ork_isa {
    ORK_ISA_SCALAR = 0, /* also the baseline of every architecture */
    ORK_ISA_AVX2 = 1,   /* AVX2, FMA, F16C */
    ORK_ISA_AVX512 = 2, /* AVX-512 F, BW, VL, DQ, VNNI, VBMI */
    ORK_ISA_NEON = 3,    /* AArch64 baseline, ARMv8.0: Cortex-A53 */
    ORK_ISA_DOTPROD = 4, /* ARMv8.2 dot product: Cortex-A55, A76, Neoverse N1 */
    ORK_ISA_I8MM = 5,    /* ARMv8.6 int8 matrix multiply: Cortex-X2, A710, Neoverse N2, V1 */
    ORK_ISA_COUNT = 6
};

enum ork_activation_kind {
    ORK_ACTIVATION_F32 = 0,
    ORK_ACTIVATION_I8 = 1,      /* int8 in k order */
    ORK_ACTIVATION_I8_SPLIT = 2 /* int8, every 32 k as 16 even then 16 odd, to meet the nibbles of 4-bit bricks */
};

#define ORK_ACTIVATION_BLOCK_MAX 4096u /* largest block in k apart from whole rows; see ork_activation.block */
#define ORK_MATMUL_K_MAX 131072u       /* 127 * 128 * k must fit int32 */

/* Token rows as input of matmuls. Quantized parts are filled by the table's quantize function. */
struct ork_activation {
    uint32_t rows, k, k_padded; /* k_padded: multiple of 32 */
    uint32_t block;             /* inputs that share a scale: a multiple of 32; k_padded for one scale a row */
    uint32_t blocks;            /* ceil(k_padded / block) */
    const float *f32;           /* [rows][f32_stride], the first k of each row */
    uint64_t f32_stride;        /* floats */
    int8_t *plain;              /* [rows][k_padded], codes in -127..127, padding 0; NULL when no kernel wants it */
    int8_t *split;              /* [rows][k_padded], or NULL */
    float *scales;              /* [rows][blocks] */
    int32_t *sums;              /* [rows][blocks], sum of codes (x86 kernels shift weights to unsigned) */
};

struct ork_matmul_args {
    const struct ork_matrix *w;
    uint32_t expert;
    const struct ork_activation *x;
    const uint32_t *x_rows; /* [m] rows of x to use, or NULL for 0..m-1 */
    uint32_t m;
    uint32_t n_begin, n_end; /* channels; n_begin is a multiple of the tier's brick_channels, n_end too or equal to w->n */
    float *y;                /* result (i, n) at y[i * y_stride + n]; only n_begin..n_end-1 are written */
    uint64_t y_stride;       /* floats */
};

typedef void (*ork_matmul_function)(const struct ork_matmul_args *args);

struct ork_matmul_kernel {
    enum ork_tier tier;
    enum ork_layout layout;
    enum ork_activation_kind activation;
    uint32_t m_tile; /* rows computed together; informs the split of work */
    enum ork_isa isa;
    ork_matmul_function run;
    const char *name; /* "matmul_nf4_avx512" */
};

/* Vector functions on rows; no aliasing unless stated, n >= 1 unless stated. Any n, any alignment. */
struct ork_vector_kernels {
    enum ork_isa isa;
    const char *name;
    /* y = x * w / sqrt(mean(x^2) + eps); y may be x. Sum of squares in double lanes: lane[k%8] += (double)x*x, tree of
     * 8; f = (float)(1 / sqrt(sum / n + eps)) in double, y = (x * f) * w. */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float eps);
    /* y[i] = a[i] + b[i]; y may be a or b. */
    void (*add)(float *y, const float *a, const float *b, uint32_t n);
    /* y[i] = a[i] * b[i]; y may be a or b. */
    void (*multiply)(float *y, const float *a, const float *b, uint32_t n);
    /* y[i] = fmaf(a, x[i], y[i]) */
    void (*axpy)(float *y, const float *x, float a, uint32_t n);
    /* y[i] = silu(gate[i]) * up[i], silu(g) = g / (1 + exp(-g)); y may be gate or up. */
    void (*silu_multiply)(float *y, const float *gate, const float *up, uint32_t n);
    /* y[i] = 1 / (1 + exp(-x[i])); y may be x. */
    void (*sigmoid)(float *y, const float *x, uint32_t n);
    /* In place: e[i] = exp(scale*x[i] - max of scale*x), each step rounded; x[i] = e[i] * (1 / sum of e). */
    void (*softmax)(float *x, uint32_t n, float scale);
    /* Quantizes one row: per block, scale = absmax / 127 (0 for a zero block), code = nearest even of x / scale
     * (computed as x * min(127 / absmax, FLT_MAX) in float), clamped to +-127. NaN gives code 0, infinity +-127 with
     * scale FLT_MAX/127. Writes row `row` of *x from x->f32: scales, sums, and those of plain and split that are not
     * NULL. */
    void (*quantize)(struct ork_activation *x, uint32_t row);
    /* Rotates the first 2*pairs of x in place: adjacent pairs (2i, 2i+1), or halves (i, i+pairs). cosine, sine: [pairs].
     * y0 = x0*c - x1*s, y1 = x0*s + x1*c, each product rounded, then one add. cosine, sine: not within x. */
    void (*rope_adjacent)(float *x, const float *cosine, const float *sine, uint32_t pairs);
    void (*rope_halves)(float *x, const float *cosine, const float *sine, uint32_t pairs);
    /* scores[t] = float dot of q and row t of keys (f16 or f32), rows `stride` elements apart. */
    void (*scores_f16)(float *scores, const float *q, const uint16_t *keys, uint64_t stride, uint32_t rows, uint32_t n);
    void (*scores_f32)(float *scores, const float *q, const float *keys, uint64_t stride, uint32_t rows, uint32_t n);
    /* y[i] = sum over t ascending of fmaf(p[t], values[t*stride + i], y[i]) from 0. */
    void (*weighted_sum_f16)(float *y, const float *p, const uint16_t *values, uint64_t stride, uint32_t rows, uint32_t n);
    void (*weighted_sum_f32)(float *y, const float *p, const float *values, uint64_t stride, uint32_t rows, uint32_t n);
    /* Round to nearest even. */
    void (*f32_to_f16)(uint16_t *y, const float *x, uint32_t n);
    /* Short convolution of one token over n channels, kernel length taps: y[c] = sum over i ascending of
     * fmaf(w[c*taps + i], u[i][c], .) from 0, where u[i] are `taps` rows of n floats, the last one the present token. */
    void (*short_conv)(float *y, const float *w, const float *const *u, uint32_t taps, uint32_t n);
};

struct ork_kernels {
    enum ork_isa isa; /* best installed */
    struct ork_matmul_kernel matmul[ORK_TIER_COUNT]; /* run is NULL for reserved tiers */
    struct ork_vector_kernels vector;
};

/* The table for this machine: scalar first, better ISAs over it, as far as CPU, operating system and ORK_CPU_MASK (scalar |
 * avx2 | avx512 | neon | dotprod | i8mm: the most that may be used) allow. Built once; an unknown mask is an error naming the choices. */
ork_status ork_kernels_get(const struct ork_kernels **kernels, ork_error *error);
/* As ork_kernels_get with the mask given (NULL or empty: none) instead of read from the environment, into *kernels. */
ork_status ork_kernels_build_masked(const char *mask, struct ork_kernels *kernels, ork_error *error);
/* The table capped at one ISA, for the harness; false when this machine or build cannot run it. */
bool ork_kernels_build(enum ork_isa isa, struct ork_kernels *kernels);
const char *ork_isa_name(enum ork_isa isa);

#endif
