/* Chat templates: rendering a conversation as the model's template would, natively for the families that ork knows. Knows
 * no Jinja. What is written by a template and what by a user stays apart, so that user text cannot become control tokens.
 * The families follow the published templates of the models (models.md 6). */
#ifndef ORK_TEXT_CHAT_H
#define ORK_TEXT_CHAT_H

#include "base/cursor.h"
#include "text/tokenizer.h"

/* Which old thoughts (what an assistant wrote up to </think>) a template leaves out of later prompts. */
enum ork_chat_thoughts {
    ORK_CHAT_THOUGHTS_KEPT,
    ORK_CHAT_THOUGHTS_OF_LAST_ASSISTANT, /* kept in the last assistant message only (LFM2.5-Instruct) */
    ORK_CHAT_THOUGHTS_AFTER_LAST_USER    /* kept after the last user message only (LFM2.5-8B) */
};

struct ork_chat_family; /* one of ork_chat_template_names() */

/* A family and what differs between templates of it. */
struct ork_chat_template {
    const struct ork_chat_family *family; /* NULL: none */
    enum ork_chat_thoughts thoughts;
    bool dated_system;  /* Llama 3.1 and later: a system turn with knowledge and template date is always there */
    bool opens_thought; /* the generation prompt ends with "<think>\n" (Qwen3 thinking-only models) */
};

/* A rendered prompt; zeroed is empty. The spans cover the text; contents are plain. */
struct ork_chat_prompt {
    struct ork_buffer text;
    struct ork_text_span *spans;
    size_t span_count, span_capacity;
    bool failed; /* out of memory */
};

/* Finds the family of tokenizer.chat_template. Absent or unknown templates give no family and no error. */
ork_status ork_chat_detect(const ork_meta *meta, struct ork_chat_template *template, ork_error *error);
/* The same for the source of a template. */
void ork_chat_detect_source(const char *source, size_t size_bytes, struct ork_chat_template *template);
/* NULL when no family has this name. */
const struct ork_chat_family *ork_chat_family_find(const char *name);
const char *ork_chat_family_name(const struct ork_chat_family *family); /* NULL for NULL */

/* Appends the conversation to *prompt. bos_text: what the template's bos_token stands for. Refuses roles other than
 * system, user and assistant, and empty conversations. */
ork_status ork_chat_render(const struct ork_chat_template *template, const char *bos_text, size_t bos_bytes,
                           const ork_chat_message *messages, size_t message_count, bool add_generation_prompt,
                           struct ork_chat_prompt *prompt, ork_error *error);
void ork_chat_prompt_free(struct ork_chat_prompt *prompt);

/* For ork_chat_template_name(): the family that the model's own template belongs to, or NULL. */
const char *ork_tokenizer_chat_template_name(const ork_tokenizer *tokenizer);
/* For ork_chat_tokenize(). One BOS where the family writes one or the tokenizer adds one, never two. Refuses a family
 * whose control tokens the vocabulary lacks. */
ork_status ork_tokenizer_chat_tokenize(const ork_tokenizer *tokenizer, const char *template_name,
                                       const ork_chat_message *messages, size_t message_count,
                                       bool add_generation_prompt, ork_token **tokens, size_t *count, char **text,
                                       ork_error *error);

#endif
