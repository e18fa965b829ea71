/* The mainline driver's device on the played driver: what it refuses and how it says so, memory, jobs on three cores, faults
 * that the kernel hides, and cache maintenance that was forgotten. Guards rocket.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "product.h"
#include "shim/shim.h"

#define LONG_US 60000000ull /* sanitizers, a busy machine */

static void play(const char *options, const char *faults)
{
    assert_int_equal(ork_shim_configure(options, faults, NULL), 0);
}

static struct ork_npu_device *open_device(void)
{
    ork_error error = {0};
    struct ork_npu_device *device = NULL;
    if (ork_npu_rocket_open(&(ork_npu_params){.kind = ORK_NPU_ROCKET}, &device, &error) != ORK_OK)
        fail_msg("%s: %s", error.where, error.what);
    return device;
}

static int leave(void **state)
{
    (void)state;
    uint32_t files = ork_shim_open_files();
    return files ? (int)files : ork_shim_configure(NULL, NULL, NULL);
}

/* ---- opening ---- */

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        ork_status status;
        const char *word;
    } cases[] = {
        {"rocket,absent=1", ORK_NOT_FOUND, "no node of the driver rocket"},
        {"rocket,denied=1", ORK_IO, "Permission denied"},
        {"rocket,name=amdxdna", ORK_NOT_FOUND, "/dev/accel/accel0 belongs to the driver 'amdxdna'"},
        {"rknpu", ORK_NOT_FOUND, "no node of the driver rocket"},
        {"rocket,version=20000", ORK_UNSUPPORTED, "2.0"},
        {"rocket,soc=rk3576", ORK_UNSUPPORTED, "rk3576"},
        {"rocket,soc=", ORK_UNSUPPORTED, "no device tree"},
        {"rocket,memory_mib=0", ORK_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ork_error error = {0};
        struct ork_npu_device *device = NULL;
        play(cases[i].options, cases[i].status ? NULL : "memory:at=5");
        ork_status status = ork_npu_rocket_open(NULL, &device, &error);
        if (cases[i].status == ORK_OK) { /* no memory for the second queue */
            assert_int_equal(status, ORK_NO_MEMORY);
        } else if (status != cases[i].status || !strstr(error.what, cases[i].word)) {
            fail_msg("%s: %d, %s: %s", cases[i].options, status, error.where, error.what);
        }
        assert_null(device);
        assert_int_equal(ork_shim_open_files(), 0);
    }
    play("rocket", NULL);
    struct ork_npu_device *device = open_device(), *second = NULL;
    ork_error error = {0};
    assert_int_equal(ork_npu_rocket_open(NULL, &second, &error), ORK_IO); /* one at a time */
    assert_non_null(strstr(error.what, "in use by process"));
    device->ops->close(device);
}

static void test_capabilities(void **state)
{
    (void)state;
    play("rocket,node=2,other=intel_vpu,version=105", NULL);
    struct ork_npu_device *device = open_device();
    const struct ork_npu_capabilities *c = device->ops->capabilities(device);
    assert_string_equal(c->driver, "rocket");
    assert_string_equal(c->node, "/dev/accel/accel2");
    assert_string_equal(c->soc, "rk3588");
    assert_int_equal(c->driver_version, 105);
    assert_int_equal(c->cores, 3);
    assert_int_equal(c->domains, 3);
    assert_int_equal(c->job_limit_us, 500000);
    assert_true(c->core_per_domain && c->sync_whole && c->knows_completion && !c->imports && !c->virtual_time);
    assert_int_equal(ork_shim_count("files"), 3); /* the other driver's are closed */
    assert_ptr_equal(device->ops->clock(device), ork_clock_monotonic());
    device->ops->close(device);
    ork_error error = {0};
    assert_int_equal(ork_npu_rocket_open(&(ork_npu_params){.cores = 2}, &device, &error), ORK_OK);
    assert_int_equal(device->ops->capabilities(device)->domains, 2);
    device->ops->close(device);
}

/* ---- memory ---- */

