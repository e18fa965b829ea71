/* What one benchmark row holds, and llama-bench's five ways to print it. The field names are llama-bench's, so that
 * scripts that read its files work; engine, tier_plan, bytes_per_token and those of the NPU and of drafts are added. */
#ifndef ORK_CLI_BENCH_OUTPUT_H
#define ORK_CLI_BENCH_OUTPUT_H

#include "settings.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_bench_row {
    const char *version, *cpu, *model_file, *model_type, *kernels, *tier_plan, *load_mode, *type_key, *type_value;
    uint32_t build_number;
    uint64_t model_size_bytes, parameter_count, bytes_per_token;
    uint64_t batch, ubatch, threads, prompt, generate, depth;
    uint64_t draft_max; /* of a lookup, 0: none; the three behind are of one repetition */
    uint64_t passes, drafted, accepted;
    uint64_t repeats; /* percent of the generated tokens that copy */
    const char *cpu_mask; /* "0x0" for none, as llama-bench says it */
    int64_t poll;
    const char *time; /* ISO 8601, UTC */
    const uint64_t *samples_ns;
    size_t sample_count;
    const char *npu;  /* driver in use, "off" for none */
    double npu_share; /* of the multiply-adds in passes of several rows, warm-up included */
    uint64_t npu_declined, npu_redone, npu_faults;
    bool npu_off; /* it switched itself off */
    uint64_t overlay_planned, overlay_submitted, overlay_busy, overlay_rested, overlay_in_time, overlay_late,
        overlay_faulted, overlay_bytes;
} cli_bench_row;

/* Columns of the markdown table that are only there when asked for. */
typedef struct cli_bench_columns {
    bool batch, ubatch, type_key, type_value, load_mode, npu, lookup;
} cli_bench_columns;

typedef struct cli_bench_printer {
    int format; /* cli_bench_format */
    bool to_errors;
    cli_bench_columns columns;
    size_t row_count;
} cli_bench_printer;

/* The first row brings the heading with it, so that a failure before it prints nothing. */
void cli_bench_print_row(cli_bench_printer *printer, const cli_bench_row *row);
void cli_bench_print_footer(cli_bench_printer *printer);

#endif
