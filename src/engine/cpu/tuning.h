/* Numbers of the CPU engine that could be tuned, with what chose them. */
#ifndef ORK_ENGINE_CPU_TUNING_H
#define ORK_ENGINE_CPU_TUNING_H

/* Inputs that share an activation scale: the perplexity of blocks of 32 at the speed of blocks of 128. docs/quality.md,
 * "Activation blocks". */
#define ORK_CPU_ACTIVATION_BLOCK 64u
/* Pieces of work a thread gets of each group when several rows are computed: enough to even out what other programs take
 * from one core, few enough that a piece is several bricks. */
#define ORK_CPU_PIECES_PER_THREAD 4u
/* Queries of an attention tile (at most ORK_ATTEND_ROWS): they share the conversion of a block of keys and values. 96 are
 * not faster. docs/performance.md, "Attention". */
#define ORK_CPU_ATTEND_TILE 48u
/* Parts of the positions that are worked on apart and then merged when one row is computed, at most so many and not below
 * so many positions each. These two are part of the numerics. */
#define ORK_CPU_ATTEND_PARTS 16u
#define ORK_CPU_ATTEND_PART 256u

#endif
