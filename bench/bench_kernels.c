/* Times every row of every kernel table on one thread: weight bytes per second with one token row (bandwidth),
 * multiply- accumulates per second with 64 rows (compute), the vector functions and the NPU's surfaces. Each figure is a median of
 * interleaved rounds; a read-bandwidth probe runs before and after, because shared machines are noisy. Part of the
 * kernel harness:
 *
 *   checkkernels --bench [FILTER]     FILTER: part of a row's name: nf4_avx512, vector_softmax, surface_output */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "matmul_case.h"

enum { ROUNDS = 7, TIER_COUNT = ORK_TIER_I6 + 1, VECTOR_LENGTH = 2048 };

/* Time of this thread alone: what other processes take does not count. */
static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

/* GB/s of reading `words` with one or four streams side by side. */
static double read_streams(const uint64_t *memory, size_t words, size_t streams)
{
    static volatile uint64_t sink;
    const size_t length = words / streams;
    uint64_t sums[4][8] = {{0}};
    double start = now_seconds();
    for (size_t i = 0; i + 8 <= length; i += 8)
        for (size_t stream = 0; stream < streams; stream++)
            for (size_t j = 0; j < 8; j++)
                sums[stream][j] += memory[stream * length + i + j];
    double seconds = now_seconds() - start;
    for (size_t stream = 0; stream < 4; stream++)
        for (size_t j = 0; j < 8; j++)
            sink += sums[stream][j];
    return (double)words * 8e-9 / seconds;
}

/* Read bandwidth over 256 MiB in huge pages: the better of one stream and four, which differs between machines. */
static double probe_bandwidth(void)
{
    static uint64_t *memory;
    const size_t words = (size_t)256 << 17;
    if (!memory) {
        memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            exit(2);
        madvise(memory, words * 8, MADV_HUGEPAGE);
        memset(memory, 1, words * 8);
    }
    double one = read_streams(memory, words, 1), four = read_streams(memory, words, 4);
    return one > four ? one : four;
}

/* Seconds per call of a matmul over all channels: as many calls as fill 10 ms. */
static double time_matmul(const struct ork_matmul_kernel *row, const struct matmul_case *c)
{
    struct ork_matmul_args args = matmul_case_args(c, 0, c->shape.n);
    double start = now_seconds(), end;
    uint32_t calls = 0;
    do {
        row->run(&args);
        calls++;
        end = now_seconds();
    } while (end - start < 0.01);
    return (end - start) / calls;
}

/* One tier with m rows: one line a table. */
static void bench_matmul(struct harness *h, enum ork_tier tier, uint32_t m, uint32_t block, const char *filter)
{
    struct matmul_shape shape = {.tier = tier, .k = 2048, .m = m, .experts = 1, .x_row_count = m, .block = block};
    /* One row: weights well beyond the last cache (about 96 MB in 4 bits). Many rows: one expert of LFM2-8B-A1B. */
    shape.n = m > 1 ? 1792 : tier >= ORK_TIER_I4 ? 98304 : tier >= ORK_TIER_G8 ? 49152 : 24576;
    static struct matmul_case c;
    static double seconds[ORK_ISA_COUNT][ROUNDS], probes[ROUNDS];
    bool wanted = false;
    for (uint32_t table = 0; table < h->table_count; table++)
        wanted = wanted || strstr(h->tables[table].matmul[tier].name, filter);
    if (!wanted)
        return;
    matmul_case_make(&c, &shape, &h->seed);
    for (int round = 0; round < ROUNDS; round++) {
        double before = m == 1 ? probe_bandwidth() : 0.0;
        for (uint32_t table = 0; table < h->table_count; table++)
            if (strstr(h->tables[table].matmul[tier].name, filter))
                seconds[table][round] = time_matmul(&h->tables[table].matmul[tier], &c);
        double after = m == 1 ? probe_bandwidth() : 0.0;
        probes[round] = before > after ? before : after;
    }
    double scalar = strstr(h->tables[0].matmul[tier].name, filter) ? median(seconds[0], ROUNDS) : 0.0;
    double probe = median(probes, ROUNDS);
    for (uint32_t table = 0; table < h->table_count; table++) {
        const struct ork_matmul_kernel *row = &h->tables[table].matmul[tier];
        if (!strstr(row->name, filter))
            continue;
        double t = median(seconds[table], ROUNDS);
        printf("%-22s m=%-3u block=%-4u ", row->name, m, block);
        if (m == 1)
            printf("%7.2f GB/s  %3.0f %% of read probe (%.1f)", (double)matmul_case_bytes(&c) / t * 1e-9,
                   100.0 * (double)matmul_case_bytes(&c) / t * 1e-9 / probe, probe);
        else
            printf("%7.2f GMAC/s", (double)shape.n * shape.k * m / t * 1e-9);
        printf("  %6.1f x scalar\n", scalar / t);
        fflush(stdout);
    }
    matmul_case_free(&c);
}

