/* Owns `ork probe`: what is asked of the library's probes and how their reports look. Must not know how anything is
 * measured. */
#include "commands.h"
#include "json.h"
#include "machine.h"
#include "model.h"
#include "report.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, CACHES_MIB = 128, THREAD_COUNTS_MAX = 32 };

static json_t *machine_json(const char *kernels)
{
    char name[128];
    json_t *machine = json_object();
    cli_machine_name(name, sizeof name);
    cli_json_set_text(machine, "cpu", name);
    cli_json_set_text(machine, "kernels", kernels);
    cli_json_set_integer(machine, "default_threads", ork_default_threads());
    return machine;
}

static json_t *tiers_json(const ork_probe_tier *tiers, size_t count, const char *rate, bool has_rows)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *item = json_object();
        cli_json_set_text(item, "tier", tiers[i].tier);
        cli_json_set_integer(item, "threads", tiers[i].threads);
        if (has_rows)
            cli_json_set_integer(item, "m", tiers[i].rows);
        cli_json_set_number(item, rate, tiers[i].rate);
        cli_json_set_number(item, "fraction", tiers[i].fraction);
        json_array_append_new(array, item);
    }
    return array;
}

static json_t *read_json(const ork_probe_read *read, bool is_ceiling)
{
    json_t *item = json_object();
    cli_json_set_integer(item, "threads", read->threads);
    if (is_ceiling)
        cli_json_set_number(item, "gb_per_s", read->median_gb_per_s);
    cli_json_set_integer(item, "streams", read->streams);
    cli_json_set_text(item, "pages", read->pages);
    cli_json_set_integer(item, "prefetch_bytes", read->prefetch_bytes);
    cli_json_set_number(item, "best_gb_per_s", read->best_gb_per_s);
    if (!is_ceiling)
        cli_json_set_number(item, "median_gb_per_s", read->median_gb_per_s);
    return item;
}

static void print_bandwidth_json(const ork_probe_bandwidth_report *report)
{
    json_t *object = json_object(), *machine = machine_json(report->kernels), *reads = json_array(),
           *ceilings = json_array();
    cli_json_set_integer(machine, "buffer_bytes", report->buffer_bytes);
    cli_json_set_integer(machine, "huge_page_bytes", report->huge_page_bytes);
    for (size_t i = 0; i < report->read_count; i++)
        json_array_append_new(reads, read_json(&report->reads[i], false));
    for (size_t i = 0; i < report->ceiling_count; i++)
        json_array_append_new(ceilings, read_json(&report->ceilings[i], true));
    json_object_set_new(object, "machine", machine);
    json_object_set_new(object, "read", reads);
    json_object_set_new(object, "ceiling", ceilings);
    json_object_set_new(object, "tiers", tiers_json(report->tiers, report->tier_count, "gb_per_s", false));
    cli_json_print(object);
}

static void print_machine(const char *kernels)
{
    char name[128];
    cli_machine_name(name, sizeof name);
    cli_output_format("machine   ");
    cli_output_safe(name);
    cli_output_format(", kernels %s, %u threads by default\n", kernels, ork_default_threads());
}

static bool is_same_line(const ork_probe_read *a, const ork_probe_read *b)
{
    return a->threads == b->threads && a->prefetch_bytes == b->prefetch_bytes && strcmp(a->pages, b->pages) == 0;
}

/* One line for each thread count, kind of pages and prefetch distance, one column for each stream count. */
static void print_reads(const ork_probe_bandwidth_report *report)
{
    const ork_probe_read *reads = report->reads;
    cli_output_format("\nreading memory, GB/s (medians)\n%7s  %-5s  %8s", "threads", "pages", "prefetch");
    for (size_t i = 0; i < report->read_count; i++)
        if (is_same_line(&reads[i], &reads[0]))
            cli_output_format("  %4u %s", reads[i].streams, reads[i].streams == 1 ? "stream " : "streams");
    cli_output_format("\n");
    for (size_t i = 0; i < report->read_count; i++) {
        bool is_first = true;
        for (size_t j = 0; j < i; j++)
            is_first = is_first && !is_same_line(&reads[i], &reads[j]);
        if (!is_first)
            continue;
        cli_output_format("%7u  %-5s  %8u", reads[i].threads, reads[i].pages, reads[i].prefetch_bytes);
        for (size_t j = i; j < report->read_count; j++)
            if (is_same_line(&reads[i], &reads[j]))
                cli_output_format("  %12.1f", reads[j].median_gb_per_s);
        cli_output_format("\n");
    }
}

static void print_tiers(const ork_probe_tier *tiers, size_t count, const char *title, const char *rate,
                        const char *fraction)
{
    if (count)
        cli_output_format("\n%s\n%-5s  %7s  %8s  %s\n", title, "tier", "threads", rate, fraction);
    for (size_t i = 0; i < count; i++)
        cli_output_format("%-5s  %7u  %8.1f  %*.0f%%\n", tiers[i].tier, tiers[i].threads, tiers[i].rate,
                          (int)strlen(fraction) - 1, tiers[i].fraction * 100);
}

static void print_bandwidth(const ork_probe_bandwidth_report *report)
{
    print_machine(report->kernels);
    cli_output_format("buffer    %.0f MiB, of which %.0f MiB came in huge pages when asked for\n",
                      (double)report->buffer_bytes / MIB, (double)report->huge_page_bytes / MIB);
    print_reads(report);
    cli_output_format("\nceiling\n%7s  %8s  %8s  %7s  %-5s  %8s\n", "threads", "GB/s", "best", "streams", "pages", "prefetch");
    for (size_t i = 0; i < report->ceiling_count; i++) {
        const ork_probe_read *read = &report->ceilings[i];
        cli_output_format("%7u  %8.1f  %8.1f  %7u  %-5s  %8u\n", read->threads, read->median_gb_per_s, read->best_gb_per_s,
                          read->streams, read->pages, read->prefetch_bytes);
    }
    print_tiers(report->tiers, report->tier_count, "matmul kernels, one row", "GB/s", "of the ceiling");
}

