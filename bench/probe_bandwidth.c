/* Measures how fast this machine reads memory at the moment: the yardstick beside every speed that is reported.
 *
 *   probe_bandwidth [-t THREADS] [-s MEGABYTES] [-r REPETITIONS]
 *
 * Each thread reads its part of one buffer as four streams side by side (a single stream leaves a third of the bandwidth
 * unused on many machines) with plain C that a compiler can vectorize for any machine. Prints one line of JSON with the
 * best and the median rate in 10^9 bytes a second. Must not know ork. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Parts of the buffer are cut at multiples of LANES words. */
enum { STREAMS = 4, LANES = 16, THREADS_MAX = 256, REPETITIONS_MAX = 1000 };

struct part {
    const uint64_t *words;
    size_t count; /* of words, a multiple of STREAMS * LANES */
    pthread_barrier_t *barrier;
    unsigned repetitions;
    uint64_t sum;
};

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A vector type, because a loop over an array of sums is kept in memory by some compilers, and then measures that. */
typedef uint64_t vector __attribute__((vector_size(32), aligned(32)));
enum { VECTOR_WORDS = sizeof(vector) / sizeof(uint64_t) };

static uint64_t read_streams(const uint64_t *words, size_t count)
{
    size_t quarter = count / STREAMS / VECTOR_WORDS;
    const vector *a = (const vector *)words, *b = a + quarter, *c = b + quarter, *d = c + quarter;
    vector sum_a = {0}, sum_b = {0}, sum_c = {0}, sum_d = {0};
    for (size_t i = 0; i < quarter; i++) {
        sum_a += a[i];
        sum_b += b[i];
        sum_c += c[i];
        sum_d += d[i];
    }
    vector sums = sum_a + sum_b + sum_c + sum_d;
    uint64_t sum = 0;
    for (size_t lane = 0; lane < VECTOR_WORDS; lane++)
        sum += sums[lane];
    return sum;
}

/* Two barriers a repetition: the caller starts and stops its clock between them. */
static void *part_main(void *argument)
{
    struct part *part = argument;
    for (unsigned i = 0; i < part->repetitions; i++) {
        pthread_barrier_wait(part->barrier);
        part->sum += read_streams(part->words, part->count);
        pthread_barrier_wait(part->barrier);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static unsigned long number(const char *text, unsigned long largest)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || end == text || value < 1 || value > largest) {
        fprintf(stderr, "probe_bandwidth: %s is not a number from 1 to %lu\n", text, largest);
        exit(2);
    }
    return value;
}

static uint64_t *make_buffer(size_t size_bytes)
{
    void *buffer = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) {
        perror("probe_bandwidth: no memory");
        exit(1);
    }
    madvise(buffer, size_bytes, MADV_HUGEPAGE);
    memset(buffer, 1, size_bytes); /* pages that were never written are all one zero page */
    return buffer;
}

int main(int argc, char **argv)
{
    unsigned threads = 1, repetitions = 5;
    size_t size_bytes = (size_t)1 << 30;
    for (int option; (option = getopt(argc, argv, "t:s:r:")) != -1;) {
        if (option == 't')
            threads = (unsigned)number(optarg, THREADS_MAX);
        else if (option == 's')
            size_bytes = number(optarg, 1 << 20) << 20;
        else if (option == 'r')
            repetitions = (unsigned)number(optarg, REPETITIONS_MAX);
        else
            return 2;
    }
    uint64_t *words = make_buffer(size_bytes);
    size_t step = STREAMS * LANES, count = size_bytes / sizeof *words / threads / step * step;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, threads + 1);
    static struct part parts[THREADS_MAX];
    static pthread_t handles[THREADS_MAX];
    for (unsigned i = 0; i < threads; i++) {
        parts[i] = (struct part){words + i * count, count, &barrier, repetitions, 0};
        if (pthread_create(&handles[i], NULL, part_main, &parts[i])) {
            fprintf(stderr, "probe_bandwidth: cannot start a thread\n");
            return 1;
        }
    }
    static double rates[REPETITIONS_MAX];
    for (unsigned i = 0; i < repetitions; i++) {
        pthread_barrier_wait(&barrier);
        double start = now_seconds();
        pthread_barrier_wait(&barrier);
        rates[i] = (double)(count * threads * sizeof *words) / (now_seconds() - start) * 1e-9;
    }
    uint64_t sum = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        sum += parts[i].sum;
    }
    qsort(rates, repetitions, sizeof *rates, compare);
    printf("{\"threads\": %u, \"size_bytes\": %zu, \"best_gb_per_s\": %.2f, \"median_gb_per_s\": %.2f, \"sum\": %llu}\n",
           threads, size_bytes, rates[repetitions - 1], rates[repetitions / 2], (unsigned long long)sum);
    return 0;
}
