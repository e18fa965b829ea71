/* Owns the chat families and rendering in them; must not know how text becomes tokens. */
#include "text/chat.h"

#include "base/error.h"
#include "text/internal.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing a prompt ---- */

/* Appends to the last span when it is of the same kind. */
static void write_text(struct ork_chat_prompt *prompt, const char *text, size_t size_bytes, bool plain)
{
    if (size_bytes == 0)
        return;
    bool same = prompt->span_count && prompt->spans[prompt->span_count - 1].plain == plain;
    if (!same && prompt->span_count == prompt->span_capacity) {
        size_t capacity = prompt->span_capacity ? 2 * prompt->span_capacity : 16;
        struct ork_text_span *spans = realloc(prompt->spans, capacity * sizeof *spans);
        if (!spans) {
            prompt->failed = true;
            return;
        }
        prompt->spans = spans;
        prompt->span_capacity = capacity;
    }
    if (!same)
        prompt->spans[prompt->span_count++] = (struct ork_text_span){0, plain};
    prompt->spans[prompt->span_count - 1].size_bytes += size_bytes;
    ork_buffer_append(&prompt->text, text, size_bytes);
    prompt->failed |= prompt->text.failed;
}

/* What the template itself writes. */
static void scaffold(struct ork_chat_prompt *prompt, const char *text)
{
    write_text(prompt, text, strlen(text), false);
}

/* A run of bytes of a message. */
struct slice {
    const char *data;
    size_t size_bytes;
};

static struct slice make_slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static void content(struct ork_chat_prompt *prompt, struct slice text)
{
    write_text(prompt, text.data, text.size_bytes, true);
}

/* ---- the string functions that templates use ---- */

/* Python's strip(): white space at both ends. */
static struct slice strip(struct slice text)
{
    size_t length;
    while (text.size_bytes) {
        const uint8_t *bytes = (const uint8_t *)text.data;
        if (ork_utf8_next(bytes, text.size_bytes, &length) != ORK_UTF8_VALID ||
            !ork_utf8_is_space(ork_utf8_decode(bytes, length)))
            break;
        text.data += length;
        text.size_bytes -= length;
    }
    while (text.size_bytes) {
        const uint8_t *bytes = (const uint8_t *)text.data;
        size_t begin = text.size_bytes - 1;
        while (begin && text.size_bytes - begin < 4 && (bytes[begin] & 0xc0) == 0x80)
            begin--;
        if (ork_utf8_next(bytes + begin, text.size_bytes - begin, &length) != ORK_UTF8_VALID ||
            length != text.size_bytes - begin || !ork_utf8_is_space(ork_utf8_decode(bytes + begin, length)))
            break;
        text.size_bytes = begin;
    }
    return text;
}

/* lstrip('\n') */
static struct slice skip_newlines(struct slice text)
{
    while (text.size_bytes && text.data[0] == '\n') {
        text.data++;
        text.size_bytes--;
    }
    return text;
}

/* rstrip('\n') */
static struct slice cut_newlines(struct slice text)
{
    while (text.size_bytes && text.data[text.size_bytes - 1] == '\n')
        text.size_bytes--;
    return text;
}

/* Where `what` stands first or last in the text, NULL when it does not. */
static const char *find(struct slice text, const char *what, bool last)
{
    size_t length = strlen(what);
    const char *found = NULL, *from = text.data, *end = text.data + text.size_bytes;
    while ((from = memmem(from, (size_t)(end - from), what, length))) {
        found = from;
        if (!last)
            break;
        from += length;
    }
    return found;
}

/* split(what)[-1] */
static struct slice after_last(struct slice text, const char *what)
{
    const char *found = find(text, what, true);
    if (!found)
        return text;
    found += strlen(what);
    return (struct slice){found, (size_t)(text.data + text.size_bytes - found)};
}

/* split(what)[0] */
static struct slice before_first(struct slice text, const char *what)
{
    const char *found = find(text, what, false);
    return found ? (struct slice){text.data, (size_t)(found - text.data)} : text;
}

/* ---- families ---- */

struct conversation {
    const struct ork_chat_template *template;
    const ork_chat_message *messages;
    size_t count;
    bool add_generation_prompt;
    struct slice bos;
};

struct ork_chat_family {
    const char *name;
    void (*render)(const struct conversation *conversation, struct ork_chat_prompt *prompt);
    const char *control_tokens[4]; /* that the vocabulary must have, NULL-terminated */
};

