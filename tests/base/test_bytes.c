/* Guards what every parser stands on: checked arithmetic, the bounded cursor, the growing buffer, the arena; also with
 * an allocator that fails. */
#include "base/arena.h"
#include "base/checked.h"
#include "base/cursor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void *__real_realloc(void *memory, size_t size_bytes);
void *__wrap_realloc(void *memory, size_t size_bytes);
void *__real_aligned_alloc(size_t alignment, size_t size_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes);

static bool allocator_fails;

void *__wrap_realloc(void *memory, size_t size_bytes)
{
    return allocator_fails ? NULL : __real_realloc(memory, size_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes)
{
    return allocator_fails ? NULL : __real_aligned_alloc(alignment, size_bytes);
}

static void test_checked_arithmetic_at_the_edges(void **state)
{
    (void)state;
    uint64_t result;
    assert_true(ork_checked_add(UINT64_MAX - 1, 1, &result));
    assert_true(result == UINT64_MAX);
    assert_false(ork_checked_add(UINT64_MAX, 1, &result));
    assert_false(ork_checked_add(UINT64_MAX, UINT64_MAX, &result));
    assert_true(ork_checked_multiply(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &result));
    assert_true(result == UINT64_C(0xffffffff00000000));
    assert_false(ork_checked_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32, &result));
    assert_true(ork_checked_multiply(0, UINT64_MAX, &result));
    assert_true(result == 0);

    static const uint64_t aligned[][3] = {
        {0, 4096, 0}, {1, 4096, 4096}, {4096, 4096, 4096}, {4097, 4096, 8192}, {7, 1, 7}};
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) {
        assert_true(ork_checked_align(aligned[i][0], aligned[i][1], &result));
        assert_true(result == aligned[i][2]);
    }
    assert_true(ork_checked_align(UINT64_MAX - 4095, 4096, &result));
    assert_true(result == UINT64_MAX - 4095);
    assert_false(ork_checked_align(UINT64_MAX - 4094, 4096, &result));

    assert_true(ork_round_up(33, 32) == 64 && ork_round_up(64, 32) == 64 && ork_round_up(0, 32) == 0);
    assert_true(ork_divide_up(33, 32) == 2 && ork_divide_up(32, 32) == 1 && ork_divide_up(0, 32) == 0);
}

static void test_cursor_reads_little_endian(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
                                    0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0,    0,    0x80, 0xbf, /* -1.0f */
                                    0,    0,    0,    0,    0,    0,    0xf0, 0x7f /* infinity */};
    struct ork_cursor cursor = ork_cursor_make(bytes, sizeof bytes);
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
    assert_true(ork_cursor_u8(&cursor, &u8) && u8 == 0x01);
    assert_true(ork_cursor_u16(&cursor, &u16) && u16 == 0x0302);
    assert_true(ork_cursor_u32(&cursor, &u32) && u32 == 0x07060504);
    assert_true(ork_cursor_u64(&cursor, &u64) && u64 == UINT64_C(0x0f0e0d0c0b0a0908));
    assert_true(ork_cursor_f32(&cursor, &f32) && f32 == -1.0f);
    assert_true(ork_cursor_f64(&cursor, &f64) && isinf(f64) && f64 > 0);
    assert_true(ork_cursor_left(&cursor) == 0);
    assert_false(ork_cursor_u8(&cursor, &u8));
    assert_non_null(ork_cursor_take(&cursor, 0));
}

/* Every read, with every number of bytes left that is too small for it. The bytes lie at the end of an allocation of
 * their own, so that AddressSanitizer sees a read past them. */
static void test_short_reads_move_nothing(void **state)
{
    (void)state;
    for (uint64_t left = 0; left < 8; left++) {
        uint8_t *bytes = malloc(left ? left : 1);
        assert_non_null(bytes);
        memset(bytes, 0xff, left ? left : 1);
        struct ork_cursor cursor = ork_cursor_make(bytes, left);
        uint8_t u8 = 7;
        uint16_t u16 = 7;
        uint32_t u32 = 7;
        uint64_t u64 = 7;
        float f32 = 7;
        double f64 = 7;
        assert_false(ork_cursor_u64(&cursor, &u64));
        assert_false(ork_cursor_f64(&cursor, &f64));
        if (left < 4) {
            assert_false(ork_cursor_u32(&cursor, &u32));
            assert_false(ork_cursor_f32(&cursor, &f32));
        }
        if (left < 2)
            assert_false(ork_cursor_u16(&cursor, &u16));
        if (left < 1)
            assert_false(ork_cursor_u8(&cursor, &u8));
        assert_null(ork_cursor_take(&cursor, left + 1));
        assert_null(ork_cursor_take(&cursor, UINT64_MAX));
        assert_true(cursor.position == 0 && ork_cursor_left(&cursor) == left);
        assert_true(u8 == 7 && u16 == 7 && u32 == 7 && u64 == 7 && f32 == 7 && f64 == 7);
        assert_ptr_equal(ork_cursor_take(&cursor, left), bytes);
        assert_true(ork_cursor_left(&cursor) == 0);
        /* At the end, no size may wrap around to a position that exists. */
        if (left)
            assert_null(ork_cursor_take(&cursor, UINT64_MAX - left + 1));
        free(bytes);
    }
}

