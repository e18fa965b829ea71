/* Owns the gated short convolution between its two projections. Channels are independent, so they are what is split. */
#include "engine/cpu/engine.h"

#include <string.h>

struct convolve_region {
    ork_cpu *cpu;
    const struct ork_cpu_short_conv *layer;
    uint32_t rows;
};

enum { CHANNEL_UNIT = 16 };

static void convolve_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct convolve_region *r = context;
    const struct ork_cpu_short_conv *l = r->layer;
    const struct ork_vector_kernels *vector = &r->cpu->kernels->vector;
    uint32_t begin, end, n = l->n, past = l->taps - 1;
    ork_split_range((n + CHANNEL_UNIT - 1) / CHANNEL_UNIT, thread, threads, &begin, &end);
    begin *= CHANNEL_UNIT;
    end = end * CHANNEL_UNIT < n ? end * CHANNEL_UNIT : n;
    if (begin >= end)
        return;
    uint32_t count = end - begin;
    for (uint32_t i = 0; i < past; i++)
        memcpy(l->u + (uint64_t)i * n + begin, l->state + (uint64_t)i * n + begin, count * sizeof *l->u);
    for (uint32_t row = 0; row < r->rows; row++) {
        const float *b = l->bcx + row * l->bcx_stride + begin, *c = b + n, *x = c + n;
        float *y = l->y + row * l->y_stride + begin;
        const float *taps[ORK_CPU_CONV_TAPS_MAX];
        for (uint32_t i = 0; i < l->taps; i++)
            taps[i] = l->u + (uint64_t)(row + i) * n + begin;
        vector->multiply(l->u + (uint64_t)(row + past) * n + begin, b, x, count);
        vector->short_conv(y, l->w + (uint64_t)begin * l->taps, taps, l->taps, count);
        vector->multiply(y, y, c, count);
    }
    for (uint32_t i = 0; i < past; i++)
        memcpy(l->state + (uint64_t)i * n + begin, l->u + (uint64_t)(r->rows + i) * n + begin, count * sizeof *l->u);
}

void ork_cpu_convolve(ork_cpu *cpu, const struct ork_cpu_short_conv *layer, uint32_t rows)
{
    struct convolve_region region = {cpu, layer, rows};
    ork_cpu_run(cpu, rows, convolve_region, &region);
}
