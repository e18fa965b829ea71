/* Register programs of matmul tasks: which registers a task needs and what stands in them. Knows no devices, no memory and
 * no tiling; writes words into the caller's buffer.
 *
 * A task computes C[m][n] = sum over k of A[m][k] * B[n][k] exactly: int8 x int8 -> int32, or int4 x int4 -> int16, which
 * saturates (facts: npu-hw.md 4.2, 4.3, 7.2). Every program is complete: it writes each register that it depends on, for
 * registers live in two groups that alternate between tasks. */
#ifndef ORK_ENGINE_NPU_PROGRAM_H
#define ORK_ENGINE_NPU_PROGRAM_H

#include "ork/ork.h"

enum ork_npu_type {
    ORK_NPU_W8A8 = 0, /* int8 x int8 -> int32 */
    ORK_NPU_W4A4 = 1  /* int4 x int4 -> int16, saturating */
};
enum { ORK_NPU_TYPE_COUNT = 2 };

/* Order of the input or output surface of a task; index formulas in layout.h. */
enum ork_npu_surface {
    ORK_NPU_NATIVE = 0, /* atoms of 16 bytes, rows side by side: A [k/16][m][16], C [n/4][m][4] for W8A8 */
    ORK_NPU_ROWS = 1    /* plain rows: A [m][k], C [m][n]; C only for W8A8 */
};

/* One task. k is a multiple of 32; n a multiple of 32 (W8A8) or 64 (W4A4). */
struct ork_npu_shape {
    enum ork_npu_type type;
    enum ork_npu_surface input, output;
    uint32_t m, k, n;
};

/* Addresses in the IOMMU domain of the submit, multiples of 16. */
struct ork_npu_addresses {
    uint32_t a, b, c;
};

/* Room for one program, words of 64 bits; programs start at multiples of this many words (a multiple of 64 bytes). */
#define ORK_NPU_PROGRAM_SLOT_WORDS 128u
/* Words of a slot behind which the hardware may still fetch: keep so many readable words after the last program. */
#define ORK_NPU_PROGRAM_SLACK_WORDS 16u

/* Every program of a type has the same number of words, and addresses and links stand at the same places. */
uint32_t ork_npu_program_words(enum ork_npu_type type);

/* Writes a program of one task with no successor. words: [ORK_NPU_PROGRAM_SLOT_WORDS], the rest of the slot is zeroed.
 * Refuses shapes out of the limits of limits.h and values that do not fit their field, naming it. */
ork_status ork_npu_program_write(const struct ork_npu_shape *shape, const struct ork_npu_addresses *addresses,
                                 uint64_t *words, ork_error *error);
/* Changes the addresses of a written program in place. */
void ork_npu_program_set_addresses(enum ork_npu_type type, const struct ork_npu_addresses *addresses, uint64_t *words);
/* Links a written program to its successor at next_iova (a multiple of 16) of type next_type; next_iova 0 with last true:
 * no successor. */
void ork_npu_program_set_next(enum ork_npu_type type, bool last, uint32_t next_iova, enum ork_npu_type next_type,
                              uint64_t *words);
/* Inverse of the above for checks before a submit: addresses of a program. */
void ork_npu_program_get_addresses(enum ork_npu_type type, const uint64_t *words, struct ork_npu_addresses *addresses);

#endif
