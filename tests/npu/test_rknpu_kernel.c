/* The played vendor driver does what the real one is known to do: each fact of npu-hw.md 1.2 to 1.8 that the device relies
 * on or guards against, by raw requests. Structs are written by byte offset here too, apart from the device's header. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/npu/program.h"
#include "shim/shim.h"

enum { ACTION, SUBMIT, CREATE, MAP, DESTROY, SYNC };
static const unsigned long requests[] = {0xC0086440, 0xC0686441, 0xC0306442, 0xC0106443, 0xC0106444, 0xC0206445};

static int node;

struct bo {
    uint32_t handle;
    uint64_t object, iova, size;
    uint8_t *host;
};

static int call(int which, void *argument)
{
    return ioctl(node, requests[which], argument) ? -errno : 0;
}

static void put32(uint8_t *s, size_t at, uint32_t v)
{
    memcpy(s + at, &v, 4);
}
static void put64(uint8_t *s, size_t at, uint64_t v)
{
    memcpy(s + at, &v, 8);
}
static uint32_t get32(const uint8_t *s, size_t at)
{
    uint32_t v;
    memcpy(&v, s + at, 4);
    return v;
}
static uint64_t get64(const uint8_t *s, size_t at)
{
    uint64_t v;
    memcpy(&v, s + at, 8);
    return v;
}

static void begin(const char *options, const char *faults)
{
    assert_int_equal(ork_shim_configure(options, faults, NULL), 0);
    node = open("/dev/dri/card1", O_RDWR | O_CLOEXEC);
    assert_true(node >= 0);
}

static void end(void)
{
    assert_int_equal(close(node), 0);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
}

static int create(struct bo *bo, uint32_t flags, uint64_t size, uint32_t domain)
{
    uint8_t s[48] = {0};
    put32(s, 4, flags);
    put64(s, 8, size);
    put32(s, 40, domain);
    int result = call(CREATE, s);
    *bo = (struct bo){get32(s, 0), get64(s, 16), get64(s, 24), get64(s, 8), NULL};
    if (result)
        return result;
    uint8_t map[16] = {0};
    put32(map, 0, bo->handle);
    assert_int_equal(call(MAP, map), 0);
    bo->host = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)get64(map, 8));
    return 0;
}

static void destroy(struct bo *bo)
{
    uint8_t s[16] = {0};
    put32(s, 0, bo->handle);
    put64(s, 8, bo->object);
    if (bo->host != MAP_FAILED)
        assert_int_equal(munmap(bo->host, bo->size), 0);
    assert_int_equal(call(DESTROY, s), 0);
}

static int sync_bo(const struct bo *bo, uint32_t flags)
{
    uint8_t s[32] = {0};
    put32(s, 0, flags);
    put64(s, 8, bo->object);
    put64(s, 24, bo->size);
    return call(SYNC, s);
}

static uint32_t action(uint32_t which, uint32_t value)
{
    uint8_t s[8] = {0};
    put32(s, 0, which);
    put32(s, 4, value);
    int result = call(ACTION, s);
    return result ? (uint32_t)result : get32(s, 4);
}

/* ---- a job: `count` tasks of 1 x 32 times 32 x 32, all ones, so each result is 32 ---- */

enum { TASKS = 6, DATA = 0x403, TASK = 0x40b };
struct work {
    struct bo tasks, programs, a, b, c;
};

static void work_make(struct work *w, uint32_t domain)
{
    ork_error error;
    assert_int_equal(create(&w->tasks, TASK, 4096, domain), 0);
    assert_int_equal(create(&w->programs, DATA, 16384, domain), 0);
    assert_int_equal(create(&w->a, DATA, 4096, domain), 0);
    assert_int_equal(create(&w->b, DATA, 4096, domain), 0);
    assert_int_equal(create(&w->c, DATA, 4096, domain), 0);
    memset(w->a.host, 1, 32);
    memset(w->b.host, 1, 1024);
    uint32_t words = ork_npu_program_words(ORK_NPU_W8A8);
    struct ork_npu_shape shape = {.type = ORK_NPU_W8A8, .m = 1, .k = 32, .n = 32};
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t at = i * 8 * ORK_NPU_PROGRAM_SLOT_WORDS;
        struct ork_npu_addresses addresses = {(uint32_t)w->a.iova, (uint32_t)w->b.iova, (uint32_t)w->c.iova + 128 * i};
        uint64_t *program = (uint64_t *)(w->programs.host + at);
        assert_int_equal(ork_npu_program_write(&shape, &addresses, program, &error), ORK_OK);
        /* Pairs are linked: tasks 0-1, 2-3, 4-5. */
        ork_npu_program_set_next(ORK_NPU_W8A8, i % 2, i % 2 ? 0 : (uint32_t)w->programs.iova + at + 8 * 128,
                                 ORK_NPU_W8A8, program);
        uint8_t *task = w->tasks.host + 40 * i;
        put32(task, 8, 0xd);
        put32(task, 12, 0x300);
        put32(task, 16, 0x1ffff);
        put32(task, 24, words - 4);
        put64(task, 32, w->programs.iova + at);
    }
    struct bo *all[] = {&w->programs, &w->a, &w->b, &w->c};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sync_bo(all[i], 1), 0);
}