static void test_allocation(void **state)
{
    (void)state;
    play("rocket", NULL);
    ork_error error = {0};
    struct ork_npu_device *device = open_device();
    struct ork_npu_buffer buffers[3][8], extra;
    for (uint32_t domain = 0; domain < 3; domain++)
        for (uint32_t i = 0; i < 8; i++) {
            struct ork_npu_buffer *buffer = &buffers[domain][i];
            assert_int_equal(device->ops->allocate(device, domain, 5000 + i * 4096, buffer, &error), ORK_OK);
            assert_true(buffer->iova != 0); /* a link to 0 ends a chain */
            assert_int_equal(buffer->iova % 4096, 0);
            assert_int_equal(buffer->domain, domain);
            assert_int_equal(buffer->size_bytes, 8192 + i * 4096);
            if (i)
                assert_true(buffer->iova >= buffers[domain][i - 1].iova + buffers[domain][i - 1].size_bytes);
            memset(buffer->host, 1, buffer->size_bytes);
        }
    assert_int_equal(buffers[0][0].iova, buffers[1][0].iova); /* spaces of their own */
    uint32_t hole = buffers[1][3].iova;
    device->ops->release(device, &buffers[1][3]);
    device->ops->release(device, &buffers[1][3]); /* harmless */
    assert_int_equal(device->ops->allocate(device, 1, 4096, &extra, &error), ORK_OK);
    assert_int_equal(extra.iova, hole);
    static const struct {
        uint32_t domain;
        uint64_t size_bytes;
        ork_status status;
    } bad[] = {{3, 4096, ORK_BAD_ARGUMENT},
               {0, 0, ORK_BAD_ARGUMENT},
               {0, 0x7ffff001, ORK_NO_MEMORY},
               {0, UINT64_MAX, ORK_NO_MEMORY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(device->ops->allocate(device, bad[i].domain, bad[i].size_bytes, &extra, &error),
                         bad[i].status);
    assert_int_equal(device->ops->import(device, 0, &error, 4096, &extra, &error), ORK_UNSUPPORTED);
    assert_int_equal(device->ops->sync(device, &buffers[0][0], 8192, 1, ORK_NPU_TO_DEVICE, &error), ORK_BAD_ARGUMENT);
    device->ops->close(device); /* takes the rest with it */
    assert_int_equal(ork_shim_count("buffers"), 0);
    assert_int_equal(ork_shim_count("files"), 0);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    play("rocket,memory_mib=64", NULL);
    ork_error error = {0};
    struct ork_npu_device *device = open_device();
    struct ork_npu_buffer buffer;
    ork_status status = ORK_OK;
    uint32_t count = 0;
    while ((status = device->ops->allocate(device, 2, 4 << 20, &buffer, &error)) == ORK_OK)
        count++;
    assert_int_equal(status, ORK_NO_MEMORY);
    assert_int_equal(count, 15); /* the fences have some pages */
    assert_non_null(strstr(error.what, "domain 2: 4194304 bytes beside"));
    device->ops->close(device);
    play("rocket", NULL); /* 3.75 GiB of addresses, untouched pages cost nothing */
    device = open_device();
    assert_int_equal(device->ops->allocate(device, 0, 2000u << 20, &buffer, &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 0, 1800u << 20, &buffer, &error), ORK_OK);
    assert_int_equal(device->ops->allocate(device, 0, 100u << 20, &buffer, &error), ORK_NO_MEMORY);
    assert_int_equal(device->ops->allocate(device, 1, 100u << 20, &buffer, &error), ORK_OK);
    device->ops->close(device);
    play("rocket", "memory:at=20"); /* none left in the middle */
    device = open_device();
    status = ORK_OK;
    for (count = 0; status == ORK_OK && count < 100; count++)
        status = device->ops->allocate(device, 0, 4096, &buffer, &error);
    assert_int_equal(status, ORK_NO_MEMORY);
    assert_int_equal(device->ops->allocate(device, 0, 4096, &buffer, &error), ORK_OK);
    device->ops->close(device);
}

/* ---- jobs ---- */

static enum ork_npu_state wait_for(struct product *p, uint64_t limit_us)
{
    const struct ork_npu_device_ops *ops = p->device->ops;
    const struct ork_clock *clock = ops->clock(p->device);
    uint64_t end = clock->now_ns(clock) + 1000 * limit_us;
    enum ork_npu_state state;
    while ((state = ops->poll(p->device, p->job[0])) == ORK_NPU_PENDING && clock->now_ns(clock) < end)
        clock->sleep_until(clock, ops->next_look_ns(p->device, p->job[0]));
    return state;
}

static void fetch(struct product *p)
{
    ork_error error = {0};
    assert_int_equal(p->device->ops->sync(p->device, &p->c, 0, p->c.size_bytes, ORK_NPU_FROM_DEVICE, &error), ORK_OK);
}

/* Poison, submit, poll until done, fetch; numbers that are wrong. */
static uint32_t run(struct product *p)
{
    ork_error error = {0};
    product_poison(p);
    assert_int_equal(product_submit(p, &error), ORK_OK);
    assert_int_equal(wait_for(p, LONG_US), ORK_NPU_DONE);
    fetch(p);
    return product_wrong(p);
}

static void test_products(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {{1, 32, 32, 1},  {1, 96, 64, 2},    {2, 32, 32, 3},
                                         {3, 64, 32, 1},  {4, 512, 96, 4},   {7, 160, 32, 16},
                                         {16, 64, 64, 5}, {33, 1024, 32, 2}, {64, 256, 160, 1}};
    play("rocket", NULL);
    struct ork_npu_device *device = open_device();
    uint32_t tasks = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t core = 0; core < 3; core++) {
            struct product p;
            product_make(&p, device, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], 1, core, core,
                         7 + (uint32_t)i);
            assert_int_equal(run(&p), 0);
            product_fill(&p, 1000 + core); /* the same job with other inputs */
            product_sync_inputs(&p);
            assert_int_equal(run(&p), 0);
            tasks += 2 * shapes[i][3];
            product_free(&p);
        }
    assert_int_equal(ork_shim_count("tasks"), tasks);
    device->ops->close(device);
}

