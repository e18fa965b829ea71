/* Owns the grammar of fault scripts, their random numbers and counts. Knows no devices. */
#include "engine/npu/device/faults.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/npu/tiling.h"

#define SCRIPT_BYTES_MAX 65536u
#define CLAUSES_MAX 256u

enum event_class { EVENT_JOB, EVENT_ALLOCATION, EVENT_RESET, EVENT_SWITCH, EVENT_CLASSES };

/* Keys of one kind alone, a bit each; the common ones any kind has. */
enum own_key { OWN_US = 1, OWN_AFTER = 2, OWN_VALUE = 4, OWN_ATOMS = 8, OWN_WORDS = 16, OWN_BYTES = 32, OWN_LIMIT = 64 };

static const struct {
    const char *name;
    enum event_class class;
    uint32_t keys;
} kinds[ORK_FAULT_KINDS] = {
    [ORK_FAULT_NONE] = {"none", EVENT_JOB, 0},
    [ORK_FAULT_LATE] = {"late", EVENT_JOB, OWN_US},
    [ORK_FAULT_NEVER] = {"never", EVENT_JOB, 0},
    [ORK_FAULT_STOP] = {"stop", EVENT_JOB, OWN_AFTER},
    [ORK_FAULT_CONSTANT] = {"constant", EVENT_JOB, OWN_VALUE},
    [ORK_FAULT_UNTOUCHED] = {"untouched", EVENT_JOB, 0},
    [ORK_FAULT_TAIL] = {"tail", EVENT_JOB, OWN_ATOMS},
    [ORK_FAULT_FLIP] = {"flip", EVENT_JOB, OWN_WORDS},
    [ORK_FAULT_LOST] = {"lost", EVENT_JOB, 0},
    [ORK_FAULT_EARLY] = {"early", EVENT_JOB, OWN_US},
    [ORK_FAULT_DEAD] = {"dead", EVENT_JOB, 0},
    [ORK_FAULT_WEDGE] = {"wedge", EVENT_JOB, 0},
    [ORK_FAULT_REFUSE] = {"refuse", EVENT_JOB, 0},
    [ORK_FAULT_RESET_FAILS] = {"reset-fails", EVENT_RESET, 0},
    [ORK_FAULT_MEMORY] = {"memory", EVENT_ALLOCATION, OWN_BYTES},
    [ORK_FAULT_DESCRIPTORS] = {"descriptors", EVENT_ALLOCATION, OWN_LIMIT},
    [ORK_FAULT_SWITCH] = {"switch", EVENT_SWITCH, 0},
};

/* When a clause strikes, beside its own figures. */
struct clause {
    enum ork_npu_fault_kind kind;
    bool has_p, has_at, has_from, has_every, has_core, has_limit;
    double p;
    uint64_t at, from, every, core;
    uint64_t limit; /* of `bytes` or `limit` */
    struct ork_npu_fault fault;
};

struct ork_npu_faults {
    uint64_t seed, random_state;
    uint64_t events[EVENT_CLASSES];
    uint64_t counts[ORK_FAULT_KINDS];
    size_t clause_count;
    struct clause clauses[];
};

