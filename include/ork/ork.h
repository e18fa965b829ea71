/* ork: the one public header.
 *
 * Two nouns: a model is an immutable, shareable set of weights with its tokenizer; a session is one token timeline on
 * it (KV cache, convolution states). The caller hands a session the whole wished token list; the session decides what
 * it can keep. Functions return ork_status and fill an ork_error; nothing here prints, exits or asserts on input.
 *
 * Threads: a model may be used by any number of threads at once. A session, sampler or text stream belongs to one
 * thread at a time. Strings and arrays handed out by pointer-to-pointer are freed with ork_free(). */
#ifndef ORK_ORK_H
#define ORK_ORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORK_VERSION_MAJOR 0
#define ORK_VERSION_MINOR 1
#define ORK_VERSION_PATCH 0

#if defined(__GNUC__)
#define ORK_API __attribute__((visibility("default")))
#else
#define ORK_API
#endif

/* ---- status and errors ------------------------------------------------------------------------------------------ */

typedef enum ork_status {
    ORK_OK = 0,
    ORK_FAILURE = -1,      /* none of the kinds below */
    ORK_BAD_ARGUMENT = -2, /* the caller's parameter; nothing was touched */
    ORK_BAD_FILE = -3,     /* malformed, truncated or hostile content; `offset` says where */
    ORK_UNSUPPORTED = -4,  /* well-formed, but an architecture, type or tokenizer that this version does not run */
    ORK_NOT_FOUND = -5,    /* a path or name that does not exist */
    ORK_EXISTS = -6,       /* output is there already and overwriting was not asked for */
    ORK_IO = -7,           /* the system refused a read, write, map or rename (disk full, no permission) */
    ORK_NO_MEMORY = -8,
    ORK_CANCELLED = -9, /* a progress or cancel callback said stop */
    ORK_LIMIT = -10     /* context full, or another stated bound reached */
} ork_status;

/* What went wrong, where. `what` is one line without a newline; `where` is a path, tensor or key, may be empty;
 * `offset` is a byte offset into the file named by `where`, or -1. */
typedef struct ork_error {
    ork_status code;
    int64_t offset;
    char what[384];
    char where[512];
} ork_error;

/* A short constant name for a status, for example "bad file". */
ORK_API const char *ork_status_name(ork_status status);
/* "0.1.0" */
ORK_API const char *ork_version(void);
/* Frees what the library handed out by pointer-to-pointer. NULL is allowed. */
ORK_API void ork_free(void *pointer);

/* ---- cards: what a file holds, without loading weights ---------------------------------------------------------- */

typedef enum ork_file_kind { ORK_FILE_GGUF = 1, ORK_FILE_ORKPACK = 2 } ork_file_kind;

typedef struct ork_card ork_card;

typedef struct ork_card_summary {
    ork_file_kind kind;
    uint32_t format_version;
    uint64_t file_size_bytes; /* all parts of a split GGUF */
    const char *architecture; /* "lfm2moe"; strings live as long as the card */
    const char *name;         /* general.name or "" */
    const char *license;      /* general.license or "" */
    uint64_t parameter_count;
    uint64_t active_parameter_count; /* without the experts that a token does not choose */
    uint64_t bytes_per_token;        /* weight bytes that one decoded token reads, in this file's types */
    uint32_t layer_count, embedding_length, context_length, vocabulary_size;
    uint32_t head_count, head_count_kv, expert_count, expert_used_count; /* head_count_kv: largest over layers */
    const char *tokenizer_model, *tokenizer_pre; /* "gpt2", "lfm2" */
    const char *chat_template;                   /* the Jinja source or "" */
    bool runnable;                               /* architecture and tokenizer are supported by this version */
    size_t tensor_count;
} ork_card_summary;

typedef struct ork_tensor_info {
    const char *name;
    const char *type; /* a GGUF block type ("Q4_K") or an ork tier ("nf4") */
    const char *source_type; /* orkpack: the GGUF type it came from; GGUF: same as type */
    uint32_t dimension_count;
    uint64_t dimensions[4]; /* ne0 (inputs, contiguous) first */
    uint64_t size_bytes;    /* all planes */
    uint64_t offset_bytes;  /* in its file */
    double relative_error;  /* orkpack: RMS error of the stored against the source weights over their RMS; -1 unknown */
} ork_tensor_info;

ORK_API ork_status ork_card_open(const char *path, ork_card **card, ork_error *error);
ORK_API void ork_card_close(ork_card *card);
ORK_API const ork_card_summary *ork_card_get_summary(const ork_card *card);
/* index < tensor_count, in file order. */
ORK_API ork_status ork_card_get_tensor(const ork_card *card, size_t index, ork_tensor_info *info);

/* ---- packing ---------------------------------------------------------------------------------------------------- */

typedef struct ork_progress {
    const char *step;       /* what is being done: a tensor name, "index", "fsync" */
    uint64_t done_bytes, total_bytes; /* of the source (pack) or of the file (verify, load) */
    size_t done_tensors, total_tensors;
} ork_progress;
/* Called from the calling thread, a few times a second at most and once at the end. Return false to stop. */
typedef bool (*ork_progress_function)(void *context, const ork_progress *progress);

