/* Times every row of every kernel table on one thread: weight bytes per second with one token row (bandwidth),
 * multiply- accumulates per second with 64 rows (compute), and the vector functions. Each figure is a median of
 * interleaved rounds; a read-bandwidth probe runs before and after, because shared machines are noisy. Part of the
 * kernel harness:
 *
 *   checkkernels --bench [FILTER]     FILTER: part of a row's name: nf4_avx512, vector_softmax */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "matmul_case.h"

enum { ROUNDS = 7, TIER_COUNT = ORK_TIER_NF4 + 1, VECTOR_LENGTH = 2048, KEY_ROWS = 256, KEY_LENGTH = 64 };

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

struct vector_memory {
    float a[VECTOR_LENGTH * 4], b[VECTOR_LENGTH], y[VECTOR_LENGTH], keys[KEY_ROWS * KEY_LENGTH];
    uint16_t halves[KEY_ROWS * KEY_LENGTH];
    int8_t plain[VECTOR_LENGTH], split[VECTOR_LENGTH];
    float scales[VECTOR_LENGTH / 32];
    int32_t sums[VECTOR_LENGTH / 32];
};

static void call_vector(const struct ork_vector_kernels *v, int which, struct vector_memory *s)
{
    const float *taps[3] = {s->a, s->b, s->a + 7};
    struct ork_activation x = {.rows = 1,
                               .k = VECTOR_LENGTH,
                               .k_padded = VECTOR_LENGTH,
                               .block = 128,
                               .blocks = VECTOR_LENGTH / 128,
                               .f32 = s->a,
                               .f32_stride = VECTOR_LENGTH,
                               .plain = s->plain,
                               .split = s->split,
                               .scales = s->scales,
                               .sums = s->sums};
    switch (which) {
    case 0:
        v->rms_norm(s->y, s->a, s->b, VECTOR_LENGTH, 1e-5f);
        break;
    case 1:
        v->add(s->y, s->a, s->b, VECTOR_LENGTH);
        break;
    case 2:
        v->multiply(s->y, s->a, s->b, VECTOR_LENGTH);
        break;
    case 3:
        v->axpy(s->y, s->a, 1e-6f, VECTOR_LENGTH);
        break;
    case 4:
        v->silu_multiply(s->y, s->a, s->b, VECTOR_LENGTH);
        break;
    case 5:
        v->sigmoid(s->y, s->a, VECTOR_LENGTH);
        break;
    case 6:
        v->softmax(s->y, VECTOR_LENGTH, 0.125f);
        break;
    case 7:
        v->quantize(&x, 0);
        break;
    case 8:
        v->rope_adjacent(s->y, s->a, s->b, VECTOR_LENGTH / 2);
        break;
    case 9:
        v->rope_halves(s->y, s->a, s->b, VECTOR_LENGTH / 2);
        break;
    case 10:
        v->scores_f16(s->y, s->a, s->halves, KEY_LENGTH, KEY_ROWS, KEY_LENGTH);
        break;
    case 11:
        v->scores_f32(s->y, s->a, s->keys, KEY_LENGTH, KEY_ROWS, KEY_LENGTH);
        break;
    case 12:
        v->weighted_sum_f16(s->y, s->a, s->halves, KEY_LENGTH, KEY_ROWS, KEY_LENGTH);
        break;
    case 13:
        v->weighted_sum_f32(s->y, s->a, s->keys, KEY_LENGTH, KEY_ROWS, KEY_LENGTH);
        break;
    case 14:
        v->f32_to_f16(s->halves, s->keys, VECTOR_LENGTH);
        break;
    default:
        v->short_conv(s->y, s->a, taps, 3, VECTOR_LENGTH / 2);
        break;
    }
}

static void bench_vectors(struct harness *h, const char *filter)
{
    static const char *const names[] = {
        "vector_rms_norm",      "vector_add",          "vector_multiply",   "vector_axpy",
        "vector_silu_multiply", "vector_sigmoid",      "vector_softmax",    "vector_quantize",
        "vector_rope_adjacent", "vector_rope_halves",  "vector_scores_f16", "vector_scores_f32",
        "vector_weighted_f16",  "vector_weighted_f32", "vector_f32_to_f16", "vector_short_conv"};
    struct vector_memory *s = calloc(1, sizeof *s);
    if (!s)
        exit(2);
    random_floats(&h->seed, FLOATS_NORMAL, s->a, VECTOR_LENGTH * 4);
    random_floats(&h->seed, FLOATS_NORMAL, s->b, VECTOR_LENGTH);
    random_floats(&h->seed, FLOATS_NORMAL, s->keys, KEY_ROWS * KEY_LENGTH);
    for (int which = 0; which < (int)(sizeof names / sizeof names[0]); which++) {
        double times[ORK_ISA_COUNT] = {0};
        if (!strstr(names[which], filter))
            continue;
        printf("%-20s", names[which]);
        for (uint32_t table = 0; table < h->table_count; table++) {
            double rounds[ROUNDS];
            for (int round = 0; round < ROUNDS; round++) {
                double start = now_seconds(), end;
                uint32_t calls = 0;
                do {
                    for (int i = 0; i < 8; i++)
                        call_vector(&h->tables[table].vector, which, s);
                    calls += 8;
                    end = now_seconds();
                } while (end - start < 0.002);
                rounds[round] = (end - start) / calls;
            }
            times[table] = median(rounds, ROUNDS);
            printf("  %s %8.0f ns (%.1f x)", ork_isa_name(h->tables[table].isa), times[table] * 1e9,
                   times[0] / times[table]);
        }
        printf("\n");
        fflush(stdout);
    }
    free(s);
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
    return 0;
}
