/* Numbers of the CPU engine that could be tuned, with what chose them. */
#ifndef ORK_ENGINE_CPU_TUNING_H
#define ORK_ENGINE_CPU_TUNING_H

/* Inputs that share an activation scale. docs/quality.md, "activation blocks". */
#define ORK_CPU_ACTIVATION_BLOCK 128u
/* Pieces of work a thread gets of each group when several rows are computed: enough to even out what other programs take
 * from one core, few enough that a piece is several bricks. */
#define ORK_CPU_PIECES_PER_THREAD 4u

#endif