typedef struct ork_pack_params {
    /* Tier of the weight matrices: "auto" (NULL: experts nf4, other matrices i8) or a tier name of ork_tier_names().
     * Norms, routers, convolutions and biases stay f32, embedding and output become i8, unless a rule says otherwise;
     * with a float default tier or g8, embedding and output take it too. */
    const char *default_tier;
    /* "REGEX=TIER" (PCRE2 over GGUF tensor names, searched); the last match wins. "REGEX=TIER:SENSITIVITY" also records
     * how much each of these tensors gains by all its bits, in a unit that is the same for all. */
    const char *const *tier_rules;
    size_t tier_rule_count;
    const char *imatrix_path; /* NULL or a llama.cpp importance matrix (legacy or GGUF form) */
    bool overwrite;           /* replace an existing output */
    bool dry_run;             /* plan and check only, write nothing */
    uint32_t threads;         /* 0: performance cores */
    ork_progress_function progress;
    void *progress_context;
    /* Called for every tensor once the plan stands, before weights are read: `tensor` has the tier as type and the size
     * in the pack, its offset and error are unknown (0 and -1). May be NULL. */
    void (*planned)(void *context, size_t index, size_t count, const ork_tensor_info *tensor, uint64_t source_bytes);
    void *planned_context;
} ork_pack_params;

typedef struct ork_pack_report {
    size_t tensor_count, resumed_tensor_count, unmatched_rule_count; /* rules that named no tensor */
    size_t skipped_tensor_count;                                     /* not part of the architecture; left out */
    uint64_t source_bytes, pack_bytes;
    double bits_per_weight;
    double seconds;
    double mean_relative_error; /* over quantized weights, RMS */
    size_t neutral_importance_count; /* matrices (experts counted singly) that the importance matrix says nothing of */
} ork_pack_report;

/* Packs a GGUF (first part of a split one) into an orkpack. Writes to a temporary file beside the output, resumes an
 * interrupted run of the same plan from its journal, fsyncs, renames. report may be NULL. */
ORK_API ork_status ork_pack_file(const char *gguf_path, const char *orkpack_path, const ork_pack_params *params,
                                 ork_pack_report *report, ork_error *error);
/* NULL-terminated list of tier names: "f32", "f16", "bf16", "g8", "i8", "i4", "nf4", "i5", "i6", "n8". */
ORK_API const char *const *ork_tier_names(void);

typedef struct ork_verify_report {
    size_t plane_count;
    uint64_t checked_bytes;
    size_t non_finite_count; /* NaN or infinity among scales and float weights */
} ork_verify_report;
/* Checks every checksum, range, scale and table of an orkpack. */
ORK_API ork_status ork_verify_file(const char *orkpack_path, ork_progress_function progress, void *progress_context,
                                   ork_verify_report *report, ork_error *error);

/* ---- models ----------------------------------------------------------------------------------------------------- */

typedef enum ork_load_mode {
    ORK_LOAD_AUTO = 0, /* copy when the pack and the KV cache fit in available memory with a margin, else map */
    ORK_LOAD_MAP = 1,  /* map the file; ready at once, pages come and go */
    ORK_LOAD_COPY = 2  /* read into anonymous huge pages, drop the page cache behind it; decodes fastest */
} ork_load_mode;

/* How matrices of the nested tier n8 are read. */
typedef enum ork_nested {
    ORK_NESTED_FULL = 0, /* both planes: int8 quality, eight bits a weight */
    ORK_NESTED_BASE = 1  /* the base alone: four bits a weight, what the plane beside it holds is left out */
} ork_nested;

typedef struct ork_model_params {
    ork_load_mode load_mode;
    ork_nested nested;
    ork_progress_function progress; /* may be NULL */
    void *progress_context;
} ork_model_params;

typedef struct ork_model ork_model;

/* Opens an orkpack. params may be NULL. */
ORK_API ork_status ork_model_open(const char *orkpack_path, const ork_model_params *params, ork_model **model,
                                  ork_error *error);
/* Sessions on the model must be closed first. */
ORK_API void ork_model_close(ork_model *model);
/* The card of an open model (kind ORK_FILE_ORKPACK); lives as long as the model. */
ORK_API const ork_card *ork_model_card(const ork_model *model);
/* How the weights were really loaded, and bytes held for them. */
ORK_API ork_load_mode ork_model_load_mode(const ork_model *model, uint64_t *weight_bytes);

/* What the user should know of this model: a guess that had to be made, tensors that are not used. NULL past the last. */
ORK_API const char *ork_model_warning(const ork_model *model, size_t index);

/* ---- text ------------------------------------------------------------------------------------------------------- */

typedef int32_t ork_token;

enum {
    ORK_TOKENIZE_SPECIAL = 1,     /* add BOS/EOS as the model's flags say */
    ORK_TOKENIZE_PARSE_SPECIAL = 2 /* control tokens written out in the text become themselves; never for user text */
};
/* text: size_bytes bytes, any content. *tokens is freed with ork_free(). */
ORK_API ork_status ork_tokenize(const ork_model *model, const char *text, size_t size_bytes, unsigned flags,
                                ork_token **tokens, size_t *count, ork_error *error);
/* Text of a token list; control tokens become text only when `special`. *text is NUL-terminated. */
ORK_API ork_status ork_detokenize(const ork_model *model, const ork_token *tokens, size_t count, bool special,
                                  char **text, size_t *size_bytes, ork_error *error);
/* -1 where the model has none. */
ORK_API ork_token ork_token_bos(const ork_model *model);
ORK_API ork_token ork_token_eos(const ork_model *model);
ORK_API bool ork_token_adds_bos(const ork_model *model);
/* True for every token that ends a generation (models.md 5.6). */
ORK_API bool ork_token_is_end(const ork_model *model, ork_token token);

