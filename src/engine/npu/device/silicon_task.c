/* What a matmul task is, read out of its registers: which registers it needs, which values exist on an RK3588, and what is
 * published to go wrong. Owns the judgement; computes nothing.
 *
 * It knows nothing of the program writer or its limits: both come from the same published facts, and differ where one of
 * them is wrong. */
#include "engine/npu/device/silicon_internal.h"

#include "base/checked.h"

#include <inttypes.h>

/* npu-hw.md 3.5. */
enum { PRECISION_INT8 = 0, PRECISION_INT16 = 1, PRECISION_INT32 = 4, PRECISION_FP32 = 5, PRECISION_INT4 = 6 };

enum { ENABLE_CNA = 1 << 0, ENABLE_CORE = 1 << 2, ENABLE_DPU = 1 << 3, ENABLE_RDMA = 1 << 4 };
#define ENABLE_MATMUL (ENABLE_CNA | ENABLE_CORE | ENABLE_DPU)

/* What a matmul program must write: the recipe of npu-hw.md 4.2, the DCOMP registers with 3.2's advice. */
static const uint16_t needed[] = {
    0x100c, 0x1010, 0x1014, 0x1020, 0x1024, 0x1028, 0x102c, 0x1030, 0x1034, 0x1038, 0x1040, 0x1044, 0x104c,
    0x1050, 0x1054, 0x1058, 0x105c, 0x1070, 0x1078, 0x107c, 0x1080, 0x1084, 0x1088, 0x1100, 0x1104, 0x1110,
    0x1140, 0x1144, 0x1148, 0x114c, 0x1150, 0x1154, 0x1158, 0x115c, 0x1160, 0x1164, 0x1168, 0x116c, 0x1170,
    0x1174, 0x1178, 0x117c, 0x3010, 0x3014, 0x3018, 0x301c, 0x3030, 0x400c, 0x4010, 0x4020, 0x4024, 0x4030,
    0x4034, 0x4038, 0x403c, 0x4040, 0x4050, 0x4058, 0x405c, 0x4060, 0x4070, 0x4084, 0x40c0,
};

/* Bits that must have one value for a plain matmul; anything else is another operation, or hangs. */
static const struct silicon_fixed fixed[] = {
    {0x100c, ~0x200003f0u, 0, "convolution mode"},
    {0x1010, ~0x3ff0u, 0, "kernel groups"},
    {0x1014, ~0u, 9, "convolution strides"},
    {0x102c, ~0x3fffffu, 0, "surface mode"},
    {0x1038, ~0x3fffu, 0x01010000, "kernel size"},
    {0x1040, ~0xffu, 0, "CBUF reuse or FC banks"},
    {0x104c, ~0u, 0xb, "input converter"},
    {0x1050, ~0u, 0x10000, "input converter's scale"},
    {0x1054, ~0u, 0x10000, "input converter's scale"},
    {0x1058, ~0u, 0x10000, "input converter's scale"},
    {0x105c, ~0u, 0x10000, "input converter's scale"},
    {0x1060, ~0u, 0, "FC mode"},
    {0x1064, ~0u, 0, "FC mode"},
    {0x1068, ~0u, 0, "padding"},
    {0x1074, ~0u, 0, "FC mode"},
    {0x1100, ~0u, 0, "weight decompression"},
    {0x1104, ~0u, 0, "weight decompression"},
    {0x1180, ~0u, 0, "input converter by channel"},
    {0x3010, ~0x701u, 0, "depthwise mode"},
    {0x301c, ~0u, 0, "accumulator truncation"},
    {0x3030, ~0u, 0, "register 0x3030"},
    {0x400c, ~0x1e0u, 4, "DPU mode"},
    {0x4010, 0x03fffff8, 0, "DPU shifts"},
    {0x4014, ~0u, 0, "output padding"},
    {0x4040, 1, 1, "BS stage"},
    {0x4054, ~0u, 0, "weight zero point"},
    {0x4060, 1, 1, "BN stage"},
    {0x4070, 0x383, 0x383, "EW stage"},
    {0x4080, ~0u, 0, "output converter's offset"},
    {0x4084, 0x1ffff, 1, "output converter's scale"},
    {0x4088, ~0u, 0, "output converter's shift"},
    {0x4050, ~0x7feu, 0, "output write mode"},
};

static bool check_fixed(struct silicon_run *run)
{
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        silicon_register_needed(run, needed[i]);
    if (!silicon_registers_check(run, fixed, sizeof fixed / sizeof *fixed))
        return false;
    for (uint32_t offset = 0x1140; offset <= 0x117c; offset += 4)
        if (silicon_register(run->core, offset) != 0)
            return silicon_stop(run, ORK_SILICON_CONFIG, "register 0x%" PRIx32 ": weight decompression", offset);
    return true;
}

