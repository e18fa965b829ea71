/* One answer: a token list in, text out, until the model, a stop string, a limit or the user ends it. */
#ifndef ORK_CLI_GENERATE_H
#define ORK_CLI_GENERATE_H

#include "model.h"
#include "ork/ork.h"
#include "settings.h"

#include <jansson.h>

typedef enum cli_finish {
    FINISH_END,         /* the model's end token */
    FINISH_STOP,        /* a stop string */
    FINISH_LENGTH,      /* -n */
    FINISH_CONTEXT,     /* the context is full */
    FINISH_INTERRUPTED, /* Ctrl-C */
    FINISH_OUTPUT       /* standard output was refused */
} cli_finish;

/* What lives through all answers of a run. */
typedef struct cli_generator {
    const cli_settings *settings;
    const cli_model *model;
    ork_session *session;
    ork_sampler *sampler;
    ork_lookup *lookup; /* NULL: off */
    uint64_t seed;
    char **stops; /* escapes resolved */
    size_t stop_count;
} cli_generator;

typedef struct cli_answer {
    char *text; /* NUL-terminated; what was shown */
    size_t text_bytes;
    cli_finish finish;
    size_t prompt_tokens, reused_tokens, generated_tokens;
    double prompt_seconds, generate_seconds;
    ork_lookup_stats lookup; /* of this answer */
} cli_answer;

int cli_generator_open(cli_generator *generator, const cli_settings *settings, const cli_model *model);
void cli_generator_close(cli_generator *generator);
/* tokens: the whole timeline before the answer. Text goes to standard output as it comes when `show`. Exit code;
 * an interrupt is no failure here but a finish. */
int cli_generate(cli_generator *generator, const ork_token *tokens, size_t count, bool show, cli_answer *answer);
void cli_answer_free(cli_answer *answer);

const char *cli_finish_name(cli_finish finish);
/* Tokens per second of the two phases, 0 when there is nothing to measure. */
double cli_prompt_speed(const cli_answer *answer);
double cli_generate_speed(const cli_answer *answer);
/* "prompt 12 tokens, 120.0 tokens/s; generated 50 tokens, 25.0 tokens/s" on stderr. */
void cli_answer_say(const cli_generator *generator, const cli_answer *answer);
/* Memory, threads, kernels, load mode on stderr. */
void cli_generator_say_stats(const cli_generator *generator);
json_t *cli_answer_json(const cli_generator *generator, const cli_answer *answer);
/* The rendered prompt and its ids on stderr. text may be NULL. */
int cli_dump_prompt(const cli_generator *generator, const ork_token *tokens, size_t count, const char *text);

/* Resolves \n \t \r \a \b \f \v \0 \e \\ \' \" \xHH in a copy; unknown escapes stay as they are. */
char *cli_unescape(const char *text, bool escape);

#endif