/* ---- vector functions ---- */

enum { HEAD_SIZE = 64, POSITIONS = 256, TILE_ROWS = 48, GROUP_ROWS = 4, CONV_ROWS = 8, CONV_CHANNELS = 256 };

struct vector_memory { /* every array begins at a cache line, as the engine's rows do */
    _Alignas(64) float a[VECTOR_LENGTH * 4], b[VECTOR_LENGTH], y[VECTOR_LENGTH];
    uint16_t halves[VECTOR_LENGTH], keys[POSITIONS * HEAD_SIZE], values[POSITIONS * HEAD_SIZE];
    int8_t plain[VECTOR_LENGTH], split[VECTOR_LENGTH];
    float scales[VECTOR_LENGTH / 32];
    int32_t sums[VECTOR_LENGTH / 32];
    float state[VECTOR_LENGTH], states[TILE_ROWS * ORK_ATTEND_STATE(HEAD_SIZE)], scratch[ORK_ATTEND_SCRATCH(HEAD_SIZE)];
};

static void run_rms_norm(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->rms_norm(s->y, s->a, s->b, VECTOR_LENGTH, 1e-5f);
}

/* Not a kernel: what the nearest cache gives to loads and stores. */
static void run_copy(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    (void)v;
    memcpy(s->y, s->a, sizeof s->y);
    __asm__ volatile("" ::: "memory");
}

static void run_add(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->add(s->y, s->a, s->b, VECTOR_LENGTH);
}

static void run_multiply(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->multiply(s->y, s->a, s->b, VECTOR_LENGTH);
}

static void run_axpy(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->axpy(s->y, s->a, 1e-6f, VECTOR_LENGTH);
}

static void run_silu_multiply(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->silu_multiply(s->y, s->a, s->b, VECTOR_LENGTH);
}

static void run_sigmoid(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->sigmoid(s->y, s->a, VECTOR_LENGTH);
}

static void run_softmax(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->softmax(s->y, VECTOR_LENGTH, 0.125f);
}

static void run_quantize(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    struct ork_activation x = {.rows = 1,
                               .k = VECTOR_LENGTH,
                               .k_padded = VECTOR_LENGTH,
                               .block = 64,
                               .blocks = VECTOR_LENGTH / 64,
                               .f32 = s->a,
                               .f32_stride = VECTOR_LENGTH,
                               .plain = s->plain,
                               .split = s->split,
                               .scales = s->scales,
                               .sums = s->sums};
    v->quantize(&x, 0);
}

static void run_rope_adjacent(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->rope_adjacent(s->y, s->a, s->b, VECTOR_LENGTH / 2);
}

static void run_rope_halves(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->rope_halves(s->y, s->a, s->b, VECTOR_LENGTH / 2);
}

static void run_f32_to_f16(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    v->f32_to_f16(s->halves, s->a, VECTOR_LENGTH);
}

static void run_short_conv(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    const struct ork_short_conv args = {.b = s->a,
                                        .c = s->a + VECTOR_LENGTH,
                                        .x = s->a + 2 * VECTOR_LENGTH,
                                        .stride = CONV_CHANNELS,
                                        .w = s->b,
                                        .w_stride = CONV_CHANNELS,
                                        .state = s->state,
                                        .state_stride = CONV_CHANNELS,
                                        .y = s->y,
                                        .y_stride = CONV_CHANNELS,
                                        .n = CONV_CHANNELS,
                                        .taps = 3,
                                        .rows = CONV_ROWS};
    v->short_conv(&args);
}

