/* Owns what run and chat have in common: finding the prompt, choosing between template and plain text, one answer or a
 * conversation. Must not know the token loop. */
#include "chat.h"
#include "commands.h"
#include "generate.h"
#include "json.h"
#include "report.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT_MAX_BYTES = 64 << 20 };

typedef struct run_request {
    const cli_settings *settings;
    const char *command;
    char *prompt, *system; /* NULL for none */
    size_t prompt_bytes;
    bool is_chat;
} run_request;

/* Reads a text file without its last newline, which editors add and nobody means. */
static int read_text(const char *path, char **text, size_t *size_bytes)
{
    int code = cli_read_file(path, PROMPT_MAX_BYTES, text, size_bytes);
    if (code == CLI_OK && *size_bytes && (*text)[*size_bytes - 1] == '\n')
        (*text)[--*size_bytes] = 0;
    return code;
}

static int read_system(run_request *request)
{
    const cli_settings *settings = request->settings;
    size_t size_bytes;
    if (settings->system && settings->system_file)
        return cli_usage(request->command, "-sys and -sysf exclude each other");
    if (settings->system)
        request->system = cli_unescape(settings->system, settings->escape);
    else if (settings->system_file)
        return read_text(settings->system_file, &request->system, &size_bytes);
    return CLI_OK;
}

static int read_prompt(run_request *request)
{
    const cli_settings *settings = request->settings;
    if (settings->prompt && settings->file)
        return cli_usage(request->command, "-p and -f exclude each other");
    if (settings->prompt) {
        request->prompt = cli_unescape(settings->prompt, settings->escape);
        request->prompt_bytes = strlen(request->prompt);
    } else if (settings->file) {
        int code = read_text(settings->file, &request->prompt, &request->prompt_bytes);
        if (code != CLI_OK)
            return code;
    } else if (!request->is_chat && !cli_terminal_is_input()) {
        int code = read_text("-", &request->prompt, &request->prompt_bytes);
        if (code != CLI_OK)
            return code;
        if (!request->prompt_bytes)
            return cli_usage(request->command, "no prompt: give -p TEXT or -f FILE");
    } else if (settings->conversation != 0) {
        request->is_chat = true;
    } else {
        return cli_usage(request->command, "no prompt: give -p TEXT or -f FILE");
    }
    return CLI_OK;
}

static int check_template_name(const char *command, const char *name)
{
    const char *const *names = ork_chat_template_names();
    size_t count = 0;
    char list[512] = "";
    for (; name && names[count]; count++) {
        if (strcmp(names[count], name) == 0)
            return CLI_OK;
        strncat(list, count ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, names[count], sizeof list - strlen(list) - 1);
    }
    return name ? cli_usage(command, "--chat-template: '%s' is not one of %s", name, list) : CLI_OK;
}

static int tokenize_chat(const run_request *request, const cli_model *model, ork_token **tokens, size_t *count,
                         char **text)
{
    ork_chat_message messages[2];
    size_t message_count = 0;
    ork_error error;
    if (request->system)
        messages[message_count++] = (ork_chat_message){"system", request->system};
    if (strlen(request->prompt) != request->prompt_bytes)
        return cli_fail(CLI_BAD_INPUT, "prompt", "holds a zero byte (at byte %zu)", strlen(request->prompt));
    messages[message_count++] = (ork_chat_message){"user", request->prompt};
    if (ork_chat_tokenize(model->model, request->settings->chat_template, messages, message_count, true, tokens, count,
                          text, &error) != ORK_OK)
        return cli_report_error(&error);
    return CLI_OK;
}

static int tokenize_plain(const run_request *request, const cli_model *model, ork_token **tokens, size_t *count)
{
    ork_error error;
    if (ork_tokenize(model->model, request->prompt, request->prompt_bytes,
                     ORK_TOKENIZE_SPECIAL | ORK_TOKENIZE_PARSE_SPECIAL, tokens, count, &error) != ORK_OK)
        return cli_report_error(&error);
    ork_token bos = ork_token_bos(model->model);
    if (*count >= 2 && bos >= 0 && (*tokens)[0] == bos && (*tokens)[1] == bos)
        cli_say("the prompt begins with the BOS token, and the model adds one: there are two now");
    return CLI_OK;
}

