/* Owns `ork calibrate`: which NPU is measured, where the figures go, and how they are shown. Must not know how anything is
 * measured. */
#include "cache.h"
#include "commands.h"
#include "json.h"
#include "model.h"
#include "npu_use.h"
#include "report.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

/* The software device takes the time that this machine takes to play it, whatever the board is predicted to take. */
enum { SOFT_TIMEOUT_US = 60 * 1000 * 1000 };

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void print_figures(const char *text)
{
    json_t *root = json_loads(text, 0, NULL), *cpu = json_object_get(root, "cpu"), *npu = json_object_get(root, "npu"),
           *tier;
    const json_t *identity = json_object_get(root, "identity");
    const char *name;
    cli_output_format("machine   ");
    cli_output_safe(json_string_value(json_object_get(identity, "cpu")));
    cli_output_format(", kernels %s, %.0f threads\n", json_string_value(json_object_get(identity, "kernels")),
                      number(identity, "threads"));
    cli_output_format("region    %.2f us, and %.2f us for each further row\n\n", number(cpu, "region_s") * 1e6,
                      number(cpu, "row_s") * 1e6);
    cli_output_format("%-5s  %14s  %17s\n", "tier", "one row, GB/s", "many rows, GMAC/s");
    json_object_foreach (json_object_get(cpu, "tiers"), name, tier)
        cli_output_format("%-5s  %14.1f  %17.1f\n", name, number(tier, "bytes_per_s") * 1e-9,
                          number(tier, "macs_per_s") * 1e-9);
    if (npu)
        cli_output_format(
            "\nNPU       %.0f cores at %.0f MHz: %.0f us a submit, %.1f GB/s (one core %.1f), efficiency %.2f\n"
            "          host packs %.1f, unpacks %.1f, swaps in %.1f GB/s\n"
            "bus       %.1f GB/s",
            number(npu, "cores"), number(npu, "clock_hz") * 1e-6, number(npu, "submit_us") + number(npu, "complete_us"),
            number(npu, "shared_bytes_per_s") * 1e-9, number(npu, "core_bytes_per_s") * 1e-9,
            number(npu, "efficiency_i8"), number(npu, "pack_bytes_per_s") * 1e-9,
            number(npu, "unpack_bytes_per_s") * 1e-9, number(npu, "swap_bytes_per_s") * 1e-9,
            number(cpu, "bus_bytes_per_s") * 1e-9);
    if (npu && number(npu, "chain_fixed_s") > 0)
        cli_output_format(", chains by one of %.1f; they take %.1f us and %.1f GB/s",
                          number(npu, "chain_bus_bytes_per_s") * 1e-9, number(npu, "chain_fixed_s") * 1e6,
                          number(npu, "chain_bytes_per_s") * 1e-9);
    if (npu)
        cli_output_format("\n");
    json_decref(root);
}

static int store(const cli_settings *settings, const ork_perf *perf)
{
    ork_error error;
    char *path = NULL, *folder = NULL;
    if (settings->dispatch_output) {
        path = cli_copy_text(settings->dispatch_output);
    } else {
        int code = cli_cache_folder("", &folder);
        if (code != CLI_OK)
            return code;
        path = cli_format_text("%s/calibration.json", folder);
    }
    int code = CLI_OK;
    if (ork_perf_save(perf, path, &error) == ORK_OK) {
        cli_say("written to %s", path);
    } else {
        (void)cli_report_error(&error);
        code = CLI_FAILURE; /* an output that cannot be made is not bad input */
    }
    free(folder);
    free(path);
    return code;
}

int cli_calibrate(const cli_settings *settings)
{
    cli_npu_use npu;
    ork_perf *perf = NULL;
    ork_error error;
    char *text = NULL;
    int code = cli_npu_check(settings, "calibrate");
    if (code == CLI_OK)
        code = cli_affinity_apply(settings, "calibrate");
    if (code != CLI_OK)
        return code;
    cli_settings wanted = *settings;
    wanted.npu_required =
        wanted.npu_kind != 0; /* what cannot be measured is not to be stored as if it were not there */
    if (wanted.npu_real_time)
        wanted.npu_timeout = SOFT_TIMEOUT_US;
    code = cli_npu_open(&wanted, &npu);
    if (code != CLI_OK)
        return code;
    const ork_calibrate_params params = {
        .threads = settings->threads > 0 ? (uint32_t)settings->threads : 0,
        .npu = npu.npu,
        .cancel = cli_interrupt_poll,
    };
    ork_status status = ork_calibrate(&params, &perf, &error);
    if (status == ORK_OK)
        status = ork_perf_text(perf, &text, &error);
    if (status == ORK_CANCELLED)
        code = cli_interrupt_exit_code();
    else
        code = status == ORK_OK ? CLI_OK : cli_report_error(&error);
    if (code == CLI_OK)
        code = store(settings, perf);
    if (code == CLI_OK && settings->json)
        cli_json_print(json_loads(text, 0, NULL));
    else if (code == CLI_OK)
        print_figures(text);
    ork_free(text);
    ork_perf_close(perf);
    cli_npu_close(&npu);
    return code;
}
