/* Guards calibrations: what is written is what is read, malformed, impossible, stale and foreign ones are refused with the
 * reason, and the machine's identity is read from trees as boards have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched/perf.h"

static const struct ork_perf_identity machine = {.ork_version = "0.1.0",
                                                 .cpu = "ARM 0xd05+0xd0b",
                                                 .kernels = "i8mm",
                                                 .threads = 4,
                                                 .memory_bytes = 16000000000u,
                                                 .memory_clock_hz = 2112000000u,
                                                 .npu_driver = "rknpu",
                                                 .npu_driver_version = 908};

static struct ork_perf example(void)
{
    struct ork_perf perf;
    ork_error error;
    assert_int_equal(ork_perf_from_board(NULL, &perf, &error), ORK_OK);
    perf.source = ORK_PERF_CALIBRATED;
    memset(perf.name, 0, sizeof perf.name);
    strcpy(perf.name, "this machine");
    perf.identity = machine;
    perf.chain_fixed_s = 2.5e-5;
    perf.chain_bytes_per_s = 1.25e10;
    perf.chain_bus_bytes_per_s = 1.75e10;
    perf.chain_cpu_s = 1.5e-5;
    return perf;
}

static void example_text(char **text)
{
    const struct ork_perf perf = example();
    ork_error error;
    assert_int_equal(ork_perf_write(&perf, text, &error), ORK_OK);
}

static void test_round_trip(void **state)
{
    (void)state;
    const struct ork_perf perf = example();
    char *text = NULL, *again = NULL;
    example_text(&text);
    struct ork_perf read;
    ork_error error;
    assert_int_equal(ork_perf_parse(text, strlen(text), "a file", &read, &error), ORK_OK);
    assert_int_equal(ork_perf_write(&read, &again, &error), ORK_OK);
    assert_string_equal(text, again);
    assert_memory_equal(read.tiers, perf.tiers, sizeof perf.tiers);
    assert_true(read.npu.efficiency[0] == perf.npu.efficiency[0] && read.npu.cores == perf.npu.cores);
    assert_true(read.chain_fixed_s == 2.5e-5 && read.chain_bytes_per_s == 1.25e10 &&
                read.chain_bus_bytes_per_s == 1.75e10 && read.chain_cpu_s == 1.5e-5);
    assert_true(read.region_s == perf.region_s && read.has_npu && read.bus_bytes_per_s == perf.bus_bytes_per_s);
    assert_int_equal(ork_perf_check_identity(&read.identity, &machine, "a file", &error), ORK_OK);
    free(again);
    free(text);
}

static void refuse(const char *find, const char *replace, ork_status code, const char *named)
{
    char *text = NULL;
    example_text(&text);
    const char *at = strstr(text, find);
    assert_non_null(at);
    char *changed = calloc(1, strlen(text) + strlen(replace) + 1);
    assert_non_null(changed);
    memcpy(changed, text, (size_t)(at - text));
    strcat(strcat(changed, replace), at + strlen(find));
    struct ork_perf perf;
    memset(&perf, 0x5a, sizeof perf);
    const struct ork_perf before = perf;
    ork_error error = {0};
    assert_int_equal(ork_perf_parse(changed, strlen(changed), "a file", &perf, &error), code);
    assert_memory_equal(&perf, &before, sizeof perf);
    if (!strstr(error.what, named))
        fail_msg("\"%s\" does not name \"%s\"", error.what, named);
    free(changed);
    free(text);
}

static void test_bad_files(void **state)
{
    (void)state;
    refuse("ork-calibration", "ork-board", ORK_BAD_FILE, "format");
    refuse("\"version\": 2", "\"version\": 3", ORK_UNSUPPORTED, "version 3");
    refuse("\"version\": 2", "\"version\": 1", ORK_UNSUPPORTED, "version 1"); /* had no chain figures */
    refuse("\"version\": 2", "\"version\": true", ORK_BAD_FILE, "version");
    refuse("\"threads\": 4", "\"threads\": 0", ORK_BAD_FILE, "identity.threads");
    refuse("\"threads\": 4", "\"threads\": 1.5", ORK_BAD_FILE, "identity.threads");
    refuse("\"threads\": 4", "\"threads\": \"4\"", ORK_BAD_FILE, "identity.threads");
    refuse("\"i8mm\"", "8", ORK_BAD_FILE, "identity.kernels");
    refuse("\"i8mm\"", "\"0123456789abcdef\"", ORK_BAD_FILE, "identity.kernels");
    refuse("\"i8mm\"", "\"i8\\u0000mm\"", ORK_BAD_FILE, "");
    refuse("\"region_s\": ", "\"region_s\": -", ORK_BAD_FILE, "cpu.region_s");
    refuse("\"region_s\"", "\"regions\"", ORK_BAD_FILE, "cpu.region_s");
    refuse("\"nf4\"", "\"nf5\"", ORK_BAD_FILE, "nf4.bytes_per_s");
    refuse("\"cores\": 3", "\"cores\": 99", ORK_BAD_FILE, "npu.cores");
    refuse("\"efficiency_i8\": 0", "\"efficiency_i8\": 7", ORK_BAD_FILE, "npu.efficiency_i8");
    refuse("\"chain_fixed_s\": ", "\"chain_fixed_s\": -", ORK_BAD_FILE, "npu.chain_fixed_s");
    refuse("\"chain_bytes_per_s\"", "\"chain_bytes\"", ORK_BAD_FILE, "npu.chain_bytes_per_s");
    refuse("{", "[", ORK_BAD_FILE, "line");
    refuse("\"format\"", "\"version\": 2, \"format\"", ORK_BAD_FILE, "line");
}

