/* Owns what happens after a fault: quarantine, and the ladder that ends it. Must not be on anybody's path: callers have
 * their results from the CPU before it begins.
 *
 * A core runs its jobs one by one, so a small product that comes out right on a core proves that whatever was submitted
 * there before is over. Until then its surfaces, programs and weights are withheld. */
#include "engine/npu/recover.h"

#include "engine/npu/multiply.h"
#include "engine/npu/owner.h"
#include "engine/npu/self_test.h"

#include <stdio.h>

static uint32_t usable_cores(const ork_npu *npu)
{
    uint32_t mask = 0;
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++)
        mask |= npu->on_core[c].usable ? 1u << c : 0;
    return mask;
}

static void pause_us(ork_npu *npu, uint64_t us)
{
    npu->clock->sleep_until(npu->clock, npu->clock->now_ns(npu->clock) + us * 1000);
}

void ork_npu_switch_off(ork_npu *npu, const char *why)
{
    pthread_mutex_lock(&npu->lock);
    if (!npu->why[0])
        snprintf(npu->why, sizeof npu->why, "%s", why);
    pthread_mutex_unlock(&npu->lock);
    atomic_store(&npu->health, ORK_NPU_OFF);
}

void ork_npu_faulted(ork_npu *npu, uint32_t suspects)
{
    npu->suspects |= suspects;
    if (atomic_load(&npu->health) == ORK_NPU_WELL)
        atomic_store(&npu->health, ORK_NPU_RECOVERING);
}

/* ---- quarantine ---- */

void ork_npu_quarantine_update(ork_npu *npu)
{
    uint64_t bytes = 0;
    bool busy = ork_npu_cores_busy(npu);
    if (!busy) {
        for (uint32_t i = 0; i < npu->held_count; i++)
            ork_npu_residency_release(npu->residency, &npu->held[i]);
        npu->held_count = 0;
    }
    for (uint32_t d = 0; d < ORK_NPU_DOMAINS_MAX; d++) {
        for (uint32_t h = 0; h < 2; h++) {
            bool withheld = false;
            for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++) {
                const struct ork_npu_set *set = npu->on_core[c].set;
                withheld |= set && set->key.domain == d && set->key.half == h;
            }
            const struct ork_npu_half *half = &npu->spaces[d].halves[h];
            bytes += withheld ? half->a.size_bytes + half->c.size_bytes : 0;
        }
    }
    for (uint32_t i = 0; i < npu->held_count; i++)
        bytes += (uint64_t)npu->held[i].n * npu->held[i].k;
    atomic_store(&npu->counters.quarantined_bytes, bytes);
}

/* ---- what is still running ---- */

/* Watches a core's job beyond its deadline; whether it ended. */
static bool comes_late(ork_npu *npu, uint32_t core)
{
    const struct ork_npu_core *on = &npu->on_core[core];
    struct ork_npu_job *job = on->set->jobs[on->plan_core];
    const struct ork_npu_plan *plan = &on->set->plan;
    uint32_t tasks = plan->core_begin[on->plan_core + 1] - plan->core_begin[on->plan_core];
    uint64_t now = npu->clock->now_ns(npu->clock), until = now + on->deadline_us * ORK_NPU_GRACE_DEADLINES * 1000;
    for (;;) {
        enum ork_npu_state state = npu->device->ops->poll(npu->device, job);
        if (state == ORK_NPU_DONE)
            return true;
        if (state == ORK_NPU_UNKNOWN && ork_npu_count_written(npu, on->set, on->plan_core) == tasks)
            return true;
        if (state == ORK_NPU_FAILED || now >= until)
            return false;
        uint64_t look = npu->device->ops->next_look_ns(npu->device, job), least = now + ORK_NPU_LOOK_LAST_US * 1000;
        look = look > least ? look : least;
        npu->clock->sleep_until(npu->clock, look < until ? look : until);
        now = npu->clock->now_ns(npu->clock);
        atomic_fetch_add_explicit(&npu->beat, 1, memory_order_relaxed);
    }
}

/* Counts what became of a core's job, by what it has written; it is over. */
static void explain(ork_npu *npu, uint32_t core)
{
    struct ork_npu_core *on = &npu->on_core[core];
    const struct ork_npu_plan *plan = &on->set->plan;
    uint32_t tasks = plan->core_begin[on->plan_core + 1] - plan->core_begin[on->plan_core];
    uint32_t written = ork_npu_count_written(npu, on->set, on->plan_core);
    on->unexplained = false;
    /* All of its output without a word from the driver: its interrupt is lost, or came too late to be seen. */
    ork_npu_count(!written           ? &npu->counters.never_started
                  : written == tasks ? &npu->counters.late
                                     : &npu->counters.stopped,
                  1);
}

