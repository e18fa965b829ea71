/* Which tensor goes into which tier: the defaults by role and the user's regex rules, which may also say how sensitive the
 * tensor was found to be. Owns roles of GGUF tensor names; knows no bytes.
 *
 * Defaults: vectors, norms, biases, routers (their errors choose other experts) and short convolutions stay f32.
 * Embedding and output are i8 under quantized default tiers of fewer bits: with one scale a token they lose nothing
 * measurable, with 6 bits 5 % of perplexity (docs/packing.md). Expert stacks are nf4 and other matrices i8 under "auto". */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "pack/pack.h"

#include "base/error.h"
#include "kernels/kernels.h"
#include "quant/tier.h"

#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 4096u
#define MATCH_LIMIT 1000000u /* names have at most 63 bytes; a rule that needs more steps is a bad rule */
#define TIER_NAMES_MAX 16u
#define TIER_NAME_BYTES 64u /* longer ones are cut in what is said of them */

struct tier_rule {
    const char *text; /* the caller's "REGEX=TIER" or "REGEX=TIER:SENSITIVITY" */
    pcre2_code *code;
    uint32_t tier;
    float sensitivity; /* 0: not measured */
    uint64_t match_count;
};

struct ork_tier_rules {
    bool is_auto;
    uint32_t default_tier;
    struct tier_rule *rules;
    size_t rule_count;
    pcre2_match_data *match_data;
    pcre2_match_context *match_context;
};

static ork_status unknown_tier(const char *name, const char *where, bool allow_auto, ork_error *error)
{
    const char *names[TIER_NAMES_MAX], *const *known = ork_tier_names();
    size_t count = 0;
    char list[128] = "";

    if (allow_auto)
        names[count++] = "auto";
    for (; *known != NULL && count < TIER_NAMES_MAX; known++)
        names[count++] = *known;
    for (size_t i = 0; i < count; i++) {
        strncat(list, i == 0 ? "" : ", ", sizeof(list) - strlen(list) - 1);
        strncat(list, names[i], sizeof(list) - strlen(list) - 1);
    }
    const char *nearest = ork_nearest_name(name, names, count);
    return ork_error_set(error, ORK_BAD_ARGUMENT, where, -1, "unknown tier \"%s\"%s%s%s; there are %s", name,
                         nearest != NULL ? ", did you mean " : "", nearest != NULL ? nearest : "",
                         nearest != NULL ? "?" : "", list);
}

static ork_status parse_sensitivity(const char *text, struct tier_rule *rule, ork_error *error)
{
    char *end;

    rule->sensitivity = strtof(text, &end);
    if (end == text || *end != '\0' || !(rule->sensitivity > 0) || !isfinite(rule->sensitivity))
        return ork_error_set(error, ORK_BAD_ARGUMENT, rule->text, -1, "a sensitivity is a number above 0, not \"%s\"",
                             text);
    return ORK_OK;
}

static ork_status parse_rule(const char *text, struct tier_rule *rule, ork_error *error)
{
    const char *separator = strrchr(text, '='), *colon;
    const struct ork_tier_info *info;
    char name[TIER_NAME_BYTES];
    size_t length;
    int code;
    PCRE2_SIZE offset;

    if (separator == NULL || separator == text)
        return ork_error_set(error, ORK_BAD_ARGUMENT, text, -1,
                             "a tier rule has the form REGEX=TIER or REGEX=TIER:SENSITIVITY");
    colon = strchr(separator, ':');
    length = colon == NULL ? strlen(separator + 1) : (size_t)(colon - separator) - 1;
    length = length < sizeof(name) ? length : sizeof(name) - 1;
    memcpy(name, separator + 1, length);
    name[length] = '\0';
    info = ork_tier_find_name(name);
    if (info == NULL)
        return unknown_tier(name, text, false, error);
    rule->text = text;
    if (colon != NULL) {
        ork_status status = parse_sensitivity(colon + 1, rule, error);
        if (status != ORK_OK)
            return status;
    }
    rule->tier = info->tier;
    rule->code = pcre2_compile((PCRE2_SPTR)text, (PCRE2_SIZE)(separator - text), 0, &code, &offset, NULL);
    if (rule->code == NULL) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(code, message, sizeof(message));
        return ork_error_set(error, ORK_BAD_ARGUMENT, text, -1, "bad regex at character %llu: %s",
                             (unsigned long long)offset, (const char *)message);
    }
    return ORK_OK;
}

