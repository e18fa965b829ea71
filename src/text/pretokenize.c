/* Owns the regular expressions and running them; must not know tokens.
 *
 * The expressions are the published ones of the tokenizers (Hugging Face tokenizer.json, tiktoken), listed in models.md
 * 5.4, with one change of spelling: \s is written out as the 25 code points of Unicode's White_Space, because PCRE2 also
 * counts U+180E. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include "base/error.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- the expressions ---- */

#define SPACES "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define SPACE "[" SPACES "]"
#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CASE_CONTRACTION "(?i:" CONTRACTION ")"
#define RUN_OF_SPACES SPACE "+(?![^" SPACES "])|" SPACE "+"
#define LINE_ENDS SPACE "*[\\r\\n]+|" RUN_OF_SPACES

#define GPT2 CONTRACTION "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|" RUN_OF_SPACES
#define LETTERS_NUMBERS(number)                                                                                        \
    ANY_CASE_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number "| ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS
#define QWEN35                                                                                                         \
    ANY_CASE_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACES                                   \
                         "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINE_ENDS
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(tail, number)                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail "|" number    \
    "| ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n/]*|" LINE_ENDS

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct ork_pretokenizer pretokenizers[] = {
    {LIST("default"), LIST("[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"), false, false},
    {LIST("gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4"), LIST(GPT2), false, false},
    {LIST("llama-bpe", "llama3", "llama-v3", "lfm2", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
     LIST(LETTERS_NUMBERS("\\p{N}{1,3}")), true, true},
    {LIST("dbrx", "smaug-bpe"), LIST(LETTERS_NUMBERS("\\p{N}{1,3}")), false, false},
    {LIST("qwen2", "deepseek-r1-qwen", "megrez", "kormo", "stablelm2", "hunyuan"), LIST(LETTERS_NUMBERS("\\p{N}")),
     false, false},
    {LIST("qwen35"), LIST(QWEN35), false, false},
    {LIST("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), LIST("\\p{N}", GPT2),
     false, false},
    {LIST("gpt-4o", "llama4", "kanana2"), LIST(CASED_WORDS(ANY_CASE_CONTRACTION "?", "\\p{N}{1,3}")), false, false},
    {LIST("tekken"), LIST(CASED_WORDS("", "\\p{N}")), true, true},
};
enum { PRETOKENIZER_COUNT = sizeof pretokenizers / sizeof pretokenizers[0] };

const struct ork_pretokenizer *ork_pretokenizer_find(const char *name, size_t length)
{
    for (size_t i = 0; i < PRETOKENIZER_COUNT; i++)
        for (const char *const *known = pretokenizers[i].names; *known; known++)
            if (strlen(*known) == length && memcmp(*known, name, length) == 0)
                return &pretokenizers[i];
    return NULL;
}

size_t ork_pretokenizer_names(const char **names, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < PRETOKENIZER_COUNT; i++)
        for (const char *const *known = pretokenizers[i].names; *known && count < capacity; known++)
            names[count++] = *known;
    return count;
}

/* ---- compiling ---- */

struct ork_splitter {
    pcre2_code *codes[ORK_SPLIT_PATTERNS_MAX];
    uint32_t count;
};

ork_status ork_splitter_create(const char *const *patterns, struct ork_splitter **out, ork_error *error)
{
    *out = NULL;
    struct ork_splitter *splitter = calloc(1, sizeof *splitter);
    if (!splitter)
        return ork_error_no_memory(error, "tokenizer", sizeof *splitter);
    for (; *patterns && splitter->count < ORK_SPLIT_PATTERNS_MAX; patterns++) {
        int number;
        PCRE2_SIZE offset;
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)*patterns, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &number, &offset, NULL);
        if (!code) {
            char reason[128];
            pcre2_get_error_message(number, (PCRE2_UCHAR *)reason, sizeof reason);
            ork_splitter_destroy(splitter);
            return ork_error_set(error, ORK_FAILURE, *patterns, (int64_t)offset, "regular expression: %s", reason);
        }
        /* Where memory may not be made executable this fails, and the interpreter is used. */
        (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
        splitter->codes[splitter->count++] = code;
    }
    *out = splitter;
    return ORK_OK;
}

void ork_splitter_destroy(struct ork_splitter *splitter)
{
    if (!splitter)
        return;
    for (uint32_t i = 0; i < splitter->count; i++)
        pcre2_code_free(splitter->codes[i]);
    free(splitter);
}

/* ---- splitting ---- */

