/* Numbers of the room model that could be tuned, with what chose them. */
#ifndef ORK_MODEL_TUNING_H
#define ORK_MODEL_TUNING_H

/* Rows of a batch after each of which recurrent state can be restored; of a larger batch only the state after its last row
 * is there. A draft and the token before it fit. Memory: as many floats a row as a layer is wide, for each layer with such
 * state (LFM2-8B-A1B: 5 MB). */
#define ORK_STATE_ROWS 32u

/* Tokens of a draft, unless the caller says otherwise, and lengths of runs of last tokens whose places are indexed. Chosen,
 * as what follows, by replaying seven texts (bench_lookup, built anew for each number): 31 tokens give no more than 24, 8 give
 * 5 % less; runs of up to 6 tokens 1 % less, runs of one token or none of two nothing. docs/performance.md, "Drafts". */
#define ORK_LOOKUP_DRAFT 24u
#define ORK_LOOKUP_MATCH_FROM 2u
#define ORK_LOOKUP_MATCH_TO 8u
/* Time of a pass of 1 + d rows, in passes of one row: 1 + PASS + ROW * d, and what further experts add. Measured: 1.3 to 1.6
 * for two rows, 1.8 to 3.0 for eight, 2.5 to 4.9 for sixteen, experts included. */
#define ORK_LOOKUP_COST_PASS 0.30
#define ORK_LOOKUP_COST_ROW 0.17
/* Tokens a pass must be expected to give for its time, against plain decoding. */
#define ORK_LOOKUP_GAIN 1.05
/* What came of earlier guesses: each counts so much of the next one, and to begin with there are so many, of which this part
 * was right, by class of match. A memory of 0.95 gives 2 % less. The parts make no difference in long texts; these keep
 * sampled ones of some hundred tokens from trying each class once. */
#define ORK_LOOKUP_MEMORY 0.98
#define ORK_LOOKUP_PRIOR 2.0
#define ORK_LOOKUP_PRIOR_RIGHT {0.2, 0.4, 0.5, 0.6, 0.7, 0.8}

#endif
