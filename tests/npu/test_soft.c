/* Guards the software device: each call of the vtable, address spaces, the timeline on the virtual clock, what each scripted
 * fault looks like from outside, and calls against the contract. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "soft_rig.h"

enum { LONG_US = 10000000 };

static void close_device(struct ork_npu_device *device)
{
    device->ops->close(device);
}

static struct ork_npu_soft_stats stats_of(struct ork_npu_device *device)
{
    struct ork_npu_soft_stats stats;
    ork_npu_soft_get_stats(device, &stats);
    return stats;
}

static uint64_t duration_of(struct rig *rig)
{
    uint64_t start, finish;
    ork_npu_soft_job_times(rig->device, rig->job, &start, &finish);
    return finish - start;
}

static uint64_t start_of(struct rig *rig)
{
    uint64_t start, finish;
    ork_npu_soft_job_times(rig->device, rig->job, &start, &finish);
    return start;
}

static uint64_t finish_of(struct rig *rig)
{
    return start_of(rig) + duration_of(rig);
}

static void test_capabilities(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_capabilities *can = device->ops->capabilities(device);
    assert_string_equal(can->driver, "soft");
    assert_string_equal(can->soc, "rk3588");
    assert_int_equal(can->cores, 3);
    assert_int_equal(can->domains, 16);
    assert_int_equal(can->tasks_per_job_max, 4095);
    assert_true(can->imports && can->knows_completion && can->virtual_time);
    assert_true(ork_npu_soft_is(device));
    close_device(device);
    const ork_npu_params params = {.kind = ORK_NPU_SOFT, .cores = 2, .real_time = true};
    ork_error error;
    assert_int_equal(ork_npu_soft_open(&params, &device, &error), ORK_OK);
    assert_int_equal(device->ops->capabilities(device)->cores, 2);
    assert_false(device->ops->capabilities(device)->virtual_time);
    assert_ptr_equal(device->ops->clock(device), ork_clock_monotonic());
    close_device(device);
}

static void test_open_refused(void **state)
{
    (void)state;
    struct ork_npu_device *device = NULL;
    ork_error error;
    assert_int_equal(ork_npu_soft_open(&(ork_npu_params){.faults = "explode"}, &device, &error), ORK_BAD_ARGUMENT);
    assert_non_null(strstr(error.what, "late, never"));
    assert_null(device);
    assert_int_equal(ork_npu_soft_open(&(ork_npu_params){.board = "/none.json"}, &device, &error), ORK_NOT_FOUND);
    assert_null(device);
}

static void test_right_result(void **state)
{
    (void)state;
    for (int real_time = 0; real_time < 2; real_time++) {
        struct ork_npu_device *device = rig_open(NULL, real_time);
        for (uint32_t core = 0; core < 3; core++) {
            struct rig rig;
            rig_make(&rig, device, core, core * 7 % 16, 1 + 3 * core, 1 + 9 * core, 96, 64);
            for (int again = 0; again < 3; again++) {
                assert_int_equal(rig_submit(&rig), ORK_OK);
                assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
                assert_int_equal(rig_wrong(&rig), 0);
                assert_int_equal(device->ops->poll(device, rig.job), ORK_NPU_DONE);
            }
            rig_free(&rig);
        }
        const struct ork_npu_soft_stats stats = stats_of(device);
        assert_int_equal(stats.completed, 9);
        assert_int_equal(stats.submits, 9);
        assert_int_equal(stats.misuses, 0);
        assert_int_equal(stats.held_buffers, 0);
        assert_int_equal(stats.held_bytes, 0);
        assert_int_equal(stats.switches, 2);
        for (unsigned i = 0; i < ORK_NPU_SOFT_ANOMALIES; i++)
            assert_int_equal(stats.anomalies[i], 0);
        close_device(device);
    }
}

/* The timeline is the timing model's, to the nanosecond. */
static void test_times(void **state)
{
    (void)state;
    const struct ork_npu_profile *profile = ork_npu_profile_builtin();
    struct ork_npu_device *device = rig_open(NULL, false);
    struct rig one, two, other;
    rig_make(&one, device, 0, 0, 2, 16, 1024, 256);
    rig_make(&two, device, 0, 0, 1, 4, 512, 64);
    rig_make(&other, device, 1, 0, 1, 16, 1024, 256);
    const uint64_t now = rig_now(&one);
    assert_int_equal(rig_submit(&one), ORK_OK);
    assert_int_equal(rig_submit(&two), ORK_OK);
    assert_int_equal(rig_submit(&other), ORK_OK);
    assert_int_equal(rig_now(&one), now); /* a submit takes no time of the caller */
    struct ork_npu_work work = {0};
    ork_npu_work_add(&work, &one.shape);
    ork_npu_work_add(&work, &one.shape);
    const uint64_t complete = (uint64_t)(profile->complete_us * 1000);
    assert_int_equal(start_of(&one), now + (uint64_t)(profile->submit_us * 1000));
    assert_int_equal(duration_of(&one), (uint64_t)(ork_npu_timing_job(profile, &work, 1) * 1e9) + complete);
    assert_int_equal(start_of(&two), finish_of(&one)); /* behind it on the same core */
    memset(&work, 0, sizeof work);
    ork_npu_work_add(&work, &other.shape);
    assert_int_equal(start_of(&other), start_of(&one)); /* beside it on another */
    assert_int_equal(duration_of(&other), (uint64_t)(ork_npu_timing_job(profile, &work, 2) * 1e9) + complete);
    assert_int_equal(device->ops->poll(device, one.job), ORK_NPU_PENDING);
    const struct ork_clock *clock = device->ops->clock(device);
    assert_int_equal(device->ops->next_look_ns(device, one.job), finish_of(&one));
    clock->sleep_until(clock, finish_of(&one) - 1);
    assert_int_equal(device->ops->poll(device, one.job), ORK_NPU_PENDING);
    clock->sleep_until(clock, finish_of(&one));
    assert_int_equal(device->ops->poll(device, one.job), ORK_NPU_DONE);
    assert_int_equal(device->ops->poll(device, two.job), ORK_NPU_PENDING);
    assert_int_equal(rig_wait(&two, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_now(&two), finish_of(&two));
    assert_int_equal(rig_wait(&other, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&one) + rig_wrong(&two) + rig_wrong(&other), 0);
    rig_free(&one);
    rig_free(&two);
    rig_free(&other);
    close_device(device);
}

static void test_domains(void **state)
{
    (void)state;
    const struct ork_npu_profile *profile = ork_npu_profile_builtin();
    struct ork_npu_device *device = rig_open("switch:at=2", false);
    struct rig zero, three;
    rig_make(&zero, device, 0, 0, 1, 16, 512, 64);
    rig_make(&three, device, 1, 3, 1, 16, 512, 64);
    assert_int_equal(zero.a.iova + zero.a.size_bytes <= UINT32_MAX, 1);
    assert_int_equal(rig_submit(&zero), ORK_OK);
    assert_int_equal(rig_submit(&three), ORK_OK); /* on a free core, and yet behind the other domain's job */
    assert_int_equal(start_of(&three), finish_of(&zero) + (uint64_t)(profile->domain_switch_us * 1000));
    assert_int_equal(rig_wait(&three, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wait(&zero, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_submit(&three), ORK_OK); /* no switch */
    assert_int_equal(rig_wait(&three, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_submit(&zero), ORK_OK);
    assert_int_equal(rig_wait(&zero, LONG_US), ORK_NPU_DONE);
    const uint64_t before = rig_now(&three);
    assert_int_equal(rig_submit(&three), ORK_IO); /* scripted, after six seconds */
    assert_int_equal(rig_now(&three) - before, 6000000000);
    assert_int_equal(rig_submit(&zero), ORK_OK);
    assert_int_equal(rig_wait(&zero, LONG_US), ORK_NPU_DONE);
    assert_int_equal(stats_of(device).switches, 2);
    assert_int_equal(stats_of(device).failed_switches, 1);
    rig_free(&zero);
    rig_free(&three);
    close_device(device);
}

static void test_addresses(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_device_ops *ops = device->ops;
    struct ork_npu_buffer one, two, three, other, large, rest;
    ork_error error;
    assert_int_equal(ops->allocate(device, 0, 1, &one, &error), ORK_OK);
    assert_int_equal(one.iova, 0xfffff000);
    assert_int_equal(one.size_bytes, 4096);
    assert_int_equal(ops->allocate(device, 0, 8192, &two, &error), ORK_OK);
    assert_int_equal(two.iova, 0xffffd000);
    assert_int_equal(ops->allocate(device, 0, 4097, &three, &error), ORK_OK);
    assert_int_equal(three.iova, 0xffffb000);
    assert_int_equal(ops->allocate(device, 15, 1, &other, &error), ORK_OK);
    assert_int_equal(other.iova, 0xfffff000);
    ops->release(device, &two);
    assert_null(two.host);
    assert_int_equal(ops->allocate(device, 0, 12288, &large, &error), ORK_OK);
    assert_int_equal(large.iova, 0xffff8000); /* the hole is too small for it */
    assert_int_equal(ops->allocate(device, 0, 4096, &two, &error), ORK_OK);
    assert_int_equal(two.iova, 0xffffe000); /* the hole's upper end */
    assert_int_equal(ops->allocate(device, 16, 4096, &rest, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->allocate(device, 0, 0, &rest, &error), ORK_NO_MEMORY);
    assert_int_equal(ops->allocate(device, 0, UINT64_MAX, &rest, &error), ORK_NO_MEMORY);
    assert_int_equal(ops->allocate(device, 0, ORK_NPU_DOMAIN_BYTES, &rest, &error), ORK_NO_MEMORY);
    assert_non_null(strstr(error.what, "domain 0"));
    assert_int_equal(ops->sync(device, &one, 0, 4096, ORK_NPU_TO_DEVICE, &error), ORK_OK);
    assert_int_equal(ops->sync(device, &one, 4096, 0, ORK_NPU_FROM_DEVICE, &error), ORK_OK);
    assert_int_equal(ops->sync(device, &one, 1, 4096, ORK_NPU_FROM_DEVICE, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->sync(device, &one, UINT64_MAX, 2, ORK_NPU_FROM_DEVICE, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->sync(device, &one, 0, 1, (enum ork_npu_direction)7, &error), ORK_BAD_ARGUMENT);
    struct ork_npu_buffer stale = one;
    ops->release(device, &one);
    assert_int_equal(ops->sync(device, &stale, 0, 1, ORK_NPU_TO_DEVICE, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->allocate(device, 0, 4096, &one, &error), ORK_OK); /* the record again, another name */
    assert_int_equal(ops->sync(device, &stale, 0, 1, ORK_NPU_TO_DEVICE, &error), ORK_BAD_ARGUMENT);
    ops->release(device, &stale);
    assert_int_equal(stats_of(device).misuses, 1);
    close_device(device); /* frees what is left */
}

static void test_capacity(void **state)
{
    (void)state;
    /* All of a domain in 64 MiB pieces, none of it touched. */
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_device_ops *ops = device->ops;
    struct ork_npu_buffer pieces[61];
    ork_error error;
    for (int i = 0; i < 60; i++)
        assert_int_equal(ops->allocate(device, 5, 64 << 20, &pieces[i], &error), ORK_OK);
    assert_int_equal(ops->allocate(device, 5, 4096, &pieces[60], &error), ORK_NO_MEMORY);
    assert_int_equal(ops->allocate(device, 6, 4096, &pieces[60], &error), ORK_OK);
    assert_int_equal(stats_of(device).held_bytes, (60ull << 26) + 4096);
    const uint64_t before = device->ops->clock(device)->now_ns(device->ops->clock(device));
    ops->release(device, &pieces[3]);
    const uint64_t took = device->ops->clock(device)->now_ns(device->ops->clock(device)) - before;
    assert_int_equal(took, 16 * (uint64_t)(ork_npu_profile_builtin()->release_us * 1000));
    assert_int_equal(ops->allocate(device, 5, 64 << 20, &pieces[3], &error), ORK_OK);
    close_device(device);
    /* Descriptors end at 1,024. */
    device = rig_open(NULL, false);
    struct ork_npu_buffer small;
    for (int i = 0; i < 1024; i++)
        assert_int_equal(device->ops->allocate(device, 0, 4096, &small, &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 1, 4096, &small, &error), ORK_LIMIT);
    close_device(device);
    /* Scripted limits. */
    device = rig_open("memory:bytes=16384;descriptors:limit=3", false);
    assert_int_equal(device->ops->allocate(device, 0, 16385, &small, &error), ORK_NO_MEMORY);
    assert_int_equal(device->ops->allocate(device, 0, 8192, &small, &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 1, 12288, &pieces[0], &error), ORK_NO_MEMORY);
    assert_int_equal(device->ops->allocate(device, 1, 4096, &pieces[0], &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 1, 4096, &pieces[1], &error), ORK_OK);
    device->ops->release(device, &small);
    assert_int_equal(device->ops->allocate(device, 1, 4096, &small, &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 1, 4096, &pieces[2], &error), ORK_LIMIT);
    assert_int_equal(ork_npu_faults_count(ork_npu_soft_faults(device), ORK_FAULT_MEMORY), 2);
    assert_int_equal(ork_npu_faults_count(ork_npu_soft_faults(device), ORK_FAULT_DESCRIPTORS), 1);
    close_device(device);
}

/* Weights straight from read-only pages of the host; the NPU must not be able to write there. */
static void test_import(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_device_ops *ops = device->ops;
    struct rig rig;
    rig_make(&rig, device, 0, 2, 1, 8, 128, 64);
    const size_t size = 8192;
    uint8_t *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    memcpy(pages, rig.b.host, 64 * 128);
    assert_int_equal(mprotect(pages, size, PROT_READ), 0);
    struct ork_npu_buffer imported;
    ork_error error;
    assert_int_equal(ops->import(device, 2, pages + 1, size, &imported, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->import(device, 2, pages, 100, &imported, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->import(device, 2, NULL, size, &imported, &error), ORK_BAD_ARGUMENT);
    assert_int_equal(ops->import(device, 2, pages, size, &imported, &error), ORK_OK);
    assert_true(imported.imported);
    assert_ptr_equal(imported.host, pages);
    const struct ork_npu_buffer *inputs[] = {&rig.programs, &rig.a, &imported}, *outputs[] = {&rig.c};
    const struct ork_npu_task task = {rig.programs.iova, ork_npu_program_words(ORK_NPU_W8A8)};
    struct ork_npu_job_params params = {0, 2, &task, 1, inputs, 3, outputs, 1};
    uint64_t *words = (uint64_t *)(void *)rig.programs.host;
    ork_npu_program_set_addresses(ORK_NPU_W8A8, &(struct ork_npu_addresses){rig.a.iova, imported.iova, rig.c.iova},
                                  words);
    memset(rig.b.host, 0, rig.b.size_bytes);
    struct ork_npu_job *old = rig.job;
    assert_int_equal(ops->job_create(device, &params, &rig.job, &error), ORK_OK);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&rig), 0);
    /* As an output it is refused; a program that writes there all the same never completes. */
    const struct ork_npu_buffer *bad[] = {&imported};
    params.outputs = bad;
    params.input_count = 2;
    struct ork_npu_job *none;
    assert_int_equal(ops->job_create(device, &params, &none, &error), ORK_BAD_ARGUMENT);
    ork_npu_program_set_addresses(ORK_NPU_W8A8, &(struct ork_npu_addresses){rig.a.iova, rig.b.iova, imported.iova},
                                  words);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_PENDING);
    struct ork_npu_soft_stats stats = stats_of(device);
    assert_int_equal(stats.hangs, 1);
    assert_int_equal(stats.anomalies[1], 1); /* ORK_SILICON_READ_ONLY */
    assert_true(stats.why[0] != 0);
    assert_int_equal(ops->reset(device, &error), ORK_OK);
    assert_int_equal(ops->poll(device, rig.job), ORK_NPU_FAILED);
    ops->job_destroy(device, old);
    ops->release(device, &imported);
    assert_int_equal(munmap(pages, size), 0);
    rig_free(&rig);
    assert_int_equal(stats_of(device).misuses, 0);
    close_device(device);
}

static void test_wrong_address(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    struct rig rig, behind;
    rig_make(&rig, device, 1, 0, 1, 8, 128, 64);
    rig_make(&behind, device, 1, 0, 1, 8, 128, 64);
    uint64_t *words = (uint64_t *)(void *)rig.programs.host;
    ork_npu_program_set_addresses(ORK_NPU_W8A8, &(struct ork_npu_addresses){rig.a.iova, 4096, rig.c.iova}, words);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_submit(&behind), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_PENDING);
    assert_true(device->ops->next_look_ns(device, rig.job) == ORK_NPU_SOFT_NEVER);
    assert_int_equal(rig_wait(&behind, LONG_US), ORK_NPU_PENDING); /* its core is stuck */
    assert_int_equal(stats_of(device).anomalies[0], 1);            /* ORK_SILICON_UNMAPPED */
    assert_false(device->ops->cancel(device, rig.job));
    ork_error error;
    assert_int_equal(device->ops->reset(device, &error), ORK_OK);
    assert_true(device->ops->cancel(device, rig.job));
    ork_npu_program_set_addresses(ORK_NPU_W8A8, &(struct ork_npu_addresses){rig.a.iova, rig.b.iova, rig.c.iova}, words);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_submit(&behind), ORK_OK);
    assert_int_equal(rig_wait(&behind, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&rig) + rig_wrong(&behind), 0);
    rig_free(&rig);
    rig_free(&behind);
    close_device(device);
}

static void test_misuse(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_device_ops *ops = device->ops;
    struct rig rig, elsewhere;
    rig_make(&rig, device, 0, 0, 2, 8, 128, 64);
    rig_make(&elsewhere, device, 0, 1, 1, 8, 128, 64);
    ork_error error;
    assert_int_equal(ops->poll(device, rig.job), ORK_NPU_FAILED); /* never submitted */
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(ops->submit(device, rig.job, &error), ORK_BAD_ARGUMENT);
    struct ork_npu_buffer b = rig.b;
    ops->release(device, &rig.b);
    assert_memory_equal(&b, &rig.b, sizeof b); /* still there, still used */
    ops->job_destroy(device, rig.job);
    assert_int_equal(stats_of(device).misuses, 2);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&rig), 0);

    const struct ork_npu_task tasks[2] = {{rig.programs.iova, 107}, {rig.programs.iova + 1024, 107}};
    const struct ork_npu_buffer *inputs[] = {&rig.programs, &rig.a, &rig.b}, *outputs[] = {&rig.c};
    const struct ork_npu_buffer *mixed[] = {&rig.programs, &rig.a, &elsewhere.b}, *both[] = {&rig.b};
    const struct ork_npu_buffer none = {0}, *unknown[] = {&none};
    const struct ork_npu_task bad_tasks[] = {{rig.programs.iova + 8, 107},
                                             {rig.programs.iova, 0},
                                             {rig.programs.iova, 4097},
                                             {rig.c.iova, 107},
                                             {16, 107},
                                             {rig.programs.iova + (uint32_t)rig.programs.size_bytes - 16, 3}};
    const struct ork_npu_job_params good = {0, 0, tasks, 2, inputs, 3, outputs, 1};
    struct ork_npu_job_params bad[8 + 6];
    for (int i = 0; i < 14; i++)
        bad[i] = good;
    bad[0].core = 3;
    bad[1].domain = 16;
    bad[2].task_count = 0;
    bad[3].task_count = 4096;
    bad[4].inputs = mixed;
    bad[5].outputs = both;
    bad[6].outputs = unknown;
    bad[7].domain = 1;
    for (int i = 0; i < 6; i++) {
        bad[8 + i].tasks = &bad_tasks[i];
        bad[8 + i].task_count = 1;
    }
    for (int i = 0; i < 14; i++) {
        struct ork_npu_job *job = NULL;
        if (ops->job_create(device, &bad[i], &job, &error) != ORK_BAD_ARGUMENT)
            fail_msg("job %d was taken", i);
        assert_null(job);
    }
    rig_free(&rig);
    rig_free(&elsewhere);
    close_device(device);
}

static void test_cancel(void **state)
{
    (void)state;
    struct ork_npu_device *device = rig_open(NULL, false);
    const struct ork_npu_device_ops *ops = device->ops;
    const struct ork_clock *clock = ops->clock(device);
    struct rig first, second;
    rig_make(&first, device, 2, 0, 1, 16, 1024, 64);
    rig_make(&second, device, 2, 0, 1, 16, 1024, 64);
    assert_true(ops->cancel(device, first.job)); /* not submitted */
    assert_int_equal(rig_submit(&first), ORK_OK);
    assert_int_equal(rig_submit(&second), ORK_OK);
    clock->sleep_until(clock, start_of(&first) + 1000);
    assert_false(ops->cancel(device, first.job)); /* runs */
    assert_true(ops->cancel(device, second.job)); /* waits */
    assert_int_equal(ops->poll(device, second.job), ORK_NPU_FAILED);
    assert_int_equal(rig_submit(&second), ORK_OK);
    assert_int_equal(start_of(&second), finish_of(&first)); /* the place is free again */
    assert_int_equal(rig_wait(&second, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&second), 0);
    assert_true(ops->cancel(device, first.job)); /* through */
    assert_int_equal(ops->poll(device, first.job), ORK_NPU_DONE);
    rig_free(&first);
    rig_free(&second);
    close_device(device);
}

/* ---- faults ---- */

static struct rig fault_rig(const char *script)
{
    struct rig rig;
    rig_make(&rig, rig_open(script, false), 0, 0, 3, 16, 128, 64);
    return rig;
}

/* After whatever happened: right after a reset. */
static void recovers(struct rig *rig)
{
    ork_error error;
    assert_int_equal(rig->device->ops->reset(rig->device, &error), ORK_OK);
    assert_int_equal(rig_submit(rig), ORK_OK);
    assert_int_equal(rig_wait(rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(rig), 0);
}

static void end(struct rig *rig)
{
    struct ork_npu_device *device = rig->device;
    rig_free(rig);
    assert_int_equal(stats_of(device).misuses, 0);
    assert_int_equal(stats_of(device).held_buffers, 0);
    close_device(device);
}

static void test_late(void **state)
{
    (void)state;
    struct rig rig = fault_rig("late:at=1,us=5000");
    assert_int_equal(rig_submit(&rig), ORK_OK);
    const uint64_t usual = duration_of(&rig);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(duration_of(&rig), usual + 5000000);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&rig), 0);
    end(&rig);
}

static void test_never(void **state)
{
    (void)state;
    struct rig rig = fault_rig("never:at=0");
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_PENDING);
    assert_int_equal(rig_wrong(&rig), 3 * 16 * 64);
    assert_false(rig.device->ops->cancel(rig.device, rig.job));
    recovers(&rig);
    end(&rig);
}

static void test_stop(void **state)
{
    (void)state;
    struct rig rig = fault_rig("stop:at=0,after=2;stop:at=1,after=3");
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_PENDING);
    ork_error error;
    assert_int_equal(rig.device->ops->reset(rig.device, &error), ORK_OK);
    assert_int_equal(rig_wrong_in(&rig, 0) + rig_wrong_in(&rig, 1), 0);
    assert_int_equal(rig_wrong_in(&rig, 2), 16 * 64);
    assert_int_equal(rig_submit(&rig), ORK_OK); /* stops after all it has: nothing to be seen */
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_wrong(&rig), 0);
    recovers(&rig);
    end(&rig);
}