/* A text stream turns generated tokens into bytes that never end inside a UTF-8 sequence. */
typedef struct ork_text_stream ork_text_stream;
ORK_API ork_status ork_text_stream_create(const ork_model *model, bool special, ork_text_stream **stream,
                                          ork_error *error);
ORK_API void ork_text_stream_destroy(ork_text_stream *stream);
/* *text points to *size_bytes bytes, valid until the next call. */
ORK_API ork_status ork_text_stream_push(ork_text_stream *stream, ork_token token, const char **text,
                                        size_t *size_bytes, ork_error *error);
/* What is left at the end: an incomplete sequence becomes U+FFFD. */
ORK_API ork_status ork_text_stream_finish(ork_text_stream *stream, const char **text, size_t *size_bytes,
                                          ork_error *error);

typedef struct ork_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} ork_chat_message;
/* Template family that fits the model: "chatml", "lfm2", "smollm2", "qwen3", "llama3", or NULL when it has none. */
ORK_API const char *ork_chat_template_name(const ork_model *model);
/* NULL-terminated list of the names that ork_chat_tokenize() takes. */
ORK_API const char *const *ork_chat_template_names(void);
/* Renders a conversation and tokenizes it: scaffolding with control tokens, contents as plain text, exactly one BOS
 * where the family has one. template_name NULL: the model's own. *text (may be NULL) receives the rendered prompt. */
ORK_API ork_status ork_chat_tokenize(const ork_model *model, const char *template_name,
                                     const ork_chat_message *messages, size_t message_count,
                                     bool add_generation_prompt, ork_token **tokens, size_t *count, char **text,
                                     ork_error *error);

/* ---- NPU --------------------------------------------------------------------------------------------------------- */

typedef enum ork_npu_kind {
    ORK_NPU_SOFT = 1,   /* the software device: exact results, a board's timing on a virtual clock, scripted faults */
    ORK_NPU_RKNPU = 2,  /* RK3588, the vendor kernel's driver */
    ORK_NPU_ROCKET = 3, /* RK3588, the mainline kernel's driver */
    ORK_NPU_AUTO = 4    /* rknpu or rocket, whichever is there */
} ork_npu_kind;

typedef struct ork_npu_params {
    ork_npu_kind kind;
    uint32_t cores;         /* at most so many; 0: all */
    uint32_t rows_min;      /* matmuls of fewer rows stay on the CPU; 0: as ork_session_params.perf says */
    uint64_t memory_bytes;  /* for weights, at most; 0: half of what is available */
    uint32_t timeout_us;    /* a job later than this counts as lost; 0: chosen */
    bool skip_self_test;    /* for measurements; results are checked all the same */
    const char *board;      /* soft: path of a board file, NULL: the built-in RK3588 */
    const char *faults;     /* soft: a fault script (docs/npu.md), NULL: none */
    bool real_time;         /* soft: the monotonic clock instead of a virtual one */
} ork_npu_params;

typedef struct ork_npu ork_npu;

typedef struct ork_npu_info {
    const char *driver, *soc, *node; /* live as long as the handle */
    uint32_t driver_version;         /* major * 10000 + minor * 100 + patch */
    uint32_t cores, domains;
    uint64_t domain_bytes, clock_hz;
} ork_npu_info;

typedef struct ork_npu_stats {
    bool off;              /* the engine has switched itself off; `why` says so */
    char why[256];
    uint64_t matmuls, submits, tasks, multiply_adds; /* done and checked on the NPU */
    uint64_t declined;     /* matmuls that were offered and left to the CPU: not present, too small, device busy */
    uint64_t redone;       /* matmuls that were taken and had to be computed by the CPU */
    uint64_t late, never_started, stopped, failed_checks, refused_submits; /* faults seen, by kind */
    uint64_t resets, failed_resets, quarantined_bytes; /* quarantined now: buffers of jobs that may still run */
    uint64_t programs_built, programs_reused;
    uint64_t busy_us;      /* from submit to completion, on the device's clock */
    uint32_t cores_in_use; /* after cores were given up */
    uint64_t resident_bytes, imported_bytes, mappings, swaps_in, evictions, domain_switches;
} ork_npu_stats;

/* Opens a device, checks it (driver, version, SoC, IOMMU) and runs the self-test on every core: known products of every
 * shape class, compared exactly. Any doubt is an error and nothing stays open. ORK_NOT_FOUND: there is no such device;
 * ORK_IO: no permission or held by another process; ORK_UNSUPPORTED: SoC, driver or IOMMU; ORK_FAILURE: the self-test. */
ORK_API ork_status ork_npu_open(const ork_npu_params *params, ork_npu **npu, ork_error *error);
/* Sessions that use it must be closed first; it and the model may then be closed in any order. Drains what runs, within a
 * bound. */
ORK_API void ork_npu_close(ork_npu *npu);
ORK_API void ork_npu_get_info(const ork_npu *npu, ork_npu_info *info);
ORK_API void ork_npu_get_stats(const ork_npu *npu, ork_npu_stats *stats);
/* A self-test again, of an idle device: *checked products of *shapes shapes were compared. */
ORK_API ork_status ork_npu_self_test(ork_npu *npu, uint32_t *shapes, uint64_t *checked, ork_error *error);
/* The register program of one int8 (weight_bits 8) or int4 (4) task of m x k times n x k, in names: one line a register with
 * its fields. *text is freed with ork_free(). */
