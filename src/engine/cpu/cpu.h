/* The CPU engine: op groups on the kernel table, each one parallel region of the pool. Owns threads, scratch memory and
 * the split of work; knows no architectures and no files.
 *
 * All row buffers are float, row-major, `rows` rows. An op group quantizes its input once, splits its output channels in
 * whole bricks and joins at one point. Nothing here allocates or takes a lock after ork_cpu_create. Results do not depend
 * on the number of threads. One caller at a time. */
#ifndef ORK_ENGINE_CPU_CPU_H
#define ORK_ENGINE_CPU_CPU_H

#include "kernels/kernels.h"

#define ORK_CPU_EXPERTS_MAX 512u /* as in llama.cpp */
#define ORK_CPU_CONV_TAPS_MAX ORK_SHORT_CONV_TAPS_MAX
#define ORK_CPU_OUTPUTS_MAX 8u /* of a projection group */

/* The largest shapes that the caller will use; scratch is sized once from them. */
struct ork_cpu_limits {
    uint32_t rows;          /* token rows of one call */
    uint32_t input_k;       /* widest matmul input of ork_cpu_project and widest row of any group */
    uint32_t output_n;      /* widest output that is added to the residual stream */
    uint32_t hidden;        /* widest dense feed-forward layer, 0: none */
    uint32_t experts, experts_used, expert_hidden; /* 0: no experts */
    uint32_t heads, head_size; /* query heads of attention, 0: none */
};

struct ork_cpu_config {
    uint32_t threads;          /* one row; 0: performance cores */
    uint32_t threads_batch;    /* several rows; 0: as threads */
    uint32_t spin_us;          /* UINT32_MAX: default */
    uint32_t activation_block; /* inputs that share an activation scale; 0: default; UINT32_MAX: whole rows */
    struct ork_cpu_limits limits;
};

typedef struct ork_cpu ork_cpu;

ork_status ork_cpu_create(const struct ork_cpu_config *config, ork_cpu **cpu, ork_error *error);
void ork_cpu_destroy(ork_cpu *cpu);
uint64_t ork_cpu_scratch_bytes(const ork_cpu *cpu);
uint32_t ork_cpu_threads(const ork_cpu *cpu, bool batch);
/* Groups that ran on one thread because other programs kept the cores busy; see ork_pool_set_yielding. */
uint64_t ork_cpu_yielded_regions(const ork_cpu *cpu);
const struct ork_kernels *ork_cpu_kernels(const ork_cpu *cpu);

/* Another engine that may take matmuls of groups of several rows from now on; NULL: none. Must outlive its use. Where it
 * wants at least one matmul of a group, the group's activations get one scale a row instead of the configured block, on
 * whichever engine they are used: the bits are those of activation_block UINT32_MAX, whatever the other engine takes, does
 * or fails to do. Groups of one row, and groups of which it wants nothing, are computed as without it. */
struct ork_offload;
void ork_cpu_set_offload(ork_cpu *cpu, const struct ork_offload *offload);

/* Another engine that may add to groups of one row from now on; NULL: none. Must outlive its use. Without a result in time
 * the bits are those without it. */
struct ork_overlay;
void ork_cpu_set_overlay(ork_cpu *cpu, const struct ork_overlay *overlay);
/* Late corrections that are due before a layer's groups (the head counts as one) are added to the one row of the residual
 * stream x. Between groups. */
void ork_cpu_begin_layer(ork_cpu *cpu, uint32_t layer, float *x, uint32_t rows);
/* A pass ends before its last layer: what would come late is forgotten. */
void ork_cpu_break_pass(ork_cpu *cpu);

/* Matmuls on weights with several rows while an offload was set, and what became of those that were offered to it. */
struct ork_cpu_batch_work {
    uint64_t multiply_adds;           /* of all of them, rows * n * k */
    uint64_t offloaded_multiply_adds; /* of those whose results the other engine computed */
    uint64_t offered, taken, done;    /* matmuls, an expert of a stack counts as one */
};
struct ork_cpu_batch_work ork_cpu_get_batch_work(const ork_cpu *cpu);

/* One member of a projection group. */
struct ork_cpu_output {
    const struct ork_matrix *w; /* n x k */
    float *y;                   /* [rows][n], rows y_stride floats apart */
    uint64_t y_stride;
    const float *bias;          /* [n] or NULL */
    bool add;                   /* y += W h instead of y = W h; n <= limits.output_n; at most one of a group */
};

