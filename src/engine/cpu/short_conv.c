/* Owns the gated short convolution between its two projections. Channels are independent, so they are what is split. */
#include "engine/cpu/engine.h"

#include <string.h>

struct convolve_region {
    ork_cpu *cpu;
    const struct ork_cpu_short_conv *layer;
    uint32_t rows;
};

enum { CHANNEL_UNIT = 16 };

/* Channels begin..end-1 of what the convolution sees, oldest first. The kernel's u are these products, rounded alike. */
static void keep_inputs(const struct convolve_region *r, uint32_t begin, uint32_t end)
{
    const struct ork_cpu_short_conv *l = r->layer;
    float *inputs = l->inputs + begin;
    for (uint32_t i = 0; i + 1 < l->taps; i++, inputs += l->n)
        memcpy(inputs, l->state + (uint64_t)i * l->n + begin, (end - begin) * sizeof *inputs);
    for (uint32_t row = 0; row < r->rows; row++, inputs += l->n) {
        const float *b = l->bcx + row * l->bcx_stride + begin;
        r->cpu->kernels->vector.multiply(inputs, b, b + 2ull * l->n, end - begin);
    }
}

static void convolve_region(void *context, uint32_t thread, uint32_t threads)
{
    const struct convolve_region *r = context;
    const struct ork_cpu_short_conv *l = r->layer;
    uint32_t begin, end, n = l->n;
    ork_split_range((n + CHANNEL_UNIT - 1) / CHANNEL_UNIT, thread, threads, &begin, &end);
    begin *= CHANNEL_UNIT;
    end = end * CHANNEL_UNIT < n ? end * CHANNEL_UNIT : n;
    if (begin >= end)
        return;
    if (l->inputs)
        keep_inputs(r, begin, end);
    const struct ork_short_conv args = {.b = l->bcx + begin,
                                        .c = l->bcx + n + begin,
                                        .x = l->bcx + 2ull * n + begin,
                                        .stride = l->bcx_stride,
                                        .w = l->w + begin,
                                        .w_stride = n,
                                        .state = l->state + begin,
                                        .state_stride = n,
                                        .y = l->y + begin,
                                        .y_stride = l->y_stride,
                                        .n = end - begin,
                                        .taps = l->taps,
                                        .rows = r->rows};
    r->cpu->kernels->vector.short_conv(&args);
}

void ork_cpu_convolve(ork_cpu *cpu, const struct ork_cpu_short_conv *layer, uint32_t rows)
{
    struct convolve_region region = {cpu, layer, rows};
    ork_cpu_run(cpu, rows, convolve_region, &region);
}