ORK_API ork_status ork_npu_describe_program(uint32_t weight_bits, uint32_t m, uint32_t k, uint32_t n, char **text,
                                            ork_error *error);
/* Any register program, for example one that was captured: 64-bit words, little-endian. */
ORK_API ork_status ork_npu_disassemble(const void *words, size_t size_bytes, char **text, ork_error *error);

/* What stands in the way of using an NPU here, and of full speed: findings of `ork doctor`. */
typedef enum ork_finding_kind { ORK_FINDING_GOOD = 0, ORK_FINDING_NOTE = 1, ORK_FINDING_BAD = 2 } ork_finding_kind;
typedef struct ork_finding {
    ork_finding_kind kind;
    const char *topic;  /* "npu node", "permission", "governor", ... */
    const char *text;   /* what was seen */
    const char *advice; /* what to do, or "" */
} ork_finding;
typedef struct ork_survey {
    size_t finding_count;
    const ork_finding *findings;
    bool npu_usable;          /* a device node is there that this process may open and whose driver is supported */
    ork_npu_kind npu_kind;    /* of that one */
} ork_survey;
/* Reads the system, changes nothing. root: "/" or a test tree with dev/, proc/ and sys/. *survey is freed with ork_free(). */
ORK_API ork_status ork_survey_machine(const char *root, ork_survey **survey, ork_error *error);

/* How many layers later a correction of an overlay comes where nobody says otherwise. */
enum { ORK_OVERLAY_LATE_LAYERS = 2 };

/* ---- simulator --------------------------------------------------------------------------------------------------- */

/* Predictions from a model's shape and a board's figures on a virtual clock (docs/simulator.md). No weights, no device. */
typedef enum ork_policy {
    ORK_POLICY_CPU = 1,       /* everything on the CPU */
    ORK_POLICY_PARTITION = 2, /* of the published system: experts that fit NPU memory are computed there and waited for */
    ORK_POLICY_STREAMING = 3, /* of the published system: the experts of a layer split between CPU and NPU, joined */
    ORK_POLICY_OVERLAY = 4,   /* ork: the CPU computes all of it, the NPU adds int8 results that are in time */
    ORK_POLICY_LATE = 5       /* ork: as overlay; what goes into the residual stream may come some layers later */
} ork_policy;

typedef struct ork_simulate_params {
    const char *board;      /* a board file; NULL: the built-in RK3588 */
    const char *shape;      /* name of a built-in shape, or a shape file */
    ork_policy policy;      /* 0: cpu */
    bool published;         /* cpu: the published system's instead of ork's; its two policies imply it */
    uint32_t context;       /* positions before the prompt */
    uint32_t prompt, tokens; /* 0: 128 and 64; at most 2^20 and 4096 */
    uint64_t seed;
    double submit_us;       /* of the NPU instead of the board's; 0: the board's */
    double bus_share;       /* of the board's bus, what is left to share while CPU and NPU both run; 0: all, at least 0.1 */
    uint32_t late_layers;   /* late: how many layers later, 1 to 64; 0: ORK_OVERLAY_LATE_LAYERS */
    uint32_t domains;       /* published system: NPU address spaces full of experts, at most 16; 0: 1, streaming 2 */
    double slowdown_max;    /* of the CPU by all chains of a token, at most 1; 0: the dispatcher's */
    double delay_us;        /* ork: every chain takes so much longer than the plan knows */
    uint64_t npu_memory_bytes; /* ork: for int8 bricks; 0: half of what the weights leave of the board's */
} ork_simulate_params;

/* What it costs to make int8 bricks resident that do not fit, by the board's rate: seconds behind other work of the phase,
 * and seconds that nothing hides. ork does not wait for those, its CPU computes what is absent. */
typedef struct ork_simulation_swap {
    uint64_t bytes;
    double hidden_seconds, exposed_seconds;
} ork_simulation_swap;

/* One stay of work on an engine while the last token is decoded. */
typedef struct ork_simulation_event {
    const char *engine; /* "cpu", "npu0" to "npu2" */
    const char *what;   /* the part of the layer */
    uint32_t layer;
    double begin_us, end_us;
} ork_simulation_event;

typedef struct ork_simulation {
    char board[32], shape[64];
    ork_policy policy;
    bool published;
    uint32_t context, prompt, tokens;
    double prefill_tokens_per_second, decode_tokens_per_second;
    double decode_alone_tokens_per_second; /* ork: the same weights in the same tiers without the NPU */
    double overlay_hit_rate;               /* in time of those that were submitted */
    double overlay_coverage;               /* planned, of the int8 bytes of the sensitive matrices */
    const char *overlay_limit;             /* what kept most of the other sensitive matrices out; NULL: no overlay */
    uint64_t overlay_planned;              /* groups that have a chain, of one token */
    uint64_t overlay_submitted, overlay_in_time, overlay_late, overlay_lost, overlay_busy; /* busy: no free core */
    uint64_t weight_bytes, kv_bytes, state_bytes; /* of matrices in their tiers; at the end of the run */
    uint64_t npu_resident_bytes;
    uint32_t npu_domains;
    double npu_fill_seconds;         /* to make those bytes resident once, at load */
    ork_simulation_swap prompt_swap; /* of the whole prompt */
    ork_simulation_swap token_swap;  /* published system: of experts that a token chooses */
    double busy_share[4];            /* of the decode phase: CPU, NPU cores */
    size_t event_count;
    const ork_simulation_event *events;
} ork_simulation;

