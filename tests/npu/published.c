/* Owns the published measurements (see published.h). Sources: "od" is the ork-driver project's notes as of 2026, on a Radxa
 * ROCK 5B at 1 GHz with LPDDR4X at 2112 MHz; the others are named. */
#include "published.h"

#include "base/checked.h"
#include "engine/npu/limits.h"

#define I8(m_, k_, n_, ...) {.type = ORK_NPU_W8A8, .m = m_, .k = k_, .n = n_, __VA_ARGS__}
#define I4(m_, k_, n_, ...) {.type = ORK_NPU_W4A4, .m = m_, .k = k_, .n = n_, __VA_ARGS__}
#define SUBMIT(cores_, ...) {PUBLISHED_SUBMIT, cores_, 1, {__VA_ARGS__}}
#define CALL(cores_, ...) {PUBLISHED_CALL, cores_, 1, {__VA_ARGS__}}
#define CALLS(cores_, calls_, ...) {PUBLISHED_CALL, cores_, calls_, {__VA_ARGS__}}
#define DEVICE(cores_, ...) {PUBLISHED_DEVICE, cores_, 1, {__VA_ARGS__}}
#define FIT PUBLISHED_FIT
#define GIVEN PUBLISHED_GIVEN
#define OUT PUBLISHED_OUT
#define US PUBLISHED_US
#define GB_S PUBLISHED_GB_S
#define GOPS PUBLISHED_GOPS
#define TIMES PUBLISHED_TIMES

/* od cuts int8 rows at 64 * (number of schedule steps): 128 rows at k 2048, 64 at 3584 (od 4.2). Its older tiling took one
 * row less than the power of two below 65536 / k: 31 rows at 2048, 15 at 3584, 63 at 1024. Its int4 batch takes 8 rows at
 * k 2048, 32 at 512, and 131072 / k channels, in whole groups of 64 (od 4.2). */
