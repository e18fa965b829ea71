/* Inside of the room pack: the plan of a pack (which tensor in which tier, with which importance) and the importance
 * matrix. Knows GGUF names and roles; the bytes are written by format, the arithmetic is quant's. */
#ifndef ORK_PACK_PACK_H
#define ORK_PACK_PACK_H

#include "base/arena.h"
#include "base/pool.h"
#include "format/gguf.h"
#include "format/orkpack.h"

/* ---- importance ---- */

typedef struct ork_imatrix ork_imatrix;

/* Reads llama.cpp's importance matrix in its GGUF form or the older .dat form, told apart by the magic. */
ork_status ork_imatrix_open(const char *path, ork_imatrix **imatrix, ork_error *error);
void ork_imatrix_close(ork_imatrix *imatrix);
size_t ork_imatrix_entry_count(const ork_imatrix *imatrix);
/* XXH3-64 of the file. */
uint64_t ork_imatrix_hash(const ork_imatrix *imatrix);
/* Fills out[experts][k] with E[x^2] per input of weight `name`, each expert scaled to mean 1. Experts that the
 * calibration never reached get all ones and are counted; all of them when the matrix has no entry at all. An entry of
 * another length, or with a negative or non-finite value, is ORK_BAD_FILE naming the tensor. */
ork_status ork_imatrix_fill(const ork_imatrix *imatrix, const char *name, uint64_t k, uint64_t experts, float *out,
                            uint64_t *neutral_count, ork_error *error);

/* ---- plan ---- */

struct ork_pack_plan {
    struct ork_arena arena;
    size_t count;                           /* tensors that are packed, in source order */
    const struct ork_gguf_tensor **sources; /* [count] */
    struct ork_orkpack_tensor *tensors;     /* [count], planes sized, offsets 0 */
    size_t skipped_count, unmatched_rule_count;
    struct ork_buffer metadata;
    uint64_t metadata_count;
    uint64_t source_bytes; /* of the packed tensors */
    uint64_t hash;         /* of source and plan, see ork_orkpack_writer_create */
};

/* Decides everything that can be decided before reading weights, and refuses what cannot be packed: an unsupported
 * architecture, a source type that has no decoder, an unknown tier name, a bad regex, a tier that a tensor cannot take.
 * imatrix may be NULL. The plan is freed in every case with ork_pack_plan_free(). */
ork_status ork_pack_plan_create(const ork_gguf *gguf, const ork_pack_params *params, const ork_imatrix *imatrix,
                                struct ork_pack_plan *plan, ork_error *error);
void ork_pack_plan_free(struct ork_pack_plan *plan);

/* ---- rules ---- */

struct ork_tier_rules;

/* Parses the default tier and the "REGEX=TIER[:SENSITIVITY]" rules of the parameters, whose strings must outlive the
 * result. */
ork_status ork_tier_rules_parse(const ork_pack_params *params, struct ork_tier_rules **rules, ork_error *error);
void ork_tier_rules_free(struct ork_tier_rules *rules);
/* Tier of a tensor: the last rule that matches its name, else the defaults by role. *sensitivity is the rule's, 0: none. */
ork_status ork_tier_rules_choose(struct ork_tier_rules *rules, const struct ork_gguf_tensor *tensor, uint32_t *tier,
                                 float *sensitivity, ork_error *error);
size_t ork_tier_rules_unmatched_count(const struct ork_tier_rules *rules);

#endif
