/* Exact integer dot products for the silicon model, in plain C and with the instructions of this machine. Knows no
 * registers and no addresses. */
#include "engine/npu/device/silicon_internal.h"

#include <string.h>

#define BRICK_K 32u

void silicon_math_unpack(const uint8_t *packed, uint32_t bytes, int8_t *out)
{
    for (uint32_t i = 0; i < bytes; i++) {
        out[2 * i] = (int8_t)((packed[i] & 15) - ((packed[i] & 8) << 1));
        out[2 * i + 1] = (int8_t)((packed[i] >> 4) - ((packed[i] >> 3) & 16));
    }
}

int32_t silicon_math_row_sum(const int8_t *row, uint32_t k)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < k; i++)
        sum += row[i];
    return sum;
}

void silicon_math_dots_plain(const int8_t *rows, uint32_t row_count, const int8_t *bricks, uint32_t k_tiles,
                             uint32_t channels, int32_t *sums)
{
    memset(sums, 0, (size_t)row_count * channels * sizeof *sums);
    for (uint32_t tile = 0; tile < k_tiles; tile++)
        for (uint32_t row = 0; row < row_count; row++) {
            const int8_t *a = rows + ((size_t)row * k_tiles + tile) * BRICK_K;
            const int8_t *b = bricks + (size_t)tile * channels * BRICK_K;
            for (uint32_t channel = 0; channel < channels; channel++, b += BRICK_K) {
                int32_t dot = 0; /* at most 32 * 128 * 128 */
                for (uint32_t k = 0; k < BRICK_K; k++)
                    dot += (int16_t)(a[k] * b[k]);
                uint32_t *sum = (uint32_t *)&sums[row * channels + channel];
                *sum += (uint32_t)dot;
            }
        }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Four rows by eight channels. The instruction takes unsigned by signed, so weights are shifted by 128 and the sum of the
 * row is taken off again; everything is mod 2^32. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) static void
dots_4x8(const int8_t *rows, const int32_t *row_sums, const int8_t *bricks, uint32_t k_tiles, uint32_t channels,
         int32_t *sums)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    const size_t row_stride = (size_t)k_tiles * BRICK_K;
    __m512i parts[4][4];
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            parts[r][c] = _mm512_setzero_si512();
    for (uint32_t tile = 0; tile < k_tiles; tile++) {
        const int8_t *brick = bricks + (size_t)tile * channels * BRICK_K;
        __m512i weights[4]; /* two channels each */
        for (int c = 0; c < 4; c++)
            weights[c] = _mm512_xor_si512(_mm512_loadu_si512(brick + c * 64), flip);
        for (int r = 0; r < 4; r++) {
            const int8_t *at = rows + r * row_stride + (size_t)tile * BRICK_K;
            const __m512i features = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)at));
            for (int c = 0; c < 4; c++)
                parts[r][c] = _mm512_dpbusd_epi32(parts[r][c], weights[c], features);
        }
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            const uint32_t correction = 128u * (uint32_t)row_sums[r];
            const uint32_t low = (uint32_t)_mm512_mask_reduce_add_epi32(0x00ff, parts[r][c]);
            const uint32_t high = (uint32_t)_mm512_mask_reduce_add_epi32(0xff00, parts[r][c]);
            const uint32_t both[2] = {low - correction, high - correction};
            memcpy(sums + (size_t)r * channels + 2 * c, both, sizeof both);
        }
}

/* One row by 32 channels, the bricks in the order of memory. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) static void
dots_1x32(const int8_t *row, int32_t row_sum, const int8_t *bricks, uint32_t k_tiles, uint32_t channels, int32_t *sums)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    __m512i parts[16];
    for (int c = 0; c < 16; c++)
        parts[c] = _mm512_setzero_si512();
    for (uint32_t tile = 0; tile < k_tiles; tile++) {
        const int8_t *brick = bricks + (size_t)tile * channels * BRICK_K, *at = row + (size_t)tile * BRICK_K;
        const __m512i features = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)at));
        for (int c = 0; c < 16; c++)
            parts[c] =
                _mm512_dpbusd_epi32(parts[c], _mm512_xor_si512(_mm512_loadu_si512(brick + c * 64), flip), features);
    }
    for (int c = 0; c < 16; c++) {
        const uint32_t correction = 128u * (uint32_t)row_sum;
        const uint32_t low = (uint32_t)_mm512_mask_reduce_add_epi32(0x00ff, parts[c]);
        const uint32_t high = (uint32_t)_mm512_mask_reduce_add_epi32(0xff00, parts[c]);
        const uint32_t both[2] = {low - correction, high - correction};
        memcpy(sums + 2 * c, both, sizeof both);
    }
}

static bool machine_has_vnni(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#endif

void silicon_math_dots(const int8_t *rows, const int32_t *row_sums, uint32_t row_count, const int8_t *bricks,
                       uint32_t k_tiles, uint32_t channels, int32_t *sums)
{
#if defined(__x86_64__)
    if (machine_has_vnni() && row_count == 1) {
        for (uint32_t channel = 0; channel < channels; channel += 32)
            dots_1x32(rows, row_sums[0], bricks + channel * BRICK_K, k_tiles, channels, sums + channel);
        return;
    }
    if (machine_has_vnni()) {
        for (uint32_t channel = 0; channel < channels; channel += 8)
            for (uint32_t row = 0; row < row_count; row += 4)
                dots_4x8(rows + (size_t)row * k_tiles * BRICK_K, row_sums + row, bricks + channel * BRICK_K, k_tiles,
                         channels, sums + (size_t)row * channels + channel);
        return;
    }
#else
    (void)row_sums;
#endif
    silicon_math_dots_plain(rows, row_count, bricks, k_tiles, channels, sums);
}
