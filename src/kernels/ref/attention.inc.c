/* Attention of a tile of queries over a range of cached positions, written once over v16 and compiled once per instruction
 * set (see vector_ops.inc.c, which includes this file). Knows one kv head at a time; no threads, no cache management.
 *
 * The lanes of scores are positions, so that no score needs a sum over lanes; the lanes of results are channels. Both
 * products keep a tile of rows by ATTEND_VECTORS(rows) vectors in registers. Whatever the tile, each element has the
 * operations of the contract in its order. */

/* Rows of one register tile, and the vectors beside them: sums, loaded vectors and a broadcast fit the registers. */
#if defined(ORK_VECTOR_AVX512)
#define ATTEND_GROUP 6u
#define ATTEND_VECTORS(rows) 4u
#elif defined(ORK_VECTOR_AVX2) || defined(ORK_VECTOR_NEON)
#define ATTEND_GROUP 6u
#define ATTEND_VECTORS(rows) ((rows) == 1 ? 4u : (rows) <= 3 ? 2u : 1u)
#else
#define ATTEND_GROUP 2u
#define ATTEND_VECTORS(rows) 1u
#endif

/* One block of positions as the loops below want it: types and strides resolved. */
struct ORK_KERNEL(attend_block) {
    const struct ork_attend *tile;
    const void *keys, *values; /* of the block's first position */
    bool keys_f32, values_f32;
    uint64_t value_stride; /* elements */
    uint32_t padded;       /* channels of a state row: head size in whole vectors */
    float *states;
    uint64_t state_stride;
};

/* Halves are read from the cache by few rows, often from memory; floats mostly are a block that was just converted. */

/* scores[row][16 v + lane] = scale * dot of query `row` and the key at that place, for `vectors` runs of 16 keys. */
#define ATTEND_SCORES(name, type, load, prefetch)                                                                      \
    V16_INLINE void ORK_KERNEL(name)(float *scores, const float *const *q, const type *keys, uint32_t head_size,       \
                                     float scale, const uint32_t rows, const uint32_t vectors)                         \
    {                                                                                                                  \
        v16 sum[ATTEND_GROUP][4];                                                                                      \
        for (uint32_t r = 0; r < rows; r++)                                                                            \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                sum[r][v] = v16_zero();                                                                                \
        for (uint32_t i = 0; i < head_size; i++) {                                                                     \
            v16 key[4];                                                                                                \
            for (uint32_t v = 0; v < vectors; v += 2) /* the next keys, line by line */                                \
                prefetch(keys + ((uint64_t)(head_size + i) * vectors + v) * 16);                                       \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                key[v] = load(keys + ((uint64_t)v * head_size + i) * 16);                                              \
            for (uint32_t r = 0; r < rows; r++) {                                                                      \
                v16 input = v16_set1(q[r][i]);                                                                         \
                for (uint32_t v = 0; v < vectors; v++)                                                                 \
                    sum[r][v] = v16_fma(key[v], input, sum[r][v]);                                                     \
            }                                                                                                          \
        }                                                                                                              \
        for (uint32_t r = 0; r < rows; r++)                                                                            \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                v16_store(scores + r * ORK_ATTEND_BLOCK + v * 16, v16_multiply(sum[r][v], v16_set1(scale)));           \
    }
ATTEND_SCORES(attend_scores_f16, uint16_t, v16_load_f16, __builtin_prefetch)
ATTEND_SCORES(attend_scores_f32, float, v16_load, (void))

/* sums[row][16 v + lane] = sums * correction[row], then fmaf with weight and value for `count` positions ascending. */
#define ATTEND_SUM(name, type, load, prefetch)                                                                         \
    V16_INLINE void ORK_KERNEL(name)(float *sums, uint64_t sum_stride, const float *correction, const float *weights,  \
                                     const type *values, uint64_t value_stride, uint32_t count, const uint32_t rows,   \
                                     const uint32_t vectors)                                                           \
    {                                                                                                                  \
        v16 sum[ATTEND_GROUP][4];                                                                                      \
        for (uint32_t r = 0; r < rows; r++)                                                                            \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                sum[r][v] = v16_multiply(v16_load(sums + r * sum_stride + v * 16), v16_set1(correction[r]));           \
        for (uint32_t t = 0; t < count; t++) {                                                                         \
            v16 value[4];                                                                                              \
            for (uint32_t v = 0; v < vectors; v += 2)                                                                  \
                prefetch(values + (t + ORK_ATTEND_BLOCK) * value_stride + v * 16);                                     \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                value[v] = load(values + t * value_stride + v * 16);                                                   \
            for (uint32_t r = 0; r < rows; r++) {                                                                      \
                v16 weight = v16_set1(weights[r * ORK_ATTEND_BLOCK + t]);                                              \
                for (uint32_t v = 0; v < vectors; v++)                                                                 \
                    sum[r][v] = v16_fma(weight, value[v], sum[r][v]);                                                  \
            }                                                                                                          \
        }                                                                                                              \
        for (uint32_t r = 0; r < rows; r++)                                                                            \
            for (uint32_t v = 0; v < vectors; v++)                                                                     \
                v16_store(sums + r * sum_stride + v * 16, sum[r][v]);                                                  \
    }