/* splitmix64 (Steele, Lea, Flood 2014): every state of 64 bits is a good one, so any seed will do. */
static uint64_t random_next(struct ork_npu_faults *faults)
{
    uint64_t z = faults->random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

const char *ork_npu_fault_name(enum ork_npu_fault_kind kind)
{
    return (unsigned)kind < ORK_FAULT_KINDS ? kinds[kind].name : "unknown";
}

/* ---- grammar ---- */

/* A key and where its value goes. */
struct key {
    const char *name;
    uint32_t own; /* 0: common to all kinds */
    uint64_t low, high;
};
static const struct key keys[] = {
    {"p", 0, 0, 1},
    {"at", 0, 0, UINT64_MAX},
    {"from", 0, 0, UINT64_MAX},
    {"every", 0, 1, UINT64_MAX},
    {"core", 0, 0, ORK_NPU_CORES_MAX - 1},
    {"us", OWN_US, 0, 3600000000u},
    {"after", OWN_AFTER, 0, 1u << 20},
    {"value", OWN_VALUE, 0, UINT32_MAX},
    {"atoms", OWN_ATOMS, 1, 1u << 28},
    {"words", OWN_WORDS, 1, 1u << 20},
    {"bytes", OWN_BYTES, 0, UINT64_MAX},
    {"limit", OWN_LIMIT, 0, UINT64_MAX},
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

/* "late, never, ..." or "p, at, ..." into text. */
static void list_kinds(char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int kind = 1; kind < ORK_FAULT_KINDS && used < size; kind++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", kind > 1 ? ", " : "", kinds[kind].name);
}

static void list_keys(enum ork_npu_fault_kind kind, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < KEY_COUNT && used < size; i++)
        if (!keys[i].own || keys[i].own & kinds[kind].keys)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", keys[i].name);
}

/* Position in the script stands in every error. */
struct reader {
    const char *script, *at;
    ork_error *error;
};

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (text[length] && !strchr(";:,=", text[length]))
        length++;
    return length;
}

/* Without the spaces at its end. */
static size_t trimmed(const char *text, size_t length)
{
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    return length;
}

static ork_status complain(const struct reader *reader, const char *format, const char *what, size_t length,
                           const char *choices)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), what);
    return ork_error_set(reader->error, ORK_BAD_ARGUMENT, "fault script", reader->at - reader->script, format, word,
                         choices);
}

static void skip_spaces(struct reader *reader)
{
    while (isspace((unsigned char)*reader->at))
        reader->at++;
}

/* Decimal digits with an optional fraction, whatever the locale says. */
static double fraction_parse(const char *text, char **end)
{
    double value = 0, place = 1;
    while (isdigit((unsigned char)*text))
        value = value * 10 + (*text++ - '0');
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++)
            value += (*text - '0') * (place /= 10);
    *end = (char *)(uintptr_t)text;
    return value;
}

/* A decimal or 0x number up to the next separator; p alone may have a fraction. */
static ork_status number_read(struct reader *reader, const struct key *key, uint64_t *whole, double *fraction)
{
    const char *text = reader->at;
    const size_t length = word_length(text);
    char *end = NULL;
    char bounds[96];
    snprintf(bounds, sizeof bounds, "%s must be %llu to %llu", key->name, (unsigned long long)key->low,
             (unsigned long long)key->high);
    errno = 0;
    if (!isdigit((unsigned char)*text))
        return complain(reader, "\"%s\" is not a number: %s", text, length, bounds);
    if (fraction)
        *fraction = fraction_parse(text, &end);
    else
        *whole = strtoull(text, &end, 0);
    const char *stop = end;
    while (isspace((unsigned char)*stop))
        stop++;
    if (stop != text + length)
        return complain(reader, "\"%s\" is not a number: %s", text, length, bounds);
    if (fraction ? !(*fraction >= 0 && *fraction <= 1) : errno || *whole < key->low || *whole > key->high)
        return complain(reader, "%s is out of range: %s", text, length, bounds);
    reader->at = text + length;
    return ORK_OK;
}

static ork_status value_read(struct reader *reader, const struct key *key, struct clause *clause)
{
    bool *had = NULL;
    uint64_t *whole = NULL;
    double *fraction = NULL;
    struct ork_npu_fault *fault = &clause->fault;
    switch (key - keys) {
    case 0: had = &clause->has_p, fraction = &clause->p; break;
    case 1: had = &clause->has_at, whole = &clause->at; break;
    case 2: had = &clause->has_from, whole = &clause->from; break;
    case 3: had = &clause->has_every, whole = &clause->every; break;
    case 4: had = &clause->has_core, whole = &clause->core; break;
    case 5: whole = &fault->us; break;
    case 6: whole = &fault->after; break;
    case 7: whole = &fault->value; break;
    case 8: whole = &fault->atoms; break;
    case 9: whole = &fault->words; break;
    default: had = &clause->has_limit, whole = &clause->limit; break;
    }
    if (had)
        *had = true;
    return number_read(reader, key, whole, fraction);
}

