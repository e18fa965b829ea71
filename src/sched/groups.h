/* Op groups as data: what a layer's matmuls read, without weights. Owns sizes and sums; knows no speeds and no files.
 *
 * An op group is ops that share an input and join at one point. A member is one matrix, or a stack of experts of which a
 * token reads some. */
#ifndef ORK_SCHED_GROUPS_H
#define ORK_SCHED_GROUPS_H

#include "quant/tier.h"

enum ork_group_kind {
    ORK_GROUP_ATTENTION_IN = 0, /* q, k, v (gate): read the layer's input */
    ORK_GROUP_ATTENTION_OUT,    /* into the residual stream */
    ORK_GROUP_CONVOLUTION_IN,
    ORK_GROUP_CONVOLUTION_OUT,
    ORK_GROUP_DELTA_IN, /* projections of a gated delta net */
    ORK_GROUP_DELTA_OUT,
    ORK_GROUP_DENSE_UP, /* gate and up */
    ORK_GROUP_DENSE_DOWN,
    ORK_GROUP_ROUTER,
    ORK_GROUP_EXPERT_UP, /* gate and up of the chosen experts, and of a shared expert */
    ORK_GROUP_EXPERT_DOWN,
    ORK_GROUP_HEAD,
    ORK_GROUP_KIND_COUNT
};
/* "attention in". */
const char *ork_group_kind_name(enum ork_group_kind kind);

#define ORK_GROUP_MEMBERS_MAX 8u

/* A matrix's channels, those that lack most without the NPU first, cut into so many parts: a chain may have the first ones
 * alone. */
enum { ORK_GROUP_PARTS = 16 };

struct ork_group_member {
    char name[32];                  /* "q", "gate", "shared up" */
    uint32_t n, k;                  /* of one matrix */
    uint32_t experts, experts_used; /* of a stack; a plain matrix: 1 and 1 */
    enum ork_tier tier;
    uint64_t bytes;      /* one matrix, all planes that are its own: codes and scales, without a table */
    uint64_t base_bytes; /* n8: base plane and scales; else as bytes */
    float sensitivity;   /* of the pack; 0: not measured */
    bool residual;       /* its result is added to the residual stream */
    float part_share[ORK_GROUP_PARTS]; /* of what all channels lack, by the parts' channels; sum 1. Even where the channels
                                          are not known (model/channels.h) */
};

struct ork_group {
    enum ork_group_kind kind;
    uint32_t layer; /* the head: count of layers */
    uint32_t member_count;
    struct ork_group_member members[ORK_GROUP_MEMBERS_MAX];
};

/* What a layer keeps of the tokens. */
struct ork_layer_cost {
    uint64_t kv_bytes;    /* keys and values of one position */
    uint64_t state_bytes; /* of a sequence: convolution or recurrence, read and written by each token */
    uint64_t kv_macs;     /* multiply-adds of a token for each position that it attends to */
    uint64_t state_macs;  /* of a token for its state */
};

struct ork_model_shape {
    char name[64];
    uint32_t width, vocabulary, layer_count;
    size_t group_count;
    struct ork_group *groups;      /* in the order of a pass */
    struct ork_layer_cost *layers; /* [layer_count] */
    uint64_t embedding_bytes;      /* that one token reads of the embedding */
    uint64_t vector_bytes;         /* norms, biases and convolutions, which every token reads and no group has */
};
void ork_model_shape_free(struct ork_model_shape *shape); /* the arrays; shape itself is the caller's */

/* Adds a member; false when the group is full or the sizes overflow. experts 0 means a plain matrix. */
bool ork_group_add(struct ork_group *group, const char *name, enum ork_tier tier, uint32_t n, uint32_t k,
                   uint32_t experts, uint32_t experts_used, float sensitivity, bool residual);

/* Experts of `experts` that `rows` tokens choose at least once, `used` of them each: experts * (1 - (1 - used / experts)^rows),
 * the expectation if every expert is chosen alike and tokens choose independently. Real routers are uneven, so this is the
 * largest expectation there is for a given `used`. */
double ork_group_distinct(uint32_t experts, uint32_t used, double rows);

/* Bytes of weights that a pass of `rows` tokens reads once. base: of n8 members the base plane alone. */
double ork_group_bytes(const struct ork_group *group, double rows, bool base);
/* Multiply-adds of a pass. */
double ork_group_macs(const struct ork_group *group, double rows);
/* Exact, for one token. */
uint64_t ork_group_token_bytes(const struct ork_group *group, bool base);
/* Of all groups, the embedding and the vectors: what a card calls bytes_per_token, less planes that experts share. */
uint64_t ork_model_shape_token_bytes(const struct ork_model_shape *shape, bool base);
/* All matrices of all groups, all experts. */
uint64_t ork_model_shape_weight_bytes(const struct ork_model_shape *shape);
uint64_t ork_model_shape_kv_bytes(const struct ork_model_shape *shape);    /* of one position, all layers */
uint64_t ork_model_shape_state_bytes(const struct ork_model_shape *shape); /* of a sequence, all layers */
/* int8 bricks of a matrix, of one expert of a stack. */
uint64_t ork_group_brick_bytes(const struct ork_group_member *member);
/* Channels and int8 bytes of the first `parts` parts of one matrix. Channels: a multiple of 32 but for the last part's, so
 * parts of small matrices may have none. Bytes: of whole bricks of 32 x 32. */
uint32_t ork_group_part_channels(const struct ork_group_member *member, uint32_t parts);
uint64_t ork_group_part_bytes(const struct ork_group_member *member, uint32_t parts);

#endif