static void run_attend(const struct ork_vector_kernels *v, struct vector_memory *s, uint32_t rows)
{
    struct ork_attend tile = {.rows = rows,
                              .head_size = HEAD_SIZE,
                              .scale = 0.125f,
                              .keys = s->keys,
                              .values = s->values,
                              .scratch = s->scratch};
    for (uint32_t i = 0; i < rows; i++) {
        tile.q[i] = s->a + i * HEAD_SIZE;
        tile.visible[i] = POSITIONS;
    }
    v->attend(&tile, 0, POSITIONS, s->states);
}

static void run_attend_tile(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    run_attend(v, s, TILE_ROWS);
}

static void run_attend_group(const struct ork_vector_kernels *v, struct vector_memory *s)
{
    run_attend(v, s, GROUP_ROWS);
}

/* Amounts a call: bytes that are read and written at least, or multiply-accumulates. */
static const struct vector_bench {
    const char *name;
    void (*run)(const struct ork_vector_kernels *v, struct vector_memory *s);
    double bytes, macs;
} vector_benches[] = {
    {"vector_copy", run_copy, 8.0 * VECTOR_LENGTH, 0},
    {"vector_rms_norm", run_rms_norm, 12.0 * VECTOR_LENGTH, 0},
    {"vector_add", run_add, 12.0 * VECTOR_LENGTH, 0},
    {"vector_multiply", run_multiply, 12.0 * VECTOR_LENGTH, 0},
    {"vector_axpy", run_axpy, 12.0 * VECTOR_LENGTH, 0},
    {"vector_silu_multiply", run_silu_multiply, 12.0 * VECTOR_LENGTH, 0},
    {"vector_sigmoid", run_sigmoid, 8.0 * VECTOR_LENGTH, 0},
    {"vector_softmax", run_softmax, 8.0 * VECTOR_LENGTH, 0},
    {"vector_quantize", run_quantize, 6.0 * VECTOR_LENGTH, 0},
    {"vector_rope_adjacent", run_rope_adjacent, 12.0 * VECTOR_LENGTH, 0},
    {"vector_rope_halves", run_rope_halves, 12.0 * VECTOR_LENGTH, 0},
    {"vector_f32_to_f16", run_f32_to_f16, 6.0 * VECTOR_LENGTH, 0},
    {"vector_short_conv", run_short_conv, 16.0 * CONV_ROWS *CONV_CHANNELS, 0},
    {"vector_attend_tile", run_attend_tile, 0, 2.0 * TILE_ROWS *POSITIONS *HEAD_SIZE},
    {"vector_attend_group", run_attend_group, 0, 2.0 * GROUP_ROWS *POSITIONS *HEAD_SIZE},
};

static double time_vector(const struct ork_vector_kernels *v, const struct vector_bench *bench, struct vector_memory *s)
{
    double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_seconds(), end;
        uint32_t calls = 0;
        do {
            for (int i = 0; i < 8; i++)
                bench->run(v, s);
            calls += 8;
            end = now_seconds();
        } while (end - start < 0.002);
        rounds[round] = (end - start) / calls;
    }
    return median(rounds, ROUNDS);
}

static void bench_vectors(struct harness *h, const char *filter)
{
    struct vector_memory *s = aligned_alloc(64, sizeof *s);
    if (!s)
        exit(2);
    memset(s, 0, sizeof *s);
    random_floats(&h->seed, FLOATS_NORMAL, s->a, VECTOR_LENGTH * 4);
    random_floats(&h->seed, FLOATS_NORMAL, s->b, VECTOR_LENGTH);
    h->tables[0].vector.f32_to_f16(
        s->keys, s->a, POSITIONS * HEAD_SIZE < VECTOR_LENGTH * 4 ? POSITIONS * HEAD_SIZE : VECTOR_LENGTH * 4);
    for (size_t which = 0; which < sizeof vector_benches / sizeof *vector_benches; which++) {
        const struct vector_bench *bench = &vector_benches[which];
        if (!strstr(bench->name, filter))
            continue;
        printf("%-20s", bench->name);
        for (uint32_t table = 0; table < h->table_count; table++) {
            double seconds = time_vector(&h->tables[table].vector, bench, s);
            double amount = bench->bytes > 0 ? bench->bytes : bench->macs;
            printf("  %s %8.0f ns %6.1f %s", ork_isa_name(h->tables[table].isa), seconds * 1e9, amount / seconds * 1e-9,
                   bench->bytes > 0 ? "GB/s" : "GMAC/s");
        }
        printf("\n");
        fflush(stdout);
    }
    free(s);
}

