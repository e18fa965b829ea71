/* Guards that a token costs no memory: after the first ones, decoding, choosing and turning tokens into text call neither
 * malloc nor mmap, on any thread, and 10,000 tokens leave the resident size where it was. The program's own malloc counts;
 * it replaces the C library's for all code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model/fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
static atomic_ulong calls; /* the sanitizer owns malloc */
static const bool counts = false;
#else
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

#define REPLACES __attribute__((visibility("default")))

static atomic_ulong calls;
static const bool counts = true;

REPLACES void *malloc(size_t size)
{
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(size);
}

REPLACES void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, size);
}

REPLACES void *realloc(void *old, size_t size)
{
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(old, size);
}

REPLACES void *aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, size);
}

REPLACES int posix_memalign(void **out, size_t alignment, size_t size)
{
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

REPLACES void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    atomic_fetch_add(&calls, 1);
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
#endif

enum { WARM_UP = 8, TOKENS = 200 };

/* One token: its logits, a choice, its text. */
static void generate(ork_session *session, ork_sampler *sampler, ork_text_stream *stream, ork_token *tokens, size_t count)
{
    ork_error error;
    const char *text;
    size_t size_bytes;
    fixture_check(ork_session_sync(session, tokens, count, count - 1, &error), &error, "sync");
    fixture_check(ork_sampler_sample(sampler, ork_session_logits(session, count - 1), tokens, count, &tokens[count], &error),
                  &error, "sample");
    fixture_check(ork_text_stream_push(stream, tokens[count], &text, &size_bytes, &error), &error, "text");
}

static void expect_none(const char *path, const char *tier, const ork_sampler_params *params)
{
    ork_error error;
    ork_token tokens[WARM_UP + TOKENS + 2] = {1, 2};
    ork_sampler *sampler;
    ork_text_stream *stream;
    struct fixture fixture;
    fixture_open(&fixture, path, tier);
    ork_session *session = fixture_session(&fixture, 2, 256);
    uint32_t vocabulary = (uint32_t)ork_card_get_summary(ork_model_card(fixture.model))->vocabulary_size;
    fixture_check(ork_sampler_create(params, vocabulary, &sampler, &error), &error, "sampler");
    fixture_check(ork_text_stream_create(fixture.model, false, &stream, &error), &error, "stream");
    size_t count = 2;
    for (; count < 2 + WARM_UP; count++)
        generate(session, sampler, stream, tokens, count);
    unsigned long before = atomic_load(&calls);
    for (; count < 2 + WARM_UP + TOKENS; count++)
        generate(session, sampler, stream, tokens, count);
    unsigned long after = atomic_load(&calls);
    assert_int_equal(after - before, 0);
    ork_text_stream_destroy(stream);
    ork_sampler_destroy(sampler);
    ork_session_destroy(session);
    fixture_close(&fixture);
}

static void test_a_token_costs_no_allocation(void **state)
{
    (void)state;
    if (!counts) {
        print_message("SKIPPED: a sanitizer owns malloc\n");
        skip();
    }
    assert_true(atomic_load(&calls) > 0);
    ork_sampler_params greedy = ork_sampler_defaults(), sampled = ork_sampler_defaults();
    greedy.temperature = 0.0f;
    sampled.temperature = 0.8f;
    static const char *const paths[] = {"tests/compat/tiny/lfm2moe.gguf", "tests/compat/tiny/qwen3moe.gguf",
                                        "tests/compat/tiny/llama.gguf"};
    static const char *const tiers[] = {"nf4", "i8", "f32"};
    for (int i = 0; i < 3; i++) {
        expect_none(paths[i], tiers[i], &greedy);
        expect_none(paths[i], tiers[i], &sampled);
    }
}

static long resident_bytes(void)
{
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* The context is filled again and again, so that its cache's own pages are there after the first turn. */
static void test_memory_does_not_grow(void **state)
{
    (void)state;
    if (!counts) {
        print_message("SKIPPED: a sanitizer keeps freed memory\n");
        skip();
    }
    enum { CONTEXT = 250, TURNS = 40 }; /* 10,000 tokens */
    ork_error error;
    ork_token tokens[CONTEXT];
    struct fixture fixture;
    fixture_open(&fixture, "tests/compat/tiny/lfm2moe.gguf", "nf4");
    ork_session *session = fixture_session(&fixture, 2, 256);
    for (int i = 0; i < CONTEXT; i++)
        tokens[i] = (ork_token)(i * 37 % 300);
    long settled = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t count = 1; count <= CONTEXT; count++)
            fixture_check(ork_session_sync(session, tokens, count, count - 1, &error), &error, "sync");
        if (turn == 0)
            settled = resident_bytes();
        ork_session_clear(session);
    }
    long grown = resident_bytes() - settled;
    if (grown > 128 * 1024)
        fail_msg("%ld bytes more are resident after %d tokens", grown, CONTEXT * TURNS);
    ork_session_destroy(session);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_token_costs_no_allocation),
                                       cmocka_unit_test(test_memory_does_not_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
