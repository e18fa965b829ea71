/* Surfaces of the NPU: rows of codes into its input order, results out of its output order, bricks of every tier into int8
 * bricks, and the checksums that prove a result. Part of the kernel table: one file an instruction set, equal bits on
 * all. Knows no devices.
 *
 * Orders (npu-hw.md 6), k and n padded with zeros:
 *   A int8  [k/16][m][16] bytes;  A int4 [k/32][m][32] nibbles, even k in the low nibble
 *   C int32 [n/4][m][4];          C int16 [n/8][m][8];          C int32 by rows [m][n]
 *   B int8  [n/32][k/32][32][32] bytes; B int4 [n/64][k/32][64][32] nibbles: the pack's bricks
 *
 * Checks: weight(n) is an odd number mod 2^32. key[k] = sum over n of weight(n) * b(n, k). For a row of A,
 * sum over k of a(k) * key[k] = sum over n of weight(n) * c(n), all mod 2^32. */
#ifndef ORK_KERNELS_SURFACES_H
#define ORK_KERNELS_SURFACES_H

#include "quant/tier.h"

/* Rows of codes to be laid out as an input surface. */
struct ork_surface_input {
    const int8_t *codes;    /* [..][stride], k_begin + k of each row are read */
    uint64_t stride;        /* bytes */
    const uint32_t *rows;   /* [m] rows of codes to take, or NULL for 0..m-1 */
    uint32_t m, k_begin, k; /* k a multiple of 32 */
    uint8_t *out;           /* [k/16][m][16] or [k/32][m][16]; 16-byte aligned */
};

/* A result surface of m rows and n channels, given as parts that are summed (k slices, mod 2^32), to be scaled into
 * floats. */
struct ork_surface_output {
    const void *const *parts; /* [part_count], 16-byte aligned */
    uint32_t part_count;
    uint32_t m, n;         /* n a multiple of 32 */
    uint32_t n_used;       /* channels that are wanted, 1..n; the others enter the checks alone and are not written */
    const float *x_scales; /* of row i at [rows ? rows[i] : i] */
    const uint32_t *rows;  /* or NULL */
    const float *w_scales; /* [n] */
    float *y; /* y[i * y_stride + j] = fmaf((float)acc, x scale, 0) * w scale, j < n_used; NULL: not wanted */
    uint64_t y_stride;
    int32_t *sums; /* [m][sums_stride] acc itself, j < n_used, or NULL */
    uint64_t sums_stride;
    const uint32_t *weights; /* [n] */
    uint32_t *checks;        /* [m], += sum over the n channels of weights[j] * acc, mod 2^32 */
};

struct ork_surface_kernels {
    const char *name;
    /* Codes are used as they are. */
    void (*input_i8)(const struct ork_surface_input *input);
    /* Codes are in -8..7. */
    void (*input_i4)(const struct ork_surface_input *input);
    /* C int32 in its own order, C int32 by rows, C int16 in its own order. */
    void (*output_i32)(const struct ork_surface_output *output);
    void (*output_i32_rows)(const struct ork_surface_output *output);
    void (*output_i16)(const struct ork_surface_output *output);
    /* checks[i] += sum over k of codes[row][k] * key[k], mod 2^32; row i is rows[i] or i. k a multiple of 32. */
    void (*row_checks)(const int8_t *codes, uint64_t stride, const uint32_t *rows, uint32_t m, const uint32_t *key,
                       uint32_t k, uint32_t *checks);
    /* key[k] += sum over the 32 channels of one int8 group of weights[n] * b(n, k); bricks: [k_tiles][32][32]. */
    void (*key_i8)(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key);
    /* The same over the 64 channels of one int4 group; bricks: [k_tiles][64][16]. */
    void (*key_i4)(const uint8_t *bricks, uint32_t k_tiles, const uint32_t *weights, uint32_t *key);
    /* One group of 64 channels of a 4 to 6-bit tier or of n8 into its exact int8 codes: two groups of int8 bricks one
     * behind the other, 2 * k_tiles * 1024 bytes. table: nf4's and n8's, else NULL. residual: n8's second run of bricks,
     * where the group's begins, else NULL. */
    void (*inflate)(enum ork_tier tier, const int8_t *table, const uint8_t *bricks, const uint8_t *residual,
                    uint32_t k_tiles, uint8_t *out);
};

/* weights[n] for n = first .. first + count - 1, odd and the same everywhere: the finalizer of MurmurHash3 (Appleby, 2011,
 * public domain) of n + 0x9E3779B9, with bit 0 set. */
void ork_surface_weights(uint32_t first, uint32_t count, uint32_t *weights);

#endif