/* Three queues at once, several jobs deep; results of all. */
static void test_three_cores(void **state)
{
    (void)state;
    enum { DEPTH = 4 };
    struct product p[3][DEPTH];
    ork_error error = {0};
    play("rocket,us=1000", NULL);
    struct ork_npu_device *device = open_device();
    for (uint32_t core = 0; core < 3; core++)
        for (uint32_t i = 0; i < DEPTH; i++) {
            product_make(&p[core][i], device, 5, 128, 32, 3, 1, core, core, core * DEPTH + i);
            product_poison(&p[core][i]);
        }
    for (uint32_t i = 0; i < DEPTH; i++)
        for (uint32_t core = 0; core < 3; core++)
            assert_int_equal(product_submit(&p[core][i], &error), ORK_OK);
    assert_int_equal(device->ops->submit(device, p[0][0].job[0], &error), ORK_BAD_ARGUMENT); /* it is under way */
    for (uint32_t i = 0; i < DEPTH; i++)
        for (uint32_t core = 0; core < 3; core++) {
            assert_int_equal(wait_for(&p[core][i], LONG_US), ORK_NPU_DONE);
            fetch(&p[core][i]);
            assert_int_equal(product_wrong(&p[core][i]), 0);
            product_free(&p[core][i]);
        }
    assert_int_equal(ork_shim_count("dropped"), 0);
    device->ops->close(device);
}

/* A job is done when it is done, whatever waits or hangs behind it in its queue. */
static void test_one_behind_another(void **state)
{
    (void)state;
    ork_error error = {0};
    struct product p, q;
    play("rocket,watchdog_ms=2000", "never:at=1");
    struct ork_npu_device *device = open_device();
    product_make(&p, device, 2, 64, 32, 2, 1, 0, 0, 3);
    product_make(&q, device, 2, 64, 32, 2, 1, 0, 0, 4);
    product_poison(&p);
    product_poison(&q);
    assert_int_equal(product_submit(&p, &error), ORK_OK);
    assert_int_equal(product_submit(&q, &error), ORK_OK);
    assert_int_equal(wait_for(&p, LONG_US), ORK_NPU_DONE);
    enum ork_npu_state behind = device->ops->poll(device, q.job[0]);
    assert_int_equal(ork_shim_count("timeouts"), 0);
    assert_int_equal(behind, ORK_NPU_PENDING);
    fetch(&p);
    assert_int_equal(product_wrong(&p), 0);
    product_free(&p);
    product_free(&q);
    device->ops->close(device);
}

