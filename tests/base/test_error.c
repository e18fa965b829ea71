/* Guards what a user reads when something is wrong: one line, the right kind, and the nearest name. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_all_parts_are_filled(void **state)
{
    (void)state;
    ork_error error;
    memset(&error, 0xa5, sizeof error);
    assert_int_equal(ork_error_set(&error, ORK_BAD_FILE, "model.gguf", 24, "%u tensors, limit %u", 9u, 8u),
                     ORK_BAD_FILE);
    assert_int_equal(error.code, ORK_BAD_FILE);
    assert_int_equal(error.offset, 24);
    assert_string_equal(error.what, "9 tensors, limit 8");
    assert_string_equal(error.where, "model.gguf");

    assert_int_equal(ork_error_set(&error, ORK_LIMIT, NULL, -1, "full"), ORK_LIMIT);
    assert_string_equal(error.where, "");
    assert_int_equal(error.offset, -1);
}

static void test_nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(ork_error_set(NULL, ORK_IO, "x", 0, "%s", "y"), ORK_IO);
    errno = ENOENT;
    assert_int_equal(ork_error_errno(NULL, "x", "cannot open"), ORK_NOT_FOUND);
    assert_int_equal(ork_error_no_memory(NULL, "x", 1), ORK_NO_MEMORY);
}

/* A tensor name from a hostile file must not break the line or reach the terminal's control codes. */
static void test_control_characters_are_replaced(void **state)
{
    (void)state;
    ork_error error;
    ork_error_set(&error, ORK_BAD_FILE, "a\nb\x1b[31m\x7f", -1, "name %s", "c\r\nd\te");
    assert_string_equal(error.where, "a?b?[31m?");
    assert_string_equal(error.what, "name c??d?e");
    ork_error_set(&error, ORK_BAD_FILE, "\xc3\xa9", -1, "\xe2\x82\xac");
    assert_string_equal(error.where, "\xc3\xa9");
    assert_string_equal(error.what, "\xe2\x82\xac");
}

static void test_long_texts_are_cut_inside_the_struct(void **state)
{
    (void)state;
    char name[5000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    ork_error error;
    ork_error_set(&error, ORK_BAD_FILE, name, 1, "%s", name);
    assert_int_equal(strlen(error.what), sizeof error.what - 1);
    assert_int_equal(strlen(error.where), sizeof error.where - 1);
}

static void test_errno_chooses_the_kind(void **state)
{
    (void)state;
    static const struct {
        int number;
        ork_status status;
    } kinds[] = {{ENOENT, ORK_NOT_FOUND}, {ENOTDIR, ORK_NOT_FOUND}, {ENOMEM, ORK_NO_MEMORY},
                 {EEXIST, ORK_EXISTS},    {EACCES, ORK_IO},         {ENOSPC, ORK_IO}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ork_error error;
        errno = kinds[i].number;
        assert_int_equal(ork_error_errno(&error, "f", "cannot open"), kinds[i].status);
        assert_int_equal(error.code, kinds[i].status);
        char expected[256] = "cannot open: ";
        strncat(expected, strerror(kinds[i].number), sizeof expected - strlen(expected) - 1);
        assert_string_equal(error.what, expected);
    }
    ork_error error;
    assert_int_equal(ork_error_no_memory(&error, "weights", UINT64_C(5000000000)), ORK_NO_MEMORY);
    assert_string_equal(error.what, "out of memory (5000000000 bytes)");
}

static void test_every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int a = ORK_OK; a >= ORK_LIMIT; a--) {
        assert_string_not_equal(ork_status_name((ork_status)a), "unknown status");
        for (int b = ORK_OK; b > a; b--)
            assert_string_not_equal(ork_status_name((ork_status)a), ork_status_name((ork_status)b));
    }
    assert_string_equal(ork_status_name((ork_status)-11), "unknown status");
    assert_string_equal(ork_status_name((ork_status)1), "unknown status");
}

static void test_nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"pack", "info", "verify", "run", "bench", "perplexity", "i4", "i8", "nf4"};
    static const char *const pairs[][2] = {
        {"pack", "pack"},       {"pakc", "pack"},    {"inof", "info"},
        {"verfy", "verify"},    {"benchh", "bench"}, {"perplexty", "perplexity"},
        {"perp", "perplexity"}, {"rnu", "run"},      {"nf5", "nf4"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *found = ork_nearest_name(pairs[i][0], names, sizeof names / sizeof *names);
        if (!found || strcmp(found, pairs[i][1]) != 0)
            fail_msg("%s: nearest is %s, not %s", pairs[i][0], found ? found : "none", pairs[i][1]);
    }
}

static void test_far_words_have_no_nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"pack", "info", "verify"};
    assert_null(ork_nearest_name("quantize", names, 3));
    assert_null(ork_nearest_name("", names, 3));
    assert_null(ork_nearest_name("pack", names, 0));
    char word[4096];
    memset(word, 'p', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_null(ork_nearest_name(word, names, 3));
    const char *const long_names[] = {word};
    assert_null(ork_nearest_name("pack", long_names, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts_are_filled),
        cmocka_unit_test(test_nobody_has_to_listen),
        cmocka_unit_test(test_control_characters_are_replaced),
        cmocka_unit_test(test_long_texts_are_cut_inside_the_struct),
        cmocka_unit_test(test_errno_chooses_the_kind),
        cmocka_unit_test(test_every_status_has_its_own_name),
        cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_far_words_have_no_nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
