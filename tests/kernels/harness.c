/* See harness.h. */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char current[256];
static sigjmp_buf survivor;
static volatile sig_atomic_t guarding;

void harness_check(struct harness *h, bool good, const char *format, ...)
{
    if (good) {
        h->passed++;
        return;
    }
    if (h->failed++ < 40) {
        va_list list;
        va_start(list, format);
        fputs("FAIL ", stdout);
        vprintf(format, list);
        putchar('\n');
        va_end(list);
    }
}

void harness_hash(struct harness *h, uint32_t table, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    uint64_t hash = h->checksums[table];
    for (size_t i = 0; i < size_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    h->checksums[table] = hash;
}

void harness_now(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(current, sizeof current, format, list);
    va_end(list);
}

static void on_signal(int number)
{
    if (guarding)
        siglongjmp(survivor, number);
    _exit(2);
}

bool harness_survives(void (*function)(void *context), void *context)
{
    static bool installed;
    if (!installed) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
        const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            sigaction(signals[i], &action, NULL);
        installed = true;
    }
    int number = sigsetjmp(survivor, 1);
    if (number != 0) {
        guarding = 0;
        printf("CRASH signal %d in %s\n", number, current);
        return false;
    }
    guarding = 1;
    function(context);
    guarding = 0;
    return true;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t random_u64(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t random_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)((random_u64(state) >> 32) * limit >> 32);
}

float random_unit(uint64_t *state)
{
    return (float)((int32_t)(random_u64(state) >> 40) - (1 << 23)) * 0x1p-23f;
}

float random_normal(uint64_t *state)
{
    float sum = random_unit(state) + random_unit(state);
    return sum + random_unit(state) + random_unit(state);
}

static float random_float(uint64_t *state, enum float_style style)
{
    const float special[] = {0.0f, -0.0f, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
    float power = 1.0f;
    switch (style) {
    case FLOATS_SMALL:
        return random_normal(state) * 1e-3f;
    case FLOATS_SMALLER:
        return random_normal(state) * 1e-4f;
    case FLOATS_LARGE:
        return random_normal(state) * 1e4f;
    case FLOATS_ZERO:
        return 0.0f;
    case FLOATS_SUBNORMAL:
        return random_unit(state) * 0x1p-127f;
    case FLOATS_TINY:
        return random_normal(state) * 1e-30f;
    case FLOATS_HUGE:
        return random_normal(state) * 1e30f;
    case FLOATS_SPREAD:
        if (random_below(state, 16) == 0)
            return special[random_below(state, 2)];
        for (uint32_t i = random_below(state, 31); i > 0; i--)
            power *= 2.0f;
        return random_below(state, 2) ? random_normal(state) * power : random_normal(state) / power;
    case FLOATS_NOT_FINITE:
        return random_below(state, 8) == 0 ? special[2 + random_below(state, 3)] : random_normal(state);
    default:
        return random_normal(state);
    }
}

void random_floats(uint64_t *state, enum float_style style, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = random_float(state, style);
}

static struct guarded allocate(size_t size_bytes, bool front)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded buffer = {.size_bytes = size_bytes};
    size_t inner = (size_bytes + page - 1) / page * page;
    buffer.mapping_bytes = inner + 2 * page;
    buffer.mapping = mmap(NULL, buffer.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer.mapping == MAP_FAILED ||
        (inner > 0 && mprotect((char *)buffer.mapping + page, inner, PROT_READ | PROT_WRITE) != 0)) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    if (inner > (size_t)4 << 20) /* only benchmarks are this large; weights of a model lie in huge pages */
        madvise((char *)buffer.mapping + page, inner, MADV_HUGEPAGE);
    buffer.data = (char *)buffer.mapping + page + (front ? 0 : inner - size_bytes);
    return buffer;
}

struct guarded guarded_allocate(size_t size_bytes)
{
    return allocate(size_bytes, false);
}

struct guarded guarded_allocate_front(size_t size_bytes)
{
    return allocate(size_bytes, true);
}

void guarded_free(struct guarded *buffer)
{
    if (buffer->mapping)
        munmap(buffer->mapping, buffer->mapping_bytes);
    memset(buffer, 0, sizeof *buffer);
}
