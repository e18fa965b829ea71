/* Reading hyperparameters and tensors of a pack by name, with the shapes that the architecture implies. Errors stick: after
 * the first one every further read returns an empty value, so that a loader reads as a list of tensors. */
#ifndef ORK_MODEL_LOADER_H
#define ORK_MODEL_LOADER_H

#include "model/model.h"

struct ork_loader {
    struct ork_model *model;
    const ork_meta *meta;
    const char *architecture; /* prefix of its keys */
    bool *used;               /* [tensors of the pack] */
    bool base_alone;          /* n8 matrices become their nf4 bases */
    ork_status status;
    ork_error *error;
};

/* Value of "<architecture>.<key>"; `value` when it is absent. */
uint32_t ork_load_u32(struct ork_loader *loader, const char *key, uint32_t value);
float ork_load_f32(struct ork_loader *loader, const char *key, float value);
uint32_t ork_load_required_u32(struct ork_loader *loader, const char *key);
float ork_load_required_f32(struct ork_loader *loader, const char *key);
/* One value for all layers or an array of them; `value` when absent and not required. */
void ork_load_u32_layers(struct ork_loader *loader, const char *key, bool required, uint32_t value, uint32_t *values);
/* Fails with ORK_BAD_FILE unless condition; the message names the model's path. */
void ork_load_check(struct ork_loader *loader, bool condition, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool ork_load_has(const struct ork_loader *loader, const char *name_format, ...) __attribute__((format(printf, 2, 3)));
/* n x k matrix. */
struct ork_matrix ork_load_matrix(struct ork_loader *loader, uint32_t n, uint32_t k, const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
/* Stack of `experts` n x k matrices. */
struct ork_matrix ork_load_experts(struct ork_loader *loader, uint32_t n, uint32_t k, uint32_t experts,
                                   const char *name_format, ...) __attribute__((format(printf, 5, 6)));
/* n*k floats, row-major. */
const float *ork_load_floats(struct ork_loader *loader, uint32_t n, uint32_t k, const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
/* As ork_load_floats with n = 1, NULL without error when the tensor is absent. */
const float *ork_load_optional_vector(struct ork_loader *loader, uint32_t k, const char *name_format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the architectures share: layer count, widths, attention, RoPE. */
void ork_load_common(struct ork_loader *loader);
void ork_load_expert_keys(struct ork_loader *loader);
/* token_embd, output (or tied), rope_freqs; output_norm_name differs between families. */
void ork_load_ends(struct ork_loader *loader, const char *output_norm_name);
void ork_load_attention(struct ork_loader *loader, uint32_t i, bool head_norms);
void ork_load_short_conv(struct ork_loader *loader, uint32_t i);
void ork_load_dense(struct ork_loader *loader, uint32_t i);
void ork_load_moe(struct ork_loader *loader, uint32_t i, bool selection_bias);

#endif