ATTEND_SUM(attend_sum_f16, uint16_t, v16_load_f16, __builtin_prefetch)
ATTEND_SUM(attend_sum_f32, float, v16_load, (void))

/* All runs of 16 keys, or all vectors of channels, for one group with a constant number of rows. */
#define ATTEND_GROUP_OF(count)                                                                                         \
    static void ORK_KERNEL(attend_scores_##count)(const struct ORK_KERNEL(attend_block) * b, float *scores,            \
                                                  const float *const *q, uint32_t runs)                                \
    {                                                                                                                  \
        const uint32_t size = b->tile->head_size, step = ATTEND_VECTORS(count);                                        \
        const float scale = b->tile->scale;                                                                            \
        for (uint32_t run = 0; run < runs; run += run + step <= runs ? step : 1) {                                     \
            uint64_t at = (uint64_t)run * size * 16;                                                                   \
            const float *f32 = (const float *)b->keys + at;                                                            \
            const uint16_t *f16 = (const uint16_t *)b->keys + at;                                                      \
            if (run + step <= runs && b->keys_f32)                                                                     \
                ORK_KERNEL(attend_scores_f32)(scores + run * 16, q, f32, size, scale, count, step);                    \
            else if (run + step <= runs)                                                                               \
                ORK_KERNEL(attend_scores_f16)(scores + run * 16, q, f16, size, scale, count, step);                    \
            else if (b->keys_f32)                                                                                      \
                ORK_KERNEL(attend_scores_f32)(scores + run * 16, q, f32, size, scale, count, 1);                       \
            else                                                                                                       \
                ORK_KERNEL(attend_scores_f16)(scores + run * 16, q, f16, size, scale, count, 1);                       \
        }                                                                                                              \
    }                                                                                                                  \
    static void ORK_KERNEL(attend_sum_##count)(const struct ORK_KERNEL(attend_block) * b, float *sums,                 \
                                               const float *correction, const float *weights, uint32_t from,           \
                                               uint32_t positions)                                                     \
    {                                                                                                                  \
        const uint32_t step = 16 * ATTEND_VECTORS(count);                                                              \
        const uint64_t stride = b->state_stride;                                                                       \
        for (uint32_t c = 0; c < b->padded; c += c + step <= b->padded ? step : 16) {                                  \
            uint64_t at = from * b->value_stride + c;                                                                  \
            const float *f32 = (const float *)b->values + at;                                                          \
            const uint16_t *f16 = (const uint16_t *)b->values + at;                                                    \
            if (c + step <= b->padded && b->values_f32)                                                                \
                ORK_KERNEL(attend_sum_f32)                                                                             \
                (sums + c, stride, correction, weights, f32, b->value_stride, positions, count,                        \
                 ATTEND_VECTORS(count));                                                                               \
            else if (c + step <= b->padded)                                                                            \
                ORK_KERNEL(attend_sum_f16)                                                                             \
                (sums + c, stride, correction, weights, f16, b->value_stride, positions, count,                        \
                 ATTEND_VECTORS(count));                                                                               \
            else if (b->values_f32)                                                                                    \
                ORK_KERNEL(attend_sum_f32)                                                                             \
                (sums + c, stride, correction, weights, f32, b->value_stride, positions, count, 1);                    \
            else                                                                                                       \
                ORK_KERNEL(attend_sum_f16)                                                                             \
                (sums + c, stride, correction, weights, f16, b->value_stride, positions, count, 1);                    \
        }                                                                                                              \
    }
