/* Guards fault scripts: the grammar with its refusals, what each key does to when a clause strikes, and that a seed gives
 * the same faults for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/npu/device/faults.h"

static struct ork_npu_faults *parse(const char *script)
{
    struct ork_npu_faults *faults = NULL;
    ork_error error = {0};
    if (ork_npu_faults_parse(script, &faults, &error) != ORK_OK)
        fail_msg("\"%s\": %s", script, error.what);
    return faults;
}

static void refuse(const char *script, const char *named)
{
    struct ork_npu_faults *faults = NULL;
    ork_error error = {0};
    assert_int_equal(ork_npu_faults_parse(script, &faults, &error), ORK_BAD_ARGUMENT);
    assert_null(faults);
    assert_string_equal(error.where, "fault script");
    if (!strstr(error.what, named))
        fail_msg("\"%s\" for \"%s\" does not say \"%s\"", error.what, script, named);
}

static void test_grammar(void **state)
{
    (void)state;
    const char *const fine[] = {NULL, "", "  ", ";;", "seed=1", "late", "late:us=5", " late : us = 5 , p = 0.5 ; never ; ",
                                "stop:at=12,after=3;seed=0x10", "late:us=0x20", "memory", "descriptors:limit=0",
                                "flip:words=1048576,core=2,every=3,from=9", "reset-fails:p=1", "switch:p=0"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        ork_npu_faults_free(parse(fine[i]));
    for (int kind = 1; kind < ORK_FAULT_KINDS; kind++) { /* every kind has a name, and it is read */
        char script[64] = "";
        strcat(script, ork_npu_fault_name((enum ork_npu_fault_kind)kind));
        if (kind == ORK_FAULT_DESCRIPTORS)
            strcat(script, ":limit=0");
        struct ork_npu_faults *faults = parse(script);
        const struct ork_npu_fault fault = kind == ORK_FAULT_RESET_FAILS ? ork_npu_faults_next_reset(faults)
                                           : kind == ORK_FAULT_SWITCH    ? ork_npu_faults_next_switch(faults)
                                           : kind == ORK_FAULT_MEMORY || kind == ORK_FAULT_DESCRIPTORS
                                               ? ork_npu_faults_next_allocation(faults, 1, 0, 0)
                                               : ork_npu_faults_next_job(faults, 0);
        assert_int_equal(fault.kind, kind);
        assert_int_equal(ork_npu_faults_count(faults, (enum ork_npu_fault_kind)kind), 1);
        ork_npu_faults_free(faults);
    }
    assert_string_equal(ork_npu_fault_name(ORK_FAULT_KINDS), "unknown");
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("explode", "late, never, stop, constant, untouched, tail, flip, lost, early, dead, wedge, refuse, reset-fails, "
                      "memory, descriptors, switch");
    refuse("none", "unknown fault \"none\"");
    refuse("late:ms=5", "p, at, from, every, core, us");
    refuse("never:us=5", "p, at, from, every, core");
    refuse("late:us", "needs a value");
    refuse("late:us=", "us must be 0 to 3600000000");
    refuse("late:us=3600000001", "us must be 0 to 3600000000");
    refuse("late:us=-1", "not a number");
    refuse("late:us=5x", "not a number");
    refuse("late:us=99999999999999999999999", "out of range");
    refuse("late:p=1.01", "out of range");
    refuse("late:p=.5", "not a number");
    refuse("late:p=0.5.5", "not a number");
    refuse("late:core=3", "core must be 0 to 2");
    refuse("late:every=0", "every must be 1");
    refuse("tail:atoms=0", "atoms must be 1");
    refuse("constant:value=4294967296", "value must be 0 to 4294967295");
    refuse("late:us=1,us=2", "stands twice");
    refuse("late:", "unknown key");
    refuse("late:us=1,", "unknown key");
    refuse("late never", "unknown fault");
    refuse("late,never", "unexpected");
    refuse("late:us=1:p=1", "unexpected");
    refuse("seed", "needs a value");
    refuse("seed=x", "not a number");
    refuse("seed=1,late", "unexpected");
    refuse("descriptors", "needs a limit");
    refuse("late\xff\x01", "unknown fault");
    char *long_script = malloc(65538);
    assert_non_null(long_script);
    memset(long_script, ';', 65537);
    long_script[65537] = 0;
    refuse(long_script, "65537 bytes");
    long_script[65536] = 0;
    ork_npu_faults_free(parse(long_script));
    for (int i = 0; i < 257; i++)
        memcpy(long_script + 5 * i, "late;", 6);
    refuse(long_script, "too many clauses");
    long_script[5 * 256] = 0;
    ork_npu_faults_free(parse(long_script));
    free(long_script);
}

/* Bits of the events 0..63 at which a script strikes on a core. */
static uint64_t strikes(const char *script, uint32_t core)
{
    struct ork_npu_faults *faults = parse(script);
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(ork_npu_faults_next_job(faults, core).kind != ORK_FAULT_NONE) << i;
    ork_npu_faults_free(faults);
    return bits;
}