/* KEY=VALUE of a clause. seen: a bit a key, for doubles. */
static ork_status pair_read(struct reader *reader, struct clause *clause, uint32_t *seen)
{
    skip_spaces(reader);
    const char *word = reader->at;
    const size_t length = trimmed(word, word_length(word));
    const struct key *key = NULL;
    for (int i = 0; i < KEY_COUNT; i++)
        if (strlen(keys[i].name) == length && !memcmp(keys[i].name, word, length) &&
            (!keys[i].own || keys[i].own & kinds[clause->kind].keys))
            key = &keys[i];
    char choices[160];
    list_keys(clause->kind, choices, sizeof choices);
    if (!key)
        return complain(reader, "unknown key \"%s\", choose from: %s", word, length, choices);
    if (*seen & 1u << (key - keys))
        return complain(reader, "%s stands twice%s", word, length, "");
    *seen |= 1u << (key - keys);
    reader->at += length;
    skip_spaces(reader);
    if (*reader->at != '=')
        return complain(reader, "%s needs a value%s", word, length, ": KEY=VALUE");
    reader->at++;
    skip_spaces(reader);
    return value_read(reader, key, clause);
}

static ork_status seed_read(struct reader *reader, struct ork_npu_faults *faults)
{
    static const struct key seed = {"seed", 0, 0, UINT64_MAX};
    reader->at += 4;
    skip_spaces(reader);
    if (*reader->at != '=')
        return complain(reader, "%s needs a value%s", "seed", 4, ": seed=NUMBER");
    reader->at++;
    skip_spaces(reader);
    return number_read(reader, &seed, &faults->seed, NULL);
}

static ork_status clause_read(struct reader *reader, struct ork_npu_faults *faults)
{
    const char *word = reader->at;
    const size_t length = trimmed(word, word_length(word));
    if (length == 4 && !memcmp(word, "seed", 4))
        return seed_read(reader, faults);
    enum ork_npu_fault_kind kind = ORK_FAULT_NONE;
    for (int i = 1; i < ORK_FAULT_KINDS; i++)
        if (strlen(kinds[i].name) == length && !memcmp(kinds[i].name, word, length))
            kind = (enum ork_npu_fault_kind)i;
    char choices[240];
    list_kinds(choices, sizeof choices);
    if (kind == ORK_FAULT_NONE)
        return complain(reader, "unknown fault \"%s\", choose from: seed, %s", word, length, choices);
    if (faults->clause_count == CLAUSES_MAX)
        return complain(reader, "too many clauses at \"%s\"%s", word, length, ": at most 256");
    struct clause *clause = &faults->clauses[faults->clause_count++];
    *clause = (struct clause){.kind = kind};
    clause->fault = (struct ork_npu_fault){.kind = kind, .us = 1000, .after = 1, .atoms = 1, .words = 1};
    reader->at += length;
    skip_spaces(reader);
    uint32_t seen = 0;
    ork_status status = ORK_OK;
    if (*reader->at == ':')
        do {
            reader->at++;
            status = pair_read(reader, clause, &seen);
        } while (status == ORK_OK && *reader->at == ',');
    if (status != ORK_OK)
        return status;
    if (kind == ORK_FAULT_DESCRIPTORS && !clause->has_limit)
        return complain(reader, "%s needs a limit%s", word, length, ": descriptors:limit=NUMBER");
    return ORK_OK;
}

