/* Shapes of models for the simulator: a small JSON file (shapes/NAME.json, called by name when built in) and the op groups
 * that follow from it. Owns that file format; knows no speeds, no boards and no weights. */
#ifndef ORK_SCHED_SHAPE_H
#define ORK_SCHED_SHAPE_H

#include "ork/ork.h"
#include "sched/groups.h"

#define ORK_SHAPE_LAYERS_MAX 256u

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

/* The op groups of a shape, unmeasured. nested: what is sensitive and i8 by the file (projections, dense and shared feed
 * forward) is n8, so that the CPU may read base planes alone. Freed with ork_model_shape_free. */
ork_status ork_shape_model(const struct ork_shape *shape, bool nested, struct ork_model_shape *model, ork_error *error);

#endif
