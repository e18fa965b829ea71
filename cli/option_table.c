/* Owns the table: every command, every option, its spellings, bounds, default text and environment twin. Data only;
 * the spellings are llama.cpp's wherever it has one. */
#include "commands.h"
#include "options.h"
#include "ork/ork.h"

enum {
    GENERATE = CLI_RUN | CLI_CHAT,
    SESSION = GENERATE | CLI_PERPLEXITY,
    MODEL = SESSION | CLI_BENCH,
    EVERY = CLI_PACK | CLI_INFO | CLI_VERIFY | MODEL | CLI_PROBE | CLI_DOCTOR | CLI_NPU | CLI_COMPLETION | CLI_HELP | CLI_VERSION
};

const cli_command cli_commands[] = {
    {"pack", NULL, CLI_PACK, "IN.gguf [OUT.orkpack]", "pack a GGUF into an orkpack", 
     "Writes OUT.orkpack (default: beside the input) once; run, chat, bench and perplexity read it.\n"
     "An interrupted run goes on where it stopped when the same command is given again.", 2, cli_pack},
    {"info", NULL, CLI_INFO, "FILE", "show what an orkpack or a GGUF holds", NULL, 1, cli_info},
    {"verify", NULL, CLI_VERIFY, "FILE.orkpack", "check every checksum, range and scale of an orkpack", NULL, 1,
     cli_verify},
    {"run", NULL, CLI_RUN, "MODEL [-p PROMPT | -f FILE]", "generate text from a prompt",
     "The prompt is sent as a user message through the model's chat template; a model without one (or -no-cnv)\n"
     "continues the text. Without -p and -f the prompt is read from standard input, or a chat starts on a terminal.\n"
     "MODEL is an orkpack, or a GGUF that is packed into a cache first.", 1, cli_run},
    {"chat", NULL, CLI_CHAT, "MODEL", "talk with a model",
     "Ctrl-C stops the answer, Ctrl-D ends the chat, /help lists the commands inside it.\n"
     "MODEL is an orkpack, or a GGUF that is packed into a cache first.", 1, cli_chat},
    {"bench", NULL, CLI_BENCH, "MODEL", "measure prompt and generation speed as llama-bench does",
     "List options take lists and ranges: 1,2,4 or 1-8 or 1-8+2 or 1-8*2; all combinations are run.", 8, cli_bench},
    {"perplexity", "ppl", CLI_PERPLEXITY, "MODEL -f TEXT", "perplexity and KL divergence as llama-perplexity does",
     NULL, 1, cli_perplexity},
    {"probe", NULL, CLI_PROBE, "bandwidth|compute", "measure what memory and arithmetic give, and what the kernels reach",
     "bandwidth: how fast memory is read, by threads, streams and pages, and each tier's kernels against that.\n"
     "compute: the peak of the int8 and float instructions, and each tier's matmul of many rows against that.\n"
     "Wants a machine that does nothing else. List options take lists and ranges: 1,2,4 or 1-8 or 1-8*2.", 1, cli_probe},
    {"doctor", NULL, CLI_DOCTOR, "", "say what stands in the way of the NPU, and of full speed",
     "Reads system files alone and changes nothing. Exit status 4: something is bad; notes are not.", 0, cli_doctor},
    {"npu", NULL, CLI_NPU, "[dump [FILE]]", "show and test an NPU, or show its register programs",
     "Without dump: what the device says of itself, and with --self-test whether it computes exactly.\n"
     "dump --rows M --inputs K --channels N: the program of one task of that shape, in names.\n"
     "dump FILE: captured words, 64 bits each, little-endian; - is standard input.", 2, cli_npu},
    {"completion", NULL, CLI_COMPLETION, "bash", "print a shell completion script", NULL, 1, cli_completion},
    {"help", NULL, CLI_HELP, "[COMMAND]", "show this help, or that of a command", NULL, 1, cli_help},
    {"version", NULL, CLI_VERSION, "", "show the version", NULL, 0, cli_version},
};
const size_t cli_command_count = sizeof cli_commands / sizeof *cli_commands;

