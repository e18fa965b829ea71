/* The played mainline driver against the facts (npu-hw.md 2), without ork's device code: request numbers as bytes, address
 * spaces, queues, fences, the watchdog, and errors that nobody hears of. Guards the stage on which the device is tested. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/npu/device/rocket_abi.h"
#include "engine/npu/program.h"
#include "shim/shim.h"

#define NODE "/dev/accel/accel0"

static int open_node(void)
{
    int file = open(NODE, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    return file;
}

static struct rocket_create_bo create(int file, uint32_t size_bytes)
{
    struct rocket_create_bo bo = {.size_bytes = size_bytes};
    assert_int_equal(ioctl(file, 0xC0186440, &bo), 0);
    return bo;
}

static void *map(int file, const struct rocket_create_bo *bo)
{
    void *host = mmap(NULL, bo->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)bo->map_offset);
    assert_ptr_not_equal(host, MAP_FAILED);
    return host;
}

static int prep(int file, uint32_t handle, int64_t deadline_ns)
{
    struct rocket_prep_bo arguments = {.handle = handle, .deadline_ns = deadline_ns};
    return ioctl(file, 0x40106442, &arguments) == 0 ? 0 : errno;
}

static int fini(int file, uint32_t handle)
{
    struct rocket_fini_bo arguments = {.handle = handle};
    return ioctl(file, 0x40086443, &arguments) == 0 ? 0 : errno;
}

static int submit(int file, uint32_t program, uint32_t words, const uint32_t *in, uint32_t in_count,
                  const uint32_t *out, uint32_t out_count)
{
    struct rocket_abi_task task = {program, words};
    struct rocket_abi_job job = {.tasks = (uintptr_t)&task,
                                 .inputs = (uintptr_t)in,
                                 .outputs = (uintptr_t)out,
                                 .task_count = 1,
                                 .task_size_bytes = 8,
                                 .input_count = in_count,
                                 .output_count = out_count};
    struct rocket_submit arguments = {.jobs = (uintptr_t)&job, .job_count = 1, .job_size_bytes = 40};
    return ioctl(file, 0x40186441, &arguments) == 0 ? 0 : errno;
}

/* One int8 product of 1 x 32 times 32 x 32, all ones, in one file: the result is 32 everywhere. */
struct bench {
    int file;
    struct rocket_create_bo program, a, b, c;
    uint64_t *words;
    int8_t *rows, *weights;
    int32_t *result;
};

static void bench_open(struct bench *bench)
{
    bench->file = open_node();
    create(bench->file, 4096); /* address 0 ends a chain: nothing of ours may be there */
    bench->program = create(bench->file, 8192);
    bench->a = create(bench->file, 4096);
    bench->b = create(bench->file, 4096);
    bench->c = create(bench->file, 4096);
    bench->words = map(bench->file, &bench->program);
    bench->rows = map(bench->file, &bench->a);
    bench->weights = map(bench->file, &bench->b);
    bench->result = map(bench->file, &bench->c);
    struct ork_npu_shape shape = {.type = ORK_NPU_W8A8, .m = 1, .k = 32, .n = 32};
    struct ork_npu_addresses addresses = {(uint32_t)bench->a.dma_address, (uint32_t)bench->b.dma_address,
                                          (uint32_t)bench->c.dma_address};
    ork_error error;
    assert_int_equal(ork_npu_program_write(&shape, &addresses, bench->words, &error), ORK_OK);
    memset(bench->rows, 1, 32);
    memset(bench->weights, 1, 1024);
    assert_int_equal(fini(bench->file, bench->program.handle), 0);
    assert_int_equal(fini(bench->file, bench->a.handle), 0);
    assert_int_equal(fini(bench->file, bench->b.handle), 0);
}

/* A mapping holds the file open in the kernel, so those end first. */
static void bench_close(const struct bench *bench)
{
    munmap(bench->words, bench->program.size_bytes);
    munmap(bench->rows, bench->a.size_bytes);
    munmap(bench->weights, bench->b.size_bytes);
    munmap(bench->result, bench->c.size_bytes);
    close(bench->file);
}

static void bench_submit(const struct bench *bench)
{
    const uint32_t in[] = {bench->program.handle, bench->a.handle, bench->b.handle};
    assert_int_equal(submit(bench->file, (uint32_t)bench->program.dma_address, ork_npu_program_words(ORK_NPU_W8A8), in,
                            3, &bench->c.handle, 1),
                     0);
}

static int64_t in_ms(uint64_t ms)
{
    return (int64_t)(ork_clock_now_ns() + ms * 1000000);
}

static void play(const char *options, const char *faults)
{
    assert_int_equal(ork_shim_configure(options, faults, NULL), 0);
}