/* *simulation is freed with ork_free() and then all that it points to is gone. Refused: shapes and boards that are unknown,
 * malformed or impossible, boards without the figures, more positions than the model has. */
ORK_API ork_status ork_simulate(const ork_simulate_params *params, ork_simulation **simulation, ork_error *error);
/* The same of a loaded model's matrices in their tiers; params->shape is not looked at. The published system's policies need
 * a shape. */
ORK_API ork_status ork_simulate_model(const ork_model *model, const ork_simulate_params *params,
                                      ork_simulation **simulation, ork_error *error);
/* NULL-terminated. */
ORK_API const char *const *ork_simulate_shapes(void);

/* One published measurement, and what the model of the published system says of it. */
typedef struct ork_published_row {
    char name[64], shape[64], quantity[8]; /* "prefill" or "decode" */
    char fitted[32];                       /* the figure that was chosen by this row, "": a prediction */
    double measured, simulated;            /* tokens a second */
} ork_published_row;
typedef struct ork_published_report {
    size_t row_count, fitted_count;
    const ork_published_row *rows;
} ork_published_report;
/* board NULL: the built-in one. *report is freed with ork_free(). */
ORK_API ork_status ork_simulate_published(const char *board, ork_published_report **report, ork_error *error);

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

/* What is known of a machine's speed: of a board, measured here, or assumed (docs/dispatch.md). Immutable. */
typedef struct ork_perf ork_perf;

/* A board file's figures; NULL: the built-in RK3588. */
ORK_API ork_status ork_perf_open_board(const char *path, ork_perf **perf, ork_error *error);
/* Guesses for this machine from its threads alone, without an NPU. */
ORK_API ork_status ork_perf_open_assumed(ork_perf **perf, ork_error *error);
/* A stored calibration. ORK_UNSUPPORTED, with what differs, when it was made with another ork, CPU, instruction set, number
 * of threads (0: auto), memory clock or, where npu is given, NPU driver. npu NULL: its NPU figures are left out. */
ORK_API ork_status ork_perf_open_calibration(const char *path, uint32_t threads, const ork_npu *npu, ork_perf **perf,
                                             ork_error *error);
ORK_API void ork_perf_close(ork_perf *perf);
/* All figures and what they depend on as JSON, the content of a calibration file. *text is freed with ork_free(). */
ORK_API ork_status ork_perf_text(const ork_perf *perf, char **text, ork_error *error);
/* Writes that file: a new one beside it, then renamed. */
ORK_API ork_status ork_perf_save(const ork_perf *perf, const char *path, ork_error *error);

typedef struct ork_calibrate_params {
    uint32_t threads;              /* 0: performance cores */
    ork_npu *npu;                  /* also measured where given; no session may use it meanwhile */
    bool (*cancel)(void *context); /* polled between measurements. May be NULL */
    void *cancel_context;
} ork_calibrate_params;
/* Measures this machine, which should do nothing else, in less than a minute. params may be NULL. */
ORK_API ork_status ork_calibrate(const ork_calibrate_params *params, ork_perf **perf, ork_error *error);

typedef struct ork_explain_params {
    uint32_t rows;         /* token rows of the pass that is explained; 0: 1 */
    uint32_t prefill_rows; /* rows that a prompt is computed in; 0: 512 */
    uint32_t context;      /* past positions while decoding; 0: none */
    bool overlay;          /* n8 matrices: the CPU reads base planes, the NPU may add what is missing */
    uint32_t late_layers;  /* overlay: what goes into the residual stream alone, so many layers later; at most 64; 0: no */
} ork_explain_params;

#define ORK_EXPLAINED_MEMBERS_MAX 8u

typedef struct ork_explained_member {
    char name[32];                  /* "q", "gate" */
    const char *tier;
    uint32_t channels, inputs;      /* of one matrix */
    uint32_t experts, experts_used; /* of a stack; a plain matrix: 1 and 1 */
    uint32_t rows_min;              /* from so many rows on it goes to a session's NPU, each expert by its own; 0: never */
    uint32_t overlay_channels;      /* one row, of the plan: how many of its channels a chain has, those that lack most */
} ork_explained_member;

typedef struct ork_explained_group {
    const char *kind;        /* "attention in", "experts up" */
    uint32_t layer;
    char tiers[32];          /* "i8", "nf4+i8" */
    uint64_t bytes;          /* of weights that one token reads */
    double sensitivity;      /* the largest of its members; 0: not measured */
    const char *route;       /* "cpu", "npu", "cpu+overlay" */
    const char *limit;       /* largest part of the predicted time: "bandwidth", "compute", "fixed cost" */
    const char *why;         /* what keeps the NPU out, "": nothing */
    double seconds;          /* predicted, of the route */
    double cpu_seconds;
    double npu_seconds;      /* of the group, or with one row of its overlay; negative: it cannot */
    /* Token rows from which all members go to the NPU, and the first does: experts on average; 0: never. */
    uint32_t rows_min, rows_first;
    uint64_t overlay_bytes;  /* one row, of the plan: int8 bytes of its chain; 0: it has none */
    double overlay_begin_seconds;    /* from the token's start to the submit */
    double overlay_window_seconds;   /* from the submit to the poll; npu_seconds of it for the chain, waiting included */
    double overlay_slowdown_seconds; /* of the CPU, by the chain */
    uint32_t member_count;
    ork_explained_member members[ORK_EXPLAINED_MEMBERS_MAX];
} ork_explained_group;