const struct published_row published_rows[] = {
    /* Submit and dispatch (od 5.1). */
    {"tiny blocking call", "od 5.1", 167, US, FIT, CALL(1, I8(1, 64, 64)), {0}, NULL, "64 x 64 assumed"},
    {"chain of 1, 1024x3072", "od 5.1", 8.62, GB_S, FIT, CALL(3, I8(1, 1024, 3072)), {0}, NULL, "365 us"},
    {"chain of 2", "od 5.1", 12.74, GB_S, FIT, CALL(3, I8(1, 1024, 3072, .copies = 2)), {0}, NULL, "494 us"},
    {"chain of 3", "od 5.1", 15.05, GB_S, FIT, CALL(3, I8(1, 1024, 3072, .copies = 3)), {0}, NULL, "627 us"},
    {"chain of 6", "od 5.1", 19.87, GB_S, FIT, CALL(3, I8(1, 1024, 3072, .copies = 6)), {0}, NULL, "950 us"},
    {"chain of 1, 3072x1024", "od 5.1", 8.81, GB_S, OUT, CALL(3, I8(1, 3072, 1024)), {0}, NULL, NULL},
    {"chain of 3", "od 5.1", 15.08, GB_S, OUT, CALL(3, I8(1, 3072, 1024, .copies = 3)), {0}, NULL, NULL},
    {"chain of 6", "od 5.1", 20.17, GB_S, OUT, CALL(3, I8(1, 3072, 1024, .copies = 6)), {0}, NULL, NULL},
    {"one more program in a chain", "od 5.1", 18, US, GIVEN, DEVICE(1, I8(1, 64, 64)), {0}, NULL, NULL},
    {"small op, direct, 3 cores", "od 5.1", 93, US, OUT, SUBMIT(3, I8(1, 1024, 1024)), {0}, NULL,
     "shape not stated, 1024 x 1024 assumed"},
    {"three int4 matmuls of an expert, M=32", "od 5.1", 712, US, OUT,
     CALL(3, I4(32, 2048, 512, .rows = 8, .channels = 64, .copies = 2, .double_rows = true),
          I4(32, 512, 2048, .rows = 32, .channels = 256, .double_rows = true)), {0},
     "shapes and tiling not stated",
     "non-blocking; 2048 x 512 and 512 x 2048 assumed"},
    {"gain of chaining 8 int4 matmuls, M=1", "od 5.1", 3.4, TIMES, OUT, CALL(3, I4(1, 2048, 512, .copies = 8)),
     CALLS(3, 8, I4(1, 2048, 512)), NULL, NULL},
    {"gain of chaining 32 int4 matmuls, M=16", "od 5.1", 3.67, TIMES, OUT,
     CALL(3, I4(16, 2048, 512, .rows = 8, .channels = 64, .copies = 32, .double_rows = true)),
     CALLS(3, 32, I4(16, 2048, 512, .rows = 8, .channels = 64, .double_rows = true)),
     "what counts as the cost of dispatch is not stated", NULL},
    /* One program on one core (npu-hw 8.2). */
    {"one program N=128 K=2048 M=1", "od, hw 8.2", 80, US, FIT, SUBMIT(1, I8(1, 2048, 128)), {0}, NULL, NULL},
    {"M=16", "od, hw 8.2", 80, US, FIT, SUBMIT(1, I8(16, 2048, 128)), {0}, NULL, NULL},
    {"M=32", "od, hw 8.2", 88, US, FIT, SUBMIT(1, I8(32, 2048, 128)), {0}, NULL, NULL},
    {"M=36", "od, hw 8.2", 93, US, FIT, SUBMIT(1, I8(36, 2048, 128)), {0}, NULL, NULL},
    {"one program N=128 K=3584 M=8", "od, hw 8.2", 98, US, FIT, SUBMIT(1, I8(8, 3584, 128)), {0}, NULL, NULL},
    {"M=16", "od, hw 8.2", 105, US, FIT, SUBMIT(1, I8(16, 3584, 128)), {0}, NULL, NULL},
    /* Bandwidth (od 5.2). */
    {"int8 weights, all cores", "od 5.2", 28.5, GB_S, GIVEN, DEVICE(3, I8(1, 3584, 18944)), {0}, NULL, NULL},
    {"int8 tiles, one core", "od 5.2", 11, GB_S, GIVEN, DEVICE(1, I8(15, 3584, 8192)), {0}, NULL, NULL},
    {"int4 weights, all cores", "od 5.2", 10, GB_S, FIT, DEVICE(3, I4(1, 3584, 18944)), {0}, NULL, NULL},
    {"int8 M=1 3584x18944", "od 5.2", 2400, US, OUT, CALL(3, I8(1, 3584, 18944)), {0}, NULL, NULL},
    {"int4 M=1 10752x5120", "od 5.2", 3760, US, FIT, CALL(3, I4(1, 10752, 5120)), {0}, NULL, NULL},
    {"int4 M=1 17408x5120", "od 5.2", 5720, US, FIT, CALL(3, I4(1, 17408, 5120, .k_slice = 10752)), {0}, NULL, NULL},
    {"int4 M=1 21504x5120", "od 5.2", 7110, US, FIT, CALL(3, I4(1, 21504, 5120, .k_slice = 10752)), {0}, NULL, NULL},
    {"int4 M=64 17408x5120", "od 5.2", 30300, US, OUT,
     CALL(3, I4(64, 17408, 5120, .k_slice = 10752, .rows = 1, .double_rows = true)), {0},
     "its programs are not known", "tiling not stated"},
    /* Computing (od 5.3). */
    {"int8 M=512 2048x2048, 1 core", "od 5.3", 5100, US, FIT, CALL(1, I8(512, 2048, 2048, .rows = 128)), {0}, NULL, NULL},
    {"3 cores", "od 5.3", 2800, US, FIT, CALL(3, I8(512, 2048, 2048, .rows = 128)), {0}, NULL, NULL},
    {"3 cores, other board (LPDDR5)", "od 5.3", 3405, US, OUT, CALL(3, I8(512, 2048, 2048, .rows = 128)), {0},
     "another board, and the same program", NULL},
    {"3 cores, its other kernel", "od 5.3", 3638, US, OUT, CALL(3, I8(512, 2048, 2048, .rows = 128)), {0},
     "as above", NULL},
    {"int8 M=256 3584x3584, 1 core", "od 5.3", 256, GOPS, FIT, CALL(1, I8(256, 3584, 3584, .rows = 15)), {0}, NULL, NULL},
    {"2 cores", "od 5.3", 549, GOPS, FIT, CALL(2, I8(256, 3584, 3584, .rows = 15)), {0}, NULL, NULL},
    {"3 cores", "od 5.3", 700, GOPS, FIT, CALL(3, I8(256, 3584, 3584, .rows = 15)), {0}, NULL, NULL},
    {"int8 M=256 3584x512, 1 core", "od 5.3", 159, GOPS, OUT, CALL(1, I8(256, 3584, 512, .rows = 15)), {0},
     "contradicts the next row: two cores are said to be 2.6 times as fast as one", NULL},
    {"2 cores", "od 5.3", 420, GOPS, FIT, CALL(2, I8(256, 3584, 512, .rows = 15)), {0}, NULL, NULL},
    {"3 cores", "od 5.3", 479, GOPS, FIT, CALL(3, I8(256, 3584, 512, .rows = 15)), {0}, NULL, NULL},
    {"int8 M=256 3584x18944, 1 core", "od 5.3", 264, GOPS, FIT, CALL(1, I8(256, 3584, 18944, .rows = 15)), {0}, NULL, NULL},
    {"2 cores", "od 5.3", 563, GOPS, FIT, CALL(2, I8(256, 3584, 18944, .rows = 15)), {0}, NULL, NULL},
    {"3 cores", "od 5.3", 731, GOPS, FIT, CALL(3, I8(256, 3584, 18944, .rows = 15)), {0}, NULL, NULL},
    {"int8 M=256 18944x3584, 1 core", "od 5.3", 498, GOPS, FIT,
     CALL(1, I8(256, 18944, 3584, .rows = 63, .k_slice = 1024)), {0}, NULL, NULL},
    {"3 cores", "od 5.3", 1413, GOPS, FIT, CALL(3, I8(256, 18944, 3584, .rows = 63, .k_slice = 1024)), {0}, NULL, NULL},
    {"k cut at 1024: 3584x3584", "od 5.3", 1118, GOPS, OUT, CALL(3, I8(256, 3584, 3584, .rows = 63, .k_slice = 1024)), {0},
     NULL, "three cores assumed"},
    {"3584x512", "od 5.3", 476, GOPS, OUT, CALL(3, I8(256, 3584, 512, .rows = 63, .k_slice = 1024)), {0},
     "takes as long as with all of k, though a third of the bytes move",
     "three cores assumed"},
    {"3584x18944", "od 5.3", 994, GOPS, OUT, CALL(3, I8(256, 3584, 18944, .rows = 63, .k_slice = 1024)), {0},
     "contradicts the rows with all of k: 4 ms for the same results there, 10 ms more here",
     "three cores assumed"},
    {"larger row tiles, 2048x2048, 1 core", "od 5.3", 2.1, TIMES, OUT, CALL(1, I8(512, 2048, 2048, .rows = 128)),
     CALL(1, I8(512, 2048, 2048, .rows = 31)), NULL, "M=512 assumed"},
    {"3 cores", "od 5.3", 1.6, TIMES, OUT, CALL(3, I8(512, 2048, 2048, .rows = 128)),
     CALL(3, I8(512, 2048, 2048, .rows = 31)), NULL, "M=512 assumed"},
    {"larger row tiles, 3584x3584", "od 5.3", 1.5, TIMES, OUT, CALL(3, I8(256, 3584, 3584, .rows = 64)),
     CALL(3, I8(256, 3584, 3584, .rows = 15)),
     "M and cores not stated", "M=256 and three cores assumed"},
    {"int8 2048x4096 M=1", "od 5.3", 940, US, FIT, CALL(1, I8(1, 2048, 4096)), {0}, NULL, "one core assumed"},
    {"M=64", "od 5.3", 1310, US, FIT, CALL(1, I8(64, 2048, 4096)), {0}, NULL, "one core assumed"},
    {"M=256", "od 5.3", 3640, US, FIT, CALL(1, I8(256, 2048, 4096, .rows = 128)), {0}, NULL, "one core assumed"},
    {"int4 batch M=128 2048x2048", "od 5.3", 4050, US, FIT,
     CALL(3, I4(128, 2048, 2048, .rows = 8, .channels = 64, .double_rows = true)), {0}, NULL, NULL},
    {"M=128 2048x6144", "od 5.3", 11900, US, FIT,
     CALL(3, I4(128, 2048, 6144, .rows = 8, .channels = 64, .double_rows = true)), {0}, NULL, NULL},
    {"M=256 2048x2048", "od 5.3", 8210, US, FIT,
     CALL(3, I4(256, 2048, 2048, .rows = 8, .channels = 64, .double_rows = true)), {0}, NULL, NULL},
    {"M=128 2048x16384", "od 5.3", 33000, US, OUT,
     CALL(3, I4(128, 2048, 16384, .rows = 8, .channels = 64, .double_rows = true)), {0}, NULL, NULL},
    {"int4 row by row M=256 2048x2048", "od 5.3", 262000, US, OUT, CALLS(1, 256, I4(1, 2048, 2048)), {0}, NULL,
     "a call a row on one core assumed"},
    {"M=128 2048x16384", "od 5.3", 770000, US, OUT, CALLS(1, 128, I4(1, 2048, 16384)), {0}, NULL,
     "a call a row on one core assumed"},
    /* Other systems (npu-hw 8.2). */
    {"vendor runtime int8 128x1024x8192, 1 core", "hw 8.2", 1800, GOPS, GIVEN, SUBMIT(1, I8(128, 1024, 8192)), {0}, NULL,
     NULL},
    {"vendor runtime int4 128x1024x8192, 1 core", "hw 8.2", 4000, GOPS, OUT, SUBMIT(1, I4(128, 1024, 8192)), {0},
     "contradicts the int4 feed of 10 GB/s: one core takes 7.8 here; other programs", NULL},
    {"rknpu2_matmul_open int4 M=256 11008x4096", "hw 8.2", 4000, US, OUT,
     DEVICE(3, I4(256, 11008, 4096, .k_slice = 480)), {0},
     "another system; its int4 feed is not published", "512 rows a program; without its host part"},
};
const unsigned published_row_count = sizeof published_rows / sizeof published_rows[0];