static void test_identity(void **state)
{
    (void)state;
    play("rocket", NULL);
    int file = open_node();
    char name[16] = "";
    struct rocket_drm_version version = {.major = 9, .minor = 9, .patch = 9, .name = (uintptr_t)name, .name_size = 15};
    assert_int_equal(ioctl(file, 0xC0406400, &version), 0);
    assert_string_equal(name, "rocket");
    assert_int_equal(version.name_size, 6);
    assert_int_equal(version.major + version.minor + version.patch, 0);
    assert_int_equal(open("/dev/accel/accel1", O_RDWR), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(open("/dev/dri/card1", O_RDWR), -1);
    close(file);
}

static void test_address_spaces(void **state)
{
    (void)state;
    play("rocket", NULL);
    int files[2] = {open_node(), open_node()};
    for (int i = 0; i < 2; i++) { /* each file from 0 up, in whole pages */
        assert_int_equal(create(files[i], 5000).dma_address, 0);
        assert_int_equal(create(files[i], 4096).dma_address, 8192);
    }
    struct rocket_create_bo first = create(files[0], 16384), second = create(files[0], 4096);
    assert_int_equal(first.dma_address, 12288);
    assert_int_equal(second.dma_address, 28672);
    struct rocket_gem_close gone = {.handle = first.handle};
    assert_int_equal(ioctl(files[0], 0x40086409, &gone), 0);
    assert_int_equal(ioctl(files[0], 0x40086409, &gone), -1);
    assert_int_equal(create(files[0], 8192).dma_address, 12288); /* the hole is used again */
    struct rocket_create_bo large = {.size_bytes = 0x80000000u};
    assert_int_equal(ioctl(files[0], 0xC0186440, &large), -1);
    assert_int_equal(prep(files[0], first.handle + 100, 0), ENOENT);
    struct rocket_prep_bo reserved = {.handle = second.handle, .reserved = 1};
    assert_int_equal(ioctl(files[0], 0x40106442, &reserved), -1);
    assert_int_equal(errno, EINVAL);
    close(files[0]);
    close(files[1]);
    assert_int_equal(ork_shim_count("buffers"), 0);
}

static void test_job(void **state)
{
    (void)state;
    struct bench bench;
    play("rocket", NULL);
    bench_open(&bench);
    bench_submit(&bench);
    assert_int_equal(bench.result[0], 0); /* the host's lines are still the old ones */
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(bench.result[i], 32);
    assert_int_equal(ork_shim_count("tasks"), 1);
    bench_close(&bench);
}

/* Caches: what was not handed over is not seen, on either side. */
static void test_caches(void **state)
{
    (void)state;
    struct bench bench;
    play("rocket,evict=0", NULL);
    bench_open(&bench);
    memset(bench.rows, 2, 32); /* no FINI */
    bench_submit(&bench);
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0);
    assert_int_equal(bench.result[0], 32);
    bench.result[40] = 7; /* dirty, and thrown away */
    assert_int_equal(prep(bench.file, bench.c.handle, 0), 0);
    assert_int_equal(bench.result[40], 0);
    bench_close(&bench);
    play("rocket", NULL); /* a dirty line of an output falls on the result */
    bench_open(&bench);
    bench.result[3] = 99;
    bench_submit(&bench);
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0);
    assert_int_equal(bench.result[3], 99);
    assert_true(ork_shim_count("evictions") > 0);
    bench_close(&bench);
}

static void test_hidden_errors(void **state)
{
    (void)state;
    struct bench bench;
    play("rocket", NULL);
    bench_open(&bench);
    uint32_t program = (uint32_t)bench.program.dma_address, words = ork_npu_program_words(ORK_NPU_W8A8);
    const uint32_t in[] = {bench.program.handle, bench.a.handle, bench.a.handle}, unknown = 4000;
    /* All of these are dropped, and all answer 0; nothing is pending afterwards. */
    assert_int_equal(submit(bench.file, program, words, in, 2, in, 1), 0);              /* in both lists */
    assert_int_equal(submit(bench.file, program, words, in, 3, &bench.c.handle, 1), 0); /* twice in one */
    assert_int_equal(submit(bench.file, program, words, &unknown, 1, &bench.c.handle, 1), 0);
    assert_int_equal(submit(bench.file, program, 0, in, 2, &bench.c.handle, 1), 0); /* an empty task */
    assert_int_equal(ork_shim_count("dropped"), 4);
    assert_int_equal(ork_shim_count("jobs"), 0);
    assert_int_equal(prep(bench.file, bench.c.handle, 0), 0);
    assert_int_equal(bench.result[0], 0);
    /* Of the call itself it does say something. */
    struct rocket_abi_job job = {0};
    struct rocket_submit call = {.jobs = (uintptr_t)&job, .job_count = 1, .job_size_bytes = 39};
    assert_int_equal(ioctl(bench.file, 0x40186441, &call), -1);
    assert_int_equal(errno, EINVAL);
    call = (struct rocket_submit){.jobs = (uintptr_t)&job, .job_count = 1, .job_size_bytes = 40, .reserved = 1};
    assert_int_equal(ioctl(bench.file, 0x40186441, &call), -1);
    call = (struct rocket_submit){.job_count = 0};
    assert_int_equal(ioctl(bench.file, 0x40186441, &call), 0);
    bench_close(&bench);
}