typedef struct ork_explanation {
    const char *source;       /* "board", "calibration", "assumed" */
    char name[64];
    uint32_t rows, prefill_rows, context;
    size_t group_count;
    const ork_explained_group *groups; /* in the order of a pass */
    uint64_t group_bytes, embedding_bytes, vector_bytes; /* that one token reads; together the card's bytes_per_token */
    uint64_t kv_bytes_per_position, state_bytes;
    double seconds;           /* of the pass of `rows` rows */
    double npu_share;         /* of its multiply-adds */
    double prefill_tokens_per_second, decode_tokens_per_second;
    bool overlay;             /* one was asked for: the rest says what its plan is */
    size_t overlay_groups;    /* that have a chain */
    uint64_t overlay_bytes;   /* int8 bytes of all chains, resident in one domain */
    uint64_t sensitive_bytes; /* int8 bytes of all n8 matrices that a token reads */
    double overlay_gain;      /* of what these matrices lack without the NPU, the part that the chains have; 0 to 1 */
    const char *overlay_limit; /* what kept most of the rest out, as `why` of a group */
    double decode_alone_tokens_per_second; /* base planes without chains */
} ork_explanation;
/* The route of every op group, an NPU of the perf model taken as free and holding all that fits it. params may be NULL.
 * *explanation is freed with ork_free(). */
ORK_API ork_status ork_explain(const ork_model *model, const ork_perf *perf, const ork_explain_params *params,
                               ork_explanation **explanation, ork_error *error);

/* ---- sessions --------------------------------------------------------------------------------------------------- */

typedef enum ork_kv_type { ORK_KV_F16 = 0, ORK_KV_F32 = 1 } ork_kv_type;

/* While one token is decoded, the NPU may add int8 quality to results that the CPU has completed (docs/dispatch.md): of
 * matrices in tier n8 the CPU reads the base, which wants a model opened with ORK_NESTED_BASE. A result that is not there when
 * the CPU is done is dropped; nothing waits. */
typedef enum ork_overlay_mode {
    ORK_OVERLAY_OFF = 0,
    ORK_OVERLAY_JOIN = 1, /* asked for when the CPU has computed the same group */
    ORK_OVERLAY_LATE = 2  /* of matrices that write the residual stream the difference is added some layers later */
} ork_overlay_mode;

typedef struct ork_overlay_params {
    ork_overlay_mode mode;
    uint32_t late_layers; /* how many, 1 to 64; 0: ORK_OVERLAY_LATE_LAYERS */
    bool all;             /* every matrix in n8 (but experts), whether it is predicted to be in time or not; for measurements */
    uint32_t window_us;   /* where the NPU's time is virtual: the CPU asks so long after each submit; 0: as predicted */
} ork_overlay_params;

typedef struct ork_overlay_stats {
    bool on;          /* there is a plan, and the NPU has its weights */
    char why[256];    /* why not, where it was wished; else "" */
    uint32_t chains;  /* of one token */
    uint64_t resident_bytes, sensitive_bytes; /* int8 weights of the plan, and of all matrices that it was made from */
    /* Chains since creation: planned = submitted + busy (NPU not free, recovering or off) + rested (hardly ever in time of
     * late), submitted = in_time + late + faulted + what was not asked for yet. */
    uint64_t planned, submitted, busy, rested, in_time, late, faulted;
    uint64_t bytes; /* int8 weights behind results that were used */
} ork_overlay_stats;

typedef struct ork_session_params {
    uint32_t context_length;   /* tokens; 0: the model's, clamped to memory (ork_session_get_stats says) */
    uint32_t threads;          /* decode; 0: performance cores in the affinity mask */
    uint32_t threads_batch;    /* more than one row; 0: as threads */
    uint32_t batch_rows;       /* rows computed together in prefill; 0: chosen */
    uint32_t activation_block; /* inputs that share an int8 activation scale, a multiple of 32; 0: default; UINT32_MAX: rows */
    ork_kv_type kv_type_key, kv_type_value;
    uint32_t spin_us;          /* how long idle workers spin before they sleep; UINT32_MAX: default */
    bool (*cancel)(void *context); /* polled between layers; true stops with ORK_CANCELLED. May be NULL */
    void *cancel_context;
    /* Takes matmuls of many rows; may be shared by sessions of one model (while it works for one, the others compute on the
     * CPU). NULL: CPU alone. Groups of matmuls that it may take part in use whole rows instead of activation_block: only
     * with UINT32_MAX are the logits those of the CPU alone, bit by bit. Creating a session while the NPU serves another
     * model is an error (ORK_LIMIT); what else keeps the NPU from serving this one, the stats say, and the CPU does it all. */
    ork_npu *npu;
    /* Of this machine: says for each matrix from how many rows on the NPU takes its matmuls (unless ork_npu_params.rows_min
     * does; the first of the sessions that share an NPU decides), and is what the overlay is planned by. NULL: the built-in
     * board's figures. Not used after the creation. */
    const ork_perf *perf;
    ork_overlay_params overlay; /* needs npu; one session of an NPU at a time has it */
} ork_session_params;

typedef struct ork_session ork_session;
typedef struct ork_snapshot ork_snapshot;