static const cli_choice load_modes[] = {
    {"auto", ORK_LOAD_AUTO, false, NULL},
    {"map", ORK_LOAD_MAP, false, NULL},
    {"copy", ORK_LOAD_COPY, false, NULL},
    {"mmap", ORK_LOAD_MAP, true, NULL},
    {"none", ORK_LOAD_COPY, true, NULL},
    {"dio", ORK_LOAD_COPY, true, NULL},
    {"mlock", ORK_LOAD_COPY, true, "memory is not locked; the weights are copied"},
    {"mmap+mlock", ORK_LOAD_MAP, true, "memory is not locked; the weights are mapped"},
    {NULL, 0, false, NULL},
};
static const cli_choice nested_choices[] = {
    {"full", ORK_NESTED_FULL, false, NULL},
    {"base", ORK_NESTED_BASE, false, NULL},
    {NULL, 0, false, NULL},
};
static const cli_choice kv_types[] = {
    {"f16", ORK_KV_F16, false, NULL},
    {"f32", ORK_KV_F32, false, NULL},
    {NULL, 0, false, NULL},
};
static const cli_choice npu_wishes[] = {
    {"off", 0, false, NULL},
    {"auto", ORK_NPU_AUTO, false, NULL},
    {"rknpu", ORK_NPU_RKNPU, false, NULL},
    {"rocket", ORK_NPU_ROCKET, false, NULL},
    {"soft", ORK_NPU_SOFT, false, NULL},
    {NULL, 0, false, NULL},
};
static const cli_choice bench_formats[] = {
    {"md", BENCH_MARKDOWN, false, NULL}, {"csv", BENCH_CSV, false, NULL}, {"json", BENCH_JSON, false, NULL},
    {"jsonl", BENCH_JSONL, false, NULL}, {"sql", BENCH_SQL, false, NULL}, {NULL, 0, false, NULL},
};
static const cli_choice npu_kinds[] = {
    {"auto", ORK_NPU_AUTO, false, NULL},     {"rknpu", ORK_NPU_RKNPU, false, NULL},
    {"rocket", ORK_NPU_ROCKET, false, NULL}, {"soft", ORK_NPU_SOFT, false, NULL},
    {NULL, 0, false, NULL},
};
static const cli_choice switch_values[] = {
    {"on", 0, false, NULL}, {"off", 0, false, NULL}, {"auto", 0, false, NULL}, {"0", 0, false, NULL},
    {"1", 0, false, NULL},  {NULL, 0, false, NULL},
};

#define FIELD(name) .field = offsetof(cli_settings, name)
#define NAMES(...) .names = {__VA_ARGS__}
#define HEADING(mask, title) {.kind = CLI_HEADING, .commands = (mask), .help = (title)}
#define IGNORED(mask, why, ...) {.kind = CLI_IGNORED, .commands = (mask), NAMES(__VA_ARGS__), .help = (why)}
#define IGNORED_VALUE(mask, why, ...)                                                                                  \
    {.kind = CLI_IGNORED, .commands = (mask), NAMES(__VA_ARGS__), .metavar = "VALUE", .help = (why)}
#define REFUSED(mask, why, ...)                                                                                        \
    {.kind = CLI_REFUSED, .commands = (mask), NAMES(__VA_ARGS__), .metavar = "VALUE", .help = (why)}

#define THREADS_MAX 256
#define TOKENS_MAX 4294967295.0
#define SEED_MAX 9007199254740991.0 /* whole numbers that a double holds, as the bounds are doubles */

static const char no_gpu[] = "there is no GPU back end, the CPU computes every layer";
static const char no_experts[] = "experts stay on the CPU; choose their tier with --tier when packing";
static const char no_log[] = "messages go to standard error";
static const char no_repack[] = "weights are laid out once, by ork pack";
static const char no_warmup[] = "run has no warm-up";