static void test_job_refusals(void **state)
{
    (void)state;
    play("rocket", NULL);
    struct ork_npu_device *device = open_device();
    struct product p, q;
    product_make(&p, device, 1, 32, 32, 1, 1, 1, 1, 1);
    product_make(&q, device, 1, 32, 32, 1, 1, 2, 2, 1);
    const struct ork_npu_buffer *inputs[] = {&p.programs, &p.a, &p.b, &p.a, &p.a}, *outputs[] = {&p.c, &p.c};
    const struct ork_npu_buffer *foreign[] = {&p.programs, &q.a}, *both[] = {&p.programs, &p.c};
    struct ork_npu_task task = {p.programs.iova, 107}, null = {0, 107}, odd = {p.programs.iova + 8, 107},
                        outside = {p.programs.iova + (uint32_t)p.programs.size_bytes - 64, 107},
                        empty = {p.programs.iova, 0};
    const struct ork_npu_job_params good = {.core = 1,
                                            .domain = 1,
                                            .tasks = &task,
                                            .task_count = 1,
                                            .inputs = inputs,
                                            .input_count = 5,
                                            .outputs = outputs,
                                            .output_count = 2};
    struct ork_npu_job_params bad[] = {good, good, good, good, good, good, good, good, good, good};
    bad[0].core = 0;
    bad[1].core = bad[1].domain = 3;
    bad[2].tasks = &null;
    bad[3].tasks = &odd;
    bad[4].tasks = &outside;
    bad[5].tasks = &empty;
    bad[6].task_count = 0;
    bad[7].inputs = foreign, bad[7].input_count = 2;
    bad[8].inputs = both, bad[8].input_count = 2;
    bad[9].output_count = 0;
    ork_error error = {0};
    struct ork_npu_job *job;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(device->ops->job_create(device, &bad[i], &job, &error), ORK_BAD_ARGUMENT);
        assert_null(job);
    }
    /* A buffer that is named twice would be dropped by the kernel: it is named once. */
    assert_int_equal(device->ops->job_create(device, &good, &job, &error), ORK_OK);
    product_poison(&p);
    assert_int_equal(device->ops->submit(device, job, &error), ORK_OK);
    while (device->ops->poll(device, job) == ORK_NPU_PENDING)
        ;
    fetch(&p);
    assert_int_equal(product_wrong(&p), 0);
    assert_int_equal(ork_shim_count("dropped"), 0);
    device->ops->job_destroy(device, job);
    device->ops->job_destroy(device, NULL);
    product_free(&p);
    product_free(&q);
    device->ops->close(device);
}

/* ---- what the kernel hides ---- */

/* Each fault ends in DONE, since the kernel says nothing else; only the output tells. The next run is right but for `dead`. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        bool right;      /* the struck run */
        bool slow;       /* ended by the watchdog */
        bool right_next; /* the run after it */
    } cases[] = {
        {"late:at=0,us=20000", true, false, true},
        {"never:at=0", false, true, true},
        {"stop:at=0,after=2", false, true, true},
        {"constant:at=0", false, false, true},
        {"untouched:at=0", false, false, true},
        {"tail:at=0,atoms=1", false, false, true},
        {"flip:at=0,words=2", false, false, true},
        {"lost:at=0", true, true, true},
        {"refuse:at=0", false, false, true},
        {"switch:at=0", false, false, true},
        {"wedge:at=0", false, true, true},
        {"dead:at=0", false, true, false},
        {"never:at=0;reset-fails:at=0", false, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play("rocket,watchdog_ms=60", cases[i].script);
        struct ork_npu_device *device = open_device();
        struct product p;
        product_make(&p, device, 4, 96, 32, 4, 1, 0, 0, 3);
        uint64_t begin_us = shim_now_us();
        bool right = run(&p) == 0;
        uint64_t took_us = shim_now_us() - begin_us;
        if (right != cases[i].right || (cases[i].slow && took_us < 60000))
            fail_msg("%s: right %d, %llu us", cases[i].script, right, (unsigned long long)took_us);
        if ((run(&p) == 0) != cases[i].right_next)
            fail_msg("%s: the run after it", cases[i].script);
        product_free(&p);
        device->ops->close(device);
    }
}