/* h = norm ? rms_norm(x, norm, eps) : x;  for every output: y = W h (+ bias), or y += that. All outputs share k; at most
 * ORK_CPU_OUTPUTS_MAX. */
void ork_cpu_project(ork_cpu *cpu, const float *x, uint64_t x_stride, uint32_t rows, const float *norm, float eps,
                     const struct ork_cpu_output *outputs, uint32_t output_count);

/* x += down( silu(gate h) * (up h) ) with h = rms_norm(x, norm, eps). x: [rows][x_stride]. */
struct ork_cpu_swiglu {
    const float *norm;
    float eps;
    const struct ork_matrix *gate, *up, *down;
};
void ork_cpu_swiglu(ork_cpu *cpu, const struct ork_cpu_swiglu *layer, float *x, uint64_t x_stride, uint32_t rows);

/* x += sum over the chosen experts e of weight_e * down_e( silu(gate_e h) * (up_e h) ), h = rms_norm(x, norm, eps).
 * Scores: sigmoid or softmax of the router's logits. Chosen: the `used` largest of score + bias, the lower index among
 * equals. Weights: scores without bias, divided by max(their sum, 2^-14) if normalise, times scale. */
struct ork_cpu_moe {
    const float *norm;
    float eps;
    const struct ork_matrix *router; /* experts x k */
    const float *router_bias;        /* [experts] or NULL */
    bool sigmoid, normalise;
    float scale;
    uint32_t used;
    const struct ork_matrix *gate, *up, *down; /* stacks of experts */
};
void ork_cpu_moe(ork_cpu *cpu, const struct ork_cpu_moe *layer, float *x, uint64_t x_stride, uint32_t rows);

/* Causal attention with grouped query heads; keys and values of the new rows are put into the cache first.
 * Per head: optional RMS norm of q and k, rotation, then y = softmax(q K^T * scale) V over positions 0..its own. */
struct ork_cpu_attention {
    float *q;           /* [rows][q_stride], heads x head_size; changed in place */
    float *k, *v;       /* [rows][kv_stride], heads_kv x head_size; k is changed in place */
    uint64_t q_stride, kv_stride;
    float *y;           /* [rows][y_stride] */
    uint64_t y_stride;
    const float *q_norm, *k_norm; /* [head_size] or NULL */
    float eps;
    const float *cosine, *sine;   /* [rows][pairs] of the rows' positions */
    uint32_t pairs;               /* rotated pairs per head, 0: none */
    bool rope_halves;             /* pairs are (i, i + pairs), else (2i, 2i + 1) */
    uint32_t heads, heads_kv, head_size;
    float scale;
    void *keys;                   /* cache, f16 or f32: [heads_kv][ceil(context / 16)][head_size][16], see ORK_KEY_RUN */
    void *values;                 /* cache, f16 or f32: [heads_kv][context][head_size] */
    bool keys_f32, values_f32;
    uint32_t context;             /* positions of the caches */
    uint32_t past;                /* position of row 0 */
};
void ork_cpu_attend(ork_cpu *cpu, const struct ork_cpu_attention *layer, uint32_t rows);

/* Gated short convolution on the projected rows [B | C | X], each n wide:
 * u_t = B_t * X_t, y_t = C_t * sum over i of w[i][c] * u_{t - (taps-1) + i}. */
struct ork_cpu_short_conv {
    const float *bcx;  /* [rows][bcx_stride] */
    uint64_t bcx_stride;
    const float *w;    /* [taps][n] */
    uint32_t n, taps;
    float *state;      /* [taps - 1][n]: the last u before row 0; replaced by the last u of the rows */
    float *inputs;     /* [taps - 1 + rows][n]: receives the last u before row 0 and those of the rows; NULL: not wanted */
    float *y;          /* [rows][y_stride] */
    uint64_t y_stride;
};
void ork_cpu_convolve(ork_cpu *cpu, const struct ork_cpu_short_conv *layer, uint32_t rows);

/* x[i] = row tokens[i] of the embedding matrix, rows spread over the threads. */
void ork_cpu_embed(ork_cpu *cpu, const struct ork_matrix *embedding, const int32_t *tokens, uint32_t rows, float *x,
                   uint64_t x_stride);

#endif