static void work_free(struct work *w)
{
    struct bo *all[] = {&w->tasks, &w->programs, &w->a, &w->b, &w->c};
    for (size_t i = 0; i < 5; i++)
        destroy(all[i]);
}

/* How many tasks have their results. */
static uint32_t work_done(struct work *w, uint32_t timeout_ms, uint32_t wanted)
{
    uint32_t done = 0;
    for (uint64_t until = shim_now_us() + 1000 * timeout_ms;;) {
        assert_int_equal(sync_bo(&w->c, 2), 0);
        done = 0;
        for (uint32_t i = 0; i < TASKS; i++)
            done += get32(w->c.host + 128 * i, 124) == 32;
        if (done >= wanted || shim_now_us() > until)
            return done;
        usleep(200);
    }
}

static void submit_init(uint8_t s[104], const struct work *w, uint32_t flags, uint32_t timeout, uint32_t core_mask)
{
    memset(s, 0, 104);
    put32(s, 0, flags);
    put32(s, 4, timeout);
    put32(s, 12, 2);
    put64(s, 24, w->tasks.object);
    put32(s, 56, core_mask);
    put32(s, 60, (uint32_t)-1);
    for (size_t i = 0; i < 5; i++)
        put32(s, 68 + 8 * i, 2);
}

/* ---- tests ---- */

static void test_actions(void **state)
{
    (void)state;
    begin("rknpu", NULL);
    assert_int_equal(action(0, 0), 0x46495245);
    assert_int_equal(action(1, 0), 908);
    assert_int_equal(action(2, 0), 1000000000);
    assert_int_equal(action(18, 0), 1);
    assert_int_equal((int)action(3, 1), -EINVAL);
    assert_int_equal((int)action(7, 1), -EINVAL);
    assert_int_equal((int)action(20, 0), -EINVAL);
    assert_int_equal((int)action(26, 0), -EINVAL);
    assert_int_equal(action(25, 3), 3);
    assert_int_equal(action(24, 0), 3);
    assert_int_equal((int)action(25, 16), -EINVAL);
    end();
}

static void test_memory(void **state)
{
    (void)state;
    begin("rknpu,oops=count", NULL);
    struct bo first, second, other, plain, contiguous;
    assert_int_equal(create(&first, DATA, 100, 0), 0);
    assert_int_equal(first.size, 4096);
    assert_int_equal(first.iova, 0xfffff000); /* from the top of the domain */
    assert_int_equal(create(&second, DATA, 4097, 0), 0);
    assert_int_equal(second.iova, 0xffffd000);
    assert_int_equal(create(&other, DATA, 4096, 7), 0);
    assert_int_equal(other.iova, 0xfffff000); /* addresses of its own */
    assert_int_equal(action(24, 0), 7);
    assert_int_equal(create(&plain, 1, 4096, 0), 0);
    assert_int_equal(sync_bo(&plain, 1), -EINVAL); /* not cacheable */
    assert_int_equal(create(&contiguous, 0, 4096, 0), 0);
    assert_ptr_equal(contiguous.host, MAP_FAILED);
    /* A handle that exists is looked up. */
    uint8_t s[48] = {0};
    put32(s, 0, second.handle);
    assert_int_equal(call(CREATE, s), 0);
    assert_int_equal(get64(s, 24), second.iova);
    assert_int_equal(get64(s, 16), second.object);
    struct bo wild = {.object = 0xffffff8111111111ull, .size = 16};
    assert_int_equal(sync_bo(&wild, 1), -EFAULT);
    assert_int_equal(ork_shim_count("oopses"), 1);
    destroy(&first);
    assert_int_equal(create(&first, DATA, 4096, 0), 0);
    assert_int_equal(first.iova, 0xfffff000);
    struct bo *all[] = {&first, &second, &other, &plain, &contiguous};
    for (size_t i = 0; i < 5; i++)
        destroy(all[i]);
    assert_int_equal(ork_shim_count("objects"), 0);
    assert_int_equal(create(&first, DATA, 5ull << 30, 0), -EFAULT); /* no address range so long */
    end();
}

