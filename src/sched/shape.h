/* Shapes of models for the simulator: a small JSON file (shapes/NAME.json, called by name when built in) and the op groups
 * that follow from it. Owns that file format; knows no speeds, no boards and no weights. */
#ifndef ORK_SCHED_SHAPE_H
#define ORK_SCHED_SHAPE_H

#include "ork/ork.h"
#include "quant/tier.h"

#define ORK_SHAPE_LAYERS_MAX 256u
#define ORK_SHAPE_MEMBERS_MAX 6u

/* What weights are for; tiers are chosen by it. */
enum ork_shape_role {
    ORK_SHAPE_MIXER = 0, /* attention, convolution and delta net projections */
    ORK_SHAPE_DENSE = 1,
    ORK_SHAPE_EXPERT = 2,
    ORK_SHAPE_SHARED = 3,
    ORK_SHAPE_HEAD = 4,
    ORK_SHAPE_ROUTER = 5, /* always f32 */
    ORK_SHAPE_ROLE_COUNT = 6
};

enum ork_shape_mixer { ORK_SHAPE_ATTENTION, ORK_SHAPE_CONVOLUTION, ORK_SHAPE_DELTA };

struct ork_shape {
    char name[64];
    uint32_t layers, width, vocabulary, context_max;
    uint8_t mixer[ORK_SHAPE_LAYERS_MAX]; /* enum ork_shape_mixer of each layer */
    uint32_t heads, heads_kv, head_width;
    bool gated; /* a gate as wide as the queries */
    uint32_t convolution_length;
    uint32_t delta_key_heads, delta_value_heads, delta_head_width, delta_length;
    uint32_t dense_layers, dense_width;
    uint32_t experts, experts_used, expert_width, shared_width; /* experts 0: all layers are dense */
    enum ork_tier tier[ORK_SHAPE_ROLE_COUNT];                   /* by the default policy of ork pack */
    double gguf_bits_layers, gguf_bits_head;                    /* of a weight in the GGUF that others measured */
};

/* Reads a shape file or, when `name` is that of a built-in one, that one. ORK_NOT_FOUND names what is built in. Refuses
 * unknown keys, impossible figures and models too large for 64-bit sums, with the key. */
ork_status ork_shape_read(const char *name, struct ork_shape *shape, ork_error *error);
ork_status ork_shape_parse(const void *text, uint64_t size_bytes, const char *where, struct ork_shape *shape,
                           ork_error *error);
/* NULL-terminated. */
const char *const *ork_shape_names(void);

/* Parts of a layer in their order; each is one join. */
enum ork_shape_part {
    ORK_SHAPE_INPUT,  /* projections that read the layer's input */
    ORK_SHAPE_CORE,   /* attention over the context, convolution, recurrence: no weight matrices */
    ORK_SHAPE_OUTPUT, /* projection into the residual stream */
    ORK_SHAPE_ROUTE,
    ORK_SHAPE_UP,   /* gate and up, of all chosen experts and of the shared one */
    ORK_SHAPE_DOWN, /* into the residual stream */
    ORK_SHAPE_LAST, /* output head, after all layers */
    ORK_SHAPE_PART_COUNT
};

/* A matrix, or one of each expert. */
struct ork_shape_member {
    const char *name;
    enum ork_shape_role role;
    uint32_t k, n;
    uint32_t count; /* matrices that one token reads: experts_used for an expert's, else 1 */
};

struct ork_shape_group {
    enum ork_shape_part part;
    uint32_t layer;
    uint32_t member_count; /* 0: the part has no matrices */
    struct ork_shape_member members[ORK_SHAPE_MEMBERS_MAX];
};

/* Group of a layer (part < ORK_SHAPE_LAST), or of the head (layer ignored). */
void ork_shape_group(const struct ork_shape *shape, uint32_t layer, enum ork_shape_part part,
                     struct ork_shape_group *group);
/* Bytes of all planes of a matrix in a tier: codes, padded to bricks, and scales. */
uint64_t ork_shape_matrix_bytes(enum ork_tier tier, uint32_t n, uint32_t k);
/* Keys and values of one position in f16, all layers; states of a sequence in f32. */
uint64_t ork_shape_kv_bytes(const struct ork_shape *shape);
uint64_t ork_shape_state_bytes(const struct ork_shape *shape);
/* All weights in the tiers of the default policy. */
uint64_t ork_shape_weight_bytes(const struct ork_shape *shape);

#endif
