/* Choice of the scale of one row over a set of 16 to 64 levels. Inside the room quant. */
#ifndef ORK_QUANT_SCALE_SEARCH_H
#define ORK_QUANT_SCALE_SEARCH_H

#include "quant/tier.h"

/* Rows whose largest magnitude is below this are stored as zero, so that reciprocals of scales stay finite. */
#define ORK_ZERO_ROW_LIMIT 0x1p-100f

#define ORK_LEVELS_MAX 64u

/* The levels of a 4 to 6-bit tier in code units, ascending; [1] is the mirror image, for negative scales. */
struct ork_code_set {
    float level[2][ORK_LEVELS_MAX];
    float threshold[2][ORK_LEVELS_MAX - 1]; /* halfway between neighbours */
    int32_t gap[2][ORK_LEVELS_MAX - 1];
    uint32_t count;     /* of levels: 16, 32 or 64 */
    uint32_t signs;     /* 1 when mirroring changes nothing */
    uint8_t zero_index; /* of the level that is 0 */
    bool uniform;       /* levels are all integers of a range, stored as two's complement; otherwise as indices */
};

/* What one assignment of a row gives; scale is positive, sign 1 means that it is stored negated. */
struct ork_scale_choice {
    float scale;
    uint32_t sign;
    double error; /* weighted, in squared weight units */
};

/* Round to nearest even; |x| < 2^22. */
static inline float ork_round_even(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/* tier: i4, i5, i6, or nf4 with its 16 ascending entries, of which one is 0, the first negative and the last positive. */
void ork_code_set_make(enum ork_tier tier, const int8_t *table, struct ork_code_set *set);
float ork_row_absolute_maximum(const float *row, uint32_t count);
/* The scale with the least weighted squared error, as far as the search goes; never worse than the one that maps the
 * absolute maximum to the outermost level. importance: [k] or NULL. A zero row gives scale 0. */
struct ork_scale_choice ork_scale_choose(const struct ork_code_set *set, const float *row, const float *importance,
                                         uint32_t k);

typedef struct ork_scale_choice (*ork_scale_chooser)(const struct ork_code_set *set, const float *row,
                                                     const float *importance, uint32_t k);
/* ork_nf4_fit_table (nf4.h) with the scales that `choose` gives. */
double ork_code_table_fit(ork_scale_chooser choose, const float *rows, uint32_t n, uint32_t k, const float *importance,
                          int8_t *table);

#endif