/* A file that is closed while its memory is mapped stays until that ends. */
static void test_mapping_outlives_close(void **state)
{
    (void)state;
    play("rocket", NULL);
    int file = open_node();
    struct rocket_create_bo bo = create(file, 4096);
    char *host = map(file, &bo);
    close(file);
    host[0] = 1;
    assert_int_equal(ork_shim_count("buffers"), 1);
    munmap(host, 4096);
    assert_int_equal(ork_shim_count("buffers"), 0);
    assert_int_equal(ork_shim_count("files"), 0);
}

static void test_deadlines_and_watchdog(void **state)
{
    (void)state;
    struct bench bench;
    play("rocket,watchdog_ms=150", "never:at=0");
    bench_open(&bench);
    uint64_t begin_us = shim_now_us();
    bench_submit(&bench);
    assert_int_equal(prep(bench.file, bench.c.handle, 0), EBUSY);
    assert_int_equal(prep(bench.file, bench.c.handle, 1), EBUSY); /* a deadline in the past does not wait either */
    if (shim_now_us() < begin_us + 100000)
        assert_int_equal(prep(bench.file, bench.c.handle, in_ms(10)), ETIMEDOUT);
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0); /* "done" */
    assert_true(shim_now_us() - begin_us >= 150000);
    assert_int_equal(bench.result[0], 0); /* but nothing was written */
    assert_int_equal(ork_shim_count("timeouts"), 1);
    bench_submit(&bench); /* the core works again */
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0);
    assert_int_equal(bench.result[0], 32);
    bench_close(&bench);
}

/* Jobs of one file stay on one core; three files take three. The fault script tells which core a job ran on. */
static void test_queues(void **state)
{
    (void)state;
    struct bench bench[3];
    play("rocket,us=20000", "untouched:core=1;untouched:core=2");
    bench_open(&bench[0]);
    for (int i = 0; i < 3; i++)
        bench_submit(&bench[0]);
    assert_int_equal(prep(bench[0].file, bench[0].c.handle, in_ms(60000)), 0);
    assert_int_equal(ork_shim_count("tasks"), 3);
    assert_int_equal(ork_shim_faults_struck(ORK_FAULT_UNTOUCHED), 0);
    bench_close(&bench[0]);
    play("rocket,us=100000", "untouched:core=1;untouched:core=2");
    for (int i = 0; i < 3; i++)
        bench_open(&bench[i]);
    for (int i = 0; i < 3; i++)
        bench_submit(&bench[i]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(prep(bench[i].file, bench[i].c.handle, in_ms(60000)), 0);
    assert_int_equal(ork_shim_faults_struck(ORK_FAULT_UNTOUCHED), 2);
    for (int i = 0; i < 3; i++)
        bench_close(&bench[i]);
}

static void test_a_task_that_takes_too_long(void **state)
{
    (void)state;
    struct bench bench;
    play("rocket,us=200000,watchdog_ms=50", NULL);
    bench_open(&bench);
    bench_submit(&bench);
    assert_int_equal(prep(bench.file, bench.c.handle, in_ms(60000)), 0);
    assert_int_equal(bench.result[0], 0);
    assert_int_equal(ork_shim_count("timeouts"), 1);
    bench_close(&bench); /* and a file may be closed with a job under way */
    bench_open(&bench);
    bench_submit(&bench);
    bench_close(&bench);
    assert_int_equal(ork_shim_open_files(), 0);
}

static int leave(void **state)
{
    (void)state;
    return ork_shim_configure(NULL, NULL, NULL); /* and no buffer is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_identity, leave),
        cmocka_unit_test_teardown(test_address_spaces, leave),
        cmocka_unit_test_teardown(test_job, leave),
        cmocka_unit_test_teardown(test_caches, leave),
        cmocka_unit_test_teardown(test_hidden_errors, leave),
        cmocka_unit_test_teardown(test_deadlines_and_watchdog, leave),
        cmocka_unit_test_teardown(test_mapping_outlives_close, leave),
        cmocka_unit_test_teardown(test_queues, leave),
        cmocka_unit_test_teardown(test_a_task_that_takes_too_long, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
