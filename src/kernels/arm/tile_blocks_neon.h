/* The activation blocks that a register tile meets in a run of inflated bricks, and what becomes of its sums where one
 * ends. Included by register tiles, for whose BRICK_ROWS panel_group.h is made. */
#ifndef ORK_KERNELS_ARM_TILE_BLOCKS_NEON_H
#define ORK_KERNELS_ARM_TILE_BLOCKS_NEON_H

#include <arm_neon.h>

#include "kernels/panel_group.h"

/* Bricks t..stop-1 of a column, all of one activation block. */
struct tile_block {
    uint32_t t, stop, block;
    bool begins, ends; /* the block, here */
};

static inline void tile_block_cut(const struct panel_group *group, struct tile_block *b)
{
    uint32_t end = (b->block + 1) * group->block_bricks;
    end = end < group->column_bricks ? end : group->column_bricks;
    b->stop = end < group->end ? end : group->end;
    b->ends = b->stop == end;
}

static inline struct tile_block tile_block_first(const struct panel_group *group)
{
    struct tile_block b = {.t = group->begin, .block = group->begin / group->block_bricks};
    b.begins = b.t == b.block * group->block_bricks;
    tile_block_cut(group, &b);
    return b;
}

static inline void tile_block_next(const struct panel_group *group, struct tile_block *b)
{
    b->t = b->stop;
    b->block++;
    b->begins = true;
    tile_block_cut(group, b);
}

/* Sums of at most eight bricks, 256 * 128 * 127 < 2^22, start at the bits of the float 1.5 * 2^23. They then are the bits
 * of that float plus the sum, which a subtraction makes the sum: a conversion would hold one of a Cortex-A76's two vector
 * units for two cycles. */
#define SHORT_BRICKS 8
#define SHORT_BASE 0x4B400000
#define SHORT_BASE_FLOAT 0x1.8p23f

/* Of the group and a block, what its end needs: copies, which stores through `y` cannot change. */
struct tile_end {
    bool is_short;  /* a whole block of at most SHORT_BRICKS */
    int32x4_t base; /* what sums start at */
    float *y;
    int32_t *acc;
    float scales[BRICK_ROWS];
    int32_t starts[BRICK_ROWS];
};

static inline __attribute__((always_inline)) struct tile_end tile_end_of(const struct panel_group *group,
                                                                         const struct tile_block *b, const int rows)
{
    struct tile_end end = {.y = group->y, .acc = group->acc};
    end.is_short = b->begins && b->ends && b->stop - b->t <= SHORT_BRICKS;
    end.base = vdupq_n_s32(end.is_short ? SHORT_BASE : 0);
    for (int i = 0; i < rows; i++) {
        end.scales[i] = group->scales[i][b->block];
        end.starts[i] = -BRICK_BIAS * group->sums[i][b->block];
    }
    return end;
}

/* Sums of row i and channels c..c+3 of bricks t..stop-1: into the result where the block ends, else to those that wait.
 * whole: the block begins and ends here and is short. */
static inline __attribute__((always_inline)) void tile_finish(const struct tile_end *end, const struct tile_block *b,
                                                              int i, uint32_t c, int32x4_t sums, const bool whole)
{
    float *y = end->y + i * BRICK_CHANNELS + c;
    int32_t *acc = end->acc + i * BRICK_CHANNELS + c;
    if (!whole && !b->begins)
        sums = vaddq_s32(sums, vld1q_s32(acc));
    else if (BRICK_BIAS != 0)
        sums = vaddq_s32(sums, vdupq_n_s32(end->starts[i]));
    if (whole) {
        const float32x4_t exact = vsubq_f32(vreinterpretq_f32_s32(sums), vdupq_n_f32(SHORT_BASE_FLOAT));
        vst1q_f32(y, vfmaq_n_f32(vld1q_f32(y), exact, end->scales[i]));
    } else if (b->ends) {
        vst1q_f32(y, vfmaq_n_f32(vld1q_f32(y), vcvtq_f32_s32(sums), end->scales[i]));
    } else {
        vst1q_s32(acc, sums);
    }
}

#endif
