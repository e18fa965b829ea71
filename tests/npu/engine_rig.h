/* A small model and its activations for tests of the NPU engine: random matrices in every tier, groups of tasks, results of
 * the kernel table to compare with. */
#ifndef ORK_TESTS_ENGINE_RIG_H
#define ORK_TESTS_ENGINE_RIG_H

#include "engine/npu/engine.h"

#include <stdint.h>

#define RIG_MATRICES_MAX 64u
#define RIG_GROUP_MAX 64u

struct rig_model {
    struct ork_matrix matrices[RIG_MATRICES_MAX];
    struct ork_npu_weight weights[RIG_MATRICES_MAX];
    uint32_t count;
    uint64_t random;
};

/* One batch of tasks with inputs, room for results, and the right results. */
struct rig_group {
    struct ork_offload_task tasks[RIG_GROUP_MAX];
    struct ork_activation inputs[RIG_GROUP_MAX];
    float *right[RIG_GROUP_MAX];
    uint32_t count;
};

/* What became of the tasks of a group. */
struct rig_tally {
    uint64_t offered, taken, done, wrong; /* wrong: said done and is not bitwise right, or wrote beside its place */
};

uint32_t rig_random(uint64_t *state, uint32_t limit); /* 0..limit - 1 */
const struct ork_kernels *rig_kernels(void);

/* Adds a matrix of random values (stack of experts); its planes begin on pages. */
const struct ork_matrix *rig_add(struct rig_model *model, enum ork_tier tier, uint32_t n, uint32_t k, uint32_t experts,
                                 uint32_t layer);
void rig_model_free(struct rig_model *model);

/* Random rows and their codes, one scale a row. */
void rig_input(struct ork_activation *x, uint32_t rows, uint32_t k, uint64_t *random);
void rig_input_free(struct ork_activation *x);
/* Adds a task of m rows; gathered: of random rows of a taller input. */
void rig_task(struct rig_group *group, const struct ork_matrix *w, uint32_t expert, uint32_t m, bool gathered,
              uint64_t *random);
/* Begins and finishes the group, compares what is said to be done, and computes the rest on the CPU; afterwards every
 * result is compared. */
void rig_run(struct rig_group *group, const struct ork_offload *offload, struct rig_tally *tally);
void rig_group_free(struct rig_group *group);

/* Skips a test under the thread sanitizer: the vendor driver's outputs are watched while the hardware writes them. Where a
 * thread plays the hardware, that is a data race, as it is by design. */
void rig_leave_out_watching(void);

/* Opens the software device; faults may be NULL. Asserts. */
ork_npu *rig_open_npu(const char *faults);
ork_npu_stats rig_stats(const ork_npu *npu);

#endif