ATTEND_GROUP_OF(1)
ATTEND_GROUP_OF(2)
#if defined(ORK_VECTOR_AVX512) || defined(ORK_VECTOR_AVX2) || defined(ORK_VECTOR_NEON)
ATTEND_GROUP_OF(3)
ATTEND_GROUP_OF(4)
ATTEND_GROUP_OF(5)
ATTEND_GROUP_OF(6)
#define ATTEND_OF(name)                                                                                                \
    {                                                                                                                  \
        ORK_KERNEL(name##1), ORK_KERNEL(name##2), ORK_KERNEL(name##3), ORK_KERNEL(name##4), ORK_KERNEL(name##5),       \
            ORK_KERNEL(name##6)                                                                                        \
    }
#else
#define ATTEND_OF(name)                                                                                                \
    {                                                                                                                  \
        ORK_KERNEL(name##1), ORK_KERNEL(name##2)                                                                       \
    }
#endif

static void (*const ORK_KERNEL(attend_scores_of)[ATTEND_GROUP])(const struct ORK_KERNEL(attend_block) *, float *,
                                                                const float *const *,
                                                                uint32_t) = ATTEND_OF(attend_scores_);
static void (*const ORK_KERNEL(attend_sum_of)[ATTEND_GROUP])(const struct ORK_KERNEL(attend_block) *, float *,
                                                             const float *, const float *, uint32_t,
                                                             uint32_t) = ATTEND_OF(attend_sum_);

/* Scores of `count` positions to weights relative to the new maximum; updates maximum and sum of the state and returns the
 * correction of what was summed before. Room for whole vectors is behind the scores. */
static float ORK_KERNEL(attend_weigh)(float *scores, uint32_t count, float *state, uint32_t padded)
{
    const uint32_t whole = (count + 15) / 16 * 16;
    for (uint32_t t = count; t < whole; t++)
        scores[t] = -INFINITY; /* weight 0 */
    v16 top = v16_load(scores);
    for (uint32_t t = 16; t < whole; t += 16)
        top = v16_max(v16_load(scores + t), top);
    float *sum = state + padded, *maximum = sum + 16;
    float before = *maximum, now = v16_maximum(top);
    now = now > before ? now : before;
    *maximum = now;
    float correction[16];
    v16_store(correction, v16_exp(v16_set1(before - now)));
    const v16 shift = v16_set1(now);
    v16 lanes = v16_multiply(v16_load(sum), v16_set1(correction[0]));
    for (uint32_t t = 0; t < whole; t += 16) {
        v16 weight = v16_exp(v16_subtract(v16_load(scores + t), shift));
        v16_store(scores + t, weight);
        lanes = v16_add(lanes, weight);
    }
    v16_store(sum, lanes);
    return correction[0];
}

/* Rows first..first+count-1 of the tile over the block of positions begin..end-1; each row sees at least `begin`. */
static void ORK_KERNEL(attend_group)(const struct ORK_KERNEL(attend_block) * b, uint32_t first, uint32_t count,
                                     uint32_t begin, uint32_t end)
{
    float weights[ATTEND_GROUP * ORK_ATTEND_BLOCK], correction[ATTEND_GROUP];
    uint32_t seen[ATTEND_GROUP];
    for (uint32_t r = 0; r < count; r++) {
        uint32_t visible = b->tile->visible[first + r];
        seen[r] = (visible < end ? visible : end) - begin;
    }
    float *states = b->states + first * b->state_stride;
    uint32_t most = seen[count - 1], least = seen[0];
    ORK_KERNEL(attend_scores_of)[count - 1](b, weights, b->tile->q + first, (most + 15) / 16);
    for (uint32_t r = 0; r < count; r++)
        correction[r] =
            ORK_KERNEL(attend_weigh)(weights + r * ORK_ATTEND_BLOCK, seen[r], states + r * b->state_stride, b->padded);
    ORK_KERNEL(attend_sum_of)[count - 1](b, states, correction, weights, 0, least);
    /* What only the later rows see. */
    const float one = 1.0f;
    for (uint32_t r = 1; r < count; r++)
        if (seen[r] > least)
            ORK_KERNEL(attend_sum_of)
            [0](b, states + r * b->state_stride, &one, weights + r * ORK_ATTEND_BLOCK + least, least, seen[r] - least);
}

static void ORK_KERNEL(attend_convert)(float *out, const uint16_t *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += 16)
        v16_store(out + i, v16_load_f16(in + i));
}

/* Values of positions begin..begin+count-1 as floats, rows padded to whole vectors. */
static void ORK_KERNEL(attend_convert_values)(float *out, const struct ork_attend *tile, uint32_t padded,
                                              uint32_t begin, uint32_t count)
{
    const uint32_t size = tile->head_size, whole = size / 16 * 16, left = size - whole;
    for (uint32_t t = 0; t < count; t++, out += padded) {
        uint64_t at = (uint64_t)(begin + t) * size;
        const float *f32 = (const float *)tile->values + at;
        const uint16_t *f16 = (const uint16_t *)tile->values + at;
        for (uint32_t i = 0; i < whole; i += 16)
            v16_store(out + i, tile->values_f32 ? v16_load(f32 + i) : v16_load_f16(f16 + i));
        if (left)
            v16_store(out + whole,
                      tile->values_f32 ? v16_load_partial(f32 + whole, left) : v16_load_f16_partial(f16 + whole, left));
    }
}

static void ORK_KERNEL(attend)(const struct ork_attend *tile, uint32_t begin, uint32_t end, float *states)
{
    const uint32_t size = tile->head_size, padded = (size + 15) / 16 * 16, rows = tile->rows;
    struct ORK_KERNEL(attend_block) b = {.tile = tile, .padded = padded, .states = states, .state_stride = padded + 32};
    uint32_t first = 0;
    for (uint32_t r = 0; r < rows; r++) {
        float *state = states + r * b.state_stride;
        memset(state, 0, (padded + 16) * sizeof *state);
        state[padded + 16] = -INFINITY;
    }
    if (end > tile->visible[rows - 1])
        end = tile->visible[rows - 1];
    float *keys = tile->scratch, *values = keys + (uint64_t)size * ORK_ATTEND_BLOCK;
    for (uint32_t block = begin; block < end; block += ORK_ATTEND_BLOCK) {
        const uint32_t block_end = end - block < ORK_ATTEND_BLOCK ? end : block + ORK_ATTEND_BLOCK;
        while (tile->visible[first] <= block)
            first++;
        /* Several groups share one conversion. */
        const bool converts = rows - first > ATTEND_GROUP;
        const uint64_t key_at = (uint64_t)block * size, value_at = key_at;
        b.keys_f32 = tile->keys_f32 || converts;
        b.keys = tile->keys_f32 ? (const void *)((const float *)tile->keys + key_at)
                                : (const void *)((const uint16_t *)tile->keys + key_at);
        if (converts && !tile->keys_f32) {
            ORK_KERNEL(attend_convert)(keys, b.keys, (block_end - block + 15) / 16 * 16 * (uint64_t)size);
            b.keys = keys;
        }
        b.values_f32 = tile->values_f32;
        b.value_stride = size;
        b.values = tile->values_f32 ? (const void *)((const float *)tile->values + value_at)
                                    : (const void *)((const uint16_t *)tile->values + value_at);
        if (size != padded || (converts && !tile->values_f32)) {
            ORK_KERNEL(attend_convert_values)(values, tile, padded, block, block_end - block);
            b.values = values;
            b.value_stride = padded;
            b.values_f32 = true;
        }
        const uint32_t left = rows - first, groups = (left + ATTEND_GROUP - 1) / ATTEND_GROUP;
        for (uint32_t g = 0; g < groups; g++) {
            uint32_t from = first + left * g / groups, to = first + left * (g + 1) / groups;
            ORK_KERNEL(attend_group)(&b, from, to - from, block, block_end);
        }
    }
}

static void ORK_KERNEL(attend_merge)(float *total, const float *part, uint32_t head_size)
{
    const uint32_t padded = (head_size + 15) / 16 * 16;
    float *maximum = total + padded + 16, part_maximum = part[padded + 16], before = *maximum;
    *maximum = part_maximum > before ? part_maximum : before;
    const v16 old = v16_exp(v16_set1(before - *maximum)), new = v16_exp(v16_set1(part_maximum - *maximum));
    for (uint32_t i = 0; i < padded + 16; i += 16)
        v16_store(total + i, v16_fma(v16_load(part + i), new, v16_multiply(v16_load(total + i), old)));
}

static void ORK_KERNEL(attend_finish)(float *y, const float *state, uint32_t head_size)
{
    const v16 inverse = v16_set1(1.0f / v16_sum(v16_load(state + (head_size + 15) / 16 * 16)));
    uint32_t i = 0;
    for (; i + 16 <= head_size; i += 16)
        v16_store(y + i, v16_multiply(v16_load(state + i), inverse));
    if (i < head_size)
        v16_store_partial(y + i, v16_multiply(v16_load(state + i), inverse), head_size - i);
}

#undef ATTEND_SCORES
#undef ATTEND_SUM
#undef ATTEND_GROUP_OF
#undef ATTEND_OF