ork_status ork_tier_rules_parse(const ork_pack_params *params, struct ork_tier_rules **out, ork_error *error)
{
    struct ork_tier_rules *rules = calloc(1, sizeof(*rules));
    const char *name = params->default_tier;
    ork_status status = ORK_OK;

    *out = NULL;
    if (rules == NULL)
        return ork_error_no_memory(error, "tier rules", sizeof(*rules));
    if (params->tier_rule_count > RULES_MAX) {
        status = ork_error_set(error, ORK_LIMIT, "tier rules", -1, "more than %u rules", RULES_MAX);
        goto out;
    }
    rules->is_auto = name == NULL || strcmp(name, "auto") == 0;
    if (!rules->is_auto) {
        const struct ork_tier_info *info = ork_tier_find_name(name);
        if (info == NULL) {
            status = unknown_tier(name, "default tier", true, error);
            goto out;
        }
        rules->default_tier = info->tier;
    }
    rules->rules = calloc(params->tier_rule_count + 1, sizeof(*rules->rules));
    rules->match_data = pcre2_match_data_create(1, NULL);
    rules->match_context = pcre2_match_context_create(NULL);
    if (rules->rules == NULL || rules->match_data == NULL || rules->match_context == NULL) {
        status = ork_error_no_memory(error, "tier rules", params->tier_rule_count * sizeof(*rules->rules));
        goto out;
    }
    pcre2_set_match_limit(rules->match_context, MATCH_LIMIT);
    for (; rules->rule_count < params->tier_rule_count && status == ORK_OK; rules->rule_count++)
        status = parse_rule(params->tier_rules[rules->rule_count], &rules->rules[rules->rule_count], error);
out:
    if (status == ORK_OK)
        *out = rules;
    else
        ork_tier_rules_free(rules);
    return status;
}

void ork_tier_rules_free(struct ork_tier_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->rule_count; i++)
        pcre2_code_free(rules->rules[i].code);
    free(rules->rules);
    pcre2_match_data_free(rules->match_data);
    pcre2_match_context_free(rules->match_context);
    free(rules);
}

size_t ork_tier_rules_unmatched_count(const struct ork_tier_rules *rules)
{
    size_t count = 0;

    for (size_t i = 0; i < rules->rule_count; i++)
        count += rules->rules[i].match_count == 0;
    return count;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static bool is_vector(const struct ork_gguf_tensor *tensor)
{
    return tensor->dimensions[1] == 1 && tensor->dimensions[2] == 1 && tensor->dimensions[3] == 1;
}

static bool stays_float(const char *name)
{
    static const char *const parts[] = {"_norm.",          "ffn_gate_inp", "exp_probs_b",
                                        "shortconv.conv.", "ssm_conv1d",   "rope_freqs"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(name, parts[i]) != NULL)
            return true;
    return ends_with(name, ".bias");
}

/* Tiers that embedding and output do not take by default: those of fewer bits, and n8, whose base has four. */
static bool yields_to_i8(uint32_t tier)
{
    const struct ork_tier_info *info = ork_tier_find(tier);
    return info->quantized && (info->bits_per_weight < 8.0 || tier == ORK_TIER_N8);
}

static uint32_t default_tier(const struct ork_tier_rules *rules, const struct ork_gguf_tensor *tensor)
{
    const char *name = tensor->name;

    if (is_vector(tensor) || stays_float(name))
        return ORK_TIER_F32;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0)
        return rules->is_auto || yields_to_i8(rules->default_tier) ? ORK_TIER_I8 : rules->default_tier;
    if (!rules->is_auto)
        return rules->default_tier;
    return strstr(name, "_exps.") != NULL ? ORK_TIER_NF4 : ORK_TIER_I8;
}

ork_status ork_tier_rules_choose(struct ork_tier_rules *rules, const struct ork_gguf_tensor *tensor, uint32_t *tier,
                                 float *sensitivity, ork_error *error)
{
    const char *source = "the default tier";
    const struct ork_tier_info *info;

    *tier = default_tier(rules, tensor);
    *sensitivity = 0;
    for (size_t i = 0; i < rules->rule_count; i++) {
        struct tier_rule *candidate = &rules->rules[i];
        int result = pcre2_match(candidate->code, (PCRE2_SPTR)tensor->name, strlen(tensor->name), 0, 0,
                                 rules->match_data, rules->match_context);
        if (result == PCRE2_ERROR_NOMATCH)
            continue;
        if (result < 0)
            return ork_error_set(error, ORK_BAD_ARGUMENT, candidate->text, -1,
                                 "the regex gives up on tensor %s (PCRE2 error %d)", tensor->name, result);
        candidate->match_count++;
        *tier = candidate->tier;
        *sensitivity = candidate->sensitivity;
        source = candidate->text;
    }

    info = ork_tier_find(*tier);
    if (info->quantized && is_vector(tensor))
        return ork_error_set(error, ORK_BAD_ARGUMENT, source, -1,
                             "%s has one dimension and cannot be %s; narrow the rule (f32, f16, bf16 are possible)",
                             tensor->name, info->name);
    if (info->quantized && tensor->dimensions[0] > ORK_MATMUL_K_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, source, -1,
                             "%s has %llu inputs, more than the %u that %s allows; f32, f16 or bf16 are possible",
                             tensor->name, (unsigned long long)tensor->dimensions[0], ORK_MATMUL_K_MAX, info->name);
    return ORK_OK;
}

const char *const *ork_tier_names(void)
{
    static const char *const names[] = {"f32", "f16", "bf16", "g8", "i8", "i4", "nf4", "i5", "i6", "n8", NULL};
    return names;
}