static uint32_t or_all(uint32_t value, uint32_t all)
{
    return value && value < all ? value : all;
}

static uint32_t copies(const struct published_matmul *matmul)
{
    return matmul->copies ? matmul->copies : 1;
}

/* Adds one core's tasks of one matmul. */
static void add_matmul(struct ork_npu_work *work, const struct published_matmul *matmul, uint32_t channels)
{
    const uint32_t rows = or_all(matmul->rows, matmul->m), inputs = or_all(matmul->k_slice, matmul->k);
    const uint32_t width = or_all(matmul->channels, ORK_NPU_N_MAX);
    for (uint32_t n = 0; n < channels; n += width)
        for (uint32_t k = 0; k < matmul->k; k += inputs)
            for (uint32_t m = 0; m < matmul->m; m += rows) {
                struct ork_npu_shape shape = {.type = matmul->type};
                shape.m = or_all(rows, matmul->m - m) * (matmul->double_rows ? 2 : 1);
                shape.k = or_all(inputs, matmul->k - k);
                shape.n = or_all(width, channels - n);
                const struct ork_npu_work before = *work;
                ork_npu_work_add(work, &shape);
                if (matmul->double_rows && m > 0) {
                    work->weight_bytes = before.weight_bytes;
                    work->weight_bytes_i4 = before.weight_bytes_i4;
                }
            }
}