static bool has_role(const ork_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* Index of the last message of a role; -1 when there is none. */
static ptrdiff_t find_last(const struct conversation *conversation, const char *role)
{
    for (size_t i = conversation->count; i > 0; i--)
        if (has_role(&conversation->messages[i - 1], role))
            return (ptrdiff_t)(i - 1);
    return -1;
}

static void chatml_turn(struct ork_chat_prompt *prompt, const char *role, struct slice text)
{
    scaffold(prompt, "<|im_start|>");
    scaffold(prompt, role);
    scaffold(prompt, "\n");
    content(prompt, text);
    scaffold(prompt, "<|im_end|>\n");
}

static void chatml_end(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    if (conversation->add_generation_prompt)
        scaffold(prompt, "<|im_start|>assistant\n");
}

static void render_chatml(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    for (size_t i = 0; i < conversation->count; i++)
        chatml_turn(prompt, conversation->messages[i].role, make_slice(conversation->messages[i].content));
    chatml_end(conversation, prompt);
}

/* ChatML with a system turn of its own when the conversation does not begin with one. */
static void render_smollm2(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    if (!has_role(&conversation->messages[0], "system"))
        scaffold(prompt, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
                         "<|im_end|>\n");
    render_chatml(conversation, prompt);
}

/* BOS and ChatML; an empty system message leaves no turn; LFM2.5 leaves old thoughts out. */
static void render_lfm2(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    enum ork_chat_thoughts thoughts = conversation->template->thoughts;
    ptrdiff_t last = find_last(conversation, thoughts == ORK_CHAT_THOUGHTS_AFTER_LAST_USER ? "user" : "assistant");
    write_text(prompt, conversation->bos.data, conversation->bos.size_bytes, false);
    for (size_t i = 0; i < conversation->count; i++) {
        const ork_chat_message *message = &conversation->messages[i];
        struct slice text = make_slice(message->content);
        if (i == 0 && has_role(message, "system") && text.size_bytes == 0)
            continue;
        bool old = thoughts == ORK_CHAT_THOUGHTS_AFTER_LAST_USER     ? (ptrdiff_t)i <= last
                   : thoughts == ORK_CHAT_THOUGHTS_OF_LAST_ASSISTANT ? (ptrdiff_t)i != last
                                                                     : false;
        if (old && has_role(message, "assistant") && find(text, "</think>", false))
            text = strip(after_last(text, "</think>"));
        chatml_turn(prompt, message->role, text);
    }
    chatml_end(conversation, prompt);
}

/* The last user message that is a question and not the result of a tool; the last message when there is none. */
static size_t last_query(const struct conversation *conversation)
{
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    for (size_t i = conversation->count; i > 0; i--) {
        const ork_chat_message *message = &conversation->messages[i - 1];
        struct slice text = make_slice(message->content);
        bool result = text.size_bytes >= sizeof end - 1 && strncmp(text.data, begin, sizeof begin - 1) == 0 &&
                      strcmp(text.data + text.size_bytes - (sizeof end - 1), end) == 0;
        if (has_role(message, "user") && !result)
            return i - 1;
    }
    return conversation->count - 1;
}

/* ChatML; thoughts are left out up to the last question and written in full after it. */
static void render_qwen3(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    size_t query = last_query(conversation);
    for (size_t i = 0; i < conversation->count; i++) {
        const ork_chat_message *message = &conversation->messages[i];
        struct slice text = make_slice(message->content), thought = {text.data, 0};
        if (!has_role(message, "assistant")) {
            chatml_turn(prompt, message->role, text);
            continue;
        }
        if (find(text, "</think>", false)) {
            thought = cut_newlines(before_first(text, "</think>"));
            thought = skip_newlines(after_last(thought, "<think>"));
            text = skip_newlines(after_last(text, "</think>"));
        }
        scaffold(prompt, "<|im_start|>assistant\n");
        if (i > query && (i + 1 == conversation->count || thought.size_bytes)) {
            scaffold(prompt, "<think>\n");
            content(prompt, cut_newlines(skip_newlines(thought)));
            scaffold(prompt, "\n</think>\n\n");
            text = skip_newlines(text);
        }
        content(prompt, text);
        scaffold(prompt, "<|im_end|>\n");
    }
    chatml_end(conversation, prompt);
    if (conversation->add_generation_prompt && conversation->template->opens_thought)
        scaffold(prompt, "<think>\n");
}

static void llama3_begin(struct ork_chat_prompt *prompt, const char *role)
{
    scaffold(prompt, "<|start_header_id|>");
    scaffold(prompt, role);
    scaffold(prompt, "<|end_header_id|>\n\n");
}

/* Contents are stripped. The date of 3.1 and later is the template's own default, so that a prompt is the same on every
 * day. */
static void render_llama3(const struct conversation *conversation, struct ork_chat_prompt *prompt)
{
    size_t first = 0;
    write_text(prompt, conversation->bos.data, conversation->bos.size_bytes, false);
    if (conversation->template->dated_system) {
        llama3_begin(prompt, "system");
        scaffold(prompt, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
        if (has_role(&conversation->messages[0], "system"))
            content(prompt, strip(make_slice(conversation->messages[first++].content)));
        scaffold(prompt, "<|eot_id|>");
    }
    for (size_t i = first; i < conversation->count; i++) {
        llama3_begin(prompt, conversation->messages[i].role);
        content(prompt, strip(make_slice(conversation->messages[i].content)));
        scaffold(prompt, "<|eot_id|>");
    }
    if (conversation->add_generation_prompt)
        llama3_begin(prompt, "assistant");
}

enum { CHATML, LFM2, SMOLLM2, QWEN3, LLAMA3, FAMILY_COUNT };

static const struct ork_chat_family families[FAMILY_COUNT] = {
    [CHATML] = {"chatml", render_chatml, {"<|im_start|>", "<|im_end|>"}},
    [LFM2] = {"lfm2", render_lfm2, {"<|im_start|>", "<|im_end|>"}},
    [SMOLLM2] = {"smollm2", render_smollm2, {"<|im_start|>", "<|im_end|>"}},
    [QWEN3] = {"qwen3", render_qwen3, {"<|im_start|>", "<|im_end|>"}},
    [LLAMA3] = {"llama3", render_llama3, {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
};

static const char *const family_names[FAMILY_COUNT + 1] = {"chatml", "lfm2", "smollm2", "qwen3", "llama3", NULL};

const char *const *ork_chat_template_names(void)
{
    return family_names;
}

const struct ork_chat_family *ork_chat_family_find(const char *name)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}

const char *ork_chat_family_name(const struct ork_chat_family *family)
{
    return family ? family->name : NULL;
}

/* ---- detection ---- */

void ork_chat_detect_source(const char *source, size_t size_bytes, struct ork_chat_template *template)
{
    struct slice text = {source, size_bytes};
    *template = (struct ork_chat_template){0};
    if (find(text, "<|start_header_id|>", false) && find(text, "<|end_header_id|>", false)) {
        template->family = &families[LLAMA3];
        template->dated_system = find(text, "Cutting Knowledge Date", false) != NULL;
    }
    if (!find(text, "<|im_start|>", false))
        return;
    bool thoughts = find(text, "</think>", false) != NULL;
    template->family = &families[CHATML];
    if (find(text, "bos_token", false) && find(text, "List of tools: ", false)) {
        template->family = &families[LFM2];
        if (thoughts && find(text, "last_user_index", false))
            template->thoughts = ORK_CHAT_THOUGHTS_AFTER_LAST_USER;
        else if (thoughts && find(text, "last_assistant_index", false))
            template->thoughts = ORK_CHAT_THOUGHTS_OF_LAST_ASSISTANT;
    } else if (find(text, "assistant named SmolLM, trained by Hugging Face", false) && !thoughts) {
        template->family = &families[SMOLLM2];
    } else if (thoughts && find(text, "last_query_index", false) && !find(text, "<function=", false)) {
        template->family = &families[QWEN3];
        /* Jinja source, so the line end is a backslash and an n. */
        template->opens_thought = find(text, "<|im_start|>assistant\\n<think>\\n'", false) != NULL;
    }
}

ork_status ork_chat_detect(const ork_meta *meta, struct ork_chat_template *template, ork_error *error)
{
    const char *source = "";
    uint64_t size_bytes = 0;
    ork_status status = ork_meta_string(meta, "tokenizer.chat_template", false, &source, &size_bytes, error);
    if (status == ORK_OK)
        ork_chat_detect_source(source, size_bytes, template);
    return status;
}

/* ---- rendering ---- */

static ork_status check_messages(const ork_chat_message *messages, size_t message_count, ork_error *error)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    if (message_count == 0)
        return ork_error_set(error, ORK_BAD_ARGUMENT, "messages", -1, "the conversation is empty");
    for (size_t i = 0; i < message_count; i++) {
        bool known = false;
        for (size_t k = 0; messages[i].role && k < sizeof roles / sizeof roles[0]; k++)
            known |= has_role(&messages[i], roles[k]);
        if (!known)
            return ork_error_set(error, ORK_BAD_ARGUMENT, "messages", -1,
                                 "message %zu has role '%.40s'; possible are system, user and assistant", i + 1,
                                 messages[i].role ? messages[i].role : "");
        if (!messages[i].content)
            return ork_error_set(error, ORK_BAD_ARGUMENT, "messages", -1, "message %zu has no content", i + 1);
    }
    return ORK_OK;
}

ork_status ork_chat_render(const struct ork_chat_template *template, const char *bos_text, size_t bos_bytes,
                           const ork_chat_message *messages, size_t message_count, bool add_generation_prompt,
                           struct ork_chat_prompt *prompt, ork_error *error)
{
    ork_status status = check_messages(messages, message_count, error);
    if (status != ORK_OK)
        return status;
    struct conversation conversation = {
        template, messages, message_count, add_generation_prompt, {bos_text, bos_bytes}};
    template->family->render(&conversation, prompt);
    return prompt->failed ? ork_error_no_memory(error, "chat template", prompt->text.size_bytes) : ORK_OK;
}

void ork_chat_prompt_free(struct ork_chat_prompt *prompt)
{
    ork_buffer_free(&prompt->text);
    free(prompt->spans);
    *prompt = (struct ork_chat_prompt){0};
}

/* ---- with a tokenizer ---- */

const char *ork_tokenizer_chat_template_name(const ork_tokenizer *tokenizer)
{
    return ork_chat_family_name(tokenizer->chat.family);
}

/* The model's own template, or the family that is named; in it the model's variant when that is its own family. */
static ork_status choose_template(const ork_tokenizer *tokenizer, const char *name, struct ork_chat_template *template,
                                  ork_error *error)
{
    *template = tokenizer->chat;
    if (name && (!template->family || strcmp(template->family->name, name) != 0)) {
        *template = (struct ork_chat_template){.family = ork_chat_family_find(name)};
        if (!template->family) {
            const char *nearest = ork_nearest_name(name, family_names, FAMILY_COUNT);
            return ork_error_set(error, ORK_BAD_ARGUMENT, "chat template", -1,
                                 "'%.40s' is not known%s%s%s (known: chatml, lfm2, smollm2, qwen3, llama3)", name,
                                 nearest ? "; nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
        }
    }
    if (!template->family)
        return ork_error_set(error, ORK_UNSUPPORTED, "tokenizer.chat_template", -1,
                             "the model has no chat template of a known family; name one of chatml, lfm2, smollm2, "
                             "qwen3, llama3");
    for (const char *const *text = template->family->control_tokens; *text; text++) {
        ork_token token = ork_vocabulary_find_string(&tokenizer->vocabulary, *text);
        if (token < 0 || !ork_tokenizer_is_special(tokenizer, token))
            return ork_error_set(error, ORK_UNSUPPORTED, "chat template", -1,
                                 "chat template '%s' needs control token %s, which the vocabulary does not have",
                                 template->family->name, *text);
    }
    return ORK_OK;
}

/* Puts the tokenizer's BOS in front unless the template wrote it. */
static ork_status complete_bos(const ork_tokenizer *tokenizer, struct ork_token_list *list, ork_error *error)
{
    ork_token bos = tokenizer->vocabulary.bos;
    if (!tokenizer->vocabulary.adds_bos || (list->count && list->tokens[0] == bos))
        return ORK_OK;
    ork_status status = ork_token_list_push(list, bos, error);
    if (status != ORK_OK)
        return status;
    memmove(list->tokens + 1, list->tokens, (list->count - 1) * sizeof *list->tokens);
    list->tokens[0] = bos;
    return ORK_OK;
}

ork_status ork_tokenizer_chat_tokenize(const ork_tokenizer *tokenizer, const char *template_name,
                                       const ork_chat_message *messages, size_t message_count,
                                       bool add_generation_prompt, ork_token **tokens, size_t *count, char **text,
                                       ork_error *error)
{
    *tokens = NULL;
    *count = 0;
    if (text)
        *text = NULL;
    struct ork_chat_template template;
    struct ork_chat_prompt prompt = {0};
    struct ork_token_list list = {0};
    const char *bos_text = "";
    uint32_t bos_bytes = 0;
    ork_status status = choose_template(tokenizer, template_name, &template, error);
    if (status != ORK_OK)
        return status;
    if (tokenizer->vocabulary.bos >= 0)
        bos_text = ork_vocabulary_text(&tokenizer->vocabulary, tokenizer->vocabulary.bos, &bos_bytes);
    status =
        ork_chat_render(&template, bos_text, bos_bytes, messages, message_count, add_generation_prompt, &prompt, error);
    if (status == ORK_OK)
        status = ork_tokenizer_encode_spans(tokenizer, (const char *)prompt.text.data, prompt.spans, prompt.span_count,
                                            ORK_TOKENIZE_PARSE_SPECIAL, &list, error);
    if (status == ORK_OK)
        status = complete_bos(tokenizer, &list, error);
    if (status == ORK_OK && text) {
        ork_buffer_u8(&prompt.text, 0);
        if (prompt.text.failed)
            status = ork_error_no_memory(error, "chat template", prompt.text.size_bytes);
    }
    if (status == ORK_OK) {
        *tokens = list.tokens;
        *count = list.count;
        list = (struct ork_token_list){0};
        if (text) {
            *text = (char *)prompt.text.data;
            prompt.text = (struct ork_buffer){0};
        }
    }
    ork_token_list_free(&list);
    ork_chat_prompt_free(&prompt);
    return status;
}
