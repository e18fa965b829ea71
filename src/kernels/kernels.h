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
 *  - Attention of one query over positions 0..p: s_t = (fmaf over channels ascending from 0 of q and k_t) * scale. Positions
 *    are taken in parts of `part` of them, parts in blocks of ORK_ATTEND_BLOCK, all aligned at position 0; `part` depends
 *    on p alone (the engine's rule). In a part, from m = -inf and sums 0, for each block ascending: m' = max(m, all s_t),
 *    c = exp(m - m'), w_t = exp(s_t - m'); lane[t % 16] = lane[t % 16] * c, then + w_t for t ascending; o = o * c, then
 *    o[i] = fmaf(w_t, v_t[i], o[i]) for t ascending. Parts are merged ascending: m' = max(m, m_part), a = exp(m - m'),
 *    b = exp(m_part - m'), o = fmaf(o_part, b, o * a), the lanes likewise. Result: o * (1 / lane tree). Only positions
 *    that the query sees take part, so that neither other rows nor how they are batched change a bit.
 *  - Transcendental functions are those of kernels/vector_math.h: one polynomial, one operation order, all ISAs.
 *  - NaN and infinity may come in and must not crash or read out of bounds; their results need not be equal in bits. */
#ifndef ORK_KERNELS_KERNELS_H
#define ORK_KERNELS_KERNELS_H

#include "kernels/surfaces.h"
#include "quant/tier.h"

enum ork_isa {
    ORK_ISA_SCALAR = 0, /* also the baseline of every architecture */
    ORK_ISA_AVX2 = 1,   /* AVX2, FMA, F16C */
    ORK_ISA_AVXVNNI = 2, /* these and AVX-VNNI: Alder Lake and later, N100, Zen 5 */
    ORK_ISA_AVX512 = 3, /* AVX-512 F, BW, VL, DQ, VNNI, VBMI */
    ORK_ISA_NEON = 4,    /* AArch64 baseline, ARMv8.0: Cortex-A53 */
    ORK_ISA_DOTPROD = 5, /* ARMv8.2 dot product: Cortex-A55, A76, Neoverse N1 */
    ORK_ISA_I8MM = 6,    /* ARMv8.6 int8 matrix multiply: Cortex-X2, A710, Neoverse N2, V1 */
    ORK_ISA_COUNT = 7
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
    enum ork_isa isa;
    ork_matmul_function run;
    const char *name; /* "matmul_nf4_avx512" */
};

/* Positions of an attention block: part of the numerics, see above. 3 % faster than 64; floats of one block of keys and
 * values with heads of 128 fill 128 KiB. docs/performance.md, "Attention". */
#define ORK_ATTEND_BLOCK 128u
#define ORK_ATTEND_ROWS 96u /* most queries of a tile */
/* Keys of 16 successive positions stand side by side, channel by channel: element i of position t is at
 * [t / 16][i][t % 16]. Whatever stands at positions not yet written is read, but has no effect. */
#define ORK_KEY_RUN 16u
/* Floats of a query's state in the middle of attention: sums of channels, padded to 16; 16 lanes of weights; maximum. */
#define ORK_ATTEND_STATE(head_size) (((head_size) + 15u) / 16u * 16u + 32u)
/* Floats of a tile's scratch: one block of keys and values. */
#define ORK_ATTEND_SCRATCH(head_size) (ORK_ATTEND_BLOCK * ((head_size) + ((head_size) + 15u) / 16u * 16u))

/* Queries that share a kv head. */
struct ork_attend {
    uint32_t rows;                     /* 1..ORK_ATTEND_ROWS */
    uint32_t head_size;
    const float *q[ORK_ATTEND_ROWS];   /* [head_size] each */
    uint32_t visible[ORK_ATTEND_ROWS]; /* positions that a query sees, at least 1, ascending */
    float scale;
    const void *keys;   /* f16 or f32, [runs][head_size][ORK_KEY_RUN], whole runs up to the last visible position */
    const void *values; /* f16 or f32, [positions][head_size] */
    bool keys_f32, values_f32;
    float *scratch; /* [ORK_ATTEND_SCRATCH(head_size)] */
};

#define ORK_SHORT_CONV_TAPS_MAX 16u

/* Gated short convolution of n channels over `rows` tokens in order: u = b * x (rounded), sum = fmaf(w[i], u of the token
 * taps - 1 - i before, sum) for i ascending from 0, y = sum * c. */
struct ork_short_conv {
    const float *b, *c, *x; /* [rows][stride] */
    uint64_t stride;
    const float *w;         /* [taps][w_stride] */
    uint64_t w_stride;
    float *state;           /* [taps - 1][state_stride]: u of the tokens before, oldest first; replaced by the last ones */
    uint64_t state_stride;
    float *y;               /* [rows][y_stride] */
    uint64_t y_stride;
    uint32_t n, taps, rows; /* taps 2..ORK_SHORT_CONV_TAPS_MAX */
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
    /* y[i] = x[i], but minus infinity for NaN; returns the largest of them. y may be x. */
    float (*copy_maximum)(float *y, const float *x, uint32_t n);
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
    /* Attention of the tile's queries over positions begin..end-1 of what each sees, begin a multiple of
     * ORK_ATTEND_BLOCK, into states [rows][ORK_ATTEND_STATE(head_size)]: the part of the contract. Rows that see nothing of
     * it get a state that must not be merged. */
    void (*attend)(const struct ork_attend *tile, uint32_t begin, uint32_t end, float *states);
    /* Merges the state of the next part into the one of all parts before. */
    void (*attend_merge)(float *total, const float *part, uint32_t head_size);
    /* y[0..head_size-1] = the result of a state. */
    void (*attend_finish)(float *y, const float *state, uint32_t head_size);
    /* Round to nearest even. */
    void (*f32_to_f16)(uint16_t *y, const float *x, uint32_t n);
    void (*short_conv)(const struct ork_short_conv *args);
};

struct ork_kernels {
    enum ork_isa isa; /* best installed */
    struct ork_matmul_kernel matmul[ORK_TIER_COUNT]; /* run is NULL for reserved tiers */
    struct ork_vector_kernels vector;
    struct ork_surface_kernels surface;
};

/* The table for this machine: scalar first, better ISAs over it, as far as CPU, operating system and ORK_CPU_MASK (scalar |
 * avx2 | avxvnni | avx512 | neon | dotprod | i8mm: the most that may be used) allow. Built once; an unknown mask is an error
 * naming the choices. */
ork_status ork_kernels_get(const struct ork_kernels **kernels, ork_error *error);
/* As ork_kernels_get with the mask given (NULL or empty: none) instead of read from the environment, into *kernels. */
ork_status ork_kernels_build_masked(const char *mask, struct ork_kernels *kernels, ork_error *error);
/* The table capped at one ISA, for the harness; false when this machine or build cannot run it. */
bool ork_kernels_build(enum ork_isa isa, struct ork_kernels *kernels);
const char *ork_isa_name(enum ork_isa isa);

#endif