static int finish_answer(const cli_generator *generator, const cli_answer *answer, const ork_token *tokens,
                         size_t count)
{
    const cli_settings *settings = generator->settings;
    if (settings->json) {
        json_t *object = cli_answer_json(generator, answer);
        if (settings->dump_prompt) {
            json_t *ids = json_array();
            for (size_t i = 0; i < count; i++)
                json_array_append_new(ids, json_integer(tokens[i]));
            json_object_set_new(object, "prompt_ids", ids);
        }
        cli_json_print(object);
    }
    cli_answer_say(generator, answer);
    if (settings->stats || settings->verbose)
        cli_generator_say_stats(generator);
    if (answer->finish == FINISH_INTERRUPTED)
        return cli_interrupt_exit_code();
    return answer->finish == FINISH_OUTPUT ? CLI_FAILURE : CLI_OK;
}

static int answer_once(const run_request *request, cli_generator *generator, bool use_template)
{
    const cli_settings *settings = request->settings;
    bool show_prompt = !use_template && settings->display_prompt && !settings->json;
    ork_token *tokens = NULL;
    size_t count = 0;
    char *text = NULL;
    cli_answer answer = {0};
    int code = use_template ? tokenize_chat(request, generator->model, &tokens, &count, &text)
                            : tokenize_plain(request, generator->model, &tokens, &count);
    if (code == CLI_OK && settings->dump_prompt)
        code = cli_dump_prompt(generator, tokens, count, text ? text : request->prompt);
    if (code == CLI_OK && show_prompt && !cli_output_write(request->prompt, request->prompt_bytes))
        code = CLI_FAILURE;
    if (code == CLI_OK)
        code = cli_generate(generator, tokens, count, !settings->json, &answer);
    if (!settings->json) {
        bool has_answer = answer.text_bytes > 0, has_prompt = show_prompt && request->prompt_bytes > 0;
        char last = has_answer   ? answer.text[answer.text_bytes - 1]
                    : has_prompt ? request->prompt[request->prompt_bytes - 1]
                                 : '\n';
        if (last != '\n')
            cli_output_write("\n", 1);
    }
    if (code == CLI_OK)
        code = finish_answer(generator, &answer, tokens, count);
    cli_answer_free(&answer);
    ork_free(tokens);
    ork_free(text);
    return code;
}

/* With the model open: template or plain text, and who speaks. */
static int answer_request(const run_request *request, cli_generator *generator)
{
    const cli_settings *settings = request->settings;
    const char *own = ork_chat_template_name(generator->model->model);
    bool use_template = settings->conversation != 0 && (settings->chat_template || own);
    if (!use_template && request->is_chat)
        return cli_fail(CLI_USAGE, generator->model->given,
                        "has no chat template that ork knows: name one with --chat-template, or give -no-cnv and -p");
    if (!use_template && request->system)
        return cli_usage(request->command, "a system message needs a chat template (--chat-template)");
    if (settings->verbose)
        cli_say(use_template ? "chat template %s" : "no chat template%s, the text is continued",
                use_template ? (settings->chat_template ? settings->chat_template : own) : "");
    if (request->is_chat)
        return cli_chat_talk(generator, settings->chat_template, request->system, request->prompt);
    return answer_once(request, generator, use_template);
}

static int serve_request(run_request *request)
{
    const cli_settings *settings = request->settings;
    const char *path;
    cli_model model = {0};
    cli_generator generator = {0};
    int code = check_template_name(request->command, settings->chat_template);
    if (code == CLI_OK)
        code = cli_model_path(settings, request->command, &path);
    if (code == CLI_OK)
        code = cli_check_input(path);
    if (code == CLI_OK)
        code = read_system(request);
    if (code == CLI_OK)
        code = read_prompt(request);
    if (code == CLI_OK && request->is_chat && settings->json)
        code = cli_usage(request->command, "--json gives one answer: add -st, or leave out -cnv");
    if (code == CLI_OK)
        code = cli_npu_check(settings, request->command);
    if (code == CLI_OK)
        code = cli_affinity_apply(settings, request->command);
    if (code == CLI_OK)
        code = cli_model_open(settings, path, &model);
    if (code == CLI_OK)
        code = cli_generator_open(&generator, settings, &model);
    if (code == CLI_OK)
        code = answer_request(request, &generator);
    code = cli_npu_end(&model.npu, generator.session, code);
    cli_generator_close(&generator);
    cli_model_close(&model);
    free(request->prompt);
    free(request->system);
    return code;
}

int cli_run(const cli_settings *settings)
{
    run_request request = {.settings = settings, .command = "run"};
    bool has_prompt = settings->prompt || settings->file;
    request.is_chat = settings->conversation == 1 && !(settings->single_turn && has_prompt);
    return serve_request(&request);
}

int cli_chat(const cli_settings *settings)
{
    run_request request = {.settings = settings, .command = "chat", .is_chat = true};
    if (settings->conversation == 0)
        return cli_usage("chat", "-no-cnv belongs to ork run");
    return serve_request(&request);
}