const cli_option cli_options[] = {
    HEADING(MODEL, "Model"),
    {CLI_LIST, MODEL, NAMES("-m", "--model"), "FILE", "orkpack or GGUF (also as plain argument)", FIELD(models),
     .environment = "MODEL"},
    {CLI_CHOICE, MODEL, NAMES("--load", "-lm", "--load-mode"), "MODE",
     "auto, map (ready at once) or copy (decodes fastest); default: auto", FIELD(load_mode),
     .environment = "LOAD_MODE", .choices = load_modes},
    {CLI_SET, MODEL, NAMES("--mmap"), NULL, "same as --load map", FIELD(load_mode), ORK_LOAD_MAP},
    {CLI_SET, MODEL, NAMES("--no-mmap"), NULL, "same as --load copy", FIELD(load_mode), ORK_LOAD_COPY},
    {CLI_CHOICE, MODEL, NAMES("--nested"), "PLANES",
     "of matrices in tier n8: full, or base (half of the bytes, the quality of nf4); default: full", FIELD(nested),
     .environment = "NESTED", .choices = nested_choices},

    HEADING(CLI_PACK | MODEL, "Packing (a GGUF given as MODEL is packed into a cache)"),
    {CLI_TEXT, CLI_PACK | MODEL, NAMES("--default-tier"), "TIER",
     "tier of the weight matrices; default: auto (experts nf4, other matrices i8)", FIELD(default_tier),
     .environment = "DEFAULT_TIER", .environment_own = true},
    {CLI_LIST, CLI_PACK | MODEL, NAMES("--tier", "--tensor-type"), "REGEX=TIER",
     "tier of the tensors whose name the regex finds; repeatable, the last match wins", FIELD(tiers)},
    {CLI_TEXT, CLI_PACK | MODEL, NAMES("--imatrix"), "FILE", "importance matrix of llama-imatrix",
     FIELD(imatrix)},
    {CLI_SET, CLI_PACK, NAMES("--force", "--overwrite"), NULL, "replace an existing output", FIELD(force), 1},
    {CLI_SET, CLI_PACK, NAMES("-n", "--dry-run"), NULL, "plan and check only, write nothing", FIELD(dry_run), 1},
    {CLI_INTEGER, CLI_PACK, NAMES("-t", "--threads"), "N", "threads; default: performance cores", FIELD(threads),
     .minimum = -1, .maximum = THREADS_MAX, .environment = "THREADS"},

    HEADING(CLI_DOCTOR, "Doctor"),
    {CLI_TEXT, CLI_DOCTOR, NAMES("--root"), "DIR", "look at the system below DIR instead of /", FIELD(doctor_root)},

    HEADING(CLI_NPU, "Device"),
    {CLI_CHOICE, CLI_NPU, NAMES("--device"), "DEVICE", "auto, rknpu, rocket or soft (a device in software); default: auto",
     FIELD(npu_device), .choices = npu_kinds},
    {CLI_SET, CLI_NPU, NAMES("--self-test"), NULL, "compare products of every kind of shape on every core",
     FIELD(npu_self_test), 1},
    {CLI_TEXT, CLI_NPU, NAMES("--board"), "FILE", "soft: figures of this board file instead of the RK3588's",
     FIELD(npu_board)},
    {CLI_TEXT, CLI_NPU, NAMES("--faults"), "SCRIPT", "soft: what goes wrong, for example 'seed=7;late:p=0.01'",
     FIELD(npu_faults)},

    HEADING(CLI_NPU, "Task (dump)"),
    {CLI_INTEGER, CLI_NPU, NAMES("--rows"), "M", "rows of activations", FIELD(npu_rows), .minimum = 1, .maximum = 1 << 24},
    {CLI_INTEGER, CLI_NPU, NAMES("--inputs"), "K", "inputs, a multiple of 32", FIELD(npu_inputs), .minimum = 1,
     .maximum = 1 << 24},
    {CLI_INTEGER, CLI_NPU, NAMES("--channels"), "N", "channels, a multiple of 32 (int8) or 64 (int4)",
     FIELD(npu_channels), .minimum = 1, .maximum = 1 << 24},
    {CLI_INTEGER, CLI_NPU, NAMES("--bits"), "BITS", "8 for int8 (default), 4 for int4", FIELD(npu_bits), .minimum = 4,
     .maximum = 8},

    HEADING(CLI_INFO, "Output"),
    {CLI_SET, CLI_INFO, NAMES("--tensors"), NULL, "list every tensor", FIELD(tensors), 1},

    HEADING(CLI_HELP, "Output"),
    {CLI_SET, CLI_HELP, NAMES("--manual"), NULL, "print the beginning of the manual page instead", FIELD(manual), 1},

    HEADING(GENERATE, "Prompt"),
    {CLI_TEXT, GENERATE, NAMES("-p", "--prompt"), "TEXT", "the prompt", FIELD(prompt)},
    {CLI_TEXT, GENERATE, NAMES("-f", "--file"), "FILE", "read the prompt from a file; - is standard input",
     FIELD(file)},
    {CLI_TEXT, GENERATE, NAMES("-sys", "--system-prompt"), "TEXT", "system message", FIELD(system)},
    {CLI_TEXT, GENERATE, NAMES("-sysf", "--system-prompt-file"), "FILE", "system message from a file",
     FIELD(system_file)},
    {CLI_TEXT, GENERATE, NAMES("--chat-template"), "NAME", "template family instead of the model's own",
     FIELD(chat_template), .environment = "CHAT_TEMPLATE"},
    {CLI_SET, GENERATE, NAMES("-cnv", "--conversation", "-i", "--interactive"), NULL,
     "chat, also when a prompt is given", FIELD(conversation), 1},
    {CLI_SET, GENERATE, NAMES("-no-cnv", "--no-conversation"), NULL,
     "continue the text as it is, without a template; control tokens written in it count", FIELD(conversation), 0},
    {CLI_SET, GENERATE, NAMES("-st", "--single-turn"), NULL, "one answer, then end", FIELD(single_turn), 1},
    {CLI_SET, GENERATE, NAMES("-e", "--escape"), NULL,
     "read \\n, \\t, \\\\, \\\", \\' and \\xHH in -p, -sys and -r (default)", FIELD(escape), 1},
    {CLI_SET, GENERATE, NAMES("--no-escape"), NULL, "take backslashes as they are", FIELD(escape), 0},
    {CLI_SET, GENERATE, NAMES("--no-display-prompt"), NULL, "do not repeat the prompt before a continued text",
     FIELD(display_prompt), 0},
    {CLI_SET, GENERATE, NAMES("--display-prompt"), NULL, "repeat it (default)", FIELD(display_prompt), 1},
    {CLI_SET, GENERATE, NAMES("--dump-prompt", "--verbose-prompt"), NULL,
     "show the rendered prompt and its token ids on standard error", FIELD(dump_prompt), 1},

    HEADING(GENERATE, "Generation"),
    {CLI_INTEGER, GENERATE, NAMES("-n", "--predict", "--n-predict"), "N",
     "tokens to generate; -1: until the model ends or the context is full (default)", FIELD(predict), .minimum = -1,
     .maximum = TOKENS_MAX, .environment = "N_PREDICT"},
    {CLI_LIST, GENERATE, NAMES("-r", "--reverse-prompt"), "TEXT",
     "stop when this text comes; it is not shown; repeatable", FIELD(stops)},
    {CLI_SET, GENERATE, NAMES("--ignore-eos"), NULL, "never choose a token that ends the text", FIELD(ignore_eos), 1},
    {CLI_SET, GENERATE, NAMES("-sp", "--special"), NULL, "show control tokens", FIELD(special), 1},
    {CLI_SET, GENERATE, NAMES("--stats", "--show-timings"), NULL, "speed, memory and kernels at the end",
     FIELD(stats), 1},

    HEADING(GENERATE, "Sampling"),
    {CLI_INTEGER, GENERATE, NAMES("-s", "--seed"), "N", "random seed; -1: a new one each time (default)",
     FIELD(seed), .minimum = -1, .maximum = SEED_MAX, .environment = "SEED", .environment_own = true},
    {CLI_NUMBER, GENERATE, NAMES("--temp", "--temperature"), "X", "temperature; 0: greedy; default: 0.8",
     FIELD(temperature), .minimum = -1e6, .maximum = 1e6, .environment = "TEMPERATURE"},
    {CLI_INTEGER, GENERATE, NAMES("--top-k"), "N", "keep the N likeliest tokens; 0: all; default: 40", FIELD(top_k),
     .minimum = -1, .maximum = 2147483647, .environment = "TOP_K"},
    {CLI_NUMBER, GENERATE, NAMES("--top-p"), "X", "keep the likeliest tokens that sum to X; 1: off; default: 0.95",
     FIELD(top_p), .minimum = 0, .maximum = 1, .environment = "TOP_P"},
    {CLI_NUMBER, GENERATE, NAMES("--min-p"), "X",
     "drop tokens below X times the likeliest; 0: off; default: 0.05", FIELD(min_p), .minimum = 0, .maximum = 1,
     .environment = "MIN_P"},
    {CLI_INTEGER, GENERATE, NAMES("--repeat-last-n"), "N",
     "tokens that the penalties look back; 0: none, -1: all; default: 64", FIELD(repeat_last_n), .minimum = -1,
     .maximum = 2147483647},
    {CLI_NUMBER, GENERATE, NAMES("--repeat-penalty"), "X", "divides repeated logits; 1: off (default)",
     FIELD(repeat_penalty), .minimum = 0.01, .maximum = 100, .environment = "REPEAT_PENALTY"},
    {CLI_NUMBER, GENERATE, NAMES("--presence-penalty"), "X", "taken off once for a repeated token; default: 0",
     FIELD(presence_penalty), .minimum = -100, .maximum = 100, .environment = "PRESENCE_PENALTY"},
    {CLI_NUMBER, GENERATE, NAMES("--frequency-penalty"), "X", "taken off for every repetition; default: 0",
     FIELD(frequency_penalty), .minimum = -100, .maximum = 100, .environment = "FREQUENCY_PENALTY"},

    HEADING(CLI_PERPLEXITY, "Perplexity"),
    {CLI_TEXT, CLI_PERPLEXITY, NAMES("-f", "--file"), "FILE", "text to evaluate; - is standard input", FIELD(file)},
    {CLI_INTEGER, CLI_PERPLEXITY, NAMES("--chunks"), "N", "chunks to evaluate; -1: all (default)", FIELD(chunks),
     .minimum = -1, .maximum = 2147483647},
    {CLI_TEXT, CLI_PERPLEXITY, NAMES("--kl-divergence-base", "--save-all-logits"), "FILE",
     "write the probabilities of all tokens to FILE; with --kl-divergence: read them", FIELD(divergence_base)},
    {CLI_SET, CLI_PERPLEXITY, NAMES("--kl-divergence"), NULL,
     "compare with the probabilities in the --kl-divergence-base file", FIELD(divergence), 1},

    HEADING(CLI_BENCH, "Tests"),
    {CLI_RANGES, CLI_BENCH, NAMES("-p", "--n-prompt"), "LIST", "prompt tokens (pp); 0: no such test; default: 512",
     FIELD(bench_prompt), .minimum = 0, .maximum = 1 << 24},
    {CLI_RANGES, CLI_BENCH, NAMES("-n", "--n-gen"), "LIST", "generated tokens (tg); 0: no such test; default: 128",
     FIELD(bench_generate), .minimum = 0, .maximum = 1 << 24},
    {CLI_LIST, CLI_BENCH, NAMES("-pg"), "P,N", "prompt and generation in one; repeatable", FIELD(bench_pairs)},
    {CLI_RANGES, CLI_BENCH, NAMES("-d", "--n-depth"), "LIST", "tokens already in the context; default: 0",
     FIELD(bench_depth), .minimum = 0, .maximum = 1 << 24},
    {CLI_INTEGER, CLI_BENCH, NAMES("-r", "--repetitions"), "N", "repetitions of each test; default: 5",
     FIELD(repetitions), .minimum = 1, .maximum = 1000},
    {CLI_RANGES, CLI_BENCH, NAMES("-t", "--threads"), "LIST", "threads; default: performance cores",
     FIELD(bench_threads), .minimum = 1, .maximum = THREADS_MAX},
    {CLI_RANGES, CLI_BENCH, NAMES("-b", "--batch-size"), "LIST", "prompt tokens given at once; default: 2048",
     FIELD(bench_batch), .minimum = 1, .maximum = 1 << 24},
    {CLI_RANGES, CLI_BENCH, NAMES("-ub", "--ubatch-size"), "LIST", "rows computed together; default: chosen",
     FIELD(bench_ubatch), .minimum = 1, .maximum = 1 << 24},
    {CLI_LIST, CLI_BENCH, NAMES("-ctk", "--cache-type-k"), "LIST", "type of the key cache: f16, f32",
     FIELD(bench_type_key)},
    {CLI_LIST, CLI_BENCH, NAMES("-ctv", "--cache-type-v"), "LIST", "type of the value cache: f16, f32",
     FIELD(bench_type_value)},
    {CLI_SET, CLI_BENCH, NAMES("--no-warmup"), NULL, "no run before the measured ones", FIELD(no_warmup), 1},
    {CLI_INTEGER, CLI_BENCH, NAMES("--delay"), "N", "seconds between tests; default: 0", FIELD(delay), .minimum = 0,
     .maximum = 3600},
    {CLI_SET, CLI_BENCH, NAMES("--progress"), NULL, "say which test runs", FIELD(bench_progress), 1},
    {CLI_CHOICE, CLI_BENCH, NAMES("-o", "--output"), "FORMAT", "md, csv, json, jsonl or sql; default: md",
     FIELD(bench_output), .choices = bench_formats},
    {CLI_CHOICE, CLI_BENCH, NAMES("-oe", "--output-err"), "FORMAT", "the same to standard error; default: none",
     FIELD(bench_errors), .choices = bench_formats},

    HEADING(CLI_PROBE, "Probe"),
    {CLI_RANGES, CLI_PROBE, NAMES("-t", "--threads"), "LIST",
     "threads; default: 1, 2, 4, ... and the performance cores", FIELD(bench_threads), .minimum = 1,
     .maximum = THREADS_MAX},
    {CLI_INTEGER, CLI_PROBE, NAMES("--size"), "MB",
     "MiB of memory that a pass reads; default: 1024, or half of what is free if that is less", FIELD(probe_size),
     .minimum = 1, .maximum = 1 << 24},
    {CLI_INTEGER, CLI_PROBE, NAMES("-r", "--repetitions"), "N",
     "repetitions; default: 5, fewer on a slow machine", FIELD(probe_repetitions), .minimum = 1, .maximum = 1000},
    {CLI_LIST, CLI_PROBE, NAMES("-m", "--model"), "FILE", "bandwidth: also read this orkpack or GGUF as it is mapped",
     FIELD(models)},
    {CLI_LIST, CLI_PROBE, NAMES("--tier"), "TIER", "measure this tier; repeatable; default: all with integer kernels",
     FIELD(tiers)},
    {CLI_SET, CLI_PROBE, NAMES("--quick"), NULL, "only the ceilings, within 3 seconds", FIELD(probe_quick), 1},

    HEADING(MODEL, "Session"),
    {CLI_INTEGER, GENERATE, NAMES("-c", "--ctx-size"), "N",
     "context in tokens; 0: the model's, as far as memory allows (default)", FIELD(context), .minimum = 0,
     .maximum = TOKENS_MAX, .environment = "CTX_SIZE"},
    {CLI_INTEGER, CLI_PERPLEXITY, NAMES("-c", "--ctx-size"), "N", "tokens in a chunk; default: 512", FIELD(context),
     .minimum = 0, .maximum = 1 << 24, .environment = "CTX_SIZE"},
    {CLI_INTEGER, SESSION, NAMES("-t", "--threads"), "N",
     "threads while decoding; -1: performance cores (default)", FIELD(threads), .minimum = -1, .maximum = THREADS_MAX,
     .environment = "THREADS"},
    {CLI_INTEGER, SESSION, NAMES("-tb", "--threads-batch"), "N", "threads for prompts; default: as -t",
     FIELD(threads_batch), .minimum = -1, .maximum = THREADS_MAX, .environment = "THREADS_BATCH"},
    {CLI_INTEGER, SESSION, NAMES("-b", "--batch-size"), "N", "upper limit of -ub", FIELD(batch), .minimum = 1,
     .maximum = 1 << 24, .environment = "BATCH"},
    {CLI_INTEGER, SESSION, NAMES("-ub", "--ubatch-size"), "N", "prompt rows computed together; default: chosen",
     FIELD(ubatch), .minimum = 1, .maximum = 1 << 24, .environment = "UBATCH"},
    {CLI_INTEGER, SESSION, NAMES("--activation-block"), "N",
     "inputs that share an int8 scale, a multiple of 32; -1: whole rows; default: 0, chosen",
     FIELD(activation_block), .minimum = -1, .maximum = 4096, .environment = "ACTIVATION_BLOCK"},
    {CLI_CHOICE, SESSION, NAMES("-ctk", "--cache-type-k"), "TYPE", "type of the key cache: f16 (default) or f32",
     FIELD(kv_type_key), .environment = "CACHE_TYPE_K", .choices = kv_types},
    {CLI_CHOICE, SESSION, NAMES("-ctv", "--cache-type-v"), "TYPE", "type of the value cache: f16 (default) or f32",
     FIELD(kv_type_value), .environment = "CACHE_TYPE_V", .choices = kv_types},
    {CLI_TEXT, MODEL | CLI_PACK | CLI_PROBE, NAMES("-C", "--cpu-mask"), "HEX", "CPUs to use as a mask", FIELD(cpu_mask)},
    {CLI_TEXT, MODEL | CLI_PACK | CLI_PROBE, NAMES("-Cr", "--cpu-range"), "LO-HI", "CPUs to use as a range",
     FIELD(cpu_range)},
    {CLI_INTEGER, MODEL, NAMES("--poll"), "N",
     "0 to 100: how long idle threads spin before they sleep, 50 is 200 us; default: 50", FIELD(poll), .minimum = 0,
     .maximum = 100},

    HEADING(MODEL, "NPU (takes matmuls of many rows; the CPU computes the rest)"),
    {CLI_CHOICE, MODEL, NAMES("--npu"), "KIND",
     "off (default), rknpu or rocket (the kernel's driver), auto (either of them), soft (played in software)",
     FIELD(npu_kind), .environment = "NPU", .environment_own = true, .choices = npu_wishes},
    {CLI_SET, MODEL, NAMES("--npu-required"), NULL,
     "fail with exit status 4 when the NPU cannot be used, switches itself off or computes nothing", FIELD(npu_required),
     1},
    {CLI_INTEGER, MODEL, NAMES("--npu-cores"), "N", "use at most N of its cores; default: all", FIELD(npu_cores),
     .minimum = 0, .maximum = 3},
    {CLI_INTEGER, MODEL, NAMES("--npu-rows"), "N", "leave matmuls of fewer rows to the CPU; default: chosen",
     FIELD(npu_rows), .minimum = 0, .maximum = 1 << 20},
    {CLI_INTEGER, MODEL, NAMES("--npu-memory"), "MB",
     "MiB for weights in the NPU's memory; those that do not fit are swapped; default: half of what is free",
     FIELD(npu_memory), .minimum = 0, .maximum = 1 << 20},
    {CLI_INTEGER, MODEL, NAMES("--npu-timeout"), "US", "microseconds after which a job counts as lost; default: chosen",
     FIELD(npu_timeout), .minimum = 0, .maximum = 60000000},
    {CLI_TEXT, MODEL, NAMES("--npu-board"), "FILE", "soft: board whose NPU is played; default: RK3588",
     FIELD(npu_board)},
    {CLI_TEXT, MODEL, NAMES("--npu-faults"), "SCRIPT", "soft: what goes wrong, for example seed=7;late:p=0.01,us=5000",
     FIELD(npu_faults)},

    HEADING(EVERY, "General"),
    {CLI_SET, CLI_PACK | CLI_INFO | CLI_VERIFY | CLI_PROBE | CLI_DOCTOR | CLI_NPU | SESSION, NAMES("--json"), NULL,
     "one JSON object on standard output instead of text", FIELD(json), 1},
    {CLI_SET, EVERY, NAMES("-v", "--verbose"), NULL, "say more", FIELD(verbose), 1},
    {CLI_SET, EVERY, NAMES("-q", "--quiet"), NULL, "say only errors", FIELD(quiet), 1},
    {CLI_SET, EVERY, NAMES("-h", "--help", "--usage"), NULL, "show this help", FIELD(help), 1},

    IGNORED_VALUE(MODEL, no_gpu, "-ngl", "--gpu-layers", "--n-gpu-layers"),
    {CLI_IGNORED, SESSION, NAMES("-fa", "--flash-attn"), "VALUE", "attention has one form here",
     .choices = switch_values},
    IGNORED_VALUE(CLI_BENCH, "attention has one form here", "-fa", "--flash-attn"),
    IGNORED_VALUE(MODEL, "the CPU is the device", "-dev", "--device"),
    IGNORED_VALUE(MODEL, no_gpu, "-sm", "--split-mode"),
    IGNORED_VALUE(MODEL, no_gpu, "-ts", "--tensor-split"),
    IGNORED_VALUE(MODEL, no_gpu, "-mg", "--main-gpu"),
    IGNORED_VALUE(MODEL, no_experts, "-ot", "--override-tensor"),
    IGNORED_VALUE(MODEL, no_experts, "-ncmoe", "--n-cpu-moe"),
    IGNORED(MODEL, no_experts, "-cmoe", "--cpu-moe"),
    IGNORED(SESSION, no_gpu, "-kvo", "--kv-offload", "-nkvo", "--no-kv-offload"),
    IGNORED(SESSION, no_gpu, "--op-offload", "--no-op-offload", "--no-host"),
    IGNORED_VALUE(CLI_BENCH, no_gpu, "-nkvo", "--no-kv-offload"),
    IGNORED_VALUE(CLI_BENCH, "use --load", "-mmp"),
    IGNORED(SESSION, no_repack, "--repack", "-nr", "--no-repack"),
    IGNORED(MODEL, "memory is not locked", "--mlock"),
    IGNORED_VALUE(MODEL, "threads follow the affinity mask; use -C or numactl", "--numa"),
    IGNORED_VALUE(MODEL, "priorities are left alone", "--prio"),
    IGNORED_VALUE(MODEL, "threads are pinned inside the mask anyway", "--cpu-strict"),
    IGNORED(SESSION, "ork verify does this", "--check-tensors"),
    IGNORED(GENERATE, "templates are rendered by family, not by a Jinja engine", "--jinja", "--no-jinja"),
    IGNORED(GENERATE, "the context is never shifted; generation ends when it is full", "--context-shift",
            "--no-context-shift"),
    IGNORED_VALUE(GENERATE, "the context is never shifted", "--keep"),
    IGNORED(SESSION, no_warmup, "--warmup", "--no-warmup"),
    IGNORED(SESSION, "see --stats", "--perf", "--no-perf"),
    IGNORED(SESSION, no_log, "--log-disable", "--log-prefix", "--log-timestamps"),
    IGNORED_VALUE(SESSION, no_log, "-lv", "--verbosity", "--log-verbosity"),
    IGNORED_VALUE(SESSION, no_log, "--log-file"),
    IGNORED_VALUE(SESSION, "NO_COLOR in the environment turns colour off", "--log-colors"),
    IGNORED(GENERATE, "NO_COLOR in the environment turns colour off", "-co", "--color"),
    IGNORED(GENERATE, "the terminal edits the line", "--simple-io"),
    IGNORED(MODEL, "nothing is ever fetched", "--offline"),

    REFUSED(MODEL, "ork fetches nothing; give a file", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url"),
    REFUSED(GENERATE, "name a family with --chat-template", "--chat-template-file", "--chat-template-kwargs"),
    REFUSED(GENERATE, "the samplers are fixed: penalties, top-k, top-p, min-p, temperature", "--samplers",
            "--sampling-seq", "--mirostat", "--typical", "--top-nsigma", "--xtc-probability"),
    REFUSED(GENERATE, "output cannot be constrained", "--grammar", "--grammar-file", "-j", "--json-schema"),
    REFUSED(MODEL, "adapters are not applied", "--lora", "--lora-scaled", "--control-vector"),
    REFUSED(MODEL, "the file's own values are used", "--override-kv"),
    REFUSED(CLI_PERPLEXITY, "only the standard method is there", "--ppl-stride", "--hellaswag", "--winogrande",
            "--multiple-choice"),
};
const size_t cli_option_count = sizeof cli_options / sizeof *cli_options;

void cli_settings_init(cli_settings *settings)
{
    ork_sampler_params sampler = ork_sampler_defaults();
    *settings = (cli_settings){
        .npu_device = ORK_NPU_AUTO,
        .npu_bits = 8,
        .threads = -1,
        .threads_batch = -1,
        .batch = -1,
        .ubatch = -1,
        .context = -1,
        .poll = -1,
        .load_mode = ORK_LOAD_AUTO,
        .predict = -1,
        .seed = -1,
        .temperature = sampler.temperature,
        .top_k = sampler.top_k,
        .top_p = sampler.top_p,
        .min_p = sampler.min_p,
        .repeat_last_n = sampler.repeat_last_n,
        .repeat_penalty = sampler.repeat_penalty,
        .presence_penalty = sampler.presence_penalty,
        .frequency_penalty = sampler.frequency_penalty,
        .conversation = -1,
        .escape = 1,
        .display_prompt = 1,
        .repetitions = 5,
        .bench_output = BENCH_MARKDOWN,
        .bench_errors = BENCH_NONE,
        .chunks = -1,
    };
}