/* ---- surfaces of the NPU ---- */

enum { SURFACE_ROWS = 256, SURFACE_K = 2048, SURFACE_N = 2048, SURFACE_PARTS = 2, BRICK_BYTES = 16 << 20 };

/* A matmul of a prefill's batch; bricks far beyond the caches of a thread. */
struct surface_memory {
    _Alignas(64) int8_t codes[SURFACE_ROWS * SURFACE_K];
    uint8_t input[SURFACE_ROWS * SURFACE_K];
    int32_t parts[SURFACE_PARTS][SURFACE_ROWS * SURFACE_N];
    float y[SURFACE_ROWS * SURFACE_N], x_scales[SURFACE_ROWS], w_scales[SURFACE_N];
    uint32_t weights[SURFACE_N], checks[SURFACE_ROWS], key[SURFACE_K];
    uint8_t bricks[BRICK_BYTES], inflated[BRICK_BYTES];
};

static void run_surface_copy(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    (void)surface;
    memcpy(s->y, s->parts[0], sizeof s->y);
    __asm__ volatile("" ::: "memory");
}

static struct ork_surface_input surface_input(struct surface_memory *s)
{
    return (struct ork_surface_input){
        .codes = s->codes, .stride = SURFACE_K, .m = SURFACE_ROWS, .k = SURFACE_K, .out = s->input};
}

static void run_input_i8(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    const struct ork_surface_input input = surface_input(s);
    surface->input_i8(&input);
}

static void run_input_i4(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    const struct ork_surface_input input = surface_input(s);
    surface->input_i4(&input);
}

static void run_output(void (*run)(const struct ork_surface_output *output), struct surface_memory *s, uint32_t parts)
{
    const void *const pointers[SURFACE_PARTS] = {s->parts[0], s->parts[1]};
    const struct ork_surface_output output = {.parts = pointers,
                                              .part_count = parts,
                                              .m = SURFACE_ROWS,
                                              .n = SURFACE_N,
                                              .n_used = SURFACE_N,
                                              .x_scales = s->x_scales,
                                              .w_scales = s->w_scales,
                                              .y = s->y,
                                              .y_stride = SURFACE_N,
                                              .weights = s->weights,
                                              .checks = s->checks};
    run(&output);
}

static void run_output_i32(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    run_output(surface->output_i32, s, 1);
}

static void run_output_i32_rows(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    run_output(surface->output_i32_rows, s, 1);
}

static void run_output_i16(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    run_output(surface->output_i16, s, SURFACE_PARTS);
}

static void run_row_checks(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    surface->row_checks(s->codes, SURFACE_K, NULL, SURFACE_ROWS, s->key, SURFACE_K, s->checks);
}

static void run_key_i8(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    for (uint32_t group = 0; group < BRICK_BYTES / (SURFACE_K * 32); group++)
        surface->key_i8(s->bricks + group * SURFACE_K * 32, SURFACE_K / 32, s->weights, s->key);
}

static void run_key_i4(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    for (uint32_t group = 0; group < BRICK_BYTES / (SURFACE_K * 32); group++)
        surface->key_i4(s->bricks + group * SURFACE_K * 32, SURFACE_K / 32, s->weights, s->key);
}

/* The residual of n8 stands behind all base bricks. */
static void inflate_bricks(const struct ork_surface_kernels *surface, struct surface_memory *s, enum ork_tier tier,
                           uint32_t brick_bytes)
{
    static const int8_t table[16] = {-127, -88, -66, -50, -36, -23, -11, 0, 10, 20, 31, 43, 56, 71, 92, 127};
    for (uint32_t group = 0; group < BRICK_BYTES / (SURFACE_K * 64); group++) {
        const uint8_t *bricks = s->bricks + (uint64_t)group * SURFACE_K / 32 * brick_bytes;
        surface->inflate(tier, table, bricks, tier == ORK_TIER_N8 ? bricks + BRICK_BYTES / 2 : NULL, SURFACE_K / 32,
                         s->inflated + group * SURFACE_K * 64);
    }
}

