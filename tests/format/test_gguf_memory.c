/* Guards the paths without memory: the allocation number n fails, for every n that a load makes, and each time the
 * reader says so, gives nothing and leaks nothing (ASan watches). The linker routes the library's calls here. */
#include "format/gguf_exercise.h"
#include "format/gguf_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static long allocations_left = -1; /* -1: all succeed */

void *__real_malloc(size_t size_bytes);
void *__real_calloc(size_t count, size_t size_bytes);
void *__real_aligned_alloc(size_t alignment, size_t size_bytes);
void *__wrap_malloc(size_t size_bytes);
void *__wrap_calloc(size_t count, size_t size_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes);

static bool may_allocate(void)
{
    if (allocations_left > 0)
        allocations_left--;
    return allocations_left != 0;
}

void *__wrap_malloc(size_t size_bytes)
{
    return may_allocate() ? __real_malloc(size_bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t size_bytes)
{
    return may_allocate() ? __real_calloc(count, size_bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes)
{
    return may_allocate() ? __real_aligned_alloc(alignment, size_bytes) : NULL;
}

/* Many long keys and names, so that the arenas need several blocks. */
static struct ork_buffer large_file(void)
{
    struct gguf_builder b;
    char name[64], *key = malloc(20001);
    gguf_builder_init(&b);
    memset(key, 'k', 20000);
    for (int i = 0; i < 10; i++) {
        snprintf(key + 19990, 11, "%d", i);
        gguf_builder_u32(&b, key, 1);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "tensor.%d", i);
        gguf_builder_tensor(&b, name, ORK_GGML_F32, 1, (uint64_t[]){1}, NULL, 4);
    }
    struct ork_buffer file = gguf_builder_finish(&b);
    gguf_builder_free(&b);
    free(key);
    return file;
}

/* Fails each allocation in turn until the load succeeds; returns how many failed loads that took. */
static long fail_in_turn(const void *data, size_t size_bytes, const char *path)
{
    for (long failing = 1;; failing++) {
        ork_gguf *gguf = NULL;
        ork_error error = {0};
        allocations_left = failing;
        ork_status status =
            path ? ork_gguf_open(path, &gguf, &error) : ork_gguf_parse(data, size_bytes, "memory", &gguf, &error);
        allocations_left = -1;
        if (status == ORK_OK) {
            gguf_exercise(gguf);
            ork_gguf_close(gguf);
            return failing - 1;
        }
        assert_int_equal(status, ORK_NO_MEMORY);
        assert_int_equal(error.code, ORK_NO_MEMORY);
        assert_non_null(strstr(error.what, "out of memory"));
        assert_null(gguf);
    }
}

static void test_parse_without_memory(void **state)
{
    (void)state;
    struct ork_buffer file = large_file();
    assert_true(fail_in_turn(file.data, file.size_bytes, NULL) > 10);
    ork_buffer_free(&file);
}

static void test_split_without_memory(void **state)
{
    (void)state;
    long failed = fail_in_turn(NULL, 0, ORK_SOURCE_DIR "/tests/format/samples/python-split-00001-of-00003.gguf");
    assert_true(failed > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_without_memory),
        cmocka_unit_test(test_split_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