static int probe_bandwidth(const cli_settings *settings, ork_probe_params *params)
{
    ork_probe_bandwidth_report *report;
    ork_error error;
    if (settings->models.count > 1)
        return cli_usage("probe", "two models: '%s' and '%s'", settings->models.items[0], settings->models.items[1]);
    if (settings->models.count) {
        ork_card *card;
        params->file_path = settings->models.items[0];
        int code = cli_check_input(params->file_path);
        if (code != CLI_OK)
            return code;
        if (ork_card_open(params->file_path, &card, &error) != ORK_OK)
            return cli_report_input_error(&error);
        ork_card_close(card);
    }
    ork_status status = ork_probe_bandwidth(params, &report, &error);
    if (status == ORK_CANCELLED)
        return cli_interrupt_exit_code();
    if (status != ORK_OK)
        return cli_report_error(&error);
    if (report->buffer_bytes < (uint64_t)CACHES_MIB * MIB)
        cli_say("%.0f MiB may lie in the caches: these may be their speeds", (double)report->buffer_bytes / MIB);
    if (report->huge_page_bytes < report->buffer_bytes - report->buffer_bytes / 16)
        cli_say("huge pages came for %.0f of %.0f MiB only", (double)report->huge_page_bytes / MIB,
                (double)report->buffer_bytes / MIB);
    if (settings->json)
        print_bandwidth_json(report);
    else
        print_bandwidth(report);
    ork_free(report);
    return CLI_OK;
}

static void print_compute_json(const ork_probe_compute_report *report)
{
    json_t *object = json_object(), *peaks = json_array();
    for (size_t i = 0; i < report->peak_count; i++) {
        const ork_probe_peak *peak = &report->peaks[i];
        json_t *item = json_object();
        cli_json_set_text(item, "kernel", peak->kernel);
        cli_json_set_text(item, "isa", report->kernels);
        cli_json_set_text(item, "instruction", peak->instruction);
        cli_json_set_integer(item, "threads", peak->threads);
        cli_json_set_number(item, "gmac_per_s", peak->median_gmac_per_s);
        cli_json_set_number(item, "best_gmac_per_s", peak->best_gmac_per_s);
        json_array_append_new(peaks, item);
    }
    json_object_set_new(object, "machine", machine_json(report->kernels));
    json_object_set_new(object, "compute", peaks);
    json_object_set_new(object, "tiers", tiers_json(report->tiers, report->tier_count, "gmac_per_s", true));
    cli_json_print(object);
}

static void print_compute(const ork_probe_compute_report *report)
{
    print_machine(report->kernels);
    cli_output_format("\npeak, 10^9 multiply-adds a second\n%-18s  %7s  %8s  %8s  %s\n", "kernel", "threads", "GMAC/s", "best",
                      "instruction");
    for (size_t i = 0; i < report->peak_count; i++) {
        const ork_probe_peak *peak = &report->peaks[i];
        cli_output_format("%-18s  %7u  %8.1f  %8.1f  %s\n", peak->kernel, peak->threads, peak->median_gmac_per_s,
                          peak->best_gmac_per_s, peak->instruction);
    }
    char title[64];
    snprintf(title, sizeof title, "matmul kernels, %u rows", report->tier_count ? report->tiers->rows : 0);
    print_tiers(report->tiers, report->tier_count, title, "GMAC/s", "of the int8 peak");
}

static int probe_compute(const cli_settings *settings, const ork_probe_params *params)
{
    ork_probe_compute_report *report;
    ork_error error;
    if (settings->models.count || settings->probe_size)
        return cli_usage("probe", "compute reads no memory: %s does not belong to it",
                         settings->models.count ? "-m" : "--size");
    ork_status status = ork_probe_compute(params, &report, &error);
    if (status == ORK_CANCELLED)
        return cli_interrupt_exit_code();
    if (status != ORK_OK)
        return cli_report_error(&error);
    if (settings->json)
        print_compute_json(report);
    else
        print_compute(report);
    ork_free(report);
    return CLI_OK;
}

int cli_probe(const cli_settings *settings)
{
    uint32_t thread_counts[THREAD_COUNTS_MAX];
    const cli_number_list *threads = &settings->bench_threads;
    const char *subject = settings->positional_count ? settings->positional[0] : "";
    bool is_compute = strcmp(subject, "compute") == 0;
    if (!is_compute && strcmp(subject, "bandwidth") != 0)
        return *subject ? cli_usage("probe", "'%s' is not one of bandwidth, compute", subject)
                        : cli_usage("probe", "bandwidth or compute?");
    if (threads->count > THREAD_COUNTS_MAX)
        return cli_usage("probe", "-t: %zu thread counts, at most %d are possible", threads->count, THREAD_COUNTS_MAX);
    int code = cli_affinity_apply(settings, "probe");
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; i < threads->count; i++)
        thread_counts[i] = (uint32_t)threads->items[i];
    ork_probe_params params = {
        .thread_counts = threads->count ? thread_counts : NULL,
        .thread_count_count = threads->count,
        .buffer_bytes = (uint64_t)settings->probe_size * MIB,
        .repetitions = (uint32_t)settings->probe_repetitions,
        .quick = settings->probe_quick,
        .tiers = settings->tiers.items,
        .tier_count = settings->tiers.count,
        .cancel = cli_interrupt_poll,
    };
    return is_compute ? probe_compute(settings, &params) : probe_bandwidth(settings, &params);
}