static void test_wrong_outputs(void **state)
{
    (void)state;
    struct rig rig = fault_rig("constant:at=0,value=7;untouched:at=1;tail:at=2,atoms=2;flip:at=3,words=5");
    uint32_t wrong[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig_submit(&rig), ORK_OK);
        assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
        wrong[i] = rig_wrong(&rig);
        if (i == 0)
            for (uint32_t word = 0; word < 3 * 16 * 64; word++)
                assert_int_equal(((const int32_t *)(const void *)rig.c.host)[word], 7);
        if (i == 1)
            assert_int_equal(wrong[1], 3 * 16 * 64);
    }
    assert_true(wrong[2] > 0 && wrong[2] <= 3 * 16 * 2 * 4); /* two atoms of four words of each of 16 surfaces a task */
    assert_int_equal(wrong[3], 5);
    recovers(&rig);
    end(&rig);
}

static void test_lost(void **state)
{
    (void)state;
    struct rig rig = fault_rig("lost:at=0"), behind;
    rig_make(&behind, rig.device, 0, 0, 1, 4, 64, 32);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_submit(&behind), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_PENDING);
    assert_int_equal(rig_wait(&behind, LONG_US), ORK_NPU_PENDING); /* the driver thinks the core is busy */
    assert_true(rig.device->ops->cancel(rig.device, behind.job));
    ork_error error;
    assert_int_equal(rig.device->ops->reset(rig.device, &error), ORK_OK);
    assert_int_equal(rig_wrong(&rig), 0); /* right all the same */
    recovers(&rig);
    rig_free(&behind);
    end(&rig);
}