/* The RDMA may be enabled while it fetches nothing; a configuration that waits for it never completes (7.4). */
static bool check_enable(struct silicon_run *run, uint32_t enable)
{
    if (enable != ENABLE_MATMUL && enable != (ENABLE_MATMUL | ENABLE_RDMA))
        return silicon_stop(run, ORK_SILICON_CONFIG, "enable mask 0x%" PRIx32 " is not one of a matmul", enable);
    if (!(enable & ENABLE_RDMA))
        return true;
    const bool main_off = silicon_register(run->core, 0x5044) & 1u << 4;
    const bool elementwise_off = silicon_register(run->core, 0x5034) & 1u;
    if (main_off && elementwise_off && !silicon_register(run->core, 0x501c) && !silicon_register(run->core, 0x5028))
        return true;
    return silicon_stop(run, ORK_SILICON_CONFIG, "the RDMA is enabled and not set up");
}

/* npu-hw.md 3.5, 5: int8 -> int32 or fp32, int4 -> int16; 16-bit floats exist and are not modelled. */
static bool decode_precision(struct silicon_run *run, struct silicon_task *task)
{
    const uint32_t convolution = silicon_register(run->core, 0x100c), mac = silicon_register(run->core, 0x3010);
    const uint32_t format = silicon_register(run->core, 0x4010);
    const uint32_t in = convolution >> 4 & 7, processed = convolution >> 7 & 7, multiplied = mac >> 8 & 7;
    const uint32_t dpu_processed = format & 7, dpu_in = format >> 26 & 7, out = format >> 29;
    task->int4 = in == PRECISION_INT4;
    task->fp32 = out == PRECISION_FP32;
    const bool input = in == PRECISION_INT8 || in == PRECISION_INT4;
    const bool one = in == processed && in == multiplied && in == dpu_processed && in == dpu_in;
    const bool output = task->int4 ? out == PRECISION_INT16 : out == PRECISION_INT32 || out == PRECISION_FP32;
    if (!input || !one || !output)
        return silicon_stop(run, ORK_SILICON_CONFIG,
                            "precisions %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", DPU %" PRIu32 ", %" PRIu32 " -> %" PRIu32
                            " do not exist together",
                            in, processed, multiplied, dpu_in, dpu_processed, out);
    task->group_line_off = convolution & 1u << 29;
    task->group = task->int4 ? 64 : 32;
    task->lane_channels = task->int4 ? 32 : 16;
    return true;
}

