/* Matmul on g8 rows (int8 with an f16 scale per 32 inputs) with AVX-512 VNNI. Sixteen groups of 32 inputs at a time give
 * one register of sixteen sums, the lanes of the numerics contract. Weights become unsigned by flipping their sign bit;
 * -128 times the activations, computed once for several channels, is what the sums start from. */
#define ORK_VECTOR_AVX512

#include "kernels/isa.h"
#include "kernels/vector.h"
#include "kernels/x86/reduce_avx512.h"

#define CHANNELS 4

struct chunk {
    __m512i x[8], start[8]; /* activations of sixteen groups, two a register, and what their sums start from */
    v16 scales;             /* of the activations, one a group */
};

/* Dwords of the register that holds groups 2 q and 2 q + 1, when `groups` are there. */
static inline __mmask16 pair_mask(uint32_t groups, uint32_t q)
{
    return groups >= 2 * q + 2 ? 0xFFFF : groups == 2 * q + 1 ? 0x00FF : 0;
}

static inline void load_chunk(struct chunk *chunk, const int8_t *x, const float *scales, uint32_t block_groups,
                              uint32_t first, uint32_t groups)
{
    const __m512i bias = _mm512_set1_epi8((char)0x80);
    float lanes[16] = {0};
    for (uint32_t j = 0; j < groups; j++)
        lanes[j] = scales[(first + j) / block_groups];
    chunk->scales = v16_load(lanes);
    for (uint32_t q = 0; q < 8; q++) {
        chunk->x[q] = _mm512_maskz_loadu_epi32(pair_mask(groups, q), x + q * 64);
        __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bias, chunk->x[q]);
        chunk->start[q] = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
    }
}

static inline __attribute__((always_inline)) v16 add_chunk(v16 lanes, const struct chunk *chunk, const uint8_t *weights,
                                                           const uint8_t *scales, const uint32_t groups)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i sums[8];
    for (uint32_t q = 0; q < 8; q++) {
        __m512i w = groups == 16 ? _mm512_loadu_si512(weights + q * 64)
                                 : _mm512_maskz_loadu_epi32(pair_mask(groups, q), weights + q * 64);
        sums[q] = _mm512_dpbusd_epi32(chunk->start[q], _mm512_xor_si512(w, sign), chunk->x[q]);
    }
    v16 terms = v16_multiply(_mm512_cvtepi32_ps(ork_sum_halves_avx512(sums)), chunk->scales);
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    return v16_fma(terms, groups == 16 ? v16_load_f16(halves) : v16_load_f16_partial(halves, groups), lanes);
}

/* `channels` weight rows with one activation row. */
static void dot_channels(float *y, const uint8_t *weights, const uint8_t *scales, uint32_t channels,
                         const struct ork_activation *x, uint64_t row)
{
    const uint32_t groups = x->k_padded / 32;
    const int8_t *input = x->plain + row * x->k_padded;
    const float *x_scales = x->scales + row * x->blocks;
    v16 lanes[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++)
        lanes[c] = v16_zero();
    for (uint32_t first = 0; first < groups; first += 16) {
        uint32_t count = groups - first < 16 ? groups - first : 16;
        struct chunk chunk;
        load_chunk(&chunk, input + first * 32, x_scales, x->block / 32, first, count);
        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t *w = weights + c * (uint64_t)groups * 32 + first * 32;
            const uint8_t *s = scales + (c * (uint64_t)groups + first) * 2;
            lanes[c] = count == 16 ? add_chunk(lanes[c], &chunk, w, s, 16) : add_chunk(lanes[c], &chunk, w, s, count);
        }
    }
    for (uint32_t c = 0; c < channels; c++)
        y[c] = v16_sum(lanes[c]);
}

void ork_matmul_g8_avx512(const struct ork_matmul_args *args)
{
    const struct ork_matrix *w = args->w;
    const uint64_t padded = args->x->k_padded;
    const uint8_t *data = w->data + args->expert * w->data_expert_stride;
    const uint8_t *scales = w->scales + args->expert * w->scale_expert_stride;
    for (uint32_t n = args->n_begin; n < args->n_end; n += CHANNELS) {
        uint32_t channels = args->n_end - n < CHANNELS ? args->n_end - n : CHANNELS;
        for (uint32_t i = 0; i < args->m; i++) {
            float y[CHANNELS];
            dot_channels(y, data + n * padded, scales + n * (padded / 32) * 2, channels, args->x,
                         args->x_rows ? args->x_rows[i] : i);
            memcpy(args->y + i * args->y_stride + n, y, channels * sizeof(float));
        }
    }
}
