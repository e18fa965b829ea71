/* The tiers in which ork stores weights: describe, size, encode, decode. Scalar C only; kernels read the same bytes.
 *
 * A matrix has n output channels and k inputs; y[n] = sum over k of W[n][k] x[k]. Brick tiers (i8, i6, i5, i4, nf4)
 * store one f32 scale per channel: W[n][k] = scale[n] * code. A brick covers 32 k; KT = ceil(k / 32). Bricks of i8, i4
 * and nf4 have 1024 bytes:
 *   i8        32 channels, byte ((n/32)*KT + k/32)*1024 + (n%32)*32 + k%32
 *   i4, nf4   64 channels, byte ((n/64)*KT + k/32)*1024 + (n%64)*16 + (k%32)/2, even k in the low nibble;
 *             i4: code = nibble as two's complement in -8..7; nf4: code = table[nibble], 16 int8 entries per tensor
 *   i5, i6    64 channels in 1280 or 1536 bytes, the lowest four bits of a code as nibbles and the rest apart; the
 *             places are those of quant/upper_bits.h. Two's complement in -16..15, -32..31
 * Padding channels have scale 0, padding k has a code that means 0 (nf4: an entry that is 0; every table has one).
 * Row tiers (f32, f16, bf16, g8) are plain row-major rows; g8: int8 codes, rows padded to 32, one f16 scale per 32 k,
 * W = scale * code. Codes of i8 and g8 are in -127..127. */
#ifndef ORK_QUANT_TIER_H
#define ORK_QUANT_TIER_H

#include "format/orkpack.h"

/* Numbers are part of the file format. */
enum ork_tier {
    ORK_TIER_F32 = 0,
    ORK_TIER_F16 = 1,
    ORK_TIER_BF16 = 2,
    ORK_TIER_G8 = 3,
    ORK_TIER_I8 = 4,
    ORK_TIER_I4 = 5,
    ORK_TIER_NF4 = 6,
    ORK_TIER_I5 = 7,
    ORK_TIER_I6 = 8,
    ORK_TIER_N8 = 9, /* nested: nf4 bricks and behind them what is missing to int8, see quant/nested.h */
    ORK_TIER_COUNT = 10
};

enum ork_layout {
    ORK_LAYOUT_ROWS = 0,        /* row-major, row stride = row bytes */
    ORK_LAYOUT_BRICK32 = 1,     /* 32 channels x 32 k bytes, one K slice */
    ORK_LAYOUT_BRICK64 = 2,     /* 64 channels x 32 k nibbles, one K slice */
    ORK_LAYOUT_BRICK64_5 = 3,   /* the same with a fifth bit, see quant/upper_bits.h */
    ORK_LAYOUT_BRICK64_6 = 4,   /* with two more bits */
    ORK_LAYOUT_BRICK64_PAIR = 5 /* two runs of BRICK64 */
};

struct ork_tier_info {
    enum ork_tier tier;
    const char *name;
    enum ork_layout layout;
    uint32_t brick_channels; /* 32, 64; 1 for row tiers: the granularity in which channels are split over threads */
    bool quantized;          /* integer activations */
    double bits_per_weight;  /* codes alone */
    uint32_t brick_bytes;    /* 0 for row tiers */
};
/* NULL for unknown or reserved tiers. */
const struct ork_tier_info *ork_tier_find(uint32_t tier);
const struct ork_tier_info *ork_tier_find_name(const char *name);

static inline bool ork_tier_has_table(uint32_t tier)
{
    return tier == ORK_TIER_NF4 || tier == ORK_TIER_N8;
}

/* Plane sizes of one matrix (one expert): bytes of codes, scales, table. The table plane is shared by all experts. */
struct ork_tier_sizes {
    uint64_t data_bytes, scale_bytes, table_bytes;
};
bool ork_tier_sizes(enum ork_tier tier, uint64_t n, uint64_t k, struct ork_tier_sizes *sizes); /* false: overflow */
/* Fills layout and planes (sizes and expert strides; offsets stay 0) of a tensor whose name, tier and dimensions are set.
 * The data plane's expert stride is rounded up to ORK_ORKPACK_ALIGNMENT, the scale plane's is dense. */
bool ork_tier_plan_planes(struct ork_orkpack_tensor *tensor);

/* Encoding of one matrix. rows: [n][k] floats; importance: [k] weights E[x^2] or NULL (all ones); out planes of the sizes
 * above, data zeroed by the callee where padded. Scales of 4 to 6-bit tiers minimise the weighted squared error over a
 * search and a least-squares refit, i8 and g8 use the absolute maximum. table: for nf4 and n8 the 16 entries to use (input).
 * squared_error and squared_norm (may be NULL) receive sums over the matrix. */
void ork_tier_encode(enum ork_tier tier, const float *rows, uint32_t n, uint32_t k, const float *importance,
                     const int8_t *table, uint8_t *data, uint8_t *scales, double *squared_error, double *squared_norm);
/* The default nf4 table: ascending int8 entries, one of them 0. Source of the levels stands in tier_nf4.c. */
extern const int8_t ork_nf4_table[16];

/* A stored matrix or stack of experts, ready for kernels: views into the pack's planes. */
struct ork_matrix {
    enum ork_tier tier;
    enum ork_layout layout;
    uint32_t n, k, experts;
    const uint8_t *data;
    uint64_t data_expert_stride;  /* bytes */
    const uint8_t *scales;        /* brick tiers: f32 [n padded to the brick]; g8: f16 [n][k/32]; else NULL */
    uint64_t scale_expert_stride; /* bytes */
    const int8_t *table;          /* nf4, n8: 16 entries; else NULL */
    const char *name;
};

/* Checks tier, layout, dimensions and plane sizes against each other and fills *matrix. */
ork_status ork_matrix_from_pack(const ork_orkpack *pack, const struct ork_orkpack_tensor *tensor,
                                struct ork_matrix *matrix, ork_error *error);
/* Decodes channel `channel` of one expert to k floats (embedding look-up, tests, verify). */
void ork_matrix_decode_row(const struct ork_matrix *matrix, uint32_t expert, uint32_t channel, float *out);

#endif