static void test_early(void **state)
{
    (void)state;
    struct rig rig = fault_rig("early:us=20");
    for (int again = 0; again < 3; again++) {
        assert_int_equal(rig_submit(&rig), ORK_OK);
        assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
        const uint64_t done = rig_now(&rig);
        if (again == 2) { /* submitting it wrote what the run before had not */
            assert_int_equal(rig_wrong(&rig), 0);
            break;
        }
        /* Says so, and nothing stands there yet; but for the run before it, if that had not written by the submit. */
        const uint32_t wrong = again == 2 ? 0 : 3 * 16 * 64;
        assert_int_equal(rig_wrong(&rig), wrong);
        const struct ork_clock *clock = rig.device->ops->clock(rig.device);
        ork_error error;
        clock->sleep_until(clock, done + 19999);
        assert_int_equal(rig.device->ops->sync(rig.device, &rig.c, 0, 1, ORK_NPU_FROM_DEVICE, &error), ORK_OK);
        assert_int_equal(rig_wrong(&rig), wrong);
        if (again == 1)
            continue;
        clock->sleep_until(clock, done + 20000);
        assert_int_equal(rig.device->ops->sync(rig.device, &rig.c, 0, 1, ORK_NPU_FROM_DEVICE, &error), ORK_OK);
        assert_int_equal(rig_wrong(&rig), 0);
    }
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    end(&rig); /* released before it has written */
}

