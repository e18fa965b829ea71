/* What the shared part of brick matmuls asks of a register tile. Included after BRICK_ROWS and BRICK_CHANNELS are
 * known. */
#ifndef ORK_KERNELS_PANEL_JOB_H
#define ORK_KERNELS_PANEL_JOB_H

#include <stdbool.h>
#include <stdint.h>

/* For each row i: sum = begins ? starts[i] : acc[i], plus the panel times x[i]; then y[i] = fmaf((float)sum, scales[i],
 * y[i]) when the activation block ends here, else acc[i] = sum. */
struct panel_job {
    const uint8_t *panel;
    uint32_t bricks, rows; /* rows <= BRICK_ROWS */
    bool begins, ends;     /* an activation block */
    int32_t *acc;          /* [rows][BRICK_CHANNELS], 64-byte aligned */
    float *y;              /* [rows][BRICK_CHANNELS], 64-byte aligned */
    const int8_t *x[BRICK_ROWS];
    int32_t starts[BRICK_ROWS];
    float scales[BRICK_ROWS];
};

#endif
