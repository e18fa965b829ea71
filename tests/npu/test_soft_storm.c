/* Guards the software device under everything at once: thousands of submits on three cores and several domains with a
 * mixed fault script, allocations and resets in between. Whatever says done without a fault in its output must be right, the
 * end must be consistent, and one seed must give one history, however slowly the workers run.
 * ORK_TEST_SUBMITS: how many (2,000). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "soft_rig.h"

enum { RIGS = 12, GIVE_UP_US = 3000 };

static const char script[] =
    "seed=%u;late:p=0.03,us=10000;never:p=0.01;stop:p=0.01,after=1;constant:p=0.01;untouched:p=0.01;tail:p=0.02,atoms=1;"
    "flip:p=0.02,words=3;lost:p=0.01;early:p=0.02,us=15;wedge:p=0.002;refuse:p=0.02;reset-fails:p=0.1;memory:p=0.1,from=%u;"
    "switch:p=0.02";

struct storm {
    struct ork_npu_device *device;
    struct rig rigs[RIGS];
    uint64_t random, history; /* history: a hash of all that was seen */
    uint32_t flying[RIGS];
    uint64_t right, wrong, given_up;
    bool slow;
};

static uint64_t draw(struct storm *storm)
{
    storm->random = storm->random * 6364136223846793005u + 1442695040888963407u;
    return storm->random >> 33;
}

static void note(struct storm *storm, uint64_t what)
{
    storm->history = (storm->history ^ what) * 0x100000001b3u;
}

/* Real time that has nothing to do with the clock. */
static void dawdle(struct storm *storm)
{
    if (storm->slow)
        ork_clock_monotonic()->sleep_until(ork_clock_monotonic(), ork_clock_now_ns() + 300000);
}

static void reset(struct storm *storm)
{
    ork_error error;
    for (int tries = 0; storm->device->ops->reset(storm->device, &error) != ORK_OK; tries++)
        assert_true(tries < 50);
    for (int i = 0; i < RIGS; i++)
        if (storm->flying[i])
            note(storm, storm->device->ops->poll(storm->device, storm->rigs[i].job));
    memset(storm->flying, 0, sizeof storm->flying);
}

/* Waits for a rig's job; a reset when it does not come. */
static void finish(struct storm *storm, int index)
{
    struct rig *rig = &storm->rigs[index];
    const enum ork_npu_state result = rig_wait(rig, GIVE_UP_US);
    note(storm, (uint64_t)result);
    note(storm, rig_now(rig));
    if (result == ORK_NPU_DONE) {
        const uint32_t wrong = rig_wrong(rig);
        note(storm, wrong);
        storm->right += wrong == 0;
        storm->wrong += wrong != 0;
        storm->flying[index] = 0;
        return;
    }
    storm->given_up++;
    if (storm->device->ops->cancel(storm->device, rig->job))
        storm->flying[index] = 0;
    else
        reset(storm);
}

static void step(struct storm *storm)
{
    const int index = (int)(draw(storm) % RIGS);
    struct rig *rig = &storm->rigs[index];
    if (draw(storm) % 8 == 0)
        dawdle(storm);
    if (storm->flying[index])
        finish(storm, index);
    const ork_status status = rig_submit(rig);
    note(storm, (uint64_t)(int64_t)status);
    if (status == ORK_OK) {
        uint64_t start, end;
        ork_npu_soft_job_times(storm->device, rig->job, &start, &end);
        note(storm, start);
        note(storm, end);
        storm->flying[index] = 1;
    } else {
        assert_int_equal(status, ORK_IO);
        if (draw(storm) % 4 == 0)
            reset(storm); /* a domain may be held by a job that hangs */
    }
    if (draw(storm) % 16 == 0) { /* memory comes and goes beside the jobs */
        struct ork_npu_buffer buffer;
        ork_error error;
        const uint32_t domain = (uint32_t)draw(storm) % 4;
        if (storm->device->ops->allocate(storm->device, domain, 4096 << draw(storm) % 8, &buffer, &error) == ORK_OK)
            storm->device->ops->release(storm->device, &buffer);
    }
}

