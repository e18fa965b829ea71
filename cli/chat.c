/* Owns the conversation: messages, commands, who speaks. The whole conversation is rendered anew for every answer; the
 * session keeps what it can of it. Must not know how answers are made. */
#include "chat.h"
#include "commands.h"
#include "report.h"
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conversation {
    cli_generator *generator;
    const char *template_name;
    const char *system;
    ork_chat_message *messages; /* roles are constants, contents are ours */
    size_t count, capacity;
    cli_answer last;
    bool has_last;
} conversation;

typedef enum next_step { STEP_READ, STEP_ANSWER, STEP_LEAVE } next_step;

static void add_message(conversation *talk, const char *role, char *content)
{
    if (talk->count == talk->capacity) {
        talk->capacity = talk->capacity ? 2 * talk->capacity : 16;
        talk->messages = cli_reallocate(talk->messages, talk->capacity * sizeof *talk->messages);
    }
    talk->messages[talk->count++] = (ork_chat_message){role, content};
}

static void drop_message(conversation *talk)
{
    free((char *)talk->messages[--talk->count].content);
}

static void clear_messages(conversation *talk)
{
    while (talk->count)
        drop_message(talk);
    if (talk->system)
        add_message(talk, "system", cli_copy_text(talk->system));
}

/* Answers the last user message and appends the answer. */
static int answer(conversation *talk)
{
    const cli_settings *settings = talk->generator->settings;
    ork_token *tokens = NULL;
    size_t count;
    char *text = NULL;
    ork_error error;
    cli_interrupt_clear();
    if (ork_chat_tokenize(talk->generator->model->model, talk->template_name, talk->messages, talk->count, true,
                          &tokens, &count, &text, &error) != ORK_OK)
        return cli_report_error(&error);
    int code = settings->dump_prompt ? cli_dump_prompt(talk->generator, tokens, count, text) : CLI_OK;
    ork_free(text);
    if (talk->has_last)
        cli_answer_free(&talk->last);
    talk->has_last = true;
    memset(&talk->last, 0, sizeof talk->last);
    if (code == CLI_OK)
        code = cli_generate(talk->generator, tokens, count, true, &talk->last);
    ork_free(tokens);
    const cli_answer *last = &talk->last;
    if (last->text_bytes && last->text[last->text_bytes - 1] != '\n')
        cli_output_write("\n", 1);
    if (code != CLI_OK)
        return code;
    add_message(talk, "assistant", cli_copy_text(last->text));
    if (last->finish == FINISH_INTERRUPTED)
        cli_say("stopped");
    else if (last->finish == FINISH_CONTEXT)
        cli_say("the context is full: /clear begins anew, -c makes it larger");
    else if (last->finish == FINISH_OUTPUT)
        return CLI_FAILURE;
    if (settings->verbose || settings->stats)
        cli_answer_say(talk->generator, last);
    return CLI_OK;
}

static void show_help(void)
{
    fputs("  /help    this list\n"
          "  /clear   forget the conversation\n"
          "  /regen   answer the last message again\n"
          "  /stats   speed of the last answer, memory\n"
          "  /exit    end (also Ctrl-D)\n"
          "  \"\"\"      begins and ends a message of several lines\n"
          "  Ctrl-C stops an answer. A message that begins with / begins with a space or a second /.\n",
          stderr);
}

static next_step regenerate(conversation *talk)
{
    if (!talk->count || strcmp(talk->messages[talk->count - 1].role, "assistant") != 0) {
        cli_fail(CLI_FAILURE, "/regen", "there is no answer yet");
        return STEP_READ;
    }
    drop_message(talk);
    return STEP_ANSWER;
}

static next_step run_command(conversation *talk, const char *line)
{
    static const char *const names[] = {"/help", "/clear", "/regen", "/stats", "/exit"};
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0 || strcmp(line, "/bye") == 0)
        return STEP_LEAVE;
    if (strcmp(line, "/regen") == 0)
        return regenerate(talk);
    if (strcmp(line, "/help") == 0 || strcmp(line, "/?") == 0) {
        show_help();
    } else if (strcmp(line, "/clear") == 0) {
        clear_messages(talk);
        cli_say("forgotten");
    } else if (strcmp(line, "/stats") == 0) {
        if (talk->has_last)
            cli_answer_say(talk->generator, &talk->last);
        cli_generator_say_stats(talk->generator);
    } else {
        const char *nearest = cli_nearest(line, names, sizeof names / sizeof *names);
        cli_fail(CLI_USAGE, line, "no such command%s%s; /help lists them", nearest ? ", did you mean " : "",
                 nearest ? nearest : "");
    }
    return STEP_READ;
}