static void run_inflate_nf4(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    inflate_bricks(surface, s, ORK_TIER_NF4, 1024);
}

static void run_inflate_i6(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    inflate_bricks(surface, s, ORK_TIER_I6, 1536);
}

static void run_inflate_n8(const struct ork_surface_kernels *surface, struct surface_memory *s)
{
    inflate_bricks(surface, s, ORK_TIER_N8, 1024);
}

/* Bytes that are read and written. */
static const struct surface_bench {
    const char *name;
    void (*run)(const struct ork_surface_kernels *surface, struct surface_memory *s);
    double bytes;
} surface_benches[] = {
    {"surface_copy", run_surface_copy, 8.0 * SURFACE_ROWS *SURFACE_N},
    {"surface_input_i8", run_input_i8, 2.0 * SURFACE_ROWS *SURFACE_K},
    {"surface_input_i4", run_input_i4, 1.5 * SURFACE_ROWS *SURFACE_K},
    {"surface_output_i32", run_output_i32, 8.0 * SURFACE_ROWS *SURFACE_N},
    {"surface_output_i32_rows", run_output_i32_rows, 8.0 * SURFACE_ROWS *SURFACE_N},
    {"surface_output_i16_two", run_output_i16, 8.0 * SURFACE_ROWS *SURFACE_N},
    {"surface_row_checks", run_row_checks, 1.0 * SURFACE_ROWS *SURFACE_K},
    {"surface_key_i8", run_key_i8, BRICK_BYTES},
    {"surface_key_i4", run_key_i4, BRICK_BYTES},
    {"surface_inflate_nf4", run_inflate_nf4, 1.5 * BRICK_BYTES},
    {"surface_inflate_i6", run_inflate_i6, 1.75 * BRICK_BYTES},
    {"surface_inflate_n8", run_inflate_n8, 2.0 * BRICK_BYTES},
};

static double time_surface(const struct ork_surface_kernels *surface, const struct surface_bench *bench,
                           struct surface_memory *s)
{
    double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_seconds(), end;
        uint32_t calls = 0;
        do {
            bench->run(surface, s);
            calls++;
            end = now_seconds();
        } while (end - start < 0.005);
        rounds[round] = (end - start) / calls;
    }
    return median(rounds, ROUNDS);
}

static void bench_surfaces(struct harness *h, const char *filter)
{
    struct surface_memory *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        exit(2);
    madvise(s, sizeof *s, MADV_HUGEPAGE);
    memset(s, 1, sizeof *s);
    random_floats(&h->seed, FLOATS_NORMAL, s->x_scales, SURFACE_ROWS);
    random_floats(&h->seed, FLOATS_NORMAL, s->w_scales, SURFACE_N);
    for (size_t which = 0; which < sizeof surface_benches / sizeof *surface_benches; which++) {
        const struct surface_bench *bench = &surface_benches[which];
        if (!strstr(bench->name, filter))
            continue;
        printf("%-24s", bench->name);
        for (uint32_t table = 0; table < h->table_count; table++) {
            double seconds = time_surface(&h->tables[table].surface, bench, s);
            printf("  %s %8.0f us %6.1f GB/s", h->names[table], seconds * 1e6, bench->bytes / seconds * 1e-9);
        }
        printf("\n");
        fflush(stdout);
    }
    munmap(s, sizeof *s);
}

int bench_kernels(struct harness *h, const char *filter)
{
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        const bool quantized = tier >= ORK_TIER_G8;
        bench_matmul(h, (enum ork_tier)tier, 1, 0, filter);
        if (quantized)
            bench_matmul(h, (enum ork_tier)tier, 1, 128, filter);
        if (quantized)
            bench_matmul(h, (enum ork_tier)tier, 1, 32, filter);
        bench_matmul(h, (enum ork_tier)tier, 4, quantized ? 128 : 0, filter);
        bench_matmul(h, (enum ork_tier)tier, 64, 0, filter);
        if (quantized)
            bench_matmul(h, (enum ork_tier)tier, 64, 128, filter);
        if (quantized)
            bench_matmul(h, (enum ork_tier)tier, 64, 32, filter);
    }
    bench_vectors(h, filter);
    bench_surfaces(h, filter);
    return 0;
}