static uint64_t run(unsigned seed, unsigned submits, bool slow, struct ork_npu_soft_stats *stats)
{
    struct storm storm = {.random = seed, .slow = slow};
    char text[640];
    snprintf(text, sizeof text, script, seed, RIGS * 4u); /* memory fails only after the rigs have theirs */
    storm.device = rig_open(text, false);
    for (uint32_t i = 0; i < RIGS; i++)
        rig_make(&storm.rigs[i], storm.device, i % 3, i < 9 ? 0 : i % 3, 1 + i % 4, 1 + 5 * i % 13, 64 + 32 * (i % 5),
                 32 + 32 * (i % 3));
    for (unsigned i = 0; i < submits; i++)
        step(&storm);
    for (int i = 0; i < RIGS; i++)
        if (storm.flying[i])
            finish(&storm, i);
    reset(&storm);
    ork_npu_soft_get_stats(storm.device, stats);
    const struct ork_npu_faults *faults = ork_npu_soft_faults(storm.device);
    uint64_t struck = 0;
    for (int kind = 1; kind < ORK_FAULT_KINDS; kind++)
        struck += ork_npu_faults_count(faults, (enum ork_npu_fault_kind)kind);
    assert_true(struck * 20 > submits);
    /* Wrong results come from the faults that make them wrong, never more. */
    const uint64_t spoiled =
        ork_npu_faults_count(faults, ORK_FAULT_CONSTANT) + ork_npu_faults_count(faults, ORK_FAULT_UNTOUCHED) +
        ork_npu_faults_count(faults, ORK_FAULT_TAIL) + ork_npu_faults_count(faults, ORK_FAULT_FLIP) +
        ork_npu_faults_count(faults, ORK_FAULT_EARLY);
    assert_true(storm.wrong <= spoiled);
    print_message("%u submits: %llu right, %llu wrong, %llu given up, %llu resets\n", submits,
                  (unsigned long long)storm.right, (unsigned long long)storm.wrong, (unsigned long long)storm.given_up,
                  (unsigned long long)stats->resets);
    assert_true(storm.right * 3 > submits);
    assert_int_equal(stats->completed + stats->dropped, stats->submits);
    assert_int_equal(stats->hangs, 0);
    assert_int_equal(stats->misuses, 0);
    for (unsigned i = 0; i < ORK_NPU_SOFT_ANOMALIES; i++)
        assert_int_equal(stats->anomalies[i], 0);
    for (int i = 0; i < RIGS; i++)
        rig_free(&storm.rigs[i]);
    struct ork_npu_soft_stats after;
    ork_npu_soft_get_stats(storm.device, &after);
    assert_int_equal(after.misuses, 0);
    assert_int_equal(after.held_buffers, 0);
    assert_int_equal(after.held_bytes, 0);
    storm.device->ops->close(storm.device);
    return storm.history;
}

static unsigned submits_wanted(void)
{
    const char *text = getenv("ORK_TEST_SUBMITS");
    return text ? (unsigned)strtoul(text, NULL, 10) : 2000;
}

static void test_storm(void **state)
{
    (void)state;
    struct ork_npu_soft_stats stats;
    run(1, submits_wanted(), false, &stats);
    assert_true(stats.submits * 10 > submits_wanted() * 8ull);
}

static void test_one_history(void **state)
{
    (void)state;
    struct ork_npu_soft_stats fast, slow, other;
    const uint64_t first = run(2, 400, false, &fast), second = run(2, 400, true, &slow);
    assert_true(first == second);
    fast.why[0] = slow.why[0] = 0; /* the last of the workers' reasons is a matter of real time */
    assert_int_equal(fast.submits, slow.submits);
    assert_int_equal(fast.completed, slow.completed);
    assert_int_equal(fast.resets, slow.resets);
    assert_int_equal(fast.switches, slow.switches);
    assert_true(run(3, 400, false, &other) != first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_storm), cmocka_unit_test(test_one_history)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