static void test_dead(void **state)
{
    (void)state;
    struct rig rig = fault_rig("dead:core=1,from=1"), dead;
    rig_make(&dead, rig.device, 1, 0, 1, 4, 64, 32);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    for (int again = 0; again < 3; again++) {
        ork_error error;
        assert_int_equal(rig_submit(&dead), ORK_OK);
        assert_int_equal(rig_wait(&dead, LONG_US), ORK_NPU_PENDING);
        assert_int_equal(rig_wrong(&dead), 4 * 32);
        assert_int_equal(rig.device->ops->reset(rig.device, &error), ORK_OK);
    }
    recovers(&rig);
    rig_free(&dead);
    end(&rig);
}

static void test_wedge(void **state)
{
    (void)state;
    struct rig rig = fault_rig("wedge:at=1;reset-fails:at=0"), others[3];
    for (uint32_t core = 0; core < 3; core++)
        rig_make(&others[core], rig.device, core, 0, 1, 4, 64, 32);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_submit(&others[1]), ORK_OK); /* this one */
    assert_int_equal(rig_submit(&others[0]), ORK_OK);
    assert_int_equal(rig_submit(&others[2]), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE); /* had begun */
    for (uint32_t core = 0; core < 3; core++)
        assert_int_equal(rig_wait(&others[core], LONG_US), ORK_NPU_PENDING);
    ork_error error;
    const uint64_t before = rig_now(&rig);
    assert_int_equal(rig.device->ops->reset(rig.device, &error), ORK_IO);
    assert_int_equal(rig_now(&rig) - before, 100000000);
    for (uint32_t core = 0; core < 3; core++)
        assert_int_equal(rig_wait(&others[core], LONG_US), ORK_NPU_PENDING);
    recovers(&rig);
    for (uint32_t core = 0; core < 3; core++) {
        assert_int_equal(rig.device->ops->poll(rig.device, others[core].job), ORK_NPU_FAILED);
        assert_int_equal(rig_submit(&others[core]), ORK_OK);
        assert_int_equal(rig_wait(&others[core], LONG_US), ORK_NPU_DONE);
        rig_free(&others[core]);
    }
    assert_int_equal(stats_of(rig.device).failed_resets, 1);
    end(&rig);
}