/* Takes a core's job off the core if it is certainly over, and tells what became of it; else a reset does. */
static void resolve(ork_npu *npu, uint32_t core)
{
    struct ork_npu_core *on = &npu->on_core[core];
    bool over = comes_late(npu, core);
    if (over) {
        ork_npu_count(&npu->counters.late, 1);
    } else if (npu->device->ops->cancel(npu->device, on->set->jobs[on->plan_core])) {
        explain(npu, core);
        over = true;
    } else {
        on->unexplained = true;
    }
    if (over)
        ork_npu_core_clear(npu, core);
}

/* ---- the ladder ---- */

static uint32_t test(ork_npu *npu, uint32_t mask)
{
    struct ork_npu_verdict verdict;
    return ork_npu_test_cores(npu, mask, true, &verdict, NULL) ? 0 : verdict.right;
}

static bool reset(ork_npu *npu)
{
    bool done = !npu->device->ops->reset(npu->device, NULL);
    ork_npu_count(done ? &npu->counters.resets : &npu->counters.failed_resets, 1);
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX && done; c++) {
        if (npu->on_core[c].unexplained)
            explain(npu, c);
        ork_npu_core_clear(npu, c);
    }
    pause_us(npu, ORK_NPU_SETTLE_US);
    atomic_fetch_add_explicit(&npu->beat, 1, memory_order_relaxed);
    return done;
}

/* Resets and tests; the cores that came out right in the end. */
static uint32_t reset_and_test(ork_npu *npu)
{
    uint32_t usable = usable_cores(npu), right = 0;
    for (uint32_t i = 0; i < ORK_NPU_RESETS_MOST && right != usable; i++)
        right = reset(npu) ? test(npu, usable) : right;
    return right;
}

/* Goes on with the cores that are right, if a last reset makes sure that the others are idle. */
static bool give_up_others(ork_npu *npu, uint32_t right)
{
    if (!right || (ork_npu_cores_busy(npu) && !reset(npu)))
        return false;
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++)
        npu->on_core[c].usable = right >> c & 1;
    ork_npu_lanes_set(npu);
    return test(npu, right) == right;
}

static bool is_hopeless(const ork_npu *npu)
{
    return (uint32_t)__builtin_popcountll(npu->outcomes) > ORK_NPU_FAULTS_OF_64 ||
           atomic_load(&npu->counters.resets) + atomic_load(&npu->counters.failed_resets) > ORK_NPU_RESETS_EVER;
}

void ork_npu_recover(ork_npu *npu)
{
    uint64_t outcomes = npu->outcomes; /* tests and what they show are not counted among the jobs */
    bool hopeless = is_hopeless(npu);
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++)
        if (npu->on_core[c].set)
            resolve(npu, c);
    ork_npu_quarantine_update(npu);
    uint32_t suspects = npu->suspects & usable_cores(npu);
    bool well = !hopeless && !ork_npu_cores_busy(npu) && test(npu, suspects) == suspects;
    if (!well && !hopeless) {
        uint32_t right = reset_and_test(npu);
        well = right == usable_cores(npu) || give_up_others(npu, right);
        if (!well)
            ork_npu_switch_off(npu, right ? "the NPU's cores fail their test after every reset"
                                          : "no NPU core passes its test after resets");
    }
    if (hopeless) {
        /* What may still run ends with a reset; then the engine rests. */
        if (ork_npu_cores_busy(npu))
            reset(npu);
        char why[160];
        snprintf(why, sizeof why, "%d of the last 64 jobs on the NPU went wrong, %llu resets",
                 __builtin_popcountll(outcomes), (unsigned long long)atomic_load(&npu->counters.resets));
        ork_npu_switch_off(npu, why);
    }
    for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++) {
        /* Nothing ended it. */
        ork_npu_count(&npu->counters.never_started, npu->on_core[c].unexplained);
        npu->on_core[c].unexplained = false;
    }
    npu->outcomes = outcomes;
    npu->suspects = 0;
    ork_npu_quarantine_update(npu);
    atomic_store(&npu->recovered_ns, npu->clock->now_ns(npu->clock));
    unsigned recovering = ORK_NPU_RECOVERING;
    atomic_compare_exchange_strong(&npu->health, &recovering, ORK_NPU_WELL);
    ork_npu_word_wake(&npu->health);
}

void ork_npu_recovered_wait(ork_npu *npu)
{
    while (npu->capabilities->virtual_time && atomic_load(&npu->health) == ORK_NPU_RECOVERING)
        ork_npu_word_wait(&npu->health, ORK_NPU_RECOVERING, ORK_NPU_BEAT_LOOK_US);
}

void ork_npu_idle_force(ork_npu *npu)
{
    if (atomic_load(&npu->health) == ORK_NPU_RECOVERING)
        ork_npu_recover(npu);
    if (ork_npu_cores_busy(npu) && !reset(npu))
        for (uint32_t c = 0; c < ORK_NPU_CORES_MAX; c++)
            ork_npu_core_clear(npu, c);
    ork_npu_quarantine_update(npu);
}