/* Done before the output stands in memory: what is fetched then is not the result; a look later finds it. */
static void test_early(void **state)
{
    (void)state;
    play("rocket", "early:at=0,us=300000");
    struct ork_npu_device *device = open_device();
    struct product p;
    product_make(&p, device, 2, 32, 32, 1, 1, 0, 0, 3);
    uint64_t begin_us = shim_now_us();
    uint32_t wrong = run(&p);
    if (shim_now_us() - begin_us < 250000) /* else this process was stopped meanwhile */
        assert_int_equal(wrong, 64);
    assert_true(product_wait(&p, LONG_US));
    assert_int_equal(product_wrong(&p), 0);
    product_free(&p);
    device->ops->close(device);
}

static void test_reset_and_cancel(void **state)
{
    (void)state;
    ork_error error = {0};
    struct product p, q;
    play("rocket,watchdog_ms=200", "never:at=0");
    struct ork_npu_device *device = open_device();
    product_make(&p, device, 2, 64, 32, 2, 1, 1, 1, 3);
    product_make(&q, device, 2, 64, 32, 2, 1, 1, 1, 4);
    assert_int_equal(device->ops->reset(device, &error), ORK_OK); /* nothing runs: at once */
    product_poison(&p);
    product_poison(&q);
    uint64_t begin_us = shim_now_us();
    assert_int_equal(product_submit(&p, &error), ORK_OK);
    assert_int_equal(product_submit(&q, &error), ORK_OK); /* waits behind it */
    if (shim_now_us() - begin_us < 150000)
        assert_false(device->ops->cancel(device, p.job[0])); /* there is no way to take it back */
    assert_int_equal(device->ops->reset(device, &error), ORK_OK);
    assert_true(shim_now_us() - begin_us >= 200000);
    assert_int_equal(device->ops->poll(device, p.job[0]), ORK_NPU_DONE);
    assert_true(device->ops->cancel(device, q.job[0]));
    fetch(&p);
    fetch(&q);
    assert_int_equal(product_wrong(&p), 2 * 64);
    assert_int_equal(product_wrong(&q), 0);
    assert_int_equal(run(&p), 0); /* weights and programs are where they were */
    product_free(&p);
    product_free(&q);
    device->ops->close(device);
    /* A watchdog that does not come: the reset gives up within its bound, and so does close. */
    play("rocket,watchdog_ms=2500", "never:at=0");
    device = open_device();
    product_make(&p, device, 2, 64, 32, 2, 1, 0, 0, 3);
    begin_us = shim_now_us();
    assert_int_equal(product_submit(&p, &error), ORK_OK);
    assert_int_equal(device->ops->reset(device, &error), ORK_IO);
    assert_true(shim_now_us() - begin_us >= 600000);
    product_free(&p);
    device->ops->close(device);
}

/* Jobs that are given up under way do not use up what jobs are watched by. */
static void test_abandoned_jobs(void **state)
{
    (void)state;
    ork_error error = {0};
    struct product p;
    play("rocket,us=200", NULL);
    struct ork_npu_device *device = open_device();
    for (int i = 0; i < 200; i++) {
        product_make(&p, device, 1, 32, 32, 1, 1, 0, 0, 3);
        ork_status status = product_submit(&p, &error);
        if (status == ORK_LIMIT) { /* 64 are under way: wait for them */
            assert_int_equal(device->ops->reset(device, &error), ORK_OK);
            status = product_submit(&p, &error);
        }
        assert_int_equal(status, ORK_OK);
        product_free(&p);
    }
    device->ops->close(device);
}

/* ---- caches ---- */