static ork_status refuse_match(ork_error *error, int code)
{
    char reason[128];
    if (code == PCRE2_ERROR_NOMEMORY)
        return ork_error_no_memory(error, "splitting text", 0);
    pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
    bool limit = code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_HEAPLIMIT;
    return ork_error_set(error, limit ? ORK_LIMIT : ORK_FAILURE, NULL, -1, "splitting text: %s", reason);
}

static ork_status prepare(struct ork_split_scratch *scratch, uint32_t size_bytes, ork_error *error)
{
    enum { MATCH_LIMIT_MIN = 10000000, MATCHES_A_BYTE = 16, HEAP_LIMIT_KIB = 256 * 1024 };
    if (!scratch->match_data)
        scratch->match_data = pcre2_match_data_create(1, NULL);
    if (!scratch->match_context)
        scratch->match_context = pcre2_match_context_create(NULL);
    if (!scratch->match_data || !scratch->match_context)
        return ork_error_no_memory(error, "splitting text", 0);
    /* Every expression backs off at most once over a run, so the work is linear: the limit grows with the text. */
    uint64_t limit = MATCH_LIMIT_MIN + (uint64_t)MATCHES_A_BYTE * size_bytes;
    pcre2_set_match_limit(scratch->match_context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
    pcre2_set_heap_limit(scratch->match_context, HEAP_LIMIT_KIB);
    return ORK_OK;
}

static ork_status add_end(struct ork_split_scratch *scratch, uint32_t end, ork_error *error)
{
    if (scratch->count == scratch->capacity) {
        size_t capacity = scratch->capacity ? 2 * scratch->capacity : 256;
        uint32_t *ends = realloc(scratch->ends, capacity * sizeof *ends);
        if (ends)
            scratch->ends = ends;
        uint32_t *other = ends ? realloc(scratch->other_ends, capacity * sizeof *other) : NULL;
        if (!other)
            return ork_error_no_memory(error, "splitting text", capacity * sizeof *ends);
        scratch->other_ends = other;
        scratch->capacity = capacity;
    }
    scratch->ends[scratch->count++] = end;
    return ORK_OK;
}

static int match_once(const pcre2_code *code, const char *text, uint32_t size_bytes, uint32_t position,
                      struct ork_split_scratch *scratch)
{
    /* The text is known to be well formed; to check it again at every call would make the whole quadratic. */
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int result =
        pcre2_match(code, (PCRE2_SPTR)text, size_bytes, position, options, scratch->match_data, scratch->match_context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
        scratch->interpreted_count++;
        result = pcre2_match(code, (PCRE2_SPTR)text, size_bytes, position, options | PCRE2_NO_JIT, scratch->match_data,
                             scratch->match_context);
    }
    return result;
}

/* Splits text[begin..end): matches and what lies between them become words. */
static ork_status split_piece(const pcre2_code *code, const char *text, uint32_t begin, uint32_t end,
                              struct ork_split_scratch *scratch, ork_error *error)
{
    uint32_t size_bytes = end - begin, position = 0;
    ork_status status = ORK_OK;
    while (position < size_bytes && status == ORK_OK) {
        int result = match_once(code, text + begin, size_bytes, position, scratch);
        if (result == PCRE2_ERROR_NOMATCH)
            return add_end(scratch, end, error);
        if (result < 0)
            return refuse_match(error, result);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->match_data);
        if (found[0] > position)
            status = add_end(scratch, begin + (uint32_t)found[0], error);
        if (status == ORK_OK)
            status = add_end(scratch, begin + (uint32_t)found[1], error);
        position = (uint32_t)found[1];
    }
    return status;
}

ork_status ork_splitter_split(const struct ork_splitter *splitter, const char *text, uint32_t size_bytes,
                              struct ork_split_scratch *scratch, ork_error *error)
{
    ork_status status = prepare(scratch, size_bytes, error);
    scratch->count = 0;
    if (status == ORK_OK && size_bytes)
        status = add_end(scratch, size_bytes, error);
    for (uint32_t i = 0; i < splitter->count && status == ORK_OK; i++) {
        size_t piece_count = scratch->count;
        uint32_t *swap = scratch->ends;
        scratch->ends = scratch->other_ends;
        scratch->other_ends = swap;
        scratch->count = 0;
        uint32_t begin = 0;
        for (size_t k = 0; k < piece_count && status == ORK_OK; k++) {
            uint32_t end = scratch->other_ends[k];
            status = split_piece(splitter->codes[i], text, begin, end, scratch, error);
            begin = end;
        }
    }
    return status;
}

void ork_split_scratch_free(struct ork_split_scratch *scratch)
{
    free(scratch->ends);
    free(scratch->other_ends);
    pcre2_match_data_free(scratch->match_data);
    pcre2_match_context_free(scratch->match_context);
    *scratch = (struct ork_split_scratch){0};
}
