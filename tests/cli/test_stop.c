/* Guards the hold-back of stop strings: whatever pieces a text comes in, what is shown equals what a plain search over
 * the whole text says, nothing of a stop string leaks, and nothing is lost (the streaming bugs of several servers). */
#include "stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

/* What must be shown of a whole text: everything before the stop that is complete first, the longest if two are. */
static size_t reference(const char *text, size_t size, const char *const *stops, size_t count, bool *found)
{
    size_t end_best = SIZE_MAX, begin_best = size;
    *found = false;
    for (size_t i = 0; i < count; i++)
        for (size_t begin = 0; stops[i][0] && begin + strlen(stops[i]) <= size; begin++) {
            size_t end = begin + strlen(stops[i]);
            if (memcmp(text + begin, stops[i], strlen(stops[i])) != 0)
                continue;
            if (end < end_best || (end == end_best && begin < begin_best)) {
                end_best = end;
                begin_best = begin;
            }
            *found = true;
            break;
        }
    return *found ? begin_best : size;
}

/* Shows a text that comes in random pieces; checks on the way that no byte is shown twice or too early. */
static size_t stream(const char *text, size_t size, const char *const *stops, size_t count, char *shown, bool *found)
{
    char held[128];
    size_t held_size = 0, shown_size = 0, at = 0;
    *found = false;
    while (at < size && !*found) {
        size_t piece = draw(5);
        if (piece > size - at)
            piece = size - at;
        memcpy(held + held_size, text + at, piece);
        held_size += piece;
        at += piece;
        size_t out = cli_stop_scan(held, held_size, stops, count, found);
        assert_true(out <= held_size);
        memcpy(shown + shown_size, held, out);
        shown_size += out;
        memmove(held, held + out, held_size - out);
        held_size -= out;
    }
    if (!*found) { /* the end of the stream: the held tail is text */
        memcpy(shown + shown_size, held, held_size);
        shown_size += held_size;
    }
    return shown_size;
}

static void random_texts_in_random_pieces(void **context)
{
    (void)context;
    unsigned stopped = 0;
    for (unsigned round = 0; round < 200000; round++) {
        char text[48], shown[64], words[4][8];
        const char *stops[4];
        size_t size = draw(sizeof text), count = draw(5);
        unsigned letters = 2 + draw(3); /* few letters, so that stops overlap and nearly match */
        for (size_t i = 0; i < size; i++)
            text[i] = (char)('a' + draw(letters));
        for (size_t i = 0; i < count; i++) {
            size_t length = draw(6); /* an empty one too */
            for (size_t j = 0; j < length; j++)
                words[i][j] = (char)('a' + draw(letters));
            words[i][length] = 0;
            stops[i] = words[i];
        }
        bool expected_found, found;
        size_t expected = reference(text, size, stops, count, &expected_found);
        size_t got = stream(text, size, stops, count, shown, &found);
        assert_int_equal(found, expected_found);
        assert_int_equal(got, expected);
        assert_memory_equal(shown, text, got);
        stopped += found;
    }
    assert_true(stopped > 20000 && stopped < 180000); /* both cases were really tried */
}

static void holds_only_what_may_become_a_stop(void **context)
{
    (void)context;
    const char *stops[] = {"</s>", "User:"};
    bool found;
    assert_int_equal(cli_stop_scan("hello", 5, stops, 2, &found), 5);
    assert_int_equal(cli_stop_scan("hello <", 7, stops, 2, &found), 6);
    assert_int_equal(cli_stop_scan("hello </", 8, stops, 2, &found), 6);
    assert_int_equal(cli_stop_scan("hello </a", 9, stops, 2, &found), 9);
    assert_int_equal(cli_stop_scan("Use", 3, stops, 2, &found), 0);
    assert_false(found);
    assert_int_equal(cli_stop_scan("a User: b", 9, stops, 2, &found), 2);
    assert_true(found);
}

static void one_stop_is_the_beginning_of_another(void **context)
{
    (void)context;
    const char *stops[] = {"ab", "abc", "b"};
    bool found;
    /* "ab" and "b" are complete together: the longer one counts; "abc" can never be reached. */
    assert_int_equal(cli_stop_scan("xabc", 4, stops, 3, &found), 1);
    assert_true(found);
    /* "abcd" would begin earlier, but "bc" is complete first. */
    const char *crossing[] = {"abcd", "bc"};
    assert_int_equal(cli_stop_scan("xabcd", 5, crossing, 2, &found), 2);
    assert_true(found);
}

static void bytes_of_any_value(void **context)
{
    (void)context;
    const char *stops[] = {"\xf0\x9f\x98\x80"};
    bool found;
    assert_int_equal(cli_stop_scan("a\0b\xf0\x9f", 5, stops, 1, &found), 3);
    assert_false(found);
    assert_int_equal(cli_stop_scan("a\0b\xf0\x9f\x98\x80", 7, stops, 1, &found), 3);
    assert_true(found);
    assert_int_equal(cli_stop_scan("abc", 3, NULL, 0, &found), 3);
    assert_false(found);
    assert_int_equal(cli_stop_scan("", 0, stops, 1, &found), 0);
    assert_false(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_in_random_pieces),
        cmocka_unit_test(holds_only_what_may_become_a_stop),
        cmocka_unit_test(one_stop_is_the_beginning_of_another),
        cmocka_unit_test(bytes_of_any_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