typedef struct ork_session_stats {
    uint32_t context_length, threads, threads_batch, batch_rows;
    bool context_clamped;      /* memory allowed less than wished or than the model's own */
    uint64_t kv_bytes, state_bytes, scratch_bytes;
    uint64_t evaluated_tokens, reused_tokens; /* since creation: computed, and kept from earlier lists */
    uint64_t yielded_regions;  /* parallel regions that ran on one thread because other programs kept the cores busy */
    const char *kernels;       /* instruction set in use: "scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm" */
    bool npu;                  /* the weights are known to params.npu, which may take matmuls of several rows */
    char npu_why[256];         /* why not, where params.npu was given; else "" */
    /* Matrices that it takes with so many rows or more, and those that are left to the CPU whatever the rows: by the perf
     * model, or because the NPU cannot. */
    uint32_t npu_matrices, npu_matrices_left;
    uint32_t npu_rows_least, npu_rows_most; /* over those that it takes; 0: none */
    /* With an NPU: multiply-adds on weights in passes of several rows since creation, and those of them whose results came
     * from the NPU. The CPU computed the rest: what does not suit the NPU, was declined or had to be computed again. */
    uint64_t batch_multiply_adds, npu_multiply_adds;
    ork_overlay_stats overlay;
} ork_session_stats;

/* params may be NULL. */
ORK_API ork_status ork_session_create(const ork_model *model, const ork_session_params *params, ork_session **session,
                                      ork_error *error);
ORK_API void ork_session_destroy(ork_session *session);
/* Makes the timeline equal to tokens[0..count): keeps the longest prefix it can (recurrent state is never cut, only
 * restored: after any row of the last batch of 2 to 32 rows, else from a checkpoint), computes the rest. Afterwards logits
 * are there for the positions from
 * max(logits_from, first computed position) to count-1; at least for the last one. */
ORK_API ork_status ork_session_sync(ork_session *session, const ork_token *tokens, size_t count, size_t logits_from,
                                    ork_error *error);
/* [vocabulary_size] floats for a position, NULL if that position has none. Valid until the next sync. */
ORK_API const float *ork_session_logits(const ork_session *session, size_t position);
/* Forgets everything. */
ORK_API void ork_session_clear(ork_session *session);
ORK_API void ork_session_get_stats(const ork_session *session, ork_session_stats *stats);
/* The whole state at the present position, to return to later on a session of the same model and parameters. */
ORK_API ork_status ork_session_snapshot(const ork_session *session, ork_snapshot **snapshot, ork_error *error);
ORK_API ork_status ork_session_restore(ork_session *session, const ork_snapshot *snapshot, ork_error *error);
ORK_API void ork_snapshot_destroy(ork_snapshot *snapshot);

/* ---- sampling --------------------------------------------------------------------------------------------------- */

typedef struct ork_sampler_params {
    float temperature;       /* <= 0: greedy (lowest id among equals) */
    int32_t top_k;           /* <= 0: off */
    float top_p, min_p;      /* 1 and 0: off */
    int32_t repeat_last_n;   /* tokens looked back for the penalties; -1: all, 0: off */
    float repeat_penalty;    /* 1: off */
    float frequency_penalty, presence_penalty;
    uint64_t seed;
} ork_sampler_params;
/* llama.cpp's defaults: 0.8, 40, 0.95, 0.05, 64, 1, 0, 0; the seed is drawn from the system. */
ORK_API ork_sampler_params ork_sampler_defaults(void);

typedef struct ork_sampler ork_sampler;
ORK_API ork_status ork_sampler_create(const ork_sampler_params *params, uint32_t vocabulary_size,
                                      ork_sampler **sampler, ork_error *error);
ORK_API void ork_sampler_destroy(ork_sampler *sampler);
/* logits: [vocabulary_size], unchanged. history: the timeline so far, for the penalties. banned: an id never chosen, or
 * -1 (used for --ignore-eos one at a time through ork_sampler_ban). */
ORK_API ork_status ork_sampler_sample(ork_sampler *sampler, const float *logits, const ork_token *history,
                                      size_t history_count, ork_token *token, ork_error *error);
/* This id gets probability 0 from now on. */
ORK_API ork_status ork_sampler_ban(ork_sampler *sampler, ork_token token, ork_error *error);

/* ---- prompt lookup ----------------------------------------------------------------------------------------------- */

/* Text that repeats what its own timeline holds (edited code, quotations, tables) can be decoded several tokens a pass. A
 * lookup finds the latest place where the last tokens stood before and drafts what followed it there. The session computes
 * the draft together with the last token, and as long as the caller comes with the drafted token next, its logits are there
 * already. The caller samples every token as without a lookup, so text and random numbers are the same. With an NPU that is
 * as exact as batches are there: see ork_session_params.npu.
 *
 * A lookup belongs to one thread at a time and needs no model after its creation. */
typedef struct ork_lookup ork_lookup;

enum { ORK_LOOKUP_DRAFT_MAX = 31, ORK_LOOKUP_MATCH_MAX = 16 };

typedef struct ork_lookup_params {
    uint32_t draft_max; /* tokens of a draft; 0: chosen; at most ORK_LOOKUP_DRAFT_MAX */
    uint32_t match_min; /* so many last tokens must have stood before; 0: chosen; at most ORK_LOOKUP_MATCH_MAX */
    bool always;        /* as long a draft as there is room, whatever came of earlier ones; for measurements */
} ork_lookup_params;

/* Since creation, of ork_lookup_sync(). Without errors its calls with ever longer lists are passes or accepted tokens. */
typedef struct ork_lookup_stats {
    uint64_t passes;   /* the session computed something */
    uint64_t drafts;   /* passes with a draft */
    uint64_t drafted;  /* tokens of them */
    uint64_t accepted; /* drafted tokens that the caller came with: nothing was computed */
    uint64_t memory_bytes;
} ork_lookup_stats;

