/* Owns the owner thread: what it does in which order, how it sleeps and is woken, and calls that are made on it. Knows
 * nothing of what a batch or a call is. */
#include "engine/npu/owner.h"

#include "base/error.h"
#include "base/pool.h"
#include "engine/npu/overlay.h"
#include "engine/npu/recover.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void ork_npu_word_wait(atomic_uint *word, unsigned expected, uint64_t timeout_us)
{
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_us / 1000000),
                                     .tv_nsec = (long)(timeout_us % 1000000 * 1000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_us ? &timeout : NULL, NULL, 0);
}

void ork_npu_word_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

struct ork_npu_life ork_npu_life_watch(const ork_npu *npu, uint64_t now_us)
{
    return (struct ork_npu_life){atomic_load(&npu->beat), now_us};
}

bool ork_npu_life_is_missed(const ork_npu *npu, struct ork_npu_life *life, uint64_t now_us)
{
    const uint64_t stuck_us = npu->capabilities->virtual_time ? ORK_NPU_STUCK_VIRTUAL_US : ORK_NPU_STUCK_US;
    const unsigned beat = atomic_load(&npu->beat);
    if (beat != life->beat)
        *life = (struct ork_npu_life){beat, now_us};
    return now_us - life->seen_us >= stuck_us;
}

/* A call into the system only where somebody sleeps: waking costs more than all the rest of a begin. */
void ork_npu_owner_ring(ork_npu *npu)
{
    atomic_fetch_add(&npu->bell, 1);
    if (atomic_load(&npu->is_asleep))
        ork_npu_word_wake(&npu->bell);
}

static void update_stats(ork_npu *npu)
{
    struct ork_npu_residency_stats stats = {0};
    if (npu->residency)
        ork_npu_residency_get_stats(npu->residency, &stats);
    pthread_mutex_lock(&npu->lock);
    npu->residency_stats = stats;
    pthread_mutex_unlock(&npu->lock);
}

static bool serve_call(ork_npu *npu)
{
    pthread_mutex_lock(&npu->lock);
    ork_npu_call call = npu->call_done ? NULL : npu->call;
    void *argument = npu->call_argument;
    ork_error *error = npu->call_error;
    pthread_mutex_unlock(&npu->lock);
    if (!call)
        return false;
    ork_status status = call(npu, argument, error);
    if (atomic_load(&npu->health) == ORK_NPU_RECOVERING)
        ork_npu_recover(npu);
    update_stats(npu);
    pthread_mutex_lock(&npu->lock);
    npu->call_status = status;
    npu->call_done = true;
    pthread_cond_broadcast(&npu->answered);
    pthread_mutex_unlock(&npu->lock);
    return true;
}

static bool is_stopping(ork_npu *npu)
{
    pthread_mutex_lock(&npu->lock);
    bool stop = npu->stop;
    pthread_mutex_unlock(&npu->lock);
    return stop;
}

/* Sleeps until the bell has rung since `seen`; awake first, for the next batch of a layer, or the next chain, comes soon. */
static void sleep_until_rung(ork_npu *npu, unsigned seen)
{
    uint64_t until = ork_clock_now_us() + (npu->overlay ? ORK_NPU_OVERLAY_SPIN_US : ORK_NPU_SPIN_US);
    while (atomic_load_explicit(&npu->bell, memory_order_acquire) == seen) {
        if (ork_clock_now_us() >= until) {
            atomic_store(&npu->is_asleep, true);
            ork_npu_word_wait(&npu->bell, seen, npu->wanted_count ? ORK_NPU_SWAP_LOOK_US : 0);
            atomic_store(&npu->is_asleep, false);
            return;
        }
        ork_npu_relax();
    }
}

static void *owner_main(void *argument)
{
    ork_npu *npu = argument;
    (void)prctl(PR_SET_TIMERSLACK, ORK_NPU_TIMER_SLACK_NS);
    for (;;) {
        unsigned seen = atomic_load(&npu->bell);
        bool served = ork_npu_batch_serve(npu);
        served |= ork_npu_overlay_serve(npu);
        if (atomic_load(&npu->health) == ORK_NPU_RECOVERING)
            ork_npu_recover(npu);
        ork_npu_wanted_serve(npu);
        served |= serve_call(npu);
        if (served)
            update_stats(npu);
        else if (is_stopping(npu))
            return NULL;
        else
            sleep_until_rung(npu, seen);
    }
}

void ork_npu_choose_cores(pthread_attr_t *attributes)
{
    uint32_t cpus[ORK_POOL_THREADS_MAX];
    uint32_t count = ork_topology_little_cores("/sys", cpus, ORK_POOL_THREADS_MAX);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < count; i++)
        CPU_SET(cpus[i], &set);
    if (count > 0)
        (void)pthread_attr_setaffinity_np(attributes, sizeof set, &set);
}

ork_status ork_npu_owner_start(ork_npu *npu, ork_error *error)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return ork_error_no_memory(error, "the NPU's thread", sizeof attributes);
    ork_npu_choose_cores(&attributes);
    /* An interrupted request has an unknown outcome, or none (bugs.md B90). */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&npu->owner, &attributes, owner_main, npu);
    if (failed)
        failed = pthread_create(&npu->owner, NULL, owner_main, npu);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        return ork_error_set(error, ORK_NO_MEMORY, NULL, -1, "cannot start the NPU's thread: %s", strerror(failed));
    pthread_setname_np(npu->owner, "ork-npu");
    return ORK_OK;
}

void ork_npu_owner_stop(ork_npu *npu)
{
    pthread_mutex_lock(&npu->lock);
    npu->stop = true;
    pthread_mutex_unlock(&npu->lock);
    ork_npu_owner_ring(npu);
    pthread_join(npu->owner, NULL);
}

ork_status ork_npu_owner_call(ork_npu *npu, ork_npu_call call, void *argument, ork_error *error)
{
    pthread_mutex_lock(&npu->lock);
    while (npu->call)
        pthread_cond_wait(&npu->answered, &npu->lock);
    npu->call = call;
    npu->call_argument = argument;
    npu->call_error = error;
    npu->call_done = false;
    pthread_mutex_unlock(&npu->lock);
    ork_npu_owner_ring(npu);
    pthread_mutex_lock(&npu->lock);
    while (!npu->call_done)
        pthread_cond_wait(&npu->answered, &npu->lock);
    ork_status status = npu->call_status;
    npu->call = NULL;
    pthread_cond_broadcast(&npu->answered);
    pthread_mutex_unlock(&npu->lock);
    return status;
}
