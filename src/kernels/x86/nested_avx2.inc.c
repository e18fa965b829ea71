/* The second run of nibbles of n8 bricks in registers of AVX2. Included by matmuls on bricks of nibbles behind their
 * brick_codes, whose residual_bytes lead from a base brick to its residual brick. */

/* The nibbles of the residual that belong to 32 bytes of base nibbles. */
static inline __m256i residual_of(const uint8_t *base, const brick_codes *codes)
{
#ifdef BRICK_NESTED
    return _mm256_loadu_si256((const __m256i *)(base + codes->residual_bytes));
#else
    (void)base;
    (void)codes;
    return _mm256_setzero_si256();
#endif
}
