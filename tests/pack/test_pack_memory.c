/* Guards packing, verifying and cards without memory: the allocation number n fails, for every n, and each time the call
 * says so, leaves no pack and leaks nothing (ASan watches). The linker routes the library's calls here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pack/source.h"

#include <stdatomic.h>

static atomic_long allocations_left = -1; /* -1: all succeed */

void *__real_malloc(size_t size_bytes);
void *__real_calloc(size_t count, size_t size_bytes);
void *__real_realloc(void *pointer, size_t size_bytes);
void *__real_aligned_alloc(size_t alignment, size_t size_bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size_bytes);
void *__wrap_calloc(size_t count, size_t size_bytes);
void *__wrap_realloc(void *pointer, size_t size_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes);
char *__wrap_strdup(const char *text);

static bool may_allocate(void)
{
    long left = atomic_load(&allocations_left);
    while (left > 0 && !atomic_compare_exchange_weak(&allocations_left, &left, left - 1))
        continue;
    return left != 0;
}

void *__wrap_malloc(size_t size_bytes)
{
    return may_allocate() ? __real_malloc(size_bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t size_bytes)
{
    return may_allocate() ? __real_calloc(count, size_bytes) : NULL;
}

void *__wrap_realloc(void *pointer, size_t size_bytes)
{
    return may_allocate() ? __real_realloc(pointer, size_bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size_bytes)
{
    return may_allocate() ? __real_aligned_alloc(alignment, size_bytes) : NULL;
}

char *__wrap_strdup(const char *text)
{
    return may_allocate() ? __real_strdup(text) : NULL;
}

static int make_place(void **state)
{
    struct source_place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    source_open_place(place);
    source_write(place);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct source_place *place = *state;
    assert_true(source_close_place(place));
    free(place);
    return 0;
}

static ork_status pack(const struct source_place *place, ork_error *error)
{
    static const char *const rules[] = {"attn_q.weight=i4", "exps=nf4"};
    const ork_pack_params params = {.tier_rules = rules, .tier_rule_count = 2, .threads = 2};
    return ork_pack_file(place->gguf, place->pack, &params, NULL, error);
}

static ork_status verify(const struct source_place *place, ork_error *error)
{
    return ork_verify_file(place->pack, NULL, NULL, NULL, error);
}

static ork_status card(const struct source_place *place, ork_error *error)
{
    ork_card *found = NULL;
    ork_status status = ork_card_open(place->pack, &found, error);
    assert_true((status == ORK_OK) == (found != NULL));
    ork_card_close(found);
    return status;
}

/* Fails each allocation in turn until the call succeeds; returns how many failed. */
static long fail_in_turn(const struct source_place *place, ork_status (*call)(const struct source_place *, ork_error *))
{
    for (long failing = 1;; failing++) {
        ork_error error = {0};
        atomic_store(&allocations_left, failing);
        ork_status status = call(place, &error);
        atomic_store(&allocations_left, -1);
        if (status == ORK_OK)
            return failing - 1;
        if (status != ORK_NO_MEMORY)
            fail_msg("allocation %ld: %s: %s", failing, error.where, error.what);
        assert_int_equal(error.code, ORK_NO_MEMORY);
        if (call == pack) {
            assert_false(source_is_there(place->pack));
            /* Only a run that failed after its last tensor may leave something: all its work. */
            assert_true(source_is_there(place->partial) == source_is_there(place->journal));
            unlink(place->partial);
            unlink(place->journal);
        }
    }
}

static void test_every_allocation_may_fail(void **state)
{
    const struct source_place *place = *state;
    assert_true(fail_in_turn(place, pack) > 30);
    assert_true(fail_in_turn(place, verify) > 5);
    assert_true(fail_in_turn(place, card) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
