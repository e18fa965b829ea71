/* One row's column in the ways of the tiers, each in a function of its own, where bench/mca.sh finds it. Included once by
 * the nibble kernels of an instruction set, after stream_column. */
#ifdef BRICK_NESTED
static __attribute__((noinline)) void stream_n8(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count,
                                                const brick_codes *codes)
{
    stream_column(acc, bricks, x, count, codes, false);
}
#else
static __attribute__((noinline)) void stream_i4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count)
{
    const brick_codes unused = {vdupq_n_s8(0), true};
    stream_column(acc, bricks, x, count, &unused, true);
}

static __attribute__((noinline)) void stream_nf4(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count,
                                                 int8x16_t table)
{
    const brick_codes codes = {table, false};
    stream_column(acc, bricks, x, count, &codes, false);
}
#endif

static inline void stream_bricks(int32_t *acc, const uint8_t *bricks, const int8_t *x, uint32_t count, int32_t start,
                                 const brick_codes *codes)
{
    (void)start; /* BRICK_BIAS is 0 */
#ifdef BRICK_NESTED
    stream_n8(acc, bricks, x, count, codes);
#else
    if (codes->uniform)
        stream_i4(acc, bricks, x, count);
    else
        stream_nf4(acc, bricks, x, count, codes->table);
#endif
}