static void show_prompt(const char *prompt)
{
    if (!cli_terminal_is_input())
        return;
    if (cli_terminal_has_color())
        fprintf(stderr, "\033[1;32m%s\033[0m", prompt);
    else
        fputs(prompt, stderr);
    fflush(stderr);
}

/* Goes on reading after a line that begins with """ until one that ends with it. *line is replaced. */
static cli_line_result read_block(char **line, size_t *size_bytes)
{
    char *text = cli_copy_text(*line + 3);
    size_t size = *size_bytes - 3;
    free(*line);
    *line = NULL;
    while (size < 3 || memcmp(text + size - 3, "\"\"\"", 3) != 0) {
        char *more;
        size_t more_bytes;
        show_prompt("... ");
        cli_line_result result = cli_read_line(&more, &more_bytes);
        if (result != CLI_LINE) {
            free(text);
            return result;
        }
        text = cli_reallocate(text, size + more_bytes + 2);
        if (size)
            text[size++] = '\n';
        memcpy(text + size, more, more_bytes + 1);
        size += more_bytes;
        free(more);
    }
    text[size - 3] = 0;
    *line = text;
    *size_bytes = size - 3;
    return CLI_LINE;
}

static cli_line_result read_message(char **line)
{
    size_t size_bytes;
    show_prompt("> ");
    cli_line_result result = cli_read_line(line, &size_bytes);
    if (result == CLI_LINE && strncmp(*line, "\"\"\"", 3) == 0)
        result = read_block(line, &size_bytes);
    return result;
}

/* Reads until there is something to answer. *code is set when the chat ends by an error. */
static next_step read_step(conversation *talk, int *code)
{
    char *line = NULL;
    cli_interrupt_clear();
    if (cli_interrupted()) { /* SIGTERM stays */
        *code = cli_interrupt_exit_code();
        return STEP_LEAVE;
    }
    switch (read_message(&line)) {
    case CLI_LINE_END:
        if (cli_terminal_is_input())
            fputs("\n", stderr);
        return STEP_LEAVE;
    case CLI_LINE_INTERRUPTED:
        if (!cli_terminal_is_input()) {
            *code = cli_interrupt_exit_code();
            return STEP_LEAVE;
        }
        fputs("\n", stderr);
        cli_say("Ctrl-D or /exit ends the chat");
        return STEP_READ;
    case CLI_LINE_ERROR:
        *code = cli_fail(CLI_FAILURE, "standard input", "cannot read a line (at most 4 MiB)");
        return STEP_LEAVE;
    case CLI_LINE:
        break;
    }
    next_step step = STEP_ANSWER;
    if (line[strspn(line, " \t\r")] == 0)
        step = STEP_READ;
    else if (line[0] == '/' && line[1] != '/')
        step = run_command(talk, line);
    else
        add_message(talk, "user", cli_copy_text(line[0] == '/' ? line + 1 : line));
    free(line);
    return step;
}

int cli_chat_talk(cli_generator *generator, const char *template_name, const char *system, const char *first_message)
{
    conversation talk = {.generator = generator, .template_name = template_name, .system = system};
    int code = CLI_OK;
    clear_messages(&talk);
    if (cli_terminal_is_input() && !generator->settings->single_turn)
        cli_say("/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends the chat");
    next_step step = STEP_READ;
    if (first_message) {
        add_message(&talk, "user", cli_copy_text(first_message));
        step = STEP_ANSWER;
    }
    while (step != STEP_LEAVE) {
        if (step == STEP_READ) {
            step = read_step(&talk, &code);
            continue;
        }
        int result = answer(&talk);
        step = generator->settings->single_turn ? STEP_LEAVE : STEP_READ;
        if (result != CLI_OK) {
            if (talk.count && strcmp(talk.messages[talk.count - 1].role, "user") == 0)
                drop_message(&talk); /* a person may shorten it; a script must notice */
            if (!cli_terminal_is_input() || talk.last.finish == FINISH_OUTPUT || step == STEP_LEAVE) {
                code = result;
                break;
            }
        }
    }
    if (code == CLI_OK && generator->settings->stats)
        cli_generator_say_stats(generator);
    if (code == CLI_OK && generator->settings->single_turn && cli_interrupted())
        code = cli_interrupt_exit_code();
    while (talk.count)
        drop_message(&talk);
    free(talk.messages);
    if (talk.has_last)
        cli_answer_free(&talk.last);
    return code;
}