static void test_buffer_writes_what_the_cursor_reads(void **state)
{
    (void)state;
    struct ork_buffer buffer = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        ork_buffer_u8(&buffer, (uint8_t)i);
        ork_buffer_u16(&buffer, (uint16_t)(i * 257));
        ork_buffer_u32(&buffer, i * UINT32_C(2654435761));
        ork_buffer_u64(&buffer, i * UINT64_C(0x9e3779b97f4a7c15));
        ork_buffer_f32(&buffer, (float)i * -0.5f);
        ork_buffer_f64(&buffer, (double)i / 3);
    }
    ork_buffer_append(&buffer, "end", 3);
    ork_buffer_append(&buffer, NULL, 0);
    assert_false(buffer.failed);
    assert_int_equal(buffer.size_bytes, 1000 * 27 + 3);
    static const uint8_t first[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80};
    assert_memory_equal(buffer.data, first, sizeof first); /* -0.0f ends in 0x80: the bytes are little-endian */

    struct ork_cursor cursor = ork_cursor_make(buffer.data, buffer.size_bytes);
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
        assert_true(ork_cursor_u8(&cursor, &u8) && u8 == (uint8_t)i);
        assert_true(ork_cursor_u16(&cursor, &u16) && u16 == (uint16_t)(i * 257));
        assert_true(ork_cursor_u32(&cursor, &u32) && u32 == i * UINT32_C(2654435761));
        assert_true(ork_cursor_u64(&cursor, &u64) && u64 == i * UINT64_C(0x9e3779b97f4a7c15));
        assert_true(ork_cursor_f32(&cursor, &f32) && f32 == (float)i * -0.5f);
        assert_true(ork_cursor_f64(&cursor, &f64) && f64 == (double)i / 3);
    }
    assert_memory_equal(ork_cursor_take(&cursor, 3), "end", 3);
    ork_buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size_bytes, 0);
}

static void test_buffer_remembers_a_failure(void **state)
{
    (void)state;
    struct ork_buffer buffer = {0};
    ork_buffer_append(&buffer, "kept", 4);
    uint8_t *data = buffer.data;
    size_t capacity_bytes = buffer.capacity_bytes;
    uint8_t *large = calloc(1, capacity_bytes);
    assert_non_null(large);
    allocator_fails = true;
    ork_buffer_append(&buffer, large, capacity_bytes);
    allocator_fails = false;
    assert_true(buffer.failed);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(buffer.size_bytes, 4);
    ork_buffer_u8(&buffer, 1); /* would fit, but what it followed is missing */
    assert_int_equal(buffer.size_bytes, 4);
    assert_memory_equal(buffer.data, "kept", 4);
    free(large);
    ork_buffer_free(&buffer);
    assert_false(buffer.failed);
}

static void test_buffer_refuses_impossible_sizes(void **state)
{
    (void)state;
    struct ork_buffer buffer = {0};
    ork_buffer_u8(&buffer, 1);
    ork_buffer_append(&buffer, "x", SIZE_MAX); /* would overflow the sum; must not read or allocate */
    assert_true(buffer.failed);
    ork_buffer_free(&buffer);
    ork_buffer_append(&buffer, "x", SIZE_MAX / 2 + 2); /* would double the capacity past its type */
    assert_true(buffer.failed);
    ork_buffer_free(&buffer);
}

static void test_arena_gives_zeroed_aligned_memory_that_stays(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    struct ork_arena arena = {0};
    uint8_t *pieces[COUNT];
    uint64_t sizes[COUNT], total_bytes = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        sizes[i] = i % 7 == 0 ? 0 : i % 97 == 0 ? 100000 : i * 13 % 1000;
        pieces[i] = ork_arena_allocate(&arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 64, 0);
        for (uint64_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)(i % 251 + 1), sizes[i]);
        total_bytes += sizes[i];
    }
    for (uint32_t i = 0; i < COUNT; i++)
        for (uint64_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], i % 251 + 1);
    assert_true(arena.total_bytes >= total_bytes);
    assert_string_equal(ork_arena_string(&arena, "cut here", 3), "cut");
    assert_string_equal(ork_arena_string(&arena, "", 0), "");
    ork_arena_free(&arena);
    assert_null(arena.head);
    assert_true(arena.total_bytes == 0);
    ork_arena_free(&arena);
}

static void test_arena_refuses_and_survives(void **state)
{
    (void)state;
    struct ork_arena arena = {0};
    assert_null(ork_arena_allocate(&arena, UINT64_MAX));
    assert_null(ork_arena_allocate(&arena, UINT64_MAX - 64));
    assert_null(ork_arena_array(&arena, UINT64_C(1) << 33, UINT64_C(1) << 33));
    allocator_fails = true;
    assert_null(ork_arena_allocate(&arena, 10));
    assert_null(ork_arena_string(&arena, "abc", 3));
    allocator_fails = false;
    assert_true(arena.total_bytes == 0);
    uint32_t *array = ork_arena_array(&arena, 10, sizeof *array);
    assert_non_null(array);
    array[9] = 9;
    ork_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checked_arithmetic_at_the_edges),
        cmocka_unit_test(test_cursor_reads_little_endian),
        cmocka_unit_test(test_short_reads_move_nothing),
        cmocka_unit_test(test_buffer_writes_what_the_cursor_reads),
        cmocka_unit_test(test_buffer_remembers_a_failure),
        cmocka_unit_test(test_buffer_refuses_impossible_sizes),
        cmocka_unit_test(test_arena_gives_zeroed_aligned_memory_that_stays),
        cmocka_unit_test(test_arena_refuses_and_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