/* The DRM core cuts and fills structs: old programs with new drivers, and the reverse. */
static void test_struct_sizes(void **state)
{
    (void)state;
    const unsigned long old_create = 0xC0286442;
    for (int old_driver = 0; old_driver < 2; old_driver++) {
        begin(old_driver ? "rknpu,version=0.9.2" : "rknpu", NULL);
        uint8_t s[48] = {0};
        put32(s, 4, 3);
        put64(s, 8, 4096);
        memset(s + 40, 0xee, 8); /* beyond the old struct: a domain that does not exist */
        assert_int_equal(ioctl(node, old_create, s), 0);
        assert_int_equal(get64(s, 24), 0xfffff000);
        put32(s, 0, 0);
        int result = ioctl(node, requests[CREATE], s);
        assert_int_equal(result, old_driver ? 0 : -1); /* 0.9.2 does not look there */
        end();
    }
}

static void test_blocking(void **state)
{
    (void)state;
    begin("rknpu", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    for (uint32_t mask = 0; mask < 5; mask += mask ? mask : 1) {
        submit_init(s, &w, 5, 6000, mask);
        assert_int_equal(call(SUBMIT, s), 0);
        assert_int_equal(get32(s, 16), 2);
        assert_int_equal(work_done(&w, 0, 2), 2);
        assert_true(get32(w.tasks.host + 40, 20) & 0x300); /* int_status of the last task */
    }
    assert_int_equal(ork_shim_count("references"), 0);
    work_free(&w);
    end();
}

/* Three cores read slots 2, 3 and 4; two cores 0 and 1. */
static void test_slots(void **state)
{
    (void)state;
    begin("rknpu", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 5, 6000, 7);
    put32(s, 12, 6);
    for (uint32_t i = 0; i < 3; i++)
        put32(s, 64 + 8 * (i + 2), 2 * i);
    put32(s, 68, 77), put32(s, 76, 77); /* not looked at */
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(work_done(&w, 0, 6), 6);
    memset(w.c.host, 0, 4096);
    assert_int_equal(sync_bo(&w.c, 1), 0);
    submit_init(s, &w, 5, 6000, 3);
    put32(s, 72, 2);
    put32(s, 84, 77), put32(s, 92, 77), put32(s, 100, 77);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(work_done(&w, 0, 4), 4);
    work_free(&w);
    end();
}

static void test_refused(void **state)
{
    (void)state;
    begin("rknpu,oops=count", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 5, 100, 1);
    put32(s, 12, 0);
    assert_int_equal(call(SUBMIT, s), -EINVAL); /* no tasks */
    submit_init(s, &w, 5, 100, 8);
    assert_int_equal(call(SUBMIT, s), -EINVAL);
    submit_init(s, &w, 6, 100, 1); /* no PC flag */
    assert_int_equal(call(SUBMIT, s), -EINVAL);
    submit_init(s, &w, 0x17, 100, 1); /* fences: built without */
    assert_int_equal(call(SUBMIT, s), -EINVAL);
    submit_init(s, &w, 5, 50, 5); /* a mask that is let in and never committed */
    assert_int_equal(call(SUBMIT, s), -EINVAL);
    assert_int_equal(work_done(&w, 0, 1), 0);
    assert_int_equal(ork_shim_count("oopses"), 0);
    uint64_t right = w.tasks.object;
    w.tasks.object = w.programs.object; /* a buffer that the kernel has no mapping of */
    submit_init(s, &w, 7, 10, 1);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(ork_shim_count("oopses"), 1);
    w.tasks.object = right;
    work_free(&w);
    end();
}

/* The last task's mask is what is waited for; the first task's amount is what is fetched. */
static void test_task_fields(void **state)
{
    (void)state;
    begin("rknpu,reset_ms=10", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    memset(w.tasks.host + 40, 0xff, 12); /* flags, op_idx, enable_mask of the last task: never read */
    put32(w.tasks.host, 12, 0xc00);      /* int_mask of the first: only cleared */
    put64(w.tasks.host + 40, 32, 0xdeadbee0);
    submit_init(s, &w, 5, 6000, 1);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(work_done(&w, 0, 2), 2);
    put32(w.tasks.host + 40, 12, 0xc00); /* the pooling block's bits: never raised by a matmul */
    submit_init(s, &w, 5, 60, 1);
    assert_int_equal(call(SUBMIT, s), -ETIMEDOUT);
    assert_int_equal(ork_shim_count("resets"), 1);
    work_free(&w);
    end();
}

/* More tasks than links: stops after the last link and never completes; the counter says how far it came. */
static void test_unlinked(void **state)
{
    (void)state;
    begin("rknpu,reset_ms=10", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 5, 60, 2);
    put32(s, 12, 4);
    put32(s, 76, 4);
    assert_int_equal(call(SUBMIT, s), -ETIMEDOUT);
    assert_int_equal(get32(s, 16), 2);
    /* The abort gave core and domain back. */
    assert_int_equal(ork_shim_count("references"), 0);
    submit_init(s, &w, 5, 6000, 2);
    assert_int_equal(call(SUBMIT, s), 0);
    work_free(&w);
    end();
}

/* The timeout of a job that nobody waits for is compared in microseconds, and only when the next one comes. */
static void test_microseconds(void **state)
{
    (void)state;
    begin("rknpu,job_us=100000,reset_ms=10", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 7, 6000, 1); /* 6 s in milliseconds, 6 ms here */
    assert_int_equal(call(SUBMIT, s), 0);
    usleep(20000);
    assert_int_equal(ork_shim_count("reaped"), 0);
    put32(s, 4, 6000000);
    for (size_t i = 0; i < 5; i++)
        put32(s, 64 + 8 * i, 2);
    assert_int_equal(call(SUBMIT, s), 0); /* throws the healthy first one away */
    assert_int_equal(ork_shim_count("reaped"), 1);
    assert_int_equal(ork_shim_count("resets"), 1);
    assert_int_equal(work_done(&w, 2000, 2), 2);
    put32(s, 64, 0);
    assert_int_equal(call(SUBMIT, s), 0); /* with the long timeout it queues */
    assert_int_equal(work_done(&w, 2000, 4), 4);
    assert_int_equal(ork_shim_count("reaped"), 1);
    /* What was thrown away keeps its domain: no other can be had. */
    assert_int_equal(ork_shim_count("leaked"), 1);
    work_free(&w);
    end();
}

/* A lost job keeps its core through a reset; the next ones queue behind it until one comes when it is old enough. */
static void test_lost(void **state)
{
    (void)state;
    begin("rknpu,reset_ms=10", "never:at=0");
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 7, 200000, 4);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(action(6, 0), 0);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(work_done(&w, 50, 1), 0);
    usleep(250000);
    assert_int_equal(call(SUBMIT, s), 0);
    assert_int_equal(ork_shim_count("reaped"), 2);
    assert_int_equal(work_done(&w, 2000, 2), 2);
    work_free(&w);
    end();
}

/* One domain at a time for all cores; a switch waits for jobs, but not for ever. */
static void test_domains(void **state)
{
    (void)state;
    begin("rknpu,job_us=60000,switch_ms=300,reset_ms=10", "never:at=2");
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 7, 6000000, 1);
    assert_int_equal(call(SUBMIT, s), 0);
    uint64_t start = shim_now_us();
    struct bo bo;
    assert_int_equal(create(&bo, DATA, 4096, 2), 0);
    assert_true(shim_now_us() - start > 30000); /* behind the job */
    assert_int_equal(ork_shim_count("domain"), 2);
    destroy(&bo);
    /* A job in the wrong domain finds nothing at its addresses. */
    submit_init(s, &w, 5, 200, 1);
    put32(s, 32, 3);
    assert_int_equal(call(SUBMIT, s), -ETIMEDOUT);
    assert_int_equal(ork_shim_count("anomalies"), 1);
    /* A job that never ends holds its domain. */
    submit_init(s, &w, 7, 6000000, 2);
    assert_int_equal(call(SUBMIT, s), 0);
    start = shim_now_us();
    assert_int_equal(create(&bo, DATA, 4096, 2), -EINVAL);
    assert_true(shim_now_us() - start >= 300000);
    work_free(&w);
    end();
}

