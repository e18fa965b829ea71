/* Guards which cores `auto` means, on sysfs trees of machines that this one is not: big and little cores, hyperthreads,
 * offline cores, missing files, and an affinity mask on top. */
#include "base/pool.h"

#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

int __real_sched_getaffinity(pid_t pid, size_t size_bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size_bytes, cpu_set_t *set);

static cpu_set_t mask;
static bool mask_fails;

int __wrap_sched_getaffinity(pid_t pid, size_t size_bytes, cpu_set_t *set)
{
    (void)pid;
    if (mask_fails)
        return -1;
    memcpy(set, &mask, size_bytes < sizeof mask ? size_bytes : sizeof mask);
    return 0;
}

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "topology-XXXXXX");
    mask_fails = false;
    CPU_ZERO(&mask);
    for (size_t cpu = 0; cpu < 8; cpu++)
        CPU_SET(cpu, &mask);
    return mkdtemp(root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes <root>/devices/system/cpu/cpu<cpu>/<file>, making the folders on the way. */
static void put(uint32_t cpu, const char *file, const char *content)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%u/%s", root, cpu, file);
    for (char *slash = strchr(path + strlen(root), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(content, stream);
    assert_int_equal(fclose(stream), 0);
}

static void put_number(uint32_t cpu, const char *file, long value)
{
    char text[32];
    snprintf(text, sizeof text, "%ld\n", value);
    put(cpu, file, text);
}

static void expect_cores(const char *expected)
{
    uint32_t cpus[64];
    uint32_t count = ork_topology_performance_cores(root, cpus, 64);
    char text[256] = "";
    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? "," : "", cpus[i]);
    assert_string_equal(text, expected);
}

/* RK3588: cores 0-3 are A55, 4-7 are A76; capacities as its device tree gives them. */
static void make_rk3588(void)
{
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        put_number(cpu, "cpu_capacity", cpu < 4 ? 414 : 1024);
        put_number(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? 1800000 : 2400000);
        if (cpu)
            put_number(cpu, "online", 1);
        put_number(cpu, "topology/thread_siblings_list", cpu);
    }
}

static void test_big_cores_of_a_big_little_machine(void **state)
{
    (void)state;
    make_rk3588();
    expect_cores("4,5,6,7");
}

/* The cores that swap threads run on: the rest of the mask; none where all are alike. */
static void test_little_cores(void **state)
{
    (void)state;
    uint32_t cpus[64];
    make_rk3588();
    CPU_CLR(1, &mask);
    assert_int_equal(ork_topology_little_cores(root, cpus, 64), 3);
    assert_int_equal(cpus[0], 0);
    assert_int_equal(cpus[1], 2);
    assert_int_equal(cpus[2], 3);
    assert_int_equal(ork_topology_little_cores(root, cpus, 1), 1);
    for (uint32_t cpu = 4; cpu < 8; cpu++)
        CPU_CLR(cpu, &mask);
    assert_int_equal(ork_topology_little_cores(root, cpus, 64), 0);
}

/* Kernels without cpu_capacity: the highest frequency decides, and 2.3 of 2.4 GHz is the same kind of core. */
static void test_frequency_when_there_is_no_capacity(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 8; cpu++)
        put_number(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? 1800000 : cpu < 6 ? 2300000 : 2400000);
    expect_cores("4,5,6,7");
}

static void test_nothing_known_means_all_allowed(void **state)
{
    (void)state;
    expect_cores("0,1,2,3,4,5,6,7");
}

static void test_offline_cores_do_not_count(void **state)
{
    (void)state;
    make_rk3588();
    put_number(5, "online", 0);
    put_number(6, "online", 0);
    expect_cores("4,7");
    /* With all big cores off, the little ones are the best there are. */
    put_number(4, "online", 0);
    put_number(7, "online", 0);
    expect_cores("0,1,2,3");
}

static void test_affinity_mask_comes_first(void **state)
{
    (void)state;
    make_rk3588();
    CPU_ZERO(&mask);
    CPU_SET(1, &mask);
    CPU_SET(2, &mask);
    expect_cores("1,2"); /* taskset to little cores: they are meant */
    CPU_SET(6, &mask);
    expect_cores("6");
}

/* Siblings in both numberings that firmware uses: 0,4 1,5 ... and 0-1 2-3 ... */
static void test_one_thread_of_a_physical_core(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char list[16];
        snprintf(list, sizeof list, "%u,%u\n", cpu % 4, cpu % 4 + 4);
        put(cpu, "topology/thread_siblings_list", list);
    }
    expect_cores("0,1,2,3");
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char list[16];
        snprintf(list, sizeof list, "%u-%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        put(cpu, "topology/thread_siblings_list", list);
    }
    expect_cores("0,2,4,6");
}

/* The first sibling may be forbidden: then the other one is the core's representative. */
static void test_second_thread_when_the_first_is_masked(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char list[16];
        snprintf(list, sizeof list, "%u-%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        put(cpu, "topology/thread_siblings_list", list);
    }
    CPU_CLR(2, &mask);
    expect_cores("0,3,4,6");
}

/* Performance cores with two threads, efficient cores with one. */
static void test_hybrid_machine(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char list[16];
        if (cpu < 4)
            snprintf(list, sizeof list, "%u-%u\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        else
            snprintf(list, sizeof list, "%u\n", cpu);
        put(cpu, "topology/thread_siblings_list", list);
        put_number(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? 5000000 : 3800000);
    }
    expect_cores("0,2");
}

static void test_files_with_nonsense(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        put(cpu, "cpu_capacity", cpu % 2 ? "" : "lots\n");
        put(cpu, "cpufreq/cpuinfo_max_freq", "-5\n");
        put(cpu, "topology/thread_siblings_list", "99999999999999999999\n");
    }
    expect_cores("0,1,2,3,4,5,6,7");
}

static void test_the_list_is_bounded(void **state)
{
    (void)state;
    uint32_t cpus[3] = {77, 77, 77};
    assert_int_equal(ork_topology_performance_cores(root, cpus, 2), 2);
    assert_int_equal(cpus[0], 0);
    assert_int_equal(cpus[1], 1);
    assert_int_equal(cpus[2], 77);
    assert_int_equal(ork_topology_performance_cores(root, cpus, 0), 0);
    char deep[2000];
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(ork_topology_performance_cores(deep, cpus, 2), 2); /* too long for a path: nothing is known */
}

static void test_without_an_affinity_mask(void **state)
{
    (void)state;
    mask_fails = true;
    expect_cores("0");
    assert_true(ork_topology_threads() >= 1);
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROOT(test_big_cores_of_a_big_little_machine),
        WITH_ROOT(test_little_cores),
        WITH_ROOT(test_frequency_when_there_is_no_capacity),
        WITH_ROOT(test_nothing_known_means_all_allowed),
        WITH_ROOT(test_offline_cores_do_not_count),
        WITH_ROOT(test_affinity_mask_comes_first),
        WITH_ROOT(test_one_thread_of_a_physical_core),
        WITH_ROOT(test_second_thread_when_the_first_is_masked),
        WITH_ROOT(test_hybrid_machine),
        WITH_ROOT(test_files_with_nonsense),
        WITH_ROOT(test_the_list_is_bounded),
        WITH_ROOT(test_without_an_affinity_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