static void test_forgotten_maintenance(void **state)
{
    (void)state;
    ork_error error = {0};
    struct product p;
    play("rocket", NULL);
    struct ork_npu_device *device = open_device();
    product_make(&p, device, 2, 64, 32, 2, 1, 0, 0, 3);
    assert_int_equal(run(&p), 0);
    product_fill(&p, 99); /* not handed over: the NPU multiplies what was there */
    assert_true(run(&p) > 100);
    product_sync_inputs(&p);
    assert_int_equal(run(&p), 0);
    product_poison(&p); /* not fetched: the host sees its own lines */
    assert_int_equal(product_submit(&p, &error), ORK_OK);
    assert_int_equal(wait_for(&p, LONG_US), ORK_NPU_DONE);
    assert_int_equal(product_wrong(&p), 2 * 64);
    memset(p.c.host, 0x55, p.c.size_bytes); /* a poison that was not handed over may fall on the result */
    assert_int_equal(product_submit(&p, &error), ORK_OK);
    assert_int_equal(wait_for(&p, LONG_US), ORK_NPU_DONE);
    fetch(&p);
    assert_int_equal(product_wrong(&p), 2 * 64);
    p.a.host[0] ^= 1; /* a fetch of the buffer throws away what was written to it */
    uint8_t mine = p.a.host[0];
    assert_int_equal(device->ops->sync(device, &p.a, 0, 1, ORK_NPU_FROM_DEVICE, &error), ORK_OK);
    assert_int_equal(p.a.host[0], mine ^ 1);
    product_free(&p);
    device->ops->close(device);
}

/* ---- the calls themselves ---- */

/* Transcript with what varies (descriptors, addresses) cut off. */
static void test_transcript(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "openat(AT_FDCWD, \"/dev/accel/accel0\", O_RDWR|O_CLOEXEC)",
        "ioctl(DRM_IOCTL_VERSION, {name=\"rocket\"})",
        "ioctl(DRM_IOCTL_ROCKET_CREATE_BO, {size=4096, handle=1, dma_address=0, offset=0x100000000})",
        "ioctl(DRM_IOCTL_ROCKET_CREATE_BO, {size=12288, handle=5, dma_address=0x4000, offset=0x500000000})",
        "ioctl(DRM_IOCTL_ROCKET_FINI_BO, {handle=5})",
        "ioctl(DRM_IOCTL_ROCKET_SUBMIT, {job_count=1, job_struct_size=40, reserved=0})",
        "ioctl(DRM_IOCTL_ROCKET_PREP_BO, {handle=1, timeout_ns=0})",
        "ioctl(DRM_IOCTL_ROCKET_PREP_BO, {handle=8, timeout_ns=0})",
        "ioctl(DRM_IOCTL_GEM_CLOSE, {handle=5})",
    };
    char path[64], line[512];
    snprintf(path, sizeof path, "/tmp/ork-rocket-%ld.txt", (long)getpid());
    assert_int_equal(ork_shim_configure("rocket", NULL, path), 0);
    struct ork_npu_device *device = open_device();
    struct product p;
    product_make(&p, device, 1, 32, 32, 11, 1, 0, 0, 3);
    assert_int_equal(run(&p), 0);
    product_free(&p);
    device->ops->close(device);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t seen = 0;
    while (seen < sizeof wanted / sizeof *wanted && fgets(line, sizeof line, file)) {
        char *equals = strstr(line, ") = "), text[512];
        int descriptor, cut = 0;
        if (!equals)
            continue;
        equals[1] = 0;
        if (sscanf(line, "ioctl(%d, %n", &descriptor, &cut) == 1 && cut)
            snprintf(text, sizeof text, "ioctl(%s", line + cut);
        else
            snprintf(text, sizeof text, "%s", line);
        seen += strcmp(text, wanted[seen]) == 0;
    }
    fclose(file);
    if (seen < sizeof wanted / sizeof *wanted)
        fail_msg("%s: not in order: %s", path, wanted[seen]);
    remove(path);
}

#define CASE(function) cmocka_unit_test_teardown(function, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_refusals),
        CASE(test_capabilities),
        CASE(test_allocation),
        CASE(test_memory_runs_out),
        CASE(test_products),
        CASE(test_three_cores),
        CASE(test_job_refusals),
        CASE(test_faults),
        CASE(test_early),
        CASE(test_abandoned_jobs),
        CASE(test_one_behind_another),
        CASE(test_reset_and_cancel),
        CASE(test_forgotten_maintenance),
        CASE(test_transcript),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