static void *blocked(void *result)
{
    uint8_t s[8] = {0};
    put32(s, 0, 6);
    *(int *)result = call(ACTION, s);
    return NULL;
}

/* Closing the node while requests and jobs are under way. */
static void test_close_under_way(void **state)
{
    (void)state;
    begin("rknpu,job_us=100000,reset_ms=50", NULL);
    struct work w;
    uint8_t s[104];
    work_make(&w, 0);
    submit_init(s, &w, 7, 6000000, 7);
    for (uint32_t i = 0; i < 3; i++)
        put32(s, 64 + 8 * (i + 2), 2 * i);
    assert_int_equal(call(SUBMIT, s), 0);
    pthread_t thread;
    int result = -1;
    pthread_create(&thread, NULL, blocked, &result);
    usleep(10000);
    assert_int_equal(close(node), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, 0);
    struct bo *all[] = {&w.tasks, &w.programs, &w.a, &w.b, &w.c};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(munmap(all[i]->host, all[i]->size), 0);
    assert_int_equal(ork_shim_configure(NULL, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),     cmocka_unit_test(test_memory),   cmocka_unit_test(test_struct_sizes),
        cmocka_unit_test(test_blocking),    cmocka_unit_test(test_slots),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_task_fields), cmocka_unit_test(test_unlinked), cmocka_unit_test(test_microseconds),
        cmocka_unit_test(test_lost),        cmocka_unit_test(test_domains),  cmocka_unit_test(test_close_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