static void test_cut_files(void **state)
{
    (void)state;
    char *text = NULL;
    example_text(&text);
    struct ork_perf perf;
    ork_error error;
    for (size_t length = 0; length + 2 < strlen(text); length += 5) {
        char *copy = malloc(length + 1); /* its own block, so that a read past the end is seen */
        assert_non_null(copy);
        memcpy(copy, text, length);
        assert_int_equal(ork_perf_parse(copy, length, "cut", &perf, &error), ORK_BAD_FILE);
        free(copy);
    }
    char *large = malloc(70000);
    assert_non_null(large);
    memset(large, '[', 70000);
    assert_int_equal(ork_perf_parse(large, 70000, "large", &perf, &error), ORK_BAD_FILE);
    assert_int_equal(ork_perf_parse(large, 65536, "deep", &perf, &error), ORK_BAD_FILE);
    free(large);
    free(text);
}

static void differs(struct ork_perf_identity here, const char *named)
{
    ork_error error;
    assert_int_equal(ork_perf_check_identity(&machine, &here, "a file", &error), ORK_UNSUPPORTED);
    if (!strstr(error.what, named) || !strstr(error.what, "ork calibrate"))
        fail_msg("\"%s\" does not name \"%s\"", error.what, named);
}

static void test_identities(void **state)
{
    (void)state;
    ork_error error;
    struct ork_perf_identity here = machine;
    here.memory_bytes += here.memory_bytes / 100; /* what a kernel reserves */
    assert_int_equal(ork_perf_check_identity(&machine, &here, "a file", &error), ORK_OK);
    here.npu_driver[0] = 0; /* nobody asks for the NPU */
    assert_int_equal(ork_perf_check_identity(&machine, &here, "a file", &error), ORK_OK);
    here = machine, strcpy(here.ork_version, "0.2.0"), differs(here, "0.2.0");
    here = machine, strcpy(here.cpu, "AMD EPYC"), differs(here, "AMD EPYC");
    here = machine, strcpy(here.kernels, "dotprod"), differs(here, "dotprod");
    here = machine, here.threads = 3, differs(here, "threads");
    here = machine, here.memory_bytes /= 2, differs(here, "memory bytes");
    here = machine, here.memory_clock_hz = 528000000, differs(here, "528000000");
    here = machine, strcpy(here.npu_driver, "rocket"), differs(here, "rocket");
    here = machine, here.npu_driver_version = 907, differs(here, "907");
}

static void put(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_identify(void **state)
{
    (void)state;
    char root[] = "/tmp/ork_sched_XXXXXX", command[64];
    struct ork_perf_identity identity;
    ork_error error;
    assert_non_null(mkdtemp(root));
    put(root, "proc/cpuinfo",
        "processor\t: 0\nCPU part\t: 0xd05\n\nprocessor\t: 1\nCPU part\t: 0xd05\n\nprocessor\t: 4\nCPU part\t: "
        "0xd0b\n");
    put(root, "proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\n");
    put(root, "sys/class/devfreq/dmc/governor", "dmc_ondemand\n");
    put(root, "sys/class/devfreq/dmc/cur_freq", "528000000\n");
    put(root, "sys/class/devfreq/dmc/max_freq", "2112000000\n");
    put(root, "sys/class/devfreq/dmc/min_freq", "528000000\n");
    assert_int_equal(ork_perf_identify(root, 4, NULL, &identity, &error), ORK_OK);
    assert_string_equal(identity.cpu, "ARM 0xd05+0xd0b");
    assert_int_equal(identity.memory_bytes, 16384000000);
    assert_int_equal(identity.memory_clock_hz, 2112000000);
    put(root, "sys/class/devfreq/dmc/governor", "powersave\n");
    put(root, "proc/cpuinfo", "model name\t: Some CPU @ 2 GHz\n");
    assert_int_equal(ork_perf_identify(root, 4, NULL, &identity, &error), ORK_OK);
    assert_string_equal(identity.cpu, "Some CPU @ 2 GHz");
    assert_int_equal(identity.memory_clock_hz, 528000000);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void test_handles(void **state)
{
    (void)state;
    char folder[] = "/tmp/ork_sched_XXXXXX", path[64];
    ork_perf *perf = NULL;
    ork_error error;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.json", folder);
    assert_int_equal(ork_perf_open_calibration(path, 0, NULL, &perf, &error), ORK_NOT_FOUND);
    struct ork_perf foreign = example();
    assert_int_equal(ork_perf_save(&foreign, path, &error), ORK_OK);
    assert_int_equal(ork_perf_open_calibration(path, 0, NULL, &perf, &error), ORK_UNSUPPORTED);
    assert_null(perf);
    assert_int_equal(ork_perf_identify("/", 0, NULL, &foreign.identity, &error), ORK_OK);
    assert_int_equal(ork_perf_save(&foreign, path, &error), ORK_OK);
    assert_int_equal(ork_perf_open_calibration(path, 0, NULL, &perf, &error), ORK_OK);
    assert_false(perf->has_npu); /* nobody gave one */
    ork_perf_close(perf);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing is left behind */
    assert_int_not_equal(ork_perf_save(&foreign, path, &error), ORK_OK);
    assert_int_equal(ork_perf_open_board(ORK_SOURCE_DIR "/boards/none.json", &perf, &error), ORK_NOT_FOUND);
    assert_int_equal(ork_perf_open_board(ORK_SOURCE_DIR "/shapes/lfm2.5-8b-a1b.json", &perf, &error), ORK_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_bad_files), cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_identities), cmocka_unit_test(test_identify),  cmocka_unit_test(test_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
