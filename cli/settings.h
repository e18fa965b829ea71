/* What the command line and the environment ask for: one structure for all commands, filled by options.c. */
#ifndef ORK_CLI_SETTINGS_H
#define ORK_CLI_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

typedef struct cli_text_list {
    const char **items; /* point into argv or the environment */
    size_t count;
} cli_text_list;

typedef struct cli_number_list {
    int64_t *items;
    size_t count;
} cli_number_list;

/* Flags are int so that one table row can set any of them. -1 in a number means: not given. */
typedef struct cli_settings {
    /* everywhere */
    int help, verbose, quiet, json;
    const char *positional[8];
    size_t positional_count;

    /* pack, and packing into the cache */
    const char *default_tier, *imatrix;
    cli_text_list tiers;
    int force, dry_run;

    /* info, help */
    int tensors, manual;

    /* loading and sessions */
    cli_text_list models;
    int load_mode; /* ork_load_mode */
    int nested;    /* ork_nested; -1: not said, which is full without an overlay */
    int64_t threads, threads_batch, batch, ubatch, context, poll;
    int64_t activation_block; /* -1: whole rows */
    const char *cpu_mask, *cpu_range;
    int kv_type_key, kv_type_value; /* ork_kv_type */
    int npu_kind;                   /* ork_npu_kind; 0: off */
    int npu_required, npu_real_time;
    int overlay, overlay_all;                   /* ork_overlay_mode */
    int64_t overlay_layers, overlay_window_us;  /* 0: chosen */
    int64_t npu_cores, npu_memory, npu_timeout; /* MiB, us; 0: chosen */

    /* sessions, npu */
    const char *npu_board, *npu_faults;
    int64_t npu_rows; /* 0: not given */

    /* run, chat */
    const char *prompt, *file, *system, *system_file, *chat_template;
    cli_text_list stops;
    int64_t predict, seed, top_k, repeat_last_n;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int conversation;  /* -1: by circumstances, 0, 1 */
    int64_t draft_max; /* -1: chosen */
    int lookup;
    int single_turn, ignore_eos, special, escape, display_prompt, dump_prompt, stats;

    /* bench */
    cli_number_list bench_prompt, bench_generate, bench_depth, bench_threads, bench_batch, bench_ubatch;
    cli_number_list bench_lookup;
    int64_t bench_repeats; /* percent */
    cli_text_list bench_pairs, bench_type_key, bench_type_value;
    int64_t repetitions, delay;
    int no_warmup, bench_progress, bench_output, bench_errors; /* cli_bench_format */

    /* perplexity */
    const char *divergence_base;
    int divergence;
    int64_t chunks;

    /* probe */
    int64_t probe_size, probe_repetitions; /* MiB; 0: not given */
    int probe_quick;

    /* explain, calibrate */
    const char *dispatch_output, *dispatch_calibration;
    int64_t dispatch_rows;

    /* doctor */
    const char *doctor_root;

    /* npu */
    int npu_device; /* ork_npu_kind */
    int npu_self_test;
    int64_t npu_inputs, npu_channels, npu_bits; /* 0: not given */

    /* simulate; the board is npu_board */
    int simulate_policy; /* ork_policy; 0: not given */
    int simulate_published;
    int64_t simulate_prompt, simulate_tokens, simulate_late, simulate_domains; /* 0: not given */
    double simulate_submit_us, simulate_bus_share, simulate_slowdown, simulate_delay_us;                             /* 0: not given */
    const char *simulate_svg;
} cli_settings;

enum cli_bench_format { BENCH_NONE, BENCH_CSV, BENCH_JSON, BENCH_JSONL, BENCH_MARKDOWN, BENCH_SQL };

#endif
