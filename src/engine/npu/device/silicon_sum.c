/* The DPU's stand-alone sum of two int32 surfaces (npu-hw.md 7.5), with which partial results of k slices can be added on
 * the NPU. Owns its registers and its arithmetic, which is mod 2^32. */
#include "engine/npu/device/silicon_internal.h"

#include <inttypes.h>
#include <string.h>

/* The published recipe; sizes, addresses and strides aside, no other values are known to work. */
static const struct silicon_fixed fixed[] = {
    {0x400c, ~0u, 0x1e5, "DPU mode"},
    {0x4010, 0x1fffffff, 0x10000004, "precision"},
    {0x4034, ~0u, 0, "height"},
    {0x4038, ~0u, 0, "notches"},
    {0x4040, ~0u, 0x53, "BS stage"},
    {0x4050, ~0u, 2, "output write mode"},
    {0x4060, ~0u, 0x53, "BN stage"},
    {0x4070, ~0u, 0x10c203c0, "EW stage"},
    {0x4078, ~0u, 1, "EW scale"},
    {0x4080, ~0u, 0, "output converter's offset"},
    {0x4084, ~0u, 1, "output converter's scale"},
    {0x4088, ~0u, 0, "output converter's shift"},
    {0x5010, ~0u, 0, "height"},
    {0x5034, ~0u, 0x4000000c, "ERDMA"},
    {0x5044, ~0u, 0x27881, "MRDMA"},
    {0x504c, ~0u, 0, "surface notch"},
    {0x5068, ~0u, 0x01010101, "RDMA weights"},
};

static const uint16_t needed[] = {
    0x400c, 0x4010, 0x4020, 0x4024, 0x4030, 0x403c, 0x4040, 0x4050, 0x4058, 0x405c, 0x4060, 0x4070, 0x4078,
    0x4084, 0x40c0, 0x500c, 0x5010, 0x5014, 0x5018, 0x5034, 0x5038, 0x5040, 0x5044, 0x504c, 0x5068,
};

enum { PRECISION_INT32 = 4, PRECISION_FP32 = 5 };

struct sum {
    uint32_t rows, channels;
    bool fp32;
    uint64_t sources[2], target;
    uint64_t second_stride, target_stride; /* bytes between surfaces; of the first source rows * 16 */
};

static bool decode(struct silicon_run *run, struct sum *sum)
{
    const struct silicon_core *core = run->core;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        silicon_register_needed(run, needed[i]);
    if (!silicon_registers_check(run, fixed, sizeof fixed / sizeof *fixed))
        return false;
    const uint32_t rows = silicon_register(core, 0x4030) + 1, channels = silicon_register(core, 0x4058) + 1;
    const uint32_t out = silicon_register(core, 0x4010) >> 29;
    const uint32_t first = silicon_register(core, 0x5018), second = silicon_register(core, 0x5038);
    const uint32_t target = silicon_register(core, 0x4020), stride = silicon_register(core, 0x40c0);
    const uint32_t second_stride = silicon_register(core, 0x5040);
    if (out != PRECISION_INT32 && out != PRECISION_FP32)
        return silicon_stop(run, ORK_SILICON_CONFIG, "sum with output precision %" PRIu32, out);
    /* 13 bits each; HAP's sums have at most so many channels and so many atoms (4.7). */
    if (rows == 0 || channels == 0 || channels % 4 || rows > 8192 || channels > 1024)
        return silicon_stop(run, ORK_SILICON_CONFIG, "sum of %" PRIu32 " x %" PRIu32, rows, channels);
    if (rows * channels / 8 > 4096)
        return silicon_stop(run, ORK_SILICON_ROWS, "sum of %" PRIu32 " x %" PRIu32, rows, channels);
    if (silicon_register(core, 0x403c) != ((channels - 1) << 16 | (channels - 1)) ||
        silicon_register(core, 0x405c) != rows - 1 || silicon_register(core, 0x500c) != rows - 1 ||
        silicon_register(core, 0x5014) != channels - 1)
        return silicon_stop(run, ORK_SILICON_CONFIG, "sizes of DPU and RDMA differ");
    if ((first | second | target | stride | second_stride | run->kick->dma_base) % SILICON_ATOM)
        return silicon_stop(run, ORK_SILICON_ALIGNMENT, "addresses or strides of a sum: not multiples of 16");
    if (stride != rows * SILICON_ATOM || silicon_register(core, 0x4024) != stride || second_stride != stride)
        run->outcome->anomalies |= ORK_SILICON_STRIDES;
    *sum = (struct sum){.rows = rows,
                        .channels = channels,
                        .fp32 = out == PRECISION_FP32,
                        .sources = {(uint64_t)run->kick->dma_base + first, (uint64_t)run->kick->dma_base + second},
                        .target = (uint64_t)run->kick->dma_base + target,
                        .second_stride = second_stride,
                        .target_stride = stride};
    return true;
}

static bool add_atom(struct silicon_run *run, const struct sum *sum, uint64_t first, uint64_t second, uint64_t target)
{
    const uint8_t *a = silicon_translate(run->domain, first, SILICON_ATOM, false, NULL);
    const uint8_t *b = silicon_translate(run->domain, second, SILICON_ATOM, false, NULL);
    if (!a || !b) {
        run->raw |= SILICON_DMA_READ_ERROR;
        return silicon_stop(run, ORK_SILICON_UNMAPPED, "summand at 0x%" PRIx64 " is not mapped", a ? second : first);
    }
    bool read_only = false;
    uint8_t *out = silicon_translate(run->domain, target, SILICON_ATOM, true, &read_only);
    if (!out) {
        run->raw |= SILICON_DMA_WRITE_ERROR;
        return silicon_stop(run, read_only ? ORK_SILICON_READ_ONLY : ORK_SILICON_UNMAPPED,
                            "sum at 0x%" PRIx64 " cannot be written", target);
    }
    uint32_t x[4], y[4];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (int i = 0; i < 4; i++) {
        x[i] += y[i];
        if (sum->fp32) {
            const float real = (float)(int32_t)x[i];
            memcpy(&x[i], &real, sizeof real);
        }
    }
    memcpy(out, x, sizeof x);
    return true;
}

bool silicon_sum_run(struct silicon_run *run)
{
    struct sum sum = {0};
    if (!decode(run, &sum))
        return false;
    for (uint32_t surface = 0; surface < sum.channels / 4; surface++)
        for (uint32_t row = 0; row < sum.rows; row++) {
            const uint64_t at = (uint64_t)row * SILICON_ATOM;
            if (!add_atom(run, &sum, sum.sources[0] + (uint64_t)surface * sum.rows * SILICON_ATOM + at,
                          sum.sources[1] + surface * sum.second_stride + at,
                          sum.target + surface * sum.target_stride + at))
                return false;
        }
    const uint64_t size_bytes = 4ull * sum.rows * sum.channels;
    run->outcome->work.tasks++;
    run->outcome->work.feature_bytes += 2 * size_bytes;
    run->outcome->work.output_bytes += size_bytes;
    return true;
}