static void test_refuse(void **state)
{
    (void)state;
    struct rig rig = fault_rig("refuse:at=1");
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(rig_submit(&rig), ORK_IO);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_wait(&rig, LONG_US), ORK_NPU_DONE);
    assert_int_equal(stats_of(rig.device).refused_submits, 1);
    end(&rig);
}

/* A hung job keeps its domain: the others cannot have the device. */
static void test_hung_domain(void **state)
{
    (void)state;
    struct rig rig = fault_rig("never:at=0"), other;
    rig_make(&other, rig.device, 1, 4, 1, 4, 64, 32);
    assert_int_equal(rig_submit(&rig), ORK_OK);
    assert_int_equal(rig_submit(&other), ORK_IO);
    recovers(&rig);
    assert_int_equal(rig_submit(&other), ORK_OK);
    assert_int_equal(rig_wait(&other, LONG_US), ORK_NPU_DONE);
    rig_free(&other);
    end(&rig);
}

/* Closing with jobs that run, wait, hang and are held back. */
static void test_close_busy(void **state)
{
    (void)state;
    for (int real_time = 0; real_time < 2; real_time++) {
        struct ork_npu_device *device = rig_open("early:core=0,us=3600000000;never:core=1", real_time);
        struct rig rigs[4];
        for (uint32_t i = 0; i < 4; i++) {
            rig_make(&rigs[i], device, i % 3, 0, 4, 16, 256, 64);
            assert_int_equal(rig_submit(&rigs[i]), ORK_OK);
        }
        close_device(device);
        for (int i = 0; i < 4; i++)
            free(rigs[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capabilities), cmocka_unit_test(test_open_refused), cmocka_unit_test(test_right_result),
        cmocka_unit_test(test_times),        cmocka_unit_test(test_domains),      cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_capacity),     cmocka_unit_test(test_import),       cmocka_unit_test(test_wrong_address),
        cmocka_unit_test(test_misuse),       cmocka_unit_test(test_cancel),       cmocka_unit_test(test_late),
        cmocka_unit_test(test_never),        cmocka_unit_test(test_stop),         cmocka_unit_test(test_wrong_outputs),
        cmocka_unit_test(test_lost),         cmocka_unit_test(test_early),        cmocka_unit_test(test_dead),
        cmocka_unit_test(test_wedge),        cmocka_unit_test(test_refuse),       cmocka_unit_test(test_hung_domain),
        cmocka_unit_test(test_close_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