static void test_when(void **state)
{
    (void)state;
    assert_true(strikes("never", 0) == UINT64_MAX);
    assert_true(strikes("never:p=0", 0) == 0);
    assert_true(strikes("never:at=5", 0) == 1u << 5);
    assert_true(strikes("never:from=60", 0) == 0xfull << 60);
    assert_true(strikes("never:every=16", 0) == 0x0001000100010001u);
    assert_true(strikes("never:from=3,every=16", 0) == 0x0001000100010001ull << 3);
    assert_true(strikes("never:core=1", 0) == 0);
    assert_true(strikes("never:core=1", 1) == UINT64_MAX);
    assert_true(strikes("never:at=70", 0) == 0);
    assert_true(strikes("memory;switch;reset-fails", 0) == 0); /* other classes of events */
    /* The first clause that fits wins, with its own figures or their defaults. */
    struct ork_npu_faults *faults = parse("late:at=1,us=7;late:us=9;stop");
    assert_int_equal(ork_npu_faults_next_job(faults, 0).us, 9);
    assert_int_equal(ork_npu_faults_next_job(faults, 0).us, 7);
    assert_int_equal(ork_npu_faults_count(faults, ORK_FAULT_LATE), 2);
    assert_int_equal(ork_npu_faults_count(faults, ORK_FAULT_STOP), 0);
    assert_int_equal(ork_npu_faults_count(faults, ORK_FAULT_KINDS), 0);
    ork_npu_faults_free(faults);
    faults = parse("tail");
    const struct ork_npu_fault fault = ork_npu_faults_next_job(faults, 0);
    assert_int_equal(fault.atoms, 1);
    assert_int_equal(fault.words, 1);
    assert_int_equal(fault.us, 1000);
    ork_npu_faults_free(faults);
}

static void test_amounts(void **state)
{
    (void)state;
    struct ork_npu_faults *faults = parse("memory:bytes=1000;descriptors:limit=4");
    assert_int_equal(ork_npu_faults_next_allocation(faults, 1000, 0, 0).kind, ORK_FAULT_NONE);
    assert_int_equal(ork_npu_faults_next_allocation(faults, 1001, 0, 0).kind, ORK_FAULT_MEMORY);
    assert_int_equal(ork_npu_faults_next_allocation(faults, 400, 600, 0).kind, ORK_FAULT_NONE);
    assert_int_equal(ork_npu_faults_next_allocation(faults, 400, 601, 0).kind, ORK_FAULT_MEMORY);
    assert_int_equal(ork_npu_faults_next_allocation(faults, UINT64_MAX, UINT64_MAX, 0).kind, ORK_FAULT_MEMORY);
    assert_int_equal(ork_npu_faults_next_allocation(faults, 1, 0, 3).kind, ORK_FAULT_NONE);
    assert_int_equal(ork_npu_faults_next_allocation(faults, 1, 0, 4).kind, ORK_FAULT_DESCRIPTORS);
    ork_npu_faults_free(faults);
}

static void test_random(void **state)
{
    (void)state;
    /* A probability is what it says: 10,000 draws, five standard deviations. */
    struct ork_npu_faults *faults = parse("seed=5;late:p=0.1;never:p=0.5"), *again = parse("seed=5;late:p=0.1;never:p=0.5");
    struct ork_npu_faults *other = parse("seed=6;late:p=0.1;never:p=0.5");
    int differ = 0;
    for (int i = 0; i < 10000; i++) {
        const struct ork_npu_fault a = ork_npu_faults_next_job(faults, (uint32_t)i % 3);
        const struct ork_npu_fault b = ork_npu_faults_next_job(again, (uint32_t)i % 3);
        assert_true(a.kind == b.kind && a.random == b.random && a.us == b.us);
        differ += ork_npu_faults_next_job(other, (uint32_t)i % 3).kind != a.kind;
    }
    const uint64_t late = ork_npu_faults_count(faults, ORK_FAULT_LATE), never = ork_npu_faults_count(faults, ORK_FAULT_NEVER);
    assert_true(late > 850 && late < 1150);
    assert_true(never > 4250 && never < 4750); /* of the 9,000 left */
    assert_true(differ > 1000);
    ork_npu_faults_free(faults);
    ork_npu_faults_free(again);
    ork_npu_faults_free(other);
    /* splitmix64 from state 0 begins with 0xe220a8397b1dcdaf (its published test vector): the first event's `random` is its
     * second output. */
    faults = parse("late");
    assert_true(ork_npu_faults_next_job(faults, 0).random == 0x6e789e6aa1b965f4u);
    ork_npu_faults_free(faults);
    /* One clause's luck does not move another's. */
    uint64_t alone = strikes("late:p=0;never:p=0.3", 0), beside = strikes("late:p=0.2;never:p=0.3", 0);
    assert_true((alone & ~beside) == 0 && alone != beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar), cmocka_unit_test(test_refusals), cmocka_unit_test(test_when),
        cmocka_unit_test(test_amounts), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