/* model: how much several rows cost depends on its experts; NULL: no experts. params may be NULL. */
ORK_API ork_status ork_lookup_create(const ork_model *model, const ork_lookup_params *params, ork_lookup **lookup,
                                     ork_error *error);
ORK_API void ork_lookup_destroy(ork_lookup *lookup);
/* Guesses what follows tokens[0..count), at least one token: *draft_count tokens, none to `room` of them, into draft
 * [ORK_LOOKUP_DRAFT_MAX]. A guess that has seldom been right is not made, and a draft is no longer than pays. Lists that
 * continue the one before by few tokens teach which guesses are right; a list that does not continue it is read anew. At
 * most 2^28 tokens (ORK_LIMIT). */
ORK_API ork_status ork_lookup_draft(ork_lookup *lookup, const ork_token *tokens, size_t count, size_t room,
                                    ork_token *draft, size_t *draft_count, ork_error *error);
/* As ork_session_sync(session, tokens, count, count - 1, error), but behind the list the session may then hold a draft of
 * at most `room` tokens, as far as context and batch_rows allow. An overlay, which only
 * single rows have, allows none. Errors are those of ork_session_sync. */
ORK_API ork_status ork_lookup_sync(ork_lookup *lookup, ork_session *session, const ork_token *tokens, size_t count,
                                   size_t room, ork_error *error);
ORK_API void ork_lookup_get_stats(const ork_lookup *lookup, ork_lookup_stats *stats);

/* ---- machine ---------------------------------------------------------------------------------------------------- */

/* Threads that auto means: performance cores inside the affinity mask. */
ORK_API uint32_t ork_default_threads(void);
/* Instruction set that the kernels would use now (after ORK_CPU_MASK). An unknown mask is an error. */
ORK_API ork_status ork_kernels_name(const char **name, ork_error *error);

/* Probes measure what this machine can do and what ork's kernels reach of it. They use the calling thread and threads of
 * their own, want a machine that does nothing else, and take up to about 40 seconds. */
typedef struct ork_probe_params {
    const uint32_t *thread_counts; /* NULL: 1, 2, 4, ... and the performance cores */
    size_t thread_count_count;
    uint64_t buffer_bytes; /* memory read in one pass; 0: 1 GiB, or half of what is available if that is less */
    uint32_t repetitions;  /* 0: 5, fewer when a slow machine would take too long */
    bool quick;            /* bandwidth: ceilings alone, few patterns, in about 3 seconds; compute: peaks alone */
    const char *file_path; /* bandwidth: a file that is also read as it is mapped, NULL for none */
    const char *const *tiers; /* names of tiers with integer activations; NULL: all of them */
    size_t tier_count;
    bool (*cancel)(void *context); /* polled between passes; true stops with ORK_CANCELLED. May be NULL */
    void *cancel_context;
} ork_probe_params;

/* One way of reading memory: every thread reads a part of the buffer of its own as `streams` streams, 64 bytes of each in
 * turn. Rates are in 10^9 bytes a second, of all threads together, over the repetitions. */
typedef struct ork_probe_read {
    uint32_t threads, streams;
    const char *pages;       /* "4k", "huge" (transparent huge pages) or "file" (page cache) */
    uint32_t prefetch_bytes; /* how far ahead each line is prefetched; 0: not */
    double best_gb_per_s, median_gb_per_s;
} ork_probe_read;

/* What the kernels of one tier reach. The fraction is the median over rounds of this rate over the ceiling (or peak)
 * measured right before and after it. */
typedef struct ork_probe_tier {
    const char *tier;
    uint32_t threads, rows; /* rows of activations: 1 for bandwidth */
    double rate;            /* median; bandwidth: 10^9 bytes of weights a second; compute: 10^9 multiply-adds a second */
    double fraction;
} ork_probe_tier;

typedef struct ork_probe_bandwidth_report {
    uint64_t buffer_bytes;
    uint64_t huge_page_bytes; /* of the buffer that was advised for huge pages, what the system really gave as such */
    const char *kernels;      /* instruction set */
    size_t read_count, ceiling_count, tier_count;
    const ork_probe_read *reads;
    const ork_probe_read *ceilings; /* per thread count, the read with the best median */
    const ork_probe_tier *tiers;
} ork_probe_bandwidth_report;

typedef struct ork_probe_peak {
    const char *kernel;      /* "int8 dot" or "float multiply-add" */
    const char *instruction; /* "vpdpbusd zmm" */
    uint32_t threads;
    double best_gmac_per_s, median_gmac_per_s; /* 10^9 multiply-adds a second, all threads together */
} ork_probe_peak;

typedef struct ork_probe_compute_report {
    const char *kernels;
    size_t peak_count, tier_count;
    const ork_probe_peak *peaks;
    const ork_probe_tier *tiers; /* matmuls of 64 rows on weights that lie in the caches */
} ork_probe_compute_report;

/* params may be NULL. *report is freed with ork_free() and then all that it points to is gone. Refused: thread counts out
 * of 1..256, fewer than 1 MiB of buffer a thread, more buffer than memory that is available, unknown or float tiers, a
 * file that cannot be mapped. */
ORK_API ork_status ork_probe_bandwidth(const ork_probe_params *params, ork_probe_bandwidth_report **report,
                                       ork_error *error);
ORK_API ork_status ork_probe_compute(const ork_probe_params *params, ork_probe_compute_report **report,
                                     ork_error *error);

#ifdef __cplusplus
}
#endif

#endif