static double call_us(const struct ork_npu_profile *profile, const struct published_call *call)
{
    struct ork_npu_work work = {0};
    double host_bytes = 0, surface_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const struct published_matmul *matmul = &call->matmuls[i];
        const uint32_t group = matmul->type == ORK_NPU_W4A4 ? 64 : 32;
        const uint64_t groups = ork_divide_up(matmul->n, group);
        /* The slowest core has the rounded-up share of the groups. */
        const uint32_t channels = (uint32_t)ork_divide_up(groups, call->cores) * group;
        for (uint32_t copy = 0; copy < copies(matmul); copy++)
            add_matmul(&work, matmul, channels);
        const double results = (double)matmul->m * matmul->n * copies(matmul);
        const uint64_t slices = matmul->m ? ork_divide_up(matmul->k, or_all(matmul->k_slice, matmul->k)) : 0;
        host_bytes += (double)matmul->m * matmul->k * copies(matmul) + 4 * results;
        surface_bytes += results * (double)slices * (matmul->type == ORK_NPU_W4A4 ? 2 : 4);
    }
    double us = ork_npu_timing_job(profile, &work, call->cores) * 1e6;
    if (call->path != PUBLISHED_DEVICE)
        us += profile->submit_us + profile->complete_us;
    if (call->path == PUBLISHED_CALL)
        us += profile->host_call_us + profile->host_core_us * call->cores +
              host_bytes / profile->host_bytes_per_s * 1e6 +
              surface_bytes / (profile->host_surface_bytes_per_s * call->cores) * 1e6;
    return us * call->calls;
}

