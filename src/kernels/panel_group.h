/* What the shared part of brick matmuls asks of a register tile. Included after BRICK_ROWS and BRICK_CHANNELS are
 * known. */
#ifndef ORK_KERNELS_PANEL_GROUP_H
#define ORK_KERNELS_PANEL_GROUP_H

#include <stdint.h>

/* A run of inflated bricks that may reach over several activation blocks. For each row i and each block: sum = -BRICK_BIAS *
 * sums[i][block] where the block begins here, else acc[i], plus the panel times x[i]; then y[i] = fmaf((float)sum,
 * scales[i][block], y[i]) where the block ends here, else acc[i] = sum. */
struct panel_group {
    const uint8_t *panel;
    uint32_t rows;                       /* <= BRICK_ROWS */
    uint32_t begin, end;                 /* places of the bricks in their column */
    uint32_t block_bricks, column_bricks;
    int32_t *acc;                        /* [rows][BRICK_CHANNELS], 64-byte aligned */
    float *y;                            /* [rows][BRICK_CHANNELS], 64-byte aligned */
    const int8_t *const *x;              /* [rows]: activations from the column's beginning */
    const int32_t *const *sums;          /* [rows]: of every block */
    const float *const *scales;          /* [rows]: of every block */
};

#endif