ork_status ork_npu_faults_parse(const char *script, struct ork_npu_faults **faults, ork_error *error)
{
    script = script ? script : "";
    const size_t length = strlen(script);
    if (length > SCRIPT_BYTES_MAX)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "fault script", -1, "%zu bytes, at most %u", length,
                             SCRIPT_BYTES_MAX);
    const size_t size_bytes = sizeof **faults + CLAUSES_MAX * sizeof(struct clause);
    struct ork_npu_faults *read = calloc(1, size_bytes);
    if (!read)
        return ork_error_no_memory(error, "fault script", size_bytes);
    struct reader reader = {script, script, error};
    ork_status status = ORK_OK;
    for (;;) {
        skip_spaces(&reader);
        if (*reader.at && *reader.at != ';')
            status = clause_read(&reader, read);
        if (status != ORK_OK)
            break;
        skip_spaces(&reader);
        if (!*reader.at)
            break;
        if (*reader.at != ';') {
            status = complain(&reader, "unexpected \"%s\"%s", reader.at, 1, ": clauses are KIND:KEY=VALUE,... and ';'");
            break;
        }
        reader.at++;
    }
    if (status != ORK_OK) {
        free(read);
        return status;
    }
    read->random_state = read->seed;
    *faults = read;
    return ORK_OK;
}

void ork_npu_faults_free(struct ork_npu_faults *faults)
{
    free(faults);
}

/* ---- events ---- */

/* Every clause of the class draws its own random number, whether or not it is needed, so that one clause's striking does
 * not shift the others' numbers. */
static bool strikes(const struct clause *clause, uint64_t event, uint64_t core, uint64_t draw)
{
    if (clause->has_core && clause->core != core)
        return false;
    if (clause->has_at && event != clause->at)
        return false;
    if (clause->has_from && event < clause->from)
        return false;
    if (clause->has_every && (event - (clause->has_from ? clause->from : 0)) % clause->every != 0)
        return false;
    return !clause->has_p || (double)(draw >> 11) * 0x1p-53 < clause->p;
}

/* size, held bytes and held buffers of an allocation; 0 for other classes. */
struct amounts {
    uint64_t size_bytes, held_bytes, held_buffers;
};

static bool exceeds(const struct clause *clause, const struct amounts *amounts)
{
    if (!clause->has_limit)
        return true;
    if (clause->kind == ORK_FAULT_DESCRIPTORS)
        return amounts->held_buffers >= clause->limit;
    return amounts->size_bytes > clause->limit || amounts->held_bytes > clause->limit - amounts->size_bytes;
}

static struct ork_npu_fault next(struct ork_npu_faults *faults, enum event_class class, uint64_t core,
                                 const struct amounts *amounts)
{
    struct ork_npu_fault result = {.kind = ORK_FAULT_NONE};
    const uint64_t event = faults->events[class]++;
    for (size_t i = 0; i < faults->clause_count; i++) {
        const struct clause *clause = &faults->clauses[i];
        if (kinds[clause->kind].class != class)
            continue;
        const uint64_t draw = random_next(faults), extra = random_next(faults);
        if (result.kind == ORK_FAULT_NONE && strikes(clause, event, core, draw) && exceeds(clause, amounts)) {
            result = clause->fault;
            result.random = extra;
        }
    }
    faults->counts[result.kind]++;
    return result;
}

struct ork_npu_fault ork_npu_faults_next_job(struct ork_npu_faults *faults, uint32_t core)
{
    return next(faults, EVENT_JOB, core, &(struct amounts){0, 0, 0});
}

struct ork_npu_fault ork_npu_faults_next_allocation(struct ork_npu_faults *faults, uint64_t size_bytes,
                                                    uint64_t held_bytes, uint64_t held_buffers)
{
    return next(faults, EVENT_ALLOCATION, UINT64_MAX, &(struct amounts){size_bytes, held_bytes, held_buffers});
}

struct ork_npu_fault ork_npu_faults_next_reset(struct ork_npu_faults *faults)
{
    return next(faults, EVENT_RESET, UINT64_MAX, &(struct amounts){0, 0, 0});
}

struct ork_npu_fault ork_npu_faults_next_switch(struct ork_npu_faults *faults)
{
    return next(faults, EVENT_SWITCH, UINT64_MAX, &(struct amounts){0, 0, 0});
}

uint64_t ork_npu_faults_count(const struct ork_npu_faults *faults, enum ork_npu_fault_kind kind)
{
    return (unsigned)kind < ORK_FAULT_KINDS ? faults->counts[kind] : 0;
}