double published_model(const struct ork_npu_profile *profile, const struct published_row *row)
{
    const double us = call_us(profile, &row->call);
    double weights = 0, operations = 0;
    for (int i = 0; i < 2; i++) {
        const struct published_matmul *matmul = &row->call.matmuls[i];
        const double pairs = (double)matmul->k * matmul->n * copies(matmul);
        weights += matmul->type == ORK_NPU_W4A4 ? pairs / 2 : pairs;
        operations += 2 * pairs * matmul->m;
    }
    switch (row->unit) {
    case PUBLISHED_GB_S: return weights * 1e-3 / us;
    case PUBLISHED_GOPS: return operations * 1e-3 / us;
    case PUBLISHED_TIMES: return call_us(profile, &row->versus) / us;
    case PUBLISHED_US: break;
    }
    return us;
}

const char *const published_not_modelled[] = {
    "od 5.1, M=1 floor of a probe 174 to 407 us, floor inside a language model 365 us: a range and a sum over unknown shapes",
    "od 5.1, FFN handler 872 and 890 us: most of it is host time that its authors could not explain",
    "od 5.1, daemon transport, share of building programs, KV packing: host software",
    "od 5.1, first submits 11.7 ms: with memory parked at 528 MHz",
    "od 5.2, stalls, settling times and drains: rates of faults, which are the fault script's subject",
    "od 5.2, CPU rates and NVMe: not the NPU; the CPU's stand in the board file",
    "od 5.3, fp16 (256x3584x3584 28.2 ms and others) and host transposes: no fp16 programs here",
    "od 5.3, wide shapes against the closed runtime, closed runtime M=512 1391 GFLOP/s: cores and tiling are not known",
    "od 5.3, int4 old batch M=256 22 ms: its tiling is not known",
    NULL};