/* Blocks that disagree about the size of what they pass on wait for each other. */
static bool decode_size(struct silicon_run *run, struct silicon_task *task)
{
    const struct silicon_core *core = run->core;
    const uint32_t in_size = silicon_register(core, 0x1020), in_channels = silicon_register(core, 0x1024);
    const uint32_t width = in_size >> 16 & 0x7ff, height = in_size & 0x7ff, k = in_channels & 0xffff;
    const uint32_t n = silicon_register(core, 0x1038) & 0x3fff, rows = width * height;
    const uint32_t row_bytes = task->int4 ? k / 2 : k;
    if (width == 0 || height == 0 || k == 0 || k > SILICON_K_MAX || k % 32 || n == 0 || n % task->group)
        return silicon_stop(run, ORK_SILICON_CONFIG,
                            "%" PRIu32 " x %" PRIu32 " pixels, %" PRIu32 " inputs, %" PRIu32 " kernels", width, height,
                            k, n);
    const struct {
        uint16_t offset;
        uint32_t value;
    } same[] = {
        {0x1020, width << 16 | height},
        {0x1024, (k - 1) << 16 | k},
        {0x1028, width},
        {0x102c, rows},
        {0x1030, n * row_bytes},
        {0x1034, row_bytes},
        {0x1084, width << 16 | height},
        {0x1088, k},
        {0x3014, (height - 1) << 16 | (width - 1)},
        {0x3018, n - 1},
        {0x4030, width - 1},
        {0x4034, height - 1},
        {0x403c, (n - 1) << 16 | (n - 1)},
        {0x4058, n - 1},
        {0x405c, (height - 1) << 16 | (width - 1)},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (silicon_register(core, same[i].offset) != same[i].value)
            return silicon_stop(run, ORK_SILICON_CONFIG,
                                "register 0x%x is 0x%" PRIx32 ", the task's size makes it 0x%" PRIx32, same[i].offset,
                                silicon_register(core, same[i].offset), same[i].value);
    if (n > 8192) /* 13 bits in the DPU, npu-hw.md 4.7 */
        return silicon_stop(run, ORK_SILICON_CONFIG, "%" PRIu32 " channels", n);
    task->width = width;
    task->height = height;
    task->rows = task->rows_right = rows;
    task->k = k;
    task->n = n;
    task->row_bytes = row_bytes;
    return true;
}

static bool decode_addresses(struct silicon_run *run, struct silicon_task *task)
{
    const struct silicon_core *core = run->core;
    const uint32_t a = silicon_register(core, 0x1070), b = silicon_register(core, 0x1110);
    const uint32_t c = silicon_register(core, 0x4020), stride = silicon_register(core, 0x4024);
    const uint32_t add = silicon_register(core, 0x40c0);
    if ((a | b | c | stride | add | run->kick->dma_base) % SILICON_ATOM)
        return silicon_stop(run, ORK_SILICON_ALIGNMENT,
                            "A 0x%" PRIx32 ", B 0x%" PRIx32 ", C 0x%" PRIx32 ", strides 0x%" PRIx32 ", 0x%" PRIx32
                            ": not multiples of 16",
                            a, b, c, stride, add);
    task->a = (uint64_t)run->kick->dma_base + a;
    task->b = (uint64_t)run->kick->dma_base + b;
    task->c = (uint64_t)run->kick->dma_base + c;
    task->line_stride = silicon_register(core, 0x107c) & 0xfffffff;
    const uint32_t surf = silicon_register(core, 0x1080) & 0xfffffff; /* 28 bits, two's complement */
    task->surf_stride = surf & 0x8000000 ? (int64_t)surf - 0x10000000 : (int64_t)surf;
    task->surface_stride = stride;
    task->surface_add = add;
    return true;
}

/* npu-hw.md 5: the table of SIZE_E and strides. Off it, what the address formula says is written and no more. */
static void decode_output(struct silicon_run *run, struct silicon_task *task)
{
    const uint32_t sizes = silicon_register(run->core, 0x4050), notches = silicon_register(run->core, 0x4038);
    const uint32_t size_e = sizes >> 2 & 7, notch = notches & 0x1fff;
    task->group_atoms = size_e + 1;
    task->line_atoms = task->width + notch;
    task->lines_written = task->height;
    bool table = size_e == 7 && (sizes >> 5 & 7) == 7 && (sizes >> 8 & 7) == 7 &&
                 task->surface_add == SILICON_GROUP_ATOMS * task->surface_stride;
    if (notch != (notches >> 16 & 0x1fff)) {
        /* A row stride of its own makes rows collide (ork-driver.md 2.5). */
        table = false;
        task->lines_written = 1;
    }
    /* Surfaces one behind the other, or side by side in every line: rows and panels (4.1, 4.3). */
    const uint64_t line_bytes = SILICON_ATOM * task->line_atoms, surfaces = task->n / task->group * SILICON_GROUP_ATOMS;
    const bool behind = task->surface_stride >= line_bytes * task->height;
    const bool beside = task->surface_stride >= SILICON_ATOM * (uint64_t)task->width &&
                        task->surface_stride * surfaces <= line_bytes && !(task->int4 && task->width == 1);
    if (!table || !(behind || beside || task->rows == 1))
        run->outcome->anomalies |= ORK_SILICON_STRIDES;
    task->shape.output = !behind && beside ? ORK_NPU_ROWS : ORK_NPU_NATIVE;
}

static void limit_rows(struct silicon_run *run, struct silicon_task *task, uint32_t anomaly, uint64_t rows)
{
    if (rows >= task->rows)
        return;
    run->outcome->anomalies |= anomaly;
    if (rows < task->rows_right)
        task->rows_right = (uint32_t)rows;
}

/* npu-hw.md 4.5: features and one kernel must fit their banks. */
static bool check_banks(struct silicon_run *run, struct silicon_task *task)
{
    const uint32_t banks = silicon_register(run->core, 0x1040), data = banks & 0xf, weight = banks >> 4 & 0xf;
    if (data == 0 || data + weight > SILICON_BANKS)
        return silicon_stop(run, ORK_SILICON_CONFIG, "%" PRIu32 " banks of data and %" PRIu32 " of weights", data,
                            weight);
    const uint64_t room = (uint64_t)data * SILICON_BANK_BYTES;
    limit_rows(run, task, ORK_SILICON_BANKS, room / task->row_bytes);
    if (task->row_bytes > (uint64_t)weight * SILICON_BANK_BYTES)
        limit_rows(run, task, ORK_SILICON_BANKS, 0);
    /* Entries of 64 bytes for a line of pixels: between the packed line and one in which every pixel begins an entry
     * (4.2), and up to eight of slack (4.3). Fewer make lines overlap, more take room. */
    const uint64_t entries = silicon_register(run->core, 0x1044) & 0x3fff;
    if (entries < ork_divide_up((uint64_t)task->width * task->row_bytes, 64))
        limit_rows(run, task, ORK_SILICON_BANKS, entries * 64 / task->row_bytes);
    else if (entries > task->width * ork_divide_up(task->row_bytes, 64) + 8)
        limit_rows(run, task, ORK_SILICON_BANKS, room / (entries * 64) * task->width);
    return true;
}

/* Rows of a task up to some k that are published to come out right; npu-hw.md 4.5, 4.7 and 4.3. */
struct envelope {
    uint32_t k_max;
    uint32_t banks; /* that features may fill; 0: see rows */
    uint32_t rows;
};

static const struct envelope int8_by_rows[] = {
    {4096, 8, 0},  /* 4.7, HAP: 128 rows of 2048, 64 of 4096; ORK measured the same two */
    {6144, 0, 32}, /* 4.7, HAP */
    {8192, 0, 16},
    {10752, 0, 1},
};
static const struct envelope int8_native[] = {
    {4096, 4, 0}, /* 4.5: HAP's native programs and the vendor's fill four banks, nobody's more */
    {6144, 0, 32},
    {8192, 0, 16},
    {10752, 0, 1},
};
#define ENVELOPES (sizeof int8_native / sizeof *int8_native)

/* 4.7: more than 4 rows of 3072 < K < 4096 inputs time out. ORK's programs by rows, with few grains, run them: 64 rows of
 * 3584, of other K fewer than 65536 / K (4.6, ork-driver.md 4.2). */
static bool check_rows_gap(struct silicon_run *run, struct silicon_task *task)
{
    const uint32_t grains = silicon_register(run->core, 0x1010) >> 4 & 0x3ff;
    if (!task->group_line_off || grains > 16)
        return silicon_stop(run, ORK_SILICON_ROWS, "%" PRIu32 " rows of %" PRIu32 " int8 inputs hang", task->rows,
                            task->k);
    limit_rows(run, task, ORK_SILICON_ROWS, task->k % 512 ? 65535 / task->k : 64);
    return true;
}

static bool check_rows_int8(struct silicon_run *run, struct silicon_task *task)
{
    if (task->k > 3072 && task->k < 4096 && task->rows > 4)
        return check_rows_gap(run, task);
    for (size_t i = 0; i < ENVELOPES; i++) {
        const struct envelope *envelope = task->group_line_off ? &int8_by_rows[i] : &int8_native[i];
        if (task->k > envelope->k_max)
            continue;
        const uint32_t by_banks = envelope->banks * SILICON_BANK_BYTES / task->row_bytes;
        limit_rows(run, task, ORK_SILICON_ROWS, envelope->rows ? envelope->rows : by_banks);
        return true;
    }
    return silicon_stop(run, ORK_SILICON_ROWS, "%" PRIu32 " int8 inputs: the longest single pass is 10752", task->k);
}

static bool check_rows_int4(struct silicon_run *run, struct silicon_task *task)
{
    if (task->k > 10752) /* ORK's single passes of one row, ork-driver.md 4.3 */
        return silicon_stop(run, ORK_SILICON_ROWS, "%" PRIu32 " int4 inputs: the longest single pass is 10752",
                            task->k);
    /* 4.3, HAP: 128 rows side by side, 512 in panels of 8, up to 2048 inputs. */
    const bool panels = task->group_line_off && task->width == 8;
    limit_rows(run, task, ORK_SILICON_ROWS, task->k > 2048 ? 1 : panels ? 512 : 128);
    return true;
}

bool silicon_task_decode(struct silicon_run *run, uint32_t enable, struct silicon_task *task)
{
    *task = (struct silicon_task){0};
    if (!check_enable(run, enable) || !check_fixed(run) || !decode_precision(run, task) || !decode_size(run, task) ||
        !decode_addresses(run, task))
        return false;
    decode_output(run, task);
    if (!check_banks(run, task) || !(task->int4 ? check_rows_int4(run, task) : check_rows_int8(run, task)))
        return false;
    /* No published task comes near; it bounds what a random program can ask for. */
    if ((uint64_t)task->rows * task->n > 1ull << 28)
        return silicon_stop(run, ORK_SILICON_CONFIG, "%" PRIu32 " rows of %" PRIu32 " channels", task->rows, task->n);
    task->shape.type = task->int4 ? ORK_NPU_W4A4 : ORK_NPU_W8A8;
    task->shape.input = task->group_line_off ? ORK_NPU_ROWS : ORK_NPU_NATIVE;
    task->shape.m = task->rows;
    task->shape.k = task->k;
    task->shape.n = task->n;
    return true;
}
